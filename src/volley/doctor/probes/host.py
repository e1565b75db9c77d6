"""Distribution, kernel, compilers and driver, and access between the memories of two processes of one user."""

from __future__ import annotations

import ctypes
import errno
import multiprocessing
import os
import re
import resource
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path

from volley.launch.allocation import Allocation, allocation
from volley.launch.inside_launcher import rank_info
from volley.launch.this_host import is_this_host
from volley.machine.cuda_driver import load
from volley.machine.facts import DriverFacts, LimitsFacts, SurroundingsFacts, SystemFacts, Xid
from volley.machine.packages import os_release
from volley.machine.settings import control_groups
from volley.machine.signals import temporary_folder
from volley.machine.sysfs import ROOT, names, number, pci_address, word
from volley.text import clean

_CONTAINER_MARKS = {
    "/var/run/secrets/kubernetes.io": "kubernetes",
    "/.dockerenv": "docker",
    "/run/.containerenv": "podman",
    "/.singularity.d": "apptainer",
}
_PR_SET_PTRACER, _PR_SET_PTRACER_ANY = 0x59616D61, ctypes.c_ulong(-1)
"""prctl(2), Yama: any process of this user may read this one's memory.  Open MPI and UCX call it in each rank."""
_XID = re.compile(r"(NVRM: Xid \(PCI:([0-9a-fA-F]+:[0-9a-fA-F]+:[0-9a-fA-F]+)\S*\): (\d+).{0,200})")
_UNSIGNED = re.compile(r"Loading of .*module.* is rejected|unsigned module loading is restricted|Key was rejected")
"""Words of Linux (kernel/module/signing.c, security/lockdown) and modprobe."""
_MODULES = ("nvidia", "nvidia_uvm", "nvidia_peermem", "nv_peer_mem")
_STEP_S = 12.0
"""An srun that is to start at once, or to give up after ten seconds, has answered by then."""
_LONGEST_TEXT = 400
_SHM = Path("/dev/shm")  # noqa: S108  the folder itself is tried
_SHM_BYTES = 1 << 20
_CAP_IPC_LOCK, _CAP_SYS_PTRACE = 14, 19  # linux/capability.h
_PATTERN = b"volley" * 16
_ANSWER_S = 5.0
_CPUS = 1 << 13
"""Linux knows no more (NR_CPUS)."""
LEAST = (
    *(("n", resource.RLIMIT_NOFILE, 1024, 1), ("u", resource.RLIMIT_NPROC, 4096, 1)),
    *(("s", resource.RLIMIT_STACK, 8 << 20, 1024), ("v", resource.RLIMIT_AS, -1, 1024)),
    *(("f", resource.RLIMIT_FSIZE, -1, 1024), ("l", resource.RLIMIT_MEMLOCK, -1, 1024)),
)
"""Limits that ranks need at most, with the letter and the unit of each in bash's ``ulimit``; -1: unlimited."""
_MOST_PROCESSES = 32
"""Processes and threads that a job of two ranks has at most; with Open MPI 5, 10 were seen."""


def system() -> SystemFacts:
    """Read os-release and uname; look for signs of containers and hypervisors."""
    release, name = os_release(), os.uname()
    container = next((kind for mark, kind in _CONTAINER_MARKS.items() if Path(mark).exists()), None)
    container = container or ("containerd" if "/containerd/" in word(Path("/proc/self/mountinfo")) else None)
    return SystemFacts(
        os_id=release.get("ID", ""),
        os_like=release.get("ID_LIKE", "").split(),
        os_name=release.get("PRETTY_NAME", ""),
        kernel=name.release,
        architecture=name.machine,
        root=os.geteuid() == 0,
        container=container or os.environ.get("container") or None,  # noqa: SIM112  systemd and podman write it so
        virtual=" hypervisor" in word(Path("/proc/cpuinfo")),
    )


def surroundings() -> SurroundingsFacts:
    """Look at the folders, the host name and the batch job that a process here would be given."""
    folder = Path(next(filter(None, map(os.environ.get, ("TMPDIR", "TEMP", "TMP"))), "/tmp"))  # noqa: S108
    host, host_error, granted = os.uname().nodename, None, allocation(os.environ)
    try:
        socket.getaddrinfo(host, None)
    except OSError as error:
        host_error = error.strerror or str(error)
    loopback_error = None
    try:
        with socket.create_server(("127.0.0.1", 0)) as server:
            socket.create_connection(server.getsockname(), _ANSWER_S).close()
    except OSError as error:
        loopback_error = error.strerror or str(error)
    hosts = list(granted.hosts) if granted else []
    folder_error, folder_run_error = _try_folder(folder)
    home_error = _try_folder(Path(os.path.expanduser("~")))[0] or ""  # noqa: PTH111  an unknown user has none
    return SurroundingsFacts(
        host=host,
        host_error=host_error,
        loopback_error=loopback_error,
        devices=[*(name for _, name in socket.if_nameindex()), *names("class/infiniband")],
        cpus=len(os.sched_getaffinity(0)),
        free_cpus=_free_cpus(),
        folder=str(folder),
        folder_error=folder_error,
        folder_run_error=folder_run_error,
        home_error=home_error if home_error in map(os.strerror, (errno.ENOSPC, errno.EDQUOT)) else "",
        other_folder=next((each for each in other_folders() if not any(_try_folder(Path(each)))), ""),
        batch_system=granted.kind if granted else "",
        job_hosts=hosts,
        in_job=not hosts or any(map(is_this_host, hosts)),
        step_error=_step_error(granted) if granted and not rank_info(os.environ) else "",
    )


def _free_cpus() -> list[int]:
    """Ask for all CPUs, of which Linux gives those of the control group (sched_setaffinity(2)); return them if more."""
    own = free = os.sched_getaffinity(0)
    with suppress(OSError):
        os.sched_setaffinity(0, range(_CPUS))
        free = os.sched_getaffinity(0)
        os.sched_setaffinity(0, own)
    return sorted(free) if len(free) > len(own) else []


def _step_error(granted: Allocation) -> str:
    """Let srun start one process in a job of Slurm; return what it said if that failed, or why others have no hosts."""
    said = granted.unread
    for overlap in (["--overlap"], []) if granted.kind == "slurm" and shutil.which("srun") else ():
        _, said = output_of(["srun", *overlap, "--nodes=1", "--ntasks=1", "--immediate=10", "true"], _STEP_S)
        if "--overlap" not in (said or ""):  # Slurm before 20.11
            break
    return said or ""


def other_folders() -> list[str]:
    """Return folders for temporary files that the environment does not name."""
    chosen = os.environ.get("TMPDIR", "/tmp")  # noqa: S108
    folders = ("/tmp", "/var/tmp", "/dev/shm", os.path.expanduser("~"))  # noqa: S108, PTH111
    return [each for each in folders if each != chosen.rstrip("/") and os.access(each, os.W_OK)]


def _try_folder(folder: Path) -> tuple[str | None, str | None]:
    """Return what happened when a megabyte was written in a folder, and when a program in it was started."""
    try:
        with temporary_folder(folder) as name:
            script = Path(name, "script")
            script.write_bytes(b"#!/bin/sh\n#" + bytes(_SHM_BYTES))
            script.chmod(0o700)
            return None, output_of([str(script)])[1]
    except OSError as error:
        return error.strerror or str(error), None


def output_of(command: list[str], limit_s: float = 20.0) -> tuple[str, str | None]:
    """Run a command; return what it printed, and why it failed if it did."""
    try:
        done = subprocess.run(command, capture_output=True, timeout=limit_s, check=False)
    except subprocess.TimeoutExpired as error:
        return "", f"no answer within {limit_s:g} s: {clean(error.stderr or b'')[-_LONGEST_TEXT:]}"
    except OSError as error:
        return "", str(error)
    failure = clean(done.stderr)[-_LONGEST_TEXT:] or f"{command[0]} ended with status {done.returncode}"
    return clean(done.stdout), failure if done.returncode else None


def driver() -> DriverFacts:
    """Read the version of the NVIDIA driver from the kernel, open its device nodes, load its library."""
    version = word(Path("/proc/driver/nvidia/version"))
    loaded = {line.split()[0] for line in word(Path("/proc/modules")).splitlines() if line}
    nodes = sorted(str(path) for path in Path("/dev").glob("nvidia*") if not path.is_dir())
    said, unread = output_of(["dmesg", "--kernel"])
    return DriverFacts(
        version=version.splitlines()[0].removeprefix("NVRM version: ").strip() if version else None,
        modules=[name for name in _MODULES if name in loaded],
        nodes={node: open_node(node) for node in nodes},
        library=load("libcuda.so.1")[1],
        headers=Path(f"/lib/modules/{os.uname().release}/build").exists(),
        xids=[Xid(pci=pci_address(f"{at}.0"), number=int(code), said=line) for line, at, code in _XID.findall(said)],
        xids_unread=f"the kernel's messages cannot be read: {unread}" if unread and version else "",
        unsigned="" if version else next((line for line in said.splitlines() if _UNSIGNED.search(line)), ""),
    )


def open_node(node: str) -> str:
    """Open a device node for reading and writing: ``ok``, ``absent`` or the error."""
    try:
        os.close(os.open(node, os.O_RDWR | os.O_CLOEXEC))
    except FileNotFoundError:
        return "absent"
    except OSError as error:
        return error.strerror or str(error)
    return "ok"


def limits() -> LimitsFacts:
    """Write to /dev/shm, read another process's memory, and read the limits."""
    lines = Path("/proc/self/status").read_text(encoding="ascii", errors="replace").splitlines()
    status = {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}  # proc(5)
    shm, shm_error = os.statvfs(_SHM) if _SHM.exists() else None, None
    try:
        with tempfile.TemporaryFile(dir=_SHM) as file:
            file.write(bytes(_SHM_BYTES))
    except OSError as error:
        shm_error = error.strerror or str(error)
    capable = int(status.get("CapEff", "0"), 16)
    soft, files = (resource.getrlimit(each)[0] for each in (resource.RLIMIT_MEMLOCK, resource.RLIMIT_NOFILE))
    return LimitsFacts(
        shm_bytes=shm.f_frsize * shm.f_blocks if shm else 0,
        shm_free_bytes=shm.f_frsize * shm.f_bavail if shm else 0,
        shm_error=shm_error,
        ptrace_scope=number(Path("/proc/sys/kernel/yama/ptrace_scope")),
        cap_sys_ptrace=bool(capable >> _CAP_SYS_PTRACE & 1),
        seccomp=int(status.get("Seccomp", "0")),
        open_files=None if files == resource.RLIM_INFINITY else files,
        low=list(_low_limits()),
        memlock_bytes=None if soft == resource.RLIM_INFINITY or capable >> _CAP_IPC_LOCK & 1 else soft,
        rdma_errors={name: why for name in names("class/infiniband") if (why := _rdma_error(name))},
        cma_error=cma_error(),
    )


def _rdma_error(name: str) -> str:
    """Return why an RDMA device cannot be used: its device node, or the states of its ports; empty: it can."""
    for each in names("class/infiniband_verbs"):
        its = word(ROOT / "class/infiniband_verbs" / each / "ibdev") == name
        if its and (said := open_node(f"/dev/infiniband/{each}")) != "ok":
            return f"/dev/infiniband/{each}: {said}"
    states = sorted({word(path) for path in (ROOT / "class/infiniband" / name / "ports").glob("*/state")})
    return "" if any("ACTIVE" in each for each in states) else f"port {', '.join(states)}"


def _low_limits() -> Iterator[str]:
    for letter, limit, least, unit in LEAST:
        hard = resource.getrlimit(limit)[1]
        if limit != resource.RLIMIT_MEMLOCK and hard >= 0 and not 0 <= least <= hard:
            yield f"ulimit -H{letter} {hard // unit}"
    for group in control_groups(Path("/"), "pids"):
        most, now = number(group / "pids.max"), number(group / "pids.current") or 0
        if most is not None and most - now < _MOST_PROCESSES:
            yield f"{group}/pids.max {most}, of which {now} are in use"


class _IoVector(ctypes.Structure):
    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


def cma_error() -> str | None:
    """Let one child read another's memory with process_vm_readv (CMA), as MPI's ranks do: they are siblings.

    A parent may read its child where siblings may not (Yama, ptrace_scope 1), so this process does not try it itself,
    and the one that is read allows it, as MPI's ranks do.
    """
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()
    owner = context.Process(target=_hold_pattern, args=(theirs,))
    owner.start()
    try:
        if not ours.poll(_ANSWER_S):
            return "the other process did not start"
        mine, readers = context.Pipe(duplex=False)
        reader = context.Process(target=_read_pattern, args=(readers, owner.pid, ours.recv()))
        reader.start()
        answer: str | None = mine.recv() if mine.poll(_ANSWER_S) else f"no answer within {_ANSWER_S:g} s"
        reader.kill()
        reader.join()
        return answer
    finally:
        owner.kill()
        owner.join()


def _hold_pattern(answers: Connection) -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PTRACER, _PR_SET_PTRACER_ANY, 0, 0, 0)
    buffer = ctypes.create_string_buffer(_PATTERN, len(_PATTERN))
    answers.send(ctypes.addressof(buffer))
    answers.poll(2 * _ANSWER_S)


def _read_pattern(answers: Connection, pid: int, address: int) -> None:
    library = ctypes.CDLL(None, use_errno=True)
    buffer = ctypes.create_string_buffer(len(_PATTERN))
    here, there = _IoVector(ctypes.addressof(buffer), len(buffer)), _IoVector(address, len(buffer))
    library.process_vm_readv.restype = ctypes.c_ssize_t
    count = library.process_vm_readv(pid, ctypes.byref(here), 1, ctypes.byref(there), 1, 0)
    if count < 0:
        answers.send(os.strerror(ctypes.get_errno()))
    else:
        answers.send(None if buffer.raw == _PATTERN else f"{count} wrong bytes arrived")
