"""The results of a probe: the ``transport`` records of each series."""

from __future__ import annotations

from collections.abc import Iterable

from volley.run.run_log import RunLog
from volley.run.series import Series, series_of


def results(logs: Iterable[RunLog]) -> list[Series]:
    return series_of(logs)
