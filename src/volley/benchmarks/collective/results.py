"""The results of collectives: those of all benchmarks of points."""

from volley.benchmarks.shared.points.results import observables, results

__all__ = ["observables", "results"]
