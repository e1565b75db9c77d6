import io
import random
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from example_records import log, pingpong, plan, run, stream, transport
from volley.benchmarks import BENCHMARKS
from volley.benchmarks.pair.results import PingPong
from volley.benchmarks.points.notes import skipped
from volley.benchmarks.points.results import PointResult, PointSeries, results
from volley.errors import UserError
from volley.machine.hardware import Device, Gpu, Hardware, Settings
from volley.records.launch_series import observed_in, series_of
from volley.records.plan import OUT_OF_TIME, Sampling
from volley.records.record_types import End, LaunchTimes, Mismatch
from volley.records.records_file import read_runs
from volley.records.run_log import RunLog
from volley.report.model import Details
from volley.run.render import render
from volley.run.report_parts import heading, over_launches

RECORDED = Path(__file__).parents[2] / "results"
SIX = [1.0e-6, 1.1e-6, 1.2e-6, 1.3e-6, 1.4e-6, 1.5e-6]


def only(*logs: object) -> PointResult:
    (series,) = results(logs)
    (point,) = series.points
    return point


def warnings(point: PointResult) -> dict[str, float]:
    return {warning.kind: warning.value for warning in point.warnings}


def test_ping_pong_latency_is_the_median_and_bandwidth_follows_from_it() -> None:
    point = only(log(pingpong(SIX, size=1000)))
    assert (point.latency.median, point.latency.low, point.latency.high) == (pytest.approx(1.25e-6), 1.0e-6, 1.5e-6)
    assert point.bandwidth_Bps == pytest.approx(1000 / 1.25e-6)
    assert (point.rate.low, point.rate.high) == pytest.approx((1000 / 1.5e-6, 1000 / 1.0e-6))
    assert (point.samples, point.launches, point.verified) == (6, 1, True)


def test_both_directions_have_their_rates_and_the_total_is_over_the_slower_of_each_sample() -> None:
    point = only(log(stream([1.0, 4.0, 1.0, 1.0, 1.0, 1.0], [2.0, 2.0, 2.0, 2.0, 2.0, 2.0], size=1000)))
    assert point.each_way_Bps == pytest.approx([64_000, 32_000])
    assert point.bandwidth_Bps == pytest.approx(2 * 64_000 / 2.0)
    assert point.rate.low == pytest.approx(2 * 64_000 / 4.0)


@given(st.lists(st.floats(1e-9, 1.0), min_size=1, max_size=20), st.sampled_from(["failed", "skipped"]))
def test_a_point_that_is_not_good_has_no_numbers(samples: list[float], status: str) -> None:
    for record in (pingpong(samples, status=status), stream(samples, samples, status=status)):
        point = only(log(record))
        assert point.time is None
        assert point.rate is None
        assert point.each_way_Bps == (None, None)
        assert point.rate is None
        assert point.latency is None
        assert point.verified is (False if status == "failed" else None)


def test_one_launch_that_failed_fails_the_point() -> None:
    wrong = Mismatch(rank=1, offset_bytes=3, expected=1, found=2, wrong_bytes=1)
    bad = pingpong(SIX, status="failed", reason="differs", mismatch=wrong)
    point = only(log(pingpong(SIX)), log(bad), log(pingpong(SIX)))
    assert (point.status, point.reason, point.mismatch) == ("failed", "differs", wrong)
    assert (point.launches, point.samples) == (2, 2 * len(SIX))
    assert point.rate is None


def test_a_speedup_over_launches_is_formed_within_each() -> None:
    factors = [1.0, 1.5, 0.8, 1.2, 0.9, 1.1]
    launches = [
        log(pingpong([4e-6 * each] * 6, name="staged/pageable"), pingpong([2e-6 * each] * 6, name="aware"))
        for each in factors
    ]
    found = of(results(launches)[0], "aware").speedup
    assert (found.low, found.high) == pytest.approx((2.0, 2.0))
    assert (found.count, found.kind, found.above(1) or found.below(1)) == (6, "ci", True)


def on(**changes: object) -> RunLog:
    made = log(pingpong(SIX))
    made.run = run(**changes)
    return made


GPU = Device(index=0, name="GPU", uuid="GPU-a", pci="0", compute_capability="9.0", memory_bytes=1)
FIRST = run()
OTHERS: dict[str, dict[str, object]] = {
    "host": {"ranks": [replace(rank, host="another-node") for rank in FIRST.ranks]},
    "CPU": {"ranks": [replace(rank, cpu="Another CPU") for rank in FIRST.ranks]},
    "GPU": {"ranks": [replace(rank, device=GPU) for rank in FIRST.ranks]},
    "placement": {"ranks": [replace(rank, cores=[rank.rank + 2]) for rank in FIRST.ranks]},
    "MPI": {"mpi": replace(FIRST.mpi, library="MPICH Version: 5.0.2")},
    "engine": {"engine": replace(FIRST.engine, version="0.2.0")},
    "UCX_RNDV_THRESH": {"environment": {"UCX_RNDV_THRESH": "8"}},
}


def in_state(**changes: Any) -> RunLog:
    """A launch on a node in this state."""
    made, facts = on(), {"driver": "580.95.05", "power": 700.0, "governor": "performance", "boost": True, **changes}
    gpu = Gpu(index=0, uuid="GPU-a", power_limit_w=facts["power"])
    made.hardware = [Hardware(when="before", host="example-node", driver_version=facts["driver"], gpus=[gpu])]
    made.settings = Settings(host="example-node", governors={facts["governor"]: "0-1"}, boost=facts["boost"])
    return made


STATES = {
    "driver": {"driver": "570.1"}, "power limit": {"power": 350.0}, "governor": {"governor": "powersave"},
    "boost": {"boost": False},
}  # fmt: skip
LATE = replace(FIRST.plan, launch={"asked": [["--gpu-after-init"]]})
CONDITIONS = {
    **{name: (on, on(**changes)) for name, changes in OTHERS.items()},
    **{name: (in_state, in_state(**changes)) for name, changes in STATES.items()},
    "GPU chosen": (on, on(plan=LATE)),
}


@pytest.mark.parametrize("name", CONDITIONS)
def test_launches_under_other_conditions_are_other_series_and_say_what_differs(name: str) -> None:
    usual, other = CONDITIONS[name]
    found = results([usual(), other, other])
    assert [len(one.series.logs) for one in found] == [1, 2]
    assert [list(one.series.differing) for one in found] == [[name], [name]]
    assert all(f"which differ in {name} (here " in " ".join(heading(one.series, "pingpong")) for one in found)
    with pytest.raises(UserError, match=f"do not belong together; they differ in {name} "):
        observed_in([usual(), other], BENCHMARKS)


def test_a_launch_that_says_nothing_of_the_state_of_its_node_belongs_to_the_others() -> None:
    silent = in_state(driver=None, power=None)
    silent.settings = None
    assert len(results([in_state(), silent, in_state()])) == 1


@pytest.mark.parametrize(
    ("files", "launches"),
    [
        (("sixteen-cores/runs.jsonl.gz", "h100-x1/runs.jsonl.gz", "h200-x1/runs.jsonl.gz"), [90, 90, 90]),
        (("h100-x2/rendezvous-default.jsonl", "h100-x2/rendezvous-from-8.jsonl"), [10, 10]),
    ],
)
def test_files_of_other_machines_and_settings_are_never_one_series(files: Sequence[str], launches: list[int]) -> None:
    logs = [each for name in files for each in read_runs(RECORDED / name, BENCHMARKS)]
    assert [len(series.logs) for series in series_of(logs)] == launches


def test_what_is_not_known_is_equal_only_to_what_is_not_known() -> None:
    unknown = {"mpi": None}
    assert [len(one.series.logs) for one in results([on(), on(**unknown), on(**unknown)])] == [1, 2]
    assert [len(one.series.logs) for one in results([on(**unknown), on(**unknown, **OTHERS["host"])])] == [1, 1]


def test_variables_that_name_a_job_are_no_conditions() -> None:
    names = (
        "SLURM_JOB_ID",
        "SLURM_STEP_ID",
        "LSB_JOBID",
        "OMPI_MCA_ess_base_jobid",
        "OMPI_MCA_orte_precondition_transports",
    )
    logs = [on(environment=dict.fromkeys(names, str(number))) for number in range(3)]
    (found,) = results(logs)
    assert not found.series.differing


def test_a_series_is_found_without_comparing_requests_with_each_other() -> None:
    logs = [log(pingpong(SIX), the_plan=plan(budget_s=1 + number)) for number in range(20)]
    asked: list[int] = []

    def request(one: RunLog) -> int:
        asked.append(id(one))
        return len(asked) % 10

    assert [len(each.logs) for each in series_of(logs, request)] == [2] * 10
    assert asked == list(map(id, logs))


def test_a_transport_that_one_launch_lacked_counts_as_unavailable() -> None:
    logs = [log(transports=[transport()]), log(transports=[transport(available=False, reason="gone")])]
    for order in (logs, logs[::-1]):
        (series,) = results(order)
        assert series.series.transports["host"].reason == "gone"


def test_an_interval_that_was_not_reached_is_noted() -> None:
    wide = [1.0e-6, 1.2e-6, 1.0e-6, 1.2e-6, 1.1e-6, 1.1e-6]
    assert warnings(only(log(pingpong(wide, ended_by="time"))))["wide"] == pytest.approx(1 / 11)
    assert warnings(only(log(pingpong(wide, ended_by="few")))) == {"few": pytest.approx(1 / 11)}
    assert warnings(only(log(pingpong(wide, ended_by="budget")))) == {}
    loose = plan(sampling=Sampling(ci=0.2))
    for ended_by in ("time", "few"):
        assert warnings(only(log(pingpong(wide, ended_by=ended_by), the_plan=loose))) == {}


@pytest.mark.parametrize(("ended_by", "kind"), [("few", "few"), ("time", "wide")])
def test_launches_that_agree_settle_what_the_samples_of_each_did_not(
    ended_by: Literal["few", "time"], kind: str
) -> None:
    wide = [1.0e-6, 1.2e-6, 1.0e-6, 1.2e-6, 1.1e-6, 1.1e-6]
    launches = [log(pingpong(wide, ended_by=ended_by)) for _ in range(3)]
    assert warnings(only(*launches[:1]))[kind] == pytest.approx(1 / 11)
    assert warnings(only(*launches)) == {}


@pytest.mark.parametrize(("mode", "samples"), [("adaptive", 9), ("fixed", 1)])
def test_launches_that_differ_by_more_than_asked_say_so_however_each_was_sampled(
    mode: Literal["adaptive", "fixed"], samples: int
) -> None:
    the_plan = plan(sampling=Sampling(mode=mode))
    launches = [log(pingpong([1e-6 * (1 + number / 10)] * samples), the_plan=the_plan) for number in range(7)]
    assert warnings(only(*launches)) == {"wide": pytest.approx(0.3 / 1.3)}
    if mode == "fixed":
        assert warnings(only(*launches[:1])) == {}


def test_drift_is_noted_from_twice_the_interval_on() -> None:
    source = random.Random(5)

    def samples(rise: float) -> list[float]:
        return [1e-6 * (1 + rise * number / 30 + source.uniform(-1e-4, 1e-4)) for number in range(30)]

    assert warnings(only(log(pingpong(samples(0.06)))))["drift"] == pytest.approx(0.04, rel=0.2)
    launches = [log(pingpong(samples(rise))) for rise in (0.0, -0.06, 0.01)]
    assert warnings(only(*launches))["drift"] == pytest.approx(-0.04, rel=0.2)  # that of the launch with the largest
    assert "drift" not in warnings(only(log(pingpong(samples(0.02)))))


def test_many_outliers_are_noted_and_few_are_not() -> None:
    calm = [1e-6 * (1 + number / 1000) for number in range(38)]
    assert "outliers" not in warnings(only(log(pingpong([*calm, 1e-3]))))
    assert warnings(only(log(pingpong([*calm, 1e-3, 1e-3, 1e-3]))))["outliers"] == pytest.approx(3 / 41)


def test_the_cold_exchange_is_kept_apart() -> None:
    point = only(log(pingpong(SIX, cold_s=5e-3)))
    assert point.cold_s == 5e-3
    assert point.time.high == 1.5e-6


# ----------------------------------------------------------------------------------------------- speed-ups

SPREAD = [0.997, 0.998, 0.999, 1.0, 1.001, 1.002, 1.003]
SIZES = [8 << 2 * step for step in range(8)]


def points(name: str, *seconds: float) -> list[PingPong]:
    """One point a size, ±0.3 %."""
    pairs = zip(SIZES, seconds, strict=False)
    return [pingpong([time * factor for factor in SPREAD], size, name) for size, time in pairs]


def series(*records: object, **options: object) -> PointSeries:
    (one,) = results([log(*records, **options)])
    return one


def of(one: PointSeries, name: str, size: int = 8) -> PointResult:
    return next(point for point in one.points if (point.transport, point.size_bytes) == (name, size))


def test_a_speedup_is_over_staged_pageable_and_bounded_by_both_intervals() -> None:
    one = series(*points("host", 1e-6), *points("staged/pinned", 4e-6), *points("staged/pageable", 8e-6))
    found = of(one, "host").speedup
    assert (of(one, "host").speedup_over, found.median) == ("staged/pageable", pytest.approx(8))
    assert (found.low, found.high) == pytest.approx((8 * 0.997 / 1.003, 8 * 1.003 / 0.997))
    assert found.kind == "within"
    assert found.above(1) or found.below(1)
    assert of(one, "staged/pageable").speedup is None


def test_a_baseline_that_measured_nothing_is_none() -> None:
    skipped = pingpong(size=8, name="staged/pageable", status="skipped", reason="no memory")
    assert of(series(*points("host", 1e-6), skipped), "host").speedup is None
    with_pinned = series(skipped, *points("staged/pinned", 4e-6), *points("host", 1e-6))
    assert of(with_pinned, "host").speedup_over == "staged/pinned"


def test_only_points_with_numbers_on_both_sides_have_a_speedup() -> None:
    bad = pingpong([1e-6] * 6, 32, "aware", status="failed", reason="differs")
    one = series(*points("staged/pageable", 8e-6, 8e-6), *points("aware", 2e-6), bad, *points("peer", 1e-6, 1e-6, 1e-6))
    assert of(one, "aware", 32).speedup is None
    assert of(one, "peer", 32).speedup is not None
    assert of(one, "peer", 128).speedup is None


def test_streams_are_compared_by_their_bandwidth() -> None:
    slow = stream([4.0] * 6, [8.0] * 6, transport="staged/pageable")
    found = of(series(slow, stream([2.0] * 6, [1.0] * 6, transport="aware")), "aware").speedup
    assert found.median == pytest.approx(4)


def test_tables_keep_what_cannot_be_compared_apart() -> None:
    records = [stream([1.0] * 6), stream([1.0] * 6, window=8), stream([1.0] * 6, [1.0] * 6), *points("host", 1e-6)]
    assert [len(table) for table in series(*records).tables] == [1, 1, 1, 1]


# -------------------------------------------------------------------------------------------------- curves


def test_a_step_of_the_clock_does_not_change_how_long_launches_took() -> None:
    logs = [log(pingpong(SIX)) for _ in range(3)]
    for number, (one, start) in enumerate(zip(logs, ("03:04:05", "03:04:20", "05:03:35"), strict=True), start=1):
        one.number, one.run = number, replace(one.run, started_at=f"2026-01-02T{start}Z")
        one.times = LaunchTimes(exit_s=14.0, gap_s=1.0 if number > 1 else None)
    assert series_of(logs)[0].span_s == 44.0


def test_a_series_says_how_long_its_launches_took() -> None:
    starts = ("2026-01-02T03:04:05Z", "2026-01-02T03:04:20Z")
    logs = [log(pingpong(SIX)) for _ in starts]
    for one, start in zip(logs, starts, strict=True):
        one.run, one.end = replace(one.run, started_at=start), replace(one.end, elapsed_s=1.5)
    (series,) = series_of(logs)
    assert series.span_s == 16.5
    assert over_launches(2, series) == "2 launches in 16 s"
    logs[0].end = End(status="complete", elapsed_s=0.4)
    assert over_launches(1, series_of(logs[:1])[0]) == "1 launch in less than 1 s"
    logs[1].end = None
    cut = over_launches(2, series_of(logs)[0])
    assert cut == "2 launches, 1 of them incomplete, the rest in less than 1 s"
    assert logs[0].run
    logs[0].run = replace(logs[0].run, started_at="yesterday")
    (series,) = series_of(logs[:1])
    assert series.span_s is None
    assert over_launches(1, series) == "1 launch"


def test_a_reason_of_several_transports_is_that_of_each() -> None:
    names = ("device/word", "host/put/accumulate")
    reason = "it carries messages of up to 8 B"
    points = {name: series(pingpong(size=16, name=name, status="skipped", reason=reason)).points for name in names}
    assert [*skipped(points, None)] == [f"{names[0]} and {names[1]} skipped 16 B: each carries messages of up to 8 B"]
    assert [*skipped({names[0]: points[names[0]]}, None)] == [f"{names[0]} skipped 16 B: {reason}"]


def test_what_a_budget_left_out_is_measured_by_the_command_without_it() -> None:
    asked = [["--transport", "a,b"], ["--budget", "2"], ["--launches", "3"]]
    the_plan = plan("message_rate", launch={"asked": asked})

    def late(*sizes: int) -> list[PointResult]:
        return series(*(pingpong(size=each, name="a", status="skipped", reason=OUT_OF_TIME) for each in sizes)).points

    said = "a skipped 8 B and 1 MiB: the time budget was too short: volley pingpong -t a -s 8,1Mi --launches 6"
    assert [*skipped({"a": late(8, 1 << 20)}, the_plan)] == [said]
    (all_of_it,) = skipped({"a": late(8, 1 << 20)}, the_plan, whole=True)
    assert all_of_it.endswith(": volley message-rate -t a,b --launches 6")
    (many,) = skipped({name: late(8) for name in "abcd"}, the_plan)
    assert many.endswith(": volley message-rate -t a,b --launches 6")


@pytest.mark.parametrize(("asked", "launches", "said"), [([], 1, 6), ([], 3, 6), ([["--launches", "3"]], 1, 3)])
def test_one_command_measures_what_a_budget_left_out(asked: list[list[str]], launches: int, said: int) -> None:
    """Points, launches, and what a second launch would say of the first."""
    records = [pingpong([1e-6, 2e-6] * 9), pingpong(size=16, status="skipped", reason=OUT_OF_TIME)]
    the_plan = plan(launch={"asked": [*asked, ["--budget", "2"]]})
    logs = [log(*records, the_plan=the_plan) for _ in range(launches)]
    logs[-1].launches_without_time = 2 * bool(asked)
    text = io.StringIO()
    render(logs, BENCHMARKS, "table", text, details=Details(full=True))
    assert re.findall("--launches.*", text.getvalue()) == [f"--launches {said}{' makes all of them' if asked else ''}"]


@pytest.mark.parametrize("spread_ns", [6.0, 60.0])
def test_launches_on_two_sides_of_a_step_of_the_clock_are_no_groups(spread_ns: float) -> None:
    """Single exchanges of 0.13 µs in launches that differ little, read from a clock with steps of 10 ns."""
    dice = random.Random(3)
    logs = []
    for launch in range(8):
        usual_ns = 133 if launch % 2 else 138  # of the first more samples are rounded down
        read_s = [1e-8 * round(dice.gauss(usual_ns, spread_ns) / 10) for _ in range(600)]
        logs.append(log(pingpong([each for each in read_s if each > 0])))
    (series,) = results(logs)
    assert [point.groups for point in series.points] == [()]
