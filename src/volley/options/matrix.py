"""The options of ``volley matrix`` that no other command has, and how they become the plan's part."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from volley.options.reading import check_choice, read_sizes
from volley.options.shared import HOW, OUTPUT, WHAT, WHERE
from volley.records import Matrix

POINT_TIME_S = 0.03
"""A matrix has many pairs: all visits of a cell together take a tenth of the time that a point of a curve may take."""

REPEATS = 3
"""How often every pair is visited: one short disturbance then spoils no cell, because the median counts."""

Transports = Annotated[
    list[str] | None,
    typer.Option(
        "--transport",
        "-t",
        metavar="NAME,…",
        rich_help_panel=WHAT,
        help="Transports, separated by commas; each has matrices of its own (volley transports lists them).",
        show_default="host",
    ),
]
LatencySizes = Annotated[
    str,
    typer.Option(
        "--latency",
        metavar="SIZES",
        rich_help_panel=WHAT,
        help="Message sizes whose latency is measured (ping-pong), as --sizes of volley pingpong; none: no latency.",
    ),
]
BandwidthSizes = Annotated[
    str,
    typer.Option(
        "--bandwidth",
        metavar="SIZES",
        rich_help_panel=WHAT,
        help="Message sizes whose bandwidth is measured (stream); none: no bandwidth.",
    ),
]
Mode = Annotated[
    str,
    typer.Option(
        metavar="isolated|loaded",
        rich_help_panel=WHAT,
        help="isolated: one pair at a time; loaded: the rounds of a tournament, in which all ranks are busy.",
    ),
]
Retest = Annotated[
    bool,
    typer.Option(
        "--retest/--no-retest",
        rich_help_panel=HOW,
        help="Measure pairs that are slower than their like again, in launches of their own, before they are blamed.",
    ),
]
Repeats = Annotated[
    int,
    typer.Option(
        min=1,
        metavar="N",
        rich_help_panel=HOW,
        help="Visit every pair so often; the median of the visits counts, so that a short disturbance does not.",
    ),
]
Samples = Annotated[bool, typer.Option("--samples", rich_help_panel=OUTPUT, help="Keep every sample in the records.")]
PointTime = Annotated[
    float | None,
    typer.Option(
        "--point-time",
        metavar="SECONDS",
        rich_help_panel=HOW,
        help="Give up on the interval, and go on to the next pair, after this time a visit.",
        show_default=f"{POINT_TIME_S:g}",
    ),
]
Ranks = Annotated[
    int | None,
    typer.Option(
        "--ranks",
        "-n",
        min=1,
        metavar="N",
        rich_help_panel=WHERE,
        help="Ranks to start.",
        show_default="the allocation's, one a host of --hosts, or one a core and 8 at most",
    ),
]


def plan_part(options: Mapping[str, Any]) -> Matrix:
    """Turn the parsed options into the plan's part.

    Raises:
        UserError: naming the option and the nearest valid form.
    """
    mode = options.get("mode", "isolated")
    check_choice("--mode", mode, ("isolated", "loaded"))
    sizes = {
        name: [] if options[name] == "none" else list(read_sizes(f"--{name}", options[name]))
        for name in ("latency", "bandwidth")
    }
    return Matrix(
        mode=mode,
        latency_sizes_bytes=sizes["latency"],
        bandwidth_sizes_bytes=sizes["bandwidth"],
        repeats=options.get("repeats", REPEATS),
        samples=options.get("samples", False),
    )
