"""Building volley as users do, and asking the result where it finds its MPI."""

import fcntl
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

CHECKOUT = Path(__file__).resolve().parents[2]
PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check")
#: Quick to compile. What these builds test is where things are found and who starts whom, not how fast it is.
QUICK = (
    "-Ccmake.define.CMAKE_CXX_FLAGS_RELEASE=-O0",
    "-Ccmake.define.VOLLEY_QUICK_BUILD=ON",
    "-Ccmake.define.CMAKE_UNITY_BUILD=ON",  # headers are read once for several files: half the time
)
#: uv's names of pip's settings.
UV_NAMES = {
    "PIP_CERT": "SSL_CERT_FILE",
    "PIP_INDEX_URL": "UV_DEFAULT_INDEX",
    "PIP_EXTRA_INDEX_URL": "UV_INDEX",
    "PIP_FIND_LINKS": "UV_FIND_LINKS",
}
#: What steers a build or a loader; a test that wants one of these sets it itself.
STEERING = (
    *("CUDACXX", "CUDA_HOME", "CUDA_PATH", "LD_LIBRARY_PATH", "LD_PRELOAD", "PYTHONPATH"),
    *("VIRTUAL_ENV", "VOLLEY_CUDA", "VOLLEY_CUDA_ARCHITECTURES", "VOLLEY_ENGINE"),
)


def scrubbed(**settings: str) -> dict[str, str]:
    """The environment without what would steer a build or a loader, and with ``settings``.

    uv trusts the certificates of the system, as pip does, and gets pip's settings for a site's index and certificates.
    """
    kept = {name: value for name, value in os.environ.items() if name not in STEERING}
    as_pip = {uv: kept[pip] for pip, uv in UV_NAMES.items() if pip in kept and uv not in kept}
    return kept | {"UV_NATIVE_TLS": "1", "UV_SYSTEM_CERTS": "1"} | as_pip | settings


def package_index_error() -> str:
    """Why pip gets nothing from its package index; empty where it does."""
    with tempfile.TemporaryDirectory() as folder:
        command = [*PIP, "download", "--no-cache-dir", "--retries", "0", "--no-deps", "--dest", folder, "nlohmann-json"]
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=scrubbed(), cwd=folder)
    return "" if done.returncode == 0 else (done.stderr.strip().splitlines() or ["pip says nothing"])[-1]


def run(command: Sequence[str | Path], **settings: Any) -> str:
    """Standard output of a command; what it said is shown where it fails."""
    settings.setdefault("env", scrubbed())
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False, **settings)
    assert done.returncode == 0, (
        f"{command} ended with {done.returncode}:\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
    )
    return done.stdout


def run_with_index(command: Sequence[str | Path], **settings: Any) -> None:
    """Run what installs from the package index; skip the test where there is none, e.g. without a network."""
    try:
        run(command, **settings)
    except AssertionError:
        if reason := package_index_error():
            pytest.skip(f"no package index can be reached: {reason}")
        raise


def pip_wheel(source: Path, to: Path, *options: str, env: Mapping[str, str]) -> Path:
    """Build a wheel with pip, isolated."""
    run_with_index([*PIP, "wheel", "--no-deps", "--wheel-dir", to, *options, source], env=dict(env), cwd=to)
    (wheel,) = to.glob("*.whl")
    return wheel


@dataclass(frozen=True)
class Installation:
    """An environment that volley is installed into."""

    prefix: Path

    @property
    def python(self) -> Path:
        return self.prefix / "bin" / "python"

    @property
    def volley(self) -> Path:
        return self.prefix / "bin" / "volley"

    @property
    def engine(self) -> Path:
        (found,) = self.prefix.glob("lib/python3*/site-packages/volley/bin/volley-engine")
        return found

    def about(self) -> dict[str, Any]:
        """The engine's account of itself, without MPI_Init and without any help from the environment."""
        return dict(json.loads(run([self.engine, "--about"], env={}, cwd="/")))

    def doctor(self) -> dict[str, tuple[str, str]]:
        """What its doctor finds of this machine: status and sentence of each check."""
        diagnosis = json.loads(run([self.volley, "doctor", "--format", "json"], cwd="/"))
        return {finding["check"]: (finding["status"], finding["said"]) for finding in diagnosis["findings"]}


def new_environment(prefix: Path) -> Installation:
    """An empty environment, for :func:`uv_install`."""
    run(["uv", "venv", "--quiet", "--python", sys.executable, prefix], env=with_scripts())
    return Installation(prefix)


def uv_install(into: Installation, *what: str | Path, **settings: str) -> None:
    command = ["uv", "pip", "install", "--quiet", "--python", into.python, *what]
    run_with_index(command, env=with_scripts(**settings), cwd="/")


def with_scripts(**settings: str) -> dict[str, str]:
    """The scrubbed environment, with the programs of this Python's environment (uv) in reach."""
    return scrubbed(PATH=f"{Path(sys.executable).parent}:{os.environ['PATH']}") | settings


def wheel_of_mpi(name: str, factory: pytest.TempPathFactory) -> Path:
    """The prefix of an environment with the wheel of an MPI: the wheels own the same file names.

    Workers of pytest-xdist share it: their folders lie in one folder of the session.
    """
    base = factory.getbasetemp()
    prefix = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / name
    with prefix.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (prefix / "done").exists():
            uv_install(new_environment(prefix), name)
            (prefix / "done").touch()
    return prefix
