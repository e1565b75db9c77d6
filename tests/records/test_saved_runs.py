"""Saved runs: their list, their ids and names in place of files, and how they are deleted."""

import csv
import gzip
import io
import os
import re
import shutil
import time
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from comparison_records import launches, write
from the_command import check_transcript
from volley import cli
from volley.errors import UserError
from volley.records.record_types import LaunchTimes
from volley.records.records_file import encode_line
from volley.records.saved_runs import own_references, saved_runs
from volley.records.writer import open_writer

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A state folder with three runs, the last of which was aborted, and a file without records; the files were written
    in another order.
    """
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("TZ", "UTC")
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "volley"
    folder.mkdir()
    for number, name in enumerate(("first", "second", "third")):
        logs = launches(number, number + 1)
        if name == "third":
            logs[-1].end = None
        for log in logs:
            called = {"name": name, "tags": ["nightly", "ib"] if number else []}
            plan = msgspec.structs.replace(log.run.plan, launch={"kept_as": called})
            log.run = msgspec.structs.replace(log.run, plan=plan)
        os.utime(write(folder / f"file-{number}.jsonl", logs), (9 - number, 9 - number))
    (folder / "empty.jsonl").touch()
    os.utime(folder / "empty.jsonl", (0, 0))
    return folder


def listed(capsys: Capture, *words: str) -> list[dict[str, str]]:
    capsys.readouterr()
    assert cli.main(["list", "--format", "csv", *words]) == 0
    return list(csv.DictReader(io.StringIO(capsys.readouterr().out)))


def names(kept: Path) -> set[str]:
    return {path.stem for path in kept.glob("*.jsonl")}


def test_the_list_has_the_newest_first(kept: Path, capsys: Capture) -> None:
    rows = listed(capsys)
    assert [row["name"] for row in rows] == ["third", "second", "first", ""]
    assert [row["status"] for row in rows] == ["incomplete", "complete", "complete", "empty"]
    assert rows[0]["host"] == "example-node"


def test_what_lists_and_deletes_say_is_what_was_looked_at(kept: Path, tmp_path: Path, capsys: Capture) -> None:
    """Of three runs, an empty file, a copy of one whose ids begin alike, and a file elsewhere; at last of none."""
    write(tmp_path / "other.jsonl", launches(5))
    check_transcript("session/saved-runs", capsys, {str(kept): "FOLDER"})
    assert names(kept) == {"empty", "file-0", "file-2"}
    assert (tmp_path / "other.jsonl").exists()
    shutil.copy(kept / "file-2.jsonl", kept / "copy.jsonl")
    assert cli.main(["show", listed(capsys)[0]["id"][:4]]) == 2
    assert "type a longer id, or the file" in capsys.readouterr().err


def test_an_id_stays_while_a_run_grows_and_others_are_kept(kept: Path, capsys: Capture) -> None:
    third, second = (row["id"] for row in listed(capsys)[:2])
    with (kept / "file-2.jsonl").open("ab") as file:
        file.write(encode_line(launches(2, 1)[0].end))
    write(kept / "newer.jsonl", launches(7))
    assert [row["id"] for row in listed(capsys)[1:3]] == [third, second]
    for word in (second, second[:3], "second", "file-1", "file-1.jsonl", "last-2"):
        assert cli.main(["show", word, "--format", "csv"]) == 0
        rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
        assert {row["run"] for row in rows} == {str(kept / "file-1.jsonl")}
    assert cli.main(["references", "--add", "mine", second]) == 0


def test_runs_of_others_are_not_mixed_with_ones_own(
    kept: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    home = tmp_path / "home" / ".local" / "state" / "volley"
    home.mkdir(parents=True)
    write(home / "elsewhere.jsonl", launches(9))
    assert len(listed(capsys)) == 4
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    assert listed(capsys) == []


def test_a_run_that_is_written_now_is_running(kept: Path, capsys: Capture) -> None:
    data = (kept / "file-2.jsonl").read_bytes()
    writer = open_writer(None, "pingpong")
    for line in data.replace(b"T03", b"T04").splitlines(keepends=True):
        writer.write(line)
    assert {row["status"] for row in listed(capsys)[:1]} == {"running"}
    assert cli.main(["list"]) == 0
    assert "running, 6 points so far" in capsys.readouterr().out
    assert cli.main(["show"]) == 1
    assert "running now: launch 3 of 3 has 6 points so far" in capsys.readouterr().out
    assert cli.main(["delete", "last", "--yes"]) == 2
    writer.close()
    assert listed(capsys)[0]["status"] == "incomplete"


def test_a_run_with_fewer_launches_than_were_asked_for_is_incomplete(kept: Path, capsys: Capture) -> None:
    """As one whose next launch could not start."""
    for budget, status in (([], "incomplete"), ([["--budget", "60"]], "complete")):
        with closing(open_writer(None, "pingpong")) as writer:
            for log in launches(5, 2):
                log.run.plan.launch["asked"] = [["--launches", "3"], *budget]
                for record in (log.run, *log.records, log.end, LaunchTimes(exit_s=1.0)):
                    writer.write(encode_line(record))
        assert listed(capsys)[0]["status"] == status
        assert cli.main(["show"]) == int(not budget)


@pytest.mark.parametrize("asked", [[], [["--launches", "2"]]])
@pytest.mark.parametrize(("killed", "rest"), [(False, b""), (True, b""), (False, b'{"record":"run","ver')])
def test_a_run_that_was_killed_between_two_launches_is_incomplete(
    kept: Path, capsys: Capture, killed: bool, rest: bytes, asked: list[list[str]]
) -> None:
    """In its file the last launch looks as the others, but for the line that is written when the next one begins."""
    writer, later = open_writer(None, "pingpong"), b""
    for log in launches(5, 2):
        log.run.plan.launch["asked"] = asked
        for record in (log.run, *log.records, log.end):
            writer.write(encode_line(record))
            later += encode_line(record).replace(b"T03", b"T04")
        writer.hold(encode_line(LaunchTimes(exit_s=1.0)))
        later += encode_line(LaunchTimes(exit_s=1.0))
    if killed:
        os.close(writer.descriptor)
    else:
        writer.write(rest)
        writer.close()
    told = killed or bool(rest)
    assert listed(capsys)[0]["status"] == ("incomplete" if told else "complete")
    assert cli.main(["show"]) == int(told)
    said = "INCOMPLETE: the run was stopped after launch 2\n"
    assert (said in capsys.readouterr().out) == told
    whole = kept / "whole.jsonl"
    whole.write_bytes(later)
    assert cli.main(["show", str(writer.path), str(whole)]) == int(told)
    shown = capsys.readouterr().out
    assert "4 launches" in shown
    assert (said in shown) == told


def test_an_empty_file_hides_no_other(kept: Path, capsys: Capture) -> None:
    assert cli.main(["show", "empty", "first", "--format", "csv"]) == 1
    out, err = capsys.readouterr()
    assert "file-0.jsonl" in out
    assert "is empty" in err
    assert cli.main(["show", "empty"]) == 2


def test_a_name_names_one_run(kept: Path) -> None:
    with pytest.raises(UserError, match="has this name: choose another, write volley delete second first"):
        open_writer(None, "pingpong", name="second")


def test_a_name_goes_to_one_of_two_runs_that_begin_at_once(kept: Path) -> None:
    first = open_writer(None, "pingpong", name="both")
    with pytest.raises(UserError, match="a run that is being measured has this name"):
        open_writer(None, "pingpong", name="both")
    first.close()  # without a record: it was no run
    assert len(names(kept)) == 4
    open_writer(None, "pingpong", name="both").close()


def test_a_named_run_is_found_wherever_its_file_is(kept: Path, tmp_path: Path, capsys: Capture) -> None:
    file = tmp_path / "mine.jsonl"
    for attempt in range(2):  # also when its file is replaced
        writer = open_writer(file, "pingpong", name="before", force=bool(attempt))
        writer.write((kept / "file-2.jsonl").read_bytes().replace(b'"third"', b'"before"'))
        writer.close()
    assert cli.main(["show", "before"]) == 1
    assert "6 points" in capsys.readouterr().out
    for output in (None, tmp_path / "other.jsonl"):
        with pytest.raises(UserError, match=f"has this name: choose another, write rm {file} first"):
            open_writer(output, "pingpong", name="before")
    assert not (tmp_path / "other.jsonl").exists()
    assert cli.main(["delete", "before", "--yes"]) == 2
    assert "which -o named: rm deletes it" in capsys.readouterr().err
    file.unlink()
    assert cli.main(["show", "before"]) == 2
    open_writer(None, "pingpong", name="before").close()


def test_a_name_that_the_state_folder_cannot_keep_is_refused_before_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    (tmp_path / "volley").mkdir()
    (tmp_path / "volley" / "names").write_text("no folder")
    for output in (None, tmp_path / "mine.jsonl"):
        with pytest.raises(UserError, match=f"--name before cannot be kept in {tmp_path}/volley/names: .* leave"):
            open_writer(output, "pingpong", name="before")
    monkeypatch.setenv("XDG_STATE_HOME", "/dev/null")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.raises(UserError, match="--name before cannot be kept in /dev/null/volley"):
        open_writer(None, "pingpong", name="before")
    assert [*tmp_path.rglob("*")] == [tmp_path / "volley", tmp_path / "volley" / "names"]


def test_a_state_folder_that_cannot_be_looked_at_holds_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """As that of another user, whose HOME sudo may keep: the report of a run looks for the runs before it."""
    monkeypatch.setenv("XDG_STATE_HOME", "/" + "x" * 300)
    assert saved_runs() == []
    assert own_references() == {}


def test_old_runs_without_a_name_are_deleted(kept: Path) -> None:
    for number in range(3):
        write(kept / f"old-{number}.jsonl", launches(20 + number))
    write(kept / "new.jsonl", launches(4, started_at=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())))
    assert cli.main(["delete", "--older-than", "640000d", "--yes"]) == 0
    assert len(names(kept)) == 8
    assert cli.main(["delete", "--older-than", "1d", "--keep", "3", "--yes"]) == 0
    assert names(kept) == {"file-0", "file-1", "file-2", "new", "old-1", "old-2"}
    assert cli.main(["delete", "--older-than", "1d", "--yes"]) == 0
    assert names(kept) == {"file-0", "file-1", "file-2", "new"}


def test_records_are_not_overwritten_without_force(tmp_path: Path) -> None:
    file = write(tmp_path / "a.jsonl", launches(1))
    before = file.read_bytes()
    with pytest.raises(UserError, match="replace it with --force"):
        open_writer(file, "pingpong")
    assert file.read_bytes() == before
    writer = open_writer(file, "pingpong", force=True)
    writer.write(b"{}\n")
    writer.close()
    assert file.read_bytes() == b"{}\n"


def test_a_link_to_nothing_and_a_file_that_cannot_be_read_hide_no_run(kept: Path, capsys: Capture) -> None:
    (kept / "moved.jsonl").symlink_to("nowhere")
    (kept / "folder.jsonl").mkdir()
    os.utime(kept / "folder.jsonl", (0, 0))
    rows = listed(capsys)
    assert [row["name"] for row in rows] == ["third", "second", "first", "", ""]
    assert cli.main(["show", "second", "--format", "csv"]) == 0


def test_a_long_list_is_cut(kept: Path, capsys: Capture) -> None:
    for number in range(20):
        write(kept / f"more-{number}.jsonl", launches(number + 10, 1))
    assert cli.main(["list"]) == 0
    assert "and 4 older runs: --full lists all" in capsys.readouterr().out
    assert cli.main(["list", "--full"]) == 0
    assert "empty" in capsys.readouterr().out


def test_a_file_comes_before_a_saved_run(kept: Path, tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "second").write_bytes((kept / "file-0.jsonl").read_bytes())
    assert cli.main(["show", "second", "--format", "csv"]) == 0
    assert ",second,example-node," in capsys.readouterr().out


def test_the_list_has_the_commands_that_can_be_typed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    (tmp_path / "volley").mkdir()
    of_check = gzip.decompress((Path(__file__).parents[2] / "results/two-cores/check.jsonl.gz").read_bytes())
    for number, name in enumerate(("check", "check-2", "matrix")):
        (tmp_path / f"volley/2026-01-0{number + 1}T00-00-00-{name}.jsonl").write_bytes(of_check)
    assert cli.main(["list"]) == 0
    out = capsys.readouterr().out
    assert len(re.findall(r"  check  ", out)) == 2
    assert "pingpong collective matrix" in out
    assert "rank_matrix" not in out
