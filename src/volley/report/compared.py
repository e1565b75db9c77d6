"""The two tables below the measured ones: speed-ups over the baseline, and a line through each curve."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from rich.console import Console

from volley.comparison import curves
from volley.fits import POOR, Fit
from volley.report.layout import Column, Group, print_groups
from volley.sizes import approximate_size, format_size
from volley.summary import PointSummary, Series, Speedup, baseline
from volley.text import digits, harmless

_NOT_MPI = "*"
"""Marks a transport beside MPI where its full label would take too much room."""


def print_speedups(console: Console, points: Sequence[PointSummary], series: Series) -> list[str]:
    """Print the speed-ups of one table: a row a size, a column a transport.

    Returns:
        The legend; empty where there are none, and nothing is printed.
    """
    found = {(point.transport, point.size_bytes): point.speedup for point in points if point.speedup}
    if not found:
        return []
    sizes = sorted({size for _, size in found})
    names = list(dict.fromkeys(name for name, _ in found))
    columns = []
    for name in names:
        here = [found.get((name, size)) for size in sizes]
        styles = ["" if one is None or one.shown else "dim" for one in here]
        columns.append(Column([*_broken(name, series), "×"], _factors(here), styles))
    print_groups(console, "size", [format_size(size) for size in sizes], [Group([column]) for column in columns])
    return ["; ".join(_about_speedups(points, list(found.values()), names, series))]


def _broken(name: str, series: Series) -> list[str]:
    """A transport's name on two lines where it has a variant: ``staged/`` and ``pinned``."""
    family, slash, variant = harmless(name).partition("/")
    mark = _mark(name, series)
    return [family + slash, variant + mark] if slash else [family + mark]


def _mark(name: str, series: Series) -> str:
    transport = series.transports.get(name)
    return "" if transport is None or transport.mpi else _NOT_MPI


def _factors(speedups: Sequence[Speedup | None]) -> list[str]:
    """A tilde stands before what may as well be 1."""
    return ["" if one is None else ("" if one.shown else "~") + digits(one.ratio, 3) for one in speedups]


def _about_speedups(
    points: Sequence[PointSummary], speedups: Sequence[Speedup], names: Sequence[str], series: Series
) -> Iterator[str]:
    over = harmless(baseline(points) or "")
    yield f"×: how many times as fast as {over}"
    if not all(one.shown for one in speedups):
        yield "~: the intervals overlap, neither is shown to be faster"
    if any(_mark(name, series) for name in names):
        yield f"{_NOT_MPI} not MPI"


# --------------------------------------------------------------------------------------------------- curves


def print_lines(console: Console, points: Sequence[PointSummary], series: Series) -> list[str]:
    """Print the line through each curve of one table, a row a transport.  A single one is told in a sentence instead.

    Returns:
        The legend; empty where nothing is printed.
    """
    found = curves(points)
    lines = [curve.fit for curve in found]
    if len(found) < 2 or not any(lines):
        return []
    names = [harmless(curve.transport) + _mark(curve.transport, series) for curve in found]
    groups = [_group(_LINE, lines, "t(n) = α + n/β"), _group(_DEVIATION, lines, "off by")]
    print_groups(console, "transport", names, groups, "left")
    return ["; ".join(_about_lines(lines, names))]


_Cell = Callable[[Fit], str]

_LINE: list[tuple[list[str], _Cell]] = [
    (["α", "µs"], lambda fit: digits(fit.latency_s * 1e6, 3)),
    (["β", "GB/s"], lambda fit: digits(fit.bandwidth_Bps / 1e9, 3)),
    (["n½", ""], lambda fit: approximate_size(fit.half_bandwidth_bytes)),
]
_DEVIATION: list[tuple[list[str], _Cell]] = [
    (["median", "%"], lambda fit: digits(fit.median_deviation * 100, 2)),
    (["worst", "%"], lambda fit: digits(abs(fit.worst_deviation) * 100, 2)),
    (["at", ""], lambda fit: format_size(fit.worst_size_bytes)),
    (["", ""], lambda fit: "poor" if fit.poor else ""),
]


def _group(columns: Sequence[tuple[list[str], _Cell]], fits: Sequence[Fit | None], title: str) -> Group:
    """Columns of one row a fit; a dash in the first column where there is none."""
    shown = []
    for number, (header, cell) in enumerate(columns):
        cells = [("–" if number == 0 else "") if fit is None else cell(fit) for fit in fits]
        shown.append(Column(header, cells, ["dim" if fit is None or fit.poor else "" for fit in fits]))
    return Group(shown, title)


def _about_lines(lines: Sequence[Fit | None], names: Sequence[str]) -> Iterator[str]:
    yield "line of the least mean relative deviation; n½ = α·β"
    if any(fit and fit.poor for fit in lines):
        yield f"poor: off by more than {POOR * 100:g} % somewhere, so α and β do not stand for the whole curve"
    if None in lines:
        yield "–: the sizes measured do not show both terms"
    if any(name.endswith(_NOT_MPI) for name in names):
        yield f"{_NOT_MPI} not MPI"
