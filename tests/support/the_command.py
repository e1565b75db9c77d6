"""Running the ``volley`` command as a user does, and the mpirun that belongs to its engine."""

import json
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from unittest import mock

import pytest

from screens import SCREENS, check_screen
from volley import cli
from volley.benchmarks import BENCHMARKS
from volley.launch.inside_launcher import scrubbed
from volley.launch.launchers import cores
from volley.machine.mpi_choice import choose_mpi
from volley.records.records_file import read_runs
from volley.records.run_log import RunLog
from volley.run.same_cores import SPACE

FEW = ("--sizes", "100,64k", "--iterations", "5")
"""A measurement that is over at once, also on an MPI that does not yield: of up to 64 B, thousands are compared."""
BUSY = {"OMPI_MCA_mpi_yield_when_idle": "0"}
"""For a test of what doctor finds: beside other work, ranks that yield are slow."""
BEYOND_AN_INT = (2 << 30) + 8
"""Bytes of a message that MPI's int cannot count."""
DATA_FAULTS = ("flip", "early", "late", "lose", "swap", "echo")
"""Faults that change what arrives: every point fails. `wrap` needs a long pass of short messages: see
engine/tests/host_sampler.cpp."""
LIMIT_S = 240
"""No command takes so long, also on a busy machine; one that hangs fails its test instead of the whole suite."""


@dataclass(frozen=True)
class Finished:
    """What a command left behind."""

    code: int
    out: str
    err: str

    @property
    def records(self) -> list[RunLog]:
        """The runs in the file that the last line names."""
        lines = [line for line in self.err.splitlines() if line.startswith("records: ")]
        return read_runs(lines[-1].removeprefix("records: "), BENCHMARKS)


@dataclass(frozen=True)
class Command:
    """The ``volley`` of one installation, in a home of its own."""

    volley: Path
    engine: Path
    state: Path
    mpi: str = ""
    """The prefix of the MPI whose mpirun is the first on PATH."""

    def environment(self, **changes: str) -> dict[str, str]:
        """A plain user's environment: no allocation, no launcher, nobody's choice of components.

        A rank of Open MPI that waits leaves its core to the other tests, which are not taken for disturbances.
        """
        gone = ("SLURM_", "LSB_", "PBS_", "SGE_", "PE_HOSTFILE", "OMPI_", "VOLLEY_")
        plain = {name: value for name, value in scrubbed(os.environ).items() if not name.startswith(gone)}
        mine = {"XDG_STATE_HOME": str(self.state), "VOLLEY_ENGINE": str(self.engine), "COLUMNS": "120"}
        mine |= {"OMPI_MCA_mpi_yield_when_idle": "1", SPACE: os.environ.get(SPACE, "")}
        first = f"{self.mpi}/bin" if self.mpi else str(self.engine.parent)  # that of a stand-in
        mine["PATH"] = f"{first}{os.pathsep}{plain['PATH']}"
        return {**plain, **mine, **changes}

    def start(self, *words: str, before: Sequence[str] = (), **changes: str) -> subprocess.Popen[str]:
        """Start ``volley`` with these words, after those of a launcher."""
        return subprocess.Popen(
            [*before, str(self.volley), *words],
            env=self.environment(**changes),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def __call__(self, *words: str, before: Sequence[str] = (), **changes: str) -> Finished:
        """Run ``volley`` to its end."""
        return finish(self.start(*words, before=before, **changes))

    def mpirun(self, ranks: int) -> list[str]:
        """The engine's own launcher, for so many ranks on this machine, whoever we are."""
        mpi = choose_mpi("", self.environment())
        if mpi.family == "mpich":
            return [str(mpi.launcher), "-n", str(ranks)]
        crowded = ["--map-by", ":OVERSUBSCRIBE"] if ranks > cores() else []
        local = ["--bind-to", "none", "--mca", "btl", "^ofi", "--mca", "mtl", "^ofi"]
        return [str(mpi.launcher), "--allow-run-as-root", "-n", str(ranks), *crowded, *local]


def engine_words(engine: Path, prefix: Path | None = None) -> list[str]:
    """An engine that reads a plan from standard input, with the MPI of a prefix or the first one on PATH."""
    library = choose_mpi(str(prefix) if prefix else "", os.environ).library
    return [str(engine), "--mpi-library", library, "--plan", "-"]


def program(path: Path, script: str = "") -> Path:
    """Write a program of a few lines of shell."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    path.chmod(0o755)
    return path


def finish(process: subprocess.Popen[str]) -> Finished:
    """Wait for a command; one that hangs is killed, and fails."""
    try:
        out, err = process.communicate(timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        raise
    return Finished(process.returncode, out, err)


def check_plan(engine: Path, plan: object) -> Finished:
    """Let an engine validate a plan: a document, or text that may be none."""
    text = plan if isinstance(plan, str) else json.dumps(plan)
    return finish_with([str(engine), "--check", "--plan", "-"], text)


def finish_with(command: Sequence[str], text: str) -> Finished:
    """Run a command that reads ``text``."""
    done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    return Finished(done.returncode, done.stdout, done.stderr)


def imports_of(text: str) -> set[str]:
    """The modules in what ``PYTHONPROFILEIMPORTTIME`` prints."""
    return {line.rpartition("|")[2].strip() for line in text.splitlines() if line.startswith("import time:")}


def check_transcript(
    name: str,
    capsys: pytest.CaptureFixture[str],
    shown: Mapping[str, str] = MappingProxyType({}),
    *,
    only_err: bool = False,
) -> None:
    """Run each ``$ VARIABLE=x volley …`` of ``tests/screens/NAME.txt``, and compare what is printed and exit codes.

    ``shown``: what stands in the transcript for words of this run, such as the path of a folder.  ``only_err``: reports
    are left out.
    """
    path = SCREENS / f"{name}.txt"
    parts = []
    for line in path.read_text("utf-8").splitlines():
        if line.startswith("$ "):
            words = shlex.split(line)
            command = words.index("volley")
            environment = dict(word.split("=", 1) for word in words[1:command])
            with mock.patch.dict(os.environ, environment), mock.patch.object(sys, "argv", words[command:]):
                code = cli.main()
            out, err = capsys.readouterr()
            printed = err if only_err else out + err
            for found, instead in shown.items():
                printed = printed.replace(found, instead)
            parts.append(f"{line}\n{printed}[{code}]\n")
    check_screen(path, "\n".join(parts))


def until(true: Callable[[], bool], otherwise: str, limit_s: float = 120) -> None:
    """Wait for something to become true."""
    deadline = time.monotonic() + limit_s
    while not true():
        assert time.monotonic() < deadline, otherwise
        time.sleep(0.02)


def gone(*pids: int) -> None:
    """Wait for the end of processes."""
    until(lambda: not any(map(alive, pids)), f"of {pids} some live on")


def alive(pid: int) -> bool:
    """True for a process that runs; one that has ended and waits for its parent is over."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"
