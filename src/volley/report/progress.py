"""Progress while a run measures: a bar that is drawn when a record arrives, or plain lines.

Nothing is drawn between records: a refreshing thread would compete with rank 0 for its core, and be measured.
"""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING, TextIO, cast

from volley.records import (
    JacobiProgress,
    MatrixRow,
    NodeGpus,
    NodeRow,
    PingPong,
    Plan,
    Point,
    Record,
    StreamPoint,
    Transport,
)
from volley.records_io import RunLog
from volley.report.encodable import Encodable
from volley.report.forecast import Forecast, RowForecast
from volley.sizes import format_size
from volley.text import count, digits, duration, harmless

if TYPE_CHECKING:
    from rich.progress import Progress as Bar
    from rich.progress import TaskID


LINES_EVERY_S = 10.0
"""Where there is no bar a long solution gives a line about this often."""


class Progress:
    """Shows how far a measurement is; use it as a context manager around all launches.

    On a terminal a bar is drawn, and wiped out at the end.  Where standard output is no terminal, each point gives one
    line on standard error.
    """

    def __init__(
        self, format_name: str = "table", *, launches: int = 1, out: TextIO | None = None, err: TextIO | None = None
    ) -> None:
        """Prepare; nothing is shown yet.

        Args:
            format_name: the format of the results; the bar keeps off standard output where that is for programs.
            launches: how often ``begin`` will be called.
            out: standard output unless given.
            err: standard error unless given.
        """
        out, self._err = out or sys.stdout, err or sys.stderr
        self._launches = launches
        self._launch = 0
        self._bar: Bar | None = None
        self._task: TaskID | None = None
        self._forecast: Forecast | RowForecast | None = None
        self._transports: dict[str, Transport] = {}
        self._begun = time.monotonic()
        self._lined = self._begun
        self._screen: TextIO | None = None
        if out.isatty():
            self._screen = self._err if self._err.isatty() else out if format_name == "table" else None

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def begin(self, plan: Plan) -> None:
        """Take note that a launch starts with this plan; the first one makes the bar."""
        if self._launch == 0 and self._screen is not None:
            self._bar = _bar(self._screen)
            if self._bar is not None:
                self._bar.start()
        self._launch += 1
        self._launches = max(self._launches, self._launch)  # a matrix may be followed by one of chosen pairs
        self._forecast = RowForecast(plan) if plan.benchmark in {"matrix", "node"} else Forecast(plan)
        self._transports = {}
        self._begun = time.monotonic()
        if self._bar is not None:
            if self._task is not None:
                self._bar.remove_task(self._task)
            self._task = self._bar.add_task(
                f"{self._which()}starting {count(plan.world_size, 'rank')}", total=1.0, left=""
            )
            self._bar.refresh()

    def on_record(self, record: Record) -> None:
        """Take note of a record that has arrived, and draw."""
        if self._forecast is None:
            return
        if isinstance(record, Transport):
            self._transports[record.transport] = record
            if not record.available and isinstance(self._forecast, Forecast):
                self._forecast.drop(record.transport)
        elif isinstance(record, JacobiProgress):
            self._solve(record)
        elif isinstance(record, NodeGpus) and isinstance(self._forecast, RowForecast):
            self._forecast.expect(len(record.devices))
        elif isinstance(record, (MatrixRow, NodeRow)) and isinstance(self._forecast, RowForecast):
            self._forecast.add(record)
            short = _row_in_short(record) if isinstance(record, MatrixRow) else _node_row_in_short(record)
            self._show(f"{self._which()}{short}")
        elif isinstance(record, (PingPong, StreamPoint)) and isinstance(self._forecast, Forecast):
            self._forecast.add(record)
            self._show(f"{self._which()}{self._in_short(record)}")

    def note(self, text: str) -> None:
        """Show a sentence that is no result, above the bar or as a line of its own."""
        if self._bar is not None:
            from rich.text import Text  # noqa: PLC0415  start-up: loaded for the bar already

            self._bar.console.print(Text(harmless(text)), soft_wrap=True)
        else:
            self._line(harmless(text))

    def _solve(self, record: JacobiProgress) -> None:
        """Show how far a solution is; the engine knows what is left of this launch."""
        now = time.monotonic()
        if self._bar is None and now - self._lined < LINES_EVERY_S:
            return
        self._lined = now
        whole_s = record.elapsed_s + record.left_s
        done = (self._launch - 1 + record.elapsed_s / whole_s) / self._launches if whole_s > 0 else 0.0
        left_s = record.left_s + (self._launches - self._launch) * whole_s
        text = f"{self._which()}{harmless(record.transport)}: {count(record.iterations, 'iteration')}"
        self._draw(text, min(done, 0.99), left_s)

    def _show(self, text: str) -> None:
        """Draw the point that is done last, the share of the whole, and the time left."""
        self._draw(text, *self._outlook(time.monotonic() - self._begun))

    def _draw(self, text: str, fraction: float, left_s: float) -> None:
        left = f"{duration(left_s)} left" if fraction < 1 else "done"
        if self._bar is None or self._task is None:
            self._line(f"{text} ({fraction:.0%}, {left})".replace("%", " %"))
            return
        self._bar.update(self._task, description=text, completed=fraction, left=left)
        self._bar.refresh()

    def _outlook(self, elapsed_s: float) -> tuple[float, float]:
        """Return the fraction done and the seconds left, over all launches, the next ones like this."""
        assert self._forecast is not None
        left_s = self._forecast.left_s(elapsed_s)
        fraction = (self._launch - 1 + self._forecast.fraction(elapsed_s)) / self._launches
        return fraction, left_s + (self._launches - self._launch) * (elapsed_s + left_s)

    def _which(self) -> str:
        return f"launch {self._launch} of {self._launches}: " if self._launches > 1 else ""

    def _in_short(self, point: Point) -> str:
        """Say what a point gave: ``host 64 KiB: 3.41 µs, 19.2 GB/s``."""
        name = f"{harmless(point.transport)} {format_size(point.size_bytes)}"
        if point.status != "ok":
            why = f": {harmless(point.reason)}" if point.reason else ""
            return f"{name}: {'FAILED' if point.status == 'failed' else 'skipped'}{why}"
        from volley.summary import summarise  # noqa: PLC0415  start-up: loaded with the report, before a plan is given

        result = summarise([RunLog(points=[point])], self._transports)[0]
        parts = [f"{digits(result.latency_s * 1e6, 3)} µs"] if result.latency_s else []
        parts += [f"{digits(result.bandwidth_Bps / 1e9, 3)} GB/s"] if result.bandwidth_Bps else []
        return f"{name}: {', '.join(parts)}"

    def _line(self, text: str) -> None:
        print(f"volley: {text}", file=cast(TextIO, Encodable(self._err)), flush=True)


def _row_in_short(row: MatrixRow) -> str:
    """Say what a row gave: ``host 8 B, rank 3 first: 0.31 to 0.35 µs``."""
    name = f"{harmless(row.transport)} {format_size(row.size_bytes)}, rank {row.rank} first"
    times = sorted(cell.median_s for cell in row.cells if cell.median_s is not None)
    failed = sum(cell.status == "failed" for cell in row.cells)
    if not times:
        return f"{name}: {'FAILED' if failed else 'skipped'}"
    if row.exercise == "pingpong":
        low, high, unit = times[0] * 1e6, times[-1] * 1e6, "µs"
    else:
        moved = row.size_bytes * (row.window or 1) * (2 if row.direction == "bi" else 1)
        low, high, unit = moved / times[-1] / 1e9, moved / times[0] / 1e9, "GB/s"
    return f"{name}: {digits(low, 3)} to {digits(high, 3)} {unit}{f', {failed} FAILED' if failed else ''}"


def _node_row_in_short(row: NodeRow) -> str:
    """Say what a row of a node's matrix gave: ``copies, peer access on: 392 to 394 GB/s``."""
    from volley.report.node import title, unit  # noqa: PLC0415  start-up: loaded with the report, as above

    times = sorted(cell.median_s for cell in row.cells if cell.median_s is not None)
    failed = sum(cell.status == "failed" for cell in row.cells)
    if not times:
        return f"{title(row)}: {'FAILED' if failed else 'skipped'}"
    moved = row.size_bytes * row.window * (2 if row.direction == "bi" else 1)
    numbers = [moved / time / 1e9 if row.figure == "bandwidth" else time * 1e6 for time in times]
    low, high = digits(min(numbers), 3), digits(max(numbers), 3)
    return f"{title(row)}: {low} to {high} {unit(row)}{f', {failed} FAILED' if failed else ''}"


def _bar(screen: TextIO) -> Bar | None:
    """A bar that draws only when it is told to; ``None`` for a terminal that cannot wipe out what it shows."""
    from rich.console import Console  # noqa: PLC0415  start-up: only terminals need it
    from rich.progress import BarColumn, TaskProgressColumn, TextColumn  # noqa: PLC0415
    from rich.progress import Progress as RichProgress  # noqa: PLC0415
    from rich.table import Column  # noqa: PLC0415

    console = Console(file=screen, highlight=False, markup=False, emoji=False)
    if not console.is_terminal or console.is_dumb_terminal:
        return None
    # What has a fixed length comes first, so that a narrow terminal cuts the text and not the time.
    return RichProgress(
        BarColumn(bar_width=16),
        TaskProgressColumn(),
        TextColumn("{task.fields[left]}", markup=False),
        TextColumn("{task.description}", markup=False, table_column=Column(no_wrap=True, overflow="ellipsis", ratio=1)),
        console=console,
        auto_refresh=False,
        transient=True,
        redirect_stdout=False,
        redirect_stderr=False,
        expand=True,
    )
