"""The launches of an overlap."""

from __future__ import annotations

from volley.benchmarks.overlap import OverlapOptions
from volley.benchmarks.overlap.records import OverlapPlan, OverlapPoint
from volley.benchmarks.overlap.results import results, times
from volley.benchmarks.shared.points.progress import PointForecast, without_result
from volley.benchmarks.shared.points.records import PointRecord
from volley.run.jobs import Jobs, Site, choose_transports, count_pair, make_plan, repeated
from volley.run.plan import Plan
from volley.units import format_sig, format_size


def jobs(options: OverlapOptions, site: Site) -> Jobs:
    usual = [each.name for each in site.about.transports if each.halos and each.usual]
    part = OverlapPlan(
        sizes_bytes=list(options.points.sizes),
        computations=list(options.computation),
        progress_calls=options.progress_calls,
    )
    ranks = count_pair(options.job, site, "overlap")
    transports = choose_transports(options.points.transport, site, usual=usual)
    return repeated(make_plan("overlap", part, options, ranks=ranks, transports=transports), options, site, times)


class OverlapForecast(PointForecast):
    """Counts the points; the summary of each is ``host 64 KiB beside arithmetic: 41 % hidden``."""

    def summary(self, record: PointRecord) -> str:
        assert isinstance(record, OverlapPoint)
        name = f"{record.transport} {format_size(record.size_bytes)} beside {record.computation}"
        if record.status != "ok":
            return without_result(name, record)
        hidden = results([self.log_of(record)])[0].points[0].hidden
        return f"{name}: {format_sig(hidden.median * 100, 3)} % hidden" if hidden else name


def forecast(plan: Plan) -> OverlapForecast:
    """Expect a point for each size, transport and computation."""
    return OverlapForecast(plan, [size for size in plan.options.sizes_bytes for _ in plan.options.computations])
