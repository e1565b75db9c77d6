"""The source route: ``from_source.sh`` with the values of the options, run step by step with progress and logs.

The script is complete: it downloads, checks sums, knows what is finished, and runs without volley.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from shlex import join, quote
from typing import TextIO

from volley.command import option_values
from volley.errors import UserError
from volley.launch.launchers import cores
from volley.machine.reinstall import installer
from volley.setup.options import SetupOptions
from volley.setup.workspace import MIB, Folders, StepError, complaint, progress, run_logged, say
from volley.text import escape_controls, join_words

NEED_BYTES = 1536 * MIB
"""Room that a build asks for: sources, one build tree at a time, and what is installed.  A run took 622 MiB at most
(docs/evidence/setup-from-source.md); twice that and more, since other versions and compilers differ."""
COMPONENTS = ("gdrcopy", "ucx", "openmpi")
_FORMS = "a URL, a tarball, the folder of a checkout, a .dsc file or deb:PACKAGE[@SUITE]"


@dataclass(frozen=True)
class BuildStep:
    """A part of the set-up that is done once, as the script lists it."""

    name: str
    title: str
    """What it does, for people: ``UCX: configure, build, install``."""
    finished: bool


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


def source_script(options: SetupOptions) -> str:
    values: dict[str, str | list[str]] = {
        "prefix": str(options.prefix),
        "pip": installer(),
        "jobs": str(options.jobs or cores()),
        **({"cuda": options.cuda} if options.cuda else {}),
    }
    for text in options.configure:
        name, argument = _named("--configure", text, "ARGUMENT", "one argument of its configure")
        values[f"{name}_arguments"] = [*values.get(f"{name}_arguments", ()), argument]
    for name in options.without:
        if name != "gdrcopy":
            raise UserError(f"--without {escape_controls(name)}: only gdrcopy can be left out")
        values[name] = ""
    for text in options.source:
        name, where = _named("--source", text, "WHERE", f"WHERE is {_FORMS}")
        if name in values:
            raise UserError(f"--source {name} is given twice, or left out by --without; keep one of them")
        where, mark, sum_ = where.partition("#sha256=")
        if mark and not sum_:
            raise UserError(f"--source {escape_controls(text)}: the checksum is missing (sha256sum FILE prints it)")
        local = not re.match(r"deb:|[a-z]+://", where)
        values[name] = str(option_values.absolute("--source", where)) if local else where
        values[f"{name}_sha256"] = sum_
    return shell_script("from_source.sh", values)


def _named(option: str, text: str, metavar: str, meaning: str) -> tuple[str, str]:
    name, _, value = text.partition("=")
    if name not in COMPONENTS or not value:
        raise UserError(
            f"{option} {escape_controls(text)}: write NAME={metavar}; NAME is {join_words(COMPONENTS, 'or')}, {meaning}"
        )
    return name, value


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


def listed(script: str, environment: Mapping[str, str]) -> list[BuildStep]:
    rows = (line.split("\t") for line in ask(script, "--list", environment))
    return [BuildStep(name, title, state == "done") for name, title, state in rows]


def build(script: str, folders: Folders, environment: Mapping[str, str], out: TextIO) -> None:
    """Run the unfinished steps; progress goes to ``out``, what a step prints to its log, the script beside the logs."""
    file = folders.own / "from_source.sh"
    file.write_text(script, encoding="utf-8")
    steps = listed(script, environment)
    for number, step in enumerate(steps, 1):
        title = f"[{number}/{len(steps)}] {step.title}"
        if step.finished:
            say(out, f"{title}: done before")
            continue
        log = folders.logs / f"{step.name}.log"
        log.write_bytes(b"")
        with progress(out, title) as tick:
            run_logged(
                ["bash", str(file), step.name],
                log,
                title=step.title,
                environment=environment,
                folder=folders.temporary,
                tick=tick,
            )
