"""Records of a node's matrices: every pair of the GPUs that one process has."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from volley.document import RECORD_VERSION, Frozen, NonNegative, Positive, PositiveSeconds, Seconds, Version
from volley.records.points import EndedBy, Status
from volley.records.run import Device


class NodeGpus(Frozen, frozen=True, kw_only=True, tag_field="record", tag="node"):
    """The GPUs of a node's matrices, and which of them can be let at each other's memory."""

    version: Version = RECORD_VERSION
    devices: Annotated[list[Device], Meta(description="in CUDA's order.")]
    can_access: Annotated[
        list[list[bool]], Meta(description="cudaDeviceCanAccessPeer: row of the reading GPU, column of the one read.")
    ] = []
    reason: Annotated[str | None, Meta(description="why there is none.")] = None


class NodeCell(Frozen, frozen=True, kw_only=True):
    """One pair of GPUs in a node's matrix, or one GPU and the host."""

    gpu: Annotated[str, Meta(description="UUID of the second.")]
    peer_access: Annotated[
        bool | None,
        Meta(
            description="was on between the two; without it, CUDA copies through the host. null: one end is the host, "
            "or nothing was tried."
        ),
    ] = None
    status: Annotated[
        Status, Meta(description="`failed`: the data was wrong, or nothing moved any more; `skipped`: not measured.")
    ]
    reason: str | None = None
    median_s: Annotated[
        PositiveSeconds | None,
        Meta(description="what the row's figure says; null where the cell failed or was skipped."),
    ] = None
    low_s: Annotated[
        PositiveSeconds | None,
        Meta(description="lower end of the median's 95 % interval; null with fewer than six samples."),
    ] = None
    high_s: PositiveSeconds | None = None
    samples: NonNegative = 0
    samples_s: Annotated[list[PositiveSeconds], Meta(description="all of them, where the plan asks for samples.")] = []
    count_per_sample: Annotated[NonNegative, Meta(description="k: windows, copies or passes in one timed batch.")] = 0
    ended_by: EndedBy | None = None
    messages_timed: NonNegative = 0
    messages_verified: NonNegative = 0
    elapsed_s: Seconds = 0.0


class NodeRow(Frozen, frozen=True, kw_only=True, tag_field="record", tag="node_row"):
    """One row of a node's matrix: what one GPU reaches with each other one and within its own memory."""

    version: Version = RECORD_VERSION
    section: Annotated[str, Meta(description="which matrix.")]
    figure: Annotated[
        Literal["bandwidth", "completion", "issue", "enqueue", "store", "load"],
        Meta(
            description="what the seconds are of. `bandwidth`: a window of messages until all are complete; "
            "`completion`: a small copy until the host sees its end; `issue`: from one to the next of many that are "
            "enqueued; `enqueue`: the host's call; `store`: half a round trip of stores; `load`: one load that waits "
            "for the last."
        ),
    ]
    mover: Literal["copy engine", "kernel"]
    way: Annotated[Literal["write", "read"], Meta(description="what the row's GPU does, which drives.")]
    direction: Annotated[Literal["uni", "bi"], Meta(description="`bi`: both GPUs write at once, a window each.")]
    ends: Annotated[
        Literal["gpus", "host to gpu", "gpu to host"],
        Meta(description="with the host there is one row; its memory is pinned, and near the GPU."),
    ]
    peer_access: Annotated[bool, Meta(description="was switched on for all pairs that can.")]
    size_bytes: Positive
    window: Annotated[Positive, Meta(description="messages under way before completion is awaited.")]
    gpu: Annotated[str | None, Meta(description="UUID of the first; null: the host.")]
    cells: list[NodeCell]
