"""Which volley the tests test: the installed one of the environment that pytest runs in."""

import os
import signal
import sysconfig
import tempfile
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

import pytest
from hypothesis import settings

from fake_engine import install, use
from installations import wheel_of_mpi
from the_command import Command, Finished
from volley import cli
from volley.launch import engine as engine_module

# A machine at work is slow.
settings.register_profile("volley", deadline=None)
settings.load_profile("volley")


#: Fixtures that take long: another MPI, a browser, a cluster and hosts that are only pretended.
SLOW_FIXTURES = {"mpich", "browser", "slurm", "join_hosts"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if SLOW_FIXTURES & set(getattr(item, "fixturenames", ())):
            item.add_marker("slow")


def pytest_sessionstart() -> None:
    """Signals and the width of the terminal are as for a command in a pipe, whatever started the tests.

    A shell that starts them in the background, or nohup, makes them ignore signals; a shell may export
    COLUMNS, and so do workers of pytest-xdist.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    os.environ.pop("COLUMNS", None)
    # The MPI of the tests is that of this environment, whatever the machine has.
    os.environ["PATH"] = f"{sysconfig.get_path('scripts')}{os.pathsep}{os.environ['PATH']}"
    os.environ |= {"NCCL_NVLS_ENABLE": "0", "NVSHMEM_DISABLE_NVLS": "1"}  # our own runs never use NVLink multicast
    os.environ["VOLLEY_SPACE"] = str(os.getpid())  # the tests of other processes measure on the same cores
    if worker := os.environ.get("PYTEST_XDIST_WORKER"):
        # An Open MPI launcher does not start where a killed one with the same process number has left its files ("The
        # PMIx server's listener thread failed to start"). Tests start and kill some of them without volley.
        os.environ["TMPDIR"] = tempfile.mkdtemp(prefix=f"volley-{worker}-")


@pytest.fixture(scope="session")
def engine() -> Path:
    """The engine under test; ``VOLLEY_ENGINE`` chooses another than the installed one."""
    if chosen := os.environ.get("VOLLEY_ENGINE"):
        return Path(chosen).resolve()
    files = metadata.files("volley-bench") or []
    (found,) = (file.locate() for file in files if file.name == "volley-engine")
    return Path(os.path.normpath(found))


@pytest.fixture(scope="session")
def volley_command() -> Path:
    """The ``volley`` command of the environment under test."""
    return Path(sysconfig.get_path("scripts")) / "volley"


@pytest.fixture
def volley(volley_command: Path, engine: Path, tmp_path: Path) -> Command:
    return Command(volley_command, engine, tmp_path / "state")


@pytest.fixture
def here(
    engine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., Finished]:
    """``volley`` in the process of the test, for commands that start nothing."""
    for name, value in (("VOLLEY_ENGINE", engine), ("XDG_STATE_HOME", tmp_path / "state"), ("COLUMNS", 120)):
        monkeypatch.setenv(name, str(value))

    def run(*words: str) -> Finished:
        capsys.readouterr()
        code = cli.main([*words])
        return Finished(code, *capsys.readouterr())

    return run


@pytest.fixture(scope="session")
def mpich(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """MPICH's wheel, in an environment of its own."""
    return wheel_of_mpi("mpich", tmp_path_factory)


@pytest.fixture
def bin_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An engine that obeys ``VOLLEY_FAKE``, on a machine without a launcher, with a home of its own."""
    folder = tmp_path / "bin"
    use(monkeypatch, install(folder))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr(engine_module, "_LOADED_S", 60.0)  # also where the watchdog of a test is short
    for name in list(os.environ):
        if name.startswith(("SLURM_", "PMI", "OMPI_", "LSB_", "PBS_", "VOLLEY_FAKE")):
            monkeypatch.delenv(name)
    return folder


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    return tmp_path / "state" / "volley"
