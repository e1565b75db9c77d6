"""``volley setup``: from the options to a tested MPI and an exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from shlex import quote
from typing import TextIO

from volley.errors import EXIT_GOOD, MachineError, UserError
from volley.machine.distribution import Distribution, this_distribution
from volley.machine.reinstall import install_command
from volley.setup import from_source, wheels
from volley.setup.options import SetupOptions
from volley.setup.proof import MpiInstallation, prove
from volley.setup.workspace import Folders, StepError, build_environment, progress, say, shown, writable
from volley.text import escape_controls


def run(options: SetupOptions, environment: Mapping[str, str] = os.environ, out: TextIO | None = None) -> int:
    """Run the command; return the exit code.  ``out`` is standard output unless given."""
    out = out or sys.stdout
    if options.root_script:
        out.write(root_script(options, this_distribution()))
        return EXIT_GOOD
    route = _from_source if options.route == "source" or options.of_source else _from_wheels
    try:
        return route(options, build_environment(environment), out)
    except StepError as error:
        for line in error.tail:
            print(f"  | {line}", file=sys.stderr)
        raise


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


def _from_wheels(options: SetupOptions, environment: Mapping[str, str], out: TextIO) -> int:
    target = wheels.environment_at(options.prefix)
    wheels.check(target)
    writable(target.site if target.current else target.root, wheels.NEED_BYTES)
    if options.dry_run:
        out.writelines(f"{shown(tokens)}\n" for tokens in wheels.commands(target))
        out.write(f"# {_proof_ahead(options)}\n")
        return EXIT_GOOD
    folders = target.folders
    folders.make()
    with folders.lock():
        title = f"[1/1] {' '.join(wheels.chosen()[:2])} and companions into {escape_controls(str(target.root))}"
        with progress(out, title) as tick:
            wheels.install(target, environment, tick)
        _prove(options, target.mpi, folders, environment, out)
    next_step = "volley --mpi wheel" if target.current else install_command(python=target.python)
    say(out, f"to measure with it: {next_step}")
    return EXIT_GOOD


def _from_source(options: SetupOptions, environment: Mapping[str, str], out: TextIO) -> int:
    if options.prefix is None:
        raise UserError("the source route needs a folder: --prefix DIR, such as --prefix ~/mpi")
    folders, prefix, distribution = Folders(options.prefix), options.prefix, this_distribution()
    distribution.require(["bash"], environment)
    script = from_source.source_script(options)
    steps = from_source.listed(script, environment)
    if options.dry_run:
        out.write(f"{script}\n# The steps of this script:\n")
        for number, step in enumerate(steps, 1):
            out.write(f"# [{number}/{len(steps)}] {step.title}{' (done before)' if step.finished else ''}\n")
        out.write(f"# {_proof_ahead(options)}\n")
        return EXIT_GOOD
    distribution.require(from_source.ask(script, "--missing", environment), environment)
    if not all(step.finished for step in steps):
        writable(prefix, from_source.NEED_BYTES)
    folders.make()
    with folders.lock():
        from_source.build(script, folders, environment, out)
        _prove(options, MpiInstallation(prefix), folders, environment, out)
    say(out, f"to use it: export PATH={quote(str(prefix / 'bin'))}:$PATH")
    say(out, f"to measure with it: volley --mpi {quote(str(prefix))}")
    return EXIT_GOOD


def _proof_ahead(options: SetupOptions) -> str:
    if not options.prove:
        return "no transfer will be made, as requested"
    return "then the test: volley pingpong with this MPI between two ranks, on GPU memory if there is a GPU"


def _prove(
    options: SetupOptions, mpi: MpiInstallation, folders: Folders, environment: Mapping[str, str], out: TextIO
) -> None:
    if not options.prove:
        say(out, "not verified, as requested: no data was sent")
        return
    for sentence in prove(mpi, environment, folders):
        say(out, sentence)
