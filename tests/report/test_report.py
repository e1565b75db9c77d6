"""The renderers, which know no benchmark: what any page becomes on a screen, as CSV and as JSON."""

import io
import json
import math
import re
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import pytest
from rich.console import Console
from rich.text import Text

from volley.records.run_log import RunLog
from volley.report import csv as as_csv
from volley.report import json as as_json
from volley.report import terminal
from volley.report.cells import Quantity, data_of
from volley.report.model import Cell, Column, ColumnRows, Data, Details, Later, Note, Overview, Report, Row, Table
from volley.statistics.estimates import Estimate, Kind
from volley.text import never_fail


@pytest.fixture(autouse=True)
def _eighty_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")


def shown(*reports: Report, color: bool | None = None) -> str:
    out = io.StringIO()
    terminal.render(reports, out, Details(color=color))
    return out.getvalue()


def table(columns: list[Column], *rows: Row) -> str:
    """What is below the heading, without blanks at the ends of lines."""
    text = shown(Report(["heading"], [Table(columns, rows)]))
    return "\n".join(line.rstrip() for line in text.splitlines()[2:])


# ------------------------------------------------------------------------------------------------- quantities


@pytest.mark.parametrize(("kind", "row"), [("ci", "2.5e-06,2e-06,3e-06,3"), ("single", "2.5e-06,,,3")])
def test_columns_data_and_marks_follow_from_a_quantity(kind: Kind, row: str) -> None:
    quantity = Quantity("wait", "µs", lambda result: result, "waiting", bounds=("within", "ci"))
    result = Estimate(2.5e-6, 2e-6, 3e-6, 5, kind)
    assert table([quantity.column()], [quantity.cell(result)]).split() == ["waiting", "µs", "───────", "2.500"]
    assert quantity.cell(None) == Cell()
    out = io.StringIO()
    as_csv.render([Report(["heading"], results=lambda: data_of([quantity], (), [result, None]))], out)
    assert out.getvalue() == f"wait_s,wait_low_s,wait_high_s,schema\n{row}\n,,,3\n"
    mark = quantity.mark(8, "host", result)
    assert (mark.x, mark.y, mark.series) == (8, pytest.approx(2.5), "host")
    assert (mark.low, mark.high) == ((None, None) if kind == "single" else pytest.approx((2, 3)))


def test_what_the_screen_does_not_show_is_not_made() -> None:
    def fail() -> list[Note]:
        raise AssertionError

    overview = Overview("3 points", Table([Column("transport")], [["host"]]))
    report = Report(["heading"], Later(fail), summary=lambda: overview)
    assert "3 points" in shown(report)
    with pytest.raises(AssertionError):
        terminal.render([report], io.StringIO(), Details(full=True))


# ------------------------------------------------------------------------------------------------- terminal


def test_a_sentence_stands_for_ticks_that_do_not_fit() -> None:
    columns = [Column("size"), Column("x" * 70), Column("verified", all_true="all verified")]
    assert table(columns, ["8 B", 1, True], ["1 B", 2, None]).splitlines()[-1] == "all verified"
    assert "verified" not in table(columns, ["8 B", 1, None])
    assert table(columns, ["8 B", 1, True], ["1 B", 2, False]).splitlines()[-1].split() == ["1", "B", "no"]
    failed = table(columns, ["8 B", 1, True], ["1 B", 2, Cell(text="FAILED")])
    assert failed.splitlines()[-1].split() == ["1", "B", "FAILED"]
    assert "✓" in table([columns[0], columns[2]], ["8 B", True])


def test_a_long_text_wraps_below_itself_on_a_terminal_only() -> None:
    columns = [Column("name", align="left"), Column("why", align="left")]
    page = Report(["x"], [Table(columns, [["one", Cell(text="word " * 20)], ["two", "short"]])])
    screen = re.sub(r"\x1b\[[0-9;]*m", "", shown(page, color=True)).splitlines()
    assert max(map(len, screen)) <= 80
    assert [line.split()[0] for line in screen[-3:]] == ["one", "word", "two"]
    assert screen[-3].index("word") == screen[-2].index("word")
    assert len(shown(page).splitlines()) == len(screen) - 1


@pytest.mark.parametrize("width", range(40, 100, 3))
def test_a_command_is_not_broken_whatever_the_styles_around_it(width: int) -> None:
    command, out = "volley pingpong --transport host", io.StringIO()
    text = Text.assemble(("do: ", "bold"), f"A_SETTING=100 ANOTHER_SETTING=100 {command} shows what MPI tries")
    terminal.print_line(Console(file=out, width=width), text, first=Text("  "), wrap=True)
    lines = out.getvalue().splitlines()
    assert any(command in line for line in lines)
    assert max(map(len, lines)) <= width


def test_text_is_neither_obeyed_nor_marked_up_wherever_it_stands() -> None:
    bad = "\x1b[2J[bold]:smile:\n"
    page = Report(
        [bad],
        [Table([Column(bad), Column("c", group=bad)], [[bad, Cell(text=bad)]], title=bad, legend=[bad])],
        [Note("finding", bad)],
    )
    text = shown(page, color=False)
    assert "\x1b" not in text
    assert text.count("\\x1b[2J[bold]:smile:") == 8  # heading, title, column, group, two cells, legend and note
    assert "😄" not in text


@pytest.mark.parametrize(
    ("encoding", "heading", "unit", "rule"),
    [("ascii", "a -> b", "us", "----"), ("latin-1", "a -> b", "µs", "----"), ("utf-8", "a → b", "µs", "────")],
)
def test_a_file_gets_what_it_can_encode(encoding: str, heading: str, unit: str, rule: str) -> None:
    out = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    never_fail(out)
    data = Data(("name", "reason"), (), [{"name": "naïve", "reason": "3 µs"}])
    report = Report(["a → b"], [Table([Column("a"), Column("t", "µs")], [["x", True]])], results=lambda: data)
    terminal.render([report], out)
    as_csv.render([report], out)
    as_json.render([report], out)
    out.flush()
    text = out.buffer.getvalue().decode(encoding)
    assert heading in text
    assert f" {unit}" in text
    assert rule in text
    assert "?" not in text.replace("na?ve", "")


# ----------------------------------------------------------------------------------------------- csv and json


def data(**row: object) -> Report:
    return Report(["x"], results=lambda: Data(tuple(name for name in row if name != "nested"), rows=[row]))


def as_text(*reports: Report) -> str:
    out = io.StringIO()
    as_csv.render(reports, out)
    return out.getvalue()


def test_csv_writes_every_kind_of_value() -> None:
    text = as_text(data(a=None, b=True, c=0.1 + 0.2, d=(0, 1), e="x, y", f=3, nested={"g": 1}))
    assert text == 'a,b,c,d,e,f,schema\n,yes,0.3,0-1,"x, y",3,3\n'


def test_csv_is_one_table_whatever_the_columns_and_says_where_rows_come_from() -> None:
    first, second = (replace(data(a=1), origin=partial(dict, run=name, host="n")) for name in ("x.jsonl", "y.jsonl"))
    assert as_text(first, second) == "a,run,host,schema\n1,x.jsonl,n,3\n1,y.jsonl,n,3\n"
    assert as_text(first, data(b=2)) == "a,b,run,host,schema\n1,,x.jsonl,n,3\n,2,,,3\n"
    assert as_text(replace(data(host="own"), origin=lambda: {"host": "other"})) == "host,schema\nown,3\n"


def test_csv_shows_its_header_where_nothing_was_measured() -> None:
    assert as_text(Report(["x"], results=lambda: Data(("a", "b")))) == "a,b,schema\n"


def test_json_has_whole_rows_what_belongs_beside_them_and_no_nan() -> None:
    out = io.StringIO()
    page = Report(
        ["x"],
        results=lambda: Data(("a",), rows=[{"a": math.inf, "nested": {"b": "é"}}]),
        runs=[RunLog(number=7)],
        extra={"more": [2]},
    )
    as_json.render([page], out)
    assert out.getvalue().isascii()
    (series,) = json.loads(out.getvalue())["series"]
    assert series["data"] == [{"a": None, "nested": {"b": "é"}}]
    assert series["more"] == [2]
    assert [run["launch"] for run in series["runs"]] == [7]


def test_json_writes_each_result_before_it_asks_for_the_next() -> None:
    out, written = io.StringIO(), []

    def parts() -> Iterator[dict[str, list[int]]]:
        for number in range(3):
            written.append(out.getvalue().count('{"a":'))
            yield {"a": [number]}

    as_json.render([Report(["x"], results=lambda: Data(("a",), rows=ColumnRows(3, parts)))] * 2, out)
    assert written == [0, 1, 2, 3, 4, 5]
    assert [len(series["data"]) for series in json.loads(out.getvalue())["series"]] == [3, 3]


@pytest.mark.parametrize("width", [40, 60, 80, 200])
def test_a_terminal_does_not_break_a_command(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    command = "volley jacobi -t aware,peer --grid 2 1 --tolerance=1e-7 --sizes 8:64Ki --launches 12 --budget 100"
    report = Report(heading=[f"What is not certain: {command}; " + "word " * 40])
    lines = re.sub(r"\x1b\[[0-9;]*m", "", shown(report, color=True)).splitlines()
    assert sum(command in line for line in lines) == 1
    assert len(lines) > 1


@pytest.mark.parametrize("full", [True, False])
def test_a_table_without_a_row_is_not_shown(full: bool) -> None:
    columns = [Column("size")]
    report = Report(["heading"], [Table(columns, [], title="nothing"), Table(columns, [[1]], title="something")])
    assert [table.title for table in Details(full=full).tables_of(report)] == ["something"]
