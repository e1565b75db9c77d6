"""The launcher: did it make one job of all ranks, with a GPU and a core for each?"""

from __future__ import annotations

import statistics

from volley.doctor.checks.common import NO_GPU, broke_off, command, cuda_devices, has_gpu
from volley.doctor.facts import Facts, Job, Seen
from volley.doctor.findings import Verdict, broken, good, lost, not_applicable, not_tested, warning
from volley.text import count, several, spans


def launcher(facts: Facts) -> Verdict:
    """Ask whether the launcher made one job of all ranks."""
    job = facts.launcher.value
    if job is None:
        return lost(facts.launcher, "starting ranks", "volley transports --launcher openmpi")
    if not job.complete:
        return broke_off(facts.launcher, job, "the launcher does not make a job", _launcher_remedy(job))
    nodes = len({rank.node for rank in job.ranks})
    local = ", ".join(str(rank.local_rank) for rank in job.ranks)
    return good(f"{job.launcher}: {count(len(job.ranks), 'rank')} on {count(nodes, 'node')}, local ranks {local}")


def _launcher_remedy(job: Job) -> str:
    """Ranks that do not find each other are started with the wrong process manager's protocol."""
    if "srun" in job.launcher:
        return f"srun --mpi=list; srun --mpi=pmix -n {job.wanted_ranks} volley transports"
    return (
        "volley transports --launcher srun --launcher-arg=--mpi=pmix" if job.inside else "volley transports --dry-run"
    )


def rank_gpus(facts: Facts) -> Verdict:
    """Ask whether each rank has a GPU of its own and sees its peers'."""
    job = facts.launcher.value
    if not has_gpu(facts):
        return not_applicable(NO_GPU)
    if job is None or not job.ranks:
        return not_tested("no ranks were started")
    return _judge_gpus(facts, job)


def _judge_gpus(facts: Facts, job: Job) -> Verdict:
    with_gpu = [rank for rank in job.ranks if rank.device]
    if not with_gpu:
        return broken("no rank sees a GPU", f"{command(job)}: no rank has a device", _gpu_words(facts, job))
    if shared := _shared(with_gpu):
        if _only_one(facts):
            return good(f"{shared}: it is the only one")
        return broken(f"{shared}: others are idle", f"{command(job)}: {shared}", _gpu_words(facts, job))
    if _hidden(job, with_gpu):
        return warning(
            "each rank sees one GPU only, so no rank can map a peer's memory: CUDA IPC and peer copies are off",
            f"{command(job)}: every rank's device is number 0, and no two are the same"
            + "".join(f"; {name}={value}" for name, value in facts.environment.items() if name in _HIDERS),
            _gpu_words(facts, job),
        )
    shown = several([f"{rank.rank} on GPU {rank.device.index}" for rank in with_gpu if rank.device])
    return good(f"rank {shown}")


def _only_one(facts: Facts) -> bool:
    """True where there is no second GPU, whatever CUDA shows: a launcher may hide the others."""
    return len(cuda_devices(facts)) == 1 and len(facts.bus.value.gpus if facts.bus.value else []) <= 1


_HIDERS = ("CUDA_VISIBLE_DEVICES", "SLURM_GPUS_PER_TASK", "SLURM_GPU_BIND", "SLURM_GPUS_ON_NODE")


def _shared(ranks: list[Seen]) -> str:
    """Name the first ranks that share a GPU."""
    first: dict[tuple[str, str], int] = {}
    for rank in ranks:
        key = (rank.host, rank.device.uuid if rank.device else "")
        if key in first:
            return f"ranks {first[key]} and {rank.rank} use the same GPU"
        first[key] = rank.rank
    return ""


def _hidden(job: Job, ranks: list[Seen]) -> bool:
    """True where ranks of one node have different devices, all of them number 0; or where the engine says so."""
    if any("does not see the device" in (way.reason or "") for way in job.transports):
        return True
    nodes = [[rank.device for rank in ranks if rank.node == node and rank.device] for node in {r.node for r in ranks}]
    return any(len(found) > 1 and not any(device.index for device in found) for found in nodes)


def _gpu_words(facts: Facts, job: Job) -> str:
    """Return how this launcher lets every rank see all GPUs of its node, one for each."""
    here = len([rank for rank in job.ranks if rank.node == 0])
    if job.launcher == "srun" or any(name.startswith("SLURM_") for name in facts.environment):
        counts = f"--ntasks-per-node={here} --gpus-per-node={here}"
        return f"without --gpus-per-task: srun {counts} --gpu-bind=none volley transports"
    if job.launcher == "jsrun":
        return "jsrun --rs_per_host=1 --gpu_per_rs=ALL_GPUS --smpiargs=-gpu volley transports"
    return "unset CUDA_VISIBLE_DEVICES; volley transports"


def binding(facts: Facts) -> Verdict:
    """Ask whether each rank has a core of its own."""
    if facts.launcher.value is None or not facts.launcher.value.ranks:
        return not_tested("no ranks were started")
    job = facts.launcher.value
    words = "mpirun --bind-to core" if job.launcher == "openmpi" else "srun --cpu-bind=cores --cpus-per-task=1"
    alone = [rank for rank in job.ranks if len(rank.cores) == 1]
    places = [(rank.node, rank.cores[0]) for rank in alone]
    if len(set(places)) < len(places):
        core = statistics.mode(places)[1]
        return warning(
            f"several ranks are bound to core {core}: they take turns",
            f"sched_getaffinity: {len(places)} ranks on {len(set(places))} cores",
            f"{words} volley transports"
            if job.inside
            else "taskset -p $$ shows what this shell may use; leave it more cores",
        )
    by = sorted({rank.bound_by for rank in job.ranks})
    if by == ["nobody"]:
        return warning(
            "no rank is bound to a core: times will wander", "sched_getaffinity: every rank may run anywhere",
            f"{words} volley transports" if job.inside else "start no more ranks than there are cores",
        )  # fmt: skip
    shown = several([spans(rank.cores) for rank in job.ranks])
    return good(f"cores {shown}, bound by the {several(by)}")
