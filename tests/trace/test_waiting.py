"""What waits for what, on traces made by hand: a tick is a nanosecond, and the times are chosen."""

import io
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from recorded_program import unmatched, volley
from volley.benchmarks.replay import ReplayOptions
from volley.benchmarks.replay.results import jobs
from volley.errors import UserError
from volley.launch.engine import About
from volley.records import trace_file
from volley.records.trace_calls import resolve
from volley.records.trace_clocks import shifts
from volley.records.trace_file import COMM, COUNT, EVENT, HEADER, PARTNER, SAMPLE, THREAD, RankTrace, Trace, TraceInfo
from volley.report import html
from volley.report.model import Details
from volley.report.vega_lite import specification
from volley.run.jobs import JobContext
from volley.run.render import render_reports
from volley.trace.explain import explanation
from volley.trace.roll_call import roll_call
from volley.trace.waiting import ONLY_COUNTED, RankTime, split

NAMES = ["Send", "Recv", "Isend", "Irecv", "Wait", "Allreduce", "Bcast", "Reduce", "Finalize", "Waitall", "Iallreduce"]
NAMES += ["Probe", "Win_fence", "Cancel", "Request_free", "Bsend", "Mprobe", "Imrecv"]
MS = 1_000_000


def call(name: str, begin_ms: float, end_ms: float, **fields: int) -> dict[str, int | str]:
    return {"name": name, "begin": int(begin_ms * MS) + 1, "end": int(end_ms * MS) + 1, **fields}


def a_rank(rank: int, size: int, calls: list[dict], delay_ms: float = 0.0) -> RankTrace:
    header = np.zeros(1, HEADER)
    header[["rank", "size", "state"]] = (rank, size, 2)
    header["host"], header["tick1"], header["ns1"] = b"here", 10**9, 10**9
    events = np.zeros(len(calls), EVENT)
    words = [int(word) for each in calls for word in each.get("words", ())]
    counts, at = np.zeros(len(NAMES), COUNT), 0
    for event, each in zip(events, calls, strict=True):
        event["call"], event["begin"], event["end"] = NAMES.index(each["name"]), each["begin"], each["end"]
        event["peer"], event["tag"] = each.get("peer", -3), each.get("tag", 0)
        event["bytes"], event["buffer2"] = each.get("size", 8), each.get("request", 0)
        event["list"], event["length"], event["flags"] = at, len(each.get("words", ())), each.get("flags", 0)
        at += len(each.get("words", ()))
        counts["calls"][event["call"]] += 1
        counts["ticks"][event["call"]] += max(each["end"] - each["begin"], 0)  # counted when it returns
    samples = np.zeros(2, SAMPLE)
    samples["at"], samples["delay_ns"] = (1, calls[-1]["begin"] if calls else 10**9), (0, int(delay_ms * MS))
    comms = np.array([(0, size, 0, 1)], COMM)
    kept = np.array(words, np.uint64)
    return RankTrace(
        header[0], NAMES, events, kept, samples, comms, np.zeros(1, THREAD), np.zeros(size, PARTNER), counts
    )


def times(*ranks: RankTrace) -> list[RankTime]:
    trace = Trace(TraceInfo(), list(ranks))
    return split(trace, resolve(trace)).ranks


def test_a_receive_waits_until_the_send_begins() -> None:
    waits = a_rank(0, 2, [call("Recv", 10, 15, peer=1), call("Finalize", 100, 100)])
    sends = a_rank(1, 2, [call("Send", 13, 13.5, peer=0), call("Finalize", 100, 100)])
    mine, theirs = times(waits, sends)
    assert mine.late_s == pytest.approx({1: 0.003})
    assert mine.rest_s == pytest.approx(0.002)
    assert theirs.late_s == {}


@pytest.mark.parametrize("ahead_ms", [-50, 0, 50])
@pytest.mark.parametrize(
    ("there", "back"),
    [(["Recv", "Send"], ["Send", "Recv"]), (["Allreduce"] * 2, ["Allreduce"] * 2)],
    ids=["messages", "collectives"],
)
def test_the_clock_of_another_host_may_differ(there: list[str], back: list[str], ahead_ms: int) -> None:
    """What takes 2 ms in each direction shows by how much, and nothing that was split changes."""
    waits = a_rank(0, 2, [call(there[0], 10, 15, peer=1), call(there[1], 20, 22, peer=1), call("Finalize", 99, 99)])
    sends = a_rank(1, 2, [call(back[0], 13, 15, peer=0), call(back[1], 20, 22, peer=0), call("Finalize", 99, 99)])
    sends.header["host"] = b"there"
    for rank, its_ms in ((waits, 0), (sends, ahead_ms)):
        rank.header["ns0"] += 10**12 + its_ms * MS
        rank.header["ns1"] += 10**12 + its_ms * MS
    trace = Trace(TraceInfo(), [waits, sends])
    mine, theirs = split(trace, resolve(trace)).ranks
    assert mine.late_s == pytest.approx({1: 0.003})
    assert theirs.late_s == {}
    said = " ".join(note.text for note in explanation(trace, resolve(trace)).notes)
    side = {-50: "is 50.0 ms behind", 50: "is 50.0 ms ahead"}.get(ahead_ms)
    assert (f"that of there {side}" in said) if side else ("clocks" not in said)
    waits.threads = np.zeros(2, THREAD)  # which of its messages is which, is not known
    resolve(trace)
    assert bool(trace.shift_s) == (bool(ahead_ms) and "Allreduce" in there)


@pytest.mark.parametrize(
    ("gaps", "found"),
    [
        ([(b"a", b"b", 0.1), (b"b", b"a", 0.2)], {}),  # no bound is broken
        ([(b"a", b"b", -5.0)], {b"a": 0.0, b"b": 5.0, b"c": 0.0}),  # one direction says the least
        ([(b"a", b"b", -5.0), (b"b", b"a", 4.0)], {b"a": 0.0, b"b": 4.5, b"c": 0.0}),  # the difference grew by 1 s
        (
            [(b"a", b"b", -5.0), (b"b", b"a", 7.0), (b"b", b"c", 3.0), (b"c", b"b", -1.0)],  # a and c by way of b
            {b"a": 0.0, b"b": 6.0, b"c": 4.0},
        ),
    ],
)
def test_the_bounds_of_all_pairs_of_clocks_together_say_how_they_differ(gaps: list, found: dict[bytes, float]) -> None:
    assert shifts([b"a", b"b", b"c"], gaps) == pytest.approx(found)


def test_a_buffered_send_waits_for_nobody_and_a_synchronous_one_for_the_receive() -> None:
    for end_ms, late in ((1, {}), (6, {1: 0.004})):
        sends = a_rank(0, 2, [call("Send", 0, end_ms, peer=1)])
        receives = a_rank(1, 2, [call("Recv", 4, 6, peer=0)])
        assert times(sends, receives)[0].late_s == pytest.approx(late)


def test_a_rank_outside_mpi_with_an_unfinished_send_makes_no_progress() -> None:
    sends = a_rank(0, 2, [call("Isend", 0, 1, peer=1, request=77), call("Wait", 9, 10, request=77)])
    receives = a_rank(1, 2, [call("Recv", 2, 10, peer=0)])
    mine = times(sends, receives)[1]
    assert mine.late_s == {}
    assert mine.absent_s == pytest.approx({0: 0.007})
    # The receive ends while the sender still computes: the data came without it.
    receives = a_rank(1, 2, [call("Recv", 2, 5, peer=0)])
    assert times(sends, receives)[1].absent_s == {}


@pytest.mark.parametrize("delay_ms", [0, 500])
def test_a_call_that_completes_several_things_waits_once(delay_ms: float) -> None:
    posts = [call("Iallreduce", 0, 1, request=5), call("Iallreduce", 1, 2, request=6)]
    waits = [*posts, call("Irecv", 2, 3, peer=1, request=7), call("Waitall", 3, 90, words=[5, 6, 7])]
    late = [call("Iallreduce", 70, 71, request=5), call("Iallreduce", 80, 81, request=6), call("Send", 88, 89, peer=0)]
    mine, _ = times(a_rank(0, 2, waits, delay_ms), a_rank(1, 2, [*late, call("Waitall", 90, 91, words=[5, 6])]))
    shared = [sum(mine.late_s.values()), sum(mine.absent_s.values()), mine.unsplit_s, mine.rest_s]
    assert sum(shared) == pytest.approx(mine.mpi_s)
    assert sum(shared[:3]) == pytest.approx(0.085)  # until the message began


def test_a_receive_from_any_source_has_the_source_that_its_wait_said() -> None:
    done = [5, (2 << 32) | 4]  # the request, then source 2 and tag 4
    waits = a_rank(
        0,
        3,
        [call("Irecv", 0, 1, peer=-1, tag=-1, request=5), call("Waitall", 1, 8, words=done, flags=trace_file.MATCHED)],
    )
    others = [a_rank(1, 3, []), a_rank(2, 3, [call("Send", 6, 7, peer=0, tag=4)])]
    assert times(waits, *others)[0].late_s == pytest.approx({2: 0.005})


@pytest.mark.parametrize(
    ("name", "root", "late"),
    [
        ("Allreduce", -3, [{2: 0.008}, {2: 0.007}, {}]),
        ("Bcast", 0, [{2: 0.008}, {}, {}]),  # who comes after the root waits for nobody; the root had not left
        ("Bcast", 2, [{2: 0.008}, {2: 0.007}, {}]),
        ("Reduce", 0, [{2: 0.008}, {2: 0.007}, {}]),
    ],
)
def test_a_collective_waits_for_the_ranks_whose_data_it_needs(name: str, root: int, late: list[dict]) -> None:
    ranks = [a_rank(rank, 3, [call(name, begin, 9, peer=root)]) for rank, begin in enumerate((0, 1, 8))]
    assert [each.late_s for each in times(*ranks)] == [pytest.approx(each) for each in late]


def test_waits_of_and_for_a_rank_without_its_core_are_not_split() -> None:
    waits = a_rank(0, 2, [call("Recv", 10, 15, peer=1), call("Finalize", 100, 100)])
    sends = a_rank(1, 2, [call("Send", 13, 13.5, peer=0), call("Finalize", 100, 100)], delay_ms=20)
    mine, theirs = times(waits, sends)
    assert not theirs.has_core
    assert mine.late_s == {}
    assert mine.unsplit_s == pytest.approx(0.003)


def test_a_core_that_is_lost_in_finalize_is_not_lost_before_it() -> None:
    rank = a_rank(0, 1, [call("Send", 1, 2), call("Finalize", 3, 50)], delay_ms=40)
    rank.samples["at"][1] = 49 * MS
    assert times(rank)[0].lost_s is None


@pytest.mark.parametrize(("delay_ms", "blamed"), [(0, True), (0.05, True), (4, False)])
def test_nobody_is_blamed_in_a_program_too_short_to_tell_who_had_a_core(delay_ms: float, blamed: bool) -> None:
    """Its second sample is at the end of MPI_Finalize, which may have lost the core instead."""
    receives = a_rank(0, 2, [call("Recv", 0, 9, peer=1), call("Finalize", 10, 50)])
    sends = a_rank(1, 2, [call("Send", 8, 8.5, peer=0), call("Finalize", 10, 50)], delay_ms)
    for rank in (receives, sends):
        rank.samples["at"][1] = 49 * MS
    trace = Trace(TraceInfo(), [receives, sends])
    said = " ".join(note.text for note in explanation(trace, resolve(trace)).notes if note.first)
    assert ("rank 1 comes late" in said) == blamed
    assert ("too short to tell" in said) == (not blamed)


def computing(noise: np.ndarray, longer_ms: float = 0.0) -> str:
    """What is said of ranks that compute for a millisecond and more before each Allreduce, rank 1 for longer."""
    calls, now = [[] for _ in noise], np.zeros(len(noise))
    for more in noise.T:
        now = now + np.maximum(1 + more, 0.05) + longer_ms * (np.arange(len(noise)) == 1)
        for its, begin in zip(calls, now.tolist(), strict=True):
            its.append(call("Allreduce", begin, float(now.max()) + 0.01))
        now[:] = now.max() + 0.01
    ranks = [a_rank(rank, len(noise), its) for rank, its in enumerate(calls)]
    for rank in ranks:
        rank.header["tick1"] = rank.header["ns1"] = int(now[0] * MS) + 10
    trace = Trace(TraceInfo(), ranks)
    return " ".join(note.text for note in explanation(trace, resolve(trace)).notes if note.first)


@pytest.mark.parametrize("noise", ["normal", "heavy tails", "two states"])
def test_of_ranks_with_equal_work_none_is_called_late(noise: str) -> None:
    draw, wrong = np.random.default_rng(1), 0
    for ranks in (2, 4) * 6:
        shape = (ranks, 120)
        more = {
            "normal": draw.normal(0, 0.1, shape),
            "heavy tails": 0.05 * np.abs(draw.standard_t(2, shape)),
            "two states": 0.3 * (draw.random(shape) < 0.2),
        }[noise]
        said = computing(more)
        wrong += "comes late" in said
        assert "comes late" in said or "ranks come late in turn" in said
        assert "rank 1 comes late" in computing(more, 0.5)
    assert wrong == 0


def test_the_shares_of_a_rank_add_up() -> None:
    ranks = [
        a_rank(rank, 3, [call("Allreduce", begin, 9), call("Finalize", 20, 21)]) for rank, begin in enumerate((0, 1, 8))
    ]
    for each in times(*ranks):
        parts = sum(each.late_s.values()) + sum(each.absent_s.values()) + each.unsplit_s + each.rest_s
        assert parts == pytest.approx(each.mpi_s)
        assert each.mpi_s <= each.total_s


def test_ranks_without_a_trace_are_named() -> None:
    trace = Trace(TraceInfo(), [a_rank(0, 4, []), a_rank(2, 4, [])])
    assert trace.missing == [1, 3]
    assert any(line.startswith("ranks 1,3 without a trace") for line in roll_call(trace))


def test_messages_that_share_a_request_are_all_completed() -> None:
    """Open MPI and MPICH give every message that is buffered at once the same request."""
    sends = [call("Isend", each, each + 1, peer=1, tag=each, request=5) for each in (0, 2)]
    receives = [call("Recv", 4 + each, 5 + each, peer=0, tag=2 * each) for each in (0, 1)]
    ranks = [a_rank(0, 2, [*sends, call("Waitall", 3, 4, words=[5, 5])]), a_rank(1, 2, receives)]
    calls = resolve(Trace(TraceInfo(), ranks))
    assert [each.done for each in calls.ranks[0].operations] == [2, 2]
    assert unmatched(calls) == 0


@pytest.mark.parametrize(
    ("receives", "size"),
    [
        # The message had come before it was cancelled.
        ([call("Irecv", 0, 1, peer=1, request=5), call("Cancel", 3, 4, words=[5]), call("Wait", 4, 5, request=5)], 8),
        ([], 8),  # something that the trace does not know has received the first one
        ([call("Recv", 0, 2, peer=1, size=8)], 9),
    ],
)
def test_where_a_trace_lacks_a_call_its_messages_are_not_matched(receives: list[dict], size: int) -> None:
    sends = [call("Send", 1, 2, peer=0, size=size), call("Send", 6, 7, peer=0)]
    ranks = [a_rank(0, 2, [*receives, call("Recv", 6, 8, peer=1)]), a_rank(1, 2, sends)]
    calls = resolve(Trace(TraceInfo(), ranks))
    assert {each.match for each in calls.ranks[1].operations} == {None}
    mine = times(*ranks)[0]
    assert mine.rest_s == pytest.approx(0, abs=0.002)
    assert mine.untold["Recv"] > 0.001


def test_a_message_of_a_buffer_is_not_split_since_nothing_tells_when_it_left() -> None:
    waits = a_rank(0, 2, [call("Recv", 10, 15, peer=1)])
    mine, _ = times(waits, a_rank(1, 2, [call("Bsend", 2, 3, peer=0), call("Allreduce", 14, 15)]))
    assert mine.untold["Recv"] == pytest.approx(0.005)


def test_a_freed_request_is_not_taken_for_the_next_one_of_its_handle() -> None:
    calls = [call("Isend", 0, 1, peer=1, request=5), call("Request_free", 1, 2, words=[5])]
    calls += [call("Irecv", 2, 3, peer=1, request=5), call("Wait", 3, 4, request=5)]
    sent, received = resolve(Trace(TraceInfo(), [a_rank(0, 2, calls)])).ranks[0].operations
    assert (sent.done, received.done) == (-1, 3)


def test_a_message_is_received_by_the_handle_that_found_it() -> None:
    receives = [call("Mprobe", each, each + 1, peer=1, tag=each, request=20 + each) for each in (1, 2)]
    receives += [call("Imrecv", 3, 4, words=[20 + each], request=30 + each) for each in (1, 2)]
    receives += [call("Waitall", 5, 6, words=[31, 32])]
    sends = [call("Send", 0, 1, peer=0, tag=each) for each in (1, 2)]
    first, second = resolve(Trace(TraceInfo(), [a_rank(0, 2, receives), a_rank(1, 2, sends)])).ranks[0].operations
    assert [(each.post, each.match.post) for each in (first, second)] == [(2, 0), (3, 1)]


@pytest.mark.parametrize("second", [(0, 2), (2, 4)])
def test_processes_of_several_jobs_are_not_taken_for_one_job(second: tuple[int, int]) -> None:
    ranks = [a_rank(0, 2, []), a_rank(1, 2, []), a_rank(*second, [])]
    with pytest.raises(UserError, match="3 processes of several MPI jobs"):
        resolve(Trace(TraceInfo(), ranks))


def test_a_call_that_did_not_return_has_the_time_until_the_end() -> None:
    """Rank 0 came to a collective after 10 ms, rank 1 computed until the program ended after 50 ms."""
    inside = a_rank(0, 2, [call("Send", 2, 3, peer=1), {**call("Allreduce", 10, 0), "end": 0}])
    inside.threads["current"] = 3  # its second event
    outside = a_rank(1, 2, [call("Recv", 2, 3, peer=0)])
    for rank in (inside, outside):
        rank.header["state"], rank.header["tick1"], rank.header["ns1"] = 1, 3 * MS, 3 * MS
    trace = Trace(TraceInfo(ended_s=0.05), [inside, outside])
    mine, theirs = split(trace, resolve(trace)).ranks
    assert (mine.no_return, theirs.no_return) == ([("Allreduce", pytest.approx(0.04))], [])
    assert (mine.mpi_s, theirs.mpi_s) == (pytest.approx(0.041), pytest.approx(0.001))
    assert mine.total_s == theirs.total_s == pytest.approx(0.048)
    assert mine.rest_s == pytest.approx(0.001), "the rest is MPI itself"
    report = explanation(trace, resolve(trace))
    assert "from MPI_Init to the end of the program" in report.heading[0]
    (ending,) = report.at("error")
    assert "rank 0 was in MPI_Allreduce" in ending.text
    assert "calls that did not return: 95 % of the time in MPI" in ending.text
    ranks, calls, *_ = report.tables
    assert "no return" in [column.title for column in ranks.columns]
    assert ["MPI_Allreduce, no return", 1] in [row[:2] for row in calls.rows]


def test_a_replay_without_any_call_names_those_that_it_leaves_out(tmp_path: Path) -> None:
    ranks = [a_rank(rank, 2, [call("Win_fence", 1, 10), call("Finalize", 100, 100)]) for rank in (0, 1)]
    trace_file.write_trace(tmp_path / "t", Trace(TraceInfo(), ranks))
    with pytest.raises(UserError, match=r"no call that a replay repeats \(MPI_Win_fence 100 % of .*\)$") as refused:
        jobs(ReplayOptions(trace=(str(tmp_path / "t"),)), JobContext(About()))
    assert refused.value.exit_code == 2, "the machine is able to"


def test_gaps_that_are_together_longer_than_the_watchdog_are_progress(tmp_path: Path) -> None:
    """Each of them is shorter than what it is told of beforehand."""
    sends, receives = (
        a_rank(rank, 2, [call(name, 90 * at, 90 * at + 0.01, peer=1 - rank) for at in range(20)])
        for rank, name in enumerate(("Send", "Recv"))
    )
    trace_file.write_trace(tmp_path / "t", Trace(TraceInfo(), [sends, receives]))
    words = ("--gaps", "--time", "0.01", "--launches", "1", "--watchdog", "1", "-o", str(tmp_path / "r.jsonl"))
    code, _, err = volley("replay", str(tmp_path / "t"), *words)
    assert code == 0, err


def test_a_replay_that_is_refused_is_not_advised() -> None:
    sends, receives = a_rank(0, 2, [call("Send", 0, 9, peer=1)]), a_rank(1, 2, [call("Recv", 0, 9, peer=0)])
    threads = replace(receives, threads=np.zeros(2, THREAD))
    unmatched = a_rank(1, 2, [call("Recv", 0, 9, peer=0, tag=5)])
    for other, advised in ((receives, ["volley replay t.trace"]), (threads, []), (unmatched, [])):
        trace = Trace(TraceInfo(), [sends, other], "t.trace")
        notes = explanation(trace, resolve(trace)).notes
        assert [note.command for note in notes if note.command] == advised


def test_a_sentence_of_the_summary_stands_once_on_the_screen() -> None:
    ranks = [a_rank(rank, 2, [call("Win_fence", 1, 10), call("Finalize", 100, 100)]) for rank in (0, 1)]
    trace, out = Trace(TraceInfo(), ranks), io.StringIO()
    for form in ("table", "markdown"):
        render_reports([explanation(trace, resolve(trace))], form, out, Details())
    assert out.getvalue().count("does not tell for whom they wait") == 2


def test_a_trace_without_calls_has_no_time() -> None:
    trace = Trace(TraceInfo(), [a_rank(0, 1, [call("Finalize", 1, 1)])])
    heading = explanation(trace, resolve(trace)).heading
    assert "1 rank, no call was recorded between MPI_Init and MPI_Finalize" in heading[0]
    trace.ranks[0].header["state"] = 1
    (line,) = roll_call(trace, 0.2)
    assert " for less than 1 s, after MPI_" in line


def test_every_process_that_did_not_come_out_of_mpi_init_is_named() -> None:
    ranks = [a_rank(-1, 0, []) for _ in range(2)]
    for pid, each in enumerate(ranks):
        each.header["state"], each.header["pid"] = 0, pid
    (line,) = roll_call(Trace(TraceInfo(), ranks), 3.0)
    assert line == "process 0 on here and process 1 on here were in MPI_Init for 3 s"


def test_calls_that_tell_of_no_partner_are_not_called_mpi_itself() -> None:
    """A rank waits 9 ms in MPI_Probe and 8 ms in MPI_Win_fence; 3 ms of polls were only counted."""
    calls = [call("Probe", 1, 10, peer=1), call("Recv", 10, 11, peer=1), call("Win_fence", 12, 20)]
    waits = a_rank(0, 2, [*calls, call("Finalize", 100, 100)])
    waits.counts["ticks"][NAMES.index("Probe")] += 3 * MS
    sends = a_rank(1, 2, [call("Send", 10, 10.5, peer=0), call("Win_fence", 19, 20), call("Finalize", 100, 100)])
    mine = times(waits, sends)[0]
    assert mine.untold == pytest.approx({"Probe": 0.009, "Win_fence": 0.008, ONLY_COUNTED: 0.003})
    assert mine.rest_s == pytest.approx(0.001)
    trace = Trace(TraceInfo(), [waits, sends])
    said = [note.text for note in explanation(trace, resolve(trace)).notes]
    assert [each for each in said if "not split" in each]
    assert not [each for each in said if "MPI itself" in each]


def test_short_times_and_small_shares_have_their_units_and_no_row_of_zeros() -> None:
    calls = [call("Send", 0, 3e-4, peer=1), call("Finalize", 900, 900.000002)]
    trace = Trace(TraceInfo(), [a_rank(0, 2, calls), a_rank(1, 2, [call("Recv", 0, 3e-4, peer=0), calls[1]])])
    render_reports([explanation(trace, resolve(trace))], "table", out := io.StringIO(), Details(full=True))
    assert " 300 ns " in out.getvalue()
    assert "<0.01" in out.getvalue()
    assert "0.00" not in out.getvalue()


def test_a_page_has_each_table_once_and_a_timeline_with_round_times() -> None:
    calls = [call("Send", 0, 0.0123, peer=1), call("Finalize", 0.0456, 0.0457)]
    trace = Trace(TraceInfo(), [a_rank(0, 2, calls), a_rank(1, 2, [call("Recv", 0, 0.0123, peer=0), calls[1]])])
    report = explanation(trace, resolve(trace))
    html.render("a page", [report], [()], [], out := io.StringIO())
    assert out.getvalue().count("<caption>Time of each rank</caption>") == 1
    assert "Environment" not in out.getvalue()  # of a run of volley
    timeline = report.charts[0]
    assert timeline.x.unit == "µs"
    axis = specification(timeline, "black", 400)["layer"][0]["encoding"]["x"]["axis"]
    assert axis["values"] == [str(number) for number in range(0, 46, 5)]
    shares = {mark.x: mark.value for mark in timeline.marks if mark.y == "0"}
    assert [shares[time] for time in ("0", "12", "12.5", "45.5")] == pytest.approx([100, 60, 0, 20])


def test_the_time_in_mpi_of_several_threads_is_a_share_of_the_time_of_all() -> None:
    """Two threads are 80 of 100 ms in MPI at the same time, and a call of the second one does not return."""
    calls = [call("Send", 0, 80), call("Recv", 0, 80), call("Send", 90, 90)]
    rank = a_rank(0, 1, calls)
    rank.events["end"][2] = 0
    rank.threads = np.zeros(2, THREAD)
    rank.threads["current"], rank.header["state"] = (0, 2 + 2), 1
    rank.header["tick1"] = rank.header["ns1"] = 90 * MS
    trace = Trace(TraceInfo(ended_s=0.1), [rank])
    report = explanation(trace, resolve(trace))
    (row,) = report.tables[0].rows
    assert [getattr(cell, "value", cell) for cell in row[1:4]] == pytest.approx([0.1, 2, 85])
    assert report.summary().line == "in MPI: 85 % of the time of all threads that call MPI"
    shares = {mark.x: mark.value for mark in report.charts[0].marks}
    assert (shares["78"], shares["84"], shares["94"]) == pytest.approx((100, 0, 100))


def test_how_long_a_call_did_not_return_is_unknown_where_nobody_saw_the_end() -> None:
    inside = a_rank(0, 2, [call("Send", 1, 1.1, peer=1), call("Recv", 2, -1e-6, peer=1)])
    inside.header["state"], inside.threads["current"] = 1, 2 + 1
    late = a_rank(1, 2, [call("Recv", 0, 1.1, peer=0), call("Recv", 2, -1e-6, peer=0)])
    late.header["state"], late.threads["current"] = 1, 2 + 1
    trace = Trace(TraceInfo(), [inside, late])
    (note,) = (each for each in explanation(trace, resolve(trace)).notes if each.verdict)
    assert note.verdict == "BROKEN"
    assert "rank 0 was in MPI_Recv from rank 1" in note.text
    assert not re.search(r" for \d|did not return", note.text)


def test_the_time_in_finalize_is_left_out_where_it_was_only_counted() -> None:
    """A rank makes one call, and is 900 of its 1000 ms in MPI_Finalize."""
    whole = a_rank(0, 1, [call("Send", 0, 1), call("Finalize", 100, 1000)])
    cut = replace(whole, events=whole.events[:1])
    assert [each.total_s for each in (*times(whole), *times(cut))] == pytest.approx([0.1, 0.1], rel=1e-6)
