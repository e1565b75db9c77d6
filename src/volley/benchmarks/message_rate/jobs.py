"""The launches of message rates."""

from __future__ import annotations

from volley.benchmarks.message_rate import MessageRateOptions
from volley.benchmarks.message_rate.results import MessageRatePlan
from volley.benchmarks.points import MAX_USUAL_RANKS
from volley.benchmarks.points.jobs import sweep
from volley.errors import UserError
from volley.launch.launchers import PAIR, cores
from volley.machine.transports import have_threads
from volley.run.jobs import JobContext, Jobs, count_ranks
from volley.text import count


def jobs(options: MessageRateOptions, context: JobContext) -> Jobs:
    usual = context.ranks_given or min(cores(), MAX_USUAL_RANKS) // PAIR * PAIR
    few = have_threads(options.named_transports)  # a pair whose ranks have all cores
    ranks = count_ranks(options.job, context, usual=PAIR if few else max(usual, PAIR))
    if ranks % PAIR:
        remedy = f"start it with {ranks + 1}" if context.position else f"write --ranks {ranks + 1}"
        raise UserError(f"message-rate is between pairs of ranks, and {ranks} is odd: {remedy}")
    if max(options.pairs, default=1) > ranks // PAIR:
        raise UserError(f"--pairs {max(options.pairs)}: {ranks} ranks have {count(ranks // PAIR, 'pair')}")
    part = MessageRatePlan(
        sizes_bytes=list(options.points.sizes),
        pairs=list(options.pairs or usual_pairs(ranks // PAIR)),
        window=options.windows.window,
    )
    return sweep("message_rate", part, options, context, ranks)


def usual_pairs(all_pairs: int) -> list[int]:
    """Return the powers of two below the number of all pairs, and that number."""
    return [*(1 << power for power in range(all_pairs.bit_length()) if 1 << power < all_pairs), all_pairs]
