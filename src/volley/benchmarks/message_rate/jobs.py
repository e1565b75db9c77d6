"""The launches of message rates."""

from __future__ import annotations

from volley.benchmarks.message_rate import MessageRateOptions
from volley.benchmarks.message_rate.records import MessageRatePlan, MessageRatePoint
from volley.benchmarks.shared.points.progress import PointForecast
from volley.benchmarks.shared.points.records import PointRecord
from volley.benchmarks.shared.points.results import times
from volley.errors import UserError
from volley.run.jobs import PAIR, Jobs, Site, choose_transports, count_ranks, make_plan, repeated
from volley.run.launchers import cores
from volley.run.plan import Plan
from volley.text import count

MAX_USUAL_RANKS = 8
"""The largest default number of ranks: three numbers of pairs."""


def jobs(options: MessageRateOptions, site: Site) -> Jobs:
    usual = site.ranks_given or min(cores(), MAX_USUAL_RANKS) // PAIR * PAIR
    ranks = count_ranks(options.job, site, usual=max(usual, PAIR))
    if ranks % PAIR:
        remedy = f"start it with {ranks + 1}" if site.position else f"write --ranks {ranks + 1}"
        raise UserError(f"message-rate is between pairs of ranks, and {ranks} is odd: {remedy}")
    if max(options.pairs, default=1) > ranks // PAIR:
        raise UserError(f"--pairs {max(options.pairs)}: {ranks} ranks have {count(ranks // PAIR, 'pair')}")
    part = MessageRatePlan(
        sizes_bytes=list(options.points.sizes),
        pairs=list(options.pairs or usual_pairs(ranks // PAIR)),
        window=options.windows.window,
    )
    transports = choose_transports(options.points.transport, site)
    return repeated(make_plan("message_rate", part, options, ranks=ranks, transports=transports), options, site, times)


def usual_pairs(all_pairs: int) -> list[int]:
    """Return the powers of two below the number of all pairs, and that number."""
    return [*(1 << power for power in range(all_pairs.bit_length()) if 1 << power < all_pairs), all_pairs]


class PairsForecast(PointForecast):
    """Counts points and summarises each with its number of pairs: ``2 pairs: host 64 KiB: 3.41 GB/s``."""

    def add(self, record: PointRecord) -> str:
        """Count a point and return its summary."""
        summary = super().add(record)
        return f"{count(record.pairs, 'pair')}: {summary}" if isinstance(record, MessageRatePoint) else summary


def forecast(plan: Plan) -> PairsForecast:
    """Expect a point for each size, number of pairs and transport."""
    return PairsForecast(plan, [size for size in plan.options.sizes_bytes for _ in plan.options.pairs])
