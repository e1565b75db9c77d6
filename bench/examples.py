"""The small programs of examples/ beside volley's transports that do the same, both with 5 + 50 exchanges."""

from __future__ import annotations

from pathlib import Path

from comparisons import DOUBLINGS, Comparison, Finding, compare, fixed
from programs import HERE, Bench, compile_c, compile_cuda

FOLDER = HERE.parent / "examples"
TRANSPORTS = {"ping_pong.c": "host", "ping_pong_staged.cu": "staged/pageable", "ping_pong_aware.cu": "aware"}
"""Which transport does the same work as a program."""
LAUNCHES = 11


def examples(bench: Bench, launches: int | None) -> list[Finding]:
    """Compile the programs and compare them size by size; those for GPUs only where ranks have some."""
    gpus = all(rank.device for rank in bench.run.ranks)
    names = [name for name in TRANSPORTS if gpus or name.endswith(".c")]
    return [finding for name in names for finding in _beside(bench, name, launches)]


def build(mpirun: Path, source: str, folder: Path) -> Path:
    """Compile a program of examples/ into ``folder`` and return its path."""
    program = folder / Path(source).stem
    (compile_c if source.endswith(".c") else compile_cuda)(mpirun, FOLDER / source, program)
    return program


def _beside(bench: Bench, source: str, launches: int | None) -> list[Finding]:
    transport, name = TRANSPORTS[source], build(Path(bench.starter.words[0]), source, bench.peers).name
    comparison = Comparison(
        f"half round trip, fixed 5 + 50, `{transport}` against examples/{source}",
        lambda bench: bench.volley(fixed(*DOUBLINGS, transport=transport)),
        lambda bench: bench.example(name, DOUBLINGS[-1]),
        "0.98–1.02",
        DOUBLINGS,
        launches=LAUNCHES,
    )
    return compare(bench, comparison, launches)
