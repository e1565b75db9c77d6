"""The options of ``volley topo``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from volley.run import readers
from volley.run.commandline import Options, flag, option
from volley.run.options import OUTPUT, WHAT


@dataclass(frozen=True, kw_only=True)
class TopoOptions(Options):
    """What ``volley topo`` takes."""

    transport: str | None = option(
        "--transport",
        "-t",
        read=readers.text,
        metavar="NAME",
        panel=WHAT,
        help="Draw the path of a message in this transport, e.g. staged/pageable, aware or peer.",
    )
    gpus: tuple[int, ...] | None = option(
        read=readers.numbers,
        shown="the first two",
        metavar="N,N",
        panel=WHAT,
        help="The two GPUs, sender first, under CUDA's numbers.",
    )
    source: str | None = option(
        "--from",
        read=readers.text,
        metavar="FILE",
        panel=WHAT,
        help="Draw the machine whose facts volley doctor --capture kept; - is standard input.",
    )
    output: Path | None = option(
        "--output",
        "-o",
        read=lambda _, words: Path(words[-1]),
        metavar="FILE",
        panel=OUTPUT,
        help="Write the picture here, as SVG; - prints it.",
    )
    json: bool = flag(panel=OUTPUT, help="Print what is drawn as one JSON document.")
