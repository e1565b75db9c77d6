from __future__ import annotations

import io
import json
import math
import random
import xml.etree.ElementTree as ET
from collections.abc import Callable, Sequence
from itertools import permutations
from pathlib import Path

import msgspec
import numpy as np
import pytest

import gpu_records
from example_records import edited, matrix_log, ranks, rows
from fake_about import ABOUT_FAKE
from screens import SCREENS, check_screen
from the_command import Command
from volley import benchmarks, references
from volley.benchmarks import BENCHMARKS
from volley.benchmarks.matrix import GPUS
from volley.benchmarks.matrix.rounds import PARTNERS, matchings
from volley.benchmarks.pair.results import PingPong
from volley.check import cluster, findings, inventory, limits, machine
from volley.check.cluster import repeats_of
from volley.check.evidence import Judgement, Places, Visits
from volley.check.findings import CheckFinding, of_cluster
from volley.check.judgement import judge
from volley.check.limits import Limits
from volley.check.options import CheckOptions
from volley.check.places import Names
from volley.errors import UserError
from volley.launch import cluster_map
from volley.launch.cluster_map import ClusterMap
from volley.machine.finding import exit_code, in_order
from volley.machine.inventory import Inventory, Seen
from volley.records.records_file import read_runs
from volley.records.run_log import RunLog
from volley.references.equal_machines import measured
from volley.run.jobs import JobContext
from volley.statistics.estimates import median
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
        assert list(of_cluster({("host", "stream", 8): found}, names_of(len(places.node)), {}))
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


def test_a_node_alone_on_one_of_three_switches_is_not_passed_over() -> None:
    places = in_leaves(np.repeat([0, 1, 2], [3, 2, 1]))
    for slower, state in ((0.5, "undecided"), (9.0, "slow")):
        found = judge(visits(touches(5), slower, places=places), places, one_way=False)
        assert [(part.ranks, part.state) for part in found.parts if 5 in part.ranks] == [([5], state)]


def test_single_visits_condemn_nobody() -> None:
    """A launch that ends early has visited each pair once: nothing says how much visits differ."""
    places = in_leaves(np.repeat([0, 1, 2], [3, 3, 2]))
    for seed in range(40):
        launch = visits(nowhere, places=places)
        once = launch.but(launch.repetition == 0)
        noise = np.random.default_rng(seed).lognormal(0, 0.05, len(once.time_s))
        assert not judge(once._replace(time_s=once.time_s * noise), places, one_way=True).bad


def test_the_ranks_of_one_machine_are_its_cores_or_its_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("volley.check.cluster.gpu_count", lambda: 3)
    monkeypatch.setattr("volley.check.cluster.cores", lambda: 40)
    assert cluster.ranks_and_transports(CheckOptions(), JobContext(ABOUT_FAKE))[0] == 16
    on_gpus = CheckOptions(transport=("staged/pinned+flip",))
    assert cluster.ranks_and_transports(on_gpus, JobContext(ABOUT_FAKE))[0] == 3


def test_what_was_skipped_says_why() -> None:
    reasons = {("aware", "pingpong", 8): "ranks 0 and 2 are on one GPU: --share-gpu allows that"}
    judged = {("aware", "pingpong", 8): Judgement([], [0, 2])}
    (finding,) = of_cluster(judged, names_of(3), reasons)
    assert (finding.status, finding.said) == ("UNDECIDED", "not measured: ranks 0 and 2 are on one GPU")


@pytest.mark.parametrize("slower", [0.1, 1.0])
def test_a_node_that_is_slow_at_times(slower: float) -> None:
    """One visit in twenty takes 10 % longer, or twice as long."""
    dice = np.random.default_rng(3)
    now_and_then = visits(lambda one, other: touches(17)(one, other) & (dice.random(len(one)) < 0.05), slower)
    judged = judge(now_and_then, PLACES, one_way=False)
    assert [(part.kind, part.ranks, part.state) for part in judged.bad] == [("node", [17], "at times")]
    several = Names([msgspec.structs.replace(each, host=f"cn{each.rank}") for each in ranks(NODES)], ClusterMap())
    (finding,) = of_cluster({("host", "pingpong", 8): judged}, several)
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
    assert log.run is not None
    found = list(of_cluster(judged, Names(log.run.ranks, ClusterMap())))
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
        ("SwitchName=s Nodes=a\nSwitchName=t Switches=s\nSwitchName=s Switches=t\n", {}),  # a loop: s is no leaf
    ],
)  # fmt: skip
def test_switches_of_nodes(text: str, paths: dict[str, tuple[str, ...]]) -> None:
    assert cluster_map.parsed(text).path_of == paths


def test_a_map_that_says_nothing_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "topology.conf"
    for text in ("SwitchName=top Switches=s[1-2]\n", ""):
        file.write_text(text)
        with pytest.raises(UserError, match="names no node and its switch"):
            cluster_map.of_file(file)


def test_names_are_those_of_the_map() -> None:
    where = ClusterMap({"cn1": ("s1",)})
    names = Names([msgspec.structs.replace(each, host=f"cn{each.rank + 1}.site.org") for each in ranks(2)], where)
    assert [names.node(0), names.switch(0), names.node(1), names.switch(1)] == ["cn1", "s1", "cn2.site.org", ""]


THIS = limits.Machine(cpu="EPYC", gpus=("H100", "H100"), ranks=16)


def test_limits_are_learned(tmp_path: Path) -> None:
    file = tmp_path / "limits.json"
    with pytest.raises(UserError, match="--learn makes it"):
        limits.read_limits(file)
    dice = random.Random(1)
    for number in range(1, limits.FEWEST + 1):
        said = limits.learn(file, f"cn{number}", THIS, {"pingpong: host, 8 B": [dice.gauss(1e-6, 1e-8)]})
    assert "5 checks of 5 nodes" in said
    assert "they find what is slower by" in said
    known = limits.read_limits(file)
    limit = known.of(THIS).limit_s("pingpong: host, 8 B", 1)
    assert limit is not None
    assert 1e-6 < limit[0] < 1.2e-6
    assert known.of(msgspec.structs.replace(THIS, gpus=("H100",))).limit_s("pingpong: host, 8 B", 1) is None


@pytest.mark.parametrize("bad", [1.3, 3.0, 100.0])
def test_one_bad_check_of_five_changes_a_limit_little(bad: float) -> None:
    good = [1.0, 1.01, 0.99, 1.005]
    with_bad, without = limits.limit_s([*good, bad], 1), limits.limit_s([*good, 1.0], 1)
    assert with_bad is not None
    assert without is not None
    assert with_bad[0] < 1.05 * without[0]


def test_a_limit_far_above_the_usual_judges_nothing() -> None:
    checks = [limits.Checked(host="a", machine=THIS, seconds={"x": each}) for each in (1.0, 2.0, 5.0, 9.0, 300.0)]
    found = limits.by_limits("all", {"x": [1.0]}, Limits(checks=checks), 1)
    assert (found.status, "times the usual" in found.said) == ("UNDECIDED", True)


def test_what_is_missing_fails() -> None:
    checks = [limits.Checked(host="a", machine=THIS, seconds={"x": 1.0, "aware": 1.0})] * 5
    one_gpu = msgspec.structs.replace(THIS, gpus=("H100",))
    assert [each.said for each in limits.missing(one_gpu, ["x"], Limits(checks=checks))] == [
        "1 GPU of 2 that the good nodes with this processor have"
    ]
    (found,) = limits.missing(THIS, ["x"], Limits(checks=checks))
    assert (found.status, found.part) == ("FAIL", "aware")
    assert not list(limits.missing(THIS, ["x", "aware+delay"], Limits(checks=checks)))
    (found,) = limits.missing(msgspec.structs.replace(THIS, cpu="Xeon"), ["x"], Limits(checks=checks))
    assert (found.status, "other machines" in found.said) == ("UNDECIDED", True)


def test_limits_of_another_number_of_ranks_judge_only_what_does_not_depend_on_it() -> None:
    seconds = {"pingpong: host, 8 B": 1.0, f"pingpong {cluster.TOGETHER} 16 ranks: host, 8 B": 1.0}
    known = Limits(checks=[limits.Checked(host="a", machine=THIS, seconds=seconds)] * limits.FEWEST)
    two = msgspec.structs.replace(THIS, ranks=2)
    assert not list(limits.missing(two, ["pingpong: host, 8 B"], known))
    assert [each.part for each in limits.missing(THIS, ["pingpong: host, 8 B"], known)] == [[*seconds][1]]
    together = {f"pingpong {cluster.TOGETHER} 2 ranks: host, 8 B": [9.0]}
    found = limits.by_limits("all ranks", together, known.of(two), 1, ranks=2)
    assert (found.status, "16 ranks together, and this check has 2" in found.said) == ("NOT JUDGED", True)
    (first, *_) = seconds
    assert limits.by_limits("host", {first: [9.0]}, known.of(two), 1).status == "FAIL"


def test_an_inventory() -> None:
    asked = Inventory(
        nodes="cn[1-3]", cpu="EPYC", gpus=2, gpu="H100", nvlinks=18, nics=("mlx5_0",), memory_bytes=1 << 30
    )
    whole = Seen(node="cn1", cpu="EPYC", gpus=["H100"] * 2, nvlinks=[18, 18], nics=("mlx5_0",), memory_bytes=2 << 30)
    (found,) = inventory.by_inventory(
        msgspec.structs.replace(asked, nodes=""), [msgspec.structs.replace(whole, nics=[])]
    )
    assert (found.status, found.said, found.nodes) == ("FAIL", "no NIC mlx5_0", ("cn1",))
    poor = Seen(node="cn2", cpu="Xeon", gpus=["A100"], nvlinks=[17], nics=("mlx5_0",), memory_bytes=1 << 29)
    assert [each.said for each in inventory.by_inventory(asked, [whole, poor])] == [
        "no rank ran there", "its processor is Xeon, not EPYC", "1 GPU of 2", "GPUs are A100, not H100",
        "GPU 0: 17 of 18 NVLinks active", "0 of 1 GiB of memory",
    ]  # fmt: skip
    assert "do not contain" in [*inventory.by_inventory(asked, [Seen(node="cn1", cpu="EPYC")])][-1].said
    (found,) = inventory.by_inventory(msgspec.structs.replace(asked, nodes="cn1"), [whole])
    assert (found.status, found.evidence) == ("PASS", "inventory")
    assert found.said == "all is there: 1 node, processor, GPUs, kind of GPU, NVLinks, NICs and memory"
    none = Inventory(gpus=0)
    verdicts = [
        next(inventory.by_inventory(none, [each])).status for each in (whole, msgspec.structs.replace(whole, gpus=[]))
    ]
    assert verdicts == ["FAIL", "PASS"]


def test_how_often_a_good_node_is_above_a_limit() -> None:
    good = np.random.default_rng(1).lognormal(0, 0.03, (4000, 8))
    above = [float(row[-1]) > (limits.limit_s(row[:-1].tolist(), 1) or (0.0,))[0] for row in good]
    assert 0.2 * limits.FALSE_ALARM < np.mean(above) < 2 * limits.FALSE_ALARM


def gpu_log() -> RunLog:
    (log,) = read_runs(ROOT / "results" / "h200-x2" / "matrix.jsonl", BENCHMARKS)
    return log


def judged_gpus(*logs: RunLog) -> list[CheckFinding]:
    found = [*machine.judge(machine.Layer("GPUs", ("matrix",)), GPUS, logs, None, 1), *machine.states(logs)]
    return [each for each in found if (each.status, each.evidence) != ("PASS", "link state")]


def test_gpus_are_as_fast_as_the_published_ones() -> None:
    assert [(each.status, each.evidence) for each in judged_gpus(gpu_log())] == [("PASS", "reference")]


@pytest.mark.parametrize(
    ("gpus", "slow", "findings"),
    [
        (8, [(3, 1.5)], [("FAIL", "GPU 3"), ("FAIL", "GPUs 5 → 6")]),
        (4, [(3, 1.5)], [("FAIL", "GPU 3")]),  # half of the pairs are slow
        (3, [(2, 1.5)], [("UNDECIDED", "")]),
        (4, [], [("PASS", "")]),
    ],
)
def test_a_slow_gpu_is_one_finding_and_not_one_a_pair(
    gpus: int, slow: list[tuple[int, float]], findings: list[tuple[str, str]]
) -> None:
    times = {pair: ratio for gpu, ratio in slow for pair in permutations(range(gpus), 2) if gpu in pair}
    times |= {(5, 6): 2.0} if gpus > 6 else {}
    devices = [gpu_records.device(number) for number in range(gpus)]
    log = gpu_records.log(gpus, ["uni"], changed={"uni": gpu_records.rows("uni", devices, slow=times)})
    assert [(each.status, each.part) for each in judged_gpus(*[log] * machine.TIMES)] == findings
    assert [each.status for each in judged_gpus(log)][:1] != ["PASS"]  # too few visits


def test_a_gpu_that_works_for_another_program_is_found() -> None:
    """Records of two H100s, one of which multiplied matrices meanwhile."""
    logs = read_runs(ROOT / "results" / "h100-x2" / "check-loaded.jsonl.gz", BENCHMARKS)
    found = judged_gpus(*(log for log in logs if log.run and log.run.plan.benchmark == "gpu_matrix"))
    assert ("FAIL", "GPU 1", "link state") in [(each.status, each.part, each.evidence) for each in found]
    (slow,) = (each for each in found if each.evidence == "reference")
    assert slow.status == "UNDECIDED"
    assert "SM write, 1 → 1" in slow.said


@pytest.mark.parametrize(("lanes", "verdict"), [(16, "PASS"), (32, "UNDECIDED")])
def test_links_are_judged_where_nothing_else_can(lanes: int, verdict: str) -> None:
    """GPUs of which no reference is known; and links that could carry twice as much as the copies show."""
    kept = read_runs(ROOT / "results" / "h100-x2" / "check.jsonl.gz", BENCHMARKS)
    logs = [log for log in kept if log.run and log.run.plan.benchmark == "gpu_matrix"]
    changes = {"name": "NVIDIA X", "pcie_width": lanes, "pcie_width_max": lanes}
    for log in logs:
        for place, hardware in enumerate(log.hardware):
            gpus = [msgspec.structs.replace(gpu, **changes) for gpu in hardware.gpus]
            log.hardware[place] = msgspec.structs.replace(hardware, gpus=gpus)
    (found,) = judged_gpus(*logs)
    assert (found.status, found.evidence) == (verdict, "line rate")
    assert ("host → 0" in found.said) == (lanes == 32)


def test_a_gpu_with_a_program_of_somebody_else_does_not_pass() -> None:
    log = gpu_log()
    first, *others = log.hardware[0].gpus
    log.hardware[0] = msgspec.structs.replace(
        log.hardware[0], gpus=[msgspec.structs.replace(first, processes=1), *others]
    )
    assert ("UNDECIDED", "another program computes on it") in [(each.status, each.said) for each in judged_gpus(log)]


def test_the_users_own_reference(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with the same GPUs and processors; where another one is, nothing is compared."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    references.add("good-node", str(ROOT / "results" / "h200-x2" / "matrix.jsonl"), BENCHMARKS)
    (finding,) = judged_gpus(gpu_log())
    assert (finding.status, finding.evidence) == ("PASS", "reference")
    assert finding.said.startswith("as fast as good-node")
    other = gpu_log()
    assert other.run is not None
    other.run = msgspec.structs.replace(other.run, ranks=[])
    assert "good-node" not in judged_gpus(other)[0].said


def test_clocks_that_are_held_down() -> None:
    once = ", before or after the measurement only"
    for places, verdict, missing in (((0, 1), "FAIL", ""), ((1,), "UNDECIDED", once)):
        log = gpu_log()
        for place in places:
            first, *others = log.hardware[place].gpus
            gpus = [msgspec.structs.replace(first, clocks_event_reasons=["idle", "hardware thermal slowdown"]), *others]
            log.hardware[place] = msgspec.structs.replace(log.hardware[place], gpus=gpus)
        (found,) = (each for each in judged_gpus(log) if each.evidence == "link state")
        assert (found.status, found.said) == (verdict, "clocks: hardware thermal slowdown" + missing)


def test_a_link_that_is_down_and_errors_during_the_check() -> None:
    log = gpu_log()
    for place, changes in enumerate(
        (
            {"pcie_replays": 1},
            {"pcie_replays": 2, "nvlinks_inactive": 2, "pcie_width": 8, "pcie_width_max": 16},
        )
    ):
        first, *others = log.hardware[place].gpus
        gpus = [msgspec.structs.replace(first, **changes), *others]
        log.hardware[place] = msgspec.structs.replace(log.hardware[place], gpus=gpus)
    found = [each for each in judged_gpus(log) if each.evidence == "link state"]
    assert [each.status for each in found] == ["FAIL", "FAIL", "UNDECIDED"]
    assert found[0].said.startswith("NVLink: 2 of 20 down")


@pytest.mark.parametrize(("errors", "verdicts"), [(99, []), (101, ["UNDECIDED"])])
def test_corrected_errors_are_judged_by_their_rate(errors: int, verdicts: list[str]) -> None:
    log = gpu_log()
    assert log.end
    log.end = msgspec.structs.replace(log.end, elapsed_s=2.0)
    for place, count in enumerate((3, 3 + 2 * errors)):
        first, *others = log.hardware[place].gpus
        gpus = [msgspec.structs.replace(first, nvlink_errors={"CRC of data": count}), *others]
        log.hardware[place] = msgspec.structs.replace(log.hardware[place], gpus=gpus)
    assert [each.status for each in judged_gpus(log) if each.evidence == "link state"] == verdicts


def test_links_that_a_bridge_leaves_free_are_no_fault() -> None:
    log = gpu_log()
    for place, hardware in enumerate(log.hardware):
        changed = [msgspec.structs.replace(gpu, name="NVIDIA H100 NVL", nvlinks_inactive=6) for gpu in hardware.gpus]
        log.hardware[place] = msgspec.structs.replace(hardware, gpus=changed)
    assert not [each for each in judged_gpus(log) if each.evidence == "link state"]


def good_checks(seconds: dict[str, list[float]]) -> Limits:
    """Limits of which each time was measured in as many checks."""
    columns = zip(*seconds.values(), strict=True)
    checks = [dict(zip(seconds, column, strict=True)) for column in columns]
    return Limits(checks=[limits.Checked(host="a", machine=THIS, seconds=each) for each in checks])


def test_times_above_the_limits_fail() -> None:
    log = gpu_log()
    layer = machine.Layer("GPUs", ("matrix",))
    times = measured(GPUS, [log])
    for factor, verdict in ((1.0, "PASS"), (0.5, "FAIL")):
        spread = [factor * (1 + number / 100) for number in range(6)]
        known = good_checks({name: [seconds[0] * each for each in spread] for name, seconds in times.items()})
        assert [each.status for each in machine.judge(layer, GPUS, [log], known, 1)] == [verdict]
    known = Limits(checks=[])
    assert [each.status for each in machine.judge(layer, GPUS, [log], known, 1)] == ["UNDECIDED"]


def test_a_faulty_transport_is_judged_by_what_is_known_of_the_good_one() -> None:
    """MPI between two H100s: as it was recorded, and with the 0.2 ms a message that the fault ``delay`` adds."""
    (layer,) = (each for each in machine.layers(2, ("host+flip", "aware+delay")) if "aware+delay" in each.words)
    benchmark, _ = benchmarks.read(layer.words)
    recorded = read_runs(ROOT / "results" / "h100-x2" / "check.jsonl.gz", BENCHMARKS)
    logs = [log for log in recorded if log.run and log.run.plan.transports == ["aware"]]
    good_s = {name: median(seconds) for name, seconds in measured(benchmark, logs).items()}
    known = good_checks({name: [each * 1.02**n for n in range(-2, 3)] for name, each in good_s.items()})

    def judged(known: Limits | None) -> list[tuple[str, str]]:
        return [(each.status, each.evidence) for each in machine.judge(layer, benchmark, logs, known, 20)]

    assert (judged(None), judged(known)) == ([("PASS", "reference")], [("PASS", "limits")])
    for log in logs:
        log.records = [
            msgspec.structs.replace(point, transport="aware+delay", times_s=[each + 2e-4 for each in point.times_s])
            for point in log.of(PingPong)
        ]
    assert (judged(None), judged(known)) == ([("UNDECIDED", "reference")], [("FAIL", "limits")])


FINDINGS = in_order([
    CheckFinding(status="PASS", layer="bandwidth", said="all of them are equal", evidence="population"),
    CheckFinding(status="FAIL", layer='latency "8 B"', part="node cn3", said="12 % <", nodes=("cn3",), drain=True),
    CheckFinding(status="NOT JUDGED", layer="allreduce", said="1 point correct; nothing to compare its speed with"),
    CheckFinding(status="UNDECIDED", layer="latency", part="node cn4", said="perhaps", remedy="a longer --budget"),
])  # fmt: skip


def test_formats_are_those_that_were_looked_at() -> None:
    parts = []
    for name in ("table", "json", "junit", "prometheus"):
        out = io.StringIO()
        findings.render(FINDINGS, name, out)
        parts.append(f"$ volley check -f {name}\n{out.getvalue()}[{exit_code(FINDINGS)}]\n")
        assert name != "json" or json.loads(out.getvalue())["findings"]
        assert name != "junit" or ET.fromstring(out.getvalue()).get("tests") == "4"
    check_screen(SCREENS / "check/formats.txt", "\n".join(parts))


def test_the_page_begins_with_what_the_screen_shows(volley: Command) -> None:
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
        findings.render(in_order([*of_cluster(judged, Names(hosts, where))]), "table", out)
        assert out.getvalue() in page
    done = volley("check", "--from", str(ROOT / "results" / "two-cores" / "check.jsonl.gz"))
    assert done.out in page


def test_a_command_stands_on_one_line() -> None:
    command = "volley pingpong " + " ".join(f"--option-{number} value" for number in range(20))
    out = io.StringIO()
    finding = CheckFinding(status="UNDECIDED", layer="x", said="y", remedy=f"limits, or {command}")
    findings.render([finding], "table", out)
    assert any(line.endswith(command) for line in out.getvalue().splitlines())


def bad_nodes(number: int, layers: int = 2) -> list[CheckFinding]:
    """Findings of so many nodes in each layer, with long sentences, and what is undecided and passed."""
    long = "slower than the other nodes, " * 8
    names = [f"layer {layer}" for layer in range(layers)]
    found = [
        CheckFinding(status="FAIL", layer=layer, part=f"node cn{node:05}", said=long, nodes=(f"cn{node:05}",))
        for layer in names
        for node in range(number)
    ]
    found += [CheckFinding(status="UNDECIDED", layer=each, said=long, remedy=long) for each in names]
    return in_order([*found, FINDINGS[-1]])


@pytest.mark.parametrize(("number", "layers"), [(1, 2), (20, 2), (16_384, 2), (300, 9), (2, 100)])
def test_the_screen_of_many_nodes_is_short_and_has_each_verdict(number: int, layers: int) -> None:
    found = bad_nodes(number, layers)
    out = io.StringIO()
    findings.render(found, "table", out)
    lines = out.getvalue().splitlines()
    assert len(lines) <= 60
    assert max(map(len, lines)) <= findings.WIDTH
    assert lines[1].startswith("FAIL         node cn00000: layer 0")
    if layers > 9:  # more than the screen has lines
        return
    assert {line.split()[0] for line in lines if line[0] not in " -"} >= {"FAIL", "UNDECIDED", "PASS"}
    for layer in range(layers):
        its = [line for line in lines if line.startswith("FAIL ") and f": layer {layer}: " in line]
        counted = [line.split()[1].rstrip(":") for line in its]
        assert sum(int(number) if number.isdigit() else 1 for number in counted) == number
    assert (lines[-1] == f"--format json has all {len(found)} findings") == (number * layers > 10)


@pytest.mark.slow
def test_a_check_of_one_machine(volley: Command, tmp_path: Path) -> None:
    """Without limits a virtual machine passes by what is published of equal cores, or is not judged."""
    file = tmp_path / "limits.json"
    words = ("check", "--format", "json", "--ranks", "2", "-o", str(tmp_path / "records.jsonl"), "--force")
    words = (*words, "--budget", "20", "--expect", str(file))
    done = volley(*words, "--learn")
    found = json.loads(done.out)["findings"]
    assert done.code == 0, done.err
    assert {each["verdict"] for each in found} <= {"PASS", "NOT JUDGED"}
    (learned,) = limits.read_limits(file).checks
    assert "pingpong among all 2 ranks: host, 8 B" in learned.seconds
    factors = (0.8, 0.9, 1, 1.1, 1.2)
    wide = [{name: each * factor for name, each in learned.seconds.items()} for factor in factors]
    checks = [msgspec.structs.replace(learned, seconds=each) for each in wide]
    file.write_bytes(msgspec.json.encode(Limits(checks=checks)))
    again = ("check", "--format", "json", "--from", str(tmp_path / "records.jsonl"), "--expect", str(file))
    done = volley(*again)
    assert done.code in (0, 4), done.err  # 4: the limits are wide
    assert {each["yardstick"] for each in json.loads(done.out)["findings"]} == {"limits"}


def test_limits_of_one_machine_are_not_those_of_many(volley: Command) -> None:
    done = volley("check", "--hosts", "a,b", "--expect", "new.json", "--learn")
    assert done.code == 2
    assert "--expect has limits of one machine" in done.err


def test_a_node_without_a_rank_does_not_pass(volley: Command, tmp_path: Path) -> None:
    """The launcher put both ranks on one of the two hosts."""
    done = volley("check", "--hosts", "localhost,127.0.0.1", "--budget", "5", "-o", str(tmp_path / "r.jsonl"))
    assert done.code == 4, done.err
    assert "the ranks were on 1 of 2 nodes" in done.out


@pytest.mark.slow
def test_a_rank_that_hangs_fails(volley: Command, tmp_path: Path) -> None:
    words = ("--ranks", "2", "--transport", "host+hang", "--watchdog", "2", "--budget", "60")
    done = volley("check", *words, "-o", str(tmp_path / "r.jsonl"))
    assert done.code == 1, done.err
    assert "no progress" in done.out
    assert {log.run.plan.watchdog_s for log in read_runs(tmp_path / "r.jsonl", BENCHMARKS) if log.run} == {2.0}


def test_wrong_data_is_judged_before_limits(volley: Command, tmp_path: Path) -> None:
    file = tmp_path / "limits.json"
    checked = limits.Checked(host="a", machine=THIS, seconds={"x": 1.0})
    file.write_bytes(msgspec.json.encode(Limits(checks=[checked] * limits.FEWEST)))
    words = ("--format", "json", "--ranks", "2", "--transport", "host+flip", "--budget", "60", "--expect", str(file))
    done = volley("check", *words, "-o", str(tmp_path / "r.jsonl"))
    assert done.code == 1, done.err
    document = json.loads(done.out)
    (wrong,) = {each["nodes"][0] for each in document["findings"] if each["yardstick"] == "data"}
    assert document["nodes"] == [wrong]
    shown = volley("show", str(tmp_path / "r.jsonl"))
    assert "wrong data arrived" in shown.out
    assert "what was measured: volley show" in shown.out


def test_a_wrong_name_is_refused_before_anything_is_measured(volley: Command, tmp_path: Path) -> None:
    done = volley("check", "-t", "bogus", "-o", str(tmp_path / "r.jsonl"))
    assert (done.code, done.out) == (2, "")
    assert not list(read_runs(tmp_path / "r.jsonl", BENCHMARKS)) if (tmp_path / "r.jsonl").exists() else True


@pytest.mark.slow
def test_a_check_of_one_rank(volley: Command, tmp_path: Path) -> None:
    done = volley("check", "--ranks", "1", "-f", "json", "-o", str(tmp_path / "r.jsonl"))
    assert done.code == 0, done.err
    (alone,) = (each for each in json.loads(done.out)["findings"] if each["layer"] == "all ranks")
    assert alone["verdict"] == "NOT JUDGED"


def test_healthy_machines_pass(volley: Command, tmp_path: Path) -> None:
    """Kept checks of a machine without GPUs, and of two GPUs: of these the last layer was not kept, and is named."""
    done = volley("check", "--from", str(ROOT / "results" / "two-cores" / "check.jsonl.gz"))
    assert done.code == 0, done.out
    assert "PASS         messages in host memory: as fast as two-cores" in done.out
    done = volley("check", "--from", str(ROOT / "results" / "h100-x2" / "check.jsonl.gz"), "-f", "json")
    found = json.loads(done.out)["findings"]
    assert done.code == 0, done.out
    assert {(each["layer"], each["verdict"]) for each in found if each["verdict"] != "PASS"} == {
        ("all ranks", "NOT JUDGED")
    }
    # Another machine with the GPUs of the reference: 8 B take 11 to 18 % longer there, 64 MiB 3 %.
    done = volley("check", "--from", str(ROOT / "results" / "h200-x2" / "check.jsonl.gz"))
    assert done.code == 0, done.out
    assert "PASS         MPI on device memory: 7.3 % slower than h200-x2" in done.out
    file = tmp_path / "node.json"
    file.write_text('{"gpus": 2, "nics": ["mlx5_0"]}')
    done = volley("check", "--from", str(ROOT / "results" / "h100-x2" / "check.jsonl.gz"), "--inventory", str(file))
    assert "the records of this check do not contain: NICs" in done.out


def test_a_busy_machine_is_reported_and_not_judged() -> None:
    """Messages in host memory that took twice as long as on the machine whose records are the reference."""
    logs = read_runs(ROOT / "results" / "two-cores" / "check.jsonl.gz", BENCHMARKS)[:3]
    for log in logs:
        log.records = [
            msgspec.structs.replace(point, times_s=[2 * each for each in point.times_s]) for point in log.of(PingPong)
        ]
    layer = machine.layers(0)[0]
    (found,) = machine.judge(layer, benchmarks.read(layer.words)[0], logs, None, 1)
    assert (found.status, "others may use these cores" in found.said) == ("NOT JUDGED", True)


def test_what_kept_records_lack_is_undecided_if_it_was_asked_for(volley: Command, tmp_path: Path) -> None:
    """By the name of a transport, or by limits, which are of all layers."""
    kept = str(ROOT / "results" / "h100-x2" / "check.jsonl.gz")
    file = tmp_path / "limits.json"
    file.write_bytes(msgspec.json.encode(Limits(checks=[])))
    for words, asked in (
        (("-t", "aware"), set()),
        (("-t", "staged"), {"all ranks", "staged"}),
        (("--expect", str(file)), {"all ranks"}),
    ):
        done = volley("check", "--from", kept, "-f", "json", *words)
        found = [each for each in json.loads(done.out)["findings"] if "do not contain" in each["why"]]
        assert {each["layer"] for each in found if each["verdict"] == "UNDECIDED"} == asked
        assert done.code == (4 if asked else 0)


def test_records_of_something_else_are_no_check(volley: Command) -> None:
    """A matrix of GPUs is one of the layers, but no check without the others."""
    for name in ("matrix", "stream-uni"):
        done = volley("check", "--from", str(ROOT / "results" / "h200-x2" / f"{name}.jsonl"))
        assert (done.code, done.out) == (2, "")
        assert "are not those of a check" in done.err


def test_each_layer_of_a_kept_check_has_its_own_records(volley: Command) -> None:
    """MPI on device memory was delayed: messages in host memory and collectives were not."""
    done = volley("check", "--from", str(ROOT / "results" / "h100-x2" / "check-delay.jsonl.gz"), "--format", "json")
    layers = {each["layer"]: each for each in json.loads(done.out)["findings"]}
    assert "6.9" in layers["MPI on device memory"]["why"]
    others = [each for name, each in layers.items() if name != "MPI on device memory"]
    assert not any("aware" in str(each.get("part")) + str(each.get("why")) for each in others)
    done = volley("check", "--from", "nowhere.jsonl")
    assert done.code == 2


def test_a_job_of_a_check(volley: Command) -> None:
    words = ("--scheduler", "slurm", "--nodes", "4", "--gpus-per-node", "8", "--time", "00:10:00", "--", "check")
    done = volley("batch", *words)
    assert done.code == 0, done.err
    assert "#SBATCH --exclusive" in done.out
    assert "#SBATCH --ntasks=32" in done.out
