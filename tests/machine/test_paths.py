"""What carried the bytes: counters of devices decide, the words of libraries explain, and a slower way is a finding."""

import re
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from volley.machine import nccl_words, paths
from volley.machine.fallbacks import fallback
from volley.machine.path_words import said_of
from volley.machine.paths import CountedDevice, CountedEnd, PathCounts, RunPath, Said

UCX = Path(__file__).parents[1] / "ucx"
SIZE, EXCHANGES = 1 << 20, 4
WHOLE = SIZE * EXCHANGES
OPEN_MPI = [
    "[a:65] select: init returned failure for component ucx",
    "[a:65] selected ob1 best priority 20",
    "[a:65] mca: bml: Using self btl for send to [[4697,1],0] on node a",
    "[a:65] mca: bml: Using {} btl for send to [[4697,1],1] on node b",
]
"""Captured from Open MPI 5.0.11, with the names of components taken out."""
BY_TCP, BY_SM = ([line.format(component) for line in OPEN_MPI] for component in ("tcp", "sm"))
OPEN_MPI_5 = "Open MPI v5.0.11"
HERE = ("a", "a")
SINGLE_COPY = "[a:65] mca_smsc_base_select: selected shared-memory single-copy component: xpmem"
INTEL = ["[0] MPI startup(): libfabric version: 1.17.0", "[0] MPI startup(): libfabric provider: tcp;ofi_rxm"]
"""Captured from Intel MPI 2021.18."""
NCCL = [
    "a:7:7 [0] NCCL INFO NCCL version 2.27.7+cuda12.9",
    "a:7:9 [0] NCCL INFO NET/IB : No device found.",
    "a:7:9 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[0] [send] via NET/Socket/0",
]
"""Composed from the format of NCCL 2.27 (src/transport/net.cc, net_ib)."""


def device(
    name: str, payload: float = 0.0, *, rate: float | None = 10e9, packet: int = 1448, **more: object
) -> CountedDevice:
    """A device that carried this part of the bytes each way, with its headers, as its counters have it."""
    rdma = name.startswith(("mlx5", "rdmap"))
    packets = round(payload * WHOLE / packet)
    counted = round(payload * WHOLE) + packets * paths.HEADERS_BYTES[rdma]
    facts = {"rdma": rdma, "up": True, "rate_bits_per_s": rate, "shared": [], **more}
    return CountedDevice(name, *facts.values(), counted, counted, packets, packets)  # type: ignore[arg-type]


def found(
    *devices: CountedDevice, lines: Sequence[str] = (), mpi: str = "", transport: str = "host", size: int = SIZE,
    hosts: tuple[str, str] = ("a", "b"),
) -> RunPath:  # fmt: skip
    ends = [CountedEnd(rank, host, list(devices)) for rank, host in enumerate(hosts)]
    counts = PathCounts(transport, size, EXCHANGES, ends)
    return paths.path_of(counts, said_of(counts, lines, mpi))


@pytest.mark.parametrize("packet", [1448, 8948, 65160])
def test_bytes_are_counted_without_the_headers_of_packets_of_any_length(packet: int) -> None:
    path = found(device("eth0", 1.0, packet=packet), device("eth1"))
    assert path.counted == pytest.approx(1.0, abs=1e-5)
    assert (path.kind, path.over()) == ("TCP", "eth0 (10 Gbit/s)")
    assert [idle.name for idle in path.idle] == ["eth1"]


def test_the_parts_of_several_devices_are_told() -> None:
    assert found(device("eth0", 0.7), device("eth1", 0.3)).over() == (
        "70 % on eth0 (10 Gbit/s) and 30 % on eth1 (10 Gbit/s)"
    )
    assert "eth1" not in found(device("eth0", 1.0), device("eth1", 0.02)).over()


def test_each_direction_and_each_end_may_have_its_own_device() -> None:
    def end(out: str, back: str) -> list[CountedDevice]:
        full = device("x", 1.0)
        return [
            CountedDevice(out, False, True, None, [], full.sent_bytes, 0, full.sent_packets, 0),
            CountedDevice(back, False, True, None, [], 0, full.sent_bytes, 0, full.sent_packets),
        ]

    ends = [CountedEnd(0, "a", end("eth0", "eth1")), CountedEnd(1, "b", end("ens1", "ens0"))]
    path = paths.path_of(PathCounts("host", SIZE, EXCHANGES, ends), Said())
    assert path.over() == "eth0 to ens0, back over ens1 to eth1"
    assert path.in_short() == "TCP over eth0, back over eth1"


def test_what_is_counted_twice_is_told_once() -> None:
    """A bond above its interfaces; IP over InfiniBand, which the RDMA device counts too."""
    bond = found(device("bond0", 1.0, rate=20e9), *(device(name, 0.5, shared=["bond0"]) for name in ("eth0", "eth1")))
    assert (bond.over(), bond.idle) == ("bond0 (20 Gbit/s)", [])
    bridged = found(
        device("bond0", 1.0, shared=["br0"]), device("br0", 1.0, rate=None), device("eth0", 1.0, shared=["bond0"])
    )
    assert bridged.over() == "br0"
    ipoib = found(device("ib0", 1.0, rate=None), device("mlx5_0", 1.0, rate=200e9, shared=["ib0"]))
    assert (ipoib.kind, ipoib.over()) == ("TCP", "ib0")
    beside = found(device("eth0", 1.0), device("eth0.7", shared=[]), device("mlx5_0", shared=["ib0"]))
    assert beside.over() == "eth0 (10 Gbit/s)"


def _over_ucx(lanes: str, *devices: CountedDevice, transport: str = "host") -> RunPath:
    return msgspec.structs.replace(found(*devices, transport=transport), library="UCX", protocol=lanes)


def _by_ofi(provider: str, *devices: CountedDevice) -> RunPath:
    line = f"[a:65] mtl_ofi_component.c:347: mtl:ofi:prov: {provider}"
    return found(*devices, lines=[line], mpi=OPEN_MPI_5)


def _by_ob1(*devices: CountedDevice) -> RunPath:
    return found(*devices, lines=BY_TCP[1:], mpi=OPEN_MPI_5)


def _by_nccl(way: str, *devices: CountedDevice) -> RunPath:
    line = f"a:7:9 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[0] [send] via {way} comm 0x9bbf3b0 nRanks 02"
    return found(*devices, lines=[line], transport="nccl")


def _mlx5(payload: float = 1.0, name: str = "mlx5_0", **more: object) -> CountedDevice:
    return device(name, payload, rate=200e9, packet=4096, **more)  # type: ignore[arg-type]


EFA, ENA = device("rdmap0s29", 1.0, rate=100e9, packet=8192), device("ens5", 1.0, rate=25e9)
IDLE_EFA, IDLE_ENA = device("rdmap0s29", rate=100e9), device("ens5", rate=25e9)
HFI = device("hfi1_0", 1.0, rate=100e9, packet=8192, rdma=True, shared=["ib0"])
HSN, IDLE_HSN = device("hsn0", 1.0, rate=200e9), device("hsn0", rate=200e9)
PORTS = [device(f"ens1f{port}", rate=100e9, shared=["bond0"]) for port in (0, 1)]
BUSY_PORTS = [device(f"ens1f{port}", 0.5, rate=100e9, shared=["bond0"]) for port in (0, 1)]
LAG = {"rate": 100e9, "shared": ["ens1f0", "ens1f1"]}
GDR, PIECES = (
    "rendezvous zero-copy read from remote, rc_mlx5/mlx5_0:1",
    "rendezvous cuda_copy, frag host, rc_mlx5/mlx5_0:1",
)
RDMA_MACHINES: dict[str, tuple[RunPath, str, str, str]] = {
    "mlx5 with nvidia_peermem": (_over_ucx(GDR, _mlx5(), transport="aware"), "RDMA over mlx5_0", "", ""),
    "mlx5 without nvidia_peermem": (
        _over_ucx(PIECES, _mlx5(), transport="aware"),
        *("RDMA over mlx5_0", "without GPUDirect", "UCX_IB_GPU_DIRECT_RDMA=yes"),
    ),
    "NCCL with GPUDirect, by another GPU": (_by_nccl("NET/IB/0(1)/GDRDMA", _mlx5()), "RDMA over mlx5_0", "", ""),
    "NCCL without GPUDirect": (
        _by_nccl("NET/IB/0", _mlx5()),
        *("RDMA over mlx5_0", "without GPUDirect", "NCCL_NET_GDR_LEVEL=SYS"),
    ),
    "EFA": (_by_ofi("efa", IDLE_ENA, EFA), "RDMA over rdmap0s29 (100 Gbit/s): Open MPI with libfabric, efa", "", ""),
    "EFA that Open MPI's ob1 does not know": (
        _by_ob1(ENA, IDLE_EFA),
        *("TCP over ens5", "rdmap0s29", "OMPI_MCA_pml=cm OMPI_MCA_mtl=ofi"),
    ),
    "EFA and NCCL's plugin": (
        _by_nccl("NET/AWS Libfabric/0/GDRDMA", IDLE_ENA, EFA),
        *("RDMA over rdmap0s29 (100 Gbit/s): NCCL, NET/AWS Libfabric/0/GDRDMA", "", ""),
    ),
    "EFA without NCCL's plugin": (
        _by_nccl("NET/Socket/0", ENA, IDLE_EFA),
        *("TCP over ens5", "rdmap0s29", "NCCL_NET_PLUGIN=aws-ofi"),
    ),
    "RoCE and a UCX without verbs": (
        _over_ucx("rendezvous zero-copy, tcp/ens1", device("ens1", 1.0, rate=100e9), _mlx5(0.0, shared=["ens1"])),
        *("TCP over ens1", "mlx5_0", "UCX_NET_DEVICES=mlx5_0:1"),
    ),
    "RoCE over a bond": (
        _over_ucx("rc_mlx5/mlx5_bond_0:1", device("bond0"), *PORTS, device("mlx5_bond_0", 1.0, **LAG)),  # type: ignore[arg-type]
        *("RDMA over mlx5_bond_0", "", ""),
    ),
    "TCP over a bond of RoCE cards": (
        _by_ob1(device("bond0", 1.0), *BUSY_PORTS, device("mlx5_bond_0", **LAG)),  # type: ignore[arg-type]
        *("TCP over bond0", "mlx5_bond_0", "OMPI_MCA_pml=ucx"),
    ),
    "TCP over a bond": (_by_ob1(device("bond0", 1.0), *BUSY_PORTS), "TCP over bond0", "", ""),
    "Slingshot": (_by_ofi("cxi", IDLE_HSN), "unknown", "", ""),
    "TCP over Slingshot": (_by_ofi("tcp;ofi_rxm", HSN), "TCP over hsn0", "cxi", "FI_PROVIDER=cxi"),
    "Omni-Path": (_by_ofi("psm2", device("ib0"), HFI), "RDMA over hfi1_0", "", ""),
    "TCP over Omni-Path": (
        _by_ob1(device("ib0", 1.0), HFI),
        *("TCP over ib0", "hfi1_0", "OMPI_MCA_pml=cm OMPI_MCA_mtl=ofi"),
    ),
    "TCP over InfiniBand": (
        _by_ob1(device("ib0", 1.0), _mlx5(shared=["ib0"])),
        *("TCP over ib0", "mlx5_0", "OMPI_MCA_pml=ucx"),
    ),
    "two rails": (_over_ucx(GDR, _mlx5(0.5), _mlx5(0.5, "mlx5_1")), "RDMA over 50 % on mlx5_0", "", ""),
    "two rails, one of them down": (
        _over_ucx(GDR, _mlx5(), _mlx5(0.0, "mlx5_1", up=False)),
        "RDMA over mlx5_0",
        "",
        "",
    ),
    "NVLink between hosts": (_by_nccl("P2P/MNNVL", _mlx5(0.0)), "GPU to GPU: NCCL, P2P/MNNVL", "", ""),
}
"""A path, how its sentence begins, what a finding says, and what another launch tries; empty: there is no finding.

Composed from public documents, before the rules were seen; none of these machines was here.  EFA is beside ENA;
Slingshot has no counter of its RDMA bytes, so that libfabric's word is all that is known; RoCE has an Ethernet device
and an RDMA device, which count their own bytes."""


@pytest.mark.parametrize("name", RDMA_MACHINES)
def test_facts_of_rdma_machines_that_others_published(name: str) -> None:
    path, words, said, change = RDMA_MACHINES[name]
    slow = fallback(path, {}, "4 MiB")
    assert path.words().startswith(words)
    assert (slow is not None) == bool(said)
    if slow:
        assert said in slow.text
        assert slow.change == change


def test_a_variable_that_keeps_rdma_away_is_the_reason() -> None:
    for path, setting in (
        (RDMA_MACHINES["TCP over Slingshot"][0], "FI_PROVIDER=tcp"),
        (RDMA_MACHINES["mlx5 without nvidia_peermem"][0], "UCX_IB_GPU_DIRECT_RDMA=no"),
    ):
        name, _, value = setting.partition("=")
        slow = fallback(path, {name: value}, "4 MiB")
        assert slow.text.endswith(setting)
        assert slow.unset == [name]


def test_nccl_s_own_network_is_no_plugin() -> None:
    lines = ["n1:7:7 [0] NCCL INFO NET/Plugin: Using internal network plugin."]
    assert nccl_words.parse(lines).plugin == ""


def test_nccl_s_processes_say_it_in_files_of_their_own(tmp_path: Path) -> None:
    pattern = nccl_words.to_files_in(str(tmp_path))["NCCL_DEBUG_FILE"]
    for process in ("7", "8"):
        Path(pattern.replace("%h", "n1").replace("%p", process)).write_text(f"n1:{process} a\nn1:{process} b\n")
    assert nccl_words.said_in(str(tmp_path)) == ["n1:7 a", "n1:7 b", "n1:8 a", "n1:8 b"]


def test_what_no_counter_saw_is_unknown_or_memory() -> None:
    assert found(device("eth0")).words().startswith("unknown, because no counter")
    assert found(device("eth0", 0.2)).kind == ""
    said = found(lines=["provider: cxi"], mpi="Open MPI v5").words()
    assert said.endswith("the library says Open MPI with libfabric, cxi")
    assert found(device("lo"), device("eth0", 1.0), hosts=HERE).kind == "memory of the host"
    loopback = found(device("lo", 2.0, rate=None), hosts=HERE)  # it sends the messages of both ranks
    assert (loopback.over(), loopback.counted) == ("lo", pytest.approx(1.0))


def test_what_other_programs_sent_over_the_loopback_makes_the_path_uncertain() -> None:
    """Three times the bytes: nothing is known but what the library says."""
    busy = device("lo", 6.0, rate=None)
    unknown = found(busy, hosts=HERE)
    assert (unknown.kind, fallback(unknown, {}, "1 MiB")) == ("", None)
    assert unknown.words() == "unknown, because 3.0 times what was sent was counted, so other programs sent as well"
    assert unknown.in_short() == unknown.words()
    in_memory = found(busy, lines=BY_SM, mpi=OPEN_MPI_5, hosts=HERE)
    assert (in_memory.kind, in_memory.devices) == ("memory of the host", [])
    over_tcp = found(busy, lines=BY_TCP, mpi=OPEN_MPI_5, hosts=HERE)
    assert (over_tcp.kind, over_tcp.over()) == ("TCP", "lo")
    assert over_tcp.words().endswith("3.0 times what was sent was counted, so other programs sent as well")
    beside = found(device("lo", 2.0, rate=None), lines=BY_SM, hosts=HERE)
    assert beside.kind == "memory of the host"  # as many bytes as were sent, and not these
    gpus = found(device("lo", 2.0, rate=None), lines=nccl("P2P/CUMEM/read"), transport="nccl", hosts=HERE)
    assert (gpus.kind, gpus.devices) == ("GPU to GPU", [])


def test_what_other_programs_send_beside_is_no_part_of_the_path() -> None:
    path = found(device("eth0", 4.0), device("mlx5_0", 1.0, rate=2e11))
    assert (path.kind, path.over(), path.counted) == ("RDMA", "mlx5_0 (200 Gbit/s)", pytest.approx(1.0, abs=1e-5))
    assert found(device("eth0", 4.0), device("eth1", 3.0)).words().endswith("so other programs sent as well")


def test_small_messages_are_told_by_packets() -> None:
    """Between hosts, four messages beside one stray packet: no bytes are claimed."""
    one = CountedDevice("eth0", False, True, None, [], 900, 900, 4, 4)
    stray = CountedDevice("eth1", False, True, None, [], 9000, 9000, 1, 1)
    path = found(one, stray, size=8)
    assert (path.over(), path.counted) == ("eth0", None)


@pytest.mark.parametrize(
    ("lines", "mpi", "hosts", "said"),
    [
        (BY_TCP, OPEN_MPI_5, ("a", "b"), ("Open MPI ob1", "tcp")),
        ([*BY_SM, SINGLE_COPY], OPEN_MPI_5, HERE, ("Open MPI ob1", "sm and xpmem for large messages")),
        (BY_SM, OPEN_MPI_5, HERE, ("Open MPI ob1", "sm")),
        (INTEL, "Intel(R) MPI Library 2021.18", ("a", "b"), ("Intel MPI with libfabric", "tcp;ofi_rxm")),
        ([], "Intel(R) MPI Library 2021.18", HERE, ("Intel MPI", "its own shared memory")),
        ([], "MPICH Version: 5.0.2", HERE, ("MPICH", "its own shared memory")),
        ([], "MPICH Version: 5.0.2", ("a", "b"), ("", "")),
    ],
)  # fmt: skip
def test_libraries_say_what_they_chose(
    lines: list[str], mpi: str, hosts: tuple[str, str], said: tuple[str, str]
) -> None:
    path = found(device("eth0", 1.0), lines=lines, mpi=mpi, hosts=hosts)
    assert (path.library, path.protocol) == said


def test_nothing_is_said_of_one_sided_messages() -> None:
    path = found(device("eth0", 1.0), lines=BY_TCP, transport="host/put")
    assert (path.library, path.over()) == ("", "eth0 (10 Gbit/s)")


def test_ucx_names_the_way_of_each_size() -> None:
    lines = ["selected ucx best priority 51", *(UCX / "captured-1.22-host-memory.txt").read_text().splitlines()]
    small, large = (found(lines=lines, hosts=HERE, size=size) for size in (8, 1 << 22))
    assert (small.library, large.library) == ("UCX", "UCX")
    assert small.protocol.startswith("eager short")
    assert large.protocol.startswith("rendezvous")
    assert found(lines=lines, size=8).protocol == ""  # the tables are of another connection
    assert large.lanes == large.protocol.rpartition(", ")[2]
    row = re.compile(r"(\| *\d+\w*\.\.inf *\|)[^|]*\|[^|]*\|")
    piped = [row.sub(r"\1 rendezvous pipeline cuda_copy, frag host | |", line) for line in lines]
    way = found(lines=piped, hosts=HERE, size=1 << 22)
    assert (way.protocol, way.lanes) == ("rendezvous pipeline cuda_copy, frag host", "")


def test_nccl_says_its_channels() -> None:
    path = found(device("eth0", 1.0), lines=NCCL, transport="nccl")
    assert (path.library, path.protocol, path.reason) == (
        "NCCL 2.27.7+cuda12.9", "NET/Socket/0", "NCCL found no RDMA device",
    )  # fmt: skip


GPU_UCX = ["selected ucx best priority 51", *(UCX / "composed-1.22-gpu-memory.txt").read_text().splitlines()]
"""Composed from the format and the words of UCX 1.22."""


def nccl(way: str) -> list[str]:
    return [NCCL[0], f"a:7:9 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via {way}"]


@pytest.mark.parametrize(
    ("transport", "lines", "size", "kind"),
    [
        ("nccl", nccl("P2P/CUMEM/read"), SIZE, "GPU to GPU"),
        ("nccl", nccl("P2P/IPC"), SIZE, "GPU to GPU"),
        ("nccl", nccl("SHM/direct/direct"), SIZE, "memory of the host"),
        ("nccl", nccl("SHM/direct/direct"), 8, "memory of the host"),
        ("nccl", [], SIZE, ""),
        ("aware", GPU_UCX, SIZE, "GPU to GPU"),
        ("aware", GPU_UCX, 8, "memory of the host"),
        ("aware", [], SIZE, ""),
    ],
)
def test_messages_of_gpus_go_from_one_to_the_other_or_through_the_host(
    transport: str, lines: list[str], size: int, kind: str
) -> None:
    path = found(transport=transport, lines=lines, size=size, mpi=OPEN_MPI_5, hosts=HERE)
    assert path.kind == kind
    assert path.words().startswith(kind or "unknown")
    named = {"NCCL_P2P_DISABLE": "1", "UCX_TLS": "tcp"}
    slower = kind.startswith("memory") and (transport == "nccl" or size == SIZE)
    assert (fallback(path, named, "1 MiB") is not None) == slower
    assert fallback(path, {}, "1 MiB") is None


def between_gpus(
    counted: dict[str, float], lines: Sequence[str], *, joined: bool = True, addresses: tuple[str, str] = ("3b", "86"),
    transport: str = "nccl", size: int = SIZE,
) -> RunPath:  # fmt: skip
    """The path of messages between GPUs of a host of which NVLink and PCIe counted these parts, as the engine says."""
    parts = {name: round(part * EXCHANGES * size) for name, part in counted.items()}
    links = [
        {
            "name": name,
            "rdma": False,
            "gpu": True,
            "up": joined or name == "PCIe",
            "rate_bits_per_s": None,
            "shared": [],
        }
        | dict.fromkeys(("sent_bytes", "received_bytes"), part)
        | dict.fromkeys(("sent_packets", "received_packets"), 0)
        for name, part in parts.items()
    ]
    ends = [
        {"rank": rank, "host": "a", "gpu": gpu, "devices": [msgspec.to_builtins(device("lo")), *links]}
        for rank, gpu in enumerate(addresses)
    ]
    record = {"record": "path", "version": 2, "transport": transport, "size_bytes": size, "exchanges": EXCHANGES}
    counts = msgspec.convert({**record, "ends": ends}, PathCounts)
    return paths.path_of(counts, said_of(counts, lines, OPEN_MPI_5))


P2P, SHM = nccl("P2P/CUMEM/read"), nccl("SHM/direct/direct")


@pytest.mark.parametrize(
    ("counted", "lines", "words", "share"),
    [
        ({"NVLink": 1.0, "PCIe": 0.01}, P2P, "GPU to GPU over NVLink: NCCL 2.27.7+cuda12.9, P2P/CUMEM/read", 1.0),
        ({"NVLink": 2.0, "PCIe": 0.01}, P2P, "GPU to GPU over NVLink: NCCL 2.27.7+cuda12.9, P2P/CUMEM/read", 2.0),
        ({"NVLink": 1.0, "PCIe": 0.01}, [], "GPU to GPU over NVLink", 1.0),
        ({"NVLink": 0.0, "PCIe": 1.1}, P2P, "GPU to GPU over PCIe: NCCL 2.27.7+cuda12.9, P2P/CUMEM/read", 1.1),
        ({"PCIe": 1.1}, SHM, "memory of the host over PCIe: NCCL 2.27.7+cuda12.9, SHM/direct/direct", 1.1),
        ({"PCIe": 1.1}, [], "GPU to GPU or memory of the host over PCIe", 1.1),
        ({"NVLink": 0.0, "PCIe": 0.1}, P2P, "GPU to GPU: NCCL 2.27.7+cuda12.9, P2P/CUMEM/read", None),
        ({"NVLink": 0.0, "PCIe": 0.1}, [], "unknown: the library does not say how", None),
        ({}, [], "unknown: the library does not say how", None),
    ],
)
def test_the_links_of_gpus_say_what_carried_the_bytes(
    counted: dict[str, float], lines: list[str], words: str, share: float | None
) -> None:
    path = between_gpus(counted, lines)
    assert path.words() == words
    assert path.counted == (share and pytest.approx(share))


def test_bytes_that_did_not_go_over_nvlink_are_a_finding() -> None:
    """Also where the library says that one GPU reads from the other."""
    over_pcie = {"NVLink": 0.0, "PCIe": 1.1}
    slow = fallback(between_gpus(over_pcie, P2P), {}, "1 MiB")
    assert (slow.text, slow.change) == (
        "1 MiB over PCIe (P2P/CUMEM/read) though NVLink joins the GPUs",
        "NCCL_P2P_LEVEL=NVL",
    )
    hidden = fallback(between_gpus(over_pcie, SHM), {"NCCL_P2P_DISABLE": "1"}, "1 MiB")
    assert hidden.text == (
        "1 MiB through the memory of the host (SHM/direct/direct) though NVLink joins the GPUs: "
        "the environment sets NCCL_P2P_DISABLE=1"
    )
    assert (hidden.unset, hidden.change) == (["NCCL_P2P_DISABLE"], "")
    assert fallback(between_gpus({"NVLink": 0.0}, SHM), {}, "1 MiB")  # a GPU that counts no bytes over PCIe
    assert fallback(between_gpus(over_pcie, [], transport="peer"), {}, "1 MiB")
    for path in (
        between_gpus({"NVLink": 1.0, "PCIe": 0.1}, P2P),
        between_gpus(over_pcie, P2P, joined=False),
        between_gpus({"NVLink": 0.0, "PCIe": 0.1}, P2P),  # counters that always say 0, as in some virtual machines
        between_gpus({"NVLink": 0.0, "PCIe": 0.1}, []),
    ):
        assert fallback(path, {}, "1 MiB") is None


def test_ranks_that_share_a_gpu_count_the_messages_of_both() -> None:
    shared = ("3b", "3b")
    inside = between_gpus({"NVLink": 0.0, "PCIe": 0.01}, GPU_UCX, joined=False, addresses=shared, transport="aware")
    assert inside.words().startswith("memory of the GPU: UCX, ")
    outside = between_gpus({"NVLink": 0.0, "PCIe": 2.2}, [], joined=False, addresses=shared, transport="aware")
    assert (outside.words(), outside.counted) == ("memory of the host over PCIe", pytest.approx(1.1))
    others = between_gpus({"PCIe": 2.2}, GPU_UCX, joined=False, addresses=shared, transport="aware")
    assert others.words().startswith("memory of the GPU: UCX, ")


def test_of_small_messages_the_links_of_gpus_say_nothing() -> None:
    """What a kernel asks and tells the host is more than such messages are."""
    short = between_gpus({"NVLink": 0.0, "PCIe": 1.3}, P2P, size=1 << 12)
    assert (short.over(), short.counted) == ("", None)
    path = between_gpus({"NVLink": 0.0, "PCIe": 50.0}, P2P, size=8)
    assert (path.kind, path.devices, path.counted) == ("GPU to GPU", [], None)


def test_what_two_gpus_carried_is_in_the_heading() -> None:
    over = between_gpus({"NVLink": 1.0, "PCIe": 0.01}, P2P)
    assert over.in_short() == "GPU to GPU over NVLink, NCCL 2.27.7+cuda12.9, P2P/CUMEM/read"
    slower = between_gpus({"NVLink": 0.0, "PCIe": 1.1}, P2P)
    assert slower.in_short() == "GPU to GPU over PCIe, NCCL 2.27.7+cuda12.9, P2P/CUMEM/read, idle: NVLink"


MLX5 = device("mlx5_0", rate=200e9)
SLOW, THOUGH = "64 KiB over TCP", "though mlx5_0 (200 Gbit/s) is up on both hosts"
UNEXPLAINED = [line for line in OPEN_MPI if "failure" not in line]


@pytest.mark.parametrize(
    ("path", "environment", "text", "unset", "change"),
    [
        (
            found(device("eth0", 1.0, rate=1e9), MLX5, lines=OPEN_MPI), {},
            f"{SLOW} on eth0 (1 Gbit/s) {THOUGH}: Open MPI found no device that its UCX can use", [],
            "OMPI_MCA_pml=ucx",
        ),
        (
            found(device("eth0", 1.0, rate=1e9), MLX5, lines=UNEXPLAINED), {"OMPI_MCA_btl": "tcp,self", "HOME": "/"},
            f"{SLOW} on eth0 (1 Gbit/s) {THOUGH}: the environment sets OMPI_MCA_btl=tcp,self", ["OMPI_MCA_btl"], "",
        ),
        (
            found(device("ens5", 1.0, rate=None), device("rdmap0s6", rate=100e9), lines=INTEL, mpi="Intel(R) MPI"), {},
            "64 KiB over TCP on ens5 though rdmap0s6 (100 Gbit/s) is up on both hosts", [], "FI_PROVIDER=efa",
        ),
        (
            found(device("eth0", 1.0), MLX5, lines=NCCL, transport="nccl"), {},
            f"{SLOW} on eth0 (10 Gbit/s) {THOUGH}: NCCL found no RDMA device", [], "NCCL_IB_HCA=mlx5_0",
        ),
        (
            found(device("eth0", 1.0, rate=1e9), device("eth1", rate=25e9), lines=UNEXPLAINED), {},
            "64 KiB over TCP on eth0 (1 Gbit/s) though eth1 (25 Gbit/s) is up on both hosts", [],
            "OMPI_MCA_btl_tcp_if_include=eth1",
        ),
        (
            found(device("lo", 2.0, rate=None), hosts=HERE, lines=UNEXPLAINED), {"OMPI_MCA_btl": "tcp,self"},
            "64 KiB over TCP on lo although both ranks are on a: the environment sets OMPI_MCA_btl=tcp,self",
            ["OMPI_MCA_btl"], "",
        ),
    ],
)  # fmt: skip
def test_a_slower_way_is_found(
    path: RunPath, environment: dict[str, str], text: str, unset: list[str], change: str
) -> None:
    slow = fallback(path, environment, "64 KiB")
    assert (slow.text, list(slow.unset), slow.change) == (text, unset, change)


@pytest.mark.parametrize(
    "path",
    [
        found(CountedDevice("mlx5_0", True, True, 200e9, [], WHOLE, WHOLE, 1, 1), device("eth0")),  # RDMA
        found(device("eth0", 1.0), device("eth1")),  # another one that is as fast
        found(device("eth0", 1.0), device("eth1", rate=None)),  # nobody knows how fast
        found(device("eth0", 1.0), device("docker0", rate=100e9)),  # it leads to no other host
        found(device("eth0", 1.0), device("mlx5_0", up=False)),
        found(device("ib0", 1.0, rate=None), device("mlx5_0", 1.0, shared=["ib0"]), hosts=HERE),
        found(device("eth0")),  # unknown
    ],
    ids=range(7),
)  # fmt: skip
def test_no_way_is_blamed_without_a_reason(path: RunPath) -> None:
    assert fallback(path, {}, "64 KiB") is None


def test_a_path_of_another_form_is_none() -> None:
    assert [paths.of_plan({"paths": each}).paths for each in ([{"transport": 3}], "no", [])] == [[], [], []]
