"""What the benchmarks between two ranks share.  A point is one message size on one transport."""

MODULES = {name: f"{__name__}.{name}" for name in ("progress", "results")}
"""Modules that stand in for those of a benchmark of points."""
