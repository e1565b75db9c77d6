"""``volley show`` and ``volley list``: saved records, shown again, and which ones there are."""

from __future__ import annotations

from volley.command.commandline import Command, Lazy

COMMANDS = (
    Command(
        name="show",
        help="""Show saved records again, in any format; also those of a run that was aborted.

        Without a file it shows the last run that volley kept. Several files are shown as one: launches of the same plan
        on the same hosts count as repetitions, unless --each separates them. A dash stands for standard input. The exit
        code is 1 where a point failed, a run is incomplete or a line cannot be read.""",
        options="volley.show.command.ShowOptions",
        run=Lazy("volley.show.command.show"),
        examples=(
            "volley show --full",
            "volley show link.jsonl --notes",
            "volley show monday.jsonl tuesday.jsonl --each run --format csv",
            "ssh node1 cat link.jsonl | volley show -",
        ),
    ),
    Command(
        name="list",
        help="""List the runs that volley kept on this machine, the newest first.

        Other commands take the number or the name of a run in place of a file.""",
        options="volley.show.command.ListOptions",
        run=Lazy("volley.show.command.list_runs"),
        examples=("volley list", "volley show 2"),
    ),
)
