"""The options of ``volley record`` and ``volley explain``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from volley.command import option_values
from volley.command.commandline import Options, argument, flag, option
from volley.command.options import OUTPUT, WHAT, table_or_json

TRACE = "mpi.trace"
EVENTS = 1 << 18
"""16 MiB a rank; a million calls took 26 min in LAMMPS and 51 s in HPCC."""
MOST_EVENTS = 1 << 26


@dataclass(frozen=True, kw_only=True)
class RecordOptions(Options):
    output: Path = option(
        "-o", read=option_values.new_file, default=Path(TRACE), panel=OUTPUT, help="File for the trace."
    )
    force: bool = flag(panel=OUTPUT, help="Overwrite an existing file.")
    events: int = option(
        read=option_values.number(1, MOST_EVENTS),
        default=EVENTS,
        panel=WHAT,
        help="Calls of each rank to keep, 64 B each while the application runs; later calls are only counted.",
    )
    words: tuple[str, ...] = argument(
        "[-- COMMAND …]", positional="...", help="What starts the application: mpirun -n 4 ./app."
    )


@dataclass(frozen=True, kw_only=True)
class ExplainOptions(Options):
    trace: tuple[str, ...] = argument("[TRACE]", positional="*", help="A trace of volley record.")
    output: Path | None = option(
        "-o",
        read=option_values.new_file,
        panel=OUTPUT,
        help="Write a page to this file, NAME.html, or its charts, NAME.svg or NAME.png.",
    )
    force: bool = flag(panel=OUTPUT, help="Overwrite an existing file.")
    full: bool = flag(panel=OUTPUT, help="Show all tables.")
    format: str = table_or_json("the findings and the tables")
