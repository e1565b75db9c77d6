"""How far the clocks of hosts are apart, by what their ranks did: no message is received before it is sent.

What one rank must begin before another one ends bounds how far their clocks differ: once in each direction, the
difference is known within the sum of both delays (F. Cristian, "Probabilistic clock synchronization", 1989).  The
bounds of all pairs of hosts together are shortest paths.  Clocks that break no bound are left as they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np


def shifts(clocks: Sequence[bytes], gaps: Iterable[tuple[bytes, bytes, float]]) -> dict[bytes, float]:
    """Return what to add to the times of each clock, in s, but not to those of the first one; nothing if all agree.

    ``gaps``: two clocks, and the time from what must begin first, by the one, to what ended later, by the other.
    """
    at = {clock: number for number, clock in enumerate(clocks)}
    most = np.full((len(at), len(at)), np.inf)  # a row's clock may be shifted by so much more than a column's
    np.fill_diagonal(most, 0.0)
    for first, second, gap_s in gaps:
        most[at[first], at[second]] = min(most[at[first], at[second]], gap_s)
    whole = _closed(most)
    if whole.min(initial=0.0) >= 0:
        return {}
    if (drift_s := -float(whole.diagonal().min()) / 2) > 0:  # no one shift fits the begin and the end of the run
        whole = _closed(most + drift_s * ~np.eye(len(at), dtype=bool))
    up, down = whole[:, 0], -whole[0]
    with np.errstate(invalid="ignore"):
        middle = (up + down) / 2
    found = np.where(np.isfinite(up) & np.isfinite(down), middle, np.clip(0.0, down, up))
    return dict(zip(at, found.tolist(), strict=True))


def _closed(most: Any) -> Any:
    """Return the shortest paths between all pairs (Floyd and Warshall)."""
    for each in range(len(most)):
        most = np.minimum(most, most[:, each, None] + most[None, each])
    return most
