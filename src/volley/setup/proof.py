"""The proof of a set-up: a transfer between two ranks of the MPI that was set up.

What a library reports of itself proves nothing.  ``prove`` is the one place that knows how the transfer is made.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Literal

import msgspec

from volley.errors import MachineError
from volley.machine.mpi_stack import UCX_MCA
from volley.machine.signals import fatal_signal
from volley.run import inside_launcher
from volley.run.launchers.launchers import LAUNCHERS
from volley.run.launchers.spec import LaunchSpec, cores
from volley.setup.work import StepError
from volley.text import escape_controls

LIMIT_S = 120.0
"""A transfer that takes longer hangs: it is over in about a second."""


@dataclass(frozen=True)
class MpiInstallation:
    """An MPI to prove."""

    bin: Path
    """Where its mpicc and mpirun are."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """Variables that its ranks need, e.g. ``LD_PRELOAD``."""


class TransferProof(msgspec.Struct, frozen=True, kw_only=True):
    """What the transfer showed."""

    memory: Literal["device", "host"]
    gpus: int
    why_host: str
    """Why no device memory was sent; empty where it was."""
    sizes_bytes: list[int]
    wrong_bytes: int
    library: str
    """The MPI's own description, with every character that is not plain ASCII replaced."""


def prove(mpi: MpiInstallation, environment: Mapping[str, str], scratch: Path | None = None) -> TransferProof:
    """Send a message there and back between two ranks, on GPU memory where there is a GPU, and compare every byte.

    Args:
        mpi: the MPI to prove.
        environment: the environment to start from; a launcher's variables in it are left out.
        scratch: where to put the little program; a temporary folder unless given.

    Raises:
        MachineError: if the program cannot be compiled or started.
        StepError: if the transfer failed, with what was said.
    """
    plain = inside_launcher.scrubbed(environment)
    with tempfile.TemporaryDirectory(dir=scratch) as folder, resources.as_file(_SOURCE) as source:
        program = Path(folder) / "roundtrip"
        _compile(mpi, source, program, plain)
        job = LaunchSpec(
            engine=(str(program),),
            ranks=2,
            cores=cores(),
            root=os.geteuid() == 0,
            mca=UCX_MCA,
            variables=mpi.variables,
            environment=plain,
        )
        openmpi = LAUNCHERS["openmpi"]
        tokens = [str(mpi.bin / "mpirun"), *openmpi.words(job), *job.engine]
        return _read(_run(tokens, {**plain, **openmpi.environment(job)}), tokens)


_SOURCE = resources.files("volley.setup") / "roundtrip.c"


def _compile(mpi: MpiInstallation, source: Path, program: Path, environment: Mapping[str, str]) -> None:
    done = _run([str(mpi.bin / "mpicc"), "-O1", str(source), "-o", str(program), "-ldl"], environment)
    if done.returncode:
        raise StepError(f"{mpi.bin / 'mpicc'} cannot compile a small C program", _lines(done.stderr))


def _run(tokens: Sequence[str], environment: Mapping[str, str]) -> subprocess.CompletedProcess[bytes]:
    try:
        return subprocess.run(
            tokens, env=environment, stdin=subprocess.DEVNULL, capture_output=True, timeout=LIMIT_S, check=False
        )
    except OSError as error:
        raise MachineError(f"cannot run {escape_controls(tokens[0])}: {error.strerror}") from None
    except subprocess.TimeoutExpired as error:
        sentence = f"{escape_controls(tokens[0])} had not ended after {LIMIT_S:g} s: the transfer hangs"
        raise StepError(sentence, _lines(error.stderr or b"")) from None


def _read(done: subprocess.CompletedProcess[bytes], tokens: Sequence[str]) -> TransferProof:
    """Read the one line of the transfer."""
    try:
        answer = next(line for line in done.stdout.splitlines() if line.startswith(b"{"))
        proof = msgspec.json.decode(answer, type=TransferProof)
    except (StopIteration, msgspec.MsgspecError):
        raise StepError(f"the transfer failed: {_cause(done, tokens)}", _lines(done.stderr)) from None
    if proof.wrong_bytes:
        raise StepError(f"the transfer delivered {proof.wrong_bytes} wrong bytes ({proof.memory} memory)")
    if done.returncode:
        raise StepError(f"the data arrived, but {_cause(done, tokens)}", _lines(done.stderr))
    return proof


def _cause(done: subprocess.CompletedProcess[bytes], tokens: Sequence[str]) -> str:
    if name := fatal_signal(done.stderr.decode(errors="replace")):
        return f"{name} in a rank; an MPI that is not CUDA-aware ends so on device memory"
    return f"{escape_controls(tokens[0])} ended with exit code {done.returncode}"


def _lines(text: bytes) -> list[str]:
    """Return the last lines of what was said; Open MPI's errors hold NUL bytes."""
    lines = text.replace(b"\0", b"").decode(errors="replace").splitlines()
    return [line for line in lines if line.strip()][-20:]


def sentences(proof: TransferProof) -> list[str]:
    """Say in words what a proof means, and what it does not."""
    sizes = " and ".join(f"{size} B" for size in proof.sizes_bytes)
    head = f"proven: {sizes} there and back between two ranks on {proof.memory} memory, every byte compared"
    if proof.memory == "device":
        shared = "; both ranks shared the one GPU" if proof.gpus == 1 else ""
        return [f"{head}{shared}", f"this MPI is CUDA-aware: {escape_controls(proof.library.strip())}"]
    return [
        f"{head}; {escape_controls(proof.library.strip())}",
        f"NOT TESTED: device memory, because {escape_controls(proof.why_host)}; run this again on a machine with a GPU",
    ]
