"""The entry point of the command ``volley``.

Without a launcher, this process is the front end.  If a launcher starts several ranks of volley, rank 0 is the front
end.  Every other rank parses the same command line and execs the engine before it imports a slow module.
"""

from __future__ import annotations

import gc
import io
import os
import sys

TYPE_CHECKING = False  # start-up: to import typing takes longer than all of this
if TYPE_CHECKING:
    from typing import Any

    from volley.launch.inside_launcher import RankInfo


class _Forgiving(io.FileIO):
    """A standard file that drops what it cannot write because of certain errors."""

    def __init__(self, number: int, forgiven: type[OSError]) -> None:
        super().__init__(number, "w", closefd=False)
        self._forgiven = forgiven

    def write(self, data: Any) -> int:
        try:
            return super().write(data)
        except self._forgiven:
            return len(data)


def _standard_files() -> None:
    """Open /dev/null for each closed descriptor of 0 to 2; otherwise the next opened file would get its number."""
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        try:
            os.fstat(number)
        except OSError:
            # It takes the lowest number that is free.  Results that nobody can read are an error, so none are written.
            os.set_inheritable(os.open(os.devnull, os.O_RDONLY if number == 1 else os.O_RDWR), True)
            setattr(sys, name, open(number, mode, closefd=False))  # noqa: SIM115  as long as the process
    # A progress line that cannot be written must not end a measurement.
    messages = io.BufferedWriter(_Forgiving(2, OSError))
    sys.stderr = io.TextIOWrapper(messages, sys.stderr.encoding, "backslashreplace", line_buffering=True)
    # Nor does a reader that has seen enough (volley … | head) change how the command ends.
    results = io.BufferedWriter(_Forgiving(1, BrokenPipeError))
    sys.stdout = io.TextIOWrapper(results, sys.stdout.encoding, sys.stdout.errors, line_buffering=results.isatty())


def main() -> int:
    try:
        from volley.launch.inside_launcher import has_launcher, rank_info  # noqa: PLC0415  start-up: Ctrl-C is caught

        _standard_files()
        place = rank_info(os.environ)
        return _follow(place) if place and place.rank > 0 and has_launcher() else _front(place)
    except KeyboardInterrupt:  # before the command line was read
        from volley.errors import EXIT_INTERRUPTED  # noqa: PLC0415  start-up: Ctrl-C is caught

        print("volley: stopped", file=sys.stderr)
        return EXIT_INTERRUPTED


def _follow(place: RankInfo) -> int:
    """Exec the engine if rank 0 starts one; rank 0 alone reports errors."""
    from volley import cli  # noqa: PLC0415  start-up: see above
    from volley.errors import EXIT_GOOD, UserError  # noqa: PLC0415  start-up: see above
    from volley.launch.inside_launcher import exec_engine, rank_arguments  # noqa: PLC0415
    from volley.machine.transports import have_threads  # noqa: PLC0415

    sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115, PTH123  as long as the process
    try:
        request = cli.read(sys.argv[1:])
        if request and request[0].joins(request[1]):
            job = getattr(request[1], "job", None)  # some commands have none
            named = getattr(request[1], "named_transports", ())  # doctor has none
            threads = have_threads(named) or request[0].name == "transports"  # it opens all of them
            words = rank_arguments(job, threads=threads) if job else ()
            exec_engine(place, job.mpi if job else "", words)
    except (UserError, OSError):  # the first rank meets the same error
        pass
    return EXIT_GOOD


def _interrupt_again(lost: sys.UnraisableHookArgs) -> None:
    """Repeat a Ctrl-C whose exception Python lost in a callback, such as ``__del__`` or those of its imports.

    That is done soon after the callback: in this function, which is part of it, the exception would be lost again.
    """
    if not issubclass(lost.exc_type, KeyboardInterrupt):
        sys.__unraisablehook__(lost)
        return
    import signal  # noqa: PLC0415  start-up: rarely needed
    import threading  # noqa: PLC0415

    threading.Timer(0.01, os.kill, (os.getpid(), signal.SIGINT)).start()


def _front(place: RankInfo | None) -> int:
    from volley import cli  # noqa: PLC0415  start-up: see above
    from volley.text import never_fail  # noqa: PLC0415  start-up: the other ranks do not need it

    never_fail(sys.stdout)
    never_fail(sys.stderr)
    sys.unraisablehook = _interrupt_again
    if place:
        # Open MPI gives every rank its own terminal, so stdout looks like a terminal even if it is a pipe or a file.
        sys.stdout.isatty = lambda: False  # type: ignore[method-assign]
    code = cli.main(place=place)
    gc.freeze()  # skips the final search for cycles in all imported modules, which takes 20 ms
    return code


if __name__ == "__main__":
    sys.exit(main())
