"""docs/peers.md: the table of claims, from the committed records."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from volley.statistics.estimates import Estimate, estimate
from volley.text import escape_controls, join_words
from volley.units import format_sig

from .launches import Launch, Machine, Session, read
from .table import PROGRAMS, TABLE, Comparison, Figures, Row

ROOT = Path(__file__).parents[2]
RECORDS = tuple(
    ROOT / f"results/{machine}/peers.jsonl" for machine in ("h200-x2", "h200-x4", "h200-x1", "h100-x2", "h100-x1")
)
PAGE = ROOT / "docs/peers.md"
SCALES = {
    "s": ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")),
    "B/s": ((1e9, "GB/s"), (1e6, "MB/s")),
    "LU/s": ((1e9, "GLU/s"),),
    "/s": ((1e6, "M/s"), (1.0, "/s")),
    "": ((0.01, "%"),),
    "×": ((1.0, "×"),),
}
"""From the largest on: the first that leaves a digit before the decimal point, or the last."""

HEAD = """\
# volley beside other programs

<!-- Written by `make docs` from results/h*/peers.jsonl. -->

This page compares volley with programs that measure the same quantity, in turns on the same machine.
`make bench-peers PEERS=DIR` repeats this with programs that you built into DIR. The records are from machines with
[two]({two}) and with [four]({four}) H200s, with [two H100s]({h100s}) (`device`, and further rounds of collectives), and
from the hosts of [an H200]({h200}) and of [an H100]({h100}), whose GPUs were not used (message rates between two pairs,
and further rounds of OSU's collectives).
"""

HOW = """\
## Method

- A round goes through the whole table, so that a drift affects all programs. It launches volley and the other program
  once each; every second round begins with the other program.
- The table shows the median over rounds of the ratio, volley's number / the other's, with its 95 % interval, or the
  range of fewer than six rounds ([method](method/README.md#what-an-interval-means)). The two columns before it are
  medians over all launches of each program; their quotient may differ. "yes" and "no": the whole interval meets the
  requirement, or none of it does. "in the median" and "not in the median": a part of the interval meets it, and the
  median does or does not.
- Programs with ranks get the same MPI, UCX, variables and cores as volley's ranks, and are not changed. The records
  name the cores.
- volley verifies the data, and its numbers are medians of its samples. Beside the tutorial's CUDA-aware program it
  samples as that does: 5 exchanges to warm up, one batch of 50, fresh buffers.
- OSU's benchmarks run fewer iterations than their default for 1 GiB (`-i`, in the records).
- Each window of volley's stream in one direction ends with an acknowledgement of the whole window, as in osu_bw. In
  both directions the next window is the acknowledgement, as in osu_bibw and sendrecv_perf.
- nvbandwidth prints a number for each direction: the table has the larger one between two GPUs, and the smaller one
  for links to the host.
- osu_put_latency and osu_get_latency time one call and its flush at the origin. volley times a window of 1,000 such
  calls with one notification and one acknowledgement, and divides the time by 1,000.
- nccl-tests queues 20 operations and waits once, as volley's stream with a window of 20 does.
- Over the network and over TCP, both programs have `NCCL_P2P_DISABLE=1` and `NCCL_SHM_DISABLE=1`, or
  `UCX_TLS=tcp,cuda_copy,self`: GPUs of one machine then use sockets, as between machines without RDMA. The threads of
  nccl-tests may run on any core there. nccl-tests has no ping-pong: volley's is beside a message each way, without a
  requirement.
- nccl-tests and OSU's collectives print the mean over ranks of the time in the operation; volley's time ends with the
  last rank's exit, and its records have both. On two H100s both agree within 0.3 %, except in an all-to-all of 1 MiB
  among four ranks (2 %). OSU has a barrier between operations, outside its timing; volley times operations back to
  back, so at short sizes the two do not do the same work. The size of osu_alltoall is what one rank sends to another;
  volley's is the whole buffer of a rank, so 8 B to each of 4 ranks are 32 B.
- The other rows of OSU's collectives time the operations one by one, each behind a barrier, in both programs
  (`--tail`), and of volley they have the mean over ranks; so have the rows of NCCL. An all-to-all of 4 ranks takes as
  long as osu_alltoall where both time it so, and a little longer back to back.
- volley writes the receive buffers before each of these operations and reads them after it, and OSU's programs never
  do. The rows "not verified" (`--no-verify`) are without that: there no interval lies above 1, also where
  the verified operation takes longer (allgather of 16 KiB, scatter, `host/persistent`).
- At 1 GiB a sample of volley would be one operation of NCCL with its launch and its wait; nccl-tests waits once for 20,
  and so does volley there: `--warmup 5 --iterations 20`.
- One launch of osu_neighbor_allgather differs from the next more than it differs from volley: at 256 KiB a rank it took
  40 to 94 µs within minutes, volley 61 to 74 µs. With its send buffers written before each operation, as an application
  writes them, it took 78 to 125 µs. volley fills its send buffers once a size, as OSU's programs do ([decision
  60](decisions/60-one-fill-a-size.md)).
- osu_mbw_mr divides by the mean of the senders' times. The rate until the last sender is done is volley's own, lower,
  and without a requirement.
- Launches of short streams both ways differ more than programs do: in four further rounds volley took 2.5, 3.1, 4.0 and
  3.7 MB/s at 8 B, osu_bibw 2.6, 2.9, 2.7 and 2.2 MB/s.
- osu_fop_latency and osu_cas_latency have 4 bytes, volley's calls 8. IMB's PingPing receives with MPI_Recv, volley with
  MPI_Irecv and MPI_Waitall as osu_bibw does: of 8 B these calls take longer.
- Beside the small programs of examples/ and loops written by hand: [what fifty exchanges
  measure](evidence/fifty-exchanges.md), [plain loops](evidence/plain-loops.md).
"""


@dataclass(frozen=True)
class Seen:
    """What the records say of a row."""

    ours: Estimate | None = None
    theirs: Estimate | None = None
    value: Estimate | None = None
    """The ratio, or volley's number where there is nobody to compare with."""
    why_not: str = ""


def seen(row: Row, comparison: Comparison, sessions: Iterable[Session]) -> Seen:
    """Put the rounds of a row together."""
    pairs, missing = [], ""
    launches = [each for session in sessions for each in session.launches if each.comparison == comparison.name]
    for figures in _rounds(sessions, comparison.name):
        try:
            pairs.append((row.ours(figures), row.theirs(figures) if row.theirs else 1.0))
        except KeyError as error:
            missing = missing or f"no figure {error.args[0]!r}"
    if not pairs:
        reasons = (f"{each.program}: {each.reason}" for each in launches if each.reason)
        return Seen(why_not=escape_controls(next(reasons, missing or "not launched")))
    ours, theirs = [mine for mine, _ in pairs], [other for _, other in pairs]
    value = estimate([mine / other for mine, other in pairs])
    return Seen(estimate(ours), estimate(theirs) if row.theirs else None, value)


def _rounds(sessions: Iterable[Session], comparison: str) -> Iterator[Figures]:
    for session in sessions:
        found: dict[int, dict[str, float]] = {}
        for launch in session.launches:
            if launch.comparison == comparison:
                figures = {f"{launch.command}/{name}": value for name, value in launch.figures.items()}
                found.setdefault(launch.round, {}).update(figures, **_wall(launch))
        yield from found.values()


def _wall(launch: Launch) -> dict[str, float]:
    return {f"{launch.command}/wall": launch.wall_s} if launch.status == "ok" else {}


# ------------------------------------------------------------------------------------------------ showing


def number(value: float, unit: str) -> str:
    """Write a number in the unit that suits it."""
    scale, name = next((each for each in SCALES[unit] if abs(value) >= each[0]), SCALES[unit][-1])
    return f"{format_sig(value / scale)} {name}"


def with_bounds(value: Estimate, unit: str) -> str:
    """Write an estimate: `1.002 × (0.997–1.008)`."""
    if value.kind == "single":
        return number(value.median, unit)
    scale, _ = next((each for each in SCALES[unit] if value.median >= each[0]), SCALES[unit][-1])
    return f"{number(value.median, unit)} ({format_sig(value.low / scale)}–{format_sig(value.high / scale)})"


def asked(row: Row) -> str:
    """Write what a row is meant to come to."""
    low, high = row.asked.low, row.asked.high
    if low is not None and high is not None:
        return f"{low:g}–{high:g}"
    if low is None and high is None:
        return "–"
    bound = low if low is not None else high
    assert bound is not None
    shown = f"{bound:g}" if row.theirs else number(bound, row.unit)
    return f"{'≤' if low is None else '≥'} {shown}"


def reached(row: Row, value: Estimate) -> str:
    """Say whether it came to that."""
    if row.asked.low is None and row.asked.high is None:
        return "–"
    if row.asked.met_by(value.low) and row.asked.met_by(value.high):
        return "yes"
    if row.asked.met_by(value.median):
        return "in the median"
    return "not in the median" if row.asked.reached_by(value.low, value.high) else "no"


def line(row: Row, found: Seen) -> str:
    """Return a row of the table."""
    cells = [row.what, row.against, asked(row)]
    if found.value is None or found.ours is None:
        return "| " + " | ".join([*cells, f"not measured: {found.why_not.replace('|', '¦')}", "", "", "", "no"]) + " |"
    theirs = number(found.theirs.median, row.unit) if found.theirs else ""
    value = with_bounds(found.value, "×" if row.theirs else row.unit)
    ours = number(found.ours.median, row.unit)
    return "| " + " | ".join([*cells, ours, theirs, value, str(found.value.count), reached(row, found.value)]) + " |"


def table(sessions: list[Session]) -> Iterator[str]:
    """Yield the table: every row of every comparison, measured or not."""
    yield "| quantity | compared with | required | volley | the other | measured | launches | met |"
    yield "| --- | --- | --- | --: | --: | --- | --: | --- |"
    for comparison in TABLE:
        for row in comparison.rows:
            yield line(row, seen(row, comparison, sessions))


def table_of(records: Path) -> Iterator[str]:
    """Yield the table of a file of records; the errors are those of ``launches.read``."""
    return table(read(records))


def machines(sessions: list[Session]) -> Iterator[str]:
    """Yield a line for sessions of the same machine and software: their days, and the largest load."""
    alike: dict[str, list[Machine]] = {}
    for at in (session.machine for session in sessions):
        gpus = f"{len(at.gpus)} × {at.gpus[0]}, driver {at.driver}" if at.gpus else "no GPU"
        alike.setdefault(f"{gpus}; {at.cpu}; {at.stack}; volley {at.volley}", []).append(at)
    for where, found in alike.items():
        days = join_words(sorted({at.measured_at.partition("T")[0] for at in found}))
        load = max(at.load for at in found)
        yield escape_controls(f"- {where}; {days}; load at the start at most {load:.2f}.")


def programs(sessions: list[Session]) -> Iterator[str]:
    """Yield a table of the programs, with the versions that they said themselves."""
    yield "| program | what it is | version |"
    yield "| --- | --- | --- |"
    launches = [launch for session in sessions for launch in session.launches]
    for name, what in PROGRAMS.items():
        versions = sorted({each.version for each in launches if each.program == name and each.version})
        yield f"| `{name}` | {what} | {escape_controls(join_words(versions)) or '–'} |"


def page(sessions: list[Session]) -> str:
    """Return docs/peers.md."""
    two, four, h200, h100s, h100 = (f"../{path.relative_to(ROOT)}" for path in RECORDS)
    parts = [
        HEAD.format(two=two, four=four, h200=h200, h100s=h100s, h100=h100),
        "\n".join([*table(sessions), ""]),
        HOW,
        "\n".join(["## Programs", "", *programs(sessions), ""]),
        "\n".join(["## Where", "", *machines(sessions), ""]),
    ]
    return "\n".join(parts)


def recorded() -> list[Session]:
    """Return the sessions that are committed."""
    return [session for path in RECORDS for session in read(path)]


def write() -> int:
    """Write docs/peers.md."""
    PAGE.write_text(page(recorded()), "utf-8")
    return 0
