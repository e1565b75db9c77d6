"""The one screen of a long report; the committed records of two H200s are the golden example."""

from __future__ import annotations

import io
import os
import re
import shutil
from pathlib import Path

import pytest
from msgspec.structs import replace

from example_records import EXAMPLES, collective, log, pingpong, transport
from volley import benchmarks
from volley.benchmarks import BENCHMARKS
from volley.benchmarks.overlap.results import OverlapPoint
from volley.benchmarks.pingpong.records import PingPong
from volley.cli import main
from volley.machine.hardware import Settings
from volley.records.records_file import read_runs
from volley.records.run_log import RunLog
from volley.report.model import Details
from volley.run.render import render

RECORDS = Path(__file__).parent.parent / "results" / "h200-x2"
SIZES = [8 << 2 * step for step in range(9)]
SPREAD = [0.997, 0.998, 0.999, 1.0, 1.001, 1.002, 1.003]


def shown(logs: list[RunLog], **details: bool) -> str:
    out = io.StringIO()
    render(logs, BENCHMARKS, "table", out, details=Details(**details, command="volley show link.jsonl"))
    return out.getvalue()


def two_transports(*, wide: float = 1.0, status: str = "ok") -> list[RunLog]:
    fast = [pingpong([(1e-6 + size / 10e9) * factor for factor in SPREAD], size, "host") for size in SIZES]
    uneven = [1 + (factor - 1) * wide for factor in SPREAD]
    slow = [
        pingpong([(5e-6 + size / 1e9) * factor for factor in uneven], size, "staged/pinned", ended_by="time")
        for size in SIZES
    ]
    if status != "ok":
        slow[0] = pingpong([], SIZES[0], "staged/pinned", status=status, reason="the message differs")
    return [log(*fast, *slow, transports=[transport("host"), transport("staged/pinned", memory="device")])]


@pytest.mark.parametrize("name", ["pingpong-all", "pingpong-gpu-initiated", "stream-bi", "stream-uni", "volley"])
@pytest.mark.parametrize("columns", [105, 80])
def test_the_screen_of_two_h200s_is_one_screen(monkeypatch: pytest.MonkeyPatch, name: str, columns: int) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    lines = shown(read_runs(RECORDS / f"{name}.jsonl", BENCHMARKS)).splitlines()
    assert len(lines) <= 45
    table = [line for line in lines if re.match(r"  (host|staged|aware|peer|device|nccl|nvshmem)", line)]
    assert len(table) >= 9
    assert max(map(len, table)) <= columns


def test_a_transport_of_one_word_is_not_judged_by_the_line_rate() -> None:
    text = shown(read_runs(RECORDS / "pingpong-gpu-initiated.jsonl", BENCHMARKS))
    assert re.search(r"^  device/word +0\.742 +18\.7$", text, re.M)  # one size has no peak
    assert "SLOW    device/word" not in text
    assert "; 18 within ±1 % (95 % CI over 6 launches in 56 s, another hour may differ by more)\n" in text


def test_the_findings_of_two_h200s() -> None:
    text = shown(read_runs(RECORDS / "pingpong-all.jsonl", BENCHMARKS))
    assert "  OK      aware reaches 393 GB/s at 1 GiB: 82 % of line rate (NVLink), 158 × staged/pageable" in text
    assert "UCX_RNDV_THRESH=8 volley pingpong -t aware -s 8:64Ki" in text
    assert "--notes: every note" in text
    assert "252 points, all verified byte for byte; within one launch, 213 spread by 1 % or less\n" in text
    assert "39 points of 5 transports vary by more than 1 %, up to 21 % (staged/pipelined at 1 GiB)" in text
    assert re.search(
        r"^  aware +18\.0 +8\.73 +9\.30 +81\.7 +306 +393\.1 +393\.1 +82 % +~0\.988 +158$", text, re.MULTILINE
    )
    paths = [text.index(path) for path in ("478.1 GB/s over NVLink", "63.02 GB/s over PCIe", "\nhost memory\n")]
    assert paths == sorted(paths)  # the fastest first
    assert "staged/pageable; ~: the difference is not significant\n" in text


def test_ranks_of_two_nodes_are_not_compared_with_a_reference_of_one() -> None:
    (one,) = read_runs(RECORDS / "pingpong-all.jsonl", BENCHMARKS)
    assert "of the reference h200-x2" in shown([one])
    assert one.run
    first, second = one.run.ranks
    one.run = replace(one.run, ranks=[first, replace(second, node=1, host="elsewhere")])
    assert "of the reference" not in shown([one])


@pytest.mark.parametrize(("way", "told"), [("uni", False), ("bi", True)])
def test_the_screen_says_what_the_bandwidth_of_both_directions_is(way: str, told: bool) -> None:
    text = shown(read_runs(RECORDS / f"stream-{way}.jsonl", BENCHMARKS))
    assert ("\nbandwidth: of both directions, twice that of the slower one; " in text) == told


def test_messages_too_short_for_the_line_rate_are_not_judged_by_it() -> None:
    def verdicts(max_size: int) -> set[str]:
        logs = read_runs(RECORDS / "pingpong-all.jsonl", BENCHMARKS)
        for one in logs:
            one.records = [record for record in one.records if getattr(record, "size_bytes", 0) <= max_size]
        return set(re.findall(r"^  (OK|SLOW) +.*% of line rate", shown(logs), re.MULTILINE))

    for short in (1 << 20, 16 << 20, 64 << 20):
        assert verdicts(short) == set()
    assert verdicts(128 << 20) == verdicts(1 << 30) == {"OK"}


def test_every_command_of_a_finding_can_be_typed() -> None:
    logs = read_runs(RECORDS / "pingpong-all.jsonl", BENCHMARKS) + two_transports(status="failed")
    commands = re.findall(r"^ {10}(?:\w+=\S+ )?volley (.*)$", shown(logs), re.MULTILINE)
    assert len(commands) >= 3
    for command in commands:
        benchmarks.read(command.split())


def test_the_first_finding_is_what_is_broken() -> None:
    text = shown(two_transports(status="failed"))
    assert re.search(r"^  BROKEN  staged/pinned failed at 1 size$", text, re.MULTILINE)
    assert "FAILED: staged/pinned at 8 B: the message differs" in text
    (one,) = two_transports(status="failed")
    text = shown([log(*one.records, *(pingpong([], size, "aware", status="failed") for size in SIZES[:2]))])
    assert re.findall(r"BROKEN  (.*)$", text, re.MULTILINE) == [
        "staged/pinned failed at 1 size, and 2 points of others"
    ]


def test_transports_of_other_memory_have_no_speedup_and_uncertain_numbers_a_mark() -> None:
    text = shown(two_transports(wide=40))
    host, pinned = (re.search(rf"^  {name} .*$", text, re.MULTILINE).group() for name in ("host", "staged/pinned"))  # type: ignore[union-attr]
    assert "?" in pinned
    assert "?" not in host
    assert len(host.split()) == len(pinned.split())
    assert "speed-up" not in text
    assert "  NOISY   9 points of staged/pinned vary by more than 1 %, up to 12 % (staged/pinned at " in text
    assert "? spread within one launch of more than 10 %: staged/pinned" in text


def test_a_barrier_is_counted_and_its_uncertainty_is_shown() -> None:
    def operations(launch: int) -> RunLog:
        others = [collective(name, [1e-6] * 6, size) for name in ("broadcast", "allreduce") for size in (8, 64)]  # type: ignore[arg-type]
        return log(collective("barrier", [(2 + launch) * 1e-7] * 6), *others)

    text = shown([operations(launch) for launch in range(7)])
    assert "\n5 points, all verified byte for byte; 4 within ±1 % (95 % CI over 7 launches" in text
    assert "; barrier host 0.50? µs\n" in text
    assert "NOISY   1 point of barrier host varies by more than ±1 %, up to ±60 % (barrier host)\n" in text
    assert "\n? 95 % CI wider than ±10 %: barrier host ±60 %\n" in text
    assert "\n          volley collective -t host --operation barrier --launches 14\n" in text


@pytest.mark.parametrize(("good", "said"), [(0, "none spreads"), (1, "1 spreads"), (2, "2 spread")])
def test_the_number_of_points_within_the_interval_is_a_sentence(good: int, said: str) -> None:
    wide = [0.9, 0.95, 0.98, 1.0, 1.02, 1.05, 1.1]
    points = [
        pingpong([1e-6 * factor for factor in (SPREAD if number < good else wide)], size, name)
        for number, (name, size) in enumerate((name, size) for name in ("a", "b") for size in SIZES)
    ]
    assert f"; within one launch, {said} by 1 % or less\n" in shown([log(*points)])
    assert ("; none within ±1 % (95 %" in shown(several(points))) == (good == 0)


def several(points: list[PingPong]) -> list[RunLog]:
    """Three launches, of which each takes longer than the one before where its samples spread."""

    def longer(point: PingPong, launch: int) -> PingPong:
        rise = 1 + 0.1 * launch * (point.times_s[0] < 0.99e-6)
        return replace(point, times_s=[time * rise for time in point.times_s])

    return [log(*(longer(point, launch) for point in points)) for launch in range(3)]


def test_the_legend_explains_a_tilde_only_if_the_table_has_one() -> None:
    """The difference of the middle size is not significant, and the table shows the speed-ups of the outer ones."""
    fast = [pingpong([1e-6 * factor for factor in SPREAD], size, "staged/pageable") for size in SIZES]
    times = [1e-6 if size == SIZES[4] else 2e-6 for size in SIZES]
    slow = [
        pingpong([time * factor for factor in SPREAD], size, "aware") for size, time in zip(SIZES, times, strict=True)
    ]
    memory = [transport(name, memory="device") for name in ("staged/pageable", "aware")]
    logs = [log(*fast, *slow, transports=memory)]
    assert "~" not in shown(logs)
    assert "~: the difference is not significant" in shown(logs, full=True)


def test_launches_that_have_nothing_in_common_and_no_empty_line_below_the_table() -> None:
    logs = [
        log(*(pingpong([factor * (1 + launch) ** 6 * 1e-6] * 6, size, name) for size in SIZES for name in ("a", "b")))
        for launch, factor in enumerate(SPREAD)
    ]
    text = shown(logs)
    assert "up to >±1000 % (" in text
    assert re.search(r"\n\? 95 % CI wider than ±10 %: \w \d+ .?i?B >±1000 %, .* more\n\n(?!\n)", text)


def test_what_a_slow_transport_skipped_is_compared_at_its_largest_size() -> None:
    (one,) = two_transports()
    reason = "3 round trips would take more than the 0.56 s that each transport has of the 5 s for this size"
    skipped = pingpong([], SIZES[-1], "staged/pinned", status="skipped", reason=reason)
    points = [point for point in one.records if (point.transport, point.size_bytes) != ("staged/pinned", SIZES[-1])]
    fast = [pingpong(point.times_s, point.size_bytes, "aware") for point in points[: len(SIZES)]]
    memory = [transport("host"), transport("staged/pinned", memory="device"), transport("aware", memory="device")]
    logs = [log(*points, skipped, *fast, transports=memory)]
    text = shown(logs)
    aware = re.search(r"^  aware .*$", text, re.MULTILINE)
    pinned = re.search(r"^  staged/pinned .*$", text, re.MULTILINE)
    assert aware
    assert pinned
    assert text.count("128 KiB") == 2  # bandwidth, and speed-up: the largest size of the baseline
    assert len(pinned.group().split()) == len(aware.group().split()) - 1
    assert aware.group().split()[-1] != "1"
    assert f"staged/pinned skipped 512 KiB: {reason}" in shown(logs, notes=True)


def test_a_narrow_screen_leaves_out_columns_and_repeats_no_row(monkeypatch: pytest.MonkeyPatch) -> None:
    logs = read_runs(RECORDS / "volley.jsonl", BENCHMARKS)
    headings = {}
    for columns in (80, 105, 200):
        monkeypatch.setenv("COLUMNS", str(columns))
        lines = shown(logs).splitlines()
        (headings[columns],) = (line.removeprefix("transport") for line in lines if line.startswith("transport"))
        assert sum(line.startswith("  device ") for line in lines) == 1
    named = {columns: re.findall(r"\d+ \w+|GB/s|line", heading) for columns, heading in headings.items()}
    assert len(named[80]) < len(named[105]) < len(named[200])
    assert named[200][:4] == ["8 B", "4 KiB", "64 KiB", "1 MiB"]
    assert "16 MiB" in named[200]
    assert "16 MiB" not in named[105]
    for found in named.values():
        assert {"8 B", "1 MiB", "256 MiB", "GB/s", "line"} <= set(found)


def test_transports_that_skip_the_same_for_one_reason_share_a_sentence() -> None:
    skipped = [
        pingpong([], SIZES[-1], name, status="skipped", reason=reason)
        for name, reason in (("host", "too long"), ("aware", "too long"), ("peer", "too large"))
    ]
    (one,) = two_transports()
    text = shown([log(*one.records, *skipped)], notes=True)
    assert "host and aware skipped 512 KiB: too long\n" in text
    assert "peer skipped 512 KiB: too large\n" in text


def test_reasons_that_differ_in_one_number_are_one_sentence_with_its_range() -> None:
    def told(*reasons: str) -> list[str]:
        names = ("host", "aware", "peer")
        skipped = [
            pingpong([], SIZES[-1], name, status="skipped", reason=reason)
            for name, reason in zip(names, reasons, strict=False)
        ]
        return re.findall(r"^.* skipped .*$", shown([log(*two_transports()[0].records, *skipped)]), re.MULTILINE)

    long = "3 round trips would take about {} s; each transport has {} s"
    assert told(long.format("2.2", "0.5"), long.format("0.85", "0.5"), long.format("12", "0.5")) == [
        "host, aware and peer skipped 512 KiB: 3 round trips would take about 0.85 to 12 s; each transport has 0.5 s"
    ]
    assert len(told(long.format("2.2", "0.5"), long.format("0.85", "0.6"))) == 2
    assert told("2 of 2", "2 of 2", "3 of 2") == ["host, aware and peer skipped 512 KiB: 2 to 3 of 2"]


@pytest.mark.parametrize("name", ["overlap", "pingpong-all", "stream-uni", "volley"])
def test_a_screen_explains_a_tilde_if_it_has_one(name: str) -> None:
    for part in shown(read_runs(RECORDS / f"{name}.jsonl", BENCHMARKS)).split("\n\n"):
        assert bool(re.search(r"~\d", part)) == ("~: the difference is not significant" in part)


def test_the_screen_of_overlaps_without_a_tilde_does_not_explain_it_and_counts_what_sends() -> None:
    (one,) = read_runs(RECORDS / "overlap.jsonl", BENCHMARKS)
    clear = ("aware", "peer", "device", "nccl")
    points = one.of(OverlapPoint)
    one.records = [point for point in points if point.transport in clear]
    assert "~" not in shown([one])
    one.records += [replace(point, transport="null") for point in points if point.transport == "aware"]
    one.transports.append(transport("null", mpi=False, memory="none"))
    assert "\n16 points in one launch, all verified byte for byte\n" in shown([one])


def test_a_few_sizes_or_one_transport_are_shown_as_they_are() -> None:
    logs = two_transports()
    few = [record for record in logs[0].records if getattr(record, "size_bytes", 0) <= SIZES[2]]
    assert "speed-up over" in shown([log(*few)])
    one = [record for record in logs[0].records if getattr(record, "transport", "host") == "host"]
    assert len(re.findall(r"^ *\d+ \w?i?B", shown([log(*one)]), re.MULTILINE)) == len(SIZES)


def test_the_rest_is_one_option_away() -> None:
    logs = read_runs(RECORDS / "pingpong-all.jsonl", BENCHMARKS)
    full, notes, fit = shown(logs, full=True), shown(logs, notes=True), shown(logs, fit=True)
    assert "512 KiB" in full
    assert "α + n/β" not in full
    assert "α + n/β" in fit
    assert "512 KiB" not in fit.split("off by")[0]
    assert "overtakes" in notes
    assert "overtakes" not in full + fit


def test_show_without_a_file_shows_the_last_run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert main(["show"]) == 2
    assert "no run is kept on this machine" in capsys.readouterr().err
    kept = tmp_path / "volley"
    kept.mkdir()
    for age, name in enumerate(("rank-matrix", "fixed")):
        path = kept / f"{name}.jsonl"
        shutil.copy(EXAMPLES / f"{name}.jsonl", path)
        os.utime(path, (1000 - age, 1000 - age))
    assert main(["show"]) == 0
    assert "volley matrix" in capsys.readouterr().out


def test_what_slowed_the_machine_is_on_the_first_screen() -> None:
    (one,) = two_transports()
    assert one.run
    one.settings = Settings(host=one.run.ranks[0].host, quota_cpus=1.0)
    assert "  NOISY   the control group on example-node allows 1.00 CPUs and the ranks use 2" in shown([one])


@pytest.mark.parametrize(("columns", "pairs"), [(80, False), (105, True)])
def test_the_summary_of_a_matrix_leaves_out_a_column_before_it_goes_on_below(
    monkeypatch: pytest.MonkeyPatch, columns: int, pairs: bool
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    heads = [line for line in shown(read_runs(RECORDS / "matrix.jsonl", BENCHMARKS)).splitlines() if "lowest" in line]
    assert [("pairs" in head, "line" in head) for head in heads] == [(pairs, True)]
