"""The options of ``volley tune``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from volley.command import option_values
from volley.command.commandline import Options, argument, flag, group, option
from volley.command.options import HOW, OUTPUT, WHAT, JobOptions, OutputOptions
from volley.errors import UserError
from volley.text import join_words
from volley.units import parse_sizes

TUNED = ("pingpong", "stream", "collective", "replay")
"""The benchmarks whose points have sizes, and the recorded calls of an application, which are one point."""
SIZES, USUAL_OPERATION, USUAL_TRANSPORT = "8:4Mi:x4", "allreduce", "host"
BUDGET_S, WATCHDOG_S = 300.0, 10.0
REPLAY_TIME = "0.2"
"""Seconds of a launch: many short launches say more than few long ones."""


@dataclass(frozen=True, kw_only=True)
class TuneOptions(Options):
    PANEL = WHAT

    benchmark: tuple[str, ...] = argument(
        "[BENCHMARK]",
        positional="*",
        help=f"The benchmark to make faster: {join_words(TUNED, 'or')} TRACE; the default is pingpong.",
    )
    transport: tuple[str, ...] = option(
        "-t",
        read=option_values.names,
        default=(USUAL_TRANSPORT,),
        help="Transports, separated by commas (volley transports): host, aware, nccl, …",
    )
    sizes: tuple[int, ...] = option(
        "-s",
        read=option_values.sizes,
        default=parse_sizes(SIZES),
        shown=SIZES,
        help="Message sizes, as for pingpong. A setting by size is written for these sizes and those between them.",
    )
    operation: tuple[str, ...] = option(
        read=option_values.names,
        shown=USUAL_OPERATION,
        help="The operations of collective, separated by commas.",
    )
    cold_cache: bool = flag(panel=HOW, help="Search with messages that are in no cache, as of pingpong --cold-cache.")
    budget: float = option(
        read=option_values.seconds,
        default=BUDGET_S,
        shown=f"{BUDGET_S:g}, or more where the fewest launches take longer",
        panel=HOW,
        help="Time of the whole search; a longer search makes more launches and finds smaller differences.",
    )
    folder: Path | None = option(
        "--output",
        "-o",
        read=option_values.folder,
        shown="a new folder in the state folder, shown at the end",
        panel=OUTPUT,
        help="Folder for the files with the proven settings, and for the records of all launches.",
    )
    job: JobOptions = group(
        JobOptions,
        without=("launches", "dry_run"),
        watchdog={
            "default": WATCHDOG_S,
            "help": "Abort a launch after this time without progress: the setting hangs, and is not tried again.",
        },
    )
    output: OutputOptions = group(OutputOptions, only=("format", "full", "quiet"))

    def __post_init__(self) -> None:
        name, *trace = self.benchmark or ("pingpong",)
        if name not in TUNED or len(trace) != (name == "replay"):
            raise UserError(f"volley tune takes one benchmark: {join_words(TUNED, 'or')} TRACE; its options follow")
        if trace and {"transport", "sizes", "cold_cache"} & {*self.given}:
            refused = "--transport, --sizes and --cold-cache are not for volley tune replay"
            raise UserError(f"{refused}: the trace says what is sent")
        if self.operation and self.benchmark != ("collective",):
            raise UserError("--operation is for volley tune collective")

    def words(self) -> list[str]:
        """Return the command line of the benchmark, without ``volley``, the options of the job."""
        name, *trace = self.benchmark or ("pingpong",)
        if trace:
            return [name, *trace, "--time", REPLAY_TIME]
        operations = ["--operation", ",".join(self.operation or (USUAL_OPERATION,))] if name == "collective" else []
        sizes = ",".join(map(str, self.sizes))
        cold = ["--cold-cache"] if self.cold_cache else []
        return [name, *operations, "--transport", ",".join(self.transport), "--sizes", sizes, *cold]
