"""The command ``volley``.

Started plainly, this is the front.  Started by a launcher as one of several ranks, all but the first become the engine
here, before anything of weight is imported.
"""

from __future__ import annotations

import gc
import io
import os
import sys

from volley.errors import EXIT_INTERRUPTED, UserError
from volley.launch import inside

TYPE_CHECKING = False  # start-up: to import typing takes longer than all of this
if TYPE_CHECKING:
    from typing import Any


class _Patient(io.FileIO):
    """A descriptor that takes everything, also where nobody reads it any more or its disk is full."""

    def write(self, data: Any) -> int:
        try:
            return super().write(data)
        except OSError:
            return len(data)


def _standard_streams() -> None:
    """Give a process that was started with closed descriptors 0 to 2 empty ones: files would take their place."""
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # it takes the lowest number that is free
            setattr(sys, name, open(number, mode, closefd=False))  # noqa: SIM115  as long as the process
    # What is only said, progress above all, must not end a measurement.
    said = io.BufferedWriter(_Patient(2, "w", closefd=False))
    sys.stderr = io.TextIOWrapper(said, sys.stderr.encoding, "backslashreplace", line_buffering=True)


def main() -> int:
    """Run the command line and return the exit code."""
    _standard_streams()
    arguments = sys.argv[1:]
    place = inside.position(os.environ)
    if place is None:
        from volley.launch import headstart  # noqa: PLC0415  start-up: ranks do without

        try:
            headstart.begin(arguments)
        except KeyboardInterrupt:
            return _stopped()
        return _front()
    if place.rank > 0:
        try:  # noqa: SIM105  start-up: contextlib
            inside.follow(place, arguments)
        except (UserError, OSError):  # the first rank meets the same error and says it
            pass
        return 0
    # Open MPI gives every rank a terminal of its own for stdout; what is drawn on it would end up in pipes and files.
    sys.stdout.isatty = lambda: False  # type: ignore[method-assign]
    code = _front()
    if place.size != 1 and not inside.overridden(arguments) and inside.measures(arguments):
        from volley import engine  # noqa: PLC0415  start-up: the other ranks never come here

        engine.release()
    return code


def _front() -> int:
    try:
        from volley import cli  # noqa: PLC0415  start-up: the ranks that become the engine never come here
        from volley.report.encodable import never_fail  # noqa: PLC0415  start-up: the same

        never_fail(sys.stdout)
        code = cli.main()
    except KeyboardInterrupt:  # before the command line was read
        return _stopped()
    gc.freeze()  # else Python searches all that was imported for cycles before it ends: 20 ms for nothing
    return code


def _stopped() -> int:
    print("volley: stopped", file=sys.stderr)
    return EXIT_INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())
