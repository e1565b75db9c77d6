from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from example_records import golden, log, pingpong, plan, stream, transport
from volley.benchmarks import BENCHMARKS
from volley.benchmarks.pingpong.page import line
from volley.command.options import FORMATS
from volley.errors import UserError
from volley.records.plan import Sampling
from volley.records.run_log import RunLog
from volley.run.render import render
from volley.text import join_words

SAMPLES = [1.000e-6, 1.001e-6, 1.002e-6, 1.003e-6, 1.004e-6, 1.005e-6, 1.006e-6]
PROMISED = "transport,size_bytes,samples,latency_us,latency_low_us,latency_high_us,bandwidth_GBps,verified,status"


def rendered(logs: Sequence[RunLog], format_name: str) -> tuple[str, list[str]]:
    out, err = io.StringIO(), io.StringIO()
    render(list(logs), BENCHMARKS, format_name, out, err=err)
    return out.getvalue(), err.getvalue().splitlines()


# ----------------------------------------------------------------------------------------------------- csv


def table(logs: Sequence[RunLog]) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(rendered(logs, "csv")[0])))


def test_the_promised_columns_come_first_and_in_order() -> None:
    assert rendered([log(pingpong(SAMPLES))], "csv")[0].startswith(PROMISED + ",")


def test_a_ping_pong_row() -> None:
    (row,) = table([log(pingpong(SAMPLES, size=1000))])
    assert row["transport"] == "host"
    assert row["size_bytes"] == "1000"
    assert row["samples"] == "7"
    for what in ("latency", "time"):
        assert [float(row[f"{what}{end}_us"]) for end in ("", "_low", "_high")] == [1.003, 1.0, 1.006]
    assert float(row["bandwidth_GBps"]) == pytest.approx(1 / 1.003)
    assert (row["verified"], row["status"], row["interval"], row["ranks"]) == ("yes", "ok", "within", "0-1")


def test_a_stream_row_has_rates_and_no_latency() -> None:
    (row,) = table([log(stream([64e-6] * 6, [128e-6] * 6, size=1000))])
    assert (row["latency_us"], row["direction"], row["window"]) == ("", "bi", "64")
    assert [float(row[name]) for name in ("time_us", "time_low_us", "time_high_us")] == [128.0] * 3  # the slower one
    assert row["of_line_rate"] == ""
    rates = [float(row[f"{name}_GBps"]) for name in ("bandwidth", "forward", "backward")]
    assert rates == pytest.approx([1.0, 1.0, 0.5])


@given(st.sampled_from(["failed", "skipped"]), st.lists(st.floats(1e-9, 1.0), max_size=9))
def test_a_point_that_is_not_good_has_a_row_without_numbers(status: str, samples: list[float]) -> None:
    (row,) = table([log(pingpong(samples, status=status, reason="why, and\nhow"))])
    assert (row["latency_us"], row["bandwidth_GBps"], row["bandwidth_high_GBps"]) == ("", "", "")
    assert (row["status"], row["reason"]) == (status, "why, and how")
    assert row["verified"] == ("no" if status == "failed" else "")


def test_percentiles_have_columns_of_their_own() -> None:
    samples = [number * 1e-6 for number in range(1, 1001)]
    (row,) = table([log(pingpong(samples), the_plan=plan(sampling=Sampling(tail=True)))])
    percentiles = [float(row[name]) for name in ("p90_us", "p99_us", "p99_9_us", "max_us")]
    assert percentiles == pytest.approx([900, 990, 999, 1000])


def test_what_the_rows_cannot_say_goes_to_stderr() -> None:
    _, said = rendered(golden("failed"), "csv")
    assert any(text.startswith("volley: FAILED: corrupt at 4 KiB") for text in said)
    _, said = rendered(golden("pingpong-host"), "csv")
    assert any("aware" in text and "unavailable" in text for text in said)
    assert not any("peak" in text for text in said)


def test_a_probe_gives_its_transports() -> None:
    rows = table(golden("probe"))
    assert [(row["transport"], row["available"]) for row in rows] == [("null", "yes"), ("host", "yes"), ("aware", "no")]


def test_speedups_stand_behind_the_promised_columns_in_rows_that_have_one() -> None:
    quick = [value / 4 for value in SAMPLES]
    slow, fast = table([log(pingpong(SAMPLES, name="staged/pageable"), pingpong(quick, name="aware"))])
    assert [float(fast[name]) for name in ("speedup", "speedup_low", "speedup_high")] == pytest.approx(
        [4, 4 / 1.006, 4 * 1.006]
    )
    assert fast["speedup_over"] == "staged/pageable"
    assert {slow[name] for name in ("speedup", "speedup_low", "speedup_high", "speedup_over")} == {""}


# ---------------------------------------------------------------------------------------------------- json


@pytest.mark.parametrize("name", ["pingpong-host", "stream-bi", "failed", "skipped", "incomplete", "probe", "launches"])
def test_json_is_one_document_without_nan(name: str) -> None:
    text, _ = rendered(golden(name), "json")

    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    document = json.loads(text, parse_constant=refuse)
    assert document["report"] == 2
    assert text.endswith("}\n")


def test_json_has_units_in_its_names() -> None:
    text, _ = rendered([log(pingpong(SAMPLES, size=1000))], "json")
    (series,) = json.loads(text)["series"]
    (row,) = series["data"]
    assert row["latency_us"] == pytest.approx(1.003)
    assert row["bandwidth_GBps"] == pytest.approx(1 / 1.003)
    assert row["verified"] is True
    (run,) = series["runs"]
    assert run["complete"] is True
    assert run["run"]["plan"]["benchmark"] == "pingpong"


def test_json_of_both_directions_names_them() -> None:
    text, _ = rendered([log(stream([64e-6] * 6, [128e-6] * 6, size=1000))], "json")
    row = json.loads(text)["series"][0]["data"][0]
    assert row["forward_GBps"] == pytest.approx(1)
    assert row["backward_GBps"] == pytest.approx(0.5)
    assert row["time_us"] == pytest.approx(128)


def test_json_of_a_failed_point_has_nulls_for_numbers() -> None:
    rows = json.loads(rendered(golden("failed"), "json")[0])["series"][0]["data"]
    failed = next(row for row in rows if row["status"] == "failed")
    assert failed["bandwidth_GBps"] is None
    assert failed["latency_us"] is None
    assert failed["mismatch"]["offset_bytes"] == 17


def test_json_says_that_a_run_is_incomplete() -> None:
    document = json.loads(rendered(golden("incomplete"), "json")[0])
    assert document["series"][0]["runs"][0]["complete"] is False


def test_json_compares_the_transports() -> None:
    sizes = [8 << 3 * step for step in range(7)]
    records = [
        pingpong([(latency + size / bandwidth) * value / SAMPLES[3] for value in SAMPLES], size, name)
        for name, latency, bandwidth in (("staged/pageable", 1e-6, 1e9), ("aware", 2e-6, 1e10))
        for size in sizes
    ]
    (series,) = json.loads(rendered([log(*records)], "json")[0])["series"]
    assert [curve["fit"]["bandwidth_Bps"] for curve in series["curves"]] == pytest.approx([1e9, 1e10])
    assert [curve["fit"]["half_bandwidth_bytes"] for curve in series["curves"]] == pytest.approx([1e3, 2e4])
    assert {(curve["fit"]["poor"], curve["reason"]) for curve in series["curves"]} == {(False, None)}
    (crossover,) = series["crossovers"]
    assert (crossover["faster"], crossover["slower"], crossover["from_bytes"]) == ("aware", "staged/pageable", 4096)
    assert crossover["ranks"] == [0, 1]
    last = series["data"][-1]
    assert last["speedup_over"] == "staged/pageable"
    assert last["speedup_low"] < last["speedup"] < last["speedup_high"]


def test_json_says_why_there_is_no_line() -> None:
    (series,) = json.loads(rendered([log(pingpong(SAMPLES))], "json")[0])["series"]
    (curve,) = series["curves"]
    assert curve["fit"] is None
    assert "at least 5 sizes" in curve["reason"]


# ---------------------------------------------------------------------------------------------------- olcf


@pytest.mark.parametrize(
    "expected",
    [  # as the tutorial shows them
        "Transfer size (B):          8, Transfer Time (s):     0.000000866, Bandwidth (GB/s):     0.008604834\n",
        "Transfer size (B):      65536, Transfer Time (s):     0.000048461, Bandwidth (GB/s):     1.259469903\n",
        "Transfer size (B): 1073741824, Transfer Time (s):     0.022840518, Bandwidth (GB/s):    43.781843371\n",
    ],
)
def test_the_tutorials_line_to_the_character(expected: str) -> None:
    numbers = [part.rpartition(":")[2] for part in expected.split(",")]
    size, bandwidth = int(numbers[0]), float(numbers[2])
    assert line(size, size / 2**30 / bandwidth) == expected


@given(st.integers(1, 2**40), st.floats(1e-9, 1e4))
def test_the_line_is_what_the_tutorials_printf_gives(size: int, time: float) -> None:
    """Python's % follows C's printf for these conversions."""
    gigabytes = float(size) / float(1 << 30)
    template = "Transfer size (B): %10i, Transfer Time (s): %15.9f, Bandwidth (GB/s): %15.9f\n"
    assert line(size, time) == template % (size, time, gigabytes / time)


def test_stdout_has_the_lines_and_nothing_else() -> None:
    text, said = rendered(golden("pingpong-host"), "olcf")
    assert len(text.splitlines()) == 5
    assert all(row.startswith("Transfer size (B): ") for row in text.splitlines())
    assert "volley: no lines for null: this transport sends nothing" in said
    assert any("aware" in row for row in said)


def test_several_transports_follow_each_other_and_stderr_names_the_order() -> None:
    points = [pingpong(SAMPLES, size, name) for size in (64, 8) for name in ("b", "a")]
    text, said = rendered([log(*points, transports=[transport("b"), transport("a")])], "olcf")
    assert [int(row.split()[3].rstrip(",")) for row in text.splitlines()] == [8, 64, 8, 64]
    assert said[0] == "volley: the lines belong to b and a, in this order"


def test_a_failed_point_has_no_line() -> None:
    text, said = rendered(golden("failed"), "olcf")
    assert len(text.splitlines()) == 1
    assert any("FAILED" in row for row in said)


def test_the_fixed_batch_is_the_tutorials_time() -> None:
    (one,) = golden("fixed")
    text, _ = rendered([one], "olcf")
    first = one.records[0].times_s[0]
    assert f"{first:15.9f}" in text.splitlines()[0]


@pytest.mark.parametrize("name", ["stream-uni", "probe"])
def test_olcf_cannot_show_anything_else(name: str) -> None:
    with pytest.raises(UserError, match=f"choose {join_words(FORMATS, 'or')}"):
        rendered(golden(name), "olcf")


@pytest.mark.parametrize("format_name", ["csv", "json", "olcf"])
def test_data_obeys_no_terminal(format_name: str) -> None:
    bad = pingpong(status="skipped", reason="\x1b[2Jx")
    text, said = rendered([log(pingpong(SAMPLES, name="a\x1b[31m"), bad)], format_name)
    assert "\x1b" not in text + "".join(said)
