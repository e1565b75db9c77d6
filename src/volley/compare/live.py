"""Two command lines in turn: launches in pairs, so that a drift of the machine affects both of a pair."""

from __future__ import annotations

import os
import random
import shlex
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from volley.benchmarks import BENCHMARKS, commands
from volley.compare.comparison import Side
from volley.errors import EXIT_GOOD, EXIT_INTERRUPTED, EXIT_MACHINE, MachineError, UserError
from volley.machine.signals import Child, Stop
from volley.records.launch_series import observed_in
from volley.records.records_file import open_writer, parse_runs
from volley.records.run_log import RunLog
from volley.text import clean, count, escape_controls

_MAX_LINES = 5
"""Of the messages of a command that failed."""


def parse(commands: Sequence[str]) -> tuple[Sequence[str], Sequence[str]]:
    """Split the command lines into words; variables may stand before the command, as in a shell."""
    if len(commands) != 2:
        raise UserError(
            f"--live takes two command lines, not {len(commands)}: write volley compare --live 'volley …' 'volley …'"
        )
    return _words(commands[0]), _words(commands[1])


def _words(command: str) -> Sequence[str]:
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise UserError(f"--live: {escape_controls(command)!r} is not a command line: {error}") from None
    if not words:
        raise UserError("--live: a command line is empty: write e.g. 'volley pingpong'")
    if "=" in words[0]:
        words = ["env", *words]
    if _name_of_command(words) == "":
        raise UserError("--live: volley without a command makes several launches: write e.g. 'volley pingpong'")
    return words


def _name_of_command(words: Sequence[str]) -> str | None:
    """Return the name behind ``volley``: ``matrix``, or nothing; ``None`` where another program may start volley."""
    places = [place for place, word in enumerate(words) if "=" not in word and Path(word).name == "volley"]
    if not places:
        return None
    following = [*words[places[0] + 1 :], ""][0]
    return "" if following.startswith("-") else following


def _one_launch(words: Sequence[str]) -> Sequence[str]:
    """Return the option for one launch; a matrix has no such option, and is one launch without it."""
    name = _name_of_command(words)
    command = next((each for each in commands() if name in (each.name, *each.aliases)), None)
    has_it = command is None or any(each.name == "--launches" for each in command.declared())
    return ("--launches", "1") if has_it else ()


def measure(
    lines: tuple[Sequence[str], Sequence[str]], pairs: int, keep: tuple[Path, Path] | None, *, quiet: bool
) -> tuple[Side, Side, int]:
    """Run the command lines in turn, keep their records, and return those of whole pairs, and the exit code.

    Ctrl-C, SIGTERM and SIGHUP stop the running command and with it the comparison.

    The order within each pair is drawn: then all orders that could have been are equally likely, whatever the machine
    does meanwhile, and that is what the verdict compares with.
    """
    writers = [open_writer(path, f"compare-{letter}") for path, letter in zip(keep or (None, None), "ab", strict=True)]
    logs: tuple[list[RunLog], list[RunLog]] = ([], [])
    pair, code, stop = 0, EXIT_GOOD, Stop()
    try:
        with stop, TemporaryDirectory(prefix="volley-") as folder:
            for pair in range(pairs):
                pair_logs = {}
                for which in random.sample((0, 1), 2):
                    if not quiet:
                        _say(f"pair {pair + 1} of {pairs}: {'AB'[which]}")
                    data = _launch(lines[which], Path(folder, "records.jsonl"), stop)
                    writers[which].write(data)
                    pair_logs[which] = _parsed(data, shlex.join(lines[which]), logs[which][:1])
                for which, found in pair_logs.items():
                    logs[which].extend(found)
    except KeyboardInterrupt:
        code = 128 + (stop.signal or signal.SIGINT)
        if not pair:
            _say("stopped")
            raise SystemExit(code) from None
        _say(f"stopped after {count(pair, 'pair')}")
    finally:
        for writer in writers:
            writer.close()
            for line in (writer.trouble and f"volley: {writer.trouble}", None if quiet else writer.last_line()):
                if line:
                    print(line, file=sys.stderr)
    if code == EXIT_GOOD and any(writer.trouble for writer in writers):
        code = EXIT_MACHINE
    first, second = (Side.of(shlex.join(words), those) for words, those in zip(lines, logs, strict=True))
    return first, second, code


def _parsed(data: bytes, name: str, first: Sequence[RunLog]) -> list[RunLog]:
    logs = parse_runs(data, BENCHMARKS, name)
    if not observed_in([*first, *logs], BENCHMARKS).rows:
        raise UserError(f"{name} measures no point: there is nothing to compare")
    return logs


def _launch(words: Sequence[str], records: Path, stop: Stop) -> bytes:
    records.unlink(missing_ok=True)
    line = [*words, *_one_launch(words), "-o", str(records), "-f", "csv"]
    # This volley may have been started by its path.
    search = [os.environ.get("PATH", os.defpath), str(Path(sys.executable).parent)]
    environment = os.environ | {"PATH": os.pathsep.join(search)}
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
        raise failure(f"{escape_controls(shlex.join(words))} {what}:\n  {last}")
    return records.read_bytes()


def _say(message: str) -> None:
    print(f"volley: {message}", file=sys.stderr)
