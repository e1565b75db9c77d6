"""Notes on the state of the machine during the launches, where it matters for the numbers, and what to do about it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from itertools import combinations

from volley.machine.hardware import RAISE_CLOCK, SLOWDOWNS, Gpu
from volley.report.model import Note
from volley.run.launch_series import LaunchSeries
from volley.run.run_log import RunLog
from volley.text import count, join_words

_MIN_TICKS = 5
"""A tick is 10 ms on most systems; of a short launch one or two of them are more than 1 %, and may be rounding."""

_MUCH = 0.01
"""Stolen or slowed time is reported from this part of the whole time on: less hardly moves a median."""


def machine_notes(series: LaunchSeries) -> Iterator[Note]:
    """Report CPUs that were slow or shared, GPUs that were slow, and errors of memory and links."""
    texts = dict.fromkeys(text for log in series.logs for text in (*_cpus(log), *_throttled(log)))
    for text in (*texts, *_stolen(series), *_grown(series)):
        yield Note("warning", text)


# ----------------------------------------------------------------------------------------------------- CPUs


def _cpus(log: RunLog) -> Iterator[str]:
    """Judge the settings of this node; those of other nodes are not known."""
    settings, run = log.settings, log.run
    if settings is None or run is None:
        return
    here = [rank for rank in run.ranks if rank.host == settings.host]
    if slow := settings.slow_clock():
        yield f"{slow}: sudo {RAISE_CLOCK}"
    # A rank that the engine did not bind may move among many cores and needs one.
    needed = len({cpu for rank in here if rank.bound_by == "engine" for cpu in rank.cores})
    needed += sum(rank.bound_by != "engine" for rank in here)
    if small := settings.small_quota(needed):
        yield f"{small}; raise the quota (docker run --cpus, systemd CPUQuota)"
    for one, other in combinations(here, 2):
        for core in settings.siblings:
            if set(one.cores) <= set(core) and set(other.cores) <= set(core):
                yield (
                    f"rank {one.rank} and rank {other.rank} share a core of {settings.host} (hardware threads "
                    f"{join_words(map(str, core))}): bind each rank to a core of its own"
                )


def _stolen(series: LaunchSeries) -> Iterator[str]:
    """Report the rank whose CPUs a hypervisor used most for something else, and in how many launches it did."""
    found: list[tuple[float, str]] = []
    for log in series.logs:
        hosts = {rank.rank: rank.host for rank in log.run.ranks} if log.run else {}
        shares = [
            (usage.steal_ticks / usage.total_ticks, f"rank {usage.rank} on {hosts.get(usage.rank, 'an unknown host')}")
            for usage in (log.end.usage if log.end else ())
            if usage.total_ticks and usage.steal_ticks >= _MIN_TICKS
        ]
        found += [most for most in (max(shares, default=(0.0, "")),) if most[0] > _MUCH]
    if found:
        share, rank = max(found)
        launches = f", in {len(found)} of {count(len(series.logs), 'launch')}" if len(series.logs) > 1 else ""
        yield (
            f"the hypervisor took up to {share * 100:.1f} % of the time of the CPUs of {rank}{launches}: other virtual "
            "machines share them; measure on a machine with CPUs of its own"
        )


# ----------------------------------------------------------------------------------------------------- GPUs


def _name(gpu: Gpu) -> str:
    return f"GPU {gpu.index} ({gpu.name or gpu.uuid})"


def _throttled(log: RunLog) -> Iterator[str]:
    """Report GPUs whose clocks were reduced by power or heat at the end of a run."""
    for gpu in log.gpus("after"):
        reasons = [reason for reason in gpu.clocks_event_reasons or () if reason in SLOWDOWNS]
        if reasons:
            yield f"{_name(gpu)} was slowed down at the end of the run: {join_words(reasons)}"


def _grown(series: LaunchSeries) -> Iterator[str]:
    """Report what the GPUs counted during all launches together."""
    for name, grown in _counts(series).items():
        if grown["uncorrected"]:
            errors = f"{grown['uncorrected']:.0f} uncorrected memory errors"
            yield f"{name} had {errors} during the run: do not trust this GPU"
        for cause in ("power", "heat"):
            if grown[cause] > _MUCH * grown["elapsed"]:
                yield (
                    f"{name} ran below its clocks for {grown[cause] / grown['elapsed'] * 100:.0f} % of the run because "
                    f"of {cause}: look at nvidia-smi -q -d PERFORMANCE,POWER,TEMPERATURE"
                )
        links = [f"{grown[kind]:.0f} {words}" for kind, words in _LINK_ERRORS.items() if grown[kind]]
        if links:
            yield f"{name} had NVLink errors during the run ({join_words(links)}): see nvidia-smi nvlink -e and dmesg"


_LINK_ERRORS = {"replay": "replays", "recovery": "recoveries"}
"""CRC errors are left out: healthy H200s count hundreds a minute under load and correct them."""


def _counts(series: LaunchSeries) -> Mapping[str, Mapping[str, float]]:
    """Return for each GPU by how much its counters grew from before to after the launches."""
    found: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for log in series.logs:
        before = {gpu.uuid: gpu for gpu in log.gpus("before")}
        for gpu in log.gpus("after"):
            if was := before.get(gpu.uuid):
                now, then = _counters(gpu), _counters(was)
                grown = found[_name(gpu)]
                grown["elapsed"] += log.end.elapsed_s if log.end else 0.0
                for name in now.keys() & then:
                    grown[name] += max(0.0, now[name] - then[name])
    return found


def _counters(gpu: Gpu) -> dict[str, float]:
    counters = {
        "uncorrected": gpu.ecc_uncorrected,
        "power": gpu.power_slowdown_s,
        "heat": gpu.thermal_slowdown_s,
        **(gpu.nvlink_errors or {}),
    }
    return {name: value for name, value in counters.items() if value is not None}
