from __future__ import annotations

import io
import json
import random
import xml.etree.ElementTree as ET
from collections.abc import Callable
from dataclasses import replace
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
from volley.benchmarks.pair.results import PingPong
from volley.check import cluster, findings, machine
from volley.check.cluster import matchings, with_known_good
from volley.check.evidence import Places, Visits
from volley.check.findings import CheckFinding, exit_code, in_order, of_cluster
from volley.check.judgement import Judgement, judge
from volley.check.options import CheckOptions
from volley.errors import UserError
from volley.records.records_file import read_runs
from volley.records.run_log import RunLog
from volley.run.jobs import JobContext
from volley.statistics.estimates import median
from volley.statistics.two_runs import Booleans, Integers
from volley.units import format_cpulist

ROOT = Path(__file__).parents[2]

Where = Callable[[Integers, Integers], Booleans]
NODES, LEAF = 64, 8
PLACES = Places(np.arange(NODES), np.arange(NODES) // LEAF)


def visits(slow: Where, slower: float = 0.1, wrong: Where | None = None, places: Places = PLACES) -> Visits:
    """What a launch measures where some pairs are slower, or get wrong data, with noise of 1 %."""
    rounds = matchings(len(places.node), random.Random(1), places.switch.tolist())
    pairs = np.array([pair for pairs in rounds for pair in pairs])
    first, second = (np.tile(column, cluster.REPEATS) for column in pairs.T)
    repetition = np.repeat(np.arange(cluster.REPEATS), len(pairs))
    time_s = np.random.default_rng(1).lognormal(-13, 0.01, len(first)) * (1 + slower * slow(first, second))
    bad = np.zeros(len(first), bool) if wrong is None else wrong(first, second)
    return Visits(first, second, repetition, time_s, bad, repetition < cluster.CHOOSING)


def touches(*ranks: int) -> Where:
    return lambda first, second: np.isin(first, ranks) | np.isin(second, ranks)


def nowhere(first: Integers, second: Integers) -> Booleans:
    return np.zeros(len(first), bool)


def link_of_switch_2(first: Integers, second: Integers) -> Booleans:
    """A static route takes every message to a node over the same spine: here over the slow link of switch 2."""
    leaf = PLACES.switch
    crossing: Booleans = (leaf[first] != leaf[second]) & ((leaf[first] == 2) | (leaf[second] == 2))
    its: Booleans = crossing & (second % LEAF == 5)
    return its


def named(found: Judgement) -> list[tuple[str, int]]:
    return [(part.kind, part.number) for part in found.bad]


@pytest.mark.parametrize(("ranks", "switches"), [(2, []), (5, []), (16, [0] * 8 + [1] * 8), (65, [])])
def test_nobody_meets_two_ranks_at_once(ranks: int, switches: list[int]) -> None:
    for rounds in (
        matchings(ranks, random.Random(1), switches),
        with_known_good(ranks, [0], random.Random(1), switches),
    ):
        for pairs in rounds:
            ends = [rank for pair in pairs for rank in pair]
            assert len(ends) == len(set(ends))
    met = [{*pair} - {0} for pairs in matchings(ranks, random.Random(1)) for pair in pairs if 0 in pair]
    assert len({partner for partners in met for partner in partners}) == min(16, ranks - 1)


def test_suspects_meet_good_ranks_only() -> None:
    for pairs in with_known_good(30, [3, 4, 5], random.Random(1)):
        assert all(len({3, 4, 5} & set(pair)) < 2 for pair in pairs)


def pair_of(everything: Visits) -> Where:
    """Its first pair."""
    one, other = int(everything.first[0]), int(everything.second[0])
    return lambda first, second: np.isin(first, (one, other)) & np.isin(second, (one, other))


def beyond_a_slow_link(nodes: int, leaf: int) -> tuple[Visits, Places, bool]:
    places = Places(np.arange(nodes), np.arange(nodes) // leaf)

    def slow(first: Integers, second: Integers) -> Booleans:
        ends = places.switch[first], places.switch[second]
        crossing: Booleans = (ends[0] != ends[1]) & ((ends[0] == 0) | (ends[1] == 0)) & (second % leaf == 1)
        return crossing

    return visits(slow, 0.2, places=places), places, True


def apart(nodes: int, *slow: int) -> tuple[Visits, Places, bool]:
    """Nodes whose switches are unknown."""
    places = Places(np.arange(nodes), np.full(nodes, -1))
    return visits(touches(*slow) if slow else nowhere, places=places), places, False


GROUP, HALF, UNKNOWN = range(16, 24), range(0, NODES, 2), Places(np.arange(NODES), np.full(NODES, -1))
TWO_A_NODE = Places(np.arange(NODES) // 2, np.full(NODES, -1))
ALL = visits(nowhere)


def outside_link_of_switch_2(first: Integers, second: Integers) -> Booleans:
    return link_of_switch_2(first, second) & (second // LEAF != 2)


CASES: dict[str, tuple[Visits, Places, bool]] = {
    "nothing slow": (ALL, PLACES, True),
    "node 17 slow": (visits(touches(17)), PLACES, True),
    "nodes 17 and 40 slow": (visits(touches(17, 40)), PLACES, True),
    "all of switch 2 slow": (visits(touches(*GROUP)), PLACES, True),
    "a link of switch 2 slow": (visits(link_of_switch_2), PLACES, True),
    "one of five": apart(5, 2),
    "two of ten": apart(10, 3, 7),
    "good with each other, slow with others, behind an unknown switch": (
        visits(lambda one, other: np.isin(one, GROUP) != np.isin(other, GROUP), places=UNKNOWN),
        UNKNOWN,
        True,
    ),
    "slow with each other too": (visits(touches(*GROUP), places=UNKNOWN), UNKNOWN, True),
    "behind an unknown switch, and a node elsewhere": (
        visits(
            lambda one, other: (np.isin(one, GROUP) != np.isin(other, GROUP)) | touches(40)(one, other), places=UNKNOWN
        ),
        UNKNOWN,
        True,
    ),
    "half of the cluster": (visits(touches(*HALF)), PLACES, False),
    "half of the cluster, one repetition": (
        visits(touches(*HALF)).but(visits(touches(*HALF)).repetition == 0),
        PLACES,
        False,
    ),
    # among few switches many pairs of good nodes cross the slow link; of two switches either may have it
    "beyond a slow link, three switches of four": beyond_a_slow_link(12, 4),
    "beyond a slow link, three switches of three": beyond_a_slow_link(9, 3),
    "beyond a slow link, two switches of eight": beyond_a_slow_link(16, 8),
    "a rank of a good node": (visits(touches(17), places=TWO_A_NODE), TWO_A_NODE, True),
    "wrong data of node 9": (visits(nowhere, wrong=touches(9)), PLACES, True),
    "wrong data of a link": (visits(nowhere, wrong=link_of_switch_2), PLACES, True),
    "wrong data of one pair": (visits(nowhere, wrong=pair_of(ALL)), PLACES, True),
    # a pair that is always slow accuses neither of its nodes; nor do some behind a bad link of an unknown switch
    "one slow pair": (visits(pair_of(ALL), 1.0), PLACES, False),
    "one slow pair, one way": (visits(pair_of(ALL), 1.0), PLACES, True),
    "some slow pairs": (visits(outside_link_of_switch_2, 1.0), UNKNOWN, False),
    "some slow pairs, one way": (visits(outside_link_of_switch_2, 1.0), UNKNOWN, True),
    "node 30 missing": (ALL.but(~touches(30)(ALL.first, ALL.second)), PLACES, True),
    "all missing": (ALL.but(ALL.first < 0), PLACES, True),
    "two nodes": apart(2),
}


def test_parts_are_blamed_as_it_was_looked_at() -> None:
    parts = []
    for name, (launch, places, one_way) in CASES.items():
        found = judge(launch, places, one_way=one_way)
        lines = [f"{part.state}: {part.kind} {part.number}, ranks {format_cpulist(part.ranks)}" for part in found.bad]
        lines += [f"open: {part.state}: {part.kind}" for part in found.open]
        lines += [f"{what}: {format_cpulist(ranks)}" for what, ranks in (("missing", found.missing),) if ranks]
        lines += [f"measured again: {format_cpulist(found.suspects)}"] if found.suspects else []
        parts.append("\n".join([f"# {name}", *lines, ""]))
        assert list(of_cluster({("host", "stream", 8): found}, ranks(len(places.node)), {})) or not lines
    check_screen(SCREENS / "check/judgements.txt", "\n".join(parts))
    assert exit_code([]) == 3


def test_the_ranks_of_one_machine_are_its_cores_or_its_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("volley.machine.nvidia_driver.gpu_count", lambda: 3)
    monkeypatch.setattr("volley.launch.launchers.cores", lambda: 40)
    assert CheckOptions().ranks_of(JobContext(ABOUT_FAKE)) == 16
    assert CheckOptions(transport=("staged/pinned+flip",)).ranks_of(JobContext(ABOUT_FAKE)) == 3


def test_what_was_skipped_says_why() -> None:
    reasons = {("aware", "pingpong", 8): "ranks 0 and 2 are on one GPU: --share-gpu allows that"}
    (finding,) = of_cluster({("aware", "pingpong", 8): Judgement([], [0, 2])}, ranks(3), {}, reasons)
    assert (finding.verdict, finding.why) == ("UNDECIDED", "not measured: ranks 0 and 2 are on one GPU")


@pytest.mark.parametrize("slower", [0.1, 1.0])
def test_a_node_that_is_slow_at_times(slower: float) -> None:
    """One visit in twenty takes 10 % longer, or twice as long."""
    dice = np.random.default_rng(3)
    now_and_then = visits(lambda one, other: touches(17)(one, other) & (dice.random(len(one)) < 0.05), slower)
    judged = judge(now_and_then, PLACES, one_way=False)
    assert [(part.kind, part.number, part.state) for part in judged.bad] == [("node", 17, "at times")]
    (finding,) = of_cluster({("host", "pingpong", 8): judged}, ranks(NODES), {})
    assert finding.why.startswith(f"at times {slower * 10:.0f}")


def test_cores_of_a_node_differ_in_what_the_system_does_on_them() -> None:
    """Where ranks share a node a rank is slow at times by much longer visits only."""
    dice = np.random.default_rng(3)
    for slower, found in ((0.1, []), (1.0, [17])):
        now_and_then = visits(lambda one, other: touches(17)(one, other) & (dice.random(len(one)) < 0.1), slower)
        for places in (replace(PLACES, one_machine=True), Places(np.arange(NODES) // 2, PLACES.switch)):
            judged = judge(now_and_then, places, one_way=False)
            assert [part.number for part in judged.bad] == found


def test_ranks_beyond_a_slow_link_have_few_visits_and_do_not_make_others_slow_at_times() -> None:
    places = Places(np.arange(12), np.arange(12) // 4)

    def slow(first: Integers, second: Integers) -> Booleans:
        crossing: Booleans = (places.switch[first] == 2) != (places.switch[second] == 2)
        return crossing & (second % 4 == 1)

    launch = visits(slow, 0.2, places=places)
    often = cluster.joined(
        *(launch._replace(repetition=launch.repetition + look * cluster.REPEATS) for look in range(cluster.LOOKS))
    )
    hit = np.random.default_rng(15).random(len(often.first)) < 0.08
    judged = judge(often._replace(time_s=often.time_s * np.where(hit, 2, 1)), places, one_way=False)
    assert [(part.kind, part.number, part.state) for part in judged.bad] == [("link", 2, "slow")]


def test_the_records_of_a_cluster() -> None:
    log = matrix_log(4, rows(4))
    judged = cluster.Measured({}, 60.0).judgements([log])
    assert log.run is not None
    found = list(of_cluster(judged, log.run.ranks, {}))
    assert [each.layer for each in found] == ["latency, 8 B, host"]
    assert found[0].verdict == "UNDECIDED", "three visits of a rank say too little"


def test_each_launch_is_read_and_judged_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """What decides whether there is a further launch is the judgement that is shown if there is none."""
    judged: list[int] = []

    def counted(visits: Visits, places: Places, *, one_way: bool) -> Judgement:
        judged.append(len(visits.first))
        return judge(visits, places, one_way=one_way)

    monkeypatch.setattr(cluster, "judge", counted)
    measured = cluster.Measured({}, 60.0)
    logs = [matrix_log(4, rows(4))]
    measured.next_job(logs, 0.0)
    assert measured.judgements(logs)
    assert judged == [12]
    assert not logs[0].records
    logs.append(matrix_log(4, rows(4, slow={(0, 2): 2.0})))
    once = measured.judgements(logs)
    assert judged == [12, 24]
    both = [matrix_log(4, rows(4)), matrix_log(4, rows(4, slow={(0, 2): 2.0}))]
    assert once == cluster.Measured({}, 60.0).judgements(both)


def test_rows_with_wrong_data_stay_in_the_log() -> None:
    wrong = rows(4)
    wrong[1] = edited(wrong[1], failed=dict.fromkeys((0, 2, 3), "one bit differs"))
    log = matrix_log(4, wrong)
    (judged,) = cluster.Measured({}, 60.0).judgements([log]).values()
    assert [(part.kind, part.number) for part in judged.bad] == [("node", 1)]
    assert [row.rank for row in log.records] == [1]


def test_switches_of_slurm(tmp_path: Path) -> None:
    file = tmp_path / "topology.conf"
    file.write_text(
        "# two leaves\nSwitchName=s1 Nodes=cn[01-02],login\nswitchname=s2 nodes=cn03\nSwitchName=top Switches=s[1-2]\n"
    )
    assert cluster.switches_in(file) == {"cn01": "s1", "cn02": "s1", "login": "s1", "cn03": "s2"}
    file.write_text("SwitchName=top Switches=s[1-2]\n")
    with pytest.raises(UserError, match="no line with SwitchName"):
        cluster.switches_in(file)


def test_limits_are_learned(tmp_path: Path) -> None:
    file = tmp_path / "limits.json"
    with pytest.raises(UserError, match="--learn makes it"):
        machine.read_limits(file)
    dice = random.Random(1)
    for number in range(1, machine.FEWEST + 1):
        assert machine.add_limits(file, {"pingpong: host, 8 B": dice.gauss(1e-6, 1e-8)}) == number
    good_s = machine.read_limits(file).seconds["pingpong: host, 8 B"]
    limit = machine.limit_s(good_s, 1)
    assert limit is not None
    assert max(good_s) < limit < 1.2e-6
    assert machine.limit_s(good_s[1:], 1) is None


def test_how_often_a_good_node_is_above_a_limit() -> None:
    good = np.random.default_rng(1).lognormal(0, 0.03, (4000, 8))
    above = [float(row[-1]) > (machine.limit_s(row[:-1].tolist(), 1) or 0) for row in good]
    assert 0.2 * machine.FALSE_ALARM < np.mean(above) < 2 * machine.FALSE_ALARM


def gpu_log() -> RunLog:
    (log,) = read_runs(ROOT / "results" / "h200-x2" / "matrix.jsonl", BENCHMARKS)
    return log


def judged_gpus(*logs: RunLog) -> list[CheckFinding]:
    return list(machine.judge(machine.Layer("GPUs", ("matrix",)), GPUS, logs, None, 1))


def test_gpus_are_as_fast_as_the_published_ones() -> None:
    assert [(each.verdict, each.yardstick) for each in judged_gpus(gpu_log())] == [("PASS", "reference")]


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
    assert [(each.verdict, each.part) for each in judged_gpus(*[log] * machine.TIMES)] == findings
    assert [each.verdict for each in judged_gpus(log)][:1] != ["PASS"]  # too few visits


def test_a_gpu_that_works_for_another_program_is_found() -> None:
    """Records of two H100s, one of which multiplied matrices meanwhile."""
    logs = read_runs(ROOT / "results" / "h100-x2" / "check-loaded.jsonl.gz", BENCHMARKS)
    found = judged_gpus(*(log for log in logs if log.run and log.run.plan.benchmark == "gpu_matrix"))
    assert ("FAIL", "GPU 1", "link state") in [(each.verdict, each.part, each.yardstick) for each in found]
    (slow,) = (each for each in found if each.yardstick == "reference")
    assert slow.verdict == "UNDECIDED"
    assert "SM write, 1 → 1" in slow.why


def test_the_users_own_reference(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with the same GPUs and processors; where another one is, nothing is compared."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    machine._own_references.cache_clear()
    references.add("good-node", str(ROOT / "results" / "h200-x2" / "matrix.jsonl"), BENCHMARKS)
    (finding,) = judged_gpus(gpu_log())
    assert (finding.verdict, finding.yardstick) == ("PASS", "reference")
    assert finding.why.startswith("as fast as good-node")
    other = gpu_log()
    assert other.run is not None
    other.run = msgspec.structs.replace(other.run, ranks=[])
    machine._own_references.cache_clear()
    assert "good-node" not in judged_gpus(other)[0].why


def test_clocks_that_are_held_down() -> None:
    for places, verdict in (((0, 1), "FAIL"), ((1,), "UNDECIDED")):
        log = gpu_log()
        for place in places:
            first, *others = log.hardware[place].gpus
            gpus = [msgspec.structs.replace(first, clocks_event_reasons=["idle", "hardware thermal slowdown"]), *others]
            log.hardware[place] = msgspec.structs.replace(log.hardware[place], gpus=gpus)
        (found,) = (each for each in judged_gpus(log) if each.yardstick == "link state")
        assert (found.verdict, found.why) == (verdict, "its clocks were limited: hardware thermal slowdown")


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
    found = [each for each in judged_gpus(log) if each.yardstick == "link state"]
    assert [each.verdict for each in found] == ["FAIL", "FAIL", "UNDECIDED"]
    assert "2 NVLinks inactive" in found[0].why


@pytest.mark.parametrize(("errors", "verdicts"), [(99, []), (101, ["UNDECIDED"])])
def test_corrected_errors_are_judged_by_their_rate(errors: int, verdicts: list[str]) -> None:
    log = gpu_log()
    assert log.end
    log.end = msgspec.structs.replace(log.end, elapsed_s=2.0)
    for place, count in enumerate((3, 3 + 2 * errors)):
        first, *others = log.hardware[place].gpus
        gpus = [msgspec.structs.replace(first, nvlink_errors={"CRC of data": count}), *others]
        log.hardware[place] = msgspec.structs.replace(log.hardware[place], gpus=gpus)
    assert [each.verdict for each in judged_gpus(log) if each.yardstick == "link state"] == verdicts


def test_links_that_a_bridge_leaves_free_are_no_fault() -> None:
    log = gpu_log()
    for place, hardware in enumerate(log.hardware):
        changed = [msgspec.structs.replace(gpu, name="NVIDIA H100 NVL", nvlinks_inactive=6) for gpu in hardware.gpus]
        log.hardware[place] = msgspec.structs.replace(hardware, gpus=changed)
    assert not [each for each in judged_gpus(log) if each.yardstick == "link state"]


def test_times_above_the_limits_fail() -> None:
    log = gpu_log()
    layer = machine.Layer("GPUs", ("matrix",))
    times = machine.measured(GPUS, [log])
    for factor, verdict in ((1.0, "PASS"), (0.5, "FAIL")):
        spread = [factor * (1 + number / 100) for number in range(6)]
        known = machine.Limits(
            seconds={name: [seconds[0] * each for each in spread] for name, seconds in times.items()}
        )
        assert [each.verdict for each in machine.judge(layer, GPUS, [log], known, 1)] == [verdict]
    known = machine.Limits(seconds={})
    assert [each.verdict for each in machine.judge(layer, GPUS, [log], known, 1)] == ["UNDECIDED"]


def test_a_faulty_transport_is_judged_by_what_is_known_of_the_good_one() -> None:
    """MPI between two H100s: as it was recorded, and with the 0.2 ms a message that the fault ``delay`` adds."""
    (layer,) = (each for each in machine.layers(2, ("host+flip", "aware+delay")) if "aware+delay" in each.words)
    benchmark, _ = benchmarks.read(layer.words)
    recorded = read_runs(ROOT / "results" / "h100-x2" / "check.jsonl.gz", BENCHMARKS)
    logs = [log for log in recorded if log.run and log.run.plan.transports == ["aware"]]
    good_s = {name: median(seconds) for name, seconds in machine.measured(benchmark, logs).items()}
    known = machine.Limits(seconds={name: [each * 1.02**n for n in range(-2, 3)] for name, each in good_s.items()})

    def judged(limits: machine.Limits | None) -> list[tuple[str, str]]:
        return [(each.verdict, each.yardstick) for each in machine.judge(layer, benchmark, logs, limits, 20)]

    assert (judged(None), judged(known)) == ([("PASS", "reference")], [("PASS", "limits")])
    for log in logs:
        log.records = [
            msgspec.structs.replace(point, transport="aware+delay", times_s=[each + 2e-4 for each in point.times_s])
            for point in log.of(PingPong)
        ]
    assert (judged(None), judged(known)) == ([("UNDECIDED", "reference")], [("FAIL", "limits")])


FINDINGS = in_order([
    CheckFinding(verdict="PASS", layer="bandwidth", why="all of them are equal", yardstick="population"),
    CheckFinding(verdict="FAIL", layer='latency "8 B"', part="node cn3", why="12 % slower <", nodes=("cn3",)),
    CheckFinding(verdict="UNDECIDED", layer="latency", part="node cn4", why="perhaps", decides="a longer --budget"),
])  # fmt: skip


def test_formats_are_those_that_were_looked_at() -> None:
    parts = []
    for name in ("table", "json", "junit", "prometheus", "nhc", "slurm"):
        out = io.StringIO()
        findings.render(FINDINGS, name, out)
        parts.append(f"$ volley check -f {name}\n{out.getvalue()}[{exit_code(FINDINGS)}]\n")
        assert name != "json" or json.loads(out.getvalue())["findings"]
        assert name != "junit" or ET.fromstring(out.getvalue()).get("tests") == "3"
    check_screen(SCREENS / "check/formats.txt", "\n".join(parts))


def bad_nodes(number: int, layers: int = 2) -> list[CheckFinding]:
    """Findings of so many nodes in each layer, with long sentences, and what is undecided and passed."""
    long = "slower than the other nodes, " * 8
    names = [f"layer {layer}" for layer in range(layers)]
    found = [
        CheckFinding(verdict="FAIL", layer=layer, part=f"node cn{node:05}", why=long, nodes=(f"cn{node:05}",))
        for layer in names
        for node in range(number)
    ]
    found += [CheckFinding(verdict="UNDECIDED", layer=each, why=long, decides=long) for each in names]
    return in_order([*found, FINDINGS[2]])


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
    """Without limits nothing says how fast this machine should be; with limits two ranks pass as well."""
    file = tmp_path / "limits.json"
    words = ("check", "--format", "json", "--ranks", "2", "-o", str(tmp_path / "records.jsonl"), "--force")
    words = (*words, "--budget", "20", "--expect", str(file))
    done = volley(*words, "--learn")
    found = json.loads(done.out)["findings"]
    assert done.code == 4, done.err
    assert {each["verdict"] for each in found} == {"UNDECIDED"}
    known = machine.read_limits(file)
    assert "pingpong among all 2 ranks: host, 8 B" in known.seconds
    wide = {name: [seconds[0] * factor for factor in (0.5, 1, 2, 4, 8)] for name, seconds in known.seconds.items()}
    file.write_bytes(msgspec.json.encode(machine.Limits(seconds=wide)))
    done = volley(*words)
    assert done.code == 0, done.out
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


def test_a_rank_that_hangs_fails(volley: Command, tmp_path: Path) -> None:
    words = ("--ranks", "2", "--transport", "host+hang", "--watchdog", "2", "--budget", "60")
    done = volley("check", *words, "-o", str(tmp_path / "r.jsonl"))
    assert done.code == 1, done.err
    assert "no progress" in done.out
    assert {log.run.plan.watchdog_s for log in read_runs(tmp_path / "r.jsonl", BENCHMARKS) if log.run} == {2.0}


def test_a_corrupting_transport_fails(volley: Command, tmp_path: Path) -> None:
    words = ("--format", "json", "--ranks", "2", "--transport", "host+flip", "--budget", "60")
    done = volley("check", *words, "-o", str(tmp_path / "r.jsonl"))
    assert done.code == 1, done.err
    assert any(each["yardstick"] == "data" for each in json.loads(done.out)["findings"])
