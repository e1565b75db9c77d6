"""The command line: which commands there are, and how it ends.  Parsing is all that happens here."""

from __future__ import annotations

import errno
import sys
from typing import Any

import typer
import typer.core

from volley.commands import batch, doctor, jacobi, matrix, overview, pingpong, setup, show, stream, topo, transports
from volley.errors import EXIT_GOOD, EXIT_INTERRUPTED, EXIT_MACHINE, EXIT_REQUEST, UserError
from volley.report.encodable import discard_output
from volley.text import harmless, several

COMMANDS = (
    pingpong.COMMAND,
    stream.COMMAND,
    matrix.COMMAND,
    jacobi.COMMAND,
    transports.COMMAND,
    show.COMMAND,
    batch.COMMAND,
    doctor.COMMAND,
    topo.COMMAND,
    setup.COMMAND,
)
"""In the order of ``volley --help``."""


class _ReaderGoneError(Exception):
    """Whoever read our output has seen enough (volley show … | head)."""


class _Commands(typer.core.TyperGroup):
    """The commands.  Typer would make a failure of a closed pipe, which is nobody's, and say nothing of Ctrl-C."""

    def make_context(self, *arguments: Any, **more: Any) -> Any:
        try:
            return super().make_context(*arguments, **more)
        except KeyboardInterrupt:
            raise typer.Abort from None

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            raise _ReaderGoneError from None
        except KeyboardInterrupt:
            raise typer.Abort from None


app = typer.Typer(
    name="volley",
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)
app.callback(invoke_without_command=True, epilog=overview.COMMAND.epilog)(overview.COMMAND.run)
for _command in COMMANDS:
    app.command(epilog=_command.epilog, context_settings=_command.context_settings)(_command.run)


_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
"""Writing failed, and not for want of a reader."""

_UsageError: Any = typer.BadParameter.__base__
"""Click's own UsageError, wherever this version of Typer keeps its click."""


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; return its exit code.  Errors are one sentence on stderr."""
    command: Any = typer.main.get_command(app)
    code = EXIT_GOOD
    try:
        code = command.main(arguments, prog_name="volley", standalone_mode=False) or EXIT_GOOD
        sys.stdout.flush()
    except UserError as error:
        return _say(str(error), error.exit_code)
    except _UsageError as error:
        return _say(_usage_sentence(error), EXIT_REQUEST)
    except (KeyboardInterrupt, typer.Abort):
        return _say("stopped", EXIT_INTERRUPTED)
    except (_ReaderGoneError, BrokenPipeError):
        discard_output()
    except OSError as error:
        if error.filename is not None or error.errno not in _NO_ROOM:
            raise
        discard_output()
        return _say(f"cannot write: {error.strerror}; what is shown is cut off", EXIT_MACHINE)
    return code


def _usage_sentence(error: Any) -> str:
    """Say what Typer found wrong, and where the valid forms stand."""
    said = harmless(error.format_message()).rstrip(".")
    where = error.ctx.command_path if error.ctx else "volley"
    commands = getattr(error.ctx and error.ctx.command, "commands", None)
    known = f"; the commands are {several(commands)}" if commands else ""
    return f"{said}{known}; see {where} --help"


def _say(sentence: str, exit_code: int) -> int:
    lines = sentence.splitlines() or [""]  # the errors of a file have a line each
    print("\n".join(map(harmless, [f"volley: {lines[0]}", *lines[1:]])), file=sys.stderr)
    return exit_code
