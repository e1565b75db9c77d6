"""volley's own records as figures, in the units of the other programs' figures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from volley import nodes
from volley.matrices import Sheet, sheets
from volley.records_io import RunLog
from volley.report import scaling
from volley.solution import solutions
from volley.benchmarks.points.results import PointResult, results


def figures(logs: Sequence[RunLog]) -> dict[str, float]:
    """Return what the runs measured.

    ``TRANSPORT SIZE`` is a half round trip, or of a stream bytes per second (both ways: the total); ``TRANSPORT SIZE
    FIRST SECOND`` the same of a pair of a matrix; ``SECTION FIRST SECOND`` that of a pair of a node's GPUs; ``TRANSPORT
    updates`` the lattice updates per second of a solution, that of the largest grid where there are several;
    ``TRANSPORT beyond`` the seconds that its iteration took beyond an equal share of one process's.
    ``settled`` is the share of points whose interval came to what was asked for.  What is not ``ok`` has no figure.
    """
    points = [point for series in results(logs) for point in series.points]
    found = {f"{point.transport} {point.size_bytes}": value for point in points for value in _value(point)}
    found.update((name, value) for sheet in sheets(logs) for name, value in _cells(sheet))
    found.update((name, value) for sheet in nodes.sheets(logs) for name, value in _gpus(sheet))
    solved = [each for log in logs for each in solutions([log]) if each.status == "ok"]  # a grid has a log of its own
    for each in sorted(solved, key=lambda each: each.ranks):
        if each.overall_updates_per_s:
            found[f"{each.transport} updates"] = each.overall_updates_per_s
    for chain in scaling.steps(solved):
        found[f"{chain[-1].solution.transport} beyond"] = chain[-1].beyond_s
    if points:
        found["settled"] = sum(point.status == "ok" and point.ended_by == "ci" for point in points) / len(points)
    return found


def _value(point: PointResult) -> Iterator[float]:
    value = point.latency.median if point.latency else point.bandwidth_Bps
    if point.status == "ok" and value is not None:
        yield value


def _cells(sheet: Sheet) -> Iterator[tuple[str, float]]:
    for pair, seconds in sheet.times.items():
        value = seconds if sheet.exercise == "pingpong" else sheet.rate_Bps(pair)
        if value is not None:
            yield f"{sheet.transport} {sheet.size_bytes} {pair[0]} {pair[1]}", value


def _gpus(sheet: nodes.Sheet) -> Iterator[tuple[str, float]]:
    for pair, cell in sheet.cells.items():
        value = sheet.rate_Bps(pair) if sheet.row.figure == "bandwidth" else sheet.time_s(pair)
        if cell.status == "ok" and value is not None:
            yield f"{sheet.row.section} {pair[0]} {pair[1]}", value
