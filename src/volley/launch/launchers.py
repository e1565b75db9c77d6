"""The launchers: the ranks that one must start, its arguments as a list (never a shell string), and which one is used.

A new launcher is a class of a few lines; docs/architecture.md, "Where things go", names the other places.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from volley.errors import MachineError, UserError
from volley.launch.allocation import Allocation
from volley.machine.mpi_words import ALLOW_ROOT
from volley.text import join_words

PAIR = 2
"""The number of ranks of a benchmark between two ranks."""

_CPUS = Path("/sys/devices/system/cpu")


def home(environment: Mapping[str, str]) -> str | None:
    """Return the user's home folder if ``HOME`` is not set, e.g. in a cron job; ``/`` if it is unknown."""
    if environment.get("HOME"):
        return None
    import pwd  # noqa: PLC0415  start-up: rarely needed

    try:
        return pwd.getpwuid(os.geteuid()).pw_dir
    except KeyError:
        return "/"


@dataclass(frozen=True)
class LaunchSpec:
    engine: tuple[str, ...]
    """The program of every rank, with its arguments."""
    ranks: int
    family: str = "openmpi"
    """The MPI of the ranks: ``openmpi`` or ``mpich``."""
    mpiexec: Path | None = None
    """That MPI's own mpirun."""
    hosts: tuple[str, ...] = ()
    """The hosts of the ranks; empty: this host, or those of the allocation."""
    allocation: Allocation | None = None
    here: bool = False
    """The allocation is this host alone."""
    cores: int = 1
    """Cores of this machine that ranks may use."""
    threads_per_core: float = 1.0
    """Hardware threads of a core of this machine that ranks may use."""
    fabric: bool = False
    """This machine has a fabric that OFI may use."""
    whole_start: bool = False
    """How long the start takes is measured: nothing of it is left out."""
    root: bool = False
    home: str | None = None
    """The user's home folder, if the environment does not name it."""
    gpus: bool = False
    """The job uses GPUs."""
    device_buffers: bool = False
    """The job passes buffers in GPU memory to MPI."""
    mca: Mapping[str, str] = field(default_factory=dict)
    """Open MPI parameters that the software stack needs."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """Variables that the software stack needs in every rank, but not in the launcher."""
    extra: tuple[str, ...] = ()
    """Additional arguments of the launcher from the user."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """The environment of the launcher."""
    parameters: Collection[str] = ()
    """Open MPI parameters that are set in files of the user or of the machine."""

    @property
    def nodes(self) -> int:
        if self.hosts:
            return len(set(self.hosts))
        return min(self.ranks, self.allocation.nodes) if self.allocation else 1

    @property
    def ranks_per_node(self) -> int:
        """The largest number of ranks on a node."""
        return -(-self.ranks // self.nodes)

    @property
    def lacks_slots(self) -> bool:
        """True if there are more ranks than slots, as launchers count them: hosts from ``--hosts`` have enough slots
        unless a batch system defines their number."""
        if not self.hosts:
            return self.ranks > (self.allocation.slots if self.allocation else self.cores)
        granted = self.allocation.hosts if self.allocation else {}
        return all(host in granted for host in self.hosts) and self.ranks > sum(
            granted[host] for host in set(self.hosts)
        )

    @property
    def oversubscribed(self) -> bool:
        """True if ranks must share cores.  A batch system may grant a task several cores, and launchers count tasks."""
        cpus = self.allocation.cpus_per_node if self.allocation else None
        return self.lacks_slots and (cpus is None or self.ranks_per_node > max(cpus // self.threads_per_core, 1))

    @property
    def counts_cores(self) -> bool:
        """True if this job's CPUs on this host suffice although the batch system counts fewer tasks: then a launcher
        that does not ask the batch system counts them."""
        return self.here and self.lacks_slots and not self.oversubscribed and self.ranks <= self.cores


def fabric() -> bool:
    """True if this machine has InfiniBand, RoCE, Omni-Path or EFA (the first class) or Slingshot (the second)."""
    return any(True for name in ("infiniband", "cxi") for _ in Path("/sys/class", name).glob("*"))


def cores() -> int:
    """Count the cores (not hardware threads) on which this process may run, as Open MPI counts its slots.

    Source: Linux, ``/sys/devices/system/cpu/cpuN/topology/thread_siblings_list``, the same for all threads of a core.
    """
    from volley.machine.sysfs import word  # noqa: PLC0415  start-up: only where something is measured

    allowed = os.sched_getaffinity(0)
    return len({word(_CPUS / f"cpu{cpu}/topology/thread_siblings_list") or str(cpu) for cpu in allowed})


def parameters_in_files(mpirun: Path, environment: Mapping[str, str]) -> set[str]:
    """Return the names of the Open MPI parameters in the files that it reads: the user's, its own, the distribution's.

    Source: Open MPI, "Setting MCA parameter values"; Debian and Fedora have its folder ``etc`` in /etc.
    """
    own = mpirun.parent.parent / "etc/openmpi-mca-params.conf"
    files = [Path(environment.get("HOME", "/"), ".openmpi/mca-params.conf"), own]
    files += Path("/etc").glob("openmpi*/openmpi-mca-params.conf") if mpirun.is_relative_to("/usr") else ()
    found: set[str] = set()
    for file in files:
        with suppress(OSError):
            lines = file.read_text("utf-8", "replace").splitlines()
            found |= {line.partition("=")[0].strip() for line in lines if "=" in line and line.strip()[0] != "#"}
    return found


if TYPE_CHECKING:  # start-up: every command line needs the names of the launchers
    from volley.machine.mpi_stack import Stack


class Launcher(ABC):
    """A program that starts ranks."""

    name: str
    program: str
    """The name of the program on PATH; the path of the MPI's own mpirun is known."""
    title: str
    """The name in messages."""
    mpi_family: str | None = None
    """The MPI to which it belongs; ``None`` if it starts the ranks of any MPI."""
    batch_system: str | None = None
    """The only batch system that has it; ``None`` if it works in any."""

    @abstractmethod
    def arguments(self, spec: LaunchSpec) -> list[str]:
        """Return the launcher's own arguments, without the program and without the engine."""

    def environment(self, spec: LaunchSpec) -> dict[str, str]:  # noqa: ARG002
        """Return the variables that the launcher needs in addition to the inherited ones."""
        return {}


class OpenMPI(Launcher):
    """Open MPI's mpirun, 4.1 and 5 alike.  The engine binds its ranks, so mpirun does not."""

    name, program, title = "openmpi", "mpirun", "Open MPI's mpirun"
    mpi_family = "openmpi"
    components: ClassVar = {"slurm": "slurm", "pbs": "tm", "lsf": "lsf", "age": "gridengine"}
    """Its components that ask a batch system for the allocation (ras) and start daemons with it (plm)."""

    def arguments(self, spec: LaunchSpec) -> list[str]:
        arguments = ["-n", str(spec.ranks), "--bind-to", "none"]
        hosts = spec.hosts
        if not hosts and spec.nodes > 1 and spec.allocation and spec.allocation.kind != "slurm":
            # Every mpirun can query Slurm, but other batch systems only if it was built with their libraries.  Without
            # --host such an mpirun would start all ranks on this node.
            hosts = tuple(spec.allocation.hosts)[: spec.nodes]
        if hosts:
            slots = f":{spec.ranks_per_node}" if spec.ranks_per_node > 1 else ""
            arguments += ["--host", ",".join(host + slots for host in dict.fromkeys(hosts))]
        # OVERSUBSCRIBE changes how ranks wait: 8 B takes 1.4 times as long, also where each rank has a core.
        lacks_slots = spec.lacks_slots and not spec.counts_cores
        mapping = ("node" if spec.nodes > 1 else "") + (":OVERSUBSCRIBE" if lacks_slots else "")
        arguments += ["--map-by", mapping] if mapping else []
        # OFI probes fabrics for a second, which a single host without a fabric does without: Open MPI would not choose
        # it there.  A choice of the user has priority; the command line would override environment and files.
        chosen = {*spec.extra, *spec.parameters, *(name.removeprefix("OMPI_MCA_") for name in spec.environment)}
        needless = spec.nodes == 1 and not spec.fabric and not spec.whole_start
        ours = {name: "^ofi" for name in ("btl", "mtl") if name not in chosen and needless}
        if spec.counts_cores and spec.allocation:
            ours |= dict.fromkeys(("ras", "plm"), f"^{self.components[spec.allocation.kind]}")
        # Without this, OVERSUBSCRIBE also makes ranks of Open MPI 4 yield their cores while they wait; 5 ignores it.
        elif lacks_slots and not spec.oversubscribed and "mpi_yield_when_idle" not in chosen:
            ours["mpi_yield_when_idle"] = "0"
        arguments += [word for name, value in {**ours, **spec.mca}.items() for word in ("--mca", name, value)]
        arguments += [word for name, value in spec.variables.items() for word in ("-x", f"{name}={value}")]
        if spec.nodes > 1 or spec.hosts:
            from volley.machine.variables import to_pass_on  # noqa: PLC0415  start-up: most jobs are on one node

            for name in to_pass_on(spec.environment, allocated=spec.allocation is not None):
                arguments += ["-x", name] if name not in spec.variables else []
        return arguments

    def environment(self, spec: LaunchSpec) -> dict[str, str]:
        allowed = ALLOW_ROOT if spec.root else {}
        return allowed | ({"HOME": spec.home} if spec.home else {})  # without it, Open MPI 5 does not start


class MPICH(Launcher):
    """MPICH's hydra, which does not bind ranks by default."""

    name, program, title = "mpich", "mpiexec", "MPICH's mpiexec"
    mpi_family = "mpich"

    def arguments(self, spec: LaunchSpec) -> list[str]:
        arguments = ["-n", str(spec.ranks)]
        arguments += ["-ppn", str(spec.ranks_per_node)] if spec.nodes > 1 else []
        arguments += ["-hosts", ",".join(dict.fromkeys(spec.hosts))] if spec.hosts else []
        return arguments + [word for name, value in spec.variables.items() for word in ("-genv", name, value)]


class Srun(Launcher):
    """Slurm's srun.  GPUs per task are not requested: each rank would not see the GPU of the other rank."""

    name, program, title = "srun", "srun", "srun"
    batch_system = "slurm"
    pmi: ClassVar = {"openmpi": "pmix", "mpich": "pmi2"}
    """What ``--mpi=`` fits an MPI as it is usually built: with another one, each rank is a job of one rank."""

    def arguments(self, spec: LaunchSpec) -> list[str]:
        # After `sbatch --export=NONE` srun would pass on nothing.
        arguments = [f"--mpi={self.pmi[spec.family]}"] if spec.family in self.pmi else []
        arguments += [f"--ntasks={spec.ranks}", "--export=ALL", "--cpu-bind=none", "--input=0"]
        arguments += ["--kill-on-bad-exit=1"]
        arguments += [f"--nodes={spec.nodes}"] if spec.hosts or spec.allocation else []
        arguments += [f"--nodelist={','.join(dict.fromkeys(spec.hosts))}"] if spec.hosts else []
        return arguments + (["--overcommit"] if spec.lacks_slots and spec.allocation else [])

    def environment(self, spec: LaunchSpec) -> dict[str, str]:
        return dict(spec.variables)  # srun passes on its environment; --export=NAME=value would split it at commas


class Jsrun(Launcher):
    """jsrun of IBM's CSM: one resource set per node, so that each rank sees all GPUs of its node."""

    name, program, title = "jsrun", "jsrun", "jsrun"
    batch_system = "lsf"

    def arguments(self, spec: LaunchSpec) -> list[str]:
        if spec.hosts:
            raise UserError("jsrun takes the hosts of its allocation: leave out --hosts, or use --launcher openmpi")
        arguments = [f"--nrs={spec.nodes}", "--rs_per_host=1", f"--tasks_per_rs={spec.ranks_per_node}"]
        arguments += ["--cpu_per_rs=ALL_CPUS", "--bind=none"]
        arguments += [f"--env={name}={value}" for name, value in spec.variables.items()]
        arguments += ["--gpu_per_rs=ALL_GPUS"] if spec.gpus or spec.device_buffers else []
        return arguments + (["--smpiargs=-gpu"] if spec.device_buffers else [])


LAUNCHERS: dict[str, Launcher] = {launcher.name: launcher for launcher in (OpenMPI(), MPICH(), Srun(), Jsrun())}
"""The launchers by name, in the order of the help."""


def choose(asked: str, stack: Stack, allocation: Allocation | None) -> Launcher:
    """Choose a launcher; ``asked`` is a name, or ``auto``.

    ``auto`` means: jsrun in an LSF allocation that has it (there it is the only way to start ranks on the nodes); else
    the mpirun of the job's own MPI, which can use an allocation; else srun in a Slurm allocation.

    Raises:
        UserError: if there is no launcher of that name.
        MachineError: if there is no launcher, or if the named one belongs to another MPI.
    """
    family = stack.family
    if asked != "auto":
        if asked not in LAUNCHERS:
            raise UserError(f"unknown launcher {asked!r}; the launchers are {join_words(('auto', *LAUNCHERS))}")
        launcher = LAUNCHERS[asked]
        if launcher.mpi_family and family != launcher.mpi_family:
            raise MachineError(
                f"the MPI is {stack.describe()}, and {launcher.title} would start every rank as a separate job of one "
                f"rank; use --mpi {launcher.mpi_family}, or leave --launcher out"
            )
        return launcher
    if jsrun := jsrun_of(allocation):
        return jsrun
    if family in LAUNCHERS and stack.mpiexec:
        return LAUNCHERS[family]
    if allocation and allocation.kind == LAUNCHERS["srun"].batch_system and _on_path("srun"):
        return LAUNCHERS["srun"]
    raise MachineError(
        f"no launcher for {stack.describe()}: its mpirun was not found, and there is no allocation with srun or jsrun; "
        "start volley inside a launcher, e.g. mpirun -n 2 volley"
    )


def jsrun_of(allocation: Allocation | None) -> Launcher | None:
    """Return jsrun if this job has it: then the script of the job runs on a node that is not one of its nodes."""
    jsrun = LAUNCHERS["jsrun"]
    return jsrun if allocation and allocation.kind == jsrun.batch_system and _on_path(jsrun.program) else None


def command(launcher: Launcher, spec: LaunchSpec) -> tuple[str, ...]:
    """Return the command line: the launcher's program, its arguments, the user's arguments, the engine.

    Raises:
        MachineError: if the launcher's program is not on PATH.
    """
    program: str | None = str(spec.mpiexec)
    if launcher.name != spec.family or not spec.mpiexec:  # else it is the mpirun of the job's own MPI
        program = _on_path(launcher.program)
    if program is None:
        raise MachineError(
            f"{launcher.program} is not on PATH; leave --launcher out, or load the environment module that provides it"
        )
    return (str(Path(program).absolute()), *launcher.arguments(spec), *spec.extra, *spec.engine)


def _on_path(name: str) -> str | None:
    from shutil import which  # noqa: PLC0415  start-up: most launches know their mpirun by its path

    return which(name)
