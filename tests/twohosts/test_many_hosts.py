"""Several hosts on one switch, whose cables have a known rate."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from pretend_hosts import Lab

from volley.benchmarks import BENCHMARKS
from volley.benchmarks.matrix.results import RankMatrixCase, cases_of
from volley.records.records_file import read_runs

pytestmark = [pytest.mark.slow, pytest.mark.alone]

CABLE = ("tc", "qdisc", "replace", "dev", "eth0", "root", "tbf", "rate", "100mbit", "burst", "16kb", "latency", "500ms")
"""So slow that what two processors do for all hosts does not matter."""


def volley(hosts: Lab, *words: str) -> subprocess.CompletedProcess[str]:
    """Run volley on all hosts; ranks that wait let others have the processor."""
    command = ["env", "OMPI_MCA_mpi_yield_when_idle=1", sys.executable, "-m", "volley", *words]
    return hosts.run([*command, "--hosts", ",".join(hosts.names)], timeout_s=120)


def test_pairs_of_nodes_agree_with_isolated_ones(switch: Callable[[int], Lab], tmp_path: Path) -> None:
    hosts = switch(4)
    for name in hosts.names:
        assert hosts.run(CABLE, host=name, timeout_s=10).returncode == 0
    cases: dict[str, RankMatrixCase] = {}
    for words in ((), ("--mode", "isolated")):
        records = tmp_path / f"records{len(words)}.jsonl"
        what = ("--latency", "none", "--bandwidth", "16k", "--window", "8", "--no-remeasure")
        done = volley(hosts, "matrix", *what, *words, "-o", str(records))
        assert done.returncode == 0, done.stderr
        (case,) = cases_of(list(read_runs(records, BENCHMARKS)))
        cases[case.row.mode] = case
    nodes, isolated = cases["nodes"], cases["isolated"]
    both = ~np.isnan(nodes.times_s)
    assert np.count_nonzero(both) == 12
    overlap = (nodes.lows_s <= isolated.highs_s) & (isolated.lows_s <= nodes.highs_s)
    ratio = np.median(nodes.times_s[both]) / np.median(isolated.times_s[both])
    assert overlap[both].mean() > 0.5, (nodes.times_s, isolated.times_s)
    assert ratio == pytest.approx(1, abs=0.1)
