"""The command line that repeats a run, with changes: every command that a report recommends comes from here."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from typing import Any

from volley.run.commandline import declared
from volley.run.options import OutputOptions
from volley.run.plan import Plan

_NOT_OF_THE_PLAN = {"--dry-run", *(each.name for each in declared(OutputOptions))}
_SHORT = {"--transport": "-t", "--sizes": "-s", "--ranks": "-n"}


def asked(typed: Iterable[Sequence[str]]) -> list[list[str]]:
    """Return those of the given options from which the plan follows: ``plan.launch`` keeps them under this name."""
    return [list(words) for words in typed if words[0] not in _NOT_OF_THE_PLAN]


def command_again(command: str, plan: Plan | None, **changes: Any) -> str:
    """Return the command line that repeats a run: ``volley stream --direction bi -t aware -s 8 --launches 12``.

    Args:
        command: the name of the command.
        plan: the plan of the run; one that volley did not write holds no options, and ``None`` neither.
        changes: options by name, ``launches=12``, in place of those of the run; ``tail=True`` is a flag.  A number of
            launches also replaces ``--budget``, the time of all of them.
    """
    found = plan.launch.get("asked") if plan else None  # perhaps from a file that somebody wrote
    options = [words for words in found if words and isinstance(words, list)] if isinstance(found, list) else []
    given = [[str(word) for word in words] for words in options]
    if plan and plan.launch.get("inside"):
        changes = {"ranks": plan.world_size, **changes}
    names = {f"--{name.replace('_', '-')}": value for name, value in changes.items()}
    replaced = {*names, "--budget"} if "launches" in changes else {*names}
    kept = [words for words in given if words[0] not in replaced]
    new = [[name] if value is True else [name, str(value)] for name, value in names.items()]
    return shlex.join(["volley", command, *(word for words in (*kept, *new) for word in _written(words))])


def launch_again(command: str, launches: int, plan: Plan | None, **changes: Any) -> str:
    """Return what to type for more launches; another launcher starts only one."""
    outside = " without a launcher around it" if plan and plan.launch.get("inside") else ""
    return f"{command_again(command, plan, **changes, launches=launches)}{outside}"


def _written(words: Sequence[str]) -> Sequence[str]:
    """Return an option as one types it; a value that begins with a dash is one word with its option."""
    name, *values = words
    return [f"{name}={values[0]}"] if values and values[0].startswith("-") else [_SHORT.get(name, name), *values]
