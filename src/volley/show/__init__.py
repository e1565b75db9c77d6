"""``volley show``, ``list``, ``delete`` and ``report``: saved records, shown again, listed, or as a page."""

from __future__ import annotations

from volley.command.commandline import Command, Lazy

COMMANDS = (
    Command(
        name="show",
        help="""Show saved records again, in any format; also those of a run that was aborted.

        Without a file it shows the newest saved run. Several files are shown as one: launches of the same
        plan on the same hosts count as repetitions, unless --each separates them. A dash stands for standard input. The
        exit code is 1 where a point failed, a run is incomplete, or a line or one of several files cannot be read.""",
        options="volley.show.command.ShowOptions",
        run=Lazy("volley.show.command.show"),
        examples=(
            "volley show --full",
            "volley show link.jsonl --full",
            "volley show monday.jsonl tuesday.jsonl --each run --format csv",
            "ssh node1 cat link.jsonl | volley show -",
        ),
    ),
    Command(
        name="list",
        help="""List the saved runs of this machine, the newest first.

        Other commands take the id of a run, or the beginning of it, in place of a file; also the name that --name gave
        it, last for the newest run, and last-1 for the one before. Runs of other users and other values of
        XDG_STATE_HOME are not listed.""",
        options="volley.show.command.ListOptions",
        run=Lazy("volley.show.command.list_runs"),
        examples=("volley list", "volley list --tag nightly", "volley show last-1"),
    ),
    Command(
        name="delete",
        help="""Delete saved runs of this machine, after saying which.

        --older-than and --keep name old runs; those with a name and those that are being measured stay.""",
        options="volley.show.command.DeleteOptions",
        run=Lazy("volley.show.command.delete"),
        examples=(
            "volley delete last",
            "volley delete before-update --yes",
            "volley delete --older-than 8w --keep 20",
        ),
    ),
    Command(
        name="report",
        help="""Write saved records as one HTML page that needs no network, or as a picture.

        The page contains findings, charts, sortable tables, the environment, and the records themselves. Several files
        become one page, side by side. With -o NAME.svg or -o NAME.png, only the charts are drawn. The exit code is 1 if
        a point failed, a run is incomplete or a line cannot be read.""",
        options="volley.show.report.ReportOptions",
        run=Lazy("volley.show.report.run"),
        examples=(
            "volley report link.jsonl -o link.html",
            "volley report monday.jsonl tuesday.jsonl -o week.html",
            "volley report link.jsonl -o link.svg",
        ),
    ),
)
