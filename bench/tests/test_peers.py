"""volley beside other programs: what they print is read, what goes wrong costs a row and no more, the page is true.

The outputs here are made up, in the programs' layouts.
"""

import os
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from peers import commands, page, readers
from peers.commands import Command, Ours, Outcome, Place
from peers.launches import Launch, Machine, Session, encode, read, sessions
from peers.readers import ReadError, Reading
from peers.results import figures
from peers.rounds import Budget, chosen, measure
from peers.table import PROGRAMS, TABLE, Asked, Comparison, Row, of, rate, total
from programs import BenchError, Starter, account, read_starter

from example_records import golden, log, pingpong, run, stream
from the_command import program
from volley.benchmarks import BENCHMARKS
from volley.benchmarks.jacobi.results import solutions
from volley.records.records_file import read_runs

TUTORIAL = """\
Transfer size (B):          8, Transfer Time (s):     0.000012500, Bandwidth (GB/s):     0.000596046
Transfer size (B):         16, Transfer Time (s):     0.000013000, Bandwidth (GB/s):     0.001146241
"""
OSU = """\

# OSU MPI-CUDA Latency Test v9.1
# Datatype: MPI_CHAR.
# Size       Avg Latency(us)
8                      12.50
65536                  20.00
"""
IMB = """\
#    Intel(R) MPI Benchmarks 9.1, MPI-1 part
#---------------------------------------------------
# Benchmarking PingPong
# #processes = 2
#---------------------------------------------------
       #bytes #repetitions      t[usec]   Mbytes/sec
            8         1000        12.50         0.64
        65536          640        20.00      3276.80


# All processes entering MPI_Finalize
"""
OSU_BARRIER = """\

# OSU MPI Barrier Latency Test v9.1
# Avg Latency(us)
             0.80
"""
OSU_RATE = """\

# OSU MPI Multiple Bandwidth / Message Rate Test v9.1
# [ pairs: 2 ] [ window size: 64 ]
# Size                  MB/s        Messages/s
8                      40.00        5000000.00
4096                 8192.00        2000000.00
"""
NVBANDWIDTH = """\
nvbandwidth Version: v9.1
Built from Git version: v9.1

Running host_to_device_memcpy_ce.
memcpy CE CPU(row) -> GPU(column) bandwidth (GB/s)
           0         1
 0     50.50     51.25

SUM host_to_device_memcpy_ce 101.75

Running device_to_device_memcpy_write_ce.
memcpy CE GPU(row) <- GPU(column) bandwidth (GB/s)
           0         1
 0       N/A    390.00
 1    391.00       N/A

SUM device_to_device_memcpy_write_ce 781.00

NOTE: made up.
"""
SENDRECV = """\
# nccl-tests version 9.1.0 nccl-headers=22900 nccl-library=22807
# Collective test starting: sendrecv_perf
# nThread 1 nGpus 1 minBytes 8 maxBytes 65536 step: 8192(factor) warmup iters: 5 iters: 20 agg iters: 1 validation: 0
#
#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)  (GB/s)  (GB/s)
           8             2     float     sum      -1    10.50    0.00    0.00     N/A    10.75    0.00    0.00    N/A
       65536         16384     float    none      -1    11.00    5.96    5.96       0    11.25    5.83    5.83      0
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 2.9
"""
SAMPLE = """\
[P2P (Peer-to-Peer) GPU Bandwidth Latency Test]
P2P Connectivity Matrix
     D\\D     0     1
     0\t     1     1
     1\t     1     1
Unidirectional P2P=Enabled Bandwidth (P2P Writes) Matrix (GB/s)
   D\\D     0      1
     0 4000.00 390.50
     1 391.50 4001.00
P2P=Enabled Latency (P2P Writes) Matrix (us)
   GPU     0      1
     0   2.00   2.25
     1   2.50   2.00

   CPU     0      1
     0   1.00   1.25
     1   1.50   1.00

NOTE: made up.
"""
EXAMPLE = """\
Total Jacobi run time: 0.5000 sec.
Average per-process communication time: 0.0625 sec.
Measured lattice updates: 98.50 GLU/s (total), 49.25 GLU/s (per process)
Measured FLOPS: 492.50 GFLOPS (total), 246.25 GFLOPS (per process)
"""


def approximately(expected: Mapping[str, float]) -> Any:
    return pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    ("reader", "text", "expected", "version"),
    [
        (readers.tutorial, TUTORIAL, {"8": 12.5e-6, "16": 13e-6}, None),
        (readers.osu_latency, OSU, {"8": 12.5e-6, "65536": 20e-6}, "9.1"),
        (readers.osu_bandwidth, OSU, {"8": 12.5e6, "65536": 20e6}, "9.1"),
        (
            readers.nvbandwidth,
            NVBANDWIDTH,
            {
                "host_to_device_memcpy_ce 0 0": 50.5e9,
                "host_to_device_memcpy_ce 0 1": 51.25e9,
                "device_to_device_memcpy_write_ce 0 1": 390e9,
                "device_to_device_memcpy_write_ce 1 0": 391e9,
            },
            "v9.1",
        ),
        (readers.osu_message_rate, OSU_RATE, {"8": 5e6, "4096": 2e6}, "9.1"),
        (readers.imb_pingpong, IMB, {"8": 12.5e-6, "65536": 20e-6}, None),
        (readers.osu_barrier, OSU_BARRIER, {"0": 0.8e-6}, "9.1"),
        (readers.nccl_tests, SENDRECV, {"8": 10.5e-6, "65536": 11e-6}, "9.1.0, NCCL 2.28.7"),
        (readers.copy_engine, '{"copy 8": 6.25e-06, "line": 1.5e-07}\n', {"copy 8": 6.25e-6, "line": 0.15e-6}, None),
        (
            readers.p2p_sample,
            SAMPLE,
            {
                "Unidirectional P2P=Enabled Bandwidth (P2P Writes) Matrix 0 0": 4000e9,
                "Unidirectional P2P=Enabled Bandwidth (P2P Writes) Matrix 0 1": 390.5e9,
                "Unidirectional P2P=Enabled Bandwidth (P2P Writes) Matrix 1 0": 391.5e9,
                "Unidirectional P2P=Enabled Bandwidth (P2P Writes) Matrix 1 1": 4001e9,
                "P2P=Enabled Latency (P2P Writes) Matrix GPU 0 0": 2e-6,
                "P2P=Enabled Latency (P2P Writes) Matrix GPU 0 1": 2.25e-6,
                "P2P=Enabled Latency (P2P Writes) Matrix GPU 1 0": 2.5e-6,
                "P2P=Enabled Latency (P2P Writes) Matrix GPU 1 1": 2e-6,
                "P2P=Enabled Latency (P2P Writes) Matrix CPU 0 0": 1e-6,
                "P2P=Enabled Latency (P2P Writes) Matrix CPU 0 1": 1.25e-6,
                "P2P=Enabled Latency (P2P Writes) Matrix CPU 1 0": 1.5e-6,
                "P2P=Enabled Latency (P2P Writes) Matrix CPU 1 1": 1e-6,
            },
            None,
        ),
        (readers.jacobi_example, EXAMPLE, {"run s": 0.5, "communication s": 0.0625, "updates": 98.5e9}, None),
        (readers.models, "single_gpu, 102, 52, 1000, 1, 0.5\n", {"updates": 10e6}, None),
        (readers.models, "mpi, 102, 52, 1000, 1, 2, 1, 0.25, 0.5\n", {"updates": 20e6}, None),
    ],
)
def test_outputs_are_read(reader: readers.Reader, text: str, expected: dict[str, float], version: str | None) -> None:
    assert reader(text).figures == approximately(expected)
    assert reader(text).version == version
    assert reader("").figures == {}
    assert reader("Segmentation fault\n0 1 2\n").figures == {}


@pytest.mark.parametrize(
    ("reader", "text", "last", "kept"),
    [
        (readers.tutorial, TUTORIAL, "16", "8"),
        (readers.osu_latency, OSU, "65536", "8"),
        (readers.nvbandwidth, NVBANDWIDTH, "device_to_device_memcpy_write_ce 1 0", "host_to_device_memcpy_ce 0 1"),
        (readers.nccl_tests, SENDRECV, "65536", "8"),
    ],
)
def test_a_cut_output_keeps_its_whole_lines(reader: readers.Reader, text: str, last: str, kept: str) -> None:
    start = {"16": "  16,", "65536": "65536 ", "device_to_device_memcpy_write_ce 1 0": " 1    391"}[last]
    found = reader(text[: text.rindex(start) + len(start)]).figures
    assert last not in found
    assert kept in found


def test_a_check_that_failed_is_an_error() -> None:
    with pytest.raises(ReadError, match="3 wrong values"):
        readers.nccl_tests(SENDRECV.replace(": 0 OK", ": 3 FAILED"))


def test_own_records_are_figures() -> None:
    samples = [1e-6] * 7
    found = figures([log(pingpong(samples, 8, "host"), pingpong([], 16, "host", status="failed", reason="example"))])
    assert found == {"host 8": 1e-6, "settled": 0.5, "work s": 1.0}
    moved = figures([log(stream(samples, samples, 1024))])["host 1024"]
    assert moved == pytest.approx(2 * 64 * 1024 / 1e-6)
    cells = figures(golden("rank-matrix"))
    assert any(name.endswith(" 0 1") for name in cells)
    assert figures(golden("jacobi"))["host updates"] > 0


# ------------------------------------------------------------------------------------------ launching


def here(folder: Path) -> Place:
    return Place(folder, Starter({"EXAMPLE_OF_LAUNCHER": "1"}, ("env",), ("unused",)), run())


def alone(name: str) -> Command:
    return Command("key", name, "--word", readers.tutorial, "alone")


def test_a_program_is_launched_and_read(tmp_path: Path) -> None:
    name = program(tmp_path / "good", f'[ "$1" = --word ] && cat <<"E"\n{TUTORIAL}E\n').name
    outcome = here(tmp_path).launch(alone(name))
    assert outcome.reason is None
    assert outcome.reading.figures["8"] == 12.5e-6
    assert outcome.wall_s > 0


def test_ranks_get_the_launchers_words_and_the_engines_cores(tmp_path: Path) -> None:
    words = 'printf \'{"launched": %s, "core": %s}\' "$EXAMPLE_OF_LAUNCHER" "$(taskset -cp $$ | sed "s/.*: //")"'
    name = program(tmp_path / "ranked", words).name
    place = Place(tmp_path, Starter({"EXAMPLE_OF_LAUNCHER": "7"}, ("env", "PMI_RANK=0"), ("unused",)), run())
    assert place.launch(Command("key", name, "", readers.copy_engine)).reading.figures == {"launched": 7, "core": 0}


def test_variables_of_a_command_are_its_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("EXAMPLE", "1")
    name = program(tmp_path / "ranked", 'printf \'{"example": %s}\' "$EXAMPLE"').name
    stand_in = tmp_path / "stand_in.py"
    stand_in.write_text("import os, sys; sys.exit('volley: example ' + os.environ['EXAMPLE'])", "utf-8")
    monkeypatch.setattr(commands, "VOLLEY", (sys.executable, str(stand_in)))
    for environment, seen in (({}, 1), ({"EXAMPLE": "7"}, 7)):
        others = Command("theirs", name, "", readers.copy_engine, "unbound", environment=environment)
        table = [replace(PAIR, ours=Ours("pingpong", environment), theirs=(others,), launches=1)]
        ours, theirs = measured(here(tmp_path), table)
        assert (ours.reason or "").endswith(f"example {seen}")
        assert theirs.figures == {"example": seen}
        assert ours.environment == theirs.environment == environment


def test_ranks_without_a_binding_run_on_any_core(tmp_path: Path) -> None:
    name = program(tmp_path / "ranked", 'printf \'{"cores": %s}\' "$(nproc)"').name
    unbound = here(tmp_path).launch(Command("key", name, "", readers.copy_engine, "unbound"))
    assert unbound.reading.figures == {"cores": len(os.sched_getaffinity(0))}


def test_a_program_on_cores_is_told_them(tmp_path: Path) -> None:
    name = program(tmp_path / "cores", 'printf \'{"first": %s, "second": %s}\' "$1" "$2"').name
    outcome = here(tmp_path).launch(Command("key", name, "", readers.copy_engine, "on cores"))
    assert outcome.reading.figures == {"first": 0, "second": 1}


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("echo '---' >&2; echo \"$0: no GPU\" >&2; exit 3", "it ended with status 3: program: no GPU"),
        ("kill -SEGV $$", "it ended by SIGSEGV"),
        ("printf 'a\\0\\377\\033[2J'", "it printed nothing that is known"),
        ("sleep 60", "it took longer than 0.3 s"),
    ],
)
def test_what_goes_wrong_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, script: str, reason: str) -> None:
    monkeypatch.setattr(commands, "LAUNCH_TIMEOUT_S", 0.3 if "sleep" in script else 60)
    outcome = here(tmp_path).launch(alone(program(tmp_path / "program", script).name))
    assert outcome.reason == reason
    assert outcome.reading.figures == {}


def test_the_time_of_the_work_begins_with_its_first_line(tmp_path: Path) -> None:
    name = program(tmp_path / "works", 'sleep 0.3; echo "Work"; sleep 0.1; echo \'{"first": 1}\'').name
    outcome = here(tmp_path).launch(Command("key", name, "", readers.copy_engine, "alone", begins="Work"))
    assert outcome.reading.figures["first"] == 1
    assert 0 < outcome.reading.figures["work s"] <= outcome.wall_s - 0.3


def test_figures_before_a_crash_count(tmp_path: Path) -> None:
    name = program(tmp_path / "crash", f"cat <<'E'\n{TUTORIAL}E\nkill -ABRT $$").name
    outcome = here(tmp_path).launch(alone(name))
    assert outcome.reason == "it ended by SIGABRT"
    assert set(outcome.reading.figures) == {"8", "16"}


def test_an_output_that_cannot_be_read_is_said(tmp_path: Path) -> None:
    name = program(tmp_path / "odd", 'echo \'{"copy 8": "fast"}\'').name
    outcome = here(tmp_path).launch(Command("key", name, "", readers.copy_engine, "alone"))
    assert outcome.reason.startswith("its output: ")


def test_a_missing_program_is_said(tmp_path: Path) -> None:
    assert here(tmp_path).launch(alone("none")).reason == "there is no such program in the folder"


def test_volley_is_launched_and_its_records_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    stand_in = tmp_path / "stand_in.py"
    records = Path(__file__).parents[2] / "schema/examples/pingpong-host.jsonl"
    stand_in.write_text(
        "import shutil, sys\n"
        f"if 'good' in sys.argv: shutil.copy({str(records)!r}, sys.argv[-1])\n"
        "else: sys.exit('volley: header\\nvolley: no such transport')\n",
        "utf-8",
    )
    monkeypatch.setattr(commands, "VOLLEY", (sys.executable, str(stand_in)))
    place = here(tmp_path)
    good = place.launch(Ours("good"))
    assert good.reason is None
    assert good.reading.figures == figures(golden("pingpong-host"))
    kept = replace(place, keep=tmp_path)
    assert kept.launch(Ours("good"), "sweep-1").reason is None
    assert (tmp_path / "sweep-1.jsonl").read_bytes() == records.read_bytes()
    bad = place.launch(Ours("bad"))
    assert bad.reason == "it ended with status 1: volley: no such transport"
    assert bad.reading.figures == {}


# ------------------------------------------------------------------------------------------ rounds


class Pretended(Place):
    """A place where launching is a matter of looking up."""

    outcomes: dict[str, Outcome]
    asked: list[str]

    def launch(self, command: Command | Ours, name: str = "volley") -> Outcome:
        del name
        self.asked.append(command.key)
        return self.outcomes[command.key]


def pretended(**outcomes: Outcome) -> Pretended:
    place = Pretended(Path(), Starter({}, (), ()), run())
    object.__setattr__(place, "outcomes", outcomes)
    object.__setattr__(place, "asked", [])
    return place


def outcome(reason: str | None = None, **found: float) -> Outcome:
    return Outcome(1.5, Reading(found, "9.1"), reason)


ROW = Row("host 8 B", "theirs", Asked(high=1.02), of("volley", "n"), of("theirs", "n"))
PAIR = Comparison("pair", Ours("w"), (Command("theirs", "program", "", readers.tutorial),), (ROW,), 3)
GOOD = outcome(n=2.0)


def measured(place: Pretended, table: list[Comparison], launches: int | None = None) -> list[Launch]:
    return list(measure(place, table, launches, Budget(None), [].append))


def test_rounds_take_turns() -> None:
    place = pretended(volley=GOOD, theirs=outcome(n=1.0))
    found = measured(place, [PAIR])
    assert place.asked == ["volley", "theirs", "theirs", "volley", "volley", "theirs"]
    assert [launch.round for launch in found] == [0, 0, 1, 1, 2, 2]
    assert {launch.status for launch in found} == {"ok"}
    assert len(measured(place, [PAIR], launches=1)) == 2


def test_what_failed_is_not_launched_again_and_the_rest_goes_on() -> None:
    place = pretended(volley=GOOD, theirs=outcome("it ended by SIGSEGV"))
    found = measured(place, [PAIR])
    assert place.asked == ["volley", "theirs", "volley", "volley"]
    assert [launch.reason for launch in found if launch.status == "failed"] == ["it ended by SIGSEGV"]
    place = pretended(volley=GOOD, theirs=outcome("it ended by SIGSEGV", n=1.0))
    assert len(measured(place, [PAIR])) == 6


def test_a_budget_ends_the_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr("peers.rounds.time.monotonic", lambda: now)
    budget = Budget(10)
    assert budget.allows("pair")
    budget.spent("pair", 6)
    now = 104.0
    assert budget.allows("pair")
    now = 104.5
    assert not budget.allows("pair")
    assert budget.allows("not yet launched")
    now = 111.0
    assert not budget.allows("not yet launched")


def test_comparisons_are_chosen_by_name() -> None:
    assert [each.name for each in chosen(TABLE, ["nccl", "links"])] == ["links", "nccl"]
    assert chosen(TABLE, []) == [each for each in TABLE if each.ranks == 2]
    assert [each.ranks for each in chosen(TABLE, ["jacobi-four"])] == [4]
    with pytest.raises(BenchError, match="no comparison 'none'"):
        chosen(TABLE, ["none"])
    with pytest.raises(BenchError, match="different numbers of ranks"):
        chosen(TABLE, ["links", "jacobi-four"])


def test_a_job_of_four_ranks_is_started_as_volley_starts_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    starter = read_starter(4)
    assert starter.words[starter.words.index("-n") + 1] == "4"
    assert len(account(starter, 4).ranks) == 4


def test_a_solution_on_several_grids_is_compared_with_one_process() -> None:
    logs = read_runs(page.ROOT / "results/h200-x4/jacobi-scaling.jsonl", BENCHMARKS)
    found = figures(logs)
    one, _, whole = (solutions([each])[0] for each in logs)
    assert (one.transport, whole.transport) == ("aware", "aware")
    assert whole.ranks == 4
    assert found["aware updates"] == whole.overall_updates_per_s
    assert one.iteration_s
    assert whole.iteration_s
    assert found["aware beyond"] == pytest.approx(whole.iteration_s - one.iteration_s / 4)


# ------------------------------------------------------------------------------------------ table and page


class Recorder(dict[str, float]):
    """Figures that are all there, and remember who asked."""

    def __missing__(self, key: str) -> float:
        self[key] = 1.0
        return 1.0


def test_rows_ask_for_figures_of_their_own_comparison() -> None:
    assert len({each.name for each in TABLE}) == len(TABLE)
    for comparison in TABLE:
        asked = Recorder()
        for row in comparison.rows:
            row.ours(asked)
            assert (row.theirs is None) == (row.against == "")
            if row.theirs:
                row.theirs(asked)
        used = {key.partition("/")[0] for key in asked}
        assert used == {command.key for command in (comparison.ours, *comparison.theirs)}, comparison.name
    assert {command.program for comparison in TABLE for command in comparison.theirs} == set(PROGRAMS)


def machine(**changes: Any) -> Machine:
    facts: dict[str, Any] = {
        "measured_at": "2026-01-02T03:04:05+00:00",
        "volley": "0.1.0",
        "cpu": "Example CPU",
        "cores": [[0], [1]],
        "gpus": ["Example GPU", "Example GPU"],
        "driver": "999.1",
        "mpi": "Open MPI v5.0.11",
        "stack": "Open MPI 5.0.11 (wheel)",
        "load": 0.25,
    }
    return Machine(**{**facts, **changes})


def launches(times: list[tuple[float, float]]) -> list[Launch]:
    found: list[Launch] = []
    for ours, theirs in times:
        place = pretended(volley=outcome(n=ours), theirs=outcome(n=theirs))
        found += [
            Launch(**{**{name: getattr(each, name) for name in each.__struct_fields__}, "round": len(found) // 2})
            for each in measured(place, [PAIR], launches=1)
        ]
    return found


def test_a_row_is_the_median_of_ratios_over_rounds_of_all_sessions() -> None:
    both = [
        Session(machine(), launches([(1.00, 1.0), (1.01, 1.0), (0.99, 1.0)])),
        Session(machine(), launches([(2.00, 2.0), (2.02, 2.0), (1.98, 2.0)])),
    ]
    found = page.seen(ROW, PAIR, both)
    assert (found.value.count, found.value.kind) == (6, "ci")
    assert (found.value.low, found.value.median, found.value.high) == pytest.approx((0.99, 1.0, 1.01))
    assert page.line(ROW, found).endswith("| ≤ 1.02 | 1.495 s | 1.500 s | 1.000 × (0.9900–1.010) | 6 | yes |")


@pytest.mark.parametrize(
    ("ratios", "verdict"),
    [
        ([1.0] * 6, "yes"),
        ([1.0] * 5 + [1.5], "in the median"),
        ([1.0] + [1.5] * 5, "not in the median"),
        ([1.5] * 6, "no"),
    ],
)
def test_reached_means_the_whole_interval(ratios: list[float], verdict: str) -> None:
    found = page.seen(ROW, PAIR, [Session(machine(), launches([(ratio, 1.0) for ratio in ratios]))])
    assert page.line(ROW, found).endswith(f"| {verdict} |")


def test_a_row_without_figures_says_why() -> None:
    place = pretended(volley=GOOD, theirs=outcome("it ended | by SIGSEGV\x1b"))
    failed = page.line(ROW, page.seen(ROW, PAIR, [Session(machine(), measured(place, [PAIR]))]))
    assert "not measured: program: it ended ¦ by SIGSEGV\\x1b" in failed
    assert failed.endswith("| no |")
    assert "not measured: not launched" in page.line(ROW, page.seen(ROW, PAIR, []))
    other = pretended(volley=GOOD, theirs=outcome(m=1.0))
    lacking = page.seen(ROW, PAIR, [Session(machine(), measured(other, [PAIR]))])
    assert lacking.why_not == "no figure 'theirs/n'"


def test_a_number_with_nobody_beside_it_has_its_unit() -> None:
    row = Row("device 8 B", "", Asked(high=0.8e-6), of("volley", "n"))
    place = pretended(volley=outcome(n=0.75e-6), theirs=GOOD)
    shown = page.line(row, page.seen(row, PAIR, [Session(machine(), measured(place, [PAIR], launches=1))]))
    assert shown == "| device 8 B |  | ≤ 0.8000 µs | 0.7500 µs |  | 0.7500 µs | 1 | yes |"


def test_takes_combine() -> None:
    assert total(of("a", "x"), of("a", "y"))({"a/x": 1.0, "a/y": 2.0}) == 3.0
    assert rate(8, of("a", "x"))({"a/x": 2.0}) == 4.0


def test_records_come_back(tmp_path: Path) -> None:
    lines: list[Machine | Launch] = [machine(), *launches([(1.0, 2.0)]), machine(load=9.0)]
    path = tmp_path / "records.jsonl"
    path.write_bytes(b"".join(encode(line) for line in lines))
    first, second = read(path)
    assert [first.machine, *first.launches, second.machine] == lines
    with pytest.raises(ValueError, match="begin with a launch"):
        sessions([encode(lines[1])])


def test_the_page_says_programs_machines_and_every_row() -> None:
    text = page.page([Session(machine(), [])])
    for comparison in TABLE:
        for row in comparison.rows:
            assert f"| {row.what} | {row.against} |" in text
    assert "2 × Example GPU, driver 999.1; Example CPU" in text
    assert "no GPU" in page.page([Session(machine(gpus=[]), [])])


def test_the_page_has_a_line_for_sessions_of_one_machine() -> None:
    first, second, other = machine(load=0.5), machine(load=2.0, measured_at="2030-01-02T03:04:05Z"), machine(gpus=[])
    lines = list(page.machines([Session(each, []) for each in (first, other, second)]))
    assert len(lines) == 2
    day = first.measured_at.partition("T")[0]
    assert lines[0].endswith(f"; {day} and 2030-01-02; load at the start at most 2.00.")
