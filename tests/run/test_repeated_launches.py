"""How often a run launches, and how long each launch samples."""

import math
import re
from collections.abc import Sequence

import msgspec
import pytest

from example_records import pingpong, plan, run
from volley.benchmarks import plain
from volley.benchmarks.pair import PingPongOptions
from volley.benchmarks.points.jobs import PointForecast
from volley.benchmarks.points.results import times
from volley.command.options import JobOptions, SamplingOptions
from volley.launch.engine import About, TransportAbout
from volley.launch.inside_launcher import RankInfo
from volley.machine.transports import HOST_RATE_BPS
from volley.records.plan import OUT_OF_TIME, Plan, Sampling
from volley.records.record_types import End, LaunchTimes
from volley.records.run_log import RunLog
from volley.run.jobs import Job, JobContext, usable_transports
from volley.run.launches import (
    GPU_START_S,
    MAX_LAUNCHES,
    POINT_TIME_S,
    SHORTEST_POINT_S,
    START_S,
    Jobs,
    LaunchCount,
    coarse_first,
    measures_in_s,
    repeated,
    starts_in_s,
    trial_in_s,
)
from volley.statistics.launches import FIRST_LOOK

NO_GPU = About()
MEMORIES = ("host", "device")


def with_cuda(*, pointers: bool = False) -> About:
    """An engine with a transport of each memory; MPI may get ``pointers`` to that of GPUs, which is tried first."""
    given = dict.fromkeys(MEMORIES, False) | {"device": pointers}
    found = (TransportAbout(each, "", mpi=True, memory=each, device_pointers=given[each]) for each in MEMORIES)
    return About(cuda_built="13.0", transports=tuple(found))


def jobs(
    the_plan: Plan | None = None, launches: int | None = None, place: RankInfo | None = None, about: About = NO_GPU
) -> Jobs:
    options = PingPongOptions(job=JobOptions(launches=launches))
    return repeated(the_plan or plan(), options, JobContext(about, place), times, PointForecast)


def log(time_s: float, **changes: object) -> RunLog:
    return RunLog(run=run(), records=[pingpong([time_s] * 3, **changes)], end=End(status="complete", elapsed_s=1.0))


def launched(described: Jobs, times_s: Sequence[float], launch_s: float) -> list[Job]:
    """The jobs of a run whose launches take ``launch_s`` each and find these times."""
    made, logs = list(described.planned), [log(times_s[0])]
    for time_s in times_s[1:]:
        job = described.next_job and described.next_job(logs, described.budget_s - launch_s * len(logs), print)
        if job is None:
            break
        made.append(job)
        logs.append(log(time_s))
    return made


WIDE = [1e-6 * (1 + 0.1 * (number % 3)) for number in range(40)]


def test_a_run_stops_when_its_intervals_are_as_narrow_as_asked() -> None:
    assert len(launched(jobs(), [1e-6] * 40, 0.1)) == FIRST_LOOK


def test_a_run_stops_at_the_most_launches() -> None:
    assert len(launched(jobs(), WIDE, 0.1)) == MAX_LAUNCHES


def test_a_run_stops_when_its_time_is_up() -> None:
    whole_s = jobs().count.time_s
    assert whole_s
    assert len(launched(jobs(), WIDE, whole_s / 8)) == 8
    assert len(launched(jobs(), WIDE, whole_s / 3)) == 3


def test_launches_share_a_budget() -> None:
    made = launched(jobs(plan(budget_s=60.0)), WIDE, 10.0)
    assert [job.plan.budget_s for job in made] == [20.0, *[10 - START_S] * 5]  # the first may take a third
    assert len(launched(jobs(plan(budget_s=30.0)), WIDE, 29.0)) == 1
    assert len(launched(jobs(plan(budget_s=60.0), launches=9), WIDE, 20.0)) == 3


SIZES = [1 << power for power in range(3, 31)]


@pytest.mark.parametrize("launches", [None, 2, 9])
@pytest.mark.parametrize("sizes", [SIZES[:1], SIZES[:8], SIZES])
@pytest.mark.parametrize("budget_s", [0.5, 3.0, 5.0, 8.0, 20.0, 1000.0, None])
def test_a_short_budget_shortens_points_before_it_skips_them(
    budget_s: float | None, sizes: list[int], launches: int | None
) -> None:
    asked = plan(budget_s=budget_s, options={"sizes_bytes": sizes})
    (job, *_) = jobs(asked, launches=launches).planned
    point_s = job.plan.sampling.point_time_s
    assert SHORTEST_POINT_S <= point_s <= POINT_TIME_S
    whole_s = measures_in_s(Job(msgspec.structs.replace(job.plan, budget_s=None)), JobContext(NO_GPU), PointForecast)
    part_s = (budget_s or math.inf) / (launches or FIRST_LOOK) - START_S
    fits = whole_s <= part_s * 1.1  # two digits of the time
    assert fits or point_s == SHORTEST_POINT_S
    assert not fits or point_s == POINT_TIME_S or whole_s >= part_s * 0.9


def test_the_time_of_a_point_that_was_typed_stays() -> None:
    typed = SamplingOptions(point_time=0.2, given=frozenset({"point_time"}))
    options = PingPongOptions(job=JobOptions(), sampling=typed)
    asked = plan(budget_s=1.0)
    asked = msgspec.structs.replace(asked, sampling=msgspec.structs.replace(asked.sampling, point_time_s=0.2))
    (job, *_) = repeated(asked, options, JobContext(NO_GPU), times, PointForecast).planned
    assert job.plan.sampling.point_time_s == 0.2


def said_and_took(
    the_plan: Plan, speed: float, start_s: float, opening_s: float = 0.0, about: About = NO_GPU, before_s: float = 0.5
) -> tuple[float, float, list[int]]:
    """What is said of the time, what a run takes, and how many points each launch measures.

    On a machine whose starts and transports take this long, and whose long messages take ``speed`` times what is
    expected.  As the engine does, it skips the points for which a launch has no time.
    """
    described = jobs(the_plan, about=about)
    count, job = described.count, described.planned[0]
    expected_start_s = starts_in_s(job.plan, JobContext(about))
    launch_s = expected_start_s + measures_in_s(job, JobContext(about), PointForecast)

    usable = msgspec.structs.replace(job.plan, transports=usable_transports(job.plan, JobContext(about)))

    def expected_s(size: int) -> float:
        return PointForecast(usable, [size]).whole_s

    logs: list[RunLog] = []
    now_s = before_s
    for next_one in described.each(JobContext(about), logs, lambda: now_s, print):  # noqa: B023  it rises
        points, elapsed_s = [], opening_s
        for size in next_one.plan.options.sizes_bytes:
            point_s = expected_s(0) / 2 + speed * (expected_s(size) - expected_s(0))
            if elapsed_s + point_s < (next_one.plan.budget_s or math.inf):
                elapsed_s += point_s
                points.append(pingpong([1e-6 * (1 + len(logs) % 3)] * 3, size=size, elapsed_s=point_s))
        now_s += start_s + elapsed_s
        ended = LaunchTimes(exit_s=start_s + elapsed_s)
        logs.append(RunLog(run=run(), records=points, end=End(status="complete", elapsed_s=elapsed_s), times=ended))
    return min(count.maximum * launch_s, count.time_s or math.inf), now_s, [len(log.records) for log in logs]


@pytest.mark.parametrize("start_s", [START_S / 2, 2 * START_S])
@pytest.mark.parametrize("speed", [0.5, 1.0, 2.0, 8.0])
@pytest.mark.parametrize("budget_s", [None, 10.0, 60.0])
def test_a_run_takes_what_it_says_in_six_launches_on_any_machine(
    budget_s: float | None, speed: float, start_s: float
) -> None:
    said_s, took_s, points = said_and_took(plan(options={"sizes_bytes": SIZES}, budget_s=budget_s), speed, start_s)
    assert said_s / 1.2 < took_s < said_s * 1.2
    assert len(points) >= FIRST_LOOK
    assert min(points) >= 4  # a coarse curve
    if budget_s is None and speed <= 1:
        assert points == [len(SIZES)] * len(points)


@pytest.mark.parametrize("trial", [False, True])
@pytest.mark.parametrize("slower", [0.8, 1.0, 1.1])
@pytest.mark.parametrize(("ranks", "gpus"), [(2, 2), (2, 1), (8, 2), (8, 1), (16, 1)])
def test_six_launches_are_the_rule_where_starts_are_slow(
    monkeypatch: pytest.MonkeyPatch, ranks: int, gpus: int, slower: float, *, trial: bool
) -> None:
    monkeypatch.setattr("volley.run.jobs.gpu_count", lambda: gpus)
    about = with_cuda(pointers=trial)
    the_plan = plan(world_size=ranks, transports=list(MEMORIES), options={"sizes_bytes": SIZES[::6]})
    start_s = slower * starts_in_s(the_plan, JobContext(about))
    assert (start_s > slower * GPU_START_S) == (ranks > 2)
    before_s = 0.5 + slower * trial_in_s(the_plan, JobContext(about))
    assert (before_s > 1.0) == (trial and gpus == 2)
    said_s, took_s, points = said_and_took(the_plan, 1.0, start_s, about=about, before_s=before_s)
    assert said_s / 1.2 < took_s < said_s * 1.2
    assert len(points) >= FIRST_LOOK
    assert jobs(the_plan, about=about).note is None


@pytest.mark.parametrize("gpus", [0, 1, 2, 4])
def test_volley_without_a_command_has_time_for_six_launches(monkeypatch: pytest.MonkeyPatch, gpus: int) -> None:
    monkeypatch.setattr("volley.run.jobs.gpu_count", lambda: gpus)
    monkeypatch.setattr("volley.benchmarks.plain.suits_gpus", lambda: True)
    *_, (benchmark, options) = plain.parts(plain.COMMAND.parse([]), gpus)
    described = benchmark.jobs(options, JobContext(with_cuda()))
    assert described.note is None
    assert described.count.aim == FIRST_LOOK


def test_launches_measure_half_before_there_is_one_fewer() -> None:
    described = jobs(plan(budget_s=30.0))
    assert described.next_job
    first = RunLog(
        run=run(),
        records=[pingpong([1e-6] * 3, elapsed_s=2.0)],
        end=End(status="complete", elapsed_s=2.0),
        times=LaunchTimes(exit_s=5.0),
    )
    # 22 s are left: for four launches as long as the first, or for the five that six need.
    job = described.next_job([first], described.budget_s - 8.0, print)
    assert job.plan.budget_s == pytest.approx(22.0 / 5 - 3.0)


@pytest.mark.parametrize("opening_s", [0.5, 1.5, 3.0])
def test_no_launch_is_so_short_that_it_only_opens_its_transports(opening_s: float) -> None:
    the_plan = plan(options={"sizes_bytes": SIZES}, budget_s=20.0)
    said_s, took_s, points = said_and_took(the_plan, 1.0, 2 * START_S, opening_s)
    assert said_s / 1.2 < took_s < said_s * 1.2
    assert len(points) > 1
    assert min(points) >= 4


def test_a_short_launch_measures_a_coarse_curve_first() -> None:
    assert coarse_first([1, 2, 4, 8, 16, 32]) == [1, 16, 32, 4, 2, 8]
    assert coarse_first([8, 64, 16]) == [8, 64, 16]  # as the user wrote them


def test_a_fixed_number_of_launches_is_made_however_narrow_the_intervals_are() -> None:
    assert len(launched(jobs(launches=9), [1e-6] * 40, 100.0)) == 9
    assert jobs(launches=9).count == LaunchCount(9, 9)


def test_launches_of_several_are_short_and_a_single_one_is_not() -> None:
    assert jobs().planned[0].plan.sampling.point_time_s == POINT_TIME_S
    assert jobs(launches=6).planned[0].plan.sampling.point_time_s == POINT_TIME_S
    assert jobs(launches=1).planned[0].plan.sampling == Sampling()


@pytest.mark.parametrize("place", [RankInfo(0, 2, "srun"), RankInfo(0, None, "pmix")])
def test_inside_a_launcher_there_is_one_launch(place: RankInfo) -> None:
    described = jobs(place=place)
    assert described.planned[0].plan.sampling == Sampling()
    assert described.next_job is None
    assert described.count == LaunchCount(1, 1)


def test_the_tutorials_batch_is_launched_once() -> None:
    assert len(launched(jobs(plan(sampling=Sampling(mode="fixed"))), WIDE, 0.1)) == 1
    assert len(launched(jobs(plan(sampling=Sampling(mode="fixed")), launches=4), WIDE, 0.1)) == 4


def test_a_budget_without_an_interval_is_told_with_the_launches_that_have_one() -> None:
    described = jobs(plan(budget_s=9.0))
    done = log(1e-6)
    done.times = LaunchTimes(exit_s=8.9)
    said: list[str] = []
    assert described.next_job([done], described.budget_s - 9.0, said.append) is None
    assert said == ["in 9 s there was time for 1 launch of 8.9 s; a 95 % interval needs 6: write a longer --budget"]
    assert described.count.too_few(1.0, 2.9, 6) is None
    assert jobs(plan(budget_s=9.0), launches=2).count.too_few(5.0, 0.0, 1) is None  # no interval was asked for


def test_a_budget_that_is_known_to_be_too_short_is_told_once_before_the_first_launch() -> None:
    described = jobs(plan(budget_s=1.0))
    expected = "in 1 s there is time for 3 launches of 0.28 s; a 95 % interval needs 6: write a longer --budget"
    assert described.note == expected
    done = log(1e-6)
    done.times = LaunchTimes(exit_s=0.9)
    said: list[str] = []
    assert described.next_job([done], described.budget_s - 1.0, said.append) is None
    assert said == []
    assert jobs(plan(budget_s=9.0)).note is None


@pytest.mark.parametrize(("skipped", "launches"), [(3, 3), (4, 1)])
def test_after_a_launch_without_a_curve_the_next_one_is_long_enough_for_it(skipped: int, launches: int) -> None:
    """Of one point in four there is a curve."""
    done = log(1e-6, elapsed_s=0.8)
    done.records += [pingpong([], size=8, status="skipped", reason=OUT_OF_TIME, elapsed_s=0.0)] * skipped
    done.times = LaunchTimes(exit_s=1.0)
    job = jobs(plan(budget_s=2.4)).next_job([done], 1.4, print)
    assert job.plan.budget_s == pytest.approx(1.4 / launches)


def test_the_time_that_is_told_is_enough_for_the_sizes_that_were_skipped() -> None:
    done = log(1e-6)
    done.records += [pingpong([], size=size, status="skipped", reason=OUT_OF_TIME) for size in (16, 32)]
    done.times = LaunchTimes(exit_s=8.9)
    said: list[str] = []
    assert jobs(plan(budget_s=9.0)).next_job([done], 0.0, said.append) is None
    (advice,) = said
    assert float(re.search("needs 6 of ([0-9.]+) s for all sizes", advice)[1]) > 2 * 8.9


def test_a_message_that_alone_takes_longer_than_the_budget_is_told_before() -> None:
    def of(sizes: list[int]) -> Jobs:
        return jobs(plan(budget_s=5.0, options={"sizes_bytes": sizes}))

    long = of([3 << 30])
    assert re.match(r"a launch takes [\d.]+ s, longer than the 5 s that it has; a 95 % interval needs 6: ", long.note)
    assert long.shortest_s > 5
    assert of([*SIZES, 3 << 30]).shortest_s < 5  # the engine skips what would take too long


def test_a_fixed_batch_that_takes_longer_than_the_budget_is_told_before() -> None:
    sampling = Sampling(mode="fixed", iterations=10**9)
    fixed = jobs(plan(budget_s=5.0, sampling=sampling, options={"sizes_bytes": [8]}))
    assert re.match(r"a launch takes \d+ s, longer than the 5 s that it has", fixed.note)
    assert fixed.expected_s(JobContext(NO_GPU), PointForecast) > 100


def test_further_visits_of_long_windows_are_expected() -> None:
    def whole_s(visits: int) -> float:
        asked = plan("stream", sampling=Sampling(min_visits=visits), options={"sizes_bytes": [64 << 20]})
        return PointForecast(asked).whole_s

    window_s = 64 * (64 << 20) / HOST_RATE_BPS
    assert whole_s(3) - whole_s(1) == pytest.approx(2 * 3 * window_s)  # a visit: one untimed, two samples


def test_sizes_that_the_engine_leaves_out_for_their_time_are_not_expected() -> None:
    def whole_s(size_time_s: float | None, sizes: list[int] = SIZES) -> float:
        return PointForecast(plan(sampling=Sampling(size_time_s=size_time_s)), sizes).whole_s

    up_to_128_mib = [size for size in SIZES if size <= 128 << 20]  # the round trip that takes longer than 0.05 s
    assert whole_s(0.5) == whole_s(0.001) == pytest.approx(whole_s(None, up_to_128_mib))
    assert whole_s(60) == whole_s(None) > whole_s(0.5)


def test_the_time_before_the_first_launch_is_not_that_of_a_launch() -> None:
    done = log(1e-6)
    done.times = LaunchTimes(exit_s=2.0)
    assert jobs(plan(budget_s=9.0)).next_job([done], 3.0, print)  # after a preflight of 4 s


def test_a_failure_ends_a_run_that_would_go_on() -> None:
    described = jobs()
    assert described.next_job([log(1e-6, status="failed")], 10.0, print) is None
    cut = log(1e-6)
    cut.end = None
    assert described.next_job([cut], 10.0, print) is None
