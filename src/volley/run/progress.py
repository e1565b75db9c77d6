"""How far a run is and where its time goes, for the display only: a bar that each record updates, or plain lines.

Nothing is drawn between records: a refresh thread would compete with rank 0 for its core and disturb the measurement.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TextIO

from volley.records.run_log import RunLog
from volley.run.jobs import Forecast
from volley.run.launches import LaunchCount
from volley.statistics.estimates import median
from volley.text import count, escape_controls, grouped
from volley.units import format_duration, format_time

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.progress import Progress as Bar
    from rich.progress import TaskID

LINES_EVERY_S = 10.0
"""Without a bar, a line is shown at most this often; a failure is shown at once, but once only."""


class Progress:
    """Shows the progress of a measurement; use it as a context manager around all launches.

    On a terminal it draws a bar and removes it at the end.  If standard output is not a terminal, it prints a line on
    standard error every ten seconds.
    """

    def __init__(
        self,
        format_name: str = "table",
        launches: LaunchCount | None = None,
        *,
        begun: float | None = None,
        quiet: bool = False,
        notes: bool = True,
        out: TextIO | None = None,
        err: TextIO | None = None,
    ) -> None:
        """Show nothing yet; with ``format_name`` ``table`` alone, the bar may use standard output.

        ``begun`` is when the time of the run began, as ``time.monotonic`` says it: now, if it is ``None``.  Without
        ``notes`` only the results are shown.
        """
        out, self._err = out or sys.stdout, err or sys.stderr
        self._quiet, self._notes = quiet, notes
        self._launches, self._launch = launches or LaunchCount(1, 1), 0
        screen = self._err if self._err.isatty() else out if format_name == "table" else None
        self._screen = screen if out.isatty() and not quiet else None
        self._bar: Bar | None = None
        self._task: TaskID | None = None
        self._forecast: Forecast | None = None
        self._fraction = 0.0
        """What was shown last: it never decreases."""
        self._lined = time.monotonic()
        self._begun = self._lined if begun is None else begun
        self._failures: set[str] = set()

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def begin(self, forecast: Forecast, ranks: int) -> None:
        """Start the display of a launch of this many ranks; the first launch creates the bar."""
        if self._launch == 0:
            self._bar = _started_bar(self._screen) if self._screen else None
        self._launch += 1
        if self._launch > self._launches.maximum:  # it was not known before, and a note has said why and how long
            self._begun, self._fraction = time.monotonic(), 0.0
        self._forecast = forecast
        if self._bar is not None:
            text = f"{self._which()}starting {count(ranks, 'rank')}"
            if self._task is None:
                self._task = self._bar.add_task(text, total=1.0, left="")
            else:
                self._bar.update(self._task, description=text)
            self._bar.refresh()

    def on_record(self, record: Any) -> None:
        if self._forecast is None:
            return
        text = self._forecast.add(record)
        if text is None:
            return
        now = time.monotonic()
        failed = getattr(record, "status", "") == "failed" or "failed" in getattr(record, "statuses", ())
        news = failed and text not in self._failures
        self._failures |= {text} if failed else set()
        if self._bar is None and not news:
            if now - self._lined < LINES_EVERY_S:
                return
            self._lined = now
        text, (fraction, left_s) = f"{self._which()}{escape_controls(text)}", self._outlook(now)
        left = f"about {format_duration(left_s)} left" if fraction < 1 else "done"
        if self._bar is None or self._task is None:
            self._line(f"{text} ({fraction * 100:.0f} %, {left})")
            return
        self._bar.update(self._task, description=text, completed=fraction, left=left)
        self._bar.refresh()

    def note(self, text: str) -> None:
        if not self._notes:
            return
        if self._bar is not None:
            from rich.text import Text  # noqa: PLC0415  start-up: already loaded for the bar

            self._bar.console.print(Text(escape_controls(text)), soft_wrap=True)
        else:
            self._line(escape_controls(text))

    def _outlook(self, now: float) -> tuple[float, float]:
        """Return the finished fraction of all launches, or of the time that they have, and the seconds that are left.

        Without a limit the others are taken to last as long as what is done, and at first rather as long as expected:
        the start and the tests of MPI before it say nothing of them.
        """
        assert self._forecast is not None
        elapsed_s, known = now - self._begun, self._launches.maximum
        whole_s = self._launches.time_s or (self._forecast.budget_s if known == 1 else None)
        before = 0 if self._launch > known else self._launch - 1
        part = self._forecast.done / self._forecast.total if self._forecast.total else 1.0
        steps = (before + part) / (1 if self._launch > known else known)
        if steps >= 1:
            return 1.0, 0.0
        done = max(steps, elapsed_s / whole_s) if whole_s else steps
        self._fraction = max(self._fraction, min(done, 0.99))
        all_s = elapsed_s / self._fraction if self._fraction else 0.0
        if not whole_s and self._forecast.whole_s:
            trusted = min(2 * self._fraction, 1.0)
            all_s = trusted * all_s + (1 - trusted) * known * self._forecast.whole_s
        left_s = all_s * (1 - self._fraction)
        return self._fraction, min(left_s, max(whole_s - elapsed_s, 0.0)) if whole_s else left_s

    def _which(self) -> str:
        low, high = self._launches.minimum, self._launches.maximum
        if self._launch > high:
            return f"launch {self._launch}: "
        return f"launch {self._launch} of {'≤ ' * (low < high)}{high}: " if high > 1 else ""

    def _line(self, text: str) -> None:
        if not self._quiet:
            print(f"volley: {text}", file=self._err, flush=True)


def _started_bar(screen: TextIO) -> Bar | None:
    """Return a bar without automatic refresh; ``None`` for a terminal that cannot erase lines."""
    from rich.console import Console  # noqa: PLC0415  start-up: only terminals need it
    from rich.progress import BarColumn, TaskProgressColumn, TextColumn  # noqa: PLC0415
    from rich.progress import Progress as RichProgress  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    console = Console(file=screen, highlight=False, markup=False, emoji=False)
    if not console.is_terminal or console.is_dumb_terminal:
        return None

    class TwoLines(RichProgress):
        """How far the run is, and below it the last result, which a narrow terminal does not cut off."""

        def get_renderables(self) -> Iterator[RenderableType]:
            yield self.make_tasks_table(self.tasks)
            yield from (Text(task.description) for task in self.tasks)

    columns = (BarColumn(bar_width=16), TaskProgressColumn(), TextColumn("{task.fields[left]}", markup=False))
    quietly: dict[str, Any] = dict.fromkeys(("auto_refresh", "redirect_stdout", "redirect_stderr"), False)
    bar = TwoLines(*columns, console=console, transient=True, **quietly)
    bar.start()
    return bar


# ------------------------------------------------------------------------------------ where the time of a launch goes

STARTUP = {
    "main_s": "loading the engine",
    "placed_s": "finding cores and GPUs",
    "mpi_s": "MPI_Init",
    "plan_s": "facts of all ranks and the plan",
}
_MEASURING = "measuring"


def describe(log: RunLog) -> str | None:
    """Return how long a launch and each of its steps took; ``None`` if it has no times."""
    steps = list(steps_of(log))
    return f"launch {log.number}: {format_time(sum(s for _, s in steps))}: {_medians(steps)}" if steps else None


def summarize(logs: Sequence[RunLog]) -> str | None:
    """Return the medians of the steps over several launches, and those of the times to open each transport."""
    steps = [step for log in logs for step in steps_of(log)]
    if not steps or len(logs) < 2:
        return None
    measuring, whole = (sum(s for name, s in steps if name in (which or name)) for which in ((_MEASURING,), ()))
    opened = [(each.transport, each.open_s) for log in logs for each in log.transports if each.open_s is not None]
    text = f"{measuring / whole:.0%} of {format_time(whole)} was measuring; a launch: {_medians(steps)}"
    return f"{text}; opening {_medians(opened)}" if opened else text


def _medians(steps: Sequence[tuple[str, float]]) -> str:
    by_name = grouped(steps, lambda step: step[0])
    return ", ".join(f"{name} {format_time(median([s for _, s in those]))}" for name, those in by_name.items())


def steps_of(log: RunLog) -> Iterator[tuple[str, float]]:
    """Yield the steps of a launch, in the order of time; those that it did not reach are left out."""
    times, startup = log.times, log.run and log.run.startup
    if times is None:
        return
    if times.gap_s is not None:
        yield "between launches", times.gap_s
    if not startup and times.run_s is not None:
        yield "starting", times.run_s
    elif startup and times.run_s is not None:
        done = sorted((at, name) for key, name in STARTUP.items() if (at := getattr(startup, key)) is not None)
        # The run record follows the last step; before the first one, the launcher starts the process.
        yield "launcher", max(0.0, times.run_s - done[-1][0])
        for (before_s, _), (at, name) in pairwise([(0.0, ""), *done]):
            yield name, at - before_s
    before = times.run_s
    for name, reached in (("opening", times.transports_s), (_MEASURING, times.end_s), ("ending", times.exit_s)):
        if reached is not None and before is not None:
            yield name, reached - before
            before = reached
