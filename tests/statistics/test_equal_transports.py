"""Transports that are equal are not called slower: a report makes hundreds of comparisons, and noise is not normal."""

import itertools
import math
import random
from collections.abc import Callable

import pytest

from example_records import log, pingpong, transport
from volley.benchmarks.points.findings import findings
from volley.benchmarks.points.notes import details
from volley.benchmarks.points.results import results
from volley.records.run_log import RunLog

NAMES = [f"t{number}" for number in range(8)]
SIZES = [8 << 3 * step for step in range(10)]
SAMPLES = 8
"""Of a visit."""
Logarithm = Callable[[int, str, int], float]
"""Of the time of a transport at a size in a launch, over its median."""


def normal(draw: random.Random) -> Logarithm:
    scale = {name: 0.02 * math.exp(draw.gauss(0, 1)) for name in NAMES}  # some transports are noisier
    return lambda _launch, name, _size: draw.gauss(0, scale[name])


def heavy_tailed(draw: random.Random) -> Logarithm:
    """Student's t with two degrees of freedom, whose variance is infinite."""
    return lambda *_: 0.02 * draw.gauss(0, 1) / math.sqrt(draw.expovariate(1))


def two_values(draw: random.Random) -> Logarithm:
    """A state of a quarter of the launches, of each transport at each size by itself."""
    return lambda *_: draw.gauss(0, 0.002) + (0.4 if draw.random() < 0.25 else 0.0)


def two_values_of_a_transport(draw: random.Random) -> Logarithm:
    """A state of half of the launches, of each transport at all sizes, such as where its buffers lie."""
    slow = {(launch, name): draw.random() < 0.5 for launch in range(10) for name in NAMES}
    return lambda launch, name, _size: draw.gauss(0, 0.002) + 0.3 * slow[launch, name]


def drifting(draw: random.Random) -> Logarithm:
    """Launches that follow each other are alike: a rank correlation of about 0.5, as on CPUs."""
    state: dict[tuple[str, int], float] = {}

    def after(_launch: int, name: str, size: int) -> float:
        before = state.get((name, size), draw.gauss(0, 0.03))
        state[name, size] = 0.5 * before + draw.gauss(0, 0.026)
        return state[name, size]

    return after


def sweep(
    draw: random.Random, noise: Callable[[random.Random], Logarithm], launches: int, visits: int = 0
) -> list[RunLog]:
    """Launches, or one whose ``visits`` take their place: the samples of each are alike."""
    of, logs = noise(draw), []
    for launch in range(launches):
        points = []
        for name in NAMES:
            for size in SIZES:
                times_s = [(1e-6 + size / 1e10) * math.exp(of(turn, name, size)) for turn in range(visits)]
                samples = [time_s * (1 + sample / 1e4) for time_s in times_s for sample in range(SAMPLES)]
                alone = [(1e-6 + size / 1e10) * math.exp(of(launch, name, size))]
                points.append(pingpong(samples or alone, size, name, visits=[SAMPLES] * visits))
        logs.append(log(*points, transports=[transport(name) for name in NAMES]))
    return logs


def claims(logs: list[RunLog]) -> list[str]:
    (result,) = results(logs)
    notes = [*details(result, ""), *findings(result, "")]
    undecided = f": undecided between {len(NAMES)} transports at every size"
    words = ("fastest", "is faster", "times as long")
    return [each.text for each in notes if undecided not in each.text and any(word in each.text for word in words)]


NOISES = (normal, heavy_tailed, two_values, two_values_of_a_transport, drifting)


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("sweeps", [20, pytest.param(200, marks=pytest.mark.long)])
@pytest.mark.parametrize("one_launch", [False, True])
def test_of_equal_transports_hardly_a_sweep_calls_one_slower(
    one_launch: bool, sweeps: int, noise: Callable[[random.Random], Logarithm]
) -> None:
    draw = random.Random(f"{noise.__name__} {sweeps}")
    shapes = [(1, number) if one_launch else (number, 0) for number in (draw.randint(3, 10) for _ in range(sweeps))]
    wrong = [found for shape in shapes if (found := claims(sweep(draw, noise, *shape)))]
    assert len(wrong) <= max(1, 0.05 * sweeps), wrong


def test_transports_that_differ_are_told_apart_whatever_the_noise() -> None:
    draw = random.Random(1)
    for noise, launches, one_launch in itertools.product(NOISES, (4, 6, 10), (False, True)):
        logs = sweep(draw, noise, 1, launches) if one_launch else sweep(draw, noise, launches)
        for record in (record for each in logs for record in each.records if record.transport == "t3"):
            record.times_s[:] = [time_s / 5 for time_s in record.times_s]
        found = [text for text in claims(logs) if text.startswith("fastest")]
        assert any("t3 " in text and (one_launch or "undecided" not in text) for text in found), (
            noise.__name__,
            launches,
            one_launch,
            found,
        )
