"""The layers of one machine: which benchmarks measure them, and what their records say."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import NamedTuple

import numpy as np

from volley import benchmarks
from volley.benchmarks import BENCHMARKS
from volley.benchmarks.matrix import GPUS
from volley.benchmarks.matrix.cases import HOST, GpuMatrixCase
from volley.benchmarks.matrix.results import results as matrix_results
from volley.benchmarks.matrix.slow_pairs import Pair
from volley.check import judgement
from volley.check.evidence import Judgement, Places, Visits, joined
from volley.check.findings import LEARN, NAMED, Again, CheckFinding
from volley.check.limits import Site
from volley.check.neighbors import FEWEST as SMALLEST
from volley.check.options import GPUS_S, MACHINE_S
from volley.machine.finding import Verdict
from volley.machine.hardware import Gpu
from volley.machine.health import faults
from volley.machine.transports import family_of, without_fault
from volley.records.launch_series import LaunchSeries
from volley.records.plan import OUT_OF_TIME
from volley.records.run_log import RunLog
from volley.references import beside_words
from volley.references.equal_machines import Ratios, measured, ratios_of
from volley.run.benchmark import Benchmark
from volley.run.machine_notes import Busy, few_cpus, without_core
from volley.statistics.by_group import group_quantile
from volley.statistics.estimates import median
from volley.text import count, grouped, join_few
from volley.units import format_size, numbered

NEAR, CORES_NEAR = 1.1, 1.5
"""A published result is of one machine and has no interval: this many times its time passes, of a GPU or of a core."""
OF_LINE_RATE = 0.7
"""Copies between GPUs, and with the host, reach 75 to 90 % of the line rate (`results`): less than this is no PASS."""
MAYBE = Busy("others may use these cores")
TIMES = 3
"""How often the matrix of GPUs is measured: a pair that is slow each time is slow."""
LEAST_S, CELL_S = 8.0, 0.2
"""The least time of a launch of that matrix, and the time of a cell: 0.14 s (`results/h200-x2/check.jsonl.gz`)."""
USUAL_PER_S = {"PCIe replays": 8 / 60, "NVLink CRC errors": 100.0, "NVLink CRC of data errors": 100.0}
"""Corrected errors of a GPU: up to these rates they are no fault, as NVIDIA's DCGM judges (dcgm_gpu_hardware_limits.h).
Two healthy H100s count 10 to 50 CRC errors of data a second."""


@dataclass(frozen=True)
class Layer:
    """What is measured: a command line of volley, which may be typed to measure more of it."""

    name: str
    words: tuple[str, ...]
    times: int = 1
    of_cores: bool = False
    """Others may use the cores, and a virtual machine hides which they are: a slow one is reported and not judged."""
    started_by_cores: tuple[str, ...] = ()
    """Ends of the names of points between GPUs that take the time of the cores that start them: judged as of cores."""

    @property
    def command(self) -> str:
        return shlex.join(["volley", *self.words])

    def measures(self, name: str) -> bool:
        """Return whether it measures what has this name in a file of limits: ``pingpong: host, 8 B``."""
        benchmark, asked = benchmarks.read(self.words)
        of, _, place = name.partition(": ")
        if of != benchmark.name or "--sizes" not in self.words:
            return of == benchmark.name
        return is_place(place, asked.named_transports, asked.points.sizes)


def is_place(place: str, transports: Iterable[str], sizes_bytes: Iterable[int]) -> bool:
    """Return whether a place such as ``allreduce host, 1 MiB`` is of one of these transports and sizes."""
    series, _, size = place.rpartition(", ")
    transport = series.rpartition(" ")[2]
    return transport in map(without_fault, transports) and size in map(format_size, sizes_bytes)


def matrix_s(gpus: int) -> float:
    """Return the time for a launch of the matrix of GPUs: two matrices, and both ways between each GPU and the host."""
    return max(LEAST_S, CELL_S * (2 * gpus**2 + 2 * gpus))


def usual_s(gpus: int | None) -> float:
    """Return the time of a check of one machine without ``--budget``; ``gpus``: ``None`` without a driver."""
    return MACHINE_S if gpus is None else GPUS_S + TIMES * (matrix_s(gpus) - LEAST_S)


START = ("--mpi", "--launcher", "--launcher-arg")
"""Options of a check that its layers have too: the MPI that is asked about is the one that is judged."""


def layers(gpus: int, named: Sequence[str] = (), asked: Iterable[Sequence[str]] = ()) -> list[Layer]:
    """Return the layers of a machine with so many GPUs.

    Args:
        gpus: their number.
        named: the transports that the user asked for.
        asked: the options of the check.
    """
    start = (f"{name}={value}" for name, *values in asked if name in START for value in values)
    short = ("--launches", "3", "--point-time", "0.05", *start)
    found = [
        Layer(
            "messages in host memory", ("pingpong", "--transport", "host", "--sizes", "8,64k,1M", *short), of_cores=True
        ),
        Layer(
            "allreduce in host memory",
            ("collective", "--operation", "allreduce", "--transport", "host", "--sizes", "1M", *short),
            of_cores=True,
        ),
    ]
    if gpus:
        sections = "host-to-gpu,gpu-to-host" + (",uni,uni/kernel" if gpus > 1 else "")
        budget = f"{matrix_s(gpus):.0f}"
        words = ("matrix", "--section", sections, "--point-time", "0.02", "--budget", budget, "--no-remeasure")
        found.append(Layer("GPUs: host, copy engines, kernels", words, TIMES))
    if gpus > 1:
        allreduce = ("collective", "--operation", "allreduce", "--transport", "nccl", "--ranks", str(gpus))
        aware = ",".join(dict.fromkeys(each for each in named if family_of(without_fault(each)) == "aware")) or "aware"
        found += [
            Layer(
                "MPI on device memory",
                ("pingpong", "--transport", aware, "--sizes", "8,64M", *short),
                started_by_cores=(", 8 B",),
            ),
            Layer("NCCL allreduce", (*allreduce, "--sizes", "64M", *short)),
        ]
    return found


class Section(NamedTuple):
    """A matrix of GPUs."""

    name: str
    gpus: list[int]
    launches: list[GpuMatrixCase]
    judged: Judgement
    """What the launches say of the GPUs, as ranks in this order."""


def judge(
    layer: Layer, benchmark: Benchmark, logs: Sequence[RunLog], site: Site | None, again: Again
) -> Iterator[CheckFinding]:
    """Say what the launches of a layer say."""
    finding = partial(CheckFinding, layer=layer.name)
    if any("failed" in log.statuses for log in logs):
        yield finding(status="FAIL", said="wrong data arrived", evidence="data", remedy=layer.command)
        return
    unavailable = {each.transport: each.reason for log in logs for each in log.transports if not each.available}
    for transport, reason in unavailable.items():
        yield finding(status="NOT POSSIBLE", said=f"{transport}: {reason}", remedy="volley doctor")
    times = measured(benchmark, logs)
    if not times or not whole(logs):
        if not unavailable and any(log.run for log in logs):  # why none began is a finding already
            late, few = any(log.out_of_time for log in logs), next(filter(None, map(few_cpus, logs)), None)
            why, how = (f": {OUT_OF_TIME}", again.longer) if late else ("", layer.command)
            if late and few:
                why, how = f"{why}, because {few.said}", f"{few.without}: {again.quiet}; or {how}"
            yield finding(status="UNDECIDED", said=f"not everything was measured{why}", remedy=how)
        return
    sections = list(_sections(benchmark, logs))
    together = [case for result in matrix_results(logs) for case in result.gpu_cases] if sections else []
    slow = list(_slow(layer, sections, {(case.name, each.pair) for case in together for each in case.suspects}))
    yield from slow
    ratios = ratios_of(benchmark, logs, BENCHMARKS, of_cores=layer.of_cores)
    others = busy(layer, logs, ratios)
    if site is not None:
        yield site.judge(layer.name, times, others)
    elif ratios:
        yield _by_reference(layer, ratios, again, others)
    elif not slow:
        yield _by_hardware(layer, sections, len(times), others, again)


def whole(logs: Sequence[RunLog]) -> bool:
    """Return whether the launches measured all that could be measured here."""
    return all(log.good and not log.out_of_time for log in logs)


def busy(layer: Layer, logs: Sequence[RunLog], ratios: Ratios | None) -> Busy | None:
    """Say why ranks of a layer that is of cores were, or may have been, without them."""
    if not layer.of_cores:
        return None
    slow = ratios is not None and any(min(each) > CORES_NEAR for each in ratios.at.values())
    return without_core(logs) or (MAYBE if slow else None)


def _by_hardware(
    layer: Layer, sections: Sequence[Section], points: int, others: Busy | None, again: Again
) -> CheckFinding:
    """Judge without limits and references: the GPUs by each other if these are enough, else by their links."""
    finding = partial(CheckFinding, layer=layer.name, evidence="population")
    learn = f"{LEARN}: {again.learn}"
    of_gpus = [section.judged for section in sections if len(section.gpus) >= SMALLEST]
    if any(each.open or each.missing for each in of_gpus):
        why = "the data cannot show whether a GPU is slower than the others"
        return finding(status="UNDECIDED", said=why, remedy=learn)
    if of_gpus:
        seen = max(each.seen_from for each in of_gpus)
        why = f"a GPU slower than the others by {math.ceil(seen * 100)} % would have been found"
        return finding(status="PASS", said=why)
    best: dict[tuple[str, Pair], float] = {}
    for section in sections:
        for case in section.launches:
            shares = {(section.name, pair): case.of_line_rate(pair) or 0.0 for pair in case.line_rates}
            best |= {pair: max(share, best.get(pair, 0.0)) for pair, share in shares.items()}
    if not best:
        its = "its" if points == 1 else "their"
        why = f"{count(points, 'point')} correct; {its} speed is not judged: there is nothing to compare it with"
        how = f"{others.without}: {again.quiet}" if others else learn
        why += f"; {others.said}" if others else ""
        return finding(status="NOT JUDGED", said=why, evidence="none", remedy=how)
    low = sorted(f"{name}, {_pair(pair)}" for (name, pair), share in best.items() if share < OF_LINE_RATE)
    why = f"copies reach {min(best.values()) * 100:.0f} % of the line rate of their links, or more"
    why += f"; less than {OF_LINE_RATE * 100:.0f} %"
    if low:
        why += f": {join_few(low, NAMED)}"
        return finding(status="UNDECIDED", said=why, evidence="line rate", remedy="volley topo")
    return finding(status="PASS", said=f"{why} would not pass", evidence="line rate")


def _sections(benchmark: Benchmark, logs: Sequence[RunLog]) -> Iterator[Section]:
    """Judge the GPUs as nodes are judged, in each of their matrices; those with the host have other ends."""
    launches = [case for log in logs for result in matrix_results([log]) for case in result.gpu_cases]
    for name, cases in grouped(launches if benchmark is GPUS else (), lambda case: case.name).items():
        gpus = sorted({gpu for case in cases for gpu in case.firsts})
        yield Section(name, gpus, cases, Judgement() if gpus == [HOST] else _judged(cases, gpus))


def _judged(cases: Sequence[GpuMatrixCase], gpus: Sequence[int]) -> Judgement:
    """Judge the GPUs of a matrix by its launches; what is compared is the time over the median of its kind of pairs."""
    visits = []
    for launch, case in enumerate(cases):
        there = np.nonzero(~np.isnan(case.times_s))
        time_s, kind, no = case.times_s[there], case.kinds.numbers[there], np.zeros(len(there[0]), bool)
        ratio = time_s / group_quantile(kind, time_s, 0.5, len(case.kinds.names))[kind]
        first, second = (np.searchsorted(gpus, np.array(case.firsts)[ends]) for ends in there)
        visits.append(Visits(first, second, np.full(len(no), launch), np.zeros(len(no), int), ratio, no))
    number = np.arange(len(gpus))
    places = Places(number, np.zeros((len(gpus), 1), int), np.zeros_like(number))  # all are neighbors
    return judgement.judge(joined(*visits), places, one_way=False, shared_nodes=True)


def _slow(layer: Layer, sections: Sequence[Section], lasting: Set[tuple[str, Pair]]) -> Iterator[CheckFinding]:
    """Name slow GPUs, and pairs of others that were slower than comparable pairs in every launch, and in some.

    ``lasting``: sections and pairs that were slow by more than the launches differ.
    """
    finding = partial(CheckFinding, layer=layer.name, evidence="population")
    for name, gpus, cases, judged in sections:
        slow: set[int] = set()
        for part in judged.bad:
            numbers = [gpus[rank] for rank in part.ranks]
            slow.update(numbers)
            often = "at times " if part.state == "at times" else ""
            why = f"{name}: {often}{(part.slower or 0) * 100:.0f} % slower than the other GPUs"
            yield finding(status="FAIL", part=numbered("GPU", numbers), said=why)
        pairs = [{each.pair: each.ratio for each in case.suspects if slow.isdisjoint(each.pair)} for case in cases]
        for pair in dict.fromkeys(pair for launch in pairs for pair in launch):
            ratios = [launch[pair] for launch in pairs if pair in launch]
            always = len(ratios) == len(cases) >= TIMES and (name, pair) in lasting
            yield finding(
                status="FAIL" if always else "UNDECIDED",
                part=f"GPUs {_pair(pair)}",
                said=f"{name}: {(median(ratios) - 1) * 100:.0f} % slower than comparable pairs in {len(ratios)} of "
                f"{count(len(cases), 'launch')}",
                remedy="" if always else layer.command,
            )


def _by_reference(layer: Layer, ratios: Ratios, again: Again, others: Busy | None) -> CheckFinding:
    name, places = f"the reference {ratios.reference}", ratios.at
    every = [*chain.from_iterable(places.values())]
    finding = partial(CheckFinding, layer=layer.name, evidence="reference")
    of_times = f"(median of {count(len(every), 'time')})"
    near = {place: CORES_NEAR if layer.of_cores or place.endswith(layer.started_by_cores) else NEAR for place in places}
    # What disturbs does not hit each launch; where it hits most of them nothing is known.
    always = sorted(place for place, each in places.items() if min(each) > near[place])
    slow = always or sorted(place for place, each in places.items() if median(each) > near[place])
    if not slow:
        limits = sorted({f"{(each - 1) * 100:.0f} %" for each in near.values()})
        usual = f"{beside_words(median(every), name)} {of_times}"
        return finding(status="PASS", said=f"{usual}; {' or '.join(limits)} slower would not pass")
    least = min(near[place] for place in slow)
    launches = "every launch" if always else "half of the launches or more, and not in all"
    names = join_few((" at ".join(place.rsplit(", ", 1)) for place in slow), NAMED)
    why = f"{names} {'is' if len(slow) == 1 else 'are'} more than {(least - 1) * 100:.0f} % slower than {name} in "
    why += f"{launches}; all points together are {beside_words(median(every), 'it')} {of_times}"
    verdict: Verdict = "UNDECIDED"
    how = f"{LEARN}: {again.learn}; or {layer.command}"
    if least == CORES_NEAR:
        others = others or MAYBE
        verdict, why = "NOT JUDGED", f"the data is correct; the speed is not judged, because {others.said}: {why}"
        how = how if others == MAYBE else f"{others.without}: {again.quiet}"
    return finding(status=verdict, said=why, remedy=how)


def _pair(pair: Pair) -> str:
    return " → ".join("host" if gpu == HOST else str(gpu) for gpu in pair)


def states(logs: Sequence[RunLog], again: Again) -> Iterator[CheckFinding]:
    """Say what NVML says of the GPUs before and after the launches, and what it counted meanwhile."""
    before = {gpu.uuid: gpu for log in reversed(logs) for gpu in log.gpus("before")}
    after = {gpu.uuid: gpu for log in logs for gpu in log.gpus("after")}
    finding, good = partial(CheckFinding, layer="state of the GPUs", evidence="link state"), bool(after)
    found = [{(each.gpu, each.part, each.end): each for each in faults([*gpus.values()])} for gpus in (before, after)]
    for key, fault in (found[0] | found[1]).items():
        always = key in found[0] and key in found[1]
        good = False
        fails = fault.broken or (always and fault.part == "clocks" and fault.end == "look")
        yield finding(
            status="FAIL" if fails else "UNDECIDED",
            part=f"GPU {fault.gpu}",
            said=f"{fault.part}: {fault.said}{'' if always else ', before or after the measurement only'}",
            remedy="" if fails else again() if fault.end == "look" else "volley doctor",
        )
    seconds = max(1.0, LaunchSeries(tuple(logs)).span_s or 0.0)
    for uuid, gpu in after.items():
        first = before.get(uuid, gpu)
        if first.processes:
            good = False
            why, how = "another program computes on it", f"while nothing else runs there: {again.quiet}"
            yield finding(status="UNDECIDED", part=f"GPU {gpu.index}", said=why, remedy=how)
        for name, number in _growth(first, gpu):
            usual = USUAL_PER_S.get(name, 0.0)
            if number > usual * seconds:
                good = False
                why = f"{name}: {number:g} more than before in {seconds:.0f} s"
                why += f"; good GPUs count up to {usual * seconds:.0f} in this time" if usual else ""
                how = f"{again()}: a number that keeps growing is a fault"
                yield finding(status="UNDECIDED", part=f"GPU {gpu.index}", said=why, remedy=how)
    if good:
        yield finding(status="PASS", said=f"links, clocks and memory of {count(len(after), 'GPU')} have no fault")


def _growth(before: Gpu, after: Gpu) -> Iterator[tuple[str, float]]:
    """Yield what was counted between two readings."""
    pairs = {
        "PCIe replays": (before.pcie_replays, after.pcie_replays),
        "seconds of thermal slowdown": (before.thermal_slowdown_s, after.thermal_slowdown_s),
    }
    for name, number in (after.nvlink_errors or {}).items():
        pairs[f"NVLink {name} errors"] = (before.nvlink_errors or {}).get(name, number), number
    for name, (first, last) in pairs.items():
        if first is not None and last is not None and last > first:
            yield name, last - first
