"""What benchmarks between two ranks have in common: points, each a message size on one transport.

No benchmark by itself: the rooms of those that measure points build on it.
"""
