"""Run the steps of a recipe: finished steps are kept, all others start again."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TextIO

from volley.errors import MachineError
from volley.setup import progress
from volley.setup.recipe import BuildStep
from volley.setup.sources import download
from volley.setup.workspace import Folders, StepError, run_logged, tail


def finished(step: BuildStep, folders: Folders) -> bool:
    """Return whether a step was finished with the same recipe and its files still exist."""
    try:
        stamp = (folders.stamps / step.name).read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return False
    return stamp == step.key and all(path.exists() for path in step.makes)


def build(steps: Sequence[BuildStep], folders: Folders, environment: Mapping[str, str], out: TextIO) -> None:
    """Run the unfinished steps; progress goes to ``out``.

    Raises:
        UserError: what stopped a step; the end of its log is in a StepError.
    """
    for number, step in enumerate(steps, 1):
        title = f"[{number}/{len(steps)}] {step.title}"
        if finished(step, folders):
            progress.say(out, f"{title}: done before")
            continue
        stamp, log = folders.stamps / step.name, folders.logs / f"{step.name}.log"
        stamp.unlink(missing_ok=True)
        with progress.step(out, title) as tick:
            try:
                _do(step, log, folders, environment, tick)
            except OSError as error:
                where = f" ({error.filename})" if error.filename else ""
                raise MachineError(f"{step.title}: {error.strerror or error}{where}") from None
        stamp.write_text(f"{step.key}\n", encoding="ascii")
        if folders.build in step.tree.parents:
            shutil.rmtree(step.tree, ignore_errors=True)  # a build tree is of no use any more, and large


def _do(
    step: BuildStep, log: Path, folders: Folders, environment: Mapping[str, str], tick: Callable[[str], None]
) -> None:
    """Do one step from its beginning."""
    log.write_text(download(*step.download) if step.download else "", encoding="utf-8")
    shutil.rmtree(step.tree, ignore_errors=True)
    step.tree.mkdir(parents=True)
    script = log.with_suffix(".sh")
    script.write_text(step.script, encoding="utf-8")
    run_logged(
        ["sh", "-x", str(script)],
        log,
        title=step.title,
        environment={**environment, "TMPDIR": str(folders.temporary)},
        folder=step.tree,
        tick=tick,
    )
    missing = [path for path in step.makes if not path.exists()]
    if missing:
        raise StepError(f"{step.title}: everything ran, but there is no {missing[0]}; the whole log: {log}", tail(log))
