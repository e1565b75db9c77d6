"""The exact command line of every launcher, and the choice between them."""

import dataclasses
import json
import os
import pwd
import shlex
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from screens import SCREENS, check_screen
from the_command import LIMIT_S, Finished, program
from volley.command import options
from volley.command.options import JobOptions
from volley.errors import MachineError, UserError
from volley.launch import launchers, start
from volley.launch.allocation import Allocation
from volley.launch.inside_launcher import scrubbed
from volley.launch.launchers import LAUNCHERS, LaunchSpec, choose, command, cores
from volley.launch.start import start_by_launcher
from volley.machine.mpi_stack import MpiAbout, Stack
from volley.text import join_words

TWO = LaunchSpec(engine=("volley-engine", "--plan", "-", "--bind"), ranks=2, cores=2, mpiexec=Path("/mpi/bin/mpirun"))
TWO_NODES = Allocation("slurm", nodes=2, slots=8)
TWO_HOSTS = {kind: Allocation(kind, 2, 8, {"a": 4, "b": 4}) for kind in ("slurm", "lsf", "pbs", "age")}
ONE_EACH = Allocation("slurm", 2, 2, {"a": 1, "b": 1})
MANY_HOSTS = Allocation("pbs", 3, 12, {"a": 4, "b": 4, "c": 4})
ONE_SLOT = Allocation("slurm", nodes=1, slots=1)
ONE_TASK = Allocation("slurm", nodes=1, slots=1, cpus_per_node=4)
"""salloc --ntasks=1 --cpus-per-task=4"""


def job(**changes: object) -> LaunchSpec:
    return dataclasses.replace(TWO, **changes)


OF_NCCL = {"CUDA_VISIBLE_DEVICES": "1", "NCCL_ALGO": "Ring", "HOME": "/home/me"}
"""The GPUs that a batch system granted on one node are not those of another."""
JOBS = {
    "openmpi": [
        job(),
        job(cores=1),
        job(ranks=4, cores=4),
        job(hosts=("a", "b")),
        job(hosts=("a", "b"), ranks=4),
        job(hosts=("a",)),
        job(hosts=("a", "a")),
        job(allocation=TWO_NODES),
        job(allocation=TWO_NODES, ranks=9),
        job(allocation=ONE_SLOT),
        job(allocation=ONE_TASK),
        job(allocation=ONE_TASK, ranks=4),
        job(allocation=ONE_TASK, ranks=5),
        job(allocation=ONE_TASK, ranks=4, threads_per_core=2.0),
        job(allocation=ONE_TASK, here=True),
        job(allocation=ONE_TASK, ranks=4, here=True),
        job(allocation=Allocation("pbs", 1, 1, {"a": 1}, cpus_per_node=4), here=True),
        job(allocation=ONE_TASK, environment={"OMPI_MCA_mpi_yield_when_idle": "1"}),
        job(allocation=TWO_HOSTS["slurm"]),
        job(allocation=TWO_HOSTS["pbs"]),
        job(allocation=TWO_HOSTS["age"], ranks=9),
        job(allocation=TWO_HOSTS["lsf"], hosts=("b",)),
        job(allocation=ONE_EACH, hosts=("b",)),
        job(allocation=ONE_EACH, hosts=("c",)),
        job(allocation=MANY_HOSTS),
        job(allocation=Allocation("pbs", 1, 8, {"a": 8})),
        job(environment={"OMPI_MCA_btl": "tcp,self"}),
        job(fabric=True),
        job(whole_start=True),
        job(extra=("--mca", "btl", "tcp,self")),
        job(mca={"pml": "ucx"}),
        job(variables={"UCX_TLS": "rc"}),
        job(root=True),
        job(home="/home/me"),
        job(allocation=TWO_HOSTS["pbs"], environment=OF_NCCL),
        job(hosts=("a", "b"), environment=OF_NCCL),
        job(extra=("-x", "A=b c; $(rm)")),
    ],
    "mpich": [
        job(family="mpich"),
        job(family="mpich", root=True, cores=1),
        job(family="mpich", hosts=("a", "b")),
        job(family="mpich", hosts=("a",)),
        job(family="mpich", allocation=TWO_NODES, ranks=4),
        job(family="mpich", variables={"LD_PRELOAD": "/l.so"}),
    ],
    "srun": [
        job(),
        job(family="mpich"),
        job(family="other"),
        job(hosts=("a", "b")),
        job(allocation=TWO_NODES),
        job(allocation=ONE_SLOT),
        job(allocation=ONE_EACH, hosts=("b",)),
        job(allocation=ONE_EACH, hosts=("b", "a")),
        job(variables={"UCX_TLS": "a,b"}),
    ],
    "jsrun": [
        job(),
        job(gpus=True, device_buffers=True, allocation=Allocation("lsf", nodes=2, slots=84)),
        job(gpus=True),
        job(variables={"UCX_TLS": "rc"}),
    ],
}


def plain(value: object) -> Any:
    """What a job says, as texts and numbers."""
    if dataclasses.is_dataclass(value):
        return {name: plain(each) for name, each in vars(value).items() if each not in (None, {})}
    return value


def test_command_lines_are_those_that_were_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each with what differs from the plainest job, and the variables that the launcher itself needs."""
    monkeypatch.setattr(launchers, "_on_path", lambda name: f"/site/{name}")
    parts = []
    for name, jobs in JOBS.items():
        for each in jobs:
            changes = {field: value for field, value in plain(each).items() if value != plain(TWO).get(field)}
            launcher = LAUNCHERS[name]
            parts.append(f"# {name} {changes}\n{shlex.join(command(launcher, each))}\n")
            parts += [f"{variable}={value}\n" for variable, value in launcher.environment(each).items()]
    check_screen(SCREENS / "launch/commands.txt", "".join(parts))


def test_nothing_of_a_start_that_is_measured_is_left_out(here: Callable[..., Finished]) -> None:
    """Without OFI, Open MPI starts a second sooner than an application's."""
    lines = [here("transports", "--dry-run", "--launches", number).err.splitlines()[-1] for number in ("1", "2")]
    assert [line.replace(" --mca btl '^ofi' --mca mtl '^ofi'", "") for line in lines] == [lines[1]] * 2


@pytest.mark.parametrize(("node", "here"), [(os.uname().nodename, True), ("another", False)])
def test_in_a_job_of_one_task_on_this_host_mpirun_counts_cores(
    node: str, here: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a login node, where salloc may leave volley, it would count those of the login node."""
    monkeypatch.setattr(start, "cores", lambda: 2)
    granted = Allocation("slurm", 1, 1, {node: 1}, cpus_per_node=2 * len(os.sched_getaffinity(0)))
    openmpi = Stack(MpiAbout("Open MPI v5.0.11", "5.0.11", "libmpi.so.40"), "site", mpiexec=TWO.mpiexec)
    more = {"here": False, "share_cores": False, "threads": False, "budget_s": None}
    tokens = start_by_launcher(JobOptions(), Path("/engine"), openmpi, TWO, granted=granted, **more).tokens
    assert ("^slurm" in tokens, ":OVERSUBSCRIBE" in tokens) == (here, not here)


def test_openmpi_is_told_of_a_home_that_the_environment_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    assert launchers.home({"HOME": "/home/me"}) is None
    assert launchers.home({}) == launchers.home({"HOME": ""}) == pwd.getpwuid(os.geteuid()).pw_dir
    monkeypatch.setattr(os, "geteuid", lambda: 2**31 - 2)
    assert launchers.home({}) == "/"


FAR_SHELL = """
while [ "${1#-}" != "$1" ]; do shift; done
shift
exec env -i PATH="$PATH" HOME="$HOME" TMPDIR="$(mktemp -d)" sh -c "$*"
"""
"""In place of ssh: a shell without the environment and the temporary files of this one, as on another host.  Of two
daemons of Open MPI 4 that share such files, one dies in one start of seven, while it maps what the other has made."""


OWN_VARIABLES = (
    "import json, os, sys;"
    "os.write(1, (json.dumps({name: os.environ.get(name) for name in sys.argv[1:]}) + '\\n').encode())"
)
"""Each rank writes its line at once: with PYTHONUNBUFFERED, print() writes the end of a line by itself."""


@pytest.mark.parametrize("hosts", [(), ("volley-a", "volley-b")])
@pytest.mark.parametrize(
    ("name", "starter"), [("openmpi", "mpirun"), ("openmpi", "mpirun.openmpi"), ("mpich", "mpiexec.mpich")]
)
def test_ranks_have_the_environment(name: str, starter: str, hosts: tuple[str, ...], tmp_path: Path) -> None:
    here = Path(sysconfig.get_path("scripts"), starter)
    mpiexec = here if here.exists() else shutil.which(starter)
    if mpiexec is None:
        pytest.skip(f"{starter} is not installed")
    program(tmp_path / "ssh", FAR_SHELL)
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
        timeout=LIMIT_S,
    )
    ranks = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert len(ranks) == 2, done.stderr
    for rank in ranks:
        assert {**settings, "UCX_TLS": "of,the stack"}.items() <= rank.items()
        assert rank["LD_LIBRARY_PATH"].endswith("/a")  # Open MPI 5 puts its own in front


def test_jsrun_cannot_choose_hosts() -> None:
    with pytest.raises(UserError, match="--hosts"):
        LAUNCHERS["jsrun"].arguments(job(hosts=("a", "b")))


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
