"""Launching the table: rounds, in each of which every comparison has its programs launched once, one beside the other.

A drift of the machine meets all alike: rounds go through the whole table, and every second one begins with the other
programs.  A program that failed and gave no figure is not launched again in that comparison: its rows say why, and the
time goes to the rest.
"""

import os
import re
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from datetime import datetime, timezone
from pathlib import Path

from programs import BenchError, account, read_starter

from volley.launch.engine import ask_about
from volley.launch.engine_path import engine_path
from volley.launch.launchers import PAIR
from volley.machine import nvml
from volley.machine.mpi_choice import choose_mpi
from volley.machine.mpi_stack import assemble
from volley.machine.nvidia_driver import has_driver
from volley.text import mpi_name

from .commands import Command, Ours, Place
from .launches import Launch, Machine
from .table import Comparison


def place(programs: Path, keep: Path | None = None, ranks: int = PAIR) -> Place:
    """Ask volley how it starts ranks and what it sees of the machine."""
    starter = read_starter(ranks)
    return Place(programs, starter, account(starter, ranks), keep)


def machine(where: Place) -> Machine:
    """Describe the machine."""
    run, chosen = where.run, choose_mpi("", os.environ)
    with ask_about(Path(engine_path()), chosen.library) as answer:
        about = answer()
    return Machine(
        measured_at=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        volley=run.engine.version,
        cpu=run.ranks[0].cpu,
        cores=[rank.cores for rank in run.ranks],
        gpus=list({rank.device.uuid: rank.device.name for rank in run.ranks if rank.device}.values()),
        driver=nvml.read("before", ()).driver_version if has_driver() else None,
        mpi=mpi_name(run.mpi.library) if run.mpi else "",
        stack=_without_folders(assemble(chosen, about.mpi, about.cuda_built).describe()),
        load=os.getloadavg()[0],
    )


def _without_folders(text: str) -> str:
    """Shorten paths to file names: where somebody installed something tells nothing about a measurement."""
    return re.sub(r"(?<![\w.])/(?:[^\s:,/]+/)+", "", text)


class Budget:
    """Seconds that may be spent; no round of a comparison begins that would outlast them by what the last one took."""

    def __init__(self, seconds: float | None) -> None:
        self._end = time.monotonic() + seconds if seconds else None
        self._took: dict[str, float] = {}

    def allows(self, name: str) -> bool:
        """Say whether there is time for another round of this comparison."""
        return self._end is None or time.monotonic() + self._took.get(name, 0.0) <= self._end

    def spent(self, name: str, seconds: float) -> None:
        """Note how long a round took."""
        self._took[name] = seconds


def measure(
    where: Place, table: Sequence[Comparison], launches: int | None, budget: Budget, say: Callable[[str], None]
) -> Iterator[Launch]:
    """Launch everything and yield one record a launch."""
    failed: set[tuple[str, str]] = set()
    for number in range(max(_rounds(each, launches) for each in table)):
        for comparison in table:
            if number >= _rounds(comparison, launches) or not budget.allows(comparison.name):
                continue
            started = time.monotonic()
            for command in _in_turn(comparison, number):
                if (comparison.name, command.key) in failed:
                    continue
                launch = _launched(where, comparison.name, number, command)
                if launch.status == "failed" and not launch.figures:
                    failed.add((comparison.name, command.key))
                say(_line(launch))
                yield launch
            budget.spent(comparison.name, time.monotonic() - started)


def _rounds(comparison: Comparison, launches: int | None) -> int:
    return min(launches, comparison.launches) if launches else comparison.launches


def _in_turn(comparison: Comparison, number: int) -> tuple[Command | Ours, ...]:
    commands: tuple[Command | Ours, ...] = (comparison.ours, *comparison.theirs)
    return commands[::-1] if number % 2 else commands


def _launched(where: Place, comparison: str, number: int, command: Command | Ours) -> Launch:
    outcome = where.launch(command, f"{comparison}-{number + 1}")
    return Launch(
        comparison=comparison,
        round=number,
        command=command.key,
        program="volley" if isinstance(command, Ours) else command.program,
        version=outcome.reading.version,
        words=command.words.split(),
        environment=dict(command.environment),
        wall_s=round(outcome.wall_s, 3),
        status="failed" if outcome.reason else "ok",
        reason=outcome.reason,
        figures=outcome.reading.figures,
    )


def _line(launch: Launch) -> str:
    ending = f"FAILED: {launch.reason}" if launch.reason else "ok"
    return f"{launch.comparison} {launch.round + 1}: {launch.program}, {launch.wall_s:.1f} s, {ending}"


def chosen(table: Sequence[Comparison], names: Collection[str]) -> list[Comparison]:
    """Return the comparisons of those names, in the order of the table; where no name is given, all between two ranks.

    Raises:
        BenchError: if a name is none of the table's, or the comparisons need different numbers of ranks.
    """
    known = [each.name for each in table]
    if unknown := sorted(set(names) - set(known)):
        raise BenchError(f"there is no comparison {unknown[0]!r}; there are {', '.join(known)}")
    found = [each for each in table if (each.name in names if names else each.ranks == PAIR)]
    if len({each.ranks for each in found}) > 1:
        raise BenchError("comparisons of different numbers of ranks belong to different sessions: choose with --only")
    return found
