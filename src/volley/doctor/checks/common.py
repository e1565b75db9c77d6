"""What several checks ask of the facts."""

from __future__ import annotations

from volley.doctor.facts import Cuda, CudaDevice, Facts, Job, Probe
from volley.doctor.findings import Verdict, broken

NO_GPU = "there is no NVIDIA GPU"
ONE_GPU = "one GPU has no peer"


def has_gpu(facts: Facts) -> bool:
    """True where any layer shows an NVIDIA GPU."""
    bus, driver = facts.bus.value, facts.driver.value
    return bool((bus and bus.gpus) or cuda_devices(facts) or (driver and driver.version))


def cuda_devices(facts: Facts) -> list[CudaDevice]:
    """Return the devices that CUDA shows; none where CUDA does not answer."""
    return (facts.cuda.value or Cuda()).devices


def is_virtual(facts: Facts) -> bool:
    """True in a virtual machine, whose host decides about PCIe."""
    return bool(facts.system.value and facts.system.value.virtual)


def container(facts: Facts) -> str | None:
    """Return the kind of container that this is."""
    return facts.system.value.container if facts.system.value else None


def last_words(job: Job) -> str:
    """Return why a job ended, and the last line that anybody printed."""
    said = [job.reason or f"status {job.status}"]
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
    words = last_words(job)
    return broken(f"{said}: {probe.error or words}", f"{command(job)}: {words}", remedy)
