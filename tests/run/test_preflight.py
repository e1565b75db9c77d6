"""What may crash is tried in a separate job, and left out of the measurement when it does."""

import json
import os
import re
import signal
import threading
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import pytest

from example_records import plan
from fake_engine import install, use
from the_command import engine_words, finish_with
from volley.benchmarks import BENCHMARKS
from volley.benchmarks import read as read_command
from volley.document import part_of
from volley.launch import preflight
from volley.launch.engine import About, Ending, TransportAbout, ask_about
from volley.launch.preflight import Preflight, Trials
from volley.launch.start import Start
from volley.machine.mpi_stack import MpiAbout, Stack
from volley.machine.signals import Stop
from volley.machine.ucx_protocols import PLACE, Protocols
from volley.records.plan import Plan
from volley.records.records_file import read_runs
from volley.records.run_log import RunLog
from volley.run import jobs, session

WHEEL = MpiAbout("Open MPI v5.0.11", "3.1", "libmpi.so.40")
ABOUT = About(
    mpi=WHEEL,
    cuda_built="13.0",
    transports=tuple(
        TransportAbout(
            name=name, summary="x", mpi=True, memory=memory, device_pointers=memory == "device", usual="/" not in name
        )
        for name, memory in (("host", "host"), ("aware", "device"), ("aware/put", "device"), ("aware/get", "device"))
    ),
)


@pytest.fixture
def with_aware(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of records; the machine has a driver and two GPUs."""
    use(monkeypatch, install(tmp_path / "bin"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr(session, "has_driver", lambda: True)
    monkeypatch.setattr(jobs, "gpu_count", lambda: 2)
    monkeypatch.setattr(session, "ask_about", lambda *_: nullcontext(lambda: ABOUT))
    return tmp_path


def found(monkeypatch: pytest.MonkeyPatch, result: Preflight) -> list[Plan]:
    """Replace the preflight by one that finds ``result``; return the plans that it was asked about."""
    asked: list[Plan] = []

    def between_two(plan: Plan, *_: object) -> Preflight:
        asked.append(plan)
        return result

    monkeypatch.setattr(preflight, "between_two", between_two)
    return asked


def measure(output: Path, *words: str, command: str = "pingpong") -> int:
    sizes = ("--sizes", "8") if command == "pingpong" else ()
    if command == "pingpong" and not {"--launches", "--tail"} & {*words}:
        words = (*words, "--launches", "1")
    return session.measure(read_command([command, *sizes, "--force", "-o", str(output), *words]))


def the_log(path: Path) -> RunLog:
    (log,) = read_runs(path, BENCHMARKS)
    assert log.run
    return log


def test_what_the_preflight_found_goes_into_the_plan(with_aware: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = found(monkeypatch, Preflight({"aware": "it crashed"}))
    measure(with_aware / "r.jsonl", "-t", "host,aware", "--launches", "2")
    assert len(asked) == 1
    logs = read_runs(with_aware / "r.jsonl", BENCHMARKS)
    assert [log.run and log.run.plan.excluded for log in logs] == [{"aware": "it crashed"}] * 2


def test_nothing_is_tried_where_nothing_can_crash_or_the_ranks_have_one_gpu_unless_they_may_share_it(
    with_aware: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = found(monkeypatch, Preflight())
    measure(with_aware / "r.jsonl", "-t", "host")
    with monkeypatch.context() as without_driver:
        without_driver.setattr(session, "has_driver", lambda: False)
        measure(with_aware / "r.jsonl", "-t", "host,aware")
    monkeypatch.setattr(jobs, "gpu_count", lambda: 1)
    measure(with_aware / "r.jsonl", "-t", "host,aware")
    assert asked == []
    measure(with_aware / "s.jsonl", "-t", "host,aware", "--share-gpu")
    measure(with_aware / "t.jsonl", "-t", "host,aware", "--hosts", "a,b")  # each may have one of its own
    assert len(asked) == 2


def test_a_trial_that_takes_long_leaves_time_to_measure_unless_the_time_was_asked_for(
    with_aware: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    monkeypatch.setattr(session.time, "monotonic", lambda: time.perf_counter() + now[0])

    def late(*_: object) -> Preflight:
        now[0] += 1000.0
        return Preflight()

    monkeypatch.setattr(preflight, "between_two", late)
    budgets_s = []
    for words in ((), ("--budget", "9")):
        measure(with_aware / "r.jsonl", "-t", "aware", "--tail", *words)
        first, *_ = read_runs(with_aware / "r.jsonl", BENCHMARKS)
        budgets_s.append(first.run.plan.budget_s if first.run else None)
    assert budgets_s[0] > 1 > budgets_s[1]


@pytest.mark.parametrize(
    ("gpus", "share", "here", "usable"),
    [
        (2, False, True, ["host", "aware"]),
        (1, True, True, ["host", "aware"]),
        (1, False, False, ["host", "aware"]),
        (1, False, True, ["host"]),
        (0, True, True, ["host"]),
    ],
)
def test_a_time_is_said_for_the_transports_that_the_ranks_can_have(
    monkeypatch: pytest.MonkeyPatch, gpus: int, share: bool, here: bool, usable: list[str]
) -> None:
    monkeypatch.setattr(jobs, "gpu_count", lambda: gpus)
    two = plan(transports=["host", "aware"], share_device=share)
    assert jobs.usable_transports(two, jobs.JobContext(ABOUT, on_this_host=here)) == usable


def test_ctrl_c_during_the_preflight_stops_the_session(
    with_aware: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("VOLLEY_FAKE", "preflight_hangs")
    joined = with_aware / "bin" / "joined"

    def interrupt() -> None:
        while not joined.exists():
            time.sleep(0.02)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt, daemon=True)
    thread.start()
    assert measure(with_aware / "r.jsonl", "-t", "aware", "--launches", "3") == 130
    thread.join(timeout=10)
    assert "stopped by Ctrl-C" in capsys.readouterr().err
    assert not (with_aware / "r.jsonl").exists()  # nothing was measured


def test_ucx_is_asked_in_the_preflight_and_never_in_the_measured_job(
    with_aware: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VOLLEY_FAKE", "talks_as_ucx")
    measure(with_aware / "r.jsonl", "-t", "aware")
    started = with_aware / "bin" / "environment"
    assert "UCX_PROTO_INFO" not in started.read_text(encoding="utf-8")  # of the job that was started last
    run = the_log(with_aware / "r.jsonl").run
    protocols = part_of(run.plan.launch, Protocols, *PLACE)
    assert [table.ranges[-1].lanes for table in protocols.sends] == ["cuda_ipc/cuda"]


def test_every_start_passes_the_environment_on(with_aware: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """To ask the engine, to try ``aware``, to measure, and to start the engine without MPI."""
    settings = {"NCCL_NVLS_ENABLE": "0", "NVSHMEM_DISABLE_NVLS": "1", "UCX_TLS": "a,b", "OMPI_MCA_pml": "ob1"}
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    measure(with_aware / "r.jsonl", "-t", "host,aware")
    install(with_aware / "bin", cuda_built="13.0")
    for module in ("matrix", "matrix.jobs"):
        monkeypatch.setattr(f"volley.benchmarks.{module}.has_driver", lambda: True)
    measure(with_aware / "s.jsonl", "--section", "uni", command="matrix")
    with ask_about(with_aware / "bin" / "volley-engine") as answer:
        answer()
    lines = (with_aware / "bin" / "starts").read_text(encoding="utf-8").splitlines()
    starts = [json.loads(line) for line in lines]
    kinds = [("--about" in words, "--mpi-library" in words) for _, *words, _ in starts]
    assert kinds.count((True, False)) == 1
    assert kinds.count((False, True)) >= 2
    assert kinds.count((False, False)) == 1
    for *_, environment in starts:
        assert settings.items() <= environment.items()


@pytest.fixture
def inside_mpirun(with_aware: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The same machine; a foreign mpirun made this process the first of two ranks."""
    for name, value in (("OMPI_COMM_WORLD_RANK", "0"), ("OMPI_COMM_WORLD_SIZE", "2"), ("PMIX_RANK", "0")):
        monkeypatch.setenv(name, value)
    return with_aware / "r.jsonl"


def test_what_crashes_in_a_small_run_of_the_benchmark_is_left_out(
    with_aware: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found(monkeypatch, Preflight())
    tried: list[Plan] = []

    def rehearsed(trial: list[Plan], *_: object) -> Preflight:
        tried.extend(trial)
        return Preflight({"aware": "it crashed"})

    monkeypatch.setattr(preflight, "rehearsed", rehearsed)
    words = ("-t", "host,aware", "--launches", "1", "--operation", "barrier,allreduce")
    measure(with_aware / "r.jsonl", *words, command="collective")
    (trial,) = tried
    assert (trial.benchmark, trial.options.operations, trial.sampling.mode) == ("collective", ["allreduce"], "fixed")
    run = the_log(with_aware / "r.jsonl").run
    assert run.plan.excluded == {"aware": "it crashed"}


@pytest.mark.parametrize(
    ("bad", "excluded", "jobs"),
    [
        ([{"allreduce"}], {"aware allreduce", "aware reduce"}, 4),
        ([{"allreduce"}, {"gather"}], {"aware allreduce", "aware reduce", "aware gather"}, 4),
        ([{"allreduce"}, {"gather"}, {"broadcast"}], {"aware"}, 4),
        ([{"allreduce", "broadcast"}], {"aware"}, 4),  # all parts work, but not together
        ([], set(), 1),
    ],
)
def test_operations_that_fail_in_a_small_run_are_left_out_alone(
    bad: list[set[str]],
    excluded: set[str],
    jobs: int,
    with_aware: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An MPI that sends from device memory need not sum there."""
    found(monkeypatch, Preflight())
    tried: list[Plan] = []

    def job(plan: Plan, _: object) -> tuple[list[dict[str, object]], Ending]:
        if plan.benchmark != "path":
            tried.append(plan)
        fails = any(each <= {*plan.options.operations} for each in bad)
        ended = [] if fails else [{"record": "end"}]
        return [{"record": "run", "mpi": None}, *ended], Ending(0, ("rank 1 of 2 was ended by SIGSEGV",), ())

    monkeypatch.setattr(preflight, "send", job)
    words = ("-t", "host,aware", "--launches", "1", "--operation", "barrier,broadcast,allreduce,reduce,gather")
    measure(with_aware / "r.jsonl", *words, command="collective")
    run = the_log(with_aware / "r.jsonl").run
    assert (set(run.plan.excluded), len(tried)) == (excluded, jobs)
    if "aware reduce" in excluded:
        reason = run.plan.excluded["aware reduce"]
        assert "reduce and allreduce failed on device pointers: rank 1 of 2 was ended by SIGSEGV; other" in reason


def test_inside_a_launcher_collectives_are_not_risked(inside_mpirun: Path) -> None:
    measure(inside_mpirun, "-t", "host,aware", command="collective")
    run = the_log(inside_mpirun).run
    assert "inside a launcher it cannot be tried first" in run.plan.excluded["aware"]


@pytest.mark.parametrize(("names", "tried"), [("host,aware", ["aware"]), ("all", ["aware", "aware/put", "aware/get"])])
def test_inside_a_launcher_a_process_sends_to_itself_first(inside_mpirun: Path, names: str, tried: list[str]) -> None:
    measure(inside_mpirun, "-t", names)
    log = the_log(inside_mpirun)
    assert log.run.plan.excluded == {}
    assert log.run.plan.launch["tried_alone"] == tried


def test_inside_a_launcher_what_cannot_send_to_itself_is_left_out(
    inside_mpirun: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VOLLEY_FAKE", "crashes_alone")
    measure(inside_mpirun, "-t", "host,aware")
    log = the_log(inside_mpirun)
    assert log.end
    assert "in a test where one process sends to itself" in log.run.plan.excluded["aware"]


def test_the_weaker_evidence_is_called_that_until_messages_were_measured(
    inside_mpirun: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    measure(inside_mpirun, command="transports")
    assert "This is weaker evidence than a message between two ranks" in capsys.readouterr().out
    measure(inside_mpirun, "-t", "host")
    assert "weaker evidence" not in capsys.readouterr().out


def test_a_job_of_one_rank_has_no_transport_and_says_why(engine: Path) -> None:
    plan = {"plan": 2, "benchmark": "probe", "world_size": 1, "transports": ["host", "null"]}
    done = finish_with(engine_words(engine), json.dumps(plan))
    records = [json.loads(line) for line in done.out.splitlines()]
    reasons = [each["reason"] for each in records if each["record"] == "transport"]
    assert reasons == ["this job has one rank, and two are needed"] * 2


@pytest.mark.parametrize("mpi", ["", pytest.param("mpich", marks=pytest.mark.slow)])
def test_an_engine_alone_sends_to_itself(engine: Path, mpi: str, request: pytest.FixtureRequest) -> None:
    """MPICH sends no message to the rank itself, however short, before its receive is posted."""
    prefix = request.getfixturevalue(mpi) if mpi else None
    plan = {
        "plan": 2,
        "benchmark": "self_send",
        "world_size": 1,
        "transports": ["host", "host/put", "host/get", "host+flip", "null"],
        "options": {"sizes_bytes": [8, 1 << 20]},
    }
    done = finish_with(engine_words(engine, prefix), json.dumps(plan))
    records = [json.loads(line) for line in done.out.splitlines()]
    reasons = {each["transport"]: each["reason"] for each in records if each["record"] == "transport"}
    assert done.code == 0
    assert reasons == {
        "host": None,
        "host/put": None,
        "host/get": None,
        "host+flip": "a message of 8 bytes that a rank sent to itself did not arrive as it was sent",
        "null": "this job has one rank, and two are needed",
    }


@pytest.mark.parametrize(
    ("behaviour", "names", "excluded"),
    [
        ("good", ["aware"], set()),
        ("braces", ["aware"], set()),
        ("cut", ["aware"], {"aware"}),
        ("watchdog", ["aware"], {"aware"}),
        ("put_crashes", ["aware", "aware/put", "aware/get"], {"aware/put"}),
        ("two_crash", ["aware", "aware/put"], {"aware", "aware/put"}),
    ],
)
@pytest.mark.parametrize("how", [preflight.between_two, lambda plan, trials: preflight.rehearsed([plan], trials)])
def test_a_job_without_a_last_record_is_a_crash(
    how: Callable[[Plan, Trials], Preflight], behaviour: str, names: list[str], excluded: set[str], tmp_path: Path
) -> None:
    words = (str(install(tmp_path / "bin")), "--plan", "-")
    start = Start("openmpi", words, {}, {**os.environ, "VOLLEY_FAKE": behaviour})
    plan = Plan(benchmark="pingpong", transports=names, options={"sizes_bytes": [8]})
    tried = how(plan, Trials(start, Stack(WHEEL, "wheel"), Stop()))
    assert set(tried.excluded) == excluded
    assert all("[cuda13]" in reason for reason in tried.excluded.values())


@pytest.mark.parametrize(
    ("names", "bad", "began", "excluded", "jobs"),
    [
        (["aware", "aware/put"], "aware/put", True, {"aware/put"}, 3),
        (["aware", "aware/put"], "aware/put", False, {"aware", "aware/put"}, 1),  # no transport was opened
        (["aware/put"], "aware/put", True, {"aware/put"}, 1),
        (["aware", "aware/put"], "", True, set(), 1),
    ],
)
def test_each_is_tried_alone_where_a_job_of_several_fails_after_it_began(
    names: list[str], bad: str, began: bool, excluded: set[str], jobs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[Plan] = []

    def job(plan: Plan, _: object) -> tuple[list[dict[str, object]], Ending]:
        tried.append(plan)
        good = bad not in plan.transports
        records = [{"record": "run"}] * began + [{"record": "end", "medians": [1e-6]}] * good
        return records, Ending(0, (), ())

    monkeypatch.setattr(preflight, "send", job)
    asked = Plan(benchmark="pingpong", world_size=4, transports=names, options={})
    result = preflight.between_two(asked, Trials(Start("openmpi", [], {}, {}), Stack(WHEEL, "wheel"), Stop()))
    assert (set(result.excluded), len(tried)) == (excluded, jobs)
    assert (result.protocols is None) == (excluded == set(names))  # what the good jobs said of UCX is kept
    options = tried[0].options
    assert (tried[0].world_size, options["pairs"]) == (4, [[0, 1]])
    assert options["window"] > 1  # several messages at once


@pytest.mark.parametrize(
    ("stack", "inside", "remedy"),
    [
        (Stack(WHEEL, "wheel"), False, r"uses no CUDA-aware UCX: .*\[cuda13\]"),
        (Stack(WHEEL, "wheel", mca={"pml": "ucx"}), False, r"^the software was Open MPI v5\.0\.11"),
        (Stack(WHEEL, "wheel", environment={"UCX_TLS": "tcp"}), False, r"^the software was Open MPI v5\.0\.11"),
        (Stack(WHEEL, "wheel", mca={"pml": "ucx"}), True, r"^start volley without a launcher"),
        (
            Stack(MpiAbout("MPICH Version: 4.0", "4.0", "libmpi.so.12"), "site"),
            False,
            r"^MPICH 4\.0 .*is not CUDA-aware.*--mpi",
        ),
    ],
)
def test_the_reason_says_what_to_do(stack: Stack, inside: bool, remedy: str) -> None:
    assert re.search(remedy, preflight._remedy(stack, inside=inside))


@pytest.mark.parametrize(("words", "names"), [((), ["aware"]), (("-t", "put"), ["aware/put"])])
def test_what_gives_mpi_device_pointers_is_tried_first(
    words: tuple[str, ...], names: list[str], with_aware: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = found(monkeypatch, Preflight())
    measure(with_aware / "r.jsonl", *words)
    assert [plan.transports for plan in asked] == [names]
