"""What carried the bytes, in reports: lines of the heading, findings, and a table with a row for each size."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby

from volley.machine import paths
from volley.machine.fallbacks import fallback
from volley.machine.paths import LARGEST_TRIED, LIKE_HOST, Algorithm, RunPath
from volley.records.command_again import command_again
from volley.records.launch_series import LaunchSeries
from volley.report.cells import scaled
from volley.report.model import Cell, Column, Note, Table, finding
from volley.text import count, escape_controls, grouped, join_few, join_words
from volley.units import format_size


def path_at(series: LaunchSeries, transport: str, size_bytes: int, operation: str | None = None) -> str | None:
    """Return the path of messages of a size in words: that of the next smaller size that was tried, if no larger one
    may take another; of an operation also how NCCL made it."""
    made = [
        each.words
        for each in paths.of_plan(series.launch).algorithms
        if (each.transport, each.operation, each.size_bytes) == (transport, operation, size_bytes)
    ]
    way = _way_at(series, transport, size_bytes)
    return "; ".join([*([way] if way else []), *made]) or None


def _way_at(series: LaunchSeries, transport: str, size_bytes: int) -> str | None:
    name = "host" if transport.startswith(LIKE_HOST) else transport
    those = [path for path in paths.of_plan(series.launch).paths if path.transport == name]
    smaller = [path for path in those if path.size_bytes <= size_bytes]
    nearest = max(smaller, key=lambda path: path.size_bytes, default=those[0] if those else None)
    return nearest.words() if nearest and not _untried(those, size_bytes) else None


def _untried(those: Sequence[RunPath], size_bytes: int) -> bool:
    """Return whether messages of a size may take another path than all that were tried."""
    return max(path.size_bytes for path in those) < min(size_bytes, LARGEST_TRIED)


def path_lines(series: LaunchSeries) -> Iterator[str]:
    """Yield lines for the heading: ``host: TCP over eth0 (10 Gbit/s), UCX; the counters … saw 100 % of the bytes``."""
    run, launch = series.run, series.launch
    seen = paths.of_plan(launch)
    if run and len({rank.host for rank in run.ranks}) > 1 and (launch.get("inside") or launch.get("paths") == []):
        why = "a launcher started this job" if launch.get("inside") else "the launch that shows it failed"
        yield f"what carried the bytes between the hosts is unknown, because {why}"
    left_out = {each.transport for log in series.logs for each in log.transports if not each.available}
    longest = max(getattr(series.plan and series.plan.options, "sizes_bytes", ()), default=0)
    for name, those in grouped(seen.paths, lambda path: path.transport).items():
        if name in left_out:
            continue
        pairs = grouped(those, lambda path: " to ".join(end.host for end in path.ends))
        alike = grouped(pairs.items(), lambda pair: _line(pair[1], longest))
        for line, same in alike.items():
            where = f" ({join_few(hosts for hosts, _ in same)})" if len(alike) > 1 else ""
            yield escape_controls(f"{name}{where}: {line}")
    made = grouped(seen.algorithms, lambda each: each.operation)
    for line, operations in grouped(made, lambda operation: _made(made[operation])).items():
        yield escape_controls(f"nccl {join_words(operations)}: {line}")


def _line(those: Sequence[RunPath], longest: int) -> str:
    """Describe the paths of a transport between two hosts, by size if one does not hold for all up to the longest."""
    alike = list(_alike(those))
    by_size = len(alike) > 1 or _untried(those, longest)
    parts = [f"{_sizes(each)} {each[0].in_short()}" if by_size else each[0].in_short() for each in alike]
    shares = sorted(round(path.counted * 100) for path in those if path.counted is not None)
    seen = " to ".join(f"{share}" for share in dict.fromkeys((shares[0], shares[-1]))) if shares else ""
    return "; ".join([*parts, *([f"the counters of the devices saw {seen} % of the bytes"] if seen else [])])


def _made(those: Sequence[Algorithm]) -> str:
    """Describe how an operation is made, sizes that are beside each other and alike together."""
    alike = [list(each) for _, each in groupby(those, key=lambda each: (each.algorithm, each.protocol))]
    return "; ".join(
        f"{_sizes(each)} {each[0].algorithm} {each[0].protocol}, {_channels([one.channels for one in each])}"
        for each in alike
    )


def _channels(numbers: Sequence[int]) -> str:
    low, high = min(numbers), max(numbers)
    return count(high, "channel") if low == high else f"{low} to {count(high, 'channel')}"


def _alike(those: Sequence[RunPath]) -> Iterator[list[RunPath]]:
    """Yield the paths of a transport between two hosts, those of neighbouring sizes together that are alike."""
    for _, alike in groupby(those, key=lambda path: (path.in_short(), [end.host for end in path.ends])):
        yield list(alike)


def _sizes(those: Sequence[RunPath | Algorithm]) -> str:
    return " to ".join(format_size(size) for size in dict.fromkeys((those[0].size_bytes, those[-1].size_bytes)))


def path_findings(series: LaunchSeries) -> Iterator[Note]:
    """Yield what went a slower way than the hosts have: of each transport the largest messages that did."""
    plan, environment = series.plan, series.run.environment if series.run else {}
    for name, those in grouped(paths.of_plan(series.launch).paths, lambda path: path.transport).items():
        slow = [(each, fallback(each[-1], environment, _sizes(each))) for each in _alike(those)]
        for _, found in [each for each in slow if each[1]][-1:]:
            if found and plan:
                again = command_again(plan.benchmark, plan)
                unset = [word for variable in found.unset for word in ("-u", variable)]
                command = f"{shlex.join(['env', *unset])} {again}" if unset else f"{found.change} {again}".strip()
                yield finding("SLOW", escape_controls(f"{name}: {found.text}"), command)


def path_tables(series: LaunchSeries) -> Iterator[Table]:
    """Yield the tables of ``--full``: a row for each transport and size that was looked at, and for each operation."""
    seen = paths.of_plan(series.launch)
    counted, idle = "the part of the bytes that the counters of the devices saw", "devices that are up on both hosts"
    columns: dict[Column, Callable[[RunPath], Cell | str | float | None]] = {
        Column("transport", align="left"): lambda path: path.transport,
        Column("size"): lambda path: Cell(path.size_bytes, text=format_size(path.size_bytes)),
        Column("path", align="left"): lambda path: path.words(),
        Column("counted", "%", 3, meaning=f"counted: {counted}"): lambda path: scaled(path.counted, 100),
        Column("idle", align="left", meaning=f"idle: {idle}"): lambda path: join_words(
            map(paths.device_words, path.idle)
        ),
    }
    of_operations: dict[Column, Callable[[Algorithm], Cell | str | float | None]] = {
        Column("operation", align="left"): lambda each: each.operation,
        Column("size"): lambda each: Cell(each.size_bytes, text=format_size(each.size_bytes)),
        Column("algorithm", align="left"): lambda each: each.algorithm,
        Column("protocol", align="left"): lambda each: each.protocol,
        Column("channels"): lambda each: each.channels,
    }
    if seen.paths:
        yield Table.of(columns, seen.paths, title="what carried the bytes, in a launch of its own", model=True)
    if seen.algorithms:
        yield Table.of(
            of_operations, seen.algorithms, title="how NCCL makes the operations, in the same launch", model=True
        )
