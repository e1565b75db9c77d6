"""What the columns of CSV and JSON mean: one name means the same wherever it stands, or the text says where."""

from __future__ import annotations

import re

SCHEMA = 3
"""The version of the columns and of the JSON documents: it rises if a name or a meaning changes, not with new names."""

_BOUND = re.compile(r"_(low|high)(?=_s$|_Bps$|_per_s$|$)")

MEANINGS = {
    # where a row comes from
    "schema": "the version of this table",
    "benchmark": "the benchmark",
    "run": "the files of records",
    "host": "the hosts of the ranks",
    "date": "when the first launch began, in UTC",
    "launch": "the numbers of the launches in the files",
    "machine": "GPUs, processor and MPI",
    "settings": "the recorded variables of MPI, UCX, CUDA and NCCL that were set",
    # calls of an application
    "call": "the MPI call; one pass: all calls that are replayed, once, on the slowest rank",
    "calls": "how often the application made it, all ranks together",
    "unchecked": "messages and results of collectives of a pass that are not compared, by the reason",
    "recorded_s": "the median time of the call when it was recorded",
    # points
    "transport": "what moves the bytes (volley transports)",
    "size_bytes": "the size of a message; of a collective, as nccl-tests counts it",
    "operation": "the collective; in a matrix of GPUs what the first GPU does: write or read",
    "direction": "uni: one side sends; bi: both send at once; empty: they take turns",
    "window": "the messages in flight before the sender waits",
    "ranks": "the ranks that take part, joined with dashes in CSV",
    "status": "ok, failed (a message was wrong, or nothing moved) or skipped; of a saved run whether it is complete",
    "reason": "why there is no number",
    "launches": "how many launches measured it",
    "samples": "samples of all launches; each is the mean of a batch, or with --tail and --in-place one operation",
    "time_s": "half a round trip, a window (of both directions the slower one), an operation, or what metric says",
    "latency_s": "half a round trip, or the time of an operation; empty for a stream",
    "bandwidth_Bps": "bytes moved in time_s; of a collective the bus bandwidth; of pairs all together",
    "interval": "what the bounds are: ci, a 95 % confidence interval over launches; within, one within a launch; "
    "range, the smallest and the largest of too few; single, one value without bounds",
    "forward_Bps": "bandwidth from the first rank to the second, where both send",
    "backward_Bps": "bandwidth from the second rank to the first, where both send",
    "verified": "whether every compared message was right; empty: none is sent or compared",
    "messages_timed": "messages within the samples",
    "messages_verified": "messages that were compared byte for byte",
    "ended_by": "why the samples ended: narrow enough (ci), no time (time, few), as many as asked (fixed), or failure",
    "cold_s": "half of the first round trip, or the first window, of a transport",
    "p90_s": "90th percentile of all samples, with --tail, which stream does not have",
    "p99_s": "99th percentile of all samples, with --tail, which stream does not have",
    "p99_9_s": "99.9th percentile of all samples, with --tail, which stream does not have",
    "max_s": "the largest of all samples, with --tail, which stream does not have",
    "speedup": "time of speedup_over / time of this transport, at this size",
    "speedup_over": "the transport that the speed-up is relative to",
    "speedup_interval": "what the bounds of the speed-up are, as interval",
    "of_line_rate": "bandwidth / line rate of the link",
    "carried_by": "devices, library and protocol of messages of this size, or of the next smaller one that was tried",
    "line_rate_Bps": "the line rate of the link",
    "groups": "groups into which the launches fall: time_s, and the numbers of the launches",
    "mismatch": "the first wrong message: rank, byte, expected and found value",
    "warnings": "what the engine warned of at this point",
    # conditions
    "sampling": "adaptive, tail (one message a sample), or how many exchanges are untimed and timed",
    "cold_cache": "whether messages pass through buffers larger than the caches",
    "fresh_buffers": "whether there are new buffers for every size",
    "element": "what is reduced",
    "reduction": "how it is reduced",
    "root": "the rank that has the whole, or gets it",
    "imbalance": "lengths of the blocks of even and odd ranks, joined with dashes in CSV",
    "in_place": "whether ranks contribute what is in their receive buffers",
    "progress_calls": "calls of the transport while a rank computes",
    "tolerance": "the residual at which a solution ends",
    "gaps": "whether the replay waits between calls as the application did",
    "program": "the file with the calls",
    "largest_bytes": "no message is larger",
    "quick": "whether windows are smaller and samples fewer",
    # collectives
    "algorithm_bandwidth_Bps": "the algorithm bandwidth of nccl-tests: size / time",
    "entry_skew_s": "median time between the entry of the first rank and that of the last",
    "clock_error_s": "the largest error of the clocks that compare entries and exits",
    "rank_mean_s": "median of the mean of the ranks' own times (of senders), as OSU's programs and nccl-tests print it",
    # message rates
    "pairs": "the pairs of ranks that send at once",
    "messages_per_s": "messages of all pairs in a second",
    "messages_of_a_pair_per_s": "messages_per_s / pairs",
    "bandwidth_of_a_pair_Bps": "bandwidth_Bps / pairs",
    "kept": "the rate of a pair / the rate of one pair alone",
    # overlap
    "computation": "what is computed during the exchange",
    "computation_s": "time of the computation alone",
    "both_s": "time of exchange and computation at once",
    "hidden": "1 - (both_s - computation_s) / exchange_s",
    "computation_slowdown": "time of the computation beside the exchange / alone",
    "exchange_slowdown": "time of the exchange beside the computation / alone",
    # matrices
    "section": "the part of the matrix",
    "metric": "what time_s is of (docs/method/gpu-matrix.md)",
    "engine": "what moves the bytes: a copy engine or SMs",
    "ends": "between which ends: gpus, host to gpu, gpu to host",
    "first": "the GPU that drives, or host",
    "second": "the other GPU",
    "first_rank": "the first rank of the pair",
    "second_rank": "the second rank of the pair",
    "mode": "isolated: one pair at a time; loaded: as many at once as the ranks allow",
    "pattern": "pingpong or stream; of message rates who sends to whom: pairs, fan-in, fan-out or ring",
    "kind": "where the pair is, e.g. on the same node: pairs of one kind are comparable",
    "peer_access": "whether the two GPUs map each other's memory: on or off",
    "ratio": "in a matrix, time / median of comparable pairs; in a comparison, time of B / time of A",
    "comparable_pairs": "how many pairs the ratio is relative to",
    "ratio_again": "the ratio where the pair was measured again",
    "flagged": "whether that measurement found the pair slow for certain",
    "suspect": "whether the pair is slow, by the rule for suspects",
    "count_per_sample": "round trips, windows, copies or passes in a sample",
    "elapsed_s": "how long the measurement took",
    "compared_counts": "copies or windows in which every message was compared",
    "compared_in_flight": "messages of each of them",
    # the Jacobi solver
    "grid_x": "processes across",
    "grid_y": "processes along",
    "domain_x": "points of a process across",
    "domain_y": "points of a process along",
    "precision": "float or double",
    "overlap": "whether halos move while the interior is computed",
    "memory": "where the field, or the message of a transport, is",
    "threads": "threads of a process",
    "iterations": "iterations that were made",
    "converged": "whether the residual reached the tolerance",
    "residual": "the largest change of a point in the last iteration that has one",
    "deviation": "the largest difference of a point from the exact solution",
    "run_s": "time of all iterations",
    "iteration_s": "time of an iteration",
    "updates_per_s": "points updated in a second, by all processes",
    "algorithmic_Bps": "bandwidth by the bytes that the algorithm reads and writes",
    "compulsory_Bps": "bandwidth by the bytes that must at least move",
    "copy_Bps": "bandwidth of a plain copy on the same processors",
    "of_copy": "compulsory_Bps / copy_Bps",
    "communication_s": "time of communication in the run, the mean of the processes",
    "interior_s": "time of the interior in an iteration",
    "edges_s": "time of the edges in an iteration",
    "pack_s": "time of packing halos in an iteration",
    "exchange_s": "time of an exchange: alone (overlap), or of the halos in an iteration (Jacobi)",
    "reduction_s": "time of the reduction of the residual in an iteration",
    "interior_share": "interior_s / the sum of all parts",
    "edges_share": "edges_s / the sum of all parts",
    "pack_share": "pack_s / the sum of all parts",
    "exchange_share": "exchange_s / the sum of all parts",
    "reduction_share": "reduction_s / the sum of all parts",
    "first_iteration_s": "time of the first iteration",
    "cold_exchange_s": "time of the first exchange of halos",
    "field_hash": "hash of the final field",
    "flop_per_s": "floating-point operations in a second, by all processes",
    "check_every": "iterations from one residual to the next",
    "interleaved": "whether the transports took turns",
    "copy_bytes": "bytes that the plain copy read and wrote",
    # transports
    "available": "whether it works here",
    "mpi": "whether it uses MPI",
    "summary": "what it does",
    # comparisons
    "series": "what was measured, without the place in the sweep",
    "at": "the place in the sweep, e.g. a size",
    "verdict": "changed, same or undecided",
    "same_within": "the least difference within which both are certainly the same",
    "launches_needed": "about how many launches of each run would decide; empty: too many, or perhaps drift",
    "first_s": "median time of A",
    "second_s": "median time of B",
    "first_launches": "launches of A",
    "second_launches": "launches of B",
    "probability": "the share of permutations in which a point of the sweep stands out as much",
    # saved runs
    "id": "the id that other commands accept",
    "name": "the name that --name gave it",
    "tags": "what --tag gave it",
    "started_at": "when it began, in UTC",
    "points": "points with a number, of all launches together",
    "failed": "points that failed",
    "path": "the file",
    # references
    "reference": "the name of the reference",
    "title": "the source's name for the series",
    "unit": "the source's unit of published",
    "published": "the number as published, in unit",
}


SENTENCES = ("reason", "summary")
"""Columns of sentences, which change with a version of volley or with a number in them: no label has one."""


def base(column: str) -> str:
    """Return the quantity of a column: ``time_s`` of its bound ``time_low_s``."""
    return _BOUND.sub("", column)


def meaning(column: str) -> str:
    """Return what a column means, in words that can follow its name."""
    found = _BOUND.search(column)
    bound = {"low": "lower bound of: ", "high": "upper bound of: "}[found[1]] if found else ""
    return bound + MEANINGS.get(base(column), column)
