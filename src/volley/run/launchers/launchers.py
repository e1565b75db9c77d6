"""The launchers and their arguments, as lists (never a shell string).

A new launcher needs a class of a few lines, an entry in ``LAUNCHERS`` and a test of its exact command line.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from volley.errors import UserError

if TYPE_CHECKING:  # start-up: every command line needs the names of the launchers
    from volley.run.launchers.spec import LaunchSpec


class Launcher(ABC):
    """A program that starts ranks."""

    name: str
    program: str
    """The name of the program on PATH; the path of the engine's own mpirun is known."""
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

    def arguments(self, spec: LaunchSpec) -> list[str]:
        arguments = ["-n", str(spec.ranks), "--bind-to", "none"]
        # Every mpirun can query Slurm, but other batch systems only if it was built with their libraries.  Without
        # --host such an mpirun would start all ranks on this node.
        unknown = spec.nodes > 1 and spec.allocation and spec.allocation.kind != "slurm"
        hosts = spec.hosts or (spec.allocated if unknown else ())
        if hosts:
            slots = f":{spec.ranks_per_node}" if spec.ranks_per_node > 1 else ""
            arguments += ["--host", ",".join(host + slots for host in dict.fromkeys(hosts))]
        mapping = ("node" if spec.nodes > 1 else "") + (":OVERSUBSCRIBE" if spec.oversubscribed else "")
        arguments += ["--map-by", mapping] if mapping else []
        for name, value in {**_without_ofi(spec), **spec.mca}.items():
            arguments += ["--mca", name, value]
        for name, value in spec.variables.items():
            arguments += ["-x", f"{name}={value}"]
        return arguments

    def environment(self, spec: LaunchSpec) -> dict[str, str]:
        allowed = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"} if spec.root else {}
        return allowed | ({"HOME": spec.home} if spec.home else {})  # without it, Open MPI 5 does not start


def _without_ofi(spec: LaunchSpec) -> dict[str, str]:
    """Exclude OFI on a single host, because it probes fabrics for a second; a choice of the user has priority."""
    if spec.nodes > 1:
        return {}
    chosen = {*spec.extra, *(name.removeprefix("OMPI_MCA_") for name in spec.environment)}
    return {name: "^ofi" for name in ("btl", "mtl") if name not in chosen}


class MPICH(Launcher):
    """MPICH's hydra, which does not bind ranks by default."""

    name, program, title = "mpich", "mpiexec", "MPICH's mpiexec"
    mpi_family = "mpich"

    def arguments(self, spec: LaunchSpec) -> list[str]:
        arguments = ["-n", str(spec.ranks)]
        arguments += ["-ppn", str(spec.ranks_per_node)] if spec.nodes > 1 else []
        arguments += ["-hosts", ",".join(dict.fromkeys(spec.hosts))] if spec.hosts else []
        for name, value in spec.variables.items():
            arguments += ["-genv", name, value]
        return arguments


class Srun(Launcher):
    """Slurm's srun.  GPUs per task are not requested: each rank would not see the GPU of the other rank."""

    name, program, title = "srun", "srun", "srun"
    batch_system = "slurm"

    def arguments(self, spec: LaunchSpec) -> list[str]:
        # The PMI version must fit the MPI: with the wrong one, each rank is a job of one rank.
        pmi = {"openmpi": ["--mpi=pmix"], "mpich": ["--mpi=pmi2"]}.get(spec.family, [])
        arguments = [*pmi, f"--ntasks={spec.ranks}", "--cpu-bind=none", "--input=0", "--kill-on-bad-exit=1"]
        arguments += [f"--nodes={spec.nodes}"] if spec.hosts or spec.allocation else []
        arguments += [f"--nodelist={','.join(dict.fromkeys(spec.hosts))}"] if spec.hosts else []
        return arguments + (["--overcommit"] if spec.oversubscribed and spec.allocation else [])

    def environment(self, spec: LaunchSpec) -> dict[str, str]:
        return dict(spec.variables)  # srun passes on its environment; --export would split values at commas


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
NAMES = ("auto", *LAUNCHERS)
"""The values of ``--launcher``."""
