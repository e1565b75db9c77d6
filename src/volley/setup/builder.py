"""Doing the steps of a recipe: those that are finished are kept, the others are begun afresh."""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping, Sequence

from volley.errors import MachineError, UserError
from volley.setup.problems import StepError
from volley.setup.progress import Progress
from volley.setup.recipe import Step
from volley.setup.work import Folders, Work


def keys(steps: Sequence[Step]) -> dict[str, str]:
    """Return the key of each step by its name."""
    found: dict[str, str] = {}
    for step in steps:
        found[step.name] = step.key(found)
    return found


def finished(step: Step, key: str, folders: Folders) -> bool:
    """Tell whether a step was done with this very recipe, and what it made is still there."""
    try:
        stamp = (folders.stamps / step.name).read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return False
    return stamp == key and all(path.exists() for path in step.makes)


def build(steps: Sequence[Step], folders: Folders, environment: Mapping[str, str], progress: Progress) -> None:
    """Do what is not yet done.

    Raises:
        UserError: what stopped a step; what it said last is in a StepError.
    """
    by_name = keys(steps)
    for number, step in enumerate(steps, 1):
        key = by_name[step.name]
        if finished(step, key, folders):
            progress.kept(number, len(steps), step)
            continue
        progress.begun(number, len(steps), step)
        begun = time.monotonic()
        _do(step, key, folders, environment, progress)
        progress.done(time.monotonic() - begun)


def _do(step: Step, key: str, folders: Folders, environment: Mapping[str, str], progress: Progress) -> None:
    """Do one step.  Its stamp goes first and comes back last, so that a step that breaks off counts as not done."""
    stamp = folders.stamps / step.name
    stamp.unlink(missing_ok=True)
    if step.fresh is not None:
        shutil.rmtree(step.fresh, ignore_errors=True)
    log = folders.logs / f"{step.name}.log"
    log.write_bytes(b"")
    work = Work(folders, log, environment, progress.tick)
    try:
        for action in step.actions:
            action.do(work)
    except UserError as error:
        progress.failed()
        work.note(f"volley: {error}")
        raise
    except OSError as error:
        progress.failed()
        raise _spoken(error, step, work) from None
    missing = [path for path in step.makes if not path.exists()]
    if missing:
        progress.failed()
        raise work.failure(f"{step.title}: everything ran, but there is no {missing[0]}")
    stamp.write_text(f"{key}\n", encoding="ascii")
    if step.fresh is not None and folders.build in step.fresh.parents:
        shutil.rmtree(step.fresh, ignore_errors=True)  # a build tree is of no use any more, and large


def _spoken(error: OSError, step: Step, work: Work) -> UserError:
    """Say what the system refused: no room, no permission."""
    where = f" ({error.filename})" if error.filename else ""
    sentence = f"{step.title}: {error.strerror or error}{where}"
    return StepError(sentence, work.tail()) if error.strerror is None else MachineError(sentence)
