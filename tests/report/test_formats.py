"""Every format shows every benchmark and every report, and is what its name says."""

import csv
import io
import json
import re
from collections import Counter
from functools import partial
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator
from markdown_it import MarkdownIt

import example_records
from comparison_records import launches, write
from volley import cli
from volley.benchmarks import BENCHMARKS
from volley.command.options import FORMATS
from volley.records.launch_series import settings_of
from volley.records.records_file import read_runs
from volley.report import markdown, prometheus
from volley.report.model import Cell, Column, ColumnRows, Data, Details, Note, Overview, Report, Table, finding
from volley.run.render import render_reports, reports_of, results_of

ROOT = Path(__file__).parents[2]
RECORDS = [
    *example_records.RECORD_FILES,
    ROOT / "results/h200-x2/volley.jsonl",
    ROOT / "results/h200-x4/matrix.jsonl",
    ROOT / "results/h200-x2/jacobi-scaling.jsonl",
]
DATA_SCHEMA = Draft202012Validator(json.loads((ROOT / "schema/data.schema.json").read_text("utf-8")))
Capture = pytest.CaptureFixture[str]
SAMPLE = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)\{((?:[a-zA-Z_]\w*="(?:[^"\\\n]|\\\\|\\"|\\n)*",?)*)\} (\S+)')
"""A sample of Prometheus' text format."""


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def is_valid(format_name: str, text: str) -> None:
    """Check the syntax of a format."""
    if format_name == "json":
        assert json.loads(text)["series"]
        DATA_SCHEMA.validate(json.loads(text))
    elif format_name == "csv":
        header, *rows = csv.reader(io.StringIO(text))
        assert len(set(header)) == len(header)
        assert {len(row) for row in rows} <= {len(header)}
    elif format_name == "prometheus":
        check_samples(text)
    elif format_name == "markdown":
        assert text.startswith("## ")
        assert all(line.endswith(" |") for line in text.splitlines() if line.startswith("| "))


def check_samples(text: str) -> None:
    """Check that each metric has its type before its samples, all samples together, and no sample twice."""
    seen: list[str] = []
    labels: Counter[str] = Counter()
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            seen.append(line.split()[2])
        elif not line.startswith("# HELP "):
            sample = SAMPLE.fullmatch(line)
            assert sample, line
            assert sample[1] == seen[-1]
            float(sample[3])
            labels[line.rpartition(" ")[0]] += 1
    assert len(set(seen)) == len(seen)
    assert set(labels.values()) <= {1}


def cells(text: str) -> list[list[str]]:
    """Return the rows of all tables of a Markdown page, with their text as a reader sees it."""
    found: list[list[str]] = []
    inside = False
    for token in MarkdownIt("commonmark").enable("table").parse(text):
        if token.type == "tr_open":
            found.append([])
        inside = inside or token.type in ("th_open", "td_open")
        if inside and token.type == "inline":
            found[-1].append("".join(child.content for child in token.children or () if child.type == "text"))
            inside = False
    return found


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_every_format_shows_every_benchmark(path: Path) -> None:
    reports = reports_of(results_of(read_runs(path, BENCHMARKS), BENCHMARKS))
    for format_name in FORMATS:
        out = io.StringIO()
        render_reports(reports, format_name, out)
        assert out.getvalue()
        is_valid(format_name, out.getvalue())
    assert (cli.main(["show", str(path)]) == 0) == (path.stem not in {"failed", "incomplete", "gpu-matrix"})
    for report in reports:  # the keys tell rows apart
        keys = [tuple(str(row[name]) for name in report.data.keys) for row in report.data.rows]
        assert len(set(keys)) == len(keys)
        assert {*report.data.keys} <= {*report.data.columns}


OF_A_PROGRAM = {"names", "recorded"}
"""Of ``volley replay``: the calls, which are in the file that it names."""


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_every_setting_that_may_change_a_result_is_in_every_format(path: Path) -> None:
    """Each part of a plan but its points and the time that they take; a grid has ``grid_x`` and ``grid_y``."""
    for report in reports_of(results_of(read_runs(path, BENCHMARKS), BENCHMARKS)):
        texts = {}
        for format_name in ("csv", "json", "prometheus"):
            render_reports([report], format_name, out := io.StringIO())
            texts[format_name] = out.getvalue()
        columns = texts["csv"].splitlines()[0].split(",")
        series = json.loads(texts["json"])["series"][0]
        known = {*series.get("conditions", ()), *(name for row in series["data"] for name in row)}
        plans = [each.run.plan for each in report.runs if each.run]
        for name in {name for plan in plans for name in settings_of(plan)} - OF_A_PROGRAM:
            if name == "sampling" and not {"samples", "transport"} <= {*columns}:
                continue
            names = {name, f"{name}_x"}
            assert names & {*columns}, name
            assert names & known, name
            assert any(
                f'{each}="' in texts["prometheus"] or f"volley_{each}{{" in texts["prometheus"] for each in names
            )


@pytest.mark.parametrize("format_name", FORMATS)
@pytest.mark.parametrize(
    "words",
    [("references",), ("references", "summit"), ("list",), ("compare", "{x}", "{y}"), ("compare", "summit", "{x}")],
    ids=" ".join,
)
def test_every_format_shows_every_report(
    words: tuple[str, ...], format_name: str, tmp_path: Path, capsys: Capture
) -> None:
    files = {name: write(tmp_path / f"{name}.jsonl", launches(seed)) for seed, name in enumerate("xy")}
    code = cli.main([*(word.format(**files) for word in words), "--format", format_name])
    assert code == (2 if (*words, format_name) == ("list", "prometheus") else 0)
    is_valid(format_name, capsys.readouterr().out)


# ------------------------------------------------------------------------------------------------- several runs


def rows_of(capsys: Capture, *words: str) -> list[dict[str, str]]:
    assert cli.main(["show", *words, "--format", "csv", "-q"]) == 0
    return list(csv.DictReader(io.StringIO(capsys.readouterr().out)))


def test_several_runs_are_one_table(capsys: Capture) -> None:
    first, second = (str(ROOT / f"results/h200-x2/{name}.jsonl") for name in ("volley", "matrix"))
    rows = rows_of(capsys, first, second)
    assert {(row["run"], row["benchmark"]) for row in rows} == {(first, "pingpong"), (second, "gpu_matrix")}
    assert {row["host"] for row in rows} == {"vm"}
    assert {row["launch"] for row in rows if row["run"] == first} == {"1-4"}
    assert all(row["date"].startswith(("2026-11-22T", "2026-11-23T")) for row in rows)


def test_each_launch_and_each_run_by_itself(capsys: Capture) -> None:
    path = str(ROOT / "results/h200-x2/volley.jsonl")
    together = rows_of(capsys, path)
    launches = rows_of(capsys, path, "--each", "launch")
    assert {row["launch"] for row in launches} == {"1", "2", "3", "4"}
    assert len(launches) == 4 * len(together)
    assert len({row["date"] for row in launches}) == 4
    copy = str(ROOT / "results/h200-x2/../h200-x2/volley.jsonl")
    assert {row["run"] for row in rows_of(capsys, path, copy)} == {path}  # the same launches
    apart = rows_of(capsys, path, copy, "--each", "run")
    assert [row["run"] for row in apart] == [path] * len(together) + [copy] * len(together)


def test_samples_of_several_launches_are_told_apart(capsys: Capture) -> None:
    path = str(ROOT / "results/h200-x2/volley.jsonl")
    assert cli.main(["show", path, "--each", "launch", "--format", "prometheus"]) == 0
    text = capsys.readouterr().out
    check_samples(text)
    assert 'launch="4"' in text
    assert cli.main(["show", path, "--format", "prometheus"]) == 0
    assert "launch=" not in capsys.readouterr().out


# ------------------------------------------------------------------------------------------------- prometheus


def as_prometheus(*reports: Report) -> list[str]:
    out = io.StringIO()
    prometheus.render(reports, out)
    check_samples(out.getvalue())
    return [line for line in out.getvalue().splitlines() if not line.startswith("#")]


def test_numbers_are_in_si_units_and_texts_are_labels() -> None:
    row = {
        "what": 'a "b"\\',
        "latency_s": 2.5e-6,
        "rate_Bps": 1.5e9,
        "run_s": 3,
        "ok": True,
        "status": "failed",
        "none": None,
    }
    origin = {"benchmark": "b", "host": "h", "date": "1970-01-01T00:01:00Z", "run": "r"}
    report = Report(
        ["x"], results=lambda: Data(tuple(row), ("what",), [row]), notes=[Note("error", "bad")], origin=lambda: origin
    )
    own = 'benchmark="b",host="h",what="a \\"b\\"\\\\"'
    assert as_prometheus(report) == [
        'volley_start_time_seconds{benchmark="b",host="h"} 60.0',
        'volley_errors{benchmark="b",host="h"} 1',
        f"volley_latency_seconds{{{own}}} 2.5e-06",
        f"volley_rate_bytes_per_second{{{own}}} 1.5e+09",
        f"volley_run_seconds{{{own}}} 3",
        f"volley_ok{{{own}}} 1",
        f'volley_status{{{own},status="failed"}} 1',
    ]


def test_columns_are_written_as_the_same_rows_are() -> None:
    columns = {
        "benchmark": ["b", "b", "b"],
        "kind": ["near", "near", None],
        "messages_per_s": [2.0, None, 3.0],
        "messages_low_per_s": [1, 2, 3],
        "note": [None, "x", None],
    }
    names, origin = tuple(columns), {"benchmark": "b", "run": "r"}
    rows = [dict(zip(names, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    by_row, by_column = (
        as_prometheus(Report(["x"], results=partial(Data, names, names[:2], given), origin=lambda: origin))
        for given in (rows[1:], ColumnRows(2, lambda: [{name: values[1:] for name, values in columns.items()}]))
    )
    assert by_row == by_column
    assert by_column == [
        'volley_errors{benchmark="b"} 0',
        'volley_messages_per_second{benchmark="b"} 3',
        'volley_messages_low_per_second{benchmark="b",kind="near"} 2',
        'volley_messages_low_per_second{benchmark="b"} 3',
        'volley_note{benchmark="b",kind="near",note="x"} 1',
    ]
    repeated = Report(["x"], results=lambda: Data(names, names[:2], rows), origin=lambda: origin)
    assert 'volley_messages_low_per_second{benchmark="b",run="r",kind="near"} 2' in as_prometheus(repeated)


def test_text_of_a_machine_adds_no_sample() -> None:
    origin = {"benchmark": "b", "host": 'a"} 1\nvolley_errors{host="good"} 0\n#\x1b[2J', "run": "r", "date": "x"}
    report = Report(["x"], results=lambda: Data(("n",), (), [{"n": 1}]), origin=lambda: origin)
    own = 'benchmark="b",host="a\\"} 1 volley_errors{host=\\"good\\"} 0 #\\\\x1b[2J"'
    assert as_prometheus(report) == [f"volley_errors{{{own}}} 0", f"volley_n{{{own}}} 1"]


# --------------------------------------------------------------------------------------------------- markdown


def as_markdown(report: Report, **details: bool) -> str:
    out = io.StringIO()
    markdown.render([report], out, details=Details(**details))
    return out.getvalue()


def test_text_is_not_marked_up_in_markdown() -> None:
    bad = "<script> *a* _b_ `c` [d](e) | f \x1b[31m"
    seen = "<script> *a* _b_ `c` [d](e) | f \\x1b[31m"
    table = Table([Column(bad, align="left"), Column("n", "µs")], [[bad, Cell(1.5)]], title=bad, legend=[bad])
    text = as_markdown(Report([bad, "1. x", "# y", "- z"], [table], [Note("warning", bad)]))
    tokens = MarkdownIt("commonmark").enable("table").parse(text)
    kinds = {token.type for token in tokens} | {child.type for token in tokens for child in token.children or ()}
    html = {child.content for token in tokens for child in token.children or () if child.type == "html_inline"}
    assert html == {"<br>"}
    assert not kinds & {"html_block", "link_open", "em_open", "ordered_list_open", "code_inline"}
    assert [token.tag for token in tokens if token.type == "heading_open"] == ["h2"]
    assert cells(text) == [[seen, "nµs"], [seen, "1.500"]]


def test_markdown_shows_the_screen_or_what_is_asked_for() -> None:
    inner = Table(
        [Column("transport", align="left"), Column("8 B", group="latency")], [["a", 1.0]], sections={0: "GPU"}
    )
    overview = Overview("3 points", inner)
    report = Report(
        ["heading"],
        [Table([Column("size")], [["every size"]]), Table([Column("fit")], [["a line"]], model=True)],
        [finding("SLOW", "it is slow", "volley doctor"), Note("warning", "beware")],
        summary=lambda: overview,
    )
    text = as_markdown(report)
    assert "- **SLOW** it is slow: `volley doctor`" in text
    assert "`volley show --full`: all tables and notes" in text
    assert "*GPU*" in text
    for detail in ("every size", "beware", "a line"):
        assert detail not in text
        assert detail in as_markdown(report, full=True)
