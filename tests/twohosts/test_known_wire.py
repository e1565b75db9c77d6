"""Volley reports a wire of known delay and rate as what it is.

These are statements about truth, not about speed: the relay sets the delay and the rate, far below what this machine
could do, and volley must find them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from pretend_hosts import NAMES, Lab, Wire

from volley.records import PingPong, StreamPoint
from volley.records_io import RunLog, read_runs
from volley.stats import median

GIGABIT = Wire(delay_s=1e-3, rate_bps=1e9)
QUICKER = Wire(delay_s=250e-6, rate_bps=1e9)

# What two TCP stacks, two polling ranks and the relay's own waking-up may add to the delay of one message.
MOST_ADDED_S = 60e-6


def measured(hosts: Lab, folder: Path, *arguments: str) -> RunLog:
    """Run volley on the first host over both, and return the records that it kept."""
    records = folder / "records.jsonl"
    command = [sys.executable, "-m", "volley", *arguments, "--hosts", ",".join(NAMES), "-o", str(records)]
    done = hosts.run([*command, "--transport", "host", "--format", "json"], timeout_s=120)
    assert done.returncode == 0, done.stderr
    (log,) = read_runs(records)
    assert log.complete
    return log


@pytest.mark.parametrize("wire", [GIGABIT, QUICKER], ids=["1 ms", "250 µs"])
def test_delay_is_reported_as_set(join_hosts: Callable[[Wire], Lab], tmp_path: Path, wire: Wire) -> None:
    log = measured(join_hosts(wire), tmp_path, "pingpong", "--sizes", "8")
    (point,) = log.points
    assert isinstance(point, PingPong)
    assert point.status == "ok"
    assert wire.delay_s <= median(point.half_round_trip_s) <= wire.delay_s + MOST_ADDED_S


def test_rate_is_reported_as_set(join_hosts: Callable[[Wire], Lab], tmp_path: Path) -> None:
    log = measured(join_hosts(GIGABIT), tmp_path, "stream", "--sizes", "4Mi", "--warmup", "1", "--iterations", "2")
    (point,) = log.points
    assert isinstance(point, StreamPoint)
    assert point.status == "ok"
    (window_s,) = point.forward_s
    assert point.window * point.size_bytes / window_s == pytest.approx(GIGABIT.goodput, rel=0.01)


def test_two_hosts_are_two_nodes(join_hosts: Callable[[Wire], Lab], tmp_path: Path) -> None:
    log = measured(join_hosts(QUICKER), tmp_path, "pingpong", "--sizes", "8", "--warmup", "1", "--iterations", "1")
    assert log.run is not None
    assert [(rank.host, rank.node, rank.local_rank) for rank in log.run.ranks] == [(NAMES[0], 0, 0), (NAMES[1], 1, 0)]
