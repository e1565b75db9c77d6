"""Figures of docs/method, from records."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from every_way import sending
from volley.benchmarks import BENCHMARKS
from volley.benchmarks.jacobi.results import Solution, solutions
from volley.benchmarks.matrix.cases import GpuMatrixCase
from volley.benchmarks.matrix.records import RankMatrixRow
from volley.benchmarks.matrix.results import results as matrix_results
from volley.records.records_file import read_runs
from volley.statistics.curves import Fit, fit
from volley.statistics.estimates import median
from volley.units import format_sig, format_size

RESULTS = Path(__file__).parents[2] / "results"


def between_gpus() -> Iterator[str]:
    """Yield a row a section of ``volley matrix``: the range over all pairs, and the median within a GPU."""
    yield "| section | | unit | a window | between two | within one |"
    yield "| --- | --- | --- | --- | --: | --: |"
    for case in (
        case
        for series in matrix_results(read_runs(RESULTS / "h200-x2/matrix-all.jsonl", BENCHMARKS))
        for case in series.gpu_cases
    ):
        apart = _numbers(case, within=False)
        within = _numbers(case, within=True)
        window = f"{case.row.window} × {format_size(case.row.size_bytes)}"
        cells = [f"`{case.row.section}`", case.name, case.unit, window, _range(apart)]
        yield f"| {' | '.join(cells)} | {format_sig(median(within)) if within else '–'} |"


def _numbers(case: GpuMatrixCase, *, within: bool) -> list[float]:
    pairs = (pair for pair in case.cells if (pair[0] == pair[1]) is within)
    return [number for pair in pairs if (number := case.shown(pair)) is not None]


def _range(numbers: Iterable[float]) -> str:
    ends = [format_sig(end) for end in (min(numbers), max(numbers))] if (numbers := list(numbers)) else ["–"]
    return "–".join(dict.fromkeys(ends))


FILES = {"h200-x2/jacobi": 1, "h200-x2/jacobi-scaling": 1, "h200-x4/jacobi-scaling": 4}
"""From how many ranks on they are shown: what one and two GPUs do is shown once."""


def jacobi_on_gpus() -> Iterator[str]:
    """Yield what ``volley jacobi`` reached on GPUs: a row a solution, grids of one process first."""
    yield "| GPUs | points each | precision | residual every | transport | ms an iteration | GLU/s | of a copy |"
    yield "| --- | --- | --- | --- | --- | --: | --: | --: |"
    found = [each for name, least in FILES.items() for each in _solved(name) if each.ranks >= least]
    for each in sorted(found, key=lambda one: (one.ranks, one.point.precision, one.check_every)):
        grid, domain = (" × ".join(map(str, pair)) for pair in (each.point.grid, each.point.domain))
        of_copy = f"{100 * each.of_copy:.0f} %" if each.of_copy else "–"
        time_ms, rate = (each.iteration_s or 0) * 1e3, (each.updates_per_s or 0) / 1e9
        cells = [grid, domain, each.point.precision, str(each.check_every), f"`{each.transport}`"]
        yield f"| {' | '.join(cells)} | {format_sig(time_ms, 4)} | {format_sig(rate, 4)} | {of_copy} |"


def _solved(name: str) -> Iterator[Solution]:
    """Yield the solutions of each run of a file; one process alone has no halos, and its first transport stands."""
    for log in read_runs(RESULTS / f"{name}.jsonl", BENCHMARKS):
        good = [each for each in solutions([log]) if each.point.status == "ok"]
        yield from good if not good or good[0].ranks > 1 else good[:1]


RECORDED = ("noise-2-ranks", "noise-4-ranks")


def least_disturbed() -> Iterator[str]:
    """Yield how far visits of a pair of ranks are off, by their median and when disturbed least."""
    falls = [f"from {_off(name, 'medians'):.0%} to {_off(name, 'lows'):.0%}" for name in RECORDED]
    yield (
        "On the bandwidths that were used to choose the limits (`noise-2-ranks`, `noise-4-ranks`) the 95th percentile "
        f"of the deviation of a visit decreases {falls[0]} with 2 ranks and {falls[1]} with 4 ranks "
        "([records](../../results/README.md))."
    ).replace("%", " %")


def _off(name: str, which: str) -> float:
    """The 95th percentile of a visit's distance from what is usual for its pair, as a fraction of that."""
    times: dict[tuple[int, int], list[float]] = {}
    rows = [
        row for log in read_runs(RESULTS / "two-cores" / f"{name}.jsonl", BENCHMARKS) for row in log.of(RankMatrixRow)
    ]
    for row in (row for row in rows if row.pattern == "stream"):
        for second, number in zip(row.partners, getattr(row, which), strict=True):
            times.setdefault((row.rank, second), []).append(number * row.unit_s)
    off = sorted(abs(time / median(those) - 1) for those in times.values() for time in those)
    return off[len(off) * 95 // 100]


# The lines through the curves of two H200s (comparing.md).


def fits() -> dict[str, tuple[list[int], list[float], Fit]]:
    """Return sizes, half round trips and the line of each transport that has one."""
    found = {}
    for name, points in sending().items():
        sizes, times = list(points), [point.latency.median for point in points.values() if point.latency]
        line = fit(sizes, times)
        if isinstance(line, Fit):
            found[name] = sizes, times, line
    return found


def aware_line() -> Iterator[str]:
    """Yield how a line by squares and the line that is drawn describe the curve of ``aware``."""
    sizes, times, line = fits()["aware"]
    latency_s, off = by_squares(sizes, times)
    yield (
        f"On two H200s, `aware` sends up to 2 KiB eagerly. Least squares give α = {latency_s * 1e6:.1f} µs and a "
        f"median deviation of {off:.0%}; least absolute deviations give α = {line.latency_s * 1e6:.1f} µs, a median "
        f"deviation of {line.median_deviation:.1%} and a largest deviation of "
        f"{abs(line.worst_deviation):.0%}, which is printed."
    ).replace("%", " %")


def poor_lines() -> Iterator[str]:
    """Yield how many of the curves are no lines."""
    lines = [line for _, _, line in fits().values()]
    yield f"Many lines are poor: {sum(line.poor for line in lines)} of {len(lines)} on two H200s."


def by_squares(sizes: Sequence[int], times: Sequence[float]) -> tuple[float, float]:
    """Return α of the line with the least sum of (t(n) / measured - 1)², and its median deviation."""
    ones, slopes = [1 / t for t in times], [n / t for n, t in zip(sizes, times, strict=True)]
    aa, ab, bb = (
        sum(x * y for x, y in zip(*pair, strict=True)) for pair in ((ones, ones), (ones, slopes), (slopes, slopes))
    )
    a, b = sum(ones), sum(slopes)
    latency = (a * bb - b * ab) / (aa * bb - ab * ab)
    slope = (b * aa - a * ab) / (aa * bb - ab * ab)
    return latency, median([abs((latency + n * slope) / t - 1) for n, t in zip(sizes, times, strict=True)])
