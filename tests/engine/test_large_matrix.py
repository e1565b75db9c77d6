"""A matrix between 1,024 ranks: its faults are named by the part of the machine that they share, on one screen."""

import io
import re
import tracemalloc
from pathlib import Path

import pytest

from large_matrix import Fault, lines, link, node, pair, rank, some_faults, uplinks
from volley import cli
from volley.benchmarks import BENCHMARKS
from volley.benchmarks.matrix.cases import RankMatrixCase
from volley.benchmarks.matrix.jobs import next_plan
from volley.benchmarks.matrix.results import results
from volley.benchmarks.matrix.slow_groups import MAX_AGAIN
from volley.compare.comparison import Side
from volley.records.records_file import parse_runs, read_file
from volley.records.run_log import RunLog
from volley.report.model import Report
from volley.run.render import render, render_reports, reports_of, results_of
from volley.run.report_parts import hosts_of

NODES = 32


@pytest.fixture(scope="module")
def thousand() -> list[RunLog]:
    data = b"".join(lines(128, some_faults()))
    assert len(data) < 100e6
    return parse_runs(data, BENCHMARKS)


@pytest.fixture(scope="module")
def page(thousand: list[RunLog]) -> Report:
    """What is said and drawn of the thousand ranks."""
    (report,) = reports_of(results_of(thousand, BENCHMARKS))
    return report


def case_of(*faults: Fault, nodes: int = NODES, noise: float = 0.01) -> RankMatrixCase:
    """The latencies of a smaller machine."""
    logs = parse_runs(b"".join(lines(nodes, faults, noise, patterns=["pingpong"])), BENCHMARKS)
    ((case,),) = (each.cases for each in results(logs))
    return case


def names(case: RankMatrixCase) -> list[str]:
    return [group.name for group in case.groups]


def test_three_visits_of_a_thousand_ranks_are_less_than_100_mb() -> None:
    few = b"".join(lines(16, visits=3))
    visits = 2 * 3 * 128 * 127
    assert len(few) / visits * 2 * 3 * 1024 * 1023 < 110e6  # 128 ranks have more of what each row has once


@pytest.mark.slow
def test_a_thousand_ranks_fit_a_screen(page: Report) -> None:
    out = io.StringIO()
    render_reports([page], "table", out)
    shown = out.getvalue()
    assert len(shown.splitlines()) <= 60
    assert "highest  line" not in shown  # no line rate is known
    for name in (
        "nodes 32-47 ↔ all other nodes",
        "node 3 (cn003) ↔ all other nodes",
        "rank 800 (cn100) ↔ all other ranks",
    ):
        assert shown.count(name) == 2  # by latency and by bandwidth
    assert "host at 1 MiB: node 5 (cn005) ↔ node 90 (cn090): all 128 pairs reach 63 % of the bandwidth" in shown
    assert shown.count("rank 700 → 41, 41 → 700, ") == 2


@pytest.mark.slow
def test_a_thousand_ranks_are_drawn_by_node(page: Report) -> None:
    for chart in page.charts:
        assert len(chart.marks) == 128 * 128
        by_place = {(mark.y, mark.x): mark.value for mark in chart.marks}
        slow, usual = by_place["5", "90"], by_place["6", "90"]
        assert slow > 1.4 * usual if chart.value.unit == "µs" else slow < usual / 1.4
    assert len(page.data.rows) == 2 * 1024 * 1023


@pytest.mark.long
def test_few_pairs_stand_for_a_group_when_it_is_measured_again(thousand: list[RunLog]) -> None:
    run = thousand[0].run
    asked = next_plan(run.plan, thousand)
    between = [pair for pair in asked.options.pairs if {end // 8 for end in pair} == {5, 90}]
    assert 0 < len(between) <= 2 * MAX_AGAIN


@pytest.mark.parametrize(
    ("fault", "name", "pairs"),
    [
        (node(7, 1.3), "node 7 (cn007) ↔ all other nodes", 2 * 8 * 31 * 8),
        (link(2, 30, 1.2), "node 2 (cn002) ↔ node 30 (cn030)", 2 * 64),
        (uplinks(range(5), 1.2), "nodes 0-4 ↔ all other nodes", 2 * 40 * 27 * 8),
        (rank(100, 1.2), "rank 100 (cn012) ↔ all other ranks", 2 * 255),
    ],
)
def test_what_slow_pairs_share_is_named(fault: Fault, name: str, pairs: int) -> None:
    case = case_of(fault)
    assert names(case) == [name]
    assert case.groups[0].pairs == pairs
    assert case.groups[0].slow > 0.95 * pairs


def test_two_bad_nodes_are_two_parts() -> None:
    assert sorted(names(case_of(node(7, 1.3), node(20, 1.5)))) == [
        "node 20 (cn020) ↔ all other nodes",
        "node 7 (cn007) ↔ all other nodes",
    ]


def test_links_between_two_sets_of_nodes_are_one_part() -> None:
    faults = [link(one, other, 1.3) for one in (1, 2, 3) for other in (10, 11)]
    assert names(case_of(*faults)) == ["nodes 1-3 ↔ nodes 10-11"]
    among = [link(one, other, 1.3) for one in (4, 5, 6) for other in (4, 5, 6) if one < other]
    assert names(case_of(*among)) == ["between nodes 4-6"]


def test_a_single_slow_pair_is_no_group() -> None:
    case = case_of(pair(3, 200, 1.5))
    assert case.groups == ()
    assert {each.pair for each in case.suspects[:2]} == {(3, 200), (200, 3)}


@pytest.mark.parametrize("noise", [0.01, 0.05, 0.3])
def test_noise_alone_is_no_group(noise: float) -> None:
    assert case_of(noise=noise).groups == ()


@pytest.mark.parametrize(
    ("still", "sentence"),
    [
        (True, r"all 128 pairs take 1\.2\d times as long as comparable pairs \(8 of them measured again, 8 slow"),
        (False, r"128 of 128 pairs took longer than comparable pairs at first; measuring 8 of them again did not"),
    ],
)
def test_a_group_is_what_measuring_some_of_it_again_says(still: bool, sentence: str) -> None:
    faults = [link(2, 30, 1.2)]
    logs = parse_runs(b"".join(lines(NODES, faults, patterns=["pingpong"])), BENCHMARKS)
    while asked := next_plan(logs[0].run.plan, logs):
        again = lines(NODES, faults if still else [], patterns=["pingpong"], plan=asked)
        logs += parse_runs(b"".join(again), BENCHMARKS)
    out = io.StringIO()
    render(logs, BENCHMARKS, "table", out)
    assert re.search(rf"node 2 \(cn002\) ↔ node 30 \(cn030\): {sentence}", out.getvalue())


@pytest.mark.slow
def test_the_page_of_a_thousand_ranks_is_small(page: Report) -> None:
    pytest.importorskip("vl_convert")
    from volley.report import html  # noqa: PLC0415  the packages of the extra `report`

    out = io.StringIO()
    html.render("volley matrix", [page], [[]], [], out)
    assert len(out.getvalue()) < 3e6


def written(path: Path, launches: range, monkeypatch: pytest.MonkeyPatch, *faults: Fault) -> str:
    """A file of launches, by their seeds, between the ranks of eight nodes."""
    found: list[bytes] = []
    for launch in launches:
        monkeypatch.setattr("large_matrix.SEED", launch)
        first, *others = lines(8, faults)
        found += [first.replace(b"03:04:05Z", f"03:04:{launch:02}Z".encode()), *others]
    path.write_bytes(b"".join(found))
    return str(path)


@pytest.mark.slow
@pytest.mark.parametrize("launches", [1, 6])
def test_a_comparison_names_what_changed_pairs_share(
    launches: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    faults = (node(3, 1.6), link(1, 2, 1.5), pair(9, 40, 2.0))
    before = written(tmp_path / "before.jsonl", range(launches), monkeypatch)
    after = written(tmp_path / "after.jsonl", range(10, 10 + launches), monkeypatch, *faults)
    assert cli.main(["compare", before, after]) == 0
    out = capsys.readouterr().out
    assert len(out.splitlines()) <= 60
    for name, pairs in (("node 3 (cn003) ↔ all other nodes", 896), ("node 1 (cn001) ↔ node 2 (cn002)", 128)):
        assert len(re.findall(rf"{re.escape(name)} +{pairs} .* slower$", out, re.M)) == 2  # both patterns
    alone = re.findall(r"^host, .* at 8 B, (\d+ → \d+)", out, re.M)
    assert sorted(alone) == (["40 → 9", "9 → 40"] if launches > 1 else [])
    assert ("NO VERDICT" in out) == (launches == 1)
    if launches == 1:
        assert cli.main(["compare", after, before]) == 0
        assert re.search(r"node 3 \(cn003\) ↔ all other nodes +896 .* faster$", capsys.readouterr().out, re.M)


def test_a_comparison_holds_no_object_for_each_pair(tmp_path: Path) -> None:
    path = tmp_path / "matrix.jsonl"
    path.write_bytes(b"".join(lines(8, visits=3)))
    tracemalloc.start()
    try:
        side = Side.read(*read_file(str(path)))
        held_bytes = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert len(side.observed.work) == 2 * 64 * 63
    assert held_bytes < 200 * len(side.observed.work)  # a text of 90 bytes, which both sizes share, and its row


def test_more_than_eight_hosts_are_counted() -> None:
    runs = [parse_runs(b"".join(lines(nodes, patterns=["pingpong"])), BENCHMARKS) for nodes in (8, 9)]
    few, many = (hosts_of(log.run.ranks) for (log,) in runs if log.run)
    assert (few, many) == ([f"cn{node:03}" for node in range(8)], ["cn000 and 8 more"])
