"""What ``make bench`` says of its numbers."""

import pytest
from comparisons import Finding

from volley.statistics.estimates import Estimate


@pytest.mark.parametrize(
    ("target", "low", "median", "high", "reached"),
    [
        ("0.98–1.02", 0.98, 1.0, 1.02, "yes"),
        ("0.98–1.02", 0.97, 1.0, 1.01, "in the median"),
        ("0.98–1.02", 0.934, 0.958, 0.980, "no"),
        ("≤ 0.3", 0.2, 0.25, 0.29, "yes"),
        ("≤ 0.3", 0.2, 0.25, 0.31, "in the median"),
        ("≥ 0.80", 0.83, 0.88, 0.90, "yes"),
        ("≥ 0.80", 0.70, 0.75, 0.90, "no"),
        ("28", 21, 21, 21, "no"),
        ("28", 28, 28, 28, "yes"),
        ("–", 1, 1, 1, "–"),
        ("not growing", 1, 1, 1, "–"),
    ],
)
def test_whether_a_target_was_reached_is_said(
    target: str, low: float, median: float, high: float, reached: str
) -> None:
    value = Estimate(median=median, low=low, high=high, count=11, kind="ci")
    assert Finding("a comparison", value, "×", target).reached == reached
