"""``import volley``: load runs or measure them; their points, their report, and comparisons.

A thin front on what ``volley show``, ``report`` and ``compare`` do.  Errors are :class:`volley.errors.UserError`, and
its subclass ``MachineError`` where this machine lacks something, such as a package that the message names.
"""

from __future__ import annotations

import io
import json
import shlex
import signal
import subprocess
import sys
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from html import escape
from importlib.util import find_spec
from itertools import repeat
from pathlib import Path
from typing import TYPE_CHECKING, Any

from volley.benchmarks import BENCHMARKS, commands, plain
from volley.errors import EXIT_GOOD, EXIT_USAGE, MachineError, UserError
from volley.files import write_file
from volley.machine.packages import install_command
from volley.records.launch_series import software
from volley.records.records_file import read_runs, without_repeats
from volley.records.run_log import RunLog
from volley.references import machine_of, published
from volley.report.columns import SCHEMA
from volley.report.model import Details, Later, Part, Report
from volley.run.render import Sections, attached, render_reports, reports_of, results_of
from volley.text import count, did_you_mean, join_few, join_words

if TYPE_CHECKING:
    import pandas

    from volley.compare.comparison import Comparison

Records = str | Path
"""A file of records, or the id or the name of a saved run (``volley list``), e.g. ``last``."""


def load(records: Records | Iterable[Records]) -> Runs:
    """Read the launches of one or more files; one that is in several of them counts once."""
    files = [records] if isinstance(records, Records) else list(records) if isinstance(records, Iterable) else [records]
    if not files or not all(isinstance(each, Records) for each in files):
        raise UserError(f"volley.load takes files of records, or ids or names of saved runs, not {records!r}")
    try:
        return Runs(without_repeats([log for file in files for log in read_runs(file, BENCHMARKS)], quiet=True))
    except UserError:
        if name := next((file for file in files if file in published()), ""):
            line = f"volley compare {name} RECORDS"
            raise UserError(f"{name} is a published reference, which has no launches: {line} in a shell") from None
        raise


_OF_THE_COMMAND = ("format", "quiet", "verbose", "full", "dry_run", "version", "completion", "help")
"""Options about what a command prints: here there are ``points`` and ``print`` instead."""


def measure(command: str = "", **options: object) -> Runs:
    """Run a command that measures and return its run, which is kept as that of the command.

    Args:
        command: e.g. ``pingpong``; without one, what ``volley`` measures without a command.
        options: those of the command line, by name: ``sizes=[8, 65536]`` is ``--sizes 8,65536``, ``grid=[2, 1]`` is
            ``--grid 2 1``, ``tag=["a", "b"]`` is ``--tag a --tag b``, ``share_gpu=True`` is ``--share-gpu``,
            ``verify=False`` is ``--no-verify``.  ``None`` leaves an option out.

    Raises:
        UserError: the command measures nothing, or does not have the options, or not with these values.
        MachineError: nothing was measured.
    """
    known = {name: each for each in (plain.COMMAND, *commands()) for name in (each.name, *each.aliases)}
    if not isinstance(command, str):
        raise UserError(f"volley.measure takes the name of a command, e.g. volley.measure('pingpong'), not {command!r}")
    if command not in known:
        names = [*filter(None, known)]
        what = did_you_mean(command, names) or "volley --help lists the others, for a shell"
        raise UserError(f"volley.measure runs {join_words(names, 'or')}, not {command!r}: {what}")
    if shown := [name for name in _OF_THE_COMMAND if name in options]:
        raise UserError(f"volley.measure prints nothing and returns the run: leave {join_words(shown)} out")
    line = [*filter(None, [command]), "--format", "json", *known[command].words(options)]
    words = (sys.executable, "-m", "volley", *line, "--quiet")
    none, pipe = subprocess.DEVNULL, subprocess.PIPE
    # A session of its own: Ctrl-C reaches the command once, from here.
    with subprocess.Popen(words, stdin=none, stdout=pipe, stderr=pipe, text=True, start_new_session=True) as process:
        try:
            document, said = process.communicate()
        except KeyboardInterrupt:
            process.send_signal(signal.SIGINT)
            process.communicate()
            raise
    said = said.strip().removeprefix("volley: ")
    series = json.loads(document)["series"] if document.startswith("{") else []
    rows = [row for each in series for row in each["data"]]
    if all(row.get("status") == "skipped" for row in rows):
        why = ": ".join(filter(None, (said, join_few(dict.fromkeys(row["reason"] for row in rows)))))
        raise (UserError if process.returncode == EXIT_USAGE else MachineError)(why)
    if process.returncode != EXIT_GOOD:
        warnings.warn(said, stacklevel=2)
    return load(dict.fromkeys(run["file"] for each in series for run in each["runs"]))


class Shown:
    """What has rows, and a screen: ``print`` shows that of the command, and a notebook too."""

    def __init__(self, reports: Sequence[Report], parts: Iterable[Part], command: str = "") -> None:
        self._reports, self._parts, self._command = reports, parts, command

    @cached_property
    def _columns(self) -> dict[str, list[Any]]:
        found: dict[str, list[Any]] = {}
        rows = 0
        for part in self._parts:
            number = max(map(len, part.values()), default=0)
            for name in dict.fromkeys((*found, *part)):
                found.setdefault(name, [None] * rows).extend(part.get(name, repeat(None, number)))
            rows += number
        return found

    @cached_property
    def points(self) -> pandas.DataFrame | list[dict[str, Any]]:
        """The rows, in SI units (docs/data.md): a DataFrame, or without pandas a list of dictionaries."""
        if find_spec("pandas"):
            return self.to_pandas()
        return [dict(zip(self._columns, row, strict=True)) for row in zip(*self._columns.values(), strict=True)]

    def to_pandas(self) -> pandas.DataFrame:
        try:
            import pandas  # noqa: PLC0415  start-up: takes longer than to read the records
        except ImportError:
            raise MachineError(f"to_pandas needs the package pandas: {install_command('pandas')}") from None
        return pandas.DataFrame(self._columns)

    def __str__(self) -> str:
        out = io.StringIO()
        render_reports(self._reports, "table", out, Details(command=self._command, color=False))
        return out.getvalue()

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}</pre>"


class Runs(Shown):
    """Launches, with a row for each launch and point."""

    def __init__(self, logs: Sequence[RunLog]) -> None:
        self.logs = logs
        """The records of each launch."""
        self.files = list(dict.fromkeys(log.file for log in logs))
        reports, parts = Later(lambda: reports_of(results_of(logs, BENCHMARKS))), Later(lambda: _launch_parts(logs))
        super().__init__(reports, parts, shlex.join(("volley", "show", *self.files)))

    def __repr__(self) -> str:
        return f"<{count(len(self.logs), 'launch')} in {join_few(self.files, 2)}>"

    def report(self) -> HtmlPage:
        """Return the page of ``volley report``."""
        from volley.show.report import sections_of  # noqa: PLC0415  start-up: only for this

        return HtmlPage(sections_of(self.logs, list(map(attached, self.files))).page())

    def compare(self, other: Runs | Records | Iterable[Records], *, within: float = 0.05) -> ComparedRuns:
        """Compare as ``volley compare`` does; these runs are A, the baseline.

        Args:
            other: runs, or what :func:`load` takes.
            within: the fraction within which two times are the same.

        Raises:
            UserError: they have a launch in common, or ``within`` is no fraction between 0 and 1.
        """
        if not (isinstance(within, float) and 0 < within < 1):
            raise UserError(f"within is a fraction between 0 and 1, such as 0.05; {within!r} is none")
        from volley.compare import comparison  # noqa: PLC0415  start-up: only for this

        both = (self, other if isinstance(other, Runs) else load(other))
        sides = [comparison.Side.of(join_few(each.files, 2), each.logs) for each in both]
        comparison.refuse_shared([(side.name, side.runs) for side in sides])
        (compared,) = comparison.compare_all(sides, within)
        return ComparedRuns(compared, [file for each in both for file in each.files])


class ComparedRuns(Shown):
    """A row with a verdict for each point that two runs have in common."""

    def __init__(self, compared: Comparison, files: Sequence[str]) -> None:
        from volley.compare.page import report, title  # noqa: PLC0415  start-up: only for this

        self._full, short = (report(compared, full=full) for full in (True, False))
        self._files = files
        self._title = title([compared.first, compared.second])
        self.finding = short.heading[0]
        """The first line of the screen: CHANGED, SAME, NO CHANGE SHOWN or NO VERDICT, and why."""
        super().__init__([short], short.data.parts())

    def __repr__(self) -> str:
        return f"<{self.finding}>"

    def report(self) -> HtmlPage:
        """Return the page of ``volley compare -o page.html``."""
        return HtmlPage(Sections(self._title, [self._full], list(map(attached, self._files))).page())


@dataclass(frozen=True, repr=False)
class HtmlPage:
    """A page that needs no network; a notebook shows it in a frame, so that their styles stay apart."""

    text: str

    def save(self, path: str | Path) -> None:
        write_file(Path(path), self.text.encode())

    def _repr_html_(self) -> str:
        return f'<iframe srcdoc="{escape(self.text)}" style="width: 100%; height: 50em; border: 0"></iframe>'


def _launch_parts(logs: Iterable[RunLog]) -> Iterator[Part]:
    for log in logs:
        known = software(log.run) if log.run else {}
        settings = shlex.join(f"{name}={value}" for name, value in known.items() if name not in ("MPI", "engine"))
        place = {"launch": log.number, "machine": machine_of([log]), "settings": settings, "schema": SCHEMA}
        for report in reports_of(results_of([log], BENCHMARKS)):
            for part in report.data.parts():
                number = max(map(len, part.values()), default=0)
                about = {**report.conditions(), **report.origin(), **place}
                own = {name: [value] * number for name, value in about.items()}
                yield {**part, **own, **part}  # its columns are the first, and hide those of the same name
