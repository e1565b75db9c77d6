"""Jobs: whether the launcher gives each rank a GPU and a core, and whether GPUs deliver each other's bytes."""

from __future__ import annotations

import statistics

from volley.doctor.findings import (
    Finding,
    broken,
    good,
    job_failed,
    not_applicable,
    not_tested,
    peer_table,
    require,
    warning,
)
from volley.doctor.remedies import SEND, boot_with, system
from volley.machine.facts import Facts, JobFacts, RankFacts
from volley.text import count, join_words
from volley.units import format_cpulist

_NO_RANKS = "no ranks were started"
_HIDING = ("CUDA_VISIBLE_DEVICES", "SLURM_GPUS_PER_TASK", "SLURM_GPU_BIND", "SLURM_GPUS_ON_NODE")
"""Variables that explain why a rank sees one GPU only."""
_COPIES = ("copies between GPUs", f"{SEND} --transport peer,device")
"""What failed where no pair was tried, and the remedy."""


def launcher(facts: Facts) -> Finding:
    """Starts one rank for each GPU (at least two); each reports its host and its device."""
    job = require(facts.launcher, "starting ranks", "volley transports --launcher openmpi")
    if not job.complete:
        # Ranks that do not find each other were started with the wrong process manager's protocol.
        remedy = f"run {job.command_line} by hand; --dry-run shows it with its variables"
        if "srun" in job.launcher or job.inside:
            pmi = "pmi2" if facts.mpi_family == "mpich" else "pmix"
            remedy = f"srun --mpi=list; srun --mpi={pmi} -n {job.wanted_ranks} volley transports"
        return job_failed(job, "the launcher does not start the processes as one job", remedy)
    nodes = len({rank.node for rank in job.ranks})
    local = ", ".join(str(rank.local_rank) for rank in job.ranks)
    return good(f"{job.launcher}: {count(len(job.ranks), 'rank')} on {count(nodes, 'node')}, local ranks {local}")


def rank_gpus(facts: Facts) -> Finding:
    """Compares the GPUs that the ranks use and see."""
    job = facts.launcher.value
    if job is None or not job.ranks:
        return not_tested(_NO_RANKS)
    with_gpu = [rank for rank in job.ranks if rank.device]
    remedy = _see_all_gpus(facts, job)
    if not with_gpu:
        return broken("no rank sees a GPU", f"{job.command_line}: no rank has a device", remedy)
    if shared := _shared_gpu(with_gpu):
        # A launcher may hide other GPUs from CUDA, but not from the bus.
        if len(facts.cuda_devices) == 1 and len(facts.gpus_on_bus) <= 1:
            return good(f"{shared}: it is the only one")
        return broken(f"{shared}: others are idle", f"{job.command_line}: {shared}", remedy)
    if _see_one_each(with_gpu):
        hiding = "".join(f"; {name}={value}" for name, value in facts.environment.items() if name in _HIDING)
        return warning(
            "each rank sees one GPU only, so no rank can map a peer's memory: CUDA IPC and peer copies are off",
            f"{job.command_line}: every rank's device is number 0, and no two are the same{hiding}",
            remedy,
            ("GPUs", "peer access", "CUDA IPC", "peer copies"),
        )
    return good(f"rank {join_words(f'{rank.rank} on GPU {rank.device.index}' for rank in with_gpu if rank.device)}")


def _shared_gpu(ranks: list[RankFacts]) -> str:
    """Name the first ranks that share a GPU; an empty text if none do."""
    first: dict[tuple[str, str], int] = {}
    for rank in ranks:
        key = (rank.host, rank.device.uuid if rank.device else "")
        if key in first:
            return f"ranks {first[key]} and {rank.rank} use the same GPU"
        first[key] = rank.rank
    return ""


def _see_one_each(ranks: list[RankFacts]) -> bool:
    """True if ranks of one node have different devices, all of them number 0."""
    nodes = [[rank.device for rank in ranks if rank.node == node and rank.device] for node in {r.node for r in ranks}]
    return any(len(found) > 1 and not any(device.index for device in found) for found in nodes)


def _see_all_gpus(facts: Facts, job: JobFacts) -> str:
    """Return the command with which this launcher shows all GPUs of the node to every rank."""
    here = len([rank for rank in job.ranks if rank.node == 0])
    if job.launcher == "srun" or any(name.startswith("SLURM_") for name in facts.environment):
        counts = f"--ntasks-per-node={here} --gpus-per-node={here}"
        return f"without --gpus-per-task: srun {counts} --gpu-bind=none volley transports"
    if job.launcher == "jsrun":
        return "jsrun --rs_per_host=1 --gpu_per_rs=ALL_GPUS --smpiargs=-gpu volley transports"
    return "unset CUDA_VISIBLE_DEVICES; volley transports"


def binding(facts: Facts) -> Finding:
    """Asks each rank which cores it may use."""
    job = facts.launcher.value
    if job is None or not job.ranks:
        return not_tested(_NO_RANKS)
    binder = "mpirun --bind-to core" if job.launcher == "openmpi" else "srun --cpu-bind=cores --cpus-per-task=1"
    bind = f"{binder} volley transports"
    places = [(rank.node, rank.cores[0]) for rank in job.ranks if len(rank.cores) == 1]
    if len(set(places)) < len(places):
        return warning(
            f"several ranks are bound to core {statistics.mode(places)[1]}: they take turns",
            f"sched_getaffinity: {len(places)} ranks on {count(len(set(places)), 'core')}",
            bind if job.inside else "taskset -p $$ shows what this shell may use; allow more cores",
        )
    by = sorted({rank.bound_by for rank in job.ranks})
    if by == ["nobody"]:
        return warning(
            "no rank is bound to a core: times will vary",
            "sched_getaffinity: every rank may run on any core",
            bind if job.inside else "start no more ranks than there are cores",
        )
    cores = join_words(format_cpulist(rank.cores) for rank in job.ranks)
    return good(f"cores {cores}, bound by the {join_words(by)}")


# -------------------------------------------------------------------------------------------- data between GPUs


def cuda_ipc(facts: Facts) -> Finding:
    """Two processes map each other's GPU memory (volley's `peer`)."""
    table, pairs = peer_table(facts), require(facts.peers, *_COPIES)
    reachable = [pair for pair in pairs if max(pair.gpus) < len(table) and table[pair.gpus[0]][pair.gpus[1]]]
    if not reachable:
        return not_applicable("no pair of GPUs has peer access")
    tried = [(pair.gpus, each) for pair in reachable for each in pair.job.transports if each.transport == "peer"]
    for (one, other), transport in tried:
        if not transport.available:
            said = "two processes cannot map each other's GPU memory: CUDA IPC fails"
            remedy = "unset CUDA_VISIBLE_DEVICES in the ranks and choose with volley --gpus; nvidia-smi topo -p2p r"
            if system(facts).container:
                flags = "--gpus all --ipc=host --pid=host --cap-add=SYS_PTRACE"
                remedy = f"run all ranks in one container: docker run {flags}"
            evidence = f"GPUs {one} and {other}: {transport.reason}"
            return broken(said, evidence, remedy, ("MPI, GPU speed", "peer copies"))
    if not tried:
        return not_tested("the job ended before this was tried")
    return good(f"{count(len(tried), 'pair')} of processes mapped each other's GPU memory")


def integrity(facts: Facts) -> Finding:
    """Copies between pairs of GPUs; the receiving GPU compares every byte."""
    peer_table(facts)  # not judged where CUDA shows fewer than two GPUs
    pairs = require(facts.peers, *_COPIES)
    for pair in pairs:
        one, other = pair.gpus
        send = f"{SEND} --gpus {one},{other} --transport"
        if wrong := [point for point in pair.job.points if point.status == "failed"]:
            transport = wrong[0].transport
            return broken(
                f"GPUs {one} and {other}: {transport} delivered wrong bytes",
                f"{send} {transport}: {wrong[0].reason}",
                boot_with(facts, "iommu=pt"),
            )
        if not pair.job.complete:
            said = f"GPUs {one} and {other}: the job that copies between them failed"
            return broken(said, pair.job.why, f"{send} peer,device")
    verified = sum(point.messages_verified for pair in pairs for point in pair.job.points)
    if not verified:
        return not_tested("no pair of GPUs can copy without going through the host")
    tried = len([pair for pair in pairs if pair.job.points])
    return good(f"{count(tried, 'pair')} of GPUs, {verified} messages compared byte for byte by the receiving GPU")
