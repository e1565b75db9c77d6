"""Where the time of a launch goes: the steps of its start, its measuring and its end, in the order of time."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from itertools import pairwise

from volley.grouping import grouped
from volley.records.record_types import End, LaunchTimes, Run, Transport
from volley.records.run_log import RunLog
from volley.statistics.estimates import median

_STARTUP = {
    "main_s": "loading the engine",
    "placed_s": "finding cores and GPUs",
    "mpi_s": "MPI_Init",
    "plan_s": "facts of all ranks and the plan",
}
_MEASURING = "measuring"


class Stopwatch:
    """Notes when the records of a launch arrive, from the start of its launcher on."""

    def __init__(self) -> None:
        self.begun = time.monotonic()
        self._arrived: dict[type, float] = {}

    def on_record(self, record: object) -> None:
        self._arrived.setdefault(type(record), time.monotonic() - self.begun)

    def times(self, ended: float, earlier: float | None) -> LaunchTimes:
        """Return the times; the launcher ended at ``ended``, that of the launch before at ``earlier``."""
        return LaunchTimes(
            gap_s=None if earlier is None else self.begun - earlier,
            run_s=self._arrived.get(Run),
            transports_s=self._arrived.get(Transport),
            end_s=self._arrived.get(End),
            exit_s=ended - self.begun,
        )


def describe(log: RunLog) -> str | None:
    """Return how long a launch and each of its steps took; ``None`` if it has no times."""
    steps = list(_steps(log))
    shown = ", ".join(f"{name} {_seconds(step_s)}" for name, step_s in steps)
    return f"launch {log.number}: {_seconds(sum(step_s for _, step_s in steps))}: {shown}" if steps else None


def summarize(logs: Sequence[RunLog]) -> str | None:
    """Return the medians of the steps over several launches, and those of the times to open each transport."""
    steps = [step for log in logs for step in _steps(log)]
    if not steps or len(logs) < 2:
        return None
    measuring, whole = (sum(s for name, s in steps if name in (which or name)) for which in ((_MEASURING,), ()))
    opened = [(each.transport, each.open_s) for log in logs for each in log.transports if each.open_s is not None]
    text = f"{measuring / whole:.0%} of {_seconds(whole)} was measuring; a launch: {_medians(steps)}"
    return f"{text}; opening {_medians(opened)}" if opened else text


def _medians(steps: Sequence[tuple[str, float]]) -> str:
    by_name = grouped(steps, lambda step: step[0])
    return ", ".join(f"{name} {_seconds(median([s for _, s in those]))}" for name, those in by_name.items())


def _steps(log: RunLog) -> Iterator[tuple[str, float]]:
    """Yield the steps of a launch, in the order of time; those that it did not reach are left out."""
    times, startup = log.times, log.run and log.run.startup
    if times is None:
        return
    if times.gap_s is not None:
        yield "after the launch before", times.gap_s
    if startup is None and times.run_s is not None:
        yield "starting", times.run_s
    elif startup is not None and times.run_s is not None:
        done = sorted((at, name) for key, name in _STARTUP.items() if (at := getattr(startup, key)) is not None)
        # The run record follows the last step; before the first one, the launcher starts the process.
        yield "launcher", max(0.0, times.run_s - done[-1][0])
        for (before_s, _), (at, name) in pairwise([(0.0, ""), *done]):
            yield name, at - before_s
    before = times.run_s
    for name, reached in (("opening", times.transports_s), (_MEASURING, times.end_s), ("ending", times.exit_s)):
        if reached is not None and before is not None:
            yield name, reached - before
            before = reached


def _seconds(duration_s: float) -> str:
    return f"{duration_s:.2f} s"
