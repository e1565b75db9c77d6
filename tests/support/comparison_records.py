"""Records files for tests of comparisons: launches of a ping-pong whose times are drawn."""

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

import example_records
from volley.records.records_file import encode_line
from volley.records.run_log import RunLog

SIZES = (8, 4096, 1 << 20)


def launches(
    seed: int,
    count: int = 6,
    *,
    names: Sequence[str] = ("host", "aware"),
    slower: Mapping[str, float] | None = None,
    noise: float = 0.003,
    **run: Any,
) -> list[RunLog]:
    """Launches of 1 µs at every size; ``slower`` has factors by transport."""
    draw = random.Random(seed)
    found = []
    for launch in range(count):
        points = [
            example_records.pingpong(
                [1e-6 * (slower or {}).get(name, 1.0) * math.exp(draw.gauss(0, noise))] * 6, size=size, name=name
            )
            for name in names
            for size in SIZES
        ]
        log = example_records.log(*points, transports=[example_records.transport(name) for name in names])
        log.run = example_records.run(**{"started_at": f"2026-01-02T03:{seed:02d}:{launch:02d}Z", **run})
        found.append(log)
    return found


def write(path: Path, logs: Sequence[RunLog]) -> Path:
    """Write the launches into a file as volley does."""
    records = [each for log in logs for each in (log.run, *log.transports, *log.records, log.end)]
    path.write_bytes(b"".join(encode_line(each) for each in records if each is not None))
    return path


def in_turn(logs: Sequence[RunLog]) -> list[RunLog]:
    """The launches with the marks of ``compare --live``: those of two sides that have the same marks are pairs."""
    found = []
    for number, each in enumerate(logs):
        launch = {**each.run.plan.launch, "live": {"of": "these", "round": number}}
        marked = msgspec.structs.replace(each.run, plan=msgspec.structs.replace(each.run.plan, launch=launch))
        found.append(replace(each, run=marked))
    return found
