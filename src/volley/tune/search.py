"""Which settings are launched, and what their times prove: no launch is made here, and no file is read.

**The screen** chooses.  Each round launches every setting once and the default about √n times, in an order that is
drawn: of n settings that are compared with one default, that many launches of the default make the comparisons most
precise (C. W. Dunnett, Journal of the American Statistical Association 50 (1955) 1096-1121).  After some rounds the
better half stays, until ``KEPT`` are left (Z. Karnin, T. Koren and O. Somekh, Almost Optimal Exploration in Multi-Armed
Bandits, ICML 2013: sequential halving).  The screen proves nothing.

**The confirmation** proves.  Its launches are fresh, so that a setting that was lucky in the screen has no advantage.
Each round launches the default and each survivor once; the verdict is that of launches in pairs
(``statistics.two_runs``), whose error holds for all sizes together, with its level divided by the number of settings
that are ever confirmed (Bonferroni).  docs/method/tune.md has the error rates.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Generic, TypeVar

import numpy as np

from volley.statistics.two_runs import Booleans, Differences, Floats, differences, medians_of

Setting = TypeVar("Setting", bound=Hashable)
Place = tuple[str, str]
"""What was measured, and at which size: ``("allreduce host", "4 KiB")``."""
Times = Mapping[Place, float]
"""The seconds of one launch."""

KEPT = 3
"""This many settings are confirmed, and after them the one that is made of those that were proven.  More would leave
fewer launches for each: on simulated machines, 300 launches with four find the better setting in 90 %, with three in
95 % (bench/tune_rates.py)."""
LEVEL = 0.05 / (KEPT + 1)
"""The largest probability that counts as a proof of one of the settings that are confirmed: 5 % for all."""


class LaunchFailedError(Exception):
    """A launch crashed, hung, corrupted data or lacked a point; the message says which."""


FEWEST_ROUNDS, MOST_ROUNDS = 9, 32
"""Of a confirmation.  Eight pairs are the fewest that can reach ``LEVEL``; of nine, one may fail."""
MOST_SCREENING = 12
"""Rounds before a halving."""
SCREEN_SHARE = 0.5
"""Of the time, at most; the confirmations take the rest."""


def screen_launches(settings: int, rounds: int) -> int:
    return sum(rounds * (number + controls(number)) for number in halvings(settings))


def confirm_launches(settings: int, rounds: int) -> int:
    """Return the launches that confirm the survivors, and then what is made of them."""
    return rounds * (min(settings, KEPT) + 1 + 2)


def fewest_launches(settings: int) -> int:
    return screen_launches(settings, 1) + confirm_launches(settings, FEWEST_ROUNDS)


def screening_rounds(settings: int, launches: float) -> int:
    """Return how many rounds come before each halving, if there is time for this many launches in all."""
    spare = min(SCREEN_SHARE * launches, launches - confirm_launches(settings, FEWEST_ROUNDS))
    each = screen_launches(settings, 1) or 1
    return max(1, min(MOST_SCREENING, int(spare / each)))


def confirming_rounds(settings: int, launches: float) -> int:
    """Return how many rounds each confirmation has, if there is time for this many launches of both."""
    return max(FEWEST_ROUNDS, min(MOST_ROUNDS, int(launches / confirm_launches(settings, 1))))


def controls(settings: int) -> int:
    return max(1, round(math.sqrt(settings)))


def halvings(settings: int) -> Iterator[int]:
    """Yield how many settings there are before each halving."""
    while settings > KEPT:
        yield settings
        settings = max(KEPT, math.ceil(settings / 2))


@dataclass(frozen=True)
class Proof:
    """What the launches of a confirmation show of one setting: an item for each place."""

    places: Sequence[Place]
    found: Differences
    """The ratio is the time with the setting / that of the default."""
    default_s: Floats
    own_s: Floats

    @cached_property
    def faster(self) -> Booleans:
        found: Booleans = replace(self.found, level=LEVEL).changed & (self.found.ratio < 1)
        return found

    @cached_property
    def slower(self) -> Booleans:
        """True where the setting is worse; not corrected for the number of settings: a doubt counts against it."""
        found: Booleans = self.found.changed & (self.found.ratio > 1)
        return found

    @property
    def usable(self) -> bool:
        """True if it is faster somewhere and slower nowhere."""
        return bool(self.faster.any() and not self.slower.any())

    @property
    def gain(self) -> float:
        """The sum of the logarithms of the proven ratios, above 0."""
        return float(-np.log(self.found.ratio[self.faster]).sum())

    @property
    def elsewhere(self) -> float | None:
        """The largest ratio that the intervals of the other places allow; ``None`` if it is faster everywhere."""
        bounds = self.found.high[~self.faster]
        return float(bounds.max()) if bounds.size else None


@dataclass
class Search(Generic[Setting]):
    launch: Callable[[Setting | None], Times]
    """Launches a setting once, or the default (``None``); raises ``LaunchFailedError``, or KeyboardInterrupt where
    the user stopped it: what was launched before counts."""
    going_on: Callable[[], bool] = lambda: True
    """False when the time is over, or when the user stopped the search."""
    dice: random.Random = field(default_factory=random.Random)
    failed: dict[Setting, str] = field(default_factory=dict)
    """Why a setting failed: it is not launched again."""

    def screen(self, settings: Sequence[Setting], rounds: int) -> list[Setting]:
        """Return the settings with the largest gains, at most ``KEPT``."""
        left = list(settings)
        gains: dict[Setting, list[dict[Place, float]]] = {each: [] for each in left}
        while len(left) > KEPT and self.going_on():
            for _ in range(rounds):
                default, found = self._round(left, controls(len(left)))
                for each, times in found.items() if default else ():
                    gains[each].append({at: math.log(default[at] / times[at]) for at in times if at in default})
            usable = {each: _faster_half(gains[each]) for each in left if each not in self.failed and gains[each]}
            left = best(usable, max(KEPT, math.ceil(len(left) / 2)))
        return [each for each in left if each not in self.failed][:KEPT]

    def confirm(self, settings: Sequence[Setting], rounds: int) -> dict[Setting, Proof]:
        """Return what fresh launches in turn with the default prove of each setting that did not fail."""
        pairs: dict[Setting, list[tuple[Times, Times]]] = {each: [] for each in settings}
        for _ in range(rounds):
            left = [each for each in settings if each not in self.failed]
            if not left or not self.going_on():
                break
            default, found = self._round(left, 1)
            for each, times in found.items():
                if default:
                    pairs[each].append((default, times))
        return {each: proof(those) for each, those in pairs.items() if those and each not in self.failed}

    def _round(self, settings: Sequence[Setting], defaults: int) -> tuple[Times, dict[Setting, Times]]:
        """Launch all in an order that is drawn; return the median times of the default, and those of each setting."""
        order: list[Setting | None] = [*settings, *[None] * defaults]
        self.dice.shuffle(order)
        default: list[Times] = []
        found: dict[Setting, Times] = {}
        for each in order:
            if not self.going_on():
                break
            try:
                times = self.launch(each)
            except KeyboardInterrupt:  # from now on it does not go on
                break
            except LaunchFailedError as error:
                if each is not None:
                    self.failed[each] = str(error)
                continue
            if each is None:
                default.append(times)
            else:
                found[each] = times
        return _middle(default), found


def _faster_half(gains: Sequence[Mapping[Place, float]]) -> dict[Place, float]:
    """Return the mean gain of the faster half of the launches, by place: what slows a launch is rarely its setting."""
    found: dict[Place, float] = {}
    for at in gains[0]:
        there = sorted((each[at] for each in gains if at in each), reverse=True)
        half = there[: (len(there) + 1) // 2]
        found[at] = sum(half) / len(half)
    return found


def _middle(times: Sequence[Times]) -> dict[Place, float]:
    """Return the median of each place over launches."""
    places = list(dict.fromkeys(at for each in times for at in each))
    if not places:
        return {}
    numbers = np.array([[each.get(at, math.nan) for at in places] for each in times])
    return dict(zip(places, medians_of(numbers).tolist(), strict=True))


def best(gains: Mapping[Setting, Mapping[Place, float]], number: int) -> list[Setting]:
    """Choose this many settings, one after the other: each has the largest ``score`` beyond those chosen."""
    covered: dict[Place, float] = {}
    left, chosen = dict(gains), list[Setting]()
    while left and len(chosen) < number:
        first = max(
            left, key=lambda each: score([gain - max(0.0, covered.get(at, 0.0)) for at, gain in left[each].items()])
        )
        chosen.append(first)
        for at, gain in left.pop(first).items():
            covered[at] = max(covered.get(at, 0.0), gain)
    return chosen


def score(gains: Sequence[float]) -> float:
    """Return the largest sum of gains that follow each other, divided by the root of their number.

    A setting concerns a range of sizes, and the sum over that range is less uncertain than the gain at one size
    (the scan statistic: J. Glaz, J. Naus and S. Wallenstein, Scan Statistics, 2001).
    """
    sums = np.concatenate([[0.0], np.cumsum(gains)])
    first, last = np.triu_indices(len(sums), 1)
    scores = (sums[last] - sums[first]) / np.sqrt(last - first)
    return float(scores.max(initial=-math.inf))


def proof(pairs: Sequence[tuple[Times, Times]]) -> Proof:
    """Compare launches of a setting with those of the default in the same rounds: ``(default, setting)``."""
    seen = [{*default} & {*own} for default, own in pairs]
    places = [at for at in pairs[0][0] if any(at in each for each in seen)]
    first, second = (np.array([[pair[side].get(at, math.nan) for pair in pairs] for at in places]) for side in (0, 1))
    both = ~np.isnan(first) & ~np.isnan(second)
    first, second = np.where(both, first, math.nan), np.where(both, second, math.nan)
    return Proof(places, differences(first, second, paired=True), medians_of(first.T), medians_of(second.T))
