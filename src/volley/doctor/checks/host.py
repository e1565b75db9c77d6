"""What the kernel or a container forbids to two processes of one user."""

# /dev/shm is what this is about
# ruff: noqa: S108

from __future__ import annotations

from volley.doctor.checks.common import container, size
from volley.doctor.facts import Facts, Limits
from volley.doctor.findings import Verdict, broken, good, lost, not_applicable, warning
from volley.doctor.remedies import sudo, system_of

_SMALL_SHM = 64 << 20
"""What Docker gives a container unless asked (docker run --shm-size): too little for many ranks, or for NCCL."""
_REMOUNT = "mount -o remount,size=8G /dev/shm"
_FILTER = 2
"""Seccomp mode of a filter, as container runtimes install it (proc(5))."""


def shm(facts: Facts) -> Verdict:
    """Judge /dev/shm by what was written there, and by its size."""
    if facts.limits.value is None:
        return lost(facts.limits, "/dev/shm", "df /dev/shm")
    found = facts.limits.value
    remedy = "docker run --shm-size=8g (or --ipc=host)" if container(facts) else sudo(system_of(facts)) + _REMOUNT
    if found.shm_error:
        return broken(
            "/dev/shm cannot be written: ranks of one node have no shared memory",
            f"1 MiB written to /dev/shm: {found.shm_error}",
            remedy,
        )
    if found.shm_bytes <= _SMALL_SHM:
        return warning(
            f"/dev/shm holds {size(found.shm_bytes)}: too little for many ranks, or for NCCL",
            f"statvfs(/dev/shm): {found.shm_bytes} bytes",
            remedy,
        )
    return good(f"{found.shm_bytes / 2**30:.1f} GiB, writable")


def cma(facts: Facts) -> Verdict:
    """Judge cross-memory attach by a read of another process's memory."""
    if facts.limits.value is None:
        return lost(facts.limits, "process_vm_readv", "cat /proc/sys/kernel/yama/ptrace_scope")
    found = facts.limits.value
    if found.cma_error is None:
        return good("a process read its sibling's memory (process_vm_readv)")
    return warning(
        "processes cannot read each other's memory: large messages on one node are copied twice",
        f"process_vm_readv between siblings: {found.cma_error}; {_state(found)}",
        _cma_remedy(facts, found),
    )


def _state(found: Limits) -> str:
    scope = "none" if found.ptrace_scope is None else found.ptrace_scope
    return f"ptrace_scope {scope}, seccomp {found.seccomp}, CAP_SYS_PTRACE {'yes' if found.cap_sys_ptrace else 'no'}"


def _cma_remedy(facts: Facts, found: Limits) -> str:
    if container(facts) and (found.seccomp == _FILTER or not found.cap_sys_ptrace):
        return "docker run --cap-add=SYS_PTRACE"
    if found.ptrace_scope:
        return f"{sudo(system_of(facts))}sysctl kernel.yama.ptrace_scope=0"
    return "ask who runs this machine for process_vm_readv between processes of one user"


def memlock(facts: Facts) -> Verdict:
    """Judge the limit of locked memory where there is a network that needs it."""
    fabric = facts.bus.value.infiniband if facts.bus.value else []
    if not fabric:
        return not_applicable("no RDMA device")
    if facts.limits.value is None:
        return lost(facts.limits, "the limit of locked memory", "ulimit -l")
    limit = facts.limits.value.memlock_bytes
    if limit is None:
        return good("unlimited")
    remedy = f"echo '* - memlock unlimited' | {sudo(system_of(facts))}tee /etc/security/limits.d/rdma.conf"
    if container(facts):
        remedy = "docker run --ulimit memlock=-1"
    return warning(
        f"{size(limit)} of locked memory: an RDMA network cannot register a message's buffer",
        f"getrlimit(RLIMIT_MEMLOCK): {limit} bytes",
        remedy,
    )
