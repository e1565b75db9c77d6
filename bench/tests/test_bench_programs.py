"""The comparison programs of ``make bench`` compile and measure; wires of known delay and rate are judged right."""

from pathlib import Path

import pytest
import run as bench
from known_wire import DELAYS_S, RATES_BPS, WireSeen, summary
from plain_loops import Pair, compared
from pretend_hosts import Wire
from programs import PEERS, Launch, prepare

FRAME_S = 98 * 8 / 1e8
"""8 B in TCP, IP and Ethernet at 100 Mbit/s."""


def test_comparison_programs_measure_every_size(tmp_path: Path) -> None:
    ready = prepare(tmp_path)
    for name in PEERS:
        launch = ready.peer(name, sizes=(8, 4096))
        assert sorted(launch.seconds) == [8, 4096]
        assert min(launch.seconds.values()) > 0


def test_a_wire_is_judged_by_its_delay_its_frame_and_its_goodput() -> None:
    window_s = 10**8 / Wire(1e-3, 1e8).goodput
    right = WireSeen(1e-3, 1e8, 1e-3 + FRAME_S + 20e-6, 1e-3 + FRAME_S + 15e-6, 10**8, window_s + 2e-3)
    wrong = WireSeen(1e-3, 1e8, 1e-3 + FRAME_S + 90e-6, 1e-3 + FRAME_S + 15e-6, 10**8, 1.03 * window_s)
    assert right.added_s == pytest.approx(20e-6)
    assert [finding.reached for finding in summary([right])] == ["yes", "–", "yes"]
    assert [finding.reached for finding in summary([right, wrong])] == ["no", "–", "no"]
    assert summary([right, wrong])[1].value.median == pytest.approx(75)


def test_wires_are_a_grid() -> None:
    wires = [
        WireSeen(d, r, d + 98 * 8 / r + 30e-6, d + 98 * 8 / r + 20e-6, 10**8, 10**8 / Wire(d, r).goodput + 2 * d)
        for d in DELAYS_S
        for r in RATES_BPS
    ]
    lines = list(bench.grid(wires))
    assert (
        "| 250 µs | +30 (+20) µs; 1.0000 | +30 (+20) µs; 1.0000 | +30 (+20) µs; 1.0000 | +30 (+20) µs; 1.0000 |"
        in lines
    )
    assert list(bench.grid([])) == []


def test_launches_in_different_states_are_not_compared() -> None:
    quick, slow = Launch(0, {8: 1e-7, 1 << 20: 8e-5}), Launch(0, {8: 3.5e-7, 1 << 20: 9e-5})
    slower = Launch(0, {8: 3.5e-7, 1 << 20: 9.9e-5})
    found = compared([Pair(1 << 20, *launches) for launches in ((quick, quick), (quick, slow), (slower, slow))])
    assert [(finding.value.count, round(finding.value.median, 3)) for finding in found] == [(1, 1.0), (1, 1.1)]
    assert [finding.what.rpartition(", ")[2] for finding in found] == [
        "quicker state (8 B in 0.1000 µs)",
        "slower state (8 B in 0.3500 µs)",
    ]
    assert [finding.value.count for finding in compared([Pair(1 << 20, quick, quick)] * 3)] == [3]
