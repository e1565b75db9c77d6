"""A real Slurm on pretend hosts: slurmctld on the first, a slurmd on each.

All of it lives in the process namespace of the hosts (../twohosts/pretend_hosts.py), so no daemon, step or job outlives
the block, however it ended.
"""

import contextlib
import os
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pretend_hosts import Lab

from the_command import program

PROGRAMS = ("slurmctld", "slurmd", "srun", "sbatch", "sinfo", "scontrol")
SBIN = ("/usr/sbin", "/usr/local/sbin", "/sbin")
"""Where daemons live; not on everybody's PATH."""
READY_TIMEOUT_S = 90
POLL_S = 0.2
JOB_TIMEOUT_S = 120

# No munge, cgroups or accounting: they need daemons of their own, or a machine that gives its cgroups away.
SLURM_CONF = """
ClusterName=pretend
SlurmctldHost={first}
SlurmUser=root
SlurmdUser=root
AuthType=auth/none
CredType=cred/none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
SlurmdParameters=config_overrides
SlurmctldTimeout=300
SlurmdTimeout=300
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool.%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
Prolog={folder}/prolog.sh
PrologFlags=Alloc
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.%n.log
NodeName={nodes} CPUs=2 State=UNKNOWN
PartitionName=pretend Nodes=ALL Default=YES MaxTime=10 State=UP
"""
CGROUP_CONF = "CgroupPlugin=cgroup/v1\n"
# The hosts share /tmp, where PMIx would let them meet; each has a /dev/shm of its own.
MPI_CONF = "PMIxCliTmpDirBase=/dev/shm\n"


class NoSlurmError(Exception):
    """Slurm is not here, or does not start; the message says why."""


@dataclass(frozen=True)
class Cluster:
    """Nodes under Slurm, while they exist."""

    hosts: Lab
    folder: Path

    def environment(self) -> dict[str, str]:
        return {"SLURM_CONF": str(self.folder / "slurm.conf")}

    def run(
        self, tokens: Sequence[str], *, timeout_s: float = JOB_TIMEOUT_S, **variables: str
    ) -> subprocess.CompletedProcess[str]:
        """Run a command on the first node, outside of any job."""
        settings = [f"{name}={value}" for name, value in {**self.environment(), **variables}.items()]
        return self.hosts.run(["env", "--chdir", str(self.folder), *settings, *tokens], timeout_s=timeout_s)

    def exit_code(self, job: str) -> int:
        """What a batch job ended with; `sbatch --wait` looks many seconds apart."""
        until = time.monotonic() + JOB_TIMEOUT_S
        while time.monotonic() < until:
            words = self.run(["scontrol", "show", "job", job, "--oneliner"]).stdout.split()
            found = dict(word.partition("=")[::2] for word in words)
            if found["JobState"] not in {"PENDING", "CONFIGURING", "RUNNING", "COMPLETING"}:
                return int(found["ExitCode"].partition(":")[0])
            time.sleep(POLL_S)
        raise TimeoutError(f"job {job} did not end within {JOB_TIMEOUT_S} s")

    def log(self) -> str:
        """The last words of every daemon, for whoever has to find out why something did not work."""
        files = sorted(self.folder.glob("*.log"))
        return "\n".join(f"{file.name}:\n{file.read_text(errors='replace')[-1500:]}" for file in files)


@contextlib.contextmanager
def cluster(hosts: Lab, folder: Path, topology: str = "") -> Iterator[Cluster]:
    """The hosts under Slurm for as long as the block lasts; ``folder`` is theirs.  ``topology``: topology.conf.

    Raises NoSlurmError where the machine has none or forbids it.
    """
    programs = _find_programs()
    made = Cluster(hosts, folder)
    _configure(folder, hosts.names, topology)
    with contextlib.ExitStack() as daemons:
        _start(daemons, made, [programs["slurmctld"], "-D", "-c"], hosts.names[0])
        for name in hosts.names:
            _start(daemons, made, [programs["slurmd"], "-D", "-N", name], name)
        wait_idle(made)
        yield made


def _find_programs() -> dict[str, str]:
    path = os.pathsep.join([os.environ.get("PATH", ""), *SBIN])
    found = {program: shutil.which(program, path=path) for program in PROGRAMS}
    if os.geteuid() != 0:
        raise NoSlurmError("slurmd starts a job under its owner's name, which takes root")
    missing = [program for program, place in found.items() if place is None]
    if missing:
        raise NoSlurmError(f"no {', '.join(missing)} here (Debian: apt install slurm-wlm)")
    return {program: place for program, place in found.items() if place}


def _configure(folder: Path, names: Sequence[str], topology: str) -> None:
    (folder / "state").mkdir()
    for name in names:
        (folder / f"spool.{name}").mkdir()
    text = SLURM_CONF.format(first=names[0], folder=folder, nodes=",".join(names))
    files = {"slurm.conf": text, "cgroup.conf": CGROUP_CONF, "mpi.conf": MPI_CONF}
    if topology:
        files |= {"slurm.conf": f"{text}TopologyPlugin=topology/tree\n", "topology.conf": topology}
    for name, content in files.items():
        (folder / name).write_text(content.lstrip())
    program(folder / "prolog.sh")


def _start(daemons: contextlib.ExitStack, where: Cluster, tokens: Sequence[str], host: str) -> None:
    """Start a daemon and end it with the block; its output goes to its log, and what it says before to a file."""
    variables = [f"{name}={value}" for name, value in where.environment().items()]
    output = daemons.enter_context((where.folder / f"{Path(tokens[0]).name}.{host}.out.log").open("w"))
    daemon = subprocess.Popen(
        where.hosts.command(host, ["env", *variables, *tokens]),
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        start_new_session=True,
    )
    daemons.callback(daemon.wait)
    daemons.callback(daemon.kill)  # nsenter's process; the daemon itself ends with the hosts at the latest


def wait_idle(made: Cluster) -> None:
    """Until all nodes take jobs, as Slurm says itself."""
    until, seen = time.monotonic() + READY_TIMEOUT_S, "nothing"
    while time.monotonic() < until:
        done = made.run(["sinfo", "--noheader", "--Node", "--format=%T"], timeout_s=READY_TIMEOUT_S)
        seen = (done.stdout + done.stderr).strip()
        if done.stdout.split() == ["idle"] * len(made.hosts.names):
            return
        time.sleep(POLL_S)
    raise NoSlurmError(f"the nodes were not idle after {READY_TIMEOUT_S} s: {seen}\n{made.log()}")
