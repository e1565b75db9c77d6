"""The options of ``volley check``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from volley.command import option_values
from volley.command.commandline import flag, group, option
from volley.command.options import HOW, WHAT, BenchmarkOptions, JobOptions, OutputOptions
from volley.errors import UserError
from volley.text import join_words

if TYPE_CHECKING:
    from volley.run.jobs import JobContext

CLUSTER_S, MACHINE_S, GPUS_S = 180.0, 20.0, 50.0
MOST_RANKS_OF_A_MACHINE = 16
FORMATS = {
    "table": "for people",
    "json": "one document",
    "junit": "XML for CI",
    "prometheus": "for the textfile collector of the node exporter",
    "nhc": "a line for Node Health Check",
    "slurm": "the commands that drain bad nodes, which volley prints and never runs",
}


@dataclass(frozen=True, kw_only=True)
class CheckOptions(BenchmarkOptions):
    """What ``volley check`` takes."""

    PANEL = WHAT

    transport: tuple[str, ...] = option(
        "--transport",
        "-t",
        read=option_values.names,
        default=(),
        shown="host",
        metavar="NAME,…",
        help="Transports between the ranks, separated by commas (volley transports).",
    )
    switches: Path | None = option(
        read=option_values.file,
        help="Slurm's topology.conf: which nodes are on which switch. Without it no switch or link is named.",
    )
    expect: Path | None = option(
        read=option_values.file,
        help="Of one machine: file with what good nodes of this site measured; slower than its limits is FAIL.",
    )
    learn: bool = flag(help="Add what this check measures to the file of --expect: on a node that is good.")
    budget: float | None = option(
        read=option_values.seconds,
        shown=f"{CLUSTER_S:.0f}; of one machine {MACHINE_S:.0f}, or {GPUS_S:.0f} with GPUs",
        panel=HOW,
        help="Time of all measurements; what is left is UNDECIDED.",
    )
    job: JobOptions = group(
        JobOptions,
        without=("launches", "dry_run", "gpu_after_init", "share_gpu", "gpus"),
        ranks={"shown": "one for each host; on one machine one for each core, up to 16, or each GPU with -t aware"},
    )
    output: OutputOptions = group(
        OutputOptions,
        only=("output", "force", "format", "verbose", "quiet"),
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

    @property
    def named_transports(self) -> tuple[str, ...]:
        return self.transport

    def ranks_of(self, context: JobContext) -> int:
        """Return how many ranks the check has."""
        from volley.launch.launchers import PAIR, cores  # noqa: PLC0415  start-up: --help does without
        from volley.machine.nvidia_driver import gpu_count  # noqa: PLC0415  start-up: --help does without
        from volley.run.jobs import choose_transports, count_ranks  # noqa: PLC0415  start-up: --help does without

        nodes = context.allocation.nodes if context.allocation and context.allocation.nodes > 1 else 0
        transports = context.about.of(choose_transports(self.transport, context, usual=("host",)))
        on_gpus = any(each.memory == "device" for each in transports)  # two ranks do not share a GPU
        here = gpu_count() if on_gpus else min(cores(), MOST_RANKS_OF_A_MACHINE)
        usual = context.ranks_given or len(self.job.hosts) or nodes or here
        return count_ranks(self.job, context, usual=max(usual, PAIR))
