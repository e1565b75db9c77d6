"""The plan and the records of matrices between the GPUs of one process."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from volley.benchmarks.matrix import GPUS_POINT_TIME_S, HINT, WITH_HOST, MatrixOptions
from volley.document import RECORD_VERSION, Frozen, NonNegative, Positive, PositiveSeconds, Seconds, Version
from volley.errors import MachineError
from volley.machine.hardware import Device
from volley.machine.nvidia_driver import has_driver
from volley.records.plan import Plan
from volley.records.record_types import EndedBy, Status, Work
from volley.run.jobs import Jobs, Site, launches, make_plan
from volley.run.progress import Forecast
from volley.units import format_sig


class GpuMatrixPlan(Frozen, frozen=True, kw_only=True):
    """What is measured between the GPUs of this machine (docs/method/gpu-matrix.md)."""

    sections: Annotated[list[str], Meta(min_length=1, description="their names; measured in the engine's order.")]
    gpus: Annotated[list[NonNegative], Meta(description="CUDA's numbers; empty: all that CUDA shows.")] = []
    largest_bytes: Annotated[
        int,
        Meta(
            ge=64 << 10, le=1 << 62, description="no message is larger; if a GPU has no room for four, they are halved."
        ),
    ] = 512 << 20
    quick: Annotated[
        bool, Meta(description="smaller windows and fewer samples: an answer as soon as the CUDA sample has one.")
    ] = False
    samples: Annotated[bool, Meta(description="cells keep every sample.")] = False


class GpuMatrixGpus(Frozen, frozen=True, kw_only=True, tag_field="record", tag="gpu_matrix_gpus"):
    """The GPUs of the matrices, and which of them can access each other's memory."""

    version: Version = RECORD_VERSION
    devices: Annotated[list[Device], Meta(description="in CUDA's order.")]
    can_access: Annotated[
        list[list[bool]], Meta(description="cudaDeviceCanAccessPeer: row of the reading GPU, column of the one read.")
    ] = []
    reason: Annotated[str | None, Meta(description="why there is none.")] = None

    def __post_init__(self) -> None:
        """Refuse a table that is not one of these devices."""
        sizes = {len(self.can_access), *map(len, self.can_access)}
        if self.can_access and sizes != {len(self.devices)}:
            raise ValueError("`can_access` has not one row and one column for each of `devices`")

    def can(self, first: int, second: int) -> bool | None:
        """Return whether a GPU can access the memory of another one; ``None`` if the record does not say."""
        row = self.can_access[first] if first < len(self.can_access) else []
        return row[second] if second < len(row) else None


class GpuMatrixCell(Frozen, frozen=True, kw_only=True):
    """One pair of GPUs, or one GPU and the host."""

    status: Annotated[
        Status,
        Meta(description="`failed`: a checked message was wrong, or nothing moved any more; `skipped`: not measured."),
    ]
    reason: Annotated[str | None, Meta(description="why it failed or was skipped.")] = None
    median_s: Annotated[
        PositiveSeconds | None,
        Meta(description="seconds of what the row measures; null where the cell failed or was skipped."),
    ] = None
    low_s: Annotated[
        PositiveSeconds | None,
        Meta(description="lower end of the median's 95 % interval; null with fewer than six samples."),
    ] = None
    high_s: PositiveSeconds | None = None
    samples: NonNegative = 0
    samples_s: Annotated[list[PositiveSeconds], Meta(description="all samples, where the plan asks for them.")] = []
    visits: Annotated[
        list[NonNegative], Meta(description="samples of each visit, in order, where `samples_s` holds them.")
    ] = []
    work_s: Work = []
    count_per_sample: Annotated[
        NonNegative, Meta(description="k: round trips, windows, copies or passes in one timed batch.")
    ] = 0
    elapsed_s: Seconds = 0.0
    ended_by: EndedBy | None = None
    messages_timed: NonNegative = 0
    messages_verified: NonNegative = 0
    compared_counts: Annotated[
        NonNegative | None,
        Meta(
            description="copies or windows of the pass after the samples, in which every message has a place of its "
            "own; 0: there was none; null: recorded before 0.3."
        ),
    ] = None
    compared_in_flight: Annotated[NonNegative | None, Meta(description="messages of each of them.")] = None
    gpu: Annotated[str, Meta(description="UUID of the second.")]
    peer_access: Annotated[
        bool | None,
        Meta(
            description="was on between the two; without it, CUDA copies through the host. null: one end is the host, "
            "or nothing was tried."
        ),
    ] = None


class GpuMatrixRow(Frozen, frozen=True, kw_only=True, tag_field="record", tag="gpu_matrix"):
    """One row of a matrix between GPUs: one GPU with each other one and within its own memory."""

    version: Version = RECORD_VERSION
    section: Annotated[str, Meta(description="which matrix.")]
    metric: Annotated[
        Literal["bandwidth", "completion", "issue", "enqueue", "store", "load"],
        Meta(
            description="what the seconds are of. `bandwidth`: a window of messages until all are complete; "
            "`completion`: a small copy until the host sees its end; `issue`: from one to the next of many that are "
            "enqueued; `enqueue`: the host's call; `store`: half a round trip of stores; `load`: one load that waits "
            "for the last."
        ),
    ]
    engine: Annotated[
        Literal["copy engine", "SM"], Meta(description="what moves the bytes; `SM`: a kernel's loads and stores.")
    ]
    operation: Annotated[Literal["write", "read"], Meta(description="what the row's GPU does; it drives.")]
    direction: Annotated[Literal["uni", "bi"], Meta(description="`bi`: both GPUs write at once, a window each.")]
    ends: Annotated[
        Literal["gpus", "host to gpu", "gpu to host"],
        Meta(description="with the host there is one row; its memory is pinned, and near the GPU."),
    ]
    peer_access: Annotated[bool, Meta(description="was switched on for all pairs that can.")]
    size_bytes: Positive
    window: Annotated[Positive, Meta(description="messages in flight before completion is awaited.")]
    gpu: Annotated[str | None, Meta(description="UUID of the first; null: the host.")]
    cells: list[GpuMatrixCell]

    @property
    def statuses(self) -> Iterator[Status]:
        return (cell.status for cell in self.cells)

    @property
    def moved_bytes(self) -> int | None:
        """Bytes that move in the time of a cell, each counted once; ``None``: it is the time of something else."""
        return (
            self.size_bytes * self.window * (2 if self.direction == "bi" else 1) if self.metric == "bandwidth" else None
        )

    @property
    def title(self) -> str:
        """The section in a few words: ``CE write both ways, peer access off``, ``SM load``."""
        if self.ends != "gpus":
            return self.ends.replace("gpu", "GPU")
        what = self.operation if self.metric == "bandwidth" else self.metric
        both = " both ways" if self.direction == "bi" else ""
        if self.engine == "SM":
            return f"SM {what}{both}"
        return f"CE {what}{both}, peer access {'on' if self.peer_access else 'off'}"


QUICK_POINT_TIME_S = 0.002
"""The longest time for a cell with ``--format cuda-samples``: the sample, too, is quick."""


def jobs(options: MatrixOptions, site: Site) -> Jobs:
    if not has_driver():
        raise MachineError(f"there is no NVIDIA driver here, and so no GPU to measure; {HINT}")
    quick = options.as_the_sample
    part = GpuMatrixPlan(
        sections=list(options.sections), gpus=list(options.job.gpus), quick=quick, samples=options.samples
    )
    plan = make_plan("gpu_matrix", part, options)
    if "point_time" not in options.sampling.given:
        sampling = msgspec.structs.replace(plan.sampling, point_time_s=GPUS_POINT_TIME_S)
        if quick:
            sampling = msgspec.structs.replace(sampling, point_time_s=QUICK_POINT_TIME_S, min_visits=1)
        plan = msgspec.structs.replace(plan, sampling=sampling)
    # NVML and CUDA block each other in the driver, so a quick report does without NVML's facts about the GPUs.
    return Jobs(launches(plan, options.job), hardware=not quick)


class GpuMatrixForecast(Forecast):
    """Counts rows: one for each GPU, but one alone in sections with the host."""

    def __init__(self, plan: Plan) -> None:
        self._sections: list[str] = plan.options.sections
        super().__init__(len(self._sections), plan.budget_s)

    def add(self, record: Any) -> str | None:
        """Learn the number of GPUs, or count a row and say: ``CE write, peer access on: 392 to 394 GB/s``."""
        if isinstance(record, GpuMatrixGpus):
            with_host = sum(name in WITH_HOST for name in self._sections)
            self.total = (len(self._sections) - with_host) * len(record.devices) + with_host
        if not isinstance(record, GpuMatrixRow):
            return None
        self.done += 1
        times_s = [cell.median_s for cell in record.cells]
        return row_in_short(record.title, times_s, list(record.statuses).count("failed"), record.moved_bytes)


def row_in_short(name: str, medians_s: Sequence[float | None], failed: int, moved_bytes: int | None) -> str:
    """Return the range of a row: ``host 8 B, rank 3 first: 0.31 to 0.35 µs``.

    Args:
        name: of the row.
        medians_s: of its pairs.
        failed: how many of them failed.
        moved_bytes: in the time of a cell; ``None``: the time itself is shown.
    """
    times = [time_s for time_s in medians_s if time_s is not None]
    if not times:
        return f"{name}: {'FAILED' if failed else 'skipped'}"
    numbers = [time_s * 1e6 if moved_bytes is None else moved_bytes / time_s / 1e9 for time_s in times]
    lost = f", {failed} FAILED" if failed else ""
    low, high = format_sig(min(numbers), 3), format_sig(max(numbers), 3)
    return f"{name}: {low if low == high else f'{low} to {high}'} {'µs' if moved_bytes is None else 'GB/s'}{lost}"
