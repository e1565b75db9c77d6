"""``volley setup``: from a request to an MPI that is proven, and an exit code."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from shlex import join
from typing import TextIO

from volley.errors import EXIT_GOOD, UserError
from volley.run.launchers.job import cores
from volley.setup import builder, checks, cuda, root_script, sources, wheels
from volley.setup.distribution import this_distribution
from volley.setup.problems import StepError
from volley.setup.progress import Progress
from volley.setup.proof import Mpi, prove, sentences
from volley.setup.recipe import Ingredients, Step, recipe
from volley.setup.work import Folders, Work, build_environment
from volley.text import harmless, several

ROUTES = ("auto", "wheels", "source")


@dataclass(frozen=True)
class Request:
    """What was asked for."""

    route: str = "auto"
    prefix: Path | None = None
    prove: bool = True
    sources: Sequence[str] = ()
    without: Sequence[str] = ()
    cuda: str | None = None
    configure: Sequence[str] = ()
    jobs: int | None = None
    dry_run: bool = False
    root_script: bool = False
    environment: Mapping[str, str] = field(default_factory=lambda: os.environ)


def run(request: Request, out: TextIO | None = None) -> int:
    """Do what was asked; return the exit code.

    Raises:
        UserError: what stopped it, in one sentence.
    """
    out = out or sys.stdout
    if request.root_script:
        out.write(root_script.root_script(root_script.this_machine()))
        return EXIT_GOOD
    try:
        return _from_source(request, out) if _route(request) == "source" else _from_wheels(request, out)
    except StepError as error:
        for line in error.tail:
            print(f"  | {line}", file=sys.stderr)
        raise


def _route(request: Request) -> str:
    """Return ``wheels`` or ``source``."""
    of_source = {
        "--source": request.sources,
        "--without": request.without,
        "--cuda": request.cuda,
        "--configure": request.configure,
        "--jobs": request.jobs,
    }
    given = [name for name, value in of_source.items() if value]
    if request.route not in ROUTES:
        raise UserError(f"--route {harmless(request.route)}: there are {several(ROUTES)}")
    if request.route == "wheels" and given:
        raise UserError(f"{given[0]} belongs to the source route: leave it out, or use --route source")
    if request.route == "auto":
        return "source" if given else "wheels"
    return request.route


# ----------------------------------------------------------------------------------------------------- wheels


def _from_wheels(request: Request, out: TextIO) -> int:
    prefix = request.prefix.expanduser().absolute() if request.prefix else None
    target = wheels.environment(prefix)
    wheels.check(target)
    checks.writable(target.site if target.current else target.root, checks.WHEELS_NEED_BYTES)
    plain = build_environment(request.environment)
    if request.dry_run:
        out.writelines(f"{harmless(join(tokens))}\n" for tokens in wheels.commands(target))
        out.write(f"# {_proof_ahead(request)}\n")
        return EXIT_GOOD
    if request.prove:
        checks.require({"cc": plain.get("CC")}, plain, this_distribution())
    progress = Progress(out)
    folders = target.folders
    folders.make()
    with folders.lock():
        step = Step("wheels", f"{' '.join(wheels.WHEELS[:2])} and companions into {harmless(str(target.root))}", ())
        progress.begun(1, 1, step)
        log = folders.logs / "wheels.log"
        log.write_bytes(b"")
        try:
            seconds = wheels.install(target, Work(folders, log, plain, progress.tick))
        except UserError:
            progress.failed()
            raise
        progress.done(seconds)
        _prove(request, target.mpi, folders, plain, progress)
    progress.say(wheels.next_step(target))
    return EXIT_GOOD


# ----------------------------------------------------------------------------------------------------- source


def _from_source(request: Request, out: TextIO) -> int:
    if request.prefix is None:
        raise UserError("the source route needs a place: --prefix DIR, such as --prefix ~/mpi")
    folders = Folders(request.prefix.expanduser().absolute())
    if re.search(r"[^\w./+-]", str(folders.prefix)):
        raise UserError(f"--prefix {harmless(str(folders.prefix))}: make cannot build into a path with such characters")
    plain = build_environment(request.environment)
    given = _ingredients(request, folders, plain)
    steps = recipe(given)
    if request.dry_run:
        _show(steps, folders, out)
        out.write(f"{_proof_ahead(request)}\n")
        return EXIT_GOOD
    checks.programs(given.sources, plain, given.distribution)
    done = builder.keys(steps)
    if not all(builder.finished(step, done[step.name], folders) for step in steps):
        checks.writable(folders.prefix, checks.SOURCE_NEED_BYTES)
    folders.make()
    progress = Progress(out)
    with folders.lock():
        # how many compilers run at a time is no part of the recipe: another number repeats nothing
        builder.build(steps, folders, {**plain, "MAKEFLAGS": f"-j{request.jobs or cores()}"}, progress)
        _prove(request, Mpi(folders.prefix / "bin"), folders, plain, progress)
    bin_ = folders.prefix / "bin"
    progress.say(f"to use it: export PATH={join([str(bin_)])}:$PATH")
    progress.say(
        f"to measure with it: MPI_HOME={join([str(folders.prefix)])} pip install --force-reinstall volley-bench"
    )
    return EXIT_GOOD


def _ingredients(request: Request, folders: Folders, environment: Mapping[str, str]) -> Ingredients:
    extra: dict[str, list[str]] = {}
    for text in request.configure:
        name, _, argument = text.partition("=")
        if name not in sources.COMPONENTS or not argument:
            raise UserError(
                f"--configure {harmless(text)}: write NAME=ARGUMENT; NAME is {several(sources.COMPONENTS, 'or')}"
            )
        extra.setdefault(name, []).append(argument)
    return Ingredients(
        folders=folders,
        sources=sources.chosen(request.sources, request.without),
        cuda=cuda.find(request.cuda, folders, environment),
        distribution=this_distribution(),
        extra=extra,
        environment=environment,
    )


def _show(steps: Sequence[Step], folders: Folders, out: TextIO) -> None:
    """Print every step; what is finished already is said to be."""
    keys = builder.keys(steps)
    for number, step in enumerate(steps, 1):
        state = " (done before)" if builder.finished(step, keys[step.name], folders) else ""
        out.write(f"[{number}/{len(steps)}] {step.title}{state}\n")
        out.writelines(f"    {harmless(action.line())}\n" for action in step.actions)


def _proof_ahead(request: Request) -> str:
    """Say what follows the steps."""
    if not request.prove:
        return "no proof, as asked: no transfer will be made"
    return "then the proof: a program compiled with this MPI sends messages between two ranks, of GPU memory if it can"


def _prove(request: Request, mpi: Mpi, folders: Folders, environment: Mapping[str, str], progress: Progress) -> None:
    if not request.prove:
        progress.say("not proven, as asked: no transfer was made")
        return
    for sentence in sentences(prove(mpi, environment, folders.temporary)):
        progress.say(sentence)
