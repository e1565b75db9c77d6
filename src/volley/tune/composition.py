"""What is made of the settings that were proven: those that are slower nowhere, and others for ranges of sizes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from volley.tune.candidates import Candidate
from volley.tune.search import Proof
from volley.units import SizeError, parse_size

WORTH = 0.99
"""A further setting is taken if its time at some place is less than this times that of those already taken."""


@dataclass(frozen=True)
class SizeRule:
    """A setting for a range of sizes of one collective, both ends measured and proven, and all sizes between."""

    operation: str
    first_bytes: int
    last_bytes: int
    candidate: Candidate


Proofs = Mapping[Candidate, Proof]


def whole(proofs: Proofs) -> list[Candidate]:
    """Return settings that can be set together for all sizes, the largest gain first."""
    chosen: list[Candidate] = []
    covered: dict[tuple[str, str], float] = {}
    variables: dict[str, str] = {}
    for each in sorted(proofs, key=lambda each: -proofs[each].gain):
        found = proofs[each]
        ratios = {found.places[at]: float(found.found.ratio[at]) for at in np.flatnonzero(found.faster).tolist()}
        more = any(ratio < WORTH * covered.get(place, 1.0) for place, ratio in ratios.items())
        fits = all(variables.get(name, value) == value for name, value in each.variables.items())
        if found.usable and more and fits:
            chosen.append(each)
            variables |= each.variables
            covered |= {place: min(ratio, covered.get(place, 1.0)) for place, ratio in ratios.items()}
    return chosen


def by_size(proofs: Proofs) -> list[SizeRule]:
    """Return for each collective which setting is the fastest of those proven, from which size to which."""
    ratios: dict[tuple[str, int], dict[Candidate, float]] = {}
    for candidate, found in proofs.items():
        for number, (series, at) in enumerate(found.places):
            place = _place(series, at)
            if place is None:
                continue
            here = ratios.setdefault(place, {})
            if found.slower[number]:
                here[candidate] = float("inf")  # on another transport it may be faster
            elif found.faster[number]:
                here[candidate] = max(here.get(candidate, 0.0), float(found.found.ratio[number]))
    rules = []
    for operation, places in groupby(sorted(ratios), key=lambda place: place[0]):
        fastest = [(size, _fastest(ratios[operation, size])) for _, size in places]
        for candidate, run in groupby(fastest, key=lambda pair: pair[1]):
            sizes = [size for size, _ in run]
            if candidate:
                rules.append(SizeRule(operation, sizes[0], sizes[-1], candidate))
    return rules


def _place(series: str, at: str) -> tuple[str, int] | None:
    operation, _, transport = series.partition(" ")
    try:
        return (operation, parse_size(at)) if transport else None
    except SizeError:
        return None


def _fastest(ratios: Mapping[Candidate, float]) -> Candidate | None:
    fastest = min(ratios, key=lambda each: ratios[each], default=None)
    return fastest if fastest and ratios[fastest] < 1 else None


def compose(
    proofs: Proofs, can_rule: Callable[[Candidate], bool], set_rules: Callable[[Sequence[SizeRule]], Mapping[str, str]]
) -> Candidate | None:
    """Return the one setting that is made of all that was proven; ``None`` if nothing was.

    Args:
        proofs: of each setting.
        can_rule: whether a file can set it by size here.
        set_rules: writes such files, and returns the variables that name them.
    """
    rules = by_size({each: found for each, found in proofs.items() if can_rule(each)})
    parts = whole({each: found for each, found in proofs.items() if not can_rule(each)})
    if len(parts) == 1 and not rules:
        return parts[0]
    variables = {name: value for each in parts for name, value in each.variables.items()}
    variables |= set_rules(rules) if rules else {}
    ruled = list(dict.fromkeys(rule.candidate for rule in rules))
    return Candidate(variables, "what was proven, together", parts=[*parts, *ruled]) if variables else None
