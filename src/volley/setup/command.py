"""``volley setup``: from the options to a tested MPI and an exit code."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import TextIO

from volley.errors import EXIT_GOOD, UserError
from volley.machine.distribution import this_distribution
from volley.machine.reinstall import install_command
from volley.run import option_values
from volley.run.commandline import Options, flag, option
from volley.run.launchers import cores
from volley.setup import checks, root_script, sources, wheels
from volley.setup.proof import MpiInstallation, prove, sentences
from volley.setup.recipe import BuildStep, Ingredients, build, find_cuda, finished, recipe
from volley.setup.workspace import Folders, StepError, build_environment, progress, say, shown
from volley.text import escape_controls, join_words

_ROUTE, _SOURCE, _ROOT, _OUTPUT = "What to set up", "The source route", "What needs root", "Output"
_DRIVER = option_values.matching(
    "BRANCH", f"[1-9][0-9]{{2}}({root_script.PROPRIETARY})?", "no branch of the driver: write e.g. --driver 580"
)
_TOOLKIT = option_values.matching(
    "VERSION", r"[1-9][0-9]\.[0-9]", "no version of a CUDA toolkit: write e.g. --toolkit 12.9"
)


@option_values.reads("DIR")
def _folder(name: str, words: Sequence[str]) -> Path:
    if not words[-1]:
        raise UserError(f"{name} '' is not a folder: write one, or leave {name} out")
    return option_values.absolute(name, words[-1])


@option_values.reads("DIR")
def _cuda(name: str, words: Sequence[str]) -> str:
    return words[-1] if words[-1] == "wheels" else str(_folder(name, words))


@dataclass(frozen=True, kw_only=True)
class SetupOptions(Options):
    """The MPI to set up, its folder and its sources."""

    PANEL = _SOURCE

    route: str = option(
        read=option_values.choice("auto", "wheels", "source"),
        default="auto",
        metavar="NAME",
        panel=_ROUTE,
        help="wheels: Open MPI and a UCX with CUDA from PyPI, in seconds; source: GDRCopy, UCX and Open MPI built "
        "here; auto: source where --source, --cuda, --configure, --without or --jobs is given, else wheels.",
    )
    prefix: Path | None = option(
        read=_folder,
        shown="wheels: this Python environment",
        panel=_ROUTE,
        help="The folder: wheels go into a Python environment there, the source route installs there. Nothing else "
        "changes.",
    )
    prove: bool = flag(
        default=True,
        panel=_ROUTE,
        help="At the end, a transfer between two ranks: on GPU memory if there is a GPU, else on host memory.",
    )
    source: tuple[str, ...] = option(
        read=option_values.texts,
        default=(),
        repeat=True,
        shown="releases, with their sums",
        metavar="NAME=WHERE",
        help="Where gdrcopy, ucx or openmpi comes from: a URL or a tarball (add #sha256=SUM), the folder of a "
        "checkout, a .dsc file, or deb:PACKAGE@SUITE (Debian's and Ubuntu's source packages); may be repeated.",
    )
    without: tuple[str, ...] = option(
        read=option_values.texts, default=(), repeat=True, metavar="gdrcopy", help="Leave GDRCopy out."
    )
    cuda: str | None = option(
        read=_cuda,
        shown="CUDA_HOME, CUDA_PATH, nvcc on PATH, /usr/local/cuda, else wheels",
        help="The CUDA toolkit to build with; wheels: NVIDIA's wheels, into the prefix. Stubs are made where it has "
        "none.",
    )
    configure: tuple[str, ...] = option(
        read=option_values.texts,
        default=(),
        repeat=True,
        metavar="NAME=ARGUMENT",
        help="One more argument for a component's configure (gdrcopy: for its make), such as openmpi=--with-slurm; "
        "may be repeated.",
    )
    jobs: int | None = option(
        "--jobs", "-j", read=option_values.number(), shown="one a core", help="Compilers at a time."
    )
    root_script: bool = flag(
        panel=_ROOT,
        help="Print what only root can do on this distribution (driver, kernel headers, toolkit, gdrdrv), and run none "
        "of it.",
    )
    driver: str | None = option(
        read=_DRIVER,
        shown="the newest, where none is loaded",
        panel=_ROOT,
        help="With --root-script: this branch of the driver with open kernel modules, such as 580; 580-proprietary for "
        "GPUs before Turing, such as the V100.",
    )
    toolkit: str | None = option(
        read=_TOOLKIT,
        shown="13.0, where there is none",
        panel=_ROOT,
        help="With --root-script: this CUDA toolkit, such as 12.9.",
    )
    dry_run: bool = flag(panel=_OUTPUT, help="Print every step without running it.")

    def __post_init__(self) -> None:
        """Refuse options of the source route and of the root script without these."""
        if self.route == "wheels" and (given := self.of_source):
            raise UserError(f"{given[0]} belongs to the source route: leave it out, or use --route source")
        for name, value in (("--driver", self.driver), ("--toolkit", self.toolkit)):
            if value and not self.root_script:
                raise UserError(f"{name} belongs to --root-script: write --root-script {name} {value}")

    @property
    def of_source(self) -> list[str]:
        """The options of the source route that were given."""
        names = ("source", "without", "cuda", "configure", "jobs")
        return [f"--{name}" for name in names if getattr(self, name)]


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
