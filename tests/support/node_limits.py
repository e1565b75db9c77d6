"""Limits of good nodes, for the tests of ``volley check --expect``."""

from volley.check import limits
from volley.check.limits import Limits

THIS = limits.Machine(cpu="EPYC", gpus=("H100", "H100"), ranks=16)


def good_checks(seconds: dict[str, list[float]]) -> Limits:
    """Limits of which each time was measured in as many checks."""
    columns = zip(*seconds.values(), strict=True)
    checks = [dict(zip(seconds, column, strict=True)) for column in columns]
    return Limits(checks=[limits.Checked(host="a", machine=THIS, seconds=each) for each in checks])
