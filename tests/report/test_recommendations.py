"""What a report recommends can be typed as it stands."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

import example_records
from comparison_records import in_turn, launches
from volley import cli
from volley.benchmarks import BENCHMARKS, Benchmark, plain
from volley.benchmarks.pair import PINGPONG
from volley.command.commandline import Command
from volley.compare import page
from volley.compare.comparison import Side, compare, published_side
from volley.records.records_file import read_runs
from volley.records.run_log import RunLog
from volley.references import published
from volley.report.model import Report
from volley.run.render import reports_of, results_of

ROOT = Path(__file__).parents[2]
FILES = [*example_records.RECORD_FILES, *sorted(ROOT.glob("results/*/*.jsonl"))]
FILES = [path for path in FILES if path.name != "peers.jsonl"]
COMMANDS = {command.name: command for command in (plain.COMMAND, *cli.COMMANDS)}
OTHERS = {"--cpus"}
"""Options of other programs that notes name."""


def texts(report: Report) -> Iterator[str]:
    """Yield every sentence of a report."""
    yield from report.heading
    yield from (text for note in report.sentences for text in (note.text, note.command))
    yield from (line for table in report.tables for line in (table.title, *table.lines()))
    if report.overview:
        yield report.overview.line
        yield from report.overview.table.lines()


def command_lines(text: str) -> Iterator[list[str]]:
    """Yield the words of every ``volley …`` in a sentence."""
    for found in re.finditer(r"\bvolley (?=[a-z-])", text):
        rest = text[found.end() :]
        words: list[str] = []
        for word in rest.split(" "):
            named = not words and word.strip(",;.)") in COMMANDS
            value = any(valued(words[0]).get(before, 0) >= far for far, before in enumerate(words[:0:-1], start=1))
            if not (named or word.startswith("-") or value):
                break
            words.append(word.rstrip(",;.)"))
            if word != words[-1]:
                break
        if words:
            yield words


def valued(name: str) -> dict[str, int]:
    """Return the options of a command that have a value, each with the number of its words."""
    return {flag: each.words for each in COMMANDS[name].declared() if each.read for flag in each.flags}


def bare_options(text: str) -> set[str]:
    """Return the options that a sentence names without a command."""
    for words in command_lines(text):
        text = text.replace(" ".join(words), "")
    return set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", text)) - OTHERS


def accepted(command: Command) -> set[str]:
    flags = {flag for each in command.declared() for flag in each.flags}
    return flags | {f"--no-{flag.removeprefix('--')}" for flag in flags}


def check(reports: Sequence[Report], shown_by: Sequence[Command]) -> int:
    """Parse everything that reports recommend; return how much that was."""
    checked = 0
    for text in (text for report in reports for text in texts(report)):
        for words in command_lines(text):
            assert cli.read(words), text
            checked += 1
        for option in bare_options(text):
            assert all(option in accepted(command) for command in shown_by), (option, text)
            checked += 1
    return checked


def shown_by(benchmark: Benchmark) -> list[Command]:
    """Return the commands that show reports of a benchmark."""
    own = COMMANDS[benchmark.command]
    return [own, COMMANDS["show"], *([plain.COMMAND] if benchmark is PINGPONG else [])]


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_reports_recommend_what_can_be_typed(path: Path) -> None:
    logs = read_runs(path, BENCHMARKS)
    for some in (logs, logs[:1]):
        for benchmark, results in results_of(some, BENCHMARKS):
            check(reports_of([(benchmark, results)]), shown_by(benchmark))


def noisy(count: int, benchmark: str = "pingpong") -> list[RunLog]:
    """Launches that miss every aim, with drift and interruptions."""
    found = []
    for launch in range(count):
        drifting = [1e-6 * (1 + 0.02 * number + 0.3 * launch) for number in range(40)]
        steady = [1e-6 + 1e-12 * number for number in range(34)] + [1e-5] * 6
        record = getattr(example_records, benchmark)
        points = [record(drifting, size=8), record(steady, size=64)]
        log = example_records.log(*points)
        log.run = example_records.run(example_records.plan(benchmark, options={"sizes_bytes": [8, 64]}))
        found.append(log)
    return found


@pytest.mark.parametrize("benchmark", ["pingpong", "stream"])
@pytest.mark.parametrize("count", [1, 2, 8])
def test_noisy_points_recommend_what_can_be_typed(count: int, benchmark: str) -> None:
    (found,) = results_of(noisy(count, benchmark), BENCHMARKS)
    assert check(reports_of([found]), shown_by(found[0]))


def test_comparisons_recommend_what_can_be_typed() -> None:
    commands = [COMMANDS["compare"]]
    few, two, many = launches(1, 2), launches(2, 2), launches(1, 8)
    for first, second in ((few, two), (in_turn(few), in_turn(two)), (many, launches(2, 8))):
        found = page.report(compare(Side.of("x", first), Side.of("y", second), 0.05), full=False)
        check([found], commands)
    summit = published_side("summit", published()["summit"], Side.of("x", many))
    check([page.report(compare(summit, Side.of("x", many), 0.05), full=False)], commands)


def test_a_recommendation_is_found_and_refused() -> None:
    assert list(command_lines("do volley pingpong -t a --tail, or volley show (volley list)")) == [
        ["pingpong", "-t", "a", "--tail"],
        ["show"],
        ["list"],
    ]
    assert list(command_lines("volley jacobi --grid 2 1 -n 2 shows")) == [["jacobi", "--grid", "2", "1", "-n", "2"]]
    assert bare_options("repeat with --launches 6 or volley pingpong --ci 1%") == {"--launches"}
    with pytest.raises(AssertionError, match="--launches"):
        check([Report(["repeat with --launches 6"])], [plain.COMMAND])
