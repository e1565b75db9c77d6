"""Command lines in turn: launches in pairs, or in larger rounds, so that a drift of the machine affects all of them."""

from __future__ import annotations

import shlex
import signal
import sys
from collections.abc import Sequence
from itertools import chain
from pathlib import Path

from volley.benchmarks import BENCHMARKS, commands
from volley.compare.comparison import Side, letter
from volley.compare.options import MAX_SIDES
from volley.errors import EXIT_GOOD, EXIT_MACHINE, UserError
from volley.machine.signals import Stop
from volley.records.launch_series import observed_in
from volley.records.records_file import open_writer, parse_runs
from volley.records.run_log import RunLog
from volley.run.alternate import Variant, alternate
from volley.text import count, escape_controls


def variants_of(lines: Sequence[str], sweep: tuple[str, tuple[str | None, ...]] | None) -> list[Variant]:
    """Split the command lines into words; variables may stand before the command, as in a shell.

    With ``sweep``, a variable and its values, one command line is a variant for each value.
    """
    if sweep is None:
        if not 2 <= len(lines) <= MAX_SIDES:
            raise UserError(
                f"--live takes two to {MAX_SIDES} command lines, not {len(lines)}: write volley compare --live "
                "'volley …' 'volley …'"
            )
        return [Variant([*(words := _words(line)), *_one_launch(words)], name=shlex.join(words)) for line in lines]
    if len(lines) != 1:
        raise UserError(f"--sweep takes one command line, not {len(lines)}: write --sweep X=1,2 'volley …'")
    words, (variable, values) = _words(lines[0]), sweep
    names = [f"{variable} not set" if value is None else f"{variable}={value}" for value in values]
    line = [*words, *_one_launch(words)]
    return [Variant(line, {variable: value}, name) for value, name in zip(values, names, strict=True)]


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
    variants: Sequence[Variant], rounds: int, folder: Path | None, *, force: bool, quiet: bool
) -> tuple[list[Side], int]:
    """Run the command lines in turn, keep their records, and return those of whole rounds, and the exit code.

    Ctrl-C, SIGTERM and SIGHUP stop the running command and with it the comparison.  Records go to ``folder``, or to the
    state folder; with ``force`` they replace what is in their files.
    """
    try:
        if folder:
            folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"--records: cannot write to {escape_controls(str(folder))}: {error.strerror}") from None
    letters = [letter(place).lower() for place in range(len(variants))]
    files = [folder and folder / f"{each}.jsonl" for each in letters]
    writers = [open_writer(file, f"compare-{each}", force=force) for file, each in zip(files, letters, strict=True)]
    launches: list[list[list[RunLog]]] = [[] for _ in variants]
    code, stop, what = EXIT_GOOD, Stop(), "pair" if len(variants) == 2 else "round"

    def begin(number: int, which: int) -> None:
        if not quiet:
            _say(f"{what} {number} of {rounds}: {letter(which)}")

    try:
        with stop:
            for launch in alternate(variants, rounds, stop, begin):
                writers[launch.variant].write(launch.data)
                own = launches[launch.variant]
                own.append(_parsed(launch.data, variants[launch.variant].name, own[0] if own else ()))
    except KeyboardInterrupt:
        code = 128 + (stop.signal or signal.SIGINT)
        if not (whole := min(map(len, launches))):
            _say("stopped")
            raise SystemExit(code) from None
        launches = [those[:whole] for those in launches]
        _say(f"stopped after {count(whole, what)}")
    finally:
        for writer in writers:
            writer.close()
            for line in (writer.trouble and f"volley: {writer.trouble}", None if quiet else writer.last_line()):
                if line:
                    print(line, file=sys.stderr)
    if code == EXIT_GOOD and any(writer.trouble for writer in writers):
        code = EXIT_MACHINE
    sides = zip(variants, launches, writers, strict=True)
    return [Side.of(each.name, list(chain(*those)), str(writer.path or "")) for each, those, writer in sides], code


def _parsed(data: bytes, name: str, first: Sequence[RunLog]) -> list[RunLog]:
    logs = parse_runs(data, BENCHMARKS, name)
    if not observed_in([*first, *logs], BENCHMARKS).rows:
        raise UserError(f"{name} measures no point: there is nothing to compare")
    return logs


def _say(message: str) -> None:
    print(f"volley: {message}", file=sys.stderr)
