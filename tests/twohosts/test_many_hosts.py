"""Several hosts on one switch, whose cables have a known rate."""

import json
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest
from pretend_cluster import NoSlurmError, cluster
from pretend_hosts import Lab, NoHostsError, switched

from volley.benchmarks import BENCHMARKS
from volley.benchmarks.matrix.cases import RankMatrixCase, cases_of
from volley.records.records_file import read_runs

pytestmark = [pytest.mark.slow, pytest.mark.alone]

GIGABIT = ("rate", "1gbit", "burst", "128kb", "latency", "500ms")
HALF = ("rate", "500mbit", "burst", "128kb", "latency", "500ms")
LOSING = ("rate", "1gbit", "burst", "20kb", "limit", "30kb")
SLOW_CABLE = ("rate", "100mbit", "burst", "16kb", "latency", "500ms")
"""So slow that what two processors do for all hosts does not matter."""


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """Eight hosts on one switch, until the module's last test ends."""
    try:
        with switched(tmp_path_factory.mktemp("switch") / "lab", 8) as made:
            yield made
    except NoHostsError as reason:
        pytest.skip(str(reason))


SHORT = """
import sys
from volley import cli
from volley.check import cluster
cluster.BANDWIDTH_BYTES, cluster.VISITS, cluster.LOOKS = 256 << 10, 80, 2
sys.exit(cli.main(sys.argv[1:]))
"""
"""A check with shorter messages, half of the visits and at most two launches."""


def command(names: Sequence[str], *words: str) -> list[str]:
    """Return what runs volley on these hosts, or on those of the job; ranks that wait let others have the processor."""
    program = ["env", "OMPI_MCA_mpi_yield_when_idle=1", sys.executable, "-c", SHORT]
    return [*program, *words, *(["--hosts", ",".join(names)] if names else [])]


def plug_in(hosts: Lab, cables: Sequence[Sequence[str]]) -> Sequence[str]:
    """Give the first hosts these cables, and return their names."""
    names = hosts.names[: len(cables)]
    for name, cable in zip(names, cables, strict=True):
        tokens = ("tc", "qdisc", "replace", "dev", "eth0", "root", "tbf", *cable)
        assert hosts.run(tokens, host=name, timeout_s=10).returncode == 0
    return names


@pytest.mark.long
def test_pairs_of_nodes_agree_with_isolated_ones(hosts: Lab, tmp_path: Path) -> None:
    names = plug_in(hosts, [SLOW_CABLE] * 4)
    cases: dict[str, RankMatrixCase] = {}
    for words in ((), ("--mode", "isolated")):
        records = tmp_path / f"records{len(words)}.jsonl"
        what = ("--latency", "none", "--bandwidth", "16k", "--window", "8", "--no-remeasure")
        done = hosts.run(command(names, "matrix", *what, *words, "-o", str(records)), timeout_s=120)
        assert done.returncode == 0, done.stderr
        (case,) = cases_of(list(read_runs(records, BENCHMARKS)))
        cases[case.row.mode] = case
    nodes, isolated = cases["nodes"], cases["isolated"]
    both = ~np.isnan(nodes.times_s)
    assert np.count_nonzero(both) == 12
    ratio = np.median(nodes.times_s[both]) / np.median(isolated.times_s[both])
    assert 1 / 1.5 < ratio < 1.5  # two pairs of a node at once would take twice as long


@pytest.mark.long
def test_two_bad_cables_among_eight_hosts(hosts: Lab, tmp_path: Path) -> None:
    """One is slow, and one loses packets."""
    names = plug_in(hosts, [GIGABIT, GIGABIT, GIGABIT, HALF, GIGABIT, GIGABIT, LOSING, GIGABIT])
    words = ("check", "--one-switch", "--budget", "90", "--format", "json", "-o", str(tmp_path / "records.jsonl"))
    done = hosts.run(command(names, *words), timeout_s=300)
    assert done.returncode == 1, done.stderr
    findings = json.loads(done.stdout)["findings"]
    # Eight hosts share two processors, so the latency of messages of 8 B says nothing about cables.
    bad = [each for each in findings if each["verdict"] == "FAIL" and each["layer"].startswith("bandwidth")]
    assert [(each["part"], each["nodes"]) for each in bad] == [
        (f"node {name}", [name]) for name in (names[3], names[6])
    ]


SLOW_HOST = """
import os, signal, time
here = os.readlink("/proc/self/ns/uts")
while True:
    for part, asked in ((0.03, signal.SIGSTOP), (0.006, signal.SIGCONT)):
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                program = open(f"/proc/{pid}/comm").read()
                if program.startswith("volley-engine") and os.readlink(f"/proc/{pid}/ns/uts") == here:
                    os.kill(int(pid), asked)
            except OSError:  # it has ended
                pass
        time.sleep(part)
"""
"""The ranks of the host in which this runs have a sixth of the time."""


@pytest.mark.parametrize(
    ("slow_host", "slow_cable", "under_slurm"),
    [(None, 6, True), *(pytest.param(*each, marks=pytest.mark.long) for each in ((None, None, False), (1, 6, False)))],
)
def test_two_switches_of_uneven_size(
    tmp_path: Path, slow_host: int | None, slow_cable: int | None, under_slurm: bool
) -> None:
    """Five hosts on one switch and three on another: all are good, or a cable is slow, or a host too.

    A file says which host is on which switch, or Slurm does.
    """
    budget = "8" if under_slurm else "25"
    words = ("check", "--budget", budget, "--format", "json", "-o", str(tmp_path / "records.jsonl"))
    try:
        with switched(tmp_path / "lab", 5, 3) as hosts, ExitStack() as stack:
            names = plug_in(hosts, [HALF if number == slow_cable else GIGABIT for number in range(8)])
            if slow_host is not None:
                stack.callback(hosts.start([sys.executable, "-c", SLOW_HOST], host=names[slow_host]).kill)
            if under_slurm:
                leaves = [f"SwitchName=leaf{n} Nodes={','.join(its)}" for n, its in enumerate((names[:5], names[5:]))]
                topology = "\n".join([*leaves, "SwitchName=top Switches=leaf[0-1]", ""])
                slurm = stack.enter_context(cluster(hosts, tmp_path, topology))
                done = slurm.run(["salloc", "--quiet", "-N8", *command((), *words)])
            else:
                switches = tmp_path / "switches.txt"
                switches.write_text("".join(f"{name} leaf{number > 4} top\n" for number, name in enumerate(names)))
                done = hosts.run(command(names, *words, "--switches", str(switches)), timeout_s=120)
    except (NoHostsError, NoSlurmError) as reason:
        pytest.skip(str(reason))
    assert "8 nodes on 2 leaf switches" in done.stderr
    document = json.loads(done.stdout)
    assert done.returncode == document["exit_code"]
    found = [each for each in document["findings"] if each["layer"].startswith("bandwidth")]
    failed = {node for each in found if each["verdict"] == "FAIL" for node in each["nodes"]}
    open_ = {node for each in found if each["verdict"] == "UNDECIDED" for node in each["nodes"]}
    expected, named = {names[number] for number in (slow_host, slow_cable) if number is not None}, failed | open_
    assert failed <= expected, done.stdout
    assert done.returncode == 1 or not failed, done.stdout
    assert expected <= named, done.stdout


@pytest.mark.long
def test_a_cable_that_is_pulled_out(hosts: Lab, tmp_path: Path) -> None:
    names, records = plug_in(hosts, [GIGABIT] * 4), tmp_path / "records.jsonl"
    words = ("check", "--budget", "60", "--watchdog", "4", "--format", "json", "-o", str(records))
    with hosts.start(command(names, *words), host=names[0]) as running:
        while running.poll() is None and not (records.exists() and b'"record":"end"' in records.read_bytes()):
            if records.exists() and b'"record":"rank_matrix"' in records.read_bytes():
                hosts.run(["ip", "link", "set", "eth0", "down"], host=names[3], timeout_s=10)
                break
            time.sleep(0.2)
        out, _ = running.communicate(timeout=120)
    assert running.returncode == 1
    (bad,) = (each for each in json.loads(out)["findings"] if each["verdict"] == "FAIL")
    assert "no progress" in bad["why"]
    assert names[3] in bad["why"]


def test_doctor_sends_between_three_hosts(hosts: Lab) -> None:
    """A job over more than two hosts is one in which each sends to each."""
    names = ",".join(hosts.names[:3])
    words = [sys.executable, "-m", "volley", "doctor", "--format", "json", "--timeout", "20", "--hosts", names]
    done = hosts.run(["env", "-u", "OMPI_MCA_pml", "-u", "OMPI_MCA_btl", *words], timeout_s=200)
    found = {each["check"]: each for each in json.loads(done.stdout)["findings"]}
    between = [
        each for each in found.values() if each["layer"] == "between hosts" and each["status"] != "not applicable"
    ]
    assert {each["status"] for each in between} == {"good"}, between
    assert "all-to-all of 1 KiB" in found["MPI between hosts"]["said"]
    assert "TCP over eth0" in found["MPI between hosts"]["said"]
