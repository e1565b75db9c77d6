import math
import re
from collections.abc import Callable

import msgspec
import pytest

from example_records import edited, matrix_log, ranks, rows
from screens import check_formats, shown
from volley.benchmarks.matrix import remeasurement
from volley.benchmarks.matrix.cases import RankMatrixCase, kinds_of_pairs
from volley.benchmarks.matrix.jobs import next_job, next_plan
from volley.benchmarks.matrix.records import RankMatrixRow
from volley.benchmarks.matrix.results import observables, results
from volley.records.plan import OUT_OF_TIME, Plan
from volley.records.record_types import End, Rank
from volley.records.run_log import RunLog
from volley.report.model import Details

SLOW = {(0, 2): 2.0, (2, 0): 2.0}


def cases(*logs: RunLog) -> tuple[RankMatrixCase, ...]:
    (found,) = results(logs)
    return found.rank_cases


def asked_next(logs: list[RunLog]) -> Plan | None:
    return next_plan(logs[0].run.plan, logs)


def again(logs: list[RunLog], slow: dict[tuple[int, int], float]) -> RunLog:
    """The next launch that measures suspects again: chosen pairs, some repetitions."""
    asked = asked_next(logs)
    part = asked.options
    found = [
        edited(row, only=[rank for rank in row.ranks if [row.rank, rank] in part.pairs], repeat=repeat)
        for repeat in range(part.repeats)
        for row in [
            *(rows(4, slow=slow) if part.latency_sizes_bytes else ()),
            *(rows(4, "stream", slow=slow) if part.bandwidth_sizes_bytes else ()),
        ]
    ]
    log = matrix_log(4, [row for row in found if row.medians])
    log.run = msgspec.structs.replace(log.run, plan=asked)
    return log


def rounds(first: RunLog, slow: dict[tuple[int, int], float]) -> list[RunLog]:
    """The first launch and all that follow, in which pairs are as slow as that."""
    logs = [first]
    while asked_next(logs):
        logs.append(again(logs, slow))
    return logs


def both(slow: dict[tuple[int, int], float]) -> RunLog:
    return matrix_log(4, [*rows(4, slow=slow), *rows(4, "stream", slow=slow)])


# ------------------------------------------------------------------------------------------------------- screens


def lost(row: RankMatrixRow, status: str, *, kept: int, reason: str = OUT_OF_TIME) -> RankMatrixRow:
    """The row with all but its last cells lost."""
    return edited(row, **{status: dict.fromkeys(row.ranks[: len(row.ranks) - kept], reason)})


def failed(number: int) -> RunLog:
    """A matrix of which so many pairs failed, and one was skipped."""
    those = rows(4)
    for row in those[:3]:
        bad = row.ranks[: max(0, min(3, number - 3 * row.rank))]
        those[row.rank] = edited(row, failed=dict.fromkeys(bad, "one bit differs"))
    those[3] = edited(those[3], skipped={0: "no memory"})
    return matrix_log(4, those)


def sharing(row: RankMatrixRow) -> RankMatrixRow:
    """The row of four ranks on two GPUs."""
    other = (row.rank + 2) % 4
    first, second = sorted((row.rank, other))
    return edited(row, skipped={other: f"ranks {first} and {second} are on one GPU: --share-gpu allows that"})


def undecided() -> list[RunLog]:
    """A suspect that was as often slow as not when it was measured again, until the time was up."""
    first = matrix_log(4, rows(4, slow=SLOW))
    noisy = changed(again([first], SLOW), (0, 2), range(5), median_s=1e-6)
    noisy.end = End(status="complete", elapsed_s=remeasurement.LONGEST_S)
    return [first, noisy]


def fixed_and_undecided() -> list[RunLog]:
    """The same of batches of ten within a budget: a longer ``--point-time`` would change nothing."""
    logs = undecided()
    for each in logs:
        plan = each.run.plan
        launch = {"asked": [["--iterations", "10"], ["--budget", "5"]]}
        sampling = msgspec.structs.replace(plan.sampling, mode="fixed", iterations=10)
        plan = msgspec.structs.replace(plan, sampling=sampling, launch=launch)
        each.run = msgspec.structs.replace(each.run, plan=plan)
    return logs


def one_socket_uneven() -> RunLog:
    near = {(first, second): 1.3 for first in range(8) for second in range(8) if first // 4 == second // 4}
    return matrix_log(8, rows(8, slow=near))


SCREENS: dict[str, Callable[[], list[RunLog]]] = {
    "whole": lambda: [both({(1, 0): 12.3})],
    "both-ways": lambda: [matrix_log(4, rows(4, "stream", direction="bi"))],
    "several-launches": lambda: [matrix_log(3, rows(3)), matrix_log(3, rows(3, slow={(0, 1): 3.0}))],
    "six-failed": lambda: [failed(6)],
    "eight-failed": lambda: [failed(8)],
    "on-one-gpu": lambda: [matrix_log(4, [sharing(row) for row in rows(4)])],
    "uneven": lambda: [one_socket_uneven()],
    "slow": lambda: rounds(both(SLOW), SLOW),
    "not-confirmed": lambda: rounds(both(SLOW), {}),
    "not-measured-again": lambda: [both(SLOW)],
    "undecided": undecided,
    "undecided-fixed": fixed_and_undecided,
}


@pytest.mark.parametrize("name", SCREENS)
def test_screens(name: str) -> None:
    formats = ("table", "csv") if name == "slow" else ("table",)
    check_formats(f"rank-matrix/{name}", SCREENS[name](), *formats, details=Details(full=True))


@pytest.mark.parametrize(("count", "busy"), [(3, "all ranks but one busy"), (4, "all ranks busy")])
def test_of_an_odd_number_of_ranks_one_is_not_busy(count: int, busy: str) -> None:
    loaded = [msgspec.structs.replace(row, mode="loaded") for row in rows(count)]
    assert f" in µs, {busy}\n" in shown([matrix_log(count, loaded, mode="loaded")], "table")[0]


LARGE = {
    "slow": lambda: rows(20, slow={(3, 5): 2.0}),
    "good": lambda: rows(20),
    "failed": lambda: [lost(row, "failed", kept=1, reason="wrong bytes") for row in rows(20)],
    "some-skipped": lambda: [lost(row, "skipped", kept=1) for row in rows(20)],
    "all-skipped": lambda: [lost(row, "skipped", kept=0) for row in rows(20)],
}


@pytest.mark.parametrize("name", LARGE)
def test_a_large_matrix_is_called_fine_only_where_pairs_were_compared_and_none_failed(name: str) -> None:
    check_formats(f"rank-matrix/large-{name}", [matrix_log(20, LARGE[name]())], "table")


def test_all_pairs_are_named_that_a_table_shows_as_slow() -> None:
    slow = {(3, 2): 1.74, (1, 0): 1.06, (0, 1): 1.05, (2, 1): 1.045, (0, 2): 1.035}
    out, _ = shown([matrix_log(4, rows(4, slow=slow))])
    assert "rank 3 → 2, 1 → 0, 0 → 1 and 2 → 1 took 1.04 to 1.74 times as long" in " ".join(out.split())


# ---------------------------------------------------------------------------------------------- kinds of pairs


def kind_of(*placed: Rank) -> str:
    """The kind of the pair of two ranks."""
    log = matrix_log(2, rows(2))
    log.run = msgspec.structs.replace(log.run, ranks=list(placed))
    return cases(log)[0].kinds.kind((0, 1))


def test_kinds_are_by_socket_then_node() -> None:
    one, other = ranks(2)
    far = msgspec.structs.replace(other, sockets=[1])
    assert kind_of(one, other) == "same socket"
    assert kind_of(one, far) == "same node"
    assert kind_of(one, msgspec.structs.replace(other, sockets=[])) == "same node"
    roaming = [msgspec.structs.replace(rank, sockets=[0, 1]) for rank in (one, other)]
    assert kind_of(*roaming) == "same node"
    assert kind_of(one, msgspec.structs.replace(far, node=1)) == "off node"
    assert kind_of(one) == "unknown"


def test_a_cache_is_a_kind_where_a_socket_has_several() -> None:
    def kinds(*caches: list[int]) -> list[str]:
        placed = {
            rank.rank: msgspec.structs.replace(rank, caches=each) for rank, each in zip(ranks(4), caches, strict=True)
        }
        found = kinds_of_pairs(range(4), placed)
        return [found.kind(pair) for pair in ((0, 1), (0, 2), (0, 3), (2, 3))]

    same, other = "same cache", "same socket"
    assert kinds([0], [0], [8], [8]) == [same, other, other, same]
    assert kinds([0], [8], [0], [16]) == [other, same, other, other]
    assert kinds([0], [0], [0], [0]) == [other] * 4
    assert kinds([0], [0], [], [0, 8]) == [same, other, other, other]
    assert kinds([], [], [], []) == [other] * 4


def test_a_numa_node_is_a_kind_where_a_socket_has_several() -> None:
    def kinds(numa_nodes: list[int], caches: list[int]) -> list[str]:
        placed = {
            rank.rank: msgspec.structs.replace(rank, numa_nodes=[numa_node], caches=[cache])
            for rank, numa_node, cache in zip(ranks(4), numa_nodes, caches, strict=True)
        }
        found = kinds_of_pairs(range(4), placed)
        return [found.kind(pair) for pair in ((0, 1), (0, 2), (0, 3), (2, 3))]

    cache, numa_node, socket = "same cache", "same NUMA node", "same socket"
    assert kinds([0, 0, 0, 16], [0, 0, 8, 16]) == [cache, numa_node, socket, socket]
    assert kinds([0, 0, 16, 16], [0, 0, 0, 0]) == [numa_node, socket, socket, numa_node]
    assert kinds([0, 0, 16, 16], [0, 0, 16, 16]) == [cache, socket, socket, cache]
    assert kinds([0, 0, 0, 0], [0, 0, 8, 8]) == [cache, socket, socket, cache]


# --------------------------------------------------------------------------------------------------- who is slow


def changed(log: RunLog, pair: tuple[int, int], repeats: range, median_s: float, low_s: float | None = None) -> RunLog:
    """A log in which a pair took other times in some repetitions."""
    found = [
        edited(row, times={pair[1]: (median_s, low_s)})
        if row.rank == pair[0] and pair[1] in row.ranks and row.repeat in repeats
        else row
        for row in log.records
    ]
    return RunLog(run=log.run, transports=log.transports, records=found, end=log.end)


def next_pairs(logs: list[RunLog]) -> list[tuple[int, int]]:
    asked = asked_next(logs)
    return [(first, second) for first, second in asked.options.pairs] if asked else []


def test_suspects_and_controls_are_measured_in_turn() -> None:
    pairs = next_pairs([both(SLOW)])
    assert {pairs[0], pairs[2]} == {(0, 2), (2, 0)}
    assert len(pairs) == len(set(pairs)) == 2 + remeasurement.CONTROLS
    assert next_pairs([both({})]) == []
    fast = {(1, 3): 0.7, (3, 1): 0.7}  # as far from the others as what is slow is no control
    assert not fast.keys() & set(next_pairs([both({**SLOW, **fast})]))


def test_what_is_judged_is_the_least_disturbed_time() -> None:
    log = matrix_log(4, rows(4))
    assert next_pairs([changed(log, (0, 1), range(1), median_s=5e-6, low_s=1e-6)]) == []
    assert next_pairs([changed(log, (0, 1), range(1), median_s=5e-6, low_s=2e-6)])[0] == (0, 1)


def test_only_what_is_undecided_is_measured_once_more() -> None:
    log = matrix_log(4, [*rows(4, slow=SLOW), *rows(4, "stream", slow={(1, 3): 1.2})])
    measured = again([log], {**SLOW, (1, 3): 1.2})
    assert [2, 0] in asked_next([log, measured]).options.pairs  # one launch does not tell what lasts
    logs = [log, measured, changed(measured, (1, 3), range(5), median_s=64e-6)]
    asked = asked_next(logs)
    assert asked.options.pairs[0] == [1, 3]
    assert [2, 0] not in asked.options.pairs
    assert asked.options.latency_sizes_bytes == []


def test_measuring_again_ends_with_the_last_round_or_the_time() -> None:
    first = matrix_log(4, rows(4, slow=SLOW))
    noisy = changed(again([first], SLOW), (0, 2), range(5), median_s=1e-6)
    assert asked_next([first, *[noisy] * (len(remeasurement.ROUNDS) - 1)]) is not None
    assert asked_next([first, *[noisy] * len(remeasurement.ROUNDS)]) is None
    noisy.end = End(status="complete", elapsed_s=remeasurement.LONGEST_S)
    assert asked_next([first, noisy]) is None


# --------------------------------------------------------------------------------------------------------- output


def test_a_visit_that_the_budget_left_out_is_no_visit() -> None:
    log = matrix_log(4, [*rows(4), *rows(4, repeat=1)])
    late = log.records[4]
    log.records[4] = edited(late, skipped=dict.fromkeys(late.ranks, "the time was up"))
    (case,) = cases(log)
    assert (0, 1) not in case.unmeasured
    assert case.times[0, 1] == 1e-6


def test_a_row_is_compared_as_a_whole_by_the_median_of_its_visits() -> None:
    log = matrix_log(4, [*rows(4), *rows(4, slow={(0, 1): 3.0, (0, 2): 3.0}, repeat=1)])
    log.records[0] = edited(log.records[0], only=log.records[0].ranks[1:])
    first, *others = observables(log)
    assert (first.series, first.at) == ("host, pingpong, isolated at 8 B", ("0 → 1", "0 → 2", "0 → 3"))
    assert first.seconds == pytest.approx([3e-6, 2e-6, 1e-6])
    assert [each.at[0] for each in others] == ["1 → 0", "2 → 0", "3 → 0"]


# ------------------------------------------------------------------------------------------------- the next job


def said_next(logs: list[RunLog], *, inside_launcher: bool = False) -> tuple[bool, list[str]]:
    said: list[str] = []
    budget_s = (logs[0].run.plan.budget_s if logs and logs[0].run else None) or math.inf
    left_s = budget_s - sum(log.end.elapsed_s for log in logs if log.end)
    job = next_job(logs, left_s, said.append, inside_launcher=inside_launcher)
    return job is not None, said + ([job.note] if job and job.note else [])


def test_slow_pairs_are_measured_again_in_a_job_of_their_own() -> None:
    first = both(SLOW)
    there, (note,) = said_next([first])
    assert there
    assert re.match("measuring 7 pairs again, 12 times, about .*: those slower than comparable pairs", note)
    assert said_next([both({})]) == (False, [])


def test_no_second_job_without_time_records_or_a_launcher_of_our_own() -> None:
    first = both(SLOW)
    assert said_next([first], inside_launcher=True)[0] is False
    assert "a launcher started this job" in said_next([first], inside_launcher=True)[1][0]
    first.run = msgspec.structs.replace(first.run, plan=msgspec.structs.replace(first.run.plan, budget_s=0.5))
    assert said_next([first]) == (False, ["the time budget is too short to measure slow pairs again"])
    first.end = None
    assert said_next([first]) == (False, [])
