"""``volley doctor``: every layer between this machine and a CUDA-aware MPI, tried in order.

Two halves that share nothing but the facts (volley.machine.facts): ``capture`` and ``probes/`` try things and write
down what happened; ``checks/`` are pure functions from those facts to findings.  So a strange machine becomes a
permanent test.
"""

from __future__ import annotations

from volley.command.commandline import Command, Lazy

COMMAND = Command(
    name="doctor",
    help=(
        "Test every layer between this machine and a CUDA-aware MPI, and show a remedy for each problem.\n\n"
        "Each test runs in a separate process: a crash or a hang is a finding. The exit code is 1 if "
        "something is broken."
    ),
    options="volley.doctor.options.DoctorOptions",
    run=Lazy("volley.doctor.command.run"),
    examples=(
        "volley doctor",
        "volley doctor --format json",
        "volley doctor --capture node1.json",
        "ssh node1 volley doctor --capture - | volley doctor --from -",
    ),
    joins=lambda options: options.source is None,  # it starts the engine in a foreign job, too
)
