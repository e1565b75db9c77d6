"""Children that do not outlive this process, not even if it is killed by SIGKILL."""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Callable

_PR_SET_PDEATHSIG = 1
"""Linux, prctl(2): the signal that a process gets when its parent ends."""


def tie_to_this_process() -> Callable[[], None]:
    """Return what a child calls before it starts its program: it gets SIGTERM when this process ends, however it ends.

    Launchers end their ranks on SIGTERM, on all nodes, and remove their temporary files.
    """
    libc, parent = ctypes.CDLL(None), os.getpid()  # here, because a forked child may take no lock

    def tie() -> None:
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
        if os.getppid() != parent:  # it ended before
            os.kill(os.getpid(), signal.SIGTERM)

    return tie
