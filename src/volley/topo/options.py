"""The options of ``volley topo``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from volley.options.shared import OUTPUT, WHAT

Transport = Annotated[
    str | None,
    typer.Option(
        "--transport",
        "-t",
        metavar="NAME",
        rich_help_panel=WHAT,
        help="Draw the way of a message in this transport, e.g. staged/pageable, aware or peer.",
    ),
]
Gpus = Annotated[
    str | None,
    typer.Option(
        "--gpus",
        metavar="N,N",
        rich_help_panel=WHAT,
        help="The two GPUs, sender first, under CUDA's numbers.",
        show_default="the first two",
    ),
]
From = Annotated[
    str | None,
    typer.Option(
        "--from",
        metavar="FILE",
        rich_help_panel=WHAT,
        help="Draw the machine whose facts volley doctor --capture kept; - is standard input.",
    ),
]
Picture = Annotated[
    Path | None,
    typer.Option(
        "--output", "-o", metavar="FILE", rich_help_panel=OUTPUT, help="Write the picture here, as SVG; - prints it."
    ),
]
Json = Annotated[bool, typer.Option("--json", rich_help_panel=OUTPUT, help="Print what is drawn as one JSON document.")]
