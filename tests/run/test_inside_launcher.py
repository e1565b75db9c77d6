"""``mpirun -n 2 volley …``: volley becomes the ranks, and one of them renders."""

import os
import re
import shlex
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from fake_engine import install
from the_command import FEW, Command, Finished, imports_of, program
from volley import cli
from volley.launch import inside_launcher
from volley.launch.inside_launcher import has_launcher, rank_info, scrubbed
from volley.launch.start import ONE_LAUNCH

# ------------------------------------------------------------------------------------------ noticing it

STEP = {"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0", "SLURM_PROCID": "1", "SLURM_STEP_NUM_TASKS": "2"}


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, None),
        # what Open MPI 5.0.11 and 4.1.4 set (among much else)
        ({"PMIX_RANK": "1", "OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2"}, (1, 2, "openmpi")),
        # hydra of MPICH 4.0.2 and 5.0.2
        ({"PMI_RANK": "0", "PMI_SIZE": "4", "PMI_FD": "9", "MPI_LOCALNRANKS": "4"}, (0, 4, "mpich")),
        # Slurm 22.05: srun --mpi=none, pmix, pmi2
        (STEP, (1, 2, "srun")),
        ({**STEP, "PMIX_RANK": "1"}, (1, 2, "srun")),
        ({**STEP, "PMI_RANK": "1", "PMI_SIZE": "2", "PMI_FD": "10"}, (1, 2, "srun")),
        # a batch script, and the shell of salloc with use_interactive_step
        ({"SLURM_JOB_ID": "7", "SLURM_PROCID": "0", "SLURM_NTASKS": "2"}, None),
        ({**STEP, "SLURM_STEP_ID": "4294967290", "PMIX_RANK": "0"}, None),
        # mpirun in such a shell
        ({**STEP, "SLURM_STEP_ID": "4294967290", "OMPI_COMM_WORLD_RANK": "0"}, (0, None, "openmpi")),
        ({"JSM_NAMESPACE_RANK": "1", "JSM_NAMESPACE_SIZE": "2", "OMPI_COMM_WORLD_RANK": "1"}, (1, 2, "jsrun")),
        ({"PMIX_RANK": "3"}, (3, None, "pmix")),
        ({"PMI_RANK": "3", "PMI_SIZE": "4"}, (3, 4, "pmi")),
        ({"FLUX_TASK_LOCAL_ID": "1", "PMI_RANK": "3", "PMI_SIZE": "4"}, (3, 4, "pmi")),
        ({"MV2_COMM_WORLD_RANK": "1", "MV2_COMM_WORLD_SIZE": "2"}, (1, 2, "pmi")),
        ({"PALS_RANKID": "1"}, (1, None, "pmi")),
        ({"PMI_RANK": "", "OMPI_COMM_WORLD_RANK": "x"}, None),
        ({"OMPI_COMM_WORLD_RANK": "9" * 5000}, None),
    ],
)
def test_rank_info(environment: dict[str, str], expected: tuple[int, int | None, str] | None) -> None:
    place = rank_info(environment)
    assert (place and (place.rank, place.size, place.launcher)) == expected


def test_a_scrubbed_environment_is_nobody_s_rank_and_keeps_what_the_user_set() -> None:
    mine = {"PATH": "/bin", "OMPI_MCA_btl": "tcp,self", "UCX_TLS": "tcp", "SLURM_JOB_ID": "7", "SLURM_NTASKS": "2"}
    theirs = {**STEP, "PMIX_RANK": "0", "PMIX_NAMESPACE": "x", "OMPI_COMM_WORLD_RANK": "0", "PMI_FD": "9"}
    theirs |= {"OMPI_MCA_ess_base_jobid": "1", "OMPI_MCA_orte_launch": "1", "MPI_LOCALNRANKS": "2"}
    theirs |= {"FLUX_TASK_LOCAL_ID": "1", "PALS_LOCAL_RANKID": "1", "MV2_COMM_WORLD_LOCAL_RANK": "1"}
    del theirs["SLURM_JOB_ID"]
    assert scrubbed({**mine, **theirs}) == mine


SETTINGS = {
    "PRTE_MCA_plm_ssh_agent": "rsh",
    "PMIX_MCA_psec": "native",
    "HYDRA_LAUNCHER": "ssh",
    "HYDRA_LAUNCHER_EXEC": "/a",
    "OMPI_MCA_orte_default_hostfile": "/hosts",
    "PMI_DEBUG": "1",
    "PALS_PMI": "cray",
    "OMPI_MCA_pmix": "ext3x",
}


def test_the_settings_of_a_user_are_kept_outside_of_a_job_of_ranks() -> None:
    mine = {"PATH": "/bin", **SETTINGS}
    assert scrubbed(mine) == mine
    assert scrubbed({**mine, "SLURM_JOB_ID": "7", "SLURM_PROCID": "0"}) == {**mine, "SLURM_JOB_ID": "7"}
    shell = {**mine, **STEP, "SLURM_STEP_ID": "4294967290", "PMIX_RANK": "0", "PMI_FD": "9"}
    assert scrubbed(shell) == {**mine, "SLURM_JOB_ID": "7"}
    hydra = {"HYDRA_LAUNCHER": "ssh", "HYDRA_LAUNCHER_EXEC": "/a"}  # hydra sets none of these for its ranks
    assert scrubbed({**mine, "PMIX_RANK": "0"}) == {"PATH": "/bin", **hydra}


@pytest.mark.parametrize(
    "words",
    [(), ("--budget", "5"), ("pingpong", "--sizes", "8"), ("matrix", "--ranks", "2"), ("transports",), ("doctor",)],
)
def test_commands_that_start_the_engine_make_engines_of_all_ranks(words: tuple[str, ...]) -> None:
    request = cli.read(words)
    assert request[0].joins(request[1])


@pytest.mark.parametrize(
    "words",
    [
        ("show", "x"),
        ("batch", "--scheduler", "slurm", "--", "pingpong"),
        ("--version",),
        ("stream", "--dry-run"),
        ("pingpong", "--launcher", "openmpi"),
        ("pingpong", "--launcher=mpich"),
        ("matrix", "--section", "uni"),  # one process has all GPUs, and it is no rank
        ("matrix", "--format=cuda-samples"),
        ("doctor", "--from", "x"),
    ],
)
def test_other_commands_leave_the_ranks_alone(words: tuple[str, ...]) -> None:
    request = cli.read(words)
    assert not request[0].joins(request[1])


# ------------------------------------------------------------------------------------------ becoming the ranks


@pytest.mark.parametrize("before", ["mpirun", "alone"])
def test_one_rank_renders(volley: Command, before: str) -> None:
    launcher = volley.mpirun(2) if before == "mpirun" else ()
    done = volley("pingpong", *FEW, "--format", "csv", before=launcher, TERM="xterm-256color", FORCE_COLOR="")
    assert done.code == 0, done.err
    assert "\x1b" not in done.out + done.err  # though Open MPI gives each rank a terminal
    assert len(done.out.splitlines()) == 3
    (log,) = done.records
    assert log.complete
    assert log.run.plan.launch["inside"] == (before == "mpirun")
    assert [rank.bound_by == "engine" for rank in log.run.ranks] == [before == "alone"] * 2


def test_wrong_data_is_reported_though_another_rank_has_found_it(volley: Command) -> None:
    """mpirun ends the job where a rank ends with a status, as the front end does at the end."""
    done = volley("pingpong", "-t", "host+flip", *FEW, before=volley.mpirun(2))
    assert done.code == 1
    assert "FAILED" in done.out
    assert f"records: {done.records[0].file}" in done.err


@pytest.mark.slow
def test_any_number_of_ranks_can_be_asked_what_works(volley: Command) -> None:
    for before, words, ranks in (
        (volley.mpirun(1), (), 1),
        (volley.mpirun(4), (), 4),
        ((), ("--ranks", "1"), 1),
    ):
        done = volley("transports", *words, before=before)
        assert done.code == 0, done.err
        (log,) = done.records
        assert len(log.run.ranks) == ranks


@pytest.mark.parametrize("words", [("--help",), ("--version",), ("pingpong", *FEW, "--dry-run")])
def test_what_needs_no_ranks_is_said_once(
    volley: Command, here: Callable[..., Finished], words: tuple[str, ...]
) -> None:
    alone, together = here(*words), volley(*words, before=volley.mpirun(2))
    assert together.code == alone.code == 0, together.err
    first = next(line for line in alone.out.splitlines() if line.strip())
    assert together.out.splitlines().count(first) == 1


@pytest.mark.parametrize(
    ("ranks", "words", "sentence"),
    [
        (1, ("pingpong", *FEW), "pingpong needs 2 ranks and this job has 1: start it with -n 2"),
        (3, ("pingpong", *FEW), "pingpong needs 2 ranks and this job has 3: start it with -n 2"),
        (2, ("pingpong", *FEW, "--launches", "2"), f"2 launches: {ONE_LAUNCH}"),
        (2, ("tune", "--sizes", "8"), f"3 launches: {ONE_LAUNCH}"),
        (2, ("compare", "--live", "volley pingpong", "volley pingpong"), f"--live: {ONE_LAUNCH}"),
        (2, ("pingpong", "--sizes", "8x"), "is not a message size"),
    ],
)
def test_what_a_launcher_s_job_cannot_be_is_said_once_and_nobody_hangs(
    volley: Command, ranks: int, words: tuple[str, ...], sentence: str
) -> None:
    done = volley(*words, before=volley.mpirun(ranks))
    assert (done.code, done.out) == (2, "")
    assert done.err.count(sentence) == 1


def test_a_launcher_asked_for_starts_its_own_job_from_the_first_rank_alone(volley: Command) -> None:
    done = volley("pingpong", *FEW, "--launcher", "openmpi", "--format", "csv", before=volley.mpirun(2))
    assert done.code == 0, done.err
    assert len(done.out.splitlines()) == 3
    (log,) = done.records
    assert log.run.plan.launch["inside"] is False


def job_with_jsrun(folder: Path, then: str) -> dict[str, str]:
    """The environment of a script of an LSF job, with a jsrun that notes what it is asked for."""
    jsrun = program(folder / "jsrun/jsrun", f'echo "$*" >> {folder}/asked\n{then}')
    path = f"{jsrun.parent}{os.pathsep}{os.environ['PATH']}"
    return {"LSB_JOBID": "7", "LSB_MCPU_HOSTS": "batch1 1 a01 42", "CSM_ALLOCATION_ID": "9", "PATH": path}


def test_where_jsrun_is_the_script_s_volley_goes_on_as_the_ranks(volley: Command, tmp_path: Path) -> None:
    """The script of such a job runs on a node that has none of the job's GPUs."""
    ranks_here = f'while [ "${{1#--}}" != "$1" ]; do shift; done; exec {shlex.join(volley.mpirun(2))} "$@"'
    words = ("pingpong", "-t", "host", *FEW, "--launcher-arg=--latency_priority=cpu-cpu")
    job = job_with_jsrun(tmp_path, ranks_here)
    done = volley(*words, **job)
    assert done.code == 0, done.err
    (log,) = done.records
    assert log.run.plan.launch["inside"] is True
    assert log.run.plan.launch["allocation"]["hosts"] == {"a01": 42}
    options = "--nrs=1 --rs_per_host=1 --tasks_per_rs=2 --cpu_per_rs=ALL_CPUS --bind=none --latency_priority=cpu-cpu"
    asked = f"{options} {volley.volley} {' '.join(words)}"
    assert (tmp_path / "asked").read_text() == f"{asked}\n"
    shown = volley(*words, "--dry-run", **job)
    assert shown.err.endswith(f"/jsrun {asked}\n")


@pytest.mark.parametrize(
    ("words", "options"),
    [
        (
            ("pingpong", "-t", "staged/pinned"),
            "--tasks_per_rs=2 --cpu_per_rs=ALL_CPUS --bind=none {gpus} --smpiargs=-gpu",
        ),
        (("pingpong", "-t", "staged/shared"), "--tasks_per_rs=2 --cpu_per_rs=ALL_CPUS --bind=none {gpus}"),
        (("matrix", "--section", "uni"), "--tasks_per_rs=1 --cpu_per_rs=ALL_CPUS --bind=none {gpus}"),
    ],
)
def test_jsrun_is_asked_for_gpus_where_they_are_used(
    volley_command: Path, tmp_path: Path, words: tuple[str, ...], options: str
) -> None:
    volley = Command(volley_command, install(tmp_path / "bin", cuda_built="13.0"), tmp_path)
    done = volley(*words, **job_with_jsrun(tmp_path, "exit 5"))
    assert (done.code, done.out, done.err) == (5, "", "")
    asked = f"--nrs=1 --rs_per_host=1 {options.format(gpus='--gpu_per_rs=ALL_GPUS')} {volley_command}"
    assert (tmp_path / "asked").read_text() == f"{asked} {' '.join(words)}\n"


# ---------------------------------------------------------------------------- followers, with a stand-in


@pytest.fixture
def stand_in(tmp_path: Path) -> Command:
    """A volley whose engine says what it was started with."""
    return Command(Path(sys.executable), install(tmp_path / "bin"), tmp_path)


FOLLOWER = {"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2", "PYTHONPROFILEIMPORTTIME": "1"}
HEAVY = {"msgspec", "rich", "subprocess", "volley.run.session", "volley.launch.engine", "volley.report.model"}


@pytest.fixture
def mpirun(tmp_path: Path) -> tuple[str, ...]:
    """A launcher only by its name: it starts one process and waits for it."""
    (tmp_path / "mpirun").symlink_to("/bin/sh")
    return (str(tmp_path / "mpirun"), "-c", '"$0" "$@"; exit $?')


def test_a_follower_becomes_the_engine_before_it_imports_anything_of_weight(
    stand_in: Command, mpirun: tuple[str, ...]
) -> None:
    done = stand_in("-m", "volley", "pingpong", "--gpus=1,0", "--gpu-after-init", before=mpirun, **FOLLOWER)
    library = f"'--mpi-library', '{stand_in.engine.parents[1]}/lib/libmpi.so.40'"
    assert f"following with [{library}, '--follower', '--gpus', '1,0', '--gpu-after-init']" in done.err
    before_exec = done.err.split("import time: self [us]")[1]
    assert "volley.launch.inside_launcher" in imports_of(before_exec)
    assert not HEAVY & imports_of(before_exec)


@pytest.mark.parametrize(("words", "threads"), [("transports", 1), ("pingpong", 0), ("pingpong -t host/threads/2", 1)])
def test_a_follower_asks_mpi_for_threads_where_the_first_rank_does(
    stand_in: Command, mpirun: tuple[str, ...], words: str, threads: int
) -> None:
    done = stand_in("-m", "volley", *words.split(), before=mpirun, **FOLLOWER)
    assert done.err.count("'--threads'") == threads


@pytest.mark.parametrize("words", [("show", "x"), ("--help",), ("pingpong", "--launcher", "openmpi")])
def test_a_follower_with_nothing_to_follow_is_silent(
    stand_in: Command, mpirun: tuple[str, ...], words: tuple[str, ...]
) -> None:
    done = stand_in("-m", "volley", *words, before=mpirun, OMPI_COMM_WORLD_RANK="1")
    assert (done.code, done.out, done.err) == (0, "", "")


@pytest.mark.parametrize("name", ["OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK"])
def test_without_a_launcher_every_rank_that_is_left_over_gets_the_same_answer(stand_in: Command, name: str) -> None:
    first, other = (stand_in("-m", "volley", "pingpong", "--ranks", "5", **{name: rank}) for rank in "03")
    assert (first.code, first.out, first.err) == (other.code, other.out, other.err)
    assert first.code != 0
    assert f"env -u {name} volley pingpong" in first.err


def test_a_launcher_may_be_outside_of_a_container(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """There the first process has the variables too, which it got from outside."""
    shown = tmp_path / "shown"
    monkeypatch.setattr(
        inside_launcher,
        "open",
        lambda path, *words, **named: open(shown if "environ" in path else path, *words, **named),  # noqa: PTH123, SIM115
        raising=False,
    )
    for environ, expected in ((b"HOME=/\0PMIX_RANK=3\0", True), (b"HOME=/\0", False)):
        shown.write_bytes(environ)
        assert has_launcher() is expected


HYDRA = {"PMI_SIZE": "2", "MPI_LOCALNRANKS": "2"}


def test_a_launcher_of_another_mpi_is_named_by_the_first_rank_only(stand_in: Command, mpirun: tuple[str, ...]) -> None:
    alone = {**HYDRA, "PATH": str(stand_in.engine.parent)}
    first = stand_in("-m", "volley", "pingpong", PMI_RANK="0", **alone)
    assert first.code == 3
    assert "the MPI is Open MPI v5.0.11 (" in first.err
    assert re.search(r"start volley without a launcher, or with \S+/mpirun -n 2 volley", first.err)
    other = stand_in("-m", "volley", "pingpong", before=mpirun, PMI_RANK="1", **alone)
    assert (other.code, other.out, other.err) == (0, "", "")


def test_ranks_that_wait_in_mpi_init_are_let_go_after_an_error(stand_in: Command) -> None:
    joined = stand_in.engine.with_name("joined")
    step = {**STEP, "SLURM_PROCID": "0"}
    assert stand_in("-m", "volley", "pingpong", "--sizes", "8x", **step).code == 2
    assert not joined.exists()  # every rank has read the same command line
    assert stand_in("-m", "volley", "pingpong", "--transport", "hots", **step).code == 2
    assert joined.read_text().endswith(f"/libmpi.so.40 --plan {os.devnull}")
    joined.unlink()
    assert stand_in("-m", "volley", "pingpong", *FEW, **step).code == 0
    assert joined.read_text().endswith("--plan -")  # it measured: nobody is waiting any more


# --------------------------------------------------------------------------------------- another real MPI


def test_the_same_under_mpich(volley: Command, mpich: Path) -> None:
    volley = replace(volley, mpi=str(mpich))
    hydra = volley.mpirun(2)
    done = volley("pingpong", *FEW, "--format", "csv", before=hydra)
    assert done.code == 0, done.err
    assert len(done.out.splitlines()) == 3
    refused = volley("pingpong", "--sizes", "8x", before=hydra)  # hydra would let the second rank wait for ever
    assert refused.code == 2
    assert volley("pingpong", *FEW, before=volley.mpirun(3)).code == 2


def test_open_mpi_under_mpich_s_mpiexec(volley: Command, mpich: Path) -> None:
    hydra = replace(volley, mpi=str(mpich)).mpirun(2)
    done = volley("pingpong", *FEW, "--mpi", "openmpi", before=hydra)
    assert done.code == 3
    assert done.err.count("a launcher of another MPI started this job") == 1
    done = volley("pingpong", *FEW, before=hydra)  # the MPI of that mpiexec is taken, whatever PATH says
    assert done.code == 0, done.err
    (log,) = done.records
    assert log.run.mpi.interface == "libmpi.so.12"
