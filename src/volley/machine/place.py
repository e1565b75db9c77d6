"""Where volley stands: a bare host, a container or WSL2, a batch system and what it granted, who else is there.

One account, made from facts, by which every remedy and every advice is chosen.  Nothing here looks at the machine.  The
methods return commands, or sentences where no command of this user ends the problem:

* what systemd, the kernel, its modules or the firmware must do is for the host's administrator: ``on the host: …``;
* a batch system is asked for more, and never circumvented;
* a variable is unset only if it is set;
* what disturbs other users of the machine says so first.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from shlex import quote
from typing import TYPE_CHECKING, Literal, NamedTuple

from volley.machine.packages import Distribution, distribution
from volley.text import count, join_words
from volley.units import format_cpulist

if TYPE_CHECKING:
    from volley.machine.facts import Facts

Need = Literal[
    "gpus", "driver", "uvm", "gdrdrv", "ipc", "shm", "tmp", "memory", "pids", "ptrace",
    "cpus", "cpuset", "rdma", "network",
]  # fmt: skip


class _BatchSystem(NamedTuple):
    name: str
    job: str
    """The variable that each of its jobs has."""
    prefixes: tuple[str, ...]
    """How its variables begin that say what a job is."""
    new: str
    """A new job, with a place for the words for more of something."""
    more: dict[str, str]
    starts: str = "the mpiexec of the site: mpiexec -n 2"
    """What starts ranks inside a job, whatever the MPI."""
    reaches: str = ""
    """What must reach the other hosts for that."""


_BATCH = {
    "slurm": _BatchSystem("Slurm", "SLURM_JOB_ID", ("SLURM_",),
                          "sbatch --nodes=1 --ntasks=2 {}--wrap 'volley doctor'", {
        "gpus": "--gpus-per-node=2 ", "cpus": "", "memory": "--mem=8G ", "time": "--time=1:00:00 ",
    }, "srun -n 2"),
    "pbs": _BatchSystem("PBS", "PBS_JOBID", ("PBS_",), "qsub -I -l {}", {
        "gpus": "select=1:ncpus=2:ngpus=2", "cpus": "select=1:ncpus=2", "memory": "select=1:ncpus=2:mem=8gb",
        "time": "walltime=1:00:00",
    }, reaches="pbsdsh hostname"),
    "lsf": _BatchSystem("LSF", "LSB_JOBID", ("LSB_",), "bsub -n 2 {}-Is volley doctor", {
        "gpus": "-gpu num=2 ", "cpus": "", "memory": "-M 8GB ", "time": "-W 1:00 ",
    }, reaches="blaunch hostname"),
    "age": _BatchSystem("Grid Engine", "PE_HOSTFILE", ("PE_", "JOB_ID", "NSLOTS"), "qrsh {} volley doctor", {
        "gpus": "-l gpu=2", "cpus": "-pe smp 2", "memory": "-l h_vmem=8G", "time": "-l h_rt=1:00:00",
    }, reaches="qrsh -inherit HOST hostname"),
    "flux": _BatchSystem("Flux", "FLUX_JOB_ID", ("FLUX_",), "flux alloc -n 2 {}volley doctor", {
        "gpus": "-g 1 ", "cpus": "", "memory": "", "time": "-t 60m ",
    }, "flux run -n 2"),
}  # fmt: skip
"""By kind (sbatch(1), qsub(1B), bsub(1), qrsh(1), flux-alloc(1); the names of resources of Grid Engine are the site's).
A command of salloc runs on the host where it is typed, which is not that of the job."""
_WANTED = {"gpus": "GPUs", "cpus": "two CPUs", "memory": "more memory", "time": "more time"}
OF_JOBS = tuple(prefix for system in _BATCH.values() for prefix in system.prefixes)
"""How the variables of batch systems begin that say what a job is; those that a failure names are settings."""
_GRANTS = ("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL", "SLURM_GPUS", "SLURM_JOB_GPUS")
"""Variables in which a batch system says which GPUs it granted."""

LIMITS = {"n": "nofile", "u": "nproc", "s": "stack", "v": "as", "f": "fsize", "l": "memlock"}
"""Names of limits (limits.conf(5)) by their letters in bash's ``ulimit``."""
_OCI: dict[Need, str] = {
    "gpus": "--gpus all",
    "driver": "--gpus all -e NVIDIA_DRIVER_CAPABILITIES=compute,utility",
    "uvm": "--gpus all",
    "shm": "--shm-size=8g (or --ipc=host)",
    "tmp": "--tmpfs /tmp",
    "memory": "--memory=8g",
    "ptrace": "--cap-add=SYS_PTRACE",
    "pids": "--pids-limit=-1",
    "cpus": "--cpus=2",
    "cpuset": "--cpuset-cpus=0,1",
    "gdrdrv": "--device /dev/gdrdrv",
    "ipc": "--gpus all --ipc=host --pid=host --cap-add=SYS_PTRACE",
    "rdma": "--device /dev/infiniband --ulimit memlock=-1 --network host",
    "network": "--network host",
}
"""Options of ``docker run``; Podman differs in the GPUs (``_CDI``)."""
_CDI = "--device nvidia.com/gpu=all"
_POD: dict[Need, str] = {
    **dict.fromkeys(("gpus", "driver", "uvm"), "resources.limits: {nvidia.com/gpu: 2}"),
    "shm": "an emptyDir with medium: Memory, mounted at /dev/shm",
    "tmp": "an emptyDir, mounted at /tmp",
    "memory": "resources: {limits: {memory: 8Gi}}",
    "ptrace": "securityContext.capabilities: {add: [SYS_PTRACE]}",
    **dict.fromkeys(("cpus", "cpuset"), "resources: {requests: {cpu: 2}, limits: {cpu: 2}}"),
    "gdrdrv": "a hostPath volume for /dev/gdrdrv, with securityContext.privileged: true",
    "ipc": "one container with all ranks and resources.limits: {nvidia.com/gpu: 2}",
    "rdma": "a resource of the cluster's RDMA device plugin, and securityContext.capabilities: {add: [IPC_LOCK]}",
    "network": "hostNetwork: true",
}
"""In the specification of a pod (Kubernetes API reference)."""
_OF_HOST: dict[Need, str] = {
    "gpus": "the driver's device nodes",
    "driver": "the driver's library",
    "uvm": "nvidia-modprobe -u -c=0",
    "shm": "mount -o remount,rw,size=8G /dev/shm",
    "tmp": "the containers a folder /tmp that they can write to",
    "memory": "more memory for the containers",
    "ptrace": "sysctl kernel.yama.ptrace_scope=0",
    "pids": "a higher limit of processes for the containers (pids.max; podPidsLimit of the kubelet)",
    "cpus": "a higher CPU quota for the containers",
    "cpuset": "more CPUs for the containers",
    "gdrdrv": "modprobe gdrdrv",
    "ipc": "one container for all ranks",
    "rdma": "the containers /dev/infiniband",
    "network": "the containers its network",
}
"""What remains for the host where a container's own options do not reach."""


_OF_LINUX = re.compile(r"(echo .* \| )?\{sudo\}(sysctl|mount|ip|iptables|tee|chmod|dmesg)\b")
"""Commands that change the Linux of WSL2, whose root is its user."""
_TOO_NEW_FOR_DEBIAN = 13
"""Debian 12 has driver 535 and Debian 13 has 550, which know CUDA 12."""


@dataclass(frozen=True)
class Place:
    distribution: Distribution = field(default_factory=Distribution)
    container: str = ""
    """``docker``, ``podman``, ``apptainer``, ``kubernetes``, … as its marks say; empty: none."""
    wsl: bool = False
    """The Linux of Windows (WSL2): Windows has the driver, the modules and the firmware."""
    virtual: bool = False
    architecture: str = "x86_64"
    batch: str = ""
    """The kind of batch system that granted this host to a job; empty: none, or only its variables are left over."""
    prefixes: tuple[str, ...] = ()
    """How the variables of a job begin, also of one on other hosts that left them here."""
    environment: Mapping[str, str] = field(default_factory=dict)
    processes: Mapping[int, int] = field(default_factory=dict)
    """By the number of each GPU with any: how many processes use it."""
    gpu_ids: tuple[int, ...] = ()
    """PCI device numbers of the GPUs."""
    free_cpus: str = ""
    """The CPUs that the control group grants, where this process is bound to fewer; empty: it is not."""
    cuda: int = 0
    """The major version of CUDA that the engine was built with, which the driver must know; 0: none, or unknown."""

    # ------------------------------------------------------------------------------------------ who must do it

    @property
    def root(self) -> bool:
        return self.distribution.root

    @property
    def enclosed(self) -> bool:
        """This process cannot change the kernel, its modules or services."""
        return bool(self.container) or self.wsl

    def admin(self, command: str, disturbs: str = "") -> str:
        """Return a command that changes the host for all, in the words of who may type it.

        Args:
            command: with ``{sudo}`` wherever root is needed.
            disturbs: whom it disturbs, such as ``all processes of GPU 0``.
        """
        mine = not self.enclosed and self.root
        text = command.replace("{sudo}", "" if mine else "sudo ")
        if disturbs:
            users = join_words(f"GPU {gpu} has {count(number, 'process')}" for gpu, number in self.processes.items())
            now = f" (now {users})" if users else ""
            text = f"this disturbs {disturbs}{now}, so do it when they have ended: {text}"
        if self.wsl and not _OF_LINUX.match(command):
            return f"on the host, which is Windows: {text}"
        if self.container:
            return f"on the host: {text}"
        return f"an administrator of this node: {text}" if self.batch and not self.root else text

    def reboot(self, before: str = "") -> str:
        """Return what ends in a restart of the machine, after a command (with ``{sudo}``)."""
        if self.wsl:
            return "on the host: update the driver of Windows, then wsl --shutdown"
        return self.admin(f"{before}; then reboot" if before else "reboot", "everybody on this machine")

    def hardware(self, text: str) -> str:
        """Return what somebody does to the hardware, which a virtual machine does not reach."""
        return self.admin(f"take another instance, or where this one runs: {text}" if self.virtual else text)

    def one_version(self) -> str:
        """Return how the driver and its library become of one version again, after an update."""
        if not self.container:
            return self.reboot()
        return f"start this container again: it has the library of another driver; if not only it: {self.reboot()}"

    # ------------------------------------------------------------------------------------------- what is granted

    @property
    def batch_name(self) -> str:
        return _BATCH[self.batch].name if self.batch else ""

    def more(self, need: Literal["gpus", "cpus", "cpuset", "memory", "time"], otherwise: str) -> str:
        """Return how this process gets more than it was given; ``otherwise``: on a bare host without a job."""
        if self.batch:
            system, what = _BATCH[self.batch], "cpus" if need == "cpuset" else need
            return f"ask {system.name} for {_WANTED[what]} in a new job, e.g. {system.new.format(system.more[what])}"
        if need == "cpuset" and self.free_cpus:
            return f"only this shell or command is bound; to free the shell: taskset -cp {self.free_cpus} $$"
        return self.start_with(need) if self.container and need != "time" else otherwise

    def launch_here(self) -> str:
        """Return how ranks start inside a job, when the launcher of the MPI cannot start them."""
        if not self.batch:
            return "start volley in a job of the batch system: salloc -n 2, qsub -I, bsub -n 2 -Is, flux alloc -n 2"
        system = _BATCH[self.batch]
        said = f"stay in the job and start the ranks with its own launcher: {system.starts} volley pingpong"
        return f"{said}; {system.reaches} must work, too" if system.reaches else said

    def unset(self, names: Iterable[str]) -> str:
        """Return the command that unsets those of the variables that are set; empty if none may be.

        What a batch system or a container's runtime said of its GPUs stays: without it they are not more.
        """
        granted = self.batch or self.container
        known = (name for name in names if name in self.environment and name.isidentifier())  # facts may hold any text
        ours = [name for name in known if not (granted and name.startswith(_GRANTS))]
        return f"unset {' '.join(ours)}" if ours else ""

    # ---------------------------------------------------------------------------------------------- containers

    def start_with(self, need: Need) -> str:
        """Return how this container is started with what it lacks, in the words of what started it."""
        if self.container == "docker":
            return f"start the container again with: docker run {_OCI[need]}"
        if self.container == "podman":
            return f"start the container again with: podman run {_OCI[need].replace('--gpus all', _CDI)}"
        if self.container in ("kubernetes", "containerd", "cri-o") and need in _POD:
            return f"in the specification of the pod: {_POD[need]}"
        if self.container in ("apptainer", "singularity") and need in ("gpus", "driver", "uvm", "gdrdrv", "ipc"):
            how = {"gdrdrv": " --bind /dev/gdrdrv", "ipc": " --nv, with all ranks in one container"}.get(need, " --nv")
            return f"start the container again with: apptainer exec{how}"
        verb = "" if _OF_HOST[need].partition(" ")[0] in ("nvidia-modprobe", "mount", "sysctl", "modprobe") else "give "
        return f"on the host: {'sudo ' if not verb else ''}{verb}{_OF_HOST[need]}"

    def or_in_container(self, need: Need, otherwise: str) -> str:
        """Return the option of a container, or ``otherwise`` (with ``{sudo}``) where there is none."""
        return self.start_with(need) if self.container else self.admin(otherwise)

    # ---------------------------------------------------------------------------------------- packages, kernel

    @property
    def old_gpus(self) -> bool:
        """One of the GPUs is older than Turing, whose device numbers begin at 0x1e00: NVIDIA's open kernel modules
        do not drive it (README of NVIDIA/open-gpu-kernel-modules)."""
        return any(0 < each < 0x1E00 for each in self.gpu_ids)

    def drives(self, driver: str) -> bool:
        """Return whether the kernel modules of a driver, in the words of its version, are of the kind that the GPUs
        need: older ones the proprietary, Blackwell and later ones (from 0x2900 on) the open."""
        return not (self.old_gpus if "Open" in driver else max(self.gpu_ids, default=0) >= 0x2900)

    def install_driver(self) -> str:
        """Return how the driver is installed, with the headers of the running kernel."""
        if self.wsl:
            return "on the host: install NVIDIA's driver of Windows, and none in WSL2 (CUDA on WSL User Guide)"
        if self.container:
            return f"{self.start_with('driver')}; the driver itself is the host's"
        known = self.distribution
        if known.family == "other":
            guide = "https://docs.nvidia.com/datacenter/tesla/driver-installation-guide/"
            return self.admin(f"install the NVIDIA driver: {guide}")
        of_nvidia = known.family == "rhel" and known.id != "amzn"  # whose streams of packages are chosen before
        if of_nvidia or (known.id == "debian" and self.cuda >= _TOO_NEW_FOR_DEBIAN):
            branch = f"580{'-proprietary' if self.old_gpus else ''}"
            return self.reboot(
                f"volley setup --root-script --driver {branch} > root.sh; less root.sh; {{sudo}}bash root.sh"
            )
        packages = f"{known.package('kernel headers')} {known.package('old driver' if self.old_gpus else 'driver')}"
        return self.reboot(f"{known.sources()}{{sudo}}{known.installer} {packages}")

    def boot_without_translation(self) -> str:
        """Return how the kernel is started so that it does not translate the GPUs' addresses.

        Linux, admin-guide/kernel-parameters: ``iommu.passthrough`` of arm64, ``iommu=pt`` of x86.
        """
        parameters = "iommu.passthrough=1" if self.architecture == "aarch64" else "iommu=pt"
        return self.reboot(self.distribution.kernel_parameters(parameters))

    def raise_limit(self, letter: str, to: str, *, hard: bool = False) -> str:
        """Return how a limit, by its letter in ``ulimit``, is raised: in this shell, or a new one if it is a hard
        limit; for all logins, in a job, a container (limits.conf(5), systemd.exec(5), docker-run(1))."""
        name = LIMITS[letter]
        shell = f"this shell: ulimit -{letter} {to}, if the hard limit (ulimit -H{letter}) allows it"
        shell = f"a new login, if ulimit -H{letter} shows more there" if hard else shell
        unit = f"Limit{name.upper()}={'infinity' if to == 'unlimited' else to}"
        if self.container in ("docker", "podman"):
            option = f"--ulimit {name}={'-1' if to == 'unlimited' else to}"
            return f"{shell}; else start the container again with: {self.container} run {option}"
        if self.container:
            return f"{shell}; else on the host: {unit} for what starts the containers"
        if self.batch:
            daemon = {"slurm": "slurmd"}.get(self.batch, f"the daemon of {self.batch_name} that starts jobs")
            return f"{shell}; else an administrator of this node: {unit} for {daemon}"
        who = "root" if self.root else "*"  # which is nobody's who is root
        logins = f"echo '{who} - {name} {to}' | {{sudo}}tee /etc/security/limits.d/{name}.conf"
        return f"{shell}; all logins{' of root' * self.root}: {self.admin(logins)}"

    def add_host(self, name: str, address: str = "127.0.1.1") -> str:
        """Return how a host's name gets an address."""
        if self.container in ("docker", "podman"):
            return f"start the container again with: {self.container} run --add-host={quote(name)}:{address}"
        if self.container in ("kubernetes", "containerd", "cri-o"):
            return f"in the specification of the pod: hostAliases with {quote(name)} and {address}"
        return self.admin(f"echo {quote(f'{address} {name}')} | {{sudo}}tee -a /etc/hosts")


def place_of(facts: Facts) -> Place:
    """Return where facts were captured."""
    known, around = facts.system.value, facts.surroundings.value
    release = {"ID": known.os_id, "ID_LIKE": " ".join(known.os_like)} if known else {}
    wsl = bool(known and "microsoft" in known.kernel.lower())
    by_variable = next((kind for kind, system in _BATCH.items() if system.job in facts.environment), "")
    ids = (gpu.device_id for gpu in facts.gpus_on_bus)
    built = re.match(r"\d{1,4}", (facts.stack.value.cuda_built if facts.stack.value else None) or "")
    kind = around.batch_system if around and around.batch_system in _BATCH else by_variable
    left_over = around is not None and bool(around.batch_system) and not around.in_job
    return Place(
        distribution=distribution(release, root=bool(known and known.root)),
        container=(known.container or "") if known and not (wsl and known.container == "wsl") else "",
        wsl=wsl,
        virtual=bool(known and known.virtual),
        architecture=known.architecture if known else "",
        batch="" if left_over else kind,
        prefixes=_BATCH[kind].prefixes if kind else (),
        environment=facts.environment,
        processes={gpu.index: gpu.processes for gpu in facts.gpus if gpu.processes},
        free_cpus=format_cpulist(around.free_cpus) if around else "",
        cuda=int(built[0]) if built else 0,
        gpu_ids=tuple(int(each, 16) for each in ids if re.fullmatch("0x[0-9a-fA-F]{2,}", each)),
    )


def without_needless(beginnings: Sequence[str]) -> str:
    """Return the command that unsets the variables whose names begin so: a shell looks which are set."""
    needed = [each for each in beginnings if not each.startswith(tuple(other for other in beginnings if other != each))]
    but = " | grep -v _CONF" if {"SLURM_", "PBS_"} & {*needed} else ""  # where the site's configuration is
    return f"unset $(env | grep -oE '^({'|'.join(needed)})[A-Za-z0-9_]*'{but})"
