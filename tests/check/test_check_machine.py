"""The layers of one machine: by a reference, by limits, by what its links say."""

from collections.abc import Sequence
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

import gpu_records
from node_limits import good_checks
from volley import benchmarks, references
from volley.benchmarks import BENCHMARKS
from volley.benchmarks.matrix import GPUS
from volley.benchmarks.pair import PINGPONG
from volley.benchmarks.pair.results import PingPong
from volley.check import COMMAND, cluster, command, limits, machine
from volley.check.findings import Again, CheckFinding
from volley.check.judged import Judged, Yardsticks
from volley.check.limits import Limits
from volley.check.options import CheckOptions
from volley.launch.cluster_map import ClusterMap
from volley.records.plan import OUT_OF_TIME
from volley.records.records_file import read_runs
from volley.records.run_log import RunLog
from volley.references.equal_machines import Ratios, measured
from volley.run.machine_notes import without_core
from volley.statistics.estimates import median

ROOT = Path(__file__).parents[2]
AGAIN = Again()
IN_HOST_MEMORY = machine.layers(0)[0]


def gpu_log() -> RunLog:
    (log,) = read_runs(ROOT / "results" / "h200-x2" / "matrix.jsonl", BENCHMARKS)
    return log


def change_gpu(log: RunLog, place: int, number: int = 0, **changes: Any) -> None:
    """Another state of a GPU, in one of the records of the hardware: before or after the measurement."""
    hardware = log.hardware[place]
    gpus = [*hardware.gpus]
    gpus[number] = replace(gpus[number], **changes)
    log.hardware[place] = replace(hardware, gpus=gpus)


def change_all_gpus(log: RunLog, **changes: Any) -> None:
    for place, hardware in enumerate(log.hardware):
        for number in range(len(hardware.gpus)):
            change_gpu(log, place, number, **changes)


def host_logs() -> list[RunLog]:
    """The launches of a kept check of two cores whose messages are in host memory."""
    return read_runs(ROOT / "results" / "two-cores" / "check.jsonl.gz", BENCHMARKS)[:3]


def judged_host(logs: Sequence[RunLog], known: Limits | None = None) -> CheckFinding:
    """The finding of that layer, by the limits if there are any."""
    site = limits.Site(known, 1, AGAIN, "a") if known else None
    (found,) = machine.judge(IN_HOST_MEMORY, PINGPONG, logs, site, AGAIN)
    return found


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
    for log in logs:
        change_all_gpus(log, name="NVIDIA X", pcie_width=lanes, pcie_width_max=lanes)
    (found,) = judged_gpus(*logs)
    assert (found.status, found.evidence) == (verdict, "line rate")
    assert ("host → 0" in found.said) == (lanes == 32)


def test_a_gpu_with_a_program_of_somebody_else_does_not_pass() -> None:
    log = gpu_log()
    change_gpu(log, 0, processes=1)
    assert ("UNDECIDED", "another program computes on it") in [(each.status, each.said) for each in judged_gpus(log)]


def test_the_users_own_reference(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with the same GPUs and processors; where another one is, nothing is compared."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    references.add("good-node", str(ROOT / "results" / "h200-x2" / "matrix.jsonl"), BENCHMARKS)
    assert "good-node" not in judged_gpus(gpu_log())[0].said, "no launch is a reference for itself"
    other = gpu_log()
    other.run = replace(other.run, started_at="2026-01-01T00:00:00Z")
    (finding,) = judged_gpus(other)
    assert (finding.status, finding.evidence) == ("PASS", "reference")
    assert finding.said.startswith("as fast as the reference good-node")
    other.run = replace(other.run, ranks=[])
    assert "good-node" not in judged_gpus(other)[0].said


def test_clocks_that_are_held_down() -> None:
    once = ", before or after the measurement only"
    for places, verdict, missing in (((0, 1), "FAIL", ""), ((1,), "UNDECIDED", once)):
        log = gpu_log()
        for place in places:
            change_gpu(log, place, clocks_event_reasons=["idle", "hardware thermal slowdown"])
        (found,) = (each for each in judged_gpus(log) if each.evidence == "link state")
        assert (found.status, found.said) == (verdict, "clocks: hardware thermal slowdown" + missing)


def test_a_link_that_is_down_and_errors_during_the_check() -> None:
    log = gpu_log()
    change_gpu(log, 0, pcie_replays=1)
    change_gpu(log, 1, pcie_replays=2, nvlinks_inactive=2, pcie_width=8, pcie_width_max=16)
    found = [each for each in judged_gpus(log) if each.evidence == "link state"]
    assert [each.status for each in found] == ["FAIL", "FAIL", "UNDECIDED"]
    assert found[0].said.startswith("NVLink: 2 of 20 down")


@pytest.mark.parametrize(("errors", "verdicts"), [(99, []), (101, ["UNDECIDED"])])
def test_corrected_errors_are_judged_by_their_rate(errors: int, verdicts: list[str]) -> None:
    log = gpu_log()
    log.end = replace(log.end, elapsed_s=2.0)
    for place, count in enumerate((3, 3 + 2 * errors)):
        change_gpu(log, place, nvlink_errors={"CRC of data": count})
    assert [each.status for each in judged_gpus(log) if each.evidence == "link state"] == verdicts


def test_links_that_a_bridge_leaves_free_are_no_fault() -> None:
    log = gpu_log()
    change_all_gpus(log, name="NVIDIA H100 NVL", nvlinks_inactive=6)
    assert not [each for each in judged_gpus(log) if each.evidence == "link state"]


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
            replace(point, transport="aware+delay", times_s=[each + 2e-4 for each in point.times_s])
            for point in log.of(PingPong)
        ]
    assert (judged(None), judged(known)) == ([("UNDECIDED", "reference")], [("FAIL", "limits")])


def test_a_layer_that_is_slow_in_most_launches_does_not_pass() -> None:
    """A time is beyond its limit in the median, and not in each launch: that is neither good nor surely bad."""
    layer, _ = machine.layers(0)
    for times, verdict in (([1.2, 1.2, 1.3], "PASS"), ([1.2, 1.2, 9.0], "PASS"), ([1.2, 4.0, 9.0], "NOT JUDGED")):
        found = machine._by_reference(layer, Ratios("two-cores", {"host, 8 B": times}), AGAIN, "")
        assert found.status == verdict
    assert (
        "host at 8 B is more than 50 % slower than the reference two-cores in half of the launches or more"
        in found.said
    )


def test_what_is_not_judged_says_what_is_correct_and_what_would_judge_it() -> None:
    """The layers of processors of which nothing is published."""
    logs = host_logs()
    for log in logs:
        log.run = replace(log.run, ranks=[replace(each, cpu="X") for each in log.run.ranks])
    found = judged_host(logs)
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
        asleep = [replace(each, cpu_s=0.0, voluntary_switches=10**6) for each in log.end.usage]
        log.end = replace(log.end, usage=asleep)
    assert not without_core(of_cores)


def test_while_others_use_the_cores_no_limit_is_broken_for_certain_and_nothing_is_learned(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    logs = host_logs()
    known = good_checks({name: [seconds[0] / 9] * 5 for name, seconds in measured(PINGPONG, logs).items()})
    together = cluster.Measured(ClusterMap(), 60.0)

    def judged(*words: str) -> Judged:
        asked: CheckOptions = COMMAND.parse(["--expect", str(tmp_path / "f"), "--learn", *words])
        return Judged(asked, logs, together, Yardsticks(ClusterMap(), None, None), AGAIN)

    good = [CheckFinding(status="PASS", layer="x", said="y")]
    assert (judged_host(logs, known).status, judged().without_core) == ("FAIL", None)
    assert command._learn(tmp_path / "quiet", good, judged())
    for log in logs:
        usage = [replace(each, cpu_s=each.elapsed_s / 4, other_threads_cpu_s=0.0) for each in log.end.usage]
        log.end = replace(log.end, usage=usage)
    why = "others used these cores (rank 0 had its core for 25 % of the time)"
    quiet = (why, "while nothing else runs here")
    assert (judged_host(logs, known).status, judged().without_core) == ("UNDECIDED", quiet)
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
    for why, quota_cpus, cores, how in (
        ("the control group on vm allows 1.50 CPUs and the ranks use 2", 1.5, (0, 1), "with a higher quota"),
        ("2 ranks share 1 CPU", None, (0, 0), "with a CPU for each rank"),
    ):
        first.settings = replace(first.settings, quota_cpus=quota_cpus)
        placed = zip(first.run.ranks, cores, strict=True)
        ranks = [replace(each, cores=[core]) for each, core in placed]
        first.run = replace(first.run, ranks=ranks)
        found = judged_host(logs, known)
        assert found.said.startswith(why)
        assert found.remedy.startswith(how)
        assert not command._learn(tmp_path / "shared", good, judged())
        said = capsys.readouterr().err
        assert f"nothing was learned: {why}" in said
        assert f"check again {how}" in said
    first.records = [replace(first.records[0], status="skipped", reason=OUT_OF_TIME)]
    found = judged_host(logs)
    assert found.said.endswith("the time budget was too short, because 2 ranks share 1 CPU")
    assert found.remedy.startswith(f"with a CPU for each rank (taskset -cp $$ shows the CPUs of this shell): {AGAIN()}")
    assert found.remedy.endswith(f"; or {AGAIN.longer}")


def test_a_busy_machine_is_reported_and_not_judged(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Messages in host memory that took twice as long as on the machine whose records are the reference."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))  # without references of the user
    logs = host_logs()
    for log in logs:
        log.records = [replace(point, times_s=[2 * each for each in point.times_s]) for point in log.of(PingPong)]
    found = judged_host(logs)
    assert (found.status, "others may use these cores" in found.said) == ("NOT JUDGED", True)
