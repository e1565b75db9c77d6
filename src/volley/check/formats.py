"""The findings for people and for other programs."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TextIO
from xml.sax.saxutils import quoteattr

from volley.check.findings import ORDER, CheckFinding, exit_code
from volley.document import Frozen, readable_json
from volley.report.columns import SCHEMA
from volley.text import count, escape_controls

MAX_SHOWN = 24
"""Findings on the screen, of two lines each; the other formats have all of them."""
WIDTH = 120


class Document(Frozen, frozen=True, kw_only=True):
    """The findings of a check as JSON."""

    schema: int = SCHEMA
    exit_code: int
    findings: list[CheckFinding]


def render(findings: Sequence[CheckFinding], format_name: str, out: TextIO) -> None:
    """Write the findings in one of the formats."""
    lines = {
        "table": _table, "json": _json, "junit": _junit, "prometheus": _prometheus, "nhc": _nhc, "slurm": _slurm
    }[format_name](findings)  # fmt: skip
    out.write("".join(f"{line}\n" for line in lines))


def _name(finding: CheckFinding) -> str:
    return escape_controls(": ".join(filter(None, (finding.part, finding.layer))))


def _table(findings: Sequence[CheckFinding]) -> list[str]:
    totals = [
        f"{number} {verdict}" for verdict in ORDER if (number := sum(each.verdict == verdict for each in findings))
    ]
    lines = [", ".join(totals) or "nothing was measured"]
    for each in findings[:MAX_SHOWN]:
        yardstick = f" [{each.yardstick}]" if each.yardstick != "none" else ""
        text = f"{each.verdict:<12} {_name(each)}: {escape_controls(each.why)}{yardstick}"
        lines += textwrap.wrap(text, WIDTH, subsequent_indent=" " * 13)[:3]
        if each.decides:
            lines.append(f"{'':13}→ {escape_controls(each.decides)}")
    if len(findings) > MAX_SHOWN:
        lines.append(f"and {count(len(findings) - MAX_SHOWN, 'more finding')}: --format json has all of them")
    return lines


def _json(findings: Sequence[CheckFinding]) -> list[str]:
    document = Document(exit_code=exit_code(findings), findings=list(findings))
    return readable_json(document).splitlines()


def _junit(findings: Sequence[CheckFinding]) -> list[str]:
    """A FAIL is a failure; what is undecided or not possible is an error, because it did not pass."""
    failed = sum(each.verdict == "FAIL" for each in findings)
    errors = sum(each.verdict not in ("FAIL", "PASS") for each in findings)
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        f'<testsuite name="volley check" tests="{len(findings)}" failures="{failed}" errors="{errors}">',
    ]
    for each in findings:
        tag = "failure" if each.verdict == "FAIL" else "error"
        message = quoteattr(escape_controls(f"{each.verdict}: {each.why}"))
        inside = "" if each.verdict == "PASS" else f"<{tag} message={message}/>"
        lines.append(f"  <testcase classname={quoteattr(each.layer)} name={quoteattr(_name(each))}>{inside}</testcase>")
    return [*lines, "</testsuite>"]


def _prometheus(findings: Sequence[CheckFinding]) -> list[str]:
    def text(value: str) -> str:
        return escape_controls(value).replace("\\", "\\\\").replace('"', '\\"')

    lines = [
        "# HELP volley_check_exit_code 0: passed, 1: failed, 3: not possible, 4: undecided.",
        "# TYPE volley_check_exit_code gauge",
        f"volley_check_exit_code {exit_code(findings)}",
        "# HELP volley_check_finding 1 for each layer, or part of the machine in it, with its verdict as a label.",
        "# TYPE volley_check_finding gauge",
    ]
    samples = (
        f'volley_check_finding{{verdict="{each.verdict}",layer="{text(each.layer)}",part="{text(each.part)}"}} 1'
        for each in findings
    )
    return [*lines, *dict.fromkeys(samples)]


def _nhc(findings: Sequence[CheckFinding]) -> list[str]:
    """Node Health Check shows the line of a check that fails as the reason of the node."""
    if exit_code(findings) == 0:
        return []
    first = findings[0] if findings else None
    return [
        f"ERROR: volley check: {first.verdict} {_name(first)}: {escape_controls(first.why)}"
        if first
        else "ERROR: volley check: nothing was measured"
    ]


def _slurm(findings: Sequence[CheckFinding]) -> list[str]:
    """Return the commands that drain the nodes to blame; volley prints and never runs them."""
    reasons: dict[str, str] = {}
    for each in findings:
        for node in each.nodes if each.verdict == "FAIL" else ():
            reasons.setdefault(node, escape_controls(f"volley: {each.why}, {each.layer}").replace('"', ""))
    return [
        f'scontrol update NodeName={escape_controls(node)} State=DRAIN Reason="{why}"' for node, why in reasons.items()
    ]
