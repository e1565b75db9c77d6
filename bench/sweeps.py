"""The default sweep against the tutorial's: its time, how well it settles each number, and what short launches save."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import msgspec
from comparisons import Finding, adaptive, alternate
from programs import Bench, Launch

from volley.benchmarks.pair import PingPongOptions
from volley.benchmarks.pair.results import PingPong
from volley.records.plan import Sampling
from volley.run.launches import MIN_VISITS, POINT_TIME_S
from volley.statistics.estimates import Estimate, estimate, median
from volley.statistics.launches import FIRST_LOOK, of_observations

SIZES = PingPongOptions().points.sizes
LAUNCHES = 10
# Launches of the tutorial's sampling in which each of the 50 iterations is timed by itself.
LAUNCHES_TIMING_EACH = 3


@dataclass(frozen=True)
class Width:
    """How well one size is settled: half a 95 % interval, as a fraction of its median."""

    size_bytes: int
    ours_within: float
    """Of the median of the samples of one launch of volley; the median over launches."""
    theirs_within: float
    """Of the median of the tutorial's 50 iterations, had each been timed; the median over launches."""
    ours_across: float
    """Of the median over launches of what volley reports."""
    theirs_across: float
    """Of the median over launches of what the tutorial prints."""


@dataclass(frozen=True)
class Sweeps:
    """All launches of both sweeps."""

    ours: list[Launch]
    theirs: list[Launch]
    each: list[Launch]

    def widths(self) -> list[Width]:
        """Compare size by size."""
        return [
            Width(
                size,
                ours_within=median([estimate(point.times_s).half_width for point in self._points(size)]),
                theirs_within=median([estimate(_each(launch, size)).half_width for launch in self.each]),
                ours_across=estimate([launch.seconds[size] for launch in self.ours]).half_width,
                theirs_across=estimate([launch.seconds[size] for launch in self.theirs]).half_width,
            )
            for size in SIZES
        ]

    def times(self) -> list[Finding]:
        """Say how long a sweep takes, ours whole, against theirs whole and against its bare exchanges."""
        ours = [launch.wall_s for launch in self.ours]
        whole = [launch.wall_s for launch in self.theirs]
        bare = [sum(line["loop_s"] for line in launch.lines) for launch in self.theirs]
        name = f"time of the default sweep of {len(SIZES)} sizes, against the tutorial's 5 + 50"
        return [
            _ratio(f"{name}, both from launch to end", ours, whole, "≤ 0.33"),
            _ratio(f"{name}, its exchanges alone", ours, bare, "≤ 0.33"),
        ]

    def empty_share(self) -> Finding:
        """Say which part of a sample its clock and its call take at most, over all sizes and launches."""
        worst = [
            max(_empty_share(point) for size in SIZES for point in self._points(size, launch)) for launch in self.ours
        ]
        return Finding(
            "cost of the empty sample, largest share of a sample over all sizes", _percent(worst), "%", "≤ 0.5"
        )

    def _points(self, size: int, *launches: Launch) -> list[PingPong]:
        logs = [launch.log for launch in launches or self.ours if launch.log]
        return [point for log in logs for point in log.of(PingPong) if point.size_bytes == size]


def launch_sweeps(bench: Bench, launches: int | None) -> Sweeps:
    """Carry out all launches."""
    pairs = list(
        alternate(
            lambda: bench.volley(adaptive(*SIZES)), lambda: bench.peer("tutorial", sizes=SIZES), launches or LAUNCHES
        )
    )
    options = ("--each", "--warmup", "5", "--iterations", "50")
    each = [bench.peer("peer_latency", *options, sizes=SIZES) for _ in range(LAUNCHES_TIMING_EACH)]
    return Sweeps([ours for ours, _ in pairs], [theirs for _, theirs in pairs], each)


def narrower(widths: Sequence[Width]) -> list[Finding]:
    """Count the sizes at which ours is the narrower interval."""
    sides: list[tuple[str, Callable[[Width], bool]]] = [
        ("within a launch, than the median of the tutorial's 50 iterations", lambda w: w.ours_within < w.theirs_within),
        ("across launches, than what the tutorial prints", lambda w: w.ours_across < w.theirs_across),
    ]
    return [
        Finding(
            f"sizes at which our interval is narrower: {name}",
            estimate([sum(map(wins, widths))]),
            f"of {len(widths)}",
            f"{len(widths)}",
        )
        for name, wins in sides
    ]


def _each(launch: Launch, size: int) -> list[float]:
    (times,) = [line["each_half_round_trip_s"] for line in launch.lines if line["size_bytes"] == size]
    return list(times)


def _empty_share(point: PingPong) -> float:
    assert point.empty_sample_s is not None
    return point.empty_sample_s / (2 * point.exchanges_per_sample * median(point.times_s))


def _ratio(what: str, ours: Sequence[float], theirs: Sequence[float], target: str) -> Finding:
    ratios = [a / b for a, b in zip(ours, theirs, strict=True)]
    return Finding(what, estimate(ratios), "×", target, estimate(ours), estimate(theirs))


def _percent(fractions: Sequence[float]) -> Estimate:
    return estimate([100 * fraction for fraction in fractions])


# ---------------------------------------------------------------- what short launches save

LONG_LAUNCHES = FIRST_LOOK
MAX_SHORT = 3 * LONG_LAUNCHES
"""Short launches that reach the interval only after so many have not saved anything."""


def launching(bench: Bench, launches: int | None) -> list[Finding]:
    """Compare whole launches, in turn; short ones go on until their interval is as narrow, in the median over sizes."""
    long = adaptive(*SIZES)
    short = msgspec.structs.replace(long, sampling=Sampling(point_time_s=POINT_TIME_S, min_visits=MIN_VISITS))
    count = launches or LONG_LAUNCHES
    pairs = list(alternate(lambda: bench.volley(short), lambda: bench.volley(long), count))
    ours, theirs = [one for one, _ in pairs], [other for _, other in pairs]
    asked = _half_width(theirs)
    while _half_width(ours) > asked and len(ours) < MAX_SHORT:
        ours.append(bench.volley(short))
    times = [sum(launch.wall_s for launch in side) for side in (ours, theirs)]
    return [
        Finding(
            f"run time: {len(ours)} short launches (±{_half_width(ours) * 100:.1f} % over launches, in the median over "
            f"sizes) against {count} long ones (±{asked * 100:.1f} %)",
            estimate([times[0] / times[1]]),
            "×",
            "≤ 0.60",
            estimate([times[0]]),
            estimate([times[1]]),
        )
    ]


def _half_width(launches: Sequence[Launch]) -> float:
    return median([of_observations([launch.seconds[size] for launch in launches]).half_width for size in SIZES])
