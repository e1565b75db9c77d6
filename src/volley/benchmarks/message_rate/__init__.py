"""Message rate: several pairs of ranks send at once."""

from __future__ import annotations

from volley.benchmarks.message_rate.options import MessageRateOptions
from volley.run.benchmark import Benchmark

BENCHMARK = Benchmark(
    name="message_rate",
    command="message-rate",
    help="""Measure how many messages pairs of ranks send per second, one pair alone and several at once.

    The first half of the ranks sends, rank i to rank i of the second half. One pair alone, then two, four and so on
    up to all take turns in the same run, so that the part of its rate that a pair keeps beside the others shows.""",
    options=MessageRateOptions,
    examples=(
        "volley message-rate --ranks 8",
        "volley message-rate --ranks 4 --gpus 0,0,1,1 --share-gpu --sizes 8,64k",
        "srun -N 2 --ntasks-per-node 32 volley message-rate --transport host --pairs 1,8,32",
    ),
)
