import io
import json
import re
import threading
from collections.abc import Sequence
from copy import deepcopy
from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from example_records import golden, pingpong, plan, run, transport
from screens import SCREENS, check_screen
from the_command import Command
from volley.benchmarks import named
from volley.benchmarks.jacobi.records import JacobiForecast, JacobiProgress
from volley.benchmarks.matrix.records import row_in_short
from volley.benchmarks.points.jobs import PointForecast
from volley.records.plan import Plan
from volley.records.run_log import RunLog
from volley.run.jobs import Forecast
from volley.run.launches import LaunchCount
from volley.run.progress import STARTUP, Progress
from volley.statistics.estimates import median


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERM", "xterm")
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)


def forecast(the_plan: Plan | None = None) -> Forecast:
    the_plan = the_plan or plan()
    return named(the_plan.benchmark).forecast(the_plan)


def sweep(*sizes: int, **changes: object) -> PointForecast:
    """The forecast of a sweep over these sizes."""
    return PointForecast(plan(**changes), sizes)


def follow(logs: list[RunLog], format_name: str, out: io.StringIO, err: io.StringIO) -> None:
    with Progress(format_name, LaunchCount(len(logs), len(logs)), out=out, err=err) as progress:
        for log in logs:
            progress.begin(forecast(log.run.plan), log.run.plan.world_size)
            records = [log.run, *log.transports, *log.records, *([log.end] if log.end else [])]
            for record in records:
                progress.on_record(record)


def lines_of(done: Sequence[Sequence[tuple[Any, float]]], expected: Forecast, **about: Any) -> list[str]:
    """The lines for records of launches, each with the seconds that it took, on a clock of the test."""
    now, err = 0.0, io.StringIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("volley.run.progress.time.monotonic", lambda: now)
        patch.setattr("volley.run.progress.LINES_EVERY_S", 0.0)
        with Progress(out=io.StringIO(), err=err, **about) as progress:
            for records in done:
                progress.begin(deepcopy(expected), 2)
                for record, took_s in records:
                    now += took_s
                    progress.on_record(record)
    return err.getvalue().splitlines()


def points(*sizes: int, took_s: float) -> list[tuple[Any, float]]:
    return [(pingpong([1e-6] * 6, size=size, elapsed_s=took_s), took_s) for size in sizes]


# --------------------------------------------------------------------------------------------- plain lines


@pytest.fixture
def every_record(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a terminal, show a line for each record."""
    monkeypatch.setattr("volley.run.progress.LINES_EVERY_S", 0.0)


def test_without_a_terminal_there_is_a_line_every_ten_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = iter(range(0, 1000, 4))
    monkeypatch.setattr("volley.run.progress.time.monotonic", lambda: float(next(seconds)))
    err = io.StringIO()
    follow(golden("pingpong-host"), "table", io.StringIO(), err)  # ten points, four seconds apart
    assert len(err.getvalue().splitlines()) == 3


def test_without_a_terminal_a_failure_is_shown_at_once_and_once() -> None:
    err = io.StringIO()
    with Progress(out=io.StringIO(), err=err) as progress:
        for _ in range(2):
            progress.begin(sweep(8, 16), 2)
            for size in (8, 16):
                progress.on_record(pingpong(status="failed", size=size))
    assert [line.partition(" (")[0] for line in err.getvalue().splitlines()] == [
        "volley: host 8 B: FAILED",
        "volley: host 16 B: FAILED",
    ]


@pytest.mark.usefixtures("every_record")
def test_without_a_terminal_records_are_the_lines_that_were_looked_at() -> None:
    """Their times are of this machine."""
    names = ("pingpong-host", "stream-bi", "failed", "skipped", "launches", "rank-matrix", "gpu-matrix", "overlap")
    parts = []
    for name in names:
        out, err = io.StringIO(), io.StringIO()
        follow(golden(name), "table", out, err)
        assert out.getvalue() == ""
        assert err.getvalue().endswith("(100 %, done)\n")
        parts.append(f"{name}\n" + re.sub(r"\(\d+ %, about .* left\)$", "(…)", err.getvalue(), flags=re.MULTILINE))
    check_screen(SCREENS / "progress.txt", "\n".join(parts))
    assert row_in_short("host 8 B, rank 0 first", [None, None], 1, None) == "host 8 B, rank 0 first: FAILED"
    assert row_in_short("host 8 B, rank 0 first", [None, None], 0, None) == "host 8 B, rank 0 first: skipped"


def test_notes_are_lines_without_escape_sequences() -> None:
    err = io.StringIO()
    with Progress(out=io.StringIO(), err=err) as progress:
        progress.note("mind \x1b[31mthis")
    assert err.getvalue() == "volley: mind \\x1b[31mthis\n"


# ------------------------------------------------------------------------------------------------- the bar


def visible(text: str) -> str:
    return re.sub(r"\x1b\[[?0-9;]*[a-zA-Z]", "", text)


def test_on_a_terminal_a_bar_is_drawn_on_stderr_and_wiped_out() -> None:
    out, err = Terminal(), Terminal()
    follow(golden("pingpong-host"), "csv", out, err)
    assert out.getvalue() == ""
    drawn = visible(err.getvalue())
    assert "starting 2 ranks" in drawn
    assert re.search(r"\d+% .*left *\n+host 8 B: 0\.33", drawn)
    assert "100%" in drawn
    assert err.getvalue().rstrip().endswith("\x1b[2K")


def test_the_bar_is_drawn_on_stdout_where_only_that_is_a_terminal() -> None:
    out, err = Terminal(), io.StringIO()
    follow(golden("pingpong-host"), "table", out, err)
    assert "100%" in visible(out.getvalue())
    assert err.getvalue() == ""


@pytest.mark.usefixtures("every_record")
@pytest.mark.parametrize("format_name", ["csv", "json", "olcf"])
def test_data_on_stdout_is_never_drawn_into(format_name: str) -> None:
    out, err = Terminal(), io.StringIO()
    follow(golden("pingpong-host"), format_name, out, err)
    assert out.getvalue() == ""
    assert len(err.getvalue().splitlines()) == 10


def test_the_bar_never_runs_backwards() -> None:
    out = Terminal()
    follow(golden("launches"), "table", out, io.StringIO())
    drawn = [int(each) for each in re.findall(r"(\d+)%", visible(out.getvalue()))]
    assert drawn == sorted(drawn)
    assert drawn[-1] == 100


def test_no_thread_draws_beside_the_ranks() -> None:
    before = threading.active_count()
    out = Terminal()
    with Progress(out=out, err=io.StringIO()) as progress:
        progress.begin(forecast(), 2)
        drawn = out.getvalue()
        assert threading.active_count() == before
        progress.on_record(run())
        assert out.getvalue() == drawn
        progress.on_record(pingpong([1e-6]))
        assert out.getvalue() != drawn


def test_a_note_stays_above_the_bar() -> None:
    out = Terminal()
    with Progress(out=out, err=io.StringIO()) as progress:
        progress.begin(forecast(), 2)
        progress.note("mind [bold]this\x1b[2J")
    assert "mind [bold]this\\x1b[2J" in out.getvalue()


def test_a_narrow_terminal_shows_the_whole_result() -> None:
    out = Terminal()
    with Progress(launches=LaunchCount(3, 12, 900.0), out=out, err=io.StringIO()) as progress:
        progress.begin(sweep(1 << 29, 1 << 30, transports=["staged/pageable"]), 2)
        progress.on_record(pingpong([0.435043] * 6, 1 << 29, "staged/pageable", elapsed_s=8.0))
    lines = re.split(r"[\r\n]", visible(out.getvalue()))
    assert any("about" in line and "left" in line for line in lines)
    assert "launch 1 of ≤ 12: staged/pageable 512 MiB: 435043 µs, 1.23 GB/s" in map(str.strip, lines)
    assert max(map(len, lines)) <= 80


def test_an_error_inside_takes_the_bar_away() -> None:
    out = Terminal()

    def fail() -> None:
        with Progress(out=out, err=io.StringIO()) as progress:
            progress.begin(forecast(), 2)
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert out.getvalue().rstrip().endswith("\x1b[2K")


# ------------------------------------------------------------------------------------------------ forecast


def test_an_unavailable_transport_is_left_out() -> None:
    expected = sweep(8, transports=["host", "aware"])
    for name in ("aware", "never heard of"):
        expected.add(transport(name, available=False))
    expected.add(transport("host"))
    expected.add(pingpong([1e-6]))
    assert expected.done == expected.total


def test_the_budget_bounds_the_time_left() -> None:
    (line,) = lines_of([points(8, took_s=6.0)], sweep(8, 1 << 30, budget_s=10.0))
    assert line.endswith("(60 %, about 4 s left)")
    (line,) = lines_of([points(8, took_s=11.0)], sweep(8, 1 << 30, budget_s=10.0))
    assert "(99 %" in line


def test_a_long_start_is_not_taken_for_the_pace() -> None:
    """Ten seconds before the first of many points, which take a few seconds together."""
    sizes = [1 << n for n in range(30)]
    (line, *_) = lines_of([points(*sizes, took_s=10.0)], sweep(*sizes))
    left = re.search(r"about (\d+) s left", line)
    assert int(left[1]) < 60


@settings(max_examples=30)
@given(st.data())
def test_the_fraction_never_goes_back(data: st.DataObject) -> None:
    sizes = data.draw(st.lists(st.integers(1, 1 << 40), min_size=1, max_size=3, unique=True))
    names, launches = ["a", "b"], data.draw(st.integers(1, 3))
    count = LaunchCount(1, launches, data.draw(st.none() | st.floats(1.0, 1000.0)))
    steps = []
    for size, name in product(sizes, names):
        times, took_s = data.draw(st.lists(st.floats(1e-9, 10.0), max_size=3)), data.draw(st.floats(0.0, 100.0))
        status = "ok" if times else "skipped"
        steps.append((pingpong(times, size, name, status=status, elapsed_s=took_s), took_s))
    lines = lines_of([steps] * launches, sweep(*sizes, transports=names), launches=count)
    fractions = [int(found[1]) for line in lines if (found := re.search(r"\((\d+) %", line))]
    assert fractions == sorted(fractions)
    assert lines[-1].endswith("(100 %, done)")


# ------------------------------------------------------------------------------------------ several launches


def test_launches_that_fit_the_time_make_up_the_whole() -> None:
    """Two sizes of two seconds each in a launch, and 30 s for all."""
    first, second = lines_of([points(8, 16, took_s=2.0)], sweep(8, 16), launches=LaunchCount(3, 12, 30.0))
    assert first.startswith("volley: launch 1 of ≤ 12: host 8 B")
    assert "(7 %, about 28 s left)" in first
    assert "(13 %, about 26 s left)" in second


def test_a_launch_that_was_not_foreseen_has_a_progress_of_its_own() -> None:
    lines = lines_of([points(8, 16, took_s=1.0), points(8, 16, took_s=40.0)], sweep(8, 16))
    assert lines[2] == "volley: launch 2: host 8 B: 1.00 µs, 0.00800 GB/s (50 %, about 40 s left)"


def test_a_long_solution_says_what_is_left() -> None:
    record = JacobiProgress(transport="aware", iterations=120, elapsed_s=20.0, left_s=60.0)
    (line,) = lines_of([[(record, 20.0)]], JacobiForecast(), launches=LaunchCount(2, 2))
    assert re.fullmatch(r"volley: launch 1 of 2: aware: 120 iterations \(\d+ %, about .* left\)", line)


def test_the_steps_of_a_start_are_shown_of_several_launches(volley: Command) -> None:
    once, thrice = (volley("transports", "--launches", number, "--format", "json") for number in "13")
    assert "start" not in json.loads(once.out)["series"][0]
    steps = json.loads(thrice.out)["series"][0]["start"]
    assert [each["step"] for each in steps] == ["launcher", *STARTUP.values()]
    startups = [log.run.startup for log in thrice.records]
    assert steps[3] == {"step": "MPI_Init", "time_s": median([each.mpi_s - each.placed_s for each in startups])}
