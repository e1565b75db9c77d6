"""What differs between the environments of two runs: what their records say of machine and software."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from volley.document import part_of
from volley.machine import paths
from volley.machine.ucx_protocols import PLACE, Protocols, thresholds
from volley.machine.variables import OF_ONE_JOB, OF_ONE_LAUNCHER
from volley.records.command_again import budget_named
from volley.records.run_log import RunLog
from volley.text import mpi_name
from volley.units import format_cpulist, format_size

Setting = str | float | bool | None

APART = 0.02
"""Numbers differ where the ranges of both runs are apart by more than this: clocks of one machine are seldom equal."""

_EPHEMERAL = frozenset(
    {
        "started_at", "pid", "read_s", "resolution_s", "memory_available_bytes", "command", "asked", "described",
        "elapsed_s", "power_w", "temperature_c", "pcie_generation", "pcie_width", "when", "record",
        "ecc_corrected", "ecc_uncorrected", "nvlink_errors", "pcie_replays", "power_slowdown_s", "thermal_slowdown_s",
        "unread", "startup", "kept_as", "of_check", "live", "budget_s", "budget_left_s", "watchdog_s", "ucx_protocols",
        "paths", "uuid", "first", "second", "processes", "algorithms", "median_s",
    }
)  # fmt: skip
"""Keys whose value says nothing of the environment, or says again what other keys say, or names one GPU of a kind."""

_OF_BUDGET = ("point_time_s", "size_time_s")
"""Times that follow from a budget: where the budgets differ, that is said alone."""

_PLURAL = re.compile("(?<!ou)s$")
"""The end of the name of a list: ranks, but not rendezvous."""

_NUMBER = re.compile(r"(?<=^rank) \d+|(?<=^gpu) \d+")

_QUIETLY = re.compile(r"^(plan (launch (stack )?|options |sampling |excluded )?|hardware |environment |settings )")
"""Where a fact stands in the records, left out of its name."""

_UNITS = {"s": "(s)", "bytes": "(bytes)", "mhz": "(MHz)", "w": "(W)"}


@dataclass(frozen=True)
class EnvironmentDifference:
    """A fact of the records that is not the same in both runs."""

    name: str
    first: str
    second: str


def environment_differences(first: Sequence[RunLog], second: Sequence[RunLog]) -> list[EnvironmentDifference]:
    """Return every fact that no launch of one run shares with a launch of the other, what was asked for first.

    Of ranks and GPUs that only one of both runs has, only their number differs; where several differ alike, they are
    one difference.
    """
    one, other = _facts(first), _facts(second)
    numbered = [{part for place in facts for part in _numbered(place)} for facts in (one, other)]
    found: dict[object, list[EnvironmentDifference]] = {}
    same_budget = one.get(("budget_s",)) == other.get(("budget_s",))
    for place in sorted(dict.fromkeys((*one, *other)), key=_order):
        here, there = one.get(place, []), other.get(place, [])
        if not _differ(here, there) or not all(set(_numbered(place)) <= those for those in numbered):
            continue
        if place[-1] in _OF_BUDGET and not same_budget:
            continue
        variable = place[-1] if "environment" in place else ""
        if OF_ONE_JOB.search(variable) or (OF_ONE_LAUNCHER.match(variable) and not (here and there)):
            continue
        if place[0] == "path of" and not (here and there):  # a path that was not looked at, of a size or a transport
            continue
        missing = {"environment": "not set", "excluded": "not refused"}.get(place[-2] if place[1:] else "", "none")
        if any(isinstance(value, bool) for value in (*here, *there)):
            missing = "unknown"
        name = _QUIETLY.sub("", " ".join(place))
        texts = [_text(each) or missing for each in (here, there)]
        if texts[0] == texts[1]:  # "none", and what older records do not have
            continue
        # The plan has some variables of the environment, too.
        what = (variable, *texts) if variable else (_NUMBER.sub("", name), *texts)
        found.setdefault(what, []).append(EnvironmentDifference(name, *texts))
    return list(map(_together, found.values()))


def fact_in_words(name: str) -> str:
    """Return the name of a fact of the records for people: ``point time (s)``; variables keep theirs."""
    if name[:1].isupper():
        return name
    return " ".join(_UNITS.get(word, word) for word in name.replace("sizes_bytes", "sizes").replace("_", " ").split())


def _together(alike: Sequence[EnvironmentDifference]) -> EnvironmentDifference:
    """Return one difference for all ranks or GPUs that differ alike: ``ranks 0-1 device name``."""
    numbers = [number[0] for each in alike if (number := _NUMBER.search(each.name))]
    if len(numbers) < 2:
        return alike[0]
    name = _NUMBER.sub(f"s {format_cpulist(map(int, numbers))}", alike[0].name, count=1)
    return EnvironmentDifference(name, alike[0].first, alike[0].second)


def _numbered(place: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Yield the items of lists that a place is in: ``rank 0``, ``hardware gpu 1``."""
    for end, key in enumerate(place, start=1):
        if key.rpartition(" ")[2].isdigit():
            yield tuple(place[:end])


def _order(place: Sequence[str]) -> int:
    if place[0] == "plan" and place[1:2] != ("launch",):
        return 0
    return 2 if place[0] == "hardware" or place[0].startswith("rank") else 1


def _facts(logs: Sequence[RunLog]) -> dict[tuple[str, ...], list[Setting]]:
    """Return the values that the launches have, by their place in the records."""
    found: dict[tuple[str, ...], list[Setting]] = {}
    for log in logs:
        parts: list[tuple[tuple[str, ...], Any]] = [((), log.run), (("settings",), log.settings)]
        parts += [(("budget_s",), budget_named(log.run.plan))] if log.run else []
        parts += [(("hardware",), hardware) for hardware in log.hardware[-1:]]
        protocols = part_of(log.run.plan.launch, Protocols, *PLACE) if log.run else None
        parts += [(("UCX",), thresholds(protocols))] if protocols else []
        parts += [(("path of",), paths.by_place(log.run.plan.launch))] if log.run else []
        for start, part in parts:
            for place, value in _leaves(part, start):
                values = found.setdefault(place, [])
                if value not in values:
                    values.append(value)
    return found


def _leaves(value: Any, place: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Setting]]:
    """Yield the values of a record, defaults too, with the keys that lead to them; a list of values is one text.

    Of a list of records the length is a value, too.
    """
    if isinstance(value, msgspec.Struct):
        value = msgspec.structs.asdict(value)
    if isinstance(value, dict):
        for key, inner in value.items():
            if key not in _EPHEMERAL:
                yield from _leaves(inner, (*place, key))
    elif isinstance(value, list) and any(isinstance(each, dict | msgspec.Struct) for each in value):
        yield place, len(value)
        for number, inner in enumerate(value):
            yield from _leaves(inner, (*place[:-1], f"{_PLURAL.sub('', place[-1])} {number}"))
    elif isinstance(value, list) and value:
        text = format_size if place[-1].endswith("sizes_bytes") else _one
        is_cpus = place[-1] in ("cores", "library_cpus")
        yield place, format_cpulist(value) if is_cpus else ", ".join(map(text, value))
    elif place[-2:-1] == ("excluded",):  # the words of the reason may differ
        yield place, "refused"
    elif value is not None and value != []:
        yield place, mpi_name(value) if place == ("mpi", "library") else value


def _differ(here: Sequence[Setting], there: Sequence[Setting]) -> bool:
    numbers = [value for value in (*here, *there) if isinstance(value, int | float) and not isinstance(value, bool)]
    if here and there and len(numbers) == len(here) + len(there):
        low, high = sorted((sorted(numbers[: len(here)]), sorted(numbers[len(here) :])), key=lambda side: side[0])
        return high[0] - low[-1] > APART * abs(high[0])
    return not set(here) & set(there)


def _text(values: Sequence[Setting]) -> str:
    return " or ".join(map(_one, values[:3]))


def _one(value: Setting) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:g}" if isinstance(value, float) else str(value)
