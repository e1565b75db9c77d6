"""Killings at random moments: nothing outlives a run of volley, and all that it measured is shown.

``python tests/killings.py --cases 200`` does that with the installed ``volley`` (``make fuzz``); tests/test_killings.py
does a few.  All processes of a run inherit a variable, by which they are found.  Only a launcher that was killed itself
leaves temporary files: those in which its ranks shared memory.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

MARK = "VOLLEY_KILLINGS"
ENDS_S = 15.0
"""A launcher gives its ranks seconds between SIGTERM and SIGKILL, and volley gives them to the launcher."""
WORDS = ("pingpong", "--sizes", "8:64k", "--point-time", "0.05", "--transport", "host", "--format", "csv")


def processes(mark: str) -> dict[int, str]:
    """The processes of a run: number and name of the program."""
    found = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal() or int(entry.name) == os.getpid():
            continue
        try:
            if f"{MARK}={mark}".encode() in (entry / "environ").read_bytes().split(b"\0"):
                found[int(entry.name)] = (entry / "comm").read_text(encoding="utf-8").strip()
        except OSError:
            continue
    return found


def front(mark: str, volley: int, dice: random.Random) -> str:
    number = dice.choice([signal.SIGKILL, signal.SIGKILL, signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
    os.kill(volley, number)
    if number != signal.SIGKILL and dice.random() < 0.5:
        time.sleep(dice.random())
        os.kill(volley, number)
    return f"{number.name} to the front end"


def launcher(mark: str, volley: int, dice: random.Random) -> str:
    return _kill_one(mark, volley, "prterun", signal.SIGKILL)


def rank(mark: str, volley: int, dice: random.Random) -> str:
    return _kill_one(mark, volley, "volley-engine", dice.choice([signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV]))


def _kill_one(mark: str, volley: int, program: str, number: signal.Signals) -> str:
    for pid, name in processes(mark).items():
        if name == program and pid != volley:
            os.kill(pid, number)
            return f"{number.name} to {program}"
    os.kill(volley, signal.SIGKILL)
    return f"SIGKILL to the front end: there was no {program} yet"


TARGETS: tuple[Callable[[str, int, random.Random], str], ...] = (front, front, launcher, rank)


def kill_one(volley: Path, folder: Path, dice: random.Random) -> str | None:
    """Start a run, kill a part of it after a random time; return what is wrong afterwards."""
    mark = f"{os.getpid()}-{dice.random()}"
    scratch, records = folder / "scratch", folder / "records.jsonl"
    scratch.mkdir(parents=True)
    places = {"TMPDIR": str(scratch), "OMPI_MCA_btl_sm_backing_directory": str(scratch)}
    environment = {**os.environ, MARK: mark, **places}
    command = [str(volley), *WORDS, "-o", str(records)]
    run = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    moment = dice.choice([0.1, 1.0, 2.5]) * dice.random()
    time.sleep(moment)
    who = dice.choice(TARGETS)
    did = who(mark, run.pid, dice) if run.poll() is None else "nothing: it had ended"
    out, err = run.communicate(timeout=60)
    killed = run.returncode == -signal.SIGKILL
    about = f"{did} after {moment:.3f} s; exit code {run.returncode}"
    until = time.monotonic() + ENDS_S
    while (left := processes(mark)) or (who is not launcher and (files := os.listdir(scratch))):  # noqa: PTH208
        if time.monotonic() > until:
            return f"{about}: {left or files} outlived it"
        time.sleep(0.05)
    if "Traceback" in err and "/volley/" in err:  # before volley's first module, Python itself answers Ctrl-C
        return f"{about}:\n{err}"
    points = [json.loads(line) for line in _lines(records) if line.startswith(b'{"record":"pingpong"')]
    measured = {point["size_bytes"] for point in points}  # by any of the launches
    shown = subprocess.run(
        [str(volley), "show", str(records), "-f", "csv"], capture_output=True, text=True, check=False
    )
    for text in (shown.stdout, *(() if killed else (out,))):
        if measured and len(text.splitlines()) != 1 + len(measured):
            return f"{about}: of {len(measured)} points {len(text.splitlines()) - 1} are shown\n{err}"
    return None


def _lines(records: Path) -> list[bytes]:
    data = records.read_bytes() if records.exists() else b""
    return data[: data.rfind(b"\n") + 1].splitlines()


def run(volley: Path, cases: int, seed: int) -> list[str]:
    """Kill so many runs; return what was wrong."""
    failures = []
    for number in range(cases):
        with tempfile.TemporaryDirectory() as folder:
            problem = kill_one(volley, Path(folder), random.Random(f"{seed} {number}"))
        if problem:
            failures.append(f"killing {number} of seed {seed}: {problem}")
    return failures


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=200)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 31))
    given = parser.parse_args()
    failures = run(Path(sysconfig.get_path("scripts")) / "volley", given.cases, given.seed)
    print(f"{given.cases} killings of seed {given.seed}, {len(failures)} failures", *failures, sep="\n")
    return bool(failures)


if __name__ == "__main__":
    sys.exit(main())
