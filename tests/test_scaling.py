"""How solutions on several grids are held against one process: derived by hand."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest

from example_records import plan, run
from test_report_jacobi import PROBLEM, point
from volley.planning import Request, scaled
from volley.records import End, Jacobi, JacobiParts
from volley.records_io import RunLog
from volley.report import render, scaling
from volley.report.jacobi import slower_parts
from volley.solution import solutions
from volley.solving import steps


def solved(topology: tuple[int, int], domain: tuple[int, int], second: float, **changes: object) -> RunLog:
    """A log of one solution whose iterations take so long."""
    problem = Jacobi(topology=list(topology), domain=list(domain))
    ranks = topology[0] * topology[1]
    the_run = run(plan(benchmark="jacobi", sizes_bytes=[], world_size=ranks, jacobi=problem))
    batches = {"batch_iterations": [1, *[10] * 10], "batch_s": [1.0, *[10 * second] * 10]}
    one = point(topology=list(topology), domain=list(domain), **batches, **changes)
    return RunLog(run=the_run, jacobi=[one], end=End(status="complete", elapsed_s=1.0))


@pytest.mark.parametrize(
    ("last", "chain"),
    [
        ((1, 1), [(1, 1)]),
        ((4, 2), [(1, 1), (1, 2), (2, 2), (4, 2)]),
        ((2, 2), [(1, 1), (1, 2), (2, 2)]),
        ((1, 6), [(1, 1), (1, 3), (1, 6)]),
        ((2147483647, 1), [(1, 1), (2147483647, 1)]),  # a prime
    ],
)
def test_grids_up_to_the_last_divide_it(last: tuple[int, int], chain: list[tuple[int, int]]) -> None:
    assert steps(last) == chain
    assert all(last[0] % across == last[1] % along == 0 for across, along in chain)


def test_strong_keeps_the_whole_and_weak_the_part() -> None:
    request = Request(benchmark="jacobi", topology=(4, 1), scaling="strong", jacobi=PROBLEM)
    strong = scaled(request, 4)
    assert [(each.topology, each.ranks) for each in strong] == [((1, 1), 1), ((2, 1), 2), ((4, 1), 4)]
    assert [each.jacobi.domain for each in strong if each.jacobi] == [[16384, 4096], [8192, 4096], [4096, 4096]]
    assert all(each.scaling is None for each in strong)
    weak = scaled(replace(request, scaling="weak"), 4)
    assert [each.jacobi.domain for each in weak if each.jacobi] == [[4096, 4096]] * 3


def test_efficiency_is_held_against_one_process() -> None:
    logs = [solved((2, 1), (50, 100), 0.006), solved((1, 1), (100, 100), 0.010), solved((2, 2), (50, 50), 0.004)]
    found = [solution for log in logs for solution in solutions([log])]
    (chain,) = scaling.steps(found)
    assert [step.solution.ranks for step in chain] == [1, 2, 4]
    assert [step.efficiency for step in chain] == pytest.approx([1, 10 / 12, 10 / 16])
    heading, *lines = scaling.lines(chain)
    assert heading.startswith("strong scaling, host, 100 × 100 points in all, double")
    assert "2 × 1: 6.000 ms an iteration" in lines[1]
    assert lines[1].endswith("efficiency 83.3 %, +1000.0 µs beside the ideal")


def test_weak_scaling_has_the_same_part() -> None:
    logs = [solved((1, 1), (100, 100), 0.010), solved((2, 1), (100, 100), 0.0125)]
    (chain,) = scaling.steps(solution for log in logs for solution in solutions([log]))
    assert [step.kind for step in chain] == ["weak", "weak"]
    assert chain[1].efficiency == pytest.approx(0.8)


def test_other_problems_are_not_compared() -> None:
    logs = [solved((1, 1), (100, 100), 0.01), solved((2, 1), (50, 100), 0.01, precision="float")]
    assert scaling.steps(solution for log in logs for solution in solutions([log])) == []


def test_the_table_ends_with_it() -> None:
    out = io.StringIO()
    render([solved((1, 1), (100, 100), 0.010), solved((2, 1), (50, 100), 0.006)], "table", out, color=False)
    assert "efficiency 83.3 %" in out.getvalue().splitlines()[-1]


def on_devices(exchange_s: float, pack_s: float, second: float, name: str) -> RunLog:
    parts = JacobiParts(interior_s=1.0, edges_s=0.1, pack_s=pack_s, exchange_s=exchange_s, reduction_s=0.01)
    return solved(
        (2, 2), (100, 100), second, transport=name, memory="device", threads=0, stores=None, parts=[parts] * 4
    )


@pytest.mark.parametrize(
    ("aware_s", "said"),
    [
        (0.012, "aware takes 1.20 times as long as staged/pinned: exchange takes 1980 µs an iteration more"),
        (0.010, "aware's halos take 2.00 times as long as staged/pinned's: exchange takes 1980 µs an iteration more; "),
    ],
)
def test_the_slower_part_is_named(aware_s: float, said: str) -> None:
    staged = on_devices(0.1, 0.1, 0.010, "staged/pinned")
    aware = on_devices(0.3, 0.1, aware_s, "aware")
    found = [*solutions([staged]), *solutions([aware])]
    (sentence,) = slower_parts(found)
    assert sentence.startswith(said)


def test_nothing_is_named_where_aware_is_the_faster_one() -> None:
    found = [
        *solutions([on_devices(0.3, 0.1, 0.01, "staged/pinned")]),
        *solutions([on_devices(0.1, 0, 0.009, "aware")]),
    ]
    assert list(slower_parts(found)) == []


def test_a_solution_on_gpus_says_so() -> None:
    out = io.StringIO()
    log = on_devices(0.3, 0.1, 0.01, "aware")
    render([log], "table", out, color=False)
    text = out.getvalue()
    assert "one GPU each, overlap on" in text
    assert "aware: in an iteration interior 9901 µs" in text
    seed = io.StringIO()
    render([log], "seed", seed)
    assert 'Starting Jacobi run with 4 processes using "unknown" GPUs (ECC enabled: unknown):' in seed.getvalue()
