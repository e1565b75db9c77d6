"""What several checks ask of the facts."""

from __future__ import annotations

from volley.doctor.facts import Cuda, CudaDevice, Driver, Facts, Job, Probe, Tried
from volley.doctor.findings import Verdict, broken, not_applicable, not_tested

NO_GPU = "there is no NVIDIA GPU"
ONE_GPU = "one GPU has no peer"
AWARE = "aware"
"""The transport that hands MPI pointers to GPU memory."""


def has_gpu(facts: Facts) -> bool:
    """True where any layer shows an NVIDIA GPU."""
    bus, driver = facts.bus.value, facts.driver.value
    return bool((bus and bus.gpus) or cuda_devices(facts) or (driver and driver.version))


def cuda_devices(facts: Facts) -> list[CudaDevice]:
    """Return the devices that CUDA shows; none where CUDA does not answer."""
    return (facts.cuda.value or Cuda()).devices


def open_gpus(driver: Driver | None) -> list[str]:
    """Return the device nodes of GPUs that could be opened: a batch system shuts those of other jobs."""
    nodes = driver.nodes if driver else {}
    return [node for node, said in nodes.items() if said == "ok" and node.removeprefix("/dev/nvidia").isdecimal()]


def without_peers(facts: Facts) -> Verdict | None:
    """Say why there is nothing between GPUs to look at; ``None`` where CUDA shows two."""
    found, bus = len(cuda_devices(facts)), facts.bus.value
    on_bus = len(bus.gpus) if bus else 0
    if found >= 2:
        return None
    if not has_gpu(facts):
        return not_applicable(NO_GPU)
    if on_bus >= 2:
        return not_tested(f"CUDA shows this process {found} of {on_bus} GPUs")
    return not_applicable(ONE_GPU)


def is_virtual(facts: Facts) -> bool:
    """True in a virtual machine, whose host decides about PCIe."""
    return bool(facts.system.value and facts.system.value.virtual)


def container(facts: Facts) -> str | None:
    """Return the kind of container that this is."""
    return facts.system.value.container if facts.system.value else None


def delivered(job: Job, transport: str) -> list[Tried]:
    """Return the message sizes that arrived on a transport, byte for byte."""
    return [point for point in job.points if point.transport == transport and point.status == "ok"]


def sends_gpu_memory(facts: Facts) -> bool | None:
    """Tell whether MPI sent GPU memory; ``None`` where it was not tried."""
    job = facts.mpi_device.value
    if job is None:
        return False if facts.mpi_device.error else None
    return bool(delivered(job, AWARE))


def last_words(job: Job) -> str:
    """Return why a job ended, and the last line that anybody printed."""
    said = [job.reason or f"it ended with status {job.status}"]
    if job.text and job.text[-1] not in said[0]:
        said.append(job.text[-1])
    return "; ".join(said)


def command(job: Job) -> str:
    """Return a job's command line for people; it was started from these words, not from this text."""
    return " ".join(job.command)


def numbers(found: list[int]) -> str:
    """Return numbers as a list for people and for nvidia-smi's ``-i``."""
    return ",".join(map(str, found))


def size(count: int) -> str:
    """Return a size in the largest unit that divides it."""
    for shift, unit in ((30, "GiB"), (20, "MiB"), (10, "KiB")):
        if count and count % (1 << shift) == 0:
            return f"{count >> shift} {unit}"
    return f"{count} B"


def broke_off(probe: Probe[Job], job: Job, said: str, remedy: str) -> Verdict:
    """A job that ended early, or hung."""
    return broken(
        f"{said}: {probe.error or job.reason or 'no message was sent'}", f"{command(job)}: {last_words(job)}", remedy
    )
