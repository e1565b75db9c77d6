"""The figures of docs/transports.md: every way between two H200s in one run, from its records."""

from collections.abc import Iterator
from pathlib import Path

from figures import RECORDS, three_digits
from volley.benchmarks import BENCHMARKS
from volley.benchmarks.points.results import PointResult, PointSeries, results
from volley.records.records_file import read_runs
from volley.statistics.launches import ratio
from volley.text import join_words
from volley.units import format_size

SHORT = (8, 4096, 1 << 16, 1 << 20)
"""Shown as times; the longest message of the table as a bandwidth."""
LONG = 1 << 30
LINES = (8, 4096, 1 << 16)
"""Messages of `device` that are lines with flags."""
RATIOS = (8, 4096, 1 << 20, 1 << 26)


GPU_INITIATED = RECORDS.with_name("pingpong-gpu-initiated.jsonl")
ON_H100S = RECORDS.parents[1] / "h100-x2" / "pingpong-after.jsonl.gz"


def _series(records: Path = RECORDS) -> PointSeries:
    (series,) = results(read_runs(records, BENCHMARKS))
    return series


def _sending(series: PointSeries) -> dict[str, dict[int, PointResult]]:
    """The points that send something, by transport and size."""
    found: dict[str, dict[int, PointResult]] = {}
    for point in series.points:
        if point.rate:
            found.setdefault(point.transport, {})[point.size_bytes] = point
    return found


def sending() -> dict[str, dict[int, PointResult]]:
    """Return the points of the run that send something, by transport and size."""
    return _sending(_series())


def every_way_run() -> Iterator[str]:
    """Yield the sentence about the run."""
    series = _series()
    yield f"Two H200s, {len(_sending(series))} transports interleaved in one launch ({_run(series, RECORDS)}):"


def gpu_initiated_run() -> Iterator[str]:
    """Yield the sentence about the run with all transports that a GPU starts."""
    series = _series(GPU_INITIATED)
    launches = len(series.series.logs)
    yield (
        "Half round trips between two H200s. A GPU starts the messages of `device`, `device/word`, `nvshmem` and "
        f"`nccl/device`; the CPU starts all others. {launches} launches of one interleaved "
        f"run ({_run(series, GPU_INITIATED)}):"
    )


def _run(series: PointSeries, path: Path) -> str:
    sending = [point for points in _sending(series).values() for point in points.values()]
    verified = sum(point.verified is True for point in sending)
    checked = f"all {verified}" if verified == len(sending) else f"{verified} of {len(sending)}"
    seconds = sum(log.end.elapsed_s for log in series.series.logs if log.end)
    return f"[records](../results/{path.parent.name}/{path.name}), {checked} points verified, {seconds:.0f} s"


def every_way() -> Iterator[str]:
    """Yield the table of the one launch."""
    return _table(_series())


def gpu_initiated() -> Iterator[str]:
    """Yield the table of several launches."""
    return _table(_series(GPU_INITIATED))


def _table(series: PointSeries) -> Iterator[str]:
    """Yield a table; a number whose interval is wider than was asked for has it beside it."""
    yield f"| half round trip | {' | '.join(format_size(size) for size in (*SHORT, LONG))} |"
    yield "| --- |" + " --- |" * (len(SHORT) + 1)
    yield "| |" + " µs |" * len(SHORT) + " GB/s |"
    for name, points in _sending(series).items():
        cells = [_cell(points.get(size)) for size in (*SHORT, LONG)]
        yield f"| `{name}` | {' | '.join(cells)} |"


def _cell(point: PointResult | None) -> str:
    if point is None or point.latency is None:
        return "–"
    value = point.latency.median * 1e6 if point.size_bytes in SHORT else (point.bandwidth_Bps or 0) / 1e9
    width = point.time.half_width if point.time and point.missed else 0.0
    return three_digits(value) + (f" ± {width:.0%}".replace("%", " %") if width else "")


def on_h100s() -> Iterator[str]:
    """Yield the sentence about the kernels of today, which load an answer after its message."""
    series = _series(ON_H100S)
    device = _sending(series)["device"]
    halves = [(size, point.time.median * 1e6) for size in LINES if (point := device.get(size)) and point.time]
    times = [f"{three_digits(half)} µs at {format_size(size)}" for size, half in halves]
    yield (
        "When this table was measured, `device` and `device/word` loaded an answer before its message had arrived. "
        f"Now they load it after: on two H100s `device` takes {join_words(times)} ({_run(series, ON_H100S)})."
    )


def over_staging() -> Iterator[str]:
    """Yield a table of how many times as fast `aware` is as each way through the host."""
    points = _sending(_series(ON_H100S))
    yield f"| times as fast as | {' | '.join(format_size(size) for size in RATIOS)} |"
    yield "| --- |" + " --- |" * len(RATIOS)
    for name, staged in points.items():
        if name.startswith("staged/"):
            found = [ratio(staged[size].repeated, points["aware"][size].repeated) for size in RATIOS]
            cells = [
                f"{three_digits(each.median)} ({three_digits(each.low)}–{three_digits(each.high)})"
                for each in found
                if each
            ]
            yield f"| `{name}` | {' | '.join(cells)} |"
