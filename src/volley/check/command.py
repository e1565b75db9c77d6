"""``volley check``: run the measurements, and show what they say."""

from __future__ import annotations

import math
import os
import socket
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from volley import benchmarks
from volley.benchmarks.matrix import RANKS
from volley.check import COMMAND, cluster, kept, limits, machine
from volley.check.findings import Again, CheckFinding
from volley.check.inventory import nics_here
from volley.check.judged import CheckedHost, Judged, OfCheck, read_yardsticks, show
from volley.check.options import CLUSTER_S, MACHINE_S, CheckOptions
from volley.errors import EXIT_GOOD, EXIT_MACHINE, EXIT_UNDECIDED, MachineError, UserError
from volley.launch.allocation import allocation
from volley.launch.inside_launcher import rank_info
from volley.launch.this_host import is_this_host
from volley.machine.finding import Verdict, exit_code
from volley.machine.nvidia_driver import gpu_count, has_driver
from volley.machine.signals import Stop
from volley.records import command_again
from volley.records.launch_series import count_missing
from volley.records.record_types import NotMeasured
from volley.records.records_file import encode_line
from volley.records.run_log import RunLog
from volley.records.writer import Writer, open_writer
from volley.run.benchmark import Benchmark
from volley.run.outcome import doctor_of, stopped
from volley.run.progress import Progress
from volley.run.session import prepare
from volley.text import escape_controls, utf8

OF_ONE_MACHINE = "--expect has limits of one machine: leave it out, or check each machine by itself"


@dataclass
class Check:
    """A check while it measures."""

    options: CheckOptions
    writer: Writer
    stop: Stop
    budget_s: float
    again: Again
    of_check: OfCheck
    unmeasured: list[NotMeasured] = field(default_factory=list)
    begun: float = field(default_factory=time.monotonic)

    @property
    def left_s(self) -> float:
        return self.budget_s - (time.monotonic() - self.begun)

    def launches(self, layer: str, benchmark: Benchmark, options: Any) -> list[RunLog]:
        """Run a benchmark and return its records, which also say what prevents it, or ends it early."""
        chosen = self.options.output
        unmeasured = partial(NotMeasured, layer=layer, decides=doctor_of(self.options.job))
        if self.left_s <= 0:
            why = f"not measured, because the time of this check, {self.budget_s:g} s, was over"
            self.unmeasured.append(unmeasured(verdict="UNDECIDED", why=why, decides=self.again.longer))
            return []
        try:
            session = prepare(benchmark, options, self.stop)
        except MachineError as error:
            self.unmeasured.append(unmeasured(verdict="NOT POSSIBLE", why=str(error)))
            return []
        session.asks_path = not self.of_check.one_machine  # paths are compared between nodes
        session.of_check = self.of_check
        shown = "table" if chosen.format == "table" else "json"
        with Progress(shown, session.jobs.count, quiet=chosen.quiet) as progress:
            session.run(self.writer, progress)
        began = any(log.run for log in session.logs)
        for outcome in session.outcomes:
            judged = any(log.out_of_time or "failed" in log.statuses for log in session.logs)
            if outcome.code != EXIT_GOOD and not judged:
                verdict: Verdict = "FAIL" if began and outcome.code != EXIT_MACHINE else "NOT POSSIBLE"
                self.unmeasured.append(unmeasured(verdict=verdict, why=utf8(outcome.why) or "no reason"))
        return [log for log in session.logs if log.run]

    def close(self) -> None:
        """Write what no other record says after the records of launches, if there are any."""
        for each in self.unmeasured if self.writer.last_line() else ():
            self.writer.write(encode_line(each))
        self.writer.close()


def run(options: CheckOptions) -> int:
    """Run the command; return the exit code."""
    granted = allocation(os.environ)
    hosts = list(options.job.hosts) or list(granted.hosts if granted else ())
    inside = rank_info(os.environ)
    if options.records:
        return kept.judge_files(options)
    yardsticks = read_yardsticks(options, hosts, hosts or ([] if inside else [socket.gethostname()]))
    where = yardsticks.map
    one = not inside and len(options.job.hosts) <= 1 and (granted is None or granted.nodes == 1)
    if not one and not options.output.quiet:
        known_words = where.words if where.known else "unknown, so that a far node cannot be told from a slow one"
        print(f"volley: the switches: {known_words}", file=sys.stderr)
    if options.expect and not one:
        raise UserError(OF_ONE_MACHINE)
    if one:
        _refuse_another(options.job.hosts)
    with Stop() as stop:
        writer = open_writer(options.output.output, "check", force=options.output.force)
        gpus = gpu_count() if one and has_driver() else None
        usual_s = machine.usual_s(gpus) if one else CLUSTER_S
        budget_s = options.budget or usual_s
        asked = command_again.asked(options.typed)
        again = Again(asked, max(usual_s, 2 * budget_s))
        nodes = len(set(hosts)) or (granted.nodes if granted else 1)
        node = os.environ.get("SLURMD_NODENAME", "")
        here = CheckedHost(host=socket.gethostname(), node=node, gpus=gpus, nics=nics_here()) if one else None
        of_check = OfCheck(asked=asked, one_machine=one, nodes=nodes, here=here)
        check = Check(options, writer, stop, budget_s, again, of_check)
        try:
            if options.transport:  # a name that is wrong is said before anything is measured
                with suppress(MachineError):
                    prepare(replace(RANKS, jobs=cluster.Measured(where, budget_s).jobs), options, stop)
            logs = _machine(check, gpus or 0) if one else []
            together = cluster.Measured(where, max(check.left_s, 0.0))
            if stop.signal is None and not (one and options.job.ranks == 1):
                logs += check.launches("all ranks", replace(RANKS, jobs=together.jobs), options)
        finally:
            check.close()
        if stop.signal is not None:
            ended = stopped(stop.signal, measured=any(log.statuses for log in logs), said=stop.said)
            print(*map(escape_controls, filter(None, [*ended.lines, writer.last_line()])), sep="\n", file=sys.stderr)
            return ended.code
    count_missing(logs)
    judged = Judged(options, logs, together, yardsticks, again, of_check, check.unmeasured)
    findings = judged.findings()
    records = [str(writer.path)] if writer.path and judged.names else []
    code = show(findings, judged.nodes(hosts), options, records)
    if not options.output.quiet and (line := writer.last_line()):
        print(escape_controls(line), file=sys.stderr)
    learned = not (options.learn and options.expect) or _learn(options.expect, findings, judged)
    return code if learned else code or EXIT_UNDECIDED


def _refuse_another(hosts: Sequence[str]) -> None:
    """Refuse the name of another machine: one machine is checked from within."""
    for name in hosts:
        if name != os.environ.get("SLURMD_NODENAME") and not is_this_host(name):
            why = f"--hosts {escape_controls(name)} is not this machine, {socket.gethostname()}, and one machine is"
            raise UserError(f"{why} checked from within: type volley check there, or name two hosts or more")


def _learn(file: Path, findings: Sequence[CheckFinding], judged: Judged) -> bool:
    """Add a check to the limits, if it passed with cores of its own; return whether it did."""
    learned = False
    if exit_code(findings) != EXIT_GOOD:
        said = f"{file}: nothing was learned, because this check did not pass"
    elif (busy := judged.without_core) and not judged.options.learn_busy:
        said = f"{file}: nothing was learned: {busy.said}; check again {busy.without}, or add --learn-busy"
        said += "; the exit code is 4, because what --learn asks for was not done"
    else:
        said, learned = limits.learn(file, judged.host, judged.this, judged.times), True
        if busy:
            said += f"\nvolley: {busy.longer}; {busy.without}, into a new file: {judged.again.learn_anew}"
    print(said, file=sys.stderr)
    return learned


def _machine(check: Check, gpus: int) -> list[RunLog]:
    """Measure the layers of this machine."""
    logs: list[RunLog] = []
    for layer in machine.layers(gpus, check.options.transport, check.options.typed):
        if check.stop.signal is not None:
            break
        benchmark, asked = benchmarks.read(layer.words)
        job, own_s = replace(asked.job, watchdog=check.options.job.watchdog), asked.sampling.budget or math.inf
        asked = replace(asked, job=job, output=replace(asked.output, quiet=True))
        for _ in range(layer.times):
            within = replace(asked.sampling, budget=min(own_s, check.left_s))
            # The records say that a budget, and nobody, may have ended a layer.
            others = [words for words in asked.typed if words[0] != "--budget"]
            typed = (*others, ("--budget", f"{within.budget:.3g}"))
            logs += check.launches(layer.name, benchmark, replace(asked, sampling=within, typed=typed))
    return logs


def for_batch(words: Sequence[str], nodes: int, gpus: int | None) -> tuple[Benchmark, CheckOptions]:
    """Return what a job script runs: the check of so many nodes with so many GPUs each."""
    asked: CheckOptions = COMMAND.parse(words)
    if asked.records:
        raise UserError("--from measures nothing: it needs no job")
    if asked.expect and nodes > 1:
        raise UserError(OF_ONE_MACHINE)
    yardsticks = read_yardsticks(asked, asked.job.hosts)
    if asked.job.ranks is None and nodes > 1:
        asked = replace(asked, job=replace(asked.job, ranks=nodes * (gpus or 1)))
    budget_s = asked.budget or (MACHINE_S if nodes == 1 else CLUSTER_S)
    jobs = cluster.Measured(yardsticks.map, budget_s).jobs
    return replace(RANKS, command=COMMAND.name, jobs=jobs), replace(asked, budget=budget_s)
