"""What the benchmarks between two ranks share.  A point is one message size on one transport."""
