"""From two sides to a verdict for each point they have in common."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from volley.compare.options import FailOn
from volley.compare.runs import Side
from volley.errors import UserError
from volley.run.benchmark import Observable
from volley.run.launch_series import Key
from volley.statistics.estimates import median
from volley.statistics.two_runs import Difference, can_decide, differences, min_to_decide
from volley.text import join_words

Verdict = Literal["changed", "same", "undecided"]

SWEEP = 2.0
"""For a change to hold over a whole sweep, its interval must be about so many times as narrow as to exclude 1."""

MAX_LAUNCHES = 1000
"""More launches than this are not recommended to anybody."""


@dataclass(frozen=True)
class Compared:
    """One point of both sides."""

    difference: Difference[Key]
    first: Sequence[Observable]
    second: Sequence[Observable]
    within: float
    """What counts as the same, as a fraction."""
    paired: bool

    @property
    def key(self) -> Key:
        return self.difference.key

    @property
    def ratio(self) -> float:
        """The time of the second / that of the first: above 1 is slower."""
        return self.difference.ratio.median

    @cached_property
    def verdict(self) -> Verdict:
        if self.difference.changed:
            return "changed"
        return "same" if self.difference.shown_within <= self.within else "undecided"

    @property
    def same_within(self) -> int:
        """The percentage within which both are the same, rounded up."""
        return max(1, math.ceil(100 * self.difference.shown_within - 1e-9))

    @cached_property
    def seconds(self) -> tuple[float, float]:
        """The medians over launches."""
        return median([each.seconds for each in self.first]), median([each.seconds for each in self.second])

    @cached_property
    def launches_needed(self) -> int | None:
        """About how many launches of each side would decide; ``None`` if decided, or with more than ``MAX_LAUNCHES``.

        An interval narrows with the square root of the launches.  It decides where it fits within the range of what is
        the same, or, ``SWEEP`` times as narrow, where it excludes 1.
        """
        if self.verdict != "undecided":
            return None
        ratio, at_least = self.difference.ratio, min_to_decide(paired=self.paired)
        if ratio.kind != "ci":
            return at_least
        off = abs(math.log(ratio.median))
        width = max(math.log(ratio.high / ratio.median), math.log(ratio.median / ratio.low))
        room = max(math.log1p(self.within) - off, off / SWEEP)
        needed = math.ceil(ratio.count * (width / room) ** 2)
        return max(needed, ratio.count + 1, at_least) if needed <= MAX_LAUNCHES else None


@dataclass(frozen=True)
class Comparison:
    """Two sides and all points that they have in common."""

    first: Side
    second: Side
    points: Sequence[Compared]
    within: float
    paired: bool

    def of(self, verdict: Verdict) -> list[Compared]:
        """Return the points with this verdict."""
        return [point for point in self.points if point.verdict == verdict]

    @cached_property
    def possible(self) -> bool:
        """True if the launches could show a change of some point."""
        return any(can_decide(len(point.first), len(point.second), paired=self.paired) for point in self.points)

    @property
    def only(self) -> tuple[list[Key], list[Key]]:
        """What only the first side measured, and what only the second one did."""
        one, other = self.first.observables, self.second.observables
        return [key for key in one if key not in other], [key for key in other if key not in one]

    def fails(self, condition: FailOn | None) -> list[Compared]:
        """Return the points to which the condition applies."""
        if condition is None:
            return []
        found = []
        for point in self.of("changed"):
            size = (max(point.ratio, 1 / point.ratio) if condition.either_way else point.ratio) - 1
            if size >= condition.share:
                found.append(point)
        return found


def compare(first: Side, second: Side, within: float, *, paired: bool = False) -> Comparison:
    """Compare what both sides measured.

    Raises:
        UserError: if the sides share launches or have no point in common.
    """
    shared = [run for run in first.runs if run in second.runs]
    if shared:
        raise UserError(
            f"{first.name} and {second.name} contain the same launch, of {shared[0].started_at}: compare two runs that "
            "were measured separately"
        )
    found = differences(first.times, second.times, paired=paired)
    if not found:
        raise UserError(_nothing_in_common(first, second))
    one, other = first.observables, second.observables
    points = []
    for each in found:
        launches = [launch for launch in one[each.key] if not paired or launch in other[each.key]]
        beside = launches if paired else list(other[each.key])
        points.append(
            Compared(
                each,
                [one[each.key][launch] for launch in launches],
                [other[each.key][launch] for launch in beside],
                within,
                paired,
            )
        )
    return Comparison(first, second, points, within, paired)


def _nothing_in_common(first: Side, second: Side) -> str:
    if not set(first.benchmarks) & set(second.benchmarks):
        names = [f"{side.name} measures {join_words(side.benchmarks)}" for side in (first, second)]
        return f"{join_words(names)}: compare two runs of one benchmark"
    series = [
        f"{side.name} has {join_words(list(dict.fromkeys(f'{key[1]} at {key[2]}' for key in side.observables))[:3])}"
        for side in (first, second)
    ]
    return f"the runs have no point in common ({'; '.join(series)}): measure the same sizes on the same transports"
