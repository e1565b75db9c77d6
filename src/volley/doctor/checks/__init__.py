"""The checks: pure functions from facts to findings.  Nothing here reads anything but its argument."""
