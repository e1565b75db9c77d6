"""A stand-in for the engine: keeps its contract on the command line, measures nothing, and misbehaves on request.

``VOLLEY_FAKE`` names what it does.  ``install`` puts it into a folder with an mpirun that starts it.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest import MonkeyPatch  # noqa: PT013  the stand-in itself does not need it

ABOUT = {
    "version": "0.1.0",
    "mpi": {"library": "Open MPI v5.0.11", "standard": "3.1", "interface": "libmpi.so.40"},
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
MPIRUN = """#!/bin/sh
printf '%s ' "$@" >"$(dirname "$0")/started"
env >"$(dirname "$0")/environment"
while [ $# -gt 0 ]; do
  case "$1" in */volley-engine) exec "$@" ;; esac
  shift
done
"""


def install(folder: Path, **about: object) -> Path:
    """Make ``folder`` hold an engine, what it says of itself and an mpirun; return the engine.

    With ``folder`` on PATH, that mpirun is of an Open MPI, whose library is in ``lib`` beside it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    search = [str(Path(__file__).parent), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    engine, mpirun = folder / "volley-engine", folder / "mpirun"
    source = f"#!{sys.executable} -S\nimport sys\nsys.path[:0] = {search!r}\nimport fake_engine\nfake_engine.main()\n"
    engine.write_text(source, encoding="utf-8")
    mpirun.write_text(MPIRUN, encoding="utf-8")
    for program in (engine, mpirun):
        program.chmod(0o755)
    (folder / "prterun").touch()
    (folder.parent / "lib").mkdir(exist_ok=True)
    (folder.parent / "lib/libmpi.so.40").touch()
    (folder / "about.json").write_text(json.dumps({**ABOUT, **about}), encoding="utf-8")
    (folder / "records.json").write_bytes(records())
    return engine


@functools.cache
def records() -> bytes:
    """The records that fake_behaviours.py fills in."""
    import example_records as made  # noqa: PLC0415  the stand-in itself does without volley
    from volley.records.record_types import End  # noqa: PLC0415
    from volley.records.records_file import encode_line  # noqa: PLC0415

    known = {
        "run": made.run(),
        "run with GPUs": made.run(ranks=made.with_devices()),
        "transport": made.transport(),
        "pingpong": made.pingpong(),
        "rank_matrix": made.row_of(0, {1: 1e-6}, size_bytes=8),
        "end": End(status="complete", elapsed_s=0.5),
    }
    return b"{%s}" % b",".join(json.dumps(name).encode() + b":" + encode_line(each) for name, each in known.items())


def use(patch: MonkeyPatch, engine: Path) -> Path:
    """Let volley take this engine, and the mpirun in its folder."""
    patch.setenv("VOLLEY_ENGINE", str(engine))
    patch.setenv("PATH", str(engine.parent), prepend=os.pathsep)
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
    if "--about" in arguments:
        if behaviour == "thinks":
            (Path(sys.argv[0]).parent / "asked").touch()
            time.sleep(600)
        print(Path(sys.argv[0]).with_name("about.json").read_text(encoding="utf-8"))
        return
    if "--follower" in arguments:
        sys.stderr.write(f"following with {arguments}\n")
        return
    (Path(sys.argv[0]).parent / "joined").write_text(" ".join(arguments), encoding="utf-8")
    if os.devnull in arguments:
        sys.exit(2)
    import fake_behaviours  # noqa: PLC0415  --about does not need it

    fake_behaviours.behave(behaviour)
