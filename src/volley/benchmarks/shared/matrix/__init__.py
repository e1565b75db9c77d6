"""What the matrix between ranks and the matrices between GPUs share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from volley.units import format_sig

SAMPLING_HELP: dict[str, Any] = {
    "ci": {
        "help": "Measure a pair until the 95 % confidence interval of its median is within ± this percentage, or "
        "--point-time is over."
    },
    "budget": {"help": "Time of the whole run: volley measures no pair after this time."},
}
"""A matrix has no launches to repeat: what its options of sampling mean."""


def row_in_short(name: str, medians_s: Sequence[float | None], failed: int, moved_bytes: int | None) -> str:
    """Return the range of a row: ``host 8 B, rank 3 first: 0.31 to 0.35 µs``.

    Args:
        name: of the row.
        medians_s: of its pairs.
        failed: how many of them failed.
        moved_bytes: in the time of a cell; ``None``: the time itself is shown.
    """
    times = [time_s for time_s in medians_s if time_s is not None]
    if not times:
        return f"{name}: {'FAILED' if failed else 'skipped'}"
    numbers = [time_s * 1e6 if moved_bytes is None else moved_bytes / time_s / 1e9 for time_s in times]
    lost = f", {failed} FAILED" if failed else ""
    low, high = format_sig(min(numbers), 3), format_sig(max(numbers), 3)
    return f"{name}: {low if low == high else f'{low} to {high}'} {'µs' if moved_bytes is None else 'GB/s'}{lost}"
