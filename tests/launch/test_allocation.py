"""What a batch system has given, read from the variables and files that it writes."""

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from volley import benchmarks
from volley.command.option_values import HostListError, expand
from volley.errors import UserError
from volley.launch.allocation import Allocation, allocation
from volley.launch.engine import About, TransportAbout
from volley.launch.inside_launcher import RankInfo
from volley.run.jobs import JobContext

SLURM = {"SLURM_JOB_ID": "1", "SLURM_JOB_NUM_NODES": "1"}
CSM = {"LSB_JOBID": "1", "LSB_MCPU_HOSTS": "batch2 1 a04n05 42 a04n06 42", "CSM_ALLOCATION_ID": "7"}

NUMBERS_OF_SLURM = ("SLURM_NTASKS", "SLURM_JOB_NUM_NODES", "SLURM_TASKS_PER_NODE", "SLURM_GPUS_ON_NODE")
LONG = "9" * 5000
"""More digits than Python turns into a number."""


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, None),
        # sbatch -n 2 on one node, Slurm 22.05
        ({**SLURM, "SLURM_TASKS_PER_NODE": "2"}, Allocation("slurm", 1, 2)),
        (
            {"SLURM_JOB_ID": "1", "SLURM_JOB_NUM_NODES": "4", "SLURM_TASKS_PER_NODE": "2(x3),1"},
            Allocation("slurm", 4, 7),
        ),
        ({"SLURM_JOB_ID": "1"}, Allocation("slurm", 1, 1)),
        # salloc -N 2 -n 2, Slurm 22.05
        (
            {
                "SLURM_JOB_ID": "3",
                "SLURM_JOB_NUM_NODES": "2",
                "SLURM_JOB_NODELIST": "volley-a,volley-b",
                "SLURM_TASKS_PER_NODE": "1(x2)",
                "SLURM_NTASKS": "2",
            },
            Allocation("slurm", 2, 2, {"volley-a": 1, "volley-b": 1}, ranks=2),
        ),
        (
            {
                "SLURM_JOB_ID": "1",
                "SLURM_JOB_NUM_NODES": "3",
                "SLURM_JOB_NODELIST": "n[09-10],x",
                "SLURM_TASKS_PER_NODE": "4(x2),2",
                "SLURM_GPUS_ON_NODE": "4",
                "SLURM_JOB_GPUS": "0,1",
            },
            Allocation("slurm", 3, 10, {"n09": 4, "n10": 4, "x": 2}, gpus_per_node=4),
        ),
        # salloc -N 2 --ntasks-per-node=1 --cpus-per-task=4
        (
            {**SLURM, "SLURM_JOB_NUM_NODES": "2", "SLURM_TASKS_PER_NODE": "1(x2)", "SLURM_JOB_CPUS_PER_NODE": "8,4"},
            Allocation("slurm", 2, 2, cpus_per_node=4),
        ),
        ({**SLURM, "SLURM_JOB_GPUS": "0,3"}, Allocation("slurm", 1, 1, gpus_per_node=2)),
        ({**SLURM, "CUDA_VISIBLE_DEVICES": "0"}, Allocation("slurm", 1, 1, gpus_per_node=1)),
        ({**SLURM, "CUDA_VISIBLE_DEVICES": "NoDevFiles"}, Allocation("slurm", 1, 1, gpus_per_node=0)),
        ({**SLURM, "CUDA_VISIBLE_DEVICES": "2,-1,0"}, Allocation("slurm", 1, 1, gpus_per_node=1)),
        # what cannot be understood counts as not said
        ({**SLURM, "SLURM_JOB_NODELIST": "n[1-", "SLURM_NTASKS": "x"}, Allocation("slurm", 1, 1)),
        ({**SLURM, "SLURM_JOB_NODELIST": "n[1-3]", "SLURM_TASKS_PER_NODE": "1"}, Allocation("slurm", 1, 1)),
        ({"SLURM_JOB_ID": "1", **dict.fromkeys(NUMBERS_OF_SLURM, LONG)}, Allocation("slurm", 1, 1)),
        ({**SLURM, "SLURM_JOB_NODELIST": f"n[{LONG}]"}, Allocation("slurm", 1, 1)),
        ({"LSB_JOBID": "1", "LSB_MCPU_HOSTS": f"a 4 b {LONG}"}, Allocation("lsf", 1, 4, {"a": 4})),
        ({"JOB_ID": "1", "SGE_ROOT": "/sge", "NSLOTS": LONG}, Allocation("age", 1, 1)),
        ({"LSB_JOBID": "1", "LSB_MCPU_HOSTS": "a 4 b 4"}, Allocation("lsf", 2, 8, {"a": 4, "b": 4})),
        (CSM, Allocation("lsf", 2, 84, {"a04n05": 42, "a04n06": 42})),
        ({"LSB_JOBID": "1", "LSB_MCPU_HOSTS": "a 4 -x 4 b"}, Allocation("lsf", 1, 4, {"a": 4})),
        (
            {"PBS_JOBID": "1", "PBS_NODEFILE": "/nowhere"},
            Allocation("pbs", 1, 1, unread="PBS_NODEFILE: cannot read /nowhere: No such file or directory"),
        ),
        ({"PBS_JOBID": "1", "NCPUS": "8"}, Allocation("pbs", 1, 1, cpus_per_node=8)),
        # Grid Engine without a parallel environment
        ({"JOB_ID": "1", "SGE_ROOT": "/sge", "NSLOTS": "5"}, Allocation("age", 1, 5)),
        ({"JOB_ID": "1", "SGE_ROOT": "/sge", "SGE_HGR_gpu": "0 2"}, Allocation("age", 1, 1, gpus_per_node=2)),
        ({"SGE_ROOT": "/sge"}, None),  # its login nodes
        ({"JOB_ID": "1"}, None),  # somebody else's job
    ],
)
def test_allocation(environment: dict[str, str], expected: Allocation | None) -> None:
    assert allocation(environment) == expected


def test_pbs_counts_the_lines_of_its_files(tmp_path: Path) -> None:
    nodes, gpus = tmp_path / "nodes", tmp_path / "gpus"
    nodes.write_text("a\na\nb\nb\n", encoding="utf-8")
    gpus.write_text("a-gpu0\na-gpu1\nb-gpu0\nb-gpu1\n", encoding="utf-8")
    job = {"PBS_JOBID": "1", "PBS_NODEFILE": str(nodes)}
    assert allocation(job) == Allocation("pbs", 2, 4, {"a": 2, "b": 2})
    assert allocation({**job, "PBS_GPUFILE": str(gpus)}) == Allocation("pbs", 2, 4, {"a": 2, "b": 2}, gpus_per_node=2)


@pytest.mark.parametrize(
    ("word", "hosts"),
    [("a[001-003,07],b-ib[1-2]", ("a001", "a002", "a003", "a07", "b-ib1", "b-ib2")), ("b, a,b", ("b", "a", "b"))],
)
def test_hosts_are_asked_for_in_the_format_of_an_allocation(word: str, hosts: tuple[str, ...]) -> None:
    assert benchmarks.read(["matrix", "--hosts", word])[1].job.hosts == hosts


def test_a_file_of_hosts_is_refused_with_the_command_that_passes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "my hosts"
    file.write_text("a slots=2\nb slots=2\n", encoding="ascii")
    with pytest.raises(UserError, match="is a file") as caught:
        benchmarks.read(["matrix", "--hosts", str(file)])
    advice = str(caught.value).rpartition(": ")[2]
    said = subprocess.run(["sh", "-c", f"echo {advice}"], capture_output=True, text=True, check=True)
    assert said.stdout == "--hosts a,b\n"
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match="is a file"):
        benchmarks.read(["matrix", "--hosts", file.name])


def test_grid_engine_says_hosts_and_slots_in_a_file(tmp_path: Path) -> None:
    file = tmp_path / "pe_hostfile"
    file.write_text("a0001 72 gpu@a0001 UNDEFINED\na0002 72 gpu@a0002 <NULL>\n\n-oops 1\nbroken\n", encoding="utf-8")
    found = allocation({"JOB_ID": "1", "PE_HOSTFILE": str(file), "NSLOTS": "144"})
    assert found == Allocation("age", 2, 144, {"a0001": 72, "a0002": 72})


# ------------------------------------------------------------------------------------------- Slurm's host lists


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ("login1", "login1"),
        ("n[1-3,7]", "n1 n2 n3 n7"),
        ("n[08-11]", "n08 n09 n10 n11"),
        ("n[9-10],x,m[1]", "n9 n10 x m1"),
        ("rack[1-2]node[1-2]", "rack1node1 rack1node2 rack2node1 rack2node2"),
        ("n[1-2]-ib", "n1-ib n2-ib"),
        ("n[3-1]", ""),
    ],
)
def test_a_list_of_hosts_is_expanded(text: str, hosts: str) -> None:
    assert expand(text) == tuple(hosts.split())


NO_LISTS = (",", "a,,b", "a,", "n[", "n]", "n[]", "n[1-]", "n[a-b]", "n[1[2]]", "n[1-2-3]", "n[0-999999999]",
            "a[0-999]b[0-999]c[0-999]")  # fmt: skip


@pytest.mark.parametrize("text", ["", *NO_LISTS, f"n[{LONG}]"])
def test_what_is_no_list_is_refused(text: str) -> None:
    with pytest.raises(HostListError):
        expand(text)


PREFIX = st.text("abcxyz-.", min_size=1, max_size=4)
NUMBERS = st.lists(st.integers(0, 120), min_size=1, max_size=12, unique=True).map(sorted)


def spans(numbers: list[int], width: int) -> str:
    """The short form of sorted numbers, in the way that Slurm writes it."""
    found: list[list[int]] = []
    for number in numbers:
        if found and number == found[-1][1] + 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    return ",".join(f"{a:0{width}d}" if a == b else f"{a:0{width}d}-{b:0{width}d}" for a, b in found)


@given(st.lists(st.tuples(PREFIX, NUMBERS, st.integers(1, 4)), min_size=1, max_size=4))
def test_expanding_undoes_shortening(groups: list[tuple[str, list[int], int]]) -> None:
    short = ",".join(f"{prefix}[{spans(numbers, width)}]" for prefix, numbers, width in groups)
    long = [f"{prefix}{number:0{width}d}" for prefix, numbers, width in groups for number in numbers]
    assert list(expand(short)) == list(expand(",".join(long))) == long


@given(st.text("n019[]-,", max_size=20))
def test_any_text_is_a_list_or_refused(text: str) -> None:
    try:
        hosts = expand(text)
    except HostListError:
        return
    assert all(host and not set(host) & set("[],") for host in hosts)


# ------------------------------------------------------------------------------------------- what is made of it


@pytest.mark.parametrize(
    ("words", "allocated", "ranks"),
    [
        (("transports",), 4, 4),
        (("transports",), None, 2),
        (("transports",), 1, 2),
        (("transports", "--ranks", "3"), 4, 3),
        (("pingpong",), 4, 2),
        (("matrix", "--ranks", "3"), 4, 3),
        (("matrix", "--mode", "loaded"), 4, 4),
        (("pingpong", "--hosts", "a,a,a"), None, 2),  # slots are the most that a host takes
        (("message-rate", "--hosts", "a:2,b:2"), None, 4),
    ],
)
def test_looking_at_what_works_takes_all_ranks_that_were_asked_for(
    words: tuple[str, ...], allocated: int | None, ranks: int
) -> None:
    benchmark, options = benchmarks.read(words)
    about = About(transports=(TransportAbout(name="host", summary="", mpi=True, memory="host"),))
    context = JobContext(about, allocation=Allocation("slurm", nodes=2, slots=8, ranks=allocated))
    assert [job.plan.world_size for job in benchmark.jobs(options, context).planned] == [ranks]
    assert replace(context, position=RankInfo(0, 3, "srun")).ranks_given == 3  # those that the launcher has started
