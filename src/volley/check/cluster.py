"""The part of a check that many ranks make together: who meets whom, the launches, and what their records say.

In a round every rank meets one other rank, so that all ranks work at the same time and a round measures as long among
16,384 nodes as among two.  The rounds are some of those of a round robin among ranks in random order, in which nobody
meets the same rank twice.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from operator import attrgetter
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from volley.benchmarks.matrix.records import RankMatrixPlan, RankMatrixRow
from volley.benchmarks.matrix.slow_pairs import Pair
from volley.check.evidence import LOOKS, Places, Visits
from volley.check.judgement import Judgement, judge
from volley.command.option_values import HostListError, expand
from volley.errors import UserError
from volley.records.plan import Sampling
from volley.records.record_types import Rank
from volley.records.run_log import RunLog
from volley.run.jobs import Job, JobContext, Jobs, choose_transports, make_plan
from volley.text import grouped
from volley.units import format_duration, format_size

PARTNERS = 16
"""How many partners each rank meets.  A slow partner is then no reason to call a rank slow: among 16 at least a quarter
is good with a probability of 98 %, even if half of all nodes are slow."""


INSIDE = 4
"""Further rounds in which the partners are on the same switch: they tell a slow node from a slow link of its switch."""


def matchings(ranks: int, dice: random.Random, switches: Sequence[int] = ()) -> list[list[Pair]]:
    """Return rounds of disjoint pairs, in each of which every rank has a partner (but one, if their number is odd).

    ``switches``: the switch of each rank; empty if unknown.
    """
    seats: list[int | None] = [*range(ranks), *[None] * (ranks % 2)]
    dice.shuffle(seats)
    turning = len(seats) - 1
    rounds = []
    for turn in dice.sample(range(turning), min(PARTNERS, turning)):
        met = [(seats[-1], seats[turn])]
        met += [(seats[(turn + i) % turning], seats[(turn - i) % turning]) for i in range(1, len(seats) // 2)]
        rounds.append([(one, other) for one, other in met if one is not None and other is not None])
    if ranks <= PARTNERS:  # few partners: both directions
        rounds += [[pair[::-1] for pair in pairs] for pairs in rounds]
    else:
        rounds = [_in_any_direction(pairs, dice) for pairs in rounds]
    return rounds + _inside(range(ranks), switches, dice)


def with_known_good(
    ranks: int, suspects: Iterable[int], dice: random.Random, switches: Sequence[int] = ()
) -> list[list[Pair]]:
    """Return rounds in which each suspect meets a rank that is none; the other ranks meet as controls at the same time.

    Where more than a third of the ranks are suspects, there are too few others: these are rounds of all ranks.
    """
    asked = sorted(set(suspects))
    if 3 * len(asked) > ranks:
        return matchings(ranks, dice, switches)
    others = sorted(set(range(ranks)).difference(asked))
    rounds = []
    for _ in range(PARTNERS):
        dice.shuffle(others)
        rest = others[len(asked) :]
        pairs = [*zip(asked, others, strict=False), *zip(rest[::2], rest[1::2], strict=False)]
        rounds.append(_in_any_direction(pairs, dice))
    return rounds + _inside(asked, switches, dice) + _inside(range(ranks), switches, dice)


def _in_any_direction(pairs: Iterable[Pair], dice: random.Random) -> list[Pair]:
    return [pair if dice.random() < 0.5 else pair[::-1] for pair in pairs]


def _inside(first: Iterable[int], switches: Sequence[int], dice: random.Random) -> list[list[Pair]]:
    """Return rounds within the switches; ranks in ``first`` have a partner that is not among them, if there is one."""
    wanted = set(first)
    members = grouped(range(len(switches)), lambda rank: switches[rank])
    rounds = []
    for _ in range(INSIDE if len(members) > 1 else 0):
        pairs: list[Pair] = []
        for those in members.values():
            dice.shuffle(those)
            those.sort(key=lambda rank: rank not in wanted)
            pairs += zip(those[: len(those) // 2], reversed(those), strict=False)
        rounds.append(_in_any_direction(pairs, dice))
    return rounds


# ------------------------------------------------------------------------------------------------ launches and records


REPEATS = 8
"""Visits of every pair in a launch."""
CHOOSING = 3
"""The first repetitions of the first launch choose pairs; the later ones decide about them."""
REPEATS_ALONE = 24
"""Visits where there can be no second launch, because a launcher started volley."""
LATENCY_BYTES, BANDWIDTH_BYTES = 8, 1 << 20
WINDOW = 8
"""Messages in flight: 8 MiB take 7 ms on 10 Gbit/s Ethernet, so that a visit has some samples."""
POINT_S = 0.02
"""The time of a visit and a message size.  A visit must not be precise: a part has a hundred of them."""
BESIDE_S = 0.05
"""The time of a visit apart from its samples: synchronisation, opening, calibration."""
SEED = 34
"""Every check of as many ranks has the same rounds, so that two checks can be compared."""

Case = tuple[str, str, int]
"""Transport, pattern and size of the messages."""


def switches_in(path: Path) -> dict[str, str]:
    """Return the switch of each node, from a topology.conf of Slurm.

    Raises:
        UserError: if the file cannot be read or no line names the nodes of a switch.
    """
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise UserError(f"--switches {path}: {error.strerror}") from None
    found: dict[str, str] = {}
    for line in text.replace("\\\n", " ").splitlines():
        words = dict(word.split("=", 1) for word in line.partition("#")[0].split() if "=" in word)
        named = {key.lower(): value for key, value in words.items()}
        if "switchname" in named and "nodes" in named:
            try:
                nodes = expand(named["nodes"])
            except HostListError as error:
                raise UserError(f"--switches {path}: {error}") from None
            found.update(dict.fromkeys(nodes, named["switchname"]))
    if not found:
        raise UserError(f"--switches {path}: no line with SwitchName= and Nodes=, as topology.conf of Slurm has them")
    return found


def numbers(names: Sequence[str]) -> list[int]:
    """Number the names in order of appearance; the empty name is -1."""
    known = {name: number for number, name in enumerate(dict.fromkeys(filter(None, names)))}
    return [known.get(name, -1) for name in names]


def joined(*parts: Visits) -> Visits:
    """Return all of these visits."""
    return Visits._make(map(np.concatenate, zip(*parts, strict=True)))


@dataclass(frozen=True)
class Names:
    """The names of the parts of a cluster; on a single node each rank is a node, and a socket is a switch."""

    ranks: Sequence[Rank]
    switch_of: Mapping[str, str]

    @cached_property
    def one_node(self) -> bool:
        return len({rank.host for rank in self.ranks}) == 1

    def switch(self, rank: Rank) -> str:
        """Return the name of its switch; empty if unknown."""
        if self.one_node:
            return f"socket {rank.sockets[0]}" if len(rank.sockets) == 1 else ""
        return self.switch_of.get(rank.host, self.switch_of.get(rank.host.partition(".")[0], ""))

    def node(self, rank: Rank) -> str:
        return f"rank {rank.rank}" if self.one_node else rank.host

    @cached_property
    def places(self) -> Places:
        switches = numbers([self.switch(rank) for rank in self.ranks])
        nodes = np.array(numbers([self.node(rank) for rank in self.ranks]))
        return Places(nodes, np.array(switches), one_machine=self.one_node)


class Measured:
    """What the launches of a check measured, as arrays: the records of 16,384 nodes take a gigabyte for each launch."""

    def __init__(self, switch_of: Mapping[str, str], budget_s: float) -> None:
        self.switch_of, self.budget_s = switch_of, budget_s
        self.visits: dict[Case, Visits] = {}
        self.times: dict[str, list[float]] = {}
        """The median of all pairs in seconds, of each repetition, by what was measured."""
        self.launches = self.repetitions = 0
        self.judged: dict[Case, Judgement] = {}
        self.reasons: dict[Case, str] = {}
        """Why pairs were skipped."""

    def jobs(self, options: Any, context: JobContext) -> Jobs:
        """Return the first launch, and what makes the others: the matrix between ranks, with the rounds of a check."""
        alone = context.position is not None
        ranks = options.ranks_of(context)
        hosts = list(options.job.hosts) or list(context.allocation.hosts if context.allocation else ())
        switches = numbers([self.switch_of.get(host, "") for host in hosts]) if len(hosts) == ranks else []
        rounds = matchings(ranks, random.Random(SEED), switches)  # noqa: S311  a schedule
        repeats = REPEATS_ALONE if alone else REPEATS
        part = RankMatrixPlan(
            mode="loaded",
            latency_sizes_bytes=[LATENCY_BYTES],
            bandwidth_sizes_bytes=[BANDWIDTH_BYTES],
            window=WINDOW,
            rounds=[[list(pair) for pair in pairs] for pairs in rounds],
            repeats=repeats,
        )
        transports = choose_transports(options.transport, context, usual=("host",))
        plan = make_plan("rank_matrix", part, options, ranks=ranks, transports=transports)
        sampling = Sampling(ci=0.01, point_time_s=POINT_S, size_time_s=None, tail=False)
        plan = msgspec.structs.replace(plan, sampling=sampling, budget_s=self.budget_s)
        expected_s = len(rounds) * repeats * (BESIDE_S + 2 * len(transports) * POINT_S)
        note = f"{ranks} ranks measure at once, in {len(rounds)} rounds: about {format_duration(expected_s)}"
        return Jobs((Job(plan),), next_job=None if alone else self.next_job, note=f"{note} after the start")

    def next_job(self, logs: Sequence[RunLog], elapsed_s: float, _say: object = None) -> Job | None:
        """Return the launch in which undecided parts meet good ones; ``None`` if all is decided or the time is over."""
        last = logs[-1] if logs else None
        if last is None or last.run is None or last.end is None or not last.complete or len(logs) == LOOKS:
            return None
        left_s = self.budget_s - elapsed_s
        suspects = sorted(set(chain.from_iterable(each.suspects for each in self.judgements(logs).values())))
        if not suspects or left_s < last.end.elapsed_s:
            return None
        names = Names(last.run.ranks, self.switch_of)
        dice = random.Random(SEED + len(logs))  # noqa: S311  a schedule
        rounds = with_known_good(len(names.ranks), suspects, dice, names.places.switch.tolist())
        part = msgspec.structs.replace(last.run.plan.options, rounds=[[list(pair) for pair in each] for each in rounds])
        plan = msgspec.structs.replace(last.run.plan, options=part, budget_s=left_s)
        return Job(
            plan, note=f"measuring again with good partners: {len(suspects)} undecided of {len(names.ranks)} ranks"
        )

    def judgements(self, logs: Sequence[RunLog]) -> dict[Case, Judgement]:
        """Judge all launches: one judgement for each transport, pattern and size.

        Each launch is read once: of its rows it keeps those with wrong data.  Where no launch is new the judgement is
        the last one.
        """
        new = logs[self.launches :]
        for log in new:
            self._add(log)
        run = next((log.run for log in logs if log.run), None)
        if new and run is not None:
            places = Names(run.ranks, self.switch_of).places
            self.judged = {case: judge(its, places, one_way=case[1] == "stream") for case, its in self.visits.items()}
        return self.judged

    def _add(self, log: RunLog) -> None:
        """Add the visits of a launch; only the first one chooses."""
        repeats = log.run.plan.options.repeats if log.run else 0
        choosing = 0 if self.launches else repeats * CHOOSING // REPEATS
        ranks = len(log.run.ranks) if log.run else 0
        for case, rows in grouped(log.of(RankMatrixRow), attrgetter("transport", "pattern", "size_bytes")).items():
            counts = [len(row.medians) for row in rows]
            units_s = np.repeat([row.unit_s for row in rows], counts)
            lows_s, medians_s = (  # NaN where there is none
                np.array([*chain.from_iterable(columns)], np.float64) * units_s
                for columns in ([row.lows for row in rows], [row.medians for row in rows])
            )
            if skipped := [each.reason for row in rows for each in row.skipped]:
                self.reasons[case] = skipped[0]
            wrong = np.zeros(len(units_s), np.bool_)
            for end, row in zip(np.cumsum(counts).tolist(), rows, strict=True):
                if row.failed:
                    wrong[end - row.pairs : end] = np.isin(row.partners, [each.rank for each in row.failed])
            repetition = np.repeat([row.repeat for row in rows], counts)
            its = Visits(
                first=np.repeat([row.rank for row in rows], counts),
                second=np.array([*chain.from_iterable([row.partners for row in rows])], np.int64),
                repetition=self.repetitions + repetition,
                time_s=np.where(np.isnan(lows_s), medians_s, lows_s),
                wrong=wrong,
                choose=repetition < choosing,
            )
            self.visits[case] = joined(self.visits[case], its) if case in self.visits else its
            transport, pattern, size_bytes = case
            name = f"{pattern} among all {ranks} ranks: {transport}, {format_size(size_bytes)}"
            turns = [medians_s[(repetition == turn) & ~np.isnan(medians_s)] for turn in range(repeats)]
            self.times.setdefault(name, []).extend(float(np.median(those)) for those in turns if len(those))
        log.records = [row for row in log.records if row.failed]
        self.launches += 1
        self.repetitions += repeats
