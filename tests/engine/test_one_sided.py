"""One-sided MPI as transports: from the command line to the records."""

import pytest

from the_command import Command
from volley.benchmarks.points.records import PointRecord
from volley.machine.transports import TRANSPORTS

WORDS = {"host/get/fetch-and-op", "host/get/compare-and-swap"}
"""Those whose messages have at most 8 bytes."""
ONE_SIDED = {name for name in TRANSPORTS if name.startswith(("host/put", "host/get"))}
QUICK = ("--launches", "1", "--iterations", "5")


@pytest.mark.slow  # test_faults.py and engine/tests/mpi_transports.cpp measure with each of them, too
def test_every_message_is_verified(volley: Command) -> None:
    (log,) = volley("pingpong", *QUICK, "--sizes", "65,100001", "--transport", "put,get").records
    (short,) = volley("pingpong", *QUICK, "--sizes", "1", "--transport", ",".join(WORDS)).records
    points = [*log.of(PointRecord), *short.of(PointRecord)]
    long = {(name, size, "it carries messages of up to 8 B") for name in WORDS for size in (65, 100001)}
    assert {(each.transport, each.size_bytes, each.reason) for each in points if each.status == "skipped"} == long
    measured = {(point.transport, point.size_bytes) for point in points if point.status == "ok"}
    both = {(name, size) for name in ONE_SIDED for size in (65, 100001)}
    assert measured == both - {each[:2] for each in long} | {(name, 1) for name in WORDS}
    assert all(point.messages_verified > 0 for point in points if point.status == "ok")


@pytest.mark.slow
def test_tail_skips_what_a_batch_does_once_and_says_what(volley: Command) -> None:
    words = ("--sizes", "8", "--tail", "--launches", "1", "--point-time", "0.01")
    done = volley("pingpong", *words, "--transport", "host,put,get")
    (log,) = done.records
    skipped = {point.transport: point.reason for point in log.of(PointRecord) if point.status == "skipped"}
    begin = "--tail cannot time it: every sample would include "
    notified = {name for name in ONE_SIDED if name.startswith("host/get")} - {"host/get/pscw"}
    assert skipped == {
        "host/put/fence": begin + "the fence that begins a batch",
        **dict.fromkeys(notified, begin + "the notification that ends a batch"),
    }
    assert begin + "the fence that begins a batch" in " ".join(done.err.split() + done.out.split())
    assert {point.status for point in log.of(PointRecord) if point.transport not in skipped} == {"ok"}


@pytest.mark.slow
def test_a_pair_of_ranks_in_a_matrix(volley: Command) -> None:
    words = ("--ranks", "3", "--transport", "host/put", "--latency", "8", "--bandwidth", "4k", "--iterations", "2")
    done = volley("matrix", *words)
    assert done.code == 0, done.err
    assert {status for log in done.records for status in log.statuses} == {"ok"}


def test_windows_that_mpi_cannot_make_are_a_reason(volley: Command) -> None:
    words = ("pingpong", "--transport", "host,put,get", "--sizes", "100", "--iterations", "3")
    done = volley(*words, OMPI_MCA_osc="sm")  # this component makes windows over memory of its own only
    (log,) = done.records
    assert [(point.transport, point.status) for point in log.of(PointRecord)] == [("host", "ok")]
    reasons = {each.transport: each.reason or "" for each in log.transports if not each.available}
    assert all("could not be opened: MPI_Win_create" in reasons[name] for name in ONE_SIDED)
