"""volley's ping-pong between two pretended hosts beside OSU's and Intel's, in turns.

    python bench/between_hosts.py FOLDER [--rounds 6] [--wire DELAY_S RATE_BPS] [--only openmpi,mpich]

FOLDER has a folder for each MPI: with ``osu_latency`` and ``IMB-MPI1`` that somebody built for it, and a link ``mpi``
to the prefix of the MPI.  The hosts are those of tests/twohosts: joined by a switch, or by a wire of known delay and
rate.  Each host has one processor of this machine, so that all programs are placed alike.  The other programs are
started as volley starts its engine.  Root and network namespaces are needed.
"""

import argparse
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from peers.readers import Reader, imb_pingpong, osu_latency
from programs import HERE, LAUNCH_TIMEOUT_S, VOLLEY, BenchError, Starter, starter_in

from volley.benchmarks import BENCHMARKS
from volley.benchmarks.points.records import PointRecord
from volley.launch import engine
from volley.records.records_file import read_runs
from volley.statistics.estimates import estimate, median
from volley.units import format_sig, format_size

sys.path.append(str(HERE.parent / "tests/twohosts"))
from pretend_hosts import NAMES, Lab, Wire, build_relay, lab, switched

SIZES = tuple(1 << power for power in (3, 6, 9, 12, 15, 18, 20, 22))
ROUNDS = 6
SHORT = 4096
"""Up to this size OSU's program runs more iterations."""
Seconds = dict[int, float]
"""Message size in bytes → half round trip."""

PROGRAMS: dict[str, tuple[Reader, tuple[tuple[str, ...], ...]]] = {
    "osu_latency": (
        osu_latency,
        (("-m", f"8:{SHORT}", "-i", "1000", "-x", "100"), ("-m", f"{2 * SHORT}:{SIZES[-1]}", "-i", "400", "-x", "20")),
    ),
    "IMB-MPI1": (imb_pingpong, (("PingPong", "-msglog", "3:22", "-iter", "1000,400"),)),
}
"""How each is read, and the words of each of its launches in a round.

A size must take about as long as with volley: with MPICH over TCP, the first 50 exchanges of 1 MiB take 0.6 times as
long as those that follow, so that fewer iterations would be another measurement.
"""


def volley(hosts: Lab, prefix: Path, *words: str) -> str:
    """Run volley's ping-pong between the hosts, and return what it prints on standard error."""
    options = ("-t", "host", "--hosts", ",".join(NAMES), "--mpi", str(prefix), "-s", ",".join(map(str, SIZES)))
    return _ran(hosts, [*VOLLEY, "pingpong", *options, *words])[1]


def ours(hosts: Lab, prefix: Path, records: Path) -> Seconds:
    """Measure with volley: the median of each size."""
    volley(hosts, prefix, "--launches", "1", "--point-time", "0.5", "--format", "json", "--force", "-o", str(records))
    (log,) = read_runs(records, BENCHMARKS)
    return {point.size_bytes: median(point.times_s) for point in log.of(PointRecord) if point.status == "ok"}


def theirs(hosts: Lab, starter: Starter, program: Path) -> Seconds:
    """Measure with another program: it prints the mean of each size."""
    reader, launches = PROGRAMS[program.name]
    variables = [f"{name}={value}" for name, value in starter.environment.items()]
    found: Seconds = {}
    for words in launches:
        output, _ = _ran(hosts, ["env", *variables, *starter.words, str(program), *words])
        found |= {int(size): seconds for size, seconds in reader(output).figures.items()}
    return found


def rounds(hosts: Lab, folder: Path, count: int, records: Path) -> Iterator[dict[str, Seconds]]:
    """Launch all programs once a round; every second round in the opposite order."""
    prefix = (folder / "mpi").resolve()
    starter = starter_in(volley(hosts, prefix, "--dry-run"))
    for number in range(count):
        found: dict[str, Seconds] = {}
        for name in ("volley", *PROGRAMS)[:: -1 if number % 2 else 1]:
            found[name] = ours(hosts, prefix, records) if name == "volley" else theirs(hosts, starter, folder / name)
        yield found


def table(seen: Sequence[dict[str, Seconds]]) -> Iterator[str]:
    """Yield a line a size: medians, and volley's ratio to each program with its interval over rounds."""
    yield f"| size | volley | {' | '.join(f'{name} | ratio' for name in PROGRAMS)} |"
    yield f"| --- | --: |{' --: | --- |' * len(PROGRAMS)}"
    for size in SIZES:
        fields = [format_size(size), _us([each["volley"][size] for each in seen])]
        for name in PROGRAMS:
            ratio = estimate([each["volley"][size] / each[name][size] for each in seen])
            low, high = format_sig(ratio.low), format_sig(ratio.high)
            fields += [_us([each[name][size] for each in seen]), f"{format_sig(ratio.median)} × ({low}–{high})"]
        yield f"| {' | '.join(fields)} |"


def _us(times_s: Sequence[float]) -> str:
    return f"{format_sig(median(times_s) * 1e6)} µs"


def _ran(hosts: Lab, tokens: Sequence[str]) -> tuple[str, str]:
    done = hosts.run(tokens, timeout_s=LAUNCH_TIMEOUT_S)
    if done.returncode != 0:
        said = engine.clean(done.stderr.encode()).strip()
        raise BenchError(f"{' '.join(tokens)}: ended with status {done.returncode}: {said}")
    return done.stdout, done.stderr


def _joined(folder: Path, wire: Sequence[float] | None) -> AbstractContextManager[Lab]:
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: len(NAMES)])  # the hosts share these out
    return lab(folder / "lab", build_relay(folder), Wire(*wire)) if wire else switched(folder / "lab", len(NAMES))


def main() -> int:
    """Parse the options, measure, and print a table an MPI."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("programs", type=Path)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--only", help="folders of some MPIs, separated by commas")
    parser.add_argument("--wire", type=float, nargs=2, metavar=("DELAY_S", "RATE_BPS"), help="instead of the switch")
    options = parser.parse_args()
    built = sorted(path.parent.name for path in options.programs.glob("*/IMB-MPI1"))
    names = options.only.split(",") if options.only else built
    try:
        with tempfile.TemporaryDirectory() as folder, _joined(Path(folder), options.wire) as hosts:
            for name in names:
                found = rounds(hosts, options.programs.resolve() / name, options.rounds, Path(folder, "records.jsonl"))
                print(f"\n{name}, {options.rounds} rounds\n", *table(list(found)), sep="\n", flush=True)
    except BenchError as error:
        print(f"between_hosts: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
