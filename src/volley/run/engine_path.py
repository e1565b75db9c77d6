"""Where the engine is.

Nothing but ``os`` is imported here at the top: a rank that only makes way for the engine passes through this module,
and every millisecond of it is start-up time of the job.
"""

# pathlib takes longer to import than all of this
# ruff: noqa: PTH100, PTH113, PTH118, PTH120

from __future__ import annotations

import os

from volley.errors import MachineError, UserError
from volley.machine.installed import PACKAGE, installed_file

VARIABLE = "VOLLEY_ENGINE"
DISTRIBUTION = "volley-bench"
NAME = "volley-engine"
LOCAL_NAME = "volley-engine-local"
"""The engine's other program, for the GPUs of one machine: it needs no MPI.  It lies beside the first."""


def engine_path() -> str:
    """Return the path of the engine.

    The environment variable ``VOLLEY_ENGINE`` wins.  Then comes the ``bin`` folder of this package, where a wheel puts
    the engine, and then the list of installed files: in an editable install this file lies in ``src/`` and the engine
    in ``site-packages``.

    Raises:
        UserError: if ``VOLLEY_ENGINE`` names no program.
        MachineError: if there is no engine.
    """
    chosen = os.environ.get(VARIABLE)
    if chosen:
        if not _is_program(chosen):
            raise UserError(f"{VARIABLE}={chosen} is no program; set it to the path of a {NAME}, or unset it")
        return os.path.abspath(chosen)
    beside = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "bin", NAME)
    found = beside if _is_program(beside) else _installed()
    if found is None:
        raise MachineError(f"the engine is not built: {_install()}")
    return found


def local_engine_path() -> str:
    """Return the path of the engine that has all GPUs of a machine.

    Raises:
        UserError: if ``VOLLEY_ENGINE`` names no program.
        MachineError: if there is no engine, or the other one alone.
    """
    path = os.path.join(os.path.dirname(engine_path()), LOCAL_NAME)
    if not _is_program(path):
        how = f"point {VARIABLE} to an engine that has both" if os.environ.get(VARIABLE) else _install()
        raise MachineError(f"there is no program {path}, which measures between GPUs: {how}")
    return path


def _install() -> str:
    from volley.machine.origin import install_command  # noqa: PLC0415  start-up: only where the engine is missing

    return install_command()


def _is_program(path: str) -> bool:
    return os.path.isfile(path) and os.access(path, os.X_OK)


def _installed() -> str | None:
    """Look for the engine among the files that the distribution installed."""
    return installed_file(DISTRIBUTION, f"{PACKAGE}/bin/{NAME}")
