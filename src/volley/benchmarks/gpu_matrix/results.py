"""Compute the cases of matrices between GPUs: one case for each section, with kinds of pairs and slow pairs.

All quantities are in SI units: seconds and bytes per second.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter

import msgspec

from volley.benchmarks.gpu_matrix.records import GpuMatrixCell, GpuMatrixGpus, GpuMatrixRow
from volley.benchmarks.shared.matrix.case import MatrixCase, Unmeasured
from volley.benchmarks.shared.matrix.comparable_pairs import FLAG_FROM, Pair, compare, matrix_of, suspects
from volley.grouping import grouped
from volley.machine.hardware import Device
from volley.machine.line_rate import LineRate, between
from volley.machine.transports import Route
from volley.run.benchmark import Observable
from volley.run.launch_series import LaunchSeries, request_of, series_of
from volley.run.run_log import RunLog
from volley.statistics.launches import of_observations

HOST = -1
"""The number of the host, in the place of a GPU's number."""

WITHIN = "within a GPU"
"""The kind of a GPU with itself."""

_COUNTS = ("samples", "elapsed_s", "messages_timed", "messages_verified")
"""Fields of a cell that are added over launches."""


@dataclass(frozen=True, kw_only=True)
class GpuMatrixCase(MatrixCase):
    """One section: one metric between all GPUs, or between them and the host."""

    row: GpuMatrixRow
    """Any of its rows, for the fields that all rows share."""
    cells: Mapping[Pair, GpuMatrixCell]
    """Of all pairs, in order."""


@dataclass(frozen=True)
class GpuMatrixResults:
    """The GPUs of one series of runs, and what was measured between them."""

    series: LaunchSeries
    cases: tuple[GpuMatrixCase, ...]
    devices: Sequence[Device]
    """Of the first run that has some, in CUDA's order."""
    numbers: Mapping[str, int]
    """The number of each GPU by UUID."""
    access: Mapping[Pair, bool | None]
    """Whether a GPU can access the memory of another one, or its own; ``None``: the record does not say."""
    reasons: Sequence[str]
    """Why there are no GPUs."""

    @property
    def unreachable(self) -> list[Pair]:
        return [pair for pair, can in self.access.items() if can is False]


def results(logs: Sequence[RunLog]) -> list[GpuMatrixResults]:
    """Return the results of each series of runs that see the same GPUs."""
    return [_results(each) for each in series_of(logs, lambda log: (request_of(log), _gpus(log)))]


def _gpus(log: RunLog) -> tuple[str, ...]:
    return tuple(sorted(device.uuid for record in log.of(GpuMatrixGpus) for device in record.devices))


def observables(log: RunLog) -> Iterator[Observable]:
    """Yield the time of each pair of GPUs in each section."""
    for result in results([log]):
        for case in result.cases:
            for (first, second), seconds in case.times.items():
                ends = ["host" if end == HOST else str(end) for end in (first, second)]
                if case.row.ends == "gpu to host":
                    ends.reverse()
                yield Observable(case.name, [" → ".join(ends)], [seconds], case.moved_bytes)


def _results(series: LaunchSeries) -> GpuMatrixResults:
    """Return the sections in the order in which they were measured."""
    logs = series.logs
    gpus = [record for log in logs for record in log.of(GpuMatrixGpus)]
    devices = next((record.devices for record in gpus if record.devices), [])
    numbers = _numbers(devices, logs)
    sections = grouped((row for log in logs for row in log.of(GpuMatrixRow)), attrgetter("section"))
    return GpuMatrixResults(
        series=series,
        cases=tuple(_case(rows, numbers, logs) for rows in sections.values()),
        devices=devices,
        numbers=numbers,
        access={
            (numbers[one.uuid], numbers[two.uuid]): record.can(first, second)
            for record in gpus[:1]
            for first, one in enumerate(record.devices)
            for second, two in enumerate(record.devices)
        },
        reasons=[record.reason for record in gpus if record.reason],
    )


def _numbers(devices: Sequence[Device], logs: Sequence[RunLog]) -> dict[str, int]:
    """Number the GPUs by UUID, whatever CUDA_VISIBLE_DEVICES made of their order.

    The numbers are NVML's if they are known; else PCI addresses are counted.
    """
    known = {gpu.uuid: gpu.index for log in logs for record in log.hardware for gpu in record.gpus}
    if all(device.uuid in known for device in devices):
        return {device.uuid: known[device.uuid] for device in devices}
    ordered = sorted({device.uuid: device for device in devices}.values(), key=lambda device: device.pci)
    return {device.uuid: number for number, device in enumerate(ordered)}


def _over_launches(cells: Sequence[GpuMatrixCell]) -> GpuMatrixCell:
    """Return the cell of a pair: the median of the medians of its launches; one failure fails it."""
    worst = min(cells, key=lambda cell: ("failed", "skipped", "ok").index(cell.status))
    times_s = [cell.median_s for cell in cells if cell.median_s]
    if len(cells) == 1 or worst.status != "ok" or not times_s:
        return worst
    time = of_observations(times_s)
    sums = {name: sum(getattr(cell, name) for cell in cells) for name in _COUNTS}
    return msgspec.structs.replace(worst, median_s=time.median, low_s=time.low, high_s=time.high, **sums)


def _case(rows: Sequence[GpuMatrixRow], numbers: Mapping[str, int], logs: Sequence[RunLog]) -> GpuMatrixCase:
    gpus = dict(numbers)
    for uuid in (each for row in rows for each in (row.gpu, *(cell.gpu for cell in row.cells)) if each is not None):
        gpus.setdefault(uuid, len(gpus))  # of a run whose record of GPUs is missing
    measured: dict[Pair, list[GpuMatrixCell]] = {}
    line_rates: dict[Pair, LineRate] = {}
    kinds: dict[Pair, str] = {}
    for row, cell in ((each, cell) for each in rows for cell in each.cells):
        pair = (HOST if row.gpu is None else gpus[row.gpu], gpus[cell.gpu])
        measured.setdefault(pair, []).append(cell)
        if row.gpu == cell.gpu:
            kinds[pair] = WITHIN
            continue
        route: Route = "direct" if cell.peer_access else "staged"  # without peer access, CUDA copies through the host
        ends = (row.gpu or cell.gpu, cell.gpu)
        rate = next((found for log in logs if (found := between(route, ends, log.hardware))), None)
        kinds[pair] = "host" if pair[0] == HOST else "peer access" if cell.peer_access else "through the host"
        if rate:
            line_rates[pair] = rate
            kinds[pair] += f", {rate.over} {rate.words}"
    cells = {pair: _over_launches(measured[pair]) for pair in sorted(measured)}
    times_s, kinds_of = matrix_of({pair: cell.median_s for pair, cell in cells.items() if cell.median_s}, kinds)
    comparison, first = compare(times_s, kinds_of), rows[0]
    good = [cell for cell in cells.values() if cell.status == "ok"]
    slow = []
    for each in suspects(comparison, comparison):
        low_s, median_s = cells[each.pair].low_s, cells[each.pair].median_s
        if low_s and median_s and each.ratio * low_s / median_s > FLAG_FROM:  # the whole interval of its time is slow
            slow.append(each)
    return GpuMatrixCase(
        name=first.title,
        row=first,
        direction=first.direction,
        moved_bytes=first.moved_bytes,
        shows_rate=first.metric == "bandwidth",
        verified=bool(good) and all(cell.messages_verified > 0 for cell in good),
        times_s=times_s,
        cells=cells,
        unmeasured={
            pair: Unmeasured(cell.status, cell.reason) for pair, cell in cells.items() if cell.median_s is None
        },
        line_rates=line_rates,
        comparison=comparison,
        suspects=tuple(slow),
    )
