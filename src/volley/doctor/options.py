"""The options of ``volley doctor``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from volley.command import option_values
from volley.command.commandline import Options, flag, group, option
from volley.command.options import HOW, OUTPUT, WHAT, JobOptions, table_or_json


@dataclass(frozen=True, kw_only=True)
class DoctorOptions(Options):
    PANEL = OUTPUT

    source: str | None = option(
        "--from",
        read=option_values.text,
        metavar="FILE",
        panel=WHAT,
        help="Judge facts that --capture saved, instead of this machine.",
    )
    hosts: tuple[str, ...] = option(
        read=option_values.hosts,
        metavar="A,B",
        shown="those of the job",
        panel=WHAT,
        help="Also check these hosts and the connections between them: names, interfaces, ports, versions, limits.",
    )
    job: JobOptions = group(JobOptions, only=("mpi",))
    timeout: float = option(
        read=option_values.seconds,
        default=60.0,
        panel=HOW,
        help="Time limit of each test; after it doctor continues with the next test.",
    )
    capture: Path | None = option(
        read=option_values.file,
        help="Save the facts to this file, for --from on any machine; - prints them instead of the findings.",
    )
    force: bool = flag(help="Overwrite an existing file of facts.")
    device_query: bool = flag(help="Print the CUDA properties of each GPU instead, in the layout of deviceQuery.")
    verbose: bool = flag("-v", help="Show every finding, in the order of the layers.")
    format: str = table_or_json("the findings")
