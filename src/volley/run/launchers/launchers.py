"""The launchers: one small class each, which says how a job is started as a list of words (never a shell string).

A new launcher costs a class, its line in ``LAUNCHERS`` and a test of its exact command line.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from volley.errors import UserError
from volley.run.launchers.job import Job


class Launcher(ABC):
    """Starts jobs; a launcher is its name, its program and its words."""

    name: str
    program: str
    """What to look for on PATH; the mpirun that belongs to the engine's MPI is known by its path."""
    at_home: str | None = None
    """The only batch system that has it; ``None`` where it works in any."""

    @abstractmethod
    def words(self, job: Job) -> list[str]:
        """Return the launcher's own arguments, without the program and without the engine."""

    def environment(self, job: Job) -> dict[str, str]:  # noqa: ARG002
        """Return the variables that the launcher needs beyond those it inherits."""
        return {}


class OpenMPI(Launcher):
    """Open MPI's mpirun, 4.1 and 5 alike.  The engine binds its ranks, so mpirun does not."""

    name = "openmpi"
    program = "mpirun"

    def words(self, job: Job) -> list[str]:
        words = ["-n", str(job.ranks), "--bind-to", "none"]
        hosts = job.hosts or self.to_be_told(job)
        if hosts:
            slots = f":{job.ranks_per_node}" if job.ranks_per_node > 1 else ""
            words += ["--host", ",".join(host + slots for host in dict.fromkeys(hosts))]
        mapping = ("node" if job.nodes > 1 else "") + (":OVERSUBSCRIBE" if job.crowded else "")
        words += ["--map-by", mapping] if mapping else []
        for name, value in {**self.one_host(job), **job.mca}.items():
            words += ["--mca", name, value]
        for name, value in job.variables.items():
            words += ["-x", f"{name}={value}"]
        return words

    def to_be_told(self, job: Job) -> tuple[str, ...]:
        """Hosts of an allocation that mpirun may not find: it asks Slurm in any build, other batch systems only where
        it was built with their libraries, and would start all ranks here."""
        return job.allocated if job.nodes > 1 and job.allocation and job.allocation.kind != "slurm" else ()

    def one_host(self, job: Job) -> dict[str, str]:
        """Leave out OFI, which probes fabrics for a second, where all ranks share a host; the user's choice wins."""
        if job.nodes > 1:
            return {}
        chosen = {*job.extra, *(name.removeprefix("OMPI_MCA_") for name in job.environment)}
        return {name: "^ofi" for name in ("btl", "mtl") if name not in chosen}

    def environment(self, job: Job) -> dict[str, str]:
        allowed = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"} if job.root else {}
        return allowed | ({"HOME": job.home} if job.home else {})  # without it, Open MPI 5 does not start


class MPICH(Launcher):
    """MPICH's hydra, which binds nothing unless asked."""

    name = "mpich"
    program = "mpiexec"

    def words(self, job: Job) -> list[str]:
        words = ["-n", str(job.ranks)]
        words += ["-ppn", str(job.ranks_per_node)] if job.nodes > 1 else []
        words += ["-hosts", ",".join(dict.fromkeys(job.hosts))] if job.hosts else []
        for name, value in job.variables.items():
            words += ["-genv", name, value]
        return words


_PMI = {"openmpi": ["--mpi=pmix"], "mpich": ["--mpi=pmi2"], "other": []}
"""How srun must speak to the ranks of an MPI: with the wrong one they are as many jobs of one rank each."""


class Srun(Launcher):
    """Slurm's srun.  No GPUs per task: that would hide the peer's GPU from each rank."""

    name = "srun"
    program = "srun"
    at_home = "slurm"

    def words(self, job: Job) -> list[str]:
        words = [*_PMI[job.family], f"--ntasks={job.ranks}", "--cpu-bind=none", "--input=0", "--kill-on-bad-exit=1"]
        words += [f"--nodes={job.nodes}"] if job.hosts or job.allocation else []
        words += [f"--nodelist={','.join(dict.fromkeys(job.hosts))}"] if job.hosts else []
        return words + (["--overcommit"] if job.crowded and job.allocation else [])

    def environment(self, job: Job) -> dict[str, str]:
        return dict(job.variables)  # srun hands its own environment on; --export would split values at commas


class Jsrun(Launcher):
    """jsrun of IBM's CSM: one resource set a node, so that each rank sees all GPUs of its node."""

    name = "jsrun"
    program = "jsrun"
    at_home = "lsf"

    def words(self, job: Job) -> list[str]:
        if job.hosts:
            raise UserError("jsrun takes the hosts of its allocation: leave out --hosts, or use --launcher openmpi")
        words = [f"--nrs={job.nodes}", "--rs_per_host=1", f"--tasks_per_rs={job.ranks_per_node}"]
        words += ["--cpu_per_rs=ALL_CPUS", "--bind=none"]
        words += [f"--env={name}={value}" for name, value in job.variables.items()]
        words += ["--gpu_per_rs=ALL_GPUS"] if job.gpus or job.device_buffers else []
        return words + (["--smpiargs=-gpu"] if job.device_buffers else [])


LAUNCHERS: dict[str, Launcher] = {launcher.name: launcher for launcher in (OpenMPI(), MPICH(), Srun(), Jsrun())}
