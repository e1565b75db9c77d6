"""How often volley's intervals hold what they say, and how often its verdicts are wrong, on recorded launches.

    python bench/coverage.py [--check]

Each ``results/MACHINE/launches.jsonl.gz`` holds many launches of one ping-pong.  A run is simulated by drawing some of
them, with replacement, as if launches were independent, or by taking launches that followed each other.  Its interval
shall hold the median over all launches.  docs/method/coverage.md is written from what is found.  Every line of every
table has a seed of its own, so that a test can compute some of them again.
"""

from __future__ import annotations

# ruff: noqa: S311  nothing here is secret
import argparse
import gzip
import math
import random
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from volley.benchmarks import BENCHMARKS
from volley.benchmarks.points.records import PointRecord
from volley.benchmarks.points.results import BASELINE
from volley.run.records_file import parse_runs
from volley.statistics.estimates import Estimate, estimate, median
from volley.statistics.launches import FIRST_LOOK, enough, groups, of_observations
from volley.statistics.two_runs import LEVEL, SMALLEST, differences
from volley.units import format_size

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "method" / "coverage.md"
RUNS = 1000
"""Simulated for each point of a line of a table: a share is known to within 0.7 % (one standard deviation)."""
DRAWS = 40
"""Pairs of runs for each line of the table of two runs: 400 sweeps of ten transports."""
SIMULATED = 10000
"""Points of one group for each cell of the table of groups."""
MOST = 12
"""A run that goes on until its interval is as asked ends after so many launches."""
FIXED = (3, 4, 5, 6, 8, 10, 12)
ASKED = (0.01, 0.03, 0.1)
COMPARED = (6, 8, 10)
PLANTED = 0.05

Key = tuple[str, int]
Observed = Mapping[Key, Sequence[float]]
"""Medians of the launches, in their order, by transport and size."""


@dataclass(frozen=True)
class Machine:
    """The recorded launches of one machine."""

    name: str
    medians: Observed
    within: Mapping[Key, Sequence[Estimate]]
    """What each launch says of itself."""

    @property
    def launches(self) -> int:
        """How many were recorded."""
        return len(next(iter(self.medians.values())))

    @property
    def ratios(self) -> Observed:
        """The time of the baseline over that of each other transport, launch by launch."""
        names = dict.fromkeys(name for name, _ in self.medians)
        over = BASELINE if BASELINE in names else next(iter(names))
        return {
            (name, size): [slow / fast for slow, fast in zip(self.medians[over, size], times, strict=True)]
            for (name, size), times in self.medians.items()
            if name != over
        }


def machines() -> list[Machine]:
    """Read every machine whose launches are in the repository."""
    return [_machine(path) for path in sorted(ROOT.glob("results/*/launches.jsonl.gz"))]


def _machine(path: Path) -> Machine:
    logs = parse_runs(gzip.decompress(path.read_bytes()), BENCHMARKS, path.name)
    times: dict[Key, list[Sequence[float]]] = {}
    for log in logs:
        for point in log.of(PointRecord):
            if point.status == "ok":
                times.setdefault((point.transport, point.size_bytes), []).append(point.times_s)
    whole = {key: those for key, those in times.items() if len(those) == len(logs)}
    return Machine(
        path.parent.name,
        {key: [median(samples) for samples in those] for key, those in whole.items()},
        {key: [estimate(samples) for samples in those] for key, those in whole.items()},
    )


# ------------------------------------------------------------------------------------------------- simulated runs

Rule = Callable[[Sequence[float]], Estimate]
"""From the launches that a run could make, in their order, to the interval that it prints."""


def fixed(count: int) -> Rule:
    """A run of so many launches."""
    return lambda launches: of_observations(launches[:count])


def until(asked: float) -> Rule:
    """A run that looks after every launch and stops where its interval is as narrow as asked."""

    def rule(launches: Sequence[float]) -> Estimate:
        for count in range(FIRST_LOOK, len(launches)):
            found = of_observations(launches[:count])
            if enough([found], asked):
                return found
        return of_observations(launches)

    return rule


@dataclass(frozen=True)
class Coverage:
    """How often the interval of a point holds its median over all launches."""

    shares: Mapping[Key, float]
    half_width: float
    """Median over all runs of all points, as a fraction."""
    count: float
    """Launches of a run, in the mean."""

    @property
    def all(self) -> float:
        """The mean over the points."""
        return sum(self.shares.values()) / len(self.shares)

    @property
    def worst(self) -> float:
        """The least of the points."""
        return min(self.shares.values())

    @property
    def below(self) -> int:
        """Points below 90 %."""
        return sum(share < 0.9 for share in self.shares.values())


def covered(observed: Observed, rule: Rule, most: int, seed: str, *, together: bool) -> Coverage:
    """Simulate runs of every point.

    Args:
        observed: the recorded launches.
        rule: what a run does.
        most: the launches it may make.
        seed: of the draws.
        together: take launches that followed each other, each stretch of them once, instead of drawing them.
    """
    shares, widths, counts = {}, [], []
    for key, times in observed.items():
        draw = random.Random(f"{seed} {key}")
        starts = range(len(times) - most + 1)
        runs = (
            [times[start : start + most] for start in starts]
            if together
            else [draw.choices(times, k=most) for _ in range(RUNS)]
        )
        true, found = median(times), [rule(run) for run in runs]
        # The bounds are observations or lie between them: equal to the median but for rounding is held.
        shares[key] = sum(each.low <= true * (1 + 1e-12) and true <= each.high * (1 + 1e-12) for each in found) / len(
            found
        )
        widths += [each.half_width for each in found]
        counts += [each.count for each in found]
    return Coverage(shares, median(widths), sum(counts) / len(counts))


def rules() -> Iterator[tuple[str, Rule, int]]:
    """The runs of the table: a name, what they do, and the most launches."""
    for count in FIXED:
        yield str(count), fixed(count), count
    for asked in ASKED:
        yield f"{FIRST_LOOK} to {MOST}, until ±{asked * 100:g} %", until(asked), MOST


def coverage_line(observed: Observed, what: str, name: str, rule: Rule, most: int) -> str:
    """One line of a table of coverage."""
    seed = f"{what} {name}"
    apart = covered(observed, rule, most, seed, together=False)
    together = covered(observed, rule, most, seed, together=True)
    cells = (name, f"{apart.count:.1f}", f"±{apart.half_width * 100:.1f} %", *_shown(apart), *_shown(together))
    return f"| {' | '.join(cells)} |"


def _shown(found: Coverage) -> tuple[str, str, str]:
    return f"{found.all * 100:.1f} %", f"{found.worst * 100:.0f} %", f"{found.below} of {len(found.shares)}"


def within_line(machine: Machine) -> str:
    """The line of the intervals within one launch."""
    shares = {
        key: sum(each.low <= median(machine.medians[key]) <= each.high for each in those) / len(those)
        for key, those in machine.within.items()
    }
    widths = [each.half_width for those in machine.within.values() for each in those]
    found = Coverage(shares, median(widths), 1)
    cells = ("1, its own interval", "1.0", f"±{found.half_width * 100:.1f} %", *_shown(found), *_shown(found))
    return f"| {' | '.join(cells)} |"


def point_table(machine: Machine, what: str, rule: Rule, most: int) -> Iterator[str]:
    """The coverage of each point: a row a transport, a column a size."""
    found = covered(machine.medians, rule, most, f"{machine.name} times {what}", together=False).shares
    sizes = sorted({size for _, size in found})
    yield f"| {what} | {' | '.join(format_size(size) for size in sizes)} |"
    yield f"| --- |{' ---: |' * len(sizes)}"
    for name in dict.fromkeys(name for name, _ in found):
        cells = (f"{found[name, size] * 100:.0f}" if (name, size) in found else "" for size in sizes)
        yield f"| `{name}` | {' | '.join(cells)} |"


# ------------------------------------------------------------------------------------------------------- two runs


def two_runs_line(machine: Machine, count: int, *, together: bool) -> str:
    """One line of the table of two runs: false alarms, and how often a planted change is found."""
    draw = random.Random(f"{machine.name} two runs {count} {together}")
    names = list(dict.fromkeys(name for name, _ in machine.medians))
    sweeps = alarms = tables = wrong = planted = seen = planted_in_table = seen_in_table = 0
    for _ in range(DRAWS):
        first, second = _two(draw, machine, count, together=together)
        tables += 1
        wrong += _differ(first, second)
        allowed = [name for name in names if _allows(first, name) and _allows(second, name)]
        for name in names:
            sweeps += 1
            alarms += _differ(_only(first, name), _only(second, name))
        for name in allowed:
            planted += 1
            seen += _differ(_only(first, name), _only(_plant(second, name), name))
        if allowed:
            name = draw.choice(allowed)
            planted_in_table += 1
            seen_in_table += _differ(first, _plant(second, name), name)
    how = "one after the other" if together else "drawn"
    cells = (
        f"{count} and {count}",
        how,
        f"{alarms} of {sweeps} ({alarms / sweeps * 100:.1f} %)",
        f"{wrong} of {tables}",
        f"{seen} of {planted}",
        f"{seen_in_table} of {planted_in_table}",
    )
    return f"| {' | '.join(cells)} |"


def _two(draw: random.Random, machine: Machine, count: int, *, together: bool) -> tuple[Observed, Observed]:
    """Two runs that have no launch in common."""
    whole = range(machine.launches)
    if together:
        starts = sorted(draw.sample(range(len(whole) - 2 * count + 2), 2))
        places = [list(whole[start : start + count]) for start in (starts[0], starts[1] + count - 1)]
        draw.shuffle(places)
    else:
        drawn = draw.sample(whole, 2 * count)
        places = [drawn[:count], drawn[count:]]
    one, other = (
        {key: [times[place] for place in those] for key, times in machine.medians.items()} for those in places
    )
    return one, other


def _only(run: Observed, name: str) -> Observed:
    return {key: times for key, times in run.items() if key[0] == name}


def _plant(run: Observed, name: str) -> Observed:
    return {key: [(1 + PLANTED) * time for time in times] if key[0] == name else times for key, times in run.items()}


def _allows(run: Observed, name: str) -> bool:
    """Whether the interval of some size is narrow enough to tell the change: half of it on each side at most."""
    return any(of_observations(times).half_width <= PLANTED / 2 for times in _only(run, name).values())


def _differ(first: Observed, second: Observed, name: str | None = None) -> bool:
    """Whether the runs are called different, in some point of a transport where one is named."""
    return any(each.shown for each in differences(first, second) if name in (None, each.key[0]))


# ----------------------------------------------------------------------------------------------------------- groups

SHAPES: dict[str, Callable[[random.Random], float]] = {
    "normal": lambda draw: draw.gauss(0, 1),
    "Laplace": lambda draw: draw.choice((-1, 1)) * draw.expovariate(1),
    "uniform": lambda draw: draw.random(),
    "exponential": lambda draw: draw.expovariate(1),
}
"""Distributions of the logarithms of the launches, wide enough for every gap to count."""


def groups_line(count: int) -> str:
    """How often launches of one group are called two."""
    cells = [str(count)]
    for name, once in SHAPES.items():
        draw = random.Random(f"groups {count} {name}")
        found = sum(bool(groups({launch: math.exp(once(draw)) for launch in range(count)})) for _ in range(SIMULATED))
        cells.append(f"{found / SIMULATED * 100:.2f} %")
    return f"| {' | '.join(cells)} |"


# ------------------------------------------------------------------------------------------------------------ page

_HEAD = """\
| launches of a run | made, in the mean | half width, in the median | drawn: all | worst | below 90 % | one after the other: all | worst | below 90 % |
| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"""  # noqa: E501  a line of a table


def page(found: Sequence[Machine]) -> Iterator[str]:
    """Yield the lines of docs/method/coverage.md."""
    yield "<!-- Generated by `make coverage`; edit bench/coverage.py instead. -->"
    yield "# How often the intervals hold, and how often verdicts are wrong"
    yield ""
    yield (
        "A run is simulated from recorded launches: by drawing launches at random, with replacement, as if they were "
        "independent, or by taking launches that followed each other, every stretch of them once. A run's interval "
        'holds if the median over all recorded launches lies in it. "Worst" is the point (one transport at one size) '
        f"that is held least often. {RUNS} runs are drawn for each point. What the estimators are: "
        "[launches.py](../../src/volley/statistics/launches.py)."
    )
    for machine in found:
        yield from _machine_part(machine)
    yield from ("", "## Groups of launches", "")
    yield (
        f"How often launches of one group are called two, of {SIMULATED:,} simulated points each. The logarithms of "
        "the launches have the distribution named."
    )
    yield ""
    yield f"| launches | {' | '.join(SHAPES)} |"
    yield f"| ---: |{' ---: |' * len(SHAPES)}"
    yield from (groups_line(count) for count in (6, 8, 10, 12, 20, 40))


def _machine_part(machine: Machine) -> Iterator[str]:
    yield from ("", f"## {machine.name}: {machine.launches} launches, {len(machine.medians)} points", "")
    yield from ("### Times", "", _HEAD, within_line(machine))
    for name, rule, most in rules():
        yield coverage_line(machine.medians, f"{machine.name} times", name, rule, most)
    yield from ("", "Each point, in per cent, of runs whose launches were drawn:", "")
    for name, rule, most in rules():
        if name in ("3", str(FIRST_LOOK)) or "3 %" in name:
            yield from (*point_table(machine, name, rule, most), "")
    yield from ("### Ratios within a launch", "", f"The time of `{BASELINE}` over that of each other transport.", "")
    yield _HEAD
    for name, rule, most in rules():
        yield coverage_line(machine.ratios, f"{machine.name} ratios", name, rule, most)
    yield from ("", "### Two runs of the same thing", "")
    yield (
        f"Two runs differ in a point if at most {LEVEL * 100:g} % of the ways to deal their launches out show as much "
        f"in any point of the sweep, and the medians differ by {SMALLEST * 100:g} % at least "
        "([two_runs.py](../../src/volley/statistics/two_runs.py)). A sweep is one transport at every size, a table "
        f"all transports. A change of {PLANTED * 100:g} % is planted in one transport of the second run, where the "
        f"interval of some size is within ±{PLANTED * 50:g} % in both runs."
    )
    yield from (
        "",
        "| launches | runs | sweeps called different | tables | changes found in the sweep | in the table |",
        "| --- | --- | ---: | ---: | ---: | ---: |",
    )
    for count in COMPARED:
        for together in (False, True):
            yield two_runs_line(machine, count, together=together)


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the page, or compare it."""
    parser = argparse.ArgumentParser(description="Measure the coverage of intervals and the error rates of verdicts.")
    parser.add_argument("--check", action="store_true", help="compare only; exit status 1 if the page differs")
    options = parser.parse_args(arguments)
    text = "\n".join(page(machines())) + "\n"
    if options.check:
        return int(PAGE.read_text("utf-8") != text)
    PAGE.write_text(text, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
