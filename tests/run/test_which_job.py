"""From options to transports and ranks, and what volley without a command measures."""

import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from the_session import ABOUT_FAKE, read_runs
from volley.benchmarks import plain
from volley.benchmarks import read as read_command
from volley.command.options import JobOptions
from volley.errors import UserError
from volley.launch.engine import TransportAbout
from volley.launch.inside_launcher import RankInfo
from volley.launch.start import left_over
from volley.run import session
from volley.run.jobs import JobContext, choose_transports, count_pair, count_ranks
from volley.run.launches import FIRST_SHARE
from volley.statistics.launches import FIRST_LOOK


@pytest.mark.parametrize(
    ("asked", "names"),
    [
        ((), ["host", "staged/pinned", "staged/shared"]),
        (("null",), ["null"]),
        (("all",), ["host", "host/put", "host/put/fence", "null", "staged/pinned", "staged/shared"]),
        (("staged", "host"), ["staged/pinned", "staged/shared", "host"]),
        (
            ("host+flip", "all"),
            ["host+flip", "host", "host/put", "host/put/fence", "null", "staged/pinned", "staged/shared"],
        ),
        (("put",), ["host/put", "host/put/fence"]),
        (("fence", "host/put"), ["host/put/fence", "host/put"]),
        (("host", "host"), ["host"]),
    ],
)
def test_transports_by_name_part_of_a_name_and_all(asked: tuple[str, ...], names: list[str]) -> None:
    assert choose_transports(asked, JobContext(ABOUT_FAKE)) == names


def test_all_contains_no_threads_which_change_how_mpi_is_started() -> None:
    threads = [TransportAbout(f"host/threads/{number}", "", mpi=True, memory="host", usual=False) for number in (2, 4)]
    context = JobContext(msgspec.structs.replace(ABOUT_FAKE, transports=(*ABOUT_FAKE.transports, *threads)))
    assert choose_transports(("all",), context) == choose_transports(("all",), JobContext(ABOUT_FAKE))
    assert choose_transports(("host", "threads"), context) == ["host", "host/threads/2", "host/threads/4"]
    assert choose_transports(("host/threads/4+flip",), context) == ["host/threads/4+flip"]


def test_an_unknown_transport_names_the_nearest_and_all_but_the_test_transports() -> None:
    with pytest.raises(UserError, match=r"'hots'; did you mean host\?") as caught:
        choose_transports(("hots",), JobContext(ABOUT_FAKE))
    assert "staged/shared" in str(caught.value)
    assert "+flip" not in str(caught.value)
    with pytest.raises(UserError, match=r"there is no transport 'host\+flop'"):
        choose_transports(("host+flop",), JobContext(ABOUT_FAKE))


@pytest.mark.parametrize(
    ("ranks", "place", "words"),
    [
        (3, None, "--ranks 2"),
        (1, None, "not 1"),
        (4, None, "stream needs 2"),
        (None, RankInfo(0, 3, "openmpi"), "this job has 3: start it with -n 2"),
        (None, RankInfo(0, 1, "srun"), "--launcher"),
        (2, RankInfo(0, 4, "srun"), "does not fit this job of 4 ranks"),
    ],
)
def test_a_wrong_number_of_ranks_names_the_right_one(ranks: int | None, place: RankInfo | None, words: str) -> None:
    with pytest.raises(UserError, match=words):
        count_pair(JobOptions(ranks=ranks), JobContext(ABOUT_FAKE, place), "stream")


def test_the_number_of_ranks_is_the_launcher_s_or_the_one_asked_for() -> None:
    assert count_ranks(JobOptions(ranks=4), JobContext(ABOUT_FAKE), usual=2) == 4
    assert count_ranks(JobOptions(), JobContext(ABOUT_FAKE, RankInfo(0, 3, "pmix")), usual=2) == 3
    unknown = JobContext(ABOUT_FAKE, RankInfo(0, None, "pmix"))  # the engine counts, where the launcher does not say
    assert count_ranks(JobOptions(), unknown, usual=2) == 2
    assert count_ranks(JobOptions(hosts=("a", "b", "c")), JobContext(ABOUT_FAKE), usual=2) == 3


def test_plain_volley_measures_within_a_minute_what_is_worth_measuring(
    bin_folder: Path, kept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plain, "gpu_count", lambda: 2)
    assert session.measure(read_command([])) == 0
    logs = read_runs(next(kept.iterdir()))
    assert len(logs) == FIRST_LOOK  # of the stand-in's constant times
    (first, *_, last) = [log.run.plan for log in logs if log.run]
    assert 0 < first.budget_s < 60.0 / FIRST_SHARE  # the budget counts from the start of the command
    assert last.budget_s
    assert first.transports == ["host", "staged/pinned", "staged/shared"]
    assert max(first.options.sizes_bytes) == 1 << 30
    assert first.sampling.size_time_s == 60 / (2 * FIRST_LOOK)


@pytest.mark.parametrize(
    ("words", "gpus", "job", "parts"),
    [
        ([], 4, "", [("gpu_matrix", plain.SECTIONS, 60), ("pingpong", 1 << 30, 60)]),
        (["--budget", "30"], 4, "", [("gpu_matrix", plain.SECTIONS, 30), ("pingpong", 1 << 30, 30)]),
        ([], 1, "", [("gpu_matrix", plain.ONE_GPU_SECTIONS, 30), ("pingpong", 64 << 20, 30)]),
        (["--budget", "40"], 1, "", [("gpu_matrix", plain.ONE_GPU_SECTIONS, 40), ("pingpong", 64 << 20, 40)]),
        ([], 2, "", [("pingpong", 1 << 30, 60)]),
        (["--hosts", "a,b"], 0, "", [("pingpong", 1 << 30, 60)]),
        (["--launcher", "srun"], 4, "", [("pingpong", 1 << 30, 60)]),
        (["-f", "olcf"], 4, "", [("pingpong", 1 << 30, 60)]),
        ([], 0, "", [("pingpong", 64 << 20, 10)]),
        (["--budget", "40"], 0, "", [("pingpong", 64 << 20, 40)]),
        ([], 0, "1", [("pingpong", 1 << 30, 60)]),  # other nodes of the job may have GPUs
    ],
)
def test_plain_volley_measures_what_the_machine_has(
    bin_folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    words: list[str],
    gpus: int,
    job: str,
    parts: list[tuple[str, Any, float]],
) -> None:
    monkeypatch.setattr("volley.benchmarks.matrix.has_driver", lambda: True)
    if job:
        monkeypatch.setenv("SLURM_JOB_ID", job)
    asked = plain.COMMAND.parse([*words, "--dry-run"])
    found = plain.parts(asked, gpus)
    what = [options.sections if hasattr(options, "sections") else max(options.points.sizes) for _, options in found]
    assert [(benchmark.name, each) for (benchmark, _), each in zip(found, what, strict=True)] == [
        part[:2] for part in parts
    ]
    assert sum(options.sampling.budget for _, options in found) == pytest.approx(parts[0][2])
    assert all(options.output == asked.output and options.job.dry_run for _, options in found)


def test_few_variables_of_ranks_may_be_left_over_in_a_shell(monkeypatch: pytest.MonkeyPatch, bin_folder: Path) -> None:
    monkeypatch.setattr(sys, "argv", ["volley", "pingpong", "-s", "8"])
    assert left_over() == ""
    monkeypatch.setenv("PMI_RANK", "0")
    assert left_over() == (
        "; if no launcher started it, PMI_RANK is left over in this shell: env -u PMI_RANK volley pingpong -s 8"
    )
    for number in range(10):  # a launcher started it
        monkeypatch.setenv(f"PMI_{number}", "0")
    assert left_over() == ""
