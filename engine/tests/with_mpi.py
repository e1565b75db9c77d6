"""Starts ranks of a test with the MPI that volley would choose: ``with_mpi.py RANKS PROGRAM``.

VOLLEY_TEST_MPI takes the values of ``--mpi``.
"""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))

from volley.machine.mpi_choice import choose_mpi

ranks, program = sys.argv[1:]
mpi = choose_mpi(os.environ.get("VOLLEY_TEST_MPI", ""), os.environ)
assert mpi.launcher
os.environ["VOLLEY_MPI_LIBRARY"] = mpi.library
os.execv(mpi.launcher, [mpi.launcher, "-n", ranks, program])  # noqa: S606
