"""The command line: the list of commands, their dispatch, errors and exit codes."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from volley import batch, benchmarks, check, compare, doctor, setup, show, topo, trace, tune
from volley.benchmarks import plain
from volley.command.commandline import Command, HelpAsked, UnknownOptionError, completion_script, help_text, value_of
from volley.errors import EXIT_GOOD, EXIT_INTERRUPTED, EXIT_MACHINE, UserError
from volley.files import NO_ROOM
from volley.launch.inside_launcher import RankInfo, release
from volley.text import did_you_mean, escape_controls, join_words

COMMANDS = (
    *benchmarks.commands(),
    *show.COMMANDS,
    check.COMMAND,
    *compare.COMMANDS,
    tune.COMMAND,
    *trace.COMMANDS,
    *(tool.COMMAND for tool in (batch, doctor, topo)),
    *setup.COMMANDS,
)
"""In the order of ``volley --help``."""

UNITS = """
Units: a latency is the half round trip in µs; GB/s are 10^9 bytes a second; sizes are powers of 1024 (64k = 64 KiB =
65536 bytes). ± is the 95 % confidence interval of the median over launches.
"""
NO_UNITS = ("list", "references")
"""Commands with a table that has none of these units."""
EXIT_CODES = """
Exit codes: 0 success; 1 a point, a step or the run failed; 2 usage error; 3 this machine cannot run the request;
4 undecided (check, compare --fail-on); 130, 143 or 129 stopped by Ctrl-C, SIGTERM or SIGHUP.
"""

_READ_S = 0.2
"""Open MPI's mpirun ends a job of which a rank ends with a status, and drops what it has not read by then: 5 of 50
reports.  A rank cannot ask whether it has: its standard output is a terminal of mpirun's."""
_LONGEST_LINE = 4000
"""Characters of a line of an error message: a list of all transports fits."""


def read(words: Sequence[str]) -> tuple[Command, Any] | None:
    """Return the command of a command line and its options.  If help is asked for, print it and return ``None``."""
    command, rest = _command(words)
    try:
        options = command.parse(rest)
    except HelpAsked:
        shows_numbers = command.name not in NO_UNITS and any(each.name == "--format" for each in command.declared())
        epilog = f"{UNITS}\n{EXIT_CODES}" if shows_numbers else EXIT_CODES
        sys.stdout.write(help_text(command, () if command.name else COMMANDS, epilog))
        return None
    except UnknownOptionError as error:
        # Of the tools the options are not loaded: a usage error is quick too.
        owners = [
            each.name for each in benchmarks.commands() if any(error.flag in own.flags for own in each.declared())
        ]
        if not owners:
            raise
        # It was typed so: better than a similar one.
        hint = f"it is an option of e.g. volley {join_words(owners[:3], 'or')};"
        raise UnknownOptionError(error.flag, error.title, hint) from None
    if isinstance(options, plain.PlainOptions) and options.completion:
        sys.stdout.write(_completion(options.completion))
        return None
    return command, options


def _completion(shell: str) -> str:
    """Return the completion script of a shell; it knows the engine's transports, if there is an engine."""
    from volley.launch import engine, engine_path  # noqa: PLC0415  start-up: only for this
    from volley.records.saved_runs import own_references  # noqa: PLC0415  start-up: only for this
    from volley.references import published  # noqa: PLC0415  start-up: only for this

    references = (*published(), *own_references())
    names = dict.fromkeys(("[NAME]", "RECORDS"), references)
    with contextlib.suppress(UserError), engine.ask_about(Path(engine_path.engine_path())) as answer:
        names["--transport"] = ("all", *(each.name for each in answer().transports))
    return completion_script((plain.COMMAND, *COMMANDS), shell, names)


def _command(words: Sequence[str]) -> tuple[Command, Sequence[str]]:
    """Return the command and the words that follow its name."""
    named = {name: command for command in COMMANDS for name in (command.name, *command.aliases)}
    if words and not words[0].startswith("-"):
        if words[0] not in named:
            near = did_you_mean(words[0], named) or f"the commands are {join_words(each.name for each in COMMANDS)};"
            raise UserError(f"no such command: {escape_controls(words[0])!r}; {near} see volley --help")
        return named[words[0]], words[1:]
    misplaced = next((number for number, word in enumerate(words) if word in named), 0)
    if misplaced:
        with_value = {flag for each in plain.COMMAND.declared() if each.read for flag in each.flags}
        if words[misplaced - 1] not in with_value:
            raise UserError(f"write {words[0]} after the command: volley {words[misplaced]} {words[0]} …")
    return plain.COMMAND, words


def main(words: Sequence[str] | None = None, place: RankInfo | None = None) -> int:
    """Run the command line; return its exit code.  Errors are one sentence on stderr."""
    request: tuple[Command, Any] | None = None
    try:
        request = read(sys.argv[1:] if words is None else words)
        code = request[0].run(request[1]) if request else EXIT_GOOD
        sys.stdout.flush()
    except UserError as error:
        code = _print_error(str(error), error.exit_code)
    except KeyboardInterrupt:
        code = _print_error("stopped", EXIT_INTERRUPTED)
    except OSError as error:
        # Standard output has no room, or its descriptor is for reading.
        if error.filename is None and error.errno in (*NO_ROOM, errno.EBADF):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python would flush it again at its end
            code = _print_error(f"cannot write: {error.strerror}; the output is incomplete", EXIT_MACHINE)
        else:
            about, why = f"{error.filename}: " if error.filename else "", error.strerror or error
            if error.errno == errno.ENOENT and not about:  # as getcwd(3) says it
                why = "the working folder was deleted; cd to another one"
            code = _print_error(f"cannot continue: {about}{why}", EXIT_MACHINE)
    except MemoryError:
        code = _print_error("out of memory", EXIT_MACHINE)
    # This ends the job, so it comes after the error message.
    if place and place.size != 1 and request and request[0].joins(request[1]):
        release(place.launcher, value_of(request[1], "--mpi") or "")
    if place and code:
        sys.stderr.flush()
        time.sleep(_READ_S)
    return code


def _print_error(message: str, exit_code: int) -> int:
    """Print a message without control characters; of a very long line, which quotes a long word, both ends."""
    half = _LONGEST_LINE // 2
    for line in f"volley: {message}".splitlines():  # the message about a records file has one line for each error
        escaped = escape_controls(line)
        print(escaped if len(escaped) <= _LONGEST_LINE else f"{escaped[:half]} … {escaped[-half:]}", file=sys.stderr)
    return exit_code
