"""From a measurement and the options of ``volley batch`` to a job script.

Everything that can be refused is refused here: a mistake must not wait in a queue for hours.
"""

from __future__ import annotations

import os
import shlex
import sys
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from volley import benchmarks
from volley.batch.options import BatchOptions
from volley.batch.schedulers import SCHEDULERS
from volley.command.commandline import Lazy, declared, value_of
from volley.errors import EXIT_GOOD, MachineError, UserError
from volley.files import refuse_existing, write_file
from volley.launch import engine_path
from volley.launch.allocation import Allocation
from volley.launch.engine import About, ask_about
from volley.launch.launchers import choose
from volley.launch.start import this_volley
from volley.machine.mpi_choice import choose_mpi
from volley.machine.mpi_stack import assemble
from volley.run.benchmark import Benchmark
from volley.run.jobs import JobContext
from volley.run.launches import Jobs
from volley.text import escape_controls, join_words
from volley.units import format_duration


@dataclass(frozen=True)
class JobResources:
    options: BatchOptions
    ranks: int
    launcher: str = "none"
    """What starts the ranks.  LSF gives nodes where that is jsrun, else slots."""

    @property
    def brings_gpus(self) -> bool:
        """True where GPUs are asked for, or nodes come with them."""
        return bool(self.options.gpus_per_node or self.options.node_resource or self.launcher == "jsrun")

    @property
    def shares_nodes(self) -> bool:
        """True if other jobs may run on its nodes, or a directive of the user says what may."""
        more = self.options.directive
        return self.options.share_nodes or "-x" in more or "excl" in " ".join(more).lower()

    def fill(self, line: str) -> str:
        """Fill a line of a scheduler; a KeyError if a value of it was not given."""
        options, jsrun = self.options, self.launcher == "jsrun"
        minutes, ranks_per_node = -(-options.time // 60), -(-self.ranks // options.nodes)
        given = ("job_name", "nodes", "gpus_per_node", "account", "queue", "node_resource")
        values = {name: getattr(options, name) for name in given} | {
            "ranks": self.ranks,
            "ranks_per_node": ranks_per_node,
            "clock": f"{options.time // 3600:02d}:{options.time // 60 % 60:02d}:{options.time % 60:02d}",
            "clock_minutes": f"{minutes // 60:02d}:{minutes % 60:02d}",
            "chunk_gpus": f":ngpus={options.gpus_per_node}" if options.gpus_per_node else "",
            "whole_nodes": options.nodes if jsrun else None,
            "slots": None if jsrun else self.ranks,
            "slots_per_node": None if jsrun else ranks_per_node,
            "alone": None if jsrun or self.shares_nodes else "",
            "excl": "" if self.shares_nodes else ":excl",
            # ABCI's option for the group that pays, on the command line of Grid Engine.
            "group": f"-g {options.account} " if options.account else "",
            "file": shlex.quote(str(options.output)) if options.output else "FILE",
        }
        return line.format(**{name: value for name, value in values.items() if value is not None})


def run(options: BatchOptions) -> int:
    """Write the script to its file, or print it; notes go to standard error.  Return the exit code."""
    if options.output:
        refuse_existing(options.output, force=options.force)
    script, submit, notes = write(options)
    if options.output is None:
        sys.stdout.write(script)
        sys.stdout.flush()
    else:
        write_file(options.output, script.encode())
        print(f"submit with: {submit}", file=sys.stderr)
    for note in notes:
        print(f"volley: {note}", file=sys.stderr)
    return EXIT_GOOD


def write(options: BatchOptions) -> tuple[str, str, list[str]]:
    """Return the script that runs ``volley WORDS``, the command that submits it, and notes about it."""
    if options.command[:1] == ("check",):
        benchmark, asked = Lazy("volley.check.command.for_batch")(
            options.command[1:], options.nodes, options.gpus_per_node
        )
    else:
        benchmark, asked = benchmarks.read(options.command, ("check",))
    _check(options, asked)
    resources, notes = (_one_process if benchmark.local else _ranks)(benchmark, options, asked)
    submit = resources.fill(SCHEDULERS[options.scheduler].submit)
    return _script(resources, _command(options, local=benchmark.local), submit), submit, notes


def _ranks(benchmark: Benchmark, options: BatchOptions, asked: Any) -> tuple[JobResources, list[str]]:
    if options.ranks and asked.job.ranks not in (None, options.ranks):
        raise UserError(f"--ranks {options.ranks} and, after the --, --ranks {asked.job.ranks}: leave one of them out")
    asked = replace(asked, job=replace(asked.job, ranks=options.ranks or asked.job.ranks))
    path = Path(engine_path.engine_path())
    chosen = choose_mpi(asked.job.mpi, os.environ)
    with ask_about(path, chosen.library) as answer:
        about = answer()
    jobs = benchmark.jobs(asked, JobContext(about))
    plans = [job.plan for job in jobs.planned]
    ranks = max(plan.world_size for plan in plans)
    if ranks < options.nodes:
        raise UserError(f"{ranks} ranks cannot be spread over {options.nodes} nodes: write --nodes {ranks}")
    used = about.of(name for plan in plans for name in plan.transports)
    on_gpus = any(each.memory == "device" for each in used)
    wanted = SCHEDULERS[options.scheduler].launcher if options.launcher == "auto" else options.launcher
    stack = assemble(chosen, about.mpi, about.cuda_built)
    launcher = choose(wanted, stack, Allocation(options.scheduler, options.nodes, options.nodes))
    if launcher.batch_system not in (None, options.scheduler):
        raise UserError(f"{launcher.name} is not available under {options.scheduler}: leave --launcher out")
    resources = JobResources(options, ranks, launcher.name)
    needed, gpus, share = -(-ranks // options.nodes), options.gpus_per_node, asked.job.share_gpu
    if on_gpus and gpus and gpus < needed and not share:
        raise UserError(
            f"{needed} ranks and {gpus} GPU per node: write --gpus-per-node {needed}, or --nodes {ranks}, "
            "or let ranks share one with --share-gpu after the --"
        )
    named = value_of(asked, "--transport")
    notes = [*_too_short(options, benchmark, jobs, about), *_no_resources(options)]
    if named and on_gpus and not resources.brings_gpus:
        notes.insert(0, _no_gpus(1 if share else needed))
    local = [each for each in benchmarks.BENCHMARKS if each.local and each.command == benchmark.command]
    if local and not on_gpus and (asked.job.gpus or resources.brings_gpus):
        notes.append(
            "this measures between ranks, through host memory; to measure between the GPUs of a node: "
            f"{local[0].examples[-1]}"
        )
    if launcher.name == "jsrun" and options.launcher == "auto":
        if (asked.job.launches or 1) > 1:
            raise UserError(
                "--launches: jsrun starts volley, which then has one launch: leave it out, or write --launcher jsrun "
                "before the --, and volley starts jsrun"
            )
        risky = [each.name for each in used if each.device_pointers and each.name not in (named or ())]
        if risky and named is not None:
            those = "is measured only where it is" if len(risky) == 1 else "are measured only where they are"
            notes.append(f"inside a launcher {join_words(risky)} {those} named: add --transport {','.join(risky)}")
    return resources, notes


def _one_process(benchmark: Benchmark, options: BatchOptions, asked: Any) -> tuple[JobResources, list[str]]:
    """Return what a job without ranks requests: one process has all GPUs of the node."""
    on_jsrun = options.scheduler == "lsf" and options.launcher in ("auto", "jsrun")
    if options.nodes > 1:
        raise UserError(f"--nodes {options.nodes}: this measures between the GPUs of one node; leave it out")
    if options.ranks not in (None, 1):
        raise UserError(f"--ranks {options.ranks}: one process has all GPUs of the node; leave it out")
    if options.launcher != "auto" and options.scheduler != "lsf":  # there, another launcher than jsrun means: no jsrun
        raise UserError(
            f"--launcher {options.launcher}: between GPUs of one node there are no ranks to start; leave it out"
        )
    with ask_about(Path(engine_path.engine_path())) as answer:
        about = answer()
    if about.cuda_built is None:
        raise MachineError(f"this engine was built without CUDA and sees no GPU; {benchmark.hint}")
    there, gpus = options.gpus_per_node, asked.job.gpus
    if there and gpus and max(gpus) >= there:
        raise UserError(f"--gpus names GPU {max(gpus)}, counted from 0: write --gpus-per-node {max(gpus) + 1}")
    more = " ".join(options.directive).lower()
    notes = []
    if not (on_jsrun or options.gpus_per_node or "gpu" in more or "gres" in more or options.scheduler == "age"):
        notes.append(_no_gpus("with their number"))
    if options.scheduler in ("slurm", "pbs") and options.share_nodes and "cpus" not in more:
        notes.append("the job requests one core, and some GPUs may be far from it: leave --share-nodes out")
    return JobResources(options, 1, "jsrun" if on_jsrun else "none"), [*notes, *_no_resources(options)]


def _check(options: BatchOptions, asked: Any) -> None:
    """Refuse what a script cannot hold, and what a job decides otherwise."""
    for name, value in (
        *(("--module", module) for module in options.module),
        *(("--directive", directive) for directive in options.directive),
        ("--output", str(options.output or "")),
        *(("after --", word) for word in (*options.command, *this_volley())),
    ):
        if not value.isprintable():  # a line break would end a directive or a command in the middle
            raise UserError(f"{name}: a job script cannot contain the control character in {escape_controls(value)!r}")
    job = asked.job
    if job.hosts:
        raise UserError(
            "--hosts: the batch system chooses the hosts; to ask it for some, use e.g. --directive=--nodelist=a,b"
        )
    if job.dry_run:
        raise UserError("--dry-run starts nothing: leave it out of a job")
    if job.launcher != "auto":
        raise UserError(f"write --launcher before the command: volley batch --launcher {job.launcher} -- …")
    at_least_s = value_of(asked, "--budget") or 0
    if at_least_s > options.time:
        raise UserError(
            f"the job may measure for {at_least_s:g} s and ends after {options.time} s: raise --time, or lower --budget"
        )


def _too_short(options: BatchOptions, benchmark: Benchmark, jobs: Jobs, about: About) -> list[str]:
    expected_s = jobs.expected_s(JobContext(about), benchmark.forecast)
    takes = f"the job takes about {format_duration(expected_s)} and ends after {options.time} s"
    less = (
        ", or write a --budget after the --" if any(o.name == "--budget" for o in declared(benchmark.options)) else ""
    )
    return [f"{takes}: raise --time{less}"] if expected_s > options.time else []


def _no_gpus(needed: int | str) -> str:
    return f"the job requests no GPUs, and on many sites it will have none: add --gpus-per-node {needed}"


def _no_resources(options: BatchOptions) -> list[str]:
    if options.scheduler != "age" or options.node_resource or options.directive:
        return []
    return [
        "the job requests only time: Grid Engine sites use different names for nodes; add e.g. --node-resource rt_AF"
    ]


# ------------------------------------------------------------------------------------------ the script's parts


def _command(options: BatchOptions, *, local: bool) -> str:
    """Return the line that measures: volley finds the job's nodes itself, and chooses the launcher except under Slurm,
    where srun makes the ranks a step of the job."""
    words = options.command
    command = words[:1] if words and not words[0].startswith("-") else ()
    launcher = "srun" if options.scheduler == "slurm" and options.launcher == "auto" else options.launcher
    added = [] if local or launcher == "auto" else ["--launcher", launcher]
    added += ["--ranks", str(options.ranks)] if options.ranks and command and not local else []
    return shlex.join([*this_volley(), *command, *added, *words[len(command) :]])


def _directives(resources: JobResources) -> list[str]:
    """Return every directive, the user's last."""
    options = resources.options
    if options.scheduler == "age":
        if not options.node_resource and options.nodes > 1 and not options.directive:
            raise UserError(
                f"Grid Engine sites use different names for {options.nodes} nodes: write e.g. --node-resource rt_AF "
                f"or --directive '-pe mpi {resources.ranks}'"
            )
        if options.node_resource and options.gpus_per_node:
            raise UserError(f"{options.node_resource} includes the GPUs of its node: leave --gpus-per-node out")
        if options.gpus_per_node:
            raise UserError("Grid Engine sites use different names for GPUs: write e.g. --directive '-l gpu=2' instead")
    if options.scheduler == "lsf" and resources.launcher == "jsrun" and options.gpus_per_node:
        raise UserError(
            "with jsrun a job has all GPUs of its nodes: leave --gpus-per-node out, or where there is no jsrun "
            "write --launcher openmpi"
        )
    lines = []
    for line in SCHEDULERS[options.scheduler].directives:
        with suppress(KeyError):  # a value that the user did not give
            lines.append(resources.fill(line))
    placed = any("place=" in each for each in options.directive)  # PBS reads one of them
    return [*(line for line in lines if not (placed and "place=" in line)), *options.directive]


def _script(resources: JobResources, command: str, submit: str) -> str:
    options, scheduler = resources.options, SCHEDULERS[resources.options.scheduler]
    lines = ["#!/bin/bash", *(f"{scheduler.prefix} {each}" for each in _directives(resources)), ""]
    lines += [f"# Written by volley batch; submit with: {submit}"]
    lines += [f"{scheduler.to_submit_folder} || exit"] if scheduler.to_submit_folder else []
    if options.module:
        lines += ["# module is a function of login shells", "command -v module >/dev/null || . /etc/profile"]
        lines += [f"module load {shlex.join(options.module)} || exit"]
    if os.environ.get(engine_path.VARIABLE):
        lines += [f"export {engine_path.VARIABLE}={shlex.quote(engine_path.engine_path())}"]
    return "\n".join([*lines, "", command]) + "\n"
