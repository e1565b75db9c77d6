"""Every fault that the engine can give to a transport, with every transport: found, or docs/method says why not."""

import re
from pathlib import Path

from the_command import DATA_FAULTS, Command
from volley.benchmarks.points.records import PointRecord
from volley.launch.engine import ask_about
from volley.machine.transports import TRANSPORTS, have_threads

FOUND_BY = {
    **dict.fromkeys(DATA_FAULTS, "data"),
    "wrap": "data",
    "hang": "watchdog",
    "unopened": "reason",
    "delay": "[matrix](rank-matrix.md)",
    "nan": "[Jacobi](jacobi.md)",
    "signal": "sometimes",
}
"""What tells of each fault, in the order of the table in docs/method/verification.md."""
ONLY = {8: ("host/get/fetch-and-op", "host/get/compare-and-swap"), 100032: ("host/vector",)}
"""Transports that carry one of the two sizes: at most 8 bytes, and multiples of 64."""
HOST = tuple(name for name in TRANSPORTS if name.partition("/")[0] == "host" and not have_threads([name]))
"""Threads may lack cores: test_threads.py."""
METHOD = Path(__file__).parents[2] / "docs/method/verification.md"


def test_every_fault_and_every_broken_transport_in_host_memory_is_found(volley: Command) -> None:
    """Every fault of every transport, in every way of measuring: engine/tests/mpi_transports.cpp."""
    names = [
        *(f"host+{fault}" for fault in DATA_FAULTS),
        *(f"{name}+{DATA_FAULTS[0]}" for name in HOST if name != "host"),
    ]
    empty = [f"null+{fault}" for fault in DATA_FAULTS]  # transports nothing that could be wrong
    few = ("--sizes", ",".join(map(str, ONLY)), "--iterations", "5", "--launches", "1")
    done = volley("pingpong", "--transport", ",".join(names + empty), *few)
    (log,) = done.records
    assert done.code == 1
    expected = dict.fromkeys(names, "failed") | dict.fromkeys(empty, "ok")
    assert {(point.transport, point.size_bytes, point.status) for point in log.of(PointRecord)} == {
        (name, size, "skipped" if any(name.startswith(ONLY[other]) for other in ONLY if other != size) else status)
        for name, status in expected.items()
        for size in ONLY
    }
    swapped = next(point for point in log.of(PointRecord) if (point.transport, point.size_bytes) == ("host+swap", 8))
    assert re.search(r" differs from what was sent in 16 bytes of \d+ messages, first at offset 0$", swapped.reason)


def test_the_published_tables_are_about_the_faults_and_transports_of_the_engine(engine: Path) -> None:
    with ask_about(engine) as answer:
        about = answer()
    text = METHOD.read_text(encoding="utf-8")
    assert {each.name for each in about.faults} == set(FOUND_BY)
    for each in about.faults:
        assert f"| `{each.name}` | {each.summary.replace('5 us', '5 µs')} | {FOUND_BY[each.name]} |" in text
    for each in about.transports:
        found = "–" if each.memory == "none" else "✓"
        assert f"| `{each.name}` | {' | '.join([found] * len(DATA_FAULTS))} |" in text
