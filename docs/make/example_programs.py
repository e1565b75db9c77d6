"""What the tutorial shows of the programs of examples/, and the line that they and volley print."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator

import msgspec

from figures import DOCS
from volley.benchmarks.pair.results import line

PROGRAMS = DOCS.parent / "examples"
MEASURED = DOCS.parent / "bench/results/intel-r-xeon-r-processor-open-mpi-5-0-11-examples.json"
"""What `make bench BENCH="--part examples"` found: each program, and volley beside it."""
SIZES = {"8 B": 8, "4 KiB": 4096, "1 MiB": 1 << 20, "64 MiB": 1 << 26}


def printed_cpu() -> Iterator[str]:
    """Yield lines that the program for host memory printed: of each size the median over its launches."""
    yield from _printed("ping_pong.c")


def printed_staged() -> Iterator[str]:
    """Yield the same of the program that copies through host memory."""
    yield from _printed("ping_pong_staged.cu")


def printed_aware() -> Iterator[str]:
    """Yield the same of the program for CUDA-aware MPI."""
    yield from _printed("ping_pong_aware.cu")


def _printed(program: str) -> Iterator[str]:
    findings = msgspec.json.decode(MEASURED.read_bytes())["findings"]
    medians = {each["what"].partition(f"examples/{program}, ")[2]: each["theirs"]["median"] for each in findings}
    yield "```text"
    yield from (line(size, medians[name]).rstrip("\n") for name, size in SIZES.items())
    yield "```"


def program_start() -> Iterator[str]:
    """Yield how a program learns which rank it is."""
    yield from _part("ping_pong.c", r"    int ranks, rank;.*?MPI_Comm_rank.*?$")


def program_gpu() -> Iterator[str]:
    """Yield how a rank chooses its GPU before MPI_Init."""
    yield from _part("ping_pong_aware.cu", r"static void choose_gpu.*?^}$")


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
