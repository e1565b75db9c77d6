"""What runs on each of several hosts: it says what this host is, and connects to others.

It is started by srun or ssh, on up to thousands of hosts, so it needs nothing but the standard library, and little of
that: json and subprocess would double the time that it takes.  Each answer is a literal of Python on one line behind
``MARK``, as shells and system administrators print other lines; what it is asked is words ``NAME|ADDRESS|PORT``.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import resource
import socket
import struct
import sys
import threading
import time

TYPE_CHECKING = False  # to import collections.abc takes time on each host
if TYPE_CHECKING:
    from collections.abc import Callable

MARK = "volley-host: "
_CALLS = (0x8915, 0x891B)
"""SIOCGIFADDR and SIOCGIFNETMASK (netdevice(7))."""
_CONNECT_S, _MEET_S = 3.0, 8.0
_DATA_BYTES = 256 << 10
"""More than the first segments of a connection: a path whose MTU is smaller than the hosts believe loses these."""


def serve(engine: str, launcher: str, ucx: str, low: str, high: str) -> None:
    """Print what this host is; for each line of standard input, which of its targets it reaches; listen meanwhile."""
    listener = _listen(int(low), int(high))
    threading.Thread(target=_accept, args=(listener,), daemon=True).start()
    interfaces = _interfaces()
    _say({"port": listener.getsockname()[1], "interfaces": interfaces, "settings": _settings(engine, launcher, ucx)})
    for line in sys.stdin:
        asked = [each.split("|") for each in line.split()]
        reached: dict[str, str] = {}
        names: dict[str, list[str]] = {target[0]: [] for target in asked}
        wanted = [target for target in asked if len(target) == 3]
        threads = [threading.Thread(target=_reach, args=(reached, *target), daemon=True) for target in wanted]
        # A resolver may take seconds for each name.
        threads += [threading.Thread(target=_look_up, args=(names, name), daemon=True) for name in names]
        for each in threads:
            each.start()
        until = time.monotonic() + _MEET_S
        for each in threads:
            each.join(max(until - time.monotonic(), 0.0))
        _say({"reached": {**reached}, "names": {**names}})


def _say(answer: dict[str, object]) -> None:
    print(f"\n{MARK}{answer!r}", flush=True)


def _listen(low: int, high: int) -> socket.socket:
    """Listen on the first free port of a range, as an MPI that is told to; 0 is any port."""
    for port in (*range(low, high + 1), 0):
        with contextlib.suppress(OSError):  # IPv6 may be switched off
            return socket.create_server(("", port), backlog=1024, family=socket.AF_INET6, dualstack_ipv6=True)
        with contextlib.suppress(OSError):
            return socket.create_server(("", port), backlog=1024)
    raise OSError("no TCP port is free")


def _accept(listener: socket.socket) -> None:
    """Take what connects, until the listener is closed."""
    with contextlib.suppress(OSError):
        while True:
            threading.Thread(target=_take, args=(listener.accept()[0],), daemon=True).start()


def _take(connection: socket.socket) -> None:
    with contextlib.suppress(OSError), connection:
        connection.settimeout(_CONNECT_S)
        left = _DATA_BYTES
        while left > 0:
            piece = connection.recv(1 << 16)
            left = left - len(piece) if piece else 0
        connection.sendall(b"1")


def _reach(reached: dict[str, str], name: str, address: str, port: str) -> None:
    """Connect, send data, and wait for the answer to it."""
    said = f"port {port}"
    try:
        with socket.create_connection((address, int(port)), _CONNECT_S) as connection:
            said += ": it opens, but data does not cross"
            connection.settimeout(_CONNECT_S)
            connection.sendall(bytes(_DATA_BYTES))
            answered = connection.recv(1) == b"1"
        reached[f"{name} {address}"] = "ok" if answered else said
    except OSError as error:
        reached[f"{name} {address}"] = f"{said}: {error.strerror or error}"


def _settings(engine: str, launcher: str, ucx: str) -> dict[str, str]:
    memory, files = (resource.getrlimit(each)[0] for each in (resource.RLIMIT_MEMLOCK, resource.RLIMIT_NOFILE))
    modules = _text("/proc/modules")
    version = _text("/proc/driver/nvidia/version").partition("\n")[0].removeprefix("NVRM version: ").strip()
    about = _said_by(lambda: os.execv(engine, [engine, "--about"]))  # noqa: S606  no shell is needed
    return {
        "volley": about.partition('"version":"')[2].partition('"')[0],
        "MPI": _version_of(launcher),
        "UCX": _ucx(ucx),
        "NVIDIA driver": version,
        "nvidia_peermem": "loaded" if "nvidia_peermem " in modules or "nv_peer_mem " in modules else "",
        "limit of locked memory": "unlimited" if memory == resource.RLIM_INFINITY else f"{memory >> 10} KiB",
        "limit of open files": str(files),
    }


def _text(path: str) -> str:
    with contextlib.suppress(OSError), open(path, encoding="utf-8", errors="replace") as file:  # noqa: PTH123
        return file.read()
    return ""


def _version_of(launcher: str) -> str:
    """Ask this launcher, as PATH may have another one here."""
    if not launcher:
        return ""
    said = _said_by(lambda: os.execv(launcher, [launcher, "--version"]))  # noqa: S606  no shell is needed
    return next((line.strip() for line in said.splitlines() if any(map(str.isdigit, line))), "")


def _ucx(library: str) -> str:
    """Return the version of UCX."""

    def ask() -> None:
        parts = [ctypes.c_uint() for _ in range(3)]
        ctypes.CDLL(library).ucp_get_version(*map(ctypes.byref, parts))
        os.write(1, ".".join(str(part.value) for part in parts).encode())

    return _said_by(ask) if library else ""


def _said_by(work: Callable[[], None]) -> str:
    """Return what a child prints: a program may be missing, and a library may crash."""
    answers, ours = os.pipe()
    child = os.fork()
    if child == 0:
        with contextlib.suppress(OSError, AttributeError):
            os.dup2(ours, 1)
            work()
        os._exit(0)
    os.close(ours)
    with open(answers, encoding="utf-8", errors="replace") as file:  # noqa: PTH123
        said = file.read()
    os.waitpid(child, 0)
    return said


def _look_up(names: dict[str, list[str]], name: str) -> None:
    for family in (socket.AF_INET6, socket.AF_INET):  # IPv4 where there is any
        with contextlib.suppress(OSError, UnicodeError):
            names[name] = sorted({str(found[4][0]) for found in socket.getaddrinfo(name, None, family)})


def _interfaces() -> dict[str, str]:
    """Return address and length of the network's prefix of each interface that has one, of IPv4 where it can."""
    found = {}
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        for _, name in socket.if_nameindex():
            request = struct.pack("256s", name.encode()[:15])
            with contextlib.suppress(OSError):  # it has no address
                address, mask = (fcntl.ioctl(asked, call, request)[20:24] for call in _CALLS)
                prefix = bin(int.from_bytes(mask, "big")).count("1")
                found[name] = f"{socket.inet_ntoa(address)}/{prefix}"
    for line in _text("/proc/net/if_inet6").splitlines():
        digits, _, length, scope, _, name = line.split()
        if scope == "00":  # global
            found.setdefault(name, f"{socket.inet_ntop(socket.AF_INET6, bytes.fromhex(digits))}/{int(length, 16)}")
    return found
