"""``volley report``: one file without network, whose numbers, charts and downloads are those of the records."""

import base64
import csv
import gzip
import io
import json
import re
import shutil
import sys
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import comparison_records
from comparison_records import launches
from the_command import check_transcript
from volley.benchmarks import BENCHMARKS
from volley.cli import main
from volley.records.records_file import read_runs
from volley.report.model import Chart, Report
from volley.report.vega_lite import specification
from volley.run.render import render, results_of

RESULTS = Path(__file__).parents[2] / "results"
CURVES = RESULTS / "h200-x2/pingpong-all.jsonl"
MATRIX = RESULTS / "h200-x4/matrix.jsonl"
SCALING = RESULTS / "h200-x4/jacobi-scaling.jsonl"
RANKS = RESULTS / "two-cores/noise-4-ranks.jsonl"
EVERYTHING = (CURVES, MATRIX, SCALING, RANKS)


class Page(HTMLParser):
    """What a browser would find in the page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.inside: tuple[str, dict[str, str]] = ("", {})
        self.texts: list[str] = []
        self.cells: list[str] = []
        self.specs: list[dict[str, Any]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.inside = tag, {name: value or "" for name, value in attributes}
        self.tags.append(self.inside)
        if tag in ("td", "th"):
            self.cells.append("")

    def handle_endtag(self, tag: str) -> None:  # noqa: ARG002  the name that HTMLParser gives it
        self.inside = "", {}

    def handle_data(self, data: str) -> None:
        tag, attributes = self.inside
        if (tag, attributes.get("type")) == ("script", "application/json"):
            self.specs.append(json.loads(data))
        elif tag not in ("script", "style"):
            self.texts.append(data)
            if tag in ("td", "th", "button"):
                self.cells[-1] += data

    def found(self, tag: str) -> list[dict[str, str]]:
        return [attributes for each, attributes in self.tags if each == tag]


@pytest.fixture(scope="module")
def write(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Return a function that writes the page of some files and returns its path."""
    pytest.importorskip("vl_convert")
    folder = tmp_path_factory.mktemp("reports")
    known: dict[tuple[Path, ...], Path] = {}

    def written(*records: Path) -> Path:
        if records not in known:
            known[records] = folder / f"{len(known)}.html"
            assert main(["report", *map(str, records), "-o", str(known[records])]) == 0
        return known[records]

    return written


def reports(*records: Path) -> list[Report]:
    logs = [log for path in records for log in read_runs(path, BENCHMARKS)]
    return [report for benchmark, results in results_of(logs, BENCHMARKS) for report in map(benchmark.report, results)]


def chart(report: Report, title: str) -> Chart:
    return next(chart for chart in report.charts if chart.title == title)


# ------------------------------------------------------------------------------------------------- the page


@pytest.mark.parametrize("records", EVERYTHING, ids=lambda path: path.stem)
def test_a_page_loads_nothing(write: Any, records: Path) -> None:
    page = Page(write(records).read_text("utf-8"))
    assert not page.found("link")
    assert not page.found("iframe")
    assert not any("src" in each for each in page.found("script"))
    sources = [each["src"] for each in page.found("img")]
    links = [each["href"] for each in page.found("a")]
    assert all(each.startswith(("data:", "#")) for each in [*sources, *links])
    policy = next(each for each in page.found("meta") if each.get("http-equiv"))["content"]
    assert policy.startswith("default-src 'none';")
    assert "http" not in policy
    style = "".join(re.findall(r"<style>(.*?)</style>", write(records).read_text("utf-8"), re.DOTALL))
    assert "url(" not in style
    assert "@import" not in style


def test_the_page_of_the_largest_records_is_small(write: Any, tmp_path: Path) -> None:
    largest = tmp_path / "launches.jsonl"
    largest.write_bytes(gzip.decompress((RESULTS / "h200-x2/launches.jsonl.gz").read_bytes()))
    assert largest.stat().st_size > max(path.stat().st_size for path in RESULTS.rglob("*.jsonl"))
    assert write(largest).stat().st_size <= 3_000_000


@pytest.mark.parametrize("records", EVERYTHING, ids=lambda path: path.stem)
def test_every_number_of_the_csv_is_in_a_table(write: Any, records: Path) -> None:
    out = io.StringIO()
    render(read_runs(records, BENCHMARKS), BENCHMARKS, "csv", out, err=io.StringIO())
    header, *rows = csv.reader(io.StringIO(out.getvalue()))
    own = len(reports(records)[0].data.columns)  # conditions, and where results come from, follow
    header, rows = header[:own], [row[:own] for row in rows]
    cells = Page(write(records).read_text("utf-8")).cells
    starts = [place for place, cell in enumerate(cells) if cells[place : place + len(header)] == header]
    assert starts
    shown = {tuple(cells[start : start + len(header)]) for start in range(len(cells))}
    assert all(tuple(row) in shown for row in rows)


@pytest.mark.parametrize("records", EVERYTHING, ids=lambda path: path.stem)
def test_each_sentence_and_each_chart_stands_once(write: Any, records: Path) -> None:
    page, made = Page(write(records).read_text("utf-8")), reports(records)
    text, told = " ".join(page.texts), [note.text for report in made for note in report.sentences]
    assert [text.count(each) for each in told] == [told.count(each) for each in told]
    assert len(page.specs) == sum(len(report.charts) for report in made) > 0


def test_the_records_can_be_downloaded(write: Any) -> None:
    link = Page(write(MATRIX).read_text("utf-8")).found("a")[-1]
    assert link["download"] == "matrix.jsonl.gz"
    assert gzip.decompress(base64.b64decode(link["href"].partition(",")[2])) == MATRIX.read_bytes()


def test_text_of_a_machine_is_data(tmp_path: Path, write: Any) -> None:
    """A host's name, a GPU's and a transport's end in the heading, tables, charts and pictures."""
    bad = "</script><img src=x onerror=alert(1)>\\u001b[31m"
    strange = tmp_path / "strange.jsonl"
    text = CURVES.read_text("utf-8").replace('"host":"vm"', f'"host":"{bad}"').replace("NVIDIA H200", bad)
    strange.write_text(text.replace('"transport":"nccl"', f'"transport":"{bad}"'), "utf-8")
    out = tmp_path / "strange.html"
    main(["report", str(strange), "-o", str(out)])
    page, plain = Page(out.read_text("utf-8")), Page(write(CURVES).read_text("utf-8"))
    assert len(page.found("script")) == len(plain.found("script"))
    assert all(each["src"].startswith("data:") for each in page.found("img"))
    assert "\x1b" not in out.read_text("utf-8")
    assert any("</script><img" in each and r"\x1b[31m" in each for each in page.texts)
    assert any("</script><img" in each["data"]["values"] for each in page.specs)


def test_several_files_become_one_page_with_common_scales(write: Any) -> None:
    page = Page(write(CURVES, RESULTS / "h200-x2/stream-uni.jsonl").read_text("utf-8"))
    assert len(page.found("section")) == 2
    rates = [spec for spec in page.specs if spec["layer"][-1]["encoding"]["y"]["title"] == "bandwidth (GB/s)"]
    domains = [spec["layer"][-1]["encoding"]["y"]["scale"]["domain"] for spec in rates]
    assert len(domains) == 2
    assert domains[0] == domains[1]
    assert [each["download"] for each in page.found("a") if "download" in each] == [
        "pingpong-all.jsonl.gz",
        "stream-uni.jsonl.gz",
    ]


def test_two_runs_of_the_same_request_are_side_by_side(write: Any) -> None:
    files = [RESULTS / f"h100-x2/pingpong-{each}.jsonl.gz" for each in ("before", "after")]
    page = Page(write(*files).read_text("utf-8"))
    assert len(page.found("section")) == 2


def test_a_comparison_becomes_a_page(tmp_path: Path) -> None:
    pytest.importorskip("vl_convert")
    sides = [str(RESULTS / f"h100-x2/rendezvous-{each}.jsonl") for each in ("default", "from-8")]
    assert main(["compare", *sides, "-o", str(tmp_path / "page.html"), "-q"]) == 0
    page = Page((tmp_path / "page.html").read_text("utf-8"))
    ratios, curves = (spec["data"]["values"].splitlines()[1:] for spec in page.specs)
    assert len(curves) == 2 * len(ratios) == 28
    assert all(",".join(line.split(",")[3:5]).strip(",") for line in (*ratios, *curves))  # each has its interval
    said = " ".join(page.texts)
    for text in ("CHANGED: aware is 1.73 to 1.94 × faster", "1.94 × faster", "undecided: needs", "THRESH: not set → 8"):
        assert text in said
    assert len([each for each in page.found("a") if "download" in each]) == 2


def test_a_page_shows_so_many_curves_as_can_be_told_apart(write: Any) -> None:
    page = Page(write(RESULTS / "h200-x2/volley.jsonl").read_text("utf-8"))
    for spec in page.specs[:2]:
        (chosen,) = (layer["params"][0]["value"] for layer in spec["layer"] if "params" in layer)
        assert len(chosen) == 8
        colour, shape = (spec["layer"][-1]["encoding"][each]["scale"]["range"] for each in ("color", "shape"))
        assert len(set(zip(colour, shape, strict=True))) == len(colour) == 12


def test_no_table_has_the_colour_of_a_warning_everywhere(write: Any, tmp_path: Path) -> None:
    """All points of this run are noisy."""
    page = Page(write(comparison_records.write(tmp_path / "a.jsonl", launches(1, noise=0.3))).read_text("utf-8"))
    cells = page.found("td")
    assert 0 < sum("warning" in each.get("class", "") for each in cells) < len(cells) / 2


def test_the_path_of_each_transport_is_drawn(write: Any) -> None:
    pictures = Page(write(CURVES).read_text("utf-8")).found("img")
    by_title = {each["alt"]: base64.b64decode(each["src"].partition(",")[2]).decode() for each in pictures}
    assert "18 × NVLink 4.0 through NVSwitch, 478.1 GB/s" in by_title["peer: GPU 0 → GPU 1"]
    assert "PCIe 5.0 x16, 63.02 GB/s" in by_title["staged/pinned: GPU 0 → CPU memory → CPU memory → GPU 1"]


def test_pictures_are_dark_where_the_page_is(write: Any) -> None:
    for each in Page(write(CURVES).read_text("utf-8")).found("img"):
        style, body = base64.b64decode(each["src"].partition(",")[2]).decode().split("</style>")
        assert "@media (prefers-color-scheme: dark)" in style
        used = set(re.findall(r'(fill|stroke)="(#[0-9a-f]{6})"', body))
        assert ("fill", "#ffffff") in used
        assert all(f'[{name}="{light}"]{{{name}:#' in style for name, light in used)


def test_a_run_that_was_cut_short_is_shown_and_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("vl_convert")
    short, out = tmp_path / "short.jsonl", tmp_path / "short.html"
    short.write_text("".join(RANKS.read_text("utf-8").splitlines(keepends=True)[:-20]), "utf-8")
    assert main(["report", str(short), "-o", str(out)]) == 1
    assert any("INCOMPLETE" in text for text in Page(out.read_text("utf-8")).texts)
    assert capsys.readouterr().err == f"report: {out}\n"
    former = out.read_bytes()
    assert main(["report", str(RANKS), "-o", str(out)]) == 2
    assert capsys.readouterr().err == f"volley: {out} exists: name another file, or replace it with --force\n"
    assert out.read_bytes() == former
    assert main(["report", str(short), "-o", str(out), "-q", "--force"]) == 1
    assert capsys.readouterr().err == ""


# ------------------------------------------------------------------------------------------------- the charts


def test_curves_have_intervals_line_rates_and_changes_of_protocol() -> None:
    (report,) = reports(CURVES)
    latency, bandwidth = chart(report, "Latency"), chart(report, "Bandwidth")
    assert latency.x.log
    assert latency.y.log
    rows = {(row["transport"], row["size_bytes"]): row for row in report.data.rows if row["bandwidth_Bps"]}
    for curve, name, factor in ((latency, "latency_s", 1e6), (bandwidth, "bandwidth_Bps", 1e-9)):
        names = name, name.replace("_", "_low_"), name.replace("_", "_high_")
        shown = {(mark.series, mark.x): (mark.y, mark.low, mark.high) for mark in curve.marks}
        assert shown == {key: pytest.approx(tuple(row[each] * factor for each in names)) for key, row in rows.items()}
    levels = {line.label: line.at for line in bandwidth.lines if line.axis == "y"}
    assert levels == {
        "line rate of NVLink: 478.1 GB/s": pytest.approx(478.116),
        "line rate of PCIe: 63.02 GB/s": pytest.approx(63.02, abs=0.01),
    }
    assert [line.at for line in latency.lines] == [3515]
    assert "rendezvous" in latency.lines[0].label


def test_a_heat_map_has_the_pairs_without_the_diagonal() -> None:
    (report,) = reports(MATRIX)
    rates = {
        (str(row["first"]), str(row["second"])): row["bandwidth_Bps"]
        for row in report.data.rows
        if row["section"] == "uni"
    }
    shown = {(mark.y, mark.x): mark.value for mark in chart(report, "CE write, peer access on").marks}
    assert len(shown) == 16
    assert shown == {pair: None if pair[0] == pair[1] else pytest.approx(rate / 1e9) for pair, rate in rates.items()}


def test_a_large_heat_map_shows_the_slowest_pair_of_each_block() -> None:
    from volley.benchmarks.matrix.page import MAX_DRAWN, heat_map  # noqa: PLC0415
    from volley.benchmarks.matrix.results import results  # noqa: PLC0415
    from volley.benchmarks.matrix.slow_pairs import PairKinds  # noqa: PLC0415

    case = results(read_runs(RANKS, BENCHMARKS))[0].rank_cases[0]
    assert not case.shows_rate
    many = tuple(range(2 * MAX_DRAWN))
    times_s = np.full((len(many), len(many)), 1e-6)
    times_s[5, 100] = 1e-3
    kinds = PairKinds(many, many, np.zeros(times_s.shape, np.int64), ("same node",))
    large = replace(case, comparison=replace(case.comparison, kinds=kinds), times_s=times_s, nodes=(0,) * len(many))
    drawn = heat_map(large)
    assert len(drawn.marks) == MAX_DRAWN**2
    assert [(mark.y, mark.x) for mark in drawn.marks if mark.value == pytest.approx(1000)] == [("4", "100")]
    by_node = heat_map(replace(large, nodes=tuple(rank // 8 for rank in many)))
    assert len(by_node.marks) == (len(many) // 8) ** 2
    assert [(mark.y, mark.x) for mark in by_node.marks if mark.value == pytest.approx(1000)] == [("0", "12")]


@pytest.mark.parametrize("records", EVERYTHING, ids=lambda path: path.stem)
def test_every_chart_is_valid_vega_lite(records: Path) -> None:
    """The compiler raises for what it does not know."""
    vl_convert = pytest.importorskip("vl_convert")
    for each in (chart for report in reports(records) for chart in report.charts):
        assert vl_convert.vegalite_to_vega(specification(each, "#000000", 400))["marks"]


# ------------------------------------------------------------------------------------------------- other files


def test_the_name_of_the_file_chooses_a_picture(tmp_path: Path) -> None:
    pytest.importorskip("vl_convert")
    svg, png = tmp_path / "a.svg", tmp_path / "a.png"
    assert main(["report", str(CURVES), "-o", str(svg)]) == 0
    text = svg.read_text("utf-8")
    assert text.startswith("<svg")
    assert all(words in text for words in ("Latency", "Bandwidth", "half round trip (µs)", "512 KiB", "nccl"))
    assert main(["report", str(RANKS), "-o", str(png), "--format", "png"]) == 0
    assert png.read_bytes().startswith(b"\x89PNG")


def test_mistakes_are_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("vl_convert")
    (tmp_path / "copy").write_bytes(RANKS.read_bytes())
    (tmp_path / "link.svg").symlink_to("copy")
    monkeypatch.chdir(tmp_path)
    check_transcript("refused/report", capsys)
    assert (tmp_path / "copy").read_bytes() == RANKS.read_bytes()


def test_missing_packages_are_named_with_the_command_that_installs_them(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.delitem(sys.modules, "volley.report.html", raising=False)
    monkeypatch.delattr("volley.report.html", raising=False)
    monkeypatch.setitem(sys.modules, "jinja2", None)
    assert main(["report", str(RANKS), "-o", str(tmp_path / "a.html")]) == 3
    said = capsys.readouterr().err
    assert "a page needs the package jinja2: " in said
    assert "[report]" in said
    assert not (tmp_path / "a.html").exists()


# ------------------------------------------------------------------------------------------------- in a browser


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Chromium: Playwright's own, or one of the machine."""
    api = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
    with api.sync_playwright() as playwright:
        own = Path(playwright.chromium.executable_path)
        path = own if own.exists() else next(filter(None, map(shutil.which, ("chromium", "google-chrome"))), None)
        if path is None:
            pytest.skip("there is no Chromium: playwright install chromium, or the package of the distribution")
        started = playwright.chromium.launch(executable_path=str(path), args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture
def opened(browser: Any) -> Iterator[Any]:
    """Return a function that opens a page and draws its charts; at the end nothing was requested and nothing failed."""
    contexts, requests, complaints = [], [], []

    def open_page(path: Path, scheme: str = "light") -> Any:
        context = browser.new_context(color_scheme=scheme)
        contexts.append(context)
        page = context.new_page()
        page.on("request", lambda request: requests.append(request.url))
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(path.as_uri())
        page.wait_for_selector("body[data-drawn]")
        assert page.locator(".chart svg").count() == len(Page(path.read_text("utf-8")).specs)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert [url for url in requests if not url.startswith(("file:", "data:"))] == []
    assert complaints == []


def barriers(page: Any, **rules: Any) -> list[str]:
    """What axe-core (https://github.com/dequelabs/axe-core) finds: names, roles, keyboard, contrast.

    It takes long for each element, so that it gets some of those that are alike: rows of a table and marks of a chart.
    """
    axe = pytest.importorskip("axe_playwright_python", reason="axe-playwright-python is not installed")
    rows = "tbody tr:nth-child(n+9), tbody tr:nth-child(n+5):not(:has(.good, .warning, .bad, .error))"
    for alike in (rows, ".chart svg .role-mark > *:nth-child(n+3)"):
        page.evaluate("(alike) => document.querySelectorAll(alike).forEach((each) => each.remove())", alike)
    page.evaluate("(source) => void (0, eval)(source)", (Path(axe.__file__).parent / "axe.min.js").read_text("utf-8"))
    found = "(options) => axe.run(options).then((found) => found.violations.map((each) => each.help))"
    return list(page.evaluate(found, {"resultTypes": ["violations"], **rules}))


COLOURS = (
    "[getComputedStyle(document.body).backgroundColor,"
    " getComputedStyle(document.querySelector('.chart [class*=role-axis] text')).fill]"
)


def test_a_page_of_all_kinds_is_dark_where_that_is_preferred_and_has_no_barrier(opened: Any, write: Any) -> None:
    page = opened(write(*EVERYTHING))
    assert page.evaluate(COLOURS) == ["rgb(255, 255, 255)", "rgb(31, 35, 40)"]
    assert barriers(page) == []
    page = opened(write(CURVES, RANKS), "dark")
    assert page.evaluate(COLOURS) == ["rgb(13, 17, 23)", "rgb(230, 237, 243)"]
    assert barriers(page, runOnly=["color-contrast"]) == []


def test_a_click_on_the_legend_shows_a_curve(opened: Any, write: Any) -> None:
    chart = opened(write(RESULTS / "h200-x2/volley.jsonl")).locator(".chart").first
    points = chart.locator(".mark-symbol.role-mark path")
    before = points.count()
    chart.locator(".role-legend").get_by_text("nccl", exact=True).click()
    assert points.count() > before


def test_tables_sort_by_number_with_the_keyboard_and_within_their_sections(opened: Any, write: Any) -> None:
    page = opened(write(CURVES))
    table = page.locator("table").nth(1)  # the first one is the summary
    button = table.locator("th button").first
    button.focus()
    first = table.locator("tbody tr").first.locator("th")
    button.press("Enter")
    assert first.inner_text() == "8 B"
    button.press("Enter")
    assert first.inner_text() == "1 GiB"
    assert table.locator("th[aria-sort=descending]").count() == 1
    table = page.locator("table").first
    titles = table.locator(".section").all_inner_texts()
    assert titles[-1] == "host memory"
    before = table.locator("tbody").first.locator("tr").all_inner_texts()
    table.locator("th button").first.click()
    table.locator("th button").first.click()
    after = table.locator("tbody").first.locator("tr").all_inner_texts()
    assert after[0] == before[0] == titles[0]
    assert after[1:] == sorted(before[1:], reverse=True) != before[1:]
    assert barriers(page, rules={"color-contrast": {"enabled": False}}) == []


@pytest.mark.parametrize("compared", [False, True], ids=["report", "comparison"])
def test_no_name_of_a_legend_is_cut_off_and_no_table_on_paper(
    opened: Any, write: Any, tmp_path: Path, compared: bool
) -> None:
    if compared:  # its charts are narrow, because they are many
        sides = [str(RESULTS / f"h100-x2/pingpong-{each}.jsonl.gz") for each in ("before", "after")]
        assert main(["compare", *sides, "-o", str(tmp_path / "comparison.html")]) == 0
    page = opened(tmp_path / "comparison.html" if compared else write(CURVES))
    for width in (800, 1100, 1400):
        page.set_viewport_size({"width": width, "height": 900})
        page.wait_for_timeout(300)  # Vega draws again
        ends = page.evaluate(
            "[...document.querySelectorAll('.chart')].map(chart => [chart.getBoundingClientRect().right, ..."
            "[...chart.querySelectorAll('.role-legend-label text')].map(text => text.getBoundingClientRect().right)])"
        )
        assert (any if compared else all)(len(names) > 5 for _, *names in ends)  # charts of ratios have fewer
        assert all(name <= right for right, *names in ends for name in names)
    page.emulate_media(media="print")
    page.set_viewport_size({"width": 718, "height": 1047})  # A4 within its margins, at 96 pixels an inch
    assert page.evaluate("document.documentElement.scrollWidth") <= 2 * 718  # browsers shrink a page to half its size
