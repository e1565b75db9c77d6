"""What the commands have in common."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import typer

from volley.options import request

_EXIT_CODES = """
Exit codes: 0 good; 1 a point failed, or the run broke off; 2 the request makes no sense; 3 the machine cannot do it;
130 stopped by Ctrl-C.
"""
_UNITS = """
Units: a latency is the half round trip in µs; GB/s are 10^9 bytes a second; sizes are powers of 1024 (64k = 64 KiB =
65536 bytes). ± is the 95 % interval of the median.
"""


class Command(NamedTuple):
    """A command; its name is the function's, its options are the function's parameters, its help the docstring."""

    run: Callable[..., None]
    examples: tuple[str, ...]
    context_settings: dict[str, Any] | None = None
    """Click's."""

    @property
    def epilog(self) -> str:
        """Examples, units and exit codes, as paragraphs."""
        return "\n\n".join(["Examples:", *self.examples, _UNITS.strip(), _EXIT_CODES.strip()])


def measure(benchmark: Literal["pingpong", "stream", "matrix", "jacobi"], ctx: typer.Context) -> None:
    """Measure what the command line asks for, and exit."""
    asked = request(benchmark, ctx.params)
    from volley import session  # noqa: PLC0415  start-up: errors and --help do without

    raise typer.Exit(session.measure(asked))
