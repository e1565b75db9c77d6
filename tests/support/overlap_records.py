"""What tests of overlap and others share."""

from example_records import golden
from volley.benchmarks.overlap.results import OverlapPoint


def point(exchange: float, alone: float, both: float, **changes: object) -> OverlapPoint:
    """One point; each time stands for seven samples."""
    facts = {
        "transport": "host",
        "ranks": [0, 1],
        "size_bytes": 1 << 20,
        "status": "ok",
        "computation": "memory",
        "exchange_s": [exchange] * 7,
        "computation_s": [alone] * 7,
        "both_s": [both] * 7,
        "exchange_alone_s": [exchange] * 7,
        "computation_alone_s": [alone] * 7,
        "exchange_beside_s": [both] * 7,
        "computation_beside_s": [alone] * 7,
        "messages_verified": 14,
    }
    return OverlapPoint(**{**facts, **changes})


RUN = golden("overlap")[0].run
