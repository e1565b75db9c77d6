"""The settings to try: ``candidates.json``, and which of them concern the libraries of a job."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Literal

import msgspec

from volley.document import Frozen
from volley.launch.launchers import fabric
from volley.machine.mpi_stack import Stack


class Knob(Frozen, frozen=True, kw_only=True):
    """A variable with the values that are tried."""

    variable: str
    values: list[str]
    also: dict[str, str] = msgspec.field(default_factory=dict)
    """Variables that are set with it: it has no effect without them, or is chosen together with them."""
    libraries: list[str]
    """All of them must be in use: ``Open MPI 5``, ``ob1``, ``MPICH``, ``UCX``, ``NCCL``."""
    operation: str = ""
    """The only collective that it concerns; ``any``: it concerns all, and no messages between two ranks."""
    by_size: bool = False
    """It can be set for a range of sizes alone, in a file (``volley.tune.files``)."""
    meaning: str
    source: str


@dataclass(frozen=True)
class Candidate:
    """A setting: variables of the ranks."""

    variables: Mapping[str, str]
    meaning: str
    source: str = ""
    value: str = ""
    by_size: bool = False
    parts: Sequence[Candidate] = field(default=(), compare=False)
    """The settings of which it is made, if they are several."""

    @property
    def name(self) -> str:
        """``OMPI_MCA_btl_sm_eager_limit=65536``; several variables stand one after the other."""
        return " ".join(f"{name}={value}" for name, value in self.variables.items())

    def __hash__(self) -> int:
        return hash(self.name)


@cache
def knobs() -> list[Knob]:
    return msgspec.json.decode((files(__package__) / "candidates.json").read_bytes(), type=list[Knob])


def candidates(libraries: Collection[str], operations: Collection[str]) -> list[Candidate]:
    """Return what to try with these libraries for these collectives; without any for messages between two ranks.

    What the environment sets is the user's choice, and stays.
    """
    return [
        Candidate({**knob.also, knob.variable: value}, knob.meaning, knob.source, value, knob.by_size)
        for knob in knobs()
        if {*knob.libraries} <= {*libraries}
        and not {knob.variable, *knob.also} & {*os.environ}
        and (not knob.operation or (operations and knob.operation == "any") or knob.operation in operations)
        for value in knob.values
    ]


def libraries_of(stack: Stack, transports: Collection[str]) -> set[str]:
    """Return the names of the libraries that move the messages of these transports, as far as that is known."""
    if {*transports} <= {"nccl"}:
        return {"NCCL"}
    if stack.mpi is None:
        return set()
    found = {"NCCL"} if "nccl" in transports else set()
    if stack.family == "openmpi":
        number = re.search(r"\bv?(\d+)\.", stack.mpi.library)
        variable = "OMPI_MCA_pml"
        pml = os.environ.get(variable) or stack.mca.get("pml")
        by_ucx = pml == "ucx" or (pml is None and fabric())
        return found | {"Open MPI", f"Open MPI {number[1]}" if number else "", "UCX" if by_ucx else "ob1"}
    by_ucx = b"libucp.so" in library_bytes(stack.library)
    return found | {"MPICH"} | ({"UCX"} if by_ucx else set())


def known_to(library: bytes, candidate: Candidate) -> bool:
    """Return whether the library of an MPICH contains the names of all its own variables that the candidate sets."""
    return all(name.encode() in library for name in candidate.variables if name.startswith("MPIR_CVAR_"))


@cache
def library_bytes(path: str) -> bytes:
    """Return the file of a library; MPICH's contains the names of its variables, and its selection of algorithms."""
    try:
        return Path(path).read_bytes()
    except OSError:
        return b""


def way_of(candidate: Candidate) -> Literal["coll_tuned", "mpich"]:
    """Return which kind of file sets such a candidate by size."""
    return "coll_tuned" if list(candidate.variables)[-1].startswith("OMPI_") else "mpich"
