"""Find the engine.

This module imports only ``os`` and light modules at the top: a rank that execs the engine loads it first, and every
millisecond is start-up time of the job.
"""

# pathlib takes longer to import than all of this
# ruff: noqa: PTH100, PTH113, PTH118, PTH120

from __future__ import annotations

import os

from volley.errors import MachineError, UserError
from volley.machine.mpi_choice import installed_file

VARIABLE = "VOLLEY_ENGINE"
DISTRIBUTION = "volley-bench"
NAME = "volley-engine"


def engine_path() -> str:
    """Return the path of the engine.

    The order is: the environment variable ``VOLLEY_ENGINE``; the ``bin`` folder of this package, where a wheel installs
    the engine; the list of installed files, because in an editable install this file is in ``src/`` and the engine is
    in ``site-packages``.
    """
    chosen = os.environ.get(VARIABLE)
    if chosen:
        if not _is_program(chosen):
            raise UserError(f"{VARIABLE}={chosen} is not a program; set it to the path of a {NAME}, or unset it")
        return os.path.abspath(chosen)
    beside = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "bin", NAME)
    found = beside if _is_program(beside) else installed_file(DISTRIBUTION, f"volley/bin/{NAME}")
    if found is None:
        from volley.machine.packages import install_command  # noqa: PLC0415  start-up: only if the engine is missing

        raise MachineError(f"the engine is not built: {install_command()}")
    return found


def _is_program(path: str) -> bool:
    return os.path.isfile(path) and os.access(path, os.X_OK)
