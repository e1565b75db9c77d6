"""``volley check``: run the measurements, or read kept ones, judge their records, show the findings."""

from __future__ import annotations

import math
import os
import shlex
import socket
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from volley import benchmarks
from volley.benchmarks import BENCHMARKS
from volley.benchmarks.matrix import RANKS
from volley.check import COMMAND, cluster, inventory, limits, machine
from volley.check.by_paths import by_line_rate, by_paths
from volley.check.findings import Again, Busy, CheckFinding, of_cluster, render
from volley.check.options import CLUSTER_S, GPUS_S, MACHINE_S, CheckOptions
from volley.check.places import Names
from volley.command.option_values import expand
from volley.document import Frozen, part_of
from volley.errors import EXIT_GOOD, EXIT_MACHINE, EXIT_UNDECIDED, MachineError, UserError
from volley.launch import cluster_map
from volley.launch.allocation import allocation
from volley.launch.cluster_map import ClusterMap
from volley.launch.inside_launcher import rank_info
from volley.launch.this_host import is_this_host
from volley.machine.finding import Verdict, exit_code, in_order
from volley.machine.inventory import Inventory, Seen, nics_here
from volley.machine.nvidia_driver import gpu_count, has_driver
from volley.machine.signals import Stop
from volley.machine.transports import TRANSPORTS, meant, without_fault
from volley.records import command_again
from volley.records.launch_series import refuse_unlike, series_of, way_key
from volley.records.plan import OUT_OF_TIME
from volley.records.records_file import Writer, open_writer, read_runs, without_repeats
from volley.records.run_log import RunLog
from volley.references.equal_machines import measured
from volley.run.benchmark import Benchmark
from volley.run.outcome import doctor_of, stopped
from volley.run.progress import Progress
from volley.run.session import prepare
from volley.text import count, did_you_mean, escape_controls, grouped, join_few, join_words
from volley.units import format_duration

OF_ONE_MACHINE = "--expect has limits of one machine: leave it out, or check each machine by itself"
LayerLogs = tuple[machine.Layer, Benchmark, list[RunLog]]


class OfCheck(Frozen, frozen=True, kw_only=True):
    """What the records of each launch say of its check."""

    asked: list[list[str]]
    """The options of the check."""
    one_machine: bool
    nodes: int
    """So many were asked for."""


@dataclass
class Check:
    """A check while it measures."""

    options: CheckOptions
    writer: Writer
    stop: Stop
    budget_s: float
    again: Again
    here: bool = False
    """One machine is checked."""
    nodes: int = 1
    """So many were asked for."""
    findings: list[CheckFinding] = field(default_factory=list)
    begun: float = field(default_factory=time.monotonic)

    @property
    def left_s(self) -> float:
        return self.budget_s - (time.monotonic() - self.begun)

    def launches(self, layer: str, benchmark: Benchmark, options: Any) -> list[RunLog]:
        """Run a benchmark and return its records; what prevents it, or ends it early, becomes a finding."""
        chosen = self.options.output
        doctor = doctor_of(self.options.job)
        finding = partial(CheckFinding, layer=layer, remedy=doctor)
        if self.left_s <= 0:
            why = f"not measured, because the time of this check, {format_duration(self.budget_s)}, was over"
            self.findings.append(finding(status="UNDECIDED", said=why, remedy=self.again.longer))
            return []
        try:
            session = prepare(benchmark, options, self.stop)
        except MachineError as error:
            self.findings.append(finding(status="NOT POSSIBLE", said=str(error)))
            return []
        session.asks_path = not self.here  # paths are compared between nodes
        asked = command_again.asked(self.options.typed)
        session.of_check = OfCheck(asked=asked, one_machine=self.here, nodes=self.nodes)
        shown = "table" if chosen.format == "table" else "json"
        with Progress(shown, session.jobs.count, quiet=chosen.quiet) as progress:
            session.run(self.writer, progress)
        began = any(log.run for log in session.logs)
        for outcome in session.outcomes:
            judged = any(log.out_of_time or "failed" in log.statuses for log in session.logs)
            if outcome.code != EXIT_GOOD and not judged:
                verdict: Verdict = "FAIL" if began and outcome.code != EXIT_MACHINE else "NOT POSSIBLE"
                self.findings.append(finding(status=verdict, said=outcome.why or "no reason"))
        return session.logs


class Yardsticks(NamedTuple):
    """What the files of the user say."""

    map: ClusterMap
    limits: limits.Limits | None
    inventory: Inventory | None


def _read(options: CheckOptions, hosts: Sequence[str], names: Sequence[str] = ()) -> Yardsticks:
    """Read the files that the options name: a wrong one is refused before anything is measured.

    ``names``: nodes that are measured, one of which a map must have.
    """
    if options.learn and options.expect:
        limits.refuse(options.expect)
    known = limits.read_limits(options.expect) if options.expect and not options.learn else None
    asked = inventory.read_inventory(options.inventory) if options.inventory else None
    where = _map(options, hosts)
    if options.switches and names and not any(map(where.path, names)):
        there = f"{count(len(where.path_of), 'node')} from {next(iter(where.path_of))} on"
        raise UserError(f"--switches {options.switches} does not name {join_few(names)}: it names {there}")
    return Yardsticks(where, known, asked)


def run(options: CheckOptions) -> int:
    """Run the command; return the exit code."""
    granted = allocation(os.environ)
    hosts = list(options.job.hosts) or list(granted.hosts if granted else ())
    inside = rank_info(os.environ)
    yardsticks = _read(options, hosts, hosts or ([] if options.records or inside else [socket.gethostname()]))
    where = yardsticks.map
    if options.records:
        return _of_kept(options, yardsticks)
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
        usual_s = _usual_s(gpus, one=one)
        budget_s = options.budget or usual_s
        again = Again(command_again.asked(options.typed), max(usual_s, 2 * budget_s))
        nodes = len(set(hosts)) or (granted.nodes if granted else 1)
        check = Check(options, writer, stop, budget_s, again, here=one, nodes=nodes)
        try:
            if options.transport:  # a name that is wrong is said before anything is measured
                with suppress(MachineError):
                    prepare(replace(RANKS, jobs=cluster.Measured(where, budget_s).jobs), options, stop)
            of_layers = _machine(check, gpus or 0) if one else []
            together = cluster.Measured(where, max(check.left_s, 0.0))
            logs = []
            if stop.signal is None and not (one and options.job.ranks == 1):
                logs = check.launches("all ranks", replace(RANKS, jobs=together.jobs), options)
        finally:
            writer.close()
        if stop.signal is not None:
            measured = any(log.statuses for log in [*logs, *(log for *_, logs in of_layers for log in logs)])
            ended = stopped(stop.signal, measured=measured, said=stop.said)
            print(*map(escape_controls, filter(None, [*ended.lines, writer.last_line()])), sep="\n", file=sys.stderr)
            return ended.code
    judged = Judged(options, of_layers, logs, together, yardsticks, again, here=one)
    check.findings += judged.findings()
    check.findings += _without_rank(logs, nodes)
    records = [str(writer.path)] if writer.path and judged.names else []
    code = _show(check.findings, judged.nodes(hosts), options, records)
    if not options.output.quiet and (line := writer.last_line()):
        print(escape_controls(line), file=sys.stderr)
    learned = not (options.learn and options.expect) or _learn(options.expect, check.findings, judged)
    return code if learned else code or EXIT_UNDECIDED


def _usual_s(gpus: int | None, *, one: bool) -> float:
    """Return the time of a check without ``--budget``; ``gpus``: those of one machine, ``None`` without a driver."""
    more_s = machine.TIMES * (machine.matrix_s(gpus or 0) - machine.LEAST_S)
    return CLUSTER_S if not one else MACHINE_S if gpus is None else GPUS_S + more_s


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
            said += f"\nvolley: {busy.said}: these times are longer than those of a quiet node; {busy.without}, "
            said += f"into a new file: {judged.again.learn_anew}"
    print(said, file=sys.stderr)
    return learned


_JUDGED_BY = ("--transport", "--switches", "--one-switch", "--expect", "--inventory")
"""Options of a check that its records are judged by."""


def _show(findings: Sequence[CheckFinding], nodes: Sequence[str], options: CheckOptions, records: Sequence[str]) -> int:
    """Show the findings of a check with these files of records; return the exit code."""
    names = {each for each in _JUDGED_BY if not (options.learn and each == "--expect")}
    judged_by = [command_again.written(words) for words in options.typed if not records or words[0] in names]
    words = ["volley", "check", *(["--from", ",".join(records)] if records else []), *chain.from_iterable(judged_by)]
    output = options.output
    render(in_order(findings), output.format, sys.stdout, nodes, full=output.full, whole=shlex.join([*words, "--full"]))
    sys.stdout.flush()
    return exit_code(findings)


def _map(options: CheckOptions, hosts: Sequence[str]) -> ClusterMap:
    """Return the map that the user names, or that of Slurm within its jobs."""
    if options.one_switch:
        return ClusterMap(one_switch=True, nodes=frozenset(hosts))
    if options.switches:
        return replace(cluster_map.of_file(options.switches), nodes=frozenset(hosts))
    return cluster_map.of_slurm(hosts) if "SLURM_JOB_ID" in os.environ else ClusterMap(nodes=frozenset(hosts))


_START = ("--mpi", "--launcher", "--launcher-arg")
"""Options of a check that its layers of one machine have too: the MPI that is asked about is the one that is judged."""


def _machine(check: Check, gpus: int) -> list[LayerLogs]:
    """Measure the layers of this machine."""
    found = []
    start = [f"{name}={value}" for name, *values in check.options.typed if name in _START for value in values]
    for layer in machine.layers(gpus, check.options.transport, start):
        if check.stop.signal is not None:
            break
        benchmark, asked = benchmarks.read(layer.words)
        job, own_s = replace(asked.job, watchdog=check.options.job.watchdog), asked.sampling.budget or math.inf
        asked = replace(asked, job=job, output=replace(asked.output, quiet=True))
        logs = []
        for _ in range(layer.times):
            within = replace(asked.sampling, budget=min(own_s, check.left_s))
            # The records say that a budget, and nobody, may have ended a layer.
            others = [words for words in asked.typed if words[0] != "--budget"]
            typed = (*others, ("--budget", f"{within.budget:.3g}"))
            logs += check.launches(layer.name, benchmark, replace(asked, sampling=within, typed=typed))
        if logs or any((each.layer, each.status) == (layer.name, "NOT POSSIBLE") for each in check.findings):
            found.append((layer, benchmark, logs))
    return found


@dataclass
class Judged:
    """Records and what they are judged by."""

    options: CheckOptions
    of_layers: list[LayerLogs]
    logs: list[RunLog]
    together: cluster.Measured
    yardsticks: Yardsticks
    again: Again
    here: bool = False
    """They were measured on this machine just now."""

    def __post_init__(self) -> None:
        self.all_logs = [*(log for *_, those in self.of_layers for log in those), *self.logs]
        self.gpus = next(filter(None, (log.gpus("before") for log in self.all_logs)), ())
        runs = [log.run for log in (*self.logs, *self.all_logs) if log.run]
        self.names = Names(runs[0].ranks, self.together.map) if runs else None
        self.of_ranks = self.together.judgements(self.logs)
        self.times: dict[str, list[float]] = {}
        for _, benchmark, those in self.of_layers:
            self.times |= measured(benchmark, those)
        self.one = self.names is None or self.names.one_node
        self.times |= self.together.times if self.one else {}
        known = self.yardsticks.limits
        self.site = limits.Site(known.of(self.this), len(self.times), self.again, self.host) if known else None

    @property
    def without_core(self) -> Busy | None:
        """Say why ranks were without their cores, whichever layer saw it."""
        of_cores = (those for layer, _, those in self.of_layers if layer.of_cores)
        return next(filter(None, map(machine.without_core, (*of_cores, self.logs))), None)

    @property
    def this(self) -> limits.Machine:
        """What the machine is, of which there are limits."""
        cpu = self.names.ranks[0].cpu if self.names else ""
        ranks = len(self.names.ranks) if self.names and self.logs else 0
        return limits.Machine(cpu=cpu, gpus=tuple(sorted(gpu.name or "" for gpu in self.gpus)), ranks=ranks)

    @property
    def host(self) -> str:
        own = os.environ.get("SLURMD_NODENAME") if self.here else None
        return own or (self.names.map.node(self.names.ranks[0].host) if self.names else socket.gethostname())

    def nodes(self, hosts: Sequence[str] = ()) -> list[str]:
        if self.one or not self.names:
            return [self.host]
        return list(dict.fromkeys([*hosts, *self.names.nodes(range(len(self.names.ranks)))]))

    def findings(self) -> list[CheckFinding]:
        found = [*self._of_machine(), *self._of_ranks()]
        if self.one:
            named = partial(msgspec.structs.replace, nodes=(self.host,))
            found = [named(each, drain=each.status == "FAIL") for each in found]
        return [*found, *self._of_inventory()]

    def _of_machine(self) -> Iterator[CheckFinding]:
        """Judge each layer."""
        for layer, benchmark, logs in self.of_layers:
            yield from machine.judge(layer, benchmark, logs, self.site, self.again)
        yield from machine.states([log for *_, logs in self.of_layers for log in logs], self.again)
        if self.yardsticks.limits and self.times:
            yield from limits.missing(self.this, self.times, self.yardsticks.limits, self._asked, self.again)

    def _asked(self, name: str) -> bool:
        """Return whether a launch that measured all that it could was to measure what has this name in the limits."""
        if cluster.TOGETHER not in name:
            return any(layer.measures(name) for layer, _, logs in self.of_layers if machine.whole(logs))
        plan = next((log.plan for log in self.logs if log.plan), None)
        sizes = (cluster.LATENCY_BYTES, cluster.BANDWIDTH_BYTES)
        late = OUT_OF_TIME in self.together.reasons.values() or not machine.whole(self.logs)
        return plan is not None and not late and machine.is_place(name.partition(": ")[2], plan.transports, sizes)

    def _of_ranks(self) -> Iterator[CheckFinding]:
        """Judge all ranks together."""
        if self.one and self.options.job.ranks == 1:
            why = "one rank has no partner" + ("; the limits do not judge it" if self.site else "")
            yield CheckFinding(status="NOT JUDGED", layer="all ranks", said=why, remedy=self.again("--ranks", "2"))
        if self.names is None or not self.logs:
            return
        absent = {each.transport: each.reason for log in self.logs for each in log.transports if not each.available}
        for transport, reason in absent.items():
            verdict: Verdict = "NOT POSSIBLE" if transport in self.options.transport else "NOT JUDGED"
            remedy = doctor_of(self.options.job)
            yield CheckFinding(status=verdict, layer="all ranks", said=f"{transport}: {reason}", remedy=remedy)
        if not self.one:
            yield from by_paths(self.logs[0], self.names)
        there = {case: its for case, its in self.of_ranks.items() if case[0] not in absent}
        found = list(of_cluster(there, self.names, self.together.reasons, self.again))
        if not self.one:  # of two nodes nothing else is judged
            found = list(by_line_rate(found, self.logs[0], self.together.times))
        if self.site and self.together.times and not any(each.status == "FAIL" for each in found):
            found = [each for each in found if each.status != "NOT JUDGED"]
            busy = machine.without_core(self.logs)
            found.append(self.site.judge("all ranks", self.together.times, busy, self.this.ranks))
        yield from found

    def _of_inventory(self) -> Iterator[CheckFinding]:
        if self.yardsticks.inventory is None or self.names is None:
            return
        names = self.names
        on_node = grouped(names.ranks, lambda rank: self.host if self.one else names.node(rank.rank))
        gpus = {node: [rank.device.name for rank in its if rank.device] or None for node, its in on_node.items()}
        seen = [Seen(node=node, cpu=its[0].cpu, gpus=gpus[node]) for node, its in on_node.items()]
        if self.one:
            # NVML could not be read, the GPUs could not be measured, or the check ended before that.
            unread = has_driver() and gpu_count() > 0 if self.here else not self.logs
            unread = unread or any(log.hardware for log in self.all_logs)
            links = [None if gpu.nvlinks is None else len(gpu.nvlinks) for gpu in self.gpus]
            more = {
                "gpus": [gpu.name or "" for gpu in self.gpus] if self.gpus or not unread else None,
                "nvlinks": None if None in links or (unread and not links) else links,
                "nics": nics_here() if self.here and is_this_host(names.ranks[0].host, look_up=False) else None,
                "memory_bytes": names.ranks[0].memory_available_bytes,
            }
            seen = [msgspec.structs.replace(seen[0], **more)]
        hosts = next((words[1] for words in self.again.asked if words[0] == "--hosts"), "")
        alone = self.one and len(expand(hosts or "a")) == 1
        yield from inventory.by_inventory(self.yardsticks.inventory, seen, self.again, alone=alone)


def _without_rank(logs: list[RunLog], asked: int) -> Iterator[CheckFinding]:
    first = next((log.run for log in logs if log.run), None)
    seen = len({rank.host for rank in first.ranks}) if first else asked
    if seen < asked:
        why = f"the ranks were on {seen} of {count(asked, 'node')}"
        how = f"--ranks {asked} or more, spread over the nodes"
        yield CheckFinding(status="UNDECIDED", layer="all ranks", said=why, remedy=how)


def _gpus_of(log: RunLog) -> set[str]:
    used = {rank.device.uuid for rank in log.run.ranks if rank.device} if log.run else set()
    return used | {gpu.uuid for gpu in log.gpus("before")}


_REMEDY = "judge each check by itself, with volley check --from RECORDS"


def _refuse_others(others: Sequence[RunLog]) -> None:
    """Refuse launches of no check, if there are any."""
    if others:
        files = join_few(dict.fromkeys(escape_controls(log.file) for log in others))
        raise UserError(f"{files} has {count(len(others), 'launch')} of no check beside those of a check: {_REMEDY}")


def _refuse_several(logs: Sequence[RunLog]) -> None:
    """Refuse records of several machines, or of several ways to check one."""
    runs = [(log, log.run) for log in logs if log.run]
    if any(run.plan.launch.get("of_check") for _, run in runs):  # all launches of a check say so
        _refuse_others([log for log, _ in runs if not log.of_check])
    machines = grouped(runs, lambda both: frozenset((rank.host, rank.cpu) for rank in both[1].ranks))
    if len(machines) > 1:
        refuse_unlike([those[0][0] for those in machines.values()], _REMEDY, among=("host", "CPU"))
    most = max(logs, key=lambda log: len(_gpus_of(log)))
    if apart := next((log for log in logs if not _gpus_of(log) <= _gpus_of(most)), None):  # a launch may use a part
        refuse_unlike([most, apart], _REMEDY, among=("GPU",))
    for those in grouped(runs, lambda both: (both[1].plan.benchmark, *both[1].plan.transports)).values():
        series = series_of([log for log, _ in those], way_key, any_placement=True)
        if len(series) > 1:
            refuse_unlike([each.logs[0] for each in series], _REMEDY)


def _of_kept(options: CheckOptions, yardsticks: Yardsticks) -> int:
    """Judge the files of --from."""
    given = {name for name, *_ in options.typed}
    if unused := [name for name in ("--budget", "--hosts", "--ranks") if name in given]:
        raise UserError(f"--from measures nothing: leave out {join_words(unused)}")
    for name in options.transport:
        if (plain := without_fault(name)) != "all" and not meant(plain, TRANSPORTS):
            guess = " ".join(filter(None, (";", did_you_mean(name, TRANSPORTS))))
            raise UserError(f"there is no transport {escape_controls(name)!r}{guess} volley transports lists them")
    kept = [log for name in dict.fromkeys(options.records) for log in read_runs(name, BENCHMARKS)]
    return _of_records(without_repeats(kept, quiet=options.output.quiet), options, yardsticks)


def _of_records(logs: Sequence[RunLog], options: CheckOptions, yardsticks: Yardsticks) -> int:
    """Judge what the records of a check hold; return the exit code.

    A layer that they do not hold is NOT JUDGED; it is UNDECIDED if it was asked for: by the check, as newer records
    say, by limits, which are of all layers, or by the name of its transport.
    """
    _refuse_several(logs)
    planned = [(log, log.run.plan) for log in logs if log.run]
    ranks = [log for log, plan in planned if getattr(plan.options, "rounds", ())]  # of all ranks together
    others = [(log, plan) for log, plan in planned if log not in ranks]
    if not ranks and len({plan.benchmark for _, plan in others}) == 1 and not any(log.of_check for log in logs):
        names = join_few(map(escape_controls, options.records))
        raise UserError(f"--from {names}: these are not records of a check: volley show shows them")
    plan = next((log.run.plan for log in ranks if log.run), None)
    check = part_of(planned[0][1].launch, OfCheck, "of_check") if planned else None
    given = check.asked if check else command_again.options_given(plan)
    budget_s = command_again.budget_in(given)
    given = [words for words in given if words[0] not in ("--learn", "--learn-busy", "--expect")]
    asked = {words[0]: words for words in (*given, *command_again.asked(options.typed))}
    hosts = [{rank.host for rank in log.run.ranks} for log in logs if log.run]
    one = check.one_machine if check else all(len(each) == 1 for each in hosts)
    usual_s = _usual_s(max((len(log.gpus("before")) for log in logs), default=0) or None, one=one)
    again = Again([*asked.values()], max(usual_s, 2 * (budget_s or usual_s)))
    of_layers: list[LayerLogs] = []
    absent = [] if ranks or ["--ranks", "1"] in given else ["all ranks"]
    transports = [name for _, plan in others for name in plan.transports]
    for layer in machine.layers(max((len(log.gpus("before")) for log in logs), default=0), transports) if one else ():
        benchmark, words = benchmarks.read(layer.words)
        sizes = [*words.points.sizes] if "--sizes" in layer.words else None
        its = benchmark.name, {*words.named_transports}, sizes
        those = [
            log
            for log, plan in others
            if its == (plan.benchmark, {*plan.transports}, getattr(plan.options, "sizes_bytes", None))
        ]
        of_layers += [(layer, benchmark, those)] if those else []
        absent += [] if those else [layer.name]
    of_check = {id(log) for *_, those in of_layers for log in those}
    _refuse_others([log for log, _ in others if not log.of_check and id(log) not in of_check])
    held = {name for log in logs if log.run for name in log.run.plan.transports}
    unmeasured = [name for name in options.transport if name != "all" and not meant(name, held)]
    ended = bool(check and check.one_machine)  # before that, or there was no time for it
    status: Verdict = "UNDECIDED" if yardsticks.limits or unmeasured or ended else "NOT JUDGED"
    how = again.longer if ended else again()
    missing = partial(CheckFinding, status=status, said="these records do not contain it", remedy=how)
    found = [*(missing(layer=each) for each in absent + unmeasured), *_failed(logs, of_layers, options)]
    found += _without_rank(ranks, check.nodes if check else 1)
    if cut := sum(not log.complete and not (log.times and log.times.failed) for log in logs):
        said = f"{count(cut, 'launch')} ended before all was measured"
        found.insert(0, CheckFinding(status="UNDECIDED", layer="records", said=said, remedy=again()))
    judged = Judged(options, of_layers, ranks, cluster.Measured(yardsticks.map, 0.0), yardsticks, again)
    files = options.records or [*dict.fromkeys(log.file for log in logs)]
    return _show([*found, *judged.findings()], judged.nodes(), options, files)


def _failed(logs: Sequence[RunLog], of_layers: Sequence[LayerLogs], options: CheckOptions) -> Iterator[CheckFinding]:
    """Say which launches failed though no point did."""
    of_layer = {id(log): layer.name for layer, _, those in of_layers for log in those}
    for log in logs:
        if log.times and log.times.failed and not log.out_of_time and "failed" not in log.statuses:
            name, said = of_layer.get(id(log), "all ranks"), log.times.failed
            yield CheckFinding(status="FAIL", layer=name, said=said, remedy=doctor_of(options.job))


def shown(logs: Sequence[RunLog]) -> None:
    """Show the verdicts of the kept records of a check."""
    _of_records(logs, CheckOptions(), Yardsticks(ClusterMap(), None, None))


def for_batch(words: Sequence[str], nodes: int, gpus: int | None) -> tuple[Benchmark, CheckOptions]:
    """Return what a job script runs: the check of so many nodes with so many GPUs each."""
    asked: CheckOptions = COMMAND.parse(words)
    if asked.records:
        raise UserError("--from measures nothing: it needs no job")
    if asked.expect and nodes > 1:
        raise UserError(OF_ONE_MACHINE)
    yardsticks = _read(asked, asked.job.hosts)
    if asked.job.ranks is None and nodes > 1:
        asked = replace(asked, job=replace(asked.job, ranks=nodes * (gpus or 1)))
    budget_s = asked.budget or (MACHINE_S if nodes == 1 else CLUSTER_S)
    jobs = cluster.Measured(yardsticks.map, budget_s).jobs
    return replace(RANKS, command=COMMAND.name, jobs=jobs), replace(asked, budget=budget_s)
