"""More than one host: each looks at itself and connects to the others, and then a job of MPI runs over all of them."""

from __future__ import annotations

import contextlib
import fcntl
import ipaddress
import json
import os
import resource
import shutil
import socket
import struct
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from shlex import join

import msgspec

from volley.command.options import JobOptions
from volley.doctor.probes import gpus, jobs
from volley.doctor.probes import host as here
from volley.launch.engine_path import engine_path
from volley.machine.capture import isolated
from volley.machine.facts import HostFacts, HostsFacts, TrialFacts, UcxFacts
from volley.machine.mpi_choice import choose_mpi
from volley.machine.variables import captured
from volley.units import format_size

_CALLS = (0x8915, 0x891B)
"""SIOCGIFADDR and SIOCGIFNETMASK (netdevice(7))."""
_CONNECT_S, _ANSWER_S = 3.0, 30.0
_SIZES = (8, 4 << 20)


def hosts(names: Sequence[str], options: JobOptions) -> HostsFacts:
    """Look at each host, let each connect to the others, and send messages between two ranks on different hosts."""
    mpi = choose_mpi(options.mpi, os.environ)
    variables = {**dict(captured(os.environ)), "VOLLEY_ENGINE": engine_path()}
    variables |= {key: os.environ[key] for key in ("PYTHONPATH",) if key in os.environ}
    # Each host looks at this launcher, as PATH there may have another.
    again = [sys.executable, "-c", "from volley.doctor.probes.hosts import serve; serve()", mpi.launcher or "", *names]
    look = ["env", *(f"{key}={value}" for key, value in variables.items()), *again]
    asked = [subprocess.Popen(_on(name, look), **_PIPES) for name in names]  # type: ignore[call-overload]
    found = [
        msgspec.structs.replace(_answer(process, HostFacts, name), name=name)
        for process, name in zip(asked, names, strict=True)
    ]
    for process, one in zip(asked, found, strict=True):
        targets = [
            (other.name, address.partition("/")[0], other.port)
            for other in found
            if other.name != one.name and other.port
            for address in sorted({each for name, each in other.interfaces.items() if not name.startswith(ONLY_HERE)})
        ]
        with contextlib.suppress(OSError):
            process.stdin.write(json.dumps(targets) + "\n")
            process.stdin.flush()
    for index, process in enumerate(asked):
        reached = _answer(process, dict[str, str], "") if found[index].port else {}
        found[index] = msgspec.structs.replace(found[index], reached=reached)
    for process in asked:
        process.kill()
        with contextlib.suppress(OSError):
            process.stdin.close()
        process.wait()
    before = _carried()
    job = jobs.over_hosts(tuple(names), _SIZES, options)
    moved = {name: number - before.get(name, 0) for name, number in _carried().items()}
    return HostsFacts(
        hosts=found,
        job=job,
        carried={name: number for name, number in moved.items() if number > 0},
        trial=None if job.complete else _without_bridges(found, names, mpi.family, options),
    )


def _without_bridges(
    found: Sequence[HostFacts], names: Sequence[str], family: str, options: JobOptions
) -> TrialFacts | None:
    """Repeat a job that failed without the interfaces that lead nowhere; nothing if no host has one."""
    bridges = sorted({name for one in found for name in one.interfaces if name.startswith(ONLY_HERE)} - {"lo"})
    others = [name for name in found[0].interfaces if not name.startswith(ONLY_HERE)]
    if not bridges or not others:
        return None
    value = ",".join(["127.0.0.0/8", *bridges]) if family == "openmpi" else others[0]
    intel = "Intel" in found[0].settings.get("MPI", "")
    variables = dict.fromkeys(_WITHOUT["intel" if intel else family], value)
    os.environ.update(variables)
    done = jobs.over_hosts(tuple(names), _SIZES, options)
    change = " ".join(f"{name}={value}" for name in variables)
    return TrialFacts(change=change, works=done.complete, reason="" if done.complete else done.why)


_PIPES = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
ONLY_HERE = ("lo", "docker", "virbr", "br-", "cni", "veth", "lxc")
"""How interfaces begin that lead to nothing but containers and virtual machines of one host."""
_WITHOUT = {
    "openmpi": ("OMPI_MCA_btl_tcp_if_exclude", "OMPI_MCA_oob_tcp_if_exclude"),
    "mpich": ("FI_TCP_IFACE", "UCX_NET_DEVICES", "HYDRA_IFACE"),
    "intel": ("FI_TCP_IFACE", "I_MPI_HYDRA_IFACE"),
}
"""Open MPI leaves interfaces out; the others are told which one to take."""


def _on(name: str, words: Sequence[str]) -> list[str]:
    """Return a command as it is started on a host: with srun in a job of Slurm, else with ssh, as the launchers do."""
    if name.partition(".")[0] == os.uname().nodename.partition(".")[0]:
        return [*words]
    if "SLURM_JOB_ID" in os.environ and shutil.which("srun"):
        return ["srun", "--overlap", "--nodes=1", "--ntasks=1", f"--nodelist={name}", *words]
    return ["ssh", "-oBatchMode=yes", "-oConnectTimeout=10", name, join(words)]


def _answer(process: subprocess.Popen[str], kind: type, name: str):  # type: ignore[no-untyped-def]
    line = process.stdout.readline() if process.stdout else ""
    if line:
        return msgspec.json.decode(line, type=kind)
    return kind(name=name, error=process.stderr.read().strip() or "no answer") if name else {}  # type: ignore[union-attr]


def serve() -> None:
    """Print what this host is, then which addresses it reaches; listen until standard input ends."""
    with socket.create_server(("", 0), backlog=1024) as listener:
        print(msgspec.json.encode(_look(sys.argv[1], sys.argv[2:], listener.getsockname()[1])).decode(), flush=True)
        reached = {}
        for name, address, port in json.loads(sys.stdin.readline() or "[]"):
            try:
                socket.create_connection((address, port), _CONNECT_S).close()
                reached[f"{name} {address}"] = "ok"
            except OSError as error:
                reached[f"{name} {address}"] = f"port {port}: {error.strerror or error}"
        print(json.dumps(reached), flush=True)
        sys.stdin.read()


def _look(launcher: str, names: Sequence[str], port: int) -> HostFacts:
    memory, files = (resource.getrlimit(each)[0] for each in (resource.RLIMIT_MEMLOCK, resource.RLIMIT_NOFILE))
    mpi = here.output_of([launcher, "--version"])[0].strip().splitlines() if launcher else []
    ucx = isolated("", gpus.ucx, UcxFacts, _ANSWER_S).value
    driver = here.driver()
    return HostFacts(
        name="",
        port=port,
        interfaces=_interfaces(),
        names={name: _addresses(name) for name in names},
        settings={
            "MPI": next((line.strip() for line in mpi if any(map(str.isdigit, line))), ""),
            "UCX": ucx.version if ucx else "",
            "NVIDIA driver": driver.version or "",
            "nvidia_peermem": "loaded" if {"nvidia_peermem", "nv_peer_mem"} & set(driver.modules) else "",
            "limit of locked memory": "unlimited" if memory == resource.RLIM_INFINITY else format_size(memory),
            "limit of open files": str(files),
        },
    )


def _addresses(name: str) -> list[str]:
    with contextlib.suppress(OSError):
        return sorted({str(found[4][0]) for found in socket.getaddrinfo(name, None, socket.AF_INET)})
    return []


def _interfaces() -> dict[str, str]:
    found = {}
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        for _, name in socket.if_nameindex():
            request = struct.pack("256s", name.encode()[:15])
            with contextlib.suppress(OSError):  # it has no address
                address, mask = (socket.inet_ntoa(fcntl.ioctl(asked, call, request)[20:24]) for call in _CALLS)
                found[name] = str(ipaddress.ip_interface(f"{address}/{mask}"))
    return found


def _carried() -> dict[str, int]:
    """Return the bytes that each network device of this host has sent; RDMA devices count four at a time."""
    files = dict.fromkeys(Path("/sys/class/net").glob("*/statistics/tx_bytes"), 1)
    files |= dict.fromkeys(Path("/sys/class/infiniband").glob("*/ports/*/counters/port_xmit_data"), 4)
    found: dict[str, int] = {}
    for path, unit in files.items():
        name = path.parts[4]
        with contextlib.suppress(OSError, ValueError):
            found[name] = found.get(name, 0) + unit * int(path.read_text(encoding="ascii"))
    return found
