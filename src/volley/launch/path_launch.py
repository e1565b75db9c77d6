"""A launch of its own that shows the path of messages: by the words of libraries, and by counters of devices."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

import msgspec

from volley.document import Frozen, Positive
from volley.launch import preflight
from volley.launch.engine import About
from volley.launch.preflight import Trials
from volley.machine import nccl_words, path_words, paths
from volley.machine.paths import BY_PEER_ACCESS, LARGEST_TRIED, LIKE_HOST, LaunchPaths, PathCounts, RunPath
from volley.machine.signals import temporary_folder
from volley.records.plan import Plan

USUAL_SIZES = (8, 1 << 16, 1 << 22)
MOST_SIZES, MOST_SIZES_HERE = 8, 3
"""So many sizes between hosts, and on one host, where ranks may share their cores with others."""
_SHORTEST_START_S = 15.0
"""Where ranks need longer to start, the path stays unknown: nobody waits twice for a start that does not come."""
MOST_RANKS, FEW_RANKS = 512, 64
"""A larger job is not asked; of one with more than a few ranks only the longest messages are."""


class PathPlan(Frozen, frozen=True, kw_only=True):
    """Messages of these sizes, and each operation of its sizes; no command offers this benchmark."""

    sizes_bytes: list[Positive]
    operations: list[str]
    operation_sizes_bytes: list[Positive]


def found(
    plan: Plan, about: About, excluded: Sequence[str], trials: Trials, most_s: float = math.inf
) -> LaunchPaths | None:
    """Return the paths of a plan's transports that are not known by their name: those of MPI, NCCL and peer access,
    and how NCCL makes the plan's operations.

    ``None``: there are none; nothing is known of a job that failed, and the measured one will say why.

    Args:
        plan: what is measured afterwards.
        about: the transports of the engine.
        excluded: transports that must not be opened.
        trials: how the measured job is started.
        most_s: the longest that a step of the job may take, in s, where that is less than a step usually may.
    """
    chosen = ("nccl", *BY_PEER_ACCESS)
    unknown = [each.name for each in about.of(plan.transports) if each.mpi or each.name in chosen]
    names = dict.fromkeys("host" if name.startswith(LIKE_HOST) else name for name in unknown)
    names = {name: None for name in names if name not in excluded and name.count("/") < 2}
    most = MOST_SIZES_HERE if trials.start.on_this_host else MOST_SIZES
    sizes = _sizes(getattr(plan.options, "sizes_bytes", USUAL_SIZES), most)
    if not names or not sizes or plan.world_size > MOST_RANKS or trials.stop.signal is not None:
        return None
    operations, of_operations = _operations(plan) if "nccl" in names else ([], [])
    small = plan.changed(
        benchmark="path",
        transports=list(names),
        options=PathPlan(
            sizes_bytes=sizes[-1:] if plan.world_size > FEW_RANKS else sizes,
            operations=operations,
            operation_sizes_bytes=of_operations,
        ),
        budget_s=None,
        watchdog_s=min(preflight.WATCHDOG_S, most_s),
    )
    usual = trials.start.patience
    patience = replace(usual, most_s=min(usual.most_s, max(usual.start_s, _SHORTEST_START_S)))
    with temporary_folder() as folder:
        environment = {**trials.start.environment, **path_words.VARIABLES, **nccl_words.to_files_in(folder)}
        start = replace(trials.start, environment=environment, patience=patience)
        records, ending = preflight.send(small, replace(trials, start=start))
        said = (*ending.others, *nccl_words.said_in(folder))
    mpi = next((str((each["mpi"] or {}).get("library")) for each in records if each.get("record") == "run"), "")
    listed: list[RunPath] = []
    for record in records:
        if record.get("record") == "path":
            with suppress(msgspec.ValidationError):
                counts = msgspec.convert(record, PathCounts)
                listed.append(paths.path_of(counts, path_words.said_of(counts, said, mpi)))
    made = nccl_words.algorithms(said, operations, of_operations, plan.world_size)
    return LaunchPaths(listed, list(made))


def _operations(plan: Plan) -> tuple[list[str], list[int]]:
    """Return the operations of a plan that move data, and their sizes."""
    operations = [each for each in getattr(plan.options, "operations", ()) if each != "barrier"]
    return operations, list(plan.options.sizes_bytes) if operations else []


def _sizes(wanted: Sequence[int], most: int) -> list[int]:
    """Return at most so many of the sizes, the smallest and the largest among them; none if no message has a byte."""
    sizes = sorted({min(size, LARGEST_TRIED) for size in wanted if size})
    step = -(-(len(sizes) - 1) // (most - 1)) or 1
    return sorted({*sizes[::step], *sizes[-1:]})
