"""Two command lines in turn: launches in pairs, so that a drift of the machine affects both of a pair."""

from __future__ import annotations

import random
import shlex
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from volley.benchmarks import BENCHMARKS
from volley.compare.runs import Side
from volley.errors import EXIT_INTERRUPTED, MachineError, UserError
from volley.run.records_file import open_writer, parse_runs
from volley.run.run_log import RunLog
from volley.text import clean, count, escape_controls

_MAX_LINES = 5
"""Of the messages of a command that failed."""


@dataclass(frozen=True)
class Commands:
    """Two command lines of volley, and how often each is run."""

    words: tuple[Sequence[str], Sequence[str]]
    pairs: int


def parse(commands: Sequence[str], pairs: int) -> Commands:
    """Split the command lines into words; variables may stand before the command, as in a shell.

    Raises:
        UserError: if there are not two command lines, or one is not a line of words.
    """
    if len(commands) != 2:
        raise UserError(
            f"--live takes two command lines, not {len(commands)}: write volley compare --live 'volley …' 'volley …'"
        )
    first, second = (_words(each) for each in commands)
    return Commands((first, second), pairs)


def _words(command: str) -> Sequence[str]:
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise UserError(f"--live: {escape_controls(command)!r} is no command line: {error}") from None
    if not words:
        raise UserError("--live: a command line is empty: write e.g. 'volley pingpong'")
    return ["env", *words] if "=" in words[0] else words


def measure(commands: Commands, keep: tuple[Path, Path] | None, *, quiet: bool) -> tuple[Side, Side, bool]:
    """Run the command lines in turn, keep their records, and return those of whole pairs, and whether all were run.

    The order within each pair is drawn: then all orders that could have been are equally likely, whatever the machine
    does meanwhile, and that is what the verdict compares with.

    Raises:
        UserError: if a command fails; what was measured before is kept.
    """
    writers = [open_writer(path, f"compare-{letter}") for path, letter in zip(keep or (None, None), "ab", strict=True)]
    logs: tuple[list[RunLog], list[RunLog]] = ([], [])
    pair, whole = 0, False
    try:
        with TemporaryDirectory(prefix="volley-") as folder:
            for pair in range(commands.pairs):
                pair_logs = {}
                for which in random.sample((0, 1), 2):
                    if not quiet:
                        _say(f"pair {pair + 1} of {commands.pairs}: {'AB'[which]}")
                    data = _launch(commands.words[which], Path(folder, "records.jsonl"))
                    writers[which].write(data)
                    pair_logs[which] = parse_runs(data, BENCHMARKS, shlex.join(commands.words[which]))
                for which, found in pair_logs.items():
                    logs[which].extend(found)
            whole = True
    except KeyboardInterrupt:
        if not pair:
            raise
        _say(f"stopped after {count(pair, 'pair')}")
    finally:
        for writer in writers:
            writer.close()
            for line in (writer.trouble, None if quiet else writer.last_line()):
                if line:
                    print(line, file=sys.stderr)
    first, second = (Side(shlex.join(words), those) for words, those in zip(commands.words, logs, strict=True))
    return first, second, whole


def _launch(words: Sequence[str], records: Path) -> bytes:
    """Run one launch and return its records.

    Raises:
        UserError: if the command fails or writes no records.
    """
    records.unlink(missing_ok=True)
    try:
        done = subprocess.run([*words, "--launches", "1", "-o", str(records)], check=False, capture_output=True)
    except OSError as error:
        raise UserError(f"cannot run {escape_controls(words[0])}: {error.strerror}") from None
    if done.returncode in (EXIT_INTERRUPTED, -2):
        raise KeyboardInterrupt
    if done.returncode or not records.is_file():
        last = "\n  ".join(clean(done.stderr).splitlines()[-_MAX_LINES:]) or "it said nothing"
        failure = UserError if done.returncode == UserError.exit_code else MachineError
        raise failure(f"{escape_controls(shlex.join(words))} failed with exit code {done.returncode}:\n  {last}")
    return records.read_bytes()


def _say(message: str) -> None:
    print(f"volley: {message}", file=sys.stderr)
