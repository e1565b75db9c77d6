"""The pages: links lead somewhere, commands are commands, figures and pictures are those of the records."""

import functools
import re
import shlex
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import msgspec
import pytest
import run as bench
from markdown_it import MarkdownIt
from markdown_it.token import Token
from peers import page as peers

import figures
import pages
import pictures
import screen
from volley import cli
from volley.command.commandline import value_of
from volley.machine.signals import ENDING
from volley.machine.transports import TRANSPORTS
from volley.report.svg import Drawing

ROOT = Path(__file__).parents[2]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted(ROOT.glob("docs/**/*.md")), ROOT / "results/README.md"]
DRAWN = sorted((ROOT / "docs/pictures").glob("*.svg"))
SVG = "{http://www.w3.org/2000/svg}"


def tokens(page: Path) -> Iterator[Token]:
    """Yield all tokens of a page, those of its lines of text included."""
    for token in MarkdownIt("commonmark").enable("table").parse(page.read_text("utf-8")):
        yield token
        yield from token.children or ()


def links(page: Path) -> Iterator[str]:
    """Yield where the links and pictures of a page lead, inside the repository."""
    for token in tokens(page):
        target = str(token.attrs.get("href") or token.attrs.get("src") or "")
        if target and not re.match(r"[a-z]+:", target):
            yield target


@functools.cache
def headings(page: Path) -> set[str]:
    """Return the anchors of a page as GitHub makes them: lower case, without punctuation, a hyphen for a blank."""
    found = MarkdownIt("commonmark").parse(page.read_text("utf-8"))
    titles = [token.content for before, token in pairwise(found) if before.type == "heading_open"]
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def broken(page: Path) -> list[str]:
    """Return the links of a page that lead nowhere."""
    return [target for target in links(page) if not leads_somewhere(page, target)]


def leads_somewhere(page: Path, target: str) -> bool:
    path, _, anchor = target.partition("#")
    file = page.parent / path if path else page
    if not anchor or not file.is_file():
        return file.exists()
    if lines := re.fullmatch(r"L(\d+)(?:-L(\d+))?", anchor):
        first, last = int(lines[1]), int(lines[2] or lines[1])
        return 1 <= first <= last <= len(file.read_text("utf-8").splitlines())
    return anchor in headings(file)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    assert broken(page) == []


def _is_command(code: str) -> bool:
    """Whether code in a line of text is a command with options or arguments; two words are a command's name."""
    return re.match(rf"volley ({'|'.join(each.name for each in cli.COMMANDS)}) .", code) is not None


def commands(page: Path) -> Iterator[list[str]]:
    """Yield the words of every volley command that a page tells its reader to type."""
    for token in tokens(page):
        lines: list[str] = []
        if page.name != "CHANGELOG.md" and token.type == "code_inline" and _is_command(token.content):
            lines = [token.content]
        elif token.type == "fence" and token.info in {"console", "sh"}:
            printed = token.info == "console"
            lines = [line for line in token.content.splitlines() if line.startswith("$ ") or not printed]
        for line in lines:
            words = shlex.split(re.split("[|>]| &$", line.removeprefix("$ "))[0], comments=True)
            if "volley" in words and "…" not in line:
                yield words[words.index("volley") + 1 :]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_can_be_typed(page: Path) -> None:
    known = {"all", *TRANSPORTS, "null"}
    known |= {part for name in known for part in name.split("/")}
    for words in commands(page):
        request = cli.read(words)
        if request and words and words[0] in {"pingpong", "stream"}:
            asked = {name.partition("+")[0] for name in value_of(request[1], "--transport")}  # NAME+FAULT
            assert asked <= known, words


def test_the_pages_say_what_records_and_code_say() -> None:
    for page in pages.PAGES:
        text = page.read_text("utf-8")
        assert "<!-- figures: " in text
        assert pages.renewed(text, page.parent) == text, "run make docs"


@pytest.mark.parametrize("path", sorted(bench.RESULTS.glob("*.json")), ids=lambda path: path.stem)
def test_the_pages_of_bench_are_made_of_the_numbers_beside_them(path: Path) -> None:
    result = msgspec.json.decode(path.read_bytes(), type=bench.Result)
    assert path.with_suffix(".md").read_text("utf-8") == bench.markdown(result)


def test_the_page_of_peers_is_made_of_its_records() -> None:
    assert peers.PAGE.read_text("utf-8") == peers.page(peers.recorded()), "run make docs"


def test_every_link_to_a_line_says_what_is_on_it() -> None:
    text = (ROOT / "docs/tutorial.md").read_text("utf-8")
    assert text.count("#L") == len(re.findall(r'#L[\d\-L]+ "', text)) > 0


def test_a_line_that_moved_is_followed(tmp_path: Path) -> None:
    (tmp_path / "code.c").write_text("/* new */\n\nint f(void) {\n  return 1;\n}\n", "utf-8")
    link = '[f](code.c#L{} "int f(void) {{") and [all of it](code.c#L{} "int f(void) {{")'
    assert pages.with_lines(link.format("1", "1-L3"), tmp_path) == link.format("3", "3-L5")


@pytest.mark.parametrize("code", ["int g(void)", "return"])
def test_a_line_that_is_gone_or_not_the_only_one_is_an_error(tmp_path: Path, code: str) -> None:
    (tmp_path / "code.c").write_text("return 1;\nreturn 2;\n", "utf-8")
    with pytest.raises(pages.GoneError, match=re.escape(code)):
        pages.with_lines(f'[f](code.c#L1 "{code}")', tmp_path)


def test_check_tells_and_writes_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "docs/tutorial.md"
    page.parent.mkdir()
    page.write_text("<!-- figures: the_wire -->\n<!-- end -->\n", "utf-8")
    monkeypatch.setattr(pages, "PAGES", (page,))
    monkeypatch.setattr(pages, "DOCS", page.parent)
    assert pages.main(["--check"]) == 1
    assert "run make docs" in capsys.readouterr().err
    assert "GB/s" not in page.read_text("utf-8")
    assert pages.main([]) == 0
    assert "GB/s" in page.read_text("utf-8")
    assert pages.main(["--check"]) == 0
    page.write_text('[gone](code.c#L1 "code")\n', "utf-8")
    assert pages.main([]) == 1
    assert "code.c" in capsys.readouterr().err


def test_published_tables_are_whole() -> None:
    curves = figures.published()
    assert len(curves) == 6
    for curve in curves:
        assert list(curve.half_round_trip_s) == [8 << power for power in range(28)]
    gib = 1 << 30
    in_their_gb = {(curve.machine, curve.way): curve.GBps(gib) * 1e9 / gib for curve in curves}
    # As the last lines of the tutorials' own tables say, to the digits that their times have.
    assert in_their_gb == pytest.approx(
        {
            (figures.SUMMIT, "CPU"): 12.666389375,
            (figures.SUMMIT, "CUDA-staged"): 3.807115313,
            (figures.SUMMIT, "CUDA-aware"): 43.781843371,
            (figures.NVLINK3, "CPU"): 23.863748251,
            (figures.NVLINK3, "CUDA-staged"): 2.128166176,
            (figures.NVLINK3, "CUDA-aware"): 260.333286796,
        },
        rel=1e-6,
    )


@pytest.mark.parametrize(
    ("value", "written"), [(0.8497, "0.850"), (13.999, "14.0"), (99.96, "100"), (227.4, "227"), (1849.6, "1,850")]
)
def test_three_digits(value: float, written: str) -> None:
    assert figures.three_digits(value) == written


@pytest.mark.parametrize("name", list(pictures.PICTURES))
def test_pictures_are_what_their_script_draws(name: str) -> None:
    assert (ROOT / f"docs/pictures/{name}.svg").read_text("utf-8") == pictures.PICTURES[name]().svg(), (
        "run make pictures"
    )


def test_the_curves_were_drawn_from_the_records() -> None:
    drawn = re.search(r"<!-- figures (\w+) -->", (ROOT / "docs/pictures/h200.svg").read_text("utf-8"))
    assert drawn[1] == figures.digest(), "run make pictures"


@pytest.mark.parametrize("picture", DRAWN, ids=lambda picture: picture.stem)
def test_pictures_stand_alone_on_any_background(picture: Path) -> None:
    root = ElementTree.parse(picture).getroot()
    ground = root.find(f"{SVG}rect")
    assert ground.get("fill") == "#ffffff"
    for element in root.iter():
        assert element.tag != f"{SVG}image"
        assert not any(
            "http" in value or "@import" in value for value in (*element.attrib.values(), element.text or "")
        )


def test_the_picture_of_the_screen_is_what_is_shown_today(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(screen.WIDTH))
    drawn = ("".join(each.itertext()) for each in ElementTree.parse(screen.TARGET).getroot().iter(f"{SVG}text"))
    assert "".join(screen.shown(color=False).split()) in "".join("".join(drawn).split()), "run make pictures"


def test_every_picture_is_shown() -> None:
    shown = {Path(target).name for target in links(ROOT / "docs/tutorial.md") if target.startswith("pictures/")}
    assert shown == {picture.name for picture in DRAWN}


def test_words_must_fit_their_box() -> None:
    sheet = Drawing(200, 100, "a title")
    sheet.box((0, 0), (100, 40), "gpu", "GPU 0")
    with pytest.raises(ValueError, match="wider than its box"):
        sheet.box((0, 0), (100, 40), "gpu", "message in device memory")


@pytest.mark.parametrize("page", ["README.md", "docs/architecture.md", "docs/cli.md", "docs/reading-the-output.md"])
def test_the_exit_codes_of_all_signals_that_stop_a_run_are_listed(page: str) -> None:
    text = (ROOT / page).read_text("utf-8")
    assert [each.name for each in ENDING if not re.search(rf"\b{128 + each}\b", text)] == []
