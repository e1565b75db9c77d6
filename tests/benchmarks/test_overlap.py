"""``volley overlap``: from the command line to the records, and what is made of them."""

import csv
import io
import json
from collections.abc import Callable, Mapping, Sequence

import pytest

from example_records import golden, log, transport
from overlap_records import RUN, point
from screens import check_formats
from the_command import Command, Finished
from volley.benchmarks.overlap import LIMITS
from volley.benchmarks.overlap.results import OverlapPoint, OverlapResult, observables, results, times
from volley.records.run_log import RunLog
from volley.report.model import Details
from volley.statistics.estimates import Estimate

QUICK = ("--launches", "1", "--point-time", "0.01")


# ------------------------------------------------------------------------------------------------ the whole command


def test_the_exchange_the_computation_and_both_are_timed_and_checked(volley: Command) -> None:
    done = volley("overlap", "--transport", "host,host/put", "--sizes", "1,100000", *QUICK, "--format", "csv")
    assert done.code == 3  # one of them was asked for by name, and is not available
    (log,) = done.records
    reasons = {each.transport: each.reason for each in log.transports if not each.available}
    assert reasons == {"host/put": "its messages cannot be started and completed in separate calls"}
    points = log.of(OverlapPoint)
    assert [(point.size_bytes, point.computation) for point in points] == [
        (size, limit) for size in (1, 100000) for limit in LIMITS
    ]
    for each in points:
        assert (each.status, each.reason, each.mismatch) == ("ok", None, None)
        assert each.steps > 0
        assert each.messages_verified >= 2 * (len(each.both_s) + len(each.exchange_s))
        assert len(each.both_s) == len(each.computation_beside_s) == len(each.exchange_beside_s) == sum(each.visits)
        assert len(each.computation_s) == len(each.computation_alone_s) > 0
        assert all(part <= whole for part, whole in zip(each.computation_beside_s, each.both_s, strict=True))
        assert (each.working_set_bytes > 1 << 26) == (each.computation == "memory")
    rows = list(csv.DictReader(io.StringIO(done.out)))
    assert [(row["computation"], row["size_bytes"]) for row in rows] == [
        (limit, size) for limit in LIMITS for size in ("1", "100000")
    ]


@pytest.mark.slow
@pytest.mark.parametrize("words", [("--progress-calls", "3"), ("--iterations", "3"), ("--no-verify",)])
def test_other_ways_to_measure(volley: Command, words: tuple[str, ...]) -> None:
    quick = QUICK[:2] if "--iterations" in words else QUICK
    (log,) = volley("overlap", "--transport", "host,null", "--sizes", "4k", *quick, *words).records
    assert {(point.transport, point.status) for point in log.of(OverlapPoint)} == {("host", "ok"), ("null", "ok")}
    verified = {point.messages_verified > 0 for point in log.of(OverlapPoint) if point.transport == "host"}
    assert verified == {"--no-verify" not in words}


def test_a_broken_exchange_is_found(volley: Command) -> None:
    done = volley(
        "overlap", "--transport", "host+flip,host+echo", "--sizes", "100", "--computation", "arithmetic", *QUICK
    )
    assert done.code == 1
    (log,) = done.records
    assert [(point.transport, point.status) for point in log.of(OverlapPoint)] == [
        ("host+flip", "failed"),
        ("host+echo", "failed"),
    ]
    assert "differs from what was sent" in done.out


HIDDEN = ("--operation", "allreduce,gatherv", "--ranks", "3", "--sizes", "1,5000", "--computation", "arithmetic")


@pytest.mark.slow
def test_collectives_among_three_ranks_are_timed_and_checked(volley: Command) -> None:
    done = volley("overlap", "--transport", "host", *HIDDEN, *QUICK)
    assert done.code == 0, done.err
    (log,) = done.records
    points = {(each.operation, each.size_bytes): each for each in log.of(OverlapPoint)}
    assert set(points) == {(operation, size) for operation in ("allreduce", "gatherv") for size in (1, 5000)}
    for (operation, size), each in points.items():
        assert each.ranks == [0, 1, 2]
        assert each.status == ("ok" if size > 1 else "skipped")
        assert each.status == "skipped" or each.messages_verified >= len(each.both_s) + len(each.exchange_s)
        assert f"{operation} host beside arithmetic" in {seen.series for seen in observables(log)}


@pytest.mark.slow
def test_a_wrong_collective_is_found_and_one_that_is_a_single_call_left_out(volley: Command) -> None:
    (log,) = volley("overlap", "-t", "host+flip,host+echo,host/persistent,host/put", *HIDDEN, *QUICK).records
    status = {(each.transport, each.operation): each.status for each in log.of(OverlapPoint) if each.size_bytes > 1}
    assert status == {(f"host+{fault}", name): "failed" for fault in ("flip", "echo") for name in HIDDEN[1].split(",")}
    assert {each.transport for each in log.transports if not each.available} == {"host/persistent", "host/put"}


def test_the_usual_transports_are_those_that_can(here: Callable[..., Finished]) -> None:
    plan = json.loads(here("overlap", "--dry-run").out)
    assert plan["transports"] == ["host", "staged/pageable", "staged/pinned", "aware", "peer", "device", "nccl"]


# ---------------------------------------------------------------------------------------------------- the numbers


def result_of(launches: Mapping[int, OverlapPoint], memory: str = "host") -> OverlapResult:
    logs = [log(each, transports=[transport("host", memory=memory)]) for each in launches.values()]
    ((found,),) = [series.points for series in results(logs)]
    return found


@pytest.mark.parametrize(
    ("exchange", "alone", "both", "hidden"),
    [(4.0, 4.0, 8.0, 0.0), (4.0, 4.0, 4.0, 1.0), (4.0, 4.0, 6.0, 0.5), (4.0, 4.0, 10.0, -0.5), (4.0, 2.0, 4.0, 0.5)],
)
def test_hidden_is_the_overlap_of_osu(exchange: float, alone: float, both: float, hidden: float) -> None:
    found = result_of({1: point(exchange, alone, both)})
    assert (found.hidden.median, found.hidden.low, found.hidden.high) == pytest.approx((hidden,) * 3)
    assert (found.short == "nothing hidden") == (hidden < 0)


def test_one_sample_of_each_has_no_interval() -> None:
    once = {name: [each] for name, each in (("exchange_s", 4.0), ("computation_s", 4.0), ("both_s", 6.0))}
    assert result_of({1: point(4.0, 4.0, 6.0, **once)}).hidden == Estimate(0.5, 0.5, 0.5, 1, "single")


def test_times_that_a_clock_could_not_tell_from_nothing_are_left_out() -> None:
    found = result_of({1: point(4.0, 4.0, 6.0, exchange_alone_s=[0.0] * 6 + [4.0])})
    assert found.exchange_slowdown.median == pytest.approx(1.5)


def test_both_at_once_and_the_exchange_alone_are_observables_and_decide_when_a_run_ends() -> None:
    good, damaged = point(1e-3, 1e-3, 2e-3), point(1e-3, 1e-3, 2e-3, exchange_s=[])
    beside, alone = ("host beside memory", [2e-3]), ("host alone (memory)", [1e-3])
    assert [(each.series, each.seconds) for each in observables(RunLog(records=[good]))] == [beside, alone]
    assert [(each.series, each.seconds) for each in observables(RunLog(records=[damaged]))] == [beside]
    assert [each.median for each in times([RunLog(records=[good])] * 3)] == [1e-3, 2e-3]
    assert [each.median for each in times([RunLog(records=[damaged])] * 3)] == [2e-3]


def test_the_interval_is_over_launches_and_a_ratio_is_formed_within_one() -> None:
    """The machine is twice as fast in every second launch, and hides as much."""
    launches = {number: point(*(time / (1 + number % 2) for time in (4.0, 4.0, 6.0))) for number in range(1, 9)}
    found = result_of(launches)
    assert (found.hidden.kind, found.hidden.count) == ("ci", 8)
    assert (found.hidden.low, found.hidden.high) == pytest.approx((0.5, 0.5))
    assert found.exchange.estimate.low < 3 < found.exchange.estimate.high


def points_of(
    times: Mapping[str, tuple[float, float]], sizes: Sequence[int] = (1 << 10, 1 << 20, 1 << 26), **changes: object
) -> list[OverlapPoint]:
    """Points of transports by how long both at once take, beside memory and beside arithmetic."""
    return [
        point(4.0, 4.0, both, transport=name, size_bytes=size, computation=limit, **changes)
        for name, by_limit in times.items()
        for size in sizes
        for limit, both in zip(LIMITS, by_limit, strict=True)
    ]


WRONG = point(4, 4, 6, status="failed", reason="3 of 16 results of the computation are wrong")
SEVEN = (8, 1 << 10, 1 << 14, 1 << 20, 1 << 22, 1 << 24, 1 << 26)
SKIPPED = points_of({"aware": (4.0, 4.0), "peer": (4.0, 4.0)}, status="skipped", reason="no time")
LAUNCHES = [points_of({"host": (both, both)}, SEVEN) for both in (4.0, 4.1, 8.0, 12.0, 4.0, 8.5)]
"""Some launches hide all, others nothing: the interval includes 0 and much more."""

SCREENS = {
    "example": golden("overlap"),
    "computation-of-another-length": [RunLog(run=RUN, records=[point(4, 5, 8), point(4, 32, 36, size_bytes=8)])],
    "wrong-computation": [RunLog(records=[WRONG])],
    "many-points": [RunLog(run=RUN, records=points_of({"aware": (5.0, 5.0), "peer": (4.5, 4.5), "host": (9.0, 9.0)}))],
    "nothing-hidden": [
        RunLog(run=RUN, records=points_of({"host": (9.0, 5.0), "aware": (9.0, 9.0), "peer": (9.0, 9.0)}))
    ],
    "hides-next-to-nothing": [
        RunLog(run=RUN, records=points_of({"host": (both, both)}, SEVEN)) for both in (7.9, 8.1, 7.92, 8.0, 8.05, 8.1)
    ],
    "may-hide-something": [RunLog(run=RUN, records=each) for each in LAUNCHES],
    "few-launches-of-a-size": [
        RunLog(run=RUN, records=[each for each in LAUNCHES[n] if n < 3 or each.size_bytes != SEVEN[-1]])
        for n in range(6)
    ],
    "skipped-for-one-reason": [RunLog(records=SKIPPED)],
}


@pytest.mark.parametrize("name", SCREENS)
def test_screens(name: str) -> None:
    check_formats(f"overlap/{name}", SCREENS[name], "table")
    check_formats(f"overlap/{name}-full", SCREENS[name], "table", details=Details(full=True))


def test_the_interval_of_what_is_hidden_has_the_variation_of_exchange_and_computation() -> None:
    """Both at once take three quarters of one after the other in every launch, but the computation varies."""
    launches = {n: point(4.0, alone, 0.75 * (4.0 + alone)) for n, alone in enumerate((4.0, 5.0, 6.0, 7.0, 8.0, 9.0))}
    hidden = result_of(launches).hidden
    shares = [1 - (0.75 * (4.0 + alone) - alone) / 4.0 for alone in (4.0, 9.0)]
    assert hidden.low <= min(shares) < max(shares) <= hidden.high
    alone = result_of({1: point(4.0, 4.0, 6.0, computation_s=[3.0, 3.2, 3.4, 4.0, 4.6, 4.8, 5.0])}).hidden
    assert alone.kind == "within"
    assert alone.low < 0.4
    assert alone.high > 0.6
