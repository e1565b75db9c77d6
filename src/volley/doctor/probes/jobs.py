"""Jobs of volley's own engine: MPI, launcher and copies between GPUs, each as a real run with verified messages."""

from __future__ import annotations

import os
import re
import shutil
import statistics
import subprocess
from pathlib import Path

from volley import engine
from volley.doctor.facts import Job, PairJob, Seen, Stack, Tried, Way
from volley.doctor.isolate import Skip
from volley.doctor.probes.cuda import Api, CudaError
from volley.launch import inside
from volley.machine import ucx_protocols
from volley.machine.driver import has_driver
from volley.machine.mpi_stack import Stack as Assembled
from volley.machine.mpi_stack import assemble, read_facts
from volley.planning import Request
from volley.records import PingPong, Rank, Sampling
from volley.records_io import RunLog
from volley.session import prepare

HOST_SIZES = (8, 1 << 16)
DEVICE_SIZES = (8, 1 << 15, 1 << 20)
"""UCX sends the first eagerly and the last by rendezvous; the middle one is a halo of 4096 doubles."""
COPY_SIZES = (1 << 12, 1 << 22)
_QUICK = Sampling(interval=0.05, point_time_s=0.2)
_MOST_GPUS = 4
"""Up to so many, every pair is tried; beyond that each GPU with the next."""
_MOST_TEXT = 12
_ANSWER_S = 20.0
_SINGLE = "inside a launcher one job is all there is, and it was used for the ranks; run volley doctor plainly"


def stack() -> Stack:
    """Ask the engine, its build facts and the ompi_info beside its mpirun."""
    path = engine.find()
    about = engine.ask_about(path)()
    assembled = assemble(path, read_facts(path))
    built = assembled.built
    info, said = _ompi_info(assembled)
    return Stack(
        engine_version=about.version,
        mpi_built=about.mpi_built,
        mpi_source=built.mpi_source,
        mpi_family=built.mpi_family,
        mpi_version=built.mpi_version,
        described=assembled.describe(),
        prepared=bool(assembled.mca),
        mpiexec=str(assembled.mpiexec) if assembled.mpiexec else None,
        cuda_built=about.cuda_built,
        cuda_architectures=list(about.cuda_architectures),
        ompi_info=info,
        ompi_cuda=_flag(said),
        ompi_pml=sorted(set(re.findall(r"^mca:pml:(\w+):version", said, re.MULTILINE))),
        other_mpirun=_other_mpirun(assembled),
    )


def _ompi_info(assembled: Assembled) -> tuple[str | None, str]:
    """Run the ompi_info that belongs to the engine's MPI; return its path and what it said."""
    if assembled.built.mpi_family != "openmpi" or assembled.mpiexec is None:
        return None, ""
    program = assembled.mpiexec.with_name("ompi_info")
    words = [str(program), "--parsable", "--all"]
    try:
        done = subprocess.run(words, capture_output=True, timeout=_ANSWER_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None, ""
    return str(program), engine.clean(done.stdout)


def _flag(said: str) -> bool | None:
    found = re.search(r"mpi_built_with_cuda_support:value:\"?(true|false)", said)
    return found.group(1) == "true" if found else None


def _other_mpirun(assembled: Assembled) -> str | None:
    found = shutil.which("mpirun")
    if found is None or assembled.mpiexec is None:
        return None
    return None if Path(found).resolve() == assembled.mpiexec.resolve() else found


# ------------------------------------------------------------------------------------------------- the jobs


def mpi_host(watchdog_s: float) -> Job:
    """Send verified messages between two ranks, in host memory."""
    _refuse_inside()
    request = Request(transports=("host",), sizes=HOST_SIZES, sampling=_QUICK, watchdog_s=watchdog_s, share_device=True)
    return attempt(request)


def mpi_device(watchdog_s: float) -> Job:
    """Send verified messages of GPU memory, by MPI itself and through host memory for comparison."""
    if not has_driver():
        raise Skip("no NVIDIA driver")
    _refuse_inside()
    os.environ.update(ucx_protocols.VARIABLES)  # UCX then says which protocol it takes; it changes no protocol
    return attempt(
        Request(
            transports=_on_gpus("aware", "staged/pinned"),
            sizes=DEVICE_SIZES,
            sampling=_QUICK,
            watchdog_s=watchdog_s,
            share_device=_gpus() < 2,
        )
    )


def launcher(watchdog_s: float) -> Job:
    """Start ranks and let them say where they are; inside a launcher, be its first rank."""
    ranks = None if inside.position(os.environ) else min(max(_gpus(), 2), 8)
    return attempt(
        Request(
            benchmark="probe",
            transports=_carried("host", "peer", "device"),  # none of them can crash, as `aware` may
            sizes=(),
            ranks=ranks,
            watchdog_s=watchdog_s,
            share_device=True,
        )
    )


def peers(watchdog_s: float) -> list[PairJob]:
    """Copy between pairs of GPUs without MPI; the other GPU checks every byte."""
    _refuse_inside()
    count = _gpus()
    if count < 2:
        raise Skip("there are not two GPUs that CUDA sees")
    transports = _on_gpus("peer", "device")
    return [
        PairJob(
            gpus=list(pair),
            job=attempt(
                Request(transports=transports, sizes=COPY_SIZES, sampling=_QUICK, watchdog_s=watchdog_s, gpus=pair)
            ),
        )
        for pair in pairs(count)
    ]


def pairs(count: int) -> list[tuple[int, int]]:
    """Return the pairs of GPUs to try: all of a few, a ring of many."""
    if count <= _MOST_GPUS:
        return [(one, other) for one in range(count) for other in range(one + 1, count)]
    return [(one, (one + 1) % count) for one in range(count)]


def _carried(*names: str) -> tuple[str, ...]:
    """Return those of the transports that this engine carries."""
    about = engine.ask_about(engine.find())()
    there = {transport.name for transport in about.transports}
    return tuple(name for name in names if name in there)


def _on_gpus(*names: str) -> tuple[str, ...]:
    if carried := _carried(*names):
        return carried
    raise Skip("the engine was built without CUDA")


def _refuse_inside() -> None:
    if inside.position(os.environ):
        raise Skip(_SINGLE)


def _gpus() -> int:
    try:
        api = Api()
        api.call("cuInit", 0)
        return len(api.devices())
    except (CudaError, Skip):
        return 0


def attempt(request: Request) -> Job:
    """Run a job to its end and keep what matters of its records.

    Raises:
        UserError: if the job cannot even be put together.
    """
    session = prepare(request)
    log = RunLog()
    start = session.start
    with engine.Running(start.tokens, start.environment, own_session=not start.joins) as running:
        for _, record in running.records(session.plan):
            log.take(record)
    ending = running.ending
    complete = log.end is not None and log.end.status == "complete" and not log.problems
    said = log.problems[0] if log.problems else log.end.reason if log.end else None
    return Job(
        launcher=start.launcher,
        command=list(start.tokens),
        wanted_ranks=session.plan.world_size,
        inside=start.joins,
        complete=complete,
        status=ending.status,
        reason=None if complete else said or ending.reason(),
        library=log.run.mpi.library if log.run and log.run.mpi else None,
        cuda_query=log.run.mpi.cuda_query if log.run and log.run.mpi else None,
        ranks=[_seen(rank) for rank in log.run.ranks] if log.run else [],
        transports=[Way(transport=e.transport, available=e.available, reason=e.reason) for e in log.transports],
        points=[_tried(point) for point in log.points if isinstance(point, PingPong)],
        protocols=ucx_protocols.in_short(ending.others),
        text=[] if complete else [line for line in ending.others if not ucx_protocols.is_line(line)][-_MOST_TEXT:],
    )


def _seen(rank: Rank) -> Seen:
    return Seen(
        rank=rank.rank,
        host=rank.host,
        node=rank.node,
        local_rank=rank.local_rank,
        cores=rank.cores,
        bound_by=rank.bound_by,
        device=rank.device,
    )


def _tried(point: PingPong) -> Tried:
    return Tried(
        transport=point.transport,
        size_bytes=point.size_bytes,
        status=point.status,
        reason=point.reason,
        half_round_trip_s=statistics.median(point.half_round_trip_s) if point.half_round_trip_s else None,
        messages_verified=point.messages_verified,
    )
