"""Killings at random moments: nothing outlives a run of volley, and all that it measured is shown.

``python tests/killings.py --cases 200`` does that with the installed ``volley`` (``make fuzz``); tests/test_killings.py
does a few.  All processes of a run inherit a variable, by which they are found.  Only a launcher that was killed itself
leaves temporary files: those in which its ranks shared memory.

``--how stop`` stops a rank (SIGSTOP): its job ends by itself within ``STOPPED_S``, and then the run.
``--how interrupt`` sends one SIGINT to a run of a stand-in for the engine that never ends, and ``--how signal`` to this
process while it runs a job.
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
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
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
WORDS_OF_STOP = ("--launches", "3", "--watchdog", "5")


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


def stopped_rank(mark: str, dice: random.Random) -> int | None:
    """Stop a rank of a run; return its process number, ``None`` if there is no rank."""
    ranks = [pid for pid, name in processes(mark).items() if name == "volley-engine"]
    if not ranks:
        return None
    os.kill(rank := dice.choice(ranks), signal.SIGSTOP)
    return rank


def interrupt(mark: str, volley: int, dice: random.Random) -> str:
    os.kill(volley, signal.SIGINT)
    return "SIGINT to the front end"


def _kill_one(mark: str, volley: int, program: str, number: signal.Signals) -> str:
    for pid, name in processes(mark).items():
        if name == program and pid != volley:
            os.kill(pid, number)
            return f"{number.name} to {program}"
    os.kill(volley, signal.SIGKILL)
    return f"SIGKILL to the front end: there was no {program} yet"


TARGETS: tuple[Callable[[str, int, random.Random], str], ...] = (front, front, launcher, rank)


def stop_one(command: list[str], folder: Path, dice: random.Random, run_s: float) -> tuple[str | None, float]:
    """Start a run that takes about ``run_s`` and stop a rank at a random moment of it.

    Returns:
        What is wrong, and the time until the end in s; 0 if the run had ended before.
    """
    mark = f"{os.getpid()}-{dice.random()}"
    environment = {**os.environ, MARK: mark}
    command = [*command, "-o", str(folder / "records.jsonl")]
    run = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    moment = dice.random() * run_s
    until = time.monotonic() + moment
    while time.monotonic() < until or (rank := stopped_rank(mark, dice)) is None:
        if run.poll() is not None:
            break
        time.sleep(0.01)
    else:
        return _after_stop(run, mark, rank, moment)
    _, err = run.communicate()
    return (None if run.returncode == 0 else f"exit code {run.returncode} without a stop\n{err}"), 0.0


def _after_stop(run: subprocess.Popen[str], mark: str, rank: int, moment: float) -> tuple[str | None, float]:
    """Wait until the stopped rank is gone, and for the end of the run: it may have launches left."""
    stopped, took_s = time.monotonic(), 0.0
    while rank in processes(mark) and (took_s := time.monotonic() - stopped) < 10 * STOPPED_S:
        time.sleep(0.05)
    try:
        _, err = run.communicate(timeout=10 * STOPPED_S)
    except subprocess.TimeoutExpired:
        run.kill()
        return f"SIGSTOP after {moment:.3f} s: the run had not ended {10 * STOPPED_S:g} s later", took_s
    about = f"SIGSTOP after {moment:.3f} s; the rank was gone after {took_s:.1f} s, exit code {run.returncode}"
    if left := processes(mark):
        return f"{about}: {left} outlived it\n{err}", took_s
    if "Traceback" in err or took_s > STOPPED_S:
        return f"{about}:\n{err}", took_s
    return None, took_s


def interrupt_one(volley: Path, engine: Path, folder: Path, dice: random.Random) -> str | None:
    """Start a run of an engine that never ends, and interrupt it once at a random moment; return what is wrong."""
    mark = f"{os.getpid()}-{dice.random()}"
    behaviour = dice.choice(["thinks", "silent", "endless"])
    mine = {MARK: mark, "VOLLEY_ENGINE": str(engine), "VOLLEY_FAKE": behaviour, "XDG_STATE_HOME": str(folder)}
    command = [str(volley), "pingpong", "-s", "8", "--launches", "1"]
    run = subprocess.Popen(
        command, env={**os.environ, **mine}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    moment = dice.random() * dice.choice([0.3, 1.0, 2.0])
    time.sleep(moment)
    interrupt(mark, run.pid, dice)
    about = f"SIGINT after {moment:.3f} s, {behaviour}"
    try:
        _, err = run.communicate(timeout=4 * ENDS_S)
    except subprocess.TimeoutExpired:
        run.kill()
        return f"{about}: it had not ended {4 * ENDS_S:g} s later"
    if "Traceback" in err and "/volley/" in err:  # before volley's first module, Python itself answers Ctrl-C
        return f"{about}; exit code {run.returncode}:\n{err}"
    left = processes(mark)
    return f"{about}: {left} outlived it" if left else None


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


def kill_one(volley: Path, folder: Path, dice: random.Random) -> str | None:
    """Start a run, kill a part of it after a random time; return what is wrong afterwards."""
    mark = f"{os.getpid()}-{dice.random()}"
    scratch, records = folder / "scratch", folder / "records.jsonl"
    scratch.mkdir(parents=True)
    places = {"TMPDIR": str(scratch), "OMPI_MCA_btl_sm_backing_directory": str(scratch)}
    environment = {**os.environ, MARK: mark, **places}
    command = [str(volley), *WORDS, "host", "-o", str(records)]
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


def run(
    volley: Path, cases: int, seed: int, how: str = "kill", at_once: int = 1, transports: str = "host"
) -> list[str]:
    """Kill, stop or interrupt so many runs, some at once; return what was wrong."""
    times_s: list[float] = []
    run_s = 0.0
    stopped = [str(volley), *WORDS, transports, *WORDS_OF_STOP]
    if how == "stop":
        begun = time.monotonic()
        subprocess.run(stopped, stdout=subprocess.DEVNULL, check=True)
        run_s = time.monotonic() - begun

    def one(number: int) -> str | None:
        dice = random.Random(f"{seed} {number}")
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            if how == "stop":
                problem, took_s = stop_one(stopped, folder, dice, run_s)
                times_s.append(took_s)
                print(f"{took_s:.1f} s {problem or ''}", flush=True)
            elif how == "interrupt":
                problem = interrupt_one(volley, fake_engine.install(folder / "bin"), folder / "state", dice)
            else:
                problem = kill_one(volley, folder, dice)
        return problem and f"{how} {number} of seed {seed}: {problem}"

    with ThreadPoolExecutor(at_once) as pool:
        failures = [problem for problem in pool.map(one, range(cases)) if problem]
    if ended := sorted(took_s for took_s in times_s if took_s):
        print(f"{len(ended)} ranks stopped; gone after", *(f"{each:.1f}" for each in ended), "s")
    return failures


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=200)
    parser.add_argument("--how", choices=("kill", "stop", "interrupt", "signal"), default="kill")
    parser.add_argument("--at-once", type=int, default=1, help="runs at the same time: load for each other")
    parser.add_argument("--transport", default="host", help="of the runs in which a rank is stopped")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 31))
    given = parser.parse_args()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell makes what it starts with & ignore SIGINT
    if given.how == "signal":
        failures = interrupts(given.cases, given.seed)
    else:
        failures = run(
            Path(sysconfig.get_path("scripts")) / "volley",
            given.cases,
            given.seed,
            given.how,
            given.at_once,
            given.transport,
        )
    print(f"{given.cases} killings of seed {given.seed}, {len(failures)} failures", *failures, sep="\n")
    return bool(failures)


if __name__ == "__main__":
    sys.exit(main())
