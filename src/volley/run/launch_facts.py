"""What is recorded of each launch beside its results, as numbers: what may tell groups of launches apart."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from volley.run.run_log import RunLog
from volley.statistics.estimates import median
from volley.statistics.launches import Group
from volley.text import join_words
from volley.units import format_cpulist, format_sig


class LaunchFact(NamedTuple):
    """A recorded quantity, or a yes/no fact: its number is then 1 or 0."""

    name: str
    unit: str | None = ""
    """``None``: a yes/no fact."""

    def describe(self, numbers: Mapping[int, float], groups: Sequence[Group]) -> str:
        """Return the name and the median of each group, ``stolen time 0.1 and 3.2 %``, or how often it is so."""
        those = [[numbers[launch] for launch in group.launches] for group in groups]
        if self.unit is None:
            return f"{self.name} in {join_words(f'{sum(each):.0f} of {len(each)}' for each in those)}"
        return f"{self.name} {join_words(format_sig(median(each), 3) for each in those)} {self.unit}".rstrip()


WORK = LaunchFact("fixed work of the CPU", "µs")
"""The facts of each point have it (``work_s``), those of a launch do not."""


def launch_facts(logs: Sequence[RunLog]) -> dict[LaunchFact, dict[int, float]]:
    """Return the facts by launch, counted from 1.

    Settings and counters of GPUs are those of the front end's own node; cores, switches and stolen time are of all
    ranks.  Of a fact that is so or not, launches where it is not have 0.
    """
    found: dict[LaunchFact, dict[int, float]] = defaultdict(dict)
    for number, log in enumerate(logs, start=1):
        for fact, value in _of_launch(log):
            found[fact][number] = value
    for fact, numbers in found.items():
        if fact.unit is None:
            found[fact] = {number: numbers.get(number, 0.0) for number in range(1, len(logs) + 1)}
    return found


def _of_launch(log: RunLog) -> Iterator[tuple[LaunchFact, float]]:
    for text in _states(log):
        yield LaunchFact(text, None), 1.0
    usage = [each for each in log.end.usage if each.elapsed_s > 0] if log.end else []
    if usage:
        switches = sum(each.involuntary_switches for each in usage)
        yield LaunchFact("involuntary context switches", "per second"), switches / max(each.elapsed_s for each in usage)
        shares = [each.steal_ticks / each.total_ticks for each in usage if each.total_ticks]
        if shares:
            yield LaunchFact("stolen time", "%"), max(shares) * 100
    after = log.gpus("after")
    for name, clocks in (
        ("SM clock", [gpu.sm_clock_hz for gpu in after]),
        ("memory clock", [gpu.memory_clock_hz for gpu in after]),
    ):
        known = [clock for clock in clocks if clock]
        if known:
            yield LaunchFact(name, "MHz"), min(known) / 1e6


def _states(log: RunLog) -> Iterator[str]:
    if log.run:
        yield join_words(f"rank {rank.rank} on core {format_cpulist(rank.cores)}" for rank in log.run.ranks)
    if settings := log.settings:
        for name, value in (
            ("governor", join_words(settings.governors) or None),
            ("boost", settings.boost),
            ("transparent huge pages", settings.transparent_huge_pages),
            ("NUMA balancing", settings.numa_balancing),
            ("CPU quota", settings.quota_cpus),
        ):
            if value is not None:
                yield f"{name} {value}"
    yield from sorted({reason for gpu in log.gpus("after") for reason in gpu.clocks_event_reasons or ()})
