"""Medians of many results at once: a matrix of a thousand ranks has a million."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def medians_of(observations: Floats) -> Floats:
    """Return the median of each column without its NaN; NaN where nothing else is."""
    ordered = np.sort(observations, axis=0)  # NaN comes last
    number = np.count_nonzero(~np.isnan(ordered), axis=0)
    low, high = (
        np.take_along_axis(ordered, (number[np.newaxis] - 1 + step).clip(0) // 2, axis=0)[0] for step in (0, 1)
    )
    middle: Floats = np.where(low == high, low, (low + high) / 2)
    return middle
