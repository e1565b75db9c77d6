"""What is made of the records of ``volley jacobi``: derived by hand from a point that was written by hand."""

import msgspec
import pytest

from example_records import plan, run
from jacobi_records import log, point
from screens import check_formats, shown
from volley.benchmarks import read
from volley.benchmarks.jacobi import page as nvidia
from volley.benchmarks.jacobi.page import slower_parts
from volley.benchmarks.jacobi.records import JacobiParts, JacobiPlan, JacobiResidual, grids, grids_up_to, jobs, squarest
from volley.benchmarks.jacobi.results import Solution, results, scaling_chains, solutions
from volley.errors import UserError
from volley.launch.engine import About, TransportAbout
from volley.launch.inside_launcher import RankInfo
from volley.records.plan import Plan
from volley.records.record_types import End, EngineFacts, MpiFacts
from volley.records.run_log import RunLog
from volley.report.model import Details
from volley.run.jobs import JobContext


def test_rates_follow_from_the_formulas() -> None:
    (solution,) = solutions([log(point())])
    updates = 8190 * 8190
    assert solution.updates == updates
    assert solution.time.median == pytest.approx(0.025)  # the first batch is not in it
    assert solution.updates_per_s == pytest.approx(updates / 0.025)
    assert solution.algorithmic_bytes == 64
    assert solution.compulsory_Bps == pytest.approx(16 * updates / 0.025)
    assert solution.copy_Bps == pytest.approx(16 * 8192 * 8192 / 0.1)
    assert solution.of_copy == pytest.approx(4 * 8190**2 / 8192**2)
    assert solution.run_s == pytest.approx(3.0)
    assert solution.communication_s == pytest.approx(0.2)
    assert solution.shares["interior"] == pytest.approx(0.8)


def test_what_varies_over_launches_by_more_than_was_asked_for_is_noisy() -> None:
    def said(*factors: float) -> list[str]:
        steps = [[0.5, *[0.25 * factor] * 10] for factor in factors]
        logs = [log(point(batch_s=each), point(transport="host/put")) for each in steps]
        (result,) = results(logs)
        return [f"{note.text}: {note.command}" for note in nvidia.report(result).notes if note.verdict == "NOISY"]

    assert said(*[1.0] * 8) == said(0.9, 1.1) == []
    text = "host varies by more than ±1 %, up to ±10.0 %: volley jacobi --launches 16"
    assert said(*[0.9, 1.1] * 4) == [text]
    assert said(*[0.98996, 1.01004] * 4) == [text.replace("10.0", "1.01")]  # not more than ±1 % and ±1.0 %


def test_a_column_of_times_has_the_unit_of_its_shortest() -> None:
    (result,) = results([log(point(batch_s=[2e-6, *[3e-6] * 10]), point(transport="host/put"))])
    units = {column.title: column.unit for table in nvidia.report(result).tables for column in table.columns}
    assert [units[name] for name in ("iteration", "run", "first")] == ["ns", "µs", "µs"]


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


# -------------------------------------------------------------------------------------------------------- scaling


HOST = TransportAbout(name="host", summary="MPI", mpi=True, memory="host", halos=True)


def solved(grid: tuple[int, int], domain: tuple[int, int], second: float, **changes: object) -> RunLog:
    """A log of one solution whose iterations take so long."""
    problem = JacobiPlan(grid=list(grid), domain=list(domain))
    ranks = grid[0] * grid[1]
    the_run = run(plan("jacobi", world_size=ranks, options=problem))
    batches = {"batch_iterations": [1, *[10] * 10], "batch_s": [1.0, *[10 * second] * 10]}
    one = point(grid=list(grid), domain=list(domain), **batches, **changes)
    return RunLog(run=the_run, records=[one], end=End(status="complete", elapsed_s=1.0))


def solutions_of(logs: list[RunLog]) -> list[Solution]:
    return [solution for log in logs for solution in solutions([log])]


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
    assert grids_up_to(last) == chain
    assert all(last[0] % across == last[1] % along == 0 for across, along in chain)


def planned(*words: str, position: RankInfo | None = None) -> list[Plan]:
    _, options = read(["jacobi", *words])
    return [job.plan for job in jobs(options, JobContext(About(transports=(HOST,)), position)).planned]


def test_strong_keeps_the_whole_and_weak_the_part() -> None:
    strong = planned("--grid", "4", "1", "--scaling", "strong")
    assert [(each.options.grid, each.world_size) for each in strong] == [([1, 1], 1), ([2, 1], 2), ([4, 1], 4)]
    assert [each.options.domain for each in strong] == [[16384, 4096], [8192, 4096], [4096, 4096]]
    weak = planned("--grid", "4", "1", "--scaling", "weak", "--launches", "2")
    assert [each.options.domain for each in weak] == [[4096, 4096]] * 3
    assert [each.world_size for each in weak] == [1, 2, 4]


def test_scaling_that_no_plan_or_launcher_can_hold_is_refused() -> None:
    with pytest.raises(UserError, match="choose a smaller --domain"):
        planned("--grid", "4", "1", "--domain", "1000000000", "8", "--scaling", "strong")
    with pytest.raises(UserError, match="a launcher started this job with 2 ranks"):
        planned("--grid", "2", "1", "--scaling", "weak", position=RankInfo(0, 2, "openmpi"))


def test_efficiency_is_relative_to_one_process() -> None:
    logs = [solved((2, 1), (50, 100), 0.006), solved((1, 1), (100, 100), 0.010), solved((2, 2), (50, 50), 0.004)]
    (chain,) = scaling_chains(solutions_of(logs))
    assert [step.solution.ranks for step in chain] == [1, 2, 4]
    assert [step.efficiency for step in chain] == pytest.approx([1, 10 / 12, 10 / 16])
    assert [step.beyond_s for step in chain] == pytest.approx([0, 0.001, 0.0015])


def other_threads() -> list[RunLog]:
    return [
        solved((1, 1), (100, 100), 0.010, threads=4),
        solved((2, 1), (100, 100), 0.0125, threads=2),
        solved((4, 1), (100, 100), 0.0125, threads=4),
    ]


def test_machines_and_software_are_not_mixed() -> None:
    def of(log: RunLog, **changes: object) -> RunLog:
        log.run = msgspec.structs.replace(log.run, **changes)
        return log

    one, two, rank = solved((1, 1), (100, 100), 0.010), solved((2, 1), (50, 100), 0.006), run().ranks[0]
    for changes in (
        {"ranks": [msgspec.structs.replace(rank, cpu="another")]},
        {"mpi": MpiFacts(library="another", standard="4.0")},
        {"engine": EngineFacts(version="another", mpi_built=None)},
        {"environment": {"UCX_TLS": "tcp"}},
    ):
        assert scaling_chains(solutions_of([one, of(solved((2, 1), (50, 100), 0.006), **changes)])) == []
    logs = [
        of(solved(grid, domain, 0.01), started_at=start, engine=EngineFacts(version=start, mpi_built=None))
        for start in ("2026-01-02", "2026-01-03")
        for grid, domain in (((1, 1), (100, 100)), ((2, 1), (50, 100)))
    ]
    assert "strong scaling, host, 100 × 100 points in all, double, 2026-01-03\n" in shown(logs)[0]
    more = [*run().ranks, msgspec.structs.replace(rank, host="another", node=1)]
    assert len(scaling_chains(solutions_of([one, of(two, ranks=more, environment={"OMPI_MCA_num_procs": "2"})]))) == 1


def test_other_problems_are_not_compared() -> None:
    logs = [solved((1, 1), (100, 100), 0.01), solved((2, 1), (50, 100), 0.01, precision="float")]
    assert scaling_chains(solutions_of(logs)) == []


def on_devices(exchange_s: float, pack_s: float, second: float, name: str) -> RunLog:
    parts = JacobiParts(interior_s=1.0, edges_s=0.1, pack_s=pack_s, exchange_s=exchange_s, reduction_s=0.01)
    return solved((2, 2), (100, 100), second, transport=name, memory="device", threads=0, parts=[parts] * 4)


def not_verified(log: RunLog) -> RunLog:
    log.run = msgspec.structs.replace(log.run, plan=msgspec.structs.replace(log.run.plan, verify=False))
    return log


def launch_of_both(staged: tuple[float, float, float], aware: tuple[float, float, float]) -> RunLog:
    """One launch of both transports; exchange, packing and an iteration take so many seconds."""
    one, other = on_devices(*staged, "staged/pinned"), on_devices(*aware, "aware")
    one.records += other.records
    return one


@pytest.mark.parametrize(
    ("aware_s", "said", "more"),
    [
        (
            0.012,
            "aware takes 1.20 times as long as staged/pinned (95 % CI 1.20 to 1.20)",
            ": packing and exchanging halos takes 1980 µs longer in each iteration",
        ),
        (
            0.010,
            "aware's halos take 2.00 times as long as staged/pinned's (95 % CI 2.00 to 2.00)",
            "; the iteration is not measurably slower",
        ),
    ],
)
def test_the_slower_part_is_named(aware_s: float, said: str, more: str) -> None:
    logs = [launch_of_both((0.1, 0.1, 0.010), (0.3, 0.1, aware_s)) for _ in range(6)]
    (sentence,) = slower_parts(solutions(logs))
    assert sentence == said + more


def test_nothing_is_named_if_aware_is_the_faster_one() -> None:
    logs = [launch_of_both((0.3, 0.1, 0.01), (0.1, 0, 0.009)) for _ in range(6)]
    assert list(slower_parts(solutions(logs))) == []


def test_no_part_is_named_where_launches_do_not_agree_or_are_too_few() -> None:
    uneven = [
        launch_of_both((0.1, 0.1, 0.010), (0.1 * part, 0.1, 0.010 * part)) for part in (1.5, 0.6, 1.5, 0.7, 1.5, 1.5)
    ]
    assert list(slower_parts(solutions(uneven))) == []
    assert list(slower_parts(solutions([launch_of_both((0.1, 0.1, 0.010), (0.3, 0.1, 0.010))]))) == []


BAD = point(status="failed", reason="a halo\x1b[31m is wrong", batch_s=[], batch_iterations=[])
BETWEEN = [*point().residuals, JacobiResidual(iteration=130, residual=0.001)]
NVIDIA = ("nvidia-jacobi",)
SCREENS: dict[str, tuple[list[RunLog], tuple[str, ...]]] = {
    "one-launch": ([log(point())], ("table", "csv", *NVIDIA)),
    "single-precision": ([log(point(precision="float"))], ("table", *NVIDIA)),
    "two-transports": ([log(point(transport="host"), point(transport="null"))], NVIDIA),
    "last-residual-between-two-lines": (
        [log(point(residuals=BETWEEN, iterations=131, batch_iterations=[131], batch_s=[1.0]))],
        NVIDIA,
    ),
    "failed": ([log(BAD)], ("table", "csv", "json", *NVIDIA)),
    "one-launch-failed": ([log(point()), log(BAD)], ("table",)),
    "on-gpus": ([on_devices(0.3, 0.1, 0.01, "aware")], ("table", *NVIDIA)),
    "scaling": ([solved((1, 1), (100, 100), 0.010), solved((2, 1), (50, 100), 0.006)], ("table",)),
    "other-threads": (other_threads(), ("table",)),
    "not-verified": ([not_verified(solved((2, 1), (50, 100), 0.006))], ("table",)),
}
"""The rates of nvidia-jacobi follow from 8190 × 8190 updates, 101 times in 3 s; its lines are those of the example."""


@pytest.mark.parametrize("name", SCREENS)
def test_screens(name: str) -> None:
    logs, formats = SCREENS[name]
    check_formats(f"jacobi/{name}", logs, *formats, details=Details(full=True))


def test_more_threads_than_cores_are_said_to_wait() -> None:
    out, _ = shown([solved((2, 1), (50, 100), 0.006, threads=99)])
    assert "198 threads share 2 CPUs of example-node, so times include waiting: volley jacobi --threads 1" in out
    assert "threads share" not in shown([solved((2, 1), (50, 100), 0.006)])[0]
