"""Questions about the facts that several checks share."""

from __future__ import annotations

from volley.doctor.findings import Finding, Unjudged, broken, not_applicable, not_tested
from volley.machine.facts import CudaDevice, CudaFacts, DriverFacts, Facts, JobFacts, PointFacts, Probe

NO_GPU = "there is no NVIDIA GPU"
ONE_GPU = "one GPU has no peer"
AWARE = "aware"
"""The transport that hands MPI pointers to GPU memory."""


def has_gpu(facts: Facts) -> bool:
    """True if any layer shows an NVIDIA GPU."""
    driver = facts.driver.value
    return bool(gpus_on_bus(facts) or cuda_devices(facts) or (driver and driver.version))


def gpus_on_bus(facts: Facts) -> int:
    """Return the number of GPUs on the PCI bus."""
    return len(facts.bus.value.gpus) if facts.bus.value else 0


def cuda_devices(facts: Facts) -> list[CudaDevice]:
    """Return the devices that CUDA shows; none if CUDA does not answer."""
    return (facts.cuda.value or CudaFacts()).devices


def open_gpus(driver: DriverFacts | None) -> list[str]:
    """Return the device nodes of GPUs that could be opened: a batch system closes those of other jobs."""
    nodes = driver.nodes if driver else {}
    return [node for node, said in nodes.items() if said == "ok" and node.removeprefix("/dev/nvidia").isdecimal()]


def peer_table(facts: Facts) -> list[list[bool]]:
    """Return which GPU reaches which other one's memory, as CUDA says (row reaches column).

    Raises:
        Unjudged: if CUDA shows fewer than two GPUs.
    """
    cuda, on_bus = facts.cuda.value or CudaFacts(), gpus_on_bus(facts)
    if len(cuda.devices) >= 2:
        return cuda.peers
    said = f"CUDA shows this process {len(cuda.devices)} of {on_bus} GPUs"
    raise Unjudged(not_tested(said) if on_bus >= 2 else not_applicable(ONE_GPU))


def delivered(job: JobFacts, transport: str) -> list[PointFacts]:
    """Return the message sizes that arrived on a transport, byte for byte."""
    return [point for point in job.points if point.transport == transport and point.status == "ok"]


def sends_gpu_memory(facts: Facts) -> bool | None:
    """Return whether MPI sent GPU memory; ``None`` if it was not tried."""
    job = facts.mpi_device.value
    if job is None:
        return False if facts.mpi_device.error else None
    return bool(delivered(job, AWARE))


def command(job: JobFacts) -> str:
    """Return a job's command line for people; it was started from these words, not from this text."""
    return " ".join(job.command)


def last_words(job: JobFacts) -> str:
    """Return why a job ended, and the last line that the job printed."""
    said = [job.reason or f"it ended with status {job.status}"]
    if job.text and job.text[-1] not in said[0]:
        said.append(job.text[-1])
    return "; ".join(said)


def job_failed(probe: Probe[JobFacts], job: JobFacts, said: str, remedy: str) -> Finding:
    """A job ended early, or hung."""
    reason = probe.error or job.reason or "no message was sent"
    return broken(f"{said}: {reason}", f"{command(job)}: {last_words(job)}", remedy)


def comma_list(found: list[int]) -> str:
    """Return numbers as a list for people and for nvidia-smi's ``-i``."""
    return ",".join(map(str, found))
