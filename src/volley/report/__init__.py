"""What people and programs read: tables, CSV, JSON, the tutorial's lines, and progress.

Only data goes to ``out``.  With the others the sentences that belong to it (what failed, what was left out and
why, warnings) go to ``err``.  Whoever parses a command line asks for the names of the formats, so nothing of weight is
imported here.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, TextIO

from volley.errors import UserError
from volley.text import several

if TYPE_CHECKING:
    from volley.records_io import RunLog

FORMATS = ("table", "csv", "json", "olcf", "seed", "cuda-samples")
_OF_ONE = {
    "olcf": ("pingpong", "olcf is the ping-pong tutorial's line"),
    "seed": ("jacobi", "seed is the report of NVIDIA's Jacobi example"),
    "cuda-samples": ("node", "cuda-samples is the report of the CUDA sample p2pBandwidthLatencyTest"),
}


def check_format(format_name: str, benchmark: str) -> None:
    """Refuse a format that does not exist or that cannot show the benchmark.

    Raises:
        UserError: naming the formats that would do.
    """
    if format_name not in FORMATS:
        raise UserError(f"there is no format {format_name!r}: choose {several(FORMATS, 'or')}")
    of, what = _OF_ONE.get(format_name, (benchmark, ""))
    if benchmark != of:
        shown = "a matrix between ranks" if of == "node" and benchmark == "matrix" else benchmark
        raise UserError(f"{what} and cannot show {shown}: choose table, csv or json")


def render(
    logs: list[RunLog], format_name: str, out: TextIO, *, color: bool | None = None, err: TextIO | None = None
) -> None:
    """Show runs on ``out``.

    Args:
        logs: the runs, in order; launches of the same request are shown as one.
        format_name: one of ``FORMATS``.
        out: where the data goes.
        color: table only; ``None`` decides by whether ``out`` is a terminal (and by NO_COLOR).
        err: where remarks about the data go; standard error unless given.

    Raises:
        UserError: if the format is unknown or cannot show these runs.
    """
    from volley.report import rendering  # noqa: PLC0415  start-up: --help and a job's start do without

    rendering.render(logs, format_name, out, color=color, err=err)


def load_beside() -> None:
    """Begin to load what reports are made with, in a thread, while the caller waits for somebody else."""
    threading.Thread(target=load).start()


def load() -> None:
    """Load it, or wait until it is loaded: two threads do not import a module twice."""
    from volley.report import rendering  # noqa: F401, PLC0415  start-up: this is what loads it
