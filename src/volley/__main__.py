"""The command ``volley``.

Started plainly, this is the front.  Started by a launcher as one of several ranks, all but the first read the same
command line and become the engine, before anything of weight is imported.
"""

from __future__ import annotations

import gc
import io
import os
import sys

from volley.errors import EXIT_GOOD, EXIT_INTERRUPTED, UserError
from volley.run import inside_launcher

TYPE_CHECKING = False  # start-up: to import typing takes longer than all of this
if TYPE_CHECKING:
    from typing import Any

    from volley.run.inside_launcher import RankInfo


class _Patient(io.FileIO):
    """A descriptor that takes everything, also where nobody reads it any more or its disk is full."""

    def write(self, data: Any) -> int:
        try:
            return super().write(data)
        except OSError:
            return len(data)


def _standard_files() -> None:
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
    _standard_files()
    place = inside_launcher.rank_info(os.environ)
    try:
        return _follow(place) if place and place.rank > 0 else _front(place)
    except KeyboardInterrupt:  # before the command line was read
        print("volley: stopped", file=sys.stderr)
        return EXIT_INTERRUPTED


def _follow(place: RankInfo) -> int:
    """Become the engine where the first rank starts one; what there is to say, the first rank says."""
    from volley import cli  # noqa: PLC0415  start-up: see above

    sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115, PTH123  as long as the process
    try:
        request = cli.read(sys.argv[1:])
        if request and request.joins:
            inside_launcher.exec_engine(place, request.gpus)
    except (UserError, OSError):  # the first rank meets the same error
        pass
    return EXIT_GOOD


def _front(place: RankInfo | None) -> int:
    from volley import cli  # noqa: PLC0415  start-up: see above
    from volley.report.ascii_fallback import never_fail  # noqa: PLC0415  start-up: the other ranks do without

    never_fail(sys.stdout)
    if place:
        # Open MPI gives every rank a terminal of its own: what is drawn on stdout would end up in pipes and files.
        sys.stdout.isatty = lambda: False  # type: ignore[method-assign]
    code = cli.main(place=place)
    gc.freeze()  # else Python searches all that was imported for cycles before it ends: 20 ms for nothing
    return code


if __name__ == "__main__":
    sys.exit(main())
