"""A session from request to exit code, with a stand-in for the engine that can misbehave."""

from __future__ import annotations

import csv
import errno
import json
import math
import os
import re
import resource
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import example_records
from fake_engine import ABOUT, install, use
from the_command import Command, check_transcript
from volley import cli
from volley.benchmarks import BENCHMARKS, named, plain
from volley.benchmarks import read as read_command
from volley.benchmarks.matrix import GPUS
from volley.command.options import JobOptions
from volley.errors import MachineError, UserError
from volley.launch import engine, start
from volley.launch.engine import About, Ending, EngineProcess, FaultAbout, TransportAbout
from volley.launch.inside_launcher import RankInfo
from volley.launch.start import Patience, Start
from volley.machine import nvml, signals
from volley.machine.hardware import Gpu, Hardware
from volley.machine.nvidia_driver import gpu_count, has_driver
from volley.machine.signals import Stop
from volley.records import records_file
from volley.records.plan import Plan
from volley.records.record_types import End
from volley.records.records_file import Writer, open_writer
from volley.records.run_log import RunLog
from volley.run import progress, session
from volley.run.jobs import FIRST_SHARE, START_S, Job, Site, choose_transports, count_pair, count_ranks
from volley.run.outcome import RunOutcome, judge
from volley.statistics.launches import FIRST_LOOK

SIZES = (8, 64)


@pytest.fixture
def bin_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An engine that obeys ``VOLLEY_FAKE``, on a machine of one's own, with a home of its own."""
    folder = tmp_path / "bin"
    use(monkeypatch, install(folder))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr(engine, "_LOADED_S", 60.0)  # also where the watchdog of a test is short
    for name in list(os.environ):
        if name.startswith(("SLURM_", "PMI", "OMPI_", "LSB_", "PBS_", "VOLLEY_FAKE")):
            monkeypatch.delenv(name)
    return folder


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    return tmp_path / "state" / "volley"


def measure(*words: str, command: str = "pingpong") -> int:
    """Measure what a command line asks for, in one launch if it does not say otherwise; its report is CSV."""
    if command == "pingpong" and "--launches" not in words:
        words = ("--launches", "1", *words)
    sizes = ("--sizes", ",".join(map(str, SIZES))) if command == "pingpong" and "--sizes" not in words else ()
    return session.measure(read_command([command, "--format", "csv", *sizes, *words]))


def read_runs(path: Path) -> list[RunLog]:
    return records_file.read_runs(path, BENCHMARKS)


# ------------------------------------------------------------------------------------------- good days


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
    assert log.run is not None
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


def test_ctrl_c_between_launches_shows_and_names_what_was_measured(
    bin_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    launch = session.Session._launch

    def interrupted(self: session.Session, *arguments: Any) -> Any:
        outcome = launch(self, *arguments)
        os.kill(os.getpid(), signal.SIGINT)
        return outcome

    monkeypatch.setattr(session.Session, "_launch", interrupted)
    records = tmp_path / "out.jsonl"
    assert measure("-o", str(records), "--launches", "3") == 130
    out, err = capsys.readouterr()
    assert [line.split(",")[:2] for line in out.splitlines()[1:]] == [["host", "8"], ["host", "64"]]
    assert err.splitlines()[-2:] == [
        "volley: stopped by Ctrl-C; the records of all finished measurements are complete", f"records: {records}"
    ]  # fmt: skip
    assert len(read_runs(records)) == 1
    assert cli.main(["show", str(records)]) == 1
    assert "INCOMPLETE: the run was stopped after launch 1 of 3" in capsys.readouterr().out


def test_ctrl_c_before_the_first_record_names_no_records(
    bin_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_arguments: Any) -> None:
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(session.Session, "_preflight", interrupted)
    assert measure("-o", str(tmp_path / "out.jsonl"), "--launches", "3") == 130
    assert capsys.readouterr().err.splitlines()[-1] == "volley: stopped by Ctrl-C before anything was measured"


def test_runs_of_the_same_second_do_not_meet(bin_folder: Path, kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records_file.time, "strftime", lambda *_: "2026-01-02T03-04-05")
    for _ in range(3):
        assert measure() == 0
    names = {file.name for file in kept.iterdir()}
    stem = "2026-01-02T03-04-05-pingpong"
    assert names == {f"{stem}.jsonl", f"{stem}-2.jsonl", f"{stem}-3.jsonl"}


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
    assert f"not passed on to the ranks, because a surrounding job set them: {removed}" in capsys.readouterr().err
    seen = (bin_folder / "environment").read_text(encoding="utf-8")
    assert "OMPI_MCA_pml=ob1" in seen
    assert "RANK" not in seen
    assert "SLURM_" not in seen


def test_plain_volley_measures_within_a_minute_what_is_worth_measuring(
    bin_folder: Path, kept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plain, "gpu_count", lambda: 2)
    assert session.measure(read_command([])) == 0
    logs = read_runs(next(kept.iterdir()))
    assert len(logs) == FIRST_LOOK  # of the stand-in's constant times
    (first, *_, last) = [log.run.plan for log in logs if log.run]
    assert 0 < first.budget_s < 60.0 / FIRST_SHARE  # the budget counts from the start of the command
    assert last.budget_s
    assert first.transports == ["host", "staged/pinned", "staged/shared"]
    assert max(first.options.sizes_bytes) == 1 << 30
    assert first.sampling.size_time_s == 60 / (2 * FIRST_LOOK)


@pytest.mark.parametrize(
    ("words", "gpus", "job", "parts"),
    [
        ([], 4, "", [("gpu_matrix", plain.SECTIONS, 60), ("pingpong", 1 << 30, 60)]),
        (["--budget", "30"], 4, "", [("gpu_matrix", plain.SECTIONS, 30), ("pingpong", 1 << 30, 30)]),
        ([], 1, "", [("gpu_matrix", plain.ONE_GPU_SECTIONS, 20), ("pingpong", 64 << 20, 20)]),
        (["--budget", "40"], 1, "", [("gpu_matrix", plain.ONE_GPU_SECTIONS, 40), ("pingpong", 64 << 20, 40)]),
        ([], 2, "", [("pingpong", 1 << 30, 60)]),
        (["--hosts", "a,b"], 0, "", [("pingpong", 1 << 30, 60)]),
        (["--launcher", "srun"], 4, "", [("pingpong", 1 << 30, 60)]),
        (["-f", "olcf"], 4, "", [("pingpong", 1 << 30, 60)]),
        ([], 0, "", [("pingpong", 64 << 20, 10)]),
        (["--budget", "40"], 0, "", [("pingpong", 64 << 20, 40)]),
        ([], 0, "1", [("pingpong", 1 << 30, 60)]),  # other nodes of the job may have GPUs
    ],
)
def test_plain_volley_measures_what_the_machine_has(
    bin_folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    words: list[str],
    gpus: int,
    job: str,
    parts: list[tuple[str, Any, float]],
) -> None:
    monkeypatch.setattr("volley.benchmarks.matrix.has_driver", lambda: True)
    if job:
        monkeypatch.setenv("SLURM_JOB_ID", job)
    asked = plain.COMMAND.parse([*words, "--dry-run"])
    found = plain.parts(asked, gpus)
    what = [options.sections if hasattr(options, "sections") else max(options.points.sizes) for _, options in found]
    assert [(benchmark.name, each) for (benchmark, _), each in zip(found, what, strict=True)] == [
        part[:2] for part in parts
    ]
    assert sum(options.sampling.budget for _, options in found) == pytest.approx(parts[0][2])
    assert all(options.output is asked.output and options.job.dry_run for _, options in found)


def test_gpus_are_counted_from_their_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = [Path("/dev", name) for name in ("nvidia0", "nvidia1", "nvidia12", "nvidiactl", "nvidia-uvm")]
    monkeypatch.setattr(Path, "glob", lambda *_: iter(nodes))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert gpu_count() == 3
    for chosen, count in (("0,1", 2), ("", 0), ("-1", 0), ("1,-1,0", 1), ("NoDevFiles", 0), ("0,1,2,3,4", 3)):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", chosen)
        assert gpu_count() == count


def test_gpus_of_wsl_are_counted_by_the_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = Hardware(when="before", host="pc", gpus=[Gpu(index=number, uuid=f"GPU-{number}") for number in range(2)])
    monkeypatch.setattr(nvml, "read", lambda _when: seen)
    monkeypatch.setattr(Path, "glob", lambda *_: iter([]))
    monkeypatch.setattr(Path, "exists", lambda path: str(path) == "/dev/dxg")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert has_driver()
    assert gpu_count() == 2  # so MPI on device memory is tried first
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    assert gpu_count() == 1


@pytest.mark.parametrize("name", [each.name for each in BENCHMARKS if each.record_types and not each.local])
def test_every_benchmark_says_how_long_it_takes(volley: Command, name: str) -> None:
    words = ["--ranks", "4"] if name == "rank_matrix" else []  # else it may be that of GPUs
    assert re.match(r"volley: this takes about [1-9]", volley(named(name).command, *words, "--dry-run").err)


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
    assert (part.after(3.0, None).plan.budget_s, part.after(3.0, 18.0).plan.budget_s) == (3.0, 5.0)


def test_a_launch_without_time_for_a_point_is_no_failure(
    bin_folder: Path, kept: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    launch = session.Session._launch

    def second_skips(self: session.Session, *arguments: Any) -> RunOutcome:
        monkeypatch.setenv("VOLLEY_FAKE", "skipping" if self.logs else "good")
        self.starts = {2: self.start_for(arguments[0])}  # with this environment
        return launch(self, *arguments)

    monkeypatch.setattr(session.Session, "_launch", second_skips)
    assert session.measure(read_command(["pingpong", "--sizes", "8", "-t", "host", "--budget", "9"])) == 0
    assert len(read_runs(next(kept.iterdir()))) == 2
    assert "every point was skipped" not in capsys.readouterr().err


def test_more_ranks_than_cores_are_told_once_before_the_first_launch(
    bin_folder: Path, kept: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    told = []

    def launch(_self: object, *_: object) -> RunOutcome:
        told.append(capsys.readouterr().err)
        return RunOutcome(0)

    monkeypatch.setattr(session.Session, "_launch", launch)
    monkeypatch.setattr(start, "cores", lambda: 1)
    session.measure(read_command(["pingpong", "--sizes", "8", "-t", "host", "--launches", "1"]))
    assert told == [f"volley: {start.sharing_cores(2)}\n"]
    assert "share" not in capsys.readouterr().err


def test_the_records_say_where_the_time_of_each_launch_went(
    bin_folder: Path, kept: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert session.measure(read_command(["pingpong", "--sizes", "8", "-t", "host", "--launches", "2", "-v"])) == 0
    (file,) = kept.iterdir()
    first, second = (log.times for log in read_runs(file))
    assert first
    assert second
    assert first.gap_s is None
    assert second.gap_s is not None
    for times in (first, second):
        assert times.run_s
        assert times.transports_s
        assert times.end_s
        assert 0 < times.run_s <= times.transports_s <= times.end_s <= times.exit_s
    told = capsys.readouterr().err
    assert re.search(
        r"^volley: launch 2: .* s: after the launch before .* s, .*measuring .* s, ending .* s$", told, re.M
    )
    assert re.search(r"^volley: \d+% of .* s was measuring; a launch: ", told, re.M)


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


# -------------------------------------------------------------------------------- requests without sense

ABOUT_FAKE = About(
    version="0.1.0",
    transports=tuple(TransportAbout(**each) for each in ABOUT["transports"]),  # type: ignore[attr-defined]
    faults=tuple(FaultAbout(**each) for each in ABOUT["faults"]),  # type: ignore[attr-defined]
)


@pytest.mark.parametrize(
    ("asked", "names"),
    [
        ((), ["host", "staged/pinned", "staged/shared"]),
        (("null",), ["null"]),
        (("all",), ["host", "host/put", "host/put/fence", "null", "staged/pinned", "staged/shared"]),
        (("staged", "host"), ["staged/pinned", "staged/shared", "host"]),
        (
            ("host+flip", "all"),
            ["host+flip", "host", "host/put", "host/put/fence", "null", "staged/pinned", "staged/shared"],
        ),
        (("put",), ["host/put", "host/put/fence"]),
        (("fence", "host/put"), ["host/put/fence", "host/put"]),
        (("host", "host"), ["host"]),
    ],
)
def test_transports_by_name_part_of_a_name_and_all(asked: tuple[str, ...], names: list[str]) -> None:
    assert choose_transports(asked, Site(ABOUT_FAKE)) == names


def test_an_unknown_transport_names_the_nearest_and_all_but_the_test_transports() -> None:
    with pytest.raises(UserError, match=r"'hots'; did you mean host\?") as caught:
        choose_transports(("hots",), Site(ABOUT_FAKE))
    assert "staged/shared" in str(caught.value)
    assert "+flip" not in str(caught.value)
    with pytest.raises(UserError, match=r"there is no transport 'host\+flop'"):
        choose_transports(("host+flop",), Site(ABOUT_FAKE))


@pytest.mark.parametrize(
    ("ranks", "place", "words"),
    [
        (3, None, "--ranks 2"),
        (1, None, "not 1"),
        (4, None, "stream needs 2"),
        (None, RankInfo(0, 3, "openmpi"), "this job has 3: start it with -n 2"),
        (None, RankInfo(0, 1, "srun"), "--launcher"),
        (2, RankInfo(0, 4, "srun"), "does not fit this job of 4 ranks"),
    ],
)
def test_a_wrong_number_of_ranks_names_the_right_one(ranks: int | None, place: RankInfo | None, words: str) -> None:
    with pytest.raises(UserError, match=words):
        count_pair(JobOptions(ranks=ranks), Site(ABOUT_FAKE, place), "stream")


def test_the_number_of_ranks_is_the_launcher_s_or_the_one_asked_for() -> None:
    assert count_ranks(JobOptions(ranks=4), Site(ABOUT_FAKE), usual=2) == 4
    assert count_ranks(JobOptions(), Site(ABOUT_FAKE, RankInfo(0, 3, "pmix")), usual=2) == 3
    unknown = Site(ABOUT_FAKE, RankInfo(0, None, "pmix"))  # the engine counts, where the launcher does not say
    assert count_ranks(JobOptions(), unknown, usual=2) == 2


def test_a_launcher_that_cannot_be_started_is_named(tmp_path: Path) -> None:
    with Stop() as stop, pytest.raises(MachineError, match="no-such-mpirun"):
        EngineProcess(Start("openmpi", (str(tmp_path / "no-such-mpirun"),), {}, {}), stop)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_handlers_that_a_c_library_had_installed_are_no_trouble(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python returns ``None`` for such a handler, and does not accept it: ``signal handler must be ...``."""
    before = signal.getsignal(signal.SIGINT)
    replace = signal.signal

    def replace_unknown(number: int, handler: Any) -> None:
        replace(number, handler)

    monkeypatch.setattr(signal, "signal", replace_unknown)
    try:
        with Stop():
            pass
        assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
    finally:
        replace(signal.SIGINT, before)


def test_a_job_that_was_given_no_plan_is_not_waited_for(bin_folder: Path) -> None:
    words = (str(bin_folder / "volley-engine"), "--plan", "-")
    with EngineProcess(Start("none", words, {}, os.environ), Stop()) as process:
        pass
    assert process.ending.status == 1  # the stand-in's: an empty plan is none


# --------------------------------------------------------------------------------- one process with all GPUs


@pytest.fixture
def local(tmp_path: Path, bin_folder: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, ...]:
    """Words of a matrix between GPUs; this engine was built with CUDA, and there is a driver."""
    install(tmp_path / "bin", cuda_built="13.0")
    monkeypatch.setattr("volley.benchmarks.matrix.records.has_driver", lambda: True)
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


# ------------------------------------------------------------------------------------------------ bad days


def test_good_and_bad_days_are_told_as_they_were_looked_at(
    bin_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(engine, "_SAY_EVERY_S", math.inf)  # what a machine at work may say
    monkeypatch.setattr(progress, "LINES_EVERY_S", math.inf)
    monkeypatch.chdir(tmp_path)
    check_transcript("session/days", capsys, {str(bin_folder): "/mpi"})


def fake(monkeypatch: pytest.MonkeyPatch, behaviour: str, *words: str) -> int:
    monkeypatch.setenv("VOLLEY_FAKE", behaviour)
    return measure(*words)


def test_talk_on_both_streams_is_not_data_and_is_harmless(
    bin_folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert fake(monkeypatch, "chatty") == 0
    out, err = capsys.readouterr()
    assert len(out.splitlines()) == 1 + len(SIZES)
    assert "=   BAD NEWS" in err.splitlines()
    assert "a warning of MPI" in err
    assert not {"\0", "\x1b", "\x07"} & set(err)


def test_a_failed_point_is_exit_code_1_without_the_launcher_s_noise(
    bin_folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert fake(monkeypatch, "failing") == 1
    out, err = capsys.readouterr()
    assert "failed" in out
    assert "prterun" not in err


MEASURED, SKIPPED = example_records.pingpong([1e-6] * 6), example_records.pingpong(status="skipped", reason="too long")
GOOD = example_records.log(MEASURED)
LACKING = example_records.log(
    MEASURED, transports=[example_records.transport(), example_records.transport("aware", available=False)]
)
BARE = RunLog(run=example_records.run())


def failed(reason: str | None, *records: Any) -> RunLog:
    return RunLog(run=BARE.run, records=list(records), end=End(status="failed", reason=reason, elapsed_s=1.0))


@pytest.mark.parametrize(
    ("log", "ending", "code", "lines", "ends"),
    [
        (GOOD, Ending(0, (), ("[warning]",)), 0, ["[warning]"], False),
        (GOOD, Ending(3, ("no peer access",), ()), 3, [], False),  # of a rank other than the first
        (
            GOOD,
            Ending(1, (), ("x",)),
            1,
            ["x", "volley: all points were measured, but the job ended with status 1"],
            False,
        ),
        (LACKING, Ending(0, (), ()), 3, [], False),
        (example_records.log(SKIPPED), Ending(0, (), ()), 3, ["volley: every point was skipped"], True),
        (failed("an \x1b end", MEASURED), Ending(3, (), ()), 1, ["volley: an \\x1b end"], False),
        (failed("no GPU"), Ending(3, (), ()), 3, ["volley: no GPU"], False),
        (BARE, Ending(2, ("no plan",), ()), 2, ["volley: no plan", "volley: use mpirun"], True),
        (BARE, Ending(3, ("no GPU",), ()), 3, ["volley: no GPU"], True),
        (BARE, Ending(2, (), ()), 1, ["volley: the run was aborted: the job ended with status 2"], True),
        (
            RunLog(run=BARE.run, records=[MEASURED]),
            Ending(2, ("no plan",), ()),
            1,
            ["volley: the run was aborted: no plan"],
            True,
        ),
        (
            BARE,
            Ending(134, (), tuple(map(str, range(20)))),
            1,
            [*map(str, range(5, 20)), "volley: the run was aborted: the job ended with status 134 (SIGABRT)"],
            True,
        ),
    ],
)
def test_the_outcome_follows_from_the_records_or_else_from_how_the_job_ended(
    log: RunLog, ending: Ending, code: int, lines: list[str], ends: bool
) -> None:
    asked = [{"host"}, {"aware"}]
    assert judge(log, ending, named("pingpong"), asked, "use mpirun") == RunOutcome(code, tuple(lines), ends)


@pytest.mark.parametrize(
    ("log", "ending", "code", "said"),
    [
        (RunLog(), Ending(127, (), ("no libmpi",)), 3, "the engine does not start: no libmpi"),
        (RunLog(), Ending(127, ("no libmpi",), ()), 3, "the engine does not start: no libmpi"),
        (RunLog(), Ending(1, (), ()), 3, "the engine does not start: status 1"),
        (RunLog(), Ending(1, ("it throws",), ()), 1, "the run was aborted: it throws"),
        (RunLog(), Ending(-9, (), (), "the engine"), 1, "the run was aborted: the engine was killed by SIGKILL"),
        (BARE, Ending(1, (), ()), 1, "the run was aborted: the job ended with status 1"),
    ],
)
def test_an_engine_without_a_launcher_does_not_start_or_is_aborted(
    log: RunLog, ending: Ending, code: int, said: str
) -> None:
    expected = RunOutcome(code, (f"volley: {said}",), ends_session=True)
    assert judge(log, ending, GPUS, [], None) == expected


# ------------------------------------------------------------------------------------------------- signals


def test_a_job_that_ignores_a_stop_is_killed_after_a_while(
    bin_folder: Path, kept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "GRACE_S", 0.2)

    def interrupt_when_measured() -> None:
        while not any(b'"pingpong","version"' in file.read_bytes() for file in kept.glob("*.jsonl")):
            time.sleep(0.02)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt_when_measured, daemon=True).start()
    assert fake(monkeypatch, "stubborn") == 130
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_launcher_that_does_not_end_after_the_last_record_is_killed(
    bin_folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(signals, "_CLEANUP_S", 0.1)
    monkeypatch.setattr(start, "patience", lambda **_: Patience(end_s=0.1))
    assert fake(monkeypatch, "lingers", "--launches", "2", "--watchdog", "0.1") == 1
    out, err = capsys.readouterr()
    assert len(out.splitlines()) == 1 + len(SIZES)
    said = "volley: all points were measured, but the launcher had not ended 0.2 s after the last record; killed it"
    assert said in err.splitlines()


@pytest.mark.parametrize("words", [(), ("--launcher-arg=--hostfile", "--launcher-arg=hosts")])
def test_a_launch_on_this_host_has_a_folder_of_its_own_for_temporary_files(
    words: tuple[str, ...], bin_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two launchers with the same process number, in two containers or one after the other, use no common folder."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    used = []
    for _ in range(1 if words else 2):
        assert measure(*words) == 0
        lines = (bin_folder / "environment").read_text(encoding="utf-8").splitlines()
        used += [Path(line.removeprefix("TMPDIR=")) for line in lines if line.startswith("TMPDIR=")]
    if words:  # the ranks may be on other hosts, where no such folder exists
        assert used == [tmp_path]
        return
    assert [folder.parent for folder in used] == [tmp_path, tmp_path]
    assert len(set(used)) == 2
    assert not any(folder.exists() for folder in used)


HANGING = """#!/bin/sh
trap '' TERM
sleep 30 &
echo $$ $! >"$(dirname "$0")/processes"
wait
"""


def test_a_launcher_that_starts_no_rank_is_killed(
    bin_folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(signals, "_CLEANUP_S", 0.5)
    monkeypatch.setattr(start, "patience", lambda **_: Patience(start_s=0.5))
    (bin_folder / "mpirun").write_text(HANGING, encoding="utf-8")
    assert measure("--launches", "2", "--watchdog", "0.5") == 1
    said = "no measurement had begun 1 s after the start of the launcher; killed it; a larger --watchdog waits longer"
    assert f"volley: the run was aborted: {said}" in capsys.readouterr().err.splitlines()
    for process in (bin_folder / "processes").read_text(encoding="utf-8").split():
        assert not Path(f"/proc/{process}").exists()


EXPLAINS = """#!/bin/sh
echo "ssh: connect to host node2 port 22: Connection timed out" >&2
exec sleep 600
"""
WORDS = "ssh: connect to host node2 port 22: Connection timed out"


def test_the_words_of_a_launcher_are_shown_while_it_is_waited_for_and_when_it_is_killed(
    bin_folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(start, "patience", lambda **_: Patience(start_s=1))
    (bin_folder / "mpirun").write_text(EXPLAINS, encoding="utf-8")
    assert measure("--watchdog", "1") == 1
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith("volley: waiting for the start of 2 ranks: ")
    assert lines[1:] == [
        f"volley: the launcher says: {WORDS}",
        WORDS,
        "volley: the run was aborted: no measurement had begun 2 s after the start of the launcher; killed it",
    ]


def test_the_words_of_a_launcher_are_shown_after_ctrl_c(
    bin_folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    keep = EngineProcess._keep_text

    def stop_then(self: EngineProcess, line: bytes) -> None:
        keep(self, line)
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(EngineProcess, "_keep_text", stop_then)
    (bin_folder / "mpirun").write_text(EXPLAINS, encoding="utf-8")
    assert measure() == 130
    assert capsys.readouterr().err.splitlines() == [
        WORDS, "volley: stopped by Ctrl-C before anything was measured"
    ]  # fmt: skip


OUTLIVES = """#!/bin/sh
while [ $# -gt 0 ]; do
  case "$1" in */volley-engine) break ;; esac
  shift
done
"$@" <&0
trap '' TERM
sleep 600
"""


@pytest.mark.parametrize("behaviour", ["cut", "watchdog"])
def test_a_launcher_that_outlives_its_ranks_is_killed(
    behaviour: str, bin_folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(engine, "_LOOK_EVERY_S", 0.1)
    monkeypatch.setattr(signals, "_CLEANUP_S", 0.1)
    monkeypatch.setattr(start, "patience", lambda **_: Patience(end_s=0.3))
    (bin_folder / "mpirun").write_text(OUTLIVES, encoding="utf-8")
    assert fake(monkeypatch, behaviour) == 1
    assert "the launcher had not ended 0.3 s after its ranks; killed it" in capsys.readouterr().err


def test_the_first_record_ends_the_time_limit_of_the_start_and_teaches_that_of_the_next() -> None:
    slow = ("sh", "-c", "sleep 0.2; echo '{}'; sleep 0.6; echo '{}'")
    patience = Patience(start_s=10)
    plan = Plan(benchmark="probe", transports=[], options={}, watchdog_s=0.1)
    assert patience.until_first_record_s(0.5) == 10.5
    with Stop() as stop, EngineProcess(Start("none", slow, {}, os.environ, patience=patience), stop) as process:
        assert len(list(process.lines(plan))) == 2
    assert patience.until_first_record_s(0.5) == 0.5 + patience.seen_s[0] < 10


# ----------------------------------------------------------------------------------------- keeping records


def test_a_disk_that_fills_up_keeps_whole_lines(
    bin_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # Python before 3.12.8 keeps a part of a compiled module
    records = tmp_path / "out.jsonl"
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # the write fails instead
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (2500, before[1]))
        assert measure("-o", str(records), "--sizes", "8:39:+1") == 3
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
    assert ": File too large; later results are not saved" in capsys.readouterr().err
    data = records.read_bytes()
    assert data.endswith(b"}\n")
    (log,) = read_runs(records)
    assert log.run is not None
    assert log.end is None


def test_a_disk_that_is_found_to_be_full_at_the_end_loses_no_report(
    bin_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """NFS reports a full quota when a file is closed."""
    really_close, really_end = os.close, Writer.close

    def fails(descriptor: int) -> None:
        really_close(descriptor)
        raise OSError(errno.EDQUOT, os.strerror(errno.EDQUOT))

    def end(writer: Writer) -> None:
        with monkeypatch.context() as full:
            full.setattr(os, "close", fails)
            really_end(writer)

    monkeypatch.setattr(Writer, "close", end)
    records = tmp_path / "out.jsonl"
    assert measure("-o", str(records)) == 3
    out, err = capsys.readouterr()
    assert len(out.splitlines()) == 1 + len(SIZES)
    assert f"cannot write all records to {records}: Disk quota exceeded" in err
    assert err.splitlines()[-1] == f"records: {records}"


def test_a_file_that_was_there_is_not_deleted_where_nothing_is_measured(tmp_path: Path) -> None:
    empty, link, new = (tmp_path / name for name in ("empty", "link", "new"))
    empty.touch()
    link.symlink_to(empty)
    for path in (empty, link, new):
        open_writer(path, "pingpong").close()
    assert sorted(tmp_path.iterdir()) == [empty, link]


def test_the_command_below_a_screen_shows_this_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    first, second, named = (open_writer(path, "pingpong") for path in (None, None, tmp_path / "a b.jsonl"))
    for writer in (named, first, second):
        writer.write(b"{}\n")
    for number, writer in enumerate((first, second)):
        assert writer.path
        os.utime(writer.path, (number, number))
    assert first.command() == f"volley show {first.path}"
    assert second.command() == "volley show"
    assert named.command() == f"volley show '{named.path}'"
    monkeypatch.setenv("XDG_STATE_HOME", "/dev/null/state")
    other = open_writer(None, "pingpong")
    assert other.command() == f"volley show {other.path}"
    for writer in (first, second, named, other):
        writer.close()


def test_records_find_another_place_where_there_is_no_state_folder(
    bin_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "a-file"
    file.touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(file / "state"))
    monkeypatch.setenv("HOME", str(file / "home"))
    assert measure() == 0
    err = capsys.readouterr().err
    assert f"records go to another folder: cannot write to {file}/state/volley: Not a directory" in err
    place = Path(err.splitlines()[-1].removeprefix("records: "))
    (log,) = read_runs(place)
    assert log.complete
    place.unlink()
    place.parent.rmdir()


def test_with_no_place_at_all_the_results_are_still_shown(
    bin_folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(records_file, "_folders", lambda: [Path("/dev/null/volley")])
    assert measure() == 3
    out, err = capsys.readouterr()
    assert len(out.splitlines()) == 1 + len(SIZES)
    assert "name a file with -o" in err


def test_a_relative_state_folder_is_ignored_as_its_specification_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "relative")
    monkeypatch.setenv("HOME", "/home/somebody")
    folders = records_file._folders()
    assert next(folders) == Path("/home/somebody/.local/state/volley")


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
