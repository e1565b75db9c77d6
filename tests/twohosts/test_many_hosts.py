"""Several hosts on one switch, whose cables have a known rate."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from pretend_hosts import Lab

from volley.benchmarks import BENCHMARKS
from volley.benchmarks.matrix.results import RankMatrixCase, cases_of
from volley.records.records_file import read_runs

pytestmark = [pytest.mark.slow, pytest.mark.alone]

GIGABIT = ("rate", "1gbit", "burst", "128kb", "latency", "500ms")
SLOW_CABLE = ("rate", "100mbit", "burst", "16kb", "latency", "500ms")
"""So slow that what two processors do for all hosts does not matter."""


def command(hosts: Lab, *words: str) -> list[str]:
    """Return what runs volley on all hosts; ranks that wait let others have the processor."""
    program = ["env", "OMPI_MCA_mpi_yield_when_idle=1", sys.executable, "-m", "volley"]
    return [*program, *words, "--hosts", ",".join(hosts.names)]


def plug_in(hosts: Lab, cables: Sequence[Sequence[str]]) -> None:
    for name, cable in zip(hosts.names, cables, strict=True):
        tokens = ("tc", "qdisc", "replace", "dev", "eth0", "root", "tbf", *cable)
        assert hosts.run(tokens, host=name, timeout_s=10).returncode == 0


def test_pairs_of_nodes_agree_with_isolated_ones(switch: Callable[[int], Lab], tmp_path: Path) -> None:
    hosts = switch(4)
    plug_in(hosts, [SLOW_CABLE] * 4)
    cases: dict[str, RankMatrixCase] = {}
    for words in ((), ("--mode", "isolated")):
        records = tmp_path / f"records{len(words)}.jsonl"
        what = ("--latency", "none", "--bandwidth", "16k", "--window", "8", "--no-remeasure")
        done = hosts.run(command(hosts, "matrix", *what, *words, "-o", str(records)), timeout_s=120)
        assert done.returncode == 0, done.stderr
        (case,) = cases_of(list(read_runs(records, BENCHMARKS)))
        cases[case.row.mode] = case
    nodes, isolated = cases["nodes"], cases["isolated"]
    both = ~np.isnan(nodes.times_s)
    assert np.count_nonzero(both) == 12
    ratio = np.median(nodes.times_s[both]) / np.median(isolated.times_s[both])
    assert 1 / 1.5 < ratio < 1.5  # two pairs of a node at once would take twice as long


@pytest.mark.parametrize(
    "cable",
    [("rate", "500mbit", "burst", "128kb", "latency", "500ms"), ("rate", "1gbit", "burst", "20kb", "limit", "30kb")],
    ids=["slow", "loses packets"],
)
def test_a_bad_cable_among_eight_hosts(switch: Callable[[int], Lab], tmp_path: Path, cable: Sequence[str]) -> None:
    hosts = switch(8)
    plug_in(hosts, [GIGABIT, GIGABIT, GIGABIT, cable, GIGABIT, GIGABIT, GIGABIT, GIGABIT])
    words = ("check", "--budget", "170", "--format", "json", "-o", str(tmp_path / "records.jsonl"))
    done = hosts.run(command(hosts, *words), timeout_s=300)
    assert done.returncode == 1, done.stderr
    findings = json.loads(done.stdout)["findings"]
    # Eight hosts share two processors, so the latency of messages of 8 B says nothing about cables.
    bad = [each for each in findings if each["verdict"] == "FAIL" and each["layer"].startswith("bandwidth")]
    assert [(each["part"], each["nodes"]) for each in bad] == [("node volley-d", ["volley-d"])]


def test_a_cable_that_is_pulled_out(switch: Callable[[int], Lab], tmp_path: Path) -> None:
    hosts, records = switch(4), tmp_path / "records.jsonl"
    plug_in(hosts, [GIGABIT] * 4)
    words = ("check", "--budget", "170", "--watchdog", "8", "--format", "json", "-o", str(records))
    with hosts.start(command(hosts, *words), host=hosts.names[0]) as running:
        while running.poll() is None and not (records.exists() and b'"record":"end"' in records.read_bytes()):
            if records.exists() and b'"record":"rank_matrix"' in records.read_bytes():
                hosts.run(["ip", "link", "set", "eth0", "down"], host=hosts.names[3], timeout_s=10)
                break
            time.sleep(0.2)
        out, _ = running.communicate(timeout=120)
    assert running.returncode == 1
    (bad,) = (each for each in json.loads(out)["findings"] if each["verdict"] == "FAIL")
    assert "no progress" in bad["why"]
    assert hosts.names[3] in bad["why"]
