"""``volley setup``: from the options to a tested MPI and an exit code."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping, Sequence
from shlex import quote
from typing import TextIO

from volley.errors import EXIT_GOOD, UserError
from volley.machine.distribution import this_distribution
from volley.machine.reinstall import install_command
from volley.run.launchers import cores
from volley.setup import checks, root_script, sources, wheels
from volley.setup.options import SetupOptions
from volley.setup.proof import MpiInstallation, prove, sentences
from volley.setup.recipe import BuildStep, Ingredients, build, find_cuda, finished, recipe
from volley.setup.workspace import Folders, StepError, build_environment, progress, say, shown
from volley.text import escape_controls, join_words


def run(options: SetupOptions, environment: Mapping[str, str] = os.environ, out: TextIO | None = None) -> int:
    """Run the command; return the exit code.  ``out`` is standard output unless given."""
    out = out or sys.stdout
    if options.root_script:
        out.write(root_script.root_script(root_script.this_machine(options.driver, options.toolkit)))
        return EXIT_GOOD
    route = _from_source if options.route == "source" or options.of_source else _from_wheels
    try:
        return route(options, build_environment(environment), out)
    except StepError as error:
        for line in error.tail:
            print(f"  | {line}", file=sys.stderr)
        raise


def _from_wheels(options: SetupOptions, environment: Mapping[str, str], out: TextIO) -> int:
    target = wheels.environment_at(options.prefix)
    wheels.check(target)
    checks.writable(target.site if target.current else target.root, checks.WHEELS_NEED_BYTES)
    if options.dry_run:
        out.writelines(f"{shown(tokens)}\n" for tokens in wheels.commands(target))
        out.write(f"# {_proof_ahead(options)}\n")
        return EXIT_GOOD
    if options.prove:
        checks.require({"cc": environment.get("CC")}, environment, this_distribution())
    folders = target.folders
    folders.make()
    with folders.lock():
        title = f"[1/1] {' '.join(wheels.chosen()[:2])} and companions into {escape_controls(str(target.root))}"
        with progress(out, title) as tick:
            wheels.install(target, environment, tick)
        _prove(options, target.mpi, folders, environment, out)
    say(out, wheels.next_step(target))
    return EXIT_GOOD


def _from_source(options: SetupOptions, environment: Mapping[str, str], out: TextIO) -> int:
    if options.prefix is None:
        raise UserError("the source route needs a folder: --prefix DIR, such as --prefix ~/mpi")
    folders, prefix = Folders(options.prefix), options.prefix
    if re.search(r"[^\w./+-]", str(prefix)):
        raise UserError(f"--prefix {escape_controls(str(prefix))}: make cannot build in a path with such characters")
    given = Ingredients(
        folders=folders,
        sources=sources.chosen(options.source, options.without),
        cuda=find_cuda(options.cuda, folders, environment),
        distribution=this_distribution(),
        extra=_extra(options.configure),
        environment=environment,
    )
    steps = recipe(given)
    if options.dry_run:
        _show(steps, folders, out)
        out.write(f"# {_proof_ahead(options)}\n")
        return EXIT_GOOD
    checks.programs(given.sources, environment, given.distribution)
    if not all(finished(step, folders) for step in steps):
        checks.writable(prefix, checks.SOURCE_NEED_BYTES)
    folders.make()
    with folders.lock():
        # how many compilers run at a time is no part of the recipe: another number repeats nothing
        build(steps, folders, {**environment, "MAKEFLAGS": f"-j{options.jobs or cores()}"}, out)
        _prove(options, MpiInstallation(prefix / "bin"), folders, environment, out)
    say(out, f"to use it: export PATH={quote(str(prefix / 'bin'))}:$PATH")
    say(out, f"to measure with it: {install_command(MPI_HOME=str(prefix))}")
    return EXIT_GOOD


def _extra(configure: Sequence[str]) -> dict[str, list[str]]:
    extra: dict[str, list[str]] = {}
    for text in configure:
        name, _, argument = text.partition("=")
        if name not in sources.SPOKEN or not argument:
            raise UserError(
                f"--configure {escape_controls(text)}: write NAME=ARGUMENT; NAME is {join_words(sources.SPOKEN, 'or')}"
            )
        extra.setdefault(name, []).append(argument)
    return extra


def _show(steps: Sequence[BuildStep], folders: Folders, out: TextIO) -> None:
    for number, step in enumerate(steps, 1):
        state = " (done before)" if finished(step, folders) else ""
        out.write(f"# [{number}/{len(steps)}] {step.title}{state}\n")
        if step.download:
            source, file = step.download
            sum_ = f", sha256 {source.sha256}" if source.sha256 else ""
            out.write(f"# download {escape_controls(source.where)} to {file}{sum_}\n")
        out.write("".join(f"{escape_controls(line)}\n" for line in step.script.splitlines()) + "\n")


def _proof_ahead(options: SetupOptions) -> str:
    if not options.prove:
        return "no proof, as asked: no transfer will be made"
    return "then the proof: a program compiled with this MPI sends messages between two ranks, of GPU memory if it can"


def _prove(
    options: SetupOptions, mpi: MpiInstallation, folders: Folders, environment: Mapping[str, str], out: TextIO
) -> None:
    if not options.prove:
        say(out, "not proven, as asked: no transfer was made")
        return
    for sentence in sentences(prove(mpi, environment, folders)):
        say(out, sentence)
