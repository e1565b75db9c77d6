"""Draw the screen of a saved run: ``python docs/make/screen.py`` writes docs/terminal.svg, README's picture."""

import io
import os
import textwrap
from collections.abc import Iterator
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


def findings() -> Iterator[str]:
    """Yield the findings that README quotes, each with its command: all but that about the least certain number."""
    found = "".join(shown(color=False).partition("\nall ")[0].partition("  OK ")[1:])
    yield from ("```text", *textwrap.dedent(found.partition("  NOISY ")[0]).splitlines(), "```")


def shown(*, color: bool) -> str:
    """Return the screen; ``COLUMNS`` says how wide it is."""
    out = io.StringIO()
    render(read_runs(RECORDS, BENCHMARKS), BENCHMARKS, "table", out, details=Details(color=color))
    return out.getvalue()


def main() -> None:
    """Write the picture."""
    os.environ["COLUMNS"] = str(WIDTH)
    console = Console(record=True, width=WIDTH, file=io.StringIO(), color_system="standard", force_terminal=True)
    console.print(Text("$ volley"))
    console.print(Text.from_ansi(shown(color=True)))
    console.save_svg(str(TARGET), title="volley on two H100s")


if __name__ == "__main__":
    main()
