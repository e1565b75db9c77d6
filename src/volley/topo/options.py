"""The options of ``volley topo``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from volley.command import option_values
from volley.command.commandline import Options, flag, option
from volley.command.options import OUTPUT, WHAT, table_or_json


@dataclass(frozen=True, kw_only=True)
class TopoOptions(Options):
    PANEL = WHAT

    transport: str | None = option(
        "-t",
        read=option_values.text,
        metavar="NAME",
        help="Draw the path of a message in this transport, e.g. staged/pageable, aware or peer.",
    )
    gpus: tuple[int, ...] = option(
        read=option_values.numbers,
        shown="the first two",
        metavar="N,N",
        help="The two GPUs by CUDA's numbers, the sender first.",
    )
    source: str | None = option(
        "--from",
        read=option_values.text,
        metavar="FILE",
        help="Draw the machine whose facts volley doctor --capture saved, or what carried the messages of a saved run "
        "between two hosts; - is standard input.",
    )
    output: Path | None = option(
        "-o",
        read=option_values.file,
        panel=OUTPUT,
        help="Write the picture to this SVG file; - prints it.",
    )
    force: bool = flag(panel=OUTPUT, help="Overwrite an existing picture.")
    format: str = table_or_json("the topology")
