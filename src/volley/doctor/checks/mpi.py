"""GDRCopy, UCX and MPI: judged by transfers and jobs that ran, not by their self-reports."""

from __future__ import annotations

from msgspec.structs import replace

from volley.doctor.findings import Finding, broken, good, job_failed, not_applicable, not_tested, require, warning
from volley.doctor.remedies import AWARE_SOURCE, SEND, aware_wheels, install, install_volley, sudo, system
from volley.machine.facts import Facts, JobFacts, PointFacts
from volley.machine.mpi_words import reason_in
from volley.text import join_words, mpi_name
from volley.units import format_sig, format_size

_CUDA_COMPONENTS = ("cuda_cpy", "cuda_ipc", "gdr_copy")
"""UCX's components that take GPU memory (ucx_info -d)."""
_TALK = {
    "openmpi": "OMPI_MCA_pml_base_verbose=100 OMPI_MCA_btl_base_verbose=100",
    "mpich": "HYDRA_DEBUG=1 UCX_LOG_LEVEL=info FI_LOG_LEVEL=info",
    "intel": "I_MPI_DEBUG=10 I_MPI_HYDRA_DEBUG=1",
}
"""What makes each MPI say what it tries."""
_NOT_AWARE = ("UCX", "UCX transfer", "MPI self-report", "MPI, GPU speed")
"""What follows from an MPI that takes no GPU memory."""
_AWARE, _STAGED = "aware", "staged/pinned"
_SEE_COPIES = f"{SEND} --transport {_AWARE},{_STAGED},peer shows which transports deliver wrong bytes"
_SLOWER = 1.05
"""From this ratio on a warning calls ``aware`` slower: doctor's jobs stop at an interval of 5 %."""


def gdrcopy(facts: Facts) -> Finding:
    """Opens /dev/gdrdrv, loads libgdrapi, maps GPU memory, writes through the mapping, reads back with CUDA."""
    found, call = require(facts.gdrcopy, "GDRCopy", install(facts, "gdrcopy")), facts.gdrcopy.call
    if found.mapped:
        return good(f"GPU memory was mapped, written and read back; library {found.library}, module {found.module}")
    if found.mapped is False:
        remedy = f"{sudo(facts)}rmmod gdrdrv; {sudo(facts)}modprobe gdrdrv"
        return broken(
            "GDRCopy is installed, but it cannot map GPU memory", f"{call}: {found.map_error or 'failed'}", remedy
        )
    parts = {"device node": found.node == "ok", "module": bool(found.module), "library": bool(found.library)}
    missing = [name for name, there in parts.items() if not there]
    if not missing:
        return not_tested(found.map_error or "no device to map")
    module, library = found.module or "not loaded", found.library or "not found"
    remedy = install(facts, "gdrcopy")
    if system(facts).container and "device node" in missing:
        remedy = "on the host: load gdrdrv; then docker run --device /dev/gdrdrv"
    elif "module" in missing and found.library:
        remedy = f"{sudo(facts)}modprobe gdrdrv"
    return warning(
        f"{join_words(f'no {name}' for name in missing)}: small messages in GPU memory are slower",
        f"{call}: /dev/gdrdrv {found.node}, module {module}, libgdrapi.so.2 {library}",
        remedy,
    )


def ucx(facts: Facts) -> Finding:
    """Loads the UCX that the ranks load; every component of it looks for devices."""
    remedy = aware_wheels(facts)
    if facts.ucx.value is None and facts.ucx.skipped is not None:
        if not facts.has_gpu or _sends_gpu_memory(facts):
            return not_applicable("no UCX; this machine does not need it")
        return warning("no UCX: Open MPI needs it for GPU memory", f"{facts.ucx.call}: {facts.ucx.skipped}", remedy)
    found = require(facts.ucx, "UCX", remedy)
    usable = [each.name for each in found.components if each.resources]
    if facts.has_gpu and not set(usable) & set(_CUDA_COMPONENTS):
        said = f"UCX {found.version} was built without CUDA: it cannot send GPU memory"
        return warning(said, f"{facts.ucx.call}: {join_words(usable)}", remedy)
    return good(f"UCX {found.version} with {join_words(usable)}")


def ucx_transfer(facts: Facts) -> Finding:
    """`ucx_perftest` between two processes, on GPU memory if there is a GPU."""
    probe = facts.ucx_transfer
    if probe.skipped is not None:
        return not_tested(probe.skipped, install(facts, "ucx")) if facts.has_gpu else not_applicable(probe.skipped)
    found = require(probe, "a transfer by UCX alone", "UCX_LOG_LEVEL=info ucx_perftest")
    memory = "GPU" if found.memory == "cuda" else "host"
    if found.status == 0:
        return good(f"ucx_perftest sent {memory} memory between two processes")
    last = reason_in(found.said.splitlines()) or f"status {found.status}"
    remedy = aware_wheels(facts) if memory == "GPU" else "UCX_LOG_LEVEL=info ucx_perftest; ucx_info -d"
    return broken(f"ucx_perftest cannot send {memory} memory", f"{probe.call}: {last}", remedy)


# ------------------------------------------------------------------------------------------------- MPI


def engine(facts: Facts) -> Finding:
    """Starts `volley-engine --about`, which loads the MPI library of the jobs."""
    stack = require(facts.stack, "the engine", install_volley(facts))
    if not stack.start_error and stack.engine_version not in ("", facts.volley):
        said = f"the engine belongs to volley {stack.engine_version}, but this is volley {facts.volley}"
        return warning(said, f"volley-engine --about: {stack.engine_version}", install_volley(facts))
    if not stack.start_error:
        return good(f"starts, with {stack.described}")
    remedy = f"load the environment module of {stack.described.partition(' (')[0]}"
    evidence = f"volley-engine --about: {reason_in(stack.start_error.splitlines())}"
    return broken("the engine does not start", evidence, f"{remedy}; or choose another MPI with --mpi")


def library(facts: Facts) -> Finding:
    """Asks a job which library it loaded; looks for another mpirun on PATH."""
    stack = require(facts.stack, "the engine", install_volley(facts))
    answers = [job.library for job in _jobs(facts) if job.library]
    if not answers:
        return not_tested("every job ended before it reported which library it loaded")
    if stack.other_mpirun and not facts.mpi:
        return warning(
            f"{mpi_name(answers[0])}; the mpirun on PATH belongs to another MPI",
            f"command -v mpirun: {stack.other_mpirun}",
            f"start volley without a launcher, or with {stack.mpiexec} -n 2 {SEND}",
        )
    return good(f"{mpi_name(answers[0])}")


def _jobs(facts: Facts) -> list[JobFacts]:
    return [probe.value for probe in (facts.mpi_host, facts.launcher, facts.mpi_device) if probe.value]


def host(facts: Facts) -> Finding:
    """Verified messages between two ranks; if they fail or are slow, once more with one change at a time."""
    verbose = f"{_TALK.get(facts.mpi_family, '')} {SEND} --transport host".strip()
    trials = facts.trials.value or []
    remedy = f"{verbose} shows what MPI tries{'; none of the other settings that doctor tried works' if trials else ''}"
    if ended := [trial for trial in trials if trial.works]:
        remedy = f"{'export ' if not ended[0].settings else ''}{ended[0].change}"
    job = require(facts.mpi_host, "MPI between two ranks", remedy)
    if wrong := _wrong_bytes(job, "host"):
        return broken("MPI delivered wrong bytes between two ranks", f"{job.command_line}: {wrong}", remedy)
    points = job.delivered("host")
    if not job.complete or facts.mpi_host.error or not points:
        return job_failed(job, "MPI does not work between two ranks", remedy)
    refused = [trial.reason for trial in trials if trial.reason and not trial.settings]
    if not job.fast and (ended or refused):
        said = f"{format_size(points[0].size_bytes)} takes {_us(points[0])} µs: MPI does not use shared memory"
        return warning(said, refused[0] if refused else f"{ended[0].change}: faster", remedy)
    return good(_times(points))


def _wrong_bytes(job: JobFacts, transport: str) -> str:
    """Return the first wrong bytes that verification found on a transport; an empty text if there are none."""
    failed = [point for point in job.points if point.transport == transport and point.status == "failed"]
    return f"{format_size(failed[0].size_bytes)}: {failed[0].reason or 'failed'}" if failed else ""


def _times(points: list[PointFacts]) -> str:
    verified = sum(point.messages_verified for point in points)
    times = [f"{format_size(point.size_bytes)} in {_us(point)} µs" for point in points if point.half_round_trip_s]
    return f"{join_words(times)}, {verified} messages verified"


def _us(point: PointFacts) -> str:
    return format_sig((point.half_round_trip_s or 0.0) * 1e6, 3)


def _sends_gpu_memory(facts: Facts) -> bool | None:
    """Return whether MPI sent GPU memory; ``None`` if it was not tried."""
    job = facts.mpi_device.value
    if job is None:
        return False if facts.mpi_device.error else None
    return job.sends_gpu_memory


def self_report(facts: Facts) -> Finding:
    """Compares ompi_info and MPIX_Query_cuda_support with the result of the transfer."""
    stack = facts.stack.value
    queries = [job.cuda_query for job in _jobs(facts) if job.cuda_query is not None]
    says = {"ompi_info": stack.ompi_cuda if stack else None, "MPIX_Query_cuda_support": queries[0] if queries else None}
    shown = join_words(f"{name} says {str(said).lower()}" for name, said in says.items() if said is not None)
    if not shown:
        return not_applicable("this MPI has neither ompi_info nor MPIX_Query_cuda_support")
    works = _sends_gpu_memory(facts)
    if works is None:
        return good(f"{shown}; only a transfer can prove this")
    if True in says.values() and not works:
        return warning(
            f"{shown}, but the transfer failed", f"{stack.ompi_info if stack else 'MPI'}: {shown}", AWARE_SOURCE
        )
    if True not in says.values() and works:
        return good(f"{shown}, but the transfer worked: the flag only says how MPI was built")
    return good(f"{shown}, and the transfer {'worked' if works else 'failed'}")


def device(facts: Facts) -> Finding:
    """Verified messages of GPU memory, in a separate job; UCX says the protocol."""
    stack = facts.stack.value
    if stack and stack.mpi_source == "wheel" and not stack.prepared:
        remedy = aware_wheels(facts)
    elif stack and "ucx" in stack.ompi_pml and stack.ompi_cuda:
        remedy = f"OMPI_MCA_pml=ucx {SEND} --transport {_AWARE}"
    else:
        remedy = f"{AWARE_SOURCE}  # or choose a CUDA-aware MPI of the site with --mpi"
    if facts.fails_on_gpus and (ended := [trial for trial in facts.trials.value or [] if trial.works]):
        remedy = f"{'' if ended[0].settings else 'export '}{ended[0].change}"
    job = require(facts.mpi_device, "MPI on GPU memory", remedy)
    refused = [each.reason for each in job.transports if each.transport == _AWARE and not each.available]
    if refused:
        evidence = f"{job.command_line}: {refused[0]}"
        return broken(f"MPI does not accept GPU memory: {refused[0]}", evidence, remedy, _NOT_AWARE)
    if wrong := _wrong_bytes(job, _AWARE):
        return broken("MPI delivered wrong bytes in GPU memory", f"{job.command_line}: {wrong}", _SEE_COPIES)
    points = job.delivered(_AWARE)
    if not job.complete or not points:
        return replace(job_failed(job, "MPI is not CUDA-aware", remedy), explains=_NOT_AWARE)
    protocol = f"; UCX: {job.protocols[-1]}" if job.protocols else ""  # of the largest messages
    return good(_times(points) + protocol)


def device_speed(facts: Facts) -> Finding:
    """The same messages by MPI and staged through the host, interleaved."""
    job = facts.mpi_device.value
    if job is None:
        return not_tested("MPI on GPU memory was not tried, or its job did not end")
    by_aware, by_staged = ({each.size_bytes: each for each in job.delivered(name)} for name in (_AWARE, _STAGED))
    largest = max(set(by_aware) & set(by_staged), default=None)
    if largest is None:
        return not_tested("no message size was delivered by both transports")
    aware, staged = by_aware[largest], by_staged[largest]
    ratio = (aware.half_round_trip_s or 0.0) / (staged.half_round_trip_s or 1.0)
    what = f"{format_size(largest)} in GPU memory"
    if ratio <= _SLOWER:
        return good(f"{what}: {_us(aware)} µs, staged through the host {_us(staged)} µs")
    return warning(
        f"{what} takes {format_sig(ratio, 2)} times as long through the CUDA-aware MPI as staged through the host",
        f"half round trips: {_AWARE} {_us(aware)} µs, {_STAGED} {_us(staged)} µs",
        "if the GPUs have no peer access, pass pinned host memory to MPI; to compare by size: "
        f"{SEND} --transport aware,staged,peer,device",
    )
