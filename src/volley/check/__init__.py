"""``volley check``: is this node, is this cluster good?

``command`` runs benchmarks with short plans; ``judgement`` and ``machine`` judge what they recorded in all ranks
together and on one machine; ``findings`` says it in words, to people and to other programs.
"""

from __future__ import annotations

from volley.command.commandline import Command, Lazy

COMMAND = Command(
    name="check",
    help=(
        "Check this machine, or all nodes of a job at once, and name what is bad: PASS, FAIL or UNDECIDED.\n\n"
        "Among three or more nodes all ranks measure at the same time, each with 16 random partners, so that the time "
        "does not depend on the number of nodes. A part is called slow if it is slower than the others for certain, "
        "and what is undecided is measured again with good partners. The exit code is 0 only if everything was "
        "measured and passed; 1: something failed; 4: undecided; 3: not possible."
    ),
    options="volley.check.options.CheckOptions",
    run=Lazy("volley.check.command.run"),
    examples=(
        "volley check",
        "volley check --hosts 'cn[001-064]' --switches /etc/slurm/topology.conf",
        "srun -N 64 --ntasks-per-node 1 volley check --budget 120",
        "volley check --expect limits.json --learn",
        "volley check --format slurm",
    ),
    joins=lambda options: options.job.launcher == "auto",
)
