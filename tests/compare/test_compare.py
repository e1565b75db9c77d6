"""``volley compare``: verdicts, what differs between environments, exit codes, and misuse."""

import io
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

import example_records
from comparison_records import SIZES, in_turn, launches, write
from gpu_records import log as gpu_log
from screens import SCREENS, check_screen
from the_command import check_transcript
from volley import cli
from volley.benchmarks import BENCHMARKS
from volley.benchmarks.replay.results import RecordedCalls, ReplayPlan
from volley.compare import page
from volley.compare.comparison import Comparison, Side, compare
from volley.compare.environment import environment_differences
from volley.compare.finding import gate, headline
from volley.compare.options import FailOn
from volley.machine.hardware import Hardware
from volley.machine.paths import PathEnd, RunPath
from volley.machine.ucx_protocols import Protocols, ProtocolTable, SizeRange
from volley.records.plan import Sampling
from volley.records.record_types import MpiFacts
from volley.records.records_file import read_runs
from volley.records.run_log import RunLog
from volley.run.render import render_reports
from volley.statistics import two_runs

ROOT = Path(__file__).parents[2]

Capture = pytest.CaptureFixture[str]
Logs = list[RunLog]


def compared(first: Logs, second: Logs, within: float = 0.05) -> Comparison:
    return compare(Side.of("a", first), Side.of("b", second), within)


def run_with(log: RunLog, **changes: Any) -> RunLog:
    """The log with a changed ``run`` record; ``plan`` has the changes of its plan."""
    if plan := changes.pop("plan", None):
        changes["plan"] = msgspec.structs.replace(log.run.plan, **plan)
    log.run = msgspec.structs.replace(log.run, **changes)
    return log


def with_fresh_buffers(log: RunLog, option: str = "fresh_buffers") -> RunLog:
    options = msgspec.structs.replace(log.run.plan.options, **{option: True})
    asked = [["--launches", "3"], [f"--{option.replace('_', '-')}"]]
    return run_with(log, plan={"options": options, "launch": {"asked": asked}})


def without(logs: Logs, places: slice, *, of: slice = slice(None)) -> Logs:
    """The logs without some of their records."""
    for log in logs[of]:
        del log.records[places]
    return logs


def one_varies() -> Logs:
    """The first point takes longer from launch to launch."""
    logs = launches(2)
    for number, log in enumerate(logs):
        log.records[0] = example_records.pingpong([1e-6 * (1 + number / 10)] * 6, size=SIZES[0], name="host")
    return logs


def faster_at_the_largest() -> Logs:
    logs = launches(2, slower={"aware": 1.1})
    for log in logs:
        log.records[-1] = example_records.pingpong([8e-7] * 6, size=SIZES[-1], name="aware")
    return logs


def one_failed() -> Logs:
    logs = launches(2)
    logs[-1].records[0] = example_records.pingpong([], size=SIZES[0], name="host", status="failed")
    return logs


def truncated() -> Logs:
    logs = launches(2)
    logs[0].end = None
    assert logs[1].end
    logs[1].end = msgspec.structs.replace(logs[1].end, status="stopped")
    return logs


def cut() -> Logs:
    """A baseline that ended before it measured one of its transports."""
    logs = without(launches(3), slice(3, None))
    logs[-1].end = None
    return logs


def damaged() -> Logs:
    logs = launches(2)
    logs[2].problems = ["line 17: no JSON: invalid character", "line 18: no JSON: invalid character"]
    return logs


def ordered(seed: int, time_s: float, sizes: tuple[int, ...]) -> Logs:
    logs = launches(seed)
    for number, log in enumerate(logs):
        log.records = [example_records.pingpong([time_s * (1 + number / 1e4)] * 6, size=size) for size in sizes]
    return logs


def gpu_logs() -> tuple[Logs, Logs]:
    """Two matrices, which have no option for further launches."""
    return [gpu_log(2, ["uni"])], [run_with(gpu_log(2, ["uni"]), started_at="2026-01-02T03:09:00Z")]


def with_common_point() -> tuple[Logs, Logs]:
    """The common point is that of the second request of the first side."""
    first = [*launches(1, count=1), *launches(3, count=1)]
    for log, sizes, place in zip(first, ("4k", "8"), (1, 0), strict=True):
        run_with(log, plan={"launch": {"asked": [["--sizes", sizes]]}, "watchdog_s": 60.0 + place})
        log.records[:] = [log.records[place]]
    return first, without(launches(2, count=1), slice(1, None))


def drifting(steps: range = range(8), by: float = 1.1, **slower: float) -> Logs:
    factors = ({name: slower.get(name, 1) * by**step for name in ("host", "aware")} for step in steps)
    return [launches(1, count=1, slower=each)[0] for each in factors]


COMPARED: dict[str, Callable[[], tuple[Logs, Logs]]] = {
    "slower": lambda: (launches(1), launches(2, slower={"aware": 1.1})),
    "same": lambda: (launches(1), launches(2)),
    "noise": lambda: (launches(1, noise=0.1), launches(2, noise=0.1)),
    "five-launches": lambda: (launches(1, count=5), launches(2, count=5, slower={"aware": 1.1})),
    "one-launch": lambda: (launches(1, count=1), launches(2, count=1)),
    "one-undecided": lambda: (
        without(launches(1, noise=0.1), slice(1, None)),
        without(launches(2, noise=0.1), slice(1, None)),
    ),
    "two-undecided": lambda: (
        without(launches(1, noise=0.1), slice(2, None)),
        without(launches(2, noise=0.1), slice(2, None)),
    ),
    "one-same-one-undecided": lambda: (without(launches(1), slice(2, None)), without(one_varies(), slice(2, None))),
    "drift": lambda: (drifting(by=1.01), drifting(range(8, 16), 1.01, aware=1.2)),
    "slower-and-faster": lambda: (launches(1), faster_at_the_largest()),
    "only-in-b": lambda: (launches(1), launches(2, names=("host", "aware", "peer"))),
    "failed": lambda: (launches(1), one_failed()),
    "truncated": lambda: (launches(1), truncated()),
    "damaged": lambda: (launches(1), damaged()),
    "matrices": gpu_logs,
    "common-point": with_common_point,
    "sizes-in-any-order": lambda: (ordered(1, 1e-6, (8, 1 << 30, 512)), ordered(2, 2e-6, (8, 1 << 30, 512))),
    "one-size": lambda: (ordered(1, 1e-6, (1 << 20,)), ordered(2, 2e-6, (1 << 20,))),
    "text-of-machines": lambda: (launches(1, environment={"UCX_TLS": "\x1b[31mred"}), launches(2)),
}


@pytest.mark.parametrize("name", COMPARED)
def test_screens(name: str) -> None:
    """Without options, and of some of them with all points."""
    found, out = compared(*COMPARED[name]()), io.StringIO()
    render_reports([page.report(found, full=False)], "table", out)
    if name == "slower":
        render_reports([page.report(found, full=True)], "table", out)
        render_reports([page.report(found, full=False)], "csv", out)
    check_screen(SCREENS / f"compare/{name}.txt", out.getvalue())


def test_the_verdicts_fit_a_narrow_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    out = io.StringIO()
    render_reports([page.report(compared(*COMPARED["slower"]()), full=False)], "table", out)
    table = out.getvalue().split("\nverdicts\n")[1].split("\n\n")[0]
    assert table.splitlines()[2].split()[-1] == "median"
    assert table.count("aware ") == 1
    assert table.endswith("left out on 60 columns: lowest and highest (a wider terminal or --format csv shows them)")


def test_launches_in_pairs_are_compared_with_each_other() -> None:
    drift, later = drifting(), drifting(aware=1.05)
    assert not compared(drift, later).of("changed").size
    paired = compared(in_turn(drift), in_turn(later))
    assert list(paired.by_series(paired.of("changed"))) == ["aware"]


def test_a_gate_says_what_may_be_drift() -> None:
    found = compared(*COMPARED["drift"]())
    assert list(found.by_series(found.drifted)) == ["host"]
    condition = FailOn("--fail-on slower:5%", 0.05)
    code, words = gate(found, condition)
    assert (code, "host" in words) == (1, False)
    code, words = gate(compared(drifting(by=1.01), drifting(range(8, 16), 1.01)), condition)
    assert code == 4
    assert "6 of 6 points may be slower by 5 % or more (6 perhaps because of drift: use --live)" in words


def test_which_run_was_first_does_not_depend_on_their_order_in_the_command() -> None:
    later = [run_with(log, started_at="2026-01-02T04:00:00Z") for log in drifting(range(8, 16), 1.01)]
    assert compared(later, drifting(by=1.01)).drifted.size == compared(drifting(by=1.01), later).drifted.size == 6


def test_pairs_without_a_partner_are_left_out() -> None:
    first, second = launches(1, count=8), launches(2, count=8)
    del second[3].records[0]
    for log in (*first[:4], *second[4:]):
        del log.records[-1]
    found = compared(in_turn(first), in_turn(second))
    assert [those.tolist() for those in found.differences.launches] == [[7, 8, 8, 8, 8]] * 2
    assert len(compared(first, second).at) == 6


def test_missing_launches_of_the_second_run_are_incomplete() -> None:
    second = launches(2)
    second[-1].missing_launches = 2
    assert compared(launches(1), second).lost == ["b has 2 launches missing"]


@pytest.mark.parametrize("name", ["stream", "rank_matrix", "jacobi", "gpu_matrix"])
def test_every_benchmark_can_be_compared(name: str) -> None:
    known = [[gpu_log()], *(example_records.golden(file.stem) for file in example_records.RECORD_FILES)]
    of_it = [logs for logs in known if logs and logs[0].run and logs[0].run.plan.benchmark == name]
    logs = next(logs for logs in of_it if "ok" in logs[0].statuses)
    later = [RunLog(log.run, log.transports, log.records, log.end) for log in logs]
    for log in later:
        run_with(log, started_at="2027-01-01T00:00:00Z")
    found = compared(logs, later)
    assert found.at
    assert found.differences.ratio == pytest.approx(1)
    assert {benchmark for benchmark, _ in found.sweeps} == {name}


def test_a_transport_that_sends_nothing_is_not_compared() -> None:
    logs = launches(1, names=("host", "null"))
    for log in logs:
        log.transports[1] = example_records.transport("null", memory="none")
    assert set(Side.of("a", logs).observed.rows) == {("pingpong", "host")}


def test_a_series_of_several_benchmarks_has_their_names() -> None:
    files = {name: ROOT / f"results/h100-x2/smaller-{name}.jsonl.gz" for name in ("before", "after")}
    found = compare(*(Side.of(name, read_runs(file, BENCHMARKS)) for name, file in files.items()), 0.05)
    assert {"pingpong host", "jacobi host", "device/word"} <= found.by_series().keys()


def test_a_file_of_two_requests_that_differ_in_their_time_continues_the_count_of_launches(tmp_path: Path) -> None:
    other = [run_with(log, plan={"sampling": Sampling(point_time_s=1.0)}) for log in launches(5, count=2)]
    side = Side.read(write(tmp_path / "both.jsonl", [*launches(1), *other]).read_bytes(), "both")
    assert side.seconds.shape == (6, 8)
    assert not np.isnan(side.seconds).any()


def test_differences_are_in_words_and_variables_as_they_are() -> None:
    tuned = {"UCX_TLS": "tcp", "OMPI_MCA_coll_base_verbose": "1"}
    of_time: dict[str, Any] = {"watchdog_s": 9.0, "launch": {"budget_left_s": 2.5}}
    second = [run_with(log, plan={**of_time, "share_device": True}) for log in launches(2, environment=tuned)]
    notes = [note.text for note in page.report(compared(launches(1), second), full=True).notes]
    assert "differs: share device: no → yes" in notes
    assert "differs: OMPI_MCA_coll_base_verbose: not set → 1" in notes
    assert not any("_" in note for note in notes if "OMPI" not in note and "UCX" not in note)
    assert not any("budget" in note or "watchdog" in note for note in notes)


def test_the_help_names_launches_that_can_show_a_change(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["compare", "--help"]) == 0
    assert "or four of one and six of the other, or three and nine;" in " ".join(capsys.readouterr().out.split())
    assert [two_runs.min_beside(launches) for launches in (3, 4)] == [9, 6]


def test_times_that_follow_from_another_budget_are_no_difference_of_their_own() -> None:
    sampling = Sampling(point_time_s=0.01, size_time_s=0.67)
    asked = {"sampling": sampling, "launch": {"asked": [["--budget", "8"]]}}
    second = [run_with(log, plan=asked) for log in launches(2)]
    notes = [note.text for note in page.report(compared(launches(1), second), full=True).notes]
    assert [note for note in notes if "time (s)" in note or "budget" in note] == ["differs: budget (s): none → 8"]


@pytest.mark.parametrize("option", ["fresh_buffers", "cold_cache"])
@pytest.mark.parametrize(("factor", "said"), [(1.1, "aware is 9."), (1.0, "SAME: 6 points")])
def test_what_differs_between_two_ways_to_measure_is_no_change(factor: float, said: str, option: str) -> None:
    second = [with_fresh_buffers(log, option) for log in launches(2, slower={"aware": factor})]
    text = io.StringIO()
    render_reports([page.report(compared(launches(1), second), full=False)], "table", text)
    assert text.getvalue().startswith(f"TWO WAYS ({option.replace('_', ' ')}): {said}")
    (difference,) = (each for each in environment_differences(launches(1), second) if each.name == option)
    assert (difference.first, difference.second) == ("no", "yes")
    assert "change" not in text.getvalue().lower()


def test_launches_of_other_conditions_that_measured_other_things_are_one_side() -> None:
    alone = launches(1, count=1, names=["aware"], environment={"UCX_TLS": "tcp"})
    assert len(Side.of("both", [*launches(1, count=1, names=["host"]), *alone]).observed.rows) == 2


# ------------------------------------------------------------------------------------------- the command and its codes

FILES: dict[str, Callable[[], Logs]] = {
    "baseline": lambda: launches(1),
    "again": lambda: launches(2),
    "slower": lambda: launches(2, slower={"aware": 1.1}),
    "slower-and-faster": faster_at_the_largest,
    "noise-a": lambda: launches(1, noise=0.1),
    "noise-b": lambda: launches(2, noise=0.1),
    "some-once": lambda: without(launches(2), slice(1, 3), of=slice(1, None)),
    "one-a": lambda: launches(1, count=1),
    "one-b": lambda: launches(2, count=1),
    "fewer": lambda: launches(2, names=["host"]),
    "two-fewer": lambda: without(launches(2), slice(1, 3)),
    "failed": one_failed,
    "truncated": truncated,
    "cut": cut,
    "twice": lambda: launches(1) * 2,
    "stream": lambda: [example_records.log(example_records.stream([1e-3] * 6, direction="uni", window=64))],
    "peer": lambda: launches(2, names=("peer",)),
    "empty": lambda: [example_records.log(example_records.pingpong(status="skipped"))],
    "mixed": lambda: [*launches(5, count=3), *launches(6, count=3, environment={"UCX_RNDV_THRESH": "8"})],
    "two-commands": lambda: [*launches(5, count=3), *map(with_fresh_buffers, launches(6, count=3))],
}
MIXED = "mixed.jsonl has launches that do not belong together; they differ in UCX_RNDV_THRESH (not set or 8)"


def test_gates_and_mistakes_are_those_that_were_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    """What ``--fail-on`` says, and exit codes; results of H200s pass the check of the docs."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    for name, logs in FILES.items():
        write(tmp_path / name, logs())
    written = (tmp_path / "again").read_bytes().splitlines(keepends=True)
    (tmp_path / "damaged").write_bytes(b"".join([*written[:-1], b'{"record": "ping\n', written[-1]]))
    (tmp_path / "RESULTS").symlink_to(ROOT / "results/h200-x2")
    monkeypatch.chdir(tmp_path)
    check_transcript("compare/gates", capsys, only_err=True)


def test_a_gate_sees_the_changes_that_it_says_it_sees() -> None:
    """Of recorded launches of the same program: two runs say it, and a third one has one point slower by so much."""
    logs = read_runs(ROOT / "results/h100-x2/six-launches.jsonl.gz", BENCHMARKS)
    first = Side.of("recorded", logs)
    draw, runs, seen = random.Random(1), 8, []
    for _ in range(8):
        drawn = draw.sample(range(first.seconds.shape[1]), 3 * runs)
        one, other, later = (first.seconds[:, drawn[start : start + runs]] for start in range(0, 3 * runs, runs))
        measured = ~np.isnan(first.seconds[:, drawn]).any(axis=1)
        said = two_runs.differences(one[measured], other[measured])
        for point in draw.sample(range(int(measured.sum())), 5):
            slower = later[measured]
            slower[point] *= 1 + said.detectable(0.05)[point]
            found = two_runs.differences(one[measured], slower)
            seen.append(bool(found.changed[point] and found.low[point] >= 1.05))
    assert np.mean(seen) >= 0.9


def test_no_percentage_that_can_be_seen_is_above_a_thousand() -> None:
    found = compared(launches(1, 7, noise=6), launches(2, 7, noise=6))
    words = gate(found, FailOn("--fail-on slower:5%", 0.05))[1]
    assert words.endswith("can show slowdowns of more than 1000 %")
    notes = [note.text for note in page.report(found, full=False).notes]
    assert "undecided: 6 points; 50 launches per run would show only differences above 1000 %" in notes


@pytest.mark.parametrize(("comparisons", "sees"), [(1, True), (2, False)])
def test_a_gate_of_several_runs_sees_what_its_level_lets_it_see(comparisons: int, sees: bool) -> None:
    """Seven pairs can show a change of one run, and not of one of two."""
    first, second = (Side.of(name, in_turn(launches(seed, 7))) for name, seed in (("a", 1), ("b", 2)))
    found = compare(first, second, 0.05, comparisons=comparisons)
    assert found.possible == sees
    assert np.isfinite(found.detectable(0.05)).all() == sees
    assert gate(found, FailOn("--fail-on slower:90%", 0.9))[0] == (0 if sees else 4)


def test_the_same_file_twice_is_refused_before_its_records_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr("volley.compare.comparison.parse_runs")
    baseline = str(write(tmp_path / "baseline.jsonl", launches(1)))
    assert cli.main(["compare", baseline, baseline]) == 2


def test_launches_that_do_not_belong_together_are_no_reference_and_shown_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    path = str(write(tmp_path / "mixed.jsonl", FILES["mixed"]()))
    assert cli.main(["references", "--add", "mine", path]) == 2
    assert MIXED in capsys.readouterr().err
    assert cli.main(["show", path]) == 0
    assert capsys.readouterr().out.count("3 launches · ") == 2


# -------------------------------------------------------------------------------------------------- environments


def test_records_of_several_commands_are_not_repeated_with_one_of_them() -> None:
    def side(names: list[str]) -> Side:
        plans = {name: example_records.plan(launch={"asked": [["--transport", name]]}) for name in names}
        logs = [log for name, plan in plans.items() for log in launches(1, 2, names=[name], plan=plan)]
        return Side.of("x", logs, "")

    for names, advice in ((["host"], "with volley pingpong -t host --launches 6"), (["host", "aware"], "6 times or")):
        assert f"measure each run again {advice}" in headline(compare(side(names), side(names), 0.05))


def test_runs_of_two_commands_are_repeated_with_the_command_of_each() -> None:
    def side(sizes: str) -> Side:
        plan = example_records.plan(launch={"asked": [["--sizes", sizes]]})
        return Side.of("x", launches(1, 2, plan=plan), "")

    one, other = (f"with volley pingpong -s {sizes} --launches 6" for sizes in ("8", "8:64"))
    assert f": measure A again {one}, and B again {other}, or" in headline(compare(side("8"), side("8:64"), 0.05))


@pytest.mark.parametrize(("launches_of_b", "needed"), [(2, 4), (3, 4)])
def test_a_run_of_enough_launches_is_not_measured_again(launches_of_b: int, needed: int) -> None:
    def side(number: int) -> Side:
        return Side.of("x", launches(number, number, plan=example_records.plan(launch={"asked": []})), "")

    found = headline(compare(side(6), side(launches_of_b), 0.05))
    assert f"{needed} launches of B beside 6 of A can show a change" in found
    assert f"measure B again with volley pingpong --launches {needed}, or use --live" in found
    assert two_runs.can_decide(6, needed)
    assert not two_runs.can_decide(6, needed - 1)


def refused(why: str) -> Logs:
    return launches(1, plan=msgspec.structs.replace(example_records.plan(), excluded={"aware": why}))


def planned(**launch: Any) -> Logs:
    """Launches whose plan says this of the launch."""
    return launches(1, plan=example_records.plan(launch=launch), environment=launch.get("environment", {}))


def two_machines() -> tuple[Logs, Logs]:
    """Other GPUs, more of them, and another number of cores."""
    first, second = [gpu_log(2)], [gpu_log(4, ["uni"])]
    renamed = json.loads(msgspec.json.encode(second[0].hardware[0]).replace(b"GPU-0", b"GPU-1"))
    second[0].hardware[0] = msgspec.convert(renamed, Hardware)
    ranks = [msgspec.structs.replace(rank, cores=list(range(32))) for rank in second[0].run.ranks]
    run_with(second[0], ranks=ranks, environment={"UCX_TLS": "all"})
    return first, second


def rendezvous_from(threshold: int) -> Logs:
    ranges = [
        SizeRange(0, threshold - 1, "eager", "posix/memory"),
        SizeRange(threshold, None, "rendezvous", "cuda_ipc/cuda"),
    ]
    tables = [
        ProtocolTable("ucp_context_0 intra-node cfg#1", "tagged message by ucp_tag_send*(multi) from cuda", ranges),
        ProtocolTable("ucp_context_0 self cfg#0", "tagged message by ucp_tag_send*(other) from cuda", ranges),
    ]
    return planned(stack={"ucx_protocols": msgspec.to_builtins(Protocols(sends=tables))})


def clocked(hz: int) -> Logs:
    log = gpu_log()
    gpus = [msgspec.structs.replace(gpu, sm_clock_hz=hz) for gpu in log.hardware[-1].gpus]
    log.hardware = [msgspec.structs.replace(log.hardware[-1], gpus=gpus)]
    return [log]


OTHERS = {
    "environment": {"SAME": "1", "UCX_RNDV_THRESH": "8"},
    "mpi": MpiFacts(library="Open MPI v4.1.6", standard="3.1"),
    "ranks": example_records.ranks(2, bound_by="launcher"),
}
OF_OPEN_MPI_5 = {
    "OMPI_MCA_PREFIXES": "mca,opal,ompi",
    "OMPI_MCA_num_procs": "2",
    "OMPI_MCA_cpu_type": "x86_64",
    "PMIX_MCA_psec": "native",
}
OF_OPEN_MPI_4 = {
    "OMPI_MCA_hwloc_base_binding_policy": "none",
    "OMPI_MCA_pmix": "^s1,s2,cray,isolated",
    "PMIX_MCA_mca_base_component_show_load_errors": "1",
    "OMPI_MCA_orte_precondition_transports": "86ab0c37dfb18d1a-3e1790a71eada299",
    "OMPI_MCA_shmem_RUNTIME_QUERY_hint": "mmap",
    "I_MPI_INFO_FLGB": "-239138901",
    "I_MPI_PIN_INFO": "0,1",
    "OMPI_MCA_ess_base_jobid": "1139539969",
    "SLURM_JOB_ID": "17",
}
ENVIRONMENTS: dict[str, tuple[Logs, Logs]] = {
    "variables, MPI and binding": (launches(1, environment={"UCX_TLS": "all", "SAME": "1"}), launches(2, **OTHERS)),
    "a variable that the plan has too": (
        *(planned(environment={"UCX_TLS": "all"}), planned(environment={"UCX_TLS": "tcp"})),
    ),
    "variables of launchers: recorded with two MPIs": (
        launches(1, environment=OF_OPEN_MPI_5),
        launches(2, environment=OF_OPEN_MPI_4),
    ),
    "variables of launchers that both have, and of one that the user set": (
        launches(1, environment={**OF_OPEN_MPI_5, "PMIX_MCA_psec": "none"}),
        launches(2, environment={**OF_OPEN_MPI_5, "OMPI_MCA_pml": "ob1"}),
    ),
    "a setting of which one run has the default": (
        launches(1),
        [run_with(log, plan={"verify": False}) for log in launches(2)],
    ),
    "two builds of one MPI": (
        launches(1),
        launches(2, mpi=MpiFacts(library="Open MPI v5.0.11, package: b", standard="3.1")),
    ),
    "a refusal in other words": (refused("it crashed"), refused("it hung")),
    "a refusal of one run": (refused("it crashed"), launches(2)),
    "a setting that one run does not record": (planned(), planned(oversubscribed=False)),
    "a list that one run does not record is an empty list of the other": (planned(), planned(removed=[])),
    "two machines": two_machines(),
    "where UCX changes its protocol": (rendezvous_from(4875), rendezvous_from(8)),
    "UCX of one run": (planned(), rendezvous_from(8)),
    "what varies between the launches of one run is no difference": (
        launches(1, environment={"HOST_PART": "a"}) + launches(3, environment={"HOST_PART": "b"}),
        launches(2, environment={"HOST_PART": "b"}),
    ),
    "clocks that are close": (clocked(1_980_000_000), clocked(1_965_000_000)),
    "clocks that are apart": (clocked(1_980_000_000), clocked(1_200_000_000)),
}


def test_differences_of_environments_are_those_that_were_looked_at() -> None:
    parts = []
    for name, sides in ENVIRONMENTS.items():
        found = [f"{each.name}: {each.first} → {each.second}" for each in environment_differences(*sides)]
        parts.append("\n".join([f"# {name}", *found, ""]))
    check_screen(SCREENS / "compare/environments.txt", "\n".join(parts))


def test_of_long_lists_the_difference_is_told_in_words() -> None:
    names = [f"{number}-{'long' * 20}" for number in range(6)]
    changed = {"LONGER": [*names, "one", "two"], "TURNED": names[::-1], "SHORTER": names[1:]}
    lists = {name: ", ".join(items) for name, items in changed.items()}
    of = [launches(1, environment=each) for each in (dict.fromkeys(lists, ", ".join(names)), lists)]
    found = environment_differences(*of)
    assert [note.text for note in page._environment_notes(found, "C", full=False)] == [
        "differs: LONGER: only C has one and two",
        "differs: TURNED: the same in another order",
        f"differs: SHORTER: only A has …{names[0][-39:]}",
    ]
    without = environment_differences(*(launches(1, environment=each) for each in ({}, {"HOME": names[0]})))
    (said,) = page._environment_notes(without, "C", full=False)
    assert said.text == f"differs: HOME: not set → …{names[0][-39:]}"
    whole = [note.text for note in page._environment_notes(found, "C", full=True)]
    assert whole[0] == f"differs: LONGER: {', '.join(names)} → {lists['LONGER']}"


def test_lists_of_several_launches_are_told_apart_by_item() -> None:
    def with_sizes(*sizes: list[int]) -> Logs:
        options = example_records.plan().options
        plans = [example_records.plan(options=msgspec.structs.replace(options, sizes_bytes=each)) for each in sizes]
        return [log for number, plan in enumerate(plans) for log in launches(number, 1, plan=plan)]

    found = environment_differences(with_sizes([2**each for each in range(20)]), with_sizes([2**20, 2**21], [2**20]))
    assert [note.text for note in page._environment_notes(found, "B", full=False)] == [
        "differs: sizes: only A has 1 B, 2 B, 4 B and 17 more; only B has 1 MiB and 2 MiB"
    ]


def test_what_an_application_took_is_no_difference_of_environments_and_shares_are_short() -> None:
    def replayed(time_s: float) -> Logs:
        recorded = RecordedCalls(calls=[1], median_s=[time_s], left_out={"MPI_Probe": time_s * 1e5 / 3})
        options = ReplayPlan(program=["a"], names=["Send"], recorded=recorded)
        return launches(1, plan=example_records.plan("replay", options=options))

    found = environment_differences(replayed(1e-6), replayed(2e-6))
    assert [(each.name, each.first, each.second) for each in found] == [
        ("recorded left_out MPI_Probe", "0.0333333", "0.0666667")
    ]


def test_the_path_of_what_only_one_run_measured_is_no_difference() -> None:
    def by_way_of(library: str, size: int) -> Logs:
        path = RunPath("host", size, size, None, library, "", [PathEnd(rank, "node") for rank in (0, 1)])
        return planned(paths=[msgspec.to_builtins(path)])

    assert environment_differences(by_way_of("Open MPI ob1", 8), by_way_of("Open MPI ob1", 4096)) == []
    assert environment_differences(by_way_of("Open MPI ob1", 8), by_way_of("UCX", 8))


def test_the_same_files_in_other_folders_are_one_difference() -> None:
    of = [
        launches(
            number,
            environment={"LD_LIBRARY_PATH": f"/{at}/lib", "UCX_TLS": at},
            plan=example_records.plan(
                launch={"stack": {"mpi_library": f"/{at}/libmpi.so.{number}", "mpiexec": f"/{at}/mpirun"}}
            ),
        )
        for number, at in enumerate(("one", "other"), start=1)
    ]
    found = environment_differences(*of)
    notes = [note.text for note in page._environment_notes(found, "B", full=False)]
    assert notes == [
        "differs: the folders of LD_LIBRARY_PATH and mpiexec (--full shows them)",
        "differs: UCX_TLS: one → other",
        "differs: mpi library: /one/libmpi.so.1 → /other/libmpi.so.2",
    ]
    assert len(list(page._environment_notes(found, "B", full=True))) == len(found) == 4
