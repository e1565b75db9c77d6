"""The command that installs this copy of volley again, for each way in which it can have come here."""

import json
import sys
from importlib import metadata
from pathlib import Path

import pytest

from volley.machine import packages

PIP = f"{sys.executable} -m pip install"


class Installed:
    """What metadata.distribution answers."""

    def __init__(self, source: object) -> None:
        self.text = source if isinstance(source, str) else json.dumps(source)

    def read_text(self, name: str) -> str:
        assert name == "direct_url.json"
        return self.text


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A volley that does not run from a checkout."""
    monkeypatch.setattr(packages, "__file__", str(tmp_path / "site-packages/volley/machine/packages.py"))
    monkeypatch.setattr(packages.importlib.util, "find_spec", lambda _: True)
    return tmp_path


def test_a_checkout_is_installed_again_from_where_it_lies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packages.importlib.util, "find_spec", lambda _: True)
    checkout = Path(__file__).resolve().parents[2]
    monkeypatch.setattr(packages, "__file__", str(checkout / "src/volley/machine/packages.py"))
    assert packages.install_command() == f"{PIP} --force-reinstall --no-cache-dir {checkout}"
    assert packages.install_command("cuda13") == f"{PIP} '{checkout}[cuda13]'"


@pytest.mark.parametrize(
    ("source", "given"),
    [
        ({"url": "https://example.org/v.git", "vcs_info": {"vcs": "git", "commit_id": "ab12"}},
         "volley-bench[x] @ git+https://example.org/v.git@ab12"),
        ({"url": "https://example.org/v.git", "vcs_info": {"vcs": "git", "commit_id": "a", "requested_revision": "v1"}},
         "volley-bench[x] @ git+https://example.org/v.git@v1"),
        ({"url": "https://example.org/volley.whl", "archive_info": {}}, "volley-bench[x] @ https://example.org/volley.whl"),
        ({"url": "file:///gone/volley.whl", "archive_info": {}}, "/path/to/volley[x]"),
        ({}, "/path/to/volley[x]"),
        ("no JSON", "/path/to/volley[x]"),
        ("[]", "/path/to/volley[x]"),
    ],
)  # fmt: skip
def test_where_an_installed_volley_came_from(
    installed: Path, monkeypatch: pytest.MonkeyPatch, source: object, given: str
) -> None:
    monkeypatch.setattr(metadata, "distribution", lambda _: Installed(source))
    assert packages.with_extra(packages.requirement(), "x") == given


def test_a_wheel_file_that_is_still_there_is_named(installed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wheel = installed / "two words.whl"
    wheel.touch()
    monkeypatch.setattr(metadata, "distribution", lambda _: Installed({"url": wheel.as_uri(), "archive_info": {}}))
    assert packages.install_command("cuda13", python="/env/bin/python") == (
        f"/env/bin/python -m pip install '{wheel}[cuda13]'"
    )


def test_an_unknown_origin_is_left_to_the_reader(installed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(_: str) -> object:
        raise metadata.PackageNotFoundError

    monkeypatch.setattr(metadata, "distribution", missing)
    assert packages.requirement() == "/path/to/volley"


def test_uv_installs_where_there_is_no_pip(installed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packages.importlib.util, "find_spec", lambda _: None)
    monkeypatch.setattr(packages.shutil, "which", lambda name: f"/usr/bin/{name}")
    assert packages.installer() == ["/usr/bin/uv", "pip", "install", "--python", sys.executable]
    monkeypatch.setattr(packages.shutil, "which", lambda _: None)
    assert packages.installer()[1:] == ["-m", "pip", "install"]
