"""Programs that take turns between two hosts: how they are started, and what the table says of rounds."""

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import between_hosts
import pytest
from programs import BenchError, Starter, starter_in


class Hosts:
    """Hosts on which every program prints the same."""

    def __init__(self, output: str, status: int = 0) -> None:
        self.output, self.status = output, status
        self.started: list[Sequence[str]] = []

    def run(self, tokens: Sequence[str], **_: Any) -> subprocess.CompletedProcess[str]:
        self.started.append(tokens)
        return subprocess.CompletedProcess(tokens, self.status, self.output, "no such host\n")


def test_the_start_of_volleys_engine_is_that_of_other_programs() -> None:
    starter = starter_in(
        "note\nA=1 B='2 3' /mpi/bin/mpirun -n 2 --host a,b /volley-engine --mpi-library /mpi/lib --plan -\n"
    )
    assert starter.environment == {"A": "1", "B": "2 3"}
    hosts = Hosts("8 12.5\n4194304 2000.0\n")
    found = between_hosts.theirs(hosts, starter, Path("/peers/osu_latency"))
    assert found == pytest.approx({8: 12.5e-6, 4194304: 2e-3})
    for tokens in hosts.started:
        assert tokens[:9] == [
            "env",
            "A=1",
            "B=2 3",
            "/mpi/bin/mpirun",
            "-n",
            "2",
            "--host",
            "a,b",
            "/peers/osu_latency",
        ]


def test_a_program_that_fails_says_how() -> None:
    with pytest.raises(BenchError, match="ended with status 7: no such host"):
        between_hosts.theirs(Hosts("", 7), Starter({}, ("mpirun",), ()), Path("IMB-MPI1"))


def test_the_ratio_is_that_of_the_same_round() -> None:
    def seen(factor: float) -> dict[str, dict[int, float]]:
        slow = {"volley": 1.1 * factor, "osu_latency": factor, "IMB-MPI1": 2 * factor}
        return {name: dict.fromkeys(between_hosts.SIZES, value * 1e-6) for name, value in slow.items()}

    lines = list(between_hosts.table([seen(factor) for factor in (1, 50, 3, 20, 4, 9)]))
    assert len(lines) == 2 + len(between_hosts.SIZES)
    assert lines[2] == "| 8 B | 7.150 µs | 6.500 µs | 1.100 × (1.100–1.100) | 13.00 µs | 0.5500 × (0.5500–0.5500) |"
