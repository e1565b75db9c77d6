"""How often volley's intervals hold what they say, and how often its verdicts are wrong, on recorded launches.

    python bench/coverage.py [--check]

Each ``results/MACHINE/launches.jsonl.gz`` holds many launches of one ping-pong.  A run is simulated by drawing some of
them, with replacement, as if launches were independent, or by taking launches that followed each other.  Its interval
shall hold the median over all launches.  docs/method/coverage.md is written from what is found.  Every line of every
table has a seed of its own, so that a test can compute some of them again.
"""

# ruff: noqa: S311  nothing here is secret
import argparse
import gzip
import math
import random
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise, zip_longest
from pathlib import Path

import numpy as np

from volley.benchmarks import BENCHMARKS
from volley.benchmarks.points.records import PointRecord
from volley.benchmarks.points.results import BASELINE
from volley.records.records_file import parse_runs
from volley.run.launches import MAX_LAUNCHES
from volley.statistics.estimates import Estimate, estimate, median
from volley.statistics.launches import FIRST_LOOK, enough, groups, of_observations
from volley.statistics.two_runs import LEVEL, PAIRED_LEVEL, SMALLEST, Differences, differences
from volley.units import format_size

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "method" / "coverage.md"
RUNS = 1000
"""Simulated for each point of a line of a table: a share is known to within 0.7 % (one standard deviation)."""
DRAWS = 120
"""Pairs of runs for each line of the table of two runs."""
SENDS_NOTHING = "null"
"""``volley compare`` leaves this transport out."""
SIMULATED = 10000
"""Points of one group for each cell of the table of groups."""
MAX = MAX_LAUNCHES
"""A run that goes on until its interval is as asked ends after so many launches; its time does not depend on what it
finds, so that where that ends the run, the lines of a fixed number hold."""
FIXED = (3, 4, 5, 6, 8, 10, 12)
ASKED = (0.01, 0.03, 0.1)
SLOW = 1.05
"""A visit is slow if its fixed piece of work took more than so many times the fastest one."""
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
        """The time of the baseline over that of each other transport, launch by launch; none without the baseline."""
        return {
            (name, size): [slow / fast for slow, fast in zip(self.medians[BASELINE, size], times, strict=True)]
            for (name, size), times in self.medians.items()
            if name != BASELINE and (BASELINE, size) in self.medians
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


def real_runs(path: Path) -> list[Observed]:
    """Read the runs of a file, each with the medians of its launches.

    Either every run had the same budget, and each of its launches what was left of that: where it falls no more,
    another run begins.  Or all runs made ``MAX_LAUNCHES``.
    """
    runs: list[dict[Key, list[float]]] = []
    left_s, launches = 0.0, 0
    for log in parse_runs(gzip.decompress(path.read_bytes()), BENCHMARKS, path.name):
        budget_s = (log.run and log.run.plan.budget_s) or 0.0
        if 0 < left_s <= budget_s or launches % MAX_LAUNCHES == 0:
            runs.append({})
            launches = 0
        left_s = budget_s
        launches += 1
        for point in (point for point in log.of(PointRecord) if point.status == "ok"):
            runs[-1].setdefault((point.transport, point.size_bytes), []).append(median(point.times_s))
    return runs


REAL_HEAD = (
    "| transport | size | launches of a run (mean) | half width (median) | median of all runs | of neighbouring runs |",
    "| --- | ---: | ---: | ---: | ---: | ---: |",
)


def real_lines(runs: Sequence[Observed]) -> Iterator[str]:
    """How often the intervals of real runs held what other runs found: a line a point."""
    totals = [0, 0]
    for key in runs[0]:
        found = [of_observations(run[key]) for run in runs]
        everywhere = median([time for run in runs for time in run[key]])
        truths = (
            [everywhere] * len(runs),
            [median([time for run in _beside(runs, number) for time in run[key]]) for number in range(len(runs))],
        )
        held = [
            sum(bool(each.interval) and _holds(each, true) for each, true in zip(found, truth, strict=True))
            for truth in truths
        ]
        totals = [total + of_key for total, of_key in zip(totals, held, strict=True)]
        launches = sum(each.count for each in found) / len(found)
        width = median([each.half_width for each in found])
        cells = (f"`{key[0]}`", format_size(key[1]), f"{launches:.1f}", f"±{width * 100:.1f} %")
        yield f"| {' | '.join(cells)} | {' | '.join(f'{count} of {len(runs)}' for count in held)} |"
    shares = (f"{total / len(runs) / len(runs[0]) * 100:.1f} %" for total in totals)
    yield f"| all | | | | {' | '.join(shares)} |"


def _beside(runs: Sequence[Observed], number: int) -> Sequence[Observed]:
    """Return the two runs before and the two behind a run, without the run itself."""
    return [*runs[max(0, number - 2) : number], *runs[number + 1 : number + 3]]


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
        shares[key] = sum(_holds(each, true) for each in found) / len(found)
        widths += [each.half_width for each in found]
        counts += [each.count for each in found]
    return Coverage(shares, median(widths), sum(counts) / len(counts))


def rules() -> Iterator[tuple[str, Rule, int]]:
    """The runs of the table: a name, what they do, and the most launches."""
    for count in FIXED:
        yield str(count), fixed(count), count
    for asked in ASKED:
        yield f"{FIRST_LOOK} to {MAX}, until ±{asked * 100:g} %", until(asked), MAX


def coverage_line(observed: Observed, what: str, name: str, rule: Rule, most: int) -> str:
    """One line of a table of coverage."""
    seed = f"{what} {name}"
    apart = covered(observed, rule, most, seed, together=False)
    together = covered(observed, rule, most, seed, together=True)
    cells = (name, f"{apart.count:.1f}", f"±{apart.half_width * 100:.1f} %", *_shown(apart), *_shown(together))
    return f"| {' | '.join(cells)} |"


def _shown(found: Coverage) -> tuple[str, str, str]:
    return f"{found.all * 100:.1f} %", f"{found.worst * 100:.0f} %", f"{found.below} of {len(found.shares)}"


def _holds(found: Estimate, true: float) -> bool:
    """Whether the interval, or the range of two launches, holds a number; equal but for rounding is held."""
    low, high = found.interval or (found.low, found.high)
    return low <= true * (1 + 1e-12) and true <= high * (1 + 1e-12)


def within_line(machine: Machine) -> str:
    """The line of the intervals within one launch."""
    shares = {
        key: sum(_holds(each, median(machine.medians[key])) for each in those) / len(those)
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


@dataclass(frozen=True)
class Comparing:
    """How two runs are compared in a line of the table."""

    first: int
    second: int
    """Launches of each."""
    paired: bool = False
    """Launches of both take turns, as with --live."""

    def __str__(self) -> str:
        return f"{self.first} pairs" if self.paired else f"{self.first} and {self.second}"


COMPARED = (
    *(Comparing(count, count) for count in (6, 8, 10)),
    Comparing(6, 20),
    *(Comparing(count, count, paired=True) for count in (8, 10, 12)),
)


def two_runs_line(machine: Machine, how: Comparing, *, together: bool) -> str:
    """One line of the table of two runs: false alarms, how often a planted change is found, how intervals hold."""
    draw = random.Random(f"{machine.name} two runs {how} {together}")
    sent = {key: times for key, times in machine.medians.items() if key[0] != SENDS_NOTHING}
    alarms = planted = seen = held = points = 0
    for _ in range(DRAWS):
        first, second = _two(draw, sent, machine.launches, how, together=together)
        found = _compared(first, second, paired=how.paired)
        alarms += bool(found.changed.any())
        held += np.count_nonzero((found.low <= 1) & (found.high >= 1))
        points += len(found.ratio)
        allowed = sorted(_allowed(first, second, found, how))
        if allowed:
            name = draw.choice(allowed)
            planted += 1
            changed = _compared(first, _plant(second, name), paired=how.paired).changed
            seen += any(each and key[0] == name for key, each in zip(first, changed, strict=True))
    cells = (
        str(how),
        "one after the other" if together else "drawn",
        f"{alarms} of {DRAWS}",
        f"{seen} of {planted}",
        f"{held / points * 100:.1f} %",
    )
    return f"| {' | '.join(cells)} |"


def _two(
    draw: random.Random, medians: Observed, launches: int, how: Comparing, *, together: bool
) -> tuple[Observed, Observed]:
    """Two runs that have no launch in common."""
    counts = [how.first, how.second]
    if not together:
        drawn = draw.sample(range(launches), sum(counts))
        places = [drawn[: counts[0]], drawn[counts[0] :]]
    elif how.paired:
        start = draw.randrange(launches - sum(counts) + 1)
        pairs = [(start + 2 * pair, start + 2 * pair + 1) for pair in range(counts[0])]
        ordered = [draw.sample(pair, 2) for pair in pairs]  # as with --live
        places = [[pair[side] for pair in ordered] for side in (0, 1)]
    else:
        starts = sorted(draw.sample(range(launches - sum(counts) + 2), 2))
        starts[1] += counts[0] - 1
        places = [list(range(start, start + count)) for start, count in zip(starts, counts, strict=True)]
    one, other = ({key: [times[place] for place in those] for key, times in medians.items()} for those in places)
    return one, other


def _compared(first: Observed, second: Observed, *, paired: bool = False) -> Differences:
    """Compare two runs that have the same results, in the order of the first one."""
    tables = (list(zip_longest(*(run[key] for key in first), fillvalue=np.nan)) for run in (first, second))
    one, other = (np.array(table).T for table in tables)
    return differences(one, other, paired=paired)


def neighbours_line(runs: Sequence[Observed]) -> str:
    """How many real runs `volley compare` calls different from the run before them."""
    pairs = list(pairwise(runs))
    called = sum(bool(_compared(first, second).changed.any()) for first, second in pairs)
    return f"Of {len(pairs)} runs and the one before each, `volley compare` calls {called} different."


def _plant(run: Observed, name: str) -> Observed:
    return {key: [(1 + PLANTED) * time for time in times] if key[0] == name else times for key, times in run.items()}


def _allowed(first: Observed, second: Observed, found: Differences, how: Comparing) -> set[str]:
    """The transports with a size whose interval is narrow enough to tell the change: half of it on each side at most.

    Of pairs it is the interval of the ratio, else those of both runs.
    """
    if how.paired:
        widths = np.maximum(found.high - found.ratio, found.ratio - found.low) / found.ratio
        return {key[0] for key, width in zip(first, widths, strict=True) if width <= PLANTED / 2}
    narrow = (
        {name for (name, _), times in run.items() if of_observations(times).half_width <= PLANTED / 2}
        for run in (first, second)
    )
    return set.intersection(*narrow)


# ------------------------------------------------------------------------------------------------ wider intervals

WIDER = (1, 1.25, 1.5, 2, 3)
"""How many times as wide as printed."""


def wider_lines(path: Path) -> Iterator[str]:
    """How often intervals of runs in the order of the launches would hold if they were wider: a line a half and a
    number of launches."""
    logs = parse_runs(gzip.decompress(path.read_bytes()), BENCHMARKS, path.name)
    points: dict[Key, list[float]] = {}
    for log in logs:
        for point in log.of(PointRecord):
            if point.status == "ok" and point.transport != SENDS_NOTHING:
                points.setdefault((point.transport, point.size_bytes), []).append(median(point.times_s))
    middle = len(logs) // 2
    for name, half in (("first", slice(middle)), ("second", slice(middle, None))):
        halves = {key: times[half] for key, times in points.items()}
        for count in (FIRST_LOOK, MAX):
            found = [covered(halves, _stretched(count, times), count, "", together=True) for times in WIDER]
            cells = (path.parent.name, path.name.removesuffix(".jsonl.gz"), name, str(count))
            shares = (f"{each.all * 100:.0f} %, ±{each.half_width * 100:.1f} %" for each in found)
            yield f"| {' | '.join((*cells, *shares))} |"


def _stretched(count: int, times: float) -> Rule:
    """A run of so many launches whose interval is so many times as wide as printed, on a logarithmic scale."""

    def rule(launches: Sequence[float]) -> Estimate:
        found = of_observations(launches[:count])
        low, high = ((bound / found.median) ** times * found.median for bound in found.interval or ())
        return replace(found, low=low, high=high, kind="ci")

    return rule


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


# ----------------------------------------------------------------------------------------------------- fixed work


def recorded_with_work() -> list[Path]:
    """Recordings in which each visit timed the fixed piece of work."""
    return [path for path in sorted(ROOT.glob("results/*/launches*.jsonl.gz")) if b'"work_s":[' in _unpacked(path)]


def _unpacked(path: Path) -> bytes:
    return gzip.decompress(path.read_bytes()).replace(b'"work_s":[]', b"")


def work_lines(path: Path) -> Iterator[str]:
    """What a run of six launches would print if it used the fixed piece of work: not at all, or in one of two ways."""
    points: dict[Key, list[PointRecord]] = {}
    for log in parse_runs(_unpacked(path), BENCHMARKS, path.name):
        for point in log.of(PointRecord):
            points.setdefault((point.transport, point.size_bytes), []).append(point)
    for (transport, size), those in points.items():
        fastest = min(min(point.work_s) for point in those)
        cells = [
            path.parent.name,
            path.name.removesuffix(".jsonl.gz"),
            f"`{transport}`",
            format_size(size),
            str(len(those)),
        ]
        for times in (
            [median(point.times_s) for point in those],
            [median(point.times_s) / median(point.work_s) * fastest for point in those],
            [median(_of_fast_visits(point, fastest)) for point in those],
        ):
            found = covered({("", 0): times}, fixed(FIRST_LOOK), FIRST_LOOK, f"work {path.name} {size}", together=False)
            cells.append(f"±{found.half_width * 100:.1f} %, {found.all * 100:.0f} %")
        yield f"| {' | '.join(cells)} |"


def _of_fast_visits(point: PointRecord, fastest: float) -> list[float]:
    """The samples of visits whose work took at most ``SLOW`` times the fastest; of the best visit if there is none."""
    limit = max(SLOW * fastest, min(point.work_s))
    ends = list(accumulate(point.visits))
    visits = zip([0, *ends], ends, point.work_s, strict=False)
    return [sample for begin, end, work in visits if work <= limit for sample in point.times_s[begin:end]]


# ------------------------------------------------------------------------------------------------------------ page

_HEAD = """\
| launches of a run | launches (mean) | half width (median) | drawn at random: all | worst | below 90 % | consecutive: all | worst | below 90 % |
| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"""  # noqa: E501  a line of a table


def page(found: Sequence[Machine]) -> Iterator[str]:
    """Yield the lines of docs/method/coverage.md."""
    yield "<!-- Generated by `make coverage`; edit bench/coverage.py instead. -->"
    yield "# Coverage of the intervals, and error rates of verdicts"
    yield ""
    yield (
        "This page simulates runs from recorded launches in two ways. *Drawn at random*: launches are drawn with "
        "replacement, as if they were independent. *Consecutive*: launches that followed each other, each possible "
        "sequence once. The coverage is the share of runs whose interval contains the median over all recorded "
        'launches. "Worst" is the point (one transport at one size) with the lowest coverage. '
        f"{RUNS} runs are drawn for each point. Code of the estimators: "
        "[launches.py](../../src/volley/statistics/launches.py)."
    )
    yield ""
    yield (
        "**Two runs of the same program**: [how two runs are compared](two-runs.md) describes the test (levels: "
        f"{LEVEL * 100:g} %, {PAIRED_LEVEL * 100:g} % with pairs; smallest change {SMALLEST * 100:g} %). A sweep is "
        "all transports that send something, at every size; it is called different if any point is. A change of "
        f"{PLANTED * 100:g} % is planted in one transport of the second run, if the interval of some size is within "
        f"±{PLANTED * 50:g} % in both runs, or, with pairs, the interval of the ratio. The last column is the share of "
        "intervals of ratios that contain 1. Pairs are consecutive launches in a random order, as with `--live`."
    )
    yield ""
    yield (
        "**Real runs** are separate commands, one after the other, each with as many launches as its time allowed. The "
        "tables have the number of intervals that contain the median over the launches of all runs, and the number "
        "that contain the median over the neighbouring runs (two before and two after). If only the second number is "
        "high, the machine drifts from run to run; the launches of a few seconds cannot show this drift."
    )
    for machine in found:
        yield from _machine_part(machine)
    for path in sorted(ROOT.glob("results/*/runs*.jsonl.gz")):
        runs = real_runs(path)
        yield from ("", f"## {path.parent.name}, {path.name.partition('.')[0]}: {len(runs)} real runs", "")
        yield from REAL_HEAD
        yield from real_lines(runs)
        yield from ("", neighbours_line(runs))
    yield from ("", "## Coverage of wider intervals", "")
    yield (
        "Consecutive launches in each half of a recording. The table has the coverage of the median over that half and "
        "the median half width, for the printed interval and for wider intervals. If twice the width is not enough, "
        "the machine changes from minute to minute."
    )
    yield ""
    yield f"| machine | recording | half | launches | printed | {' | '.join(f'{times:g} ×' for times in WIDER[1:])} |"
    yield f"| --- | --- | --- | ---: |{' ---: |' * len(WIDER)}"
    for path in sorted([*ROOT.glob("results/*/launches*.jsonl.gz"), *ROOT.glob("results/*/runs*.jsonl.gz")]):
        yield from wider_lines(path)
    yield from ("", "## Groups of launches", "")
    yield (
        f"The share of {SIMULATED:,} simulated points at which launches of one group are called two groups. The "
        "heading names the distribution of the logarithms of the launches."
    )
    yield ""
    yield f"| launches | {' | '.join(SHAPES)} |"
    yield f"| ---: |{' ---: |' * len(SHAPES)}"
    yield from (groups_line(count) for count in (6, 8, 10, 12, 20, 40))
    yield from ("", "## Estimates with the fixed work", "")
    yield (
        "The median half width and the coverage of runs of six launches, drawn from recordings in which each visit "
        "timed the fixed work: with unchanged times; with the time of each launch divided by the time of its fixed "
        f"work; without the visits whose fixed work took more than {SLOW:g} times the fastest."
    )
    yield ""
    yield "| machine | recording | transport | size | launches | as it is | divided by the work | without slow visits |"
    yield "| --- | --- | --- | ---: | ---: | ---: | ---: | ---: |"
    for path in recorded_with_work():
        yield from work_lines(path)


def _machine_part(machine: Machine) -> Iterator[str]:
    yield from ("", f"## {machine.name}: {machine.launches} launches, {len(machine.medians)} points", "")
    yield from ("### Times", "", _HEAD, within_line(machine))
    for name, rule, most in rules():
        yield coverage_line(machine.medians, f"{machine.name} times", name, rule, most)
    yield from ("", "The coverage of each point in per cent, for launches drawn at random:", "")
    for name, rule, most in rules():
        if name in ("3", str(FIRST_LOOK)) or "3 %" in name:
            yield from (*point_table(machine, name, rule, most), "")
    if machine.ratios:
        yield from (
            "### Ratios within a launch",
            "",
            f"The time of `{BASELINE}` divided by the time of each other transport.",
        )
        yield from ("", _HEAD)
        for name, rule, most in rules():
            yield coverage_line(machine.ratios, f"{machine.name} ratios", name, rule, most)
        yield ""
    yield from (
        "### Two runs of the same program",
        "",
        "| launches | runs | sweeps called different | planted changes found | intervals with 1 |",
        "| --- | --- | ---: | ---: | ---: |",
    )
    for how in COMPARED:
        for together in (False, True):
            yield two_runs_line(machine, how, together=together)


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
