"""``volley jacobi`` from the command line to the records, on the CPU."""

import math
import os
from pathlib import Path

import pytest

from the_command import Command, Finished, check_plan
from volley.benchmarks.jacobi.records import JacobiPoint

WHOLE = (48, 40)
"""Columns and rows that every grid below divides."""


def words(grid: tuple[int, int], whole: tuple[int, int] = WHOLE) -> tuple[str, ...]:
    """The options for a global domain, whatever the grid."""
    domain = (whole[0] // grid[0], whole[1] // grid[1])
    return ("jacobi", "--grid", *map(str, grid), "--domain", *map(str, domain))


def the_point(done: Finished) -> JacobiPoint:
    (log,) = done.records
    (point,) = log.of(JacobiPoint)
    return point


# -------------------------------------------------------------------------------------- one field, many ways


@pytest.mark.slow
def test_every_grid_gives_the_same_field_bit_for_bit(volley: Command) -> None:
    """With every number of threads and both precisions: engine/tests/mpi_jacobi.cpp."""
    found = {}
    for grid, overlap, threads in (
        ((1, 1), "--overlap", "1"),
        ((2, 1), "--no-overlap", "2"),
        ((1, 2), "--overlap", "2"),
        ((2, 2), "--no-overlap", "1"),
    ):
        ways = ("--iterations", "200", overlap, "--threads", threads)
        done = volley(*words(grid), *ways)
        assert done.code == 0, done.err
        point = the_point(done)
        found[grid] = (point.field_hash, point.iterations, point.residuals)
        assert point.threads == int(threads)
    assert len(set(map(str, found.values()))) == 1, found
    assert the_point(volley(*words((1, 1)), "--iterations", "199")).field_hash not in str(found)


@pytest.mark.slow
def test_the_residuals_of_the_example(volley: Command) -> None:
    """Those of 4096 × 4096 points a process, as NVIDIA's example prints them on a grid of 2 × 1.

    They do not depend on the columns: in 1000 iterations nothing comes from one side to the other.
    """
    done = volley("jacobi", "--grid", "2", "1", "--domain", "64", "4096")
    residuals = {each.iteration: f"{each.residual:.6f}" for each in the_point(done).residuals}
    before, after = "0.250000 0.002397 0.001204 0.000804 0.000603 0.000483", "0.000345 0.000302 0.000269 0.000242"
    assert list(residuals) == [*range(0, 1000, 100), 999]
    assert " ".join(residuals.values()) == f"{before} 0.000402 {after}"


@pytest.mark.slow
def test_the_error_falls_with_the_square_of_the_step(volley: Command) -> None:
    """A run to 1e-13 differs from the exact solution by the error of the stencil alone, which is of second order."""
    deviations = []
    for points in (16, 24, 48):
        done = volley(*words((2, 1), (points, points)), "--tolerance", "1e-13", "--iterations", "100000")
        point = the_point(done)
        assert point.converged
        deviations.append((point.deviation or 0) * (points - 1) ** 2)
    assert deviations[0] > 0
    assert max(deviations) / min(deviations) < 1.1, deviations


def test_single_precision_comes_as_near_as_its_digits_allow(volley: Command) -> None:
    options = ("--precision", "float", "--tolerance", "1e-7", "--iterations", "100000")
    single = the_point(volley(*words((2, 1), (32, 32)), *options))
    assert single.converged
    assert 0 < (single.deviation or 0) < 1e-3


def test_batches_are_the_iterations(volley: Command) -> None:
    point = the_point(volley(*words((2, 1)), "--iterations", "100"))
    assert sum(point.batch_iterations) == point.iterations == 100
    assert point.batch_iterations[0] == 1
    assert len(point.batch_s) == len(point.batch_iterations) >= 20
    assert point.messages_timed == 2 * 100
    assert point.messages_verified == 2 * (1 + len(point.batch_s))
    assert len(point.parts) == 2
    inside = sum(
        part.interior_s + part.edges_s + part.pack_s + part.exchange_s + part.reduction_s for part in point.parts
    )
    assert 0 < inside <= 2 * sum(point.batch_s)


def test_halos_of_a_datatype_give_the_same_field_without_packing(volley: Command) -> None:
    done = volley(*words((2, 2)), "--transport", "host,host/vector", "--iterations", "100", "--precision", "float")
    (log,) = done.records
    packed, in_field = log.of(JacobiPoint)
    assert (packed.status, in_field.status) == ("ok", "ok")
    assert packed.field_hash == in_field.field_hash is not None
    assert in_field.messages_verified == 8 * (1 + len(in_field.batch_s))


# ------------------------------------------------------------------------------------------- wrong halos


def wrong(volley: Command, fault: str, grid: tuple[int, int], *options: str) -> tuple[Finished, list[JacobiPoint]]:
    """A run with a fault of messages that are packed, and of those that a datatype describes."""
    done = volley(*words(grid), "--transport", f"host+{fault},host/vector+{fault}", *options)
    (log,) = done.records
    points = log.of(JacobiPoint)
    assert (done.code, [each.status for each in points]) == (1, ["failed"] * 2)
    return done, points


def test_a_corrupt_halo_is_found(volley: Command) -> None:
    done, points = wrong(volley, "flip", (2, 1))
    for point in points:
        assert point.mismatch.wrong_bytes == 1
        # Halos are compared after each batch: those of the first batch, one iteration, arrive as they were sent.
        assert len(point.batch_iterations) == 2
        assert f", in iteration {sum(point.batch_iterations) - 1}" in (point.reason or "")
        assert f"FAILED: {point.transport}: the halo that rank" in done.out


@pytest.mark.parametrize("grid", [(1, 2), (2, 2)])
def test_a_halo_of_its_own_is_found_before_the_first_iteration(volley: Command, grid: tuple[int, int]) -> None:
    done, points = wrong(volley, "echo", grid, "--format", "csv")
    assert [each.iterations for each in points] == [0, 0]
    assert all("before the first iteration" in (each.reason or "") for each in points)
    assert done.err.count("before the first iteration") >= 2


def test_a_nan_ends_it_and_says_where_and_when(volley: Command) -> None:
    done, points = wrong(volley, "nan", (2, 1), "--no-verify", "--precision", "float", "--no-overlap")
    said = "the field is no longer finite in iteration 3: first at column 23, row 1, on rank 0"
    for point in points:
        assert (point.iterations, point.residuals[-1].residual, point.reason) == (4, None, said)
        assert f"FAILED: {point.transport}: {said}" in done.out


# ------------------------------------------------------------------------------------------- bad requests


def test_a_domain_beyond_memory_is_told_how_large_it_may_be(volley: Command) -> None:
    """Before the start beyond what the host has; beyond what is free, after it."""
    one = ("jacobi", "--transport", "host", "--grid", "1", "1", "--domain")
    done = volley(*one, "2000000", "2000000")
    assert (done.code, done.out) == (3, "")
    assert "process would need 58.2 TiB of memory, and this host has " in done.err
    assert "takes about" not in done.err
    side = str(math.isqrt(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 16) - 1)
    done = volley(*one, side, side)
    assert done.code == 3
    assert "is free: at most about" in done.out


def test_the_engine_refuses_the_same(engine: Path) -> None:
    plan = {
        "plan": 2,
        "benchmark": "jacobi",
        "world_size": 6,
        "transports": ["null"],
        "options": {"grid": [2, 2], "domain": [2, 8], "precision": "half", "tolerance": 0, "threads": 0, "more": 1},
    }
    done = check_plan(engine, plan)
    assert done.code == 2
    for place in ("grid: a grid", "domain", "precision", "tolerance", "threads", "more"):
        assert f"plan: $.options.{place}" in done.err
    assert "these do: 1 x 6, 2 x 3, 3 x 2, 6 x 1" in done.err
    assert "`null` cannot exchange halos; these can: host" in done.err


# ------------------------------------------------------------------------------------------- placement


def test_the_grid_follows_the_ranks_of_a_foreign_launcher(volley: Command) -> None:
    done = volley("jacobi", "--domain", "8", "8", "--iterations", "5", before=volley.mpirun(2))
    assert done.code == 0, done.err
    assert the_point(done).grid == [2, 1]
