"""``volley compare`` and ``volley references``: two runs, two environments, or a run and a published machine."""

from __future__ import annotations

from volley.command.commandline import Command, Lazy

COMMANDS = (
    Command(
        name="compare",
        help="""Compare two runs: what changed, what is the same, and what cannot be decided yet.

        The ratio of every point has its 95 % interval over launches. CHANGED is tested for the whole sweep at once, and
        is more than a steady drift of the launches explains; a machine that changed between the runs may be its cause.
        SAME is shown by the interval, not assumed. Six launches of each run can show a change, or four of one and six
        of the other, or three and nine; with --live, seven.

        With --live, two command lines take turns, so that a drift of the machine affects both. The first run may also
        be a reference: published results of another machine have no repeats, so there are ratios and no verdicts.

        The exit code is 1 where a point failed; with --fail-on also where one is slower, and 4 where the launches of
        some cannot show that.""",
        options="volley.compare.options.CompareOptions",
        run=Lazy("volley.compare.command.compare"),
        examples=(
            "volley compare monday.jsonl tuesday.jsonl",
            "volley compare baseline.jsonl today.jsonl --fail-on slower:5%",
            "volley compare --live 'volley pingpong' 'env UCX_RNDV_THRESH=8 volley pingpong'",
            "volley compare summit today.jsonl",
        ),
    ),
    Command(
        name="references",
        help="""List published results of other machines, with their sources, to compare with.

        A records file of your own becomes a reference with --add.""",
        options="volley.compare.options.ReferencesOptions",
        run=Lazy("volley.compare.command.references"),
        examples=(
            "volley references",
            "volley references summit",
            "volley references --add our-cluster today.jsonl",
        ),
    ),
)
