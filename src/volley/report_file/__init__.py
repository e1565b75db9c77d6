"""``volley report``: saved records as one file: an HTML page, or a picture of the charts."""

from __future__ import annotations

from volley.command.commandline import Command, Lazy

COMMAND = Command(
    name="report",
    help="""Write saved records as one HTML page that needs no network, or as a picture.

    The page contains findings, charts, sortable tables, the environment, and the records themselves. Several files
    become one page, side by side. With -o NAME.svg or -o NAME.png, only the charts are drawn. The exit code is 1 if a
    point failed, a run is incomplete or a line cannot be read.""",
    options="volley.report_file.command.ReportOptions",
    run=Lazy("volley.report_file.command.run"),
    examples=(
        "volley report link.jsonl -o link.html",
        "volley report monday.jsonl tuesday.jsonl -o week.html",
        "volley report link.jsonl -o link.svg",
    ),
)
