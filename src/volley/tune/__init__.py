"""``volley tune``: which settings of MPI, UCX or NCCL make this machine faster, each proven against the default.

``candidates`` reads what there is to try (``candidates.json``); ``search`` is pure: which settings are launched, and
what their times prove; ``command`` launches them; ``files`` writes what was proven, and ``page`` shows it.
"""

from __future__ import annotations

from volley.command.commandline import Command, Lazy

COMMAND = Command(
    name="tune",
    help=(
        "Search for settings of MPI, UCX and NCCL that make a benchmark faster, and prove them.\n\n"
        "Short launches with each setting, in turn with the default, choose a few; these are measured again on fresh "
        "launches, and what is written as files was faster there at the sizes that volley names and not shown to be "
        "slower at others. Every message is verified. A setting that crashes, hangs or corrupts data is reported, and "
        "the search goes on."
    ),
    options="volley.tune.options.TuneOptions",
    run=Lazy("volley.tune.command.run"),
    examples=(
        "volley tune",
        "volley tune pingpong -t host -s 8:4Mi:x8 -o tuned",
        "volley tune collective --operation allreduce --ranks 4 --budget 600",
    ),
)
