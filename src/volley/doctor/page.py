"""Findings for people: one line each under its layer, and below it evidence and remedy of what is not good."""

from __future__ import annotations

import os
from typing import IO, TextIO, cast

from rich.console import Console
from rich.table import Table
from rich.text import Text

from volley.doctor.findings import Diagnosis, Finding, Status
from volley.machine.cuda_driver import ATTRIBUTES
from volley.machine.facts import CudaFacts, Facts
from volley.report.ascii_fallback import AsciiFallback
from volley.text import escape_controls
from volley.units import parse_whole

WIDTH_WITHOUT_TERMINAL = 120
"""Lines in a file or a pipe are at most this wide, unless COLUMNS says otherwise."""
_STYLES: dict[Status, str] = {
    "good": "green",
    "warning": "yellow",
    "broken": "bold red",
    "not applicable": "dim",
    "not tested": "cyan",
}


def render(diagnosis: Diagnosis, facts: Facts, out: TextIO) -> None:
    """Show all findings on ``out``, and the counts last."""
    console = _console(out)
    system = facts.system.value
    about = [system.os_name, f"Linux {system.kernel}", system.architecture, system.container] if system else []
    console.print(Text(escape_controls(" · ".join(["volley doctor", *filter(None, about)]))))
    if facts.note:
        console.print(Text(escape_controls(facts.note), "dim"))
    layer = ""
    # Fixed columns, so that the layers' tables stand in line with each other.
    first = max(len(each.status) for each in diagnosis.findings)
    second = max(len(each.check) for each in diagnosis.findings)
    for finding in diagnosis.findings:
        if finding.layer != layer:
            layer = finding.layer
            console.print(Text(f"\n{layer}", "bold"))
        console.print(_rows(finding, first, second))
    counts = ", ".join(f"{times} {status}" for status, times in diagnosis.counts.items() if times)
    console.print(Text(f"\n{counts}"))


def _console(out: TextIO) -> Console:
    width = None if out.isatty() else parse_whole(os.environ.get("COLUMNS")) or WIDTH_WITHOUT_TERMINAL
    safe = cast(IO[str], AsciiFallback(out))
    return Console(file=safe, width=width, highlight=False, markup=False, emoji=False)


def _rows(finding: Finding, first: int, second: int) -> Table:
    rows = Table.grid(padding=(0, 2, 0, 0), expand=False)
    rows.add_column(width=first, no_wrap=True)
    rows.add_column(width=second, no_wrap=True)
    rows.add_column()
    said = Text(escape_controls(finding.said), "dim" if finding.status == "not applicable" else "")
    rows.add_row(Text(finding.status, _STYLES[finding.status]), Text(finding.check), said)
    if finding.status in {"warning", "broken", "not tested"}:
        for word, text, style in (("tried", finding.evidence, "dim"), ("do", finding.remedy, "bold")):
            if text:
                rows.add_row("", "", Text.assemble((f"{word}: ", "dim"), (escape_controls(text), style)))
    return rows


def render_devices(cuda: CudaFacts, out: TextIO) -> None:
    """Show what deviceQuery would: every attribute of every GPU, and who reaches whom."""
    console = _console(out)
    version = f"{cuda.driver_version // 1000}.{cuda.driver_version % 1000 // 10}"
    console.print(Text(f"{len(cuda.devices)} GPUs, CUDA driver API {version}"))
    for device in cuda.devices:
        console.print(Text(f"\n{device.index}  {escape_controls(device.name)}", "bold"))
        rows = Table.grid(padding=(0, 2, 0, 0))
        rows.add_row("   uuid", escape_controls(device.uuid))
        rows.add_row("   PCI address", escape_controls(device.pci))
        rows.add_row("   memory", f"{device.memory_bytes} bytes")
        for attribute in ATTRIBUTES:
            if (value := device.attributes.get(attribute.name)) is not None:
                words = ("no", "yes")[bool(value)] if attribute.unit == "yes/no" else f"{value} {attribute.unit}"
                rows.add_row(f"   {attribute.label}", words.strip())
        console.print(rows)
    if len(cuda.peers) > 1:
        console.print(Text("\npeer access, row reaches column", "bold"))
        for index, row in enumerate(cuda.peers):
            console.print(Text(f"  {index:>3}  {' '.join('yes' if yes else ' no' for yes in row)}"))
