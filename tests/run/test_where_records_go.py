"""The file of records: where it is, and disks without room."""

import errno
import os
import resource
import signal
import sys
from pathlib import Path

import pytest

from the_session import SIZES, measure, read_runs
from volley.errors import MachineError
from volley.records import saved_runs
from volley.records.writer import Writer, open_writer


def test_runs_of_the_same_second_do_not_meet(bin_folder: Path, kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("volley.records.writer.time.strftime", lambda *_: "2026-01-02T03-04-05")
    for _ in range(3):
        assert measure() == 0
    names = {file.name for file in kept.iterdir()}
    stem = "2026-01-02T03-04-05-pingpong"
    assert names == {f"{stem}.jsonl", f"{stem}-2.jsonl", f"{stem}-3.jsonl"}


def test_a_disk_that_fills_up_keeps_whole_lines(
    bin_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # Python before 3.12.8 keeps a part of a compiled module
    records = tmp_path / "out.jsonl"
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # the write fails instead
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (2500, before[1]))
        assert measure("-o", str(records), "--sizes", "8:39:+1") == 3
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
    assert ": File too large; later results are not saved" in capsys.readouterr().err
    data = records.read_bytes()
    assert data.endswith(b"}\n")
    (log,) = read_runs(records)
    assert log.run is not None
    assert log.end is None


def test_a_folder_without_room_is_told_before_measuring(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    full = tmp_path / "volley"

    def no_room(descriptor: int, *_: int) -> None:
        if Path(f"/proc/self/fd/{descriptor}").readlink().is_relative_to(full):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr(os, "posix_fallocate", no_room)
    writer = open_writer(None, "pingpong")
    assert f"cannot write to {full}: No space left on device" in str(writer.note)
    writer.close()
    with pytest.raises(MachineError, match="No space left on device"):
        open_writer(full / "named.jsonl", "pingpong")
    kept = full / "kept.jsonl"
    kept.write_bytes(b"{}\n")
    with pytest.raises(MachineError, match="No space left on device"):
        open_writer(kept, "pingpong", force=True)
    assert [(file.name, file.read_bytes()) for file in full.iterdir()] == [("kept.jsonl", b"{}\n")]


def test_a_disk_that_is_found_to_be_full_at_the_end_loses_no_report(
    bin_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """NFS reports a full quota when a file is closed."""
    really_close, really_end = os.close, Writer.close

    def fails(descriptor: int) -> None:
        really_close(descriptor)
        raise OSError(errno.EDQUOT, os.strerror(errno.EDQUOT))

    def end(writer: Writer) -> None:
        with monkeypatch.context() as full:
            full.setattr(os, "close", fails)
            really_end(writer)

    monkeypatch.setattr(Writer, "close", end)
    records = tmp_path / "out.jsonl"
    assert measure("-o", str(records)) == 3
    out, err = capsys.readouterr()
    assert len(out.splitlines()) == 1 + len(SIZES)
    assert f"cannot write all records to {records}: Disk quota exceeded" in err
    assert err.splitlines()[-1] == f"records: {records}"


def test_a_file_that_was_there_is_not_deleted_where_nothing_is_measured(tmp_path: Path) -> None:
    empty, link, new = (tmp_path / name for name in ("empty", "link", "new"))
    empty.touch()
    link.symlink_to(empty)
    for path in (empty, link, new):
        open_writer(path, "pingpong").close()
    assert sorted(tmp_path.iterdir()) == [empty, link]


def test_the_command_below_a_screen_shows_this_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    first, second, named = (open_writer(path, "pingpong") for path in (None, None, tmp_path / "a b.jsonl"))
    for writer in (named, first, second):
        writer.write(b"{}\n")
    for number, writer in enumerate((first, second)):
        os.utime(writer.path, (number, number))
    assert first.command() == f"volley show {first.path}"
    assert second.command() == "volley show"
    assert named.command() == f"volley show '{named.path}'"
    monkeypatch.setenv("XDG_STATE_HOME", "/dev/null/state")
    other = open_writer(None, "pingpong")
    assert other.command() == f"volley show {other.path}"
    for writer in (first, second, named, other):
        writer.close()


def test_records_find_another_place_where_there_is_no_state_folder(
    bin_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "a-file"
    file.touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(file / "state"))
    monkeypatch.setenv("HOME", str(file / "home"))
    assert measure() == 0
    err = capsys.readouterr().err
    assert f"records go to another folder: cannot write to {file}/state/volley: Not a directory" in err
    place = Path(err.splitlines()[-1].removeprefix("records: "))
    (log,) = read_runs(place)
    assert log.complete
    place.unlink()
    place.parent.rmdir()


def test_with_no_place_at_all_the_results_are_still_shown(
    bin_folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("volley.records.writer.folders_to_write", lambda: [Path("/dev/null/volley")])
    assert measure() == 3
    out, err = capsys.readouterr()
    assert len(out.splitlines()) == 1 + len(SIZES)
    assert "name a file with -o" in err


def test_a_relative_state_folder_is_ignored_as_its_specification_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "relative")
    monkeypatch.setenv("HOME", "/home/somebody")
    folders = saved_runs.folders_to_write()
    assert next(folders) == Path("/home/somebody/.local/state/volley")
