"""The launches of benchmarks of points, and how far one is."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Any

from volley.benchmarks.points import MAX_USUAL_RANKS, REDUCING, SENDING, SweepOptions, TransportOptions
from volley.benchmarks.points.records import PointRecord
from volley.benchmarks.points.results import ResultSeries, results, times
from volley.command.options import JobOptions
from volley.errors import UserError
from volley.launch.launchers import PAIR, cores
from volley.machine.nvidia_driver import gpu_count
from volley.machine.transports import HOST_RATE_BPS, family_of, through_host
from volley.records.plan import Plan, Sampling
from volley.records.record_types import Transport
from volley.records.run_log import RunLog
from volley.run.jobs import MEMORY_BYTES, Forecast, JobContext, choose_transports, count_ranks, make_plan
from volley.run.launches import Jobs, repeated
from volley.statistics.estimates import Estimate


def sweep(
    benchmark: str,
    part: Any,
    options: SweepOptions,
    context: JobContext,
    ranks: int,
    *,
    usual: Sequence[str] = (),
    estimates: Callable[[Sequence[RunLog]], Iterable[Estimate]] = times,
    forecast: Callable[[Plan], Forecast] | None = None,
) -> Jobs:
    """Return the launches of a sweep over message sizes; ``part`` and ``usual`` as in ``volley.run.jobs``."""
    transports = choose_transports(options.points.transport, context, usual=usual)
    plan = make_plan(benchmark, part, options, ranks=ranks, transports=transports)
    if plan.sampling.mode == "fixed" and getattr(part, "cold_cache", False):
        raise UserError("--cold-cache is for adaptive sampling: leave out --warmup and --iterations")
    return repeated(plan, options, context, estimates, forecast or PointForecast)


def usual_ranks(options: TransportOptions, context: JobContext) -> int:
    """Return the default number of ranks of one machine, which ``USUAL_RANKS`` says."""
    ranks = min(cores(), MAX_USUAL_RANKS)
    on_gpus = any(each.memory == "device" for each in context.about.of(options.named_transports))
    return min(ranks, gpu_count()) if on_gpus and context.sees_gpus and not options.job.share_gpu else ranks


def count_ranks_of_collective(job: JobOptions, context: JobContext, operations: Sequence[str]) -> int:
    ranks = count_ranks(job, context, usual=max(context.ranks_given or PAIR, PAIR))
    ring = next((each for each in operations if each.startswith("neighbor-")), "")
    fewest, what = (3, f"the ring of {ring}") if ring else (PAIR, "a collective")
    if ranks < fewest:
        raise UserError(f"{what} needs at least {fewest} ranks: write --ranks {fewest} or more")
    return ranks


def trial_of_operations(plan: Plan) -> tuple[Plan, ...]:
    """Return the plan that tries each collective once, and its parts: what sends alone, what copies, what reduces.

    An MPI may send from device memory, and copy and compute in host memory alone.  A barrier needs no device memory.
    """
    operations = [operation for operation in plan.options.operations if operation != "barrier"]
    kinds = [(each in REDUCING, each in SENDING) for each in operations]
    parts = [[each for each, its in zip(operations, kinds, strict=True) if its == kind] for kind in sorted({*kinds})]
    least = 4 * plan.world_size * max(getattr(plan.options, "imbalance", [1]))
    once = Sampling(mode="fixed", warmup=1, iterations=1)

    def of(those: list[Any]) -> Plan:
        small = plan.with_options(operations=those, sizes_bytes=[least, 1 << 20])
        return small.changed(sampling=once, budget_s=None)

    return tuple(map(of, [operations, *parts] if len(parts) > 1 else parts))


_GUESSED_POINT_S = 0.3
"""Before a point is finished: the samples of a point take at most this time, as most end within ``--ci``."""

UNTIMED_S = 0.08
"""The time of a point besides that of its samples, for calibration and verification: of 18 points on two H100s."""

HOST_SHORT_S, HOST_LONG_S, HOST_LONG_BYTES = 0.02, 0.15, 1 << 20
"""The same of ``host``, for short and for long messages: of the runs on two cores below."""

COLD_S = 0.2
"""To fill buffers of twice a cache of 32 MiB, on the two cores."""

MESSAGE_PASSES, WINDOW_PASSES = 12, 2
"""A long message or a window of them passes so often in a launch of one visit, in warm-up, samples and verification.
On two cores a launch of 28 sizes up to 1 GiB took 10.3 s, one of 18 sizes up to 1 MiB 1.2 s, and a launch of windows of
23 sizes up to 4 MiB 7.8 s, and one of message rates at five sizes 0.4 s."""

LONG_EXCHANGE_S = 0.05
"""After an exchange that takes longer, the engine asks ``--size-time`` (``long_exchange_s`` of its workload)."""

VISIT_EXCHANGES = 3
"""The fewest exchanges of a visit (``min_exchanges`` of its forecast)."""

MESSAGE_S = 1.5e-7
"""A message of 8 B takes no less: half a round trip through shared memory, in a plain loop on the two cores."""


class PointForecast(Forecast):
    """Counts the finished points of a sweep over message sizes, summarises each, and says how long all may take."""

    SERIES = 1
    """Of samples, for each point."""
    results: Callable[[Iterable[RunLog]], Sequence[ResultSeries[Any]]] = staticmethod(results)
    """Those of the benchmark, for the summary."""

    def __init__(self, plan: Plan, sizes_bytes: Sequence[int] = ()) -> None:
        """Prepare for points of these sizes on each transport of the plan; usually those of its points."""
        sizes_bytes = sizes_bytes or getattr(plan.options, "point_sizes", None) or plan.options.sizes_bytes
        sampling, window = plan.sampling, getattr(plan.options, "window", None)
        adaptive = sampling.mode == "adaptive"
        exchanges = sampling.warmup + sampling.iterations
        further = VISIT_EXCHANGES * (sampling.min_visits - 1) if adaptive else exchanges
        passes = (WINDOW_PASSES * window if window else MESSAGE_PASSES) if adaptive else 0
        passes += further * (window or 2)
        self._passes, self._timed_s = passes, min(sampling.point_time_s, _GUESSED_POINT_S) if adaptive else 0.0
        self._untimed_s = COLD_S if getattr(plan.options, "cold_cache", False) else 0.0
        self._untimed_s += 0.0 if adaptive else passes * MESSAGE_S
        least = VISIT_EXCHANGES * sampling.min_visits if adaptive else exchanges
        exchange_bps = HOST_RATE_BPS / (window or 2)
        long_bytes = LONG_EXCHANGE_S * exchange_bps
        part_s = (sampling.size_time_s or math.inf) / max(len(plan.transports), 1)
        most_bytes = part_s * exchange_bps / least
        sizes = pairwise(sorted(sizes_bytes))
        self._too_long = {size for before, size in sizes if before > long_bytes and size > most_bytes}
        self._left: dict[str, list[int]] = {name: list(sizes_bytes) for name in plan.transports}
        self._transports: list[Transport] = []
        whole_s = sum(self._point_s(name, size) for name, sizes in self._left.items() for size in sizes)
        super().__init__(len(sizes_bytes) * len(plan.transports), plan.budget_s, whole_s)

    def add(self, record: Any) -> str | None:
        """Count a point and return its summary: ``host 64 KiB: 3.41 µs, 19.2 GB/s``.

        A transport without buffers has no bandwidth, and an unavailable one no points.
        """
        if isinstance(record, Transport):
            self._transports.append(record)
            self.total -= 0 if record.available else len(self._left.pop(record.transport, []))
        if not isinstance(record, PointRecord):
            return None
        left = self._left.get(record.transport, [])
        if record.size_bytes in left:
            left.remove(record.size_bytes)
            self.done += 1
        if record.status != "ok":
            why = f": {record.reason}" if record.reason else ""
            return f"{record.label}: {'FAILED' if record.status == 'failed' else 'skipped'}{why}"
        (point,) = self.results([RunLog(transports=self._transports, records=[record])])[0].points
        return ": ".join(filter(None, (record.label, point.short)))

    def _point_s(self, transport: str, size: int) -> float:
        untimed_s = UNTIMED_S
        if family_of(transport) == "host":
            untimed_s = HOST_LONG_S if size >= HOST_LONG_BYTES else HOST_SHORT_S
        untimed_s += self._untimed_s
        if size > MEMORY_BYTES or (through_host(transport) and size in self._too_long):  # it will be skipped
            return 0.0
        if through_host(transport):
            untimed_s += self._passes * size / HOST_RATE_BPS
        return self.SERIES * (self._timed_s + untimed_s)
