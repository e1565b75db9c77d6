"""What the tutorial shows of the programs of examples/, and the line that they and volley print."""

import re
import textwrap
from collections.abc import Callable, Iterator
from functools import partial

import msgspec

from figures import DOCS
from volley.benchmarks.pair.results import line

PROGRAMS = DOCS.parent / "examples"
MEASURED = DOCS.parent / "bench/results/intel-r-xeon-r-processor-open-mpi-5-0-11-examples.json"
"""What `make bench BENCH="--part examples"` found: each program, and volley beside it."""
SIZES = {"8 B": 8, "4 KiB": 4096, "1 MiB": 1 << 20, "64 MiB": 1 << 26}


def _printed(program: str) -> Iterator[str]:
    findings = msgspec.json.decode(MEASURED.read_bytes())["findings"]
    medians = {each["what"].partition(f"examples/{program}, ")[2]: each["theirs"]["median"] for each in findings}
    yield "```text"
    yield from (line(size, medians[name]).rstrip("\n") for name, size in SIZES.items())
    yield "```"


def _part(program: str, pattern: str) -> Iterator[str]:
    found = re.search("^" + pattern, (PROGRAMS / program).read_text("utf-8"), re.MULTILINE | re.DOTALL)
    assert found is not None, f"{program} has no {pattern}"
    yield f"```{'c' if program.endswith('.c') else 'cpp'}"
    yield from textwrap.dedent(found[0]).splitlines()
    yield "```"


FIGURES: dict[str, Callable[[], Iterator[str]]] = {
    # lines that a program printed: of each size the median over its launches
    "printed_cpu": partial(_printed, "ping_pong.c"),
    "printed_staged": partial(_printed, "ping_pong_staged.cu"),
    "printed_aware": partial(_printed, "ping_pong_aware.cu"),
    # how a program learns which rank it is, and chooses its GPU before MPI_Init; where it reads the clock
    "program_start": partial(_part, "ping_pong.c", r"    int ranks, rank;.*?MPI_Comm_rank.*?$"),
    "program_gpu": partial(_part, "ping_pong_aware.cu", r"static void choose_gpu.*?^}$"),
    "program_clock": partial(_part, "ping_pong.c", r" *exchange\(message, .*?const double seconds.*?$"),
    # the exchange between host memories, through host memory, and with pointers to GPU memory
    "program_cpu": partial(_part, "ping_pong.c", r"    for \(int i.*?^    }$"),
    "program_staged": partial(_part, "ping_pong_staged.cu", r"static void send.*?(?=\n\nstatic void exchange)"),
    "program_aware": partial(_part, "ping_pong_aware.cu", r"  for \(int i.*?^  }$"),
}
