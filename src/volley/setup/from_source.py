"""The source route: ``from_source.sh`` with the values of the options, run step by step with progress and logs.

The script is complete: it downloads, checks sums, knows what is finished, and runs without volley.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping, Sequence
from importlib import resources
from shlex import join, quote
from typing import TextIO

from volley.errors import UserError
from volley.setup.workspace import MIB, Folders, StepError, complaint, progress, run_logged, say
from volley.text import escape_controls

NEED_BYTES = 1536 * MIB
"""Room that a build asks for: sources, one build tree at a time, and what is installed.  A run took 622 MiB at most
(docs/evidence/setup-from-source.md); twice that and more, since other versions and compilers differ."""
DONE = "done"
"""The state of a finished step."""


def shell_script(name: str, values: Mapping[str, str | Sequence[str]]) -> str:
    """Return a script of this package; ``values`` replace those of the variables at its beginning."""
    script = resources.files("volley.setup").joinpath(name).read_text(encoding="utf-8")
    for variable, value in values.items():
        text = quote(value) if isinstance(value, str) else f"({join(value)})"
        if not text.isprintable():
            raise UserError(f"{variable}: a script cannot contain the control character in {escape_controls(text)}")
        begin, end = next(re.finditer(rf"^{variable}=(.*)$", script, re.MULTILINE)).span(1)
        script = script[:begin] + text + script[end:]
    return script


def ask(script: str, question: str, environment: Mapping[str, str]) -> list[str]:
    """Return what the script answers to ``--list`` or ``--missing``, without doing anything."""
    done = subprocess.run(
        ["bash", "-c", script, "bash", question],
        env=dict(environment),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    if done.returncode:
        reason, code = complaint(done.stderr.decode(errors="replace").splitlines(), done.returncode)
        raise StepError(reason.removeprefix(": "), exit_code=code)
    return done.stdout.decode(errors="replace").splitlines()


def steps(script: str, environment: Mapping[str, str]) -> list[list[str]]:
    """Return the steps of the script: the name, the title for people, and the state of each."""
    return [line.split("\t") for line in ask(script, "--list", environment)]


def build(script: str, folders: Folders, environment: Mapping[str, str], out: TextIO) -> None:
    """Run the unfinished steps; progress goes to ``out``, what a step prints to its log, the script beside the logs."""
    file = folders.own / "from_source.sh"
    file.write_text(script, encoding="utf-8")
    listed = steps(script, environment)
    for number, (name, title, state) in enumerate(listed, 1):
        shown = f"[{number}/{len(listed)}] {title}"
        if state == DONE:
            say(out, f"{shown}: done before")
            continue
        with progress(out, shown) as tick:
            run_logged(
                ["bash", str(file), name],
                folders.new_log(name),
                title=title,
                environment=environment,
                folder=folders.temporary,
                tick=tick,
            )
