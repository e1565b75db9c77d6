"""From a measurement and an order to a job script.

Everything that can be refused is refused here: a mistake must not wait in a queue for hours.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from volley import engine, locate
from volley.batch.schedulers import SCHEDULERS, Resources, Scheduler, head
from volley.errors import MachineError, UserError
from volley.run.launchers.allocation import Allocation
from volley.run.launchers.choose import choose
from volley.run.launchers.job import Job
from volley.run.launchers.launchers import LAUNCHERS, Launcher
from volley.planning import Request, check_counts, check_sees_gpus, choose_transports, count_ranks
from volley.stack import assemble, read_facts
from volley.text import harmless, several
from volley.trial import RISKY

STARTS = ("volley", "launcher")
_JOB_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.+-]*")
"""It becomes part of a file's name, and Grid Engine wants a letter first."""
_NAME = re.compile(r"[A-Za-z0-9_.+:@%=/~^][A-Za-z0-9_.+:@%=/~^,-]*")
"""What every batch system takes as a name without quotes; each quotes in its own way, or not at all."""


@dataclass(frozen=True, kw_only=True)
class Order:
    """What the command line asks for, beside the measurement."""

    scheduler: str
    resources: Resources
    ranks: int | None = None
    """Ranks that were asked for; ``None``: the measurement's own."""
    modules: tuple[str, ...] = ()
    directives: tuple[str, ...] = ()
    launcher: str = "auto"
    start: str | None = None
    """What the script's last line starts: ``volley`` or ``launcher``; ``None``: what suits the launcher."""
    output: Path | None = None


@dataclass(frozen=True)
class Script:
    """A job script, and what there is to say about it."""

    text: str
    submit: str
    """The command that hands it in."""
    notes: tuple[str, ...]


def write(order: Order, request: Request, words: Sequence[str]) -> Script:
    """Write the script that runs ``volley WORDS``, which were read as ``request``.

    Raises:
        UserError: if the measurement makes no sense in such a job.
        MachineError: if the engine does not start here, or has no launcher.
    """
    if order.scheduler not in SCHEDULERS:
        raise UserError(f"--scheduler: there is no {order.scheduler!r}; choose {several(SCHEDULERS, 'or')}")
    scheduler = SCHEDULERS[order.scheduler]
    _check_words(order, words)
    _check_request(order, request)
    if request.benchmark == "node":
        return _between_gpus(scheduler, order, request, words)
    work = _work(scheduler, order, request, words)
    asked = replace(order.resources, ranks=work.job.ranks, launcher=work.launcher.name)
    _check_gpus(asked, request, used=work.job.gpus)
    notes = (*_no_gpus(asked, request, work), *_no_resources(scheduler, order), *_other_matrix(asked, request))
    submit = _submit(scheduler, asked, order.output)
    lines = _beginning(scheduler, order, asked, submit)
    if (order.start or ("launcher" if work.launcher.name == "jsrun" else "volley")) == "launcher":
        _check_inside(request)
        unnamed = RISKY in work.transports and RISKY not in request.transports
        note = f"inside a launcher {RISKY} is measured only where it is named: add --transport {RISKY}"
        return Script(_text([*lines, *_launcher_starts(work)]), submit, (*notes, *([note] if unnamed else [])))
    return Script(_text([*lines, *_volley_starts(work, words, order)]), submit, notes)


def _between_gpus(scheduler: Scheduler, order: Order, request: Request, words: Sequence[str]) -> Script:
    """One process has all GPUs of the job's node: there are no ranks, and no launcher but one that leads there."""
    leads = LAUNCHERS["jsrun"]
    far = scheduler.name == leads.at_home and order.start != "volley"
    _check_between_gpus(order, request, leads if far else None)
    asked = replace(order.resources, ranks=1, launcher=leads.name if far else "none")
    submit = _submit(scheduler, asked, order.output)
    itself = [*_itself(), *words]
    if far:
        comment = "# the script runs on a node without GPUs: jsrun leads to one that has them"
        itself = [leads.program, *leads.words(Job(engine=(), ranks=1, gpus=True)), *itself]
    else:
        comment = "# one process has all GPUs of the node"
    more = " ".join(order.directives).lower()
    named = far or asked.gpus_per_node or "gpu" in more or "gres" in more or scheduler.name == "age"
    notes = [] if named else [_without_gpus("with their number")]
    if scheduler.name in ("slurm", "pbs") and "excl" not in more and "cpus" not in more:
        notes.append(
            "one core is asked for, and some GPUs may be far from it: ask for the node with --directive, under Slurm "
            "--directive=--exclusive"
        )
    lines = [*_beginning(scheduler, order, asked, submit), comment, shlex.join(itself)]
    return Script(_text(lines), submit, (*notes, *_no_resources(scheduler, order)))


def _beginning(scheduler: Scheduler, order: Order, asked: Resources, submit: str) -> list[str]:
    """Return all lines before those that measure."""
    return [*head(scheduler, asked, order.directives), "", *_setting(scheduler, order, submit), ""]


def _text(lines: Sequence[str]) -> str:
    return "\n".join(lines) + "\n"


@dataclass(frozen=True)
class _Work:
    """What is to be started, and with what."""

    launcher: Launcher
    job: Job
    transports: Sequence[str]


def _work(scheduler: Scheduler, order: Order, request: Request, words: Sequence[str]) -> _Work:
    """Hold the measurement against the engine, as it will be on the nodes."""
    path = engine.find()
    about = engine.ask_about(path)()
    names = choose_transports(request.transports, about)
    stack = assemble(path, read_facts(path))
    ranks = _ranks(order, request)
    allocation = Allocation(scheduler.name, order.resources.nodes, ranks)
    launcher = choose(scheduler.launcher if order.launcher == "auto" else order.launcher, stack, allocation)
    if launcher.at_home not in (None, scheduler.name):
        raise UserError(f"{launcher.name} is of no use in a job of {scheduler.name}: leave --launcher out")
    on_gpus = [each for each in about.transports if each.name in names and each.memory == "device"]
    job = Job(
        engine=(*_itself(), *words),
        ranks=ranks,
        family=stack.built.mpi_family,
        mpiexec=stack.mpiexec,
        allocation=allocation,
        gpus=bool(on_gpus),
        device_buffers=any(each.mpi for each in on_gpus),
        mca=stack.mca,
        variables=stack.environment,
        extra=request.launcher_args,
    )
    return _Work(launcher, job, names)


# ------------------------------------------------------------------------------------------ what cannot be asked


def _check_words(order: Order, words: Sequence[str]) -> None:
    """Refuse what a script cannot hold: a line break would end a directive or a command in the middle."""
    asked = order.resources
    if not _JOB_NAME.fullmatch(asked.name):
        raise UserError(
            f"--job-name: {asked.name!r} is no name for a job: use a letter, then letters, digits and . _ - +"
        )
    names = {"--account": asked.account, "--queue": asked.queue, "--node-resource": asked.node_resource}
    for option, value in names.items():
        if value is not None and not _NAME.fullmatch(value):
            raise UserError(
                f"{option}: {value!r} is no name for a batch system: use letters, digits and . _ - + : @ / %"
            )
    if asked.node_resource and order.scheduler != "age":
        raise UserError(f"--node-resource is Grid Engine's: leave it out for {order.scheduler}")
    for module in order.modules:
        if not module or module.startswith("-"):
            raise UserError(f"--module: {module!r} is no module")
    if not all(directive.strip() for directive in order.directives):
        raise UserError("--directive: '' is no directive; write what the batch system reads, e.g. --exclusive")
    for option, value in (
        *(("--module", module) for module in order.modules),
        *(("--directive", directive) for directive in order.directives),
        ("--output", str(order.output or "")),
        *(("after --", word) for word in (*words, *_itself())),
    ):
        if not value.isprintable():
            raise UserError(f"{option}: a job script cannot hold the control character in {harmless(value)!r}")


def _check_request(order: Order, request: Request) -> None:
    check_counts(request)
    if request.hosts:
        raise UserError(
            "--hosts: the batch system chooses the hosts; to ask it for some, use e.g. --directive=--nodelist=a,b"
        )
    if request.dry_run:
        raise UserError("--dry-run starts nothing: leave it out of a job")
    if request.launcher != "auto":
        raise UserError(f"write --launcher before the command: volley batch --launcher {request.launcher} -- …")
    if order.start not in (None, *STARTS):
        raise UserError(f"--start: there is no {order.start!r}; choose {' or '.join(STARTS)}")
    at_least_s = (request.budget_s or 0) * request.launches
    if at_least_s > order.resources.time_s:
        raise UserError(
            f"the job may measure for {at_least_s:g} s and ends after {order.resources.time_s} s: "
            "raise --time, or lower --budget"
        )


def _check_inside(request: Request) -> None:
    """Refuse what only a volley outside of the launcher can do."""
    for option, given in (("--launches", request.launches > 1), ("--launcher-arg", request.launcher_args)):
        if given:
            raise UserError(f"{option} is for a volley that starts its ranks itself: add --start volley before the --")


def _check_between_gpus(order: Order, request: Request, leads: Launcher | None) -> None:
    """Refuse what has no place where one process has all GPUs of a node; ``leads``: the launcher that leads there."""
    if order.resources.nodes > 1:
        raise UserError(f"--nodes {order.resources.nodes}: this matrix is between the GPUs of one node; leave it out")
    if order.ranks not in (None, 1):
        raise UserError(f"--ranks {order.ranks}: one process has all GPUs of the node; leave it out")
    nothing = "between GPUs of one node there are no ranks to start; leave it out"
    if order.launcher not in ("auto", leads.name if leads else "auto"):
        instead = ", and where there is no jsrun write --start volley" if leads else ""
        raise UserError(f"--launcher {order.launcher}: {nothing}{instead}")
    if order.start == "launcher" and not leads:
        raise UserError(f"--start launcher: {nothing}")
    check_sees_gpus(read_facts(engine.find()).cuda_version)
    locate.node_engine_path()
    there = order.resources.gpus_per_node
    if there and request.gpus and max(request.gpus) >= there:
        raise UserError(
            f"--gpus names GPU {max(request.gpus)}, counted from 0: write --gpus-per-node {max(request.gpus) + 1}"
        )


def _ranks(order: Order, request: Request) -> int:
    """Return the ranks of the job, and hold them against the nodes."""
    if order.ranks and request.ranks and order.ranks != request.ranks:
        raise UserError(f"--ranks {order.ranks} and, after the --, --ranks {request.ranks}: leave one of them out")
    ranks = count_ranks(replace(request, ranks=order.ranks or request.ranks), None)
    if ranks < order.resources.nodes:
        raise UserError(f"{ranks} ranks do not spread over {order.resources.nodes} nodes: write --nodes {ranks}")
    return ranks


def _no_gpus(asked: Resources, request: Request, work: _Work) -> tuple[str, ...]:
    """Say where GPUs were asked to be measured, and nobody asked the batch system for one."""
    if not (request.transports and work.job.gpus) or asked.gpus_per_node or asked.node_resource:
        return ()
    if work.launcher.name == "jsrun":
        return ()
    return (_without_gpus(1 if request.share_device else asked.ranks_per_node),)


def _without_gpus(needed: int | str) -> str:
    return f"no GPUs are asked for, and on many sites none will be there: add --gpus-per-node {needed}"


def _no_resources(scheduler: Scheduler, order: Order) -> tuple[str, ...]:
    """Say where a batch system is asked for nothing but time."""
    if scheduler.name != "age" or order.resources.node_resource or order.directives:
        return ()
    return ("nothing but time is asked for: Grid Engine's names are the site's; add e.g. --node-resource rt_AF",)


def _other_matrix(asked: Resources, request: Request) -> tuple[str, ...]:
    """Say where GPUs are asked for, and the matrix is between ranks through host memory."""
    gpus = request.gpus or asked.gpus_per_node or asked.node_resource or asked.launcher == "jsrun"
    if request.benchmark != "matrix" or request.transports != ("host",) or not gpus:
        return ()
    return (
        "this matrix is between ranks, through host memory; for the GPUs of a node name its sections: --section all",
    )


def _check_gpus(asked: Resources, request: Request, *, used: bool) -> None:
    gpus, ranks = asked.gpus_per_node, asked.ranks_per_node
    if used and gpus and gpus < ranks and not request.share_device:
        raise UserError(
            f"{ranks} ranks and {gpus} GPU a node: write --gpus-per-node {ranks}, or --nodes {asked.ranks}, "
            "or let ranks share one with --share-gpu after the --"
        )


# ------------------------------------------------------------------------------------------ the script's parts


def _itself() -> tuple[str, ...]:
    """How this volley is started again from anywhere: its environment needs no activation."""
    program = Path(sys.argv[0])
    if program.name == "volley" and os.access(program, os.X_OK) and program.is_file():
        return (str(program.absolute()),)
    return (sys.executable, "-m", "volley")


def _setting(scheduler: Scheduler, order: Order, submit: str) -> list[str]:
    """Return the lines before the command: where it runs, its modules, and its engine where one was chosen."""
    lines = [f"# Written by volley batch; hand it in with: {submit}"]
    lines += [scheduler.to_submit_folder] if scheduler.to_submit_folder else []
    if order.modules:
        lines += ["# module is a function of login shells", "command -v module >/dev/null || . /etc/profile"]
        lines += [f"module load {shlex.join(order.modules)} || exit"]
    chosen = os.environ.get(locate.VARIABLE)
    return lines + ([f"export {locate.VARIABLE}={shlex.quote(locate.engine_path())}"] if chosen else [])


def _launcher(work: _Work) -> list[str]:
    """The launcher's words; the engine's own mpirun by its path, others as the nodes know them."""
    own = work.launcher.name == work.job.family and work.job.mpiexec
    return [str(work.job.mpiexec) if own else work.launcher.program, *work.launcher.words(work.job), *work.job.extra]


def _launcher_starts(work: _Work) -> list[str]:
    """The launcher starts volley, which becomes the ranks; variables that it hands on are exported before."""
    exports = [f"export {name}={shlex.quote(value)}" for name, value in work.launcher.environment(work.job).items()]
    line = shlex.join([*_launcher(work), *work.job.engine])
    return [*exports, "# the launcher starts volley, which becomes the ranks", line]


def _volley_starts(work: _Work, words: Sequence[str], order: Order) -> list[str]:
    """Volley starts the launcher: a comment says how, as of now."""
    added = ["--launcher", work.launcher.name]
    added += ["--ranks", str(order.ranks)] if order.ranks and "transports" in words[:1] else []
    line = [*_itself(), *words[:1], *added, *words[1:]] if words and not words[0].startswith("-") else None
    return [
        f"# volley then starts the ranks, on the hosts of the job, with: {shlex.join([*_launcher(work), locate.NAME])}",
        shlex.join(line or [*_itself(), *added, *words]),
    ]


def _submit(scheduler: Scheduler, asked: Resources, output: Path | None) -> str:
    words = scheduler.submit(asked, shlex.quote(str(output)) if output else "FILE")
    return " ".join(words)


# ------------------------------------------------------------------------------------------------------- output


def deliver(script: Script, output: Path | None) -> None:
    """Write the script to its file, or print it; what there is to say goes to stderr.

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
            raise MachineError(f"--output: cannot write {harmless(str(output))}: {error.strerror}") from None
        print(f"hand it in with: {script.submit}", file=sys.stderr)
    for note in script.notes:
        print(f"volley: {note}", file=sys.stderr)
