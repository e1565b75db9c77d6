"""Jacobi on the CPU: compulsory bandwidth as a share of what copying the same field reaches in the same run."""

import math
import subprocess
import tempfile
from pathlib import Path

from comparisons import MIB, Finding
from programs import LAUNCH_TIMEOUT_S, VOLLEY, Bench, BenchError

from volley.benchmarks import BENCHMARKS
from volley.benchmarks.jacobi.results import Solution, solutions
from volley.launch import engine
from volley.records.records_file import read_runs
from volley.statistics.estimates import estimate

BEYOND_CACHE = 4
"""Each array is so many times as large as the last-level cache."""
LAUNCHES = 11
ITERATIONS = 60
_CACHES = Path("/sys/devices/system/cpu/cpu0/cache")


def jacobi(_bench: Bench, launches: int | None) -> list[Finding]:
    """Solve on two ranks, all cores at work, several times."""
    side = side_of(last_level_bytes())
    found = [solve(side) for _ in range(launches or LAUNCHES)]
    shares = [each.of_copy for each in found if each.of_copy]
    iterations = [each.time.median for each in found if each.time]
    points = f"2 × 1 processes of {side // 2} × {side} points"
    return [
        Finding(
            f"Jacobi, double, {points}: compulsory bandwidth over that of a copy with {found[0].point.stores} stores; "
            "the times are of an iteration",
            estimate(shares),
            "×",
            "≥ 0.80",
            estimate(iterations),
        ),
        Finding(
            "Jacobi, the same: lattice updates",
            estimate([found[0].updates / s / 1e9 for s in iterations]),
            "GLU/s",
            "–",
        ),
    ]


def last_level_bytes() -> int:
    """Return the size of the largest cache, as Linux tells it (e.g. ``33792K``)."""
    sizes = [path.read_text(encoding="ascii").strip() for path in _CACHES.glob("index*/size")]
    if not sizes:
        raise BenchError(f"{_CACHES} does not tell the size of the caches")
    return max(int(size.rstrip("K")) * 1024 for size in sizes)


def side_of(cache_bytes: int) -> int:
    """Return the side of a square of doubles of ``BEYOND_CACHE`` such caches, and of 64 MiB at least; even."""
    points = max(BEYOND_CACHE * cache_bytes, 64 * MIB) / 8
    return 2 * math.ceil(math.sqrt(points) / 2)


def solve(side: int) -> Solution:
    """Launch ``volley jacobi`` on a square of that side."""
    with tempfile.TemporaryDirectory() as folder:
        records = Path(folder, "jacobi.jsonl")
        words = ["--grid", "2", "1", "--domain", str(side // 2), str(side), "--iterations", str(ITERATIONS)]
        tokens = [*VOLLEY, "jacobi", *words, "-o", str(records)]
        done = subprocess.run(tokens, capture_output=True, timeout=LAUNCH_TIMEOUT_S, check=False)
        if done.returncode != 0:
            raise BenchError(f"volley jacobi ended with status {done.returncode}: {engine.clean(done.stderr)}")
        (solution,) = solutions(read_runs(records, BENCHMARKS))
        return solution
