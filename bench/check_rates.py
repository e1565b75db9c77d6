"""How often `volley check` finds what is wrong with a cluster, and how often it fails a good one: resampled noise.

    python bench/check_rates.py [--share S] [--only WORLD,…] [--write PAGE]

A simulated cluster has a distance between each two ranks, and places that the check is told, or not: nothing, the leaf
switches, or the whole tree.  The noise is that of recorded matrices (`bench/slow_pair_rates.py` says how it is taken
from them) or launches of ping-pongs: each rank has stretches of consecutive recorded visits, and a pair has the larger
noise of its two ranks.  One visit in a hundred is disturbed.  The rounds and the judgement are those of `volley check`.
"""

import argparse
import random
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path

import numpy as np
from slow_pair_rates import FOLDER, STRETCH, visits_of

from volley.benchmarks import BENCHMARKS
from volley.benchmarks.pair.results import PingPong
from volley.check.cluster import repeats_of
from volley.check.evidence import Judgement, Places, Visits, joined
from volley.check.judgement import judge
from volley.check.neighbors import LOOKS
from volley.check.rounds import matchings
from volley.records.records_file import read_runs
from volley.statistics.two_runs import Booleans, Floats, Integers

RECORDINGS = {
    "chosen": [FOLDER / "noise-2-ranks-later.jsonl", FOLDER.parent / "h100-x1" / "runs.jsonl.gz"],
    "held out": [FOLDER / "noise-2-ranks.jsonl", FOLDER / "noise-4-ranks-later.jsonl"],
}
"""The thresholds of the judgement were chosen with the worlds and the recordings of the first; not with the others."""
RECORDINGS["later"] = RECORDINGS["held out"]
SEEDS = {"chosen": 20260103, "held out": 20261128, "later": 20270711}
LARGE = {64: 1.0, 88: 1.0, 96: 1.0, 256: 0.5, 1024: 0.1}
"""The share of the usual number of clusters that is simulated, by the number of nodes: larger ones take longer."""
CLUSTERS, HEALTHY = 40, 400
FAULTS = (("none", 0.0), ("node", 0.05), ("node", 0.1), ("NIC", 0.1), ("switch", 0.1), ("node", 9.0))
HEADS = ("healthy", "node 5 %", "node 10 %", "NIC 10 %", "switch 10 %", "node 10 times")
DISTURBED, LONGEST = 0.01, 3.0
"""The share of visits that are disturbed, and by how much at most, as a logarithm."""


@dataclass
class Shape:
    """What a simulated cluster looks like: distances as logarithms, the true leaf of each rank, and what is told."""

    distance: Floats
    leaf: Integers
    told: Places
    load: Floats | float = 0.0
    """How much larger the traffic of a leaf with others can be than its links, if all of its ranks send: of each."""
    spines: int = 1
    """Over how many links of a leaf its traffic is spread, each pair over the same link in all of its visits."""
    streams: bool = False
    tail: float = 0.0
    """The scale of further noise of each visit, as a logarithm: the size of Student's t with two degrees of freedom."""

    @property
    def ranks(self) -> int:
        return len(self.leaf)


def shape(leaf: Sequence[int] | Integers, distance: Floats, told: str = "", **more: object) -> Shape:
    """Return a shape; ``told``: what the check knows, ``leaf``, ``tree``, ``kind``, ``flat`` or several of these."""
    leaves = np.asarray(leaf)
    same = np.zeros(len(leaves), int)
    defaults = {"pod": same, "kind": same, "node": np.arange(len(leaves))}
    pod, kind, node = (np.asarray(more.pop(name, default)) for name, default in defaults.items())
    path = np.full((len(leaves), 1), -1)
    if "leaf" in told:
        path = leaves[:, None]
    if "tree" in told:
        path = np.stack([leaves, pod], axis=1)
    if "flat" in told:
        path = np.zeros((len(leaves), 1), int)
    known = "kind" in told or not kind.any()  # records always name processors and GPUs
    kinds = kind if "kind" in told else np.zeros(len(leaves), int)
    places = Places(node, path, kinds, kinds_known=known)
    return Shape(distance, leaves, places, **more)  # type: ignore[arg-type]


def tree(
    leaf: Sequence[int] | Integers, near: float, far: float, pod: Integers | None = None, pods: float = 1.7
) -> Floats:
    """Return the distances in a tree: within leaves, between them, between pods."""
    leaves = np.asarray(leaf)
    distance = np.where(leaves[:, None] == leaves, near, far)
    if pod is not None:
        distance = np.where(pod[:, None] == pod, distance, pods)
    return np.log(distance)


def sizes(*each: int) -> Integers:
    return np.repeat(np.arange(len(each)), each)


def near_far(dice: np.random.Generator) -> tuple[float, float]:
    return [(1.1, 1.4), (1.8, 1.95), (1.8, 1.85)][dice.integers(3)]


def fat_tree(dice: np.random.Generator, told: str, *each: int) -> Shape:
    leaf = sizes(*each)
    return shape(leaf, tree(leaf, *near_far(dice)), told)


def pods(_: np.random.Generator, told: str, per_leaf: int, *leaves: int) -> Shape:
    leaf = sizes(*[per_leaf] * sum(leaves))
    pod = sizes(*leaves)[leaf]
    return shape(leaf, tree(leaf, 1.1, 1.4, pod), told, pod=pod)


def dragonfly(dice: np.random.Generator, told: str, groups: Sequence[int], per_router: int) -> Shape:
    """Groups of routers; a message between groups may need a hop to the router with the link in each of both."""
    router = sizes(*[per_router] * sum(groups))
    group = sizes(*groups)[router]
    routers = [np.flatnonzero(sizes(*groups) == number) for number in range(len(groups))]
    gate = np.array([[dice.choice(its) for _ in groups] for its in routers])
    one, other = np.meshgrid(np.arange(len(router)), np.arange(len(router)), indexing="ij")
    hops = (router[one] != gate[group[one], group[other]]) * 1 + (router[other] != gate[group[other], group[one]])
    near = np.where(router[one] == router[other], 1.0, 1.15)
    return shape(router, np.log(np.where(group[one] == group[other], near, 1.3 + 0.15 * hops)), told, pod=group)


def cloud(dice: np.random.Generator, told: str, nodes: int, spread: float) -> Shape:
    distance = np.triu(dice.normal(0, spread, (nodes, nodes)))
    return shape(np.zeros(nodes, int), distance + np.triu(distance, 1).T, told)


def generations(dice: np.random.Generator, told: str, each: Sequence[int], old: int, slower: float) -> Shape:
    leaf = sizes(*each)
    kind = (dice.permutation(len(leaf)) < old) * 1
    distance = tree(leaf, *near_far(dice)) + np.log(slower) * (kind[:, None] | kind)
    return shape(leaf, distance, told, kind=kind)


def rails(_: np.random.Generator, told: str, nodes: int, rails_of_node: int) -> Shape:
    rail = np.tile(np.arange(rails_of_node), nodes)
    node = np.repeat(np.arange(nodes), rails_of_node)
    return shape(rail, tree(rail, 1.1, 1.5), told, node=node)


def loaded(
    _: np.random.Generator, told: str, each: Sequence[int], load: Sequence[float] | float, spines: int = 1
) -> Shape:
    leaf = sizes(*each)
    return shape(leaf, tree(leaf, 1.0, 1.05), told, load=np.asarray(load), spines=spines, streams=True)


def torus(_: np.random.Generator, told: str, *extent: int) -> Shape:
    """A torus whose routers have four nodes each: the distance grows with the hops."""
    place = np.stack(np.unravel_index(np.repeat(np.arange(np.prod(extent)), 4), extent), axis=1)
    apart = np.abs(place[:, None] - place)
    hops = np.minimum(apart, np.array(extent) - apart).sum(axis=2)
    router = np.repeat(np.arange(np.prod(extent)), 4)
    return shape(router, np.log(1 + 0.06 * hops), told)


def hosts(dice: np.random.Generator, told: str, nodes: int, per_host: int) -> Shape:
    """Virtual machines that share hosts, which nobody knows, and half of which share a leaf."""
    host = dice.permutation(np.arange(nodes) // per_host)
    return shape(host // 8, np.log(np.where(host[:, None] == host, 0.4, np.exp(tree(host // 8, 1.2, 1.3)))), told)


def rail_optimised(_: np.random.Generator, told: str, units: int, nodes: int, rails_of_node: int) -> Shape:
    """Units of nodes, in each of which the NICs of one number share a leaf; other rails and units are farther."""
    rail = np.tile(np.arange(rails_of_node), units * nodes)
    node = np.repeat(np.arange(units * nodes), rails_of_node)
    unit = node // nodes
    leaf = unit * rails_of_node + rail
    return shape(leaf, tree(leaf, 1.0, 1.35, unit, 1.6), told, node=node, pod=unit)


def racks_of_kinds(dice: np.random.Generator, told: str, each: Sequence[int], slower: Sequence[float]) -> Shape:
    """Racks of one kind each, but for the last one, which has nodes of all kinds."""
    leaf = sizes(*each)
    kind = leaf % len(slower)
    kind = np.where(leaf == leaf.max(), dice.integers(len(slower), size=len(leaf)), kind)
    factor = np.log(np.asarray(slower))[kind]
    return shape(leaf, tree(leaf, *near_far(dice)) + np.maximum(factor[:, None], factor), told, kind=kind)


def noisy_cloud(dice: np.random.Generator, told: str, nodes: int, spread: float, tail: float) -> Shape:
    made = cloud(dice, told, nodes, spread)
    return Shape(made.distance, made.leaf, made.told, tail=tail)


def other_nic(dice: np.random.Generator, told: str, nodes: int, per_leaf: int, slower: float) -> Shape:
    """Two ranks a node with a NIC each; in one node the second NIC is of an older kind."""
    node = np.repeat(np.arange(nodes), 2)
    leaf = node // per_leaf
    old = (np.arange(2 * nodes) == 2 * dice.integers(nodes) + 1) * 1
    distance = tree(leaf, *near_far(dice)) + np.log(slower) * (old[:, None] | old)
    return shape(leaf, distance, told, node=node, kind=old)


Make = Callable[[np.random.Generator], Shape]


def _worlds() -> dict[str, dict[str, Make]]:
    chosen: dict[str, Make] = {}
    for told in ("", "leaf"):
        text = {"": "", "leaf": ", leaves"}[told]
        for name, each in {
            "8 × 8": [8] * 8, "4 × 4": [4] * 4, "15 + 1": [15, 1], "14 + 2": [14, 2], "62 + 2": [62, 2],
            "50 + 14": [50, 14], "30 + 20 + 10 + 4": [30, 20, 10, 4], "16 × 16": [16] * 16, "32 × 32": [32] * 32,
        }.items():  # fmt: skip
            chosen[name + text] = partial(fat_tree, told=told, each=each)  # type: ignore[call-arg]
    chosen = {name: _spread(make) for name, make in chosen.items()}
    chosen |= {
        "flat 16, one switch": lambda dice: fat_tree(dice, "flat", 16),
        "flat 64, one switch": lambda dice: fat_tree(dice, "flat", 64),
        "flat 64": lambda dice: fat_tree(dice, "", 64),
        "pods 7 + 1": lambda dice: pods(dice, "", 8, 7, 1),
        "pods 7 + 1, tree": lambda dice: pods(dice, "tree", 8, 7, 1),
        "pods 20 + 8 + 4, leaves": lambda dice: pods(dice, "leaf", 8, 20, 8, 4),
        "pods 20 + 8 + 4, tree": lambda dice: pods(dice, "tree", 8, 20, 8, 4),
        "dragonfly": lambda dice: dragonfly(dice, "", (10, 6, 4, 2), 4),
        "dragonfly, routers": lambda dice: dragonfly(dice, "leaf", (10, 6, 4, 2), 4),
        "cloud 15 %": lambda dice: cloud(dice, "", 64, 0.15),
        "oversubscribed, leaves": lambda dice: loaded(dice, "leaf", [8] * 8, 0.75),
        "rails, leaves": lambda dice: rails(dice, "leaf", 8, 8),
        "two generations": lambda dice: generations(dice, "", [8] * 8, 12, 1.3),
        "two generations, leaves": lambda dice: generations(dice, "leaf", [8] * 8, 12, 1.3),
        "two generations, leaves and kinds": lambda dice: generations(dice, "leaf kind", [8] * 8, 12, 1.3),
    }
    held: dict[str, Make] = {
        "23 + 17 + 9 + 3 + 1": lambda dice: fat_tree(dice, "", 23, 17, 9, 3, 1),
        "23 + 17 + 9 + 3 + 1, leaves": lambda dice: fat_tree(dice, "leaf", 23, 17, 9, 3, 1),
        "10 + 6, leaves": lambda dice: fat_tree(dice, "leaf", 10, 6),
        "12 × 8, leaves": lambda dice: fat_tree(dice, "leaf", *[12] * 8),
        "scattered, leaves": lambda dice: fat_tree(dice, "leaf", *dice.integers(1, 12, 14).tolist()),
        "scattered": lambda dice: fat_tree(dice, "", *dice.integers(1, 12, 14).tolist()),
        "pods 9 + 5 + 2, leaves": lambda dice: pods(dice, "leaf", 6, 9, 5, 2),
        "pods 9 + 5 + 2, tree": lambda dice: pods(dice, "tree", 6, 9, 5, 2),
        "dragonfly 8 × 4, routers": lambda dice: dragonfly(dice, "leaf", (8, 8, 8, 8), 8),
        "torus 4 × 4 × 4, routers": lambda dice: torus(dice, "leaf", 4, 4, 4),
        "torus 4 × 4": lambda dice: torus(dice, "", 4, 4),
        "cloud 5 %": lambda dice: cloud(dice, "", 96, 0.05),
        "virtual machines": lambda dice: hosts(dice, "", 64, 2),
        "oversubscribed 3:1, leaves": lambda dice: loaded(dice, "leaf", [12] * 8, 1.5),
        "4 rails, leaves": lambda dice: rails(dice, "leaf", 24, 4),
        "third generation, kinds": lambda dice: generations(dice, "leaf kind", [10, 20, 30, 4], 20, 1.15),
        "third generation": lambda dice: generations(dice, "leaf", [10, 20, 30, 4], 20, 1.15),
        "64 × 16, leaves": lambda dice: fat_tree(dice, "leaf", *[16] * 64),
        "flat 24, one switch": lambda dice: fat_tree(dice, "flat", 24),
        "rail-optimised 2 × 8 × 8, leaves": lambda dice: rail_optimised(dice, "leaf", 2, 8, 8),
        "rail-optimised 2 × 8 × 8, tree": lambda dice: rail_optimised(dice, "tree", 2, 8, 8),
        "three generations": lambda dice: racks_of_kinds(dice, "leaf", [9, 14, 11, 12], (1.0, 1.12, 1.4)),
        "three generations, kinds": lambda dice: racks_of_kinds(dice, "leaf kind", [9, 14, 11, 12], (1.0, 1.12, 1.4)),
        "half the uplinks, leaves": lambda dice: loaded(dice, "leaf", [12] * 4, [1.0, 0.5, 0.5, 0.5]),
        "half the uplinks": lambda dice: loaded(dice, "", [12] * 4, [1.0, 0.5, 0.5, 0.5]),
        "noisy cloud": lambda dice: noisy_cloud(dice, "", 40, 0.04, 0.03),
        "noisy cloud, one switch": lambda dice: noisy_cloud(dice, "flat", 40, 0.04, 0.03),
        "an older NIC, kinds": lambda dice: other_nic(dice, "leaf kind", 24, 6, 1.25),
        "1 + 2 + 3 + 5 + 6": lambda dice: fat_tree(dice, "", 1, 2, 3, 5, 6),
        "1 + 2 + 3 + 5 + 6, leaves": lambda dice: fat_tree(dice, "leaf", 1, 2, 3, 5, 6),
        "11 + 5": lambda dice: fat_tree(dice, "", 11, 5),
        "11 + 5, leaves": lambda dice: fat_tree(dice, "leaf", 11, 5),
    }
    later: dict[str, Make] = {
        "uneven leaves 2:1, leaves": lambda dice: loaded(dice, "leaf", [14, 10, 8, 5, 3], 0.5),
        "uneven leaves 2:1": lambda dice: loaded(dice, "", [14, 10, 8, 5, 3], 0.5),
        "two small leaves 4:1, leaves": lambda dice: loaded(dice, "leaf", [9, 7], 1.0),
        "few uplinks on two of six, leaves": lambda dice: loaded(
            dice, "leaf", [11] * 6, [1.2, 0.3, 0.3, 0.6, 0.3, 0.3]
        ),
        "static routes, 4 spines, leaves": lambda dice: loaded(dice, "leaf", [16] * 6, 0.25, 4),
        "static routes 2:1, 3 spines, leaves": lambda dice: loaded(dice, "leaf", [10] * 9, 0.5, 3),
        "17 × 6, leaves": lambda dice: fat_tree(dice, "leaf", *[6] * 17),
        "21 + 4 + 3, leaves": lambda dice: fat_tree(dice, "leaf", 21, 4, 3),
        "5 rails, leaves": lambda dice: rails(dice, "leaf", 11, 5),
        "dragonfly 5 × 6, routers": lambda dice: dragonfly(dice, "leaf", (6, 5, 5, 3), 6),
    }
    for worlds, shapes in (
        (chosen, ([5, 3], [4, 4], [3, 3, 2], [6, 2], [12, 3, 1], [2, 2, 2, 2], [3, 2, 1], [4, 3])),
        (later, ([7, 5, 2], [5, 4, 1], [3, 3], [8, 1, 1], [4, 4, 4], [2, 2, 1], [9, 2, 2, 2], [6, 5])),
    ):
        for each in shapes:
            name = f"{' + '.join(map(str, each))}, leaves"
            worlds[name] = _spread(partial(fat_tree, told="leaf", each=each))  # type: ignore[call-arg]
    return {"chosen": chosen, "held out": held, "later": later}


def _spread(make: partial[Shape]) -> Make:
    told, each = make.keywords["told"], make.keywords["each"]
    return lambda dice: fat_tree(dice, told, *each)


WORLDS = _worlds()


@dataclass
class Cluster:
    """A simulated cluster with a fault."""

    shape: Shape
    noise: Floats
    round_trips: bool
    fault: str
    slower: float
    seed: int
    bad: Booleans = field(init=False)

    def __post_init__(self) -> None:
        self.dice = np.random.default_rng(self.seed)
        ranks = self.shape.ranks
        self.part = int(self.dice.integers(ranks))
        if self.fault == "switch":  # a switch with one node is that node
            sizes_of = np.bincount(self.shape.leaf)[self.shape.leaf]
            several = np.flatnonzero(sizes_of > 1)
            self.part = int(self.dice.choice(several)) if len(several) else self.part
        node, leaf = self.shape.told.node, self.shape.leaf
        self.bad = {
            "none": np.zeros(ranks, bool),
            "node": node == node[self.part],
            "NIC": np.arange(ranks) == self.part,
            "switch": leaf == leaf[self.part],
        }[self.fault]
        self.usual = self.dice.normal(0, 0.003, ranks)

    def visits(self, rounds: list[list[tuple[int, int]]], base: int) -> Visits:
        """Visit the pairs of the rounds as often as a launch does."""
        repeats = repeats_of(rounds)
        shape = [len(pairs) for pairs in rounds]
        both = np.array([pair for pairs in rounds for pair in pairs])
        first, second = (np.tile(column, repeats) for column in both.T)
        turn = np.repeat(np.arange(len(rounds) * repeats), shape * repeats)
        start = self.dice.integers(len(self.noise), size=(self.shape.ranks, turn.max() // STRETCH + 1))
        off = [self.noise[(start[end, turn // STRETCH] + turn % STRETCH) % len(self.noise)] for end in (first, second)]
        logs = self.shape.distance[first, second] + self.usual[first] + self.usual[second] + np.maximum(*off)
        logs += (self.dice.random(len(logs)) < DISTURBED) * np.minimum(self.dice.pareto(1.5, len(logs)) * 0.1, LONGEST)
        logs += self.shape.tail * np.abs(self.dice.standard_t(2, len(logs)))
        logs += np.log(np.maximum(1.0, np.maximum(self._load(first, second, turn), self._load(second, first, turn))))
        hit = self.bad[second] if self.fault == "NIC" else self.bad[first] | self.bad[second]
        if self.fault == "NIC" and self.round_trips:
            hit = hit | self.bad[first]
        logs += np.log1p(self.slower) * hit
        repetition = base + turn // len(rounds)
        met = base * len(rounds) + turn % len(rounds)
        return Visits(first, second, repetition, met, np.exp(logs), np.zeros(len(first), bool))

    def _load(self, end: Integers, other: Integers, turn: Integers) -> Floats:
        """Return the load of the links of the ends' leaves, which all pairs share that leave a leaf in a round."""
        leaf = self.shape.leaf
        load = np.broadcast_to(self.shape.load, leaf.max() + 1)
        crossing = leaf[end] != leaf[other]
        spines = self.shape.spines
        route = (np.minimum(end, other) * 7919 + np.maximum(end, other) * 104729 + self.seed) // 64 % spines
        key = (turn * len(load) + leaf[end]) * spines + route
        of_link = np.bincount(leaf)[leaf[end]] / spines
        share = np.bincount(key[crossing], minlength=int(key.max()) + 1)[key] / of_link
        found: Floats = crossing * share * 4 * load[leaf[end]]
        return found

    def checked(self) -> Judgement:
        """Check it, and look again until everything is decided."""
        places = self.shape.told
        dice = random.Random(self.seed)  # noqa: S311  a simulation
        visits: Visits | None = None
        for look in range(LOOKS):
            new = self.visits(matchings(self.shape.ranks, dice, places.leaf.tolist()), look * 100)
            visits = joined(visits, new) if visits else new
            found = judge(visits, places, one_way=not self.round_trips)
            if not found.again:
                break
        return found

    def score(self) -> dict[str, bool]:
        """Say whether the bad part was named, was at least a suspect, whether a good one was blamed, and silence."""
        found = self.checked()
        bad = {int(rank) for rank in np.flatnonzero(self.bad)}
        blamed = {rank for part in found.bad for rank in part.ranks} - bad
        named = any(bad.intersection(part.ranks) for part in found.bad)
        suspect = named or any(bad.intersection(part.ranks) for part in found.open)
        return {
            "failed": bool(found.bad), "blamed": bool(blamed), "named": named, "suspect": suspect,
            "silent": not found.parts and self.slower > found.seen_from,
            "undecided": bool(found.open) and not found.bad, "passed": not found.parts,
        }  # fmt: skip


@cache
def noises_of(path: Path) -> dict[str, Floats]:
    """Return the noise of each pattern as logarithms: those of consecutive visits over what is usual.

    Of launches of ping-pongs the least sample of each visit is taken over the median of these in its launch; messages
    of 1 MiB stand for streams.
    """
    logs = list(read_runs(path, BENCHMARKS))
    points = [point for log in logs for point in log.of(PingPong) if point.transport == "host" and point.visits]
    if not points:
        return {pattern: np.log([visit.off for visit in visits]) for pattern, visits in visits_of(path).items()}
    found: dict[str, Floats] = {}
    for pattern, size_bytes in (("pingpong", 8), ("stream", 1 << 20)):
        launches = [
            np.minimum.reduceat(point.times_s, np.cumsum([0, *point.visits[:-1]]))
            for point in points
            if point.size_bytes == size_bytes
        ]
        found[pattern] = np.log(np.concatenate([least_s / np.median(least_s) for least_s in launches]))
    return found


def simulated(group: str, world: str, fault: tuple[str, float], number: int) -> dict[str, bool]:
    """Simulate one cluster of a world, and check it."""
    seed = SEEDS[group] + number * 7919
    dice = np.random.default_rng(seed)
    made = WORLDS[group][world](dice)
    recording = RECORDINGS[group][number % len(RECORDINGS[group])]
    streams = made.streams or number % 4 >= 2
    noise = noises_of(recording)["stream" if streams else "pingpong"]
    return Cluster(made, noise, not streams, *fault, seed + 1).score()


def cell(group: str, world: str, fault: tuple[str, float], count: int) -> tuple[dict[str, float], int]:
    scores = [simulated(group, world, fault, number) for number in range(count)]
    return {key: sum(score[key] for score in scores) / count for key in scores[0]}, count


def counted(group: str, world: str, fault: str, share: float) -> int:
    ranks = WORLDS[group][world](np.random.default_rng(SEEDS[group])).ranks
    least = min((size for size in LARGE if size >= ranks), default=64)
    return max(2, round((HEALTHY if fault == "none" else CLUSTERS) * LARGE[least] * share))


def percent(share: float) -> str:
    return f"{share:.1%}".replace(".0%", "%").replace("%", " %")


def main() -> None:
    """Print the table, and write it into a page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--share", type=float, default=1.0, help="of the usual number of simulated clusters")
    parser.add_argument("--only", help="worlds, separated by semicolons")
    parser.add_argument("--group", choices=[*WORLDS], help="only the worlds that thresholds were chosen with, or not")
    parser.add_argument("--write", type=Path, help="the page to write it into")
    given = parser.parse_args()
    lines = [f"| world | clusters | {' | '.join(HEADS)} |", "| --- " * (2 + len(HEADS)) + "|"]
    print(*lines, sep="\n", flush=True)
    with ProcessPoolExecutor() as pool:  # a cluster has dice of its own, so the number of processes changes nothing
        rows = [
            (
                group,
                world,
                [
                    pool.submit(cell, group, world, fault, counted(group, world, fault[0], given.share))
                    for fault in FAULTS
                ],
            )
            for group in ([given.group] if given.group else WORLDS)
            for world in WORLDS[group]
            if not given.only or world in given.only.split(";")
        ]
        for group, world, cells in rows:
            texts = []
            for fault, each in zip(FAULTS, cells, strict=True):
                rates, count = each.result()
                if fault[0] == "none":
                    texts.append(f"{count} | {percent(rates['failed'])} / {percent(rates['undecided'])}")
                elif fault[0] == "switch" and len(np.unique(WORLDS[group][world](np.random.default_rng(0)).leaf)) < 2:
                    texts.append("")  # everything is as slow
                else:
                    texts.append(" / ".join(percent(rates[key]) for key in ("named", "suspect", "silent", "blamed")))
            lines.append(f"| {world}{' (held out)' if group != 'chosen' else ''} | {' | '.join(texts)} |")
            print(lines[-1], flush=True)
    if given.write:
        text, start = given.write.read_text("utf-8"), "<!-- check rates -->\n"
        before, _, rest = text.partition(start)
        table = "\n".join(lines)
        given.write.write_text(f"{before}{start}{table}\n{rest[rest.index('<!-- end -->') :]}", "utf-8")


if __name__ == "__main__":
    main()
