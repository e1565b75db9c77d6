"""The checks: pure functions from facts to verdicts.  Nothing here reads anything but its argument."""
