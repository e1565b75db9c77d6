"""The registry of benchmarks.  Each benchmark is a subpackage; no other file lists them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from volley.benchmarks import (
    collective,
    gpu_matrix,
    jacobi,
    message_rate,
    overlap,
    pingpong,
    probe,
    rank_matrix,
    stream,
)
from volley.benchmarks.shared.points.options import PointOptions
from volley.errors import EXIT_GOOD, UserError
from volley.grouping import grouped
from volley.machine.nvidia_driver import gpu_count
from volley.run import option_values
from volley.run.benchmark import Benchmark
from volley.run.commandline import Command, Options, flag, group, option
from volley.run.options import FORMATS, BenchmarkOptions, JobOptions, OutputOptions, SamplingOptions, output_group
from volley.text import join_words
from volley.units import parse_sizes, round_up

BENCHMARKS: tuple[Benchmark, ...] = (
    pingpong.BENCHMARK,
    stream.BENCHMARK,
    message_rate.BENCHMARK,
    gpu_matrix.BENCHMARK,
    rank_matrix.BENCHMARK,
    jacobi.BENCHMARK,
    collective.BENCHMARK,
    overlap.BENCHMARK,
    probe.BENCHMARK,
)
"""In the order of ``volley --help``.  If several share a command and nothing decides, the last one is used."""

OVERVIEW = pingpong.BENCHMARK
"""The benchmark that ``volley`` without a command runs."""


def named(name: str) -> Benchmark:
    """Return the benchmark with this name.

    Raises:
        KeyError: if no benchmark has this name.
    """
    return {benchmark.name: benchmark for benchmark in BENCHMARKS}[name]


def measure(*parts: tuple[Benchmark, BenchmarkOptions]) -> int:
    """Run benchmarks with their options, one after the other; return the exit code."""
    from volley.run import session  # noqa: PLC0415  start-up: errors, --help and the other ranks do not need it

    return session.measure(*parts)


OVERVIEW_BUDGET_S = 60.0

HOST_OVERVIEW_BUDGET_S = 10.0
"""The same for a machine without a GPU, which has one transport instead of a dozen."""

ONE_GPU_OVERVIEW_BUDGET_S = 20.0
"""The same for a machine with one GPU.  A launch takes about 2 s there, most of it the start of MPI with CUDA: in 10 s
there were three, with intervals of up to ±70 %."""

PAIR_OF_GPUS = 2
"""The GPUs that a ping-pong uses.  Of one GPU or of more, ``volley`` without a command measures the matrix as well."""

OVERVIEW_SECTIONS = ("host-to-gpu", "gpu-to-host", "uni", "store")
"""Between host and GPUs, and bandwidth and latency of all pairs: a pair takes 0.1 s (four H200s: 3 s in all)."""

ONE_GPU_SECTIONS = ("host-to-gpu", "gpu-to-host", "uni")
"""Between host and GPU, and within the memory of the GPU."""

MATRIX_SHARE = 1 / 3
"""The part of the budget for all pairs."""

OVERVIEW_SIZES = "8,16M,256M,1G,64k,1M,4k,512"
"""What the one screen shows.  The ends of the curves come first: if the budget is too short for a launch, points
between them are skipped."""

HOST_OVERVIEW_SIZES = "8,16M,64M,64k,1M,4k,512"
"""The same up to 64 MiB: through the memory of the host a longer message takes as long as all the others, and tells no
more."""

OVERVIEW_SIZE_SHARE = 1 / 12
"""The part of the budget for one message size in a launch: half a launch of six, the fewest after which a run looks at
its intervals.  A message of 1 GiB through pageable memory takes as long as all smaller sizes."""


@dataclass(frozen=True, kw_only=True)
class OverviewOptions(Options):
    """The options of ``volley`` without a command."""

    sampling: SamplingOptions = group(
        SamplingOptions,
        only=("budget",),
        budget={
            "default": OVERVIEW_BUDGET_S,
            "shown": f"{OVERVIEW_BUDGET_S:.0f}; {ONE_GPU_OVERVIEW_BUDGET_S:.0f} with one GPU, "
            f"{HOST_OVERVIEW_BUDGET_S:.0f} without",
        },
    )
    job: JobOptions = group(JobOptions, only=("hosts", "launcher", "dry_run"))
    output: OutputOptions = output_group(OVERVIEW.formats)
    version: bool = flag(help="Show the version and exit.")
    completion: str | None = option(
        "--show-completion",
        read=option_values.choice("bash", "zsh", "fish", "tcsh"),
        metavar="bash|zsh|fish|tcsh",
        help='Print the completion script of this shell and exit: eval "$(volley --show-completion bash)".',
    )


def overview_options(asked: OverviewOptions, *, host_only: bool = False) -> Any:
    """Return the options of the benchmark of plain ``volley``; ``host_only``: where the ranks run are no two GPUs."""
    sizes = HOST_OVERVIEW_SIZES if host_only else OVERVIEW_SIZES
    budget_s = asked.sampling.budget or OVERVIEW_BUDGET_S
    size_time_s = f"{OVERVIEW_SIZE_SHARE * budget_s:.2g}"
    sampling = replace(asked.sampling, budget=budget_s, size_time=float(size_time_s))
    times = ("--budget", round_up(budget_s)), ("--size-time", size_time_s)
    typed = (*(each for each in asked.typed if each[0] != "--budget"), ("--sizes", sizes), *times)
    points = PointOptions(sizes=parse_sizes(sizes))
    return OVERVIEW.options(points=points, sampling=sampling, job=asked.job, output=asked.output, typed=typed)


def overview_parts(asked: OverviewOptions, gpus: int) -> list[tuple[Benchmark, Any]]:
    """Return what plain ``volley`` runs: a ping-pong between two ranks, and the matrix of GPUs if they are not two.

    With one GPU, the ping-pong is between host memory, because two ranks on one GPU do not communicate between GPUs.
    """
    from volley.run.allocation import allocation  # noqa: PLC0415  start-up: --help does not need it

    matrix = gpu_matrix.BENCHMARK
    elsewhere = bool(asked.job.hosts) or asked.job.launcher != "auto"
    host_only = gpus < PAIR_OF_GPUS and not (elsewhere or allocation(os.environ))
    if host_only and "budget" not in asked.sampling.given:
        usual_s = ONE_GPU_OVERVIEW_BUDGET_S if gpus else HOST_OVERVIEW_BUDGET_S
        asked = replace(asked, sampling=replace(asked.sampling, budget=usual_s))
    if gpus in (0, PAIR_OF_GPUS) or elsewhere or not matrix.suits() or asked.output.format not in FORMATS:
        return [(OVERVIEW, overview_options(asked, host_only=host_only))]
    budget_s = asked.sampling.budget or OVERVIEW_BUDGET_S
    first, second = MATRIX_SHARE * budget_s, (1 - MATRIX_SHARE) * budget_s
    defaults = matrix.options()
    of_gpus = matrix.options(
        section=ONE_GPU_SECTIONS if gpus == 1 else OVERVIEW_SECTIONS,
        sampling=replace(defaults.sampling, budget=first),
        job=replace(defaults.job, dry_run=asked.job.dry_run),
        output=asked.output,
    )
    of_ranks = replace(asked, sampling=replace(asked.sampling, budget=second))
    return [(matrix, of_gpus), (OVERVIEW, overview_options(of_ranks, host_only=host_only))]


def _overview(asked: OverviewOptions) -> int:
    if asked.version:
        from volley import __version__  # noqa: PLC0415  start-up: reads the distribution's metadata

        print(f"volley {__version__}")
        return EXIT_GOOD
    return measure(*overview_parts(asked, gpu_count()))


def _joins(benchmark: Benchmark, job: JobOptions) -> bool:
    return benchmark.joins(job) and not job.dry_run


PLAIN = Command(
    name="",
    help="""Measure how fast processors and GPUs communicate.

    Without a command, volley measures every available transport of this machine in one minute (in 20 s with one
    GPU, in 10 s without), names the unavailable ones with the reason, and prints a summary. With one GPU or more
    than two, it measures all of them first: from and to the host, and every pair. Inside a launcher
    (mpirun -n 2 volley …) volley runs as the ranks of that job.""",
    options=(OverviewOptions,),
    run=_overview,
    examples=(
        "volley",
        "volley pingpong --sizes 8,64k,1M --format csv",
        "srun -n 2 volley stream --direction bi",
    ),
    joins=lambda asked: not asked.version and _joins(OVERVIEW, asked.job),
)
"""``volley`` without a command."""


def commands() -> list[Command]:
    """Return the commands of the benchmarks, in the order of the registry."""
    found = grouped(BENCHMARKS, lambda benchmark: benchmark.command or benchmark.name)
    return [_command(name, benchmarks) for name, benchmarks in found.items()]


def _command(name: str, benchmarks: Sequence[Benchmark]) -> Command:
    by_options = {benchmark.options: benchmark for benchmark in benchmarks}

    def pick(types: Sequence[type[Options]]) -> type[Options]:
        return next((type_ for type_ in types if by_options[type_].suits()), types[-1])

    def run(options: Any) -> int:
        return measure((by_options[type(options)], options))

    return Command(
        name=name,
        help=benchmarks[0].help,
        options=tuple(by_options),
        run=run,
        examples=tuple(example for benchmark in benchmarks for example in benchmark.examples),
        aliases=tuple(alias for benchmark in benchmarks for alias in benchmark.aliases),
        pick=pick,
        joins=lambda options: _joins(by_options[type(options)], options.job),
    )


def read(words: Sequence[str]) -> tuple[Benchmark, Any]:
    """Parse the command line of a benchmark, which does not begin with ``volley``, without running it.

    Raises:
        UserError: if the command line is invalid, or its command is not a benchmark.
    """
    if not words or words[0].startswith("-"):
        return OVERVIEW, overview_options(PLAIN.parse(words))
    known = commands()
    command = next((each for each in known if words[0] in (each.name, *each.aliases)), None)
    if command is None:
        names = join_words([each.name for each in known], "or")
        raise UserError(f"volley {words[0]} measures nothing: use {names}")
    options = command.parse(words[1:], pick=False)
    return next(each for each in BENCHMARKS if each.options is type(options)), options
