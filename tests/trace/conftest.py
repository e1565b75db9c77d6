"""A program with known MPI calls, and a trace of it."""

from pathlib import Path

import pytest

from recorded_program import build, mpirun, volley


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("program"))


@pytest.fixture(scope="session")
def known(program: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    trace = tmp_path_factory.mktemp("known") / "known.trace"
    code, _, err = volley("record", "-o", str(trace), "--", *mpirun(2, program, "known"))
    assert code == 0, err
    assert f"volley explain {trace}" in err
    assert not Path(f"{trace}.ranks").exists()
    return trace
