"""What the records of a check say: of one that has just measured, and of kept records, on one path."""

from __future__ import annotations

import os
import shlex
import socket
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import NamedTuple

import msgspec

from volley import benchmarks
from volley.check import cluster, inventory, limits, machine
from volley.check.by_paths import by_line_rate, by_paths
from volley.check.findings import Again, CheckFinding, of_cluster
from volley.check.formats import render
from volley.check.inventory import Inventory, Seen
from volley.check.options import CheckOptions
from volley.check.places import Names
from volley.document import Frozen
from volley.errors import UserError
from volley.launch import cluster_map
from volley.launch.cluster_map import ClusterMap
from volley.machine.finding import Verdict, exit_code, in_order
from volley.records import command_again
from volley.records.plan import OUT_OF_TIME
from volley.records.record_types import NotMeasured
from volley.records.run_log import RunLog
from volley.references.equal_machines import measured
from volley.run.benchmark import Benchmark
from volley.run.machine_notes import Busy, without_core
from volley.run.outcome import doctor_of
from volley.text import count, escape_controls, grouped, join_few

LayerLogs = tuple[machine.Layer, Benchmark, list[RunLog]]


class CheckedHost(Frozen, frozen=True, kw_only=True):
    """What a check sees of the host where it is started."""

    host: str
    node: str
    """Its name in the batch system; empty: unknown."""
    gpus: int | None
    """Those that its driver has, if there is one."""
    nics: list[str]


class OfCheck(Frozen, frozen=True, kw_only=True):
    """What the records of each launch say of its check."""

    asked: list[list[str]]
    """The options of the check."""
    one_machine: bool
    nodes: int
    """So many were asked for."""
    here: CheckedHost | None = None
    """Of one machine; ``None`` in older records, too."""


class Yardsticks(NamedTuple):
    """What the files of the user say."""

    map: ClusterMap
    limits: limits.Limits | None
    inventory: Inventory | None


def read_yardsticks(options: CheckOptions, hosts: Sequence[str], names: Sequence[str] = ()) -> Yardsticks:
    """Read the files that the options name: a wrong one is refused before anything is measured.

    ``names``: nodes that are measured, one of which a map must have.
    """
    if options.learn and options.expect:
        limits.refuse(options.expect)
    known = limits.read_limits(options.expect) if options.expect and not options.learn else None
    asked = inventory.read_inventory(options.inventory) if options.inventory else None
    where = _map(options, hosts)
    if options.switches and (lacking := [name for name in names if not where.path(name)]):
        there = f"{count(len(where.path_of), 'node')} from {next(iter(where.path_of))} on"
        said = f"--switches {options.switches} does not name {join_few(lacking)}: it names {there}"
        if len(lacking) == len(names):
            raise UserError(said)
        print(f"volley: {escape_controls(said)}", file=sys.stderr)
    return Yardsticks(where, known, asked)


def _map(options: CheckOptions, hosts: Sequence[str]) -> ClusterMap:
    """Return the map that the user names, or that of Slurm within its jobs."""
    if options.one_switch:
        return ClusterMap(one_switch=True, nodes=frozenset(hosts))
    if options.switches:
        return replace(cluster_map.of_file(options.switches), nodes=frozenset(hosts))
    return cluster_map.of_slurm(hosts) if "SLURM_JOB_ID" in os.environ else ClusterMap(nodes=frozenset(hosts))


@dataclass
class Judged:
    """The launches of a check, and what they are judged by."""

    options: CheckOptions
    all_logs: Sequence[RunLog]
    together: cluster.Measured
    yardsticks: Yardsticks
    again: Again
    check: OfCheck | None = None
    """``None``: an older volley, whose records do not say it."""
    unmeasured: Sequence[NotMeasured] = ()

    def __post_init__(self) -> None:
        planned = [(log, log.run) for log in self.all_logs if log.run]
        self.logs = [log for log, _ in planned if log.of_all_ranks]
        """Of all ranks together."""
        self.gpus = next(filter(None, (log.gpus("before") for log, _ in planned)), ())
        runs = [*(log.run for log in self.logs if log.run), *(run for _, run in planned)]
        self.names = Names(runs[0].ranks, self.together.map) if runs else None
        self.one = self.names is None or self.names.one_node
        self.of_ranks = self.together.judgements(self.logs)
        self.here = self.check.here if self.check else None
        self.known = {each.layer: each.verdict for each in self.unmeasured}
        self.absent = [] if self.logs or self.options.job.ranks == 1 or "all ranks" in self.known else ["all ranks"]
        """The layers of which there are neither records nor a reason."""
        self.of_layers = list(self._layers()) if (self.check.one_machine if self.check else self.one) else []
        self.times: dict[str, list[float]] = {}
        for _, benchmark, those in self.of_layers:
            self.times |= measured(benchmark, those)
        self.times |= self.together.times if self.one else {}
        known = self.yardsticks.limits
        self.site = limits.Site(known.of(self.this), len(self.times), self.again, self.host) if known else None

    def _layers(self) -> Iterator[LayerLogs]:
        """Yield the layers of one machine with their launches, also those that were not possible."""
        planned = [(log, log.run.plan) for log in self.all_logs if log.run and not log.of_all_ranks]
        transports = [name for _, plan in planned for name in plan.transports]
        for layer in machine.layers(gpus_of(self.check, self.all_logs) or 0, transports, self.again.asked):
            benchmark, words = benchmarks.read(layer.words)
            sizes = [*words.points.sizes] if "--sizes" in layer.words else None
            its = benchmark.name, {*words.named_transports}, sizes
            those = [
                log
                for log, plan in planned
                if its == (plan.benchmark, {*plan.transports}, getattr(plan.options, "sizes_bytes", None))
            ]
            if those or self.known.get(layer.name) == "NOT POSSIBLE":
                yield layer, benchmark, those
            elif layer.name not in self.known:
                self.absent.append(layer.name)

    @property
    def without_core(self) -> Busy | None:
        """Say why ranks were without their cores, whichever layer saw it."""
        of_cores = (those for layer, _, those in self.of_layers if layer.of_cores)
        return next(filter(None, map(without_core, (*of_cores, self.logs))), None)

    @property
    def this(self) -> limits.Machine:
        """What the machine is, of which there are limits."""
        cpu = self.names.ranks[0].cpu if self.names else ""
        ranks = len(self.names.ranks) if self.names and self.logs else 0
        return limits.Machine(cpu=cpu, gpus=tuple(sorted(gpu.name or "" for gpu in self.gpus)), ranks=ranks)

    @property
    def host(self) -> str:
        own = self.here.node if self.here else ""
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
        said = (
            CheckFinding(status=each.verdict, layer=each.layer, said=each.why, remedy=each.decides)
            for each in self.unmeasured
        )
        return [*said, *self._without_rank(), *found, *self._of_inventory()]

    def _without_rank(self) -> Iterator[CheckFinding]:
        asked, first = self.check.nodes if self.check else 1, next((log.run for log in self.logs if log.run), None)
        seen = len({rank.host for rank in first.ranks}) if first else asked
        if seen < asked:
            why = f"the ranks were on {seen} of {count(asked, 'node')}"
            how = f"--ranks {asked} or more, spread over the nodes"
            yield CheckFinding(status="UNDECIDED", layer="all ranks", said=why, remedy=how)

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
            busy = without_core(self.logs)
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
            unread = bool(self.here.gpus) if self.here else not self.logs
            unread = unread or any(log.hardware for log in self.all_logs)
            links = [None if gpu.nvlinks is None else len(gpu.nvlinks) for gpu in self.gpus]
            same = self.here and self.here.host.partition(".")[0] == names.ranks[0].host.partition(".")[0]
            more = {
                "gpus": [gpu.name or "" for gpu in self.gpus] if self.gpus or not unread else None,
                "nvlinks": None if None in links or (unread and not links) else links,
                "nics": self.here.nics if self.here and same else None,
                "memory_bytes": names.ranks[0].memory_available_bytes,
            }
            seen = [msgspec.structs.replace(seen[0], **more)]
        alone = self.one and len(self.options.job.hosts) <= 1
        yield from inventory.by_inventory(self.yardsticks.inventory, seen, self.again, alone=alone)


def gpus_of(check: OfCheck | None, logs: Sequence[RunLog]) -> int | None:
    """Return how many GPUs the driver of the machine has, as far as records say it; ``None``: there is no driver."""
    if check and check.here:
        return check.here.gpus
    return max((len(log.gpus("before")) for log in logs), default=0) or None


_JUDGED_BY = ("--transport", "--switches", "--one-switch", "--expect", "--inventory")
"""Options of a check that its records are judged by."""


def show(findings: Sequence[CheckFinding], nodes: Sequence[str], options: CheckOptions, records: Sequence[str]) -> int:
    """Show the findings of a check with these files of records; return the exit code."""
    names = {each for each in _JUDGED_BY if not (options.learn and each == "--expect")}
    judged_by = [command_again.written(words) for words in options.typed if not records or words[0] in names]
    words = ["volley", "check", *(["--from", ",".join(records)] if records else []), *chain.from_iterable(judged_by)]
    output = options.output
    render(in_order(findings), output.format, sys.stdout, nodes, full=output.full, whole=shlex.join([*words, "--full"]))
    sys.stdout.flush()
    return exit_code(findings)
