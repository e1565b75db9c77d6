"""Findings on the terminal: the problems with evidence and remedy, then what is fine in one line a layer; or all."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import TextIO

import msgspec
from rich.console import Console
from rich.text import Text

from volley.doctor.findings import NO_GPU, Diagnosis, Finding, Status
from volley.machine.facts import Facts
from volley.report.terminal import console_on, print_hanging, print_line
from volley.text import escape_controls, grouped

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
_GAP = 2
"""Blanks between columns."""


def render(diagnosis: Diagnosis, facts: Facts, out: TextIO, *, verbose: bool) -> None:
    """Show the findings on ``out``, and the counts last; if ``verbose``, all of them in the order of the layers."""
    console = console_on(out)
    system = facts.system.value
    about = [system.os_name, f"Linux {system.kernel}", system.architecture, system.container] if system else []
    print_line(console, f"volley doctor: {', '.join(filter(None, about))}" if about else "volley doctor", wrap=True)
    if facts.note:
        print_line(console, facts.note, "dim", wrap=True)
    if verbose:
        for layer, findings in groupby(diagnosis.findings, key=lambda each: each.layer):
            console.print(Text(f"\n{layer}", "bold"))
            _print(console, list(findings), diagnosis)
    else:
        if not facts.has_gpu:
            print_line(console, f"{NO_GPU}: GPU checks do not apply", wrap=True)
        problems = [each for each in diagnosis.findings if each.status not in _FINE]
        if problems:
            console.print()
            _print(console, _together(sorted(problems, key=lambda each: _ORDER.index(each.status))), diagnosis)
        console.print()
        _print_fine_layers(console, diagnosis)
    said = () if verbose or facts.has_gpu else ("not applicable",)
    counts = ", ".join(f"{times} {each}" for each, times in diagnosis.counts.items() if times and each not in said)
    console.print(Text(f"\n{counts}" + ("" if verbose else "; -v shows every finding")))


def _together(problems: Sequence[Finding]) -> list[Finding]:
    """Make one finding of those that were not tested for one reason; what they said is a consequence."""
    found = []
    for each in grouped(problems, lambda one: one if one.status != "not tested" else one.said + one.remedy).values():
        names = "; ".join(one.check for one in each)
        first = msgspec.structs.replace(each[0], evidence=each[0].evidence if each[0].status != "not tested" else "")
        several = {"check": f"{len(each)} checks", "said": f"{first.said} ({names})"} if len(each) > 1 else {}
        found.append(msgspec.structs.replace(first, **several))
    return found


def _print(console: Console, findings: Sequence[Finding], diagnosis: Diagnosis) -> None:
    # Fixed columns, so that all tables stand in line with each other.
    first = max(len(each.status) for each in diagnosis.findings)
    second = max(len(each.check) for each in diagnosis.findings)
    for finding in findings:
        said = Text(escape_controls(finding.said), "dim" if finding.status == "not applicable" else "")
        start = Text.assemble(
            (finding.status.ljust(first + _GAP), _STYLES[finding.status]), finding.check.ljust(second + _GAP)
        )
        print_hanging(console, start, said, wrap=True)
        if finding.status in _ORDER:
            more = (("also", each, "") for each in finding.also)
            for word, text, style in (("tried", finding.evidence, "dim"), ("do", finding.remedy, "bold"), *more):
                if text:
                    line = Text.assemble((f"{word}: ", "dim"), (escape_controls(text), style))
                    print_hanging(console, Text(" " * len(start)), line, wrap=True)


def _print_fine_layers(console: Console, diagnosis: Diagnosis) -> None:
    width = max(len(each.layer) for each in diagnosis.findings) + _GAP
    for layer, findings in groupby(diagnosis.findings, key=lambda each: each.layer):
        found = grouped(findings, lambda finding: finding.status)
        parts = [
            Text(f"{status}: {'; '.join(finding.check for finding in found[status])}", _STYLES[status])
            for status in _FINE
            if status in found
        ]
        if parts:
            start = Text.assemble((layer.ljust(width), "bold"))
            print_hanging(console, start, Text("; ").join(parts), wrap=True)
