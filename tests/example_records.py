"""Records for tests, made with few words, and the golden examples."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from volley.benchmarks import BENCHMARKS
from volley.benchmarks.collective import Operation
from volley.benchmarks.collective.results import CollectivePlan, CollectivePoint
from volley.benchmarks.matrix.records import FailedPair, RankMatrixPlan, RankMatrixRow, SkippedPairs
from volley.benchmarks.pair.records import PingPong, PingPongPlan, StreamPlan, StreamPoint
from volley.benchmarks.points.records import PointRecord
from volley.records.plan import Plan
from volley.records.record_types import Clock, End, EngineFacts, MpiFacts, Rank, Run, Transport
from volley.records.records_file import read_runs
from volley.records.run_log import RunLog

EXAMPLES = Path(__file__).parents[1] / "schema" / "examples"
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
        msgspec.structs.replace(first, rank=number, local_rank=number, cores=[number], sockets=[0], **changes)
        for number in range(count)
    ]


class RankMatrixCell(msgspec.Struct, frozen=True, kw_only=True):
    """One pair of a row."""

    rank: int
    status: str
    reason: str | None = None
    median_s: float | None = None
    low_s: float | None = None
    high_s: float | None = None
    samples: int = 0


UNIT_S = 1e-12


def cells_of(row: RankMatrixRow) -> list[RankMatrixCell]:
    """The pairs of a row, in the order of their second ranks."""
    reasons = {each.rank: ("failed", each.reason) for each in row.failed}
    reasons |= {rank: ("skipped", each.reason) for each in row.skipped for rank in each.ranks}
    highs_s = [high and high * row.unit_s for high in row.highs or [None] * row.pairs]
    columns = zip(row.seconds, row.times_s, row.lows_s, highs_s, row.samples, strict=True)
    return [
        RankMatrixCell(
            rank=rank,
            status=reasons.get(rank, ("ok",))[0],
            reason=reasons[rank][1] if rank in reasons else None,
            median_s=median_s,
            low_s=low_s,
            high_s=high_s,
            samples=samples,
        )
        for rank, median_s, low_s, high_s, samples in columns
    ]


def row_of(cells: Sequence[RankMatrixCell], **facts: Any) -> RankMatrixRow:
    """A row of a matrix with these cells."""
    failed = [FailedPair(rank=cell.rank, reason=cell.reason or "") for cell in cells if cell.status == "failed"]
    skipped = [SkippedPairs(ranks=[cell.rank], reason=cell.reason or "") for cell in cells if cell.status == "skipped"]

    def in_units(times: Iterable[float | None]) -> list[int | None]:
        return [time_s and round(time_s / UNIT_S) for time_s in times]

    return RankMatrixRow(
        ranks=[cell.rank for cell in cells],
        unit_s=UNIT_S,
        medians=in_units(cell.median_s for cell in cells),
        lows=in_units(cell.low_s for cell in cells),
        highs=in_units(cell.high_s for cell in cells),
        samples=[cell.samples for cell in cells],
        messages_verified=sum(cell.samples for cell in cells),
        failed=failed,
        skipped=skipped,
        **facts,
    )


def with_cells(row: RankMatrixRow, cells: Sequence[RankMatrixCell], **changes: Any) -> RankMatrixRow:
    """A row with other cells."""
    names = ("transport", "mode", "pattern", "direction", "window", "size_bytes", "rank", "repeat")
    return row_of(cells, **{**{name: getattr(row, name) for name in names}, **changes})


def rows(
    count: int, pattern: str = "pingpong", slow: Mapping[tuple[int, int], float] | None = None, **changes: Any
) -> list[RankMatrixRow]:
    """The rows of a matrix in which every pair takes a microsecond (a window: 64 of them), but for ``slow``."""
    stream = pattern == "stream"
    facts: dict[str, Any] = {
        "transport": "host",
        "mode": "isolated",
        "pattern": pattern,
        "direction": "uni" if stream else None,
        "window": 64 if stream else None,
        "size_bytes": 1 << 20 if stream else 8,
    }
    usual_s = 64e-6 if stream else 1e-6
    return [
        row_of(
            [
                RankMatrixCell(
                    rank=second,
                    status="ok",
                    median_s=usual_s * (slow or {}).get((first, second), 1.0),
                    samples=9,
                )
                for second in range(count)
                if second != first
            ],
            rank=first,
            **{**facts, **changes},
        )
        for first in range(count)
    ]


def matrix_plan(count: int, **options: Any) -> Plan:
    return plan("rank_matrix", world_size=count, options=options)


def matrix_log(count: int, those: Sequence[RankMatrixRow], **changes: Any) -> RunLog:
    """A complete run of a matrix."""
    facts = run(matrix_plan(count, **changes), ranks=ranks(count))
    return RunLog(run=facts, transports=[transport()], records=list(those), end=End(status="complete", elapsed_s=1.0))
