"""The points of a curve: a message size on one transport between two ranks."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from volley.document import RECORD_VERSION, Frozen, NonNegative, Positive, PositiveSeconds, Seconds, Version


class Mismatch(Frozen, frozen=True, kw_only=True):
    """The first wrong byte that verification found."""

    rank: Annotated[NonNegative, Meta(description="the rank whose receive buffer is wrong.")]
    offset_bytes: Annotated[int, Meta(description="from the start of the message; negative or ≥ size: a guard byte.")]
    expected: Annotated[NonNegative, Meta(le=255)]
    found: Annotated[NonNegative, Meta(le=255)]
    wrong_bytes: Annotated[Positive, Meta(description="how many bytes are wrong in all.")]


Status = Literal["ok", "failed", "skipped"]
EndedBy = Literal["interval", "time", "few", "fixed", "failure"]


class PingPong(Frozen, frozen=True, kw_only=True, tag_field="record", tag="pingpong"):
    """One point of a ping-pong: a message size on one transport between two ranks."""

    version: Version = RECORD_VERSION
    transport: str
    ranks: Annotated[
        list[NonNegative], Meta(min_length=2, max_length=2, description="world ranks of the pair: first, second.")
    ]
    size_bytes: Positive
    status: Annotated[
        Status, Meta(description="`failed`: a checked message was wrong; `skipped`: not measured; both say the reason.")
    ]
    reason: Annotated[str | None, Meta(description="why it failed or was skipped.")] = None
    half_round_trip_s: Annotated[
        list[PositiveSeconds], Meta(description="one entry a sample: elapsed / (2 · exchanges_per_sample).")
    ] = []
    exchanges_per_sample: Annotated[NonNegative, Meta(description="k: round trips in one timed batch.")] = 0
    empty_sample_s: Annotated[
        Seconds | None, Meta(description="median length of a sample with k = 0: clock and call overhead.")
    ] = None
    cold_half_round_trip_s: Annotated[
        Seconds | None, Meta(description="the first exchange of fresh buffers; null where they were used before.")
    ] = None
    ended_by: Annotated[
        EndedBy | None,
        Meta(
            description="`interval` reached; `time` up; `few`: six samples of an exchange over 50 ms; "
            "`fixed` number asked for; `failure`."
        ),
    ] = None
    messages_timed: Annotated[NonNegative, Meta(description="messages inside timed batches, both directions.")] = 0
    messages_verified: Annotated[
        NonNegative, Meta(description="messages compared byte for byte: the last of every sample in each direction.")
    ] = 0
    mismatch: Mismatch | None = None
    elapsed_s: Annotated[Seconds, Meta(description="wall time of the whole point, untimed parts included.")] = 0.0


class StreamPoint(Frozen, frozen=True, kw_only=True, tag_field="record", tag="stream"):
    """One point of a windowed stream: a message size on one transport between two ranks."""

    version: Version = RECORD_VERSION
    transport: str
    ranks: Annotated[
        list[NonNegative], Meta(min_length=2, max_length=2, description="world ranks of the pair: first, second.")
    ]
    direction: Literal["uni", "bi"]
    window: Positive
    size_bytes: Positive
    status: Annotated[
        Status, Meta(description="`failed`: a checked message was wrong; `skipped`: not measured; both say the reason.")
    ]
    reason: Annotated[str | None, Meta(description="why it failed or was skipped.")] = None
    forward_s: Annotated[
        list[PositiveSeconds],
        Meta(
            description="one entry a sample: seconds for one window from the first to the second rank, acknowledgement "
            "included; `uni` is timed by the sender, `bi` by the receiver."
        ),
    ] = []
    backward_s: Annotated[
        list[PositiveSeconds], Meta(description="`bi` only: the same from the second to the first rank.")
    ] = []
    windows_per_sample: Annotated[NonNegative, Meta(description="k: windows in one timed batch.")] = 0
    empty_sample_s: Seconds | None = None
    cold_window_s: Annotated[
        Seconds | None, Meta(description="the first window of fresh buffers; null where they were used before.")
    ] = None
    ended_by: EndedBy | None = None
    messages_timed: Annotated[NonNegative, Meta(description="messages inside timed batches, both directions.")] = 0
    messages_verified: Annotated[
        NonNegative, Meta(description="messages compared byte for byte: the last of every sample in each direction.")
    ] = 0
    mismatch: Mismatch | None = None
    elapsed_s: Seconds = 0.0
