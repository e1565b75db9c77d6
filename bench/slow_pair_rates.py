"""How often volley finds a slow pair of ranks, and how often it flags a good one: resampled recorded noise.

    python bench/slow_pair_rates.py [RECORDS…] [--matrices N]

The records are those of a matrix that was measured many times (``"repeats"`` in its plan), in the order in which its
pairs were visited.  What a visit took, over the median of all visits of that pair, is noise: what really differs
between pairs is divided out.  A simulated matrix draws its visits one after another, in stretches of consecutive
recorded ones (a block bootstrap: H. R. Künsch, Annals of Statistics 17, 1989), so that what disturbed several visits
in a row does so here.  A visit costs what all patterns together took.  One random pair is slower than that, in both
directions, and the rank matrix judges as it does in earnest, round after round, within its limit of time.
"""

import argparse
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations
from pathlib import Path

from volley.benchmarks import BENCHMARKS
from volley.benchmarks.matrix import MatrixOptions, remeasurement, slow_groups
from volley.benchmarks.matrix.records import RankMatrixRow
from volley.benchmarks.matrix.remeasurement import in_turn
from volley.benchmarks.matrix.slow_pairs import Pair, compare, matrix_of
from volley.records.records_file import read_runs
from volley.statistics.estimates import median

FOLDER = Path(__file__).parents[1] / "results" / "two-cores"
RECORDS = [
    FOLDER / f"noise-{name}-later.jsonl" for name in ("2-ranks", "4-ranks", "2-ranks-disturbed", "4-ranks-disturbed")
]
"""The limits were chosen by the records without ``-later``, not by these."""
SLOWER = (0.0, 0.05, 0.10, 0.20, 0.50)
RANKS = (4, 8, 16)
SEED = 20260101
MATRICES = 200
"""Simulated for a cell of the table."""
STRETCH = 24
"""Consecutive visits that are drawn together: from there on what is recorded hardly depends on what was before."""


@dataclass(frozen=True)
class Visit:
    """What was recorded of one visit."""

    off: float
    """Its least disturbed time over what is usual for the pair."""
    seconds: float
    """How long it took, all patterns together."""


@dataclass
class Machine:
    """A machine that disturbs as the recorded one did."""

    visits: Sequence[Visit]
    dice: random.Random
    slow: Pair
    slower: float
    spent_s: float = 0.0
    visited: int = 0
    _next: int = 0
    _left: int = 0

    @property
    def pair_s(self) -> float:
        """How long visiting a pair takes."""
        return self.spent_s / self.visited

    def measured(self, pairs: Sequence[Pair], repeat: int) -> Mapping[Pair, float]:
        """Visit pairs as the engine does: in another order in every repetition."""
        start = repeat % len(pairs)
        return {pair: self._visited(pair) for pair in (*pairs[start:], *pairs[:start])}

    def _visited(self, pair: Pair) -> float:
        if self._left == 0:
            self._next, self._left = self.dice.randrange(len(self.visits)), STRETCH
        visit = self.visits[self._next % len(self.visits)]
        self._next, self._left = self._next + 1, self._left - 1
        self.spent_s, self.visited = self.spent_s + visit.seconds, self.visited + 1
        return visit.off * (1 + self.slower * (set(pair) == set(self.slow)))


def visits_of(path: Path) -> dict[str, list[Visit]]:
    """Return the recorded visits of each pattern, in their order."""
    rows = [row for log in read_runs(path, BENCHMARKS) for row in log.of(RankMatrixRow)]
    least_s: dict[tuple[str, int, Pair], float] = {}
    elapsed_s: dict[tuple[str, int, Pair], float] = {}
    for row in rows:
        for second, low, spent_s in zip(row.partners, row.lows, row.elapsed_s, strict=True):
            if low is None:
                raise ValueError(f"a visit of ranks {row.rank} and {second} holds no time")
            where = (row.pattern, row.repeat, (row.rank, second))
            least_s[where], elapsed_s[where] = low * row.unit_s, spent_s
    patterns = list(dict.fromkeys(pattern for pattern, _, _ in least_s))
    pairs = sorted({pair for _, _, pair in least_s})
    repeats = sorted({repeat for _, repeat, _ in least_s})
    order = [(repeat, pairs[(turn + repeat) % len(pairs)]) for repeat in repeats for turn in range(len(pairs))]
    found: dict[str, list[Visit]] = {}
    for pattern in patterns:
        usual = {pair: median([least_s[pattern, repeat, pair] for repeat in repeats]) for pair in pairs}
        found[pattern] = [
            Visit(
                least_s[pattern, repeat, pair] / usual[pair],
                sum(elapsed_s[each, repeat, pair] for each in patterns),
            )
            for repeat, pair in order
        ]
    return found


def flagged(machine: Machine, ranks: int) -> set[Pair]:
    """Simulate one matrix; return the pairs that are flagged."""
    pairs = list(permutations(range(ranks), 2))
    kinds = dict.fromkeys(pairs, "same socket")
    passes = [machine.measured(pairs, repeat) for repeat in range(MatrixOptions.repeats)]
    first_s = machine.spent_s
    usual = {pair: median([times[pair] for times in passes]) for pair in pairs}
    at_best = {pair: min(times[pair] for times in passes) for pair in pairs}
    ratios, best_ratios = (compare(*matrix_of(times, kinds)) for times in (usual, at_best))
    found = remeasurement.suspects(ratios, best_ratios, slow_groups.slow_groups(ratios, [0] * ranks, ["node"] * ranks))
    controls = remeasurement.controls(ratios, found)
    remeasured: dict[Pair, remeasurement.Remeasurement] = {}
    again: list[list[Mapping[Pair, float]]] = []
    for wanted in remeasurement.ROUNDS:
        undecided = remeasurement.undecided(found, remeasured)
        left_s = max(remeasurement.LONGEST_S, first_s) - (machine.spent_s - first_s)
        most, repeats = remeasurement.affordable(len(undecided), len(controls), wanted, machine.pair_s, left_s)
        order = in_turn(undecided[:most], [each.pair for each in controls])
        again.append([machine.measured(order, repeat) for repeat in range(repeats)])
        remeasured = remeasurement.judge_all(found, again, controls)
    return {pair for pair, judged in remeasured.items() if judged.flagged}


def rates(
    visits: Sequence[Visit], ranks: int, slower: float, matrices: int, dice: random.Random
) -> tuple[float, float]:
    """Return the share of matrices in which the slow pair is flagged, and in which a good one is."""
    right = wrong = 0
    for _ in range(matrices):
        first, second = dice.sample(range(ranks), 2)
        slow = {(first, second), (second, first)} if slower else set()
        who = flagged(Machine(visits, dice, (first, second), slower), ranks)
        right += bool(who & slow)
        wrong += bool(who - slow)
    return right / matrices, wrong / matrices


def repeatable() -> random.Random:
    """Return the dice of a recording, the same ones each time."""
    return random.Random(SEED)  # noqa: S311  a simulation


def line(visits: Sequence[Visit], ranks: int, matrices: int, dice: random.Random) -> str:
    """Return a row of the table from its column of noise on."""
    off = sorted(abs(visit.off - 1) for visit in visits)
    cells = [f"{off[len(off) // 2]:.1%}, {off[len(off) * 95 // 100]:.1%}", str(ranks)]
    for slower in SLOWER:
        right, wrong = rates(visits, ranks, slower, matrices, dice)
        cells.append(f"{right:.0%} ({wrong:.1%})" if slower else f"– ({wrong:.1%})")
    return f"{' | '.join(cells)} |".replace("%", " %")


def main() -> None:
    """Print the table of docs/method/rank-matrix.md."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("records", nargs="*", type=Path, default=RECORDS)
    parser.add_argument("--matrices", type=int, default=MATRICES, help="simulated matrices a cell of the table")
    given = parser.parse_args()
    recorded = {
        (path.stem.removeprefix("noise-"), pattern): visits
        for path in given.records
        for pattern, visits in visits_of(path).items()
    }
    print(
        "| recorded with | pattern | noise | ranks |"
        + "".join(f" {slower:.0%} slower |".replace("%", " %") for slower in SLOWER)
    )
    print("| --- | --- | --- | --- |" + " --- |" * len(SLOWER))
    for (name, pattern), visits in recorded.items():
        dice = repeatable()
        for ranks in RANKS:
            shown = line(visits, ranks, given.matrices, dice)
            print(f"| {name} | {pattern} | {shown}", flush=True)


if __name__ == "__main__":
    main()
