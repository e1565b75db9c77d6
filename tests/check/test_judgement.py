import io
import math
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pytest

from example_records import edited, matrix_log, ranks, rows
from screens import SCREENS, check_screen
from the_command import Finished
from volley.check import cluster, formats
from volley.check.cluster import repeats_of
from volley.check.evidence import ClusterPart, Judgement, Places, Visits
from volley.check.findings import Again, of_cluster
from volley.check.judgement import judge
from volley.check.places import Names
from volley.check.rounds import PARTNERS, matchings
from volley.errors import UserError
from volley.launch import cluster_map
from volley.launch.cluster_map import ClusterMap
from volley.machine.finding import exit_code, in_order
from volley.records.plan import OUT_OF_TIME
from volley.statistics.two_runs import Booleans, Floats, Integers
from volley.units import format_cpulist

ROOT = Path(__file__).parents[2]

Where = Callable[[Integers, Integers], Booleans]
Times = Callable[[Integers, Integers], Floats]
NODES, LEAF = 64, 8


def in_leaves(leaf: Sequence[int] | Integers, kind: Sequence[int] | None = None, *, tree: bool = False) -> Places:
    """Places of nodes whose leaf switches are known, or the whole tree with one root."""
    leaves = np.asarray(leaf)
    path = np.stack([leaves, np.zeros_like(leaves)], axis=1) if tree else leaves[:, None]
    return Places(np.arange(len(leaves)), path, np.zeros_like(leaves) if kind is None else np.asarray(kind))


PLACES = in_leaves(np.arange(NODES) // LEAF)
UNKNOWN = in_leaves([-1] * NODES)
TWO_A_NODE = Places(np.arange(NODES) // 2, np.zeros((NODES, 1), int), np.zeros(NODES, int))


def visits(
    slow: Where, slower: float = 0.1, wrong: Where | None = None, places: Places = PLACES, distance: Times | None = None
) -> Visits:
    """What a launch measures where some pairs are slower, or get wrong data, with noise of 1 %."""
    rounds = matchings(len(places.node), random.Random(1), places.leaf.tolist())
    repeats = repeats_of(rounds)
    pairs = np.array([pair for pairs in rounds for pair in pairs])
    first, second = (np.tile(column, repeats) for column in pairs.T)
    repetition = np.repeat(np.arange(repeats), len(pairs))
    time_s = np.random.default_rng(1).lognormal(-13, 0.01, len(first)) * (1 + slower * slow(first, second))
    if distance is not None:
        time_s = time_s * distance(first, second)
    bad = np.zeros(len(first), bool) if wrong is None else wrong(first, second)
    turn = np.tile(np.repeat(np.arange(len(rounds)), [len(pairs) for pairs in rounds]), repeats)
    return Visits(first, second, repetition, turn, time_s, bad)


def touches(*ranks: int) -> Where:
    return lambda first, second: np.isin(first, ranks) | np.isin(second, ranks)


def nowhere(first: Integers, second: Integers) -> Booleans:
    return np.zeros(len(first), bool)


def leaves_apart(leaf: Sequence[int] | Integers, near: float = 1.1, far: float = 1.4) -> Times:
    leaves = np.asarray(leaf)
    return lambda first, second: np.where(leaves[first] == leaves[second], near, far)


def names_of(count: int, where: ClusterMap | None = None) -> Names:
    return Names(ranks(count), where or ClusterMap())


@pytest.mark.parametrize(
    ("ranks", "leaves"), [(2, []), (5, []), (16, [0] * 8 + [1] * 8), (65, []), (7, [0, 0, 0, 1, 1, -1, -1])]
)
def test_nobody_meets_two_ranks_at_once(ranks: int, leaves: list[int]) -> None:
    rounds = matchings(ranks, random.Random(1), leaves)
    for pairs in rounds:
        ends = [rank for pair in pairs for rank in pair]
        assert len(ends) == len(set(ends))
    met = {partner for pairs in rounds for pair in pairs if 0 in pair for partner in pair} - {0}
    assert len(met) >= min(PARTNERS - ranks % 2, ranks - 1)  # an odd one has a round without a partner


def test_neighbors_meet_the_same_leaves() -> None:
    """So that the distance between two leaves, and their load, are the same for all that are compared."""
    leaf = np.arange(1024) // 32
    for pairs in matchings(1024, random.Random(1), leaf.tolist())[:PARTNERS]:
        ends = np.array(pairs)
        met = {int(leaf[other]) for ends_of in (ends, ends[:, ::-1]) for one, other in ends_of if leaf[one] == 5}
        assert len(met) <= 3  # two, and the rank that does not turn


def pair_of(everything: Visits) -> Where:
    """Its first pair."""
    one, other = int(everything.first[0]), int(everything.second[0])
    return lambda first, second: np.isin(first, (one, other)) & np.isin(second, (one, other))


def wrong_link(first: Integers, second: Integers) -> Booleans:
    """A static route takes every message to a node over the same spine: here over the bad link of switch 2."""
    leaf = PLACES.leaf
    crossing: Booleans = (leaf[first] != leaf[second]) & ((leaf[first] == 2) | (leaf[second] == 2))
    its: Booleans = crossing & (second % LEAF == 5)
    return its


def across(*group: int) -> Where:
    return lambda one, other: np.isin(one, group) != np.isin(other, group)


ALL = visits(nowhere)
GROUP, HALF = tuple(range(16, 24)), tuple(range(0, NODES, 2))
LONE, PAIR_OF_NODES = [0] * 15 + [1], [0] * 14 + [1] * 2
TREE = in_leaves(np.arange(NODES) // LEAF, tree=True)
OLD = np.isin(np.arange(NODES), range(52, 64))
KINDS = in_leaves(np.arange(NODES) // LEAF, OLD * 1)
ONE_SWITCH = in_leaves([0] * 16)


def of_old(first: Integers, second: Integers) -> Booleans:
    its: Booleans = OLD[first] | OLD[second]
    return its


def alone(slower: float, leaf: list[int], *, told: bool, bad: int = 15) -> tuple[Visits, Places, bool]:
    places = in_leaves(leaf) if told else in_leaves([-1] * 16)
    return visits(touches(bad), slower, places=places, distance=leaves_apart(leaf)), places, False


CASES: dict[str, tuple[Visits, Places, bool]] = {
    "nothing slow": (ALL, PLACES, True),
    "node 17 slow": (visits(touches(17)), PLACES, True),
    "node 17 slow, nothing known": (visits(touches(17), places=UNKNOWN), UNKNOWN, True),
    "node 17 ten times slower, nothing known": (visits(touches(17), 9.0, places=UNKNOWN), UNKNOWN, True),
    "nodes 17 and 40 slow": (visits(touches(17, 40)), PLACES, True),
    "all of switch 2 slow": (visits(touches(*GROUP)), PLACES, True),
    "switch 2 far from the others, leaves known": (visits(across(*GROUP)), PLACES, True),
    "switch 2 far from the others, tree known": (visits(across(*GROUP), places=TREE), TREE, True),
    "switch 2 far from the others, nothing known": (visits(across(*GROUP), places=UNKNOWN), UNKNOWN, True),
    "node 17 slow beyond its switch": (
        visits(lambda one, other: touches(17)(one, other) & (PLACES.leaf[one] != PLACES.leaf[other])), PLACES, False,
    ),
    "one of five on one switch": (visits(touches(2), 0.3, places=in_leaves([0] * 5)), in_leaves([0] * 5), False),
    "two of sixteen on one switch": (visits(touches(3, 7), places=ONE_SWITCH), ONE_SWITCH, False),
    "15 nodes on a leaf and one on another, nothing known": alone(0.0, LONE, told=False),
    "15 and 1, leaves known": alone(0.0, LONE, told=True),
    "15 and 1, the one ten times slower": alone(9.0, LONE, told=True),
    "14 and 2, one of these two twice as slow": alone(1.0, PAIR_OF_NODES, told=True),
    "an older generation, kinds known": (visits(of_old, 0.3, places=KINDS), KINDS, False),
    "an older generation, taken for one kind": (visits(of_old, 0.3), PLACES, False),
    "an older generation, kinds unknown": (visits(of_old, 0.3), replace(PLACES, kinds_known=False), False),
    "an older generation, and one of it slow": (
        visits(
            touches(60), places=KINDS, distance=lambda first, second: np.where(of_old(first, second), 1.3, 1.0)
        ), KINDS, False,
    ),
    "half of the cluster": (visits(touches(*HALF)), PLACES, False),
    "a rank of a good node": (visits(touches(17), places=TWO_A_NODE), TWO_A_NODE, True),
    "wrong data of node 9": (visits(nowhere, wrong=touches(9)), PLACES, True),
    "wrong data of a link": (visits(nowhere, wrong=wrong_link), PLACES, True),
    "wrong data of one pair": (visits(nowhere, wrong=pair_of(ALL)), PLACES, True),
    "one slow pair": (visits(pair_of(ALL), 1.0), PLACES, True),
    "node 30 missing": (ALL.but(~touches(30)(ALL.first, ALL.second)), PLACES, True),
    "all missing": (ALL.but(ALL.first < 0), PLACES, True),
    "two nodes": (visits(touches(1), places=in_leaves([-1] * 2)), in_leaves([-1] * 2), False),
}  # fmt: skip


def test_parts_are_blamed_as_it_was_looked_at() -> None:
    parts = []
    for name, (launch, places, one_way) in CASES.items():
        found = judge(launch, places, one_way=one_way)
        lines = [
            f"{part.state}: {part.kind}, {part.reason or '-'}, ranks {format_cpulist(part.ranks)}"
            for part in found.parts
        ]
        lines += [f"missing: {format_cpulist(found.missing)}"] if found.missing else []
        lines += [f"a node slower by {found.seen_from:.0%} is seen"] if not lines else []
        parts.append("\n".join([f"# {name}", *lines, *["measured again"] * found.again, ""]))
        assert list(of_cluster({("host", "stream", 8): found}, names_of(len(places.node)), {}, Again()))
    check_screen(SCREENS / "check/judgements.txt", "\n".join(parts))
    assert exit_code([]) == 3


def loaded(first: Integers, second: Integers) -> Floats:
    """Links between switches that are so loaded that their pairs differ by half."""
    load = np.random.default_rng(5).lognormal(0, 0.5, (NODES, NODES))[first, second]
    return np.where(PLACES.leaf[first] == PLACES.leaf[second], 1.0, load)


def test_load_between_switches_hides_no_slow_node_and_condemns_no_good_one() -> None:
    found = judge(visits(touches(17), distance=loaded), PLACES, one_way=False)
    assert [(part.kind, part.ranks) for part in found.bad] == [("node", [17])]
    good = judge(visits(nowhere, distance=loaded), PLACES, one_way=False)
    assert not good.bad
    assert not [part for part in good.open if part.reason in ("lone", "many")], "the pairs differ more than that"


def test_load_that_rounds_bring_hides_no_slow_node() -> None:
    """All pairs that leave a switch in a round share its links, and the traffic of the rounds differs."""
    found = []
    for slow in (touches(17), nowhere):
        launch = visits(slow)
        leaf = PLACES.leaf[np.stack([launch.first, launch.second])]
        load = np.random.default_rng(7).lognormal(0, 1.5, (launch.round.max() + 1, NODES // LEAF))
        shared = np.where(leaf[0] == leaf[1], 1.0, load[launch.round, leaf].max(axis=0))
        found.append(judge(launch._replace(time_s=launch.time_s * shared), PLACES, one_way=False))
    assert [(part.kind, part.ranks) for part in found[0].bad] == [("node", [17])]
    assert not [part for part in found[1].parts if part.reason in ("neighbors", "unsure", "coarse")]
    assert found[1].seen_from < 0.1


def test_load_hides_no_slow_node_of_two_small_switches() -> None:
    """What ranks on one switch measure with each other is better known than what crosses loaded links."""
    places = in_leaves(np.repeat([0, 1], [9, 7]))
    for slow in (touches(11), nowhere):
        launch = visits(slow, 0.08, places=places)
        leaf = places.leaf[np.stack([launch.first, launch.second])]
        load = np.random.default_rng(7).lognormal(0, 1.0, launch.round.max() + 1)
        noise = np.random.default_rng(8).lognormal(0, 0.06, len(launch.time_s))
        shared = np.where(leaf[0] == leaf[1], 1.0, load[launch.round]) * noise
        found = judge(launch._replace(time_s=launch.time_s * shared), places, one_way=False)
        assert [part.ranks for part in found.bad] == ([[11]] if slow is not nowhere else [])


def test_visits_that_were_not_measured_change_nothing() -> None:
    launch = visits(touches(17))
    lost = np.random.default_rng(4).random(len(launch.time_s)) < 0.2
    with_gaps = judge(launch._replace(time_s=np.where(lost, np.nan, launch.time_s)), PLACES, one_way=False)
    assert with_gaps == judge(launch.but(~lost), PLACES, one_way=False)


def test_a_slow_node_with_wrong_data_is_named_once() -> None:
    launch = visits(touches(17))
    wrong = touches(17)(launch.first, launch.second) & (launch.repetition == 0)
    found = judge(launch._replace(wrong=wrong), PLACES, one_way=False)
    assert [(part.ranks, part.state) for part in found.parts] == [([17], "wrong")]


def test_a_slow_node_of_a_small_switch_is_not_the_switch() -> None:
    places = in_leaves(np.repeat([0, 1, 2, 3, 4], [1, 2, 3, 5, 6]))
    for bad in (3, 4, 5):
        found = judge(visits(touches(bad), 0.1, places=places), places, one_way=True)
        assert not [part for part in found.parts if part.reason == "inside"]
        assert {rank for part in found.bad for rank in part.ranks} <= {bad}


@pytest.mark.parametrize("leaves", [(3, 3, 2), (4, 3), (2, 2, 2, 2), (6, 2)])
@pytest.mark.parametrize(("slower", "one_way"), [(0.3, False), (9.0, True)])
def test_a_slow_node_hides_in_no_small_switch(leaves: tuple[int, ...], slower: float, one_way: bool) -> None:
    """Of three neighbors one is half of what the others are compared with, and a third of their partners."""
    places = in_leaves(np.repeat(range(len(leaves)), leaves))
    for bad in range(sum(leaves)):
        found = judge(visits(touches(bad), slower, places=places), places, one_way=one_way)
        assert {rank for part in found.bad for rank in part.ranks} == {bad}


@pytest.mark.parametrize(
    ("leaves", "slower", "found"),
    [
        ((2, 2), 9.0, ("slow", "far")),
        ((2, 2), 0.5, ("undecided", "lone")),
        ((3,), 0.5, ("undecided", "lone")),
        ((1, 1, 1, 1), 0.5, ("undecided", "lone")),
    ],
)
def test_a_slow_node_of_three_or_four_is_named_and_how_slow_it_is(
    leaves: tuple[int, ...], slower: float, found: tuple[str, str]
) -> None:
    """Half of all pairs, or more, are of it."""
    places = in_leaves(np.repeat(range(len(leaves)), leaves))
    for bad in range(sum(leaves)):
        judged = judge(visits(touches(bad), slower, places=places), places, one_way=True)
        assert [(part.ranks, part.state, part.reason) for part in judged.parts] == [([bad], *found)]
        assert judged.parts[0].slower == pytest.approx(slower, rel=0.1)


def test_a_node_on_another_switch_than_the_map_says_is_no_fault() -> None:
    leaf = np.arange(32) // 8
    told = leaf.copy()
    told[3] = 2
    places = in_leaves(told)
    found = judge(visits(nowhere, places=places, distance=leaves_apart(leaf)), places, one_way=False)
    assert [(part.state, part.reason, part.ranks) for part in found.parts] == [("undecided", "misplaced", [3])]


def test_nodes_of_another_kind_on_one_of_three_switches_are_no_fault() -> None:
    leaf, old = np.arange(30) // 10, np.arange(30) < 5
    places = in_leaves(leaf, old * 1)
    for bad in ((), (2,)):
        launch = visits(touches(*bad), places=places, distance=lambda one, other: 1 + 0.25 * (old[one] | old[other]))
        found = judge(launch, places, one_way=False)
        assert [(part.state, part.ranks) for part in found.parts] == [("slow", [each]) for each in bad]


def test_a_node_that_is_throttled_for_seconds_does_not_pass() -> None:
    launch = visits(nowhere)
    hot = touches(17)(launch.first, launch.second) & (launch.repetition >= 2)
    found = judge(launch._replace(time_s=launch.time_s * (1 + 0.3 * hot)), PLACES, one_way=False)
    assert [(part.state, part.ranks) for part in found.parts] == [("at times", [17])]


def test_both_directions_of_a_node_say_more_than_each() -> None:
    """A node that is 6 % slower among pairs that differ by 3 %, and one that is so when it sends."""
    apart = np.random.default_rng(3).lognormal(0, 0.03, (NODES, NODES))
    for slow, named in ((touches(17), [[17]]), (lambda first, _: first == 17, [])):
        found = judge(visits(slow, 0.06, distance=lambda one, other: apart[one, other]), PLACES, one_way=True)
        assert [part.ranks for part in found.bad] == named


def test_a_node_alone_on_one_of_three_switches_is_not_passed_over() -> None:
    places = in_leaves(np.repeat([0, 1, 2], [3, 2, 1]))
    for slower, state in ((0.5, "undecided"), (9.0, "slow")):
        found = judge(visits(touches(5), slower, places=places), places, one_way=False)
        assert [(part.ranks, part.state) for part in found.parts if 5 in part.ranks] == [([5], state)]


def test_a_disturbance_beside_a_slow_node_condemns_no_good_one() -> None:
    """Together they are most of a repetition, of which the other pairs then look faster than they are."""
    places = Places(np.arange(32) // 4, np.zeros((32, 1), int), np.zeros(32, int))
    launch = visits(touches(*range(4)), 9.0, places=places)
    hit = (launch.repetition == 1) & (launch.round < 24)
    found = judge(launch._replace(time_s=launch.time_s * (1 + 2 * hit)), places, one_way=True)
    assert [part.ranks for part in found.parts] == [[0, 1, 2, 3]]
    assert found.parts[0].slower == pytest.approx(9, rel=0.05)


def test_single_visits_condemn_nobody() -> None:
    """A launch that ends early has visited each pair once: nothing says how much visits differ."""
    places = in_leaves(np.repeat([0, 1, 2], [3, 3, 2]))
    for seed in range(40):
        launch = visits(nowhere, places=places)
        once = launch.but(launch.repetition == 0)
        noise = np.random.default_rng(seed).lognormal(0, 0.05, len(once.time_s))
        assert not judge(once._replace(time_s=once.time_s * noise), places, one_way=True).bad


def test_what_was_skipped_says_why() -> None:
    reasons = {("aware", "pingpong", 8): "ranks 0 and 2 are on one GPU: --share-gpu allows that"}
    judged = {("aware", "pingpong", 8): Judgement([], [0, 2])}
    (finding,) = of_cluster(judged, names_of(3), reasons, Again())
    assert (finding.status, finding.said) == ("UNDECIDED", "not measured: ranks 0 and 2 are on one GPU")
    late, in_part = {("aware", "pingpong", 8): OUT_OF_TIME}, Judgement([], [0, 2], partners=1)
    (finding,) = of_cluster({("aware", "pingpong", 8): in_part}, names_of(3), late, Again(longer_s=180))
    assert finding.said == f"not measured, or too rarely: {OUT_OF_TIME}"
    assert finding.remedy == "volley check --budget 180"


def test_where_no_node_could_be_found_no_slowdown_is_named() -> None:
    judged = judge(visits(touches(1, 2), places=in_leaves([0] * 5)), in_leaves([0] * 5), one_way=True)
    assert judged.seen_from == math.inf
    hosts = Names([msgspec.structs.replace(each, host=f"cn{each.rank}") for each in ranks(5)], ClusterMap())
    (finding,) = of_cluster({("host", "stream", 8): judged}, hosts, {}, Again())
    assert finding.said == "the pairs differ so much that no slow node would have been found"


def test_two_nodes_are_told_what_to_type_for_four() -> None:
    judged = {("host", "pingpong", 8): Judgement([ClusterPart("group", "undecided", [0, 1], "few")])}
    hosts = Names([msgspec.structs.replace(each, host=f"cn{each.rank}") for each in ranks(2)], ClusterMap())
    (finding,) = of_cluster(judged, hosts, {}, Again([["--hosts", "cn0,cn1"], ["--ranks", "2"], ["--one-switch"]]))
    assert finding.remedy == "four nodes or more: volley check --one-switch --hosts A,B,C,D"


@pytest.mark.parametrize("slower", [0.1, 1.0])
def test_a_node_that_is_slow_at_times(slower: float) -> None:
    """One visit in twenty takes 10 % longer, or twice as long."""
    dice = np.random.default_rng(3)
    now_and_then = visits(lambda one, other: touches(17)(one, other) & (dice.random(len(one)) < 0.05), slower)
    judged = judge(now_and_then, PLACES, one_way=False)
    assert [(part.kind, part.ranks, part.state) for part in judged.bad] == [("node", [17], "at times")]
    several = Names([msgspec.structs.replace(each, host=f"cn{each.rank}") for each in ranks(NODES)], ClusterMap())
    (finding,) = of_cluster({("host", "pingpong", 8): judged}, several, {}, Again())
    assert finding.said.startswith(f"at times {slower * 10:.0f}")
    assert (finding.nodes, finding.drain) == (("cn17",), True)


def test_cores_of_a_node_differ_in_what_the_system_does_on_them() -> None:
    """Where ranks share a node a rank is slow at times by much longer visits only."""
    dice = np.random.default_rng(3)
    for slower, found in ((0.1, []), (1.0, [17])):
        now_and_then = visits(lambda one, other: touches(17)(one, other) & (dice.random(len(one)) < 0.1), slower)
        judged = judge(now_and_then, PLACES, one_way=False, shared_nodes=True)
        assert [rank for part in judged.bad for rank in part.ranks] == found


def test_the_records_of_a_cluster() -> None:
    log = matrix_log(4, rows(4))
    judged = cluster.Measured(ClusterMap(), 60.0).judgements([log])
    found = list(of_cluster(judged, Names(log.run.ranks, ClusterMap()), {}, Again()))
    assert [each.layer for each in found] == ["latency, 8 B, host"]
    assert found[0].status == "UNDECIDED", "three visits of a rank say too little"


def test_each_launch_is_read_and_judged_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """What decides whether there is a further launch is the judgement that is shown if there is none."""
    judged: list[int] = []

    def counted(visits: Visits, places: Places, **more: bool) -> Judgement:
        judged.append(len(visits.first))
        return judge(visits, places, one_way=more["one_way"])

    monkeypatch.setattr(cluster, "judge", counted)
    measured = cluster.Measured(ClusterMap(), 60.0)
    logs = [matrix_log(4, rows(4))]
    measured.next_job(logs, math.inf)
    assert measured.judgements(logs)
    assert judged == [12]
    assert not logs[0].records
    logs.append(matrix_log(4, rows(4, slow={(0, 2): 2.0})))
    once = measured.judgements(logs)
    assert judged == [12, 24]
    both = [matrix_log(4, rows(4)), matrix_log(4, rows(4, slow={(0, 2): 2.0}))]
    assert once == cluster.Measured(ClusterMap(), 60.0).judgements(both)


def test_rows_with_wrong_data_stay_in_the_log() -> None:
    wrong = rows(4)
    wrong[1] = edited(wrong[1], failed=dict.fromkeys((0, 2, 3), "one bit differs"))
    log = matrix_log(4, wrong)
    (judged,) = cluster.Measured(ClusterMap(), 60.0).judgements([log]).values()
    assert [(part.kind, part.ranks) for part in judged.bad] == [("node", [1])]
    assert [row.rank for row in log.records] == [1]


YAML = {"root": "children: s[1-2]", "s1": "nodes: a", "s2": "nodes: b"}


@pytest.mark.parametrize(
    ("text", "paths"),
    [
        (
            "# two\nSwitchName=s1 Nodes=cn[01-02],login\nswitchname=s2 nodes=cn03\nSwitchName=top Switches=s[1-2]\n",
            {"cn01": ("s1", "top"), "cn02": ("s1", "top"), "login": ("s1", "top"), "cn03": ("s2", "top")},
        ),
        (  # scontrol show topology: a switch of a higher level has the nodes, too
            "SwitchName=s0 Level=0 LinkSpeed=1 Nodes=a,b\nSwitchName=s1 Level=1 LinkSpeed=1 Nodes=a,b Switches=s0\n",
            {"a": ("s0", "s1"), "b": ("s0", "s1")},
        ),
        ("BlockName=b1 BlockIndex=0 Nodes=a[1-2] BlockSize=2\n", {"a1": ("b1",), "a2": ("b1",)}),
        (  # scontrol show topology: blocks of two levels above the lowest
            "".join(f"BlockName=b{block} BlockIndex={block} Nodes=a{block} BlockSize=1\n" for block in range(4))
            + "AggregatedBlock=b[0-1] BlockIndex=4 Nodes=a[0-1] BlockSize=2\n"
            + "AggregatedBlock=b[2-3] BlockIndex=5 Nodes=a[2-3] BlockSize=2\n"
            + "AggregatedBlock=b[0-3] BlockIndex=6 Nodes=a[0-3] BlockSize=4\n",
            {f"a{node}": (f"b{node}", "b0-b1" if node < 2 else "b2-b3", "b0-b3") for node in range(4)},
        ),
        (
            "---\n- topology: one\n  flat: true\n- topology: two\n  cluster_default: true\n  tree:\n"
            + "".join(f"  - switch: {name}\n    {of}\n" for name, of in YAML.items()),
            {"a": ("s1", "root"), "b": ("s2", "root")},
        ),
        ("# names\na[1-2] x top\nb y top\n", {"a1": ("x", "top"), "a2": ("x", "top"), "b": ("y", "top")}),
        (  # a leaf of its own right under the root
            "SwitchName=x Nodes=a\nSwitchName=y Nodes=b\nSwitchName=m Switches=y\nSwitchName=r Switches=x,m\n",
            {"a": ("x", "x", "r"), "b": ("y", "m", "r")},
        ),
    ],
)  # fmt: skip
def test_switches_of_nodes(text: str, paths: dict[str, tuple[str, ...]]) -> None:
    assert cluster_map.parsed(text).path_of == paths


def test_a_map_that_says_nothing_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "topology.conf"
    for data in (b"SwitchName=top Switches=s[1-2]\n", b"", b"\x7fELF\x00 a b\n\xff"):
        file.write_bytes(data)
        with pytest.raises(UserError, match="names no node and its switch"):
            cluster_map.of_file(file)


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        (
            "SwitchName=s Nodes=a\n\nSwitchName=t Switches=s\nSwitchName=s Switches=t\n",
            4,
            "the switch t is above itself",
        ),
        ("SwitchName=s Switches=s\n", 1, "the switch s is above itself"),
        ("# a\nSwitchName=s \\\n Nodes=a\nSwitchName=t Nodes=b[1-\n", 4, "'b[1-' is not a host list"),
        ("SwitchName= Nodes=a\n", 1, "a switch has no name"),
        ("SwitchName=s Nodes=a\nSwitchName=t Nodes=a\n", 2, "the node a is on s, too"),
        ("---\n- topology: one\n  tree:\n  - switch: s\n    nodes: a[1\n", 5, "'a[1' is not a host list"),
        ("---\n- topology: one\n  tree:\n  - switch:\n    nodes: a\n", 5, "a switch has no name"),
        ("a x top\n\nb\n", 3, "'b' is no node with its switches; it may be: "),
        ("a x top\na y top\n", 2, "the node a is on x, too"),
        ("a" * 10_000_000, 1, "aaa…' is no node with its switches; it may be: "),
        ("SwitchName=s Nodes=" + "a," * 100_000 + "b[", 1, ",a…' is not a host list"),
    ],
)
def test_a_wrong_map_is_refused_with_its_line(text: str, line: int, said: str, tmp_path: Path) -> None:
    file = tmp_path / "topology.conf"
    file.write_text(text)
    with pytest.raises(UserError) as refused:
        cluster_map.of_file(file)
    message = str(refused.value)
    assert message.startswith(f"--switches {file}: line {line}: ")
    assert said in message
    assert len(message) < 500 + len(str(file))


def test_names_are_those_of_the_map() -> None:
    where = ClusterMap({"cn1": ("s1",)})
    names = Names([msgspec.structs.replace(each, host=f"cn{each.rank + 1}.site.org") for each in ranks(2)], where)
    assert [names.node(0), names.switch(0), names.node(1), names.switch(1)] == ["cn1", "s1", "cn2.site.org", ""]


def test_the_page_begins_with_what_the_screen_shows(here: Callable[..., Finished]) -> None:
    page = (ROOT / "docs" / "check.md").read_text("utf-8")
    leaves = ClusterMap({f"cn{node + 1:03}": (f"leaf{node // LEAF + 1}",) for node in range(NODES)})
    for slow, places, where in (
        (nowhere, PLACES, leaves),
        (touches(16), PLACES, leaves),
        (touches(30), UNKNOWN, ClusterMap()),
    ):
        hosts = [msgspec.structs.replace(each, host=f"cn{each.rank + 1:03}") for each in ranks(NODES)]
        judged = {
            ("host", "pingpong", 8): judge(visits(nowhere, places=places), places, one_way=False),
            ("host", "stream", 1 << 20): judge(visits(slow, 0.11, places=places), places, one_way=True),
        }
        out = io.StringIO()
        formats.render(in_order([*of_cluster(judged, Names(hosts, where), {}, Again())]), "table", out)
        assert out.getvalue() in page
    done = here("check", "--from", str(ROOT / "results" / "two-cores" / "check.jsonl.gz"))
    assert done.out in page
