"""A head start: an engine that needs no launcher is started before the command line has been read.

CUDA takes a third of a second to start, and reading options and what shows results a tenth to load.  For who wants the
sections of the CUDA sample as soon as the sample has them, the two go on side by side: what the first words say is
enough to know which engine it will be, and it measures nothing before it has a plan.  Where it turns out that another
one is needed, or none, this one is ended.
"""

from __future__ import annotations

import atexit
import os
from _thread import allocate_lock

from volley import locate
from volley.errors import UserError
from volley.launch import inside
from volley.launch.inside import SAMPLES_FORMAT

TYPE_CHECKING = False  # to import typing, or even collections.abc, takes longer than all of this
if TYPE_CHECKING:
    import subprocess
    from collections.abc import Mapping, Sequence

_PLAIN_OPTIONS = {"--format", f"--format={SAMPLES_FORMAT}", "-f", f"-f{SAMPLES_FORMAT}", "--output", "-o"}

_IGNORED_BY_PYTHON = (13, 25)
"""SIGPIPE and SIGXFSZ, which no other program wants ignored.  The module that names them loads enum."""
_SIGTERM, _SIGKILL = 15, 9


class Ahead:
    """A process in a session of its own, with pipes to its standard streams.

    What ``subprocess.Popen`` is to everybody else.  To import that takes ten milliseconds and more, by which this one
    would be started later.
    """

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        """Start the program at the path ``command[0]``.

        Raises:
            OSError: if it does not start.
        """
        pipes = [os.pipe() for _ in range(3)]
        theirs = [pipes[0][0], pipes[1][1], pipes[2][1]]
        self.stdin = os.fdopen(pipes[0][1], "wb")
        self.stdout = os.fdopen(pipes[1][0], "rb")
        self.stderr = os.fdopen(pipes[2][0], "rb")
        self.returncode: int | None = None
        self._lock = allocate_lock()
        actions = [
            *((os.POSIX_SPAWN_DUP2, end, number) for number, end in enumerate(theirs)),
            *((os.POSIX_SPAWN_CLOSE, end) for end in _inherited()),
        ]
        try:
            self.pid = _spawned(list(command), environment, actions)
        except BaseException:
            self._close()
            raise
        finally:
            for end in theirs:
                os.close(end)

    def poll(self) -> int | None:
        """Return its exit status, or minus the number of the signal that ended it; ``None`` while it runs."""
        if self.returncode is None and self._lock.acquire(blocking=False):  # a signal's handler may be here already
            try:
                if self.returncode is None:
                    pid, status = os.waitpid(self.pid, os.WNOHANG)
                    self.returncode = os.waitstatus_to_exitcode(status) if pid else None
            except ChildProcessError:  # whoever started us ignores SIGCHLD: nobody knows how it ended
                self.returncode = 0
            finally:
                self._lock.release()
        return self.returncode

    def wait(self) -> int:
        """Return the same when it has ended."""
        while (code := self.poll()) is None:
            try:  # noqa: SIM105  start-up: contextlib
                os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
            except ChildProcessError:  # another thread has just heard of its end
                pass
        return code

    def terminate(self) -> None:
        """Ask it to end."""
        self._send(_SIGTERM)

    def kill(self) -> None:
        """End it."""
        self._send(_SIGKILL)

    def end(self) -> None:
        """End it, and forget what it said."""
        self.kill()
        self._close()
        self.wait()

    def _send(self, number: int) -> None:
        if self.poll() is None:
            try:  # noqa: SIM105  start-up: contextlib
                os.kill(self.pid, number)
            except ProcessLookupError:
                pass

    def _close(self) -> None:
        for stream in (self.stdin, self.stdout, self.stderr):
            stream.close()


def _inherited() -> list[int]:
    """Descriptors that a program started here would find open beside its streams."""
    try:
        numbers = [int(name) for name in os.listdir("/proc/self/fd")]  # noqa: PTH208  start-up: pathlib
    except OSError:
        return []
    found = []
    for number in numbers:
        try:
            if number > 2 and os.get_inheritable(number):
                found.append(number)
        except OSError:  # the one that listed them
            continue
    return found


def _spawned(command: list[str], environment: Mapping[str, str], actions: list[tuple[int, ...]]) -> int:
    """Start a program in a session of its own, or, in a Python that cannot, in a process group of its own."""
    try:
        return os.posix_spawn(
            command[0], command, environment, file_actions=actions, setsid=True, setsigdef=_IGNORED_BY_PYTHON
        )
    except NotImplementedError:  # built where the C library was older than 2.26, as uv's Pythons are
        return os.posix_spawn(
            command[0], command, environment, file_actions=actions, setpgroup=0, setsigdef=_IGNORED_BY_PYTHON
        )


_begun: tuple[tuple[str, ...], dict[str, str], Ahead] | None = None


def alone(*, all_gpus: bool, hurried: bool) -> tuple[str, ...]:
    """Return the command line of the engine that is the whole job, without a launcher and without MPI.

    One that is to use all GPUs makes them ready before it has a plan; one in a hurry has fewer queues to each.

    Raises:
        UserError: if there is no such engine.
    """
    given = (("--wake", all_gpus), ("--few-queues", hurried))
    return locate.node_engine_path(), *(word for word, wanted in given if wanted), "--plan", "-"


def likely(arguments: Sequence[str]) -> bool:
    """Tell whether the words ask for the CUDA sample's sections, and for nothing that could end otherwise."""
    options = {word for word in arguments if word.startswith("-")}
    return arguments[:1] == ["matrix"] and inside.as_sample(arguments) and options <= _PLAIN_OPTIONS


def begin(arguments: Sequence[str]) -> None:
    """Start the engine if the words make it likely that it is needed; what goes wrong is said by who needs it."""
    global _begun  # noqa: PLW0603  whether there is such an engine is a fact of the whole process
    if not likely(arguments):
        return
    environment = inside.scrubbed(os.environ)
    try:
        command = alone(all_gpus=True, hurried=True)
        _begun = command, environment, Ahead(command, environment)
    except (UserError, OSError):
        return
    atexit.register(_end)


def start(
    command: Sequence[str], environment: Mapping[str, str], *, own_session: bool
) -> subprocess.Popen[bytes] | Ahead:
    """Start a job with pipes to all its standard streams, or take the one that was started ahead.

    Raises:
        OSError: if the command does not start.
    """
    global _begun  # noqa: PLW0603  the same fact
    import subprocess  # noqa: PLC0415  start-up: see Ahead

    if _begun is not None:
        begun_command, begun_environment, process = _begun
        if own_session and tuple(command) == begun_command and dict(environment) == begun_environment:
            _begun = None
            return process
        _end()
    return subprocess.Popen(
        list(command),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=dict(environment),
        close_fds=own_session,  # inside a launcher, PMI works through a descriptor inherited from it
        start_new_session=own_session,
    )


def _end() -> None:
    """End the engine that nobody took."""
    global _begun  # noqa: PLW0603  the same fact
    if _begun is None:
        return
    *_, process = _begun
    _begun = None
    process.end()
