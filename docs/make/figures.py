"""The numbers of the tutorial: our records of two H200s, and the tables that the ping-pong tutorial publishes.

The tutorial's results are the references ``summit`` and ``nvlink3`` (``volley references``).
"""

import hashlib
from dataclasses import dataclass
from pathlib import Path

from volley import references
from volley.benchmarks import BENCHMARKS
from volley.benchmarks.points.results import results
from volley.records.records_file import read_runs
from volley.units import parse_size

DOCS = Path(__file__).parents[1]
RECORDS = DOCS.parent / "results/h200-x2/pingpong-all.jsonl"

SUMMIT, NVLINK3, H200 = "Summit", "NVLink3 system", "2 × H200"
SAME_WAY = {"host": "CPU", "staged/pageable": "CUDA-staged", "aware": "CUDA-aware"}
"""Our transports that move the bytes as one of them does."""


@dataclass(frozen=True)
class Curve:
    """What one way on one machine takes, by message size."""

    machine: str
    way: str
    half_round_trip_s: dict[int, float]

    def us(self, size_bytes: int) -> float:
        """Half round trip in µs."""
        return self.half_round_trip_s[size_bytes] * 1e6

    def GBps(self, size_bytes: int) -> float:  # noqa: N802  GB/s keeps its capitals
        """Size / half round trip, in 10^9 bytes a second."""
        return size_bytes / self.half_round_trip_s[size_bytes] / 1e9


def published() -> list[Curve]:
    """Return the tutorials' curves: Summit's three, then those of the NVLink3 system."""
    return [
        Curve(machine, SAME_WAY[series], {parse_size(at): times[place] for at, times in table.figures.items()})
        for name, machine in (("summit", SUMMIT), ("nvlink3", NVLINK3))
        for table in references.published()[name].tables
        for place, series in enumerate(table.series)
    ]


def measured() -> list[Curve]:
    """Return our curves, one a transport that moves bytes, in the order of the records."""
    times: dict[str, dict[int, float]] = {}
    for series in results(read_runs(RECORDS, BENCHMARKS)):
        for point in series.points:
            if point.time and point.rate and point.verified:
                times.setdefault(point.transport, {})[point.size_bytes] = point.time.median
    return [Curve(H200, transport, found) for transport, found in times.items()]


def find(machine: str, way: str) -> Curve:
    """Return one curve.

    Raises:
        LookupError: if there is none of that name.
    """
    for curve in (*published(), *measured()):
        if (curve.machine, curve.way) == (machine, way):
            return curve
    raise LookupError(f"no curve {way} of {machine}")


def digest() -> str:
    """Return what a picture of these numbers carries, to tell whether it was drawn from them."""
    text = repr(
        [(curve.machine, curve.way, sorted(curve.half_round_trip_s.items())) for curve in (*published(), *measured())]
    )
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def three_digits(value: float) -> str:
    """Write a number with three significant digits and no exponent: ``0.850``, ``12.2``, ``1,850``."""
    rounded = float(f"{value:.3g}")
    return f"{rounded:,.0f}" if rounded >= 100 else f"{rounded:#.3g}"
