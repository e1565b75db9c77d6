"""Doctor between hosts: a bounded number of connections, a deadline for each host, and the words of what refused.

The hosts are pretended by a stand-in for ssh, which runs the command here, or hangs.
"""

import os
import re
import resource
import socket
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest

from doctor_states import AROUND, GOOD, MLX5, RANKS, RDMA, STATES, failed
from doctor_states import hosts as between
from machine_facts import changed
from the_command import program
from volley import __version__
from volley.command.option_values import hosts as read_hosts
from volley.doctor.checks import diagnose
from volley.doctor.findings import DoctorFinding
from volley.doctor.probes import hosts, jobs, remote, trials
from volley.errors import UserError
from volley.launch.this_host import is_this_host
from volley.machine.job_facts import HostFacts
from volley.machine.variables import misspelt, names_no_device, port_range, without_single_copy

SSH = """
while [ $# -gt 0 ]; do case $1 in -*) shift ;; *) break ;; esac; done
name=$1; shift
case $name in
hangs*) exec sleep 1000 ;;
refuses*) echo "ssh: connect to host $name port 22: Connection refused" >&2; exit 255 ;;
esac
printf "Welcome to $name. No line ends here"
exec /bin/sh -c "$*"
"""


@pytest.fixture
def ssh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path / "ssh", SSH)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)


def talk(names: list[str], answer_s: float = 60.0, limit_s: float = 120.0) -> dict[str, HostFacts]:
    mpi = SimpleNamespace(launcher="", library="", family="openmpi", source="site")
    found = hosts._Conversation(names, hosts._look(mpi), answer_s, limit_s).run()  # type: ignore[arg-type]
    return {each.name: each for each in found}


def test_a_host_with_ipv6_alone_has_addresses_and_is_reached_at_them(monkeypatch: pytest.MonkeyPatch) -> None:
    line = "20010db8000000000000000000000001 02 40 {} 80 {}\n"
    known = line.format("00", "eth9") + line.format("20", "eth8") + line.format("10", "lo")
    monkeypatch.setattr(remote, "_text", lambda path: known if path.endswith("if_inet6") else "")
    found = remote._interfaces()
    assert found["eth9"] == "2001:db8::1/64"
    assert "eth8" not in found
    assert "." in found["lo"]  # IPv4 where there is any
    if not socket.has_dualstack_ipv6():
        pytest.skip("this machine has no IPv6")
    with remote._listen(1, 0) as listener:
        threading.Thread(target=remote._accept, args=(listener,), daemon=True).start()
        reached: dict[str, str] = {}
        for address in ("::1", "127.0.0.1"):
            remote._reach(reached, "b", address, str(listener.getsockname()[1]))
    assert reached["b 127.0.0.1"] == "ok"
    assert reached["b ::1"] == "ok" or "assign requested address" in reached["b ::1"]  # lo may have no ::1


def test_hosts_answer_behind_the_text_of_a_login_and_connect_to_each_other(ssh: None) -> None:
    found = talk(["one", "two", "localhost"])
    assert [each.error for each in found.values()] == [""] * 3
    for name, each in found.items():
        others = {target.partition(" ")[0] for target, answer in each.reached.items() if answer == "ok"}
        assert others == found.keys() - {name}
        assert each.settings["volley"] == __version__
    assert found["one"].settings["limit of open files"] == str(resource.getrlimit(resource.RLIMIT_NOFILE)[0])


ANSWERS = """#!/bin/sh
while [ $# -gt 0 ]; do case $1 in -*) shift ;; *) break ;; esac; done
case $1 in hangs*) exec sleep 1000 ;; esac
echo "volley-host: {'port': 7, 'interfaces': {'eth0': '192.0.2.1/24'}, 'settings': {'MPI': 'x'}}"
while read -r asked; do echo "volley-host: {'reached': {'b 192.0.2.1': 'ok'}, 'names': {}}"; done
"""
"""A stand-in for ssh whose hosts cost nothing."""


@pytest.mark.slow
def test_many_hosts_need_few_descriptors_and_the_silent_ones_are_named(ssh: None, tmp_path: Path) -> None:
    (tmp_path / "ssh").write_text(ANSWERS)
    names = [f"host{number}" for number in range(400)]
    silent = {7: "hangs1", 200: "hangs2", 399: "hangs3"}
    for number, name in silent.items():
        names[number] = name
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (200, before[1]))
    try:
        found = talk(names, answer_s=30.0)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert list(found) == names
    assert {name for name, each in found.items() if each.error} == {*silent.values()}
    assert all(each.error.startswith("no answer") for each in found.values() if each.error)


def test_a_host_that_refuses_is_quoted(ssh: None) -> None:
    found = talk(["refuses1", "two", "three"])
    assert found["refuses1"].error.endswith("ssh: connect to host refuses1 port 22: Connection refused")
    assert not found["two"].error


def test_of_hosts_that_all_refuse_no_change_is_tried(ssh: None) -> None:
    refused = [*talk(["refuses1", "refuses2"]).values()]
    assert all(each.error for each in refused)
    assert not [*trials._between_hosts(refused, "openmpi", [])]


@pytest.mark.slow
def test_data_must_cross_and_not_only_the_handshake() -> None:
    with socket.create_server(("127.0.0.1", 0)) as deaf:  # the kernel accepts, and nobody reads
        reached: dict[str, str] = {}
        remote._reach(reached, "b", "127.0.0.1", str(deaf.getsockname()[1]))
    assert "data does not cross" in reached["b 127.0.0.1"]


def test_this_host_is_known_by_its_names_and_addresses() -> None:
    assert is_this_host(os.uname().nodename)
    assert is_this_host("localhost")
    assert is_this_host("127.0.0.1")
    assert not is_this_host("192.0.2.77")  # set aside for documentation (RFC 5737)
    assert not is_this_host("no-such-host.invalid")
    assert not is_this_host("a..b")


def test_slots_are_read_as_mpirun_reads_them() -> None:
    assert read_hosts("--hosts", ["a:2,b:2"]) == ("a", "a", "b", "b")
    assert read_hosts("--hosts", ["n[1-2]:1"]) == ("n1", "n2")
    assert read_hosts("--hosts", ["fe80::1,b"]) == ("fe80::1", "b")
    for wrong in ("a:0", "a:x", "a:", ":2"):
        with pytest.raises(UserError):
            read_hosts("--hosts", [wrong])


def test_every_host_that_others_do_not_reach_is_named() -> None:
    whole = between({"complete": False, "points": []})
    closed = [{**each, "reached": dict.fromkeys(each["reached"], "port 7: timed out")} for each in whole["hosts"]]
    found = diagnose(changed(GOOD, hosts={**whole, "hosts": closed})).findings
    ports = next(each for each in found if each.check == "ports")
    assert "in the firewall of b" in ports.remedy
    assert ["in the firewall of a" in each for each in ports.also] == [True]
    others = {"c": [("a", "timed out"), ("b", "timed out")], "a": [("b", "ok"), ("c", "timed out")], "b": [("a", "ok")]}
    cut_off = [{"name": name, "reached": {f"{to} 192.0.2.1": it for to, it in its}} for name, its in others.items()]
    found = diagnose(changed(GOOD, hosts={**whole, "hosts": cut_off})).findings
    ports = next(each for each in found if each.check == "ports")
    assert ("in the firewall of c" in ports.remedy, ports.also) == (True, ())


@pytest.mark.parametrize(
    ("variables", "ports"),
    [
        ({}, None),
        ({"OMPI_MCA_btl_tcp_port_min_v4": "20000", "OMPI_MCA_btl_tcp_port_range_v4": "500"}, (20000, 20499)),
        ({"MPIR_CVAR_CH3_PORT_RANGE": "20000:20100"}, (20000, 20100)),
        ({"UCX_TCP_PORT_RANGE": "20000-20100"}, (20000, 20100)),
        ({"FI_TCP_PORT_LOW_RANGE": "7", "FI_TCP_PORT_HIGH_RANGE": "9"}, (7, 9)),
    ],
)
def test_the_range_of_ports_of_an_mpi_is_read(variables: dict[str, str], ports: tuple[int, int] | None) -> None:
    assert port_range(variables) == ports


def test_a_variable_names_what_a_host_has() -> None:
    assert names_no_device("OMPI_MCA_btl_tcp_if_include", "eth0", ["lo", "ens9"])
    assert not names_no_device("OMPI_MCA_btl_tcp_if_include", "ens9", ["lo", "ens9"])
    assert not names_no_device("OMPI_MCA_btl_tcp_if_include", "192.0.2.0/24", ["lo"])
    assert not names_no_device("OMPI_MCA_btl", "eth0", ["lo"])


SAID = {
    "ssh: Could not resolve hostname b: Name or service not known": "getent hosts b",
    "ssh: connect to host b port 22: No route to host": "ping -c 1 b",
    "Host key verification failed.": "accept its key",
    "@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @\nHost key verification failed.": "ssh-keygen -R b",
    "ssh: connect to host b port 22: Connection refused": "starts its sshd",
    "Bad owner or permissions on /home/ada/.ssh/config": "chmod",
    "[Errno 2] No such file or directory: 'ssh'": "openssh-client",
    "This account is currently not available.": "log in to b by hand",
    "bash: warning: setlocale: LC_ALL: cannot change locale: No such file or directory\nKilled": "on b: volley",
    "bash: fork: retry: Resource temporarily unavailable": "ulimit -u",
    "srun: error: Unable to confirm allocation for job 4711: Invalid job id specified": "the job has ended",
    "srun: error: Unable to create step for job 7: Requested node configuration is not available": "ask for more",
    "srun: error: Unable to contact slurm controller (connect failure)": "scontrol ping",
    "no answer within 15 s: srun: Job 7 step creation temporarily disabled, retrying (Requested nodes are busy)": (
        "another step"
    ),
    "ada@b: Permission denied (publickey,password).": "without a password",
    "Access denied by pam_slurm_adopt: you have no active jobs on this node\nConnection closed by b port 22": "squeue",
    "Welcome!\nenv: /opt/python: No such file or directory": "install volley",
    "srun: fatal: SLURM_MEM_PER_CPU and SLURM_MEM_PER_NODE are mutually exclusive.": "unset SLURM_MEM_PER_CPU",
    "/x/python: /lib64/libc.so.6: version `GLIBC_2.34' not found (required by /x/python)": "install volley",
    "bash: line 1: 4711 Illegal instruction (core dumped) /x/python": "install volley",
    "srun: error: Application launch failed: Invalid job credential": "munge",
    "srun: error: Unable to create step for job 42: Requested nodes are busy": "another step",
    "slurmstepd: error: *** STEP 42.3 ON b CANCELLED AT 2026-11-29T01:00:00 DUE TO TIME LIMIT ***": "the job has ended",
    "srun: error: Unable to allocate resources: Invalid account or account/partition combination": "sacctmgr",
    "slurmstepd: error: couldn't chdir to `/x': No such file: going to /tmp instead\nOut Of Memory": "free -m",
    "Connection to b closed by remote host.": "ssh -v b",
    'unix_listener: path "/a/very/long/path/to/ssh" too long for Unix domain socket': "ControlPath=none",
    "System is booting up. Unprivileged users are not permitted to log in yet.\nConnection closed by b": "has started",
    "srun: error: Unable to create step for job 7: Job credential expired": "munge",
    "srun: error: Unable to create step for job 7: Job prolog failed": "journalctl -u slurmd",
    "srun: error: Unable to create step for job 7: Access denied to requested reservation": "sacctmgr",
    "srun: error: Unable to create step for job 7: Job is not running": "the job has ended",
    "srun: error: Unable to allocate": "srun --nodes=1 --nodelist=b true",
    "no answer within 15 s": "a login hangs",
}


@pytest.mark.parametrize("said", SAID)
def test_the_remedy_fits_what_was_said(said: str) -> None:
    facts = changed(GOOD, **STATES["a host that does not answer"])
    document = facts.hosts.value
    broken = [each if each.name != "b" else HostFacts(name="b", error=said) for each in document.hosts]
    memory = {"SLURM_MEM_PER_CPU": "1", "SLURM_MEM_PER_NODE": "2"}
    facts = changed(facts, hosts={"hosts": [msgspec.to_builtins(each) for each in broken]}, environment=memory)
    finding: DoctorFinding = next(each for each in diagnose(facts).findings if each.check == "hosts")
    assert SAID[said] in finding.remedy
    assert (" ssh " in finding.remedy) <= bool(re.search("ssh|publickey|Host key|Connection|unix_listener", said))


def test_what_further_hosts_say_is_joined_to_what_to_do() -> None:
    silent = [{"name": name, "error": "user@b: Permission denied (publickey)."} for name in "bc"]
    facts = changed(changed(GOOD, **STATES["a host that does not answer"]), hosts={"hosts": [{"name": "a"}, *silent]})
    (found,) = (each for each in diagnose(facts).findings if each.check == "hosts")
    assert re.match(r"c: .*\(publickey\); ssh", found.also[0])


def test_what_runs_on_the_hosts_needs_nothing_installed() -> None:
    """It is imported by a Python without site-packages."""
    text = Path(remote.__file__).read_text("utf-8")
    imported = {line.split()[1] for line in text.splitlines() if line.startswith(("import ", "from "))}
    assert imported <= {*sys.stdlib_module_names, "__future__"}


def test_a_parameter_is_misspelt_only_where_one_of_its_component_is_nearly_so() -> None:
    """What this Open MPI does not list may be of a launcher, of a component that was not built, or of a session."""
    names = ("btl_tcp_if_include", "btl_sm_eager_limit", "opal_base_help_aggregate", "mpi_show_mca_params")
    known = {f"OMPI_MCA_{name}" for name in names}
    fine = (
        "btl_tcp_if_include",
        "btl_openib_if_include",
        "orte_base_help_aggregate",
        "rmaps_base_x",
        "PREFIXES",
        "pmix",
        "num_procs",
    )
    unknown = misspelt({"UCX_TSL": "tcp", **{f"OMPI_MCA_{name}": "1" for name in fine}}, known)
    assert unknown == {"OMPI_MCA_btl_openib_if_include": "", "OMPI_MCA_rmaps_base_x": ""}
    assert misspelt({"OMPI_MCA_btl_tcp_if_incldue": "lo"}, known) == {
        "OMPI_MCA_btl_tcp_if_incldue": "OMPI_MCA_btl_tcp_if_include"
    }
    turned = {"OMPI_MCA_blt_tcp_if_include": "OMPI_MCA_btl_tcp_if_include", "OMPI_MCA_plm": ""}
    assert misspelt(dict.fromkeys(turned, "1"), {*known, "OMPI_MCA_pml"}) == turned, "plm is a framework of PRRTE"
    frameworks = {"OMPI_MCA_pmll": "OMPI_MCA_pml", "OMPI_MCA_bt": "", "OMPI_MCA_rmaps": ""}
    assert misspelt(dict.fromkeys(frameworks, "1"), {*known, "OMPI_MCA_pml", "OMPI_MCA_rml"}) == frameworks
    assert misspelt({"OMPI_MCA_btl_tcp_if_incldue": "lo"}, set()) == {}, "ompi_info said nothing"


def test_inside_a_launcher_the_mpi_is_that_of_the_launcher(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, choose = [], jobs.choose_mpi
    monkeypatch.setattr(jobs, "choose_mpi", lambda *words: asked.extend(words[2:]) or choose(*words[:2]))
    monkeypatch.setattr(jobs, "_same", lambda *_: False)
    for name in ("PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS"):
        monkeypatch.setenv(name, "1")
    assert jobs.stack("").other_mpirun is None
    assert asked == ["mpich"]


def test_a_variable_of_nccl_is_misspelt_where_its_library_names_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "libnccl.so.2").write_bytes(b"\0ELF\0NCCL_IB_DISABLE\0NCCL_P2P_LEVEL\0\xff")
    monkeypatch.setenv("LD_LIBRARY_PATH", f":{tmp_path}")
    for name in ("NCCL_IB_DISABLED", "NCCL_P2P_LEVEL", "NCCL_OF_ANOTHER_VERSION"):
        monkeypatch.setenv(name, "1")
    assert jobs.stack("").misspelt == {"NCCL_IB_DISABLED": "NCCL_IB_DISABLE"}
    (tmp_path / "libnccl.so.2").write_bytes(b"")
    assert jobs.stack("").misspelt == {}


@pytest.mark.parametrize(
    ("setting", "library", "off"),
    [
        ("OMPI_MCA_btl_vader_single_copy_mechanism=none", "openmpi 4", True),
        ("OMPI_MCA_btl_vader_single_copy_mechanism=xpmem", "openmpi 4", False),
        ("OMPI_MCA_btl_vader_single_copy_mechanism=none", "openmpi 5", False),
        ("OMPI_MCA_smsc=^xpmem,cma", "openmpi 5", True),
        ("OMPI_MCA_smsc=^xpmem", "openmpi 5", False),
        ("OMPI_MCA_smsc=^cma", "mpich", False),
        ("MPIR_CVAR_CH4_CMA_ENABLE=0", "mpich", True),
        ("MPIR_CVAR_CH4_CMA_ENABLE=1", "mpich", False),
        ("I_MPI_SHM_CMA=off", "intel", True),
        ("UCX_TLS=self,tcp", "UCX", True),
        ("UCX_TLS=self,posix,sysv", "UCX", True),
        ("UCX_TLS=^cma", "UCX", True),
        ("UCX_TLS=^tcp", "UCX", False),
        ("UCX_TLS=all", "UCX", False),
        ("UCX_TLS=rc,sm,self", "UCX", False),
        ("UCX_TLS=rc,cma", "UCX", False),
        ("UCX_TLS=self,posix", "openmpi", False),
    ],
)
def test_what_tells_an_mpi_to_copy_twice_is_known_by_library(setting: str, library: str, off: bool) -> None:
    name, _, value = setting.partition("=")
    assert without_single_copy({name: value}, {library}) == ([name] if off else [])


def test_variables_of_mpich_and_intel_mpi_are_misspelt_where_their_libraries_name_others() -> None:
    known = {"MPIR_CVAR_NOLOCAL", "MPIR_CVAR_CH4_CMA_ENABLE", "I_MPI_FABRICS", "I_MPI_PIN", "I_MPI_PIN_DOMAIN"}
    fine = dict.fromkeys([*known, "I_MPI_HYDRA_IFACES", "MPIR_CVAR_OF_ANOTHER_VERSION", "I_MPI_ROOT"], "1")
    assert misspelt(
        {**fine, "MPIR_CVAR_NOLOCL": "1", "I_MPI_FABRIC": "shm", "MPIR_CVAR_CH4_CMA_ENABEL": "0"}, known
    ) == {
        **dict.fromkeys(["MPIR_CVAR_OF_ANOTHER_VERSION", "I_MPI_ROOT"], ""),
        "MPIR_CVAR_NOLOCL": "MPIR_CVAR_NOLOCAL",
        "I_MPI_FABRIC": "I_MPI_FABRICS",
        "MPIR_CVAR_CH4_CMA_ENABEL": "MPIR_CVAR_CH4_CMA_ENABLE",
    }


def test_tcp_is_tried_in_place_of_rdma_and_is_a_way_around_only(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if trials.SETTING.match(name)]:
        monkeypatch.delenv(name)
    both = [HostFacts(name=name, interfaces={"eth0": f"192.0.2.{number}/24"}) for number, name in enumerate("ab", 1)]
    for family in ("openmpi", "mpich", "intel"):
        tried = [trial for trial, *_ in trials._between_hosts(both, family, ["it hangs"])]
        assert tried
        assert all(trial.goes_around for trial in tried)
        job = {**failed("Open MPI 5.0.11: the variables of a job on another host"), "text": ["it hangs"]}
        trial = {**msgspec.to_builtins(tried[-1]), "works": True}
        found = {each.check: each for each in diagnose(changed(GOOD, hosts={**between(job), "trial": trial})).findings}
        assert tried[-1].change in found["MPI between hosts"].remedy
        assert "switches off RDMA" in found["MPI between hosts"].remedy
        assert found["interfaces"].status == "good"


@pytest.mark.parametrize(
    ("near", "far", "idle", "named"),
    [("mlx5_1", "mlx5_0", ["mlx5_1"], True), ("mlx5_0", "mlx5_1", ["mlx5_1"], False), ("mlx5_1", "mlx5_0", [], False)],
)
def test_a_card_far_from_its_rank_is_named_where_a_near_one_is_idle(
    near: str, far: str, idle: list[str], named: bool
) -> None:
    places = [
        {"kind": "nic", "address": f"0000:{number}1:00.0", "names": [name], "cores": cores}
        for number, (name, cores) in enumerate(((near, "0-31"), (far, "32-63")))
    ]
    card = {**MLX5, "sent": 1.0, "received": 1.0}
    ends = [{"rank": rank, "host": host, "devices": [card]} for rank, host in enumerate((RANKS[0]["host"], "b"))]
    path = {"library": "UCX", "protocol": "rc_mlx5", "ends": ends, "idle": [{**MLX5, "name": name} for name in idle]}
    facts = changed(
        GOOD,
        **RDMA,
        limits={"memlock_bytes": None},
        topology={"places": places},
        surroundings={**AROUND, "host": RANKS[0]["host"]},
        hosts=between(path=path),
    )
    (found,) = (each for each in diagnose(facts).findings if each.check == "MPI between hosts")
    assert ("far from rank 0" in found.said, "UCX_NET_DEVICES=mlx5_1:1" in found.remedy) == (named, named)


def test_a_parameter_in_a_file_is_misspelt_as_one_in_the_shell_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for file, text in {
        "home/.openmpi/mca-params.conf": "# btl = tcp\n btl_tcp_if_incldue = eth0\nno setting\n",
        "mpi/etc/openmpi-mca-params.conf": "pml=ob1\n",
        "mpi/bin/mpirun": "",
    }.items():
        (tmp_path / file).parent.mkdir(parents=True)
        (tmp_path / file).write_text(text)
    chosen = SimpleNamespace(family="openmpi", launcher=str(tmp_path / "mpi/bin/mpirun"))
    found = jobs._parameters_in_files(chosen)  # type: ignore[arg-type]
    assert found == {"OMPI_MCA_btl_tcp_if_incldue": "eth0", "OMPI_MCA_pml": "ob1"}
    wrong = misspelt(found, {"OMPI_MCA_btl_tcp_if_include", "OMPI_MCA_pml"})
    facts = changed(GOOD, stack={"misspelt": wrong})
    (finding,) = (each for each in diagnose(facts).findings if each.check == "inherited settings")
    assert finding.status == "warning"
    assert finding.remedy.startswith("write btl_tcp_if_include for btl_tcp_if_incldue in ~/.openmpi/mca-params.conf")
