"""MPI: judged by jobs that ran, not by what it says of itself."""

from __future__ import annotations

from volley.doctor.checks.common import AWARE, NO_GPU, broke_off, command, delivered, has_gpu, sends_gpu_memory, size
from volley.doctor.facts import Facts, Job, Tried
from volley.doctor.findings import Verdict, answered, broken, good, lost, not_applicable, not_tested, warning
from volley.doctor.remedies import AWARE_SOURCE, AWARE_WHEELS
from volley.text import digits, mpi_name, several

_WITHOUT_FABRIC = "OMPI_MCA_pml=ob1 OMPI_MCA_btl=self,sm,tcp OMPI_MCA_mtl=^ofi volley pingpong --transport host"
_STAGED = "staged/pinned"
_SEE_COPIES = "volley pingpong --transport aware,staged/pinned; see the findings on IOMMU, ACS and peer copies"
_SLOWER = 1.05
"""By so much ``aware`` must be slower to be called slower: doctor's jobs stop at an interval of 5 %."""


def library(facts: Facts) -> Verdict:
    """Compare the MPI that answered with the one that the engine was built with, and with the mpirun on PATH."""
    if facts.stack.value is None:
        return lost(facts.stack, "the engine", "pip install volley-bench")
    stack = facts.stack.value
    answers = [job.library for job in _jobs(facts) if job.library]
    if not answers:
        return not_tested("no job came far enough to say which library it loaded")
    wanted = ".".join(stack.mpi_version.split(".")[:2])
    if wanted not in answers[0]:
        return broken(
            f"the engine was built against {stack.mpi_built} and runs with another library",
            f"MPI_Get_library_version: {answers[0]}",
            "unset LD_LIBRARY_PATH LD_PRELOAD, or build volley against that MPI: MPI_HOME=… pip install volley-bench",
        )
    if stack.other_mpirun:
        return warning(
            f"{mpi_name(answers[0])}; the mpirun on PATH belongs to another MPI",
            f"command -v mpirun: {stack.other_mpirun}",
            f"start volley plainly, or with {stack.mpiexec} -n 2 volley pingpong",
        )
    return good(f"{mpi_name(answers[0])}, as the engine was built")


def _jobs(facts: Facts) -> list[Job]:
    return [probe.value for probe in (facts.mpi_host, facts.launcher, facts.mpi_device) if probe.value]


def host(facts: Facts) -> Verdict:
    """Judge MPI by verified messages between two ranks, in host memory."""
    job = facts.mpi_host.value
    if job is None:
        return lost(facts.mpi_host, "MPI between two ranks", _WITHOUT_FABRIC)
    if wrong := _wrong_bytes(job, "host"):
        return broken("MPI delivered wrong bytes between two ranks", f"{command(job)}: {wrong}", _WITHOUT_FABRIC)
    points = delivered(job, "host")
    if not job.complete or facts.mpi_host.error or not points:
        return broke_off(facts.mpi_host, job, "MPI does not work between two ranks", _WITHOUT_FABRIC)
    return good(_round_trips(points))


def _wrong_bytes(job: Job, transport: str) -> str:
    """Say what verification found first on a transport; nothing where it found nothing."""
    failed = [point for point in job.points if point.transport == transport and point.status == "failed"]
    return f"{size(failed[0].size_bytes)}: {failed[0].reason or 'failed'}" if failed else ""


def _round_trips(points: list[Tried]) -> str:
    verified = sum(point.messages_verified for point in points)
    times = [
        f"{size(point.size_bytes)} in {digits(point.half_round_trip_s * 1e6, 3)} µs"
        for point in points
        if point.half_round_trip_s
    ]
    return f"{several(times)}, {verified} messages verified"


# ------------------------------------------------------------------------------------------- device memory


def flags(facts: Facts) -> Verdict:
    """Report what MPI says of CUDA; it is believed nowhere."""
    if not has_gpu(facts):
        return not_applicable(NO_GPU)
    stack = facts.stack.value
    queries = [job.cuda_query for job in _jobs(facts) if job.cuda_query is not None]
    says = {"ompi_info": stack.ompi_cuda if stack else None, "MPIX_Query_cuda_support": queries[0] if queries else None}
    shown = several([f"{name} says {str(said).lower()}" for name, said in says.items() if said is not None])
    if not shown:
        return not_applicable("this MPI has neither ompi_info nor MPIX_Query_cuda_support")
    works = sends_gpu_memory(facts)
    if works is None:
        return good(f"{shown}; only a transfer proves it")
    if True in says.values() and not works:
        return warning(f"{shown}, and the transfer failed", answered(facts.mpi_device, "failed"), AWARE_SOURCE)
    if True not in says.values() and works:
        return good(f"{shown}, and the transfer worked: the flag is about how MPI was built")
    return good(f"{shown}, and the transfer {'worked' if works else 'failed'}")


def device(facts: Facts) -> Verdict:
    """Judge CUDA-awareness by verified messages of GPU memory."""
    if not has_gpu(facts):
        return not_applicable(NO_GPU)
    job, probe = facts.mpi_device.value, facts.mpi_device
    remedy = _aware_remedy(facts)
    if job is None:
        return lost(probe, "MPI on GPU memory", remedy)
    refused = [way.reason for way in job.transports if way.transport == AWARE and not way.available]
    if refused:
        return broken(f"MPI cannot be given GPU memory: {refused[0]}", f"{command(job)}: {refused[0]}", remedy)
    if wrong := _wrong_bytes(job, AWARE):
        return broken("MPI delivered wrong bytes of GPU memory", f"{command(job)}: {wrong}", _SEE_COPIES)
    points = delivered(job, AWARE)
    if not job.complete or not points:
        return broke_off(probe, job, "MPI is not CUDA-aware", remedy)
    return good(_round_trips(points) + _protocol(job))


def _protocol(job: Job) -> str:
    """Return the way that UCX took for the largest messages."""
    return f"; UCX: {job.protocols[-1]}" if job.protocols else ""


def _aware_remedy(facts: Facts) -> str:
    stack = facts.stack.value
    if stack and stack.mpi_source == "wheel" and not stack.prepared:
        return AWARE_WHEELS
    if stack and "ucx" in stack.ompi_pml and stack.ompi_cuda:
        return "OMPI_MCA_pml=ucx volley pingpong --transport aware"
    return f"{AWARE_SOURCE}; or build volley against a CUDA-aware MPI: MPI_HOME=… pip install volley-bench"


def device_speed(facts: Facts) -> Verdict:
    """Ask whether handing MPI the GPU's memory is faster than staging through the host."""
    if not has_gpu(facts):
        return not_applicable(NO_GPU)
    job = facts.mpi_device.value
    if job is None:
        return not_tested("MPI on GPU memory was not tried or did not end")
    both = _largest_common(job)
    if both is None:
        return not_tested("there is no message size that went both ways")
    aware, staged = both
    ratio = (aware.half_round_trip_s or 0.0) / (staged.half_round_trip_s or 1.0)
    what = f"{size(aware.size_bytes)} of GPU memory"
    if ratio > _SLOWER:
        return warning(
            f"{what} take {digits(ratio, 2)} × as long through the CUDA-aware MPI as staged through the host",
            f"half round trips: aware {_us(aware)} µs, {_STAGED} {_us(staged)} µs",
            "where the GPUs have no peer access, hand MPI pinned host memory; by size: "
            "volley pingpong --transport aware,staged,peer,device",
        )
    return good(f"{what} in {_us(aware)} µs, staged through the host in {_us(staged)} µs")


def _largest_common(job: Job) -> tuple[Tried, Tried] | None:
    aware, staged = ({each.size_bytes: each for each in delivered(job, name)} for name in (AWARE, _STAGED))
    sizes = sorted(set(aware) & set(staged))
    return (aware[sizes[-1]], staged[sizes[-1]]) if sizes else None


def _us(point: Tried) -> str:
    return digits((point.half_round_trip_s or 0.0) * 1e6, 3)
