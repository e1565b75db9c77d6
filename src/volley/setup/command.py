"""``volley setup``: from the options to a tested MPI and an exit code.

The source route runs ``from_source.sh`` with the values of the options, step by step with progress and logs.  That
script is complete: it downloads, checks sums, knows what is finished, and runs without volley.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from importlib import resources
from shlex import join, quote
from typing import TextIO

from volley.command import option_values
from volley.errors import EXIT_GOOD, MachineError, UserError
from volley.launch.launchers import cores
from volley.machine.packages import Distribution, install_command, installer, this_distribution
from volley.setup import wheels
from volley.setup.options import SetupOptions
from volley.setup.proof import prove
from volley.setup.workspace import MIB, Folders, StepError, complaint, progress, run_logged, say, shown, writable
from volley.text import escape_controls, join_words

NEED_BYTES = 1536 * MIB
"""Room that a build asks for: sources, one build tree at a time, and what is installed.  A run took 622 MiB at most
(docs/evidence/setup-from-source.md); twice that and more, since other versions and compilers differ."""
DONE = "done"
"""The state of a finished step."""
COMPONENTS = ("gdrcopy", "ucx", "openmpi")
_FORMS = "a URL, a tarball, the folder of a checkout, a .dsc file or deb:PACKAGE[@SUITE]"


def run(options: SetupOptions, environment: Mapping[str, str] = os.environ, out: TextIO | None = None) -> int:
    """Run the command; return the exit code.  ``out`` is standard output unless given."""
    out = out or sys.stdout
    if options.root_script:
        out.write(root_script(options, this_distribution()))
        return EXIT_GOOD
    route = _from_source if options.route == "source" or options.of_source else _from_wheels
    # Libraries that the user loads into every program stay out of the steps, and messages are untranslated.
    own = {"LC_ALL": "C", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    kept = {name: value for name, value in environment.items() if name != "LD_PRELOAD"}
    try:
        route(options, {**kept, **own}, out)
    except StepError as error:
        for line in error.tail:
            print(f"  | {line}", file=sys.stderr)
        raise
    return EXIT_GOOD


def root_script(options: SetupOptions, distribution: Distribution) -> str:
    """Return the script of what only root can do; it is to be read, and volley never runs it."""
    if distribution.family == "other":
        raise MachineError(
            f"no root script for {distribution.id}: there is one for Debian, Ubuntu, the RHEL family and SUSE; "
            "see docs.nvidia.com/cuda/cuda-installation-guide-linux"
        )
    chosen = {"driver": options.driver or "", "toolkit": options.toolkit or ""}
    family = shell_script(f"root/{distribution.family}.sh", chosen)
    if options.driver and "hold_driver()" not in family:
        raise MachineError(f"{distribution.id} offers no choice of a driver branch: leave --driver out")
    return family + shell_script("root/steps.sh", {})


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


def _from_wheels(options: SetupOptions, environment: Mapping[str, str], out: TextIO) -> None:
    target = wheels.PythonEnvironment(options.prefix)
    wheels.check(target)
    writable(target.site if target.current else target.root, wheels.NEED_BYTES)
    if options.dry_run:
        out.writelines(f"{shown(tokens)}\n" for tokens in wheels.commands(target))
        _prove_later(options, out)
        return
    with target.folders.lock():
        title = f"[1/1] {' '.join(wheels.chosen()[:2])} and companions into {escape_controls(str(target.root))}"
        with progress(out, title) as tick:
            wheels.install(target, environment, tick)
        proven = prove(target.root, target.variables, environment, target.folders) if options.prove else _NOT_PROVEN
    say(out, *proven)
    next_step = "volley --mpi wheel" if target.current else install_command(python=target.python)
    say(out, f"to measure with it: {next_step}")
    if target.current:
        say(out, 'to compile and start your own programs with it: eval "$(volley env --mpi wheel)"')


def _from_source(options: SetupOptions, environment: Mapping[str, str], out: TextIO) -> None:
    if options.prefix is None:
        raise UserError("the source route needs a folder: --prefix DIR, such as --prefix ~/mpi")
    folders, prefix = Folders(options.prefix), options.prefix
    if not shutil.which("bash", path=environment.get("PATH")):
        raise _missing(["bash"])
    script = source_script(options)
    steps = _steps(script, environment)
    if options.dry_run:
        out.write(f"{script}\n# The steps of this script:\n")
        for number, (_, title, state) in enumerate(steps, 1):
            out.write(f"# [{number}/{len(steps)}] {title}{' (done before)' if state == DONE else ''}\n")
        _prove_later(options, out)
        return
    if missing := _ask(script, "--missing", environment):
        raise _missing(missing)
    if any(state != DONE for _, _, state in steps):
        writable(prefix, NEED_BYTES)
    with folders.lock():
        _build(script, folders, environment, out)
        proven = prove(prefix, {}, environment, folders) if options.prove else _NOT_PROVEN
    path = f"to use it: export PATH={quote(str(prefix / 'bin'))}:$PATH"
    say(out, *proven, path, f"to measure with it: volley --mpi {quote(str(prefix))}")


def _missing(programs: Sequence[str]) -> MachineError:
    known = this_distribution()
    packages = known.install_line(" ".join(map(known.package, programs)))
    return MachineError(f"missing: {', '.join(programs)}; {packages}")


def _prove_later(options: SetupOptions, out: TextIO) -> None:
    test = "then the test: volley pingpong with this MPI between two ranks, on GPU memory if there is a GPU"
    out.write(f"# {test if options.prove else 'no transfer will be made, as requested'}\n")


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


def _ask(script: str, question: str, environment: Mapping[str, str]) -> list[str]:
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


def _steps(script: str, environment: Mapping[str, str]) -> list[list[str]]:
    """Return the steps of the script: the name, the title for people, and the state of each."""
    return [line.split("\t") for line in _ask(script, "--list", environment)]


def _build(script: str, folders: Folders, environment: Mapping[str, str], out: TextIO) -> None:
    """Run the unfinished steps; progress goes to ``out``, what a step prints to its log, the script beside the logs."""
    file = folders.own / "from_source.sh"
    file.write_text(script, encoding="utf-8")
    listed = _steps(script, environment)
    for number, (name, title, state) in enumerate(listed, 1):
        heading = f"[{number}/{len(listed)}] {title}"
        if state == DONE:
            say(out, f"{heading}: done before")
            continue
        with progress(out, heading) as tick:
            run_logged(
                ["bash", str(file), name],
                folders.new_log(name),
                title=title,
                environment=environment,
                folder=folders.temporary,
                tick=tick,
            )


_NOT_PROVEN = ["not verified, as requested: no data was sent"]
