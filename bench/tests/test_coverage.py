"""The committed page of ``make coverage``: lines of it are computed again, and what they say is enough."""

import gzip
import importlib.util
import random
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from example_records import EXAMPLES, pingpong
from volley.statistics.launches import of_observations


def tool() -> ModuleType:
    """bench/coverage.py, under a name that no installed package has."""
    spec = importlib.util.spec_from_file_location("bench_coverage", Path(__file__).parents[1] / "coverage.py")
    assert spec.loader
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


coverage = tool()
PAGE = coverage.PAGE.read_text("utf-8")
MACHINES = {machine.name: machine for machine in coverage.machines()}
H200 = MACHINES["h200-x2"]


def lines(title: str, machine: str = "h200-x2") -> list[list[str]]:
    """The cells of a table of coverage, below the titles of its machine and of its part."""
    part = PAGE[PAGE.index(f"## {machine}") :]
    part = part[part.index(f"### {title}") :]
    table = part[part.index("| launches") :].split("\n\n")[0]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[2:]]


def test_there_are_launches_enough_to_draw_from() -> None:
    assert H200.launches == 44
    assert len(H200.medians) == 90
    assert len(H200.ratios) == 81


def test_lines_of_the_page_are_what_the_records_give() -> None:
    three = coverage.coverage_line(H200.medians, "h200-x2 times", "3", coverage.fixed(3), 3)
    assert three in PAGE
    assert coverage.within_line(H200) in PAGE
    assert coverage.groups_line(8) in PAGE
    assert all(line in PAGE for path in coverage.recorded_with_work() for line in coverage.work_lines(path))
    for path in coverage.ROOT.glob("results/*/runs*.jsonl.gz"):
        assert "\n".join(coverage.real_lines(coverage.real_runs(path))) in PAGE
        assert all(line in PAGE for line in coverage.wider_lines(path))


@pytest.mark.parametrize("how", [coverage.COMPARED[0], coverage.COMPARED[-1]], ids=str)
def test_a_line_about_two_runs_is_what_the_records_give(how: Any) -> None:
    assert coverage.two_runs_line(H200, how, together=True) in PAGE


@pytest.mark.parametrize("title", ["Times", "Ratios within a launch"])
def test_the_printed_interval_covers_what_it_says(title: str) -> None:
    several = [cells for cells in lines(title) if not cells[0].startswith("1,")]
    assert len(several) == len(list(coverage.rules()))
    for cells in several:
        assert 93 <= float(cells[3].removesuffix(" %")) <= 99, cells
        assert float(cells[4].removesuffix(" %")) >= 90, cells
        assert cells[5].startswith("0 of"), cells


def test_sweeps_are_seldom_called_different_and_planted_changes_are_found() -> None:
    rows = lines("Two runs of the same program")
    assert len(rows) == 2 * len(coverage.COMPARED)
    for cells in rows:
        alarms, sweeps = (int(number) for number in re.findall(r"\d+", cells[2]))
        found, planted = (int(number) for number in re.findall(r"\d+", cells[3]))
        assert sweeps >= 100
        assert alarms <= 0.05 * sweeps, cells
        assert found >= 0.95 * planted, cells


# ------------------------------------------------------------------------------------------------ the tool itself


def test_real_runs_begin_where_the_time_that_is_left_falls_no_more(tmp_path: Path) -> None:
    launch = (EXAMPLES / "pingpong-host.jsonl").read_text("utf-8")
    assert '"budget_s":null' in launch
    budgets = ("8.0", "4.5", "8.0", "8.0", "4.0", "0.5")
    path = tmp_path / "runs.jsonl.gz"
    launches = [launch.replace('"budget_s":null', f'"budget_s":{budget}') for budget in budgets]
    path.write_bytes(gzip.compress("".join(launches).encode()))
    runs = coverage.real_runs(path)
    assert [{len(times) for times in run.values()} for run in runs] == [{2}, {1}, {3}]


def test_a_run_stops_at_the_first_look_that_is_narrow_enough() -> None:
    steady = [1.0, 1.001, 0.999, 1.0, 1.001, 0.999, *[5.0] * 6]
    assert coverage.until(0.01)(steady) == of_observations(steady[:6])
    restless = [1.0, 2.0] * 6
    assert coverage.until(0.01)(restless).count == 12


def test_an_interval_that_misses_is_counted() -> None:
    times = {("host", 8): [1.0] * 30 + [2.0] * 14}
    found = coverage.covered(times, lambda run: of_observations([3.0] * len(run)), 6, "", together=True)
    assert (found.all, found.below) == (0.0, 1)
    assert coverage.covered(times, coverage.fixed(6), 6, "", together=True).shares["host", 8] == pytest.approx(30 / 39)


def test_samples_of_slow_visits_are_left_out() -> None:
    point = pingpong([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], visits=[2, 1, 3], work_s=[6.0e-6, 9.0e-6, 6.2e-6])
    assert coverage._of_fast_visits(point, 6.0e-6) == [1.0, 2.0, 4.0, 5.0, 6.0]
    assert coverage._of_fast_visits(point, 1.0e-6) == [1.0, 2.0]


@pytest.mark.parametrize("together", [False, True])
@pytest.mark.parametrize("how", coverage.COMPARED, ids=str)
def test_two_runs_have_no_launch_in_common(how: Any, together: bool) -> None:
    medians = {("host", 8): [float(number) for number in range(44)]}
    draw = random.Random(1)
    for _ in range(100):
        one, other = (run["host", 8] for run in coverage._two(draw, medians, 44, how, together=together))
        assert len({*one, *other}) == how.first + how.second
        if together and how.paired:
            assert all(abs(first - second) == 1 for first, second in zip(one, other, strict=True))
        elif together:
            assert list(one) == [one[0] + step for step in range(how.first)]
