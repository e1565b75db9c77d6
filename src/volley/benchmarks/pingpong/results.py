"""The results of ping-pongs: those of all benchmarks of points."""

from volley.benchmarks.points.results import results

__all__ = ["results"]
