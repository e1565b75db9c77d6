"""The exit code and the messages of a launch, from its records or from how it ended."""

from typing import Any

import pytest

import example_records
from volley.benchmarks import named, read
from volley.benchmarks.matrix import GPUS
from volley.command.options import JobOptions
from volley.launch.engine import Ending
from volley.records.plan import OUT_OF_TIME
from volley.records.record_types import End, Status
from volley.records.run_log import RunLog
from volley.run.outcome import RunOutcome, judge

MEASURED, SKIPPED = example_records.pingpong([1e-6] * 6), example_records.pingpong(status="skipped", reason="too long")
GOOD = example_records.log(MEASURED)
LACKING = example_records.log(
    MEASURED, transports=[example_records.transport(), example_records.transport("aware", available=False)]
)
BARE = RunLog(run=example_records.run())


def failed(reason: str | None, *records: Any) -> RunLog:
    return RunLog(run=BARE.run, records=list(records), end=End(status="failed", reason=reason, elapsed_s=1.0))


@pytest.mark.parametrize(
    ("log", "ending", "code", "lines", "ends"),
    [
        (GOOD, Ending(0, (), ("[warning]",)), 0, ["[warning]"], False),
        (GOOD, Ending(3, ("no peer access",), ()), 3, [], False),  # of a rank other than the first
        (
            GOOD,
            Ending(1, (), ("x",)),
            1,
            ["x", "volley: all points were measured, but the job ended with status 1"],
            False,
        ),
        (LACKING, Ending(0, (), ()), 3, ["volley: asked for and not measured: aware (exit code 3)"], False),
        (example_records.log(SKIPPED), Ending(0, (), ()), 3, ["volley: every point was skipped"], True),
        (failed("an \x1b end", MEASURED), Ending(3, (), ()), 1, ["volley: an \\x1b end"], False),
        (failed("no GPU"), Ending(3, (), ()), 3, ["volley: no GPU"], False),
        (BARE, Ending(2, ("no plan",), ()), 2, ["volley: no plan", "volley: use mpirun"], True),
        (BARE, Ending(3, ("no GPU",), ()), 3, ["volley: no GPU"], True),
        (
            BARE,
            Ending(1, tuple("abcdef"), ()),
            1,
            ["volley: the run was aborted: a; b; c; d; and 2 more messages of ranks"],
            True,
        ),
        (BARE, Ending(2, (), ()), 1, ["volley: the run was aborted: the job ended with status 2"], True),
        (
            RunLog(run=BARE.run, records=[MEASURED]),
            Ending(2, ("no plan",), ()),
            1,
            ["volley: the run was aborted: no plan"],
            True,
        ),
        (
            BARE,
            Ending(134, (), tuple(map(str, range(20)))),
            1,
            [*map(str, range(5, 20)), "volley: the run was aborted: the job ended with status 134 (SIGABRT)"],
            True,
        ),
    ],
)
def test_the_outcome_follows_from_the_records_or_else_from_how_the_job_ended(
    log: RunLog, ending: Ending, code: int, lines: list[str], ends: bool
) -> None:
    asked = [{"host"}, {"aware"}]
    assert judge(log, ending, named("pingpong"), asked, "use mpirun") == RunOutcome(code, tuple(lines), ends)


@pytest.mark.parametrize(
    ("log", "ending", "code", "said"),
    [
        (RunLog(), Ending(127, (), ("no libmpi",)), 3, "the engine does not start: no libmpi"),
        (RunLog(), Ending(127, ("no libmpi",), ()), 3, "the engine does not start: no libmpi"),
        (RunLog(), Ending(1, (), ()), 3, "the engine does not start: status 1"),
        (RunLog(), Ending(1, ("it throws",), ()), 3, "the run did not begin: it throws"),
        (RunLog(), Ending(-9, (), (), "the engine"), 3, "the run did not begin: the engine was killed by SIGKILL"),
        (BARE, Ending(1, (), ()), 1, "the run was aborted: the job ended with status 1"),
    ],
)
def test_an_engine_without_a_launcher_does_not_start_or_is_aborted(
    log: RunLog, ending: Ending, code: int, said: str
) -> None:
    started = log.run is not None or "not start" in said
    more = () if started else ("volley: volley doctor looks for the cause",)
    expected = RunOutcome(code, (f"volley: {said}", *more), ends_session=True)
    assert judge(log, ending, GPUS, [], None) == expected


def test_doctor_is_asked_about_the_hosts_and_the_mpi_of_the_run() -> None:
    job = JobOptions(hosts=("a", "a", "b"), mpi="mpich")
    lines = judge(RunLog(), Ending(255, (), ("no route",)), named("pingpong"), [], None, job=job).lines
    assert lines[-1] == "volley: volley doctor --hosts a,b --mpi mpich looks for the cause"


def test_the_words_that_explain_the_others_are_in_the_sentence() -> None:
    said = ("ssh: Could not resolve hostname b: Name or service not known", "[mpiexec@a] Launch proxy failed.")
    lines = judge(RunLog(), Ending(255, (), said), named("pingpong"), [], None).lines
    assert "ended with status 255: Could not resolve hostname b" in lines[-2]


def test_a_setting_that_a_warning_names_is_in_the_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMPI_MCA_btl_tcp_if_include", "eth0")
    said = ("WARNING: An invalid value was given for btl_tcp_if_include.  This", "-" * 40, "No route.", "-" * 40)
    lines = judge(RunLog(), Ending(17, (), said), named("pingpong"), [], None).lines
    assert lines[-1].endswith("in this shell: OMPI_MCA_btl_tcp_if_include=eth0; volley doctor tries without")


@pytest.mark.parametrize(
    ("words", "scan", "why", "code"),
    [
        ("", "skipped", "NCCL has no scan", 0),  # nobody asked for it by name
        ("--transport host", "skipped", "NCCL has no scan", 0),
        ("--transport host,nccl", "skipped", "NCCL has no scan", 3),
        ("--operation scan,allreduce", "skipped", "NCCL has no scan", 3),
        ("--operation scan,allreduce", "skipped", OUT_OF_TIME, 0),
        ("--operation scan,allreduce", "failed", "a wrong byte", 1),
        ("--operation allreduce --element half", "skipped", "NCCL has no scan", 0),
        ("--operation scan --element half", "skipped", "no type for half", 3),
    ],
)
def test_what_was_asked_for_by_name_and_is_nowhere_decides_the_exit_code(
    words: str, scan: Status, why: str, code: int
) -> None:
    benchmark, options = read(["collective", *words.split()])
    here = example_records.collective("allreduce", [1e-6] * 6)
    there = example_records.collective("scan", [], transport="nccl", status=scan, reason=why)
    asked = [{each} for each in options.named_transports]
    operations = options.named_operations
    assert (
        judge(example_records.log(here, there), Ending(0, (), ()), benchmark, asked, None, operations=operations).code
        == code
    )
