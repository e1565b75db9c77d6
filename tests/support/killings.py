"""Killings at random moments: nothing outlives a run of volley, and all that it measured is shown.

``python tests/support/killings.py --cases 200`` does that with the installed ``volley``; a test does a few.
All processes of a run inherit a variable, by which they are found.  Only a launcher that was killed itself
leaves temporary files: those in which its ranks shared memory.

``--how stop`` stops a rank (SIGSTOP): its job ends by itself within ``STOPPED_S``, and then the run.
``--how interrupt`` sends one SIGINT to a run of a stand-in for the engine that never ends, and ``--how signal`` to this
process while it runs a job.
"""

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import sysconfig
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import fake_engine
from volley.launch.engine import EngineProcess
from volley.launch.start import Start
from volley.machine.signals import Stop
from volley.records.plan import Plan

MARK = "VOLLEY_KILLINGS"
STOPPED_S = 12.0
"""A watchdog of 5 s, and the time until the launcher has ended its ranks or is killed."""
ENDS_S = 15.0
"""A launcher gives its ranks seconds between SIGTERM and SIGKILL, and volley gives them to the launcher."""
WORDS = ("pingpong", "--sizes", "8:64k", "--point-time", "0.05", "--format", "csv", "--transport")
RUN_S = 3.0
"""About how long a run of three launches takes."""


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


class Wrong(Exception):  # noqa: N818  what a run must not do
    """What is wrong, in a sentence."""


def start(command: list[str], mark: str, **variables: str) -> subprocess.Popen[str]:
    environment = {**os.environ, MARK: mark, **variables}
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def end_of(run: subprocess.Popen[str], about: str, limit_s: float) -> tuple[str, str]:
    """Wait for the end of a run; return what it printed."""
    try:
        out, err = run.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired:
        run.kill()
        raise Wrong(f"{about}: it had not ended {limit_s:g} s later") from None
    if "Traceback" in err and "/volley/" in err:  # before volley's first module, Python itself answers Ctrl-C
        raise Wrong(f"{about}; exit code {run.returncode}:\n{err}")
    return out, err


def wait_until_gone(about: str, left: Callable[[], object], limit_s: float = ENDS_S) -> None:
    until = time.monotonic() + limit_s
    while found := left():
        if time.monotonic() > until:
            raise Wrong(f"{about}: {found} outlived it by {limit_s:g} s")
        time.sleep(0.05)


def stop_one(volley: Path, folder: Path, mark: str, dice: random.Random, transport: str) -> None:
    """Start a run and stop a rank at a random moment of it: the rank is gone soon, and the run ends."""
    more = ("--launches", "3", "--watchdog", "5", "-o", str(folder / "records.jsonl"))
    run = start([str(volley), *WORDS, transport, *more], mark)
    moment, begun = dice.random() * RUN_S, time.monotonic()
    ranks: list[int] = []
    while run.poll() is None and (time.monotonic() < begun + moment or not ranks):
        ranks = [pid for pid, name in processes(mark).items() if name == "volley-engine"]
        time.sleep(0.01)
    about = f"SIGSTOP after {time.monotonic() - begun:.3f} s"
    if run.poll() is None:
        stopped = dice.choice(ranks)
        with suppress(ProcessLookupError):  # it has just ended by itself
            os.kill(stopped, signal.SIGSTOP)
        wait_until_gone(about, lambda: stopped in processes(mark), STOPPED_S)
    _, err = end_of(run, about, 10 * STOPPED_S)  # it may have launches left
    wait_until_gone(f"{about}\n{err}", lambda: processes(mark), 0)


def interrupt_one(volley: Path, folder: Path, mark: str, dice: random.Random, _transport: str) -> None:
    """Start a run of an engine that never ends, and interrupt it once at a random moment."""
    behaviour = dice.choice(["thinks", "silent", "endless"])
    engine = fake_engine.install(folder / "bin")
    mine = {"VOLLEY_ENGINE": str(engine), "VOLLEY_FAKE": behaviour, "XDG_STATE_HOME": str(folder / "state")}
    run = start([str(volley), "pingpong", "-s", "8", "--launches", "1"], mark, **mine)
    moment = dice.random() * dice.choice([0.3, 1.0, 2.0])
    time.sleep(moment)
    run.send_signal(signal.SIGINT)
    about = f"SIGINT after {moment:.3f} s, {behaviour}"
    end_of(run, about, 4 * ENDS_S)
    wait_until_gone(about, lambda: processes(mark), 0)


def interrupts(cases: int, seed: int) -> list[str]:
    """Interrupt jobs of this process, each once at a random moment; return which did not end.

    The thread that sends the signal competes with the main thread: the signal may come at any instruction of it.
    """
    failures = []
    plan = Plan(benchmark="probe", transports=[], options={})
    for number in range(cases):
        dice = random.Random(f"{seed} {number}")
        moment = 0.04 * dice.random()

        begun = time.monotonic()
        with Stop() as stop:
            thread = threading.Thread(target=_interrupt_after, args=(moment, dice))
            thread.start()
            with EngineProcess(Start("none", ("sh", "-c", TALKS), {}, os.environ), stop) as process:
                for _ in process.lines(plan):
                    pass
            thread.join()
        took_s = time.monotonic() - begun
        if stop.signal != signal.SIGINT or took_s > ENDS_S:
            failures.append(f"interrupt {number} of seed {seed} after {moment:.4f} s: {took_s:.1f} s, {stop.signal}")
    return failures


def _interrupt_after(moment_s: float, dice: random.Random) -> None:
    until = time.monotonic() + moment_s
    while time.monotonic() < until:
        time.sleep(0 if dice.random() < 0.5 else 0.001)
    os.kill(os.getpid(), signal.SIGINT)


TALKS = """
for _ in 1 2 3 4 5 6 7 8 9; do echo '{}'; sleep 0.001; done
exec sleep 45
"""
"""A job that writes records and then is silent until somebody ends it."""


def kill_one(volley: Path, folder: Path, mark: str, dice: random.Random, transport: str) -> None:
    """Start a run, kill a part of it after a random time: nothing is left, and all that was measured is shown."""
    scratch, records = folder / "scratch", folder / "records.jsonl"
    scratch.mkdir(parents=True)
    places = {"TMPDIR": str(scratch), "OMPI_MCA_btl_sm_backing_directory": str(scratch)}
    run = start([str(volley), *WORDS, transport, "-o", str(records)], mark, **places)
    moment = dice.choice([0.1, 1.0, 2.5]) * dice.random()
    time.sleep(moment)
    who = dice.choice(TARGETS)
    did = who(mark, run.pid, dice) if run.poll() is None else "nothing: it had ended"
    about = f"{did} after {moment:.3f} s"
    out, err = end_of(run, about, 60)
    files = list if who is launcher else lambda: os.listdir(scratch)  # noqa: PTH208
    wait_until_gone(about, lambda: processes(mark) or files())
    points = [json.loads(line) for line in _lines(records) if line.startswith(b'{"record":"pingpong"')]
    measured = {point["size_bytes"] for point in points}  # by any of the launches
    words = [str(volley), "show", str(records), "-f", "csv"]
    shown = subprocess.run(words, capture_output=True, text=True, check=False).stdout
    for text in (shown, *(() if run.returncode == -signal.SIGKILL else (out,))):
        if measured and len(text.splitlines()) != 1 + len(measured):
            raise Wrong(f"{about}: of {len(measured)} points {len(text.splitlines()) - 1} are shown\n{err}")


def _lines(records: Path) -> list[bytes]:
    data = records.read_bytes() if records.exists() else b""
    return data[: data.rfind(b"\n") + 1].splitlines()


HOW = {"kill": kill_one, "stop": stop_one, "interrupt": interrupt_one}


def run(volley: Path, cases: int, seed: int, how: str = "kill", at_once: int = 1, transport: str = "host") -> list[str]:
    """Kill, stop or interrupt so many runs, some at once; return what was wrong."""

    def one(number: int) -> str | None:
        dice = random.Random(f"{seed} {number}")
        with tempfile.TemporaryDirectory() as name:
            try:
                HOW[how](volley, Path(name), f"{os.getpid()}-{dice.random()}", dice, transport)
            except Wrong as problem:
                return f"{how} {number} of seed {seed}: {problem}"
        return None

    with ThreadPoolExecutor(at_once) as pool:
        return [problem for problem in pool.map(one, range(cases)) if problem]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=200)
    parser.add_argument("--how", choices=(*HOW, "signal"), default="kill")
    parser.add_argument("--at-once", type=int, default=1, help="runs at the same time: load for each other")
    parser.add_argument("--transport", default="host", help="of the runs in which a rank is stopped")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 31))
    given = parser.parse_args()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell makes what it starts with & ignore SIGINT
    if given.how == "signal":
        failures = interrupts(given.cases, given.seed)
    else:
        volley = Path(sysconfig.get_path("scripts")) / "volley"
        failures = run(volley, given.cases, given.seed, given.how, given.at_once, given.transport)
    print(f"{given.cases} killings of seed {given.seed}, {len(failures)} failures", *failures, sep="\n")
    return bool(failures)


if __name__ == "__main__":
    sys.exit(main())
