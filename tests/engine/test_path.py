"""What carries messages between two ranks of this host, as its own launch shows it with the real engine and MPI."""

from __future__ import annotations

from pathlib import Path

import pytest

from volley.benchmarks import named
from volley.launch import path_launch
from volley.launch.preflight import Trials
from volley.machine.paths import RunPath, fallback
from volley.machine.signals import Stop
from volley.run.session import prepare


@pytest.fixture(autouse=True)
def _under_test(monkeypatch: pytest.MonkeyPatch, engine: Path) -> None:
    monkeypatch.setenv("VOLLEY_ENGINE", str(engine))


def found() -> list[RunPath]:
    """The paths of the transports of a usual ping-pong, which are those of host memory where there is no GPU."""
    benchmark = named("pingpong")
    with Stop() as stop:
        session = prepare(benchmark, benchmark.options(), stop)
        (job,) = session.jobs.planned
        trials = Trials(session.starts[job.plan.world_size], session.stack, stop)
        paths = path_launch.found(job.plan, session.context.about, ["aware"], trials)
    return [path for path in paths or [] if path.transport == "host"]


@pytest.mark.alone  # the bytes of other programs would be counted
def test_ranks_of_one_host_send_through_its_memory() -> None:
    paths = found()
    assert len(paths) == path_launch.MOST_SIZES_HERE
    for path in paths:
        assert (path.kind, path.devices, path.apart) == ("memory of the host", [], False)
        assert path.library
        assert fallback(path, {}, "8 B") is None


@pytest.mark.parametrize("single_copy", ["cma", "^cma"])
def test_open_mpi_says_how_it_copies(monkeypatch: pytest.MonkeyPatch, single_copy: str) -> None:
    monkeypatch.setenv("OMPI_MCA_pml", "ob1")
    monkeypatch.setenv("OMPI_MCA_smsc", single_copy)
    copies = {path.protocol for path in found()}
    assert copies == {"sm and cma for large messages" if single_copy == "cma" else "sm"}


@pytest.mark.alone
def test_messages_over_the_loopback_are_counted_and_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMPI_MCA_pml", "ob1")
    monkeypatch.setenv("OMPI_MCA_btl", "tcp,self")
    *_, longest = found()
    assert (longest.over(), longest.library, longest.protocol) == ("lo", "Open MPI ob1", "tcp")
    assert longest.counted == pytest.approx(1.0, abs=0.05)
    slow = fallback(longest, {"OMPI_MCA_btl": "tcp,self"}, "4 MiB")
    assert slow
    assert list(slow.unset) == ["OMPI_MCA_btl"]
