"""The matrices between GPUs: one process uses all GPUs of this machine."""

from __future__ import annotations

import os

from volley.benchmarks.gpu_matrix.options import FORMATS, HINT, GpuMatrixOptions
from volley.machine.nvidia_driver import has_driver
from volley.run.benchmark import Benchmark
from volley.run.inside_launcher import rank_info


def suits() -> bool:
    """Return whether ``volley matrix`` measures GPUs: there is a driver, and this is not one of several ranks."""
    info = rank_info(os.environ)
    return (info is None or info.size == 1) and has_driver()


BENCHMARK = Benchmark(
    name="gpu_matrix",
    command="matrix",
    help="""Measure every pair of GPUs of this machine, or of ranks, and name the pairs that are slower than comparable
    pairs.

    On a machine with GPUs one process has all of them: bandwidth and latency with peer access off and on, by copy
    engines (CE) and by kernels (SM), and between host and GPU. An option about ranks (a transport, their number,
    hosts), a launcher with several ranks, or a machine without GPUs makes it a matrix between ranks. Pairs of ranks
    are comparable if both are on one socket, on one node, or on two nodes; a pair that is slower than comparable pairs
    is measured again beside them before it is flagged.""",
    options=GpuMatrixOptions,
    examples=(
        "volley matrix",
        "volley matrix --format cuda-samples",
        "volley matrix --gpus 0,1 --section uni,bi,load",
    ),
    formats=FORMATS,
    local=True,
    hint=HINT,
    suits=suits,
)
