"""The interface between a benchmark and the rest of the front end: what it is called, takes, records and reports.

Each benchmark is in a subpackage of ``volley/benchmarks``.  Its ``__init__`` has the dataclass of its options and its
:class:`Benchmark`, and imports none of the other modules of the package: the ``Benchmark`` names what is in them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TextIO

from volley.command.commandline import Lazy

if TYPE_CHECKING:
    from volley.command.options import JobOptions
    from volley.records.plan import Plan
    from volley.records.record_types import Run
    from volley.records.run_log import Observable, RunLog
    from volley.run.jobs import Forecast, JobContext
    from volley.run.launches import Jobs


@dataclass(frozen=True, kw_only=True)
class Benchmark:
    name: str
    """Its name in plans."""
    help: str
    """One line, then paragraphs."""
    options: type[Any]
    """The dataclass of its options (``volley.command.commandline.Options``), with the fields ``job`` and ``output``."""
    examples: tuple[str, ...]
    command: str = ""
    """The name of its command; by default ``name``, with hyphens.  Benchmarks may share a command and its options:
    the first one that is ``wanted`` runs."""
    aliases: tuple[str, ...] = ()
    plan: str
    """The full name of the type of its part of the plan."""
    records: tuple[str, ...]
    """The full names of the types of its records."""
    jobs: Callable[[Any, JobContext], Jobs]
    """Describes the jobs that options ask for; raises UserError if they do not fit the job, the engine or the
    machine."""
    forecast: Callable[[Plan], Forecast] = lambda _: Lazy("volley.run.jobs.Forecast")()
    """Returns how far a launch is, if it writes more than one record of the benchmark."""
    results: Lazy
    """Computes results from the records of runs, one result object for each series of launches."""
    observables: Callable[[RunLog], Iterable[Observable]] = lambda _: ()
    """Returns the times of one launch, to compare runs; none if it measured nothing that can be compared."""
    parts: Callable[[Run, Sequence[str], Sequence[float]], list[tuple[str, Sequence[int]]]] = lambda *_: []
    """Names the parts of the machine at whose places of a series nearly all ratios are above or below 1, and returns
    the numbers of these places; none if the benchmark knows of no parts."""
    report: Lazy
    formats: Mapping[str, str] = field(default_factory=dict)
    """Special formats by name, each with a short description."""
    renderers: Mapping[str, Callable[[Sequence[Any], TextIO], list[str]]] = field(default_factory=dict)
    """What writes the results of several series in these formats, and returns notes for standard error."""
    local: bool = False
    """One process uses all GPUs, without a launcher and without MPI."""
    computes: bool = False
    """Ranks compute with several threads: each rank gets its share of the cores instead of one core."""
    times_start: Callable[[Any], bool] = lambda _: False
    """Whether these options ask how long a start takes: the launcher then leaves nothing of it out."""
    hint: str = ""
    """The alternative on an unsuitable machine: ``volley matrix --transport host measures between ranks``."""
    wanted: Callable[[Any, bool], bool] = lambda *_: True
    """Of several that share a command: whether these options ask for it.  The second argument: on this machine."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "command", self.command or self.name.replace("_", "-"))

    def joins(self, job: JobOptions) -> bool:
        """Return whether, inside a foreign launcher, its ranks become the ranks of this benchmark."""
        return not self.local and job.launcher == "auto"
