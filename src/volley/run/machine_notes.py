"""What the machine did to the times: CPUs that were slow, shared or few, slow GPUs, errors of memory and links."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from volley.machine.hardware import QUOTA, RAISE_CLOCK, Gpu, sharing_cores
from volley.records.command_again import of_ranks
from volley.records.launch_series import LaunchSeries
from volley.records.record_types import cpus_needed, cpus_of, crowded
from volley.records.run_log import RunLog
from volley.report.model import Note, finding
from volley.text import count, grouped, join_words
from volley.units import format_cpulist

_MIN_TICKS = 5
"""A tick is 10 ms on most systems; of a short launch one or two of them are more than 1 %, and may be rounding."""

_MUCH = 0.01
"""Stolen or slowed time is reported from this part of the whole time on: less hardly moves a median."""


def machine_notes(series: LaunchSeries) -> Iterator[Note]:
    """Report limits that MPI met, CPUs that were slow or shared, GPUs that were slow, errors of memory and links."""
    texts = dict.fromkeys(text for log in series.logs for of in (_sharing, _cpus) for text in of(log))
    of_gpus = list(_gpus(series))
    for met in dict.fromkeys(log.times.limit for log in series.logs if log.times and log.times.limit and log.end):
        doctor = of_ranks("volley doctor", series.plan, ("--hosts", "--mpi"))
        yield finding("SLOW", f"MPI met a limit, which {met} shows, and may be slower for it", doctor, "warning")
    yield from (note for note in of_gpus if note.verdict)
    yield from (Note("warning", text) for text in (*texts, *_taken(series)))
    yield from (note for note in of_gpus if not note.verdict)


def _sharing(log: RunLog) -> Iterator[str]:
    """Report a job with more ranks than granted cores, whose MPI waits in another way, and ranks that share a GPU, if
    transports use its memory."""
    if log.run is None:
        return
    here = [rank for rank in log.run.ranks if log.settings and rank.host == log.settings.host]
    if log.run.oversubscribed and not crowded(here):
        yield f"{sharing_cores(len(log.run.ranks), 'fewer cores')}; request a core for each rank"
    if ":OVERSUBSCRIBE" in str(log.run.plan.launch.get("command")) and not log.run.oversubscribed:
        yield (
            "the batch system counts fewer tasks than ranks, so mpirun got OVERSUBSCRIBE: Open MPI then waits in "
            "another way, and short messages take longer; request a task for each rank"
        )
    gpus = grouped((rank for rank in log.run.ranks if rank.device), lambda rank: rank.device and rank.device.uuid)
    shared = [ranks for ranks in gpus.values() if len(ranks) > 1]
    if shared and any(each.available and each.memory == "device" for each in log.transports):
        ranks = format_cpulist([rank.rank for rank in shared[0]])
        which = f"{len(shared)} GPUs are shared, one by ranks {ranks}" if shared[1:] else f"ranks {ranks} share a GPU"
        yield f"{which}: the processes take turns, so times of GPU memory include waiting; use a GPU for each rank"


def _cpus(log: RunLog) -> Iterator[str]:
    """Judge the settings of this node; those of other nodes are not known."""
    settings, run = log.settings, log.run
    if settings is None or run is None:
        return
    here = [rank for rank in run.ranks if rank.host == settings.host]
    if slow := settings.slow_clock():
        yield f"{slow}: sudo {RAISE_CLOCK}"
    if small := settings.small_quota(cpus_needed(here)):
        yield f"{small}; raise the quota ({QUOTA})"
    core_of = {cpu: tuple(core) for core in settings.siblings for cpu in core}
    cores = grouped(here, lambda rank: frozenset(core_of.get(cpu) for cpu in rank.cores))
    shared = {core: ranks for each, ranks in cores.items() if len(each) == 1 < len(ranks) for core in each if core}
    for core, ranks in list(shared.items())[:1]:
        more = f", and so do the ranks on {count(len(shared) - 1, 'more core')}" if len(shared) > 1 else ""
        yield (
            f"ranks {format_cpulist([rank.rank for rank in ranks])} share a core of {settings.host} (hardware threads "
            f"{format_cpulist(core)}){more}: bind each rank to a separate core"
        )
    if crowded(here) and not shared:
        cpus = len(cpus_of(here))
        sharing = sharing_cores(len(here), f"{count(cpus, 'CPU')} of {settings.host}")
        yield f"{sharing}; start at most {count(cpus, 'rank')} there"


OF_ITS_OWN = "with a CPU for each rank (taskset -cp $$ shows the CPUs of this shell)"

WITHOUT_CORE = 0.1
"""Ranks that wait for messages without sleeping have their core all the time: on four quiet machines they were without
it for up to 3 % of the time (`results/*/check.jsonl.gz`).  Beyond this share others use the cores."""
_SHOWN_BY_S = 0.1
"""A shorter run does not show it: on two quiet cores ranks were without them for up to 47 % of 12 to 29 ms, in which
they also sleep to begin together."""


class Busy(NamedTuple):
    """Why ranks had less than a core each, so that times are longer than those of a quiet node."""

    said: str
    without: str = "while nothing else runs here"
    """How to check without it."""

    @property
    def longer(self) -> str:
        return f"{self.said}: these times are longer than those of a quiet node"


def without_core(logs: Sequence[RunLog]) -> Busy | None:
    """Say why ranks were without their cores: they share them, may not use them all the time, or others used them."""
    others = others_used(logs)
    return next(filter(None, map(few_cpus, logs)), None) or (Busy(others) if others else None)


def few_cpus(log: RunLog) -> Busy | None:
    """Say that the ranks have fewer CPUs than they need."""
    ranks, settings = log.run.ranks if log.run else [], log.settings
    if log.run and log.run.oversubscribed:
        cpus = len(cpus_of(ranks))
        places = count(cpus, "CPU") if cpus < len(ranks) else "fewer cores"
        return Busy(f"{count(len(ranks), 'rank')} share {places}", OF_ITS_OWN)
    small = settings and settings.small_quota(cpus_needed(ranks))
    return Busy(small, f"with a higher quota ({QUOTA})") if small else None


def others_used(logs: Sequence[RunLog]) -> str | None:
    """Say that others used the cores, if a rank that never slept was without its core, and its threads, too."""
    usages = [each for log in logs if log.end for each in log.end.usage if each.elapsed_s]
    awake = [each for each in usages if each.voluntary_switches <= each.involuntary_switches]
    shares = {}
    for rank, its in grouped(awake, lambda usage: usage.rank).items():
        elapsed_s = sum(each.elapsed_s for each in its)
        if elapsed_s >= _SHOWN_BY_S:
            shares[rank] = sum(each.cpu_s + (each.other_threads_cpu_s or 0) for each in its) / elapsed_s
    least = min(shares, key=shares.__getitem__, default=None)
    if least is None or shares[least] > 1 - WITHOUT_CORE:
        return None
    return f"others used these cores (rank {least} had its core for {shares[least] * 100:.0f} % of the time)"


def _others(logs: Sequence[RunLog]) -> Iterator[str]:
    """The same of ranks with a core each whose transports wait without sleeping: of host memory."""
    runs = [(log, log.run) for log in logs if log.run and "ok" in log.statuses]
    of_cores = [log for log, run in runs if not run.oversubscribed and not crowded(run.ranks)]
    limited = any(log.settings and log.settings.quota_cpus for log in of_cores)
    sleeps = any(each.available and each.memory == "device" for log in logs for each in log.transports)
    if not limited and not sleeps and (found := others_used(of_cores)):
        yield f"{found}, so times may include waiting; measure again while nothing else runs here"


_THREADS = (
    "the threads of MPI and of transports have no core of their own: they used up to {share:.0f} % of the core on "
    "which {rank} measures{launches}; request more cores than ranks"
)
_STOLEN = (
    "the hypervisor took up to {share:.1f} % of the time of the CPUs of {rank}{launches}: other virtual machines share "
    "them; measure on a machine with dedicated CPUs"
)


def _taken(series: LaunchSeries) -> Iterator[str]:
    """Report the rank that lost most time on its core to threads of MPI and the transports, the one whose CPUs a
    hypervisor used most for something else, and in how many launches."""
    most: dict[str, list[tuple[float, str]]] = {_THREADS: [], _STOLEN: []}
    for log in series.logs:
        ranks = {rank.rank: rank for rank in log.run.ranks} if log.run else {}
        shares: dict[str, list[tuple[float, str]]] = {_THREADS: [], _STOLEN: []}
        for usage in log.end.usage if log.end else ():
            rank, name = ranks.get(usage.rank), f"rank {usage.rank}"
            if rank and len(rank.library_cpus) == 1 and usage.elapsed_s and "ok" in log.statuses:
                shares[_THREADS].append(((usage.other_threads_cpu_s or 0.0) / usage.elapsed_s, name))
            if usage.total_ticks and usage.steal_ticks >= _MIN_TICKS:
                where = f"{name} on {rank.host if rank else 'an unknown host'}"
                shares[_STOLEN].append((usage.steal_ticks / usage.total_ticks, where))
        for text, those in shares.items():
            most[text] += [max(those)] if those and max(those)[0] > _MUCH else []
    if not most[_STOLEN]:
        yield from _others(series.logs)
    for text, found in most.items():
        if found:
            share, who = max(found)
            launches = f", in {len(found)} of {count(len(series.logs), 'launch')}" if len(series.logs) > 1 else ""
            yield text.format(rank=who, share=share * 100, launches=launches)


_LINK_ERRORS = {"replay": "replays", "recovery": "recoveries"}
"""CRC errors are left out: healthy H200s count hundreds a minute under load and correct them."""


def _gpus(series: LaunchSeries) -> Iterator[Note]:
    """Report errors of the memory of GPUs and of their links, and GPUs that were slow at the end or for a part of a
    run: by what each counted during all launches together."""
    slowed: dict[str, None] = {}
    grown: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for log in series.logs:
        before = {gpu.uuid: _counters(gpu) for gpu in log.gpus("before")}
        for gpu in log.gpus("after"):
            name = f"GPU {gpu.index} ({gpu.name or gpu.uuid})"
            if gpu.slowdowns:
                slowed[f"{name} was slowed down at the end of the run: {gpu.slowdowns}"] = None
            if (then := before.get(gpu.uuid)) is not None:
                grown[name]["elapsed"] += log.end.elapsed_s if log.end else 0.0
                for counter, now in _counters(gpu).items():
                    grown[name][counter] += max(0.0, now - then.get(counter, now))
    yield from (Note("warning", text) for text in slowed)
    for name, counted in grown.items():
        if number := round(counted["uncorrected"]):
            text = f"{name} had {count(number, 'memory error')} that ECC could not correct, during the run"
            yield finding("BROKEN", f"{text}: do not trust this GPU", "volley doctor", "warning")
        for cause in ("power", "heat"):
            if counted[cause] > _MUCH * counted["elapsed"]:
                # The readings before and after a launch are farther apart than the launch is long.
                share = min(counted[cause] / counted["elapsed"], 1.0) if counted["elapsed"] else 1.0
                text = f"{name} ran below its clocks for {share * 100:.0f} % of the run because of {cause}"
                yield Note("warning", f"{text}: look at nvidia-smi -q -d PERFORMANCE,POWER,TEMPERATURE")
        if links := [f"{counted[kind]:.0f} {words}" for kind, words in _LINK_ERRORS.items() if counted[kind]]:
            text = f"{name} had NVLink errors during the run ({join_words(links)})"
            yield Note("warning", f"{text}: see nvidia-smi nvlink -e and dmesg")


def _counters(gpu: Gpu) -> dict[str, float]:
    counters = {
        "uncorrected": gpu.ecc_uncorrected,
        "power": gpu.power_slowdown_s,
        "heat": gpu.thermal_slowdown_s,
        **(gpu.nvlink_errors or {}),
    }
    return {name: value for name, value in counters.items() if value is not None}
