"""The registry of benchmarks, and their commands.  Each benchmark is a subpackage; no other file lists them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from volley.benchmarks import collective, jacobi, matrix, message_rate, overlap, pair, plain, probe, replay
from volley.command.commandline import Command
from volley.errors import UserError
from volley.run.benchmark import Benchmark
from volley.text import grouped, join_words

BENCHMARKS: tuple[Benchmark, ...] = (
    pair.PINGPONG,
    pair.STREAM,
    message_rate.BENCHMARK,
    matrix.GPUS,
    matrix.RANKS,
    jacobi.BENCHMARK,
    collective.BENCHMARK,
    overlap.BENCHMARK,
    replay.BENCHMARK,
    probe.BENCHMARK,
)
"""In the order of ``volley --help``."""


def named(name: str) -> Benchmark:
    return {benchmark.name: benchmark for benchmark in BENCHMARKS}[name]


def commands() -> list[Command]:
    found = grouped(BENCHMARKS, lambda benchmark: benchmark.command)
    return [_command(name, benchmarks) for name, benchmarks in found.items()]


def _wanted(benchmarks: Sequence[Benchmark], options: Any, *, here: bool = True) -> Benchmark:
    return next(each for each in benchmarks if each.wanted(options, here))


def _command(name: str, benchmarks: Sequence[Benchmark]) -> Command:
    def run(options: Any) -> int:
        from volley.run import session  # noqa: PLC0415  start-up: errors, --help and the other ranks do not need it

        return session.measure((_wanted(benchmarks, options), options))

    return Command(
        name=name,
        help=benchmarks[0].help,
        options=benchmarks[0].options,
        run=run,
        examples=tuple(example for benchmark in benchmarks for example in benchmark.examples),
        aliases=tuple(alias for benchmark in benchmarks for alias in benchmark.aliases),
        joins=lambda options: not options.job.dry_run and _wanted(benchmarks, options).joins(options.job),
    )


def read(words: Sequence[str], others: Sequence[str] = ()) -> tuple[Benchmark, Any]:
    """Parse the command line of a benchmark, which does not begin with ``volley``, without running it.

    ``others``: commands that the caller reads itself, for the message about one that measures nothing.
    """
    if not words or words[0].startswith("-"):
        return pair.PINGPONG, plain.pingpong_options(plain.COMMAND.parse(words))
    known = commands()
    command = next((each for each in known if words[0] in (each.name, *each.aliases)), None)
    if command is None:
        names = join_words([*(each.name for each in known), *others], "or")
        raise UserError(f"volley {words[0]} cannot be used here: use {names}")
    options = command.parse(words[1:])
    return _wanted([each for each in BENCHMARKS if each.command == command.name], options, here=False), options
