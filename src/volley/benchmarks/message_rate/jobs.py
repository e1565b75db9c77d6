"""The launches of message rates."""

from __future__ import annotations

from volley.benchmarks.message_rate import MessageRateOptions
from volley.benchmarks.message_rate.results import MessageRatePlan
from volley.benchmarks.points.jobs import sweep, usual_ranks
from volley.errors import UserError
from volley.launch.launchers import PAIR
from volley.machine.transports import have_threads, without_fault
from volley.run.jobs import JobContext, count_ranks
from volley.run.launches import Jobs
from volley.text import count, join_words


def jobs(options: MessageRateOptions, context: JobContext) -> Jobs:
    usual = context.ranks_given or usual_ranks(options, context) // PAIR * PAIR
    few = have_threads(options.named_transports)  # a pair whose ranks have all cores
    ranks = count_ranks(options.job, context, usual=PAIR if few else max(usual, PAIR))
    pattern = options.pattern
    if pattern != "pairs" and not set(map(without_fault, options.named_transports)) <= {*OF_A_PATTERN}:
        raise UserError(f"--pattern {pattern}: only {join_words(OF_A_PATTERN)} send by it; leave out other transports")
    if ranks < PAIR:
        raise UserError(f"message-rate needs at least {PAIR} ranks, not {ranks}: write --ranks {PAIR} or more")
    if ranks % PAIR and pattern == "pairs":
        remedy = f"start it with {ranks + 1}" if context.position else f"write --ranks {ranks + 1}"
        raise UserError(f"message-rate is between pairs of ranks, and {ranks} is odd: {remedy}")
    most = {"pairs": ranks // PAIR, "ring": ranks}.get(pattern, ranks - 1)
    if max(options.pairs, default=1) > most:
        raise UserError(f"--pairs {max(options.pairs)}: {ranks} ranks have {count(most, 'pair')}")
    if pattern == "ring" and options.pairs not in ((), (ranks,)):
        raise UserError(f"--pattern ring: all {ranks} ranks send; leave out --pairs")
    numbers = [most] if pattern == "ring" else list(options.pairs or usual_pairs(most))
    part = MessageRatePlan(
        sizes_bytes=list(options.points.sizes),
        pattern=pattern,
        pairs=numbers,
        window=options.windows.window,
    )
    usual_transports = [each.name for each in context.about.of(OF_A_PATTERN)] if pattern != "pairs" else ()
    return sweep("message_rate", part, options, context, ranks, usual=usual_transports)


OF_A_PATTERN = ("host", "aware")
"""The transports by which one rank exchanges messages with several."""


def usual_pairs(all_pairs: int) -> list[int]:
    """Return the powers of two below the number of all pairs, and that number."""
    return [*(1 << power for power in range(all_pairs.bit_length()) if 1 << power < all_pairs), all_pairs]
