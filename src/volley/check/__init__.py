"""``volley check``: is this node, is this cluster good?

``command`` runs benchmarks with short plans; ``judged`` has what their records say, ``kept`` reads earlier ones;
``judgement`` and ``machine`` judge all ranks together and one machine; ``findings`` says it in words.
"""

from __future__ import annotations

from volley.command.commandline import Command, Lazy

COMMAND = Command(
    name="check",
    help=(
        "Check this machine, or all nodes of a job at once, and name what is bad.\n\n"
        "Among three or more nodes all ranks measure at the same time, each with 32 partners (96 in a step of srun, "
        "which has one launch), so that the time does not depend on the number of nodes. A node is slow if it is "
        "slower than its neighbors, the nodes on its switch and of its kind, towards the same places. Distance is no "
        "fault. The exit code is 0 if nothing failed, nothing is undecided and everything was possible; 1: something "
        "failed; 4: undecided; 3: not possible."
    ),
    options="volley.check.options.CheckOptions",
    run=Lazy("volley.check.command.run"),
    examples=(
        "volley check",
        "volley check --hosts 'cn[001-064]' --switches /etc/slurm/topology.conf",
        "srun -N 64 --ntasks-per-node 1 volley check --budget 120",
        "volley check --expect limits.json --learn",
        "volley check --from records.jsonl --one-switch",
    ),
    joins=lambda options: options.job.launcher == "auto" and not options.records,
)
