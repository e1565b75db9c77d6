"""``--cold-cache``: each message of a batch has another place; what arrives is checked as always."""

import pytest

from the_command import DATA_FAULTS, Command
from volley.benchmarks.collective.results import CollectivePoint
from volley.benchmarks.pair.results import StreamPoint
from volley.benchmarks.points import OPERATIONS
from volley.benchmarks.points.records import PointRecord

COLD = ("--launches", "1", "--point-time", "0.01", "--cold-cache")
STAY = dict.fromkeys(("host/persistent", "host/partitioned"), "requests are made for one place")


@pytest.mark.slow
def test_every_transport_in_host_memory_is_sound_and_every_fault_is_found(volley: Command) -> None:
    sound = ("host", "host/nonblocking", "host/vector", "host/put", "host/put/fence", "host/get", "null")
    faulty = tuple(f"host+{fault}" for fault in DATA_FAULTS)
    done = volley("pingpong", *COLD, "-t", ",".join((*sound, *faulty, *STAY)), "--sizes", "128,64Ki")
    (log,) = done.records
    (large,) = volley("pingpong", *COLD, "-t", "host,host+swap", "--sizes", "40Mi").records
    assert done.code == 1
    assert log.run.plan.options.cold_cache
    statuses = {(point.transport, point.status) for point in log.of(PointRecord)}
    assert statuses == {*((name, "ok") for name in sound), *((name, "failed") for name in faulty)}
    assert [point.status for point in large.of(PointRecord)] == ["ok", "failed"]
    left_out = {each.transport: each.reason or "" for each in log.transports if not each.available}
    assert left_out.keys() == STAY.keys()
    assert all(STAY[name] in reason for name, reason in left_out.items())
    assert "cold caches: messages pass through buffers larger than the caches" in done.out


@pytest.mark.parametrize("direction", ["uni", "bi"])
def test_windows_are_sound_and_every_fault_is_found(volley: Command, direction: str) -> None:
    faulty = tuple(f"host+{fault}" for fault in DATA_FAULTS)
    words = ("--sizes", "100,64Ki", "--window", "5", "--direction", direction)
    done = volley("stream", *COLD, "-t", ",".join(("host", *faulty)), *words)
    (log,) = done.records
    assert {point.transport for point in log.of(StreamPoint) if point.status == "ok"} == {"host"}
    assert {point.transport for point in log.of(StreamPoint) if point.status == "failed"} == set(faulty)


@pytest.mark.slow
def test_every_collective_is_sound_and_every_fault_is_found(volley: Command) -> None:
    operations = [operation for operation in OPERATIONS if operation != "barrier"]
    words = ("--ranks", "3", "--operation", ",".join(operations), "--imbalance", "1,3", "--sizes", "1000")
    done = volley("collective", *COLD, *words, "-t", "host,host+flip,host+lose")
    (log,) = done.records
    found = {(point.operation, point.transport): point.status for point in log.of(CollectivePoint)}
    assert found == {
        (operation, name): "ok" if name == "host" else "failed"
        for operation in operations
        for name in ("host", "host+flip", "host+lose")
    }
