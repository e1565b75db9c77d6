"""``volley collective``: from the command line to the records, and what is made of them."""

from __future__ import annotations

import csv
import io
import itertools
import json

import pytest
from msgspec.structs import replace

from data_faults import DATA
from example_records import golden
from screens import check_formats, shown
from the_command import Command
from volley import benchmarks
from volley.benchmarks.collective.results import CollectivePoint, bus_factor
from volley.benchmarks.points import OPERATIONS
from volley.records.run_log import RunLog
from volley.report.model import Details
from volley.statistics.estimates import median

SENDING = [operation for operation in OPERATIONS if operation != "barrier"]
QUICK = ("--launches", "1", "--point-time", "0.01")


# ------------------------------------------------------------------------------------------------ the whole command


def test_nccl_on_memory_of_its_own_is_measured_where_it_is_named(volley: Command) -> None:
    words = ("collective", "--ranks", "2", *QUICK, "--sizes", "8", "--operation", "allreduce")
    (log,) = volley(*words, "-t", "host,nccl/allocated").records
    assert [(info.transport, info.memory) for info in log.transports] == [
        ("host", "host"),
        ("nccl/allocated", "device"),
    ]
    assert log.transports[1].summary == "NCCL's collectives, buffers from ncclMemAlloc"


@pytest.mark.parametrize("transport", ["host", "host/nonblocking"])
def test_every_operation_is_measured_and_every_result_checked(volley: Command, transport: str) -> None:
    words = ("-t", transport, "--operation", ",".join(OPERATIONS), "--sizes", "12,1000", "--format", "csv")
    done = volley("collective", "--ranks", "3", *QUICK, *words)
    (log,) = done.records
    points = log.of(CollectivePoint)
    assert {(point.operation, point.size_bytes) for point in points} == {
        ("barrier", 0),
        *((operation, size) for operation in SENDING for size in (12, 1000)),
    }
    for point in points:
        assert (point.status, point.mismatch) == ("ok", None)
        assert point.ranks == [0, 1, 2]
        assert len(point.times_s) == len(point.entry_skew_s) == len(point.rank_operation_s) == sum(point.visits) > 0
        # A rank enters at most the skew before the last one, and leaves no later than the last one.
        rows = zip(point.rank_operation_s, point.times_s, point.entry_skew_s, strict=True)
        k = point.operations_per_sample
        assert all(0 < mean <= whole + skew / k + 1e-9 for mean, whole, skew in rows)
        assert point.messages_verified >= (3 if point.operation == "barrier" else len(point.times_s) + 4)
        assert point.clock_error_s == 0
    whole = ("barrier", "broadcast", "reduce", "allreduce", "scan")
    blocks = [point for point in points if point.operation not in whole]
    assert {point.data_bytes for point in blocks if point.operation[:8] != "neighbor"} == {12, 996}  # of three ranks
    assert {point.data_bytes for point in blocks if point.operation[:8] == "neighbor"} == {8, 1000}  # of two neighbors
    rows = list(csv.DictReader(io.StringIO(done.out)))
    in_order = [("barrier", "0"), *((operation, size) for operation in SENDING for size in ("12", "1000"))]
    assert [(row["operation"], row["size_bytes"]) for row in rows] == in_order


def test_blocks_of_two_lengths_are_measured_and_every_result_checked(volley: Command) -> None:
    operations = [operation for operation in OPERATIONS if operation.endswith(("v", "w"))]
    words = ("--operation", ",".join(operations), "--imbalance", "1,4", "--sizes", "20,1000")
    (log,) = volley("collective", "-t", "host,host/nonblocking", "--ranks", "3", *QUICK, *words).records
    for point in log.of(CollectivePoint):
        # three blocks, of 1, 4 and 1 units of 4 bytes; of an all-to-all, three blocks of 4 units; of neighbors two
        units = 4 * (8 if point.operation[:8] == "neighbor" else 12 if point.operation.startswith("all-to-all") else 6)
        assert point.data_bytes == point.size_bytes // units * units
        assert point.status == ("ok" if point.data_bytes else "skipped")


def test_persistent_messages_and_collectives_are_measured_and_checked(volley: Command) -> None:
    words = ("-t", "host/persistent", "--iterations", "3")
    sizes = (*words, "--sizes", "8,1000", "--launches", "1")
    runs = [
        volley("collective", "--ranks", "2", "--operation", "allreduce,barrier", *sizes),
        volley("pingpong", *sizes),
        volley("stream", "--direction", "bi", *sizes),
        volley("message-rate", "--ranks", "2", *sizes),
        volley("matrix", "--ranks", "2", "--mode", "loaded", *words, "--bandwidth", "1000"),
    ]
    for (log,) in (done.records for done in runs):
        transports = [transport for transport in log.transports if not transport.available]
        assert log.complete
        assert not transports or "MPI 4.0" in transports[0].reason  # of an older MPI


def test_a_broken_collective_is_found(volley: Command) -> None:
    """Every element type and number of ranks: engine/tests/mpi_collective.cpp."""
    broken = [f"host+{fault}" for fault in DATA]
    words = ("--operation", ",".join(OPERATIONS), "--sizes", "24,4096", "--iterations", "5")
    (log,) = volley("collective", "--ranks", "3", "--transport", ",".join(broken), *words).records
    found = {(point.transport, point.operation): (point.status, point.ended_by) for point in log.of(CollectivePoint)}
    barriers = {name: found.pop((name, "barrier")) for name in broken}
    assert found == dict.fromkeys(itertools.product(broken, SENDING), ("failed", "failure"))
    assert [name for name, (status, _) in barriers.items() if status == "failed"] == ["host+lose"]


@pytest.mark.slow
def test_sixty_four_ranks_on_a_few_cores_finish(volley: Command) -> None:
    words = ("--sizes", "256", "--iterations", "2", "--warmup", "1", "--operation", ",".join(OPERATIONS))
    (log,) = volley("collective", "--ranks", "64", *words).records
    assert log.complete
    assert [(point.operation, point.status) for point in log.of(CollectivePoint)] == [
        (operation, "ok") for operation in OPERATIONS
    ]


def test_a_transport_without_collectives_says_so(volley: Command) -> None:
    (log,) = volley("collective", "-t", "host,host/put", "--operation", "barrier", *QUICK).records
    assert {each.transport: each.reason for each in log.transports} == {
        "host": None,
        "host/put": "it sends between two ranks; collectives run through MPI, NCCL and pinned host memory",
    }


@pytest.mark.parametrize("command", ["collective", "overlap"])
def test_two_ranks_are_no_ring(command: str, volley: Command) -> None:
    done = volley(command, "--operation", "allreduce,neighbor-allgather", "-t", "host", "--sizes", "8", *QUICK)
    assert done.code == 2
    assert "the ring of neighbor-allgather needs at least 3 ranks: write --ranks 3 or more" in done.err


def test_too_few_elements_for_all_ranks_are_skipped(volley: Command) -> None:
    (log,) = volley("collective", "--ranks", "3", "--operation", "allgather", "--sizes", "8,12", *QUICK).records
    small, enough = log.of(CollectivePoint)
    assert (small.status, small.reason) == ("skipped", "less than an element of 4 bytes for each of 3 ranks")
    assert enough.status == "ok"


# ------------------------------------------------------------------------------------------------------- words


def test_operations_are_read_in_their_own_order() -> None:
    _, options = benchmarks.read(["collective", "--operation", "allgather,barrier"])
    assert options.operation == ("barrier", "allgather")


# ------------------------------------------------------------------------------------------------------ numbers


@pytest.mark.parametrize(
    ("operation", "factor"),
    [
        ("broadcast", 1),
        ("reduce", 1),
        ("allreduce", 1.5),
        ("reduce-scatter", 0.75),
        ("allgather", 0.75),
        ("all-to-all", 0.75),
        ("neighbor-all-to-all", 1),
    ],
)
def test_bus_bandwidth_is_that_of_nccl_tests(operation: str, factor: float) -> None:
    """PERFORMANCE.md of nccl-tests, for 4 ranks."""
    assert bus_factor(operation, 4) == factor


def test_data_have_both_bandwidths_and_the_skew() -> None:
    (report,) = json.loads(shown(golden("collective"), "json")[0])["series"]
    rows = {(row["operation"], row["size_bytes"]): row for row in report["data"]}
    row = rows["allreduce", 65536]
    assert row["algorithm_bandwidth_Bps"] == pytest.approx(65536 / row["time_s"])
    assert row["bandwidth_Bps"] == pytest.approx(1.5 * row["algorithm_bandwidth_Bps"])
    skews = [
        skew
        for log in golden("collective")
        for point in log.of(CollectivePoint)
        if (point.operation, point.size_bytes) == ("allreduce", 65536)
        for skew in point.entry_skew_s
    ]
    assert row["entry_skew_s"] == pytest.approx(median(skews))
    assert rows["barrier", 0]["bandwidth_Bps"] is None
    assert rows["barrier", 0]["time_s"] > 0


def tails(transports: int, tail: bool) -> list[RunLog]:
    (log,) = golden("collective")
    the_plan = replace(log.run.plan, sampling=replace(log.run.plan.sampling, tail=tail))
    log.run = replace(log.run, plan=the_plan)
    log.records = [point for point in log.of(CollectivePoint) if point.operation in ("barrier", "allreduce")]
    if transports == 2:
        log.records += [replace(point, transport="aware") for point in log.of(CollectivePoint)]
    return [log]


SCREENS = {
    "example": (golden("collective"), Details()),
    "example-notes": (golden("collective"), Details(full=True)),
    **{
        f"{count}-transports{'-tail' * tail}": (tails(count, tail), Details(full=True))
        for count in (1, 2)
        for tail in (False, True)
    },
}


@pytest.mark.parametrize("name", SCREENS)
def test_screens(name: str) -> None:
    logs, details = SCREENS[name]
    check_formats(f"collective/{name}", logs, "table", details=details)


def test_times_of_two_runs_are_compared_by_operation() -> None:
    (log,) = golden("collective")
    found = {(each.series, *each.at): each for each in benchmarks.named("collective").observables(log)}
    assert found["allreduce host", "64 KiB"].work == 1.5 * 65536
    assert found["barrier host", "0 B"].work is None
