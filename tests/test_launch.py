"""The exact command line of every launcher, and the choice between them."""

from __future__ import annotations

import dataclasses
import json
import os
import pwd
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from volley.command import options
from volley.errors import MachineError, UserError
from volley.launch import launchers
from volley.launch.allocation import Allocation
from volley.launch.inside_launcher import scrubbed
from volley.launch.launchers import LAUNCHERS, LaunchSpec, choose, command, cores
from volley.machine.mpi_stack import MpiAbout, Stack
from volley.text import join_words

TWO = LaunchSpec(engine=("volley-engine", "--plan", "-", "--bind"), ranks=2, cores=2, mpiexec=Path("/mpi/bin/mpirun"))
TWO_NODES = Allocation("slurm", nodes=2, slots=8)
TWO_HOSTS = {kind: Allocation(kind, 2, 8, {"a": 4, "b": 4}) for kind in ("slurm", "lsf", "pbs", "age")}
ONE_EACH = Allocation("slurm", 2, 2, {"a": 1, "b": 1})
MANY_HOSTS = Allocation("pbs", 3, 12, {"a": 4, "b": 4, "c": 4})
LOCAL = " --mca btl ^ofi --mca mtl ^ofi"
KEEPS_ITS_CORE = " --mca mpi_yield_when_idle 0"
ONE_SLOT = Allocation("slurm", nodes=1, slots=1)
ONE_TASK = Allocation("slurm", nodes=1, slots=1, cpus_per_node=4)
"""salloc --ntasks=1 --cpus-per-task=4"""
OPENMPI_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


def job(**changes: object) -> LaunchSpec:
    return dataclasses.replace(TWO, **changes)


@pytest.mark.parametrize(
    ("the_job", "words"),
    [
        (job(), "-n 2 --bind-to none --mca btl ^ofi --mca mtl ^ofi"),
        (job(cores=1), "-n 2 --bind-to none --map-by :OVERSUBSCRIBE --mca btl ^ofi --mca mtl ^ofi"),
        (job(ranks=4, cores=4), "-n 4 --bind-to none --mca btl ^ofi --mca mtl ^ofi"),
        (job(hosts=("a", "b")), "-n 2 --bind-to none --host a,b --map-by node"),
        (job(hosts=("a", "b"), ranks=4), "-n 4 --bind-to none --host a:2,b:2 --map-by node"),
        (job(hosts=("a",)), "-n 2 --bind-to none --host a:2 --mca btl ^ofi --mca mtl ^ofi"),
        (job(hosts=("a", "a")), "-n 2 --bind-to none --host a:2 --mca btl ^ofi --mca mtl ^ofi"),
        (job(allocation=TWO_NODES), "-n 2 --bind-to none --map-by node"),
        (job(allocation=TWO_NODES, ranks=9), "-n 9 --bind-to none --map-by node:OVERSUBSCRIBE"),
        (job(allocation=ONE_SLOT), "-n 2 --bind-to none --map-by :OVERSUBSCRIBE --mca btl ^ofi --mca mtl ^ofi"),
        # a task with several CPUs: mpirun lacks slots, and the ranks do not lack cores
        (job(allocation=ONE_TASK), "-n 2 --bind-to none --map-by :OVERSUBSCRIBE" + LOCAL + KEEPS_ITS_CORE),
        (job(allocation=ONE_TASK, ranks=4), "-n 4 --bind-to none --map-by :OVERSUBSCRIBE" + LOCAL + KEEPS_ITS_CORE),
        (job(allocation=ONE_TASK, ranks=5), "-n 5 --bind-to none --map-by :OVERSUBSCRIBE" + LOCAL),
        (
            job(allocation=ONE_TASK, ranks=4, threads_per_core=2.0),
            "-n 4 --bind-to none --map-by :OVERSUBSCRIBE" + LOCAL,
        ),
        (
            job(allocation=ONE_TASK, environment={"OMPI_MCA_mpi_yield_when_idle": "1"}),
            "-n 2 --bind-to none --map-by :OVERSUBSCRIBE" + LOCAL,
        ),
        # Slurm is asked by mpirun itself; other batch systems only by an mpirun that was built for them
        (job(allocation=TWO_HOSTS["slurm"]), "-n 2 --bind-to none --map-by node"),
        (job(allocation=TWO_HOSTS["pbs"]), "-n 2 --bind-to none --host a,b --map-by node"),
        (job(allocation=TWO_HOSTS["age"], ranks=9), "-n 9 --bind-to none --host a:5,b:5 --map-by node:OVERSUBSCRIBE"),
        (job(allocation=TWO_HOSTS["lsf"], hosts=("b",)), "-n 2 --bind-to none --host b:2" + LOCAL),
        (job(allocation=ONE_EACH, hosts=("b",)), "-n 2 --bind-to none --host b:2 --map-by :OVERSUBSCRIBE" + LOCAL),
        (job(allocation=ONE_EACH, hosts=("c",)), "-n 2 --bind-to none --host c:2" + LOCAL),
        (job(allocation=MANY_HOSTS), "-n 2 --bind-to none --host a,b --map-by node"),
        (job(allocation=Allocation("pbs", 1, 8, {"a": 8})), "-n 2 --bind-to none" + LOCAL),
        # whoever chose components has chosen: our shortcut keeps out of the way
        (job(environment={"OMPI_MCA_btl": "tcp,self"}), "-n 2 --bind-to none --mca mtl ^ofi"),
        (job(fabric=True), "-n 2 --bind-to none"),
        (job(extra=("--mca", "btl", "tcp,self")), "-n 2 --bind-to none --mca mtl ^ofi"),
        (job(mca={"pml": "ucx"}), "-n 2 --bind-to none --mca btl ^ofi --mca mtl ^ofi --mca pml ucx"),
        (job(variables={"UCX_TLS": "rc"}), "-n 2 --bind-to none --mca btl ^ofi --mca mtl ^ofi -x UCX_TLS=rc"),
    ],
)
def test_openmpi(the_job: LaunchSpec, words: str) -> None:
    tokens = ("/mpi/bin/mpirun", *words.split(), *the_job.extra, *the_job.engine)
    assert command(LAUNCHERS["openmpi"], the_job) == tokens
    assert LAUNCHERS["openmpi"].environment(the_job) == {}


def test_openmpi_as_root_needs_no_knowledge_of_its_two_variables() -> None:
    assert LAUNCHERS["openmpi"].environment(job(root=True)) == OPENMPI_ROOT


def test_openmpi_is_told_of_a_home_that_the_environment_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    assert launchers.home({"HOME": "/home/me"}) is None
    assert launchers.home({}) == launchers.home({"HOME": ""}) == pwd.getpwuid(os.geteuid()).pw_dir
    assert LAUNCHERS["openmpi"].environment(job(home="/home/me")) == {"HOME": "/home/me"}
    monkeypatch.setattr(os, "geteuid", lambda: 2**31 - 2)
    assert launchers.home({}) == "/"


@pytest.mark.parametrize(
    ("the_job", "words"),
    [
        (job(), "-n 2"),
        (job(root=True, cores=1), "-n 2"),
        (job(hosts=("a", "b")), "-n 2 -ppn 1 -hosts a,b"),
        (job(hosts=("a",)), "-n 2 -hosts a"),
        (job(allocation=TWO_NODES, ranks=4), "-n 4 -ppn 2"),
        (job(variables={"LD_PRELOAD": "/l.so"}), "-n 2 -genv LD_PRELOAD /l.so"),
    ],
)
def test_mpich(the_job: LaunchSpec, words: str) -> None:
    the_job = dataclasses.replace(the_job, family="mpich", mpiexec=Path("/mpi/bin/mpiexec"))
    assert command(LAUNCHERS["mpich"], the_job) == ("/mpi/bin/mpiexec", *words.split(), *the_job.engine)
    assert LAUNCHERS["mpich"].environment(the_job) == {}


FAR_SHELL = """#!/bin/sh
while [ "${1#-}" != "$1" ]; do shift; done
shift
exec env -i PATH="$PATH" HOME="$HOME" sh -c "$*"
"""
"""In place of ssh: a shell without the environment of this one, as on another host."""


OWN_VARIABLES = (
    "import json, os, sys;"
    "os.write(1, (json.dumps({name: os.environ.get(name) for name in sys.argv[1:]}) + '\\n').encode())"
)
"""Each rank writes its line at once: with PYTHONUNBUFFERED, print() writes the end of a line by itself."""


@pytest.mark.parametrize("hosts", [(), ("volley-a", "volley-b")])
@pytest.mark.parametrize(
    ("name", "program"), [("openmpi", "mpirun"), ("openmpi", "mpirun.openmpi"), ("mpich", "mpiexec.mpich")]
)
def test_ranks_have_the_environment(name: str, program: str, hosts: tuple[str, ...], tmp_path: Path) -> None:
    here = Path(sysconfig.get_path("scripts"), program)
    mpiexec = here if here.exists() else shutil.which(program)
    if mpiexec is None:
        pytest.skip(f"{program} is not installed")
    (tmp_path / "ssh").write_text(FAR_SHELL, encoding="utf-8")
    (tmp_path / "ssh").chmod(0o755)
    settings = {"NCCL_NVLS_ENABLE": "0", "NVSHMEM_DISABLE_NVLS": "1", "UCX_TLS": "a,b", "NCCL_SOCKET_IFNAME": "=a b;c"}
    environment = {
        **scrubbed(os.environ),
        **settings,
        "LD_LIBRARY_PATH": "/a",
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
    }
    the_job = job(
        engine=(sys.executable, "-c", OWN_VARIABLES, *settings, "LD_LIBRARY_PATH"),
        family=name,
        mpiexec=Path(mpiexec),
        hosts=hosts,
        root=os.geteuid() == 0,
        cores=1,
        variables={"UCX_TLS": "of,the stack"},
        environment=environment,
    )
    launcher = LAUNCHERS[name]
    done = subprocess.run(
        command(launcher, the_job),
        env={**environment, **launcher.environment(the_job)},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    ranks = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert len(ranks) == 2, done.stderr
    for rank in ranks:
        assert {**settings, "UCX_TLS": "of,the stack"}.items() <= rank.items()
        assert rank["LD_LIBRARY_PATH"].endswith("/a")  # Open MPI 5 puts its own in front


def test_gpus_that_a_batch_system_granted_on_one_node_are_not_those_of_another() -> None:
    environment = {"CUDA_VISIBLE_DEVICES": "1", "NCCL_ALGO": "Ring", "HOME": "/home/me"}
    words = LAUNCHERS["openmpi"].arguments(job(allocation=TWO_HOSTS["pbs"], environment=environment))
    assert words[-2:] == ["-x", "NCCL_ALGO"]
    assert "CUDA_VISIBLE_DEVICES" not in words
    words = LAUNCHERS["openmpi"].arguments(job(hosts=("a", "b"), environment=environment))
    assert words[-4:] == ["-x", "CUDA_VISIBLE_DEVICES", "-x", "NCCL_ALGO"]


COMMON = "--ntasks=2 --export=ALL --cpu-bind=none --input=0 --kill-on-bad-exit=1"


@pytest.mark.parametrize(
    ("the_job", "words"),
    [
        (job(), f"--mpi=pmix {COMMON}"),
        (job(family="mpich"), f"--mpi=pmi2 {COMMON}"),
        (job(family="other"), COMMON),
        (job(hosts=("a", "b")), f"--mpi=pmix {COMMON} --nodes=2 --nodelist=a,b"),
        (job(allocation=TWO_NODES), f"--mpi=pmix {COMMON} --nodes=2"),
        (job(allocation=ONE_SLOT), f"--mpi=pmix {COMMON} --nodes=1 --overcommit"),
        (job(allocation=ONE_EACH, hosts=("b",)), f"--mpi=pmix {COMMON} --nodes=1 --nodelist=b --overcommit"),
        (job(allocation=ONE_EACH, hosts=("b", "a")), f"--mpi=pmix {COMMON} --nodes=2 --nodelist=b,a"),
    ],
)
def test_srun(the_job: LaunchSpec, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launchers, "_on_path", lambda name: f"/slurm/{name}")
    the_job = dataclasses.replace(the_job, variables={"UCX_TLS": "a,b"})
    assert command(LAUNCHERS["srun"], the_job) == ("/slurm/srun", *words.split(), *the_job.engine)
    assert LAUNCHERS["srun"].environment(the_job) == {"UCX_TLS": "a,b"}


GPUS_TRAVEL = "--gpu_per_rs=ALL_GPUS --smpiargs=-gpu"


@pytest.mark.parametrize(
    ("the_job", "words"),
    [
        (job(), "--nrs=1 --rs_per_host=1 --tasks_per_rs=2 --cpu_per_rs=ALL_CPUS --bind=none"),
        (
            job(gpus=True, device_buffers=True, allocation=Allocation("lsf", nodes=2, slots=84)),
            "--nrs=2 --rs_per_host=1 --tasks_per_rs=1 --cpu_per_rs=ALL_CPUS --bind=none " + GPUS_TRAVEL,
        ),
        (
            job(gpus=True),
            "--nrs=1 --rs_per_host=1 --tasks_per_rs=2 --cpu_per_rs=ALL_CPUS --bind=none --gpu_per_rs=ALL_GPUS",
        ),
        (
            job(variables={"UCX_TLS": "rc"}),
            "--nrs=1 --rs_per_host=1 --tasks_per_rs=2 --cpu_per_rs=ALL_CPUS --bind=none --env=UCX_TLS=rc",
        ),
    ],
)
def test_jsrun(the_job: LaunchSpec, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launchers, "_on_path", lambda name: f"/csm/{name}")
    assert command(LAUNCHERS["jsrun"], the_job) == ("/csm/jsrun", *words.split(), *the_job.engine)


def test_jsrun_cannot_choose_hosts() -> None:
    with pytest.raises(UserError, match="--hosts"):
        LAUNCHERS["jsrun"].arguments(job(hosts=("a", "b")))


def test_words_of_the_user_stay_words() -> None:
    line = command(LAUNCHERS["openmpi"], job(extra=("-x", "A=b c; $(rm)")))
    assert line[-len(TWO.engine) - 2 : -len(TWO.engine)] == ("-x", "A=b c; $(rm)")


# ------------------------------------------------------------------------------------------------- the choice


def stack(family: str, mpiexec: str | None = "/mpi/bin/mpirun") -> Stack:
    library = {"openmpi": "Open MPI v1.0", "mpich": "MPICH Version: 1.0"}[family]
    return Stack(
        MpiAbout(library, "4.0", "libmpi.so"), "site", "/mpi/lib/libmpi.so", Path(mpiexec) if mpiexec else None
    )


LSF = Allocation("lsf", nodes=2, slots=84)


@pytest.mark.parametrize(
    ("asked", "family", "mpiexec", "granted", "on_path", "chosen"),
    [
        ("auto", "openmpi", True, None, "", "openmpi"),
        ("auto", "mpich", True, None, "srun", "mpich"),
        ("auto", "openmpi", True, TWO_NODES, "srun", "openmpi"),
        ("auto", "openmpi", False, TWO_NODES, "srun", "srun"),
        ("auto", "mpich", False, TWO_NODES, "srun", "srun"),
        ("auto", "openmpi", True, LSF, "jsrun", "jsrun"),
        ("auto", "openmpi", True, LSF, "", "openmpi"),
        ("srun", "openmpi", True, None, "", "srun"),
        ("jsrun", "openmpi", False, None, "", "jsrun"),
        ("openmpi", "openmpi", True, TWO_NODES, "srun", "openmpi"),
    ],
)
def test_choice(
    asked: str,
    family: str,
    mpiexec: bool,
    granted: Allocation | None,
    on_path: str,
    chosen: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(launchers, "_on_path", lambda name: name if name in on_path.split() else None)
    the_stack = stack(family, "/mpi/bin/mpirun" if mpiexec else None)
    assert choose(asked, the_stack, granted).name == chosen


def test_another_mpi_s_mpirun_is_refused_with_the_right_one_named() -> None:
    with pytest.raises(UserError, match=r"MPICH 1\.0 \(site, .*--mpi openmpi"):
        choose("openmpi", stack("mpich"), None)


def test_an_unknown_launcher_is_refused_with_the_list() -> None:
    assert ("auto", *LAUNCHERS) == options.LAUNCHERS
    with pytest.raises(UserError, match=join_words(options.LAUNCHERS)):
        choose("aprun", stack("openmpi"), None)


def test_without_any_launcher_the_ranks_can_be_started_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launchers, "_on_path", lambda _: None)
    with pytest.raises(MachineError, match="mpirun -n 2 volley"):
        choose("auto", stack("mpich", None), None)
    with pytest.raises(MachineError, match="srun is not on PATH"):
        command(LAUNCHERS["srun"], TWO)


# --------------------------------------------------------------------------------------------------- the machine


def test_threads_of_a_core_are_one_core(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for cpu, siblings in ((0, "0,4"), (4, "0,4"), (1, "1,5")):
        file = tmp_path / f"cpu{cpu}" / "topology" / "thread_siblings_list"
        file.parent.mkdir(parents=True)
        file.write_text(f"{siblings}\n", encoding="ascii")
    monkeypatch.setattr(launchers, "_CPUS", tmp_path)
    monkeypatch.setattr(launchers.os, "sched_getaffinity", lambda _: {0, 4, 1, 9})
    assert cores() == 3  # 0 with 4, 1, and 9 of which nothing is known


def test_a_parameter_in_a_file_of_open_mpi_is_a_choice_of_the_user(tmp_path: Path) -> None:
    mpirun, home = tmp_path / "mpi/bin/mpirun", tmp_path / "home"
    for file, text in (
        (home / ".openmpi/mca-params.conf", "# mtl = psm2\n\nbtl = self,tcp\n"),
        (tmp_path / "mpi/etc/openmpi-mca-params.conf", " pml=ob1 # here\n"),
    ):
        file.parent.mkdir(parents=True)
        file.write_text(text)
    found = launchers.parameters_in_files(mpirun, {"HOME": str(home)})
    assert found == {"btl", "pml"}
    assert "--mca btl" not in " ".join(LAUNCHERS["openmpi"].arguments(job(parameters=found)))
    assert launchers.parameters_in_files(Path("/none/bin/mpirun"), {}) == set()
