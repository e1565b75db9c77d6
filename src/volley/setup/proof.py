"""The proof of a set-up: a transfer between two ranks of the MPI that was set up.

What a library reports of itself proves nothing.  ``prove`` is the one place that knows how the transfer is made.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Literal

import msgspec

from volley.launch import inside_launcher
from volley.launch.launchers import LAUNCHERS, LaunchSpec, cores
from volley.machine.mpi_stack import UCX_MCA
from volley.machine.signals import fatal_signal
from volley.setup.workspace import Folders, StepError, run_logged, tail
from volley.text import escape_controls
from volley.units import format_size

_SOURCE = resources.files("volley.setup") / "roundtrip.c"
LIMIT_S = 120.0
"""A transfer that takes longer hangs: normally it takes about a second."""


@dataclass(frozen=True)
class MpiInstallation:
    bin: Path
    variables: Mapping[str, str] = field(default_factory=dict)


class TransferProof(msgspec.Struct, frozen=True, kw_only=True):
    memory: Literal["device", "host"]
    gpus: int
    why_host: str
    """Why no device memory was sent; empty if it was sent."""
    sizes_bytes: list[int]
    wrong_bytes: int
    library: str
    """The MPI's own description, with every character that is not plain ASCII replaced."""


def prove(mpi: MpiInstallation, environment: Mapping[str, str], folders: Folders) -> TransferProof:
    """Send a message there and back between two ranks, on GPU memory where there is a GPU, and compare every byte.

    A launcher's variables in the environment are left out; the little program and the log go into the folders.
    """
    plain = inside_launcher.scrubbed(environment)
    log, openmpi = folders.logs / "proof.log", LAUNCHERS["openmpi"]
    log.write_bytes(b"")

    def run(tokens: list[str], title: str, **more: str) -> None:
        run_logged(tokens, log, title=title, environment={**plain, **more}, folder=folders.temporary, limit_s=LIMIT_S)

    with tempfile.TemporaryDirectory(dir=folders.temporary) as folder, resources.as_file(_SOURCE) as source:
        program = f"{folder}/roundtrip"
        run([str(mpi.bin / "mpicc"), "-O1", str(source), "-o", program, "-ldl"], "the compiler of the new MPI")
        spec = LaunchSpec(
            engine=(program,),
            ranks=2,
            cores=cores(),
            root=os.geteuid() == 0,
            mca=UCX_MCA,
            variables=mpi.variables,
            environment=plain,
        )
        failure = None
        try:
            tokens = [str(mpi.bin / "mpirun"), *openmpi.arguments(spec), program]
            run(tokens, "the transfer", **openmpi.environment(spec))
        except StepError as error:
            failure = error
        return _read(log, failure)


def _read(log: Path, failure: StepError | None) -> TransferProof:
    """Read the one line that the transfer prints among what MPI says."""
    said = log.read_text("utf-8", errors="replace")
    try:
        proof = msgspec.json.decode(
            next(line for line in said.splitlines() if line.startswith("{")), type=TransferProof
        )
    except (StopIteration, msgspec.MsgspecError):
        name = fatal_signal(said)
        if name:
            why = f"the transfer failed: {name} in a rank; an MPI that is not CUDA-aware ends this way on device memory"
            raise StepError(f"{why}; the whole log: {log}", tail(log)) from None
        raise failure or StepError(f"the transfer printed nothing; the whole log: {log}", tail(log)) from None
    if proof.wrong_bytes:
        raise StepError(f"the transfer delivered {proof.wrong_bytes} wrong bytes ({proof.memory} memory)")
    if failure:
        raise StepError(f"the data arrived, but {failure}", failure.tail)
    return proof


def sentences(proof: TransferProof) -> list[str]:
    """Return sentences about the result of a proof, and about its limits."""
    sizes = " and ".join(map(format_size, proof.sizes_bytes))
    head = f"verified: {sizes} round trips between two ranks on {proof.memory} memory, all bytes correct"
    if proof.memory == "device":
        shared = "; both ranks shared the one GPU" if proof.gpus == 1 else ""
        return [f"{head}{shared}", f"this MPI is CUDA-aware: {escape_controls(proof.library.strip())}"]
    return [
        f"{head}; {escape_controls(proof.library.strip())}",
        f"NOT TESTED: device memory, because {escape_controls(proof.why_host)}; run this again on a machine with a GPU",
    ]
