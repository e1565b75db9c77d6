"""What the benchmarks between two ranks share.  A point is one message size on one transport."""

MODULES = {"results": f"{__name__}.results"}
"""Modules that stand in for those of a benchmark of points."""
