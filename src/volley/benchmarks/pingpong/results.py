"""From the samples of ping-pongs to numbers."""

from volley.benchmarks.points.results import results

__all__ = ["results"]
