"""What tests of message rate and others share."""

from collections.abc import Sequence

from example_records import log, plan
from volley.benchmarks.message_rate.results import MessageRatePlan, MessageRatePoint
from volley.records.run_log import RunLog

PLAN = plan("message_rate", world_size=8, options=MessageRatePlan(sizes_bytes=[8], pairs=[1, 2, 4], window=100))


def point(pairs: int, window_s: Sequence[float], size: int = 8, **changes: object) -> MessageRatePoint:
    facts: dict[str, object] = {
        "transport": "host",
        "ranks": list(range(2 * pairs)),
        "status": "ok",
        "window": 100,
        "windows_per_sample": 10,
        "ended_by": "ci",
        "messages_timed": 100,
        "messages_verified": 10,
    }
    return MessageRatePoint(pairs=pairs, size_bytes=size, times_s=list(window_s), **{**facts, **changes})


def launches(times: dict[int, float]) -> list[RunLog]:
    """Six launches that differ by up to 1 %; ``times`` has the time of a window by number of pairs."""
    return [
        log(*(point(pairs, [time_s * (1 + launch / 500)] * 6) for pairs, time_s in times.items()), the_plan=PLAN)
        for launch in range(6)
    ]
