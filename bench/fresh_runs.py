"""Fresh runs of volley, one after the other, for the coverage of what they print: ``results/MACHINE/runs*.jsonl.gz``.

    python bench/fresh_runs.py RECORDS.jsonl.gz [--budget SECONDS]

The protocol, fixed before a machine is seen:

- ``RUNS`` runs of ``volley pingpong --sizes 8,64Ki,1Mi,64Mi --budget SECONDS`` with nothing between them.  Each is one
  command, started anew.  ``--budget`` is the time of each; without it a run takes up to 15 s.
- Every run counts.  One that fails ends the program, and the records so far are kept.
- The interval of a run at a size holds if the median over the launches of all runs lies in it.  A run with too few
  launches for an interval (two) does not hold.
- Asked are 93 to 99 % of all intervals, and 90 % of those of each size.
- Besides, so that a drift of the machine can be told from a wrong estimator: how many hold the median over the launches
  of their neighbours, two runs before and two behind.

``make coverage`` makes the table from the records; this program prints it at the end.
"""

import argparse
import gzip
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from coverage import REAL_HEAD, real_lines, real_runs

RUNS = 30
SIZES = "8,64Ki,1Mi,64Mi"
BUDGET_S = 8.0
"""Enough for twelve launches where MPI starts quickly, for four where that takes more than a second."""
COMMAND = (sys.executable, "-m", "volley", "pingpong", "--sizes", SIZES, "--format", "json")


def main(arguments: Sequence[str] | None = None) -> int:
    """Make the runs, keep their records, and print how often their intervals held."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("records", type=Path, help="file for the records of all runs (.jsonl.gz)")
    parser.add_argument("--budget", type=float, default=BUDGET_S, help="seconds of each run")
    options = parser.parse_args(arguments)
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder, gzip.open(options.records, "wb") as kept:
        one = Path(folder) / "run.jsonl"
        command = [*COMMAND, "--budget", f"{options.budget:g}", "--output", str(one)]
        for number in range(1, RUNS + 1):
            one.unlink(missing_ok=True)
            ended = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
            if ended.returncode != 0:
                print(f"run {number} ended with {ended.returncode}:\n{ended.stderr}", file=sys.stderr)
                return 1
            kept.write(one.read_bytes())
            load = " ".join(f"{each:.2f}" for each in os.getloadavg())
            print(f"run {number} of {RUNS}: {time.monotonic() - began:.0f} s, load {load}", flush=True)
    print("\n".join((*REAL_HEAD, *real_lines(real_runs(options.records)))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
