"""What limits a process: its CPUs, resource limits, shared memory, access to other processes and to RDMA devices."""

# /dev/shm is what one check is about
# ruff: noqa: S108

from __future__ import annotations

import re
from shlex import quote

from volley.doctor.findings import (
    JOBS,
    OF_FILES,
    DoctorFinding,
    broken,
    good,
    not_applicable,
    not_tested,
    require,
    warning,
)
from volley.doctor.remedies import REMOUNT_SHM
from volley.machine.facts import OLDER, Facts
from volley.machine.hardware import RAISE_CLOCK
from volley.machine.place import place_of
from volley.machine.variables import without_single_copy
from volley.text import count, join_few, join_words
from volley.units import format_sig, format_size

_SMALL_SHM = 64 << 20
"""The size in a Docker container by default (docker run --shm-size): too little for many ranks, or for NCCL."""
_SEGMENTS = 32 << 20
"""Open MPI 5 makes a segment of 16 MiB for each of two ranks, the most of the MPIs that were tried."""
_SHARING = ("UCX", "MPI, host memory", "MPI, GPU memory", "launcher")
"""Checks that need shared memory."""
_FOR_GOOD = 3
"""This ptrace_scope stays until the machine starts again (Linux, admin-guide/LSM/Yama)."""
_RANKS = 2
"""A ping-pong has two ranks, and each polls on a CPU of its own."""
_FILES, _FILES_OF_A_RANK, _FEWEST_FILES = 32, 5, 256
"""Open files of Open MPI's mpirun and of each of its ranks on a host (4 ranks needed 40, 12 needed 72, 24 needed 128);
any shell has 1024 unless somebody lowered it, and CUDA and NCCL need some."""


def cpu_clock(facts: Facts) -> DoctorFinding:
    """Reads the governor of every CPU's clock."""
    found = require(facts.settings, "the CPU clock", "cpupower frequency-info")
    if not found.governors:
        return not_applicable("Linux does not control the CPU clock here")
    governors = join_words(f"{name} on CPU {cpus}" for name, cpus in found.governors.items())
    said = f"{governors} ({found.clock_driver or 'unknown driver'})"
    if slow := found.slow_clock():
        return warning(slow, f"scaling_governor: {said}", place_of(facts).admin("{sudo}" + RAISE_CLOCK))
    return good(said)


def cpu_quota(facts: Facts) -> DoctorFinding:
    """Reads the CPUs of this process, and the CPU quota of every control group above it; two ranks need two CPUs."""
    cpus, place = facts.surroundings.value.cpus if facts.surroundings.value else _RANKS, place_of(facts)
    inside = facts.launcher.value and facts.launcher.value.inside  # there each rank may have one of its own
    if cpus < _RANKS and not inside:
        said = f"this process may use {count(cpus, 'CPU')}: two ranks would take turns"
        remedy = place.more("cpuset", "taskset -p $$ shows what this shell may use; start it with more CPUs")
        return warning(said, f"sched_getaffinity: {count(cpus, 'CPU')}", remedy, ("binding", "MPI, host memory"))
    found = require(facts.settings, "the CPU quota", "cat /sys/fs/cgroup/cpu.max")
    if why := found.unread.get("quota_cpus"):
        return not_tested(f"the CPU quota cannot be read: {why}")
    if small := found.small_quota(_RANKS):
        remedy = place.more("cpus", place.admin("a higher CPUQuota for the service or session"))
        evidence = f"cpu.max or cpu.cfs_quota_us / cpu.cfs_period_us: {found.quota_cpus:g}"
        return warning(small, evidence, remedy, ("MPI, host memory",))
    return good("none" if found.quota_cpus is None else f"{format_sig(found.quota_cpus, 3)} CPUs")


def low_limits(facts: Facts) -> DoctorFinding:
    """Reads the limits of this process, and how many processes each control group above it may have."""
    found, job = require(facts.limits, "the limits", "ulimit -Ha"), facts.mpi_host.value
    low = found.low
    shown, cpus = join_words(low), facts.surroundings.value.cpus if facts.surroundings.value else _RANKS
    fewest = max(_FEWEST_FILES, _FILES + _FILES_OF_A_RANK * cpus)
    if job and job.complete and found.open_files is not None and found.open_files < fewest:
        ranks = max((found.open_files - _FILES) // _FILES_OF_A_RANK, 0)
        on = f"this host, which has {count(cpus, 'CPU')}"
        said = f"open files are limited to {found.open_files} (ulimit -n): enough for {count(ranks, 'rank')} on {on}"
        remedy = place_of(facts).raise_limit("n", "65536")
        return warning(said, f"getrlimit(RLIMIT_NOFILE): {found.open_files}", remedy)
    if not low or (job and job.sends):
        return good(f"{shown}: MPI works with it" if low else "none that is too low for two ranks")
    place = place_of(facts)
    letters = re.findall(r"ulimit -H(\w)", shown)
    raised = ("65536" if letter in "nu" else "unlimited" for letter in letters)
    remedy = "; ".join(place.raise_limit(*each, hard=True) for each in zip(letters, raised, strict=True))
    if "pids.max" in shown:
        group = shown.partition("/pids.max")[0]
        remedy = place.or_in_container("pids", f"echo max | {{sudo}}tee {quote(group)}/pids.max")
    said = f"a limit that only root can raise: {shown}"
    explains = (*JOBS, *(OF_FILES if "f" in letters else ()))
    return warning(said, f"ulimit -Ha; cat pids.max: {shown}", remedy, explains)


def shm(facts: Facts) -> DoctorFinding:
    """Writes 1 MiB to /dev/shm; compares what is free there with the segments of two ranks."""
    found = require(facts.limits, "/dev/shm", "df /dev/shm")
    place = place_of(facts)
    remedy = place.or_in_container("shm", REMOUNT_SHM)
    size, free = found.shm_bytes, min(found.shm_free_bytes, found.shm_bytes)
    if found.shm_error and (free >= 1 << 20 or size == 0):  # else there was no room for 1 MiB
        said = "cannot write to /dev/shm: ranks on one node have no shared memory"
        if found.shm_error == "No such file or directory":
            remedy = place.or_in_container("shm", "{sudo}mount -m -t tmpfs tmpfs /dev/shm")
        elif found.shm_error == "Permission denied":
            remedy = (
                "chmod 1777 /dev/shm" if place.container and place.root else place.admin("{sudo}chmod 1777 /dev/shm")
            )
        return broken(said, f"1 MiB written to /dev/shm: {found.shm_error}", remedy, _SHARING)
    said, evidence = f"/dev/shm holds {format_size(size)}", f"statvfs(/dev/shm): {size} bytes"
    if free < _SEGMENTS:
        if size >= _SEGMENTS:
            said = f"only {format_size(free)} of {format_size(size)} is free in /dev/shm"
            remedy = "ls -lS /dev/shm; remove the files of jobs that have ended, e.g. rm /dev/shm/*_segment.*"
        job = facts.mpi_host.value
        judge = warning if job and job.fast else broken  # some MPIs need less
        need = f"two ranks may need {format_size(_SEGMENTS)} there"
        return judge(f"{said}: {need}", f"{evidence}, {free} free", remedy, _SHARING)
    if size <= _SMALL_SHM:
        return warning(f"{said}: too little for many ranks, or for NCCL", evidence, remedy)
    return good(f"{size / 2**30:.1f} GiB, writable")


def cma(facts: Facts) -> DoctorFinding:
    """Reads a sibling process's memory with process_vm_readv, and what tells MPI not to do so."""
    found = require(facts.limits, "process_vm_readv", "cat /proc/sys/kernel/yama/ptrace_scope")
    place, job = place_of(facts), facts.mpi_host.value
    if found.cma_error is None:
        version = re.match(r"Open MPI v(\d)", job.library or "") if job else None
        uses = {f"openmpi {version[1]}" if version else facts.mpi_family, *(["UCX"] if job and job.protocols else [])}
        if not (names := without_single_copy(facts.environment, uses)):
            return good("a process read its sibling's memory (process_vm_readv)")
        told = join_words(f"{name}={facts.environment[name]}" for name in names)
        said = f"{told}: MPI copies large messages on one node twice, although once is possible"
        return warning(said, "process_vm_readv between siblings works", place.unset(names))
    remedy = place.admin("allow process_vm_readv between processes of one user")
    if found.cma_error == "Function not implemented":
        remedy = "none: this kernel, or the sandbox of this container (gVisor), has no process_vm_readv"
    elif found.ptrace_scope == _FOR_GOOD:
        remedy = place.reboot("write kernel.yama.ptrace_scope = 1 into the file of /etc/sysctl.d that has it")
    elif place.container not in ("", "apptainer", "singularity") and not found.cap_sys_ptrace:
        remedy = place.start_with("ptrace")
    elif found.ptrace_scope:
        remedy = place.admin("{sudo}sysctl kernel.yama.ptrace_scope=0")
    scope = "none" if found.ptrace_scope is None else found.ptrace_scope
    state = f"ptrace_scope {scope}, seccomp {found.seccomp}, CAP_SYS_PTRACE {'yes' if found.cap_sys_ptrace else 'no'}"
    return warning(
        "processes cannot read each other's memory: without xpmem, large messages on one node are copied twice",
        f"process_vm_readv between siblings: {found.cma_error}; {state}",
        remedy,
    )


def memlock(facts: Facts) -> DoctorFinding:
    """Reads RLIMIT_MEMLOCK, if there is an RDMA device."""
    if not require(facts.bus, "the RDMA devices", "ls /sys/class/infiniband").infiniband:
        return not_applicable("no RDMA device")
    limit = require(facts.limits, "the limit of locked memory", "ulimit -l").memlock_bytes
    if limit is None:
        return good("unlimited")
    limited = f"locked memory is limited to {format_size(limit)}"
    paths = facts.hosts.value.paths if facts.hosts.value else []
    if carried := [path for path in paths if path.kind == "RDMA"]:
        return good(f"{limited}; messages of {format_size(carried[-1].size_bytes)} went over RDMA with it")
    said = f"{limited}: an RDMA network can register no more of a rank's memory"
    remedy = place_of(facts).raise_limit("l", "unlimited")
    return warning(said, f"getrlimit(RLIMIT_MEMLOCK): {limit} bytes", remedy)


def rdma(facts: Facts) -> DoctorFinding:
    """Opens the device node of each RDMA device, and reads the states of its ports."""
    devices = require(facts.bus, "the RDMA devices", "ls /sys/class/infiniband").infiniband
    if not devices:
        return not_applicable("no RDMA device")
    errors, place = require(facts.limits, "the RDMA devices", "ls -l /dev/infiniband").rdma_errors, place_of(facts)
    if errors is None:
        return not_tested(OLDER)
    said = join_few(f"{name} ({why})" for name, why in errors.items())
    if {*devices} - {*errors}:
        return good(f"{join_few(sorted({*devices} - {*errors}))}{said and f'; without {said}'}")
    remedy = place.hardware("ibstat; see whether the cable and the port of the switch are good")
    if re.search("INIT|ARMED", said):
        manager = "opafm" if all(name.startswith("hfi") for name in devices) else "opensm"
        remedy = f"{{sudo}}systemctl start {manager} on one host of this network: no subnet manager has set up the port"
        remedy = place.admin(remedy)
    elif "/dev/" in said:
        remedy = place.or_in_container("rdma", "{sudo}chmod 666 /dev/infiniband/uverbs* /dev/infiniband/rdma_cm")
    evidence = "open(/dev/infiniband/uverbs*); ports/*/state"
    follows = ("MPI between hosts", "NCCL between hosts", "GPUDirect RDMA")
    return warning(f"no RDMA device can be used: {said}", evidence, remedy, follows)
