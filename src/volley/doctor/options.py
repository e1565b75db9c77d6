"""The options of ``volley doctor``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from volley.run import readers
from volley.run.commandline import Options, flag, option
from volley.run.options import HOW, OUTPUT, WHAT


@dataclass(frozen=True, kw_only=True)
class DoctorOptions(Options):
    """What ``volley doctor`` takes."""

    source: str | None = option(
        "--from",
        read=readers.text,
        metavar="FILE",
        panel=WHAT,
        help="Judge facts that --capture kept; try nothing here.",
    )
    timeout: float = option(
        read=readers.seconds,
        default=60.0,
        metavar="SECONDS",
        panel=HOW,
        help="End a layer's attempt after this time, and go on.",
    )
    capture: Path | None = option(
        read=lambda _, words: Path(words[-1]),
        metavar="FILE",
        panel=OUTPUT,
        help="Keep the facts here, to be judged anywhere; - prints them instead of the findings.",
    )
    device_query: bool = flag(panel=OUTPUT, help="Print all that CUDA says of each GPU instead.")
    json: bool = flag(panel=OUTPUT, help="Print the findings as one JSON document.")
