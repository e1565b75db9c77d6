"""``volley env``: a shell that evaluated its lines compiles and starts one's own programs."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from the_command import program
from volley.machine import mpi_choice
from volley.machine.mpi_stack import UCX_LIBRARIES, UCX_MCA, MpiAbout, Stack
from volley.setup import shell

ODD = 'it\'s a "new" $HOME'
"""A folder's name that a shell changes where it is not quoted."""


def evaluated(lines: str, environment: Mapping[str, str], times: int = 1) -> dict[str, str]:
    """Return the variables of a shell after it evaluated the lines."""
    script = 'eval "$1"; ' * times + "env -0"
    done = subprocess.run(["sh", "-c", script, "sh", lines], env=environment, capture_output=True, check=True)
    return dict(entry.split("=", 1) for entry in done.stdout.decode().split("\0") if entry)


@pytest.fixture
def odd(tmp_path: Path) -> Path:
    """An MPI of PyPI, a UCX with CUDA and the CUDA compiler of wheels, in a folder with an odd name."""
    folder = tmp_path / ODD
    for name in (
        "mpi/bin/mpirun",
        "cu13/bin/nvcc",
        "cu13/lib/libcudart_static.a",
        *(f"ucx/{n}" for n in UCX_LIBRARIES),
    ):
        program(folder / name)
    return folder


def lines_of(
    odd: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], path: str = os.defpath
) -> str:
    """Return what volley env prints with the real Open MPI and engine, and the wheels of ``odd``."""
    installed = {"libucx-cu13": odd / "ucx", "nvidia-cuda-nvcc": odd / "cu13"}
    monkeypatch.setattr(shell, "has_driver", lambda: True)
    monkeypatch.setattr("volley.machine.mpi_stack.has_driver", lambda: True)

    def installed_file(wheel: str, ending: str) -> str | None:
        return f"{installed[wheel]}/{ending.lstrip('/')}" if wheel in installed else None

    monkeypatch.setattr(mpi_choice, "installed_file", installed_file)
    monkeypatch.setattr(shell, "installed_file", installed_file)
    options = shell.EnvOptions(job=shell.JobOptions(mpi="wheel"))
    assert shell.run(options, {"PATH": path}) == 0
    return capsys.readouterr().out


def test_a_shell_gets_programs_libraries_and_settings(
    odd: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = lines_of(odd, monkeypatch, capsys)
    found = evaluated(lines, {"PATH": os.defpath, "LD_LIBRARY_PATH": "/own"})
    mpi, nvcc, *others, own = found["PATH"].split(":")
    assert (Path(mpi) / "mpirun").exists()
    assert nvcc == str(odd / "cu13/bin")
    assert ":".join(others) == os.defpath
    assert (Path(own) / "python").exists(), "volley's folder comes last"
    assert found["LD_LIBRARY_PATH"] == f"{odd}/ucx:/own"
    assert found["LIBRARY_PATH"] == f"{odd}/cu13/lib"
    assert {name: found[f"OMPI_MCA_{name}"] for name in UCX_MCA} == UCX_MCA


def test_without_quotes_and_twice_the_lines_mean_the_same(
    odd: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = lines_of(odd, monkeypatch, capsys)
    once = evaluated(lines, {"PATH": os.defpath})
    assert evaluated(lines.replace("\n", " "), {"PATH": os.defpath}) == once
    assert "::" not in evaluated(lines, {"PATH": os.defpath}, times=2)["PATH"]


def test_a_toolkit_of_the_machine_needs_no_flag_and_a_link_to_it_is_followed(
    tmp_path: Path, odd: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    real = program(tmp_path / "toolkit/bin/nvcc")
    (tmp_path / "links").mkdir()
    (tmp_path / "links/nvcc").symlink_to(real)
    lines = lines_of(odd, monkeypatch, capsys, path=f"{tmp_path}/links")
    found = evaluated(lines, {"PATH": os.defpath})
    assert str(real.parent) in found["PATH"].split(":")
    assert "LIBRARY_PATH" not in found


def test_where_nvcc_is_missing_a_sentence_says_where_it_comes_from(
    odd: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(shell, "has_driver", lambda: True)
    monkeypatch.setattr(shell, "_nvcc", lambda _environment: None)
    assert shell.run(shell.EnvOptions(job=shell.JobOptions(mpi="wheel")), {}) == 0
    out, error = capsys.readouterr()
    assert "there is no nvcc" in error
    assert "nvcc" not in out


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize(("family", "told"), [("mpich", ["mpicc.mpich", "mpirun.mpich"]), ("openmpi", [])])
def test_the_names_of_the_mpi_are_said_and_the_path_changes_only_where_these_are_not_first(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    family: str,
    told: list[str],
    *,
    first: bool,
) -> None:
    """Debian has both MPIs in /usr/bin."""
    folder = tmp_path / "usr/bin"
    for name, target in {"mpicc": "opal_wrapper", "mpirun": "orterun"}.items():
        program(folder / target)
        program(folder / f"{name}.mpich")
        (folder / f"{name}.openmpi").symlink_to(target)
        (folder / name).symlink_to(f"{name}.openmpi")
    program(folder / "mpiexec.hydra")
    mpiexec = folder / ("mpirun" if family == "openmpi" else "mpiexec.hydra")
    about = MpiAbout({"openmpi": "Open MPI v4.1", "mpich": "MPICH 4.0"}[family], "3.1", "")
    monkeypatch.setattr(shell, "assemble", lambda *_: Stack(about, mpiexec=mpiexec))
    searched = f"/own:{folder if first else tmp_path}:{os.defpath}:{Path(sys.executable).parent}"
    assert shell.run(shell.EnvOptions(job=shell.JobOptions(mpi="wheel")), {"PATH": searched}) == 0
    out, error = capsys.readouterr()
    assert [line.rpartition(" ")[2] for line in error.splitlines() if "another MPI's" in line] == told
    assert evaluated(out, {"PATH": searched})["PATH"] == (searched if first else f"{folder}:{searched}")
