"""How often `volley check` finds what is wrong with a cluster, and how often it fails a good one: resampled noise.

    python bench/check_rates.py [--share S] [--write PAGE]

A simulated cluster is a two-level fat tree: the nodes of a leaf switch are joined to each of as many spines as the leaf
has nodes, and a static route takes every message to a node over the same spine.  The noise is that of recorded matrices
(`bench/slow_pair_rates.py` says how it is taken from them) or launches of ping-pongs: each node has stretches of
consecutive recorded visits, and a pair has the larger noise of its two nodes.  The schedule and the judgement are those
of `volley check`.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np
from slow_pair_rates import FOLDER, STRETCH, visits_of

from volley.benchmarks import BENCHMARKS
from volley.benchmarks.pair.results import PingPong
from volley.check.cluster import CHOOSING, REPEATS, joined, matchings, with_known_good
from volley.check.evidence import LOOKS, Places, Visits
from volley.check.judgement import Judgement, judge
from volley.records.records_file import read_runs
from volley.statistics.two_runs import Booleans, Floats, Integers

CHOSEN_WITH = {"two cores": FOLDER / "noise-2-ranks-later.jsonl"}
"""The recording with which the limits of the judgement were chosen."""
HELD_OUT = {
    "two cores, earlier": FOLDER / "noise-2-ranks.jsonl",
    "two cores, four ranks": FOLDER / "noise-4-ranks-later.jsonl",
    "sixteen cores": FOLDER.parent / "h100-x1" / "runs.jsonl.gz",
}
"""Recordings that no limit was chosen with, by what the table calls them."""
LEAVES = {16: 4, 256: 16, 1024: 32, 16384: 64}
"""The nodes of a leaf switch, by the number of nodes."""
CROSSING_S, LOCAL_S = 1.85, 1.8
"""What a visit takes between and within leaf switches, in any unit."""
SEEDS = {"in-sample": 20260103, "held-out": 20261127}
CLUSTERS = {
    "in-sample": {"pingpong": {16: 300, 256: 24, 1024: 4, 16384: 1}, "stream": {16: 300, 256: 24, 1024: 4}},
    "held-out": {"pingpong": {16: 300, 256: 10}, "stream": {16: 300, 256: 10}},
}
"""How many clusters are simulated for a cell of a table, by the number of nodes: larger ones take longer."""
GOOD = 4
"""So many times as many are simulated without a fault: what is asked of them is a small rate."""
FAULTS = (
    ("none", 0.0),
    *((name, share) for name in ("node", "NIC", "cable to leaf", "cable to spine", "switch") for share in (0.05, 0.10)),
    ("half", 0.10),
    ("corrupting cable", 0.0),
    ("intermittent", 0.10),
    ("intermittent", 1.0),
)
CORRUPT = 0.25
"""A corrupting cable corrupts this share of the visits that cross it."""
RARE = 1 / 20
"""An intermittent fault slows this share of the visits of its node."""


@dataclass
class Cluster:
    """A fat tree whose messages take longer on the faulty part."""

    nodes: int
    noise: Floats
    round_trips: bool
    fault: str
    slower: float
    dice: random.Random
    rails: int = 1
    part: int = 0
    spine: int = 0
    half: Booleans = field(default_factory=lambda: np.zeros(0, bool))

    def __post_init__(self) -> None:
        self.rails = 2 if self.fault == "NIC" else 1
        self.arrays = np.random.default_rng(self.dice.randrange(1 << 32))
        self.places = Places(
            np.repeat(np.arange(self.nodes), self.rails),
            np.repeat(np.arange(self.nodes) // LEAVES[self.nodes], self.rails),
        )
        self.part = self.dice.randrange(self.ranks)
        self.spine = self.dice.randrange(LEAVES[self.nodes])
        self.half = self.arrays.permutation(self.ranks) < self.ranks // 2

    @property
    def ranks(self) -> int:
        return self.nodes * self.rails

    def crosses(self, first: Integers, second: Integers) -> Booleans:
        """Return which messages from the first to the second rank cross the faulty part."""
        node, leaf = self.places.node, self.places.switch
        own, home = node[self.part], leaf[self.part]
        away = leaf[first] != leaf[second]
        where: dict[str, Callable[[], Booleans]] = {
            "none": lambda: np.zeros(first.shape, bool),
            "node": lambda: (node[first] == own) | (node[second] == own),
            "NIC": lambda: (first == self.part) | (second == self.part),
            "cable to leaf": lambda: node[second] == own,
            "cable to spine": lambda: (
                away
                & ((leaf[first] == home) | (leaf[second] == home))
                & (node[second] % LEAVES[self.nodes] == self.spine)
            ),
            "switch": lambda: (leaf[first] == home) | (leaf[second] == home),
            "half": lambda: self.half[first] | self.half[second],
        }
        return where[{"corrupting cable": "cable to leaf", "intermittent": "node"}.get(self.fault, self.fault)]()

    def visits(self, rounds: list[list[tuple[int, int]]], choosing: int, base: int) -> Visits:
        """Visit the pairs of the rounds as often as a launch does."""
        shape = [len(pairs) for pairs in rounds]
        both = np.array([pair for pairs in rounds for pair in pairs])
        first, second = (np.tile(column, REPEATS) for column in both.T)
        turn = np.repeat(np.arange(len(rounds) * REPEATS), shape * REPEATS)
        repetition = base + turn // len(rounds)
        stretches = turn.max() // STRETCH + 1
        start = self.arrays.integers(len(self.noise), size=(self.ranks, stretches))
        off = [self.noise[(start[end, turn // STRETCH] + turn % STRETCH) % len(self.noise)] for end in (first, second)]
        leaf = self.places.switch
        time_s = np.where(leaf[first] == leaf[second], LOCAL_S, CROSSING_S) * np.maximum(*off)
        there, back = self.crosses(first, second), self.crosses(second, first)
        hit = (there | back if self.round_trips else there) * 1.0
        wrong = np.zeros(first.shape, bool)
        if self.fault == "corrupting cable":
            wrong = (hit > 0) & (self.arrays.random(first.shape) < CORRUPT)
        else:
            if self.fault == "intermittent":
                hit *= self.arrays.random(first.shape) < RARE
            time_s *= 1 + self.slower * hit
        return Visits(first, second, repetition, time_s, wrong, repetition < choosing)

    def checked(self) -> Judgement:
        """Check it, and look again until everything is decided."""
        switches = self.places.switch.tolist()
        visits = self.visits(matchings(self.ranks, self.dice, switches), CHOOSING, 0)
        found = judge(visits, self.places, one_way=not self.round_trips)
        for look in range(1, LOOKS):
            if not found.suspects:
                break
            rounds = with_known_good(self.ranks, found.suspects, self.dice, switches)
            visits = joined(visits, self.visits(rounds, 0, look * REPEATS))
            found = judge(visits, self.places, one_way=not self.round_trips)
        return found

    def right(self, found: Judgement) -> bool:
        """Return whether the faulty part was named."""
        node, home = int(self.places.node[self.part]), int(self.places.switch[self.part])
        wanted = {
            "NIC": ("rank", self.part),
            "cable to spine": ("link", home),
            "switch": ("switch", home),
            "half": ("some", -1),
        }.get(self.fault, ("node", node))
        blamed = found.open if self.fault == "half" else found.bad
        return any((part.kind, part.number) == wanted for part in blamed)

    def blamed_good(self, found: Judgement) -> bool:
        """Return whether a node was blamed that has nothing to do with the fault."""
        node, leaf = self.places.node, self.places.switch
        own = {int(node[self.part])}
        if self.fault == "switch":
            own = set(node[leaf == leaf[self.part]].tolist())
        if self.fault in ("none", "cable to spine"):
            own = set()
        blamed = {int(node[rank]) for part in found.bad if part.kind in ("rank", "node", "pair") for rank in part.ranks}
        blamed |= {-1 for part in found.bad if part.kind in ("switch", "link") and part.number != leaf[self.part]}
        return bool(blamed - own)


def noises_of(path: Path) -> dict[str, Floats]:
    """Return the noise of each pattern: the least disturbed times of consecutive visits, over what is usual.

    Of launches of ping-pongs the least sample of each visit is taken over the median of these in its launch; messages
    of 1 MiB stand for streams.
    """
    logs = list(read_runs(path, BENCHMARKS))
    points = [point for log in logs for point in log.of(PingPong) if point.transport == "host" and point.visits]
    if not points:
        return {pattern: np.array([visit.off for visit in visits]) for pattern, visits in visits_of(path).items()}
    found: dict[str, Floats] = {}
    for pattern, size_bytes in (("pingpong", 8), ("stream", 1 << 20)):
        launches = [
            np.minimum.reduceat(point.times_s, np.cumsum([0, *point.visits[:-1]]))
            for point in points
            if point.size_bytes == size_bytes
        ]
        found[pattern] = np.concatenate([least_s / np.median(least_s) for least_s in launches])
    return found


def cell(nodes: int, count: int, noise: tuple[str, Floats], seed: int, fault: tuple[str, float]) -> str:
    """Return how often the fault was found and, in parentheses, how often a good node was blamed."""
    dice = random.Random(seed)  # noqa: S311  a simulation
    right = wrong = 0
    count *= GOOD if fault[0] == "none" else 1
    for _ in range(count):
        simulated = Cluster(nodes, noise[1], noise[0] == "pingpong", *fault, dice)
        found = simulated.checked()
        right += simulated.right(found) if fault[0] != "none" else bool(found.bad)
        wrong += simulated.blamed_good(found)
    return f"{right / count:.1%} ({wrong / count:.1%})".replace(".0%", "%").replace("%", " %")


def table(name: str, recordings: dict[str, Path], share: float) -> list[str]:
    """Return a table of docs/method/check.md; ``share``: of the usual number of simulated clusters."""
    heads = [f"{fault} {slower:.0%}".replace("%", " %") if slower else fault for fault, slower in FAULTS]
    lines = [f"| noise | pattern | nodes | clusters | {' | '.join(heads)} |", "| --- " * (4 + len(heads)) + "|"]
    rows = []
    with ProcessPoolExecutor() as pool:  # a cell has dice of its own, so the number of processes changes nothing
        for recorded, path in recordings.items():
            for pattern, noise in noises_of(path).items():
                for nodes, usual in CLUSTERS[name][pattern].items():
                    count = max(1, round(usual * share))
                    cells = pool.map(partial(cell, nodes, count, (pattern, noise), SEEDS[name]), FAULTS)
                    rows.append((f"| {recorded} | {pattern} | {nodes:,} | {count} |", cells))
        for row, cells in rows:
            lines.append(f"{row} {' | '.join(cells)} |")
            print(lines[-1], flush=True)
    return lines


def write_into(page: Path, name: str, lines: list[str]) -> None:
    """Put a table in the place of the one on a page."""
    text, start = page.read_text("utf-8"), f"<!-- check rates, {name} -->\n"
    before, _, rest = text.partition(start)
    table_text = "\n".join(lines)
    page.write_text(f"{before}{start}{table_text}\n{rest[rest.index('<!-- end -->') :]}", "utf-8")


def main() -> None:
    """Print the tables, and write them into a page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--share", type=float, default=1.0, help="of the usual number of simulated clusters")
    parser.add_argument("--write", type=Path, help="the page to write them into")
    given = parser.parse_args()
    for name, recordings in (("in-sample", CHOSEN_WITH), ("held-out", HELD_OUT)):
        lines = table(name, recordings, given.share)
        if given.write:
            write_into(given.write, name, lines)


if __name__ == "__main__":
    main()
