"""What a benchmark is to the rest of the front: data, and the modules of its room, loaded where they are needed.

A room is a folder ``volley/benchmarks/<name>``.  Its ``__init__`` holds ``BENCHMARK`` and imports nothing but its
``options``; the other modules are loaded here and nowhere else:

- ``records``: ``PLAN``, the type of ``plan.options``; ``RECORDS``, a tuple of its record types;
- ``jobs``: ``jobs(options, site) -> Jobs``;
- ``progress``: ``forecast(plan) -> Forecast``;
- ``results``: ``results(logs) -> list``, the numbers of each series of launches;
- ``page``: ``reports(results) -> list[Report]``; ``FORMATS``, renderers of its special formats by name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from volley.report.model import Report
    from volley.run.forecast import Forecast
    from volley.run.jobs import Jobs, Site
    from volley.run.plan import Plan
    from volley.run.run_log import RunLog


@dataclass(frozen=True, kw_only=True)
class Benchmark:
    """One benchmark."""

    name: str
    """Its room, its name in plans, and that of its command where ``command`` is empty."""
    help: str
    """One line, then paragraphs."""
    options: type[Any]
    """Its dataclass of options (``volley.run.commandline.Options``), with ``job`` and ``output``."""
    examples: tuple[str, ...]
    command: str = ""
    """Where it is not the name.  Benchmarks with the same command share it: the options that are given decide."""
    aliases: tuple[str, ...] = ()
    formats: Mapping[str, str] = field(default_factory=dict)
    """Special formats, each with a few words about it."""
    local: bool = False
    """One process has all GPUs: no launcher, no MPI."""
    computes: bool = False
    """Ranks compute with several threads: they share the cores out instead of taking one each."""
    hint: str = ""
    """What to do where this machine cannot: ``volley matrix --transport host measures between ranks``."""
    suits: Callable[[], bool] = lambda: True
    """Where several share a command and the options do not decide: whether this machine is one for it."""

    def load_pages(self) -> None:
        """Load what turns records into pages."""
        self._module("results")
        self._module("page")

    def _module(self, name: str) -> Any:
        return import_module(f"volley.benchmarks.{self.name}.{name}")

    @property
    def plan_type(self) -> Any:
        """The type of ``plan.options``."""
        return self._module("records").PLAN

    @property
    def record_types(self) -> tuple[Any, ...]:
        """The types of its records."""
        types: tuple[Any, ...] = self._module("records").RECORDS
        return types

    def jobs(self, options: Any, site: Site) -> Jobs:
        """Describe the jobs that these options ask for.

        Raises:
            UserError: if they make no sense here.
        """
        jobs: Jobs = self._module("jobs").jobs(options, site)
        return jobs

    def forecast(self, plan: Plan) -> Forecast:
        """Return what tells those who wait how long it takes."""
        forecast: Forecast = self._module("progress").forecast(plan)
        return forecast

    def results(self, logs: Sequence[RunLog]) -> list[Any]:
        """Turn the records of its runs into numbers, one object a series of launches."""
        found: list[Any] = self._module("results").results(logs)
        return found

    def reports(self, results: Sequence[Any]) -> list[Report]:
        """Turn the numbers into pages."""
        found: list[Report] = self._module("page").reports(results)
        return found

    def render(self, format_name: str, results: Sequence[Any], out: TextIO) -> list[str]:
        """Write the results of several series in a special format; return remarks for standard error."""
        remarks: list[str] = self._module("page").FORMATS[format_name](results, out)
        return remarks
