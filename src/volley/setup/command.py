"""``volley setup``: its options, and from them to a tested MPI and an exit code."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from shlex import quote
from typing import TextIO

from volley.command import option_values
from volley.errors import EXIT_GOOD, MachineError, UserError
from volley.launch.launchers import cores
from volley.machine.packages import Distribution, install_command, installer, this_distribution
from volley.setup import from_source, wheels
from volley.setup.options import SetupOptions
from volley.setup.proof import prove
from volley.setup.workspace import Folders, StepError, progress, say, shown, writable
from volley.text import escape_controls, join_words

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
    family = from_source.shell_script(f"root/{distribution.family}.sh", chosen)
    if options.driver and "hold_driver()" not in family:
        raise MachineError(f"{distribution.id} offers no choice of a driver branch: leave --driver out")
    return family + from_source.shell_script("root/steps.sh", {})


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
    return from_source.shell_script("from_source.sh", values)


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


def _from_source(options: SetupOptions, environment: Mapping[str, str], out: TextIO) -> None:
    if options.prefix is None:
        raise UserError("the source route needs a folder: --prefix DIR, such as --prefix ~/mpi")
    folders, prefix = Folders(options.prefix), options.prefix
    if not shutil.which("bash", path=environment.get("PATH")):
        raise _missing(["bash"])
    script = source_script(options)
    steps = from_source.steps(script, environment)
    if options.dry_run:
        out.write(f"{script}\n# The steps of this script:\n")
        for number, (_, title, state) in enumerate(steps, 1):
            out.write(f"# [{number}/{len(steps)}] {title}{' (done before)' if state == from_source.DONE else ''}\n")
        _prove_later(options, out)
        return
    if missing := from_source.ask(script, "--missing", environment):
        raise _missing(missing)
    if any(state != from_source.DONE for _, _, state in steps):
        writable(prefix, from_source.NEED_BYTES)
    with folders.lock():
        from_source.build(script, folders, environment, out)
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


_NOT_PROVEN = ["not verified, as requested: no data was sent"]
