"""What is made of the records of ``volley jacobi``: derived by hand from a point that was written by hand."""

from __future__ import annotations

import io

import msgspec
import pytest

from example_records import golden, plan, run
from volley.benchmarks import BENCHMARKS
from volley.benchmarks.jacobi import page as nvidia
from volley.benchmarks.jacobi.records import JacobiParts, JacobiPlan, JacobiPoint, JacobiResidual, grids, squarest
from volley.benchmarks.jacobi.results import solutions
from volley.errors import UserError
from volley.run.records import End
from volley.run.render import render
from volley.run.run_log import RunLog

PROBLEM = JacobiPlan(grid=[2, 2], domain=[4096, 4096])


def point(**changes: object) -> JacobiPoint:
    parts = JacobiParts(interior_s=2.0, edges_s=0.2, pack_s=0.1, exchange_s=0.1, reduction_s=0.1)
    facts = JacobiPoint(
        transport="host",
        grid=[2, 2],
        domain=[4096, 4096],
        precision="double",
        overlap=True,
        status="ok",
        threads=1,
        iterations=101,
        residuals=[
            JacobiResidual(iteration=0, residual=0.25),
            JacobiResidual(iteration=100, residual=0.0023972),
        ],
        batch_iterations=[1, *[10] * 10],
        batch_s=[0.5, *[0.25] * 10],
        cold_exchange_s=1e-4,
        parts=[parts] * 4,
        copy_s=[0.1, 0.2, 0.1],
        copy_bytes=2 * 8 * 8192 * 8192,
        field_hash="0123456789abcdef",
        deviation=0.5,
        messages_timed=808,
        messages_verified=96,
    )
    return msgspec.structs.replace(facts, **changes)


def log(*points: JacobiPoint) -> RunLog:
    the_run = run(plan("jacobi", world_size=4, options=PROBLEM))
    return RunLog(run=the_run, records=list(points), end=End(status="complete", elapsed_s=1.0))


def rendered(logs: list[RunLog], form: str) -> tuple[str, str]:
    out, err = io.StringIO(), io.StringIO()
    render(logs, BENCHMARKS, form, out, err=err)
    return out.getvalue(), err.getvalue()


def test_rates_follow_from_the_formulas() -> None:
    (solution,) = solutions([log(point())])
    updates = 8190 * 8190
    assert solution.updates == updates
    assert solution.time is not None
    assert solution.time.median == pytest.approx(0.025)  # the first batch is not in it
    assert solution.updates_per_s == pytest.approx(updates / 0.025)
    assert solution.algorithmic_bytes == 64
    assert solution.compulsory_Bps == pytest.approx(16 * updates / 0.025)
    assert solution.copy_Bps == pytest.approx(16 * 8192 * 8192 / 0.1)
    assert solution.of_copy == pytest.approx(4 * 8190**2 / 8192**2)
    assert solution.run_s == pytest.approx(3.0)
    assert solution.communication_s == pytest.approx(0.2)
    assert solution.shares["interior"] == pytest.approx(0.8)


def test_single_precision_moves_half() -> None:
    (solution,) = solutions([log(point(precision="float"))])
    assert (solution.compulsory_bytes, solution.algorithmic_bytes) == (8, 32)


def test_one_failure_fails_all_launches() -> None:
    (solution,) = solutions([log(point()), log(point(status="failed", reason="a halo is wrong"))])
    assert (solution.point.status, solution.point.reason, solution.time) == ("failed", "a halo is wrong", None)


def test_the_lines_of_nvidias_example() -> None:
    out, err = rendered([log(point())], "nvidia-jacobi")
    each = 8190 * 8190 * 101 / 3.0 / 1e9 / 4
    assert out.splitlines() == [
        "Topology size: 2 x 2",
        "Local domain size (current node): 4096 x 4096",
        "Global domain size (all nodes): 8192 x 8192",
        'Starting Jacobi run with 4 processes using "Example CPU" CPUs (1 thread each):',
        "Iteration: 0 - Residue: 0.250000",
        "Iteration: 100 - Residue: 0.002397",
        "Stopped after 101 iterations with residue 0.002397",
        "Total Jacobi run time: 3.0000 sec.",
        "Average per-process communication time: 0.2000 sec.",
        f"Measured lattice updates: {4 * each:.2f} GLU/s (total), {1e3 * each:.2f} MLU/s (per process)",
        f"Measured FLOPS: {20 * each:.2f} GFLOPS (total), {5 * each:.2f} GFLOPS (per process)",
        f"Measured device bandwidth: {256 * each:.2f} GB/s (total), {64 * each:.2f} GB/s (per process)",
    ]
    assert err == (
        "volley: block 1: host; device bandwidth: 64 B per update, as the example counts; 16 B must move: "
        f"{64 * each:.2f} GB/s\n"
    )


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (5.0, "5.00  B/s"),
        (1000.0, "1000.00  B/s"),
        (1001.0, "1.00 kB/s"),
        (1.51e12, "1.51 TB/s"),
        (2e15, "2000.00 TB/s"),
    ],
)
def test_numbers_have_the_examples_prefixes(value: float, written: str) -> None:
    assert nvidia._number(value, "B/s") == written


def test_blocks_are_named_in_their_order() -> None:
    out, err = rendered([log(point(transport="host"), point(transport="null"))], "nvidia-jacobi")
    assert out.count("Total Jacobi run time") == 2
    assert [line.split(";")[0] for line in err.splitlines()] == ["volley: block 1: host", "volley: block 2: null"]


def test_a_last_residual_between_two_lines_is_not_a_line() -> None:
    residuals = [*point().residuals, JacobiResidual(iteration=130, residual=0.001)]
    out, _ = rendered(
        [log(point(residuals=residuals, iterations=131, batch_iterations=[131], batch_s=[1.0]))], "nvidia-jacobi"
    )
    assert "Iteration: 130" not in out
    assert "Stopped after 131 iterations with residue 0.001000" in out


def test_the_table() -> None:
    out, _ = rendered([log(point())], "table")
    assert "2 × 2 processes of 4096 × 4096 points, 8192 × 8192 in all, double, 1 thread each, overlap on" in out
    row, parts = [line for line in out.splitlines() if line.startswith("host  ")]
    assert row.split() == ["host", "0.002397", "25.00", "<0.1", "2.683", "42.93", "399.8", "✓"]
    assert "spread: 95 % confidence interval (CI) of the median within one launch; updates: " in out
    assert "than the spread within this one: volley jacobi --launches 6 shows by how much\n" in out
    assert "±" not in out
    assert "the tolerance was not reached after 101 iterations" in out
    assert parts.split()[:7] == ["host", "80.0", "8.00", "4.00", "4.00", "4.00", "3.000"]
    assert "of the ranks' time" in out


@pytest.mark.parametrize("form", ["table", "csv", "json", "nvidia-jacobi"])
def test_what_failed_is_said(form: str) -> None:
    bad = point(status="failed", reason="a halo\x1b[31m is wrong", batch_s=[], batch_iterations=[])
    out, err = rendered([log(bad)], form)
    assert "FAILED: host: a halo\\x1b[31m is wrong" in out + err


def test_formats_belong_to_their_benchmarks() -> None:
    with pytest.raises(UserError, match="nvidia-jacobi is the lines of NVIDIA's Jacobi example, and cannot show v"):
        rendered(golden("pingpong-host"), "nvidia-jacobi")


def test_the_golden_solution_is_shown_in_every_format() -> None:
    for form in ("table", "csv", "json", "nvidia-jacobi"):
        out, _ = rendered(golden("jacobi"), form)
        assert out


@pytest.mark.parametrize(
    ("ranks", "grid"),
    [
        *[(1, (1, 1)), (2, (2, 1)), (4, (2, 2)), (6, (3, 2)), (7, (7, 1)), (12, (4, 3))],
        (2147483647, (2147483647, 1)),  # a prime: divisors are looked for up to the root only
    ],
)
def test_grids_are_as_square_as_can_be(ranks: int, grid: tuple[int, int]) -> None:
    assert squarest(ranks) == grid
    assert all(across * along == ranks for across, along in grids(ranks))


def test_every_grid_is_found_once_in_the_order_of_its_width() -> None:
    assert grids(12) == [(1, 12), (2, 6), (3, 4), (4, 3), (6, 2), (12, 1)]
    assert grids(9) == [(1, 9), (3, 3), (9, 1)]
