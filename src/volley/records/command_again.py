"""The command line that repeats a run, with changes: every command that a report recommends comes from here."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any

import msgspec

from volley.command.commandline import Option, Options, declared
from volley.command.options import OutputOptions
from volley.records.plan import Plan
from volley.units import SizeError, format_sizes, parse_sizes, parse_whole

_NOT_OF_THE_PLAN = {"--dry-run", *(each.name for each in declared(OutputOptions))}
_ALSO_REPLACED = {"launches": "--budget", "transport": "--size-time"}
_SHORT = {"--transport": "-t", "--sizes": "-s", "--ranks": "-n"}
_OF_POINTS_AND_TIME = {
    *("--transport", "--sizes", "--operation", "--latency", "--bandwidth", "--section"),
    *("--launches", "--budget", "--ci", "--point-time", "--size-time", "--watchdog"),
}
_SIZES = ("--sizes", "--latency", "--bandwidth")


def asked(typed: Iterable[Sequence[str]]) -> list[list[str]]:
    """Return those of the given options from which the plan follows: ``plan.launch`` keeps them under this name."""
    return [list(words) for words in typed if words[0] not in _NOT_OF_THE_PLAN]


def options_of(plan: Plan, options: type[Options]) -> list[list[str]]:
    """Return the options that say what a plan measures, for records of an earlier volley, which kept none.

    Where it ran, how it was sampled and verified, and the times of points and of the run are left out.
    """
    part = plan.options if isinstance(plan.options, dict) else msgspec.structs.asdict(plan.options)
    own = {name.removesuffix("_bytes").removesuffix("_sizes"): value for name, value in part.items()}
    ranks = plan.world_size if plan.transports else None
    values = {"transports": plan.transports, "ranks": ranks, **own, "visits": own.get("repeats")}  # of a matrix
    found: list[list[str]] = []
    for each in declared(options):
        name = each.name.removeprefix("--").replace("-", "_")
        value = values.get(name, values.get(f"{name}s"))
        if value is None or value == each.default:
            continue
        words = _words(each, value) if each.read else value
        if not each.read or " ".join(words) not in ("", each.default_text):
            found += map(list, each.typed(words))
    return found


def _words(option: Option, value: Any) -> list[str]:
    if getattr(option.read, "metavar", "") == "SIZES":
        return [format_sizes(value) or "none"]
    if isinstance(value, list):
        words = [str(each) for each in value]
        return words if option.words > 1 else [",".join(words)]
    return [f"{value:g}" if isinstance(value, float) else str(value)]


def command_again(command: str, plan: Plan | None, **changes: Any) -> str:
    """Return the command line that repeats a run: ``volley stream --direction bi -t aware -s 8 --launches 12``.

    Args:
        command: the name of the command, or of its benchmark.
        plan: the plan of the run; one that volley did not write holds no options, and ``None`` neither.
        changes: options by name, ``launches=12``, in place of those of the run; ``tail=True`` is a flag, and
            ``budget=None`` leaves the option out.  A number of launches also replaces ``--budget``, the time of all of
            them, unless a budget is given, and is never smaller than that of the run; where a launcher started the run,
            which starts only one, it adds that to the line; one transport replaces ``--size-time``, of which each
            transport gets a part.
    """
    given = options_given(plan)
    if "launches" in changes:
        changes["launches"] = max(changes["launches"], launches_named(plan))
    outside = ""
    if plan and plan.launch.get("inside"):
        outside = " without a launcher around it" * ("launches" in changes)
        changes = {"ranks": plan.world_size, **changes}
    names = {f"--{name.replace('_', '-')}": value for name, value in changes.items()}
    replaced = {*names, *(option for name, option in _ALSO_REPLACED.items() if name in changes)}
    kept = [words for words in given if words[0] not in replaced]
    new = [[name] if value is True else [name, str(value)] for name, value in names.items() if value is not None]
    line = ["volley", command.replace("_", "-"), *(word for words in (*kept, *new) for word in written(words))]
    return shlex.join(line) + outside


OF_RANKS = ("--hosts", "--gpus", "--share-gpu", "--gpu-after-init", "--mpi", "--launcher", "--launcher-arg")
"""Options that say where ranks are started, and with what."""


def of_ranks(command: str, plan: Plan | None, names: Sequence[str] = OF_RANKS) -> str:
    """Return another command with those options of the run that say where its ranks were, and with what."""
    its = (word for words in options_given(plan) if words[0] in names for word in written(words))
    return " ".join([command, *map(shlex.quote, its)])


def launches_named(plan: Plan | None) -> int:
    """Return the number of launches that the command names, with a budget or without; 0 if it names none."""
    given = {words[0]: words[1:] for words in options_given(plan)}
    return next((number for word in given.get("--launches", ()) if (number := parse_whole(word))), 0)


def budget_named(plan: Plan | None) -> float | None:
    """Return the time of the whole run as the command names it; each launch has a part of it in its plan."""
    return budget_in(options_given(plan))


def budget_in(options: Iterable[Sequence[str]]) -> float | None:
    """Return the seconds of ``--budget`` among options as they were typed; ``None`` if none is given."""
    given = (words[1:] for words in options if words[0] == "--budget")
    with suppress(ValueError):  # from a file that somebody wrote
        return next((float(word) for (word,) in given), None)
    return None


def options_apart(plans: Iterable[Plan | None]) -> list[str]:
    """Return the options that not every command has, without those that say what is measured and how long."""
    given = [
        [shlex.join(written(words)) for words in options_given(plan) if words[0] not in _OF_POINTS_AND_TIME]
        for plan in plans
    ]
    return [" ".join(each for each in own if not all(each in other for other in given)) for own in given]


def options_given(plan: Plan | None) -> list[list[str]]:
    found = plan.launch.get("asked") if plan else None  # perhaps from a file that somebody wrote
    options = [words for words in found if words and isinstance(words, list)] if isinstance(found, list) else []
    return [[str(word) for word in words] for words in options]


def written(words: Sequence[str]) -> Sequence[str]:
    """Return an option as one types it: sizes in order; a value that begins with a dash is one word with its option."""
    name, *values = words
    if name in _SIZES:
        with suppress(SizeError):  # "none", or from a file that somebody wrote
            values = [format_sizes(sorted(parse_sizes(value))) for value in values]
    return [f"{name}={values[0]}"] if values and values[0].startswith("-") else [_SHORT.get(name, name), *values]
