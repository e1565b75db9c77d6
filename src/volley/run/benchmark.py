"""The interface between a benchmark and the rest of the front end: a description, and modules loaded on demand.

Each benchmark is a subpackage ``volley/benchmarks/<name>``.  Its ``__init__`` has the dataclass of its options and
``BENCHMARK``, and imports none of the other modules of the package.  ``Benchmark`` imports them when they are needed:

- ``records``: ``PLAN``, the type of ``plan.options``; ``RECORDS``, a tuple of its record types;
- ``jobs``: ``jobs(options, site) -> Jobs``; if a launch writes more than one record of the benchmark,
  ``forecast(plan) -> Forecast``, how far it is;
- ``results``: ``results(logs) -> list``, one result object for each series of launches; if it measures times,
  ``observables(log)``, those of one launch, to compare runs, and ``parts(run, at, ratios)``, if it knows what places of
  a series share;
- ``page``: ``report(result) -> Report``; ``FORMATS``, the renderers of its special formats, if any, by name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from volley.report.model import Report
    from volley.run.jobs import Jobs, Site
    from volley.run.options import JobOptions
    from volley.run.plan import Plan
    from volley.run.progress import Forecast
    from volley.run.records import Run
    from volley.run.run_log import RunLog


@dataclass(frozen=True, slots=True)
class Observable:
    """Times that one launch measured, with labels under which every other launch has the same quantities."""

    series: str
    """What is measured at several places of a sweep: ``aware``."""
    at: Sequence[str]
    """Where in the sweep, for each time: ``64 KiB``, ``0 → 1``."""
    seconds: Sequence[float]
    """Positive: the medians of the launch."""
    work: float | None = None
    """What is done in each of these times, where a rate is more usual: bytes moved, or lattice updates."""


@dataclass(frozen=True, kw_only=True)
class Benchmark:
    """One benchmark."""

    name: str
    """Its name in plans, and that of its subpackage unless ``modules`` says where its modules are."""
    help: str
    """One line, then paragraphs."""
    options: type[Any]
    """The dataclass of its options (``volley.run.commandline.Options``), with the fields ``job`` and ``output``."""
    examples: tuple[str, ...]
    command: str = ""
    """The name of its command; by default ``name``, with hyphens.  Benchmarks may share a command and its options:
    the first one that is ``wanted`` runs."""
    aliases: tuple[str, ...] = ()
    formats: Mapping[str, str] = field(default_factory=dict)
    """Special formats by name, each with a short description."""
    local: bool = False
    """One process uses all GPUs, without a launcher and without MPI."""
    computes: bool = False
    """Ranks compute with several threads: each rank gets its share of the cores instead of one core."""
    hint: str = ""
    """The alternative on an unsuitable machine: ``volley matrix --transport host measures between ranks``."""
    wanted: Callable[[Any, bool], bool] = lambda *_: True
    """Of several that share a command: whether these options ask for it.  The second argument: on this machine."""

    modules: Mapping[str, str] = field(default_factory=dict)
    """The modules that it shares with other benchmarks, by the name of its own that they stand in for."""

    def __post_init__(self) -> None:
        """Set the default of ``command``."""
        object.__setattr__(self, "command", self.command or self.name.replace("_", "-"))

    def joins(self, job: JobOptions) -> bool:
        """Return whether, inside a foreign launcher, its ranks become the ranks of this benchmark."""
        return not self.local and job.launcher == "auto"

    def load_pages(self) -> None:
        """Import the modules that turn records into reports."""
        self._module("results")
        self._module("page")

    def _module(self, name: str) -> Any:
        return import_module(self.modules.get(name, f"volley.benchmarks.{self.name}.{name}"))

    @property
    def plan_type(self) -> Any:
        """The type of ``plan.options``."""
        return self._module("records").PLAN

    @property
    def record_types(self) -> tuple[Any, ...]:
        """The types of the benchmark's records."""
        types: tuple[Any, ...] = self._module("records").RECORDS
        return types

    def jobs(self, options: Any, site: Site) -> Jobs:
        """Describe the jobs that these options ask for.

        Raises:
            UserError: if the options do not fit the job, the engine or the machine.
        """
        jobs: Jobs = self._module("jobs").jobs(options, site)
        return jobs

    def forecast(self, plan: Plan) -> Forecast:
        """Return the object that predicts the remaining time of a run."""
        from volley.run.progress import Forecast  # noqa: PLC0415  start-up: a session has loaded it

        forecast: Forecast = getattr(self._module("jobs"), "forecast", lambda _: Forecast())(plan)
        return forecast

    def results(self, logs: Sequence[RunLog]) -> list[Any]:
        """Compute results from the records of its runs, one result object for each series of launches."""
        found: list[Any] = self._module("results").results(logs)
        return found

    def observables(self, log: RunLog) -> Iterable[Observable]:
        """Return the times of one launch; none if it measured nothing that can be compared."""
        found: Iterable[Observable] = getattr(self._module("results"), "observables", lambda _: ())(log)
        return found

    def parts(self, run: Run, at: Sequence[str], ratios: Sequence[float]) -> list[tuple[str, Sequence[int]]]:
        """Name the parts of the machine at whose places of a series nearly all ratios are above or below 1, and return
        the numbers of these places; none if the benchmark knows of no parts."""
        found: list[tuple[str, Sequence[int]]] = getattr(self._module("results"), "parts", lambda *_: [])(
            run, at, ratios
        )
        return found

    def reports(self, results: Sequence[Any]) -> list[Report]:
        """Return one report for each result object."""
        page = self._module("page")
        return [page.report(result) for result in results]

    def render(self, format_name: str, results: Sequence[Any], out: TextIO) -> list[str]:
        """Write the results of several series in a special format; return notes for standard error."""
        notes: list[str] = self._module("page").FORMATS[format_name](results, out)
        return notes
