from __future__ import annotations

import csv
import io
import json
from typing import Any

import msgspec
import pytest

from example_records import EXAMPLES, matrix_log, ranks, rows
from volley import blame, matrices, retest
from volley.records import Cell, End, MatrixRow
from volley.records_io import RunLog, read_runs
from volley.report import render

SLOW = {(0, 2): 2.0, (2, 0): 2.0}


def again(logs: list[RunLog], slow: dict[tuple[int, int], float]) -> RunLog:
    """The next launch that measures suspects again: chosen pairs, some repetitions."""
    first = logs[0].run
    assert first is not None
    asked = retest.next_plan(first.plan, logs)
    assert asked is not None
    found = [
        msgspec.structs.replace(
            row, repeat=repeat, cells=[cell for cell in row.cells if [row.rank, cell.rank] in asked.matrix.pairs]
        )
        for repeat in range(asked.matrix.repeats)
        for row in [
            *(rows(4, slow=slow) if asked.matrix.latency_sizes_bytes else ()),
            *(rows(4, "stream", slow=slow) if asked.matrix.bandwidth_sizes_bytes else ()),
        ]
    ]
    log = matrix_log(4, [row for row in found if row.cells])
    assert log.run is not None
    log.run = msgspec.structs.replace(log.run, plan=asked)
    return log


def rounds(first: RunLog, slow: dict[tuple[int, int], float]) -> list[RunLog]:
    """The first launch and all that follow, in which pairs are as slow as that."""
    logs = [first]
    assert first.run is not None
    while retest.next_plan(first.run.plan, logs):
        logs.append(again(logs, slow))
    return logs


def both(slow: dict[tuple[int, int], float]) -> RunLog:
    return matrix_log(4, [*rows(4, slow=slow), *rows(4, "stream", slow=slow)])


def shown(logs: list[RunLog], format_name: str = "table", **how: Any) -> tuple[str, str]:
    out, err = io.StringIO(), io.StringIO()
    render(logs, format_name, out, err=err, **how)
    return out.getvalue(), err.getvalue()


# ---------------------------------------------------------------------------------------------- what is like


def test_kinds_are_by_socket_then_node() -> None:
    one, other = ranks(2)
    far = msgspec.structs.replace(other, sockets=[1])
    assert matrices.kind_of(one, other) == "same socket"
    assert matrices.kind_of(one, far) == "same node"
    assert matrices.kind_of(one, msgspec.structs.replace(other, sockets=[])) == "same node"
    roaming = [msgspec.structs.replace(rank, sockets=[0, 1]) for rank in (one, other)]
    assert matrices.kind_of(*roaming) == "same node"
    assert matrices.kind_of(one, msgspec.structs.replace(far, node=1)) == "off node"


# -------------------------------------------------------------------------------------------- numbers and cells


def test_rows_become_sheets_with_rates() -> None:
    latency, bandwidth = matrices.sheets([both({})])
    assert (latency.exercise, latency.size_bytes, latency.ranks) == ("pingpong", 8, (0, 1, 2, 3))
    assert latency.times[0, 1] == 1e-6
    assert bandwidth.rate_Bps((3, 1)) == pytest.approx((1 << 20) / 1e-6)
    assert set(latency.kinds.values()) == {"same socket"}
    both_ways = matrices.sheets([matrix_log(4, rows(4, "stream", direction="bi"))])[0]
    assert both_ways.rate_Bps((0, 1)) == pytest.approx(2 * (1 << 20) / 1e-6)


def test_a_failed_cell_shows_no_number() -> None:
    log = both({})
    bad = Cell(rank=1, status="failed", reason="one bit differs")
    log.rows[0] = msgspec.structs.replace(log.rows[0], cells=[bad, *log.rows[0].cells[1:]])
    (sheet, _) = matrices.sheets([log])
    assert (0, 1) not in sheet.times
    assert sheet.cells[0, 1].status == "failed"
    out, _ = shown([log])
    assert "FAILED: host at 8 B, rank 0 → 1: one bit differs" in out
    assert [cell for cell in out.splitlines() if cell.split()[:3] == ["0", "·", "FAILED"]]


def test_launches_of_all_pairs_are_taken_together() -> None:
    (sheet,) = matrices.sheets([matrix_log(3, rows(3)), matrix_log(3, rows(3, slow={(0, 1): 3.0}))])
    assert sheet.times[0, 1] == pytest.approx(2e-6)


# --------------------------------------------------------------------------------------------------- who is slow


def changed(log: RunLog, pair: tuple[int, int], repeats: range, **times: float) -> RunLog:
    """A log in which a pair took other times in some repetitions."""
    found = [
        msgspec.structs.replace(
            row,
            cells=[
                msgspec.structs.replace(cell, **times)
                if (row.rank, cell.rank) == pair and row.repeat in repeats
                else cell
                for cell in row.cells
            ],
        )
        if row.repeat in repeats
        else row
        for row in log.rows
    ]
    return RunLog(run=log.run, transports=log.transports, rows=found, end=log.end)


def next_pairs(logs: list[RunLog]) -> list[tuple[int, int]]:
    assert logs[0].run is not None
    asked = retest.next_plan(logs[0].run.plan, logs)
    return [(first, second) for first, second in asked.matrix.pairs] if asked else []


def test_suspects_and_controls_are_measured_in_turn() -> None:
    pairs = next_pairs([both(SLOW)])
    assert {pairs[0], pairs[2]} == {(0, 2), (2, 0)}
    assert len(pairs) == len(set(pairs)) == 2 + blame.CONTROLS
    assert next_pairs([both({})]) == []


def test_what_is_judged_is_the_least_disturbed_time() -> None:
    log = matrix_log(4, rows(4))
    assert next_pairs([changed(log, (0, 1), range(1), median_s=5e-6, low_s=1e-6)]) == []
    assert next_pairs([changed(log, (0, 1), range(1), median_s=5e-6, low_s=2e-6)])[0] == (0, 1)


def test_rounds_end_where_all_is_decided() -> None:
    logs = rounds(both(SLOW), SLOW)
    assert len(logs) == 2  # twelve repetitions that all agree
    assert [sheet.undecided for sheet in matrices.sheets(logs)] == [[], []]


def test_only_what_is_undecided_is_measured_once_more() -> None:
    log = matrix_log(4, [*rows(4, slow=SLOW), *rows(4, "stream", slow={(1, 3): 1.2})])
    logs = [log, changed(again([log], {**SLOW, (1, 3): 1.2}), (1, 3), range(5), median_s=64e-6)]
    assert logs[0].run is not None
    asked = retest.next_plan(logs[0].run.plan, logs)
    assert asked is not None
    assert asked.matrix.pairs[0] == [1, 3]
    assert [2, 0] not in asked.matrix.pairs
    assert asked.matrix.latency_sizes_bytes == []


def test_measuring_again_ends_with_the_last_round_or_the_time() -> None:
    first = matrix_log(4, rows(4, slow=SLOW))
    noisy = changed(again([first], SLOW), (0, 2), range(5), median_s=1e-6)
    assert first.run is not None
    assert retest.next_plan(first.run.plan, [first, *[noisy] * (len(blame.ROUNDS) - 1)]) is not None
    assert retest.next_plan(first.run.plan, [first, *[noisy] * len(blame.ROUNDS)]) is None
    noisy.end = End(status="complete", elapsed_s=blame.LONGEST_S)
    assert retest.next_plan(first.run.plan, [first, noisy]) is None
    out, _ = shown([first, noisy])
    assert (
        "rank 0 → 2 may be slow or may not: 1.00 to 2.00 times as long as like pairs, measured again up to 12 times"
        in out
    )


def test_a_slow_pair_is_named_in_words() -> None:
    log = both(SLOW)
    out, _ = shown(rounds(log, SLOW))
    assert (
        "host at 8 B: rank 0 → 2 takes 2.00 times as long as its 10 like pairs (same socket; measured again 12" in out
    )
    assert "host at 1 MiB: rank 2 → 0 reaches 50 % of what its 10 like pairs reach (same socket" in out


def test_what_measuring_again_does_not_confirm_is_not_blamed() -> None:
    log = both(SLOW)
    out, _ = shown(rounds(log, {}))
    assert "rank 0 → 2, 2 → 0 took longer than like pairs at first, which measuring again did not confirm" in out
    assert "times as long as its" not in out


def test_what_was_not_measured_again_is_no_more_than_a_suspicion() -> None:
    out, _ = shown([both(SLOW)])
    assert "rank 0 → 2 took 2.00 times as long as its 10 like pairs (same socket; not measured again" in out
    assert "reached 50 % of what its 10 like pairs reached" in out


# --------------------------------------------------------------------------------------------------------- output


def test_the_table_is_aligned_and_says_its_units() -> None:
    out, _ = shown([both({(1, 0): 12.3})])
    lines = out.splitlines()
    start = lines.index("host, 8 B: latency in µs, one pair at a time")
    table = lines[start + 2 : start + 8]
    assert table[0].split() == ["rank", "0", "1", "2", "3"]
    assert table[3].split() == ["1", "12.3", "·", "1.00", "1.00"]
    assert len({line.index(".", line.index(" ")) for line in table[3:6]}) == 1  # decimal points in one line
    assert "same socket: 12 pairs, median 1.00, 1.00 to 12.3 µs" in out
    assert "host, 1 MiB: bandwidth in GB/s, one pair at a time" in out
    assert "all verified" in out


def test_colour_is_not_needed() -> None:
    log = both(SLOW)
    colour, _ = shown([log], color=True)
    plain, _ = shown([log], color=False)
    assert "\x1b[31m" in colour
    assert "\x1b" not in plain


def test_a_wide_matrix_is_broken_into_blocks_that_lose_no_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    out, _ = shown([matrix_log(20, rows(20))])
    assert max(map(len, (line for line in out.splitlines() if line.strip()[:1].isdigit()))) <= 60
    assert out.count("1.00") >= 20 * 19


def test_csv_has_a_row_a_pair() -> None:
    log = both(SLOW)
    out, err = shown(rounds(log, SLOW), "csv")
    found = list(csv.DictReader(io.StringIO(out)))
    assert len(found) == 24
    slow = next(row for row in found if (row["first_rank"], row["second_rank"]) == ("0", "2"))
    assert (slow["transport"], slow["kind"], slow["time_us"], slow["blamed"]) == ("host", "same socket", "2", "yes")
    assert float(slow["ratio_again"]) == 2
    assert found[-1]["bandwidth_GBps"] == "1048.576"
    assert err == ""


def test_json_has_the_same_in_si_units() -> None:
    log = both(SLOW)
    (series,) = json.loads(shown(rounds(log, SLOW), "json")[0])["series"]
    latency, bandwidth = series["matrices"]
    pair = next(each for each in latency["pairs"] if each["ranks"] == [0, 2])
    assert pair["half_round_trip_s"] == 2e-6
    assert (pair["blamed"], pair["like_pairs"], pair["again"]["ratio"]) == (True, 10, 2.0)
    assert bandwidth["pairs"][0]["bandwidth_Bps"] == pytest.approx((1 << 20) / 1e-6)


def test_skipped_pairs_are_counted_with_their_reason() -> None:
    log = both({})
    skipped = [Cell(rank=cell.rank, status="skipped", reason="the time was up") for cell in log.rows[3].cells]
    log.rows[3] = msgspec.structs.replace(log.rows[3], cells=skipped)
    out, _ = shown([log])
    assert "host at 8 B skipped rank 3 → 0, 3 → 1, 3 → 2: the time was up" in out


def test_the_golden_example_is_a_matrix_of_four_ranks() -> None:
    logs = read_runs(EXAMPLES / "matrix.jsonl")
    assert all(isinstance(row, MatrixRow) for log in logs for row in log.rows)
    assert {sheet.exercise for sheet in matrices.sheets(logs)} == {"pingpong", "stream"}
    assert all(len(sheet.times) == 12 for sheet in matrices.sheets(logs))
