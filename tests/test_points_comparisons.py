"""What stands below the measured tables; the committed records of two H200s are the golden example."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import pytest

from example_records import log, pingpong, transport
from volley.benchmarks import BENCHMARKS
from volley.benchmarks.pingpong.records import PingPong
from volley.records.records_file import read_runs
from volley.records.run_log import RunLog
from volley.report.model import Details
from volley.run.render import render

RECORDS = Path(__file__).parent.parent / "results" / "h200-x2"
SPREAD = [0.997, 0.998, 0.999, 1.0, 1.001, 1.002, 1.003]
SIZES = [8 << 3 * step for step in range(7)]


@lru_cache
def h200(name: str) -> tuple[RunLog, ...]:
    return tuple(read_runs(RECORDS / f"{name}.jsonl", BENCHMARKS))


ALL = (Details(full=True), Details(fit=True), Details(notes=True))


def shown(*logs: RunLog, some: Sequence[Details] = ALL) -> str:
    out = io.StringIO()
    for details in some:
        render(list(logs), BENCHMARKS, "table", out, details=details)
    return out.getvalue()


def below(text: str, start: str) -> list[str]:
    """The lines from the one that starts so, without warnings."""
    lines = text[re.search(rf"^{start}", text, re.MULTILINE).start() :].splitlines()  # type: ignore[union-attr]
    return [line.rstrip() for line in lines if not re.search("not reached|drifted|interrupted", line)]


def points(name: str, latency: float, bandwidth: float) -> list[PingPong]:
    return [pingpong([(latency + size / bandwidth) * factor for factor in SPREAD], size, name) for size in SIZES]


@pytest.fixture(autouse=True)
def _eighty_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")


# ------------------------------------------------------------------------------------------- two H200s


def test_speedups_of_the_h200s_fit_80_columns_and_start_and_end_as_measured() -> None:
    table = below(shown(*h200("pingpong-all")), "latency: ")[2 : 2 + 3 + 1 + 28 + 1]
    assert all(len(line) <= 80 for line in table[:-1])
    assert table[0].split() == ["staged/", "staged/", "staged/"]
    assert table[1].split() == ["pinned", "pipelined", "shared*", "aware", "peer*", "device*", "nccl*"]
    assert table[4].split() == ["8", "B", "1.25", "1.20", "1.28", "~0.988", "2.43", "24.7", "2.70"]
    assert table[31].split() == ["1", "GiB", "1.71", "3.56", "21.6", "158", "159", "143", "148"]
    assert table[32].startswith(
        "×: speed-up over staged/pageable within one launch; ~: the difference is not significant"
    )
    assert table[32].endswith("* not MPI")


LINES = """\
                       t(n) = α + n/β                    off by
                         α       β              median  worst
transport               µs    GB/s       α·β         %      %       at
────────────────────────────────────────────────────────────────────────────
host                 0.471    8.80  4.04 KiB      28    100    512 KiB  poor
staged/pageable     19.5      2.17  41.4 KiB       5.8   14      1 GiB
staged/pinned       15.4      5.19  78.1 KiB       6.0   27    512 MiB  poor
staged/pipelined    15.2      7.72   115 KiB       7.6   31    128 KiB  poor
staged/shared*      15.1     50.0    738 KiB       5.2   29    512 KiB  poor
aware               10.0    389     3.72 MiB       5.2   49      256 B  poor
peer*                7.49   390     2.78 MiB       2.8    8.5     16 B
device*              0.819  348      278 KiB      12     58     16 KiB  poor
nccl*                6.90   325     2.14 MiB       9.2   34      1 MiB  poor
"""


def test_the_lines_of_the_h200s_and_how_well_they_fit() -> None:
    text = shown(*h200("pingpong-all"))
    assert below(text, r" +t\(n\) = α")[:13] == LINES.splitlines()
    assert "α·β: the size that moves at half of β; poor: off by more than 25 % at some size" in text


FINDINGS = """\
fastest between buffers in GPU memory, within one launch: device from 8 B, peer from 32 MiB, aware or peer \
from 512 MiB, peer from 1 GiB (or: the difference is not significant)
staged/shared overtakes staged/pinned again at 32 B, within one launch
aware overtakes staged/pinned, staged/pipelined and staged/shared at 4 KiB, nccl at 512 KiB, device at 32 MiB, \
within one launch
peer overtakes nccl again at 16 KiB, device at 32 MiB, within one launch
staged/pipelined overtakes staged/pinned again at 512 KiB, within one launch
nccl overtakes device at 512 MiB, within one launch
"""


def test_the_crossovers_of_the_h200s() -> None:
    text = shown(*h200("pingpong-all"))
    assert below(text, "fastest")[:6] == FINDINGS.splitlines()
    assert "aware: 18.0 µs at 8 B, peak 393 GB/s at 1 GiB, 82 % of line rate, N½ 4.37 MiB" in text


def test_streams_of_the_h200s_have_speedups_and_no_line() -> None:
    for name in ("stream-uni", "stream-bi"):
        text = shown(*h200(name))
        assert "×: speed-up over staged/pageable" in text
        assert "α" not in text
        assert "where nothing is sent" not in text  # of a stream of nothing there is no latency to tell
    assert "aware overtakes staged/pinned and staged/pipelined again at 8 KiB" in shown(*h200("stream-uni"))


# ------------------------------------------------------------------------------------------ small examples


def test_a_single_curve_is_told_in_a_sentence() -> None:
    text = shown(log(*points("host", 1e-6, 1e9)))
    assert "host: t(n) = 1.00 µs + n / (1.00 GB/s), α·β = 1000 B, is off by 0" in text
    assert "transport" not in shown(log(*points("host", 1e-6, 1e9)), some=ALL[::2])


def test_a_poor_line_is_not_worth_a_sentence() -> None:
    two_ways = points("host", 1e-6, 1e9)
    two_ways[1] = pingpong([2e-6 * factor for factor in SPREAD], SIZES[1], "host")
    assert "t(n)" not in shown(log(*two_ways), some=ALL[::2])
    assert re.search(r"^host .* poor$", shown(log(*two_ways), some=ALL[1:2]), re.MULTILINE)  # if it is asked for


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("stream-uni", "a stream has no latency"),
        ("overlap", "volley fits curves only to the times of ping-pongs and collectives"),
        ("matrix", "volley fits curves only to the times of ping-pongs and collectives"),
    ],
)
def test_where_no_curve_is_fitted_the_reason_is_told_if_one_is_asked_for(name: str, reason: str) -> None:
    said = f"\nno fitted curves: {reason}\n"
    assert said in shown(*h200(name), some=[Details(fit=True)])
    assert said not in shown(*h200(name), some=[Details(full=True), Details(notes=True)])
    few = log(*points("host", 1e-6, 1e9)[:4])
    assert "\nno fitted curves: a fit needs at least 5 sizes\n" in shown(few, some=[Details(fit=True)])


def test_a_curve_without_a_line_is_a_dash_beside_the_others() -> None:
    text = shown(log(*points("host", 1e-6, 1e9), *points("aware", 1e-6, 1e9)[:3]))
    assert re.search(r"^aware +– +–$", "\n".join(below(text, "transport")), re.MULTILINE)
    assert "–: the measured sizes do not determine both terms" in text


def test_too_few_sizes_add_no_table_and_no_sentence() -> None:
    text = shown(log(*points("host", 1e-6, 1e9)[:4], *points("aware", 2e-6, 1e9)[:4]))
    assert "t(n)" not in text
    assert "×" not in text


def test_overlapping_intervals_are_marked() -> None:
    slow = points("staged/pageable", 1e-6, 1e9)[:2]
    fast = [slow[0], points("aware", 0.5e-6, 1e9)[1]]
    same = pingpong(slow[0].times_s, SIZES[0], "aware")
    text = shown(log(*slow, same, fast[1]))
    assert re.search(r"^ 8 B +~1\.00$", text, re.MULTILINE)
    assert re.search(r"^64 B +1\.89$", text, re.MULTILINE)
    assert "~: the difference is not significant" in text


def test_ratios_of_single_samples_show_nothing() -> None:
    records = [pingpong([time], 8, name) for name, time in (("staged/pageable", 8e-6), ("aware", 4e-6))]
    text = shown(log(*records))
    assert re.search(r"^ 8 B +~2\.00$", text, re.MULTILINE)


def test_host_and_gpu_memory_are_different_needs() -> None:
    gpu = [transport(name, memory="device") for name in ("aware", "peer")]
    records = [*points("host", 1e-7, 1e9), *points("aware", 1e-6, 1e10), *points("peer", 2e-6, 2e10)]
    text = shown(log(*records, transports=[transport("host"), *gpu]))
    assert "fastest between buffers in GPU memory, within one launch: aware from 8 B, peer from 32 KiB" in text
    assert "overtakes" not in text  # of two transports the line above has told it


def test_one_transport_of_each_kind_of_memory_are_compared_all_the_same() -> None:
    gpu = transport("aware", memory="device")
    records = [*points("host", 1e-7, 1e9), *points("aware", 1e-6, 1e10)]
    text = shown(log(*records, transports=[transport("host"), gpu]))
    assert "fastest, within one launch: host from 8 B, aware from 4 KiB" in text
