"""Bad input and bad days, end to end: a clear sentence, the right exit code, nothing lost."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from the_command import FEW, Command, Finished, alive, check_plan, engine_words, finish, finish_with, gone, until
from volley.benchmarks import BENCHMARKS
from volley.records.records_file import read_runs

# --------------------------------------------------------------------------------------------- bad input


def plan(**changes: Any) -> dict[str, Any]:
    few = {"options": {"sizes_bytes": [8, 64]}, "sampling": {"mode": "fixed", "iterations": 5}}
    return {"plan": 2, "benchmark": "pingpong", "transports": ["host"], **few, **changes}


def test_a_plan_of_a_later_version_is_refused_with_a_remedy(engine: Path) -> None:
    done = check_plan(engine, plan(plan=3, something_new=True))
    assert done.code == 2
    (line,) = done.err.splitlines()
    assert line.startswith("volley-engine: plan: $.plan: this plan has version 3, this engine reads version 2")


def test_a_dry_run_s_plan_is_one_that_the_engine_takes(here: Callable[..., Finished], engine: Path) -> None:
    shown = here("stream", "--dry-run", "--direction", "bi", "--sizes", "8:1Mi:x4", "--budget", "7")
    assert shown.code == 0
    assert check_plan(engine, shown.out).code == 0
    assert 0 < json.loads(shown.out)["budget_s"] < 7  # of the first of several launches


@pytest.mark.parametrize("words", [("collective",), ("overlap", "--computation", "arithmetic")])
def test_an_excluded_operation_of_a_transport_is_skipped_and_the_others_are_measured(
    volley: Command, words: tuple[str, ...]
) -> None:
    few = ("-t", "host", "--sizes", "64", "--launches", "1", "--point-time", "0.02", "--dry-run")
    plan = json.loads(volley(*words, "--operation", "allreduce,allgather", *few).out)
    plan["excluded"] = {"host allreduce": "it crashed"}
    done = finish_with([*volley.mpirun(2), *engine_words(volley.engine)], json.dumps(plan))
    points = [each for each in map(json.loads, done.out.splitlines()) if each["record"] == words[0]]
    assert {(each["operation"], each["status"], each["reason"]) for each in points} == {
        ("allreduce", "skipped", "it crashed"),
        ("allgather", "ok", None),
    }


def test_gpus_are_refused_where_there_are_none(volley: Command) -> None:
    done = volley("pingpong", *FEW, "--gpus", "1,0", CUDA_VISIBLE_DEVICES="")
    assert (done.code, done.out) == (3, "")
    assert done.err == "volley: --gpus 1,0: no NVIDIA GPU can be used here; volley doctor looks for the cause\n"


# ---------------------------------------------------------------------------------------------- bad days


def test_a_rank_that_stops_is_named(volley: Command) -> None:
    done = volley("pingpong", "--transport", "host,host+hang", "--sizes", "100", "--iterations", "5", "--watchdog", "1")
    assert done.code == 1
    assert "INCOMPLETE" in done.out + done.err
    said = "volley: the run was aborted: watchdog: rank "
    assert said in done.err
    reason = done.err.split(said)[1]
    for part in ("of 2 made no progress for 1 s", "transport host+hang", "pair 0-1", "100 B", "pingpong"):
        assert part in reason


def as_ranks(volley: Command, first: Sequence[str], second: Sequence[str], text: str) -> Finished:
    """A job of two engines with command lines of their own; the first reads ``text``."""
    launcher = volley.mpirun(2)
    launcher[launcher.index("2")] = "1"
    return finish_with([*launcher, *first, ":", "-n", "1", *second], text)


@pytest.mark.slow
def test_only_the_first_rank_opens_the_file_of_the_records(volley: Command, tmp_path: Path) -> None:
    records = tmp_path / "records"
    first, second = ([*engine_words(volley.engine), "--records", str(path)] for path in (records, "/proc/no/file"))
    done = as_ranks(volley, first, second, json.dumps(plan()))
    assert done.code == 0, done.err
    assert records.read_text().splitlines()[-1].startswith('{"record":"end"')
    done = as_ranks(volley, second, first, json.dumps(plan()))
    assert done.code != 0
    assert "volley-engine: rank 0: records cannot be written to /proc/no/file: No such file" in done.err


def test_an_error_before_the_ranks_know_each_other_names_its_rank(volley: Command) -> None:
    bound = [*engine_words(volley.engine), "--bind"]
    done = as_ranks(volley, bound, ["env", "OMPI_COMM_WORLD_LOCAL_RANK=0", *bound], json.dumps(plan()))
    assert done.code != 0
    assert (
        "volley-engine: rank 1: the launcher's variables say that this process is local rank 0, but MPI says 1"
        in done.err
    )


def test_a_follower_without_anybody_to_follow_ends_the_job(volley: Command) -> None:
    """The front end is another rank than MPI's rank 0: rank 0 has no plan, and the other rank waits for it."""
    front = engine_words(volley.engine)
    follower = [*front[:3], "--follower"]
    done = as_ranks(volley, follower, front, json.dumps(plan()))
    assert done.code != 0
    assert "volley-engine: rank 0: no plan" in done.err


def compiled(folder: Path, function: str) -> Path:
    """A library with a function that takes the place of MPI's."""
    source, library = folder / "hang.c", folder / "hang.so"
    source.write_text(f"#include <fcntl.h>\n#include <unistd.h>\n{function}\n")
    subprocess.run([os.environ.get("CC", "cc"), "-shared", "-fPIC", "-o", library, source], check=True)
    return library


@pytest.mark.slow
def test_a_rank_that_hangs_at_the_end_of_mpi_is_ended(engine: Path, tmp_path: Path) -> None:
    library = compiled(tmp_path, "int MPI_Finalize(void) { return pause(); }")
    alone = {"plan": 2, "benchmark": "self_send", "transports": ["host"], "world_size": 1, "watchdog_s": 1}
    command = ["env", f"LD_PRELOAD={library}", *engine_words(engine)]
    done = finish_with(command, json.dumps({**alone, "options": {"sizes_bytes": []}}))
    assert done.code == 4
    assert "watchdog: rank 0 of 1 made no progress for 1 s in MPI_Finalize" in done.err
    assert '{"record":"end"' in done.out


def test_a_rank_that_hangs_in_mpi_init_ends_with_its_launcher(engine: Path, tmp_path: Path) -> None:
    there = tmp_path / "in MPI_Init"
    hang = f'{{ creat("{there}", 0600); return pause(); }}'
    library = compiled(tmp_path, f"int MPI_Init_thread(int *a, char ***b, int c, int *d) {hang}")
    script = '"$@" </dev/null & echo $!; wait'
    variables = {**os.environ, "OMPI_COMM_WORLD_LOCAL_RANK": "0", "LD_PRELOAD": str(library)}
    command = ["sh", "-c", script, "sh", *engine_words(engine)]
    with subprocess.Popen(command, env=variables, stdout=subprocess.PIPE) as launcher:
        rank = int(launcher.stdout.readline())
        until(there.exists, "the rank does not come to MPI_Init")
        assert alive(rank)
        launcher.kill()
        gone(rank)


def test_a_transport_that_one_rank_cannot_open_is_left_out_and_the_others_go_on(volley: Command) -> None:
    """The other rank waits for it within the opening, for longer than the test may take: it is not left there."""
    done = volley("pingpong", "--transport", "host,host+unopened", *FEW, "--watchdog", "600", "--format", "csv")
    assert done.code == 3  # it was asked for by name
    assert [line.split(",")[0] for line in done.out.splitlines()[1:]] == ["host", "host"]
    assert "host+unopened (test: the second rank cannot open it) is unavailable: " in done.err
    assert "std::bad_alloc (rank 1)" in done.err


@pytest.mark.slow
def test_a_message_larger_than_memory_is_skipped_and_the_rest_goes_on(volley: Command) -> None:
    done = volley("pingpong", "--sizes", "100,4Ei,200", "--iterations", "5", "--format", "csv")
    assert done.code == 0, done.err
    rows = [line.split(",") for line in done.out.splitlines()[1:]]
    assert [row[8] for row in rows if row[1] in ("100", "200")] == ["ok", "ok"]
    (skipped,) = (row for row in rows if row[8] == "skipped")
    assert "memory" in skipped[-1] or "memory" in done.err


SWEEP = ("pingpong", "--sizes", "128:8k:+8", "--point-time", "0.05", "--ci", "0.0001%", "--format", "csv")
"""Nobody waits for its end."""


def when_measured(
    volley: Command,
    records: Path,
    act: Callable[[int], None],
    words: Sequence[str] = SWEEP,
    there: tuple[str, int] = ("pingpong", 3),
    **variables: str,
) -> Finished:
    """Start a run, and ``act`` on its process once so many records of a type are ``there``."""
    process = volley.start(*words, "-o", str(records), **variables)
    kind, number = there

    def measured() -> bool:
        assert process.poll() is None, process.communicate()
        return records.exists() and records.read_bytes().count(f'"record":"{kind}"'.encode()) >= number

    until(measured, "nothing was measured")
    act(process.pid)
    return finish(process)


def ranks_of(records: Path) -> list[int]:
    """The ranks' process numbers, from the last run in the file."""
    (*_, log) = read_runs(records, BENCHMARKS)
    return [rank.pid for rank in log.run.ranks]


def test_what_was_measured_before_ctrl_c_is_kept_and_shown(volley: Command, tmp_path: Path) -> None:
    records = tmp_path / "out.jsonl"
    done = when_measured(volley, records, lambda pid: os.kill(pid, signal.SIGINT))
    assert done.code == 130
    assert done.out.splitlines()[1].startswith("host,128,")
    assert "stopped by" in done.err
    assert done.err.splitlines()[-1] == f"records: {records}"
    gone(*ranks_of(records))
    shown = volley("show", str(records), "--format", "csv")
    assert shown.out.splitlines()[1].startswith("host,128,")


@pytest.mark.slow
@pytest.mark.parametrize("rank", [0, 1])
def test_a_killed_rank_leaves_what_was_measured(volley: Command, tmp_path: Path, rank: int) -> None:
    records = tmp_path / "out.jsonl"
    killed: list[int] = []

    def kill(_pid: int) -> None:
        killed.extend(ranks_of(records))
        os.kill(killed[rank], signal.SIGKILL)

    done = when_measured(volley, records, kill)
    assert done.code == 1
    assert done.out.splitlines()[1].startswith("host,128,")
    assert "INCOMPLETE" in done.err
    assert "volley: the run was aborted" in done.err
    assert "Killed" in done.err  # the launcher's words: the engine could not say anything
    gone(*killed)


@pytest.fixture
def scratch(tmp_path: Path) -> dict[str, str]:
    """Variables that put the temporary files of the launcher and of its ranks into a folder of the test."""
    folder = tmp_path / "scratch"
    folder.mkdir()
    return {"TMPDIR": str(folder), "OMPI_MCA_btl_sm_backing_directory": str(folder)}


def nothing_left(scratch: dict[str, str]) -> None:
    """Wait until that folder is empty: the launcher cleans up."""
    until(lambda: not any(Path(scratch["TMPDIR"]).iterdir()), "files are left behind")


@pytest.mark.slow
def test_nothing_outlives_a_front_end_that_was_killed(volley: Command, tmp_path: Path, scratch: dict[str, str]) -> None:
    records = tmp_path / "out.jsonl"
    done = when_measured(volley, records, lambda pid: os.kill(pid, signal.SIGKILL), **scratch)
    assert done.code == -signal.SIGKILL
    gone(*ranks_of(records))
    nothing_left(scratch)
    assert volley("show", str(records), "--format", "csv").out.splitlines()[1].startswith("host,128,")


@pytest.mark.slow
def test_ranks_do_not_outlive_their_launcher(volley: Command, tmp_path: Path) -> None:
    records = tmp_path / "out.jsonl"

    def kill(_pid: int) -> None:
        launcher = Path(f"/proc/{ranks_of(records)[0]}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[1]
        os.kill(int(launcher), signal.SIGKILL)

    scratch = tmp_path / "scratch"
    scratch.mkdir()
    done = when_measured(volley, records, kill, TMPDIR=str(scratch))
    assert done.code == 1
    assert "INCOMPLETE" in done.err
    gone(*ranks_of(records))
    assert list(scratch.iterdir()) == []


def test_a_second_ctrl_c_ends_a_rank_that_hangs_and_leaves_nothing(
    volley: Command, tmp_path: Path, scratch: dict[str, str]
) -> None:
    records = tmp_path / "out.jsonl"
    words = ("pingpong", "--transport", "host,host+hang", "--sizes", "100", "--iterations", "5", "--watchdog", "600")

    def interrupt_twice(pid: int) -> None:
        for _ in range(2):
            os.kill(pid, signal.SIGINT)
            time.sleep(0.2)

    assert when_measured(volley, records, interrupt_twice, words, ("transport", 2), **scratch).code == 130
    gone(*ranks_of(records))
    nothing_left(scratch)


@pytest.mark.slow
def test_ctrl_c_while_pairs_are_measured_again_keeps_both_launches(volley: Command, tmp_path: Path) -> None:
    records = tmp_path / "out.jsonl"
    words = ("matrix", "--ranks", "4", "--transport", "host+delay", "--latency", "8", "--bandwidth", "none")
    more = ("--visits", "1", "--point-time", "0.02", "--remeasure")
    done = when_measured(volley, records, lambda pid: os.kill(pid, signal.SIGINT), words + more, ("run", 2))
    assert done.code == 130
    assert "stopped by Ctrl-C" in done.err
    assert done.err.splitlines()[-1] == f"records: {records}"
    assert "host+delay, 8 B: latency in µs" in done.out
    first, again = read_runs(records, BENCHMARKS)
    assert (first.complete, again.complete) == (True, False)
    assert len(first.records) == 4


@pytest.mark.slow
def test_a_second_run_does_not_write_into_the_records_of_the_first(volley: Command, tmp_path: Path) -> None:
    records = tmp_path / "out.jsonl"
    refused = []

    def begin_another(pid: int) -> None:
        refused.append(volley("pingpong", *FEW, "-o", str(records)))
        os.kill(pid, signal.SIGINT)

    when_measured(volley, records, begin_another)
    assert [done.code for done in refused] == [2]
    assert f"another volley is writing its records to {records}: wait for it" in refused[0].err
    (log,) = read_runs(records, BENCHMARKS)
    assert not log.problems


def test_an_environment_without_a_home_is_enough_and_secrets_in_it_are_not_recorded(volley: Command) -> None:
    secrets = {"CUDA_API_KEY": "hunter2", "UCX_TOKEN": "hunter2", "NCCL_password": "hunter2"}
    known = {"UCX_LOG_LEVEL": "error", "UCX_IB_PKEY": "0x7fff"}  # a partition key is none
    done = volley("pingpong", *FEW, before=("env", "-u", "HOME"), **known, **secrets)
    assert done.code == 0, done.err
    (log,) = done.records
    assert known.items() <= log.run.environment.items()
    assert not secrets.keys() & log.run.environment.keys()
