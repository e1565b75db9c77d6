"""The results of a probe: the ``transport`` records of each series."""

from __future__ import annotations

from collections.abc import Iterable

from volley.run.benchmark import Observable
from volley.run.launch_series import LaunchSeries, series_of
from volley.run.run_log import RunLog


def results(logs: Iterable[RunLog]) -> list[LaunchSeries]:
    return series_of(logs)


def observables(log: RunLog) -> Iterable[Observable]:  # noqa: ARG001  every benchmark has this function
    """Return nothing: a probe measures nothing."""
    return ()
