"""The options of ``volley show`` and ``volley list``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from volley.benchmarks import BENCHMARKS
from volley.command import option_values
from volley.command.commandline import Options, argument, group, option
from volley.command.options import OUTPUT, OutputOptions, format_change


@dataclass(frozen=True, kw_only=True)
class ShowOptions(Options):
    """What ``volley show`` takes."""

    records: tuple[str, ...] = argument(
        "[RECORDS…]",
        positional="*",
        help="Files of records, or numbers or names of kept runs (volley list); - is standard input. Default: the last "
        "run that was kept.",
    )
    each: Literal["run", "launch"] | None = option(
        read=option_values.choice("run", "launch"),
        metavar="run|launch",
        panel=OUTPUT,
        help="Show every file, or every launch, by itself.",
    )
    output: OutputOptions = group(
        OutputOptions,
        only=("format", "full", "notes", "fit", "quiet"),
        format=format_change({name: text for each in BENCHMARKS for name, text in each.formats.items()}),
    )


@dataclass(frozen=True, kw_only=True)
class ListOptions(Options):
    """What ``volley list`` takes."""

    output: OutputOptions = group(
        OutputOptions, only=("format", "full"), full={"help": "List all runs, and not only the last ones."}
    )
