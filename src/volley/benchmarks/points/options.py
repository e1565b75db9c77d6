"""The options that several benchmarks of messages have, each declared once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from volley.run import readers
from volley.run.commandline import Options, flag, option
from volley.run.options import HOW, WHAT
from volley.units import VALID_FORMS, parse_sizes

MOST_IN_FLIGHT = 1 << 16
"""MPI keeps a request for each message of a window, and a billion of them need more memory than a node has."""


@dataclass(frozen=True, kw_only=True)
class PointOptions(Options):
    """Which messages go over which transports."""

    transport: tuple[str, ...] = option(
        "--transport",
        "-t",
        read=readers.names,
        repeat=True,
        default=(),
        shown="those that carry data",
        metavar="NAME,…",
        panel=WHAT,
        help="Transports to compare, separated by commas; all: every one there is (volley transports lists them).",
    )
    sizes: tuple[int, ...] = option(
        "--sizes",
        "-s",
        read=readers.sizes,
        default=parse_sizes("8:1Gi"),
        shown="8:1Gi",
        metavar="SIZES",
        panel=WHAT,
        help=f"Message sizes in bytes: {VALID_FORMS}. k, M, G mean the same as Ki, Mi, Gi: powers of 1024.",
    )
    fresh_buffers: bool = flag(panel=HOW, help="Allocate new buffers for every size, as the tutorial does.")


@dataclass(frozen=True, kw_only=True)
class WindowOptions(Options):
    """How many messages are in flight, and which way they go."""

    direction: Literal["uni", "bi"] = option(
        read=readers.choice("uni", "bi"),
        default="uni",
        metavar="uni|bi",
        panel=WHAT,
        help="uni: the first rank sends; bi: both send at once, and each direction and the total are shown.",
    )
    window: int = option(
        read=readers.number(most=MOST_IN_FLIGHT),
        default=64,
        metavar="N",
        panel=WHAT,
        help="Messages in flight before one acknowledgement.",
    )
