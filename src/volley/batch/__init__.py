"""Job scripts: the batch systems as data, and the script that runs a measurement in one."""

from __future__ import annotations

from volley.batch.options import BatchOptions
from volley.run.commandline import Command


def _run(options: BatchOptions) -> int:
    from volley.batch.script import deliver, write  # noqa: PLC0415  start-up: errors and --help do without

    deliver(write(options), options.output)
    return 0


COMMAND = Command(
    name="batch",
    help="""Write the script of a batch job that measures: directives, modules, and the line that starts the ranks.

    The words after the dashes are a command line of volley; without them the job runs volley alone. They are checked
    now, so that a mistake does not wait in the queue.""",
    options=(BatchOptions,),
    run=_run,
    examples=(
        "volley batch --scheduler slurm --gpus-per-node 4 -- matrix --section all",
        "volley batch --scheduler lsf --account ABC123 --module cuda -o volley.lsf -- transports",
        "volley batch --scheduler age --account GROUP --node-resource rt_AF --module cuda/11.2/11.2.2",
    ),
)
