"""How to start a job: as rank 0 of a foreign job, or with a launcher."""

from __future__ import annotations

import math
import os
import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NoReturn

from volley.command.options import JobOptions
from volley.errors import MachineError, UserError
from volley.launch import inside_launcher
from volley.launch.allocation import Allocation, allocation
from volley.launch.inside_launcher import RankInfo
from volley.launch.launchers import (
    LAUNCHERS,
    PAIR,
    LaunchSpec,
    Srun,
    choose,
    command,
    cores,
    fabric,
    home,
    jsrun_of,
    parameters_in_files,
)
from volley.machine.mpi_stack import Stack
from volley.machine.nvidia_driver import has_driver
from volley.text import join_words


@dataclass(frozen=True)
class Patience:
    """How long a launcher may take, in addition to the time of the watchdog; the watchdogs of its ranks limit all else.

    The ranks begin with MPI_Init, where no watchdog is possible, because they have no plan yet.
    """

    start_s: float = 240.0
    """Until the first record, if no job has been started yet."""
    end_s: float = 20.0
    """From the end of the ranks, or the time at which their watchdogs would have ended them, until its own end."""
    most_s: float = math.inf
    """In all until the first record: a user who gave the run a budget does not wait for minutes."""
    seen_s: list[float] = field(default_factory=list, compare=False)
    """The time until the first record of the jobs so far: a later job may take as long as the longest of them."""

    missed_s: list[float] = field(default_factory=list, compare=False)
    """How long jobs were waited for that did not start: so long a later one is not waited for again."""

    def until_first_record_s(self, watchdog_s: float) -> float:
        whole_s = min(watchdog_s + (max(self.seen_s) if self.seen_s else self.start_s), self.most_s)
        return max(whole_s - sum(self.missed_s), min(_SHORTEST_AGAIN_S, whole_s))


_SHORTEST_AGAIN_S = 5.0
"""A job is waited for so long, whatever time was lost before."""


@dataclass(frozen=True)
class Start:
    launcher: str
    tokens: tuple[str, ...]
    added: Mapping[str, str]
    """Variables added to the environment; shown and recorded."""
    environment: Mapping[str, str]
    """The complete environment."""
    inside_launcher: bool = False
    """A foreign launcher started this process as a rank: the engine joins that job."""
    on_this_host: bool = False
    """All ranks are on this host: each job has a folder of its own for temporary files."""
    removed: tuple[str, ...] = ()
    """Variables that a surrounding job had set for this process, and that the launcher does not get."""
    oversubscribed: bool = False
    """There are more ranks than cores that the batch system granted."""
    hint: str | None = None
    """Another way to start the job if this one fails; ``None`` if this is already the engine's own mpirun."""
    patience: Patience = field(default_factory=Patience)

    def facts(self, stack: Stack) -> dict[str, Any]:
        return {
            "launcher": self.launcher,
            "command": list(self.tokens),
            "environment": dict(self.added),
            "removed": list(self.removed),
            "oversubscribed": self.oversubscribed,
            "inside": self.inside_launcher,
            "stack": stack.facts(),
        }

    def line(self) -> str:
        return shlex.join([*(f"{name}={value}" for name, value in self.added.items()), *self.tokens])


_SHORTEST_START_S = 30.0
"""Ranks on other hosts may need so long to start, however small the budget of a run is."""
_START_OF_A_RANK_S, _FEWEST_S, _MOST_S = 0.2, 10.0, 240.0
"""A few ranks on other hosts start within seconds; thousands that load their libraries from one file system take
minutes."""


def _engine(path: Path, stack: Stack) -> tuple[str, ...]:
    return (str(path), "--mpi-library", stack.library, "--plan", "-")


def _hint(stack: Stack, ranks: int) -> str:
    mpiexec = str(stack.mpiexec) if stack.mpiexec else "the mpirun of that MPI"
    return f"start volley without a launcher, or with {mpiexec} -n {ranks} volley"


def _by_srun(pmi: str, ranks: int) -> str:
    """Return the srun that starts this command as ranks of an MPI with this PMI."""
    nodes = os.environ.get("SLURM_STEP_NUM_NODES")
    words = ["srun", f"--mpi={pmi}", "-n", str(ranks), *(("-N", nodes) if nodes else ()), "volley", *sys.argv[1:]]
    return f"if srun --mpi=list shows {pmi}: {shlex.join(words)}"


_MOST_LEFT_OVER = 6
"""Launchers set more variables for a rank."""


def left_over() -> str:
    """Return what to type if no launcher started this process, although variables say so; nothing of many variables."""
    names = sorted(os.environ.keys() - inside_launcher.scrubbed(os.environ).keys())
    if not names or len(names) > _MOST_LEFT_OVER:
        return ""
    without = [word for name in names for word in ("-u", name)]
    again = shlex.join(["env", *without, "volley", *sys.argv[1:]])
    are = "is" if len(names) == 1 else "are"
    return f"; if no launcher started it, {join_words(names)} {are} left over in this shell: {again}"


def this_volley() -> tuple[str, ...]:
    """Return how this volley is started again from anywhere: its environment needs no activation."""
    program = Path(sys.argv[0])
    if program.name == "volley" and os.access(program, os.X_OK) and program.is_file():
        return (str(program.absolute()),)
    return (sys.executable, "-m", "volley")


def volley_with_jsrun(job: JobOptions, ranks: LaunchSpec) -> tuple[str, ...]:
    """Return the jsrun that starts this command again on the job's nodes; nothing where volley stays where it is.

    The script of a job with jsrun runs on a node without the job's GPUs.  With ``--launcher jsrun``, volley stays
    there, and jsrun starts the engine.

    Raises:
        UserError: if jsrun cannot start this command.
    """
    granted = allocation(os.environ)
    jsrun = jsrun_of(granted)
    if jsrun is None or job.launcher != "auto" or inside_launcher.rank_info(os.environ):
        return ()
    again = (*this_volley(), *(word for word in sys.argv[1:] if word != "--dry-run"))
    return command(jsrun, replace(ranks, engine=again, allocation=granted, hosts=job.hosts, extra=job.launcher_arg))


def become(tokens: tuple[str, ...]) -> NoReturn:
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(tokens[0], tokens)  # noqa: S606  no shell is needed


ONE_LAUNCH = (
    "a launcher started this job, so only one launch is possible; start volley without a launcher, or let it start its "
    f"own jobs with --launcher {join_words(LAUNCHERS, 'or')}"
)


def start_inside_launcher(job: JobOptions, path: Path, stack: Stack, place: RankInfo, *, threads: bool) -> Start:
    """Return how to start the engine as rank 0 of a foreign job, with the job's binding and environment.

    ``threads``: several threads of a rank call MPI.

    Raises:
        MachineError: if the job belongs to another MPI.
        UserError: if the command makes several launches.
    """
    hint = _hint(stack, place.size or PAIR) + left_over()
    if place.launcher == Srun.name and stack.family in Srun.pmi:
        hint = f"{_by_srun(Srun.pmi[stack.family], place.size or PAIR)}; or {hint}"
    if inside_launcher.mismatch(place.launcher, stack.family):
        raise MachineError(
            f"the MPI is {stack.describe()}, and a launcher of another MPI started this job: the ranks could not "
            f"communicate; {hint}"
        )
    if job.launches and job.launches > 1:
        raise UserError(f"{job.launches} launches: {ONE_LAUNCH}")
    tokens = (*_engine(path, stack), *inside_launcher.rank_arguments(job, threads=threads))
    return Start(place.launcher, tokens, {}, dict(os.environ), inside_launcher=True, hint=hint)


def start_by_launcher(
    job: JobOptions,
    path: Path,
    stack: Stack,
    ranks: LaunchSpec,
    *,
    granted: Allocation | None,
    here: bool,
    share_cores: bool,
    threads: bool,
    budget_s: float | None,
) -> Start:
    """Return how to start the ranks with a launcher; ``here``: all of them run on this host.

    ``share_cores``: each rank gets its share of the cores of its node instead of one.
    ``threads``: several threads of a rank call MPI, each on a core of that share.

    ``budget_s``: the time that the user gave the run, if any.

    Raises:
        UserError: if the chosen launcher cannot start the job.
        MachineError: if there is no launcher.
    """
    launcher = choose(job.launcher, stack, granted)
    environment = inside_launcher.scrubbed(os.environ)
    wanted = replace(
        ranks,
        engine=(
            *_engine(path, stack),
            "--bind-share" if share_cores or threads else "--bind",
            *inside_launcher.rank_arguments(job, threads=threads),
        ),
        hosts=job.hosts,
        allocation=granted,
        here=bool(granted and granted.is_this_host and not (job.hosts or job.launcher_arg)),
        cores=cores(),
        threads_per_core=len(os.sched_getaffinity(0)) / cores(),
        fabric=fabric(),
        root=os.geteuid() == 0,
        home=home(environment),
        extra=job.launcher_arg,
        environment=environment,
        parameters=parameters_in_files(stack.mpiexec, environment)
        if stack.family == "openmpi" and stack.mpiexec
        else (),
    )
    tokens, added = command(launcher, wanted), launcher.environment(wanted)
    waits = patience(gpus=ranks.gpus and has_driver(), elsewhere=0 if here else ranks.ranks)
    hint = None if tokens[0] == str(stack.mpiexec) else _hint(stack, ranks.ranks)
    return Start(
        *(launcher.name, tokens, added, {**environment, **added}),
        on_this_host=here,
        removed=tuple(sorted(os.environ.keys() - environment.keys())),
        oversubscribed=wanted.oversubscribed,
        hint=hint,
        patience=replace(waits, most_s=max(budget_s, _SHORTEST_START_S) if budget_s else math.inf),
    )


def patience(*, gpus: bool, elsewhere: int = 0) -> Patience:
    """Return how long a job may take to start and to end.  ``elsewhere``: its ranks, if not all are on this host.

    Ranks without GPUs take half a second to start, and as long to end.  CUDA initialises eight GPUs in ten seconds if
    no other process holds the driver (nvidia-smi(1), persistence mode).
    """
    if elsewhere:
        return Patience(start_s=min(max(_START_OF_A_RANK_S * elsewhere, _FEWEST_S), _MOST_S))
    return Patience(start_s=10.0, end_s=10.0) if gpus else Patience(start_s=3.0, end_s=3.0)
