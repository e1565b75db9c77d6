"""The options of ``volley doctor``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from volley.options.shared import HOW, OUTPUT, WHAT

Json = Annotated[bool, typer.Option("--json", rich_help_panel=OUTPUT, help="Print the findings as one JSON document.")]
Capture = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        rich_help_panel=OUTPUT,
        help="Keep the facts here, to be judged anywhere; - prints them instead of the findings.",
    ),
]
From = Annotated[
    str | None,
    typer.Option(
        "--from", metavar="FILE", rich_help_panel=WHAT, help="Judge facts that --capture kept; try nothing here."
    ),
]
DeviceQuery = Annotated[
    bool,
    typer.Option("--device-query", rich_help_panel=OUTPUT, help="Print all that CUDA says of each GPU instead."),
]
Timeout = Annotated[
    float,
    typer.Option(
        min=1.0, metavar="SECONDS", rich_help_panel=HOW, help="End a layer's attempt after this time, and go on."
    ),
]
