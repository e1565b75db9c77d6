"""Memory of the ranks of a matrix: what every rank but the first holds, from 2 ranks to 64 on one node."""

import subprocess
import tempfile
import time
from itertools import pairwise
from pathlib import Path

from comparisons import MIB, Finding
from programs import LAUNCH_TIMEOUT_S, VOLLEY, Bench, BenchError, high_water

from volley.benchmarks import BENCHMARKS
from volley.launch import engine
from volley.records.record_types import Run
from volley.records.records_file import LineReader
from volley.statistics.estimates import estimate

RANKS = (2, 4, 8, 16, 32, 64)
POLL_S = 0.02


def matrix_memory(_bench: Bench, _launches: int | None) -> list[Finding]:
    """Let all ranks meet all others, briefly, and watch what they hold."""
    peaks = {ranks: peak(ranks) for ranks in RANKS}
    found: list[Finding] = []
    for ranks, (_, others) in peaks.items():
        what = f"peak memory of a rank of a matrix of {ranks} ranks: the fullest but the first"
        found.append(Finding(what, estimate([others / MIB]), "MiB", "–"))
    for fewer, more in pairwise(RANKS):
        what = f"the same, what a rank more costs each, from {fewer} to {more}"
        grown = (peaks[more][1] - peaks[fewer][1]) / (more - fewer)
        found.append(Finding(what, estimate([grown / 1024]), "KiB", "not growing"))
    first, others = peaks[RANKS[-1]]
    what = f"the first of {RANKS[-1]} ranks, over the fullest other one"
    found.append(Finding(what, estimate([(first - others) / MIB]), "MiB", "–"))
    return found


def peak(ranks: int) -> tuple[int, int]:
    """Return the bytes that the first rank and the fullest of the others ever had in memory."""
    with tempfile.TemporaryDirectory() as folder:
        records = Path(folder, "matrix.jsonl")
        visits = 1 + 1000 // ranks**2  # so many that the ranks are seen
        words = f"-n {ranks} --visits {visits} --latency 8 --bandwidth none --iterations 1 --warmup 0 --no-remeasure"
        tokens = [*VOLLEY, "matrix", *words.split(), "--budget", str(LAUNCH_TIMEOUT_S), "-o", str(records)]
        pids: list[int] = []
        held: dict[int, int] = {}
        said = Path(folder, "stderr")
        with said.open("wb") as stderr, subprocess.Popen(tokens, stdout=subprocess.DEVNULL, stderr=stderr) as process:
            while process.poll() is None:
                pids = pids or _pids(records)
                held.update({pid: max(held.get(pid, 0), high_water(pid)) for pid in pids})
                time.sleep(POLL_S)
        if process.returncode != 0 or not min(held.values(), default=0):
            raise BenchError(f"volley matrix ended with status {process.returncode}: {engine.clean(said.read_bytes())}")
    return held[pids[0]], max(held[pid] for pid in pids[1:])


def _pids(records: Path) -> list[int]:
    """The processes of the ranks, in their order; none as long as the run record is not written."""
    line, end, _ = records.read_bytes().partition(b"\n") if records.exists() else (b"", b"", b"")
    run = LineReader(BENCHMARKS)(line) if end else None
    return [rank.pid for rank in run.ranks] if isinstance(run, Run) else []
