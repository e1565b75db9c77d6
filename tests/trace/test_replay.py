"""``volley replay``: the recorded calls of a program come back, checked, on another run."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from recorded_program import volley
from volley.benchmarks.replay.program import _Places, build
from volley.errors import UserError
from volley.records.trace_calls import resolve
from volley.records.trace_file import read_trace


def test_the_program_of_a_replay_has_every_message_and_collective(known: Path) -> None:
    trace = read_trace(str(known))
    program = build(trace, resolve(trace))
    assert program.left_out == {}
    counted = trace.totals
    for name in (
        "Send",
        "Isend",
        "Irecv",
        "Waitall",
        "Recv",
        "Allreduce",
        "Sendrecv",
        "Alltoallv",
        "Barrier",
        "Startall",
    ):
        assert program.recorded[name][0] == counted[name].calls


def test_buffers_that_overlap_still_do() -> None:
    places = _Places([(1000, 100), (1050, 100), (5000, 10), (1000, 4)])
    assert places.of(1050) - places.of(1000) == 50
    assert places.of(5000) >= places.of(1149) + 1
    assert places.of(5000) + 10 <= places.bytes
    assert places.of(1000) % 64 == 1000 % 64


def test_a_trace_without_a_rank_is_refused(known: Path) -> None:
    trace = read_trace(str(known))
    trace.ranks.pop()
    with pytest.raises(UserError, match="lacks ranks"):
        build(trace, resolve(trace))


@pytest.mark.parametrize("gaps", [(), ("--gaps",)])
def test_a_replay_is_verified_and_has_a_time_for_every_call(known: Path, tmp_path: Path, gaps: tuple[str, ...]) -> None:
    records = tmp_path / "records.jsonl"
    code, out, err = volley(
        "replay", str(known), *gaps, "--time", "0.05", "--launches", "1", "-o", str(records), "--format", "json"
    )
    assert code == 0, err
    (series,) = json.loads(out)["series"]
    by_call = {row["call"]: row for row in series["data"]}
    assert {"MPI_Isend", "MPI_Waitall", "MPI_Allreduce", "all calls"} <= by_call.keys()
    assert all(row["time_s"] > 0 for row in by_call.values())
    shown = volley("show", str(records))[1]
    assert "messages were checked byte for byte" in shown
    assert re.search(r"recorded +replayed +range *\n", shown)
    assert f"is a trace of an application: write volley explain {known}" in volley("show", str(known))[2]


def test_a_cut_off_program_is_refused(known: Path, tmp_path: Path) -> None:
    """The engine does not trust the file."""
    copy = tmp_path / "t"
    copy.write_bytes(known.read_bytes())
    assert volley("replay", str(copy), "--dry-run")[0] == 0
    assert not Path(f"{copy}.replay").exists()
    assert np.fromfile(f"{known}.replay", np.int64)[0] == 4  # communicators
