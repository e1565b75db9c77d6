"""Draw the screen of a saved run: ``python docs/make/screen.py`` writes docs/terminal.svg, README's picture."""

from __future__ import annotations

import io
import os
from pathlib import Path

from rich.console import Console
from rich.text import Text

from volley.benchmarks import BENCHMARKS
from volley.records.records_file import read_runs
from volley.report.model import Details
from volley.run.render import render

ROOT = Path(__file__).parents[2]
RECORDS = ROOT / "results" / "h100-x2" / "volley.jsonl.gz"
TARGET = ROOT / "docs" / "terminal.svg"
WIDTH = 105


def main() -> None:
    """Write the picture."""
    os.environ["COLUMNS"] = str(WIDTH)
    shown = io.StringIO()
    render(read_runs(RECORDS, BENCHMARKS), BENCHMARKS, "table", shown, details=Details(color=True))
    console = Console(record=True, width=WIDTH, file=io.StringIO(), color_system="standard", force_terminal=True)
    console.print(Text("$ volley"))
    console.print(Text.from_ansi(shown.getvalue()))
    console.save_svg(str(TARGET), title="volley on two H100s")


if __name__ == "__main__":
    main()
