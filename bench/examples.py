"""The small programs of examples/ beside volley's transports that do the same, both with 5 + 50 exchanges."""

from pathlib import Path

from comparisons import GIB, MIB, Comparison, Finding, compare, fixed
from programs import HERE, Bench, compile_c, compile_cuda

FOLDER = HERE.parent / "examples"
PROGRAMS = {
    "ping_pong.c": ("host", 64 * MIB),
    "ping_pong_staged.cu": ("staged/pageable", 64 * MIB),
    "ping_pong_aware.cu": ("aware", GIB),
}
"""Which transport does the same work as a program, and the largest message: 1 GiB through the host takes a minute."""
LAUNCHES = 11


def examples(bench: Bench, launches: int | None) -> list[Finding]:
    """Compile the programs and compare them size by size; those for GPUs only where ranks have some."""
    gpus = all(rank.device for rank in bench.run.ranks)
    names = [name for name in PROGRAMS if gpus or name.endswith(".c")]
    return [finding for name in names for finding in _beside(bench, name, launches)]


def build(mpirun: Path, source: str, folder: Path) -> Path:
    """Compile a program of examples/ into ``folder`` and return its path."""
    program = folder / Path(source).stem
    (compile_c if source.endswith(".c") else compile_cuda)(mpirun, FOLDER / source, program)
    return program


def _beside(bench: Bench, source: str, launches: int | None) -> list[Finding]:
    transport, largest = PROGRAMS[source]
    name = build(Path(bench.starter.words[0]), source, bench.peers).name
    sizes = tuple(1 << power for power in range(3, largest.bit_length()))
    comparison = Comparison(
        f"half round trip, fixed 5 + 50, `{transport}` against examples/{source}",
        lambda bench: bench.volley(fixed(*sizes, transport=transport)),
        lambda bench: bench.example(name, largest),
        "0.98–1.02",
        sizes,
        launches=LAUNCHES,
    )
    return compare(bench, comparison, launches)
