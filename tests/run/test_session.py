"""A session from request to exit code, with a stand-in for the engine."""

import csv
import json
import math
import os
import re
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import example_records
from fake_engine import install
from the_command import Finished, check_transcript
from the_session import SIZES, fake, measure, read_runs
from volley import cli
from volley.benchmarks import BENCHMARKS, named
from volley.benchmarks import read as read_command
from volley.benchmarks.matrix import GPUS
from volley.errors import MachineError
from volley.launch import start
from volley.launch.engine import About
from volley.run import progress, session
from volley.run.jobs import Job, JobContext
from volley.run.launches import FIRST_SHARE, START_S, Jobs, LaunchCount
from volley.run.outcome import RunOutcome


def test_a_good_run_is_shown_and_kept(bin_folder: Path, kept: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert measure() == 0
    out, err = capsys.readouterr()
    assert [line.split(",")[:2] for line in out.splitlines()[1:]] == [["host", "8"], ["host", "64"]]
    (file,) = kept.iterdir()
    assert file.name.endswith("-pingpong.jsonl")
    assert err.splitlines()[-1] == f"records: {file}"
    (log,) = read_runs(file)
    assert log.complete
    assert [point.size_bytes for point in log.records] == list(SIZES)


def test_the_plan_says_how_the_job_was_started(bin_folder: Path, tmp_path: Path) -> None:
    records = tmp_path / "out.jsonl"
    assert (
        measure("-o", str(records), *(f"--launcher-arg={word}" for word in ("--mca", "pml", "ob1")), "--gpus", "1,0")
        == 0
    )
    (log,) = read_runs(records)
    launch = log.run.plan.launch
    assert (launch["launcher"], launch["inside"]) == ("openmpi", False)
    assert launch["command"][0] == str(bin_folder / "mpirun")
    started = (bin_folder / "started").read_text(encoding="utf-8").split()
    assert launch["command"][1:] == started
    assert started[-5:] == ["--plan", "-", "--bind", "--gpus", "1,0"]
    assert "--mca pml ob1" in " ".join(started)
    assert launch["stack"]["mpi_library"] == str(bin_folder.parent / "lib/libmpi.so.40")
    arguments = [["--launcher-arg", word] for word in ("--mca", "pml", "ob1")]
    assert sorted(launch["asked"]) == sorted([["--sizes", "8,64"], ["--launches", "1"], *arguments, ["--gpus", "1,0"]])


def test_a_job_whose_hosts_cannot_be_read_says_so(
    bin_folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PBS_JOBID", "7")
    monkeypatch.setenv("PBS_NODEFILE", "/nowhere/7")
    assert measure() == 0
    said = "PBS_NODEFILE: cannot read /nowhere/7: No such file or directory; ranks start on this host alone"
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("fake", "said"),
    [
        ("met_a_limit", "which df /dev/shm shows, and may be slower for it: volley doctor --mpi openmpi"),
        ("watchdog", "watchdog: rank 1 of 2 made no progress for 60 s"),
    ],
)
def test_what_mpi_met_is_said_once_and_is_in_the_records(
    fake: str, said: str, bin_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.setenv("VOLLEY_FAKE", fake)
    records = tmp_path / "out.jsonl"
    live = measure("-o", str(records), "--mpi", "openmpi")
    assert capsys.readouterr().err.count(said) == 1
    assert cli.main(["show", str(records)]) == live
    assert said in capsys.readouterr().out


def test_a_transport_that_crashes_leaves_the_others_to_measure(
    bin_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    records = tmp_path / "out.jsonl"
    assert fake(monkeypatch, "one_ends_the_job", "-o", str(records), "-t", "host,host/put") == 1
    out, err = capsys.readouterr()
    assert [line.split(",")[:2] for line in out.splitlines()[1:]] == [["host", "8"], ["host", "64"]]
    assert "MPI crashed in host/put: measuring without it" in err
    assert "the run was aborted: rank 1 of 2 was ended by SIGSEGV in transport host/put (1 pair), pair 0-1, 8 B" in err
    aborted, whole = read_runs(records)
    assert (aborted.end, whole.complete) == (None, True)
    said = {"host/put": "an earlier launch was ended by SIGSEGV in transport host/put (1 pair)"}
    assert whole.plan.excluded == said


def after_each_launch(monkeypatch: pytest.MonkeyPatch, then: Callable[[], object]) -> None:
    launch = session.Session._launch

    def launch_and_then(self: session.Session, *arguments: Any) -> Any:
        outcome = launch(self, *arguments)
        then()
        return outcome

    monkeypatch.setattr(session.Session, "_launch", launch_and_then)


def test_ctrl_c_between_launches_shows_and_names_what_was_measured(
    bin_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    after_each_launch(monkeypatch, lambda: os.kill(os.getpid(), signal.SIGINT))
    records = tmp_path / "out.jsonl"
    assert measure("-o", str(records), "--launches", "3", "--budget", "60") == 130
    out, err = capsys.readouterr()
    assert [line.split(",")[:2] for line in out.splitlines()[1:]] == [["host", "8"], ["host", "64"]]
    assert err.splitlines()[-2:] == [
        "volley: stopped by Ctrl-C; the records of all finished measurements are complete", f"records: {records}"
    ]  # fmt: skip
    assert len(read_runs(records)) == 1
    assert cli.main(["show", str(records)]) == 1
    assert "INCOMPLETE: the run was stopped after launch 1 of 3" in capsys.readouterr().out


def test_a_launch_that_ends_before_its_first_record_leaves_the_report_of_those_before(
    bin_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    after_each_launch(monkeypatch, lambda: (bin_folder / "mpirun").write_text("#!/bin/sh\nexit 143\n", "utf-8"))
    records = tmp_path / "out.jsonl"
    assert cli.main(["pingpong", "--sizes", "8,64", "-o", str(records), "--launches", "3"]) == 1
    live = capsys.readouterr().out
    assert cli.main(["show", str(records)]) == 1
    for shown in (live, capsys.readouterr().out):
        assert re.findall("INCOMPLETE.*", shown) == ["INCOMPLETE: the run was stopped after launch 1 of 3"]
        assert "is missing" not in shown


def test_ctrl_c_before_the_first_point_shows_no_report(
    bin_folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    keep = session.NodeState.before

    def interrupted(node: session.NodeState, run: Any) -> Any:
        os.kill(os.getpid(), signal.SIGINT)
        return keep(node, run)

    monkeypatch.setattr(session.NodeState, "before", interrupted)
    monkeypatch.setenv("VOLLEY_FAKE", "pauses")
    assert measure() == 130
    out, err = capsys.readouterr()
    assert out == ""
    assert "volley: stopped by Ctrl-C before anything was measured" in err


def test_ctrl_c_before_the_first_record_names_no_records(
    bin_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_arguments: Any) -> None:
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(session.Session, "_preflight", interrupted)
    assert measure("-o", str(tmp_path / "out.jsonl"), "--launches", "3") == 130
    assert capsys.readouterr().err.splitlines()[-1] == "volley: stopped by Ctrl-C before anything was measured"


def test_dry_run_shows_plan_and_command_and_starts_nothing(
    bin_folder: Path, kept: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert measure("--dry-run", "--hosts", "a,b") == 0
    out, err = capsys.readouterr()
    plan = json.loads(out)
    assert plan["options"]["sizes_bytes"] == list(SIZES)
    assert "--host a,b --map-by node" in err
    assert not (bin_folder / "started").exists()
    assert not kept.exists()


def test_a_job_of_our_own_inside_a_foreign_one_forgets_the_foreign_one(
    bin_folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("PMIX_RANK", "PMI_RANK", "OMPI_COMM_WORLD_RANK", "SLURM_STEP_ID", "SLURM_PROCID"):
        monkeypatch.setenv(name, "0")
    monkeypatch.setenv("OMPI_MCA_pml", "ob1")
    assert measure("--launcher", "openmpi") == 0
    removed = "OMPI_COMM_WORLD_RANK, PMIX_RANK, PMI_RANK, SLURM_PROCID and SLURM_STEP_ID"
    assert f"not passed on to the ranks, as variables of a surrounding job: {removed}" in capsys.readouterr().err
    seen = (bin_folder / "environment").read_text(encoding="utf-8")
    assert "OMPI_MCA_pml=ob1" in seen
    assert "RANK" not in seen
    assert "SLURM_" not in seen


TIMED = [each.name for each in BENCHMARKS if each.records and not each.local and each.name != "replay"]
"""A replay takes as long as what was recorded."""


@pytest.mark.parametrize("name", TIMED)
def test_every_benchmark_says_how_long_it_takes(here: Callable[..., Finished], name: str) -> None:
    words = ["--ranks", "4"] if name == "rank_matrix" else []  # else it may be that of GPUs
    assert re.match(r"volley: this takes about [1-9]", here(named(name).command, *words, "--dry-run").err)


@pytest.mark.parametrize(("words", "limited"), [((), True), (("--launches", "6"), False)])
def test_a_run_without_a_limit_takes_as_long_as_it_says_on_an_idle_machine(
    here: Callable[..., Finished], words: tuple[str, ...], *, limited: bool
) -> None:
    said = here("pingpong", "-t", "host", *words, "--dry-run").err
    assert ("s on an idle machine; --budget changes that" in said) != limited


def test_a_long_solution_says_what_shortens_it(here: Callable[..., Finished]) -> None:
    done = here("jacobi", "--iterations", "100000", "--dry-run")
    assert re.match(r"volley: this takes about [\w ]+; --iterations changes that\n", done.err)


def test_a_budget_counts_from_the_start_of_the_command(
    bin_folder: Path, kept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare = session.prepare

    def slowly(*part: Any) -> session.Session:
        time.sleep(0.3)
        return prepare(*part)

    monkeypatch.setattr(session, "prepare", slowly)
    words = ["pingpong", "--sizes", "8", "-t", "host", "--budget", "4"]
    assert session.measure(read_command(words)) == 0
    first, *_ = [log.run.plan for log in read_runs(next(kept.iterdir())) if log.run]
    assert first.budget_s
    assert first.budget_s <= (4 - START_S - 0.3) / FIRST_SHARE
    part = Job(example_records.plan(budget_s=6.0))
    for whole, left_s in ((None, 3.0), (LaunchCount(1, 9, 18.0), 5.0)):
        job = next(Jobs((part,), launches=whole).each(JobContext(About()), [], lambda: 3.0 - START_S, print))
        assert job.plan.budget_s == left_s


def test_any_number_of_launches_is_planned_at_once() -> None:
    many = Jobs((Job(example_records.plan()),), times=10**12)
    assert many.count.maximum == 10**12
    jobs = many.each(JobContext(About()), [], lambda: 0.0, print)
    assert next(jobs) == next(jobs) == many.planned[0]


def test_launches_share_a_budget_and_the_note_names_it(
    bin_folder: Path, kept: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["pingpong", "--sizes", "8", "-t", "host", "--budget", "0.6", "--launches", "50"]
    assert session.measure(read_command(words)) == 0
    logs = read_runs(next(kept.iterdir()))
    assert 1 <= len(logs) < 50
    assert all(log.run and log.run.plan.budget_s and log.run.plan.budget_s <= 0.6 / 10 for log in logs[:1])
    said = capsys.readouterr()
    assert f"the run made {len(logs)} of 50 launches within the budget of 0.6 s" in said.out + said.err


def test_more_ranks_than_cores_are_told_once_before_the_first_launch(
    bin_folder: Path, kept: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    told = []

    def launch(_self: object, *_: object) -> RunOutcome:
        told.append(capsys.readouterr().err)
        return RunOutcome(0)

    monkeypatch.setattr(session.Session, "_launch", launch)
    for module in (start, session):
        monkeypatch.setattr(module, "cores", lambda: 1)
    session.measure(read_command(["pingpong", "--sizes", "8", "-t", "host", "--launches", "1"]))
    assert told == ["volley: oversubscribed: 2 ranks on 1 core, so times include waiting\n"]
    assert "oversubscribed" not in capsys.readouterr().err


def test_the_records_say_where_the_time_of_each_launch_went(
    bin_folder: Path, kept: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert session.measure(read_command(["pingpong", "--sizes", "8", "-t", "host", "--launches", "2", "-v"])) == 0
    (file,) = kept.iterdir()
    first, second = (log.times for log in read_runs(file))
    assert first.gap_s is None
    assert second.gap_s is not None
    for times in (first, second):
        assert times.run_s
        assert times.transports_s
        assert times.end_s
        assert 0 < times.run_s <= times.transports_s <= times.end_s <= times.exit_s
    told = capsys.readouterr().err
    assert re.search(r"^volley: launch 2: .*s: between launches .*s, .*measuring .*s, ending .*s$", told, re.M)
    assert re.search(r"^volley: \d+% of .*s was measuring; a launch: ", told, re.M)
    assert not re.search(r" 0\.\d", told)  # a short time has a smaller unit


def test_parts_share_a_file_and_a_report(bin_folder: Path, kept: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pingpong = ["pingpong", "--sizes", "8", "--launches", "2", "--format", "csv"]
    assert session.measure(read_command(["transports"]), read_command(pingpong)) == 0
    out, err = capsys.readouterr()
    (file,) = kept.iterdir()
    assert [(log.number, log.run.plan.benchmark) for log in read_runs(file) if log.run] == [
        (1, "probe"),
        (2, "pingpong"),
        (3, "pingpong"),
    ]
    rows = list(csv.DictReader(out.splitlines()))
    assert {(row["benchmark"], row["launch"]) for row in rows} == {("probe", "1"), ("pingpong", "2-3")}
    assert err.count("records: ") == 1


def test_a_part_that_cannot_be_prepared_is_named_and_left_out(
    bin_folder: Path, kept: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    matrix = (GPUS, GPUS.options())
    assert session.measure(matrix, read_command(["pingpong", "--sizes", "8", "--launches", "1"])) == 0
    assert "no GPU" in capsys.readouterr().err
    assert len(read_runs(next(kept.iterdir()))) == 1


@pytest.fixture
def local(tmp_path: Path, bin_folder: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, ...]:
    """Words of a matrix between GPUs; this engine was built with CUDA, and there is a driver."""
    install(tmp_path / "bin", cuda_built="13.0")
    monkeypatch.setattr("volley.benchmarks.matrix.jobs.has_driver", lambda: True)
    return ("--section", "uni")


def test_a_local_engine_is_started_alone(
    local: tuple[str, ...], bin_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert measure(*local, command="matrix") == 3
    assert "no measurement was possible on this machine" in capsys.readouterr().err
    assert (bin_folder / "joined").read_text(encoding="utf-8") == "--plan -"
    assert not (bin_folder / "started").exists()  # mpirun's


def test_an_engine_without_cuda_is_not_started_for_gpus(local: tuple[str, ...], bin_folder: Path) -> None:
    install(bin_folder)
    with pytest.raises(MachineError, match=r"built without CUDA .* --transport host measures between ranks") as caught:
        measure(*local, command="matrix")
    assert caught.value.exit_code == 3
    assert not (bin_folder / "joined").exists()


@pytest.mark.slow
def test_good_and_bad_days_are_told_as_they_were_looked_at(
    bin_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("volley.launch.engine._SAY_EVERY_S", math.inf)  # what a machine at work may say
    monkeypatch.setattr(progress, "LINES_EVERY_S", math.inf)
    monkeypatch.chdir(tmp_path)
    check_transcript("session/days", capsys, {str(bin_folder): "/mpi"})


def test_ctrl_c_while_modules_load_ends_the_engine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    started = tmp_path / "started"

    loaded = []

    def interrupted(*_: object) -> None:
        while not started.exists() or not started.read_text():
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)
        loaded.append(True)  # an import that Ctrl-C interrupts may lose it

    engine_file = install(tmp_path / "bin")
    engine_file.write_text(f"#!/bin/sh\necho $$ >{started}\nexec sleep 600\n")
    monkeypatch.setenv("VOLLEY_ENGINE", str(engine_file))
    monkeypatch.setattr(session, "_load_pages", interrupted)
    assert session.measure(read_command(["pingpong"])) == 130
    assert loaded
    with pytest.raises(ProcessLookupError):
        os.kill(int(started.read_text()), 0)
