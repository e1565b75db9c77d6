"""A child that is watched over ends with its parent, however the parent ends, and is told so once."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from the_command import gone, until
from volley.machine import capture, signals
from volley.machine.signals import ChildGuard
from volley.setup import workspace

_COUNTER = """
import signal
import time
signal.signal(signal.SIGTERM, lambda *_: print("SIGTERM", flush=True))
print("ready", flush=True)
time.sleep(1.5)
"""
_PARENT = """
import subprocess
import sys
import threading
import time
from volley.machine.signals import ChildGuard
threading.Thread(target=time.sleep, args=(600,), daemon=True).start()  # the end of a thread is not that of the process
first, second = ChildGuard(), ChildGuard(sys.argv[3])
child = subprocess.Popen(["sleep", "600"], start_new_session=True, preexec_fn=first.register)
counting, said = [sys.executable, "-c", sys.argv[1]], open(sys.argv[2], "wb")
counter = subprocess.Popen(counting, stdout=said, start_new_session=True, preexec_fn=second.register)
print(child.pid, counter.pid, flush=True)
child.wait()
"""


@pytest.mark.slow
def test_a_killed_parent_takes_its_child_along_with_one_signal(tmp_path: Path) -> None:
    said, scratch = tmp_path / "said", tmp_path / "scratch"
    (scratch / "left by a killed launcher").mkdir(parents=True)
    words = [sys.executable, "-c", _PARENT, _COUNTER, str(said), str(scratch)]
    parent = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    child, counter = map(int, parent.stdout.readline().split())
    until(lambda: said.read_text(encoding="utf-8") == "ready\n", "the counter does not start")
    os.kill(parent.pid, signal.SIGKILL)
    parent.communicate()
    gone(child)
    gone(counter)
    assert said.read_text(encoding="utf-8") == "ready\nSIGTERM\n"
    until(lambda: not scratch.exists(), "the temporary files stay")


def _run_a_step(folder: Path) -> None:
    workspace.run_logged(["sleep", "600"], folder / "log", title="a step", environment=os.environ, folder=folder)


def _run_a_probe(_folder: Path) -> None:
    capture.isolated("a probe", lambda: time.sleep(600), float, 600)


@pytest.mark.parametrize(("place", "start"), [(signals, _run_a_step), (capture, _run_a_probe)])
def test_ctrl_c_while_a_child_starts_ends_the_child(
    place: object, start: Callable[[Path], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers = tmp_path / "numbers"

    class Interrupting(ChildGuard):
        def register(self) -> None:
            numbers.write_text(str(os.getpid()), encoding="utf-8")
            super().register()
            os.kill(os.getppid(), signal.SIGINT)

    monkeypatch.setattr(place, "ChildGuard", Interrupting)
    usual = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell starts what is in the background without
    try:
        with pytest.raises(KeyboardInterrupt):
            start(tmp_path)
    finally:
        signal.signal(signal.SIGINT, usual)
    gone(int(numbers.read_text(encoding="utf-8")))


_STARTING = """
import os
import signal
import subprocess
import sys
import time
from volley.machine.signals import ChildGuard
guard = ChildGuard()

def register():
    os.kill(os.getppid(), signal.SIGKILL)
    time.sleep(0.5)
    print(os.getpid(), flush=True)  # before the guard knows of the child, and ends it
    guard.register()

subprocess.Popen(["sleep", "600"], start_new_session=True, preexec_fn=register)
"""


def test_a_parent_that_is_killed_while_its_child_starts_takes_the_child_along() -> None:
    with subprocess.Popen([sys.executable, "-c", _STARTING], stdout=subprocess.PIPE, text=True) as parent:
        child = int(parent.stdout.readline())
        gone(child)


def test_a_step_that_ignores_sigterm_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signals, "GRACE_S", 0.2)
    tokens = ["sh", "-c", "trap '' TERM; sleep 20; touch survived"]
    with pytest.raises(workspace.StepError, match="it hangs"):
        workspace.run_logged(
            tokens, tmp_path / "log", title="a step", environment=os.environ, folder=tmp_path, limit_s=0.2
        )
    assert not (tmp_path / "survived").exists()


_WITH_A_FOLDER = """
import sys
from pathlib import Path
from volley.machine.signals import temporary_folder
with temporary_folder(Path(sys.argv[1])) as folder:
    Path(folder, "file").touch()
    print("ready", flush=True)
    sys.stdin.read()
"""


@pytest.mark.parametrize("killed", [True, False])
def test_a_temporary_folder_goes_with_its_process(tmp_path: Path, killed: bool) -> None:
    words = [sys.executable, "-c", _WITH_A_FOLDER, str(tmp_path)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        process.stdout.readline()
        assert [each.name for each in tmp_path.glob("*/*")] == ["file"]
        if killed:
            process.kill()
    until(lambda: not any(tmp_path.iterdir()), "the folder stays")
