"""How often volley finds a slow pair of ranks, and how often it blames a good one: resampled recorded noise.

    python bench/blame_rates.py [RECORDS…] [--matrices N]

The records are those of a matrix that was measured many times (``"repeats"`` in its plan).  What a pair took in one
repetition over its median of all repetitions is noise: what really differs between pairs is divided out.  Repetitions
in a row make a moment.  A simulated matrix draws the noise of each visit from one random moment and that of each
repetition of the second launch from another, so that what disturbed many pairs at once does so here; one random pair
is slower than that, both ways, and ``volley.blame`` judges as it does in earnest.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Mapping, Sequence
from itertools import permutations
from pathlib import Path

from volley import blame, stats
from volley.blame import Pair
from volley.options.matrix import REPEATS
from volley.records_io import read_runs

FOLDER = Path(__file__).parents[1] / "results" / "two-cores"
RECORDS = [FOLDER / f"noise-{name}.jsonl" for name in ("2-ranks", "4-ranks", "2-ranks-disturbed")]
SLOWER = (0.0, 0.05, 0.10, 0.20, 0.50)
RANKS = (4, 8, 16)
SEED = 20260101
FEWEST = 12
"""What a moment must hold at least."""

Noise = Sequence[Sequence[float]]
"""Of each moment, the factors by which its pairs were off."""


def noise_of(path: Path) -> dict[str, Noise]:
    """Return the recorded noise of each exercise."""
    rows = [row for log in read_runs(path) for row in log.rows]
    found: dict[str, Noise] = {}
    for exercise in dict.fromkeys(row.exercise for row in rows):
        times: dict[Pair, dict[int, float]] = {}
        for row in rows:
            for cell in row.cells if row.exercise == exercise else ():
                if cell.median_s:
                    times.setdefault((row.rank, cell.rank), {})[row.repeat] = cell.median_s
        usual = {pair: stats.median(list(those.values())) for pair, those in times.items()}
        repeats = sorted({repeat for those in times.values() for repeat in those})
        found[exercise] = [
            [those[repeat] / usual[pair] for pair, those in times.items() for repeat in moment if repeat in those]
            for moment in _moments(repeats, len(times))
        ]
    return found


def _moments(repeats: Sequence[int], pairs: int) -> list[Sequence[int]]:
    """Put repetitions that followed each other together, until they hold enough pairs to draw from."""
    each = -(-FEWEST // pairs)
    return [repeats[start : start + each] for start in range(0, len(repeats) - each + 1, each)]


def blamed(noise: Noise, ranks: int, slow: Pair, slower: float, dice: random.Random) -> set[Pair]:
    """Simulate one matrix in which ``slow`` takes ``slower`` longer, both ways; return who is blamed."""
    pairs = list(permutations(range(ranks), 2))
    kinds = dict.fromkeys(pairs, "same socket")

    def measured(chosen: Sequence[Pair]) -> Mapping[Pair, float]:
        moment = dice.choice(noise)
        return {pair: dice.choice(moment) * (1 + slower * (set(pair) == set(slow))) for pair in chosen}

    passes = [measured(pairs) for _ in range(REPEATS)]
    found = blame.standings({pair: stats.median([times[pair] for times in passes]) for pair in pairs}, kinds)
    suspects = blame.suspects(found, kinds)
    controls = blame.controls(found, kinds, suspects)
    if not suspects:
        return set()
    again = [measured([*(each.pair for each in suspects), *controls]) for _ in range(blame.REPEATS)]
    verdicts = [blame.verdict(each, again, controls) for each in suspects]
    return {each.first.pair for each in verdicts if each and each.blamed}


def rates(noise: Noise, ranks: int, slower: float, matrices: int, dice: random.Random) -> tuple[float, float]:
    """Return the share of matrices in which the slow pair is named, and in which a good one is."""
    named = wrong = 0
    for _ in range(matrices):
        slow = tuple(dice.sample(range(ranks), 2))
        ways = {slow, slow[::-1]} if slower else set()
        who = blamed(noise, ranks, (slow[0], slow[1]), slower, dice)
        named += bool(who & ways)
        wrong += bool(who - ways)
    return named / matrices, wrong / matrices


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("records", nargs="*", type=Path, default=RECORDS)
    parser.add_argument("--matrices", type=int, default=400, help="simulated matrices a cell of the table")
    given = parser.parse_args()
    noises = {
        (path.stem.removeprefix("noise-"), exercise): noise
        for path in given.records
        for exercise, noise in noise_of(path).items()
    }
    print(
        "| recorded with | exercise | noise | ranks |"
        + "".join(f" {slower:.0%} slower |".replace("%", " %") for slower in SLOWER)
    )
    print("| --- | --- | --- | --- |" + " --- |" * len(SLOWER))
    for (name, exercise), noise in noises.items():
        dice = random.Random(SEED)  # noqa: S311  a simulation, repeatable
        off = sorted(abs(factor - 1) for moment in noise for factor in moment)
        spread = f"{off[len(off) // 2]:.1%}, {off[len(off) * 95 // 100]:.1%}"
        for ranks in RANKS:
            cells = [rates(noise, ranks, slower, given.matrices, dice) for slower in SLOWER]
            shown = [
                f"{named:.0%} ({wrong:.1%})" if slower else f"– ({wrong:.1%})"
                for slower, (named, wrong) in zip(SLOWER, cells, strict=True)
            ]
            print(f"| {name} | {exercise} | {spread} | {ranks} | {' | '.join(shown)} |".replace("%", " %"))


if __name__ == "__main__":
    main()
