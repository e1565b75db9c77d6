"""One-sided MPI as transports: from the command line to the records."""

from __future__ import annotations

import pytest

from the_command import Command
from volley.benchmarks.points.records import PointRecord

ONE_SIDED = {"host/put", "host/put/blocking", "host/put/fence", "host/get", "host/get/blocking"}
QUICK = ("--launches", "1", "--point-time", "0.01", "--sizes", "1,100001")


BOTH_WAYS = ("stream", *QUICK, "--direction", "bi", "--window", "1")


@pytest.mark.parametrize("words", [("pingpong", *QUICK), pytest.param(BOTH_WAYS, marks=pytest.mark.slow)])
def test_every_message_is_verified(volley: Command, words: tuple[str, ...]) -> None:
    (log,) = volley(*words, "--transport", "put,get").records
    points = log.of(PointRecord)
    measured = {point.transport for point in points}
    assert measured == ONE_SIDED
    assert {(point.status, point.reason) for point in points} == {("ok", None)}
    assert all(point.messages_verified > 0 for point in points)


def test_tail_skips_what_a_batch_does_once_and_says_what(volley: Command) -> None:
    words = ("--sizes", "8", "--tail", "--launches", "1", "--point-time", "0.01")
    done = volley("pingpong", *words, "--transport", "host,put,get")
    (log,) = done.records
    skipped = {point.transport: point.reason for point in log.of(PointRecord) if point.status == "skipped"}
    begin = "--tail cannot time it: every sample would include "
    assert skipped == {
        "host/put/fence": begin + "the fence that begins a batch",
        "host/get": begin + "the notification that ends a batch",
        "host/get/blocking": begin + "the notification that ends a batch",
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
    words = ("pingpong", "--transport", "host,put,get", "--sizes", "8", "--iterations", "3")
    done = volley(*words, OMPI_MCA_osc="sm")  # this component makes windows over memory of its own only
    (log,) = done.records
    assert [(point.transport, point.status) for point in log.of(PointRecord)] == [("host", "ok")]
    reasons = {each.transport: each.reason or "" for each in log.transports if not each.available}
    assert all("could not be opened: MPI_Win_create" in reasons[name] for name in ONE_SIDED)
