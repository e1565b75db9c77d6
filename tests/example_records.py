"""Records for tests, made with few words, and the golden examples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from volley.records import (
    Cell,
    Clock,
    End,
    EngineFacts,
    Matrix,
    MatrixRow,
    MpiFacts,
    PingPong,
    Plan,
    Point,
    Rank,
    Run,
    StreamPoint,
    Transport,
)
from volley.records_io import RunLog, read_runs

EXAMPLES = Path(__file__).parents[1] / "schema" / "examples"
RECORD_FILES = sorted(EXAMPLES.glob("*.jsonl"))
PLAN_FILES = sorted(EXAMPLES.glob("plan-*.json"))


def golden(name: str) -> list[RunLog]:
    return read_runs(EXAMPLES / f"{name}.jsonl")


def plan(**changes: Any) -> Plan:
    return Plan(**{"benchmark": "pingpong", "transports": ["host"], "sizes_bytes": [8], **changes})


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
        "ended_by": "interval",
        "messages_timed": 20 * len(samples),
        "messages_verified": 2 * len(samples),
        "elapsed_s": 0.1,
    }
    return PingPong(transport=name, size_bytes=size, half_round_trip_s=list(samples), **{**facts, **changes})


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


def log(*points: Point, the_plan: Plan | None = None, transports: Sequence[Transport] = ()) -> RunLog:
    """A complete run."""
    failed = sum(point.status == "failed" for point in points)
    end = End(status="failed" if failed else "complete", points_failed=failed, elapsed_s=1.0)
    names = dict.fromkeys(point.transport for point in points)
    listed = list(transports) or [transport(name) for name in names]
    return RunLog(run=run(the_plan), transports=listed, points=list(points), end=end)


def ranks(count: int, **changes: Any) -> list[Rank]:
    """Ranks of one socket, each on a core of its own."""
    first = run().ranks[0]
    return [
        msgspec.structs.replace(first, rank=number, local_rank=number, cores=[number], sockets=[0], **changes)
        for number in range(count)
    ]


def rows(
    count: int, exercise: str = "pingpong", slow: Mapping[tuple[int, int], float] | None = None, **changes: Any
) -> list[MatrixRow]:
    """The rows of a matrix in which every pair takes a microsecond (a window: 64 of them), but for ``slow``."""
    stream = exercise == "stream"
    facts: dict[str, Any] = {
        "transport": "host",
        "mode": "isolated",
        "exercise": exercise,
        "direction": "uni" if stream else None,
        "window": 64 if stream else None,
        "size_bytes": 1 << 20 if stream else 8,
    }
    usual_s = 64e-6 if stream else 1e-6
    return [
        MatrixRow(
            rank=first,
            cells=[
                Cell(
                    rank=second,
                    status="ok",
                    median_s=usual_s * (slow or {}).get((first, second), 1.0),
                    samples=9,
                    messages_verified=9,
                )
                for second in range(count)
                if second != first
            ],
            **{**facts, **changes},
        )
        for first in range(count)
    ]


def matrix_plan(count: int, **changes: Any) -> Plan:
    sizes = {"latency_sizes_bytes": [8], "bandwidth_sizes_bytes": [1 << 20]}
    return plan(benchmark="matrix", world_size=count, sizes_bytes=[], matrix=Matrix(**{**sizes, **changes}))


def matrix_log(count: int, those: Sequence[MatrixRow], **changes: Any) -> RunLog:
    """A complete run of a matrix."""
    facts = run(matrix_plan(count, **changes), ranks=ranks(count))
    return RunLog(run=facts, transports=[transport()], rows=list(those), end=End(status="complete", elapsed_s=1.0))
