"""A child that does not outlive this process, not even if this process is killed by SIGKILL."""

from __future__ import annotations

import contextlib
import subprocess

_WHEN_INPUT_ENDS = 'read -r _; kill -TERM "$1"'


class ChildGuard:
    """A small shell that sends SIGTERM to a child, once, when this process ends in any way.

    Launchers end their ranks on SIGTERM, on all nodes, and remove their temporary files; a second SIGTERM makes mpirun
    leave these files.  ``PR_SET_PDEATHSIG`` is no alternative: Linux sends that signal when a thread of the parent
    ends, and again when the next one ends.

    The shell waits for the end of a pipe that only this process can write to.  Close it once the child has ended.
    """

    def __init__(self, child: int) -> None:
        """Watch over the process with this number.  Where no further process can be started, nothing watches."""
        self._shell: subprocess.Popen[bytes] | None = None
        with contextlib.suppress(OSError):
            self._shell = subprocess.Popen(
                ["/bin/sh", "-c", _WHEN_INPUT_ENDS, "sh", str(child)],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,  # Ctrl-C in a terminal does not reach it
            )

    def close(self) -> None:
        """Watch no longer."""
        if self._shell:
            self._shell.kill()
            self._shell.communicate()
