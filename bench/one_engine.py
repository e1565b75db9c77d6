"""What it costs that one engine runs on every MPI: ping-pongs in turn with an engine that was compiled for one MPI.

``python bench/one_engine.py NATIVE_ENGINE --mpi NAME``; volley 0.2 and older build such engines.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from volley.statistics.estimates import estimate, median
from volley.units import format_size

SIZES = (8, 4096)
_VOLLEY = (sys.executable, "-m", "volley", "pingpong", "--transport", "host", "--dry-run", "--launches", "1")


def dry_run(mpi: str) -> tuple[str, list[str]]:
    """Return the plan, and the command that would start this engine."""
    words = [*_VOLLEY, "--sizes", ",".join(map(str, SIZES)), *(["--mpi", mpi] if mpi else [])]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    return done.stdout, shlex.split(done.stderr.splitlines()[-1])


def native(command: Sequence[str], engine: str) -> list[str]:
    """Return the command with an engine that is linked to its MPI, and takes no ``--mpi-library``."""
    at = command.index("--mpi-library")
    return [*command[: at - 1], engine, *command[at + 2 :]]


def half_round_trips(command: Sequence[str], plan: str) -> list[float]:
    """Start the ranks once and return the median of each size."""
    settings = [word for word in command if "=" in word and word.split("=")[0].isidentifier()]
    words = ["env", *settings, *command[len(settings) :]]
    done = subprocess.run(words, input=plan, capture_output=True, text=True, check=True, env=dict(os.environ))
    records = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    points = {each["size_bytes"]: each["half_round_trip_s"] for each in records if each["record"] == "pingpong"}
    return [median(points[size]) for size in SIZES]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("native_engine", type=Path)
    parser.add_argument("--mpi", default="", help="as for volley; the MPI that the other engine was compiled for")
    parser.add_argument("--launches", type=int, default=12)
    asked = parser.parse_args()
    plan, ours = dry_run(asked.mpi)
    theirs = native(ours, str(asked.native_engine.absolute()))
    pairs = []
    for number in range(asked.launches):
        first, second = (ours, theirs) if number % 2 else (theirs, ours)
        one, other = half_round_trips(first, plan), half_round_trips(second, plan)
        pairs.append((one, other) if number % 2 else (other, one))
    for index, size in enumerate(SIZES):
        mine, native_s = (median([pair[side][index] for pair in pairs]) for side in (0, 1))
        ratio = estimate([one[index] / other[index] for one, other in pairs])
        print(
            f"{format_size(size)}: {mine * 1e6:.3f} µs, native {native_s * 1e6:.3f} µs; ratio {ratio.median:.3f} "
            f"({ratio.low:.3f} to {ratio.high:.3f}) over {len(pairs)} pairs of launches"
        )


if __name__ == "__main__":
    main()
