"""References: the published tables, a user's own, and ``volley compare NAME RECORDS``."""

import csv
import dataclasses
import io
import re
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

import example_records
from comparison_records import launches, write
from gpu_records import log as gpu_log
from screens import SCREENS, check_screen
from the_command import check_transcript
from volley import cli, references
from volley.benchmarks import BENCHMARKS
from volley.benchmarks.jacobi.records import JacobiParts, JacobiPlan, JacobiPoint
from volley.compare import page
from volley.compare.comparison import Side, compare, published_side
from volley.records.records_file import read_runs
from volley.records.run_log import Observable

Capture = pytest.CaptureFixture[str]
ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path


def figures(name: str, title: str) -> list[float]:
    return [
        figure
        for table in references.published()[name].tables
        for column, own in enumerate(table.titles)
        if own == title
        for figure in [row[column] for row in table.figures.values()]
    ]


def test_every_reference_names_a_benchmark_and_a_source() -> None:
    known = {benchmark.name for benchmark in BENCHMARKS}
    for name, reference in references.published().items():
        assert reference.source, name
        assert reference.method, name
        assert {table.benchmark for table in reference.tables} <= known, name


def test_the_tables_of_the_tutorial_are_whole() -> None:
    found = references.published()
    times = [row for name in ("summit", "nvlink3") for table in found[name].tables for row in table.figures.values()]
    assert sum(map(len, times)) == 168
    (summit,) = found["summit"].tables
    assert summit.seconds("aware", "8 B", None) == 0.000023285
    assert summit.seconds("aware", "1 GiB", None) == 0.022840518


def test_the_tables_of_abci_are_whole() -> None:
    bandwidth, latency = (
        "Bidirectional P2P=Enabled Bandwidth Matrix (GB/s)",
        "P2P=Enabled Latency (P2P Writes) Matrix (us)",
    )
    for name, gpus in (("abci-v", 4), ("abci-a", 8)):
        for title in (bandwidth, latency):
            assert len(figures(name, title)) == gpus * (gpus - 1)
            assert len(figures(name, f"{title}, within a GPU")) == gpus
    # The sums of the published matrices: one wrong digit is found.
    assert sum(figures("abci-v", bandwidth)) == pytest.approx(1162.75)
    assert figures("abci-a", bandwidth)[:2] == [410.10, 410.71]
    assert figures("abci-a", f"{latency}, within a GPU") == [3.13, 2.96, 3.14, 3.18, 2.39, 2.28, 2.49, 2.30]


def test_the_runs_on_four_t4_are_whole() -> None:
    assert figures("t4", "normal MPI") == [2.8496, 0.1287, 23.54, 5.88, 117.69, 29.42, 1.51, 376.62]
    assert figures("t4", "CUDA-aware MPI") == [3.0188, 0.2865, 22.22, 5.55, 111.10, 27.77, 1.42, 355.51]


def t4_run() -> Side:
    """A run that takes as long as the published one."""
    plan = example_records.plan("jacobi", options=JacobiPlan(grid=[2, 2], domain=[4096, 4096], iterations=1000))
    parts = JacobiParts(interior_s=2.5, edges_s=0.0, pack_s=0.0, exchange_s=0.1287, reduction_s=0.0)
    point = JacobiPoint(
        transport="staged/pinned", grid=[2, 2], domain=[4096, 4096], precision="double", overlap=True, status="ok",
        memory="device", iterations=1000, batch_iterations=[1, 999], batch_s=[0.0096, 2.84], parts=[parts] * 4,
    )  # fmt: skip
    log = example_records.log()
    log.run, log.records = example_records.run(plan), [point]
    return Side.of("ours", [log])


@pytest.mark.parametrize(
    ("hosts", "gpus", "words"),
    [("aa", "XX", "2 × X"), ("ab", "XX", "2 × X on 2 hosts"), ("ab", "XY", "1 × X and 1 × Y on 2 hosts")],
)
def test_a_machine_has_its_gpus_and_hosts(hosts: str, gpus: str, words: str) -> None:
    log, change = example_records.log(), msgspec.structs.replace
    ranks = [
        change(rank, host=host, device=change(rank.device, name=gpu))
        for rank, host, gpu in zip(example_records.with_devices(), hosts, gpus, strict=True)
    ]
    log.run = change(log.run, ranks=ranks)
    assert references.machine_of([log]).startswith(f"{words}, Example CPU")


def test_the_figures_of_a_reference_are_the_times_of_a_run_with_one_launch() -> None:
    ours = t4_run()
    theirs = published_side("t4", references.published()["t4"], ours)
    found = compare(theirs, ours, 0.05)
    assert len(found.at) == 2
    assert found.differences.ratio == pytest.approx(1, rel=0.004)  # they have three digits
    assert set(found.verdicts) == {"undecided"}
    titles = [column.title for column in page.report(found, full=True).tables[0].columns]
    assert titles[1:] == ["A", "B", "ratio", "difference"]  # no verdicts, and no bounds
    for table in references.published()["t4"].tables:  # all figures of one run agree with each other
        for at in table.figures:
            row = ours.observed.rows["jacobi", "staged/pinned"][at]
            seconds = table.seconds("staged/pinned", at, ours.observed.work[row])
            assert seconds == pytest.approx(ours.observed.columns[0][row], rel=0.004)


def test_a_copy_within_a_gpu_counts_twice_where_the_source_counts_so() -> None:
    ours, reference = Side.of("ours", [gpu_log()]), references.published()["abci-v"]
    theirs = published_side("abci-v", reference, ours)
    sweep = next((table.benchmark, *table.series) for table in reference.tables if table.rate)
    published = {at: rate for table in reference.tables if table.rate for at, (rate,) in table.figures.items()}
    for at, ours_gb_s in (("0 → 1", 783), ("0 → 0", 2 * 2050)):
        seconds = [side.observed.columns[0][side.observed.rows[sweep][at]] for side in (ours, theirs)]
        assert published[at] * seconds[1] / seconds[0] == pytest.approx(ours_gb_s, rel=0.01)


def test_a_run_is_compared_with_a_reference(capsys: Capture) -> None:
    records = str(ROOT / "results/h200-x2/pingpong-all.jsonl")
    assert cli.main(["compare", "summit", records]) == 0
    out = capsys.readouterr().out
    assert out.startswith(
        "NO VERDICT: summit has no repeats, so there are only ratios; time of B / time of A: host 1.22, "
    )
    assert references.published()["summit"].method[0] in out
    assert len(out.splitlines()) <= 45
    assert cli.main(["compare", "summit", records, "--format", "csv"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert len(rows) == 84
    first = next(row for row in rows if (row["series"], row["at"]) == ("aware", "8 B"))
    assert float(first["first_s"]) == 0.000023285
    assert float(first["ratio"]) == pytest.approx(float(first["second_s"]) / float(first["first_s"]), rel=1e-6)
    assert cli.main(["compare", "h200-x2", records, "--fail-on", "slower:1%", "--full"]) == 4  # one launch
    assert "0.0 % faster" in capsys.readouterr().out
    assert cli.main(["compare", "summit", records, "--fail-on", "slower:10%"]) == 1
    assert "failed: host at 256 B takes 1.217 times as long (no CI, one launch); " in capsys.readouterr().err


@pytest.mark.parametrize("words", [(), ("summit",), ("t4",), ("summit", "-f", "csv")], ids=" ".join)
def test_screens(words: tuple[str, ...], capsys: Capture) -> None:
    assert cli.main(["references", *words]) == 0
    check_screen(SCREENS / f"references/{'-'.join(words).replace('--f', '') or 'list'}.txt", capsys.readouterr().out)


def test_a_user_adds_his_own_machine(home: Path, capsys: Capture) -> None:
    records = write(home / "records.jsonl", launches(1))
    assert cli.main(["references", "--add", "our-cluster", str(records)]) == 0
    assert "volley compare our-cluster RECORDS" in capsys.readouterr().out
    records.unlink()
    later = write(home / "later.jsonl", launches(2, slower={"aware": 2.0}))
    assert cli.main(["compare", "our-cluster", str(later)]) == 0
    assert "CHANGED: aware is 2.00 × slower at 3 of 3 points" in capsys.readouterr().out
    assert cli.main(["references"]) == 0
    assert "our-cluster" in capsys.readouterr().out


def test_records_of_cores_that_others_used_are_no_quiet_reference(home: Path, capsys: Capture) -> None:
    (quiet := home / "quiet").write_bytes((ROOT / "results" / "two-cores" / "check.jsonl.gz").read_bytes())
    logs = read_runs(quiet, BENCHMARKS)
    for log in logs:
        usage = [
            msgspec.structs.replace(each, cpu_s=each.elapsed_s / 4, other_threads_cpu_s=0.0) for each in log.end.usage
        ]
        log.end = msgspec.structs.replace(log.end, usage=usage)
    why = (
        "volley: others used these cores (rank 0 had its core for 25 % of the time): these times are longer than those "
    )
    why += "of a quiet node; measure again while nothing else runs here, and add that\n"
    for name, records, said in (("quiet", quiet, ""), ("mine", write(home / "busy", logs), why)):
        assert cli.main(["references", "--add", name, str(records)]) == 0
        assert capsys.readouterr().err == said


def test_a_reference_is_read_from_standard_input(home: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    """And records without ranks can be one."""
    records = launches(1)
    for log in records:
        log.run = msgspec.structs.replace(log.run, ranks=[])
    data = write(home / "records.jsonl", records).read_bytes()
    monkeypatch.chdir(home)
    (home / "-").write_bytes(b"not this one")
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))
    assert cli.main(["references", "--add", "mine", "-"]) == 0
    assert cli.main(["references", "mine"]) == 0
    assert "aware" in capsys.readouterr().out


def test_misuse_is_refused(home: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    write(home / "records", launches(1))
    write(home / "empty", [example_records.log(example_records.pingpong(status="skipped"))])
    (home / "folder").mkdir()
    monkeypatch.chdir(home)
    check_transcript("refused/references", capsys, {str(home): "~"})


@pytest.mark.parametrize(
    ("factors", "words", "launches"),
    [
        ([1.2], "20.0 % slower than {}", ""),
        ([0.5, 1.0, 4.0], "no difference from {} is shown", "launches: 2.00 × faster to 4.00 × slower; "),
        (
            [0.98, 1.19, 1.2, 1.2, 1.21, 1.22],
            "no difference from {} is shown",
            "launches: 4.3 % faster to 24.7 % slower; ",
        ),
        ([1.18, 1.19, 1.2, 1.2, 1.21, 1.22], "20.0 % slower than {}", ""),
    ],
)
def test_the_median_of_the_launches_is_compared_with_the_reference(
    factors: Sequence[float], words: str, launches: str
) -> None:
    at, seconds = "1 × 1 of 4096 × 4096 double, run / iterations", 6.74845e-05
    times = [[Observable("aware", [at], [seconds * factor])] for factor in factors]
    (found,) = references.beside_equal(["NVIDIA H200"], "jacobi", times)
    said = words.format("the reference h200-x2")
    assert found.text == f"{said} ({launches}median of 1 point; volley references)"


def test_host_memory_is_not_compared_by_the_kind_of_gpu(home: Path, capsys: Capture) -> None:
    log = read_runs(ROOT / "results/h200-x2/pingpong-all.jsonl", BENCHMARKS)[-1]
    for only, compared in (("aware", True), ("host", False)):
        kept = [each for each in log.records if getattr(each, "transport", only) == only]
        part = write(home / f"{only}.jsonl", [dataclasses.replace(log, records=kept)])
        assert cli.main(["show", str(part), "--full"]) == 0
        assert (" the reference h200" in capsys.readouterr().out) == compared


def test_a_solver_on_two_nodes_or_on_one_gpu_is_not_compared_with_a_reference_of_two_gpus(
    home: Path, capsys: Capture
) -> None:
    log = read_runs(ROOT / "results/h200-x2/jacobi.jsonl", BENCHMARKS)[-1]
    one, two = log.run.ranks
    assert cli.main(["show", str(write(home / "one-node.jsonl", [log]))]) == 0
    assert "as fast as the reference h200-x2" in capsys.readouterr().out
    for other in (msgspec.structs.replace(two, node=1, host="other"), msgspec.structs.replace(two, device=one.device)):
        log.run = msgspec.structs.replace(log.run, ranks=[one, other])
        assert cli.main(["show", str(write(home / f"{other.host}.jsonl", [log]))]) == 0
        assert " the reference h200" not in capsys.readouterr().out


def test_a_run_on_the_same_gpus_is_compared_with_the_reference_by_itself(capsys: Capture) -> None:
    for records in ("h200-x4/matrix", "h200-x2/jacobi", "h200-x2/pingpong-all"):
        assert cli.main(["show", str(ROOT / f"results/{records}.jsonl"), "--full"]) == 0
        equal = r"^(as fast as|[\d.]+ % (slower|faster) than) the references? h200-x\d.* \(median of \d+ points"
        assert re.search(equal, capsys.readouterr().out, re.M)
    assert references.ratio_to_equal("NVIDIA H200", ("pingpong", "aware"), "8 B", 1.0) is not None
    assert references.ratio_to_equal("NVIDIA H200", ("stream", "aware"), "8 B", 1.0) is None
    assert references.ratio_to_equal("NVIDIA T4", ("pingpong", "aware"), "8 B", 1.0) is None
