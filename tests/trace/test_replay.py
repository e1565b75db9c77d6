"""``volley replay``: the recorded calls of a program come back, checked, on another run."""

import json
import os
import random
import re
import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Literal

import msgspec
import numpy as np
import pytest

import example_records
from recorded_program import mpirun, replayed_sides, volley
from the_command import engine_words, finish_with
from volley.benchmarks.replay import BENCHMARK, ReplayOptions
from volley.benchmarks.replay.program import _Places, build
from volley.benchmarks.replay.results import (
    RecordedCalls,
    ReplayPlan,
    ReplayPoint,
    ReplayResult,
    jobs,
    report,
    results,
)
from volley.command.options import JobOptions
from volley.compare import finding
from volley.compare.comparison import Side, compare
from volley.errors import MachineError, UserError
from volley.launch.engine import About
from volley.launch.inside_launcher import RankInfo
from volley.records.record_types import Mismatch
from volley.records.run_log import RunLog
from volley.records.trace_calls import resolve
from volley.records.trace_file import Trace, read_trace, write_trace
from volley.report.model import Cell
from volley.run.jobs import JobContext
from volley.run.launches import LaunchCount
from volley.run.progress import Progress


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


def test_a_pass_took_in_the_application_what_the_slowest_rank_needed_for_the_calls_that_are_replayed() -> None:
    trace = read_trace(str(Path(__file__).with_name("two-ranks.trace")))
    assert build(trace, resolve(trace)).span_s == pytest.approx(0.004)  # MPI_Finalize ended after 0.012 s


def test_a_replay_has_small_tags_on_every_mpi(known: Path) -> None:
    trace = read_trace(str(known))
    for rank in trace.ranks:
        rank.events["tag"][rank.events["tag"] == 7] = 2**31 - 1  # MPI_TAG_UB of Open MPI
    program = build(trace, resolve(trace))
    steps = replayed_sides(program.words, ranks=2)
    tags = {program.words[side + 1] for side in chain.from_iterable(chain.from_iterable(steps))}
    assert tags == set(range(5))  # of 7, 1, 2, 3 and 9
    assert program.left_out == {}


def test_buffers_that_overlap_still_do() -> None:
    places = _Places([(1000, 100), (1050, 100), (5000, 10), (1000, 4)])
    assert places.of(1050) - places.of(1000) == 50
    assert places.of(5000) >= places.of(1149) + 1
    assert places.of(5000) + 10 <= places.bytes
    assert places.of(1000) % 64 == 1000 % 64


def test_messages_in_flight_that_would_overlap_have_places_of_their_own_and_are_checked(known: Path) -> None:
    """As columns of an array do, whose gaps a replay leaves out."""
    checked = []
    for overlap in (False, True):
        trace = read_trace(str(known))
        for rank in trace.ranks if overlap else ():
            rank.events["buffer"] = 4096
            rank.events["buffer2"][rank.events["call"] == rank.names.index("Sendrecv")] = 4100
        words = build(trace, resolve(trace)).words
        steps = list(chain.from_iterable(replayed_sides(words, ranks=2)))
        checked.append(sum(words[side + 4] > 0 for side in chain.from_iterable(steps)))
        for sides in (sides for sides in steps if len(sides) == 2):  # of MPI_Sendrecv: bytes and places
            (sent, here), (received, there) = (words[side + 2 : side + 4] for side in sides)
            assert here + sent <= there or there + received <= here
    assert checked[0] == checked[1] > 0


def test_a_trace_without_a_rank_is_refused(known: Path) -> None:
    trace = read_trace(str(known))
    trace.ranks.pop()
    with pytest.raises(UserError, match="cannot be replayed: it lacks ranks"):
        build(trace, resolve(trace))


def test_shares_of_what_is_left_out_are_of_the_calls_that_returned(known: Path) -> None:
    """The last collective of one rank is not in the trace, and the application was stopped an hour later."""
    trace = read_trace(str(known))
    last = trace.ranks[0].names.index("Barrier")
    for number, rank in enumerate(trace.ranks):
        (at, *_) = np.flatnonzero(rank.events["call"] == last)
        rank.events = rank.events[: at + 1 - number].copy()
        rank.events["end"][-1] = 0
    trace.info = msgspec.structs.replace(trace.info, ended_s=3600.0)
    assert sum(build(trace, resolve(trace)).left_out.values()) <= 1


@pytest.mark.parametrize("gaps", [False, True])
def test_a_pass_is_judged_and_with_gaps_its_calls_too_and_beside_it_is_what_the_application_took(gaps: bool) -> None:
    recorded = RecordedCalls(calls=[4], median_s=[1e-6], pass_s=0.75)
    part = ReplayPlan(program=["p"], names=["Send"], recorded=recorded, gaps=gaps)
    plan = example_records.plan("replay", options=part)
    runs = [example_records.run(plan, started_at=f"2026-01-02T03:0{number}:00Z") for number in range(3)]
    points = [ReplayPoint(status="ok", pass_s=[1e6 * time_s], call_s=[time_s]) for time_s in (1e-6, 2e-6, 3e-6)]
    logs = [RunLog(run=run, records=[point]) for run, point in zip(runs, points, strict=True)]
    (result,) = results(logs)
    (said,) = (note.text for note in report(result).notes if note.verdict == "NOISY")
    assert said.startswith("one pass and MPI_Send vary by" if gaps else "one pass varies by")
    assert [each.recorded_s for each in result.calls] == [0.75 if gaps else None, 1e-6]


@pytest.mark.parametrize("cuda", [None, "13.0"])
def test_a_replay_in_gpu_memory_is_refused_before_a_launch_where_there_is_no_gpu(
    known: Path, tmp_path: Path, cuda: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("volley.run.jobs.gpu_count", lambda: 0)
    copy = tmp_path / "t"
    copy.write_bytes(known.read_bytes())
    options = ReplayOptions(trace=(str(copy),), memory="device")
    with pytest.raises(MachineError, match="built without CUDA" if cuda is None else "no NVIDIA GPU"):
        jobs(options, JobContext(About(cuda_built=cuda)))
    assert list(tmp_path.iterdir()) == [copy]
    for memory, dry_run, elsewhere in (("host", False, False), ("device", True, False), ("device", False, True)):
        these = replace(options, memory=memory, job=JobOptions(dry_run=dry_run))
        assert jobs(these, JobContext(About(cuda_built=cuda), on_this_host=not elsewhere)).planned


def test_the_calls_go_where_this_user_may_write(known: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    trace = tmp_path / "t"
    trace.write_bytes(known.read_bytes())
    closed = {tmp_path}
    monkeypatch.setattr(os, "access", lambda path, _: path not in closed)
    options = ReplayOptions(trace=(str(trace),))
    (job,) = jobs(options, JobContext(About())).planned
    (path,) = job.plan.options.program
    assert Path(path).parent == tmp_path / "volley"
    assert Path(path).read_bytes()
    assert not Path(f"{trace}.replay").exists()
    closed.remove(tmp_path)
    odd = tmp_path / "t\udcff"  # no plan can name it
    odd.write_bytes(known.read_bytes())
    (job,) = jobs(ReplayOptions(trace=(str(odd),)), JobContext(About())).planned
    assert Path(*job.plan.options.program).name.endswith("-t\\udcff.replay")
    closed |= {tmp_path, tmp_path / "volley", Path(path)}
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    (job,) = jobs(options, JobContext(About())).planned
    assert Path(*job.plan.options.program).parent.parent == tmp_path
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "none"))
    with pytest.raises(UserError, match=r"can be written: copy the trace to another folder$"):
        jobs(options, JobContext(About()))


def test_a_launcher_around_a_replay_starts_one_launch(known: Path) -> None:
    ranks = read_trace(str(known)).size
    inside = JobContext(About(), position=RankInfo(0, ranks, "openmpi"))
    assert [jobs(ReplayOptions(trace=(str(known),)), each).times for each in (JobContext(About()), inside)] == [6, 1]


@pytest.mark.parametrize("gaps", [(), ("--gaps",)])
def test_a_replay_is_verified_and_has_a_time_for_every_call(known: Path, tmp_path: Path, gaps: tuple[str, ...]) -> None:
    records = tmp_path / "records.jsonl"
    code, out, err = volley(
        "replay", str(known), *gaps, "--time", "0.05", "--launches", "1", "-o", str(records), "--format", "json"
    )
    assert code == 0, err
    (series,) = json.loads(out)["series"]
    by_call = {row["call"]: row for row in series["data"]}
    assert {"MPI_Isend", "MPI_Waitall", "MPI_Allreduce", "one pass"} <= by_call.keys()
    assert all(row["time_s"] > 0 for row in by_call.values())
    shown = volley("show", str(records))[1]
    assert "messages and results of collectives were checked byte for byte" in shown
    assert re.search(r"recorded +replayed +range *\n", shown)
    assert f"is a trace of an application: write volley explain {known}" in volley("show", str(known))[2]


def test_replays_are_compared_in_sentences_about_the_replay_and_its_calls() -> None:
    def launches(time_s: float, memory: Literal["recorded", "host"] = "recorded") -> Side:
        recorded = RecordedCalls(calls=[4, 4], median_s=[time_s, time_s], memory=memory)
        plan = example_records.plan(
            "replay", options=ReplayPlan(program=[f"{time_s}.replay"], names=["Send", "Recv"], recorded=recorded)
        )
        logs = []
        for number in range(6):
            point = ReplayPoint(status="ok", pass_s=[8 * time_s], call_s=[time_s, 1e-6])
            run = example_records.run(plan, started_at=f"2026-01-02T03:0{number}:00Z")
            logs.append(RunLog(run=run, records=[point]))
        return Side.of("x", logs)

    comparison = compare(launches(2e-6), launches(1e-6), within=0.05)
    assert finding.headline(comparison) == "CHANGED: replay is 2.00 × faster and MPI_Send is 2.00 × faster"
    assert finding.point_words(comparison, 0).startswith("replay takes 0.500 times as long")
    elsewhere = compare(launches(2e-6), launches(1e-6, "host"), within=0.05)
    assert finding.headline(elsewhere).startswith("TWO WAYS (memory): replay is 2.00 × faster")


def test_a_replay_with_another_mpi_than_that_of_the_application_says_so_with_the_remedy(tmp_path: Path) -> None:
    ours, link, theirs = (tmp_path / name for name in ("libmpi.so.40", "link.so", "their libmpi.so.40"))
    ours.touch()
    theirs.touch()
    link.symlink_to(ours)

    def said(recorded: Path | str, replayed: Path | str) -> list[str]:
        options = ReplayPlan(
            program=["p"],
            names=["Send"],
            recorded=RecordedCalls(calls=[1], median_s=[1e-6], library=str(recorded)),
        )
        launch = {"stack": {"mpi_library": str(replayed)}}
        plan = example_records.plan("replay", options=options, launch=launch)
        log = RunLog(run=example_records.run(plan), records=[ReplayPoint(status="ok", pass_s=[1e-6], call_s=[1e-6])])
        return [note.text for result in results([log]) for note in report(result).notes if "two MPIs" in note.text]

    assert said(ours, link) == []
    (text,) = said(theirs, ours)
    assert f"--mpi '{theirs}'" in text
    elsewhere = "/elsewhere/lib"
    assert said(f"{elsewhere}/libmpi.so.40", ours) == []
    assert said(f"{elsewhere}/libmpi.so.12", ours) != []


def test_a_replay_with_wrong_data_has_no_numbers_and_says_what_was_wrong() -> None:
    point = ReplayPoint(status="ok", pass_s=[1e-6], call_s=[1e-6, 1e-6], checked=4)
    reason = "what rank 1 received in MPI_Recv differs from what must arrive in 1 byte, first at offset 2"
    mismatch = Mismatch(rank=1, offset_bytes=2, expected=7, found=8, wrong_bytes=1)
    wrong = msgspec.structs.replace(point, status="failed", wrong=1, reason=reason, mismatch=mismatch)
    made = report(_replayed([point, wrong]))
    (said,) = (note.text for note in made.notes if note.text.startswith("FAILED"))
    assert said == f"FAILED: 1 of 8 checked messages and results were wrong; {reason} (0x08 instead of 0x07)"
    bad, good = ("failed", False, None), ("ok", True, 1e-6)
    for failed_calls, of_barrier in ((["Recv"], good), ([], bad)):  # an earlier volley did not say which calls failed
        made = report(_replayed([point, msgspec.structs.replace(wrong, failed_calls=failed_calls)]))
        shown = [cell.text for cell in chain.from_iterable(made.tables[0].rows) if isinstance(cell, Cell)]
        rows = [(row["status"], row["verified"], row["time_s"]) for row in made.data.rows]
        assert rows == [bad, bad, of_barrier]  # of a pass, MPI_Recv and MPI_Barrier
        assert shown.count("FAILED") == rows.count(bad)


def test_a_replay_says_what_was_not_checked_and_why() -> None:
    def said(checked: int, **unchecked: int) -> list[str]:
        point = ReplayPoint(status="ok", pass_s=[1e-6], call_s=[1e-6, 1e-6], checked=checked)
        made = report(_replayed([point, point], unchecked))
        assert [row["unchecked"] for row in made.data.rows] == [unchecked] * 3
        return [note.text for note in made.notes if "byte" in note.text]

    assert said(0) == ["nothing was checked byte for byte: no call that is replayed brings data"]
    assert said(0, sends=3) == ["not checked byte for byte: 6 sends"]
    assert [text.split(" ", 1)[0] for text in said(2, sends=3)] == ["4", "not"]


def _replayed(points: list[ReplayPoint], unchecked: dict[str, int] | None = None) -> ReplayResult:
    recorded = RecordedCalls(calls=[4, 2], median_s=[1e-6, 1e-6], unchecked=unchecked or {})
    options = ReplayPlan(program=["p"], names=["Recv", "Barrier"], recorded=recorded)
    plan = example_records.plan("replay", options=options)
    runs = [example_records.run(plan, started_at=f"2026-01-02T03:0{number}:00Z") for number in range(len(points))]
    (result,) = results([RunLog(run=run, records=[point]) for run, point in zip(runs, points, strict=True)])
    return result


def test_a_launch_of_a_replay_says_that_it_is_done(capsys: pytest.CaptureFixture[str]) -> None:
    progress = Progress(launches=LaunchCount(2, 2), begun=time.monotonic() - 3600)
    progress.begin(BENCHMARK.forecast(example_records.plan("replay")), 2)
    progress._lined -= 3600
    progress.on_record(ReplayPoint(status="ok", pass_s=[0.25, 0.5, 1.0], call_s=[]))
    assert re.fullmatch(r"volley: launch 1 of 2: one pass: 500 ms \(50 %, about .* left\)\n", capsys.readouterr().err)


@pytest.fixture(scope="session")
def mixed(program: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Traces of three ranks whose calls are of all kinds."""
    traces = [tmp_path_factory.mktemp("mixed") / f"{seed}.trace" for seed in range(3)]
    for seed, trace in enumerate(traces):
        code, _, err = volley("record", "-o", str(trace), "--", *mpirun(3, program, "mixed", str(seed)))
        assert code == 0, err
    return traces


SHORT = ("--time", "0.01", "--launches", "1", "--watchdog", "10", "--format", "csv")


@pytest.mark.slow
def test_calls_of_all_kinds_are_replayed_but_what_is_said(mixed: list[Path]) -> None:
    replayed: set[str] = set()
    for path in mixed:
        trace = read_trace(str(path))
        program = build(trace, resolve(trace))
        assert program.left_out.keys() <= {
            "MPI_Exscan",
            "MPI_Mprobe",
            "MPI_Neighbor_allgather",
            "MPI_Probe",
            "MPI_Wait",
        }
        assert program.unchecked.keys() == {"buffered sends", "collectives in flight together"}
        replayed |= {*program.names}
        code, _, err = volley("replay", str(path), *SHORT)
        assert code == 0, err
    assert {"Ibarrier", "Ibcast", "Ialltoall", "Iallreduce", "Iallgatherv", "Gatherv", "Scatterv", "Scan"} <= replayed


@pytest.mark.long
def test_wrong_data_of_every_kind_of_call_is_found(mixed: list[Path], tmp_path: Path, engine: Path) -> None:
    """Rank 1 takes other contents than the other ranks for all calls of one name."""
    copy = tmp_path / "t"
    copy.write_bytes(mixed[0].read_bytes())
    program = build(read_trace(str(copy)), resolve(read_trace(str(copy))))
    plan = volley("replay", str(copy), *SHORT[:4], "--dry-run")[1]
    found: set[str] = set()
    for changed in ("", *program.names):
        words = [*program.words]
        its = [at for at, name in _seeds_of(words, rank=1) if program.names[name] == changed and words[at]]
        for at in its:
            words[at] += 1_000_000
        Path(f"{copy}.replay").write_bytes(np.array(words, np.int64).tobytes())
        done = finish_with(mpirun(3, "--allow-run-as-root", *engine_words(engine)), plan)
        (point,) = (each for each in map(json.loads, done.out.splitlines()) if each["record"] == "replay")
        assert point["checked"] > 0
        assert (point["status"], point["wrong"] > 0) == (("failed", True) if its else ("ok", False)), changed
        said = re.match(r"what rank \d+ received in MPI_(\w+) ", point["reason"] or "MPI")
        assert bool(its) == bool(said) == (point["mismatch"] is not None) == bool(point["failed_calls"])
        assert said is None or said[1] in point["failed_calls"]
        assert "Barrier" not in point["failed_calls"]
        found |= {changed} if its else set()
    assert {"Irecv", "Sendrecv", "Ibcast", "Allgather", "Alltoallv", "Reduce", "Scatterv", "Scan"} <= found


def _seeds_of(words: list[int], rank: int) -> Iterator[tuple[int, int]]:
    """The places of the seeds of a rank's steps, with the number of each step's name."""
    for sides in replayed_sides(words, ranks=3)[rank]:
        yield from ((side + 4, words[sides[0] - 5]) for side in sides)


@pytest.mark.parametrize("seed", [1, 2, 3, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(4, 20))])
def test_a_trace_that_was_cut_anywhere_is_replayed_or_refused(mixed: list[Path], tmp_path: Path, seed: int) -> None:
    """Each rank kept another number of its calls, as after a kill or with few --events."""
    drawn = random.Random(seed)
    trace = read_trace(str(drawn.choice(mixed)))
    few = drawn.random() < 0.2
    lengths = [drawn.randrange(20 if few else len(rank.events) + 1) for rank in trace.ranks]
    cut = tmp_path / "cut.trace"
    ranks = [replace(rank, events=rank.events[:kept]) for rank, kept in zip(trace.ranks, lengths, strict=True)]
    write_trace(cut, Trace(trace.info, ranks))
    code, _, err = volley("replay", str(cut), *SHORT)
    assert code == 0 or (code == 2 and "no call that a replay repeats" in err), (lengths, err)


@pytest.mark.slow
def test_a_cut_off_program_is_refused(known: Path, tmp_path: Path, engine: Path) -> None:
    """The engine does not trust the file."""
    copy = tmp_path / "t"
    copy.write_bytes(known.read_bytes())
    code, plan, _ = volley("replay", str(copy), "--dry-run")
    assert code == 0
    calls = Path(f"{copy}.replay")
    assert not calls.exists()
    trace = read_trace(str(known))
    words = np.array(build(trace, resolve(trace)).words, np.int64)
    assert words[2] == 4  # communicators, after the lengths of two ranks
    for kept in (0, 3, 40, -8):
        calls.write_bytes(words.tobytes()[:kept])
        done = finish_with(mpirun(2, "--allow-run-as-root", *engine_words(engine)), plan)
        assert done.code == 2
        assert f"{calls}, the calls to replay, is missing or cut off" in done.err
