"""The findings of a check as a table for the screen, as JSON, for JUnit and for Prometheus."""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
from collections.abc import Sequence
from itertools import chain
from typing import Annotated, TextIO, get_args
from xml.sax.saxutils import quoteattr

from volley.check.findings import NAMED, CheckFinding
from volley.document import Frozen, doc, readable_json
from volley.errors import EXIT_GOOD
from volley.machine.finding import Verdict, counts, exit_code
from volley.report.columns import SCHEMA
from volley.report.prometheus import escaped
from volley.text import escape_controls, grouped, wrapped

SPEED = ("population", "limits", "reference", "line rate")
"""The yardsticks of how fast something is."""
MOST_LINES = 60
"""Of the screen, however many findings there are; ``--full`` and the other formats have all of them."""
NARROWEST, WIDTH = 40, 120
"""Of a line: that of a terminal, within these."""
LONGEST = 3 * (WIDTH - 13)
"""Characters of a finding: three lines of the widest terminal."""


class Document(Frozen, frozen=True, kw_only=True):
    """The findings of a check as JSON."""

    schema: int = SCHEMA
    exit_code: int
    nodes: Annotated[tuple[str, ...], doc("all that were asked for, as the batch system names them.")] = ()
    findings: list[CheckFinding]


def render(
    findings: Sequence[CheckFinding],
    format_name: str,
    out: TextIO,
    nodes: Sequence[str] = (),
    *,
    full: bool = False,
    whole: str = "volley check --full",
) -> None:
    """Write the findings in a format.

    Args:
        findings: in their order.
        format_name: one of ``FORMATS``.
        out: gets the text.
        nodes: all that were asked for.
        full: the table cuts nothing.
        whole: the command that shows a table that was cut.
    """
    if format_name == "json":
        document = Document(exit_code=exit_code(findings), nodes=tuple(nodes), findings=list(findings))
        lines = readable_json(document).splitlines()
    else:
        lines = {
            "table": lambda: _table(findings, _width(out), "" if full else whole),
            "junit": lambda: _junit(findings),
            "prometheus": lambda: _prometheus(findings),
        }[format_name]()
    out.write("".join(f"{line}\n" for line in lines))


def _width(out: TextIO) -> int:
    columns = shutil.get_terminal_size((WIDTH, 0)).columns if out.isatty() or "COLUMNS" in os.environ else WIDTH
    return max(NARROWEST, min(WIDTH, columns))


def _name(finding: CheckFinding) -> str:
    return escape_controls(": ".join(filter(None, (finding.part, finding.layer))))


def _table(findings: Sequence[CheckFinding], width: int, whole: str) -> list[str]:
    """Show the first findings of each verdict and layer, as many as the screen has room for, and count the others.

    ``whole`` is the command that shows all of them; empty: this one does.
    """
    totals = [f"{number} {verdict}" for verdict, number in counts(findings, get_args(Verdict)).items() if number]
    sections = list(grouped(findings, lambda each: (each.status, each.layer)).values())
    room, longest = (MOST_LINES - 2, LONGEST) if whole else (sys.maxsize, sys.maxsize)  # without first and last line
    for most in range(min(room, len(findings)), -1, -1):
        shown = (_section(those, most or int(place == 0), width, longest) for place, those in enumerate(sections))
        lines = [*chain.from_iterable(shown)]
        if len(lines) <= room:
            break
    if any(len(those) > most for those in sections) or any(line.endswith(" …") for line in lines):
        lines = [*lines[:room], f"all: {escape_controls(whole)}"]
    judged = any(each.evidence in SPEED and each.status != "NOT JUDGED" for each in findings)
    good = findings and not judged and exit_code(findings) == EXIT_GOOD
    first = f"{', '.join(totals)}: what arrived is correct, and no speed was judged" if good else ", ".join(totals)
    return [first or "nothing was measured", *lines]


def _section(findings: Sequence[CheckFinding], most: int, width: int, longest: int) -> list[str]:
    """Return the lines of at most so many findings of one verdict and layer, and a line about the others."""
    lines = []
    for each in findings[:most]:
        yardstick = f" [{each.evidence}]" if each.evidence != "none" else ""
        text = f"{_name(each)}: {escape_controls(each.said)}{yardstick}"
        text = textwrap.shorten(text, longest, placeholder=" …")
        lines += wrapped(f"{each.status:<12} {text}", width, others=" " * 13)
        if each.remedy and each.status != "PASS":
            lines += wrapped(f"→ {escape_controls(each.remedy)}", width, " " * 13, " " * 15)
    if others := findings[most:]:
        which = ", ".join(escape_controls(each.part or each.said) for each in others[:NAMED])
        which += ", …" if len(others) > NAMED else ""
        text = f"{len(others)}{' more' if most else ''}: {escape_controls(others[0].layer)}: {which}"
        lines.append(f"{others[0].status:<12} {textwrap.shorten(text, width - 13, placeholder=' …')}")
    return lines


def _junit(findings: Sequence[CheckFinding]) -> list[str]:
    """A FAIL is a failure; what is undecided or not possible is an error, because it did not pass."""
    failed, undecided, not_possible, skipped, _ = counts(findings, get_args(Verdict)).values()
    errors = undecided + not_possible
    totals = f'tests="{len(findings)}" failures="{failed}" errors="{errors}" skipped="{skipped}"'
    lines = ['<?xml version="1.0" encoding="UTF-8"?>', f'<testsuite name="volley check" {totals}>']
    for each in findings:
        tag = {"FAIL": "failure", "NOT JUDGED": "skipped"}.get(each.status, "error")
        message = quoteattr(escape_controls(f"{each.status}: {each.said}"))
        inside = "" if each.status == "PASS" else f"<{tag} message={message}/>"
        lines.append(f"  <testcase classname={quoteattr(each.layer)} name={quoteattr(_name(each))}>{inside}</testcase>")
    return [*lines, "</testsuite>"]


def _prometheus(findings: Sequence[CheckFinding]) -> list[str]:
    lines = [
        "# HELP volley_check_exit_code 0: passed, 1: failed, 3: not possible, 4: undecided.",
        "# TYPE volley_check_exit_code gauge",
        f"volley_check_exit_code {exit_code(findings)}",
        "# HELP volley_check_finding 1 for each layer, or part of the machine in it, with its verdict as a label.",
        "# TYPE volley_check_finding gauge",
    ]
    samples = (
        f'volley_check_finding{{verdict="{each.status}",layer="{escaped(each.layer)}",part="{escaped(each.part)}"}} 1'
        for each in findings
    )
    return [*lines, *dict.fromkeys(samples)]
