"""The registry of benchmarks.  Each is a room beside this file; nothing else in volley lists them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from volley.benchmarks import gpu_matrix, jacobi, pingpong, probe, rank_matrix, stream
from volley.errors import EXIT_GOOD, UserError
from volley.run.benchmark import Benchmark
from volley.run.commandline import Command, Options, flag, group
from volley.run.options import BenchmarkOptions, JobOptions, OutputOptions, SamplingOptions, output_group
from volley.text import join_words

BENCHMARKS: tuple[Benchmark, ...] = (
    pingpong.BENCHMARK,
    stream.BENCHMARK,
    gpu_matrix.BENCHMARK,
    rank_matrix.BENCHMARK,
    jacobi.BENCHMARK,
    probe.BENCHMARK,
)
"""In the order of ``volley --help``.  Of those that share a command the last one is meant where nothing decides."""

OVERVIEW = pingpong.BENCHMARK
"""What plain ``volley`` measures."""


def named(name: str) -> Benchmark:
    """Return the benchmark of that name.

    Raises:
        KeyError: if there is none.
    """
    return {benchmark.name: benchmark for benchmark in BENCHMARKS}[name]


def measure(benchmark: Benchmark, options: BenchmarkOptions) -> int:
    """Measure what the options ask for; return the exit code."""
    from volley.run import session  # noqa: PLC0415  start-up: errors, --help and the other ranks do without

    return session.measure(benchmark, options)


OVERVIEW_BUDGET_S = 60.0


@dataclass(frozen=True, kw_only=True)
class OverviewOptions(Options):
    """What ``volley`` takes without a command."""

    sampling: SamplingOptions = group(SamplingOptions, only=("budget",), budget={"default": OVERVIEW_BUDGET_S})
    job: JobOptions = group(JobOptions, only=("hosts", "launcher", "dry_run"))
    output: OutputOptions = output_group(OVERVIEW.formats)
    version: bool = flag(help="Show the version and exit.")


def overview_options(asked: OverviewOptions) -> Any:
    """Return the options of the benchmark that plain ``volley`` measures."""
    return OVERVIEW.options(sampling=asked.sampling, job=asked.job, output=asked.output)


def _overview(asked: OverviewOptions) -> int:
    if not asked.version:
        return measure(OVERVIEW, overview_options(asked))
    from volley import __version__  # noqa: PLC0415  start-up: reads the distribution's metadata

    print(f"volley {__version__}")
    return EXIT_GOOD


PLAIN = Command(
    name="",
    help="""How fast do processors and GPUs really talk to each other?

    Alone, volley measures what this machine can do within a minute, says what it cannot do and why, and sums up. The
    commands do one thing each. Started inside a launcher (mpirun -n 2 volley …) it becomes the ranks.""",
    options=(OverviewOptions,),
    run=_overview,
    examples=(
        "volley",
        "volley pingpong --sizes 8,64k,1M --format csv",
        "srun -n 2 volley stream --direction bi",
    ),
    joins=lambda asked: not asked.version and not asked.job.dry_run and asked.job.launcher == "auto",
)
"""``volley`` without a command."""


def commands() -> list[Command]:
    """Return the commands that measure, in the order of the registry."""
    found: dict[str, list[Benchmark]] = {}
    for benchmark in BENCHMARKS:
        found.setdefault(benchmark.command or benchmark.name, []).append(benchmark)
    return [_command(name, benchmarks) for name, benchmarks in found.items()]


def _command(name: str, benchmarks: Sequence[Benchmark]) -> Command:
    by_options = {benchmark.options: benchmark for benchmark in benchmarks}

    def pick(types: Sequence[type[Options]]) -> type[Options]:
        return next((type_ for type_ in types if by_options[type_].suits()), types[-1])

    def run(options: Any) -> int:
        return measure(by_options[type(options)], options)

    def joins(options: Any) -> bool:
        plain = not options.job.dry_run and options.job.launcher == "auto"
        return plain and not by_options[type(options)].local

    return Command(
        name=name,
        help=benchmarks[0].help,
        options=tuple(by_options),
        run=run,
        examples=tuple(example for benchmark in benchmarks for example in benchmark.examples),
        aliases=tuple(alias for benchmark in benchmarks for alias in benchmark.aliases),
        pick=pick,
        joins=joins,
    )


def read(words: Sequence[str]) -> tuple[Benchmark, Any]:
    """Read a command line that measures as ``volley`` itself would, and do nothing.

    Args:
        words: without ``volley``.

    Raises:
        UserError: if it makes no sense, or is a command that does not measure.
    """
    if not words or words[0].startswith("-"):
        return OVERVIEW, overview_options(PLAIN.parse(words))
    known = commands()
    command = next((each for each in known if words[0] in (each.name, *each.aliases)), None)
    if command is None:
        names = join_words([each.name for each in known], "or")
        raise UserError(f"volley {words[0]} measures nothing: a job is for {names}")
    options = command.parse(words[1:], pick=False)
    return next(each for each in BENCHMARKS if each.options is type(options)), options
