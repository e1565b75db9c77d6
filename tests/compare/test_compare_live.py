"""``volley compare --live``: two command lines in turn."""

import csv
import io
import json
import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from comparison_records import in_turn, launches, write
from the_command import LIMIT_S, gone, until
from volley import cli
from volley.benchmarks import BENCHMARKS
from volley.compare.comparison import Side, compare
from volley.compare.finding import too_few
from volley.compare.live import variants_of
from volley.records.records_file import read_runs

Capture = pytest.CaptureFixture[str]

_FAKE = """
import os, shutil, sys
place = {place!r}
words = sys.argv[1:]
with open(place + "/asked", "a") as asked:
    asked.write(os.environ.get("FACTOR", "1") + "\\n")
number = len(open(place + "/asked").readlines())
assert words[words.index("--launches") + 1] == "1"
assert words[-2:] == ["-f", "csv"]  # all notes, on standard error
if os.environ.get("FAIL_AT") == str(number):
    print("volley: no such transport", "records: " + words[words.index("-o") + 1], sep="\\n", file=sys.stderr)
    sys.exit(int(os.environ["FAIL_WITH"]))
shutil.copy(f"{{place}}/{{os.environ.get('FACTOR', '1')}}-{{number}}.jsonl", words[words.index("-o") + 1])
"""


def write_launches(folder: Path, a_round: int) -> None:
    for number in range(1, 8 * a_round + 1):
        drift = 1.1 ** ((number - 1) // a_round)
        for factor in ("1", "1.05"):
            slower = {"host": drift, "aware": drift * float(factor)}
            logs = launches(number if factor == "1" else number + 30, count=1, slower=slower)
            write(folder / f"{factor}-{number}.jsonl", logs)


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A command line whose launches take FACTOR µs, and drift by 10 % from one pair to the next."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    write_launches(tmp_path, a_round=2)
    script = tmp_path / "fake_volley.py"
    script.write_text(_FAKE.format(place=str(tmp_path)))
    return shlex.join([sys.executable, "-S", str(script), "pingpong"])


@pytest.mark.parametrize("command", ["volley pingpong --help", "env X=1 volley pingpong --help"])
def test_volley_is_found_where_it_was_started_by_its_path(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    assert cli.main(["compare", "--live", command, command]) != 0
    assert f"{command} wrote no records" in capsys.readouterr().err


def test_quiet_leaves_only_the_report(fake: str, capsys: Capture) -> None:
    assert cli.main(["compare", "--live", fake, fake, "--launches", "7", "-q"]) == 0
    out, err = capsys.readouterr()
    assert out
    assert err == ""


@pytest.mark.slow
def test_a_change_is_found_in_spite_of_drift(fake: str, tmp_path: Path, capsys: Capture) -> None:
    kept = [str(tmp_path / name) for name in ("a.jsonl", "b.jsonl")]
    words = ["compare", "--live", fake, f"FACTOR=1.05 {fake}", "--records", str(tmp_path), "--format", "json"]
    assert cli.main(words) == 0
    (series,) = json.loads(capsys.readouterr().out)["series"]
    assert {each["verdict"] for each in series["data"] if each["series"] == "aware"} == {"changed"}
    assert {each["verdict"] for each in series["data"] if each["series"] == "host"} == {"same"}
    asked = (tmp_path / "asked").read_text().split()
    assert all({*asked[pair : pair + 2]} == {"1", "1.05"} for pair in range(0, 16, 2))
    assert [len(read_runs(path, BENCHMARKS)) for path in kept] == [8, 8]
    # The files give the same answer again, because they say that they are pairs.
    assert cli.main(["compare", *kept, "--format", "json"]) == 0
    (again,) = json.loads(capsys.readouterr().out)["series"]
    assert again["data"] == series["data"]
    assert again["paired"]
    assert cli.main(["compare", *kept, "--fail-on", "slower:3%"]) == 1
    capsys.readouterr()
    # Launches in another order are no pairs.
    logs = read_runs(kept[0], BENCHMARKS)
    other = write(tmp_path / "other.jsonl", [*logs[1:], logs[0]])
    assert cli.main(["compare", str(other), kept[1], "--format", "json"]) == 0
    assert not json.loads(capsys.readouterr().out)["series"][0]["paired"]
    # They are not written over.
    assert cli.main(words) == 2
    assert "a.jsonl exists" in capsys.readouterr().err


@pytest.mark.slow
def test_three_command_lines_are_compared_with_the_first(fake: str, tmp_path: Path, capsys: Capture) -> None:
    write_launches(tmp_path, a_round=3)
    words = ["compare", "--live", fake, f"FACTOR=1.05 {fake}", fake, "--launches"]
    assert cli.main([*words, "8", "--format", "json", "-q", "--records", str(tmp_path)]) == 0
    second, third = json.loads(capsys.readouterr().out)["series"]
    assert second["comparisons"] == 2
    verdicts = [{each["verdict"] for each in those["data"] if each["series"] == "aware"} for those in (second, third)]
    assert verdicts == [{"changed"}, {"same"}]
    asked = (tmp_path / "asked").read_text().split()
    assert all(sorted(asked[start : start + 3]) == ["1", "1", "1.05"] for start in range(0, 24, 3))
    files = [str(tmp_path / f"{each}.jsonl") for each in "abc"]
    assert cli.main(["compare", *files, "--format", "csv"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [(row["baseline"], row["run"]) for row in rows] == [(files[0], file) for file in files[1:] for _ in range(6)]
    assert cli.main(["compare", *files, "--format", "json"]) == 0
    assert [each["data"] for each in json.loads(capsys.readouterr().out)["series"]] == [second["data"], third["data"]]
    assert cli.main(["compare", *files, "--fail-on", "slower:3%"]) == 1
    told = capsys.readouterr().err.splitlines()
    assert [line.split()[3:5] for line in told] == [["B", "failed:"], ["C", "passed;"]]


def test_one_pair_is_too_few() -> None:
    one, other = (Side.of(str(seed), in_turn(launches(seed, 1))) for seed in (1, 2))
    assert too_few(compare(one, other, 0.05)).startswith("1 pair is too few to show a change: use ")


def test_the_values_of_a_variable_take_turns(fake: str, capsys: Capture) -> None:
    assert cli.main(["compare", "--sweep", "FACTOR=,1.05", fake, "-q"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("CHANGED: aware is ")
    assert "A: FACTOR not set" in out
    assert "B: FACTOR=1.05" in out


def test_commands_that_measure_nothing_are_refused(fake: str, tmp_path: Path, capsys: Capture) -> None:
    for number in (1, 2):
        for log in (logs := read_runs(tmp_path / f"1-{number}.jsonl", BENCHMARKS)):
            log.records.clear()
        write(tmp_path / f"1-{number}.jsonl", logs)
    assert cli.main(["compare", "--live", fake, fake, "-q"]) == 2
    assert capsys.readouterr().err == f"volley: {fake} measures no point: there is nothing to compare\n"


def test_commands_without_a_common_point_are_refused_after_a_launch_of_each(
    fake: str, tmp_path: Path, capsys: Capture
) -> None:
    for number in (1, 2):
        write(tmp_path / f"2-{number}.jsonl", launches(number, count=1, names=["peer"]))
    assert cli.main(["compare", "--live", fake, f"env FACTOR=2 {fake}", "-q"]) == 2
    assert "the runs have no point in common" in capsys.readouterr().err
    assert len((tmp_path / "asked").read_text().splitlines()) == 2


@pytest.mark.parametrize(
    ("command", "options"),
    [
        ("volley pingpong", ["--launches", "1"]),
        ("A=volley /opt/a/bin/volley bandwidth -t host", ["--launches", "1"]),
        ("volley matrix --ranks 2", []),
        ("python -m volley matrix", []),
        ("ssh host volley-here pingpong", ["--launches", "1"]),
    ],
)
def test_each_command_makes_one_launch(command: str, options: list[str]) -> None:
    first, _ = variants_of([command, command], None)
    assert list(first.words[len(shlex.split(first.name)) :]) == options


def test_records_are_kept_in_the_state_folder(fake: str, capsys: Capture) -> None:
    assert cli.main(["compare", "--live", fake, f"env FACTOR=1.05 {fake}", "--launches", "7"]) == 0
    captured = capsys.readouterr()
    files = [line.removeprefix("records: ") for line in captured.err.splitlines() if line.startswith("records: ")]
    assert [len(read_runs(path, BENCHMARKS)) for path in files] == [7, 7]


@pytest.mark.parametrize(("code", "expected"), [(2, 2), (1, 3), (3, 3)])
def test_a_command_that_fails_ends_it_and_its_words_are_shown(
    fake: str, code: int, expected: int, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setenv("FAIL_AT", "3")
    monkeypatch.setenv("FAIL_WITH", str(code))
    assert cli.main(["compare", "--live", fake, f"FACTOR=1.05 {fake}"]) == expected
    err = capsys.readouterr().err
    assert "no such transport" in err
    assert err.count("records: ") == 2  # the first pair is kept


def test_an_interrupted_comparison_shows_its_whole_pairs(
    fake: str, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setenv("FAIL_AT", "16")
    monkeypatch.setenv("FAIL_WITH", "130")
    assert cli.main(["compare", "--live", fake, f"FACTOR=1.05 {fake}"]) == 130
    captured = capsys.readouterr()
    assert "stopped by Ctrl-C after 7 pairs" in captured.err
    assert captured.out.startswith("CHANGED: aware")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_a_command_does_not_outlive_the_comparison(number: signal.Signals, tmp_path: Path) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    pid = tmp_path / "pid"
    command = shlex.join(["sh", "-c", f"echo $$ >{pid}; exec sleep 600", "volley-here"])
    parent = subprocess.Popen(
        [sys.executable, "-m", "volley", "compare", "--live", command, command],
        env={**os.environ, "TMPDIR": str(temporary), "XDG_STATE_HOME": str(tmp_path)},
        stderr=subprocess.PIPE,
    )
    until(lambda: pid.exists() and pid.read_text() != "", "the command does not start")
    parent.send_signal(number)
    parent.communicate(timeout=LIMIT_S)
    gone(int(pid.read_text()))
    if number != signal.SIGKILL:
        assert parent.returncode == 128 + number
        assert list(temporary.iterdir()) == []
