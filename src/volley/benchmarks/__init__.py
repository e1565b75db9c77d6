"""The registry of benchmarks, and their commands.  Each benchmark is a subpackage; no other file lists them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from volley.benchmarks import (
    collective,
    gpu_matrix,
    jacobi,
    message_rate,
    overlap,
    pingpong,
    plain,
    probe,
    rank_matrix,
    stream,
)
from volley.errors import UserError
from volley.grouping import grouped
from volley.run.benchmark import Benchmark
from volley.run.commandline import Command, Options
from volley.text import join_words

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


def named(name: str) -> Benchmark:
    """Return the benchmark with this name.

    Raises:
        KeyError: if no benchmark has this name.
    """
    return {benchmark.name: benchmark for benchmark in BENCHMARKS}[name]


def commands() -> list[Command]:
    """Return the commands of the benchmarks, in the order of the registry."""
    found = grouped(BENCHMARKS, lambda benchmark: benchmark.command)
    return [_command(name, benchmarks) for name, benchmarks in found.items()]


def _command(name: str, benchmarks: Sequence[Benchmark]) -> Command:
    by_options = {benchmark.options: benchmark for benchmark in benchmarks}

    def pick(types: Sequence[type[Options]]) -> type[Options]:
        return next((type_ for type_ in types if by_options[type_].suits()), types[-1])

    def run(options: Any) -> int:
        from volley.run import session  # noqa: PLC0415  start-up: errors, --help and the other ranks do not need it

        return session.measure((by_options[type(options)], options))

    return Command(
        name=name,
        help=benchmarks[0].help,
        options=tuple(by_options),
        run=run,
        examples=tuple(example for benchmark in benchmarks for example in benchmark.examples),
        aliases=tuple(alias for benchmark in benchmarks for alias in benchmark.aliases),
        pick=pick,
        joins=lambda options: not options.job.dry_run and by_options[type(options)].joins(options.job),
    )


def read(words: Sequence[str]) -> tuple[Benchmark, Any]:
    """Parse the command line of a benchmark, which does not begin with ``volley``, without running it.

    Raises:
        UserError: if the command line is invalid, or its command is not a benchmark.
    """
    if not words or words[0].startswith("-"):
        return pingpong.BENCHMARK, plain.pingpong_options(plain.COMMAND.parse(words))
    known = commands()
    command = next((each for each in known if words[0] in (each.name, *each.aliases)), None)
    if command is None:
        names = join_words([each.name for each in known], "or")
        raise UserError(f"volley {words[0]} measures nothing: use {names}")
    options = command.parse(words[1:], pick=False)
    return next(each for each in BENCHMARKS if each.options is type(options)), options
