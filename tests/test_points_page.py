from __future__ import annotations

import io
import re
from pathlib import Path

import pytest
from msgspec.structs import replace

from example_records import RECORD_FILES, collective, golden, log, pingpong, plan, stream, transport
from volley.benchmarks import BENCHMARKS
from volley.command.options import FORMATS
from volley.errors import UserError
from volley.machine.hardware import Device
from volley.records.launch_series import count_missing
from volley.records.plan import Sampling
from volley.records.record_types import End, Mismatch
from volley.records.records_file import parse_runs, read_runs
from volley.records.run_log import RunLog
from volley.report.model import Details
from volley.run.render import render
from volley.text import mpi_name

SAMPLES = [1.000e-6, 1.001e-6, 1.002e-6, 1.003e-6, 1.004e-6, 1.005e-6, 1.006e-6]
RULE = re.compile(r"^[─-]{20,}$", re.MULTILINE)


def shown(logs: list[RunLog], **options: object) -> str:
    out = io.StringIO()
    render(logs, BENCHMARKS, "table", out, **options)  # type: ignore[arg-type]
    return out.getvalue()


def rows(text: str) -> list[list[str]]:
    """The cells below the line under the header, of the first table."""
    body = text[RULE.search(text).end() :].lstrip("\n")  # type: ignore[union-attr]
    found = []
    for line in body.splitlines():
        if not re.match(r"\s*\d+ \w?i?B\b", line):
            break
        found.append(re.sub(r"(\d) (\w?i?B)\b", r"\1_\2", line).split())
    return found


@pytest.fixture(autouse=True)
def _eighty_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")


# -------------------------------------------------------------------------------------------------- layout


@pytest.mark.parametrize("path", RECORD_FILES, ids=lambda path: path.stem)
def test_tables_of_golden_examples_fit_80_columns_and_lose_nothing(path: Path) -> None:
    text = shown(read_runs(path, BENCHMARKS))
    table = [line for line in text.splitlines() if re.match(r"\s*\d+ \w?i?B\b|\s+size", line) or RULE.match(line)]
    assert all(len(line) <= 80 for line in table)
    assert "…" not in text


def test_one_transport_shows_every_column() -> None:
    text = shown([log(pingpong(SAMPLES, size=1 << 20))])
    assert rows(text) == [["1_MiB", "1.003", "0.3", "1045", "7", "✓"]]
    header = text[: RULE.search(text).start()].splitlines()[-2:]  # type: ignore[union-attr]
    assert header[0].split() == ["latency", "spread", "bandwidth"]
    assert header[1].split() == ["size", "µs", "%", "GB/s", "samples", "verified"]


def test_decimal_points_of_a_column_stand_in_one_line() -> None:
    points = [pingpong([value * scale for value in SAMPLES], size) for size, scale in ((8, 0.3), (64, 7), (512, 40))]
    lines = [line for line in shown([log(*points)]).splitlines() if re.match(r"\s*\d+ B ", line)]
    assert len({line.index(".") for line in lines}) == 1


def test_a_stream_one_way_and_both_ways() -> None:
    one_way = shown([log(stream([64e-6] * 6, size=1000))])
    assert rows(one_way) == [["1000_B", "1.000", "<0.1", "6", "✓"]]
    assert "rank 0 sends, 64 messages in flight" in one_way
    both = shown([log(stream([64e-6] * 6, [128e-6] * 6, size=1000))])
    assert rows(both) == [["1000_B", "1.000", "<0.1", "1.000", "0.5000", "6", "✓"]]
    for word in ("total: twice the rate of the slower direction", "forward", "backward", "both ranks send at once"):
        assert word in both


def test_transports_stand_side_by_side_in_one_row_a_size() -> None:
    points = [pingpong(SAMPLES, size, name) for size in (8, 64) for name in ("host", "staged/pinned")]
    text = shown([log(*points)])
    assert [len(row) for row in rows(text)] == [7, 7]
    title = next(line for line in text.splitlines() if "staged/pinned" in line)
    assert title.split() == ["host", "staged/pinned"]
    assert "all verified" in text


@pytest.mark.parametrize(("columns", "blocks"), [(60, 3), (80, 3), (250, 1)])
def test_transports_that_do_not_fit_go_into_further_blocks(
    monkeypatch: pytest.MonkeyPatch, columns: int, blocks: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    names = ["host", "staged/pageable", "staged/pipelined", "aware", "peer"]
    text = shown([log(*(pingpong(SAMPLES, 8, name) for name in names))])
    assert len(RULE.findall(text.partition("latency:")[0])) == blocks
    for name in names:
        assert len(re.findall(rf"(^|\s){name}(\s|$)", text.partition("latency:")[0])) == 1
    assert "…" not in text


def test_a_terminal_narrower_than_one_transport_still_loses_no_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "30")
    assert "1.003" in shown([log(pingpong(SAMPLES))])
    assert "✓" in shown([log(pingpong(SAMPLES, size=1 << 20))])


def test_the_screen_counts_failed_points() -> None:
    points = [pingpong(SAMPLES, 8 << i, name) for i in range(6) for name in ("host", "aware")]
    (good,) = re.findall("1[0-9] points, .*", shown([log(*points)], details=Details()))
    assert good.startswith("12 points, all verified byte for byte")
    bad = pingpong(size=1024, name="host", status="failed", reason="it differs")
    (one_bad,) = re.findall("1[0-9] points, .*", shown([log(*points, bad)], details=Details()))
    assert one_bad.startswith("13 points, 1 failed, all others verified byte for byte")


def test_sentences_in_a_file_are_lines() -> None:
    reason = " ".join(["a long reason"] * 20)
    text = shown([log(pingpong(status="skipped", reason=reason))])
    assert f"host skipped 8 B: {reason}" in text


def test_other_requests_are_other_tables() -> None:
    text = shown([log(pingpong(SAMPLES)), log(stream([1e-6] * 6), the_plan=plan(benchmark="stream"))])
    assert text.count("volley pingpong ·") == 1
    assert text.count("volley stream ·") == 1


def test_tail_shows_percentiles() -> None:
    tail = plan(sampling=Sampling(tail=True))
    samples = [number * 1e-6 for number in range(1, 1001)]
    alone = shown([log(pingpong(samples), the_plan=tail)])
    assert rows(alone)[0][3:7] == ["900.0", "990.0", "999.0", "1000"]
    assert "single exchanges" in alone
    both = shown([log(pingpong(samples), pingpong(samples, name="aware"), the_plan=tail)])
    assert rows(both)[0] == ["8_B", "500.5", "990.0", "1000", "500.5", "990.0", "1000"]


# ------------------------------------------------------------------------------------- what must be honest


def test_a_failed_point_shows_no_number_and_says_what_was_wrong() -> None:
    wrong = Mismatch(rank=1, offset_bytes=17, expected=0x5A, found=0x5B, wrong_bytes=1)
    bad = pingpong(SAMPLES, 4096, status="failed", reason="it differs", mismatch=wrong)
    text = shown([log(pingpong(SAMPLES), bad)])
    assert rows(text)[1] == ["4_KiB", "FAILED", "FAILED"]
    assert "FAILED: host at 4 KiB: it differs (0x5b instead of 0x5a)" in text


@pytest.mark.parametrize(("offset", "guard"), [(-1, True), (0, False), (7, False), (8, True)])
def test_a_wrong_guard_byte_is_called_that(offset: int, guard: bool) -> None:
    wrong = Mismatch(rank=1, offset_bytes=offset, expected=0, found=1, wrong_bytes=1)
    text = shown([log(pingpong(size=8, status="failed", reason="it differs", mismatch=wrong))])
    assert ("a guard byte" in text) == guard


def test_skipped_points_give_their_reasons_below() -> None:
    text = shown(golden("skipped"))
    assert rows(text)[-1] == ["8_GiB", "skipped"]
    assert "host skipped 8 GiB: needs 16 GiB" in text


def test_many_skipped_sizes_of_one_reason_are_one_sentence() -> None:
    points = [pingpong(SAMPLES)] + [pingpong(size=1 << n, status="skipped", reason="too large") for n in range(30, 35)]
    assert "host skipped 5 sizes from 1 GiB to 16 GiB: too large" in shown([log(*points)])


def test_many_reasons_are_not_all_repeated() -> None:
    points = [pingpong(size=1 << n, status="skipped", reason=f"needs {n}") for n in range(30, 35)]
    text = shown([log(*points)])
    assert text.count("needs") == 3
    assert "host also skipped 8 GiB and 16 GiB, for other reasons" in text


def test_unavailable_transports_are_named_with_their_reason() -> None:
    assert "aware (MPI on device pointers) is unavailable: no NVIDIA driver" in shown(golden("pingpong-host"))


def test_transports_with_the_same_reason_share_a_sentence() -> None:
    missing = [transport(name, available=False, reason="no NVIDIA driver") for name in ("aware", "peer", "nccl")]
    other = transport("device", available=False, reason="one GPU only")
    text = shown([log(pingpong(), transports=[transport(), *missing, other])])
    assert "aware, peer and nccl are unavailable: no NVIDIA driver" in text
    assert "device (" in text
    assert text.count("unavailable") == 2


def test_an_incomplete_run_says_so_and_shows_what_it_has() -> None:
    text = shown(golden("incomplete"))
    assert "INCOMPLETE: this run was aborted before its last record; it had measured 2 points" in text
    assert len(rows(text)) == 2


def test_a_run_cut_before_its_first_point_is_shown_too() -> None:
    first = (RECORD_FILES[0].parent / "incomplete.jsonl").read_bytes().splitlines(keepends=True)[0]
    text = shown(parse_runs(first, BENCHMARKS))
    assert "example-node" in text
    assert "it had measured 0 points" in text


def test_a_run_without_its_first_record_is_shown_too() -> None:
    one = log(pingpong(SAMPLES))
    one.run = None
    one.problems.append("line 1: \x1b[31mrubbish")
    text = shown([one])
    assert "machine and MPI are unknown" in text
    assert "UNREADABLE in this run: line 1: \\x1b[31mrubbish" in text


def test_unreadable_lines_with_one_reason_are_one_note() -> None:
    one = log(pingpong(SAMPLES))
    one.problems = [
        *(f"line {number}: not JSON" for number in (1, 2, 3, 7)),
        "line 4: no record",
        "the engine broke off",
    ]
    assert re.findall("UNREADABLE.*", shown([one])) == [
        "UNREADABLE in this run: lines 1-3,7: not JSON",
        "UNREADABLE in this run: line 4: no record",
        "UNREADABLE in this run: the engine broke off",
    ]


@pytest.mark.parametrize(
    ("end", "said"),
    [
        (End(status="stopped", reason="asked to", elapsed_s=1.0), "was stopped before its last point: asked to"),
        (End(status="failed", reason="an exception", elapsed_s=1.0), "ended early: an exception"),
    ],
)
def test_an_early_end_is_told(end: End, said: str) -> None:
    one = log(pingpong(SAMPLES))
    one.end = end
    assert said in shown([one])


def test_the_launch_that_was_aborted_is_numbered() -> None:
    logs = [log(pingpong(SAMPLES)) for _ in range(3)]
    logs[1].end = None
    assert "launch 2 of 3 was aborted" in shown(logs)


def test_nothing_verified_is_told() -> None:
    text = shown([log(pingpong(SAMPLES, messages_verified=0), the_plan=plan(verify=False))])
    assert rows(text)[0][-1] == "no"
    assert "nothing was verified" in text


def test_the_fewest_observations_are_marked() -> None:
    text = shown([log(pingpong([1e-6, 1.1e-6])), log(pingpong([1.2e-6, 1.3e-6]))])
    assert rows(text)[0][2].startswith("(")
    assert "range of fewer than 3 launches, too few for a 95 % CI" in text


def test_one_batch_has_no_interval() -> None:
    text = shown(golden("fixed"))
    assert {row[2] for row in rows(text)} == {"–"}
    assert "mean of one batch of 50" in text


def test_what_sends_nothing_shows_a_dash_for_bandwidth_and_is_labelled() -> None:
    text = shown(golden("pingpong-host"))
    assert all(row[3] == "–" for row in rows(text))
    assert "null (sends nothing)" in text


def test_what_is_not_mpi_is_labelled_beside_mpi() -> None:
    peer = transport("peer", mpi=False, memory="device")
    text = shown([log(pingpong(SAMPLES), pingpong(SAMPLES, name="peer"), transports=[transport(), peer])])
    assert "peer (not MPI)" in text


def test_text_from_machines_is_neither_obeyed_nor_marked_up() -> None:
    reason = "bad \x1b[2J [bold]node[/bold] :smile:\nnext"
    one = log(pingpong(status="skipped", reason=reason), transports=[transport(summary="[red]x")])
    assert one.run is not None
    text = shown([one], details=Details(color=True))
    assert "\x1b[2J" not in text
    assert "bad \\x1b[2J [bold]node[/bold] :smile: next" in text


# ------------------------------------------------------------------------------- heading, findings, warnings


def test_the_heading_names_machine_mpi_and_placement() -> None:
    text = shown(golden("pingpong-host"))
    assert "volley pingpong · Open MPI v5.0.11 · launched by openmpi · one launch · 2026-01-02T03:04:05Z" in text
    assert "rank 0 on core 0 and rank 1 on core 1, bound by volley" in text


def test_the_heading_has_a_line_for_each_node_and_names_gpus() -> None:
    one = log(pingpong(SAMPLES))
    assert one.run is not None
    gpu = Device(index=3, name="GPU X", uuid="u", pci="p", compute_capability="9.0", memory_bytes=1)
    ranks = [
        replace(rank, host=f"node{rank.rank}", node=rank.rank, cores=[0, 1, 2, 8], device=gpu, bound_by="nobody")
        for rank in one.run.ranks
    ]
    one.run = replace(one.run, ranks=ranks)
    text = shown([one])
    for host in (0, 1):
        assert f"node{host} (Example CPU): rank {host} on cores 0-2,8 with GPU 3 (GPU X), not bound" in text


def test_the_heading_groups_ranks_at_one_place() -> None:
    one = log(pingpong(SAMPLES))
    assert one.run
    first = replace(one.run.ranks[0], cores=[0, 1], bound_by="nobody")
    one.run = replace(one.run, ranks=[replace(first, rank=number) for number in range(10)])
    assert ": ranks 0-7 on cores 0-1 and 2 more, not bound" in shown([one])


def test_the_fastest_transport_is_told_by_size_together_with_those_that_it_is_not_shown_to_beat() -> None:
    def points(name: str, *microseconds: float) -> list:
        sizes = (8, 64, 512)
        return [pingpong([m * s for s in SAMPLES], size, name) for size, m in zip(sizes, microseconds, strict=True)]

    fastest = "fastest, within one launch:"
    assert f"{fastest} a from 8 B, a or b from 64 B, b from 512 B" in shown(
        [log(*points("a", 1, 1.001, 9), *points("b", 2, 1, 3))]
    )
    assert f"{fastest} a or b from 8 B, b from 512 B (or:" in shown(
        [log(*points("a", 1, 1, 9), *points("b", 1.001, 1, 3))]
    )
    assert f"{fastest} a at every size\n" in shown([log(*points("a", 1, 1, 3), *points("b", 2, 2, 4))])
    assert "fastest" not in shown([log(*points("a", 1, 1, 1))])


def test_transports_that_none_is_shown_to_beat_share_the_first_place() -> None:
    text = shown([log(*(pingpong(SAMPLES, size, name) for size in (8, 64) for name in ("a", "b")))])
    assert "fastest, within one launch: a or b at every size (or: the difference is not significant)" in text


def test_single_samples_and_two_launches_name_no_fastest() -> None:
    one = log(*(pingpong([time], 8, name) for name, time in (("a", 1e-6), ("b", 9e-6))))
    for logs in ([one], [one, one]):
        assert "not shown: there is no 95 % CI, repeat with volley pingpong --launches 6" in shown(logs)


def test_verdicts_over_launches_follow_the_ratios_within_each() -> None:
    launches = [
        log(*(pingpong([time * speed] * 6, 8, name) for name, time in (("a", 1.05e-6), ("b", 1e-6))))
        for speed in (1.0, 1.4, 0.9, 1.2, 1.1, 1.3)
    ]
    text = shown(launches)
    assert "fastest: b at every size" in text
    assert "over 6 launches" in text
    assert "spread" not in text


def test_groups_of_launches_are_told_with_their_values_and_shares() -> None:
    times = [0.35e-6] * 9 + [0.11e-6] * 3
    found = "host: the launches fall into groups: 8 B 0.110 µs in 3 of 12 launches"
    text = shown([log(pingpong([time] * 6)) for time in times])
    assert f"{found} (10-12), 0.350 µs in 9 (1-9)\n" in text
    text = shown([log(pingpong([times[5 * launch % 12]] * 6)) for launch in range(12)])
    assert f"{found} (3,8,10), 0.350 µs in 9 (1-2,4-7,9,11-12)\n" in text
    assert "with 12 launches: host at 8 B (worst: ±68.6 %" in text
    assert "allow more with volley pingpong -t host --launches 24\n" in text
    text = shown([log(pingpong([0.35e-6 if launch % 2 else 0.11e-6] * 6)) for launch in range(40)])
    assert "8 B 0.110 µs in 20 of 40 launches, 0.350 µs in 20\n" in text  # too many numbers to list


def test_a_barrier_is_warned_of_as_any_other_operation_and_has_no_size() -> None:
    times = [0.2e-6] * 9 + [0.3e-6] * 3
    text = shown([log(collective("barrier", [time] * 6)) for time in times])
    assert (
        "barrier host: the launches fall into groups: 0.200 µs in 9 of 12 launches (1-9), 0.300 µs in 3 (10-12)" in text
    )
    assert "CI of ±1 % not reached with 12 launches: barrier host (worst: ±50.0 %, barrier host): launches" in text
    assert "more with volley collective -t host --operation barrier --launches 24\n" in text
    skipped = collective("barrier", [], status="skipped", reason="too long")
    assert "barrier host skipped: too long\n" in shown([log(skipped)])


def test_one_launch_has_a_spread_and_no_plus_minus() -> None:
    text = shown([log(pingpong(SAMPLES))])
    assert "±" not in text
    assert "spread: 95 % confidence interval (CI) of the median within one launch; GB/s: " in text
    more = "volley pingpong --launches 6 shows by how much"
    assert f"\nother launches may differ by more than the spread within this one: {more}\n" in text
    assert more not in shown([log(pingpong(SAMPLES))] * 2)


def test_findings_sum_up_each_transport() -> None:
    text = shown(golden("pingpong-host"))
    assert re.search(r"^host: 0\.33\d µs at 8 B, peak 19\.\d GB/s at 1 MiB, N½ 34\.\d KiB$", text, re.MULTILINE)
    assert re.search(r"^null: .*: this transport sends nothing$", text, re.MULTILINE)
    both, one = (re.search(r"^host: peak .*$", shown(golden(f"stream-{way}")), re.MULTILINE) for way in ("bi", "uni"))
    assert both
    assert one
    assert " in both directions together" in both.group()
    assert "both" not in one.group()


def test_an_interval_not_reached_says_what_to_do_with_the_options_in_use() -> None:
    wide = [1.0e-6, 1.2e-6, 1.0e-6, 1.2e-6, 1.1e-6, 1.1e-6]
    slow = plan(sampling=Sampling(point_time_s=2.0))
    text = shown([log(pingpong(wide, ended_by="time"), the_plan=slow)])
    assert (
        "the samples of one launch spread by more than 1 % after 2 s: host at 8 B (worst: 9.1 %, host at 8 B)" in text
    )
    assert "±" not in text
    repeat = "the machine, repeat with volley pingpong -t host --launches 6"
    assert f"{repeat} or accept a wider interval with volley pingpong -t host --ci 10%\n" in text
    inside = plan(sampling=Sampling(point_time_s=2.0), launch={"inside": True})
    text = shown([log(pingpong(wide, ended_by="time"), the_plan=inside)])
    assert "allow more time with volley pingpong -n 2 -t host --launches 1 --point-time 10" in text.replace("\n", " ")


def test_few_samples_that_missed_the_interval_are_one_sentence_for_all_transports() -> None:
    wide = [1.0, 1.2, 1.0, 1.2, 1.1, 1.1]
    wider = [1.0, 1.6, 1.0, 1.6, 1.3, 1.3]
    points = [pingpong(wide, size, name, ended_by="few") for size in (64, 128) for name in ("host", "aware")]
    one = log(*points, pingpong(wider, 256, "aware", ended_by="few"), pingpong([1.0] * 6, 512, ended_by="few"))
    said = (
        "only 6 samples (exchange > 50 ms), which spread by more than 1 %: host at 64 B and 128 B; aware at 64 B, "
        "128 B and 256 B (worst: 23.1 %, aware at 256 B): repeat with volley pingpong -t host,aware --launches 6 "
        "for a CI over launches"
    )
    assert shown([one]).splitlines()[-1] == said
    for format_name in ("csv", "json", "olcf"):
        err = io.StringIO()
        render([one], BENCHMARKS, format_name, io.StringIO(), err=err)
        assert err.getvalue().splitlines()[-1] == f"volley: {said}"
    more = [pingpong(wider * number, 8, name, ended_by="few") for number, name in ((2, "host"), (3, "aware"))]
    assert "only 12 to 18 samples (exchange > 50 ms), which" in shown([log(*more)])
    apart = [log(pingpong([time * (1 + launch / 10) for time in wide], ended_by="few")) for launch in range(7)]
    assert "not reached with 7 launches: host at 8 B" in shown(apart)


def test_a_run_that_was_killed_between_launches_is_incomplete() -> None:
    def notes(asked: list[list[str]], launches: int) -> str:
        logs = [log(pingpong([1e-6] * 9), the_plan=plan(launch={"asked": asked}))] * launches
        count_missing(logs)
        return shown(logs)

    assert "INCOMPLETE: the run was stopped after launch 2 of 6" in notes([["--launches", "6"]], 2)
    assert "INCOMPLETE" not in notes([["--launches", "6"]], 6)
    assert "INCOMPLETE" not in notes([["--launches", "6"], ["--budget", "9"]], 2)  # its time may have been over
    assert "INCOMPLETE" not in notes([], 2)


def test_a_budget_that_ends_before_all_launches_is_told_with_one_that_allows_them() -> None:
    asked = [["--launches", "12"], ["--budget", "1"]]
    drifting = [1e-6 * (1 + number / 100) for number in range(30)]
    launch = log(pingpong(drifting), the_plan=plan(launch={"asked": asked}, budget_s=1.0))
    text = shown([launch] * 3)
    again = "volley pingpong --launches 12 --budget 4"
    assert f"the run made 3 of 12 launches within the budget of 1 s: {again} allows all of them\n" in text
    assert "repeat with volley pingpong -t host --launches 12 for a CI" in text
    assert "within the budget" not in shown([launch] * 12)
    assert set(re.findall(r"--launches \d+", shown([launch]))) == {"--launches 12"}  # never fewer than asked


def test_drift_interruptions_and_missing_launches_are_warned_of() -> None:
    drifting = [1e-6 * (1 + number / 100) for number in range(30)]
    interrupted = [1e-6 + 1e-9 * (number % 7) for number in range(40)] + [1e-4] * 6
    text = shown([log(pingpong(drifting)), log(pingpong(drifting), pingpong(interrupted, 64))])
    assert "the samples drifted: host at 8 B (worst: " in text
    assert "repeat with volley pingpong -t host --launches 6 for a CI" in text
    assert "many samples were interrupted: host at 64 B (worst: " in text
    assert "not every launch measured host at 64 B: " in text


@pytest.mark.parametrize(("count", "warned"), [(2, False), (3, True)])
def test_drift_and_interruptions_are_warned_of_if_a_quarter_of_the_launches_has_them(count: int, warned: bool) -> None:
    steady = [1e-6 + 1e-9 * (number % 3) for number in range(30)]
    drifting = [*steady[:10], *steady[:10], *(1.1 * time for time in steady[:10])]
    interrupted = [*steady, *[1e-4] * 6]

    def launch(number: int) -> RunLog:
        few = number < count
        return log(pingpong(drifting if few else steady), pingpong(interrupted if few else steady, 64))

    text = shown([launch(number) for number in range(12)])
    drift = (
        f"the samples drifted: host at 8 B (worst: 10.0 % in {count} of 12 launches, host at 8 B): clock frequencies"
    )
    assert (f"{drift} or other load changed\n" in text) == warned  # 12 launches are enough to show it
    assert (f"at 8 B and 64 B (worst: 33.3 % in {count} of 12 launches, host at 8 B): other work" in text) == warned
    assert "drifted" not in text or warned
    assert "interrupted" not in text or warned


def test_a_warning_about_several_transports_is_one_sentence_with_one_command() -> None:
    drifting = [1e-6 * (1 + number / 100) for number in range(30)]
    points = [pingpong(drifting, size, name) for name in ("a", "b", "c") for size in ((8, 64) if name == "c" else (8,))]
    text = shown([log(*points)])
    assert text.count("drifted") == 1
    assert "the samples drifted: a and b at 8 B; c at 8 B and 64 B (worst: " in text
    assert "repeat with volley pingpong -t a,b,c --launches 6 for a CI" in text


def test_one_warning_a_point_is_enough() -> None:
    wild = [1e-6 * (1 + number / 10) for number in range(30)]
    text = shown([log(pingpong(wild, ended_by="time"))])
    assert "the samples of one launch spread by more than 1 %" in text
    assert "drifted" not in text


def test_what_sends_nothing_is_not_warned_of() -> None:
    null = transport("null", mpi=False, memory="none")
    wild = [1e-6 * (1 + number / 10) for number in range(30)]
    assert "not reached" not in shown([log(pingpong(wild, name="null", ended_by="time"), transports=[null])])
    launches = [[0.11e-6] * 6] * 3 + [[0.35e-6] * 6] * 9
    assert "groups" not in shown([log(pingpong(times, name="null"), transports=[null]) for times in launches])


@pytest.mark.parametrize(
    ("library", "name"),
    [
        ("Open MPI v5.0.11, package: Open MPI x@y Distribution, ident: 5.0.11", "Open MPI v5.0.11"),
        ("MPICH Version:      5.0.2", "MPICH 5.0.2"),
    ],
)
def test_mpi_is_named_shortly(library: str, name: str) -> None:
    assert mpi_name(library) == name


# --------------------------------------------------------------------------------------- colours and streams


def test_colour_repeats_what_the_words_say() -> None:
    colored, plain = shown(golden("failed"), details=Details(color=True)), shown(golden("failed"))
    assert "\x1b[" in colored
    assert "\x1b" not in plain
    assert re.sub(r"\x1b\[[0-9;]*m", "", colored).split() == plain.split()


def test_a_pipe_gets_no_colour_and_120_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS")
    text = shown([log(*(pingpong(SAMPLES, 8, name) for name in ("host", "staged/pageable", "staged/pipelined")))])
    assert "\x1b" not in text
    assert len(RULE.findall(text.partition("latency:")[0])) == 1


# ---------------------------------------------------------------------------------------------- transports


def test_a_probe_lists_the_transports() -> None:
    text = shown(golden("probe"))
    assert re.search(r"^host\s+MPI on host memory", text, re.MULTILINE)
    assert "aware (MPI on device pointers) is unavailable: no NVIDIA driver" in text


def test_an_unknown_format_names_the_valid_ones() -> None:
    with pytest.raises(UserError, match=f"choose {', '.join(FORMATS)}, olcf"):
        render(golden("fixed"), BENCHMARKS, "xml", io.StringIO())


def test_volley_transports_shows_a_common_reason_once() -> None:
    reason = "ranks 0 and 1 are on one GPU: --share-gpu allows that"
    lost = [transport(name, available=False, reason=reason, memory="device") for name in ("aware", "peer", "nccl")]
    the_plan = plan("probe", options={})
    text = shown([log(the_plan=the_plan, transports=[transport(), *lost])])
    assert re.search(r"^available +what moves the bytes$", text, re.MULTILINE)
    assert re.search(r"^host +example of host", text, re.MULTILINE)
    assert text.count(reason) == 1
    assert f"aware, peer and nccl are unavailable: {reason}" in " ".join(text.split())
    assert "what moves" not in shown([log(the_plan=the_plan, transports=lost)])
