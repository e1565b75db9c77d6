"""Command lines of volley in turn (``--live``, ``--sweep``), so that a drift of the machine affects all of them."""

from __future__ import annotations

import json
import os
import random
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

import msgspec

from volley.benchmarks import BENCHMARKS, commands
from volley.compare.comparison import Side, compare_all, letter
from volley.compare.options import MAX_SIDES
from volley.document import UNREADABLE
from volley.errors import EXIT_GOOD, EXIT_INTERRUPTED, EXIT_MACHINE, MachineError, UserError
from volley.launch.start import ONE_LAUNCH
from volley.machine.signals import Child, Stop, temporary_folder, typed_name
from volley.records.launch_series import observed_in
from volley.records.record_types import Run
from volley.records.records_file import encode_line, parse_runs
from volley.records.run_log import RunLog
from volley.records.writer import open_writer
from volley.run.same_cores import announced
from volley.text import clean, count, escape_controls, join_few, join_words
from volley.units import format_size

_MAX_LINES = 5
"""Of the messages of a command that failed."""

_FILES = "volley compare --live --records FOLDER says where the records go"
_OWN = {
    "--launches": "it makes one launch in each round, and volley compare --live --launches N says how many rounds",
    **dict.fromkeys(("--output", "-o", "--force", "--name"), _FILES),
    **dict.fromkeys(("--format", "-f"), "the format of the comparison is that of volley compare --live --format NAME"),
    "--dry-run": "it would measure nothing",
}
"""Options that a command line of a comparison cannot have, and what to write instead."""


@dataclass(frozen=True)
class Variant:
    """A command line of volley that makes one launch, and what is different in its environment."""

    words: Sequence[str]
    """With the option for one launch; without options about records and format."""
    variables: Mapping[str, str | None] = field(default_factory=dict)
    """``None``: the variable is not set."""
    name: str = ""
    """What messages call it."""


def variants_of(lines: Sequence[str], sweep: tuple[str, tuple[str | None, ...]] | None) -> list[Variant]:
    """Split the command lines into words; variables may stand before the command, as in a shell.

    With ``sweep``, a variable and its values, one command line is a variant for each value.
    """
    if sweep is None:
        if not 2 <= len(lines) <= MAX_SIDES:
            raise UserError(
                f"--live takes 2 to {MAX_SIDES} command lines, not {len(lines)}: write volley compare --live "
                "'volley …' 'volley …'"
            )
        return [Variant([*words, *_one_launch(words)], name=shlex.join(words)) for words in map(_words, lines)]
    if len(lines) != 1:
        raise UserError(f"--sweep takes one command line, not {len(lines)}: write --sweep X=1,2 'volley …'")
    words, (variable, values) = _words(lines[0]), sweep
    names = [f"{variable} not set" if value is None else f"{variable}={value}" for value in values]
    line = [*words, *_one_launch(words)]
    return [Variant(line, {variable: value}, name) for value, name in zip(values, names, strict=True)]


def _words(line: str) -> list[str]:
    try:
        words = shlex.split(line)
    except ValueError as error:
        raise UserError(f"--live: {escape_controls(line)!r} is not a command line: {error}") from None
    if "volley" not in line:  # another program may start it
        raise UserError(f"--live: {escape_controls(line)!r} does not name volley: write e.g. 'volley pingpong'")
    names = [name for each in commands() for name in (each.name, *each.aliases)]
    called = next((place + 1 for place, word in enumerate(words) if Path(word).name == "volley"), None)
    if called is not None and not {*words[called : called + 1]} & {*names}:
        known = join_words([each.name for each in commands()], "or")
        raise UserError(f"--live: {escape_controls(line)!r} is no benchmark: write volley and then {known}")
    benchmark = next((place for place, word in enumerate(words) if word in names), len(words))
    for word in words[benchmark:]:
        flag = word.partition("=")[0] if word.startswith("--") else word[:2]
        if instead := _OWN.get(flag):
            raise UserError(f"--live: leave {flag} out of {escape_controls(line)!r}: {instead}")
    return ["env", *words] if "=" in words[0] else words


def _one_launch(words: Sequence[str]) -> tuple[str, ...]:
    """Return the option for one launch; a command that has none, a matrix, is one launch."""
    is_one = (each.name for each in commands() if all(known.name != "--launches" for known in each.declared()))
    return () if {*is_one} & {*words} else ("--launches", "1")


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
    try:
        with stop:
            _refuse_apart([(each.name, _plan(each, stop)) for each in variants])
            for number, which, data in _in_turn(variants, rounds, stop, "" if quiet else what):
                writers[which].write(data)
                own, name = launches[which], variants[which].name
                own.append(parse_runs(data, BENCHMARKS, name))
                if not observed_in([*own[0], *own[-1]], BENCHMARKS).rows:
                    raise UserError(f"{name} measures no point: there is nothing to compare")
                if number == 1 and all(launches):  # told now, not after all launches
                    named = zip(variants, launches, strict=True)
                    compare_all([Side.of(each.name, those[0], "") for each, those in named], 0.0)
    except KeyboardInterrupt:
        number = stop.signal or signal.SIGINT
        code, by = 128 + number, f"stopped by {typed_name(number)}"
        if not (whole := min(map(len, launches))):
            _say(f"{by} before the first {what} was complete")
            raise SystemExit(code) from None
        launches = [those[:whole] for those in launches]
        _say(f"{by} after {count(whole, what)}")
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


def _in_turn(variants: Sequence[Variant], rounds: int, stop: Stop, what: str) -> Iterator[tuple[int, int, bytes]]:
    """Launch every variant once in each round; yield the round, from 1 on, the place of the variant and the records.

    The order within each round is drawn: then all orders that could have been are equally likely, whatever the machine
    does meanwhile, and that is what a verdict compares with.  ``what`` messages call a round; empty: there are none.

    Raises:
        KeyboardInterrupt: a signal stopped the launches.
        UserError: a command line is wrong.
        MachineError: a command failed, or wrote no records.
    """
    name = os.urandom(8).hex()
    with announced() as others:  # what each launch says of them is not shown
        if others and what:
            _say(others)
    with temporary_folder() as folder:
        for number in range(1, rounds + 1):
            for place, which in enumerate(random.sample(range(len(variants)), len(variants)), start=1):
                if what:
                    _say(f"{what} {number} of {rounds}: {letter(which)}")
                data = _launch(variants[which], Path(folder, "records.jsonl"), stop)
                yield number, which, _marked(data, {"of": name, "round": number, "place": place})


def _marked(data: bytes, mark: Mapping[str, str | int]) -> bytes:
    """Return the records with a mark in each plan: what the front end knows of the launch."""
    lines = data.splitlines(keepends=True)
    for number, line in enumerate(lines):
        with suppress(*UNREADABLE):  # another record
            record = msgspec.json.decode(line, type=Run)
            record.plan.launch["live"] = mark
            lines[number] = encode_line(record)
    return b"".join(lines)


def _plan(variant: Variant, stop: Stop) -> Mapping[str, Any]:
    """Return what a command line would measure; nothing, if it does not begin with volley, or has no plan.

    A wrong option is so refused before anything is measured.
    """
    words = iter(variant.words)
    program = ""
    for word in words:  # the one that env starts
        program = word
        if word in ("-u", "--unset"):
            next(words, "")
        elif word != "env" and "=" not in word and not word.startswith("-"):
            break
    if not shutil.which(program, path=_search()):
        raise UserError(f"--live: cannot start {escape_controls(program)}: there is no such program")
    with suppress(ValueError):
        out = _run(variant, [*variant.words, "--dry-run"], stop) if Path(program).name == "volley" else b""
        plan, _ = json.JSONDecoder().raw_decode(out.decode(errors="replace"))
        if plan["launch"]["inside"]:
            raise UserError(f"--live: {ONE_LAUNCH}")
        return {**plan["options"], "transports": plan["transports"], "benchmark": [plan["benchmark"]]}
    return {}


def _refuse_apart(plans: Sequence[tuple[str, Mapping[str, Any]]]) -> None:
    """Refuse command lines that have no point in common with the first."""
    (first, one), *others = plans
    for name, other in others:
        for key in ("benchmark", "transports", "sizes_bytes", "operations"):
            if one.get(key) and other.get(key) and not {*one[key]} & {*other[key]}:
                shown = format_size if key == "sizes_bytes" else str
                both = ((first, one[key]), (name, other[key]))
                what = "; ".join(f"{each} has {join_few(map(shown, its))}" for each, its in both)
                raise UserError(f"--live: the command lines have no {key.removesuffix('_bytes')} in common: {what}")


def _launch(variant: Variant, records: Path, stop: Stop) -> bytes:
    records.unlink(missing_ok=True)
    _run(variant, [*variant.words, "-o", str(records), "-f", "csv"], stop)
    if not records.is_file():
        raise MachineError(f"{escape_controls(variant.name)} wrote no records")
    return records.read_bytes()


def _search() -> str:
    """Return PATH with the folder of this volley, which may have been started by its path."""
    return os.pathsep.join([os.environ.get("PATH", os.defpath), str(Path(sys.executable).parent)])


def _run(variant: Variant, line: Sequence[str], stop: Stop) -> bytes:
    """Run a command line of a variant; return its output.  If it fails, its last words are those of the error."""
    changed = {**os.environ, "PATH": _search(), **variant.variables}
    environment = {name: value for name, value in changed.items() if value is not None}
    try:
        command = Child(line, environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    except MachineError as error:  # the words are the user's
        raise UserError(str(error)) from None
    with command:
        stop.watch(command)
        out, said = command.process.communicate()
        stop.watch(None)
    status = command.process.returncode
    if stop.signal is not None or status in (EXIT_INTERRUPTED, -2):
        raise KeyboardInterrupt
    if status:
        # With CSV standard error has all notes, such as why a transport is unavailable; the records are deleted.
        lines = [line for line in clean(said).splitlines() if not line.startswith("records: ")]
        last = "\n  ".join(lines[-_MAX_LINES:]) or "it said nothing"
        failure = UserError if status == UserError.exit_code else MachineError
        raise failure(f"{escape_controls(variant.name)} failed with exit code {status}:\n  {last}")
    return bytes(out)


def _say(message: str) -> None:
    print(f"volley: {message}", file=sys.stderr)
