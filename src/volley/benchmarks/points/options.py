"""The options that all benchmarks of points have, each declared once."""

from __future__ import annotations

from dataclasses import dataclass

from volley.run import readers
from volley.run.commandline import Options, flag, option
from volley.run.options import HOW, WHAT
from volley.units import VALID_FORMS, parse_sizes


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
