"""A stand-in for the engine: keeps its contract on the command line, measures nothing, and misbehaves on request.

``VOLLEY_FAKE`` names what it does.  ``install`` puts it into a folder with build facts and an mpirun that starts it.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from pathlib import Path

ABOUT = {
    "version": "0.1.0",
    "mpi_built": "Open MPI 5.0.11",
    "cuda_built": None,
    "cuda_architectures": [],
    "transports": [
        {"name": name, "summary": f"example of {name}", "mpi": mpi, "memory": memory, "usual": usual}
        for name, mpi, memory, usual in (
            ("host", True, "host", True),
            ("host/put", True, "host", False),
            ("host/put/fence", True, "host", False),
            ("null", False, "none", False),
            ("staged/pinned", True, "device", True),
            ("staged/shared", False, "device", True),
        )
    ],
    "faults": [{"name": "flip", "summary": "example of a fault"}],
}
FACTS = {"mpi_family": "openmpi", "mpi_version": "5.0.11", "mpi_source": "system", "cuda_version": None}
MPIRUN = """#!/bin/sh
printf '%s ' "$@" >"$(dirname "$0")/started"
env >"$(dirname "$0")/environment"
while [ $# -gt 0 ]; do
  case "$1" in */volley-engine) exec "$@" ;; esac
  shift
done
"""


def install(folder: Path, **facts: object) -> Path:
    """Make ``folder`` hold an engine's two programs, its build facts and its mpirun; return the first."""
    folder.mkdir(parents=True, exist_ok=True)
    search = [str(Path(__file__).parent), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    engine, local, mpirun = folder / "volley-engine", folder / "volley-engine-local", folder / "mpirun"
    source = f"#!{sys.executable}\nimport sys\nsys.path[:0] = {search!r}\nimport fake_engine\nfake_engine.main()\n"
    for program in (engine, local):
        program.write_text(source, encoding="utf-8")
    mpirun.write_text(MPIRUN, encoding="utf-8")
    for program in (engine, local, mpirun):
        program.chmod(0o755)
    (folder / "build.json").write_text(json.dumps({**FACTS, "mpiexec": str(mpirun), **facts}), encoding="utf-8")
    return engine


def main() -> None:
    arguments = sys.argv[1:]
    behaviour = os.environ.get("VOLLEY_FAKE", "good")
    if behaviour == "broken":
        said = "error while loading shared libraries: libmpi.so.40: cannot open shared object file"
        sys.stderr.write(f"{sys.argv[0]}: {said}\n")
        sys.exit(127)  # the loader's
    # A test limits the size of files.
    with contextlib.suppress(OSError), (Path(sys.argv[0]).parent / "starts").open("a", encoding="utf-8") as starts:
        starts.write(json.dumps([Path(sys.argv[0]).name, *arguments, dict(os.environ)]) + "\n")
    if arguments == ["--about"]:
        if behaviour == "thinks":
            (Path(sys.argv[0]).parent / "asked").touch()
            time.sleep(600)
        print(json.dumps(ABOUT))
        return
    if "--follower" in arguments:
        sys.stderr.write(f"following with {arguments}\n")
        return
    (Path(sys.argv[0]).parent / "joined").write_text(" ".join(arguments), encoding="utf-8")
    if os.devnull in arguments:
        sys.exit(2)
    import fake_behaviours  # noqa: PLC0415  volley takes half a second to load, and --about does not need it

    fake_behaviours.behave(behaviour)
