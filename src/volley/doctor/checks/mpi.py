"""GDRCopy, UCX, MPI, its launcher and copies between GPUs: judged by what ran, not by self-reports."""

from __future__ import annotations

import re
import statistics
from shlex import quote

from msgspec.structs import replace

from volley.doctor.findings import (
    DoctorFinding,
    MissingFacts,
    broken,
    good,
    job_failed,
    not_applicable,
    not_tested,
    peer_table,
    require,
    warning,
)
from volley.doctor.mpi_settings import settings_of
from volley.doctor.remedies import AWARE_SOURCE, GDRCOPY, SEND, aware_wheels, end_of_job, install_volley, settings_for
from volley.machine.facts import Facts
from volley.machine.job_facts import DEVICE_SIZES, HOST_SIZES, JobFacts, PointFacts
from volley.machine.mpi_words import limit_in, reason_in
from volley.machine.place import place_of
from volley.text import count, grouped, join_words, mpi_name
from volley.units import format_cpulist, format_sig, format_size, parse_cpulist

_CUDA_COMPONENTS = ("cuda_cpy", "cuda_ipc", "gdr_copy")
"""UCX's components that take GPU memory (ucx_info -d)."""
_NOT_AWARE = ("UCX", "MPI, GPU speed")
"""What follows from an MPI that takes no GPU memory."""
_AWARE, _STAGED = "aware", "staged/pinned"
_SEE_COPIES = f"{SEND} --transport {_AWARE},{_STAGED},peer shows which transports deliver wrong bytes"
_FOR_HOST_MEMORY = re.compile("Bad address|memory types?")
"""What UCX says where it takes memory of a GPU for that of the host."""
_SLOWER = 1.05
"""From this ratio on a warning calls ``aware`` slower: doctor's jobs stop at an interval of 5 %."""
_OF_ANOTHER_HOST = re.compile(
    r"GLIBC(XX)?_\S+ not found|cannot start \S+: No such file|Exec format error|SIGILL|[Ii]llegal instruction"
)
"""What an engine says that was built for a newer system, or for another processor."""
_SLOW_START_S = 20.0
"""Two ranks start within a second, eight with GPUs within ten."""
_LOADED_BY = {
    "static TLS": "export LD_PRELOAD={}  # the loader then gives it room before the others",
    "executable stack": "patchelf --clear-execstack {}  # of a copy that is yours; or a newer release of it",
}
_LOADER = re.compile(rf"(/\S+): cannot .*({'|'.join(_LOADED_BY)})")
"""What glibc's loader says of a library that it found, and what makes it load it (ld.so(8), glibc 2.41)."""
_HIDING = ("CUDA_VISIBLE_DEVICES", "SLURM_GPUS_PER_TASK", "SLURM_GPU_BIND", "SLURM_GPUS_ON_NODE")
"""Variables that explain why a rank sees one GPU only."""
_COPIES = ("copies between GPUs", f"{SEND} --transport peer,device")
"""What failed where no pair was tried, and the remedy."""


def gdrcopy(facts: Facts) -> DoctorFinding:
    """Opens /dev/gdrdrv, loads libgdrapi, maps GPU memory, writes through the mapping, reads back with CUDA."""
    found, call, place = require(facts.gdrcopy, "GDRCopy", GDRCOPY), facts.gdrcopy.call, place_of(facts)
    if found.mapped:
        return good(f"GPU memory was mapped, written and read back; library {found.library}, module {found.module}")
    if found.mapped is False:
        remedy = place.admin("{sudo}rmmod gdrdrv; {sudo}modprobe gdrdrv", "all processes that use GDRCopy")
        if re.match(r"\d", module := found.module or "") and not f"{module}.".startswith(f"{found.library}."):
            remedy = place.admin(f"its module is of version {module}, its library of {found.library}: {GDRCOPY}")
        return broken(
            "GDRCopy is installed, but it cannot map GPU memory", f"{call}: {found.map_error or 'failed'}", remedy
        )
    parts = {"device node": found.node == "ok", "module": bool(found.module), "library": bool(found.library)}
    missing = [name for name, there in parts.items() if not there]
    if not missing:
        return not_tested(found.map_error or "no device to map")
    module, library = found.module or "not loaded", found.library or "not found"
    remedy = place.admin(GDRCOPY)
    if place.container and "device node" in missing:
        remedy = f"on the host: load gdrdrv; then {place.start_with('gdrdrv')}"
    elif found.node == "Permission denied":
        remedy = place.admin("{sudo}chmod 666 /dev/gdrdrv")
    elif "module" in missing and found.library:
        remedy = place.admin("{sudo}modprobe gdrdrv")
    return warning(
        f"{join_words(f'no {name}' for name in missing)}: small messages in GPU memory are slower",
        f"{call}: /dev/gdrdrv {found.node}, module {module}, libgdrapi.so.2 {library}",
        remedy,
    )


def ucx(facts: Facts) -> DoctorFinding:
    """Loads the UCX that the ranks load; every component of it looks for devices."""
    remedy = aware_wheels(facts)
    if facts.ucx.value is None and facts.ucx.skipped is not None:
        sends = facts.mpi_device.value and facts.mpi_device.value.sends_gpu_memory
        if not facts.has_gpu or sends or facts.mpi_family in ("mpich", "intel"):
            return not_applicable("no UCX; this machine or its MPI does not need it")
        return warning("no UCX: Open MPI needs it for GPU memory", f"{facts.ucx.call}: {facts.ucx.skipped}", remedy)
    found = require(facts.ucx, "UCX", remedy)
    usable = [each.name for each in found.components if each.resources]
    if facts.has_gpu and not set(usable) & set(_CUDA_COMPONENTS):
        said = f"UCX {found.version} was built without CUDA: it cannot send GPU memory"
        return warning(said, f"{facts.ucx.call}: {join_words(usable)}", remedy)
    return good(f"UCX {found.version} with {join_words(usable)}")


# ------------------------------------------------------------------------------------------------- MPI


def engine(facts: Facts) -> DoctorFinding:
    """Starts `volley-engine --about`, which loads the MPI library of the jobs."""
    stack = require(facts.stack, "the engine", install_volley(facts))
    if not stack.start_error and stack.engine_version not in ("", facts.volley):
        said = f"the engine belongs to volley {stack.engine_version}, but this is volley {facts.volley}"
        return warning(said, f"volley-engine --about: {stack.engine_version}", install_volley(facts))
    if not stack.start_error:
        return good(f"starts, with {stack.described}")
    remedy = f"load the environment module of {stack.described}; or choose another MPI with --mpi"
    if _OF_ANOTHER_HOST.search(stack.start_error):
        remedy = f"build volley on the oldest system that it runs on: {install_volley(facts)}"
    met, place = limit_in([stack.start_error]), place_of(facts)
    missing = re.search(r"(lib\S+?\.so\S*): cannot open", stack.start_error)
    if missing and not re.match("lib(mpi|mpich|open-|pmix|prrte)", missing[1]):
        remedy = f"install the package with {missing[1]}, or name its folder in LD_LIBRARY_PATH: ldconfig -p"
    elif met in ("ulimit -n", "ulimit -u"):
        remedy = place.raise_limit(met[-1], "65536")
    elif refused := _LOADER.search(stack.start_error):
        remedy = _LOADED_BY[refused[2]].format(quote(refused[1]))
    elif "Permission denied" in stack.start_error:
        remedy = f"findmnt -T ~: nothing may be run from a folder mounted noexec; elsewhere: {install_volley(facts)}"
    evidence = f"volley-engine --about: {reason_in(stack.start_error.splitlines())}"
    return broken("the engine does not start", evidence, remedy)


def library(facts: Facts) -> DoctorFinding:
    """Asks a job which library it loaded; looks for another mpirun on PATH."""
    stack = require(facts.stack, "the engine", install_volley(facts))
    jobs = (probe.value for probe in (facts.mpi_host, facts.launcher, facts.mpi_device))
    loaded = next((mpi_name(job.library) for job in jobs if job and job.library), None)
    if loaded is None:
        return not_tested("every job ended before it reported which library it loaded")
    if stack.other_mpirun and not facts.mpi:
        return warning(
            f"{loaded}; the mpirun on PATH is not that of this MPI",
            f"command -v mpirun: {stack.other_mpirun}",
            f"start volley without a launcher, or with {stack.mpiexec} -n 2 {SEND}",
        )
    return good(loaded)


def host(facts: Facts) -> DoctorFinding:
    """Verified messages between two ranks; if they fail or are slow, once more with one change at a time."""
    verbose = f"{settings_of(facts.mpi_family).talk} {SEND} --transport host".strip()
    trials = facts.trials.value or []
    remedy = f"{verbose} shows what MPI tries{'; none of the other settings that doctor tried works' if trials else ''}"
    if facts.stack.value and facts.stack.value.mpi_source == "site":
        remedy += "; --mpi wheel tries the MPI of PyPI"
    if ended := facts.ended_by:
        remedy = ended[0].remedy
    elif facts.mpi_host.value:
        remedy = end_of_job(facts.mpi_host.value, facts) or remedy
    job = require(facts.mpi_host, "MPI between two ranks", remedy)
    if wrong := _wrong_bytes(job, "host"):
        return broken("MPI delivered wrong bytes between two ranks", f"{job.command_line}: {wrong}", remedy)
    points = job.delivered("host")
    if not job.complete or facts.mpi_host.error or not points:
        return job_failed(job, "MPI does not work between two ranks", remedy, HOST_SIZES[-1])
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


def device(facts: Facts) -> DoctorFinding:
    """Verified messages of GPU memory, in a separate job; UCX says the protocol."""
    stack = facts.stack.value
    if stack and stack.mpi_source == "wheel" and not stack.prepared:
        remedy = aware_wheels(facts)
    elif stack and "ucx" in stack.ompi_pml and stack.ompi_cuda:
        remedy = f"OMPI_MCA_pml=ucx {SEND} --transport {_AWARE}"
    else:
        remedy = f"{AWARE_SOURCE}  # or choose a CUDA-aware MPI of the site with --mpi"
    if facts.fails_on_gpus and facts.ended_by:
        remedy = facts.ended_by[0].remedy
    job = require(facts.mpi_device, "MPI on GPU memory", remedy)
    refused = [each.reason for each in job.transports if each.transport == _AWARE and not each.available]
    if refused:
        evidence = f"{job.command_line}: {refused[0]}"
        return broken(f"MPI does not accept GPU memory: {refused[0]}", evidence, remedy, _NOT_AWARE)
    if wrong := _wrong_bytes(job, _AWARE):
        return broken("MPI delivered wrong bytes in GPU memory", f"{job.command_line}: {wrong}", _SEE_COPIES)
    points = job.delivered(_AWARE)
    if not job.complete or not points:
        remedy = remedy if _FOR_HOST_MEMORY.search(job.why) else end_of_job(job, facts) or remedy
        crashed = re.search(r"SIGSEGV|SIGBUS|Segmentation|Bus error", job.why)
        said = "MPI crashes on GPU memory, as one that is not CUDA-aware does"
        said = said if crashed else "MPI does not send GPU memory"
        found = job_failed(job, said, remedy, DEVICE_SIZES[-1])
        return replace(found, explains=_NOT_AWARE) if found.status == "broken" else found
    protocol = f"; UCX: {job.protocols[-1]}" if job.protocols else ""  # of the largest messages
    return good(_times(points) + protocol)


def device_speed(facts: Facts) -> DoctorFinding:
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
    unset = place_of(facts).unset(settings_for(facts, "MPI"))
    otherwise = "if the GPUs have no peer access, pass pinned host memory to MPI"
    return warning(
        f"{what} takes {format_sig(ratio, 2)} times as long through the CUDA-aware MPI as staged through the host",
        f"half round trips: {_AWARE} {_us(aware)} µs, {_STAGED} {_us(staged)} µs",
        f"{unset or otherwise}; to compare by size: {SEND} --transport aware,staged,peer,device",
    )


# ------------------------------------------------------------------------------------------- launcher


def launcher(facts: Facts) -> DoctorFinding:
    """Starts one rank for each GPU (at least two); each reports its host and its device."""
    job = require(facts.launcher, "starting ranks", "volley transports --dry-run shows the command")
    if not job.complete:
        # Ranks that do not find each other were started with the wrong process manager's protocol.
        remedy = by_hand = f"run {job.command_line} by hand; --dry-run shows it with its variables"
        if job.inside and job.launcher in ("openmpi", "mpich"):
            where = " in this container and outside" if place_of(facts).container else ""
            remedy = f"launcher and ranks must be of one MPI and version{where}; or start volley without a launcher"
        elif job.launcher.startswith("srun") or job.inside:
            spoken = re.search(r"\bPMI[X2](?=_)", job.why)  # by the ranks; else by such an MPI as it is usually built
            pmi = spoken[0].lower() if spoken else "pmix" if facts.mpi_family == "openmpi" else "pmi2"
            remedy = f"srun --mpi=list; srun --mpi={pmi} -n {job.wanted_ranks} volley transports"
        remedy = end_of_job(job, facts, look=remedy == by_hand) or remedy
        return job_failed(job, "the launcher does not start the processes as one job", remedy, 0)
    if job.start_s > _SLOW_START_S:
        said = f"the ranks needed {job.start_s:.0f} s to start, before anything was sent"
        look = "time each part: the launcher's login, names (getent hosts), loading from the file system, MPI_Init"
        if facts.has_gpu:
            look += f"; a driver that is kept loaded starts sooner: {place_of(facts).admin('{sudo}nvidia-smi -pm 1')}"
        return warning(said, f"{job.command_line}: first record after {job.start_s:.0f} s", look)
    nodes = len({rank.node for rank in job.ranks})
    local = ", ".join(str(rank.local_rank) for rank in job.ranks)
    return good(f"{job.launcher}: {count(len(job.ranks), 'rank')} on {count(nodes, 'node')}, local ranks {local}")


def rank_gpus(facts: Facts) -> DoctorFinding:
    """Compares the GPUs that the ranks use and see."""
    job = _ranks_of(facts)
    with_gpu = [rank for rank in job.ranks if rank.device]
    here = len([rank for rank in job.ranks if rank.node == 0])
    place = place_of(facts)
    remedy = "; ".join(filter(None, [place.unset(["CUDA_VISIBLE_DEVICES"]), "volley transports"]))
    if job.launcher == "srun" or place.batch == "slurm":
        counts = f"--ntasks-per-node={here} --gpus-per-node={here}"
        remedy = f"without --gpus-per-task: srun {counts} --gpu-bind=none volley transports"
    elif job.launcher == "jsrun":
        remedy = "jsrun --rs_per_host=1 --gpu_per_rs=ALL_GPUS --smpiargs=-gpu volley transports"
    if not with_gpu:
        return broken("no rank sees a GPU", f"{job.command_line}: no rank has a device", remedy)
    users = grouped(with_gpu, lambda rank: (rank.host, rank.device.uuid if rank.device else ""))
    if shared := [[rank.rank for rank in ranks] for ranks in users.values() if len(ranks) > 1]:
        said = f"ranks {shared[0][0]} and {shared[0][1]} use the same GPU"
        # A launcher may hide other GPUs from CUDA, but not from the bus. Others have those that cannot be opened.
        if len(facts.cuda_devices) == 1 and (len(facts.gpus_on_bus) <= 1 or len(facts.open_gpus) == 1):
            return good(f"{said}: it is the only one")
        return broken(f"{said}: others are idle", f"{job.command_line}: {said}", remedy)
    on_nodes = grouped(with_gpu, lambda rank: rank.node).values()
    numbers = [[rank.device.index for rank in ranks if rank.device] for ranks in on_nodes]
    if any(len(each) > 1 and not any(each) for each in numbers):
        hiding = "".join(f"; {name}={value}" for name, value in facts.environment.items() if name in _HIDING)
        return warning(
            "each rank sees one GPU only, so no rank can map a peer's memory: CUDA IPC and peer copies are off",
            f"{job.command_line}: every rank's device is number 0, and no two are the same{hiding}",
            remedy,
            ("GPUs", "peer access", "CUDA IPC", "peer copies"),
        )
    return good(f"rank {join_words(f'{rank.rank} on GPU {rank.device.index}' for rank in with_gpu if rank.device)}")


def _ranks_of(facts: Facts) -> JobFacts:
    job = facts.launcher.value
    if job is None or not job.ranks:
        raise MissingFacts(not_tested("no ranks were started"))
    return job


def binding(facts: Facts) -> DoctorFinding:
    """Asks each rank which cores it may use."""
    job = _ranks_of(facts)
    family = facts.mpi_family if job.launcher in ("openmpi", "mpich") else ""
    bind = f"{settings_of(family).bind} volley transports"
    here = facts.settings.value  # which hardware threads are of one core is known of this host only
    core_of = {(here.host, cpu): min(core) for core in here.siblings for cpu in core} if here else {}
    cores_of = [(rank.node, {core_of.get((rank.host, cpu), cpu) for cpu in rank.cores}) for rank in job.ranks]
    places = [(node, *cores) for node, cores in cores_of if len(cores) == 1]
    if len(set(places)) < len(places):
        more = place_of(facts).more("cpuset", "taskset -p $$ shows what this shell may use; allow more cores")
        return warning(
            f"several ranks are bound to core {statistics.mode(places)[1]}: they share it or take turns",
            f"sched_getaffinity: {len(places)} ranks on {count(len(set(places)), 'core')}",
            bind if job.inside else more,
        )
    by = sorted({rank.bound_by for rank in job.ranks})
    if by == ["nobody"]:
        return warning(
            "no rank is bound to a core: times will vary",
            "sched_getaffinity: every rank may run on any core",
            bind if job.inside else "start no more ranks than there are cores",
        )
    cores = join_words(format_cpulist(rank.cores) for rank in job.ranks)
    near = {each.address: each.cores for each in facts.topology.value.places} if facts.topology.value else {}
    for rank in job.ranks if by != ["engine"] else ():
        beside = near.get(rank.device.pci if rank.device and here and rank.host == here.host else "", "")
        its = {core for part in parse_cpulist(beside) for core in part}
        if its and its.isdisjoint(rank.cores):
            place, own = place_of(facts), format_cpulist(rank.cores)
            said = f"rank {rank.rank} runs on cores {own}, far from its GPU, which cores {beside} are near"
            remedy = "start volley without a launcher, which binds ranks near their GPUs"
            if place.batch:
                remedy = f"ask {place.batch_name} for cores near the GPUs, {beside} here"
                remedy += " (--gres-flags=enforce-binding)" * (place.batch == "slurm")
            remedy += f"; or start this rank as: taskset -c {beside} volley transports"
            return warning(said, f"sched_getaffinity: {own}; local_cpulist of the GPU: {beside}", remedy)
    return good(f"cores {cores}, bound by the {join_words(by)}")


# -------------------------------------------------------------------------------------------- data between GPUs


def cuda_ipc(facts: Facts) -> DoctorFinding:
    """Two processes map each other's GPU memory (volley's `peer`)."""
    table, pairs = peer_table(facts), require(facts.peers, *_COPIES)
    reachable = [pair for pair in pairs if max(pair.gpus) < len(table) and table[pair.gpus[0]][pair.gpus[1]]]
    if not reachable:
        return not_applicable("no pair of GPUs has peer access")
    tried = [(pair.gpus, each) for pair in reachable for each in pair.job.transports if each.transport == "peer"]
    for (one, other), transport in tried:
        if not transport.available:
            said = "two processes cannot map each other's GPU memory: CUDA IPC fails"
            evidence, place = f"GPUs {one} and {other}: {transport.reason}", place_of(facts)
            if place.wsl:
                said = "WSL2 has no CUDA IPC: two processes cannot map each other's GPU memory"
                remedy = f"none: transports through host memory remain, e.g. {SEND} --transport staged/pinned"
                return warning(said, evidence, remedy, ("MPI, GPU speed", "peer copies"))
            remedy = "nvidia-smi topo -p2p r shows what the driver allows"
            if unset := place.unset(["CUDA_VISIBLE_DEVICES"]):
                remedy = f"{unset} in the ranks and choose with volley --gpus; {remedy}"
            if place.container:
                remedy = f"run all ranks in one container: {place.start_with('ipc')}"
            return broken(said, evidence, remedy, ("MPI, GPU speed", "peer copies"))
    if not tried:
        return not_tested("the job ended before this was tried")
    return good(f"{count(len(tried), 'pair')} of processes mapped each other's GPU memory")


def integrity(facts: Facts) -> DoctorFinding:
    """Copies between pairs of GPUs; the receiving GPU compares every byte."""
    peer_table(facts)  # not judged where CUDA shows fewer than two GPUs
    pairs, translates = require(facts.peers, *_COPIES), facts.iommu.value and facts.iommu.value.units
    for pair in pairs:
        one, other = pair.gpus
        send = f"{SEND} --gpus {one},{other} --transport"
        if wrong := [point for point in pair.job.points if point.status == "failed"]:
            transport = wrong[0].transport
            return broken(
                f"GPUs {one} and {other}: {transport} delivered wrong bytes",
                f"{send} {transport}: {wrong[0].reason}",
                place_of(facts).boot_without_translation() if translates else f"{send} {transport},device",
            )
        if not pair.job.complete:
            said = f"GPUs {one} and {other}: the job that copies between them failed"
            return broken(said, pair.job.why, f"{send} peer,device")
    verified = sum(point.messages_verified for pair in pairs for point in pair.job.points)
    if not verified:
        return not_tested("no pair of GPUs can copy without going through the host")
    tried = len([pair for pair in pairs if pair.job.points])
    return good(f"{count(tried, 'pair')} of GPUs, {verified} messages compared byte for byte by the receiving GPU")
