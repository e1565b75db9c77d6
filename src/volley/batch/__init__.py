"""Job scripts: the batch systems as data, and the script that runs a measurement in one."""

from __future__ import annotations

from volley.command.commandline import Command, Lazy

COMMAND = Command(
    name="batch",
    help="""Write the script of a batch job that measures: directives, modules, and the line that starts the ranks.

    The words after the dashes are a command line of volley; without them the job runs volley without a command. volley
    checks the command line at once, before it waits in the queue.""",
    options="volley.batch.options.BatchOptions",
    run=Lazy("volley.batch.script.run"),
    examples=(
        "volley batch --scheduler slurm --gpus-per-node 4 -- matrix --section all",
        "volley batch --scheduler lsf --account ABC123 --module cuda -o volley.lsf -- transports",
        "volley batch --scheduler age --account GROUP --node-resource rt_AF --module cuda/11.2/11.2.2",
    ),
)
