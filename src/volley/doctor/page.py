"""Findings on the terminal: the problems with evidence and remedy, then what is fine in one line a layer; or all."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import TextIO

from rich.console import Console
from rich.table import Table
from rich.text import Text

from volley.doctor.findings import Diagnosis, Finding, Status
from volley.grouping import grouped
from volley.machine.facts import Facts
from volley.report.terminal import console_on
from volley.text import escape_controls

_ORDER: tuple[Status, ...] = ("broken", "warning", "not tested")
"""Problems, the worst first."""

_STYLES: dict[Status, str] = {
    "good": "green",
    "warning": "yellow",
    "broken": "bold red",
    "not applicable": "dim",
    "not tested": "cyan",
}
_FINE: tuple[Status, ...] = ("good", "not applicable")


def render(diagnosis: Diagnosis, facts: Facts, out: TextIO, *, verbose: bool) -> None:
    """Show the findings on ``out``, and the counts last; if ``verbose``, all of them in the order of the layers."""
    console = console_on(out)
    system = facts.system.value
    about = [system.os_name, f"Linux {system.kernel}", system.architecture, system.container] if system else []
    console.print(Text(escape_controls(" · ".join(["volley doctor", *filter(None, about)]))))
    if facts.note:
        console.print(Text(escape_controls(facts.note), "dim"))
    if verbose:
        for layer, findings in groupby(diagnosis.findings, key=lambda each: each.layer):
            console.print(Text(f"\n{layer}", "bold"))
            _print(console, list(findings), diagnosis)
    else:
        problems = [each for each in diagnosis.findings if each.status not in _FINE]
        if problems:
            console.print()
            _print(console, sorted(problems, key=lambda each: _ORDER.index(each.status)), diagnosis)
        console.print()
        console.print(_fine_layers(diagnosis))
    counts = ", ".join(f"{times} {status}" for status, times in diagnosis.counts.items() if times)
    console.print(Text(f"\n{counts}" + ("" if verbose else "; -v shows every finding")))


def _print(console: Console, findings: Sequence[Finding], diagnosis: Diagnosis) -> None:
    # Fixed columns, so that all tables stand in line with each other.
    first = max(len(each.status) for each in diagnosis.findings)
    second = max(len(each.check) for each in diagnosis.findings)
    for finding in findings:
        console.print(_rows(finding, first, second))


def _fine_layers(diagnosis: Diagnosis) -> Table:
    """Return one row for each layer: the checks that passed, and those that do not apply."""
    rows = Table.grid(padding=(0, 2, 0, 0), expand=False)
    for layer, findings in groupby(diagnosis.findings, key=lambda each: each.layer):
        found = grouped(findings, lambda finding: finding.status)
        parts = [
            Text(f"{status}: {' · '.join(finding.check for finding in found[status])}", _STYLES[status])
            for status in _FINE
            if status in found
        ]
        if parts:
            rows.add_row(Text(layer, "bold"), Text("; ").join(parts))
    return rows


def _rows(finding: Finding, first: int, second: int) -> Table:
    rows = Table.grid(padding=(0, 2, 0, 0), expand=False)
    rows.add_column(width=first, no_wrap=True)
    rows.add_column(width=second, no_wrap=True)
    rows.add_column()
    said = Text(escape_controls(finding.said), "dim" if finding.status == "not applicable" else "")
    rows.add_row(Text(finding.status, _STYLES[finding.status]), Text(finding.check), said)
    if finding.status in _ORDER:
        for word, text, style in (("tried", finding.evidence, "dim"), ("do", finding.remedy, "bold")):
            if text:
                rows.add_row("", "", Text.assemble((f"{word}: ", "dim"), (escape_controls(text), style)))
    return rows
