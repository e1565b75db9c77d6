"""Findings of doctor, and how a check writes one."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import msgspec

from volley.machine.facts import Facts, Probe
from volley.machine.finding import Finding, Status, exit_code
from volley.machine.job_facts import JobFacts
from volley.machine.mpi_words import reason_in

DIAGNOSIS_VERSION = 1
NO_GPU = "there is no NVIDIA GPU"
ONE_GPU = "one GPU has no peer"
JOBS = ("engine", "MPI, host memory", "MPI, GPU memory", "launcher", "peer copies", "CUDA IPC")
"""The checks that start a job on this host."""
OF_FILES = ("temporary files", "shared memory")

T = TypeVar("T")


class DoctorFinding(Finding, frozen=True):
    """What a check concludes from the facts."""

    status: Status
    explains: tuple[str, ...] = ()
    """The checks whose problems follow from this one, whatever they say."""
    also: tuple[str, ...] = ()
    """Further problems of the same kind, a line each, with what to do."""
    check: str = ""
    """Its name; filled in by ``diagnose`` as its layer is."""
    layer: str = ""


good = partial(DoctorFinding, "good")
not_applicable = partial(DoctorFinding, "not applicable")
warning = partial(DoctorFinding, "warning")
"""It works, but not as well as it could."""
broken = partial(DoctorFinding, "broken")


def not_tested(why: str, remedy: str = "") -> DoctorFinding:
    return DoctorFinding("not tested", why, remedy=remedy)


class Diagnosis(msgspec.Struct, frozen=True, kw_only=True):
    """All findings of one set of facts: what ``--format json`` prints."""

    diagnosis: int = DIAGNOSIS_VERSION
    volley: str
    captured_at: str
    note: str = ""
    counts: dict[str, int]
    findings: list[DoctorFinding]

    @property
    def exit_code(self) -> int:
        """1 where something is broken."""
        return exit_code(self.findings)


@dataclass(frozen=True)
class LayerCheck:
    """A check: a pure function from facts to a finding, whose docstring says what doctor tries."""

    name: str
    layer: str
    judge: Callable[[Facts], DoctorFinding]
    gpu: bool = False
    """Left out if there is no GPU."""
    hosts: bool = False
    """Left out if only one host is looked at."""
    needs: tuple[str, ...] = ()
    """Earlier checks: if one of them is broken, this check only names it."""
    tried_by: str = ""
    """A check that needs what this one tests: if it is good, this one is not broken."""

    def applies(self, facts: Facts) -> bool:
        return (facts.has_gpu or not self.gpu) and (facts.hosts.skipped is None or not self.hosts)

    def finding(self, facts: Facts) -> DoctorFinding:
        try:
            return self.judge(facts)
        except MissingFacts as missing:
            return missing.finding


class MissingFacts(Exception):  # noqa: N818  not an error: this is what the check finds
    """The facts lack what a check judges; ``finding`` takes the place of its own."""

    def __init__(self, finding: DoctorFinding) -> None:
        super().__init__(finding.said)
        self.finding = finding


def require(probe: Probe[T], what: str, remedy: str) -> T:
    """Return what a probe found.

    Raises:
        MissingFacts: if it was skipped, or failed itself; or if it crashed or hung, with ``what`` and its own remedy,
            or else ``remedy``.
    """
    if probe.value is not None:
        return probe.value
    if probe.skipped is not None:
        raise MissingFacts(not_tested(probe.skipped))
    if probe.own:  # what is tested is not at fault
        raise MissingFacts(not_tested(f"doctor's own test failed: {probe.error}"))
    said = "; ".join(filter(None, [probe.error, reason_in(probe.said.splitlines())]))
    raise MissingFacts(broken(f"{what}: {probe.error}", f"{probe.call}: {said}", probe.remedy or remedy))


def peer_table(facts: Facts) -> list[list[bool]]:
    """Return which GPU reaches which other one's memory, as CUDA says (row reaches column).

    Raises:
        MissingFacts: if CUDA shows fewer than two GPUs.
    """
    on_bus = len(facts.gpus_on_bus)
    if facts.cuda.value and len(facts.cuda_devices) >= 2:
        return facts.cuda.value.peers
    said = f"CUDA shows this process {len(facts.cuda_devices)} of {on_bus} GPUs"
    raise MissingFacts(not_tested(said) if on_bus >= 2 else not_applicable(ONE_GPU))


def job_failed(job: JobFacts, said: str, remedy: str, largest_bytes: int) -> DoctorFinding:
    """Return the finding about a job that did not end well; what had crossed, up to the largest message, works."""
    evidence = f"{job.command_line}: {job.why}" + (f" ({job.reason})" if job.reason and job.reason != job.why else "")
    if job.crossed(largest_bytes):
        return warning(f"every message arrived, but the job did not end well: {job.why}", evidence, remedy)
    return broken(f"{said}: {job.why}", evidence, remedy)


def fails_between_gpus(facts: Facts) -> tuple[str, ...]:
    """Return the checks whose transfers of GPU memory delivered wrong bytes, or hang."""
    sent, nccl = facts.mpi_device.value, facts.nccl.value.job if facts.nccl.value else None
    copies = any(_fails(pair.job, "") for pair in facts.peers.value or [])
    found = {"peer copies": copies, "MPI, GPU memory": sent and _fails(sent, "aware")}
    found["NCCL"] = copies and nccl and _fails(nccl, "nccl")
    return tuple(name for name, fails in found.items() if fails)


def _fails(job: JobFacts, begin: str) -> bool:
    hangs = not job.complete and re.search("no progress|no answer within", job.why)
    return bool(hangs) or any(each.status == "failed" and each.transport.startswith(begin) for each in job.points)
