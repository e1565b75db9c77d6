"""A check names the nodes whose messages go another way than those of most nodes."""

from typing import Any

import msgspec
import pytest

from example_records import plan, ranks, run
from volley.check.by_paths import by_line_rate, by_paths
from volley.check.cluster import TOGETHER, WINDOW
from volley.check.findings import CheckFinding
from volley.check.places import Names, nics_of, one_rate
from volley.launch.cluster_map import ClusterMap
from volley.machine.paths import DeviceShare, PathEnd, RunPath
from volley.records.run_log import RunLog

NODES = ("n0", "n1", "n2", "n3", "n4", "n5")
RDMA = DeviceShare("mlx5_0", True, 2e11, 1.0, 1.0)
TCP = DeviceShare("eth0", False, 1e10, 1.0, 1.0)
OTHER_NAME = DeviceShare("mlx5_2", True, 2e11, 1.0, 1.0)


def found(*pairs: tuple[DeviceShare | None, list[DeviceShare]]) -> list[tuple[Any, ...]]:
    """The findings of pairs of nodes in order, each with the device of both and those that are idle on both."""
    paths = [
        RunPath(
            *("host", 1 << 22, 1 << 22, 1.0 if device else None, "UCX", ""),
            [PathEnd(rank, NODES[rank], [device] if device else []) for rank in (2 * pair, 2 * pair + 1)],
            idle=idle,
        )
        for pair, (device, idle) in enumerate(pairs)
    ]
    small = [msgspec.structs.replace(path, size_bytes=8, ends=paths[0].ends) for path in paths]
    one = run().ranks[0]
    ranks = [msgspec.structs.replace(one, rank=rank, host=host, node=rank) for rank, host in enumerate(NODES)]
    launch = {"paths": msgspec.to_builtins([*small, *paths])}
    of_all = RunLog(run=run(plan("rank_matrix", world_size=len(ranks), launch=launch), ranks=ranks))
    names = Names(ranks, ClusterMap(nodes=frozenset(NODES)))
    return [(each.status, each.nodes, each.said) for each in by_paths(of_all, names)]


def test_nodes_that_differ_from_the_others_are_named() -> None:
    ((verdict, nodes, why),) = found((RDMA, []), (TCP, [RDMA]), (OTHER_NAME, []))
    assert (verdict, nodes) == ("UNDECIDED", ("n2", "n3"))
    assert why.startswith("TCP over eth0 (10 Gbit/s), UCX, idle: mlx5_0 (200 Gbit/s); 4 of 6 nodes: RDMA over mlx5_0")


@pytest.mark.parametrize(
    ("device", "idle", "verdict", "why"),
    [
        (RDMA, [], "PASS", "6 of 6 nodes: RDMA over mlx5_0 (200 Gbit/s), UCX"),
        (TCP, [], "PASS", "6 of 6 nodes: TCP over eth0 (10 Gbit/s), UCX"),
        (
            TCP,
            [RDMA],
            "NOT JUDGED",
            "4 MiB over TCP on eth0 (10 Gbit/s) though mlx5_0 (200 Gbit/s) is up on both hosts",
        ),
        (None, [], "NOT JUDGED", "6 of 6 nodes: unknown"),
    ],
)
def test_what_is_alike_on_all_nodes_is_no_fault_of_one(
    device: DeviceShare | None, idle: list[DeviceShare], verdict: str, why: str
) -> None:
    ((said, nodes, text),) = found(*[(device, idle)] * 3)
    assert (said, nodes) == (verdict, ())
    assert text.startswith(why)


def test_two_nodes_have_no_others() -> None:
    assert found((TCP, [])) == []


def test_the_kind_of_a_node_names_its_nic() -> None:
    """Drivers number their devices; a node that fell back to TCP has no kind of its own."""
    devices = [RDMA, OTHER_NAME, msgspec.structs.replace(RDMA, name="bnxt_re1"), TCP]
    ends = [PathEnd(rank, NODES[rank], [device]) for rank, device in enumerate(devices)]
    apart = [RunPath("host", 1 << 22, 1 << 22, 1.0, "UCX", "", ends[at : at + 2]) for at in (0, 2)]
    nics = nics_of({"paths": [msgspec.to_builtins(path) for path in apart]})
    assert nics == {"n0": "mlx5", "n1": "mlx5", "n2": "bnxt_re", "n3": "mlx5"}
    of_nodes = [msgspec.structs.replace(each, host=NODES[each.rank]) for each in ranks(4)]
    assert Names(of_nodes, ClusterMap(), nics).places.kind.tolist() == [0, 0, 1, 0]
    assert nics_of({}) == {}
    launch = {"paths": [msgspec.to_builtins(path) for path in apart]}
    assert one_rate(launch)
    launch["paths"][1]["ends"][0]["devices"][0]["rate_bits_per_s"] = 4e11
    assert not one_rate(launch)


@pytest.mark.parametrize(
    ("device", "share", "verdict"), [(RDMA, 0.9, "PASS"), (RDMA, 0.5, "NOT JUDGED"), (TCP, 0.9, "NOT JUDGED")]
)
def test_the_bandwidth_of_two_nodes_is_judged_by_the_rate_of_their_rdma_devices(
    device: DeviceShare, share: float, verdict: str
) -> None:
    path = RunPath("host", 1 << 22, 1 << 22, 1.0, "UCX", "", [PathEnd(rank, NODES[rank], [device]) for rank in (0, 1)])
    log = RunLog(run=run(plan("rank_matrix", world_size=2, launch={"paths": msgspec.to_builtins([path])})))
    seconds = 8 * WINDOW * (1 << 20) / (share * (device.rate_bits_per_s or 0))  # of a window, as in the records
    layers = ("latency, 8 B, host", "bandwidth, 1 MiB, host")
    before = [CheckFinding(status="NOT JUDGED", layer=layer, said="two nodes") for layer in layers]
    found = by_line_rate(before, log, {f"stream {TOGETHER} 2 ranks: host, 1 MiB": [seconds]})
    assert [each.status for each in found] == ["NOT JUDGED", verdict]
