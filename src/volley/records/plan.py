"""The plan: one JSON document that describes what to measure.  This module defines the part of all benchmarks."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec.structs import replace

from volley.command.options import JobOptions, SamplingOptions
from volley.document import PLAN_VERSION, Count, CountOrNone, Frozen, PositiveSeconds, doc

OUT_OF_TIME = "the time budget was too short"
"""The engine's reason for a point that it skipped because the budget was over (engine/src/record/plan.hpp)."""


class Sampling(Frozen, frozen=True, kw_only=True):
    """How samples are taken (docs/method, "Sampling")."""

    mode: Annotated[
        Literal["adaptive", "fixed"],
        doc(
            "`adaptive` stops by the confidence interval of the median; `fixed` takes one batch, as the tutorial does."
        ),
    ] = "adaptive"
    ci: Annotated[
        float,
        doc("adaptive: stop when the 95 % confidence interval of the median is within ± this fraction.", gt=0, le=1),
    ] = SamplingOptions.ci
    point_time_s: Annotated[
        PositiveSeconds, doc("adaptive: stop a point after this much time, at the end of a round.")
    ] = SamplingOptions.point_time
    size_time_s: Annotated[
        PositiveSeconds | None,
        doc(
            "time for one message size, shared equally by all transports: a transport skips the size if "
            "its fewest exchanges, estimated from the size before, exceed its share; null: no limit."
        ),
    ] = SamplingOptions.size_time
    min_visits: Annotated[Count, doc("adaptive: the fewest rounds in which every transport is visited.")] = 3
    warmup: Annotated[CountOrNone, doc("fixed: untimed exchanges before the batch.")] = SamplingOptions.warmup
    iterations: Annotated[Count, doc("fixed: exchanges in the one timed batch.")] = SamplingOptions.iterations
    tail: Annotated[bool, doc("adaptive: one exchange a sample, so that percentiles are of messages.")] = False


class Plan(Frozen, frozen=True, kw_only=True):
    """What to measure.  One JSON document, validated before any rank measures."""

    plan: Annotated[Literal[2], doc("version of this document.")] = PLAN_VERSION
    benchmark: Annotated[str, doc("its name; `options` is what this benchmark reads.")]
    world_size: Annotated[Count, doc("ranks expected; the engine refuses a job of any other size.")] = 2
    transports: Annotated[
        list[str], doc("names from the registry, e.g. `host`, `staged/pinned`; visited in this order.")
    ]
    excluded: Annotated[
        dict[str, str],
        doc(
            "transports of the list that must not be opened, and operations that must not be made on one of them "
            "(`aware allreduce`), and why, as found in a separate job."
        ),
    ] = {}
    options: Annotated[Any, doc("the benchmark's own part.")] = {}
    sampling: Sampling = Sampling()
    verify: Annotated[bool, doc("check the last message of every sample, outside the timed region.")] = (
        SamplingOptions.verify
    )
    share_device: Annotated[bool, doc("allow two ranks on one GPU.")] = False
    budget_s: Annotated[
        PositiveSeconds | None, doc("stop starting points after this much time in all; what is left is `skipped`.")
    ] = None
    watchdog_s: Annotated[PositiveSeconds, doc("a region without progress for longer than this ends the job.")] = (
        JobOptions.watchdog
    )
    launch: Annotated[
        dict[str, Any],
        doc(
            "what the front end knows about the launch (launcher, command, software stack, given options); "
            "copied, never read."
        ),
    ] = {}

    def changed(self, **fields: Any) -> Plan:
        """Return the plan with other values of these fields."""
        return replace(self, **fields)

    def with_options(self, **fields: Any) -> Plan:
        """Return the plan with other values of these fields of its ``options``."""
        return self.changed(options=replace(self.options, **fields))

    def with_sampling(self, **fields: Any) -> Plan:
        """Return the plan with other values of these fields of its ``sampling``."""
        return self.changed(sampling=replace(self.sampling, **fields))
