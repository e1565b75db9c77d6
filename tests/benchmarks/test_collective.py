"""``volley collective``: from the command line to the records, and what is made of them."""

import csv
import io
import itertools
import json

import pytest
from msgspec.structs import replace

from example_records import collective, golden, log, plan
from screens import check_formats, shown
from the_command import DATA_FAULTS, Command
from volley import benchmarks
from volley.benchmarks.collective import IN_PLACE, ROOTED, USUAL
from volley.benchmarks.collective.results import CollectivePlan, CollectivePoint, bus_factor
from volley.benchmarks.points import OPERATIONS
from volley.benchmarks.points.results import observables, results
from volley.records.run_log import RunLog
from volley.report.model import Details
from volley.statistics.estimates import median

SENDING = [operation for operation in OPERATIONS if operation != "barrier"]
QUICK = ("--launches", "1", "--point-time", "0.01")


# ------------------------------------------------------------------------------------------------ the whole command


def test_a_transport_without_collectives_and_too_few_elements_are_left_out_with_the_reason(volley: Command) -> None:
    words = ("--ranks", "3", *QUICK, "--sizes", "8,12", "--operation", "allgather")
    (log,) = volley("collective", *words, "-t", "host,host/put,nccl/allocated").records
    host, put, nccl = log.transports
    assert host.available
    assert put.reason == "it sends between two ranks; collectives run through MPI, NCCL and pinned host memory"
    assert (nccl.memory, nccl.summary) == ("device", "NCCL's collectives, buffers from ncclMemAlloc")
    small, enough = (point for point in log.of(CollectivePoint) if point.transport == "host")
    assert (small.status, small.reason) == ("skipped", "the smallest size with 3 ranks is 12 bytes")
    assert enough.status == "ok"


@pytest.mark.slow
def test_every_operation_is_measured_and_every_result_checked(volley: Command) -> None:
    """The persistent ones are of MPI 4.0, and are left out where it is older."""
    words = ("-t", "host,host/nonblocking,host/persistent", "--operation", ",".join(OPERATIONS), "--sizes", "12,1000")
    done = volley("collective", "--ranks", "3", *QUICK, *words, "--format", "csv")
    (log,) = done.records
    points = log.of(CollectivePoint)
    left_out = {each.transport: each.reason or "" for each in log.transports if not each.available}
    assert all(name == "host/persistent" and "MPI 4.0" in reason for name, reason in left_out.items())
    measured = [each.transport for each in log.transports if each.available]
    in_order = [("barrier", 0), *((operation, size) for operation in SENDING for size in (12, 1000))]
    assert {(point.transport, point.operation, point.size_bytes) for point in points} == {
        (name, *at) for name in measured for at in in_order
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
    rows = [row for row in csv.DictReader(io.StringIO(done.out)) if row["transport"] == "host"]
    assert [(row["operation"], int(row["size_bytes"])) for row in rows] == in_order


def test_blocks_of_two_lengths_are_measured_and_every_result_checked(volley: Command) -> None:
    operations = [operation for operation in OPERATIONS if operation.endswith(("v", "w"))]
    words = ("--operation", ",".join(operations), "--imbalance", "1,4", "--sizes", "20,1000")
    done = volley("collective", "-t", "host,host/nonblocking", "--ranks", "3", *QUICK, *words, "--full")
    assert "; a size is rounded down to whole elements of each rank, 1000 B of all-to-allv to 960 B; bus: " in done.out
    (log,) = done.records
    for point in log.of(CollectivePoint):
        # three blocks, of 1, 4 and 1 units of 4 bytes; of an all-to-all, three blocks of 4 units; of neighbors two
        units = 4 * (8 if point.operation[:8] == "neighbor" else 12 if point.operation.startswith("all-to-all") else 6)
        assert point.data_bytes == point.size_bytes // units * units
        assert point.status == ("ok" if point.data_bytes else "skipped")


def test_a_root_is_measured_and_its_result_checked(volley: Command) -> None:
    """Other roots: engine/tests/mpi_collective.cpp, and in place below."""
    words = ("-t", "host,host/nonblocking,host+flip,host+lose", "--ranks", "3", "--operation", ",".join(ROOTED))
    done = volley("collective", *words, "--sizes", "12,1200", "--root", "2", *QUICK)
    assert "volley collective · root 2 · " in done.out
    (log,) = done.records
    wrong = {point.transport for point in log.of(CollectivePoint) if point.status == "failed"}
    assert wrong == {"host+flip", "host+lose"}
    assert all(
        (point.status == "ok") is ("+" not in point.transport) and point.messages_verified
        for point in log.of(CollectivePoint)
    )


def test_operations_in_place_are_measured_one_by_one_and_every_result_checked(volley: Command) -> None:
    names = "host,host/nonblocking,host+flip,host+lose"
    words = ("-t", names, "--ranks", "3", "--sizes", "12,120000", "--root", "1", *QUICK, "--in-place")
    done = volley("collective", *words, "--operation", ",".join(OPERATIONS))
    assert "volley collective · root 1, in place · " in done.out
    (log,) = done.records
    points = [point for point in log.of(CollectivePoint) if point.operation != "barrier"]
    refused = [point for point in points if point.status == "skipped"]
    assert {point.reason for point in refused} == {"volley does not measure this operation in place"}
    assert {point.operation for point in refused} == {*OPERATIONS} - {*IN_PLACE, "barrier"}
    for point in points:
        if point.status != "skipped":
            assert (point.status == "failed") is ("+" in point.transport)
            assert point.operations_per_sample == 1
            assert point.messages_verified >= len(point.times_s)


def test_without_named_operations_those_that_can_be_are_in_place(volley: Command) -> None:
    done = volley("collective", "--in-place", "-t", "host", "--sizes", "8", "--iterations", "1")
    assert "volley: not measured in place: barrier, broadcast and reduce-scatter" in done.err
    (log,) = done.records
    assert [point.operation for point in log.of(CollectivePoint)] == [each for each in USUAL if each in IN_PLACE]


def test_a_broken_collective_is_found(volley: Command) -> None:
    """Every element type and number of ranks: engine/tests/mpi_collective.cpp."""
    broken = [f"host+{fault}" for fault in DATA_FAULTS]
    words = ("--operation", ",".join(OPERATIONS), "--sizes", "24,4096", "--iterations", "5")
    (log,) = volley("collective", "--ranks", "3", "--transport", ",".join(broken), *words).records
    found = {(point.transport, point.operation): (point.status, point.ended_by) for point in log.of(CollectivePoint)}
    barriers = {name: found.pop((name, "barrier")) for name in broken}
    assert found == dict.fromkeys(itertools.product(broken, SENDING), ("failed", "failure"))
    failed = [name for name, (status, _) in barriers.items() if status == "failed"]
    assert failed == ["host+early", "host+late", "host+lose"]  # the others change what a barrier has not


@pytest.mark.slow
def test_maxima_are_measured_and_a_type_that_mpi_has_not_is_skipped(volley: Command) -> None:
    words = ("-t", "host,host+flip", "--operation", "allreduce,allgather", "--sizes", "8,64k", *QUICK)
    done = volley("collective", *words, "--reduction", "max", "--element", "int")
    assert "collective · max of int · " in done.out
    (log,) = done.records
    assert {(each.transport, each.status) for each in log.records} == {("host", "ok"), ("host+flip", "failed")}
    (log,) = volley("collective", *words, "--element", "bfloat16").records
    short = {(each.operation, each.transport, each.reason) for each in log.of(CollectivePoint) if each.status != "ok"}
    assert ("allreduce", "host", "the MPI standard has no type for bfloat16; NCCL has one") in short
    assert not any(operation == "allgather" and transport == "host" for operation, transport, _ in short)


@pytest.mark.slow
@pytest.mark.alone  # what runs beside them gets a 32nd of the time, and they wait for it
def test_thirty_two_ranks_on_a_few_cores_finish(volley: Command) -> None:
    words = ("--sizes", "256", "--iterations", "2", "--warmup", "1", "--operation", ",".join(OPERATIONS))
    (log,) = volley("collective", "--ranks", "32", *words).records
    assert log.complete
    assert [(point.operation, point.status) for point in log.of(CollectivePoint)] == [
        (operation, "ok") for operation in OPERATIONS
    ]


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


@pytest.mark.parametrize(
    ("operation", "root", "factor"),
    [
        ("gatherv", 0, 9 / 10),
        ("gatherv", 1, 6 / 10),
        ("scatterv", 2, 9 / 10),
        ("allgatherv", 0, 9 / 10),
        ("all-to-allv", 0, 3 / 4),
        ("all-to-allw", 0, 3 / 4),
        ("neighbor-allgatherv", 0, 1),
    ],
)
def test_bus_bandwidth_of_blocks_of_two_lengths_counts_what_crosses(operation: str, root: int, factor: float) -> None:
    """Four ranks with blocks of 1, 4, 1 and 4."""
    options = CollectivePlan(operations=[operation], imbalance=[1, 4], root=root)
    the_plan = plan("collective", options=options)
    assert bus_factor(operation, 4, the_plan) == factor
    point = collective(operation, [1e-6], 1000, ranks=[0, 1, 2, 3])
    (result,) = results([log(point, the_plan=the_plan)])
    assert result.points[0].rate.median == pytest.approx(factor * 1e9)
    (found,) = observables(log(point, the_plan=the_plan))
    assert found.work == factor * 1000
    page = shown([log(point, the_plan=the_plan)], "table")[0]
    assert "as nccl-tests defines it where it has the operation" in page


def test_data_have_both_bandwidths_the_skew_and_the_mean_of_the_ranks() -> None:
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
    each = log(collective("barrier", [3e-6, 4e-6, 6e-6], rank_operation_s=[2e-6, 5e-6, 3e-6]))
    assert next(csv.DictReader(shown([each], "csv")[0].splitlines()))["rank_mean_s"] == "3e-06"


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
