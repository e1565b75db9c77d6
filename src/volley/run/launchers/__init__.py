"""Launchers, allocations of batch systems, and the choice of a launcher."""
