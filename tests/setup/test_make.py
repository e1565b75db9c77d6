"""make keeps what it did not make, in folders with any name; the version is the same wherever it stands."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from installations import CHECKOUT


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """As much of the sources as make needs to look at its choices."""
    folder = tmp_path / "it's $HOME"
    (folder / "build/wheel").mkdir(parents=True)
    (folder / ".venv").mkdir()
    shutil.copyfile(CHECKOUT / "Makefile", folder / "Makefile")
    shutil.copytree(CHECKOUT / "build_backend", folder / "build_backend")
    return folder


def make(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    return subprocess.run(["make", *words], cwd=folder, env=clean, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("own", [True, False])
def test_an_environment_goes_only_where_make_made_it(checkout: Path, own: bool) -> None:
    if own:
        (checkout / ".venv/.made-by-make").touch()
    assert make(checkout, "build/choices").returncode == 0
    assert (checkout / ".venv").exists() is not own
    assert not (checkout / "build/wheel").exists(), "the build starts afresh"
    (checkout / ".venv").mkdir(exist_ok=True)
    assert make(checkout, "build/choices").returncode == 0
    assert (checkout / ".venv").exists(), "nothing has changed"
    (checkout / ".venv/.made-by-make").unlink(missing_ok=True)
    assert make(checkout, "distclean").returncode == 0
    assert (checkout / ".venv").exists()


def test_a_folder_in_which_cmake_cannot_build_is_refused_first(checkout: Path) -> None:
    (checkout / "pyproject.toml").touch()
    done = make(checkout, "build/env/.ready")
    assert done.returncode == 2
    assert "use a path without" in done.stderr
    assert not (checkout / "build/env").exists()


def test_the_version_stands_in_three_files() -> None:
    (version,) = re.findall(r'^version = "(.*)"$', (CHECKOUT / "pyproject.toml").read_text("utf-8"), re.MULTILINE)
    assert f"\nversion: {version}\n" in (CHECKOUT / "CITATION.cff").read_text("utf-8")
    (heading, *_) = re.findall(r"^## (\S+)", (CHECKOUT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)
    assert heading == version
