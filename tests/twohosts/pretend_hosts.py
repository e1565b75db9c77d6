"""Pretend hosts on one machine: two joined by a wire of known delay and rate, or several by a switch.

Each host is a set of namespaces (network, host name, mounts, shared memory) with its own processors, ``lab.sh`` holds
them, ``relay.c`` is the wire, a bridge of Linux the switch, and ``stand-ins/ssh`` goes between them.  All of it lives
in one process namespace that ends with this process, so nothing that was started in a host can outlive a test run,
however that ended.
"""

import contextlib
import os
import select
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from string import ascii_lowercase

HERE = Path(__file__).parent
NAMES = ("volley-a", "volley-b")
# 192.0.2.0/24 is set aside for documentation (RFC 5737): it is nobody's real network.
NETWORK = "192.0.2"
ADDRESSES = (f"{NETWORK}.1", f"{NETWORK}.2")
READY_TIMEOUT_S = 60

# Sizes in bytes of what a full TCP segment holds the wire for: see the rule at the top of relay.c.
MTU = 1500
FRAMING = 38
IP_HEADER = 20
# RFC 9293 header, and RFC 7323 timestamps (10 bytes padded to 12), which Linux uses by default.
TCP_HEADER = 20 + 12


class NoHostsError(Exception):
    """This machine does not allow namespaces or the TUN device; the message says which, and what the system said."""


@dataclass(frozen=True)
class Wire:
    """What the relay is told: one-way delay in seconds, rate in bit/s (0: infinite) of Ethernet frames."""

    delay_s: float
    rate_bps: float

    @property
    def goodput(self) -> float:
        """Bytes a second of TCP payload when every segment is full."""
        payload = MTU - IP_HEADER - TCP_HEADER
        return self.rate_bps / 8 * payload / (MTU + FRAMING)


@dataclass(frozen=True)
class Lab:
    """The hosts, while they exist."""

    folder: Path
    holder: int
    names: Sequence[str]

    def command(self, name: str, tokens: Sequence[str]) -> list[str]:
        """``tokens`` as a command that runs on host ``name``."""
        pid = (self.folder / f"{name}.pid").read_text().strip()
        into_lab = ["nsenter", *_user_flags(f"--target={self.holder}", "--user", "--preserve-credentials")]
        into_lab += [f"--target={self.holder}", "--mount", f"--pid=/proc/{self.holder}/ns/pid_for_children"]
        into_host = ["nsenter", f"--target={pid}", "--net", "--uts", "--ipc", "--mount"]
        cores = (self.folder / f"{name}.cores").read_text().strip()
        return [*into_lab, *into_host, "taskset", "--cpu-list", cores, *tokens]

    def run(self, tokens: Sequence[str], *, timeout_s: float, host: str = NAMES[0]) -> subprocess.CompletedProcess[str]:
        """Run ``tokens`` on a host and keep what it prints."""
        return subprocess.run(
            self.command(host, tokens),
            env={**os.environ, **self.environment()},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout_s,
            start_new_session=True,
            check=False,
        )

    def start(self, tokens: Sequence[str], *, host: str) -> subprocess.Popen[bytes]:
        """Start ``tokens`` on a host; its output is there to be read."""
        environment = {**os.environ, **self.environment()}
        return subprocess.Popen(
            self.command(host, tokens),
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )

    def environment(self) -> dict[str, str]:
        """What a job that spreads over the hosts needs: the stand-in for ssh, and MPI over TCP, which is the wire.

        The process numbers of each lab are the same, and so are the names of Open MPI's temporary folders: one that was
        left in /tmp by a killed launcher would stop the next one.  /dev/shm is each host's own.
        """
        return {
            "TMPDIR": "/dev/shm",
            "PATH": f"{HERE / 'stand-ins'}:{os.environ['PATH']}",
            "VOLLEY_LAB": str(self.folder),
            "OMPI_MCA_pml": "ob1",
            "OMPI_MCA_btl": "tcp,self",
        }


def _user_flags(*flags: str) -> list[str]:
    """Flags that only somebody who is not root needs: a user namespace makes them root inside the lab."""
    return [] if os.geteuid() == 0 else list(flags)


def _check_namespaces() -> None:
    command = ["unshare", *_user_flags("--user", "--map-root-user"), "--net", "--uts", "--mount", "--ipc", "--pid"]
    for tool in ("unshare", "nsenter", "taskset"):
        if shutil.which(tool) is None:
            raise NoHostsError(f"{tool} is not installed (Debian: util-linux)")
    tried = subprocess.run(
        [*command, "--fork", "--mount-proc", "true"], capture_output=True, text=True, timeout=30, check=False
    )
    if tried.returncode != 0:
        raise NoHostsError(f"no namespaces here: {tried.stderr.strip()}")
    try:
        os.close(os.open("/dev/net/tun", os.O_RDWR))
    except OSError as error:
        raise NoHostsError(f"no TUN device here: {error}") from error


def _share_cores(folder: Path, names: Sequence[str]) -> None:
    """Deals this process's processors out to the hosts, so that their first ranks do not meet on one."""
    cores = sorted(os.sched_getaffinity(0))
    for index, name in enumerate(names):
        mine = cores[index % len(cores) :: len(names)]
        (folder / f"{name}.cores").write_text(",".join(map(str, mine)))


def build_relay(folder: Path) -> Path:
    """Compile the relay into ``folder``."""
    return compile_for_hosts(HERE / "relay.c", folder)


def compile_for_hosts(source: Path, folder: Path) -> Path:
    """Compile a C program without MPI into ``folder``, and return its path."""
    program = folder / source.stem
    compiler = os.environ.get("CC", "cc")
    subprocess.run([compiler, "-O2", "-Wall", "-Wextra", "-o", program, source, "-pthread"], check=True)
    return program


@contextlib.contextmanager
def lab(folder: Path, relay: Path, wire: Wire, *, gpus: bool = False) -> Iterator[Lab]:
    """Two hosts joined by ``wire`` for as long as the block lasts; ``folder`` is theirs.

    With ``gpus`` each has one GPU of this machine, whose device nodes the other does not see.

    Raises NoHostsError where the machine forbids them, or has fewer GPUs than hosts.
    """
    arguments = [str(relay), str(round(wire.delay_s * 1e9)), str(round(wire.rate_bps))]
    nodes = sorted(str(node) for node in Path("/dev").glob("nvidia[0-9]*")) if gpus else []
    if gpus and len(nodes) < len(NAMES):
        raise NoHostsError(f"{len(nodes)} GPUs here, {len(NAMES)} are needed")
    with _hosts(folder, NAMES, arguments, nodes) as made:
        yield made


@contextlib.contextmanager
def switched(folder: Path, *counts: int) -> Iterator[Lab]:
    """So many hosts on each switch; the switches are joined, and the device of each host is eth0.

    Raises NoHostsError where the machine forbids them.
    """
    names = [f"volley-{letter}" for letter in ascii_lowercase[: sum(counts)]]
    with _hosts(folder, names, ["switch", *map(str, counts)]) as made:
        yield made


@contextlib.contextmanager
def _hosts(folder: Path, names: Sequence[str], arguments: Sequence[str], gpus: Sequence[str] = ()) -> Iterator[Lab]:
    _check_namespaces()
    folder.mkdir(parents=True)
    _share_cores(folder, names)
    for index, name in enumerate(names):
        (folder / f"{name}.hidden").write_text("".join(f"{node}\n" for node in gpus if node != gpus[index]))
    addresses = [f"{NETWORK}.{number}" for number, _ in enumerate(names, 1)]
    hosts = [("127.0.0.1", "localhost"), *zip(addresses, names, strict=True)]
    (folder / "hosts").write_text("".join(f"{address} {name}\n" for address, name in hosts))
    command = ["unshare", *_user_flags("--user", "--map-root-user"), "--pid", "--mount", "--net", "--fork"]
    command += ["--mount-proc", str(HERE / "lab.sh"), str(folder), *arguments]
    with (folder / "lab.log").open("w+") as log:
        holder = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, start_new_session=True
        )
        try:
            _wait_ready(holder, log.name)
            yield Lab(folder, holder.pid, names)
        finally:
            holder.stdin.close()  # the lab's process 1 reads it, ends, and takes everything with it
            holder.stdout.close()
            holder.wait(READY_TIMEOUT_S)


def _wait_ready(holder: subprocess.Popen[bytes], log: str) -> None:
    readable, _, _ = select.select([holder.stdout], [], [], READY_TIMEOUT_S)
    if not readable or holder.stdout.readline() != b"ready\n":
        raise RuntimeError(f"the pretend hosts did not start: {Path(log).read_text().strip() or 'no reason given'}")
