"""Records for tests, made with few words, and the golden examples."""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from volley.benchmarks import BENCHMARKS
from volley.benchmarks.collective.results import CollectivePlan, CollectivePoint
from volley.benchmarks.matrix.records import FailedPair, RankMatrixPlan, RankMatrixRow, SkippedPairs
from volley.benchmarks.pair.results import PingPong, PingPongPlan, StreamPlan, StreamPoint
from volley.benchmarks.points import Operation
from volley.benchmarks.points.records import PointRecord
from volley.machine.hardware import Device
from volley.records.plan import Plan
from volley.records.record_types import Clock, End, EngineFacts, MpiFacts, Rank, Run, Transport
from volley.records.records_file import read_runs
from volley.records.run_log import RunLog

EXAMPLES = Path(__file__).parents[2] / "schema" / "examples"
RECORD_FILES = sorted(EXAMPLES.glob("*.jsonl"))
PLAN_FILES = sorted(EXAMPLES.glob("plan-*.json"))
OPTIONS = {
    "pingpong": PingPongPlan(sizes_bytes=[8]),
    "stream": StreamPlan(sizes_bytes=[8]),
    "collective": CollectivePlan(operations=["barrier"]),
    "rank_matrix": RankMatrixPlan(latency_sizes_bytes=[8], bandwidth_sizes_bytes=[1 << 20]),
}


def golden(name: str) -> list[RunLog]:
    logs = read_runs(EXAMPLES / f"{name}.jsonl", BENCHMARKS)
    for log in logs:
        log.file = f"{name}.jsonl"  # wherever the examples are
    return logs


def plan(benchmark: str = "pingpong", **changes: Any) -> Plan:
    """A plan; ``options`` may be a mapping of what differs from those of its benchmark."""
    options = OPTIONS.get(benchmark)
    if isinstance(given := changes.pop("options", {}), Mapping):
        options = msgspec.structs.replace(options, **given) if given else options
    else:
        options = given
    return Plan(**{"benchmark": benchmark, "transports": ["host"], "options": options, **changes})


def run(the_plan: Plan | None = None, **changes: Any) -> Run:
    ranks = [
        Rank(
            rank=number,
            host="example-node",
            node=0,
            local_rank=number,
            pid=1000 + number,
            cores=[number],
            bound_by="engine",
            cpu="Example CPU",
            memory_available_bytes=1 << 30,
        )
        for number in range(2)
    ]
    facts: dict[str, Any] = {
        "started_at": "2026-01-02T03:04:05Z",
        "engine": EngineFacts(version="0.1.0", mpi_built="Open MPI 5.0.11"),
        "mpi": MpiFacts(library="Open MPI v5.0.11, package: example", standard="3.1"),
        "clock": Clock(name="example", resolution_s=1e-9, read_s=2e-8),
        "ranks": ranks,
        "environment": {},
        "plan": the_plan or plan(),
    }
    return Run(**{**facts, **changes})


def transport(name: str = "host", **changes: Any) -> Transport:
    facts = {"summary": f"example of {name}", "mpi": True, "memory": "host", "available": True}
    return Transport(transport=name, **{**facts, **changes})


def pingpong(samples: Sequence[float] = (), size: int = 8, name: str = "host", **changes: Any) -> PingPong:
    facts: dict[str, Any] = {
        "ranks": [0, 1],
        "status": "ok",
        "exchanges_per_sample": 10,
        "ended_by": "ci",
        "messages_timed": 20 * len(samples),
        "messages_verified": 2 * len(samples),
        "elapsed_s": 0.1,
    }
    return PingPong(transport=name, size_bytes=size, times_s=list(samples), **{**facts, **changes})


def stream(forward: Sequence[float], backward: Sequence[float] = (), size: int = 8, **changes: Any) -> StreamPoint:
    facts: dict[str, Any] = {
        "transport": "host",
        "ranks": [0, 1],
        "direction": "bi" if backward else "uni",
        "window": 64,
        "status": "ok",
        "windows_per_sample": 2,
        "messages_timed": 128 * len(forward),
        "messages_verified": len(forward),
    }
    times = {"forward_s": list(forward), "backward_s": list(backward)}
    return StreamPoint(size_bytes=size, **{**facts, **times, **changes})


def collective(operation: Operation, samples: Sequence[float], size: int = 0, **changes: Any) -> CollectivePoint:
    facts: dict[str, Any] = {
        "transport": "host",
        "ranks": [0, 1],
        "status": "ok",
        "ended_by": "time",
        "messages_verified": 2 * len(samples),
    }
    own: dict[str, Any] = {"operation": operation, "element": "float", "size_bytes": size, "data_bytes": size}
    return CollectivePoint(times_s=list(samples), **{**facts, **own, **changes})


def log(*points: PointRecord, the_plan: Plan | None = None, transports: Sequence[Transport] = ()) -> RunLog:
    """A complete run."""
    failed = sum(point.status == "failed" for point in points)
    end = End(status="failed" if failed else "complete", points_failed=failed, elapsed_s=1.0)
    names = dict.fromkeys(point.transport for point in points)
    listed = list(transports) or [transport(name) for name in names]
    benchmark = {StreamPoint: "stream", CollectivePoint: "collective"}.get(
        type(points[0]) if points else None, "pingpong"
    )
    return RunLog(run=run(the_plan or plan(benchmark)), transports=listed, records=list(points), end=end)


def ranks(count: int, **changes: Any) -> list[Rank]:
    """Ranks of one socket, each on a core of its own."""
    first = run().ranks[0]
    return [
        msgspec.structs.replace(
            first, **{"rank": number, "local_rank": number, "cores": [number], "sockets": [0], **changes}
        )
        for number in range(count)
    ]


def with_devices() -> list[Rank]:
    """Two ranks, each with a GPU of the composed machine with two."""
    facts = {"name": "NVIDIA H200", "compute_capability": "9.0", "memory_bytes": 1 << 30}
    devices = [
        Device(index=n, uuid=f"GPU-00000000-0000-0000-0000-00000000a00{n}", pci=f"0000:00:0{6 + n}.0", **facts)
        for n in range(2)
    ]
    return [msgspec.structs.replace(rank, device=device) for rank, device in zip(run().ranks, devices, strict=True)]


UNIT_S = 1e-12


def row_of(rank: int, times_s: Mapping[int, float], **facts: Any) -> RankMatrixRow:
    """A row of a matrix whose pairs take so long, by their second ranks."""
    medians = [round(time_s / UNIT_S) for time_s in times_s.values()]
    nothing, samples = [None] * len(medians), [9] * len(medians)
    common = {"transport": "host", "mode": "isolated", "pattern": "pingpong", "messages_verified": sum(samples)}
    times = {"unit_s": UNIT_S, "medians": medians, "lows": nothing, "highs": nothing, "samples": samples}
    return RankMatrixRow(**{"rank": rank, "ranks": list(times_s), **times, **common, **facts})


def edited(
    row: RankMatrixRow,
    *,
    only: Collection[int] | None = None,
    failed: Mapping[int, str] | None = None,
    skipped: Mapping[int, str] | None = None,
    times: Mapping[int, tuple[float, float | None]] | None = None,
    **changes: Any,
) -> RankMatrixRow:
    """The row with some pairs ``only``; others have another median and lower end, or none for a reason."""
    failed, skipped = failed or {}, skipped or {}
    pairs = dict(zip(row.ranks, zip(row.medians, row.lows, row.samples, strict=True), strict=True))
    for rank, both in (times or {}).items():
        pairs[rank] = (*(each and round(each / UNIT_S) for each in both), pairs[rank][2])
    pairs |= dict.fromkeys([*failed, *skipped], (None, None, 0))
    ranks = [rank for rank in row.ranks if only is None or rank in only]
    medians, lows, samples = ([pairs[rank][column] for rank in ranks] for column in range(3))
    lost = {
        "failed": [FailedPair(rank=rank, reason=reason) for rank, reason in failed.items()],
        "skipped": [SkippedPairs(ranks=[rank], reason=reason) for rank, reason in skipped.items()],
    }
    left = {"ranks": ranks, "medians": medians, "lows": lows, "highs": [None] * len(ranks), "samples": samples}
    return msgspec.structs.replace(row, **{**left, **lost, "messages_verified": sum(samples), **changes})


def rows(
    count: int, pattern: str = "pingpong", slow: Mapping[tuple[int, int], float] | None = None, **changes: Any
) -> list[RankMatrixRow]:
    """The rows of a matrix in which every pair takes a microsecond (a window: 64 of them), but for ``slow``."""
    facts: dict[str, Any] = {"pattern": pattern, "size_bytes": 8}
    if pattern == "stream":
        facts |= {"direction": "uni", "window": 64, "size_bytes": 1 << 20}
    usual_s, slow = 64e-6 if pattern == "stream" else 1e-6, slow or {}
    times_s = [
        {second: usual_s * slow.get((first, second), 1.0) for second in range(count) if second != first}
        for first in range(count)
    ]
    return [row_of(first, each, **{**facts, **changes}) for first, each in enumerate(times_s)]


def matrix_plan(count: int, **options: Any) -> Plan:
    return plan("rank_matrix", world_size=count, options=options)


def matrix_log(count: int, those: Sequence[RankMatrixRow], **changes: Any) -> RunLog:
    """A complete run of a matrix."""
    facts = run(matrix_plan(count, **changes), ranks=ranks(count))
    return RunLog(run=facts, transports=[transport()], records=list(those), end=End(status="complete", elapsed_s=1.0))
