"""Which volley the tests test: the installed one of the environment that pytest runs in."""

from __future__ import annotations

import os
import signal
import sysconfig
from importlib import metadata
from pathlib import Path

import pytest
from hypothesis import settings

from installations import CHECKOUT, QUICK, Installation, new_environment, pip_wheel, scrubbed, uv_install

# A machine at work is slow.
settings.register_profile("volley", deadline=None)
settings.load_profile("volley")


def pytest_sessionstart() -> None:
    """A shell that starts tests in the background, or nohup, makes them and their children ignore these signals."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist reads the groups
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """What one worker of pytest-xdist runs: a file, so that its fixtures are made once; Slurm and MPICH together."""
    for item in items if config.pluginmanager.hasplugin("xdist") else ():
        fixtures = getattr(item, "fixturenames", ())
        shared = {"mpich_installation", "slurm"} & set(fixtures) or item.path.parent.name == "slurm"
        item.add_marker(pytest.mark.xdist_group("slurm and mpich" if shared else item.path.name))


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


@pytest.fixture(scope="session")
def mpich_installation(tmp_path_factory: pytest.TempPathFactory) -> Installation:
    """Volley built against MPICH's wheel, in an environment of its own: the two wheels own the same file names."""
    home = tmp_path_factory.mktemp("mpich")
    made = new_environment(home / "env")
    uv_install(made, "mpich>=5,<6")
    settings = scrubbed(MPI_HOME=str(made.prefix), VOLLEY_CUDA="OFF")
    uv_install(made, pip_wheel(CHECKOUT, home / "wheel", *QUICK, env=settings))
    return made
