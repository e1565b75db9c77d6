"""The layers of one machine: which benchmarks measure them, and what their records say.

The limits of a site are learned from what good nodes measured, with a stated rate of false alarms.  The logarithms of
the times of good nodes are taken as normal.  The limit is the end of the prediction interval of one further good node
(G. J. Hahn, W. Q. Meeker, Statistical Intervals, 4.8): mean + t · s · √(1 + 1/n), with Student's t at the probability
of a false alarm divided by the number of times that are judged (Bonferroni).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

import msgspec
import numpy as np

from volley import benchmarks, references
from volley.benchmarks.matrix import GPUS
from volley.benchmarks.matrix.cases import HOST, GpuMatrixCase
from volley.benchmarks.matrix.results import results as matrix_results
from volley.check import judgement
from volley.check.cluster import joined
from volley.check.evidence import SMALLEST, Places, Visits, group_quantile
from volley.check.findings import NAMED, CheckFinding, Verdict, slower_words
from volley.check.judgement import Judgement
from volley.document import Frozen, PositiveSeconds
from volley.errors import UserError
from volley.files import write_file
from volley.machine.hardware import SLOWDOWNS, Gpu
from volley.machine.health import nvlinks_down
from volley.machine.transports import family_of, without_fault
from volley.records.launch_series import LaunchSeries, launches_of
from volley.records.records_file import read_runs
from volley.records.run_log import Observable, RunLog
from volley.records.saved_runs import own_references
from volley.references import beside_words
from volley.run.benchmark import Benchmark
from volley.statistics.estimates import median
from volley.text import count, grouped, join_few, join_words
from volley.units import format_cpulist

FALSE_ALARM = 0.01
"""The probability that a good node is above any of its limits."""
FEWEST = 5
"""Good nodes, or checks of one, that a limit needs."""
NEAR = 1.05
"""A published result is of one machine and has no interval: this many times its time passes, more is undecided."""
TIMES = 3
"""How often the matrix of GPUs is measured: a pair that is slow each time is slow."""
USUAL_PER_S = {"PCIe replays": 8 / 60, "NVLink CRC errors": 100.0, "NVLink CRC of data errors": 100.0}
"""Corrected errors of a GPU: up to these rates they are no fault, as NVIDIA's DCGM judges (dcgm_gpu_hardware_limits.h).
Two healthy H100s count 10 to 50 CRC errors of data a second."""


@dataclass(frozen=True)
class Layer:
    """What is measured: a command line of volley, which may be typed to measure more of it."""

    name: str
    words: tuple[str, ...]
    times: int = 1


def layers(gpus: int, named: Sequence[str] = ()) -> list[Layer]:
    """Return the layers of a machine with so many GPUs; ``named``: the transports that the user asked for."""
    short = ("--launches", "3", "--point-time", "0.05")
    found = [
        Layer("messages in host memory", ("pingpong", "--transport", "host", "--sizes", "8,64k,1M", *short)),
        Layer(
            "allreduce in host memory",
            ("collective", "--operation", "allreduce", "--transport", "host", "--sizes", "1M", *short),
        ),
    ]
    if gpus:
        sections = "host-to-gpu,gpu-to-host" + (",uni,uni/kernel" if gpus > 1 else "")
        words = ("matrix", "--section", sections, "--point-time", "0.03", "--budget", "8")
        found.append(Layer("GPUs: host, copy engines, kernels", words, TIMES))
    if gpus > 1:
        allreduce = ("collective", "--operation", "allreduce", "--transport", "nccl", "--ranks", str(gpus))
        aware = ",".join(each for each in named if family_of(without_fault(each)) == "aware") or "aware"
        found += [
            Layer("MPI on device memory", ("pingpong", "--transport", aware, "--sizes", "8,64M", *short)),
            Layer("NCCL allreduce", (*allreduce, "--sizes", "64M", *short)),
        ]
    return found


def _places(benchmark: Benchmark, logs: Sequence[RunLog]) -> Iterator[tuple[Observable, str, float]]:
    """Yield what each launch measured: the observable, the place in it, the seconds."""
    for log in logs:
        for each in benchmark.observables(log):
            for at, seconds in zip(each.at, each.seconds, strict=True):
                yield each, at, seconds


def measured(benchmark: Benchmark, logs: Sequence[RunLog]) -> dict[str, list[float]]:
    """Return the seconds of each launch, by what was measured: ``pingpong: host, 8 B``."""
    found: dict[str, list[float]] = {}
    for each, at, seconds in _places(benchmark, logs):
        found.setdefault(f"{benchmark.name}: {each.series}, {at}", []).append(seconds)
    return found


def judge(
    layer: Layer, benchmark: Benchmark, logs: Sequence[RunLog], limits: Limits | None, judged: int
) -> Iterator[CheckFinding]:
    """Say what the launches of a layer say; ``judged``: how many times of all layers are compared with limits."""
    again, finding = f"volley {' '.join(layer.words)}", partial(CheckFinding, layer=layer.name)
    if any("failed" in log.statuses for log in logs):
        yield finding(verdict="FAIL", why="wrong data arrived", yardstick="data", decides=again)
        return
    unavailable = {each.transport: each.reason for log in logs for each in log.transports if not each.available}
    for transport, reason in unavailable.items():
        yield finding(verdict="NOT POSSIBLE", why=f"{transport}: {reason}", decides="volley doctor")
    states = list(_states(layer, logs))
    yield from states
    times = measured(benchmark, logs)
    if not times or not all(log.good for log in logs):
        if not unavailable:
            yield finding(verdict="UNDECIDED", why="not everything was measured", decides=again)
        return
    sections = list(_sections(benchmark, logs))
    slow = list(_slow(layer, sections))
    yield from slow
    if limits is not None:
        yield by_limits(layer.name, times, limits, judged)
    elif ratios := _ratios(benchmark, logs):
        yield _by_reference(layer, ratios, again)
    elif not slow:
        learn = "on good nodes: volley check --expect FILE --learn"
        if benchmark is not GPUS or len(logs[0].gpus("before")) < SMALLEST:
            why = f"the data of {count(len(times), 'point')} was right; there is no yardstick for its speed"
            yield finding(verdict="UNDECIDED", why=why, decides=learn)
        elif any(of_gpus.open or of_gpus.missing for *_, of_gpus in sections):
            why = "the data cannot show whether a GPU is slower than the others"
            yield finding(verdict="UNDECIDED", why=why, yardstick="population", decides=learn)
        else:
            yield finding(verdict="PASS", why="no GPU is slower than the others", yardstick="population")


Section = tuple[str, list[int], list[GpuMatrixCase], Judgement]
"""A matrix of GPUs: its name, its GPUs, its launches, and what these say of the GPUs, as ranks in this order."""


def _sections(benchmark: Benchmark, logs: Sequence[RunLog]) -> Iterator[Section]:
    """Judge the GPUs as nodes are judged, in each of their matrices; those with the host have other ends."""
    launches = [case for log in logs for result in matrix_results([log]) for case in result.gpu_cases]
    for name, cases in grouped(launches if benchmark is GPUS else (), lambda case: case.name).items():
        gpus = sorted({gpu for case in cases for gpu in case.firsts})
        yield name, gpus, cases, Judgement() if gpus == [HOST] else _judged(cases, gpus)


def _judged(cases: Sequence[GpuMatrixCase], gpus: Sequence[int]) -> Judgement:
    """Judge the GPUs of a matrix by its launches; what is compared is the time over the median of its kind of pairs."""
    visits = []
    for launch, case in enumerate(cases):
        there = np.nonzero(~np.isnan(case.times_s))
        time_s, kind, no = case.times_s[there], case.kinds.numbers[there], np.zeros(len(there[0]), bool)
        ratio = time_s / group_quantile(kind, time_s, 0.5, len(case.kinds.names))[kind]
        first, second = (np.searchsorted(gpus, np.array(case.firsts)[ends]) for ends in there)
        visits.append(Visits(first, second, np.full(len(no), launch), ratio, no, no))
    places = Places(np.arange(len(gpus)), np.full(len(gpus), -1), one_machine=True)
    return judgement.judge(joined(*visits), places, one_way=False)


def _slow(layer: Layer, sections: Sequence[Section]) -> Iterator[CheckFinding]:
    """Name slow GPUs, and pairs of others that were slower than comparable pairs in every launch, and in some."""
    finding = partial(CheckFinding, layer=layer.name, yardstick="population")
    for name, gpus, cases, judged in sections:
        slow: set[int] = set()
        for part in judged.bad:
            numbers = [gpus[rank] for rank in part.ranks]
            slow.update(numbers)
            which = f"GPU{'s' * (len(numbers) > 1)} {format_cpulist(numbers)}"
            which = f"what joins {which} with the others" if part.kind == "joint" else which
            yield finding(verdict="FAIL", part=which, why=f"{name}: {slower_words(part, 'GPUs')}")
        pairs = [{each.pair: each.ratio for each in case.suspects if slow.isdisjoint(each.pair)} for case in cases]
        for pair in dict.fromkeys(pair for launch in pairs for pair in launch):
            ratios = [launch[pair] for launch in pairs if pair in launch]
            always = len(ratios) == len(cases) >= TIMES
            yield finding(
                verdict="FAIL" if always else "UNDECIDED",
                part=f"GPUs {pair[0]} → {pair[1]}".replace("-1", "host"),
                why=f"{name}: {(median(ratios) - 1) * 100:.0f} % slower than comparable pairs in {len(ratios)} of "
                f"{count(len(cases), 'launch')}",
                decides="" if always else f"volley {' '.join(layer.words)}",
            )


def by_limits(layer: str, times: Mapping[str, Sequence[float]], limits: Limits, judged: int) -> CheckFinding:
    """Compare the seconds of each place, in several launches or repetitions, with the limits of a site."""
    over, open_, unknown = [], [], []
    for name, seconds in times.items():
        limit = limit_s(limits.seconds.get(without_fault(name), ()), judged)
        if limit is None:
            unknown.append(name)
        elif min(seconds) > limit:
            over.append(f"{name} {(median(seconds) / limit - 1) * 100:.0f} % above its limit")
        elif median(seconds) > limit:
            open_.append(name)
    finding = partial(CheckFinding, layer=layer, yardstick="limits")
    if over:
        return finding(verdict="FAIL", why=join_few(over, NAMED))
    if unknown:
        why = f"fewer than {FEWEST} good checks of {join_few(unknown, 2)} are known"
        return finding(verdict="UNDECIDED", why=why, decides="on good nodes: --learn")
    if open_:
        why = f"some launches are above the limit: {join_few(open_, NAMED)}"
        return finding(verdict="UNDECIDED", why=why, decides="another check")
    why = f"{count(len(times), 'time')} within the limits, which fail {FALSE_ALARM * 100:.0f} % of good nodes"
    return finding(verdict="PASS", why=why)


def _machine_kind(logs: Sequence[RunLog]) -> tuple[set[str | None], set[str]]:
    """Return the names of the GPUs and of the processors."""
    gpus = {gpu.name for log in logs for gpu in log.gpus("before")}
    return gpus, {rank.cpu for log in logs if log.run for rank in log.run.ranks}


@cache
def _own_references() -> dict[str, list[RunLog]]:
    """Return the user's references; one that cannot be read is none."""
    found = {}
    for name, path in own_references().items():
        with suppress(UserError):
            found[name] = read_runs(path, benchmarks.BENCHMARKS)
    return found


def _ratios(benchmark: Benchmark, logs: Sequence[RunLog]) -> list[tuple[str, str, float]]:
    """Return the places of references of such a machine: the reference, the place, the time / its time.

    The user's own references come first: machines with the same processors and GPUs; then published ones of the GPUs.
    """
    kind, own = _machine_kind(logs), measured(benchmark, logs)
    for name, theirs in _own_references().items():
        same = [log for log in launches_of(theirs, benchmark.name) if _machine_kind([log]) == kind]
        usual = measured(benchmark, same)
        if ratios := [
            (name, at, median(own[at]) / median(usual[good])) for at in own if (good := without_fault(at)) in usual
        ]:
            return ratios
    return [
        (ratio[0], f"{each.series}, {at}", ratio[1])
        for gpu in (kind[0] if len(kind[0]) == 1 else ())
        for each, at, seconds in _places(benchmark, logs)
        for good in [(benchmark.name, without_fault(each.series))]
        if (ratio := references.ratio_to_equal(str(gpu), good, at, seconds, each.work))
    ]


def _by_reference(layer: Layer, ratios: Sequence[tuple[str, str, float]], again: str) -> CheckFinding:
    slow = {place for _, place, ratio in ratios if ratio > NEAR}
    name, middle = ratios[0][0], median([ratio for _, _, ratio in ratios])
    why = f"{beside_words(middle, name)} (median of {count(len(ratios), 'time')})"
    if slow:
        why += f"; more than {(NEAR - 1) * 100:.0f} % slower: {join_few(sorted(slow), NAMED)}"
    return CheckFinding(
        verdict="UNDECIDED" if slow else "PASS",
        layer=layer.name,
        why=why,
        yardstick="reference",
        decides=f"limits of this site (--expect FILE), or {again}" if slow else "",
    )


def _states(layer: Layer, logs: Sequence[RunLog]) -> Iterator[CheckFinding]:
    """Say what is wrong with links and clocks: inactive links, narrow links, errors that were counted meanwhile."""
    before = {gpu.uuid: gpu for log in reversed(logs) for gpu in log.gpus("before")}
    after = {gpu.uuid: gpu for log in logs for gpu in log.gpus("after")}
    down = nvlinks_down([*after.values()])
    seconds = max(1.0, LaunchSeries(tuple(logs)).span_s or 0.0)
    for uuid, gpu in after.items():
        finding = partial(CheckFinding, layer=layer.name, part=f"GPU {gpu.index}", yardstick="link state")
        if gpu.index in down:
            yield finding(verdict="FAIL", why=f"{count(down[gpu.index], 'NVLink')} inactive")
        if gpu.pcie_width and gpu.pcie_width_max and gpu.pcie_width < gpu.pcie_width_max:
            yield finding(verdict="FAIL", why=f"PCIe has {gpu.pcie_width} of {gpu.pcie_width_max} lanes")
        held = [{*(each.clocks_event_reasons or ())} & {*SLOWDOWNS} for each in (before.get(uuid, gpu), gpu)]
        if held[0] | held[1]:
            why = f"its clocks were limited: {join_words(sorted(held[0] | held[1]))}"
            once = "another check: it was so before or after the measurement only"
            always = held[0] & held[1]
            yield finding(verdict="FAIL" if always else "UNDECIDED", why=why, decides="" if always else once)
        for name, number in _growth(before.get(uuid, gpu), gpu):
            usual = USUAL_PER_S.get(name, 0.0)
            if number <= usual * seconds:
                continue
            verdict: Verdict = "FAIL" if name == "uncorrected ECC errors" else "UNDECIDED"
            decides = "another check; a number that keeps growing is a fault"
            why = f"{name}: {number:g} more than before"
            if usual:
                why += f" in {seconds:.0f} s; up to {usual * 60:g} a minute are usual"
            yield finding(verdict=verdict, why=why, decides=decides)


def _growth(before: Gpu, after: Gpu) -> Iterator[tuple[str, float]]:
    """Yield what was counted between two readings."""
    pairs = {
        "uncorrected ECC errors": (before.ecc_uncorrected, after.ecc_uncorrected),
        "PCIe replays": (before.pcie_replays, after.pcie_replays),
        "seconds of thermal slowdown": (before.thermal_slowdown_s, after.thermal_slowdown_s),
    }
    for name, number in (after.nvlink_errors or {}).items():
        pairs[f"NVLink {name} errors"] = (before.nvlink_errors or {}).get(name, number), number
    for name, (first, last) in pairs.items():
        if first is not None and last is not None and last > first:
            yield name, last - first


# -------------------------------------------------------------------------------------------------- limits of a site


class Limits(Frozen, frozen=True, kw_only=True):
    """What good nodes measured: the seconds of each, by what was measured."""

    version: int = 1
    seconds: dict[str, list[PositiveSeconds]]


def read_limits(path: Path) -> Limits:
    """Return the limits of a file.

    Raises:
        UserError: if it cannot be read, or is no such file.
    """
    try:
        return msgspec.json.decode(path.read_bytes(), type=Limits)
    except FileNotFoundError:
        raise UserError(f"--expect {path}: there is no such file; --learn makes it, on a node that is good") from None
    except OSError as error:
        raise UserError(f"--expect {path}: {error.strerror}") from None
    except msgspec.DecodeError as error:
        raise UserError(f"--expect {path} is not a file of limits: {error}") from None


def add_limits(path: Path, measured: dict[str, float]) -> int:
    """Add the measured seconds to a file, which is made if there is none; return how many checks it holds now."""
    known = dict(read_limits(path).seconds) if path.exists() else {}
    for name, seconds in measured.items():
        known[name] = [*known.get(name, []), seconds]
    write_file(path, msgspec.json.format(msgspec.json.encode(Limits(seconds=known)), indent=1) + b"\n", "limits")
    return min(map(len, known.values()), default=0)


def limit_s(good_s: Sequence[float], judged: int) -> float | None:
    """Return the longest time of a good node, of so many that are judged; ``None`` of fewer than ``FEWEST``."""
    if len(good_s) < FEWEST:
        return None
    logs = np.log(good_s)
    count = len(logs)
    t = student(1 - FALSE_ALARM / max(judged, 1), count - 1)
    return float(np.exp(logs.mean() + t * logs.std(ddof=1) * math.sqrt(1 + 1 / count)))


@cache
def student(probability: float, freedom: int) -> float:
    """Return the quantile of Student's t above the median: its density is summed until the probability is reached.

    >>> round(student(0.975, 4), 2)
    2.78
    """
    # t = √f · tan(angle) turns the tail into a finite range of angles.
    angle = np.linspace(0, math.pi / 2, 20_001)
    density = np.cos(angle) ** (freedom - 1)
    below = np.cumsum((density[1:] + density[:-1]) / 2)
    place = int(np.searchsorted(below / below[-1], 2 * probability - 1))
    return math.sqrt(freedom) * math.tan(angle[min(place + 1, len(angle) - 2)])
