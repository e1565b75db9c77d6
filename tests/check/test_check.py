from __future__ import annotations

import gzip
import io
import json
import os
import random
import re
import shlex
import xml.etree.ElementTree as ET
from collections.abc import Callable
from itertools import permutations
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import numpy as np
import pytest

import gpu_records
from example_records import collective
from fake_about import ABOUT_FAKE
from screens import SCREENS, check_screen
from the_command import Command, Finished
from volley import benchmarks, cli, references
from volley.benchmarks import BENCHMARKS
from volley.benchmarks.matrix import GPUS
from volley.benchmarks.pair.results import PingPong
from volley.check import COMMAND, cluster, command, findings, inventory, limits, machine
from volley.check.findings import Again, CheckFinding
from volley.check.judged import Judged, OfCheck, Yardsticks
from volley.check.limits import Limits
from volley.check.options import CheckOptions
from volley.errors import UserError
from volley.launch.cluster_map import ClusterMap
from volley.machine.finding import exit_code, in_order
from volley.machine.inventory import Inventory, Seen, wrong
from volley.machine.signals import Stop
from volley.records.plan import OUT_OF_TIME
from volley.records.record_types import NotMeasured
from volley.records.records_file import read_runs
from volley.records.run_log import RunLog
from volley.references.equal_machines import measured, without_core
from volley.run.jobs import JobContext, LaunchCount
from volley.run.outcome import RunOutcome
from volley.statistics.estimates import median

ROOT = Path(__file__).parents[2]
AGAIN = Again()
OF_CHECK = OfCheck(asked=[], one_machine=True, nodes=1)
Here = Callable[..., Finished]


def test_the_ranks_of_one_machine_are_its_cores_or_its_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("volley.check.cluster.gpu_count", lambda: 3)
    monkeypatch.setattr("volley.check.cluster.cores", lambda: 40)
    assert cluster.ranks_and_transports(CheckOptions(), JobContext(ABOUT_FAKE))[0] == 16
    on_gpus = CheckOptions(transport=("staged/pinned+flip",))
    assert cluster.ranks_and_transports(on_gpus, JobContext(ABOUT_FAKE))[0] == 3


THIS = limits.Machine(cpu="EPYC", gpus=("H100", "H100"), ranks=16)


def test_limits_are_learned(tmp_path: Path) -> None:
    file = tmp_path / "limits.json"
    with pytest.raises(UserError, match="--learn makes one"):
        limits.read_limits(file)
    dice = random.Random(1)
    for number in range(1, limits.FEWEST + 1):
        said = limits.learn(file, f"cn{number}", THIS, {"pingpong: host, 8 B": [dice.gauss(1e-6, 1e-8)]})
    assert "5 checks of 5 nodes" in said
    assert "they find what is slower by" in said
    known = limits.read_limits(file)
    name = "pingpong: host, 8 B"
    limit = limits.limit_s(known.of(THIS).of_nodes(name, "")[0], 1)
    assert limit is not None
    assert 1e-6 < limit[0] < 1.2e-6
    assert known.of(msgspec.structs.replace(THIS, gpus=("H100",))).of_nodes(name, "") == ([], False)


@pytest.mark.parametrize("bad", [1.3, 3.0, 100.0])
def test_one_bad_check_of_five_changes_a_limit_little(bad: float) -> None:
    good = [1.0, 1.01, 0.99, 1.005]
    with_bad, without = (limits.limit_s([[*good, last]], 1) for last in (bad, 1.0))
    assert with_bad is not None
    assert without is not None
    assert with_bad[0] < 1.05 * without[0]


def test_a_limit_far_above_the_usual_judges_nothing() -> None:
    checks = [limits.Checked(host="a", machine=THIS, seconds={"x": each}) for each in (1.0, 2.0, 5.0, 9.0, 300.0)]
    found = limits.Site(Limits(checks=checks), 1, AGAIN, "a").judge("all", {"x": [1.0]})
    assert found.status == "UNDECIDED"
    assert re.search(r"x \(\d{4,} times the usual\)$", found.said), found.said
    again = Again(COMMAND.parse(["--expect", "a/my limits.json", "--learn"]).typed)
    assert limits.Site(Limits(checks=checks), 1, again, "a").judge("all", {"x": [1.0]}).remedy == (
        "on nodes where nothing else runs, into a new file: volley check --expect 'a/my limits-new.json' --learn"
    )


def test_what_limits_find_and_how_many_times_they_do_not_judge() -> None:
    alike, apart = [1.0, 1.01, 0.99, 1.0, 1.01], [1.0, 2.0, 5.0, 9.0, 300.0]
    found, wide = r"they find what is slower by \d+ %", "because the checks differ too much"
    for known, said in (
        ({"x": alike, "y": alike}, found),
        ({"x": alike, "y": apart}, f"{found}, and do not judge 1 of 2 times, {wide}"),
        ({"y": apart}, rf"they judge none of 2 times, {wide} \(1 time\) and because they are fewer than 5 \(1 time\)"),
    ):
        assert re.fullmatch(said, limits._finds(good_checks(known), ["x", "y"] if "x" in known else ["y", "z"], "a"))


def always(_: str) -> bool:
    return True


def test_what_is_missing_fails() -> None:
    checks = [limits.Checked(host="a", machine=THIS, seconds={"x": 1.0, "aware": 1.0})] * 5
    one_gpu = msgspec.structs.replace(THIS, gpus=("H100",))
    assert [each.said for each in limits.missing(one_gpu, ["x"], Limits(checks=checks), always, AGAIN)] == [
        "1 GPU of 2 that the good nodes with this processor have"
    ]
    (found,) = limits.missing(THIS, ["x"], Limits(checks=checks), always, AGAIN)
    assert (found.status, found.part) == ("FAIL", "aware")
    assert not list(limits.missing(THIS, ["x", "aware+delay"], Limits(checks=checks), always, AGAIN))
    assert not list(limits.missing(THIS, ["x"], Limits(checks=checks), "aware".__ne__, AGAIN)), "it was not asked for"
    (found,) = limits.missing(msgspec.structs.replace(THIS, cpu="Xeon"), ["x"], Limits(checks=checks), always, AGAIN)
    assert (found.status, "other machines" in found.said) == ("UNDECIDED", True)


def test_limits_of_another_number_of_ranks_judge_only_what_does_not_depend_on_it() -> None:
    seconds = {"pingpong: host, 8 B": 1.0, f"pingpong {cluster.TOGETHER} 16 ranks: host, 8 B": 1.0}
    known = Limits(checks=[limits.Checked(host="a", machine=THIS, seconds=seconds)] * limits.FEWEST)
    two = msgspec.structs.replace(THIS, ranks=2)
    assert not list(limits.missing(two, ["pingpong: host, 8 B"], known, always, AGAIN))
    assert [each.part for each in limits.missing(THIS, ["pingpong: host, 8 B"], known, always, AGAIN)] == [
        [*seconds][1]
    ]
    together = {f"pingpong {cluster.TOGETHER} 2 ranks: host, 8 B": [9.0]}
    found = limits.Site(known.of(two), 1, AGAIN, "a").judge("all ranks", together, ranks=2)
    assert (found.status, "16 ranks together, and this check has 2" in found.said) == ("NOT JUDGED", True)
    (first, *_) = seconds
    assert limits.Site(known.of(two), 1, AGAIN, "a").judge("host", {first: [9.0]}).status == "FAIL"


def test_an_inventory() -> None:
    asked = Inventory(
        nodes="cn[1-3]", cpu="EPYC", gpus=2, gpu="H100", nvlinks=18, nics=("mlx5_0",), memory_bytes=1 << 30
    )
    whole = Seen(node="cn1", cpu="EPYC", gpus=["H100"] * 2, nvlinks=[18, 18], nics=("mlx5_0",), memory_bytes=2 << 30)
    (found,) = inventory.by_inventory(
        msgspec.structs.replace(asked, nodes=""), [msgspec.structs.replace(whole, nics=[])], AGAIN
    )
    assert (found.status, found.said, found.nodes) == ("FAIL", "no NIC mlx5_0", ("cn1",))
    poor = Seen(node="cn2", cpu="Xeon", gpus=["A100"], nvlinks=[17], nics=("mlx5_0",), memory_bytes=1 << 29)
    assert [each.said for each in inventory.by_inventory(asked, [whole, poor], AGAIN)] == [
        "no rank ran there", "its processor is Xeon, not EPYC", "it has 1 GPU, the inventory says 2",
        "kind of GPU: A100, not H100", "GPU 0: 17 of 18 NVLinks active", "0 of 1 GiB of memory",
    ]  # fmt: skip
    assert "do not contain" in [*inventory.by_inventory(asked, [Seen(node="cn1", cpu="EPYC")], AGAIN)][-1].said
    (found,) = inventory.by_inventory(msgspec.structs.replace(asked, nodes="cn1"), [whole], AGAIN)
    assert (found.status, found.evidence) == ("PASS", "inventory")
    assert found.said == "all is as it must be: 1 node, processor, GPUs, kind of GPU, NVLinks, NICs and memory"
    for node, nodes, said in (
        ("cn1.site.org", "cn[1-3]", "all is as it must be: name"),
        ("login", "cn[1-3]", "it is none of cn[1-3]"),
    ):
        here = Seen(node=node, cpu="EPYC")
        (found,) = inventory.by_inventory(Inventory(nodes=nodes), [here], AGAIN, alone=True)
        assert (found.said, found.nodes if found.status == "FAIL" else ("login",)) == (said, ("login",))
    asked = Inventory(cpu="EPYC", gpu="H100", nvlinks=18)
    without, unknown = Seen(node="a", cpu="EPYC", gpus=[], nvlinks=[]), Seen(node="a", cpu="", gpus=[""])
    assert [
        (each.status, each.said) for one in (without, unknown) for each in inventory.by_inventory(asked, [one], AGAIN)
    ] == [
        ("FAIL", "no GPU, the inventory says H100"),
        ("FAIL", "no GPU with 18 NVLinks"),
        ("UNDECIDED", "the records of this check do not contain: processor, kind of GPU and NVLinks"),
    ]
    none = Inventory(gpus=0)
    assert not any(found for _, found in wrong(Inventory(nvlinks=0), without))
    seen = (whole, msgspec.structs.replace(whole, gpus=[]), msgspec.structs.replace(whole, gpus=None))
    assert [(each.status, each.said) for one in seen for each in inventory.by_inventory(none, [one], AGAIN)] == [
        ("FAIL", "it has 2 GPUs, the inventory says 0"),
        ("PASS", "all is as it must be: no GPU"),
        ("UNDECIDED", "the records of this check do not contain: GPUs"),
    ]


@pytest.mark.parametrize(("nodes", "checks"), [(7, 1), (7, 4), (1, 7)])
def test_how_often_a_good_check_is_above_a_limit(nodes: int, checks: int) -> None:
    """A check of another node where there are several, of the same where there is one."""
    dice, above = np.random.default_rng(1), []
    for _ in range(3000):
        usual = dice.normal(0, 0.03, nodes + 1)
        good = np.exp(usual[:nodes, np.newaxis] + dice.normal(0, 0.02, (nodes, checks)))
        now = float(np.exp(usual[nodes if nodes > 1 else 0] + dice.normal(0, 0.02)))
        above.append(now > (limits.limit_s(good.tolist(), 1) or (0.0,))[0])
    assert 0.2 * limits.FALSE_ALARM < np.mean(above) < 2 * limits.FALSE_ALARM


def test_checks_of_few_nodes_let_no_other_node_fail() -> None:
    alike = [1.0, 1.01, 0.99, 1.0, 1.01]
    said = {}
    for host in "ab":
        for seconds in (1.0, 1.5):
            found = limits.Site(good_checks({"x": alike}), 1, AGAIN, host).judge("all", {"x": [seconds]})
            said[host, seconds] = (found.status, re.split(r" \d+ %|;", found.said)[0])
    assert said == {
        ("a", 1.0): ("PASS", "within this site's limits (a good node fails them once in 100 checks)"),
        ("a", 1.5): ("FAIL", "x"),
        ("b", 1.0): ("PASS", "as fast as good checks of a"),
        ("b", 1.5): ("UNDECIDED", "the good checks are of a alone and do not show how good nodes differ: x"),
    }
    several = Limits(checks=[limits.Checked(host=each, machine=THIS, seconds={"x": 1.0}) for each in "cdefgcdefg"])
    assert limits.Site(several, 1, AGAIN, "b").judge("all", {"x": [1.5]}).status == "FAIL"


def gpu_log() -> RunLog:
    (log,) = read_runs(ROOT / "results" / "h200-x2" / "matrix.jsonl", BENCHMARKS)
    return log


def judged_gpus(*logs: RunLog) -> list[CheckFinding]:
    found = [*machine.judge(machine.Layer("GPUs", ("matrix",)), GPUS, logs, None, AGAIN), *machine.states(logs, AGAIN)]
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


def test_a_matrix_that_its_budget_cut_is_no_pass() -> None:
    """One pair of eight GPUs was not measured; the time that a check takes for it grows with the pairs."""
    devices = [gpu_records.device(number) for number in range(8)]
    late = gpu_records.failed(devices[5].uuid, OUT_OF_TIME, "skipped")
    log = gpu_records.log(8, ["uni"], changed={"uni": gpu_records.rows("uni", devices, other={(4, 5): late})})
    found = [(each.status, each.said) for each in judged_gpus(*[log] * machine.TIMES)]
    assert found == [("UNDECIDED", "not everything was measured: the time budget was too short")]
    pairs = {gpus: 2 * gpus * gpus for gpus in (4, 8, 16)}
    assert all(machine.matrix_s(gpus) > 0.14 * cells for gpus, cells in pairs.items())


def test_a_gpu_that_works_for_another_program_is_found() -> None:
    """Records of two H100s, one of which multiplied matrices meanwhile."""
    logs = read_runs(ROOT / "results" / "h100-x2" / "check-loaded.jsonl.gz", BENCHMARKS)
    found = judged_gpus(*(log for log in logs if log.run and log.run.plan.benchmark == "gpu_matrix"))
    assert ("FAIL", "GPU 1", "link state") in [(each.status, each.part, each.evidence) for each in found]
    (slow,) = (each for each in found if each.evidence == "reference")
    assert slow.status == "UNDECIDED"
    assert "SM write at 1 → 1" in slow.said


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
    assert "good-node" not in judged_gpus(gpu_log())[0].said, "no launch is a reference for itself"
    other = gpu_log()
    assert other.run is not None
    other.run = msgspec.structs.replace(other.run, started_at="2026-01-01T00:00:00Z")
    (finding,) = judged_gpus(other)
    assert (finding.status, finding.evidence) == ("PASS", "reference")
    assert finding.said.startswith("as fast as the reference good-node")
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
        ({"pcie_replays": 1}, {"pcie_replays": 2, "nvlinks_inactive": 2, "pcie_width": 8, "pcie_width_max": 16})
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
        site = limits.Site(known, 1, AGAIN, "a")
        assert [each.status for each in machine.judge(layer, GPUS, [log], site, AGAIN)] == [verdict]
    site = limits.Site(Limits(checks=[]), 1, AGAIN, "a")
    assert [each.status for each in machine.judge(layer, GPUS, [log], site, AGAIN)] == ["UNDECIDED"]


def test_a_faulty_transport_is_judged_by_what_is_known_of_the_good_one() -> None:
    """MPI between two H100s: as it was recorded, and with the 0.2 ms a message that the fault ``delay`` adds."""
    (layer,) = (each for each in machine.layers(2, ("host+flip", "aware+delay")) if "aware+delay" in each.words)
    benchmark, _ = benchmarks.read(layer.words)
    recorded = read_runs(ROOT / "results" / "h100-x2" / "check.jsonl.gz", BENCHMARKS)
    logs = [log for log in recorded if log.run and log.run.plan.transports == ["aware"]]
    good_s = {name: median(seconds) for name, seconds in measured(benchmark, logs).items()}
    known = good_checks({name: [each * 1.02**n for n in range(-2, 3)] for name, each in good_s.items()})

    def judged(known: Limits | None) -> list[tuple[str, str]]:
        site = limits.Site(known, 20, AGAIN, "a") if known else None
        return [(each.status, each.evidence) for each in machine.judge(layer, benchmark, logs, site, AGAIN)]

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
    CheckFinding(status="NOT JUDGED", layer="allreduce", said="1 point correct; its speed is not judged"),
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


@pytest.mark.parametrize("columns", [0, 10, 60, 200])
def test_the_screen_fits_the_terminal(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    out = io.StringIO()
    findings.render(bad_nodes(300, 3), "table", out)
    most = {0: findings.WIDTH, 10: findings.NARROWEST, 60: 60, 200: findings.WIDTH}[columns]
    assert max(map(len, out.getvalue().splitlines())) <= most
    assert len(out.getvalue().splitlines()) <= 60


@pytest.mark.parametrize("columns", [40, 50, 120])
def test_a_finding_is_cut_with_a_mark_and_alike_on_every_terminal(
    columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))

    def shown(said: str, *, full: bool = False) -> str:
        out = io.StringIO()
        findings.render([CheckFinding(status="FAIL", layer="l", said=said)], "table", out, full=full)
        return " ".join(out.getvalue().split())

    whole = " ".join(f"word{number}" for number in range(40))
    assert shown(whole).endswith(whole)
    assert re.search(r"word\d+ … all: volley check --full$", shown(whole * 3))
    assert shown(whole * 3, full=True).endswith(whole * 3)


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
    assert (lines[-1] == "all: volley check --full") == (number * layers > 10)
    if number < 1000:
        findings.render(found, "table", out := io.StringIO(), full=True)
        assert out.getvalue().count("\nFAIL  ") == number * layers


@pytest.mark.long
def test_a_check_of_one_machine(volley: Command, tmp_path: Path) -> None:
    """Without limits a virtual machine passes by what is published of equal cores, or is not judged."""
    file = tmp_path / "limits.json"
    words = ("check", "--format", "json", "--ranks", "2", "-o", str(tmp_path / "records.jsonl"), "--force")
    words = (*words, "--budget", "20", "--expect", str(file))
    done = volley(*words, "--learn", "--learn-busy")
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


@pytest.mark.slow
def test_a_node_without_a_rank_does_not_pass(volley: Command, tmp_path: Path) -> None:
    """The launcher put both ranks on one of the two hosts."""
    done = volley("check", "--hosts", "localhost,127.0.0.1", "--budget", "3", "-o", str(tmp_path / "r.jsonl"))
    assert done.code == 4, done.err
    kept = volley("check", "--from", str(tmp_path / "r.jsonl"))
    assert kept.code == 4
    for out in (done.out, kept.out):
        assert "the ranks were on 1 of 2 nodes" in out


@pytest.mark.slow
def test_a_rank_that_hangs_fails(volley: Command, tmp_path: Path) -> None:
    words = ("--ranks", "2", "--transport", "host+hang", "--watchdog", "1", "--budget", "60")
    done = volley("check", *words, "-o", str(tmp_path / "r.jsonl"))
    assert done.code == 1, done.err
    assert "no progress" in done.out
    assert {log.run.plan.watchdog_s for log in read_runs(tmp_path / "r.jsonl", BENCHMARKS) if log.run} == {1.0}
    kept = volley("check", "--from", str(tmp_path / "r.jsonl"))
    assert kept.code == 1
    assert kept.out.splitlines()[:4] == done.out.splitlines()[:4], "the verdicts, and why it failed"


def test_every_layer_of_a_machine_has_the_mpi_and_the_launcher_that_were_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: dict[str, Any] = {}
    monkeypatch.setattr(command.Check, "launches", lambda _, layer, __, options: asked.update({layer: options}) or [])
    words = ["--mpi", "/opt/a b/mpi", "--launcher", "mpich", "--launcher-arg=--x", "--launcher-arg", "y"]
    options: Any = COMMAND.parse(words)
    nothing: Any = None
    with Stop() as stop:
        command._machine(command.Check(options, nothing, stop, 60.0, AGAIN, OF_CHECK), 2)
    starts = {(each.job.mpi, each.job.launcher, each.job.launcher_arg) for each in asked.values() if each.job.launches}
    assert starts == {("/opt/a b/mpi", "mpich", ("--x", "y"))}
    assert len(asked) == len(machine.layers(2))


def test_a_layer_that_is_slow_in_most_launches_does_not_pass() -> None:
    """A time is beyond its limit in the median, and not in each launch: that is neither good nor surely bad."""
    layer, _ = machine.layers(0)
    for times, verdict in (([1.2, 1.2, 1.3], "PASS"), ([1.2, 1.2, 9.0], "PASS"), ([1.2, 4.0, 9.0], "NOT JUDGED")):
        found = machine._by_reference(layer, ("two-cores", {"host, 8 B": times}), AGAIN, "")
        assert found.status == verdict
    assert (
        "host at 8 B is more than 50 % slower than the reference two-cores in half of the launches or more"
        in found.said
    )


@pytest.mark.parametrize(("reason", "found"), [(OUT_OF_TIME, []), ("no NCCL", ["NOT POSSIBLE"])])
def test_what_the_budget_left_out_is_judged_once(
    monkeypatch: pytest.MonkeyPatch, reason: str, found: list[str]
) -> None:
    """By the layer, which names the longer budget; that all of it was skipped is no reason of its own."""
    log = RunLog(records=[collective("allreduce", [], 8, status="skipped", reason=reason)])
    outcome = RunOutcome(3, ("volley: every point was skipped",), ends_session=True)
    session = SimpleNamespace(
        jobs=SimpleNamespace(count=LaunchCount(1, 1)), run=lambda *_: None, logs=[log], outcomes=[outcome]
    )
    monkeypatch.setattr(command, "prepare", lambda *_: session)
    nothing: Any = None
    with Stop() as stop:
        check = command.Check(COMMAND.parse([]), nothing, stop, 60.0, AGAIN, OF_CHECK)
        check.launches("NCCL allreduce", nothing, nothing)
    assert [each.verdict for each in check.unmeasured] == found


@pytest.mark.slow
def test_wrong_data_is_judged_before_limits(volley: Command, tmp_path: Path) -> None:
    file = tmp_path / "limits.json"
    checked = limits.Checked(host="a", machine=THIS, seconds={"x": 1.0})
    file.write_bytes(msgspec.json.encode(Limits(checks=[checked] * limits.FEWEST)))
    words = ("--format", "json", "--ranks", "2", "--transport", "host+flip", "--budget", "20", "--expect", str(file))
    done = volley("check", *words, "-o", str(tmp_path / "r.jsonl"))
    assert done.code == 1, done.err
    document = json.loads(done.out)
    (wrong,) = {each["nodes"][0] for each in document["findings"] if each["yardstick"] == "data"}
    assert document["nodes"] == [wrong]
    shown = volley("show", str(tmp_path / "r.jsonl"))
    assert "wrong data arrived" in shown.out
    assert "what was measured: volley show" in shown.out


def test_a_wrong_name_is_refused_before_anything_is_measured(here: Here, tmp_path: Path) -> None:
    done = here("check", "-t", "bogus", "-o", str(tmp_path / "r.jsonl"))
    assert (done.code, done.out) == (2, "")
    assert not (tmp_path / "r.jsonl").exists()


@pytest.mark.parametrize(
    ("option", "text", "said"),
    [
        ("--switches", "cn1 leaf1\ncn2 leaf2\n", r"does not name \S+: it names 2 nodes from cn1 on"),
        (
            "--inventory",
            '{"gpuz": 2}',
            r"unknown field 'gpuz'; write e.g. .*; other keys: nodes, cpu, gpu, nvlinks, nics and memory_bytes$",
        ),
        ("--inventory", '{"gpus": 0, "nvlinks": 18}', 'leave out that or "nvlinks"'),
        ("--inventory", '{"gpus": "two"}', "gpus must be a whole number, and is text; "),
        ("--inventory", '{"gpus": 1.5}', "gpus must be a whole number, and is a number with decimals; "),
        ("--inventory", '{"gpu":1', "is not an inventory: it ends within a value; "),
        ("--expect", "{", "it ends within a value; --learn makes one"),
        (
            "--expect",
            '{"version": 3, "checks": {}}',
            r"file: written by a newer volley \(limits version 3, this volley reads version 2\): upgrade",
        ),
        ("--expect", '{"version": 1}', r"by an older volley .* version 1, .* version 2\): learn again, into another"),
    ],
)
def test_a_file_that_does_not_fit_this_machine_is_refused_before_anything_is_measured(
    option: str, text: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text(text)
    assert cli.main(["check", option, str(tmp_path / "file")]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert re.search(said, line), line


def test_one_host_is_this_machine_or_refused(here: Here, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Its layers are measured here: a name that is not of this machine must get no verdict of it."""
    monkeypatch.chdir(tmp_path)
    done = here("check", "--hosts", "nosuchhost.invalid")
    assert (done.code, done.out) == (2, "")
    assert "nosuchhost.invalid is not this machine" in done.err
    assert "type volley check there, or name two hosts or more" in done.err
    full, short = f"{os.uname().nodename}.site.org", os.uname().nodename.partition(".")[0]
    monkeypatch.setenv("SLURMD_NODENAME", "cn1")
    command._refuse_another(["localhost", full, short, "cn1"])


@pytest.mark.parametrize(
    ("file", "said"),
    [
        ("bad.json", "is not a file of limits"),
        ("no/such", "there is no folder "),
        ("/proc/l.json", "cannot write limits to /proc/l.json: "),
    ],
)
def test_a_file_that_cannot_be_learned_is_refused_before_anything_is_measured(
    here: Here, tmp_path: Path, file: str, said: str
) -> None:
    (tmp_path / "bad.json").write_text("{")
    done = here("check", "--expect", str(tmp_path / file), "--learn", "-o", str(tmp_path / "r.jsonl"))
    assert (done.code, done.out) == (2, "")
    assert said in done.err
    assert not (tmp_path / "r.jsonl").exists()


def test_the_verdict_is_shown_if_the_limits_cannot_be_written(
    here: Here, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def full(*_: object) -> str:
        raise UserError("cannot write limits")

    good = NotMeasured(verdict="PASS", layer="x", why="as fast as ever", decides="")
    monkeypatch.setattr(command.Check, "launches", lambda check, *_: check.unmeasured.append(good) or [])
    monkeypatch.setattr(limits, "learn", full)
    done = here("check", "--expect", str(tmp_path / "l.json"), "--learn", "-o", str(tmp_path / "r.jsonl"))
    assert done.code == 2
    assert "as fast as ever" in done.out
    assert done.err.endswith("volley: cannot write limits\n")


def test_the_command_that_shows_all_findings_shows_the_same_verdicts(here: Here, tmp_path: Path) -> None:
    """As it is typed: of kept records, with what they are judged by."""
    records, known = tmp_path / "r 1.jsonl", tmp_path / "l.json"
    records.write_bytes(gzip.decompress((ROOT / "results" / "two-cores" / "check.jsonl.gz").read_bytes()))
    (tmp_path / "node.json").write_text(json.dumps({"cpu": "word " * 200}))
    known.write_bytes(msgspec.json.encode(good_checks({"x": [1.0] * 5})))
    words = ("--expect", str(known), "--inventory", str(tmp_path / "node.json"), "--one-switch", "-t", "host")
    cut = here("check", "--from", str(records), *words)
    assert cut.code, cut.err
    said = cut.out.splitlines()
    assert said[-1].startswith("all: volley check --from ")
    whole = here(*shlex.split(said[-1])[2:])
    assert (whole.code, whole.out.splitlines()[0]) == (cut.code, said[0])
    assert whole.out.count("word") == 200


def test_what_is_recommended_names_the_files_of_the_user(
    here: Here, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("my limits.json").write_bytes(msgspec.json.encode(good_checks({"x": [1.0]})))
    Path("there.json").write_text('{"nics": ["mlx5_0"]}')
    records = str(ROOT / "results/two-cores/check.jsonl.gz")
    done = here("check", "-f", "json", "--from", records, "--expect", "my limits.json", "--inventory", "there.json")
    told = "\n".join(each["decides"] for each in json.loads(done.out)["findings"])
    assert "on good nodes: volley check --expect 'my limits.json' --learn" in told
    assert "on each node: volley check --inventory there.json" in told
    assert "FILE" not in told


def test_healthy_machines_pass(here: Here, tmp_path: Path) -> None:
    """Kept checks of a machine without GPUs, and of two GPUs: of these the last layer was not kept, and is named."""
    done = here("check", "--from", str(ROOT / "results" / "two-cores" / "check.jsonl.gz"))
    assert done.code == 0, done.out
    assert "PASS         messages in host memory: as fast as the reference two-cores" in done.out
    done = here("check", "--from", str(ROOT / "results" / "h100-x2" / "check.jsonl.gz"), "-f", "json")
    found = json.loads(done.out)["findings"]
    assert done.code == 0, done.out
    assert {(each["layer"], each["verdict"]) for each in found if each["verdict"] != "PASS"} == {
        ("all ranks", "NOT JUDGED")
    }
    # Another machine with the GPUs of the reference: 8 B take 11 to 18 % longer there, 64 MiB 3 %.
    done = here("check", "--from", str(ROOT / "results" / "h200-x2" / "check.jsonl.gz"))
    assert done.code == 0, done.out
    assert "PASS         MPI on device memory: 7.3 % slower than the reference h200-x2" in done.out
    file = tmp_path / "node.json"
    file.write_text('{"nodes": "cn[1-2],vm"}')
    done = here("check", "--from", str(ROOT / "results" / "two-cores" / "check.jsonl.gz"), "--inventory", str(file))
    assert "PASS         inventory: all is as it must be: name" in done.out
    file.write_text('{"gpus": 2, "nics": ["mlx5_0"]}')
    done = here("check", "--from", str(ROOT / "results" / "h100-x2" / "check.jsonl.gz"), "--inventory", str(file))
    assert "the records of this check do not contain: NICs" in done.out


@pytest.mark.parametrize(
    ("evidence", "status", "said"),
    [("none", "NOT JUDGED", True), ("link state", "PASS", True), ("reference", "PASS", False), ("data", "FAIL", False)],
)
def test_where_no_speed_was_judged_this_is_said_first(evidence: str, status: str, said: bool) -> None:
    out = io.StringIO()
    finding = CheckFinding(status=status, layer="x", said="y", evidence=evidence)
    findings.render(in_order([CheckFinding(status="NOT JUDGED", layer="x", said="y"), finding]), "table", out)
    assert ("no speed was judged" in out.getvalue().splitlines()[0]) == said


def test_what_is_not_judged_says_what_is_correct_and_what_would_judge_it() -> None:
    """The layers of processors of which nothing is published."""
    logs = read_runs(ROOT / "results" / "two-cores" / "check.jsonl.gz", BENCHMARKS)[:3]
    for log in logs:
        assert log.run
        log.run = msgspec.structs.replace(
            log.run, ranks=[msgspec.structs.replace(each, cpu="X") for each in log.run.ranks]
        )
    layer = machine.layers(0)[0]
    (found,) = machine.judge(layer, benchmarks.read(layer.words)[0], logs, None, AGAIN)
    assert found.said == "3 points correct; their speed is not judged: there is nothing to compare it with"
    assert "--expect FILE --learn" in found.remedy


@pytest.mark.parametrize(
    ("name", "busy"),
    [
        ("two-cores/launches-busy", True),
        ("two-cores/check", False),
        ("thirty-two-cores/launches", False),
        ("h100-x2/check", False),
        ("h200-x2/check", False),
    ],
)
def test_ranks_that_had_no_core_are_seen_in_kept_records(name: str, busy: bool) -> None:
    """Launches on machines that were quiet, and on one that was kept busy on purpose."""
    logs = read_runs(ROOT / "results" / f"{name}.jsonl.gz", BENCHMARKS)
    of_cores = [log for log in logs if log.run and log.run.plan.transports == ["host"]]
    assert {bool(without_core([log])) for log in of_cores} == {busy}
    for log in of_cores:  # a rank that sleeps needs no core
        assert log.end
        asleep = [msgspec.structs.replace(each, cpu_s=0.0, voluntary_switches=10**6) for each in log.end.usage]
        log.end = msgspec.structs.replace(log.end, usage=asleep)
    assert not without_core(of_cores)


def test_while_others_use_the_cores_no_limit_is_broken_for_certain_and_nothing_is_learned(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    layer = machine.layers(0)[0]
    benchmark, _ = benchmarks.read(layer.words)
    logs = read_runs(ROOT / "results" / "two-cores" / "check.jsonl.gz", BENCHMARKS)[:3]
    known = good_checks({name: [seconds[0] / 9] * 5 for name, seconds in measured(benchmark, logs).items()})
    together = cluster.Measured(ClusterMap(), 60.0)

    def judged(*words: str) -> Judged:
        asked: CheckOptions = COMMAND.parse(["--expect", str(tmp_path / "f"), "--learn", *words])
        return Judged(asked, logs, together, Yardsticks(ClusterMap(), None, None), AGAIN)

    def status() -> str:
        (found,) = machine.judge(layer, benchmark, logs, limits.Site(known, 1, AGAIN, "a"), AGAIN)
        return found.status

    good = [CheckFinding(status="PASS", layer="x", said="y")]
    assert (status(), judged().without_core) == ("FAIL", None)
    assert command._learn(tmp_path / "quiet", good, judged())
    for log in logs:
        assert log.end
        usage = [msgspec.structs.replace(each, cpu_s=each.elapsed_s / 4) for each in log.end.usage]
        log.end = msgspec.structs.replace(log.end, usage=usage)
    why = "others used these cores (rank 0 had its core for 25 % of the time)"
    assert (status(), judged().without_core) == ("UNDECIDED", (why, "while nothing else runs here"))
    capsys.readouterr()
    assert not command._learn(tmp_path / "busy", good, judged())
    assert not (tmp_path / "busy").exists()
    said = capsys.readouterr().err
    assert f"nothing was learned: {why}; check again" in said
    assert "the exit code is 4, because" in said
    assert not command._learn(tmp_path / "busy", good, judged("--force"))  # which is of the file of records
    assert command._learn(tmp_path / "busy", good, judged("--learn-busy"))
    said = f"{why}: these times are longer than those of a quiet node; while nothing else runs here, into a new file: "
    assert f"{said}{AGAIN.learn_anew}\n" in capsys.readouterr().err
    # Fewer CPUs than ranks are no fault of others, and no quiet machine helps.
    first = logs[0]
    assert first.run
    assert first.settings
    for why, quota_cpus, cores, how in (
        ("the control group on vm allows 1.50 CPUs and the ranks use 2", 1.5, (0, 1), "with a higher quota"),
        ("2 ranks share 1 CPU", None, (0, 0), "with a CPU for each rank"),
    ):
        first.settings = msgspec.structs.replace(first.settings, quota_cpus=quota_cpus)
        placed = zip(first.run.ranks, cores, strict=True)
        ranks = [msgspec.structs.replace(each, cores=[core]) for each, core in placed]
        first.run = msgspec.structs.replace(first.run, ranks=ranks)
        (found,) = machine.judge(layer, benchmark, logs, limits.Site(known, 1, AGAIN, "a"), AGAIN)
        assert found.said.startswith(why)
        assert found.remedy.startswith(how)
        assert not command._learn(tmp_path / "shared", good, judged())
        said = capsys.readouterr().err
        assert f"nothing was learned: {why}" in said
        assert f"check again {how}" in said
    first.records = [msgspec.structs.replace(first.records[0], status="skipped", reason=OUT_OF_TIME)]
    (found,) = machine.judge(layer, benchmark, logs, None, AGAIN)
    assert found.said.endswith("the time budget was too short, because 2 ranks share 1 CPU")
    assert found.remedy.startswith(f"with a CPU for each rank (taskset -cp $$ shows the CPUs of this shell): {AGAIN()}")
    assert found.remedy.endswith(f"; or {AGAIN.longer}")


@pytest.mark.slow
def test_a_layer_has_the_time_that_the_check_has_left(volley: Command, tmp_path: Path) -> None:
    learns = ("--expect", "new.json", "--learn", "--learn-busy")
    done = volley("check", "--ranks", "2", "--budget", "0.2", "-o", str(tmp_path / "r.jsonl"), *learns)
    assert done.code == 4
    budgets = [log.run.plan.budget_s for log in read_runs(tmp_path / "r.jsonl", BENCHMARKS) if log.run]
    assert budgets
    assert max(budgets) <= 0.2
    assert "→ volley check --expect new.json --learn --learn-busy -n 2 --budget 45\n" in done.out


def test_a_check_whose_ranks_do_not_start_says_why_once_a_layer(here: Here) -> None:
    done = here("check", "--launcher-arg=--no-such", "-f", "json")
    found = [(each["verdict"], each["layer"]) for each in json.loads(done.out)["findings"]]
    assert done.code == 3
    layers = ("messages in host memory", "allreduce in host memory", "all ranks")
    assert sorted(found) == sorted(("NOT POSSIBLE", layer) for layer in layers)
    assert all("ended with status" in each["why"] for each in json.loads(done.out)["findings"])


def test_what_is_recommended_has_the_options_of_the_check() -> None:
    options = COMMAND.parse(["--mpi", "wheel", "--budget", "5", "--inventory", "my list", "--launcher-arg=-x"])
    again = Again(options.typed, 60.0)
    kept = "--mpi wheel --launcher-arg=-x"
    assert again() == "volley check --inventory 'my list' --mpi wheel --launcher-arg=-x"
    assert again.longer == f"{again()} --budget 60"
    assert again.learn == f"volley check {kept} --expect FILE --learn"
    assert again("--inventory", "other") == f"volley check {kept} --inventory other"
    assert Again([["--one-switch"], ["--ranks", "4"]])("--switches", "FILE") == "volley check -n 4 --switches FILE"
    learning = Again(COMMAND.parse(["--expect", "new.json", "--learn"]).typed)
    assert learning() == learning.learn == learning.quiet == "volley check --expect new.json --learn"
    busy = Again(COMMAND.parse(["--expect", "new.json", "--learn", "--learn-busy"]).typed)
    assert busy.quiet == busy.learn == busy.learn_anew == "volley check --expect new-new.json --learn"
    faulty = Again(COMMAND.parse(["-t", "host+delay,aware,host", "--expect", "a.json"]).typed, 4000.0)
    assert faulty.learn == "volley check -t host,aware --expect a.json --learn"
    assert faulty.longer.endswith(" --budget 4000")


def test_a_busy_machine_is_reported_and_not_judged(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Messages in host memory that took twice as long as on the machine whose records are the reference."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))  # without references of the user
    logs = read_runs(ROOT / "results" / "two-cores" / "check.jsonl.gz", BENCHMARKS)[:3]
    for log in logs:
        log.records = [
            msgspec.structs.replace(point, times_s=[2 * each for each in point.times_s]) for point in log.of(PingPong)
        ]
    layer = machine.layers(0)[0]
    (found,) = machine.judge(layer, benchmarks.read(layer.words)[0], logs, None, AGAIN)
    assert (found.status, "others may use these cores" in found.said) == ("NOT JUDGED", True)


TOGETHER = "among all 2 ranks: host"


def missing_in(here: Here, folder: Path, change: Callable[[Any], Any], *more: str) -> tuple[list[str], int]:
    """Judge a kept check of two cores, each of whose records is changed, by limits of good nodes that also measured
    ``more``; return what is missing, and the exit code."""
    with gzip.open(ROOT / "results" / "two-cores" / "check.jsonl.gz") as file:
        records = [new for line in file if (new := change(json.loads(line)))]
    (folder / "r.jsonl").write_bytes(b"".join(msgspec.json.encode(each) + b"\n" for each in records))
    of = limits.Machine(cpu=records[0]["ranks"][0]["cpu"], ranks=2)
    names = [*(f"pingpong: host, {size}" for size in ("8 B", "64 KiB", "1 MiB")), "collective: allreduce host, 1 MiB"]
    names += [f"pingpong {TOGETHER}, 8 B", f"stream {TOGETHER}, 1 MiB", *more]
    checked = limits.Checked(host="a", machine=of, seconds=dict.fromkeys(names, 1.0))
    (folder / "known.json").write_bytes(msgspec.json.encode(Limits(checks=[checked] * limits.FEWEST)))
    words = ("--from", str(folder / "r.jsonl"), "--expect", str(folder / "known.json"), "-f", "json")
    done = here("check", *words)
    found = json.loads(done.out)["findings"]
    return [each["part"] for each in found if each["layer"] == "what must be there"], done.code


def out_of_time(record: Any) -> Any:
    """Only the shortest messages were measured before the budget ended."""
    if record.get("size_bytes", 0) <= 8:
        return record
    if record["record"] == "rank_matrix":
        skipped = [{"ranks": record["ranks"], "reason": OUT_OF_TIME}]
        return {**record, "medians": [None], "lows": [None], "samples": [0], "skipped": skipped}
    kept = ("record", "version", "transport", "ranks", "operation", "size_bytes")
    return {key: record[key] for key in kept if key in record} | {"status": "skipped", "reason": OUT_OF_TIME}


def ended_early(record: Any) -> Any:
    """Launches that were killed after the shortest messages."""
    return None if record["record"] in ("end", "launch_times") or record.get("size_bytes", 0) > 8 else record


def without_host(record: Any) -> Any:
    """The transport of two layers could not be used."""
    if record["record"] == "transport":
        return {**record, "available": False, "reason": "no MPI"}
    return None if record["record"] in ("pingpong", "collective") else record


@pytest.mark.parametrize(("asked", "longer"), [([], 90), ([["--budget", "6"]], 45), ([["--budget", "70"]], 140)])
def test_a_longer_budget_is_that_of_the_check(here: Here, tmp_path: Path, asked: list[list[str]], longer: int) -> None:
    """Twice its own, and no less than the usual one: what the check itself advised."""

    def change(record: Any) -> Any:
        if record["record"] == "run":
            record["plan"]["launch"]["asked"] = asked
        return out_of_time(record)

    missing_in(here, tmp_path, change)
    done = here("check", "--from", str(tmp_path / "r.jsonl"))
    assert set(re.findall(r"--budget (\d+)", done.out)) == {str(longer)}


def test_what_was_not_asked_for_or_had_no_time_is_not_missing(here: Here, tmp_path: Path) -> None:
    """What was asked for and could not be used is."""
    assert missing_in(here, tmp_path, lambda record: record) == ([], 0)
    more = (f"stream {TOGETHER}/put, 1 MiB", "pingpong: host, 4 MiB")
    assert missing_in(here, tmp_path, lambda record: record, *more) == ([], 0)
    assert missing_in(here, tmp_path, out_of_time) == ([], 4)
    assert missing_in(here, tmp_path, ended_early) == ([], 4)
    lost = ["collective: allreduce host, 1 MiB; pingpong: host, 1 MiB; pingpong: host, 64 KiB; and pingpong: host, 8 B"]
    assert missing_in(here, tmp_path, without_host) == (lost, 1)


def _changed(change: Callable[[Any], None], launches: slice = slice(None)) -> bytes:
    """A kept check of two cores: some of its launches, of whose first record each is changed."""
    with gzip.open(ROOT / "results" / "two-cores" / "check.jsonl.gz") as file:
        records = list(map(json.loads, file))
    begins = [place for place, record in enumerate(records) if record["record"] == "run"]
    parts = [records[first:last] for first, last in zip(begins, [*begins[1:], None], strict=True)][launches]
    for part in parts:
        change(part[0])
    return b"".join(msgspec.json.encode(record) + b"\n" for part in parts for record in part)


def on_another_host(run: Any) -> None:
    run["started_at"] = "2026-01-01T00:00:00Z"
    for rank in run["ranks"]:
        rank["host"] = "another"


def on_another_processor(run: Any) -> None:
    run["started_at"] = "2026-01-01T00:00:00Z"
    for rank in run["ranks"]:
        rank["cpu"] = "another"


def with_tcp(run: Any) -> None:
    run["started_at"] = "2026-01-01T00:00:00Z"
    run["environment"]["UCX_TLS"] = "tcp"


def with_warmup(run: Any) -> None:
    run["started_at"] = "2026-01-01T00:00:00Z"
    run["plan"]["sampling"]["mode"] = "fixed"
    run["plan"]["launch"]["asked"].append(["--warmup", "1"])


def test_only_checks_of_one_machine_in_one_way_are_judged_together(here: Here, tmp_path: Path) -> None:
    """The same launch, in two files or twice in one, counts once."""
    first, second = tmp_path / "first.jsonl", tmp_path / "second.jsonl"
    first.write_bytes(_changed(lambda _: None))
    alone = here("check", "--from", str(first))
    second.write_bytes(first.read_bytes() * 2)
    done = here("check", "--from", f"{first},{second}")
    assert (done.code, done.out) == (alone.code, alone.out)
    assert "which volley counts once" in done.err
    for change, launches, said in (
        (on_another_host, slice(None), "host ("),
        (on_another_host, slice(-1, None), "host ("),
        (on_another_processor, slice(-1, None), "CPU ("),
        (with_tcp, slice(None), "UCX_TLS (not set or tcp)"),
        (with_warmup, slice(1), "options (none or --warmup 1)"),
    ):
        second.write_bytes(_changed(change, launches))
        done = here("check", "--from", f"{first},{second}")
        assert (done.code, done.out) == (2, "")
        assert f"they differ in {said}" in done.err
        assert "judge each check by itself" in done.err
        done = here("show", str(first), str(second))
        assert alone.out in done.out


def is_of_check(run: Any) -> None:
    run["plan"]["launch"]["of_check"] = {"asked": [["--budget", "50"]], "one_machine": True, "nodes": 1}


def of_other_sizes(run: Any) -> None:
    run["started_at"] = "2026-01-01T00:00:00Z"
    run["plan"]["options"]["sizes_bytes"] = [8]
    run["plan"]["launch"]["asked"] = [["--transport", "host"], ["--sizes", "8"]]


def test_a_check_is_not_judged_together_with_other_launches(here: Here, tmp_path: Path) -> None:
    """Old launches of a check do not say that they are of one, but those of other GPUs are not of it."""
    file, results = tmp_path / "r.jsonl", ROOT / "results" / "h100-x2"
    other = _changed(lambda run: run.update(started_at="2026-01-01T00:00:00Z"), slice(1))
    of_gpus = [gzip.decompress((results / f"{name}.jsonl.gz").read_bytes()) for name in ("check", "pingpong-after")]
    for joined, said in (
        (_changed(is_of_check) + other, "r.jsonl has 1 launch of no check beside those of a check"),
        (
            _changed(lambda _: None) + _changed(of_other_sizes, slice(1)),
            "r.jsonl has 1 launch of no check beside those of a check",
        ),
        (b"".join(of_gpus), "they differ in GPU ("),
    ):
        file.write_bytes(joined)
        done = here("check", "--from", str(file))
        assert (done.code, done.out) == (2, "")
        assert said in done.err


def test_a_check_that_ended_early_shows_its_verdicts(here: Here, tmp_path: Path) -> None:
    file = tmp_path / "r.jsonl"
    file.write_bytes(_changed(is_of_check, slice(3)))
    done = here("show", str(file))
    for said in (
        "PASS         messages in",
        "UNDECIDED    allreduce in",
        "UNDECIDED    all ranks: these records do not contain it\n             → volley check --budget 100\n",
    ):
        assert said in done.out
    assert here("check", "--from", str(file)).out in done.out


@pytest.mark.parametrize("verdict", ["FAIL", "NOT POSSIBLE", "UNDECIDED"])
def test_what_a_check_could_not_measure_is_in_its_records_too(here: Here, tmp_path: Path, verdict: str) -> None:
    """A launch that failed, without its end or with it; a layer that never began; one for which there was no time."""
    layer = "messages in host memory"
    said = {
        "record": "not_measured",
        "version": 2,
        "layer": layer,
        "verdict": verdict,
        "why": "so",
        "decides": "volley x",
    }
    records = [*map(json.loads, _changed(is_of_check).splitlines()), said]
    end = next(each for each in records if each["record"] == "end")
    launch = [place for place, each in enumerate(records) if each["record"] == "run"][3]
    ended = [records, [each for each in records if each is not end]]
    for kept in ended if verdict == "FAIL" else [records[launch:]]:
        (tmp_path / "r.jsonl").write_bytes(b"".join(msgspec.json.encode(each) + b"\n" for each in kept))
        done = here("check", "--from", str(tmp_path / "r.jsonl"), "-f", "json")
        (found,) = (each for each in json.loads(done.out)["findings"] if each["verdict"] == verdict)
        assert done.code == {"FAIL": 1, "NOT POSSIBLE": 3, "UNDECIDED": 4}[verdict]
        assert [found[key] for key in ("layer", "why", "decides")] == [layer, "so", "volley x"]


def test_kept_records_are_judged_as_the_check_was(here: Here, tmp_path: Path) -> None:
    """By what it saw of its host, by its transports and hosts; its files are to be named again."""
    asked = [["--transport", "aware"], ["--launcher-arg", "x"], ["--launcher-arg", "y"], ["--inventory", "a b"]]
    seen = {"host": "vm.site.org", "node": "cn1", "gpus": None, "nics": ["mlx5_0"]}

    def change(record: Any) -> Any:
        if record["record"] == "run":
            is_of_check(record)
            record["plan"]["launch"]["of_check"] |= {"asked": asked, "here": seen}
        more = {"transport": "aware", "available": False, "reason": "no GPU"} if record["record"] == "transport" else {}
        return {**record, **more}

    missing_in(here, tmp_path, change)
    for nic, verdict in (("mlx5_0", "PASS"), ("mlx5_1", "FAIL")):
        (tmp_path / "nics.json").write_text(json.dumps({"nodes": "cn1", "nics": [nic]}))
        words = ("check", "--from", str(tmp_path / "r.jsonl"), "-f", "json", "--inventory", str(tmp_path / "nics.json"))
        document = json.loads(here(*words).out)
        found = {each["layer"]: each for each in document["findings"]}
        assert (found["inventory"]["verdict"], document["nodes"]) == (verdict, ["cn1"])
    done = here("check", "--from", str(tmp_path / "r.jsonl"))
    assert done.code == 3
    assert "NOT POSSIBLE all ranks: aware: no GPU" in done.out
    assert "records: the check was judged by --inventory 'a b', too" in done.out
    (tmp_path / "known.json").write_text('{"checks": []}')
    done = here("check", "--from", str(tmp_path / "r.jsonl"), "--expect", str(tmp_path / "known.json"))
    assert "volley check --launcher-arg x --launcher-arg y " in done.out


def test_a_map_for_kept_records_replaces_theirs_and_names_their_nodes(here: Here, tmp_path: Path) -> None:
    hosts = ["cn0", "cn1"]

    def on_two_hosts(run: Any) -> None:
        is_of_check(run)
        asked = [["--hosts", ",".join(hosts)], ["--one-switch"]]
        run["plan"]["launch"]["of_check"] |= {"asked": asked, "one_machine": False, "nodes": 2}
        for rank, host in zip(run["ranks"], hosts, strict=True):
            rank["host"] = host

    records, switches = tmp_path / "r.jsonl", tmp_path / "sw"
    records.write_bytes(_changed(on_two_hosts, slice(-1, None)))
    for names, code, said in (
        (hosts, 0, ""),
        (hosts[:1], 0, f"volley: --switches {switches} does not name cn1: it names 1 node from cn0 on\n"),
        (["x"], 2, f"volley: --switches {switches} does not name cn0 and cn1: it names 1 node from x on\n"),
    ):
        switches.write_text("".join(f"{name} leaf1\n" for name in names))
        done = here("check", "--from", str(records), "--switches", str(switches))
        assert (done.code, done.err) == (code, said)
        assert "--one-switch" not in done.out
        assert code or f"volley check --switches {switches} --hosts A,B,C,D" in done.out


def test_what_kept_records_lack_is_undecided_if_it_was_asked_for(here: Here, tmp_path: Path) -> None:
    """By the name of a transport, or by limits, which are of all layers."""
    kept = str(ROOT / "results" / "h100-x2" / "check.jsonl.gz")
    file = tmp_path / "limits.json"
    file.write_bytes(msgspec.json.encode(Limits(checks=[])))
    for words, asked in (
        (("-t", "aware"), set()),
        (("-t", "staged"), {"all ranks", "staged"}),
        (("--expect", str(file)), {"all ranks"}),
    ):
        done = here("check", "--from", kept, "-f", "json", *words)
        found = [each for each in json.loads(done.out)["findings"] if "do not contain" in each["why"]]
        assert {each["layer"] for each in found if each["verdict"] == "UNDECIDED"} == asked
        assert done.code == (4 if asked else 0)


def test_each_layer_of_a_kept_check_has_its_own_records(here: Here) -> None:
    """MPI on device memory was delayed: messages in host memory and collectives were not."""
    done = here("check", "--from", str(ROOT / "results" / "h100-x2" / "check-delay.jsonl.gz"), "--format", "json")
    layers = {each["layer"]: each for each in json.loads(done.out)["findings"]}
    assert "6.9" in layers["MPI on device memory"]["why"]
    others = [each for name, each in layers.items() if name != "MPI on device memory"]
    assert not any("aware" in str(each.get("part")) + str(each.get("why")) for each in others)


def test_a_job_of_a_check(here: Here) -> None:
    words = ("--scheduler", "slurm", "--nodes", "4", "--gpus-per-node", "8", "--time", "00:10:00", "--", "check")
    done = here("batch", *words)
    assert done.code == 0, done.err
    assert "#SBATCH --exclusive" in done.out
    assert "#SBATCH --ntasks=32" in done.out
