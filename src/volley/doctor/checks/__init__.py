"""The checks: pure functions from facts to findings.  Nothing here reads anything but its argument.

A check takes the value of a probe with ``found_by``, which ends the check where there is none.
The docstring of a check says what was tried to get its facts: docs/doctor.md is made from it.
"""
