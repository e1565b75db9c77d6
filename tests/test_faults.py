"""Every fault that the engine can give to a transport, with every transport: found, or docs/method says why not."""

from __future__ import annotations

from pathlib import Path

import pytest

from the_command import Command
from volley.benchmarks.overlap.results import OverlapPoint
from volley.launch.engine import ask_about
from volley.machine.transports import TRANSPORTS

DATA = ("flip", "early", "late", "lose", "swap", "echo")
"""Faults that change what arrives: every point fails."""
FOUND_BY = {
    **dict.fromkeys(DATA, "data"),
    "hang": "watchdog",
    "unopened": "reason",
    "delay": "[matrix](rank-matrix.md)",
    "nan": "[Jacobi](jacobi.md)",
    "signal": "sometimes",
}
"""What tells of each fault, in the order of the table in docs/method/verification.md."""
HOST = tuple(name for name in TRANSPORTS if name.partition("/")[0] == "host")
METHOD = Path(__file__).parents[1] / "docs/method/verification.md"


@pytest.mark.parametrize("fault", DATA)
@pytest.mark.parametrize(
    "words",
    [
        ("pingpong", "--iterations", "5"),
        ("pingpong", "--point-time", "0.02"),
        ("stream", "--window", "4", "--iterations", "5"),
        ("stream", "--window", "4", "--direction", "bi", "--point-time", "0.02"),
    ],
    ids=" ".join,
)
def test_a_fault_is_found_with_every_transport_in_host_memory(
    volley: Command, words: tuple[str, ...], fault: str
) -> None:
    names = ",".join(f"{name}+{fault}" for name in HOST)
    done = volley(*words, "--transport", names, "--sizes", "8,100000", "--launches", "1")
    (log,) = done.records
    assert done.code == 1
    assert {(point.transport, point.size_bytes) for point in log.records} == {
        (f"{name}+{fault}", size) for name in HOST for size in (8, 100000)
    }
    assert {(point.transport, point.status) for point in log.records} == {
        (f"{name}+{fault}", "failed") for name in HOST
    }


@pytest.mark.parametrize("fault", DATA)
def test_nothing_is_wrong_with_a_transport_without_contents(volley: Command, fault: str) -> None:
    (log,) = volley("pingpong", "-t", f"null+{fault}", "--sizes", "8", "--iterations", "5", "--launches", "1").records
    assert [point.status for point in log.records] == ["ok"]


@pytest.mark.parametrize("fault", ["flip", "echo"])
def test_a_fault_of_a_halo_beside_a_computation_is_found(volley: Command, fault: str) -> None:
    words = ("--sizes", "100", "--computation", "arithmetic", "--iterations", "5", "--launches", "1")
    (log,) = volley("overlap", "--transport", f"host+{fault}", *words).records
    assert {point.status for point in log.of(OverlapPoint)} == {"failed"}


def test_the_published_tables_are_about_the_faults_and_transports_of_the_engine(engine: Path) -> None:
    with ask_about(engine) as answer:
        about = answer()
    text = METHOD.read_text(encoding="utf-8")
    assert {each.name for each in about.faults} == set(FOUND_BY)
    for each in about.faults:
        assert f"| `{each.name}` | {each.summary.replace('5 us', '5 µs')} | {FOUND_BY[each.name]} |" in text
    for each in about.transports:
        found = "–" if each.memory == "none" else "✓"
        assert f"| `{each.name}` | {' | '.join([found] * len(DATA))} |" in text
