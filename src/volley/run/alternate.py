"""Command lines of volley in turn: one launch of each in every round, so that a drift of the machine affects all."""

from __future__ import annotations

import os
import random
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from volley.document import UNREADABLE
from volley.errors import EXIT_INTERRUPTED, MachineError, UserError
from volley.machine.signals import Child, Stop
from volley.records.record_types import Run
from volley.records.records_file import encode_line
from volley.text import clean, escape_controls

_MAX_LINES = 5
"""Of the messages of a command that failed."""


@dataclass(frozen=True)
class Variant:
    """A command line of volley that makes one launch, and what is different in its environment."""

    words: Sequence[str]
    """With the option for one launch; without options about records and format."""
    variables: Mapping[str, str | None] = field(default_factory=dict)
    """``None``: the variable is not set."""
    name: str = ""
    """What messages call it."""


@dataclass(frozen=True)
class LiveLaunch:
    round: int
    """From 1 on."""
    variant: int
    """Its place in the list of variants."""
    data: bytes
    """Its records.  ``plan.launch.live`` has the name of the alternation, the round and the place in it."""


def alternate(
    variants: Sequence[Variant], rounds: int, stop: Stop, begin: Callable[[int, int], None] = lambda *_: None
) -> Iterator[LiveLaunch]:
    """Launch every variant once in each round, and yield each launch when it has ended.

    The order within each round is drawn: then all orders that could have been are equally likely, whatever the machine
    does meanwhile, and that is what a verdict compares with.  ``begin`` is called with the round and the place of the
    variant before each launch.

    Raises:
        KeyboardInterrupt: a signal stopped the launches.
        UserError: a command line is wrong.
        MachineError: a command failed, or wrote no records.
    """
    name = os.urandom(8).hex()
    with TemporaryDirectory(prefix="volley-") as folder:
        for number in range(1, rounds + 1):
            for place, which in enumerate(random.sample(range(len(variants)), len(variants)), start=1):
                begin(number, which)
                data = _launch(variants[which], Path(folder, "records.jsonl"), stop)
                yield LiveLaunch(number, which, _marked(data, {"of": name, "round": number, "place": place}))


def _marked(data: bytes, mark: Mapping[str, str | int]) -> bytes:
    """Return the records with a mark in each plan: what the front end knows of the launch."""
    lines = data.splitlines(keepends=True)
    for number, line in enumerate(lines):
        with suppress(*UNREADABLE):  # another record
            record = msgspec.json.decode(line, type=Run)
            record.plan.launch["live"] = mark
            lines[number] = encode_line(record)
    return b"".join(lines)


def _launch(variant: Variant, records: Path, stop: Stop) -> bytes:
    records.unlink(missing_ok=True)
    line = [*variant.words, "-o", str(records), "-f", "csv"]
    # This volley may have been started by its path.
    search = [os.environ.get("PATH", os.defpath), str(Path(sys.executable).parent)]
    changed = {**os.environ, "PATH": os.pathsep.join(search), **variant.variables}
    environment = {name: value for name, value in changed.items() if value is not None}
    try:
        command = Child(line, environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    except MachineError as error:  # the words are the user's
        raise UserError(str(error)) from None
    with command:
        stop.watch(command)
        _, said = command.process.communicate()
        stop.watch(None)
    status = command.process.returncode
    if stop.signal is not None or status in (EXIT_INTERRUPTED, -2):
        raise KeyboardInterrupt
    if status or not records.is_file():
        # With CSV standard error has all notes, such as why a transport is unavailable; the records are deleted.
        lines = [line for line in clean(said).splitlines() if not line.startswith("records: ")]
        last = "\n  ".join(lines[-_MAX_LINES:]) or "it said nothing"
        failure = UserError if status == UserError.exit_code else MachineError
        what = f"failed with exit code {status}" if status else "wrote no records"
        raise failure(f"{escape_controls(variant.name or shlex.join(variant.words))} {what}:\n  {last}")
    return records.read_bytes()
