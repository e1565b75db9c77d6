"""``volley message-rate``: from the command line to the records, and what is made of them."""

import csv
import io

import pytest

from example_records import golden, log, transport
from message_rate_records import PLAN, launches, point
from screens import check_formats
from the_command import DATA_FAULTS, Command
from volley import benchmarks
from volley.benchmarks.message_rate.results import MessageRatePoint, Saturation, results, saturation
from volley.benchmarks.points import jobs as points_jobs
from volley.launch.engine import About, TransportAbout
from volley.records.run_log import RunLog
from volley.report.model import Details
from volley.run import jobs

QUICK = ("--launches", "1", "--point-time", "0.01")


# ------------------------------------------------------------------------------------------------ the whole command


def test_every_number_of_pairs_is_measured_and_verified(volley: Command) -> None:
    words = ("-n", "4", "-t", "host,host/persistent", "--sizes", "8,100k", "--window", "4")
    done = volley("message-rate", *words, *QUICK, "--format", "csv")
    (log,) = done.records
    assert log.complete
    points = [each for each in log.of(MessageRatePoint) if each.transport == "host"]
    expected = [(size, pairs) for size in (8, 102400) for pairs in (1, 2)]
    assert [(each.size_bytes, each.pairs) for each in points] == expected
    for each in log.of(MessageRatePoint):
        assert (each.status, each.mismatch, each.window) == ("ok", None, 4)
        assert each.ranks == [*range(each.pairs), *range(2, 2 + each.pairs)]
        assert len(each.times_s) == len(each.entry_skew_s) == len(each.sender_window_s) == sum(each.visits) > 0
        # No sender takes longer than all of them; one alone takes as long as all.
        shares = [mean / whole for mean, whole in zip(each.sender_window_s, each.times_s, strict=True)]
        assert all(0 < share < 1 + 1e-9 for share in shares)
        assert each.pairs > 1 or shares == pytest.approx([1] * len(shares))
        assert each.pairs == 1 or min(shares) < 1
        assert each.messages_timed == 4 * each.windows_per_sample * len(each.times_s) * each.pairs
        # The last message of each sample, and every message of the windows of the pass, of each pair.
        assert each.compared_counts is not None
        assert each.compared_counts >= 3
        compared = len(each.times_s) + each.compared_counts * each.window + (each.cold_s is not None)
        assert each.messages_verified == compared * each.pairs
        assert (each.cold_s is not None) == (each.size_bytes == 8)
    rows = [row for row in csv.DictReader(io.StringIO(done.out)) if row["transport"] == "host"]
    found = [(int(row["size_bytes"]), int(row["pairs"])) for row in rows if row["verified"] == "yes"]
    assert found == expected


@pytest.mark.parametrize(
    ("words", "gpus", "ranks"),
    [
        ([], 2, 8),
        (["-t", "host"], 2, 8),
        (["-t", "host,aware"], 2, 2),
        (["-t", "aware"], 5, 4),
        (["-t", "aware", "--share-gpu"], 2, 8),
        (["-t", "aware"], 0, 8),
        (["-t", "aware", "--ranks", "6"], 2, 6),
    ],
)
def test_there_is_a_rank_for_each_gpu_that_is_needed(
    monkeypatch: pytest.MonkeyPatch, words: list[str], gpus: int, ranks: int
) -> None:
    """Also with a budget, where nothing can be measured."""
    for module in (jobs, points_jobs):
        monkeypatch.setattr(module, "gpu_count", lambda: gpus)
    monkeypatch.setattr(points_jobs, "cores", lambda: 9)
    names = (("host", "host"), ("aware", "device"))
    about = About(
        cuda_built="13.0",
        transports=tuple(TransportAbout(name=name, summary="", mpi=True, memory=memory) for name, memory in names),
    )
    benchmark, options = benchmarks.read(["message-rate", "--budget", "5", *words])
    described = benchmark.jobs(options, jobs.JobContext(about))
    assert described.planned[0].plan.world_size == ranks


def test_fixed_sampling_measures_one_batch_and_one_sender_alone_takes_as_long_as_all(volley: Command) -> None:
    """Without a warm-up the first window has a clock pair of its own."""
    words = ("-n", "2", "-t", "host", "--sizes", "8", "--window", "4", "--warmup", "0", "--iterations", "7")
    (log,) = volley("message-rate", *words, "--launches", "1").records
    (point,) = log.of(MessageRatePoint)
    assert (point.pairs, point.windows_per_sample, len(point.times_s)) == (1, 7, 1)
    assert point.sender_window_s == pytest.approx(point.times_s)


def test_a_broken_transport_is_found_in_every_pair_and_one_that_a_pair_cannot_open_is_unavailable(
    volley: Command,
) -> None:
    broken = [f"host+{fault}" for fault in ("flip", "lose", "swap", "early", "late")]
    names = ",".join(["host", *broken, "host+unopened"])
    (log,) = volley("message-rate", "-n", "4", "-t", names, "--sizes", "4096", "--window", "4", *QUICK).records
    assert {(each.transport, each.pairs, each.status) for each in log.of(MessageRatePoint)} == {
        *(("host", pairs, "ok") for pairs in (1, 2)),
        *((name, pairs, "failed") for name in broken for pairs in (1, 2)),
    }
    assert [each.transport for each in log.transports if each.reason] == ["host+unopened"]


RANKS_OF = {"fan-in": {1: [0, 1], 2: [0, 1, 2]}, "fan-out": {1: [0, 1], 2: [0, 1, 2]}, "ring": {3: [0, 1, 2]}}


@pytest.mark.slow
@pytest.mark.parametrize("pattern", RANKS_OF)
def test_every_fault_is_found_in_every_pattern(volley: Command, pattern: str) -> None:
    broken = [f"host+{fault}" for fault in DATA_FAULTS]
    words = ("-n", "3", "-t", ",".join(["host", *broken]), "--sizes", "8,4096", "--window", "4", "--pattern", pattern)
    done = volley("message-rate", *words, *QUICK, "--budget", "60")
    (log,) = done.records
    points = log.of(MessageRatePoint)
    assert {(each.transport, each.pairs, tuple(each.ranks), each.status) for each in points} == {
        (name, pairs, tuple(ranks), "ok" if name == "host" else "failed")
        for name in ("host", *broken)
        for pairs, ranks in RANKS_OF[pattern].items()
    }
    assert all(each.messages_verified > len(each.times_s) for each in points if each.transport == "host")
    assert f"volley message-rate · {pattern}" in done.out


# ------------------------------------------------------------------------------------------------------- words


def test_numbers_of_pairs_are_read_and_sorted() -> None:
    _, options = benchmarks.read(["message-rate", "--pairs", "4,1,4"])
    assert options.pairs == (1, 4)


# ------------------------------------------------------------------------------------------------------ numbers


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        ({1: 1e-5, 2: 1e-5, 4: 1e-5}, Saturation(4, None)),  # the total doubles each time
        ({1: 1e-5, 2: 1e-5, 4: 2e-5}, Saturation(2, 2)),
        ({1: 1e-5, 2: 2e-5, 4: 4e-5}, Saturation(1, 1)),
        ({1: 1e-5, 2: 2e-5, 4: 2e-5}, Saturation(4, None)),  # two pairs send no more, four do
        ({1: 1e-5}, None),
    ],
)
def test_saturation_is_where_more_pairs_send_no_more(times: dict[int, float], expected: Saturation | None) -> None:
    ((found),) = results(launches(times))
    assert saturation(found.points) == expected


def test_saturation_is_open_where_intervals_do_not_decide() -> None:
    """From launch to launch the growth from two pairs to four is between 0.9 and 1.2."""
    logs = [
        log(point(1, [1e-5] * 6), point(2, [1e-5] * 6), point(4, [2e-5 * factor] * 6))
        for factor in (0.83, 0.9, 0.95, 1.0, 1.05, 1.1)
    ]
    (found,) = results(logs)
    assert saturation(found.points) == Saturation(2, None)


def test_one_sample_and_launches_with_nothing_in_common_say_nothing_of_saturation() -> None:
    one, two = point(1, [1e-5]), point(2, [2e-5])
    for logs in ([log(one, two)], [log(one), log(two)]):
        (found,) = results(logs)
        assert saturation(found.points) is None


# -------------------------------------------------------------------------------------------------------- report


def many() -> list[RunLog]:
    points = [
        point(pairs, [time * pairs] * 6, size, transport=name)
        for name, time in (("host", 1e-4), ("aware", 2e-4), ("peer", 1e-3), ("nccl", 2e-3))
        for size in (8, 512, 1 << 20)
        for pairs in (1, 2, 4)
    ]
    known = [transport("host"), *(transport(name, memory="device") for name in ("aware", "peer", "nccl"))]
    return [log(*points, the_plan=PLAN, transports=known)]


FAILED = point(2, [], status="failed", reason="it differs")
SCREENS = {
    "six-launches": (launches({1: 1e-5, 2: 1e-5, 4: 2e-5}), Details(full=True)),
    "two-launches": (launches({1: 1e-5, 2: 1.5e-5})[::5], Details()),
    "many": (many(), Details()),
    "many-full": (many(), Details(full=True)),
    "failed": ([log(point(1, [1e-5] * 6), FAILED, the_plan=PLAN)], Details()),
    "example": (golden("message-rate"), Details(full=True)),
}


@pytest.mark.parametrize("name", SCREENS)
def test_screens(name: str) -> None:
    logs, details = SCREENS[name]
    check_formats(
        f"message-rate/{name}", logs, *(("table", "csv") if name == "example" else ("table",)), details=details
    )


def test_times_of_two_runs_are_compared_by_pairs() -> None:
    (log, *_) = golden("message-rate")
    found = {(each.series, *each.at): each for each in benchmarks.named("message_rate").observables(log)}
    assert found["host, 2 pairs, window 64", "8 B"].work == 2 * 64 * 8
