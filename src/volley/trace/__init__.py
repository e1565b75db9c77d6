"""``volley record`` and ``volley explain``: the MPI calls of an application, and where its time goes.

``record`` starts the application with a recorder that every MPI accepts (``engine/trace/recorder.c``); ``roll_call``
says where each rank was; ``waiting`` splits the time in MPI, ``explain`` shows it.
"""

from __future__ import annotations

from volley.command.commandline import Command, Lazy

RECORD = Command(
    name="record",
    help="""Record the MPI calls of an application, of any MPI and any language, without rebuilding it.

    The words after the dashes start it: mpirun, srun, or the program itself. Counters of all calls never stop; of the
    calls, the first N of each rank are kept (--events). If the application hangs, Ctrl-C ends it and shows in which
    call each rank was, with whom, and since when. The exit code is that of the command. volley explain shows where the
    time went; volley replay repeats the calls as a benchmark.""",
    options="volley.trace.options.RecordOptions",
    run=Lazy("volley.trace.record.run"),
    examples=(
        "volley record -- mpirun -n 4 ./app",
        "volley record -o app.trace --events 1000000 -- srun -n 64 ./app input",
    ),
)
EXPLAIN = Command(
    name="explain",
    help="""Explain where the time of a recorded application goes: waiting for late ranks, and for whom, or MPI itself.

    The time in MPI is split into waiting for partners that come late, waiting for partners that are outside MPI while
    their message waits, and the rest. Ranks that lost their core are named instead.""",
    options="volley.trace.options.ExplainOptions",
    run=Lazy("volley.trace.explain.run"),
    examples=("volley explain mpi.trace", "volley explain mpi.trace --full", "volley explain mpi.trace -o mpi.html"),
)
COMMANDS = (RECORD, EXPLAIN)
