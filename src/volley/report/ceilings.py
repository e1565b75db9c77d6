"""How far the numbers are from what the hardware allows, in sentences."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from volley.machine.line_rate import described
from volley.records_io import RunLog
from volley.summary import PointSummary
from volley.text import harmless, several

_SLOWED_BY = (
    "software power cap",
    "hardware slowdown",
    "software thermal slowdown",
    "hardware thermal slowdown",
    "hardware power brake",
)
"""Reasons that hold clocks below what was asked for because of power or heat; an idle GPU's low clocks are no news."""


def share(point: PointSummary) -> str:
    """Say how much of the ceiling a point reaches: ``, 83 % of the ceiling``; nothing where no ceiling is known."""
    return "" if point.of_ceiling is None else f", {point.of_ceiling:.0%} of the ceiling".replace("%", " %")


def sentences(points: Iterable[PointSummary]) -> Iterator[str]:
    """Say what the ceilings are and of what they are made."""
    found: dict[str, dict[str, None]] = {}
    for point in points:
        if point.ceiling:
            found.setdefault(described(point.ceiling), {})[harmless(point.transport)] = None
    if found:
        each = (f"{what} for {several(names)}" for what, names in found.items())
        yield f"ceiling in each direction: {'; '.join(each)} (line rates, packet overhead not taken off)"


def slowed(logs: Iterable[RunLog]) -> Iterator[str]:
    """Say which GPUs were held back by power or heat as a run ended, and which had memory errors."""
    said: dict[str, None] = {}
    for log in logs:
        before = {gpu.uuid: gpu for record in log.hardware if record.when == "before" for gpu in record.gpus}
        for gpu in (gpu for record in log.hardware if record.when == "after" for gpu in record.gpus):
            name = f"GPU {gpu.index} ({harmless(gpu.name or gpu.uuid)})"
            reasons = [reason for reason in gpu.clocks_event_reasons or () if reason in _SLOWED_BY]
            if reasons:
                said[f"{name} was slowed down as the run ended: {several(reasons)}"] = None
            was = before.get(gpu.uuid)
            errors = (gpu.ecc_uncorrected or 0) - (was.ecc_uncorrected or 0 if was else 0)
            if was and errors > 0:
                said[f"{name} had {errors} uncorrected memory errors during the run: do not trust this GPU"] = None
    yield from said
