"""Single numbers of ours against those of other methods: what is compared with what, as data."""

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from programs import Bench, Launch

from volley.benchmarks.pair.results import PingPongPlan, StreamPlan
from volley.records.plan import Plan, Sampling
from volley.statistics.estimates import Estimate, estimate
from volley.units import format_size

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
# A batch of 50 exchanges of 8 B takes 40 µs, in which one late interrupt shows: each launch repeats it and takes the
# median, ours and theirs alike.
REPEATS = 21
SHORT_AND_LONG = (8, 64 * KIB)
DOUBLINGS = tuple(1 << power for power in range(3, 27))
REPEATED = [size for size in SHORT_AND_LONG for _ in range(REPEATS)]


def fixed(*sizes: int, transport: str = "host") -> Plan:
    """The tutorial's own sampling: 5 exchanges to warm up, one batch of 50, one fresh buffer."""
    sampling = Sampling(mode="fixed", warmup=5, iterations=50)
    part = PingPongPlan(sizes_bytes=list(sizes), fresh_buffers=True)
    return Plan(benchmark="pingpong", transports=[transport], options=part, sampling=sampling)


def adaptive(*sizes: int) -> Plan:
    """volley's default sampling."""
    return Plan(benchmark="pingpong", transports=["host"], options=PingPongPlan(sizes_bytes=list(sizes)))


def flood(direction: str, *sizes: int) -> Plan:
    """volley's default stream, window 64."""
    part = StreamPlan(sizes_bytes=list(sizes), direction="bi" if direction == "bi" else "uni")
    return Plan(benchmark="stream", transports=["host"], options=part)


@dataclass(frozen=True)
class Comparison:
    """Ours against theirs: both are launched alternately, and the ratio of each pair of launches is one observation."""

    name: str
    """What is measured, and on the other side of "against" the method that it is compared with."""
    ours: Callable[[Bench], Launch]
    theirs: Callable[[Bench], Launch]
    target: str
    """What the ratio of times, ours over theirs, is meant to be; shown beside it."""
    sizes: tuple[int, ...]
    launches: int = 21


COMPARISONS = (
    Comparison(
        "half round trip, fixed 5 + 50, against the tutorial's loop",
        lambda bench: bench.volley(fixed(*REPEATED)),
        lambda bench: bench.peer("tutorial", sizes=REPEATED),
        "0.98–1.02",
        SHORT_AND_LONG,
    ),
    Comparison(
        "half round trip, fixed 5 + 50, against the tutorial's loop with buffers on a page (ours begin 16 bytes behind "
        "one)",
        lambda bench: bench.volley(fixed(*REPEATED)),
        lambda bench: bench.peer("tutorial", "--aligned", sizes=REPEATED),
        "0.98–1.02",
        SHORT_AND_LONG,
    ),
    Comparison(
        "half round trip, adaptive, against reading the clock in every iteration",
        lambda bench: bench.volley(adaptive(*SHORT_AND_LONG)),
        lambda bench: bench.peer("peer_latency", sizes=SHORT_AND_LONG),
        "≤ 1.00",
        SHORT_AND_LONG,
    ),
    Comparison(
        "stream, one way, against osu_bw's method",
        lambda bench: bench.volley(flood("uni", MIB, 64 * MIB)),
        lambda bench: bench.peer("peer_bandwidth", sizes=(MIB, 64 * MIB)),
        "0.98–1.02",
        (MIB, 64 * MIB),
        launches=11,
    ),
    Comparison(
        "stream, both ways, against osu_bibw's method",
        lambda bench: bench.volley(flood("bi", MIB)),
        lambda bench: bench.peer("peer_bandwidth", "--bi", sizes=(MIB,)),
        "0.98–1.02",
        (MIB,),
        launches=11,
    ),
)


@dataclass(frozen=True)
class Finding:
    """One line of the result."""

    what: str
    value: Estimate
    unit: str
    target: str
    """``0.98–1.02``, ``≤ 1.00``, ``≥ 0.80`` or ``28``, in the unit of the value; other words are for people alone."""
    ours: Estimate | None = None
    theirs: Estimate | None = None

    @property
    def reached(self) -> str:
        """Whether the value came to its target; ``–`` where no number is asked for."""
        bounds = re.fullmatch(r"(?P<sign>[≤≥] )?(?P<low>[\d.]+)(?:–(?P<high>[\d.]+))?", self.target)
        if bounds is None:
            return "–"
        low = 0.0 if bounds["sign"] == "≤ " else float(bounds["low"])
        high = math.inf if bounds["sign"] == "≥ " else float(bounds["high"] or bounds["low"])
        if low <= self.value.low and self.value.high <= high:
            return "yes"
        return "in the median" if low <= self.value.median <= high else "no"


def alternate(
    ours: Callable[[], Launch], theirs: Callable[[], Launch], launches: int
) -> Iterator[tuple[Launch, Launch]]:
    """Launch both ``launches`` times, the other one first every second time, so that a drift meets both alike."""
    for index in range(launches):
        if index % 2:
            second = theirs()
            yield ours(), second
        else:
            yield ours(), theirs()


def compare(bench: Bench, comparison: Comparison, launches: int | None) -> list[Finding]:
    """Carry out one comparison; one finding a message size."""
    count = launches or comparison.launches
    pairs = list(alternate(lambda: comparison.ours(bench), lambda: comparison.theirs(bench), count))
    return [
        Finding(
            f"{comparison.name}, {format_size(size)}",
            estimate([ours.seconds[size] / theirs.seconds[size] for ours, theirs in pairs]),
            "×",
            comparison.target,
            estimate([ours.seconds[size] for ours, _ in pairs]),
            estimate([theirs.seconds[size] for _, theirs in pairs]),
        )
        for size in comparison.sizes
    ]
