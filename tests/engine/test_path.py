"""What carries messages between two ranks of this host, as its own launch shows it with the real engine and MPI."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from volley.benchmarks import named
from volley.launch import path_launch, preflight
from volley.launch.preflight import Trials
from volley.machine import nvml
from volley.machine.fallbacks import fallback
from volley.machine.nvidia_driver import has_driver
from volley.machine.paths import CountedDevice, CountedEnd, PathCounts, RunPath, Said, path_of
from volley.machine.signals import Stop
from volley.records.plan import Plan
from volley.run.session import Session, prepare


@pytest.fixture(autouse=True)
def _under_test(monkeypatch: pytest.MonkeyPatch, engine: Path) -> None:
    monkeypatch.setenv("VOLLEY_ENGINE", str(engine))


@contextmanager
def usual(transport: str) -> Iterator[tuple[Session, Plan, Trials]]:
    """A usual ping-pong on one transport; the ranks may share a GPU."""
    benchmark = named("pingpong")
    with Stop() as stop:
        session = prepare(benchmark, benchmark.options(), stop)
        (job,) = session.jobs.planned
        plan = msgspec.structs.replace(job.plan, transports=[transport], share_device=True)
        yield session, plan, Trials(session.starts[plan.world_size], session.stack, stop)


def records_of(transport: str, *sizes: int) -> list[dict[str, Any]]:
    with usual(transport) as (_, plan, trials):
        small = path_launch.PathPlan(sizes_bytes=list(sizes), operations=[], operation_sizes_bytes=[])
        records, ending = preflight.send(msgspec.structs.replace(plan, benchmark="path", options=small), trials)
    found = [record for record in records if record["record"] == "path"]
    assert found, ending
    return found


def found(transport: str = "host") -> list[RunPath]:
    with usual(transport) as (session, plan, trials):
        shown = path_launch.found(plan, session.context.about, [], trials)
        return shown.paths if shown else []


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


def test_the_engine_writes_what_is_read() -> None:
    """Every key, those that are read only where there are GPUs, too."""
    (counts,) = records_of("host", 1 << 16)
    written = counts["ends"][0]
    assert set(written) == {each.name for each in msgspec.structs.fields(CountedEnd)}
    assert set(written["devices"][0]) == {each.name for each in msgspec.structs.fields(CountedDevice)}


@pytest.mark.alone
def test_messages_over_the_loopback_are_counted_and_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMPI_MCA_pml", "ob1")
    monkeypatch.setenv("OMPI_MCA_btl", "tcp,self")
    *_, longest = found()
    assert (longest.over(), longest.library, longest.protocol) == ("lo", "Open MPI ob1", "tcp")
    assert longest.counted == pytest.approx(1.0, abs=0.05)
    slow = fallback(longest, {"OMPI_MCA_btl": "tcp,self"}, "4 MiB")
    assert list(slow.unset) == ["OMPI_MCA_btl"]


# ------------------------------------------------------------------------------------------- between GPUs

needs_gpus = pytest.mark.skipif(not has_driver(), reason="there is no NVIDIA driver here")
"""Run these alone with: pytest tests/engine/test_path.py -m gpu"""
TO_HOST = {"UCX_TLS": "tcp,cuda_copy,self", "NCCL_P2P_DISABLE": "1"}
COUNTED = (0.95, 1.35)
"""NCCL and PCIe add headers and flags to the bytes of messages."""


def longest(transport: str, monkeypatch: pytest.MonkeyPatch, **variables: str) -> RunPath:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    paths = found(transport)
    if not paths:
        pytest.skip(f"{transport} cannot be used here")
    return paths[-1]


@pytest.mark.gpu
@pytest.mark.alone
@needs_gpus
@pytest.mark.parametrize("transport", ["aware", "nccl", "peer", "device"])
def test_bytes_go_over_the_best_link_of_the_gpus(transport: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = longest(transport, monkeypatch)
    joined = any(peer.nvlink == "ok" for peer in nvml.read("before").peers)
    print(path)
    if len({end.gpu for end in path.ends}) == 1:
        assert (path.kind, path.devices) == ("memory of the GPU", [])
    elif joined:
        assert (path.kind, path.over()) == ("GPU to GPU", "NVLink")
        assert path.counted
        assert COUNTED[0] < path.counted < COUNTED[1]
    assert fallback(path, {}, "4 MiB") is None


@pytest.mark.gpu
@pytest.mark.alone
@needs_gpus
@pytest.mark.parametrize("transport", ["aware", "nccl"])
def test_bytes_that_go_through_the_host_are_counted_and_found(transport: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = longest(transport, monkeypatch, **TO_HOST)
    print(path)
    assert path.kind in {"memory of the host", "TCP"}
    slow = fallback(path, TO_HOST, "4 MiB")
    assert slow.unset
    if path.counted is None:
        pytest.skip("this GPU does not count the bytes of PCIe")
    assert COUNTED[0] < path.counted < COUNTED[1]


@pytest.mark.gpu
@pytest.mark.alone
@needs_gpus
def test_copies_to_and_from_the_host_are_counted() -> None:
    counts = [msgspec.convert(record, PathCounts) for record in records_of("staged/pinned", 64 << 10, 4 << 20)]
    print(*counts, sep="\n")
    for each in counts:
        path = path_of(each, Said())
        if path.counted is None:
            pytest.skip("this GPU does not count the bytes of PCIe")
        assert path.over() == "PCIe"
        assert COUNTED[0] < path.counted < COUNTED[1]
