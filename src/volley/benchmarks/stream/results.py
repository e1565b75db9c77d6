"""From the samples of windowed streams to numbers."""

from volley.benchmarks.points.results import results

__all__ = ["results"]
