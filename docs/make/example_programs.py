"""What the tutorial shows of the programs of examples/, and the line that they and volley print."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator

import msgspec

from figures import DOCS
from volley.benchmarks.pair.results import line
from volley.statistics.estimates import median

PROGRAMS = DOCS.parent / "examples"
PEERS = DOCS.parent / "results/h200-x2/peers.jsonl"
SIZES = (8, 4096, 1 << 20, 1 << 30)


def printed_line() -> Iterator[str]:
    """Yield what 5 + 50 exchanges through CUDA-aware MPI came to, each line the median of eleven launches of volley."""
    records = [msgspec.json.decode(text) for text in PEERS.read_bytes().splitlines()]
    launches = [each for each in records if each.get("comparison") == "tutorial-aware" and each["command"] == "volley"]
    yield "```text"
    for size in SIZES:
        yield line(size, median([launch["figures"][f"aware {size}"] for launch in launches])).rstrip("\n")
    yield "```"


def program_clock() -> Iterator[str]:
    """Yield where the programs read the clock."""
    yield from _part("ping_pong.c", r" *exchange\(message, .*?const double seconds.*?$")


def program_cpu() -> Iterator[str]:
    """Yield the exchange between host memories."""
    yield from _part("ping_pong.c", r"    for \(int i.*?^    }$")


def program_staged() -> Iterator[str]:
    """Yield how a message is sent and received through host memory."""
    yield from _part("ping_pong_staged.cu", r"static void send.*?(?=\n\nstatic void exchange)")


def program_aware() -> Iterator[str]:
    """Yield the exchange with pointers to GPU memory."""
    yield from _part("ping_pong_aware.cu", r"  for \(int i.*?^  }$")


def _part(program: str, pattern: str) -> Iterator[str]:
    found = re.search("^" + pattern, (PROGRAMS / program).read_text("utf-8"), re.MULTILINE | re.DOTALL)
    assert found is not None, f"{program} has no {pattern}"
    yield f"```{'c' if program.endswith('.c') else 'cpp'}"
    yield from textwrap.dedent(found[0]).splitlines()
    yield "```"
