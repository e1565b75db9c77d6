"""The checks: pure functions from facts to findings.  Nothing here reads anything but its argument.

The docstring of a check says what was tried to get its facts: docs/doctor.md is made from it.
"""
