"""The progress of a matrix, row by row."""

from __future__ import annotations

from collections.abc import Sequence

from volley.benchmarks.shared.matrix.records import MatrixCell
from volley.units import format_sig


def row_in_short(name: str, cells: Sequence[MatrixCell], moved_bytes: int | None) -> str:
    """Return the range of a row: ``host 8 B, rank 3 first: 0.31 to 0.35 µs``.

    Args:
        name: of the row.
        cells: of the row.
        moved_bytes: in the time of a cell; ``None``: the time itself is shown.
    """
    failed = sum(cell.status == "failed" for cell in cells)
    times = [cell.median_s for cell in cells if cell.median_s is not None]
    if not times:
        return f"{name}: {'FAILED' if failed else 'skipped'}"
    numbers = [time_s * 1e6 if moved_bytes is None else moved_bytes / time_s / 1e9 for time_s in times]
    lost = f", {failed} FAILED" if failed else ""
    low, high = format_sig(min(numbers), 3), format_sig(max(numbers), 3)
    return f"{name}: {low if low == high else f'{low} to {high}'} {'µs' if moved_bytes is None else 'GB/s'}{lost}"
