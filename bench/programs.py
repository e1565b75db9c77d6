"""Launching the engine and the comparison programs alike, and reading what they measured.

Both are started by the command line that ``volley pingpong --dry-run`` shows, the engine's words replaced by those of
the other program: the mpirun of the same MPI with the same flags.  The engine binds its own ranks; the comparison
programs are bound by ``on_cores.sh`` to the cores that the engine's run record names, and say themselves where they
ran: another place is an error.
"""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from volley.benchmarks import BENCHMARKS
from volley.benchmarks.matrix.records import RankMatrixPlan
from volley.benchmarks.pair.results import PingPongPlan
from volley.benchmarks.points.records import PointRecord
from volley.launch import engine
from volley.launch.launchers import PAIR
from volley.records.plan import Plan, Sampling
from volley.records.record_types import Run
from volley.records.records_file import parse_runs
from volley.records.run_log import RunLog
from volley.statistics.estimates import median

HERE = Path(__file__).parent
PEERS = ("tutorial", "plain_loops", "peer_latency", "peer_bandwidth")
LAUNCH_TIMEOUT_S = 600
POLL_S = 0.01
VOLLEY = (sys.executable, "-m", "volley")
ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
TUTORIAL_LINE = re.compile(r"Transfer size \(B\):\s*(\d+), Transfer Time \(s\):\s*([\d.]+),")


class BenchError(Exception):
    """The benchmark cannot go on; the message says why."""


@dataclass(frozen=True)
class Launch:
    """What came of one launch."""

    wall_s: float
    """From starting mpirun to its end."""
    seconds: dict[int, float]
    """Message size in bytes → what the program measures (half round trip, or window), its median where it says more."""
    lines: list[dict[str, Any]] = field(default_factory=list)
    """A comparison program's own lines."""
    log: RunLog | None = None
    """The engine's records."""


@dataclass(frozen=True)
class Starter:
    """How volley starts a job here."""

    environment: dict[str, str]
    """Variables added for the launcher."""
    words: tuple[str, ...]
    """The launcher and its words."""
    engine: tuple[str, ...]
    """The engine and its words."""

    def start(self, tokens: Sequence[str], stdin: int) -> subprocess.Popen[bytes]:
        """Start a job of the same kind of another program."""
        environment, pipe = {**os.environ, **self.environment}, subprocess.PIPE
        return subprocess.Popen([*self.words, *tokens], env=environment, stdin=stdin, stdout=pipe, stderr=pipe)

    def volley(self, plan: Plan) -> Launch:
        """Launch the engine with a plan; a point that is not ``ok`` is an error."""
        started = time.perf_counter()
        output = _finish(self.start(self.engine, subprocess.PIPE), "volley-engine", msgspec.json.encode(plan) + b"\n")
        wall_s = time.perf_counter() - started
        (log,) = parse_runs(output, BENCHMARKS)
        bad = [status for status in log.statuses if status != "ok"]
        if bad or not log.complete:
            raise BenchError(f"the engine's run is not good: {bad[0] if bad else log.problems}")
        return Launch(wall_s, _medians((p.size_bytes, median(p.times_s)) for p in log.of(PointRecord)), log=log)


@dataclass(frozen=True)
class Bench:
    """The programs, ready to launch."""

    starter: Starter
    peers: Path
    run: Run
    """The engine's account of the machine, from a launch made for that."""

    @property
    def rank_cores(self) -> list[list[int]]:
        """Logical CPUs of each rank."""
        return [list(rank.cores) for rank in self.run.ranks]

    def start_up(self) -> float:
        """Seconds of the shortest measurement there is, through the front as a user starts it."""
        options = ["--transport", "host", "--sizes", "8", "--warmup", "5", "--iterations", "50", "--format", "json"]
        tokens = [*VOLLEY, "pingpong", *options, "-o", str(self.peers / "start-up.jsonl"), "--force"]
        started = time.perf_counter()
        done = subprocess.run(tokens, capture_output=True, timeout=LAUNCH_TIMEOUT_S, check=False)
        wall_s = time.perf_counter() - started
        if done.returncode != 0:
            raise BenchError(f"volley ended with status {done.returncode}: {engine.clean(done.stderr)}")
        return wall_s

    def peak_memory(self, plan: Plan) -> int:
        """Bytes that the fullest rank of a run ever had in memory: VmHWM of /proc/PID/status, read until it ends."""
        document = msgspec.json.encode(plan) + b"\n"
        with self.starter.start(self.starter.engine, subprocess.PIPE) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(document)
            process.stdin.flush()
            run = msgspec.json.decode(process.stdout.readline(), type=Run)
            peak = 0
            while process.poll() is None:
                peak = max([peak, *(high_water(rank.pid) for rank in run.ranks)])
                time.sleep(POLL_S)
            (log,) = parse_runs(msgspec.json.encode(run) + b"\n" + process.stdout.read(), BENCHMARKS)
        if log.end is None or log.end.status != "complete":
            raise BenchError(f"the engine's run is not good: {log.end or log.problems}")
        return peak

    def volley(self, plan: Plan) -> Launch:
        """Launch the engine with a plan."""
        return self.starter.volley(plan)

    def peer(self, name: str, *options: str, sizes: Iterable[int] = ()) -> Launch:
        """Launch a comparison program on the engine's cores."""
        output, wall_s = self._on_cores(name, *options, *map(str, sizes))
        announced, *lines = [json.loads(line) for line in output.splitlines() if line.startswith(b"{")]
        if announced["cores"] != self.rank_cores:
            raise BenchError(f"{name} ran on cores {announced['cores']}, the engine on {self.rank_cores}")
        return Launch(wall_s, _medians((line["size_bytes"], _value(line)) for line in lines), lines)

    def example(self, name: str, largest_bytes: int) -> Launch:
        """Launch a program of examples/ on the engine's cores; it prints the tutorial's lines."""
        output, wall_s = self._on_cores(name, str(largest_bytes))
        return Launch(wall_s, {int(size): float(seconds) for size, seconds in TUTORIAL_LINE.findall(output.decode())})

    def _on_cores(self, name: str, *words: str) -> tuple[bytes, float]:
        places = " ".join(",".join(map(str, each)) for each in self.rank_cores)
        tokens = (str(HERE / "on_cores.sh"), places, str(self.peers / name), *words)
        started = time.perf_counter()
        output = _finish(self.starter.start(tokens, subprocess.DEVNULL), name)
        return output, time.perf_counter() - started


def prepare(folder: Path) -> Bench:
    """Build the comparison programs into ``folder`` and ask the engine about the machine."""
    starter = read_starter()
    build_peers(Path(starter.words[0]), folder)
    return Bench(starter, folder, account(starter))


def read_starter(ranks: int = PAIR) -> Starter:
    """Ask volley how it starts a job of so many ranks."""
    asked = ("pingpong",) if ranks == PAIR else ("matrix", "--transport", "all", "--ranks", str(ranks))
    done = subprocess.run([*VOLLEY, *asked, "--dry-run"], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise BenchError(f"volley cannot start a job here: {done.stderr.strip()}")
    return starter_in(done.stderr)


def starter_in(said: str) -> Starter:
    """Return how volley starts a job, from what ``--dry-run`` prints on standard error."""
    words = shlex.split(said.strip().splitlines()[-1])
    start = next(index for index, word in enumerate(words) if not ASSIGNMENT.match(word))
    program = words.index("--mpi-library") - 1
    environment = dict(word.split("=", 1) for word in words[:start])
    return Starter(environment, tuple(words[start:program]), tuple(words[program:]))


def account(starter: Starter, ranks: int = PAIR) -> Run:
    """Launch so many ranks for what they say of the machine."""
    once = Sampling(mode="fixed", warmup=0, iterations=1)
    if ranks == PAIR:
        plan = Plan(benchmark="pingpong", transports=["null"], options=PingPongPlan(sizes_bytes=[8]), sampling=once)
    else:
        one = RankMatrixPlan(latency_sizes_bytes=[8], pairs=[(0, 1)])
        plan = Plan(benchmark="rank_matrix", world_size=ranks, transports=["null"], options=one, sampling=once)
    log = starter.volley(plan).log
    if log is None or log.run is None:
        raise BenchError("the engine did not say what it sees of the machine")
    return log.run


def build_peers(mpirun: Path, folder: Path) -> None:
    """Compile the comparison programs with the mpicc beside that mpirun, as optimised as the engine."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in PEERS:
        compile_c(mpirun, HERE / f"{name}.c", folder / name)


def compile_c(mpirun: Path, source: Path, program: Path) -> None:
    """Compile a C program with the mpicc beside that mpirun."""
    tokens = [beside(mpirun, "mpicc"), "-std=gnu17", "-O3", "-Wall", "-Wextra"]
    subprocess.run([*tokens, "-o", str(program), str(source)], check=True)


def compile_cuda(mpirun: Path, source: Path, program: Path) -> None:
    """Compile a CUDA program with an nvcc and the mpicxx beside that mpirun.

    Raises:
        BenchError: if there is no nvcc, neither on PATH nor in the environment that builds volley.
    """
    wheels = (HERE.parent / "build/env").glob("lib/python3*/site-packages/nvidia/cu*/bin/nvcc")
    nvcc = shutil.which("nvcc") or next(iter(sorted(map(str, wheels))), None)
    if nvcc is None:
        raise BenchError("there is no nvcc on PATH or in build/env")
    libraries = Path(nvcc).parents[1] / "lib"  # where the wheels have the runtime, and nvcc 13.0 does not look
    tokens = [nvcc, "-ccbin", beside(mpirun, "mpicxx"), "-O3", f"-L{libraries}"]
    subprocess.run([*tokens, "-o", str(program), str(source)], check=True)


def beside(mpirun: Path, name: str) -> str:
    """Return the program of that name of the same MPI: mpirun → mpicc, and Debian's mpirun.openmpi → mpicc.openmpi."""
    kind, dot, flavour = mpirun.name.partition(".")
    if kind not in ("mpirun", "mpiexec"):
        raise BenchError(f"volley starts its jobs with {mpirun} here, which tells nothing about the MPI: no {name}")
    return str(mpirun.with_name(name + dot + flavour))


def _finish(process: subprocess.Popen[bytes], name: str, stdin: bytes | None = None) -> bytes:
    with process:
        try:
            output, errors = process.communicate(stdin, timeout=LAUNCH_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            raise BenchError(f"{name} took longer than {LAUNCH_TIMEOUT_S} s") from None
    if process.returncode != 0:
        raise BenchError(f"{name} ended with status {process.returncode}: {engine.clean(errors)}")
    return output


def high_water(pid: int) -> int:
    """Most bytes that a process had in memory so far; 0 once it has ended."""
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace")
    except OSError:
        return 0
    found = [line.split() for line in status.splitlines() if line.startswith("VmHWM:")]
    return int(found[0][1]) * 1024 if found else 0


def _value(line: Mapping[str, Any]) -> float:
    return float(line["half_round_trip_s" if line["record"] == "pingpong" else "window_s"])


def _medians(pairs: Iterable[tuple[int, float]]) -> dict[int, float]:
    """Where a size was measured several times in a launch, the launch's value is the median."""
    found: dict[int, list[float]] = {}
    for size, value in pairs:
        found.setdefault(size, []).append(value)
    return {size: median(values) for size, values in found.items()}
