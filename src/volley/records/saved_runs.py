"""The saved runs, in the state folder: which there are, and the words that name one of them."""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shlex
import time
from calendar import timegm
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec

from volley.command.option_values import RUN_NAME
from volley.document import UNREADABLE
from volley.errors import UserError
from volley.text import count, escape_controls, join_few
from volley.units import parse_whole

REFERENCES = "references"
"""The folder, in that for state, of the user's own references."""

NAMES = "names"
"""The folder, in that for state, with a link for each name of a run."""

TIME = "%Y-%m-%dT%H:%M:%SZ"
"""How records write a time, in UTC."""

_LETTERS = "bcdfghjkmnpqrtvw"
"""Of ids.  Without vowels and digits no id is a word or a number."""
_ID_LENGTH = 8
_MIN_PREFIX = 3
_LAST = re.compile(r"last(?:-(\d{1,6}))?", re.ASCII)


class KeptAs(msgspec.Struct, frozen=True):
    """What the user calls a run: ``plan.launch`` keeps it as ``kept_as``."""

    name: str = ""
    tags: tuple[str, ...] = ()


class _Launch(msgspec.Struct):
    kept_as: KeptAs = KeptAs()


class _Plan(msgspec.Struct):
    launch: _Launch


class _Head(msgspec.Struct):
    """The parts of a first record that tell of the whole run; the rest is skipped."""

    started_at: str
    plan: _Plan


@dataclass(frozen=True)
class SavedRun:
    """A file of the state folder."""

    path: Path
    id: str
    """From the first record, which does not change while a run grows; empty if there is none yet."""
    begun: tuple[str, int]
    """When it began, in UTC (of a file without a readable record: when it was written), and when it was written."""
    known: KeptAs

    @property
    def begun_s(self) -> float:
        """When it began, in seconds since 1970; of a time that cannot be read: when it was written."""
        with suppress(ValueError, OverflowError):
            return timegm(time.strptime(self.begun[0], TIME))
        return self.begun[1] / 1e9

    @property
    def running(self) -> bool:
        return is_being_written(self.path)


def state_folder() -> Path:
    """Return the folder in which volley keeps what it wrote, by the XDG specification; it need not exist."""
    state = os.environ.get("XDG_STATE_HOME", "")
    if state.startswith("/"):
        return Path(state, "volley")
    try:
        return Path.home() / ".local" / "state" / "volley"
    except RuntimeError:
        raise UserError("the home folder is unknown: set XDG_STATE_HOME") from None


def folders_to_write() -> Iterator[Path]:
    """Yield the folders in which volley keeps what it writes, best first: that for state, then a temporary one."""
    with suppress(UserError):
        yield state_folder()
    from tempfile import mkdtemp  # noqa: PLC0415  start-up: rarely needed

    with suppress(OSError):
        # A private folder: in a shared one, another user could create a file with the expected name first.
        yield Path(mkdtemp(prefix="volley-"))


def saved_runs() -> list[SavedRun]:
    """Return the runs that this user saved without ``-o``, the newest first."""
    found = []
    with suppress(UserError, OSError):  # a home folder that belongs to another user
        for path in state_folder().glob("*.jsonl"):
            with suppress(OSError):  # a link to nothing, or a file that was deleted meanwhile
                about = path.stat()
                if about.st_uid == os.geteuid():
                    found.append(_read(path, about.st_mtime_ns))
    return sorted(found, key=lambda run: (run.begun, run.path.name), reverse=True)


def _read(path: Path, written_ns: int) -> SavedRun:
    line = b""
    with suppress(OSError), path.open("rb") as file:
        line = file.readline()
    begun, known = time.strftime(TIME, time.gmtime(written_ns // 10**9)), KeptAs()
    with suppress(*UNREADABLE):
        head = msgspec.json.decode(line, type=_Head)
        begun, known = head.started_at, head.plan.launch.kept_as
    id_ = "".join(_LETTERS[byte % len(_LETTERS)] for byte in hashlib.sha256(line).digest()[:_ID_LENGTH])
    return SavedRun(path, id_ if line.endswith(b"\n") else "", (begun, written_ns), known)


def is_being_written(path: Path | str) -> bool:
    """Return whether a volley that runs now writes this file: it holds a lock until it ends, however it ends."""
    with suppress(OSError, ValueError):
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(descriptor)
    return False


def own_references() -> dict[str, Path]:
    """Return the files that the user keeps as references (``volley references --add``), by name."""
    with suppress(UserError, OSError):
        files = sorted((state_folder() / REFERENCES).glob("*.jsonl"))
        return {path.stem: path for path in files if re.fullmatch(RUN_NAME, path.stem, re.ASCII)}
    return {}


def run_named(word: str) -> SavedRun | None:
    """Return the saved run that a word names; ``None`` if none is.

    ``last`` is the newest, ``last-1`` the one before.  Else it is a name, a file or the beginning of an id, so that a
    word never names another run because a new one was saved.

    Raises:
        UserError: the word names several runs, or counts further back than there are runs.
    """
    runs = saved_runs()
    if last := _LAST.fullmatch(word):
        back = int(last[1] or 0)
        if back >= len(runs):
            raise UserError(f"there is no run {word}: {count(len(runs), 'run')} saved on this machine, see volley list")
        return runs[back]
    found = [run for run in runs if word in (run.known.name, run.path.name, run.path.stem)] or _linked(word)
    if not found and len(word) >= _MIN_PREFIX:
        found = [run for run in runs if run.id.startswith(word)]
    if len(found) > 1:
        names = join_few([f"{run.id} ({run.path.name})" for run in found], 3)
        raise UserError(f"{escape_controls(word)} matches {escape_controls(names)}: type a longer id, or the file")
    return found[0] if found else None


def find_file(word: str) -> str:
    """Return the path of a file of records: a path, a word for a saved run, or the name of the user's own reference."""
    if word in ("", "-") or os.path.lexists(word):
        return word
    if run := run_named(word):
        return str(run.path)
    if reference := own_references().get(word.removesuffix(".jsonl")):
        return str(reference)
    if "/" not in word:
        shown = escape_controls(word)
        if parse_whole(word) is not None:
            raise UserError(f"there is no file {shown}: write last for the newest run, or an id of volley list")
        raise UserError(f"cannot read {shown}: no file, saved run or reference of this name exists; see volley list")
    return word


def keep_name(name: str, file: Path) -> None:
    """Make a name stand for a file of records, wherever it is, until the file is deleted.

    Raises:
        UserError: the name stands for another run, also for one that has just begun.
    """
    folder = state_folder() / NAMES
    folder.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):  # a file system without locks; else of two runs at once one gets the name
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        link, target = folder / name, file.absolute()
        others = [run for run in (*saved_runs(), *_linked(name)) if run.path != target]
        taken = next((run for run in others if run.known.name == name), None)
        began = link.exists() and link.resolve() != target.resolve() and is_being_written(link)  # without a record yet
        if taken or began:
            which = f"the run {taken.id}" if taken else "a run that is being measured"
            running = link.exists() and is_being_written(link)
            named_by_o = taken is not None and taken.path.parent != state_folder()
            delete = shlex.join(["rm", str(taken.path)]) if taken and named_by_o else f"volley delete {name}"
            first = "wait for its end" if running else f"write {escape_controls(delete)} first"
            raise UserError(
                f"--name {name}: {which} has this name: choose another, {first}, or mark all runs of a kind with "
                f"--tag {name}"
            )
        link.unlink(missing_ok=True)
        link.symlink_to(target)
    finally:
        os.close(descriptor)


def _linked(name: str) -> list[SavedRun]:
    """Return the run for which a link of ``keep_name`` stands, if its file is still there and has this name."""
    if re.fullmatch(RUN_NAME, name, re.ASCII):
        with suppress(UserError, OSError):
            path = (state_folder() / NAMES / name).readlink()
            run = _read(path, path.stat().st_mtime_ns)
            return [run] if run.known.name == name else []
    return []
