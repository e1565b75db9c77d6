"""``volley check``: run the measurements, judge their records, show the findings."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from volley import benchmarks
from volley.benchmarks.matrix import RANKS
from volley.check import cluster, machine
from volley.check.findings import THIRD, CheckFinding, Verdict, exit_code, in_order, of_cluster, render
from volley.check.options import CLUSTER_S, GPUS_S, MACHINE_S, CheckOptions
from volley.errors import EXIT_GOOD, EXIT_MACHINE, UserError
from volley.launch.allocation import allocation
from volley.launch.inside_launcher import rank_info
from volley.machine.nvidia_driver import gpu_count, has_driver
from volley.machine.signals import Stop
from volley.records.records_file import Writer, open_writer
from volley.records.run_log import RunLog
from volley.run.benchmark import Benchmark
from volley.run.progress import Progress
from volley.run.session import prepare
from volley.statistics.estimates import median
from volley.text import count, escape_controls


@dataclass
class Check:
    """A check while it measures."""

    options: CheckOptions
    writer: Writer
    stop: Stop
    budget_s: float
    findings: list[CheckFinding] = field(default_factory=list)
    begun: float = field(default_factory=time.monotonic)

    @property
    def left_s(self) -> float:
        return self.budget_s - (time.monotonic() - self.begun)

    def launches(self, layer: str, benchmark: Benchmark, options: Any) -> list[RunLog]:
        """Run a benchmark and return its records; what prevents it, or ends it early, becomes a finding."""
        chosen = self.options.output
        finding = partial(CheckFinding, layer=layer, decides="volley doctor")
        if self.left_s <= 0:
            why = f"the {self.budget_s:g} s of this check were over"
            self.findings.append(finding(verdict="UNDECIDED", why=why, decides="a longer --budget"))
            return []
        try:
            session = prepare(benchmark, options, self.stop)
        except UserError as error:
            self.findings.append(finding(verdict="NOT POSSIBLE", why=str(error)))
            return []
        shown = "table" if chosen.format == "table" else "json"
        with Progress(shown, session.jobs.count, quiet=chosen.quiet) as progress:
            session.run(self.writer, progress, self.stop)
        began = any(log.run for log in session.logs)
        for outcome in session.outcomes:
            if outcome.code != EXIT_GOOD and not any("failed" in log.statuses for log in session.logs):
                why = " ".join(line.removeprefix("volley: ") for line in outcome.lines[-1:])
                verdict: Verdict = "FAIL" if began and outcome.code != EXIT_MACHINE else "NOT POSSIBLE"
                self.findings.append(finding(verdict=verdict, why=why or "no reason"))
        return session.logs


def run(options: CheckOptions) -> int:
    """Run the command; return the exit code."""
    known = machine.read_limits(options.expect) if options.expect and not options.learn else None
    switch_of = cluster.switches_in(options.switches) if options.switches else {}
    granted = allocation(os.environ)
    one = not rank_info(os.environ) and len(options.job.hosts) <= 1 and (granted is None or granted.nodes == 1)
    if options.expect and not one:
        raise UserError("--expect has limits of one machine: leave it out, or check each machine by itself")
    with Stop() as stop:
        writer = open_writer(options.output.output, "check", force=options.output.force)
        usual_s = (GPUS_S if has_driver() else MACHINE_S) if one else CLUSTER_S
        check = Check(options, writer, stop, options.budget or usual_s)
        try:
            measured = _machine(check) if one else []
            together = cluster.Measured(switch_of, max(check.left_s, 0.0))
            logs = []
            if stop.signal is None:
                logs = check.launches("all ranks", replace(RANKS, jobs=together.jobs), options)
        finally:
            writer.close()
        if stop.signal is not None:
            print("volley: stopped", *filter(None, [writer.last_line()]), sep="\n", file=sys.stderr)
            return 128 + stop.signal
    times = {name: seconds for _, each, those in measured for name, seconds in machine.measured(each, those).items()}
    findings_together = list(_of_ranks(logs, together, options))
    of_ranks = together.times if one else {}
    judged = len(times) + len(of_ranks)
    for layer, benchmark, those in measured:
        check.findings += machine.judge(layer, benchmark, those, known, judged)
    check.findings += findings_together
    if known and of_ranks:
        check.findings = [each for each in check.findings if each.decides != THIRD]
        check.findings.append(machine.by_limits("all ranks", of_ranks, known, judged))
    if options.learn and options.expect:
        seconds_of = {name: median(seconds) for name, seconds in (times | of_ranks).items()}
        checks = machine.add_limits(options.expect, seconds_of)
        print(f"{options.expect}: {count(checks, 'check')}; limits need {machine.FEWEST}", file=sys.stderr)
    found = in_order(check.findings)
    render(found, options.output.format, sys.stdout)
    if not options.output.quiet and (line := writer.last_line()):
        print(escape_controls(line), file=sys.stderr)
    return exit_code(found)


def _machine(check: Check) -> list[tuple[machine.Layer, Benchmark, list[RunLog]]]:
    """Measure the layers of this machine."""
    measured = []
    for layer in machine.layers(gpu_count() if has_driver() else 0, check.options.transport):
        if check.stop.signal is not None:
            break
        benchmark, asked = benchmarks.read(layer.words)
        job = replace(asked.job, watchdog=check.options.job.watchdog)
        asked = replace(asked, job=job, output=replace(asked.output, quiet=True))
        logs = [log for _ in range(layer.times) for log in check.launches(layer.name, benchmark, asked)]
        if logs:
            measured.append((layer, benchmark, logs))
    return measured


def _of_ranks(logs: list[RunLog], together: cluster.Measured, options: CheckOptions) -> Iterator[CheckFinding]:
    """Judge all ranks together."""
    first = next((log.run for log in logs if log.run), None)
    if first is None:
        return
    yield from of_cluster(together.judgements(logs), first.ranks, together.switch_of, together.reasons)
    granted = allocation(os.environ)
    asked = len(set(options.job.hosts)) or (granted.nodes if granted else 1)
    seen = len({rank.host for rank in first.ranks})
    if seen < asked:
        why = f"the ranks were on {seen} of {count(asked, 'node')}"
        how = f"--ranks {asked} or more, spread over the nodes"
        yield CheckFinding(verdict="UNDECIDED", layer="all ranks", why=why, decides=how)
