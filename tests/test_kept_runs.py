"""The runs that volley kept: their list, and numbers and names in place of files."""

from __future__ import annotations

import csv
import io
import os
from pathlib import Path

import pytest

from comparison_records import launches, write
from volley import cli

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A state folder with three runs, the last of which was aborted."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "volley"
    folder.mkdir()
    for number, name in enumerate(("first", "second", "third")):
        logs = launches(number, number + 1)
        if name == "third":
            logs[-1].end = None
        os.utime(write(folder / f"{name}.jsonl", logs), (number + 1, number + 1))
    (folder / "fourth.jsonl").write_bytes(b"\xff nonsense\n")
    os.utime(folder / "fourth.jsonl", (0, 0))
    return folder


def test_the_list_has_the_newest_first(kept: Path, capsys: Capture) -> None:
    assert cli.main(["list", "--format", "csv"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [Path(row["path"]).stem for row in rows] == ["third", "second", "first", "fourth"]
    assert [row["status"] for row in rows] == ["incomplete", "complete", "complete", "unreadable"]
    assert [row["launches"] for row in rows] == ["3", "2", "1", "0"]
    assert rows[0]["host"] == "example-node"
    assert cli.main(["list"]) == 0
    assert capsys.readouterr().out.splitlines()[0] == f"4 runs kept in {kept}"


def test_a_link_to_nothing_and_a_file_that_cannot_be_read_hide_no_run(kept: Path, capsys: Capture) -> None:
    (kept / "moved.jsonl").symlink_to("nowhere")
    (kept / "folder.jsonl").mkdir()
    os.utime(kept / "folder.jsonl", (0, 0))
    assert cli.main(["list", "--format", "csv"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [Path(row["path"]).stem for row in rows] == ["third", "second", "first", "fourth", "folder"]
    assert rows[-1]["status"] == "unreadable"
    assert cli.main(["show", "2", "--format", "csv"]) == 0


def test_a_long_list_is_cut(kept: Path, capsys: Capture) -> None:
    for number in range(20):
        (kept / f"more-{number}.jsonl").write_bytes((kept / "first.jsonl").read_bytes())
    assert cli.main(["list"]) == 0
    assert "and 4 older runs: --full lists all" in capsys.readouterr().out
    assert cli.main(["list", "--full"]) == 0
    assert "fourth" in capsys.readouterr().out


def test_no_run_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cli.main(["list"]) == 0
    assert capsys.readouterr().out == f"0 runs kept in {tmp_path / 'volley'}\n"


@pytest.mark.parametrize("word", ["2", "second", "second.jsonl"])
def test_a_number_or_a_name_stands_for_a_file(kept: Path, word: str, capsys: Capture) -> None:
    assert cli.main(["show", word, "--format", "csv"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert {row["run"] for row in rows} == {str(kept / "second.jsonl")}
    assert cli.main(["compare", word, "first"]) == 0
    assert f"A: {kept / 'second.jsonl'}" in capsys.readouterr().out
    assert cli.main(["references", "--add", "mine", word]) == 0


def test_a_file_comes_before_a_kept_run(kept: Path, tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "2").write_bytes((kept / "first.jsonl").read_bytes())
    assert cli.main(["show", "2", "--format", "csv"]) == 0
    assert ",2,example-node," in capsys.readouterr().out


@pytest.mark.parametrize(
    ("word", "message"),
    [("5", "4 runs are kept"), ("0", "4 runs are kept"), ("fifth", "no file, kept run or reference of this name"),
     ("none/fifth", "cannot read none/fifth: No such file")],
)  # fmt: skip
def test_what_is_not_kept_is_an_error(kept: Path, word: str, message: str, capsys: Capture) -> None:
    assert cli.main(["show", word]) == 2
    assert message in capsys.readouterr().err


def test_one_kept_run_is_told_in_the_singular(tmp_path: Path, kept: Path, capsys: Capture) -> None:
    for path in list(kept.glob("*.jsonl"))[1:]:
        path.unlink()
    assert cli.main(["show", "7"]) == 2
    assert "1 run is kept, see volley list" in capsys.readouterr().err


def test_the_list_names_every_folder_that_holds_a_run(
    tmp_path: Path, kept: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    home = tmp_path / "home" / ".local" / "state" / "volley"
    home.mkdir(parents=True)
    (home / "older.jsonl").write_bytes((kept / "first.jsonl").read_bytes())
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert cli.main(["list"]) == 0
    heading = capsys.readouterr().out.splitlines()[0]
    assert str(kept) in heading
    assert str(home) in heading
