"""The options of ``volley check``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from volley.command import option_values
from volley.command.commandline import flag, group, option
from volley.command.options import HOW, WHAT, BenchmarkOptions, JobOptions, OutputOptions
from volley.errors import UserError
from volley.machine.transports import without_fault
from volley.text import join_words

CLUSTER_S, MACHINE_S, GPUS_S = 180.0, 45.0, 58.0
FORMATS = {
    "table": "for people",
    "json": "one document",
    "junit": "XML for CI",
    "prometheus": "for the textfile collector of the node exporter",
}


@dataclass(frozen=True, kw_only=True)
class CheckOptions(BenchmarkOptions):
    """What ``volley check`` takes."""

    PANEL = WHAT

    transport: tuple[str, ...] = option(
        "-t",
        read=option_values.names,
        shown="host; between nodes with GPUs also aware,nccl",
        help="Transports between the ranks, separated by commas (volley transports).",
    )
    switches: Path | None = option(
        read=option_values.file,
        help="The switches of the nodes: topology.conf or topology.yaml of Slurm, or a line for each node with the "
        "names of its switches. Within a job volley asks Slurm.",
    )
    one_switch: bool = flag(help="All nodes are on one switch.")
    expect: Path | None = option(
        read=option_values.file,
        help="Of one machine: file with what good nodes of this site measured; slower than its limits is FAIL.",
    )
    inventory: Path | None = option(
        read=option_values.file, help="File that says what must be there (docs/check.md); what is not is FAIL."
    )
    records: tuple[str, ...] = option(
        "--from",
        read=option_values.files,
        metavar="RECORDS,…",
        help="Judge the records of an earlier check again, without measuring.",
    )
    learn: bool = flag(help="Add what this check measures to the file of --expect: on a node that is good.")
    learn_busy: bool = flag(help="With --learn: learn also while others use the cores.")
    budget: float | None = option(
        read=option_values.seconds,
        shown=f"{CLUSTER_S:.0f}; of one machine {MACHINE_S:.0f}, or {GPUS_S:.0f} with GPUs, and more with many",
        panel=HOW,
        help="Time of all measurements; what is left is UNDECIDED.",
    )
    job: JobOptions = group(
        JobOptions,
        without=("launches", "dry_run", "gpu_after_init", "share_gpu", "gpus"),
        ranks={"shown": "one for each host, or each of its GPUs; on one machine one for each core, up to 16"},
    )
    output: OutputOptions = group(
        OutputOptions,
        only=("output", "force", "format", "full", "verbose", "quiet"),
        full={"help": "Show all findings, each of them whole."},
        format={
            "read": option_values.choice(*FORMATS),
            "help": f"{join_words(FORMATS, 'or')}; "
            + "; ".join(f"{name}: {text}" for name, text in FORMATS.items())
            + ".",
        },
    )

    def __post_init__(self) -> None:
        if self.learn and self.expect is None:
            raise UserError("--learn needs a file to add to: --expect FILE --learn")
        if self.learn and (bad := [name for name in self.transport if without_fault(name) != name]):
            raise UserError(f"--learn adds what a good node measures, and {join_words(bad)} is faulty on purpose")
        if self.learn_busy and not self.learn:
            raise UserError("--learn-busy needs --learn")
        if self.one_switch and self.switches:
            raise UserError("--one-switch and --switches: leave one of them out")
        if self.learn and self.records:
            raise UserError("--learn adds what is measured now: leave --from out")

    @property
    def named_transports(self) -> tuple[str, ...]:
        return self.transport
