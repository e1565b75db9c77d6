from __future__ import annotations

import csv
import io
import json
import re
from typing import Any

import msgspec
import pytest

from example_records import RankMatrixCell, cells_of, golden, matrix_log, ranks, rows, with_cells
from volley.benchmarks import BENCHMARKS
from volley.benchmarks.matrix import slow_pairs
from volley.benchmarks.matrix.rank_jobs import next_job, next_plan
from volley.benchmarks.matrix.rank_records import RankMatrixRow
from volley.benchmarks.matrix.results import RankMatrixCase, observables, results
from volley.report.model import Details
from volley.run.plan import Plan
from volley.run.records import End, Rank
from volley.run.render import render
from volley.run.run_log import RunLog

SLOW = {(0, 2): 2.0, (2, 0): 2.0}


def cases(*logs: RunLog) -> tuple[RankMatrixCase, ...]:
    (found,) = results(logs)
    return found.cases


def asked_next(logs: list[RunLog]) -> Plan | None:
    assert logs[0].run is not None
    return next_plan(logs[0].run.plan, logs)


def again(logs: list[RunLog], slow: dict[tuple[int, int], float]) -> RunLog:
    """The next launch that measures suspects again: chosen pairs, some repetitions."""
    asked = asked_next(logs)
    assert asked is not None
    part = asked.options
    found = [
        with_cells(row, [cell for cell in cells_of(row) if [row.rank, cell.rank] in part.pairs], repeat=repeat)
        for repeat in range(part.repeats)
        for row in [
            *(rows(4, slow=slow) if part.latency_sizes_bytes else ()),
            *(rows(4, "stream", slow=slow) if part.bandwidth_sizes_bytes else ()),
        ]
    ]
    log = matrix_log(4, [row for row in found if row.medians])
    assert log.run is not None
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


def shown(logs: list[RunLog], format_name: str = "table", **how: Any) -> tuple[str, str]:
    out, err = io.StringIO(), io.StringIO()
    render(logs, BENCHMARKS, format_name, out, err=err, **how)
    return out.getvalue(), err.getvalue()


# ---------------------------------------------------------------------------------------------- kinds of pairs


def kind_of(*placed: Rank) -> str:
    """The kind of the pair of two ranks."""
    log = matrix_log(2, rows(2))
    assert log.run is not None
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


# -------------------------------------------------------------------------------------------- numbers and cells


def test_rows_become_cases_with_rates() -> None:
    latency, bandwidth = cases(both({}))
    assert (latency.row.pattern, latency.row.size_bytes, latency.firsts) == ("pingpong", 8, (0, 1, 2, 3))
    assert latency.times[0, 1] == 1e-6
    assert bandwidth.rate_Bps((3, 1)) == pytest.approx((1 << 20) / 1e-6)
    assert {latency.kinds.kind(pair) for pair in latency.times} == {"same socket"}
    (both_ways,) = cases(matrix_log(4, rows(4, "stream", direction="bi")))
    assert both_ways.rate_Bps((0, 1)) == pytest.approx(2 * (1 << 20) / 1e-6)


def test_a_failed_cell_shows_no_number() -> None:
    log = both({})
    bad = RankMatrixCell(rank=1, status="failed", reason="one bit differs")
    log.records[0] = with_cells(log.records[0], [bad, *cells_of(log.records[0])[1:]])
    (case, _) = cases(log)
    assert (0, 1) not in case.times
    assert case.unmeasured[0, 1].status == "failed"
    out, _ = shown([log])
    assert "FAILED: host at 8 B, rank 0 → 1: one bit differs" in out
    assert [cell for cell in out.splitlines() if cell.split()[:3] == ["0", "·", "FAILED"]]


@pytest.mark.parametrize(("lost", "more"), [(6, ""), (8, "host at 8 B: 2 pairs more (--format csv names them)")])
def test_a_few_failed_pairs_are_named_and_a_skipped_cell_is_a_dash(lost: int, more: str) -> None:
    cells = {row.rank: cells_of(row) for row in rows(4)}
    for number in range(lost):
        first, place = divmod(number, 3)
        cells[first][place] = RankMatrixCell(rank=cells[first][place].rank, status="failed", reason="one bit differs")
    cells[3][0] = RankMatrixCell(rank=0, status="skipped", reason="no memory")
    out, _ = shown([matrix_log(4, [with_cells(row, cells[row.rank]) for row in rows(4)])])
    assert len(re.findall(r"host at 8 B, rank \d → \d: one bit differs", out)) == 6
    assert more in out
    assert ("more (--format csv" in out) == bool(more)
    assert [line for line in out.splitlines() if line.split()[:2] == ["3", "–"]]
    assert "host at 8 B skipped rank 3 → 0: no memory" in out


def test_a_kind_of_which_many_pairs_are_slow_is_called_uneven() -> None:
    slow = {(first, second): 1.3 for first in range(8) for second in range(8) if first // 4 == second // 4}
    out, _ = shown([matrix_log(8, rows(8, slow=slow))])
    assert "pairs of the kind 'same socket' vary too much to blame single ones: 24 pairs took over 4.0 % longer" in out


def test_launches_of_all_pairs_are_taken_together() -> None:
    (case,) = cases(matrix_log(3, rows(3)), matrix_log(3, rows(3, slow={(0, 1): 3.0})))
    assert case.times[0, 1] == pytest.approx(2e-6)


# --------------------------------------------------------------------------------------------------- who is slow


def changed(log: RunLog, pair: tuple[int, int], repeats: range, **times: float) -> RunLog:
    """A log in which a pair took other times in some repetitions."""
    found = [
        with_cells(
            row,
            [
                msgspec.structs.replace(cell, **times)
                if (row.rank, cell.rank) == pair and row.repeat in repeats
                else cell
                for cell in cells_of(row)
            ],
        )
        if row.repeat in repeats
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
    assert len(pairs) == len(set(pairs)) == 2 + slow_pairs.CONTROLS
    assert next_pairs([both({})]) == []


def test_what_is_judged_is_the_least_disturbed_time() -> None:
    log = matrix_log(4, rows(4))
    assert next_pairs([changed(log, (0, 1), range(1), median_s=5e-6, low_s=1e-6)]) == []
    assert next_pairs([changed(log, (0, 1), range(1), median_s=5e-6, low_s=2e-6)])[0] == (0, 1)


def test_rounds_end_where_all_is_decided() -> None:
    logs = rounds(both(SLOW), SLOW)
    assert len(logs) == 2  # twelve repetitions that all agree
    assert [case.undecided for case in cases(*logs)] == [[], []]


def test_only_what_is_undecided_is_measured_once_more() -> None:
    log = matrix_log(4, [*rows(4, slow=SLOW), *rows(4, "stream", slow={(1, 3): 1.2})])
    logs = [log, changed(again([log], {**SLOW, (1, 3): 1.2}), (1, 3), range(5), median_s=64e-6)]
    asked = asked_next(logs)
    assert asked is not None
    assert asked.options.pairs[0] == [1, 3]
    assert [2, 0] not in asked.options.pairs
    assert asked.options.latency_sizes_bytes == []


def test_measuring_again_ends_with_the_last_round_or_the_time() -> None:
    first = matrix_log(4, rows(4, slow=SLOW))
    noisy = changed(again([first], SLOW), (0, 2), range(5), median_s=1e-6)
    assert asked_next([first, *[noisy] * (len(slow_pairs.ROUNDS) - 1)]) is not None
    assert asked_next([first, *[noisy] * len(slow_pairs.ROUNDS)]) is None
    noisy.end = End(status="complete", elapsed_s=slow_pairs.LONGEST_S)
    assert asked_next([first, noisy]) is None
    out, _ = shown([first, noisy])
    assert (
        "rank 0 → 2 may or may not be slow: 1.00 to 2.00 times as long as comparable pairs, "
        "measured again up to 12 times" in out
    )


def test_a_slow_pair_is_named_in_words() -> None:
    log = both(SLOW)
    out, _ = shown(rounds(log, SLOW))
    assert (
        "host at 8 B: rank 0 → 2 takes 2.00 times as long as its 10 comparable pairs (same socket; measured again 12"
        in out
    )
    assert "host at 1 MiB: rank 2 → 0 reaches 50 % of what its 10 comparable pairs reach (same socket" in out


def test_what_measuring_again_does_not_confirm_is_not_flagged() -> None:
    log = both(SLOW)
    out, _ = shown(rounds(log, {}))
    assert "rank 0 → 2 and 2 → 0 took longer than comparable pairs at first; measuring again did not confirm it" in out
    assert "times as long as its" not in out


def test_what_was_not_measured_again_is_no_more_than_a_suspicion() -> None:
    out, _ = shown([both(SLOW)])
    assert (
        "rank 0 → 2 took 2.00 times as long as its 10 comparable pairs (same socket; not confirmed: not measured again"
        in out
    )
    assert "reached 50 % of what its 10 comparable pairs reached" in out


# --------------------------------------------------------------------------------------------------------- output


def test_the_table_is_aligned_and_says_its_units() -> None:
    out, _ = shown([both({(1, 0): 12.3})])
    lines = out.splitlines()
    start = lines.index("host, 8 B: latency in µs, one pair at a time")
    table = lines[start + 1 : start + 7]
    assert table[0].split() == ["rank", "0", "1", "2", "3"]
    assert table[3].split() == ["1", "12.3", "·", "1.00", "1.00"]
    assert len({line.index(".", line.index(" ")) for line in table[3:6]}) == 1  # decimal points in one line
    assert re.search(r"^host at 8 B +12 +1.00 +1.00 +12.3 +µs$", out, re.MULTILINE)
    assert "host, 1 MiB: bandwidth in GB/s, one pair at a time" in out
    assert "all verified" in out


def test_colour_is_not_needed() -> None:
    log = both(SLOW)
    colour, _ = shown([log], details=Details(color=True))
    plain, _ = shown([log])
    assert "\x1b[31m" in colour
    assert "\x1b" not in plain


def test_a_wide_matrix_is_broken_into_blocks_that_lose_no_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    out, _ = shown([matrix_log(20, rows(20))], details=Details(full=True))
    assert max(map(len, (line for line in out.splitlines() if line.strip()[:1].isdigit()))) <= 60
    assert out.count("1.00") >= 20 * 19


def test_a_large_matrix_is_its_summary_and_its_slow_pairs() -> None:
    out, _ = shown([matrix_log(20, rows(20, slow={(3, 5): 2.0}))])
    assert len(out.splitlines()) <= 20
    assert re.search(r"^host at 8 B +380 +1.00 +1.00 +2.00 +µs$", out, re.MULTILINE)
    assert re.search(r"^  SLOW\? +host at 8 B: rank 3 → 5 took 2.00 times as long", out, re.MULTILINE)
    fine, _ = shown([matrix_log(20, rows(20))])
    assert "  OK      no slow pair found: 380 pairs were compared with comparable ones" in fine


def lost(row: RankMatrixRow, status: str, *, kept: int) -> RankMatrixRow:
    """The row with all but its last cells lost."""
    cells, reason = cells_of(row), "wrong bytes" if status == "failed" else "the time budget is used up"
    gone = [RankMatrixCell(rank=cell.rank, status=status, reason=reason) for cell in cells[: len(cells) - kept]]
    return with_cells(row, [*gone, *cells[len(gone) :]])


def test_a_large_matrix_is_called_fine_only_where_pairs_were_compared_and_none_failed() -> None:
    one_each = rows(20)
    failed, _ = shown([matrix_log(20, [lost(row, "failed", kept=1) for row in one_each])])
    assert "  BROKEN  360 pairs failed" in failed
    assert "  OK " not in failed
    some, _ = shown([matrix_log(20, [lost(row, "skipped", kept=1) for row in one_each])])
    assert "  OK      no slow pair found: 20 of 380 pairs were compared with comparable ones" in some
    none, _ = shown([matrix_log(20, [lost(row, "skipped", kept=0) for row in one_each])])
    assert "  OK " not in none


def test_csv_has_a_row_a_pair() -> None:
    log = both(SLOW)
    out, err = shown(rounds(log, SLOW), "csv")
    found = list(csv.DictReader(io.StringIO(out)))
    assert len(found) == 24
    slow = next(row for row in found if (row["first_rank"], row["second_rank"]) == ("0", "2"))
    assert (slow["transport"], slow["kind"], slow["time_us"], slow["flagged"]) == ("host", "same socket", "2", "yes")
    assert float(slow["ratio_again"]) == 2
    assert found[-1]["bandwidth_GBps"] == "1048.576"
    assert err == ""


def test_json_has_the_same_and_more() -> None:
    log = both(SLOW)
    (series,) = json.loads(shown(rounds(log, SLOW), "json")[0])["series"]
    pairs = {(row["pattern"], row["first_rank"], row["second_rank"]): row for row in series["data"]}
    slow = pairs["pingpong", 0, 2]
    assert slow["time_us"] == pytest.approx(2)
    assert (slow["flagged"], slow["comparable_pairs"], slow["ratio_again"]) == (True, 10, 2.0)
    assert pairs["stream", 0, 1]["bandwidth_GBps"] == pytest.approx((1 << 20) / 1e-6 / 1e9)


def test_skipped_pairs_are_counted_with_their_reason() -> None:
    log = both({})
    skipped = [
        RankMatrixCell(rank=cell.rank, status="skipped", reason="the time was up") for cell in cells_of(log.records[3])
    ]
    log.records[3] = with_cells(log.records[3], skipped)
    out, _ = shown([log])
    assert "host at 8 B skipped rank 3 → 0, 3 → 1 and 3 → 2: the time was up" in out


def test_a_visit_that_the_budget_left_out_is_no_visit() -> None:
    log = matrix_log(4, [*rows(4), *rows(4, repeat=1)])
    late = log.records[4]
    left_out = [RankMatrixCell(rank=cell.rank, status="skipped", reason="the time was up") for cell in cells_of(late)]
    log.records[4] = with_cells(late, left_out)
    (case,) = cases(log)
    assert (0, 1) not in case.unmeasured
    assert case.times[0, 1] == 1e-6


def test_a_row_is_compared_as_a_whole_by_the_median_of_its_visits() -> None:
    log = matrix_log(4, [*rows(4), *rows(4, slow={(0, 1): 3.0, (0, 2): 3.0}, repeat=1)])
    log.records[0] = with_cells(log.records[0], cells_of(log.records[0])[1:])
    first, *others = observables(log)
    assert (first.series, first.at) == ("host, pingpong, isolated at 8 B", ("0 → 1", "0 → 2", "0 → 3"))
    assert first.seconds == pytest.approx([3e-6, 2e-6, 1e-6])
    assert [each.at[0] for each in others] == ["1 → 0", "2 → 0", "3 → 0"]


def test_the_golden_example_is_a_matrix_of_four_ranks() -> None:
    logs = golden("rank-matrix")
    assert all(isinstance(row, RankMatrixRow) for log in logs for row in log.records)
    assert {case.row.pattern for case in cases(*logs)} == {"pingpong", "stream"}
    assert all(len(case.times) == 12 for case in cases(*logs))


# ------------------------------------------------------------------------------------------------- the next job


def said_next(logs: list[RunLog], *, inside_launcher: bool = False) -> tuple[bool, list[str]]:
    said: list[str] = []
    job = next_job(
        logs, sum(log.end.elapsed_s for log in logs if log.end), said.append, inside_launcher=inside_launcher
    )
    return job is not None, said + ([job.note] if job and job.note else [])


def test_slow_pairs_are_measured_again_in_a_job_of_their_own() -> None:
    first = both(SLOW)
    there, (note,) = said_next([first])
    assert there
    assert note.startswith("measuring 7 pairs again, 12 times: those slower than comparable pairs")
    assert said_next([both({})]) == (False, [])


def test_no_second_job_without_time_records_or_a_launcher_of_our_own() -> None:
    first = both(SLOW)
    assert said_next([first], inside_launcher=True)[0] is False
    assert "a launcher started this job" in said_next([first], inside_launcher=True)[1][0]
    assert first.run is not None
    first.run = msgspec.structs.replace(first.run, plan=msgspec.structs.replace(first.run.plan, budget_s=0.5))
    assert said_next([first]) == (False, ["the time budget is too short to measure slow pairs again"])
    first.end = None
    assert said_next([first]) == (False, [])
