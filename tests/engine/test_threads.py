"""Threads of a rank that call MPI at once, from the command line to the records."""

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from the_command import DATA_FAULTS, FEW, LIMIT_S, Command, engine_words
from volley.benchmarks import BENCHMARKS
from volley.benchmarks.message_rate.results import MessageRatePoint
from volley.benchmarks.points.records import PointRecord
from volley.machine.transports import TRANSPORTS, have_threads
from volley.records.records_file import read_runs
from volley.records.run_log import RunLog

THREADED = {name: int(name.rpartition("/")[2]) for name in TRANSPORTS if have_threads([name])}
QUICK = ("--sizes", "8,100000", "--point-time", "0.01")


def unbound(volley: Command, engine: Path, *words: str, options: Sequence[str]) -> tuple[int, RunLog]:
    """Run a plan with two ranks that nobody binds: their threads share the CPUs of this machine."""
    plan = volley(*words, "--dry-run").out
    command = [*volley.mpirun(2), *engine_words(engine), *options]
    done = subprocess.run(
        command, input=plan, capture_output=True, text=True, timeout=LIMIT_S, check=False, env=volley.environment()
    )
    kept = volley.state.with_suffix(".jsonl")
    kept.write_text("".join(line + "\n" for line in done.stdout.splitlines() if line.startswith("{")))
    (log,) = read_runs(str(kept), BENCHMARKS)
    return done.returncode, log


@pytest.mark.slow
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="two threads need two CPUs")
def test_every_fault_is_found_with_threads(volley: Command, engine: Path) -> None:
    """engine/tests/mpi_transports.cpp finds them in round trips and in windows."""
    names = ["host/threads/2", *(f"host/threads/2+{fault}" for fault in DATA_FAULTS)]
    words = ("message-rate", "-t", ",".join(["host", *names]), *QUICK, "--budget", str(LIMIT_S))
    code, log = unbound(volley, engine, *words, options=["--threads"])
    assert (code, log.run is not None and log.run.mpi and log.run.mpi.thread_multiple) == (1, True)
    assert {(point.transport, point.size_bytes, point.status) for point in log.of(PointRecord)} == {
        (name, size, "failed" if "+" in name else "ok") for name in ("host", *names) for size in (8, 100000)
    }


def test_each_thread_has_a_core_of_its_own_or_the_reason_says_how_many_there_are(volley: Command) -> None:
    done = volley("message-rate", "-t", "host,threads", *QUICK, "--launches", "1")
    (log,) = done.records
    assert log.run.mpi.thread_multiple
    assert "MPI_THREAD_MULTIPLE" in done.out
    here, other = (set(rank.cores) for rank in log.run.ranks)
    assert not here & other
    threaded = {each.transport: each for each in log.transports if each.transport in THREADED}
    assert threaded.keys() == THREADED.keys()
    for name, threads in THREADED.items():
        if len(here) < threads:
            needed = "each of its threads needs a core of its own"
            assert threaded[name].reason == f"{needed}, and a rank has {len(here)} here"
        else:
            cpus = threaded[name].facts["cpus"]
            assert len(set(cpus)) == threads
            assert set(cpus) <= here
    measured = {point.transport for point in log.of(MessageRatePoint) if point.status == "ok"}
    assert measured == {"host", *(name for name, threads in THREADED.items() if threads <= len(here))}


def test_other_runs_do_not_ask_for_threads(volley: Command) -> None:
    done = volley("pingpong", "-t", "host", *FEW)
    (log,) = done.records
    assert log.run.mpi is not None
    assert "MPI_THREAD_MULTIPLE" not in done.out
    if "Open MPI" in log.run.mpi.library:  # it gives what is asked for, and others may give more
        assert log.run.mpi.thread_multiple is False


def test_an_mpi_that_threads_may_not_call_is_a_reason(volley: Command, engine: Path) -> None:
    """As from a library that was built without MPI_THREAD_MULTIPLE: here nobody asks for it."""
    code, log = unbound(volley, engine, "pingpong", "-t", "host,threads", *FEW, options=())
    reasons = {each.transport: each.reason for each in log.transports if not each.available}
    assert code == 0
    if not log.run.mpi.thread_multiple:
        reason = "MPI gave this job no MPI_THREAD_MULTIPLE, with which several threads may call it"
        assert reasons == dict.fromkeys(THREADED, reason)
