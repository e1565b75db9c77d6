"""Copies between host and GPU memory, and the calls for which they were made."""

import json
import subprocess
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

import example_records
from recorded_program import SCRIPTS, mpirun, replayed_sides, volley
from volley.benchmarks.replay.program import build
from volley.benchmarks.replay.results import RecordedCalls, ReplayPlan, ReplayPoint
from volley.launch.engine_path import engine_path
from volley.records.records_file import encode_line
from volley.records.trace_calls import resolve
from volley.records.trace_copies import _seconds, copies_of
from volley.records.trace_file import ASYNCHRONOUS, COPY, read_trace
from volley.trace.explain import explanation

SOURCE = Path(__file__).with_name("copies.c")
ROUNDS = 10


@pytest.fixture(scope="module")
def staged(program: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The trace of two ranks that copy before and after each MPI_Sendrecv; CUPTI is a library that plays it."""
    folder = tmp_path_factory.mktemp("copies")
    cupti = ["cc", "-DCUPTI", "-shared", "-fPIC", SOURCE, "-o", folder / "libcupti.so"]
    subprocess.run(cupti, check=True)
    subprocess.run([SCRIPTS / "mpicc", SOURCE, "-o", folder / "copies", "-ldl"], check=True)
    recorder = Path(engine_path()).with_name("libvolley-trace.so")
    variables = {"CUDA_INJECTION64_PATH": str(recorder), "VOLLEY_TRACE_CUPTI": str(folder / "libcupti.so")}
    code, _, err = volley(
        "record", "-o", str(folder / "copies.trace"), "--", *mpirun(2, folder / "copies"), env=variables
    )
    assert code == 0, err
    return folder / "copies.trace"


def test_each_copy_belongs_to_the_call_that_sent_or_received_it(staged: Path) -> None:
    code, out, err = volley("explain", str(staged), "--format", "json")
    assert code == 0, err
    copies = json.loads(out)["copies"]
    found = {(row["rank"], row["from"], row["for"], row["copies"], row["mean size"]) for row in copies}
    assert found == {
        (rank, place, call, ROUNDS, size)
        for rank in (0, 1)
        for place, call, size in (
            ("GPU", "MPI_Sendrecv", 4096),
            ("host", "MPI_Sendrecv", 4096),
            ("GPU", "MPI_Allreduce", 8),
            ("host", None, 8),
        )
    }


def test_copies_of_a_gpu_are_told_by_cupti_and_wait_for_its_kernels() -> None:
    """A real trace: two ranks on one H200, 500 times each copies 128 KiB behind a memset of 256 MiB, sends, and copies
    back.  The program itself measured 188 to 209 µs a copy, and 17 to 29 µs after a CUDA synchronisation."""
    trace = read_trace(str(SOURCE.with_name("two-ranks-one-gpu.trace")))
    calls = resolve(trace)
    copies = copies_of(trace, calls)
    assert {(each.rank, each.to_host, each.call, each.number) for each in copies} == {
        (rank, to_host, "Sendrecv", 500) for rank in (0, 1) for to_host in (True, False)
    }
    assert all(15e-6 < each.seconds / each.number < 30e-6 for each in copies)
    assert sum(map(bool, _bytes_on_gpu(build(trace, calls, "aware").words))) == 1000


def test_ranks_that_share_a_gpu_are_named() -> None:
    trace = read_trace(str(SOURCE.with_name("two-ranks-one-gpu.trace")))
    for gpus, shared in (((7, 7), True), ((7, 8), False), ((0, 0), False)):  # 0: unknown
        for rank, gpu in zip(trace.ranks, gpus, strict=True):
            rank.header["gpu"] = gpu
        said = "\n".join(note.text for note in explanation(trace, resolve(trace)).notes)
        assert ("ranks 0 and 1 use the same GPU" in said) == shared


def test_a_cuda_aware_replay_has_in_gpu_memory_what_was_copied_but_sums(staged: Path) -> None:
    trace = read_trace(str(staged))
    calls = resolve(trace)
    sides = {
        where: sum(step == [4096, 4096] for step in _bytes_on_gpu(build(trace, calls, where).words))
        for where in ("recorded", "aware", "host")
    }
    assert sides == {"recorded": 0, "aware": 2 * ROUNDS, "host": 0}
    assert sum(map(bool, _bytes_on_gpu(build(trace, calls, "aware").words))) == 2 * ROUNDS


def test_explain_has_beside_the_copies_what_the_newest_replay_from_gpu_memory_took(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    trace = read_trace(str(SOURCE.with_name("two-ranks-one-gpu.trace")))

    def explained() -> tuple[Any, str]:
        report = explanation(trace, resolve(trace))
        ((row,),) = (table.rows for table in report.tables if table.title == "With a CUDA-aware MPI")
        (note,) = (note for note in report.notes if "of all time copies messages" in note.text)
        return row[-1], f"{note.verdict}: {note.text}"

    assert explained()[0] is None
    (tmp_path / "volley").mkdir()
    ours = RecordedCalls(calls=[1000], median_s=[1e-6], memory="aware", application=trace.info.application)
    changes = ({}, {"memory": "host"}, {"application": "another one"})
    plans = [
        ReplayPlan(program=["p"], names=["Sendrecv"], gaps=True, recorded=replace(ours, **each)) for each in changes
    ]
    for number, part in enumerate([*plans, replace(plans[0], gaps=False)]):
        plan = example_records.plan("replay", options=part)
        run = example_records.run(plan, started_at=f"2026-01-02T03:0{number}:00Z")
        point = ReplayPoint(status="ok", pass_s=[1e-3], call_s=[(10 + number) * 1e-6])
        saved = tmp_path / f"volley/{number}-replay.jsonl"
        saved.write_bytes(encode_line(run) + encode_line(point))
    time_us, said = explained()
    assert time_us == pytest.approx(10)
    assert said.startswith("SLOW: ")
    assert "the call takes 10.0 µs" in said
    assert "it took 1.00 µs, both with what they waited" in said


def _bytes_on_gpu(words: list[int]) -> list[list[int]]:
    """Of each step of two ranks the bytes of its buffers in GPU memory."""
    steps = chain.from_iterable(replayed_sides(words, ranks=2))
    return [[words[side + 2] for side in sides if words[side + 6]] for sides in steps]


def test_the_wait_for_earlier_work_is_no_part_of_a_copy() -> None:
    """The second copy waits 2 ms for a kernel; the third one is asynchronous; the fourth ends before the GPU begins; of
    the last two the work is unknown."""
    made = np.zeros(6, COPY)
    made["flags"][2] = ASYNCHRONOUS
    begin_s = np.arange(6.0)
    end_s = begin_s + np.array([20e-6, 2020e-6, 4e-6, 6e-6, 9e-6, 900e-6])
    gpu_begin_s = begin_s + np.array([8e-6, 2008e-6, 300e-6, 9e-6, np.nan, np.nan])
    gpu_s = np.array([5e-6, 5e-6, 7e-6, 1e-6, np.nan, np.nan])
    seconds = _seconds(made, np.ones(6), begin_s, end_s, gpu_begin_s=gpu_begin_s, gpu_s=gpu_s)
    assert seconds == pytest.approx([20e-6, 20e-6, 7e-6, 6e-6, 9e-6, 9e-6])
