"""Volley against its peers on this machine: `make bench`.

Prints ratios, each from launches made here and now, one of ours beside one of theirs, with the 95 % interval of the
median over the launches, and writes them to bench/results/.  What they are meant to be stands beside them; nothing is
asserted, for a machine at work answers otherwise.  docs/method says what the numbers mean.
"""

import argparse
import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path

import msgspec
from comparisons import COMPARISONS, GIB, MIB, Finding, adaptive, compare, flood
from examples import examples
from jacobi import jacobi
from known_wire import DELAYS_S, RATES_BPS, NotHereError, WireSeen, known_wires, summary
from matrix_memory import matrix_memory
from plain_loops import plain_loops
from programs import Bench, BenchError, prepare
from sweeps import Width, launch_sweeps, launching, narrower

from volley.errors import UserError
from volley.statistics.estimates import Estimate, estimate
from volley.text import mpi_name
from volley.units import format_cpulist, format_sig, format_size

TIME_UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"))
RESULTS = Path(__file__).parent / "results"


@dataclass(frozen=True)
class Machine:
    """Where the numbers are from."""

    cpu: str
    cores: list[list[int]]
    bound_by: list[str]
    mpi: str
    volley: str
    measured_at: str
    load_at_start: float


@dataclass
class Result:
    """Everything that one run of the benchmark found."""

    machine: Machine
    findings: list[Finding]
    widths: list[Width]
    wires: list[WireSeen] = field(default_factory=list)


def start_up(bench: Bench, launches: int | None) -> list[Finding]:
    """How much longer `volley` takes than the bare mpirun of a program that starts and ends MPI."""
    pairs = [(bench.start_up(), bench.peer("tutorial").wall_s) for _ in range(launches or 11)]
    ours, theirs = [a for a, _ in pairs], [b for _, b in pairs]
    added = estimate([a - b for a, b in pairs])
    return [
        Finding(
            "start-up: volley, less a bare mpirun with the same flags",
            added,
            "s",
            "≤ 0.3",
            estimate(ours),
            estimate(theirs),
        )
    ]


def peak_memory(bench: Bench, _launches: int | None) -> list[Finding]:
    """What the fullest rank ever held, beyond twice the largest message."""
    plans = {
        "ping-pong, adaptive": (adaptive(GIB), GIB),
        "stream, both ways": (flood("bi", 64 * MIB), 64 * MIB),
    }
    return [
        Finding(
            f"peak memory of a rank beyond 2 × {format_size(largest)}: {name}",
            estimate([(bench.peak_memory(plan) - 2 * largest) / MIB]),
            "MiB",
            "≤ 64",
        )
        for name, (plan, largest) in plans.items()
    ]


def single_numbers(bench: Bench, launches: int | None) -> list[Finding]:
    """Every comparison of the table, one after another."""
    return [finding for comparison in COMPARISONS for finding in compare(bench, comparison, launches)]


PARTS: dict[str, Callable[[Bench, int | None], list[Finding]]] = {
    "start-up": start_up,
    "memory": peak_memory,
    "numbers": single_numbers,
    "plain-loops": plain_loops,
    "examples": examples,
    "jacobi": jacobi,
    "launching": launching,
    "matrix": matrix_memory,
}


def measure(bench: Bench, parts: list[str], launches: int | None) -> Result:
    """Carry out the parts, and print each as soon as it is known."""
    result = Result(machine_of(bench), [], [])
    for name in parts:
        found = WITH_TABLES[name](bench, launches, result) if name in WITH_TABLES else PARTS[name](bench, launches)
        result.findings += found
        for finding in found:
            print(one_line(finding), flush=True)
    return result


def sweeps(bench: Bench, launches: int | None, result: Result) -> list[Finding]:
    """Compare the sweeps; what each size came to goes into the result."""
    both = launch_sweeps(bench, launches)
    result.widths = both.widths()
    return [*both.times(), both.empty_share(), *narrower(result.widths)]


def wire(_bench: Bench, _launches: int | None, result: Result) -> list[Finding]:
    """Compare wires as they are set with what volley measures; the whole grid goes into the result."""
    try:
        result.wires = list(known_wires())
    except NotHereError as reason:
        print(f"known wire: not measured, {reason}")
        return []
    return summary(result.wires)


WITH_TABLES: dict[str, Callable[[Bench, int | None, Result], list[Finding]]] = {"wire": wire, "sweeps": sweeps}


def machine_of(bench: Bench) -> Machine:
    """Describe the machine in the engine's words."""
    run = bench.run
    return Machine(
        cpu=run.ranks[0].cpu,
        cores=bench.rank_cores,
        bound_by=[rank.bound_by for rank in run.ranks],
        mpi=mpi_name(run.mpi.library) if run.mpi else "none",
        volley=run.engine.version,
        measured_at=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        load_at_start=os.getloadavg()[0],
    )


# -------------------------------------------------------------------------------------------------------- showing


def number(value: Estimate) -> str:
    """An estimate as people read it: `1.002 (0.997–1.008)`."""
    if value.kind == "single":
        return format_sig(value.median)
    return f"{format_sig(value.median)} ({format_sig(value.low)}–{format_sig(value.high)})"


def one_line(finding: Finding) -> str:
    """A finding for the terminal."""
    count = f", {finding.value.count} launches" if finding.value.count > 1 else ""
    target = f"target {finding.target}, reached: {finding.reached}"
    return f"{finding.what}: {number(finding.value)} {finding.unit}{count} ({target})"


def side(value: Estimate | None) -> str:
    """One side of a comparison, in the unit that suits it."""
    if value is None:
        return ""
    scale = next((each for each in TIME_UNITS if value.median >= each[0]), TIME_UNITS[-1])
    return f"{format_sig(value.median / scale[0])} {scale[1]}"


def markdown(result: Result) -> str:
    """The result as a page."""
    machine = result.machine
    cores = ", ".join(f"rank {rank} on {format_cpulist(cores)}" for rank, cores in enumerate(machine.cores))
    lines = [
        f"# volley {machine.volley} against its peers",
        "",
        f"Written by `make bench`. {machine.cpu}; {cores}, bound by {machine.bound_by[0]}; {machine.mpi};",
        f"{machine.measured_at}, load {machine.load_at_start:.2f} at the start.",
        "",
        "Times; a ratio is ours over theirs, the median over pairs of launches with its 95 % interval.",
        "`in the median`: the interval reaches beyond the target.",
        "",
        "| what | ours | theirs | result | launches | target | reached |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    lines += [
        f"| {f.what} | {side(f.ours)} | {side(f.theirs)} | {number(f.value)} {f.unit} | {f.value.count} | {f.target} | "
        f"{f.reached} |"
        for f in result.findings
    ]
    if result.widths:
        lines += ["", "Half width of the 95 % interval, in % of the median; the tutorial itself states none.", ""]
        lines += [
            "| size | ours, one launch | tutorial's 50, one launch | ours, across launches | tutorial's, across |"
        ]
        lines += ["| --- | --- | --- | --- | --- |"]
    for width in result.widths:
        shares = (width.ours_within, width.theirs_within, width.ours_across, width.theirs_across)
        lines.append(
            f"| {format_size(width.size_bytes)} | " + " | ".join(format_sig(100 * share, 2) for share in shares) + " |"
        )
    return "\n".join([*lines, *grid(result.wires)]) + "\n"


def grid(wires: list[WireSeen]) -> Iterator[str]:
    """Yield the table of wires: what each added to the delay of 8 B, and its goodput."""
    if not wires:
        return
    yield from (
        "",
        "A wire of known delay and rate. Each field: half round trip of 8 B beyond the delay and the time that",
        "which its frame of 98 B holds the wire, in brackets that of two polling sockets without MPI; goodput of a",
        "stream as a share of that of full TCP segments.",
        "",
    )
    yield f"| delay | {' | '.join(f'{rate / 1e6:g} Mbit/s' for rate in RATES_BPS)} |"
    yield f"| --- |{' --: |' * len(RATES_BPS)}"
    for delay in DELAYS_S:
        row = [wire for wire in wires if wire.delay_s == delay]
        fields = [
            f"{wire.added_s * 1e6:+.0f} ({wire.sockets_added_s * 1e6:+.0f}) µs; {wire.goodput_share:.4f}"
            for wire in row
        ]
        yield f"| {delay * 1e6:g} µs | {' | '.join(fields)} |"


def stem_of(machine: Machine) -> str:
    """A file name that says which machine: `intel-r-xeon-r-processor-open-mpi-5-0-11`."""
    words = f"{machine.cpu} {machine.mpi}"
    return re.sub(r"[^a-z0-9]+", "-", words.lower()).strip("-")


def main() -> int:
    """Parse the options and run."""
    names = [*PARTS, *WITH_TABLES]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--part", action="append", choices=names, help="only this part; may be repeated")
    parser.add_argument("--launches", type=int, help="launches of each side, instead of each part's own number")
    parser.add_argument("--output", type=Path, help="where to write, without ending (default: bench/results/MACHINE)")
    options = parser.parse_args()
    try:
        with tempfile.TemporaryDirectory() as folder:
            bench = prepare(Path(folder))
            result = measure(bench, options.part or names, options.launches)
    except (BenchError, UserError) as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    stem = options.output or RESULTS / stem_of(result.machine)
    stem.parent.mkdir(parents=True, exist_ok=True)
    document = msgspec.json.format(msgspec.json.encode(result), indent=1)
    stem.with_suffix(".json").write_bytes(document + b"\n")
    stem.with_suffix(".md").write_text(markdown(result), encoding="utf-8")
    print(f"written: {stem}.md and .json")
    return 0


if __name__ == "__main__":
    sys.exit(main())
