"""Volley under a real Slurm: srun starts it, and it starts srun."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from pretend_cluster import Cluster, wait_idle
from pretend_hosts import NAMES

from recorded_program import build, unmatched
from the_command import FEW, program
from volley.benchmarks import BENCHMARKS
from volley.command.option_values import expand
from volley.machine.paths import of_plan
from volley.records.record_types import Run
from volley.records.records_file import read_runs
from volley.records.trace_calls import resolve
from volley.records.trace_file import read_trace

PROLOG = Path(__file__).parents[2] / "integrations/slurm/prolog.sh"
YIELDS = "OMPI_MCA_mpi_yield_when_idle"
VERDICTS = {
    "host": ("NOT JUDGED", "of 2 nodes nobody can say which one is slow"),
    "host+flip": ("FAIL", "wrong data arrived"),
}
REQUEST = ("pingpong", "--transport", "host", *FEW)


@dataclass(frozen=True)
class Volley:
    """The volley under test, on the first node."""

    program: Path
    engine: Path
    slurm: Cluster
    folder: Path
    prefix: Path = Path(sys.prefix)
    """That of the MPI."""

    def run(self, *words: str, before: Sequence[str] = ()) -> subprocess.CompletedProcess[str]:
        """Run a command with ``volley`` behind it."""
        return self.slurm.run([*before, str(self.program), *words], **self.state())

    def state(self) -> dict[str, str]:
        """The engine under test, and a home of its own for the records; a rank that waits leaves its core to others."""
        mine = {"XDG_STATE_HOME": str(self.folder), "VOLLEY_ENGINE": str(self.engine), "COLUMNS": "120"}
        return mine | {"PATH": f"{self.prefix}/bin:{os.environ['PATH']}", YIELDS: "1"}

    def sbatch(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Let volley write a script, hand it in, and wait for the job; what it printed is the answer's output."""
        script = self.folder / "job.sh"
        written = self.run("batch", "--scheduler", "slurm", "--time", "00:05:00", "--force", "-o", str(script), *words)
        assert written.returncode == 0, written.stderr
        assert f"submit with: sbatch {script}" in written.stderr
        printed = self.folder / "job.out"
        done = self.slurm.run(["sbatch", "--parsable", f"--output={printed}", str(script)], **self.state())
        assert done.returncode == 0, done.stderr
        done.returncode = self.slurm.exit_code(done.stdout.strip())
        done.stdout = printed.read_text()
        return done

    def records(self, *, complete: bool = True, launches: int = 1) -> Run:
        """The first record of the only saved run."""
        (file,) = (self.folder / "volley").glob("*.jsonl")
        log, *others = read_runs(file, BENCHMARKS)
        assert (log.complete, len(others)) == (complete, launches - 1)
        assert log.run is not None
        return log.run


@pytest.fixture
def volley(volley_command: Path, engine: Path, slurm: Cluster, tmp_path: Path) -> Volley:
    return Volley(volley_command, engine, slurm, tmp_path)


def one_on_each_node(run: Run) -> bool:
    return [(rank.host, rank.node, rank.local_rank) for rank in run.ranks] == [(NAMES[0], 0, 0), (NAMES[1], 1, 0)]


GRANTED = {
    "scheduler": "slurm",
    "nodes": 2,
    "slots": 2,
    "hosts": dict.fromkeys(NAMES, 1),
    "gpus_per_node": None,
    "cpus_per_node": 1,
}


# -------------------------------------------------------------------------------------- srun starts volley


def test_srun_starts_volley_which_becomes_the_ranks(volley: Volley) -> None:
    step = ("srun", "-N", "2", "-n", "2", "--mpi=pmix")
    done = volley.run(*REQUEST, "--format", "csv", before=step)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 3
    run = volley.records()
    assert one_on_each_node(run)
    assert (run.plan.launch["launcher"], run.plan.launch["inside"]) == ("srun", True)
    assert run.plan.launch["allocation"] == GRANTED


def test_srun_that_does_not_speak_to_the_mpi_is_found_out(volley: Volley) -> None:
    done = volley.run(*REQUEST, before=("srun", "-N", "2", "-n", "2", "--mpi=none"))
    assert done.returncode != 0
    assert ": srun --mpi=pmix -n 2 -N 2 volley pingpong" in done.stderr


def test_srun_starts_the_ranks_of_an_mpich(volley: Volley, mpich: Path) -> None:
    volley = replace(volley, prefix=mpich)
    done = volley.run(*REQUEST, before=("srun", "-N", "2", "-n", "2", "--mpi=pmi2"))
    assert done.returncode == 0, done.stderr
    assert one_on_each_node(volley.records())


def test_srun_starts_a_check_of_two_nodes(volley: Volley) -> None:
    records = str(volley.folder / "r.jsonl")
    words = ("check", "--transport", "host,host+flip", "--budget", "3", "--format", "json", "-o", records)
    done = volley.run(*words, before=("srun", "-N", "2", "-n", "2", "--mpi=pmix"))
    assert done.returncode == 1, done.stderr
    found = {each["layer"]: each for each in json.loads(done.stdout)["findings"]}
    assert found.keys() == {f"{what}, {name}" for what in ("latency, 8 B", "bandwidth, 1 MiB") for name in VERDICTS}
    for layer, each in found.items():
        verdict, why = VERDICTS[layer.rpartition(", ")[2]]
        assert (each["verdict"], each["nodes"]) == (verdict, ["volley-a", "volley-b"])
        assert why in each["why"]


# -------------------------------------------------------------------------------------- volley starts srun


def test_the_script_of_volley_batch_runs_and_has_the_exit_code_of_volley(volley: Volley) -> None:
    words = ("pingpong", "--transport", "host,host+flip", *FEW, "--launches", "2")  # each is a step of the job
    done = volley.sbatch("--nodes", "2", "--", *words)
    assert done.returncode == 1, done.stdout
    assert "FAILED" in done.stdout
    assert "64 KiB" in done.stdout
    run = volley.records(launches=2)
    assert one_on_each_node(run)
    # a batch script has SLURM_PROCID=0 and is no rank: volley in it starts a step of its own
    assert (run.plan.launch["launcher"], run.plan.launch["inside"]) == ("srun", False)
    assert run.plan.launch["allocation"] == {**GRANTED, "cpus_per_node": 2}  # all of the node
    assert [rank.bound_by for rank in run.ranks] == ["engine", "engine"]


@pytest.mark.parametrize(
    ("asked", "launcher"), [("srun", "srun"), pytest.param("auto", "openmpi", marks=pytest.mark.long)]
)
def test_what_carried_the_bytes_is_shown_whoever_starts_the_ranks(volley: Volley, asked: str, launcher: str) -> None:
    """The engine's own mpirun finds the nodes, too."""
    quick = ("pingpong", "--transport", "host", "--sizes", "100,64Ki,4Mi", "--iterations", "2", "--launcher", asked)
    done = volley.run(*quick, before=("salloc", "--quiet", "-N", "2", "-n", "2"))
    assert done.returncode == 0, done.stderr
    run = volley.records()
    assert one_on_each_node(run)
    assert run.plan.launch["launcher"] == launcher
    paths = of_plan(run.plan.launch).paths
    assert [path.size_bytes for path in paths] == [100, 64 << 10, 4 << 20]
    for path in paths:
        assert [end.host for end in path.ends] == list(NAMES)
        assert (path.kind, bool(path.library)) == ("TCP", True)
        assert path.counted in (None, pytest.approx(1.0, abs=0.05))
    assert all(path.counted for path in paths[1:])


def test_looking_at_what_works_takes_the_job_s_ranks(volley: Volley) -> None:
    done = volley.run("transports", "--launcher", "srun", before=("salloc", "--quiet", "-N", "2", "-n", "4"))
    assert done.returncode == 0, done.stderr
    assert [rank.host for rank in volley.records().ranks] == [NAMES[0]] * 2 + [NAMES[1]] * 2


@pytest.mark.parametrize("launcher", ["srun", "auto"])
def test_hosts_pick_from_the_allocation(volley: Volley, launcher: str) -> None:
    words = ("--hosts", NAMES[1], "--launcher", launcher)
    done = volley.run(*REQUEST, *words, before=("salloc", "--quiet", "-N", "2", "-n", "2"))
    assert done.returncode == 0, done.stderr
    assert [(rank.host, rank.local_rank) for rank in volley.records().ranks] == [(NAMES[1], 0), (NAMES[1], 1)]


def test_ranks_of_a_node_have_cores_apart_or_none_is_bound(volley: Volley) -> None:
    """Three that compute: two on a node, where they may be more than its cores, and one on the other."""
    words = ("jacobi", "--grid", "3", "1", "--domain", "64", "64", "--iterations", "10", "-t", "host")
    done = volley.run(*words, "--launcher", "srun", before=("salloc", "--quiet", "-N", "2", "-n", "3"))
    assert done.returncode == 0, done.stderr
    *pair, alone = volley.records().ranks
    assert [rank.node for rank in (*pair, alone)] == [0, 0, 1]
    assert alone.bound_by == "engine"
    first, second = pair
    if first.bound_by == second.bound_by == "engine":
        assert len(first.cores) == len(second.cores)
        assert not set(first.cores) & set(second.cores)
    else:
        assert "engine" not in (first.bound_by, second.bound_by)


def test_volley_outlives_the_ranks_that_srun_ends(volley: Volley) -> None:
    hanging = ("pingpong", "--transport", "host+hang", *FEW, "--launcher", "srun", "--watchdog", "1")
    done = volley.run(*hanging, before=("salloc", "--quiet", "-N", "2", "-n", "2"))
    assert done.returncode == 1
    said = done.stderr.splitlines()
    assert any(line.startswith("volley: the run was aborted: ") and "made no progress for 1 s" in line for line in said)
    assert any(line.startswith("records: ") for line in said)
    assert one_on_each_node(volley.records(complete=False))


# ------------------------------------------------------------------------------------------- doctor in a job


def test_doctor_tries_the_ranks_of_an_allocation_on_both_nodes(volley: Volley) -> None:
    found = doctor(volley, "salloc", "--quiet", "-N", "2", "-n", "2")
    assert found["launcher"]["said"] == "openmpi: 2 ranks on 2 nodes, local ranks 0, 0"
    checks = ("launcher", "binding", "MPI, host memory", "job variables", "hosts", "names", "ports", "alike")
    assert {found[name]["status"] for name in checks} == {"good"}
    assert "over eth0" in found["MPI between hosts"]["said"]


def test_doctor_tries_the_ranks_of_a_step(volley: Volley) -> None:
    found = doctor(volley, "srun", "-N", "2", "-n", "2", "--mpi=pmix")
    assert found["launcher"]["said"] == "srun: 2 ranks on 2 nodes, local ranks 0, 0"
    assert found["launcher"]["status"] == found["binding"]["status"] == "good"
    assert found["MPI, host memory"]["status"] == "not tested"


def doctor(volley: Volley, *before: str) -> dict[str, dict[str, str]]:
    """The findings by check."""
    before = (*before, "env", "-u", YIELDS)  # doctor would name it
    done = volley.run("doctor", "--format", "json", "--timeout", "30", before=before)
    assert done.returncode in {0, 1}, done.stderr
    return {each["check"]: each for each in json.loads(done.stdout)["findings"]}


# ---------------------------------------------------------------------------------------- volley as Slurm's prolog


@pytest.mark.parametrize(("transport", "drained"), [("host", False), ("host+flip", True)])
def test_a_prolog_drains_the_node_that_fails(volley: Volley, transport: str, drained: bool) -> None:
    prolog = volley.slurm.folder / "prolog.sh"
    again = f'shift; VOLLEY_ENGINE={volley.engine} exec {volley.program} check --transport {transport} "$@"'
    program(volley.folder / "volley", f"PATH={volley.prefix}/bin:$PATH; {again}")
    wait_idle(volley.slurm)  # a job of the test before that still ends would make the node busy for the prolog
    nothing = prolog.read_text()
    script = PROLOG.read_text().replace("/opt/volley/bin", str(volley.folder))
    prolog.write_text(re.sub(r"--budget \d+", "--budget 12" if drained else "--budget 3", script))
    try:
        done = volley.slurm.run(["srun", "--immediate=60", "-w", NAMES[0], "-n", "1", "echo", "the job ran"])
        state = volley.slurm.run(["scontrol", "show", "node", NAMES[0], "--oneliner"]).stdout
    finally:
        prolog.write_text(nothing)
        volley.slurm.run(["scontrol", "update", f"NodeName={NAMES[0]}", "State=RESUME"])
    assert ("the job ran" in done.stdout) != drained, done.stderr + volley.slurm.log()
    assert ("DRAIN" in state) == ("Reason=volley check: failed" in state) == drained


# ------------------------------------------------------------------------------- the calls of an application


def test_an_application_of_srun_is_recorded_explained_and_replayed(volley: Volley) -> None:
    program, trace = build(volley.folder), volley.folder / "app.trace"
    step = ("srun", "-N", "2", "-n", "2", "--mpi=pmix")
    done = volley.run("record", "-o", str(trace), "--", *step, str(program))
    assert done.returncode == 0, done.stderr
    found = read_trace(str(trace))
    assert found.hosts == [*NAMES]
    assert not found.missing
    assert unmatched(resolve(found)) == 0
    assert "hosts: volley-a and volley-b" in volley.run("explain", str(trace)).stdout
    done = volley.run("replay", str(trace), "--time", "0.05", "--launches", "1", before=step)
    assert done.returncode == 0, done.stderr
    assert "checked byte for byte" in done.stdout


def test_a_recording_that_is_itself_a_rank_says_how_to_start_it(volley: Volley) -> None:
    trace = volley.folder / "app.trace"
    done = volley.run("record", "-o", str(trace), "--", "true", before=("srun", "-N", "2", "-n", "2"))
    assert done.returncode == 2
    assert "as in volley record -- mpirun -n 4" in done.stderr
    assert not trace.exists()


# ------------------------------------------------------------------------------------------- and Slurm itself


@pytest.mark.parametrize(
    "text", ["volley-a,volley-b", "n[1-3,7]", "n[08-11],x", "rack[1-2]node[1-3]", "a,b[3],c[001-003,10]"]
)
def test_lists_of_hosts_mean_what_slurm_means(slurm: Cluster, text: str) -> None:
    done = slurm.run(["scontrol", "show", "hostnames", text])
    assert done.returncode == 0, done.stderr
    assert list(expand(text)) == done.stdout.split()
