"""How often `volley check` finds what is wrong with a cluster, and how often it fails a good one: resampled noise.

    python bench/check_rates.py [--share S] [--write PAGE]

A simulated cluster is a two-level fat tree: the nodes of a leaf switch are joined to each of as many spines as the leaf
has nodes, and a static route takes every message to a node over the same spine.  The noise is that of recorded matrices
(`bench/slow_pair_rates.py` says how it is taken from them): each node has stretches of consecutive recorded visits, and
a pair has the larger noise of its two nodes.  The schedule and the judgement are those of `volley check`.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from slow_pair_rates import FOLDER, STRETCH, visits_of

from volley.check.cluster import CHOOSING, REPEATS, joined
from volley.check.judgement import LOOKS, Flags, Floats, Integers, Judgement, Places, Visits, judge
from volley.check.schedule import matchings, with_known_good

RECORDS = FOLDER / "noise-2-ranks-later.jsonl"
LEAVES = {16: 4, 256: 16, 1024: 32, 16384: 64}
"""The nodes of a leaf switch, by the number of nodes."""
CROSSING_S, LOCAL_S = 1.85, 1.8
"""What a visit takes between and within leaf switches, in any unit."""
SEED = 20260103
CLUSTERS = {"pingpong": {16: 100, 256: 24, 1024: 6, 16384: 1}, "stream": {16: 100, 256: 24, 1024: 6}}
"""How many clusters are simulated for a cell of the table, by the number of nodes: larger ones take longer."""
FAULTS = (
    ("none", 0.0),
    *((name, share) for name in ("node", "NIC", "cable to leaf", "cable to spine", "switch") for share in (0.05, 0.10)),
    ("half", 0.10),
    ("corrupting cable", 0.0),
    ("intermittent", 0.10),
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
    half: Flags = field(default_factory=lambda: np.zeros(0, bool))

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

    def crosses(self, first: Integers, second: Integers) -> Flags:
        """Return which messages from the first to the second rank cross the faulty part."""
        node, leaf = self.places.node, self.places.switch
        own, home = node[self.part], leaf[self.part]
        away = leaf[first] != leaf[second]
        where: dict[str, Callable[[], Flags]] = {
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
            "corrupting cable": lambda: node[second] == own,
            "intermittent": lambda: (node[first] == own) | (node[second] == own),
        }
        return where[self.fault]()

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


def cell(nodes: int, count: int, noise: tuple[str, Floats], fault: str, slower: float) -> str:
    """Return how often the fault was found and, in parentheses, how often a good node was blamed."""
    dice = random.Random(SEED)  # noqa: S311  a simulation
    right = wrong = 0
    for _ in range(count):
        simulated = Cluster(nodes, noise[1], noise[0] == "pingpong", fault, slower, dice)
        found = simulated.checked()
        right += simulated.right(found) if fault != "none" else bool(found.bad)
        wrong += simulated.blamed_good(found)
    return f"{right / count:.0%} ({wrong / count:.0%})".replace("%", " %")


def table(share: float) -> list[str]:
    """Return the table of docs/method/check.md; ``share``: of the usual number of simulated clusters."""
    noises = {name: np.array([visit.off for visit in those]) for name, those in visits_of(RECORDS).items()}
    heads = [f"{name} {slower:.0%}".replace("%", " %") if slower else name for name, slower in FAULTS]
    lines = [f"| noise | nodes | clusters | {' | '.join(heads)} |", "| --- " * (3 + len(heads)) + "|"]
    for pattern, noise in noises.items():
        for nodes, usual in CLUSTERS[pattern].items():
            count = max(1, round(usual * share))
            cells = [cell(nodes, count, (pattern, noise), name, slower) for name, slower in FAULTS]
            lines.append(f"| {pattern} | {nodes:,} | {count} | {' | '.join(cells)} |")
            print(lines[-1], flush=True)
    return lines


def main() -> None:
    """Print the table, or write it into a page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--share", type=float, default=1.0, help="of the usual number of simulated clusters")
    parser.add_argument("--write", type=Path, help="the page to write it into")
    given = parser.parse_args()
    lines = table(given.share)
    if given.write:
        page = given.write.read_text("utf-8")
        start, end = "<!-- check rates -->\n", "<!-- end -->"
        before, _, rest = page.partition(start)
        text = "\n".join(lines)
        given.write.write_text(f"{before}{start}{text}\n{rest[rest.index(end) :]}", "utf-8")


if __name__ == "__main__":
    main()
