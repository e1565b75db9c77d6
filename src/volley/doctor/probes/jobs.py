"""Jobs of volley's own engine: MPI, launcher and copies between GPUs, each as a real run with verified messages."""

from __future__ import annotations

import contextlib
import mmap
import os
import re
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from volley.benchmarks import named
from volley.command.options import JobOptions
from volley.doctor.probes.host import output_of
from volley.doctor.remedies import MESSAGES
from volley.errors import MachineError, UserError
from volley.launch import engine_path, path_launch
from volley.launch.engine import About, EngineProcess, ask_about
from volley.launch.inside_launcher import rank_info
from volley.launch.launchers import PAIR
from volley.launch.preflight import Trials
from volley.launch.start import Patience
from volley.machine import nccl_words, ucx_protocols
from volley.machine.capture import Skip
from volley.machine.cuda_driver import cuda_gpu_count
from volley.machine.job_facts import (
    BETWEEN_SIZES,
    COPY_SIZES,
    DEVICE_SIZES,
    HOST_SIZES,
    JobFacts,
    NcclFacts,
    PairFacts,
    PointFacts,
    RankFacts,
    StackFacts,
    TransportFacts,
)
from volley.machine.mpi_choice import Choice, choose_mpi, family_of, installed_file
from volley.machine.mpi_stack import assemble
from volley.machine.mpi_words import invalid_values
from volley.machine.nvidia_driver import has_driver
from volley.machine.paths import RunPath
from volley.machine.signals import Stop, temporary_folder
from volley.machine.sysfs import word
from volley.machine.variables import misspelt
from volley.records.records_file import LineReader
from volley.records.run_log import RunLog
from volley.run.benchmark import Benchmark
from volley.run.session import prepare
from volley.statistics.estimates import median

_QUICK = {"ci": 0.05, "point_time": 0.2}
_END_S = 3.0
_MAX_GPUS = 4
"""Up to this number of GPUs, every pair is tried; beyond it, each GPU with the next one."""
_MAX_RANKS = 8
_MAX_LINES = 100
IN_HOME = ("~/.openmpi/mca-params.conf", "~/.prte/mca-params.conf", "~/.pmix/mca-params.conf", "~/ucx.conf")
"""Settings of Open MPI and UCX in a file."""


def stack(mpi: str) -> StackFacts:
    """Ask the engine, the MPI library and the ompi_info beside its mpirun."""
    place, start_error = rank_info(os.environ), None
    chosen = choose_mpi(mpi, os.environ, place.launcher if place else "")
    assembled, about, engine = None, About(), Path(engine_path.engine_path())
    try:
        with ask_about(engine, chosen.library) as answer:
            about = answer()
        assembled = assemble(chosen, about.mpi, about.cuda_built)
    except MachineError as reason:
        start_error = str(reason)
        with contextlib.suppress(MachineError), ask_about(engine) as answer:
            about = answer()  # of its build
    said = ""
    if chosen.family == "openmpi" and chosen.launcher:
        program = str(Path(chosen.launcher).with_name("ompi_info"))
        said, _ = output_of([program, "--parsable", "--all"])
    parameters = re.findall(r":param:(\w+):", said)
    aware = re.search(r"mpi_built_with_cuda_support:value:\"?(true|false)", said)
    on_path = shutil.which("mpirun")
    other = on_path and chosen.launcher and not place and not _same(on_path, chosen)
    return StackFacts(
        engine_version=about.version,
        start_error=start_error,
        mpi_source=chosen.source,
        mpi_family=chosen.family,
        described=assembled.describe() if assembled else chosen.library,
        prepared=bool(assembled and assembled.mca),
        mpiexec=chosen.launcher,
        cuda_built=about.cuda_built,
        cuda_architectures=list(about.cuda_architectures),
        ompi_cuda=aware[1] == "true" if aware else None,
        ompi_pml=sorted(set(re.findall(r"^mca:pml:(\w+):version", said, re.MULTILINE))),
        misspelt=misspelt(
            {**_parameters_in_files(chosen), **os.environ},
            {*_named_in(chosen), *(f"OMPI_MCA_{each}" for each in parameters)},
        ),
        other_mpirun=on_path if other else None,
    )


def _parameters_in_files(chosen: Choice) -> dict[str, str]:
    """Return the parameters in the files of the user and the site that Open MPI reads, by the names of variables."""
    names = (IN_HOME[0], site_file(chosen.launcher)) if chosen.family == "openmpi" else ()
    lines = [line for name in names for line in word(Path(os.path.expanduser(name))).splitlines()]  # noqa: PTH111
    settings = (line.partition("=") for line in lines if "=" in line and not line.lstrip().startswith("#"))
    return {f"OMPI_MCA_{name.strip()}": value.strip() for name, _, value in settings}


def site_file(launcher: str | None) -> str:
    """Return the file of parameters beside an mpirun."""
    prefix = Path(launcher or "/usr/bin/mpirun").resolve().parents[1]
    return f"{'/etc/openmpi' if prefix == Path('/usr') else f'{prefix}/etc'}/openmpi-mca-params.conf"


def _named_in(chosen: Choice) -> set[str]:
    """Return the variables that the library of MPICH or Intel MPI, and the programs of its launcher, name, and NCCL's.

    Nothing where no such variable is set: the files are large.
    """
    launcher = Path(chosen.launcher or os.devnull)
    of_mpi = [Path(chosen.library), launcher, *launcher.parent.glob("hydra*"), *launcher.parent.glob("mpiexec*")]
    files = {
        ("MPIR_CVAR_", "I_MPI_"): of_mpi if chosen.family in {"mpich", "intel"} else [],
        ("NCCL_",): _nccl_library(),
    }
    found: set[bytes] = set()
    for beginnings, those in files.items():
        name = re.compile(rf"(?:{'|'.join(beginnings)})[A-Z0-9_]+".encode())
        for file in those if any(each.startswith(beginnings) for each in os.environ) else ():
            # Of an empty file there is no map.
            with (
                contextlib.suppress(OSError, ValueError),
                file.open("rb") as opened,
                mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as text,
            ):
                found.update(name.findall(text))
    return {name.decode() for name in found}


def _nccl_library() -> list[Path]:
    """Return the NCCL that the loader finds first: of a folder that the shell names, of a wheel, of the system."""
    name, folders = "libnccl.so.2", filter(None, os.environ.get("LD_LIBRARY_PATH", "").split(":"))
    wheels = (installed_file(f"nvidia-nccl-cu{version}", name) for version in (13, 12))
    system = (*Path("/usr").glob(f"lib*/{name}"), *Path("/usr/lib").glob(f"*-linux-gnu/{name}"))
    files = (*(Path(folder, name) for folder in folders), *map(Path, filter(None, wheels)), *system)
    return [each for each in files if each.exists()][:1]


def _same(launcher: str, chosen: Choice) -> bool:
    """Return whether a launcher is that of an MPI: a wheel has a copy for each of its names."""
    its = Path(chosen.launcher or "")
    beside = Path(launcher).parent.samefile(its.parent) and family_of(launcher) == chosen.family
    return beside or Path(launcher).samefile(its)


def mpi_host(job: JobOptions) -> JobFacts:
    """Send verified messages between two ranks, in host memory."""
    _skip_inside_launcher()
    return _send(("host",), HOST_SIZES, replace(job, share_gpu=True))


def mpi_device(job: JobOptions) -> JobFacts:
    """Send verified messages from GPU memory, by MPI itself and, for comparison, through host memory."""
    if not has_driver():
        raise Skip("no NVIDIA driver")
    _skip_inside_launcher()
    os.environ.update(ucx_protocols.VARIABLES)  # UCX then says which protocol it takes; it changes no protocol
    transports = _on_gpus("aware", "staged/pinned")
    return _send(transports, DEVICE_SIZES, replace(job, share_gpu=cuda_gpu_count() < 2))


def over_hosts(names: tuple[str, ...], job: JobOptions, transports: tuple[str, ...] = ("host",)) -> JobFacts:
    """Send verified messages between two ranks on different hosts.

    GPU memory has a job of its own: an MPI that is not CUDA-aware crashes.
    """
    try:
        return _send(transports, BETWEEN_SIZES, replace(job, hosts=names, ranks=len(names), share_gpu=True))
    except UserError as error:
        return JobFacts(launcher="", command=[], wanted_ranks=len(names), reason=str(error))


def device_over_hosts(names: tuple[str, ...], job: JobOptions) -> JobFacts:
    """Send verified messages of GPU memory, by MPI itself, between two ranks on different hosts."""
    os.environ.update(ucx_protocols.VARIABLES)
    return over_hosts(names, job, _on_gpus("aware"))


def paths_between(names: tuple[str, ...], job: JobOptions) -> list[RunPath]:
    """Return what carries messages of MPI between hosts; nothing where that job fails."""
    job = replace(job, hosts=names, ranks=len(names), share_gpu=True)
    benchmark, options = _messages(("host",), BETWEEN_SIZES, job)
    with Stop() as stop:
        session = prepare(benchmark, options, stop)
        plan = session.jobs.planned[0].plan
        trials = Trials(session.starts[plan.world_size], session.stack, stop, plan.watchdog_s)
        shown = path_launch.found(plan, session.context.about, (), trials)
        return shown.paths if shown else []


def launcher(job: JobOptions) -> JobFacts:
    """Start ranks that report their host and device; inside a launcher, this process is the first rank."""
    ranks = None if rank_info(os.environ) else min(max(cuda_gpu_count(), 2), _MAX_RANKS)
    benchmark = named("probe")
    options = replace(benchmark.options(), job=replace(job, ranks=ranks, share_gpu=True))
    # None of these can crash, as `aware` may.
    return attempt(benchmark, options, transports=_carried("host", "peer", "device"))


def peers(job: JobOptions) -> list[PairFacts]:
    """Copy between pairs of GPUs without MPI; the other GPU checks every byte."""
    _skip_inside_launcher()
    gpus = cuda_gpu_count()
    if gpus < 2:
        raise Skip("CUDA does not see two GPUs")
    transports = _on_gpus("peer", "device")
    return [
        PairFacts(gpus=list(pair), job=_send(transports, COPY_SIZES, replace(job, gpus=pair))) for pair in pairs(gpus)
    ]


def nccl(job: JobOptions) -> NcclFacts:
    """Send by NCCL between two GPUs of this host, or, with ``hosts`` in the options, of two hosts."""
    if not job.hosts:
        _skip_inside_launcher()
        if cuda_gpu_count() < 2:
            raise Skip("CUDA does not see two GPUs")
    transports = _on_gpus("nccl")
    with temporary_folder() as folder:
        os.environ.update(nccl_words.to_files_in(folder))
        done = _send(transports, DEVICE_SIZES, job)
        said = nccl_words.said_in(folder)
    if not done.complete:  # the file has what NCCL would print
        warned = [line for line in said if "NCCL WARN" in line][:_MAX_LINES]
        done = msgspec.structs.replace(done, text=[*warned, *done.text])
    return msgspec.structs.replace(nccl_words.parse(said), job=done)


def pairs(gpus: int) -> list[tuple[int, int]]:
    """Return the pairs of GPUs to try: all of a few, a ring of many."""
    if gpus <= _MAX_GPUS:
        return [(one, other) for one in range(gpus) for other in range(one + 1, gpus)]
    return [(one, (one + 1) % gpus) for one in range(gpus)]


def _carried(*names: str) -> tuple[str, ...]:
    with ask_about(Path(engine_path.engine_path())) as answer:
        known = {transport.name for transport in answer().transports}
    return tuple(name for name in names if name in known)


def _on_gpus(*names: str) -> tuple[str, ...]:
    if carried := _carried(*names):
        return carried
    raise Skip("the engine was built without CUDA")


def _skip_inside_launcher() -> None:
    if rank_info(os.environ):
        raise Skip(
            "a launcher allows one job only, which the test of the ranks used; run volley doctor without a launcher"
        )


def _messages(transports: tuple[str, ...], sizes: tuple[int, ...], job: JobOptions) -> tuple[Benchmark, Any]:
    """Return messages between two ranks; of more hosts, between all of them."""
    benchmark = named("collective" if len(job.hosts) > PAIR else MESSAGES)
    usual: Any = benchmark.options()
    if len(job.hosts) > PAIR:
        usual, sizes = replace(usual, operation=("all-to-all",)), (1 << 10, *sizes[1:])  # each block has four bytes
    points = replace(usual.points, transport=transports, sizes=sizes)
    return benchmark, replace(usual, points=points, sampling=replace(usual.sampling, **_QUICK), job=job)


def _send(transports: tuple[str, ...], sizes: tuple[int, ...], job: JobOptions) -> JobFacts:
    return attempt(*_messages(transports, sizes, job))


def attempt(benchmark: Benchmark, options: Any, transports: Sequence[str] = ()) -> JobFacts:
    """Run a job to its end and keep what matters of its records; ``transports`` replace those of the options."""
    log = RunLog()
    with Stop() as stop:
        session = prepare(benchmark, options, stop)
        plan = session.jobs.planned[0].plan
        # The limit of the probe ends it: on a busy machine a budget would leave out messages that arrive.
        plan = plan.changed(transports=[*transports] or plan.transports, budget_s=None)
        start = session.starts[plan.world_size]
        patience = Patience(start_s=min(start.patience.start_s, plan.watchdog_s), end_s=_END_S)
        with EngineProcess(replace(start, patience=patience), stop) as process:
            for _, record in process.records(plan, LineReader((benchmark,))):
                log.add(record)
    ending, run, end = process.ending, log.run, log.end
    start_s = process.times(None).run_s or 0.0
    complete = end is not None and end.status == "complete" and not log.problems
    said = log.problems[0] if log.problems else end.reason if end else None
    return JobFacts(
        launcher=start.launcher,
        command=list(start.tokens),
        wanted_ranks=plan.world_size,
        inside=start.inside_launcher,
        complete=complete,
        start_s=start_s,
        status=ending.status,
        reason=None if complete else said or ending.reason(),
        library=run.mpi.library if run and run.mpi else None,
        ranks=msgspec.convert(run.ranks if run else [], list[RankFacts], from_attributes=True),
        transports=msgspec.convert(log.transports, list[TransportFacts], from_attributes=True),
        points=[
            PointFacts(
                transport=point.transport,
                size_bytes=point.size_bytes,
                status=point.status,
                reason=point.reason,
                half_round_trip_s=median(point.times_s) if point.times_s else None,
                lower_quartile_s=sorted(point.times_s)[len(point.times_s) // 4] if point.times_s else None,
                messages_verified=point.messages_verified,
            )
            for point in log.records
        ],
        protocols=ucx_protocols.in_short(ending.others),
        unused=ucx_protocols.unused_variables(ending.others),
        invalid=invalid_values(ending.others),
        text=[] if complete else [line for line in ending.others if not ucx_protocols.is_line(line)][-_MAX_LINES:],
    )
