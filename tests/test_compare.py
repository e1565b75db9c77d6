"""``volley compare``: verdicts, what differs between environments, exit codes, and misuse."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

import example_records
from comparison_records import SIZES, launches, write
from gpu_records import log as gpu_log
from volley import cli
from volley.compare.comparison import Comparison, Side, compare, side_of
from volley.compare.environment import _PLURAL, environment_differences
from volley.compare.page import finding
from volley.machine.hardware import Hardware
from volley.machine.ucx_protocols import Protocols, ProtocolTable, SizeRange
from volley.records.record_types import MpiFacts
from volley.records.run_log import RunLog

Capture = pytest.CaptureFixture[str]


def compared(first: list[Any], second: list[Any], within: float = 0.05, **options: bool) -> Comparison:
    return compare(Side.of("a", first), Side.of("b", second), within, **options)


@pytest.fixture
def baseline(tmp_path: Path) -> str:
    return str(write(tmp_path / "baseline.jsonl", launches(1)))


@pytest.fixture
def slower(tmp_path: Path) -> str:
    return str(write(tmp_path / "slower.jsonl", launches(2, slower={"aware": 1.1})))


def test_what_changed_is_found_first_and_named(baseline: str, slower: str, capsys: Capture) -> None:
    assert cli.main(["compare", baseline, slower]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("CHANGED: aware is 9.8 % slower at 3 of 3 points")
    assert len(lines) <= 45
    assert re.search(r"^aware +3 +3 +0 +0 +0 ", "\n".join(lines), re.M)


def test_runs_of_the_same_thing_are_shown_to_be_the_same(baseline: str, tmp_path: Path, capsys: Capture) -> None:
    again = str(write(tmp_path / "again.jsonl", launches(2)))
    assert cli.main(["compare", baseline, again]) == 0
    assert capsys.readouterr().out.startswith("SAME: all 6 points are the same within 2 %")


def test_noise_is_undecided_and_more_launches_are_named() -> None:
    found = compared(launches(1, noise=0.1), launches(2, noise=0.1))
    assert set(found.verdicts) == {"undecided"}
    known = found.launches_needed[~np.isnan(found.launches_needed)]
    assert known.size
    assert (known > 6).all()


def test_a_difference_that_is_neither_shown_nor_excluded_is_undecided() -> None:
    found = compared(launches(1, count=5), launches(2, count=5, slower={"aware": 1.1}))
    verdicts = {series: set(found.verdicts[points]) for series, points in found.by_series().items()}
    assert verdicts == {"host": {"same"}, "aware": {"undecided"}}
    assert not found.possible


@pytest.mark.parametrize(("number", "words"), [(1, "the point is undecided"), (2, "all 2 points are undecided")])
def test_undecided_points_are_counted_in_english(number: int, words: str) -> None:
    first, second = (launches(seed, noise=0.1) for seed in (1, 2))
    for log in (*first, *second):
        del log.records[number:]
    assert finding(compared(first, second)) == f"NO CHANGE SHOWN: {words}"


def test_points_that_are_the_same_and_undecided_ones_are_counted_in_english() -> None:
    first, second = launches(1), launches(2)
    for number, log in enumerate(second):
        log.records[0] = example_records.pingpong([1e-6 * (1 + number / 10)] * 6, size=SIZES[0], name="host")
    for log in (*first, *second):
        del log.records[2:]
    assert re.fullmatch(
        r"NO CHANGE SHOWN: 1 of 2 points is the same within \d %, 1 is undecided", finding(compared(first, second))
    )


def test_one_launch_of_each_gives_no_verdict_and_says_what_to_type(tmp_path: Path, capsys: Capture) -> None:
    files = [str(write(tmp_path / f"{seed}.jsonl", launches(seed, count=1))) for seed in (1, 2)]
    assert cli.main(["compare", *files]) == 0
    out = capsys.readouterr().out
    assert out.startswith("NO VERDICT: 1 launch of A and 1 of B")
    assert "--launches 6" in out
    assert cli.main(["compare", *files, "--fail-on", "slower:5%"]) == 2
    assert "--fail-on needs a verdict" in capsys.readouterr().err


def test_the_recommended_command_measures_a_common_point(tmp_path: Path, capsys: Capture) -> None:
    asked = [[["--sizes", "4k"]], [["--sizes", "8"]]]
    first = [*launches(1, count=1), *launches(3, count=1)]
    for log, options, places in zip(first, asked, ([1], [0]), strict=True):
        assert log.run
        plan = msgspec.structs.replace(log.run.plan, launch={"asked": options}, watchdog_s=60.0 + places[0])
        log.run = msgspec.structs.replace(log.run, plan=plan)
        log.records[:] = [log.records[place] for place in places]
    second = launches(2, count=1)
    del second[0].records[1:]
    files = [str(write(tmp_path / name, logs)) for name, logs in (("a.jsonl", first), ("b.jsonl", second))]
    assert cli.main(["compare", *files]) == 0
    assert "measure both again with volley pingpong -s 8 --launches 6, or use --live" in capsys.readouterr().out


def test_matrices_are_measured_again_in_several_runs(tmp_path: Path, capsys: Capture) -> None:
    matrices = [gpu_log(2, ["uni"]) for _ in range(2)]
    assert matrices[1].run
    matrices[1].run = msgspec.structs.replace(matrices[1].run, started_at="2026-01-02T03:09:00Z")
    files = [str(write(tmp_path / f"{number}.jsonl", [log])) for number, log in enumerate(matrices)]
    assert cli.main(["compare", *files]) == 0
    assert "again 6 times or more and join the records of each side (cat A1 A2 … > A)" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("condition", "code"),
    [("slower:5%", 1), ("slower", 1), ("slower:20%", 0), ("changed:5%", 1), ("slower:200%", 0)],
)
def test_the_exit_code_tells_continuous_integration(baseline: str, slower: str, condition: str, code: int) -> None:
    assert cli.main(["compare", baseline, slower, "--fail-on", condition]) == code


def test_the_bound_of_the_interval_decides_and_is_named(tmp_path: Path, capsys: Capture) -> None:
    first, second = launches(1, count=8, noise=0.02), launches(2, count=8, noise=0.02, slower={"aware": 1.07})
    found = compared(first, second)
    ratios, lows = found.differences.ratio, found.differences.low
    (point,) = (each for each in found.of("changed").tolist() if found.at[each] == "8 B")
    assert lows[point] < ratios[point] - 0.005
    paths = [str(write(tmp_path / f"{name}.jsonl", logs)) for name, logs in (("a", first), ("b", second))]
    limits = {share: bool((lows[found.of("changed")] >= 1 + share).any()) for share in (0.01, 0.05, 0.06, 0.07)}
    assert set(limits.values()) == {True, False}
    for share, fails in limits.items():
        assert cli.main(["compare", *paths, "--fail-on", f"slower:{share * 100:g}%"]) == int(fails)
        said = capsys.readouterr().err
        assert (
            bool(re.search(r"volley: --fail-on: aware at .* takes 1\.\d+ times as long \(95 % CI 1\.", said)) == fails
        )


@pytest.mark.parametrize(
    ("order", "where"),
    [((8, 1 << 30, 512), "(8 B … 1 GiB)"), ((512, 8, 4096), "(8 B … 4 KiB)"), ((1 << 20,), "(1 MiB)")],
)
def test_a_range_of_sizes_has_its_ends_whatever_the_order(order: tuple[int, ...], where: str) -> None:
    def measured(seed: int, time_s: float) -> list[RunLog]:
        logs = launches(seed)
        for number, log in enumerate(logs):
            log.records = [example_records.pingpong([time_s * (1 + number / 1e4)] * 6, size=size) for size in order]
        return logs

    assert where in finding(compared(measured(1, 1e-6), measured(2, 2e-6)))


def test_a_faster_run_fails_only_where_every_change_counts(baseline: str, slower: str) -> None:
    assert cli.main(["compare", slower, baseline, "--fail-on", "slower:5%"]) == 0
    assert cli.main(["compare", slower, baseline, "--fail-on", "changed:5%"]) == 1


def test_a_check_fails_where_the_second_run_lost_a_transport_or_failed(
    baseline: str, tmp_path: Path, capsys: Capture
) -> None:
    check = ["--fail-on", "slower:5%"]
    fewer = str(write(tmp_path / "fewer.jsonl", launches(2, names=["host"])))
    assert cli.main(["compare", baseline, fewer, *check]) == 1
    assert f"volley: --fail-on: {fewer} lacks 3 points: aware\n" in capsys.readouterr().err
    assert cli.main(["compare", fewer, baseline, *check]) == 0

    logs = launches(2)
    logs[-1].records[0] = example_records.pingpong([], size=SIZES[0], name="host", status="failed")
    failed = str(write(tmp_path / "failed.jsonl", logs))
    assert cli.main(["compare", baseline, failed]) == 0
    assert cli.main(["compare", baseline, failed, *check]) == 1
    assert f"volley: --fail-on: 1 point of {failed} failed\n" in capsys.readouterr().err
    assert cli.main(["compare", failed, baseline, *check]) == 0


def test_a_check_fails_where_the_second_run_is_truncated(baseline: str, tmp_path: Path, capsys: Capture) -> None:
    check = ["--fail-on", "slower:100%"]
    logs = launches(2)
    for log in logs:
        del log.records[1:3]
    fewer = str(write(tmp_path / "fewer.jsonl", logs))
    assert cli.main(["compare", baseline, fewer, *check]) == 1
    assert f"volley: --fail-on: {fewer} lacks 2 points: host at 4 KiB and host at 1 MiB\n" in capsys.readouterr().err
    assert cli.main(["compare", fewer, baseline, *check]) == 0

    logs = launches(2)
    logs[0].end = None
    assert logs[1].end
    logs[1].end = msgspec.structs.replace(logs[1].end, status="stopped")
    truncated = str(write(tmp_path / "truncated.jsonl", logs))
    capsys.readouterr()
    assert cli.main(["compare", baseline, truncated, *check]) == 1
    shown = capsys.readouterr()
    assert f"volley: --fail-on: {truncated} has 2 incomplete launches\n" in shown.err
    assert "B has 2 incomplete launches" in shown.out
    assert cli.main(["compare", truncated, baseline, *check]) == 0


def test_a_check_fails_where_launches_of_the_second_run_are_missing() -> None:
    second = launches(2)
    second[-1].missing_launches = 2
    assert compared(launches(1), second).lost == ["b has 2 incomplete launches"]


def test_launches_in_pairs_are_compared_with_each_other() -> None:
    drift = [launches(1, count=1, slower={"host": 1.1**step, "aware": 1.1**step})[0] for step in range(8)]
    later = [launches(2, count=1, slower={"host": 1.1**step, "aware": 1.05 * 1.1**step})[0] for step in range(8)]
    assert not compared(drift, later).of("changed").size
    paired = compared(drift, later, paired=True)
    assert list(paired.by_series(paired.of("changed"))) == ["aware"]


def test_pairs_without_a_partner_are_left_out() -> None:
    first, second = launches(1, count=8), launches(2, count=8)
    del second[3].records[0]
    for log in (*first[:4], *second[4:]):
        del log.records[-1]
    found = compared(first, second, paired=True)
    assert [those.tolist() for those in found.differences.launches] == [[7, 8, 8, 8, 8]] * 2
    assert len(compared(first, second).at) == 6


def test_the_data_formats_have_every_point(baseline: str, slower: str, capsys: Capture) -> None:
    assert cli.main(["compare", baseline, slower, "--format", "csv"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert len(rows) == 2 * len(SIZES)
    assert {row["verdict"] for row in rows if row["series"] == "aware"} == {"changed"}
    assert cli.main(["compare", baseline, slower, "--format", "json"]) == 0
    (series,) = json.loads(capsys.readouterr().out)["series"]
    assert len(series["data"]) == len(rows)
    assert series["within"] == 0.05


def test_the_verdicts_fit_a_narrow_terminal(
    baseline: str, slower: str, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    for width, last in ((120, "highest"), (60, "median")):
        monkeypatch.setenv("COLUMNS", str(width))
        assert cli.main(["compare", baseline, slower]) == 0
        table = capsys.readouterr().out.split("\nverdicts\n")[1].split("\n\n")[0]
        assert table.splitlines()[2].split()[-1] == last
        assert table.count("aware ") == 1


def test_full_shows_every_point(baseline: str, slower: str, capsys: Capture) -> None:
    assert cli.main(["compare", baseline, slower, "--full"]) == 0
    out = capsys.readouterr().out
    assert out.count("4 KiB") == 2  # of both transports


@pytest.mark.parametrize("name", ["stream", "rank_matrix", "jacobi", "gpu_matrix"])
def test_every_benchmark_can_be_compared(name: str, tmp_path: Path) -> None:
    logs = (
        [gpu_log()]
        if name == "gpu_matrix"
        else next(
            logs
            for file in example_records.RECORD_FILES
            if (logs := example_records.golden(file.stem))
            and logs[0].run
            and logs[0].run.plan.benchmark == name
            and any(status == "ok" for status in logs[0].statuses)
        )
    )
    later = [msgspec.structs.replace(log.run, started_at="2027-01-01T00:00:00Z") if log.run else None for log in logs]
    side = Side.of("a", logs)
    other = Side.of(
        "b", [type(log)(run, log.transports, log.records, log.end) for log, run in zip(logs, later, strict=True)]
    )
    found = compare(side, other, 0.05)
    assert found.at
    assert found.differences.ratio == pytest.approx(1)
    assert {benchmark for benchmark, _ in found.sweeps} == {name}


def test_a_transport_that_sends_nothing_is_not_compared() -> None:
    logs = launches(1, names=("host", "null"))
    for log in logs:
        log.transports[1] = example_records.transport("null", memory="none")
    assert set(Side.of("a", logs).observed.rows) == {("pingpong", "host")}


# -------------------------------------------------------------------------------------------------- environments


def test_what_differs_between_the_environments_is_told() -> None:
    first = launches(1, environment={"UCX_TLS": "all", "SAME": "1"})
    second = launches(
        2,
        environment={"SAME": "1", "UCX_RNDV_THRESH": "8"},
        mpi=MpiFacts(library="Open MPI v4.1.6", standard="3.1"),
        ranks=example_records.ranks(2, bound_by="launcher"),
    )
    found = {each.name: (each.first, each.second) for each in environment_differences(first, second)}
    assert found["UCX_TLS"] == ("all", "not set")
    assert found["UCX_RNDV_THRESH"] == ("not set", "8")
    assert found["mpi library"][1] == "Open MPI v4.1.6"
    assert found["rank 0 bound_by"] == ("engine", "launcher")
    assert not {"SAME", "started_at"} & set(found)


def test_differences_of_two_machines_fit_a_few_lines() -> None:
    first, second = [gpu_log(2)], [gpu_log(4, ["uni"])]
    assert second[0].run
    renamed = json.loads(msgspec.json.encode(second[0].hardware[0]).replace(b"GPU-0", b"GPU-1"))
    second[0].hardware[0] = msgspec.convert(renamed, Hardware)
    ranks = [msgspec.structs.replace(rank, cores=list(range(32))) for rank in second[0].run.ranks]
    second[0].run = msgspec.structs.replace(second[0].run, ranks=ranks, environment={"UCX_TLS": "all"})
    found = [(each.name, each.second) for each in environment_differences(first, second)]
    assert [name for name, _ in found][:2] == ["sections", "UCX_TLS"]
    assert found[2:] == [("rank 0 cores", "0-31"), ("gpus", "4"), ("peers", "6")]


def test_each_side_names_its_processors(tmp_path: Path, capsys: Capture) -> None:
    logs = [gpu_log(2), gpu_log(2)]
    assert logs[1].run
    logs[1].run = msgspec.structs.replace(logs[1].run, started_at="2026-01-02T03:09:00Z")
    files = [str(write(tmp_path / f"{number}.jsonl", [log])) for number, log in enumerate(logs)]
    assert cli.main(["compare", *files]) == 0
    assert " · 1 × Example GPU, " in capsys.readouterr().out.splitlines()[2]


def test_where_ucx_changes_its_protocol_differs() -> None:
    def of(threshold: int) -> list[RunLog]:
        ranges = [
            SizeRange(0, threshold - 1, "eager", "posix/memory"),
            SizeRange(threshold, None, "rendezvous", "cuda_ipc/cuda"),
        ]
        tables = [
            ProtocolTable("ucp_context_0 intra-node cfg#1", "tagged message by ucp_tag_send*(multi) from cuda", ranges),
            ProtocolTable("ucp_context_0 self cfg#0", "tagged message by ucp_tag_send*(other) from cuda", ranges),
        ]
        stack = {"ucx_protocols": msgspec.to_builtins(Protocols(sends=tables))}
        return launches(1, plan=example_records.plan(launch={"stack": stack}))

    assert [(each.name, each.first, each.second) for each in environment_differences(of(4875), of(8))] == [
        ("UCX send (multi) by rendezvous", "from 4875 B", "from 8 B")
    ]
    assert [(each.name, each.first, each.second) for each in environment_differences(launches(1), of(8))] == [
        ("UCX send (multi) by eager", "none", "from 0 B"),
        ("UCX send (multi) by rendezvous", "none", "from 8 B"),
    ]


def test_a_series_that_is_slower_here_and_faster_there_is_called_both() -> None:
    mixed = launches(2, slower={"aware": 1.1})
    for log in mixed:
        log.records[-1] = example_records.pingpong([8e-7] * 6, size=SIZES[-1], name="aware")
    assert finding(compared(launches(1), mixed)) == (
        "CHANGED: aware is slower at 2 and faster at 1 of 3 points (8 B … 1 MiB)"
    )


def test_the_end_of_a_plural_is_left_out_but_not_of_rendezvous() -> None:
    assert [_PLURAL.sub("", name) for name in ("ranks", "gpus", "rendezvous")] == ["rank", "gpu", "rendezvous"]


def test_what_varies_between_the_launches_of_one_run_is_no_difference() -> None:
    first = launches(1, environment={"HOST_PART": "a"}) + launches(3, environment={"HOST_PART": "b"})
    assert environment_differences(first, launches(2, environment={"HOST_PART": "b"})) == []


def test_clocks_differ_only_where_they_are_apart() -> None:
    first, second = [gpu_log()], [gpu_log()]

    def clocks(hz: int) -> list[Any]:
        (*_, hardware) = gpu_log().hardware
        return [
            msgspec.structs.replace(
                hardware, gpus=[msgspec.structs.replace(gpu, sm_clock_hz=hz) for gpu in hardware.gpus]
            )
        ]

    first[0].hardware, second[0].hardware = clocks(1_980_000_000), clocks(1_965_000_000)
    assert not [each for each in environment_differences(first, second) if "clock" in each.name]
    second[0].hardware = clocks(1_200_000_000)
    assert [each for each in environment_differences(first, second) if "sm_clock_hz" in each.name]


# -------------------------------------------------------------------------------------------------------- misuse


def test_the_same_file_twice_is_refused(baseline: str, capsys: Capture) -> None:
    assert cli.main(["compare", baseline, baseline]) == 2
    assert "contain the same launch" in capsys.readouterr().err


def test_the_same_file_twice_is_refused_before_its_records_are_read(
    baseline: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr("volley.compare.comparison.parse_runs")
    assert cli.main(["compare", baseline, baseline]) == 2


def test_a_launch_that_a_file_repeats_counts_once(slower: str, tmp_path: Path, capsys: Capture) -> None:
    twice = str(write(tmp_path / "twice.jsonl", launches(1) * 2))
    assert cli.main(["compare", twice, slower]) == 0
    shown = capsys.readouterr()
    assert f"A: {twice} · 6 launches" in shown.out
    assert "the records repeat 6 launches" in shown.err


def test_files_of_different_benchmarks_are_refused(baseline: str, tmp_path: Path, capsys: Capture) -> None:
    stream = example_records.log(example_records.stream([1e-3] * 6, direction="uni", window=64))
    other = str(write(tmp_path / "stream.jsonl", [stream]))
    assert cli.main(["compare", baseline, other]) == 2
    assert f"baseline.jsonl is of volley pingpong and {other} is of volley stream: " in capsys.readouterr().err


def test_files_without_a_common_point_are_refused(baseline: str, tmp_path: Path, capsys: Capture) -> None:
    other = str(write(tmp_path / "peer.jsonl", launches(2, names=("peer",))))
    assert cli.main(["compare", baseline, other]) == 2
    assert "no point in common" in capsys.readouterr().err


@pytest.mark.parametrize("content", [b"", b"nonsense\n"])
def test_a_broken_file_is_refused(baseline: str, tmp_path: Path, content: bytes, capsys: Capture) -> None:
    (tmp_path / "broken.jsonl").write_bytes(content)
    assert cli.main(["compare", baseline, str(tmp_path / "broken.jsonl")]) == 2
    assert capsys.readouterr().err.startswith("volley: ")


def test_a_file_without_numbers_is_refused(baseline: str, tmp_path: Path, capsys: Capture) -> None:
    empty = example_records.log(example_records.pingpong(status="skipped"))
    assert cli.main(["compare", baseline, str(write(tmp_path / "empty.jsonl", [empty]))]) == 2
    assert "nothing to compare" in capsys.readouterr().err


def test_a_truncated_file_is_compared_and_said_to_be_incomplete(slower: str, tmp_path: Path, capsys: Capture) -> None:
    whole = write(tmp_path / "whole.jsonl", launches(1)).read_bytes()
    (tmp_path / "cut.jsonl").write_bytes(whole[:-200])
    assert cli.main(["compare", str(tmp_path / "cut.jsonl"), slower]) == 0
    assert "A has 1 incomplete launch" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["one.jsonl"], "two files of records"),
        (["a", "b", "c"], "two files of records"),
        (["-", "-"], "standard input can be read once"),
        (["a", "b", "--pairs", "3"], "--live"),
        (["a", "b", "-o", "c", "d"], "--live"),
        (["a", "b", "-o", "c", "c"], "both files"),
        (["a", "--with", "summit", "--fail-on", "slower:5%"], "use --tolerance"),
        (["a", "b", "--with", "summit"], "one file of records"),
        (["a", "b", "--live", "--with", "summit"], "leave out one"),
        (["a", "b", "--fail-on", "better:5%"], "slower:5%"),
        (
            ["a", "b", "--fail-on", "slower:-5%"],
            "volley: --fail-on: '-5%' is not a percentage above 0% and up to 100000%: write e.g. --fail-on slower:1%\n",
        ),
        (["a", "b", "--fail-on", "slower:0.05"], "write --fail-on slower:5% or --fail-on slower:0.05%"),
    ],
)
def test_options_that_do_not_fit_are_refused(words: list[str], message: str, capsys: Capture) -> None:
    assert cli.main(["compare", *words]) == 2
    err = capsys.readouterr().err
    assert message in err
    assert len(err.splitlines()) == 1


def test_text_of_a_machine_is_escaped(tmp_path: Path, slower: str, capsys: Capture) -> None:
    odd = str(write(tmp_path / "odd.jsonl", launches(1, environment={"UCX_TLS": "\x1b[31mred"})))
    assert cli.main(["compare", odd, slower]) == 0
    assert "\x1b[31m" not in capsys.readouterr().out


def test_points_of_one_file_only_are_told(baseline: str, tmp_path: Path, capsys: Capture) -> None:
    more = str(write(tmp_path / "more.jsonl", launches(2, names=("host", "aware", "peer"))))
    assert cli.main(["compare", baseline, more]) == 0
    assert "only B has 3 points: peer" in capsys.readouterr().out


def test_a_file_of_two_requests_continues_the_count_of_launches(tmp_path: Path) -> None:
    other = launches(5, count=2)
    for log in other:
        assert log.run
        plan = msgspec.structs.replace(log.run.plan, verify=False)
        log.run = msgspec.structs.replace(log.run, plan=plan)
    side = side_of(write(tmp_path / "both.jsonl", [*launches(1), *other]).read_bytes(), "both")
    assert side.seconds.shape == (6, 8)
    assert not np.isnan(side.seconds).any()


def test_a_side_with_launches_of_two_machines_or_settings_is_refused(
    baseline: str, tmp_path: Path, capsys: Capture
) -> None:
    mixed = [*launches(5, count=3), *launches(6, count=3, environment={"UCX_RNDV_THRESH": "8"})]
    path = str(write(tmp_path / "mixed.jsonl", mixed))
    why = f"volley: {path} has launches that do not belong together; they differ in UCX_RNDV_THRESH (not set or 8)"
    for words in (["compare", path, baseline], ["compare", baseline, path], ["compare", baseline, "--with", path]):
        assert cli.main(words) == 2
        assert why in capsys.readouterr().err
    assert cli.main(["references", "--add", "mine", path]) == 2
    assert why in capsys.readouterr().err
    assert cli.main(["show", path]) == 0
    assert capsys.readouterr().out.count("3 launches · ") == 2


def test_launches_of_other_conditions_that_measured_other_things_are_one_side() -> None:
    alone = launches(1, count=1, names=["aware"], environment={"UCX_TLS": "tcp"})
    assert len(Side.of("both", [*launches(1, count=1, names=["host"]), *alone]).observed.rows) == 2
