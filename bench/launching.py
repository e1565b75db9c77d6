"""What short launches save: the time of a run whose intervals over launches are as narrow as those of six long ones."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from comparisons import Finding, adaptive, alternate
from programs import Bench, Launch
from sweeps import SIZES

from volley.records.plan import Sampling
from volley.run.jobs import MIN_VISITS, POINT_TIME_S
from volley.statistics.estimates import estimate, median
from volley.statistics.launches import FIRST_LOOK, of_observations

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
