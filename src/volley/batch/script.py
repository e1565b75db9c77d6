"""From a measurement and the options of ``volley batch`` to a job script.

Everything that can be refused is refused here: a mistake must not wait in a queue for hours.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from volley import benchmarks
from volley.batch.options import BatchOptions
from volley.batch.schedulers import SCHEDULERS, JobResources, Scheduler, beginning
from volley.errors import MachineError, UserError
from volley.machine.mpi_stack import assemble, read_facts
from volley.run import engine_path, preflight
from volley.run.benchmark import Benchmark
from volley.run.commandline import value_of
from volley.run.engine import ask_about
from volley.run.jobs import Site
from volley.run.launchers.allocation import Allocation
from volley.run.launchers.choose import choose
from volley.run.launchers.launchers import LAUNCHERS, Launcher
from volley.run.launchers.spec import LaunchSpec
from volley.text import escape_controls


@dataclass(frozen=True)
class JobScript:
    """A job script, and what there is to say about it."""

    text: str
    submit: str
    """The command that submits it."""
    notes: tuple[str, ...]


@dataclass(frozen=True)
class _Ranks:
    """The ranks of the job, and what starts them."""

    launcher: Launcher
    spec: LaunchSpec
    transports: Sequence[str]
    on_host: bool
    """Every buffer is in host memory."""


def write(options: BatchOptions) -> JobScript:
    """Write the script that runs ``volley WORDS``.

    Raises:
        UserError: if the measurement makes no sense in such a job.
        MachineError: if the engine does not start here, or has no launcher.
    """
    benchmark, asked = benchmarks.read(options.words)
    _check_words(options)
    _check_asked(options, asked)
    return _one_process(benchmark, options, asked) if benchmark.local else _many(benchmark, options, asked)


def _many(benchmark: Benchmark, options: BatchOptions, asked: Any) -> JobScript:
    """Write the script of a job whose ranks a launcher starts."""
    scheduler = SCHEDULERS[options.scheduler]
    ranks = _ranks(benchmark, options, asked)
    resources = JobResources(options, ranks.spec.ranks, ranks.launcher.name)
    _check_gpus(resources, share=asked.job.share_gpu, used=ranks.spec.gpus)
    named = value_of(asked, "--transport") or ()
    notes = [*_no_resources(options), *_other_kind(benchmark, resources, asked, ranks)]
    if named and ranks.spec.gpus and not resources.brings_gpus:
        notes.insert(0, _no_gpus(1 if asked.job.share_gpu else resources.ranks_per_node))
    submit = scheduler.submit(resources, _file(options))
    lines = _head(scheduler, resources, submit)
    if (options.start or ("launcher" if ranks.launcher.name == "jsrun" else "volley")) == "volley":
        return JobScript(_text([*lines, *_volley_starts(ranks, options)]), submit, tuple(notes))
    for option, given in (("--launches", asked.job.launches > 1), ("--launcher-arg", asked.job.launcher_arg)):
        if given:
            raise UserError(f"{option} is for a volley that starts its ranks itself: add --start volley before the --")
    risky = preflight.RISKY
    if risky in ranks.transports and risky not in named:
        notes.append(f"inside a launcher {risky} is measured only where it is named: add --transport {risky}")
    return JobScript(_text([*lines, *_launcher_starts(ranks)]), submit, tuple(notes))


def _one_process(benchmark: Benchmark, options: BatchOptions, asked: Any) -> JobScript:
    """Write the script of a job without ranks: one process has all GPUs of the node."""
    scheduler = SCHEDULERS[options.scheduler]
    # With jsrun the script runs on a node without GPUs, and jsrun leads to one that has them.
    jsrun = LAUNCHERS["jsrun"] if scheduler.launcher == "jsrun" and options.start != "volley" else None
    _check_one_process(benchmark, options, asked, jsrun)
    resources = JobResources(options, 1, jsrun.name if jsrun else "none")
    submit = scheduler.submit(resources, _file(options))
    line, comment = [*_itself(), *options.words], "# one process has all GPUs of the node"
    if jsrun:
        comment = "# the script runs on a node without GPUs: jsrun leads to one that has them"
        line = [jsrun.program, *jsrun.words(LaunchSpec(engine=(), ranks=1, gpus=True)), *line]
    more = " ".join(options.directive).lower()
    notes = []
    if not (jsrun or options.gpus_per_node or "gpu" in more or "gres" in more or scheduler.name == "age"):
        notes.append(_no_gpus("with their number"))
    if scheduler.name in ("slurm", "pbs") and "excl" not in more and "cpus" not in more:
        notes.append(
            "one core is asked for, and some GPUs may be far from it: ask for the node with --directive, under Slurm "
            "--directive=--exclusive"
        )
    lines = [*_head(scheduler, resources, submit), comment, shlex.join(line)]
    return JobScript(_text(lines), submit, (*notes, *_no_resources(options)))


def _ranks(benchmark: Benchmark, options: BatchOptions, asked: Any) -> _Ranks:
    """Check the measurement against the engine, as it will be on the nodes."""
    if options.ranks and asked.job.ranks not in (None, options.ranks):
        raise UserError(f"--ranks {options.ranks} and, after the --, --ranks {asked.job.ranks}: leave one of them out")
    asked = replace(asked, job=replace(asked.job, ranks=options.ranks or asked.job.ranks))
    path = Path(engine_path.engine_path())
    about = ask_about(path)()
    plans = [job.plan for job in benchmark.jobs(asked, Site(about)).planned]
    ranks = max(plan.world_size for plan in plans)
    if ranks < options.nodes:
        raise UserError(f"{ranks} ranks do not spread over {options.nodes} nodes: write --nodes {ranks}")
    names = list(dict.fromkeys(name for plan in plans for name in plan.transports))
    used = [each for each in about.transports if each.name in names]
    scheduler, stack = SCHEDULERS[options.scheduler], assemble(path, read_facts(path))
    allocation = Allocation(scheduler.name, options.nodes, ranks)
    launcher = choose(scheduler.launcher if options.launcher == "auto" else options.launcher, stack, allocation)
    if launcher.batch_system not in (None, scheduler.name):
        raise UserError(f"{launcher.name} is of no use in a job of {scheduler.name}: leave --launcher out")
    spec = LaunchSpec(
        engine=(*_itself(), *options.words),
        ranks=ranks,
        family=stack.built.mpi_family,
        mpiexec=stack.mpiexec,
        allocation=allocation,
        gpus=any(each.memory == "device" for each in used),
        device_buffers=any(each.memory == "device" and each.mpi for each in used),
        mca=stack.mca,
        variables=stack.environment,
        extra=asked.job.launcher_arg,
    )
    return _Ranks(launcher, spec, names, on_host=all(each.memory == "host" for each in used))


# ---------------------------------------------------------------------------------------------- what is refused


def _check_words(options: BatchOptions) -> None:
    """Refuse what a script cannot hold: a line break would end a directive or a command in the middle."""
    for option, value in (
        *(("--module", module) for module in options.module),
        *(("--directive", directive) for directive in options.directive),
        ("--output", str(options.output or "")),
        *(("after --", word) for word in (*options.words, *_itself())),
    ):
        if not value.isprintable():
            raise UserError(f"{option}: a job script cannot hold the control character in {escape_controls(value)!r}")


def _check_asked(options: BatchOptions, asked: Any) -> None:
    """Refuse options of the measurement that make no sense in a job."""
    job = asked.job
    if job.hosts:
        raise UserError(
            "--hosts: the batch system chooses the hosts; to ask it for some, use e.g. --directive=--nodelist=a,b"
        )
    if job.dry_run:
        raise UserError("--dry-run starts nothing: leave it out of a job")
    if job.launcher != "auto":
        raise UserError(f"write --launcher before the command: volley batch --launcher {job.launcher} -- …")
    at_least_s = (value_of(asked, "--budget") or 0) * job.launches
    if at_least_s > options.time:
        raise UserError(
            f"the job may measure for {at_least_s:g} s and ends after {options.time} s: raise --time, or lower --budget"
        )


def _check_one_process(benchmark: Benchmark, options: BatchOptions, asked: Any, jsrun: Launcher | None) -> None:
    """Refuse what makes no sense where one process has all GPUs of a node; ``jsrun`` starts it, if anything does."""
    if options.nodes > 1:
        raise UserError(f"--nodes {options.nodes}: this measures between the GPUs of one node; leave it out")
    if options.ranks not in (None, 1):
        raise UserError(f"--ranks {options.ranks}: one process has all GPUs of the node; leave it out")
    nothing = "between GPUs of one node there are no ranks to start; leave it out"
    if options.launcher not in ("auto", jsrun.name if jsrun else "auto"):
        instead = ", and where there is no jsrun write --start volley" if jsrun else ""
        raise UserError(f"--launcher {options.launcher}: {nothing}{instead}")
    if options.start == "launcher" and not jsrun:
        raise UserError(f"--start launcher: {nothing}")
    if read_facts(Path(engine_path.local_engine_path())).cuda_version is None:
        raise MachineError(f"this engine was built without CUDA and sees no GPU; {benchmark.hint}")
    there, gpus = options.gpus_per_node, asked.job.gpus
    if there and gpus and max(gpus) >= there:
        raise UserError(f"--gpus names GPU {max(gpus)}, counted from 0: write --gpus-per-node {max(gpus) + 1}")


def _check_gpus(resources: JobResources, *, share: bool, used: bool) -> None:
    gpus, ranks = resources.options.gpus_per_node, resources.ranks_per_node
    if used and gpus and gpus < ranks and not share:
        raise UserError(
            f"{ranks} ranks and {gpus} GPU a node: write --gpus-per-node {ranks}, or --nodes {resources.ranks}, "
            "or let ranks share one with --share-gpu after the --"
        )


# ------------------------------------------------------------------------------------------------- what is said


def _no_gpus(needed: int | str) -> str:
    return f"no GPUs are asked for, and on many sites none will be there: add --gpus-per-node {needed}"


def _no_resources(options: BatchOptions) -> list[str]:
    """Say that a batch system is asked for nothing but time."""
    if options.scheduler != "age" or options.node_resource or options.directive:
        return []
    return ["nothing but time is asked for: Grid Engine's names are the site's; add e.g. --node-resource rt_AF"]


def _other_kind(benchmark: Benchmark, resources: JobResources, asked: Any, ranks: _Ranks) -> list[str]:
    """Say that GPUs are asked for and none is used, where another benchmark of the same command uses them."""
    others = [each for each in benchmarks.BENCHMARKS if each.local and each.command == benchmark.command]
    if not others or not ranks.on_host or not (asked.job.gpus or resources.brings_gpus):
        return []
    return [f"this measures between ranks, through host memory; between the GPUs of a node: {others[0].examples[-1]}"]


# ------------------------------------------------------------------------------------------ the script's parts


def _itself() -> tuple[str, ...]:
    """How this volley is started again from anywhere: its environment needs no activation."""
    program = Path(sys.argv[0])
    if program.name == "volley" and os.access(program, os.X_OK) and program.is_file():
        return (str(program.absolute()),)
    return (sys.executable, "-m", "volley")


def _head(scheduler: Scheduler, resources: JobResources, submit: str) -> list[str]:
    """Return all lines before those that measure: directives, the folder, modules, the engine if one was chosen."""
    options = resources.options
    lines = [*beginning(scheduler, resources), ""]
    lines += [f"# Written by volley batch; submit with: {submit}"]
    lines += [scheduler.to_submit_folder] if scheduler.to_submit_folder else []
    if options.module:
        lines += ["# module is a function of login shells", "command -v module >/dev/null || . /etc/profile"]
        lines += [f"module load {shlex.join(options.module)} || exit"]
    if os.environ.get(engine_path.VARIABLE):
        lines += [f"export {engine_path.VARIABLE}={shlex.quote(engine_path.engine_path())}"]
    return [*lines, ""]


def _file(options: BatchOptions) -> str:
    return shlex.quote(str(options.output)) if options.output else "FILE"


def _text(lines: Sequence[str]) -> str:
    return "\n".join(lines) + "\n"


def _launcher_words(ranks: _Ranks) -> list[str]:
    """The launcher and its words; the engine's own mpirun by its path, others as the nodes know them."""
    launcher, spec = ranks.launcher, ranks.spec
    own = launcher.name == spec.family and spec.mpiexec
    return [str(spec.mpiexec) if own else launcher.program, *launcher.words(spec), *spec.extra]


def _launcher_starts(ranks: _Ranks) -> list[str]:
    """The launcher starts volley, which becomes the ranks; variables that it hands on are exported before."""
    exports = [f"export {name}={shlex.quote(value)}" for name, value in ranks.launcher.environment(ranks.spec).items()]
    line = shlex.join([*_launcher_words(ranks), *ranks.spec.engine])
    return [*exports, "# the launcher starts volley, which becomes the ranks", line]


def _volley_starts(ranks: _Ranks, options: BatchOptions) -> list[str]:
    """Volley starts the launcher: a comment says how, as of now."""
    words = options.words
    command = words[:1] if words and not words[0].startswith("-") else ()
    added = ["--launcher", ranks.launcher.name]
    added += ["--ranks", str(options.ranks)] if options.ranks and command else []
    start = shlex.join([*_launcher_words(ranks), engine_path.NAME])
    return [
        f"# volley then starts the ranks, on the hosts of the job, with: {start}",
        shlex.join([*_itself(), *command, *added, *words[len(command) :]]),
    ]


def deliver(script: JobScript, output: Path | None) -> None:
    """Write the script to its file, or print it; what there is to say goes to standard error.

    Raises:
        MachineError: if the file cannot be written.
    """
    if output is None:
        sys.stdout.write(script.text)
        sys.stdout.flush()
    else:
        try:
            output.write_text(script.text, encoding="utf-8")
        except OSError as error:
            raise MachineError(f"--output: cannot write {escape_controls(str(output))}: {error.strerror}") from None
        print(f"submit with: {script.submit}", file=sys.stderr)
    for note in script.notes:
        print(f"volley: {note}", file=sys.stderr)
