"""A child that is tied to its parent ends with it, however the parent ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

_PARENT = """
import subprocess
from volley.machine.parent import tie_to_this_process
child = subprocess.Popen(["sleep", "600"], preexec_fn=tie_to_this_process(), start_new_session=True)
print(child.pid, flush=True)
child.wait()
"""


def test_a_killed_parent_takes_its_child_along() -> None:
    parent = subprocess.Popen([sys.executable, "-c", _PARENT], stdout=subprocess.PIPE, text=True)
    assert parent.stdout
    child = int(parent.stdout.readline())
    os.kill(parent.pid, signal.SIGKILL)
    parent.communicate()
    deadline = time.monotonic() + 10
    while _runs(child):
        assert time.monotonic() < deadline, "the child lives on"
        time.sleep(0.02)


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False
