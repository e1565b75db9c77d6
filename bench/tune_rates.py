"""How often `volley tune` finds a better setting, and how often it calls one better that is not: simulated machines.

    python bench/tune_rates.py [--machines N] [--write PAGE]

A simulated machine has 30 settings and ten sizes.  The time of a launch varies as recorded launches do: a part for all
sizes of the launch, a part for each size, a drift of the machine from launch to launch, and now and then a launch that
is much slower.  The search and the verdict are those of `volley tune`.
"""

import argparse
import math
import random
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from volley.tune.search import (
    Search,
    Times,
    confirming_rounds,
    screen_launches,
    screening_rounds,
)

SETTINGS, SIZES = 30, 10
COMMON, OWN = 0.02, 0.04
"""Standard deviations of the logarithm of a time: of a launch, and of each size in it (docs/method/coverage.md: the
medians of launches at 8 B vary by 3.8 to 5 % on two H200s)."""
DRIFT, PERSISTENCE = 0.02, 0.9
SLOW_SHARE, SLOWER = 0.05, 1.3
SEED = 424242
BUDGETS = (200, 300, 500)
"""Launches in all: with launches of 1 s, seconds."""
GAIN = 0.10
MACHINES: Mapping[str, tuple[float, Collection[int]]] = {
    "no setting is better": (0.0, ()),
    "the best is 10 % better at all sizes": (GAIN, range(SIZES)),
    "the best is 10 % better at three sizes": (GAIN, (3, 4, 5)),
    "the best is 10 % better at three sizes, and 10 % worse at three others": (GAIN, (3, 4, 5)),
}
WORSE = (7, 8, 9)


@dataclass
class Machine:
    """A machine on which one of the settings takes less time at some sizes."""

    seed: int
    gain: float = 0.0
    where: Collection[int] = ()
    worse: Collection[int] = ()
    drift: float = 0.0
    dice: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self.dice = random.Random(self.seed)  # noqa: S311  no secret
        self.best = self.dice.randrange(SETTINGS)

    def launch(self, setting: int | None) -> Times:
        dice = self.dice
        self.drift = PERSISTENCE * self.drift + dice.gauss(0, DRIFT * math.sqrt(1 - PERSISTENCE**2))
        common = self.drift + dice.gauss(0, COMMON) + (math.log(SLOWER) if dice.random() < SLOW_SHARE else 0)
        found = {}
        for size in range(SIZES):
            effect = 0.0
            if setting == self.best:
                effect = math.log1p(-self.gain) * (size in self.where) - math.log1p(-self.gain) * (size in self.worse)
            found["host", str(size)] = 1e-6 * math.exp(effect + common + dice.gauss(0, OWN))
        return found


@dataclass(frozen=True)
class Outcome:
    """What one search proved."""

    found: bool
    """The setting that is better was proven, and would be written."""
    wrong: bool
    """A setting was proven that is no better, or the better one at a size at which it is not."""
    harmful: bool
    """A setting that is worse at some size would be written."""


def search(machine: Machine, launches: int) -> Outcome:
    """Run the search of `volley tune` on a machine, with so many launches."""
    tried: Search[int] = Search(machine.launch, dice=random.Random(machine.seed))  # noqa: S311  no secret
    rounds = screening_rounds(SETTINGS, launches)
    survivors = tried.screen(range(SETTINGS), rounds)
    left = launches - screen_launches(SETTINGS, rounds)
    proofs = tried.confirm(survivors, confirming_rounds(len(survivors), left))
    right = {("host", str(size)) for size in machine.where}
    wrong = any(
        faster and (each != machine.best or place not in right)
        for each, found in proofs.items()
        for place, faster in zip(found.places, found.faster, strict=True)
    )
    best = proofs.get(machine.best)
    return Outcome(
        found=best is not None and best.usable,
        wrong=wrong,
        harmful=bool(machine.worse) and best is not None and best.usable,
    )


def rates(name: str, machines: int, launches: int) -> tuple[float, float, float]:
    """Return the shares of searches that found the better setting, proved a wrong one, would write a harmful one."""
    gain, where = MACHINES[name]
    worse = WORSE if "worse" in name else ()
    found = [search(Machine(SEED + number, gain, where, worse), launches) for number in range(machines)]
    return (
        sum(each.found for each in found) / machines,
        sum(each.wrong for each in found) / machines,
        sum(each.harmful for each in found) / machines,
    )


def table(machines: int) -> list[str]:
    lines = [
        f"| machine ({machines} of each) | launches | found | a wrong proof | a harmful setting written |",
        "| --- | ---: | ---: | ---: | ---: |",
    ]
    for name in MACHINES:
        for launches in BUDGETS:
            found, wrong, harmful = rates(name, machines, launches)
            hit = f"{found:.1%}" if MACHINES[name][0] and "worse" not in name else "–"
            bad = f"{harmful:.1%}" if "worse" in name else "–"
            lines.append(f"| {name} | {launches} | {hit} | {wrong:.1%} | {bad} |")
            print(lines[-1], flush=True)
    return lines


BEGIN, END = "<!-- rates -->", "<!-- end of rates -->"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--machines", type=int, default=400)
    parser.add_argument("--write", type=Path)
    asked = parser.parse_args()
    lines = table(asked.machines)
    if asked.write:
        page = asked.write.read_text("utf-8")
        before, after = page.split(BEGIN)[0], page.split(END)[1]
        asked.write.write_text("\n".join([f"{before}{BEGIN}", *lines, f"{END}{after}"]), "utf-8")


if __name__ == "__main__":
    main()
