"""Which recorded facts tell groups of launches apart, and how seldom chance does."""

from __future__ import annotations

import random
from collections.abc import Collection
from dataclasses import replace
from itertools import accumulate, combinations, pairwise

import pytest

from volley.statistics.group_facts import LEVEL, in_stretches, telling
from volley.statistics.launches import Group

Launches = Collection[int]


def two(first: Launches, launches: int) -> tuple[Group, Group]:
    """The first group, and another of all other launches."""
    return Group(1.0, tuple(first)), Group(2.0, tuple({*range(1, launches + 1)} - {*first}))


def noise(launches: int, draw: random.Random) -> dict[int, float]:
    return {launch: draw.gauss(0, 1) for launch in range(1, launches + 1)}


def step(high: Launches, launches: int) -> dict[int, float]:
    return {launch: 1.3 if launch in high else 1.0 for launch in range(1, launches + 1)}


FOUR, EIGHT = (2, 5, 6, 11), (1, 2, 5, 9, 10, 12, 17, 20)


@pytest.mark.parametrize(("first", "launches"), [(FOUR, 40), (EIGHT, 20), (FOUR, 12)])
def test_the_fact_that_differs_is_named_among_others(first: Launches, launches: int) -> None:
    draw = random.Random(launches)
    facts = {"work": step(first, launches), **{name: noise(launches, draw) for name in "abcde"}}
    assert telling(two(first, launches), facts) == ["work"]


def test_a_fact_that_nearly_separates_comes_after_one_that_does() -> None:
    almost = {**step(EIGHT, 20), 1: 1.0}
    assert telling(two(EIGHT, 20), {"almost": almost, "fully": step(EIGHT, 20)}) == ["fully", "almost"]


def test_a_fact_that_half_of_a_group_shares_is_not_named() -> None:
    assert telling(two(EIGHT, 20), {"half": step(EIGHT[:4], 20)}) == []


def test_few_launches_name_nothing() -> None:
    assert telling(two((1, 3, 4), 6), {"work": step((1, 3, 4), 6)}) == []


def test_facts_that_do_not_vary_or_are_incomplete_are_no_reason_and_cost_nothing() -> None:
    facts = {"work": step(FOUR, 12), "lost": {launch: float(launch in FOUR) for launch in range(2, 13)}}
    same = {number: dict.fromkeys(range(1, 13), 7.0) for number in range(99)}
    assert telling(two(FOUR, 12), {**facts, **same}) == ["work"]


def test_of_three_groups_those_on_both_sides_of_the_widest_gap_are_compared() -> None:
    groups = (Group(1.0, (1, 5, 8, 12)), Group(1.2, (2, 4, 9, 10)), Group(9.0, (3, 6, 7, 11, 13, 14)))
    assert telling(groups, {"wide": step(groups[2].launches, 14)}) == ["wide"]
    assert telling(groups, {"narrow": step(groups[1].launches, 14)}) == []
    low = (replace(groups[0], median=0.1), *groups[1:2], replace(groups[2], median=1.5))
    assert telling(low, {"wide": step(groups[0].launches, 14)}) == ["wide"]


def test_groups_that_follow_each_other_are_in_stretches_and_mixed_ones_are_not() -> None:
    assert in_stretches(two(range(1, 5), 12))
    assert in_stretches(two(range(5, 12), 20))
    assert not in_stretches(two(FOUR, 12))
    assert not in_stretches(two((1, 2, 3), 6))


def test_stretches_are_few_if_few_of_all_orders_have_so_few() -> None:
    def stretches(first: Launches) -> int:
        return 1 + sum((one in first) != (other in first) for one, other in pairwise(range(1, 13)))

    for size in range(3, 10):
        orders = {first: stretches(first) for first in combinations(range(1, 13), size)}
        few = {number: sum(each <= number for each in orders.values()) <= len(orders) / 20 for number in range(2, 14)}
        assert all(in_stretches(two(first, 12)) == few[number] for first, number in orders.items())


def test_what_drifts_does_not_tell_stretches_apart_and_what_jumps_does() -> None:
    drifting = {launch: float(launch) for launch in range(1, 21)}
    jumping = {launch: 10.0 * (launch > 8) + 0.1 * launch for launch in range(1, 21)}
    falling = {launch: -value for launch, value in jumping.items()}
    facts = {"drifting": drifting, "jumping": jumping, "falling": falling}
    assert telling(two(range(1, 9), 20), facts) == ["jumping", "falling"]


@pytest.mark.parametrize("facts", [5, 20])
@pytest.mark.parametrize(("first", "launches"), [(FOUR, 12), (EIGHT, 20), (FOUR, 40)])
def test_chance_names_a_fact_as_seldom_as_stated(first: Launches, launches: int, facts: int) -> None:
    """The rate of 1,000 simulations is known to within 0.7 % (one standard deviation)."""
    draw = random.Random(facts)
    named = sum(
        bool(telling(two(first, launches), {number: noise(launches, draw) for number in range(facts)}))
        for _ in range(1000)
    )
    assert named / 1000 <= LEVEL + 0.02


@pytest.mark.parametrize(("first", "launches"), [(range(1, 5), 12), (range(6, 14), 20), (range(1, 21), 40)])
def test_a_machine_that_drifts_seldom_names_a_fact(first: Launches, launches: int) -> None:
    draw = random.Random(launches)
    named = sum(
        bool(telling(two(first, launches), {0: dict(enumerate(accumulate(noise(launches, draw).values()), start=1))}))
        for _ in range(1000)
    )
    assert named / 1000 <= LEVEL
