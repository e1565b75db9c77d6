"""What carried the bytes, in reports: the lines of the heading, the findings, the column, and what differs."""

from typing import Any

import msgspec

from example_records import plan, run, transport
from volley.compare.environment import environment_differences
from volley.machine import nccl_words
from volley.machine.paths import DeviceShare, PathEnd, RunPath
from volley.records.launch_series import LaunchSeries
from volley.records.run_log import RunLog
from volley.run.path_report import path_at, path_findings, path_lines, path_tables

GIGABIT = DeviceShare("eth0", False, 1e9, 1.0, 1.0)
HALVES = [DeviceShare(name, False, 1e9, 0.5, 0.5) for name in ("eth0", "eth1")]
MLX5 = DeviceShare("mlx5_0", True, 2e11)


def path(size: int, devices: list[DeviceShare], hosts: str = "ab", **more: Any) -> RunPath:
    ends = [PathEnd(rank, host, devices) for rank, host in enumerate(hosts)]
    return RunPath("host", size, 4 * size, 1.0 if size > 8 else None, "UCX", "", ends, **more)


def log_of(paths: list[RunPath] | None, **launch: Any) -> RunLog:
    kept = {} if paths is None else {"paths": msgspec.to_builtins(paths)}
    ranks = [msgspec.structs.replace(run().ranks[0], rank=rank, host=host) for rank, host in enumerate("ab")]
    return RunLog(run=run(plan(launch={**kept, **launch}), ranks=ranks, environment={"UCX_TLS": "tcp"}))


def series(*args: Any, **launch: Any) -> LaunchSeries:
    return LaunchSeries((log_of(*args, **launch),))


def test_what_could_not_be_used_has_no_line() -> None:
    log = log_of([path(8, [GIGABIT])])
    log.transports.append(transport("host", available=False))
    assert list(path_lines(LaunchSeries((log,)))) == []


BOTH = [path(8, [GIGABIT]), path(1 << 16, [GIGABIT]), path(1 << 22, HALVES)]


def test_sizes_that_go_one_way_share_a_part_of_the_line() -> None:
    (line,) = path_lines(series(BOTH))
    assert line == (
        "host: 8 B to 64 KiB TCP over eth0 (1 Gbit/s), UCX; 4 MiB TCP over eth0 (1 Gbit/s) and eth1 (1 Gbit/s), UCX; "
        "the counters of the devices saw 100 % of the bytes"
    )
    assert list(path_lines(series([path(8, [GIGABIT])]))) == ["host: TCP over eth0 (1 Gbit/s), UCX"]


def test_pairs_of_hosts_share_a_line_or_are_named() -> None:
    alike = [path(8, [GIGABIT]), path(8, [GIGABIT], "cd")]
    assert list(path_lines(series(alike))) == ["host: TCP over eth0 (1 Gbit/s), UCX"]
    first, second = path_lines(series([*alike, path(8, HALVES[:1], "ef"), path(8, [MLX5], "gh")]))
    assert first == "host (a to b, c to d and e to f): TCP over eth0 (1 Gbit/s), UCX"
    assert second.startswith("host (g to h): ")


def test_what_is_not_known_is_told() -> None:
    why = "what carried the bytes between the hosts is unknown, because "
    assert list(path_lines(series([]))) == [f"{why}the launch that shows it failed"]
    assert list(path_lines(series(None, inside=True))) == [f"{why}a launcher started this job"]
    assert list(path_lines(series(None))) == []  # recorded before, or a short run


def test_a_slower_way_is_a_finding_with_a_command() -> None:
    (found,) = path_findings(series([path(8, [GIGABIT], idle=[MLX5]), path(1 << 16, [GIGABIT], idle=[MLX5])]))
    assert (found.verdict, found.command) == ("SLOW", "env -u UCX_TLS volley pingpong")
    assert found.text == (
        "host: 8 B to 64 KiB over TCP on eth0 (1 Gbit/s) though mlx5_0 (200 Gbit/s) is up on both hosts: "
        "the environment sets UCX_TLS=tcp"
    )
    assert list(path_findings(series(BOTH))) == []


def test_a_size_has_the_path_of_the_next_smaller_one_that_was_tried() -> None:
    at = [
        path_at(series(BOTH), transport, size)
        for transport in ("host", "staged/pinned")
        for size in (4, 1 << 20, 1 << 30)
    ]
    alone, both = "TCP over eth0 (1 Gbit/s): UCX", "TCP over 50 % on eth0 (1 Gbit/s) and 50 % on eth1 (1 Gbit/s): UCX"
    assert at == [alone, alone, both] * 2
    assert path_at(series(BOTH), "nccl", 8) is None


def test_another_path_is_what_differs_and_bytes_are_not() -> None:
    once = [path(1 << 16, [GIGABIT])]
    again = [msgspec.structs.replace(once[0], counted=1.01)]
    assert environment_differences([log_of(once)], [log_of(again)]) == []
    (found,) = environment_differences([log_of(once)], [log_of([path(1 << 16, HALVES)])])
    assert found.name == "path of host at 64 KiB"
    assert (found.first, found.second) == (
        "TCP over eth0 (1 Gbit/s), UCX", "TCP over eth0 (1 Gbit/s) and eth1 (1 Gbit/s), UCX",
    )  # fmt: skip


TUNING = "n1:7:7 [0] NCCL INFO {}: {} Bytes -> Algo {} proto {} channel{{Lo..Hi}}={{0..{}}}"
"""Composed from the format of NCCL 2.28 (src/enqueue.cc)."""
SIZES = [8, 1 << 12, 1 << 16, 1 << 24]


def made(largest: str) -> list[dict[str, Any]]:
    """How four ranks make two operations; of an allgather NCCL names the bytes of a rank."""
    all_sums = [("RING", "LL", 0), ("TREE", "LL", 0), ("TREE", "LL", 3), (largest, "SIMPLE", 15)]
    lines = [TUNING.format("AllReduce", size, *way) for size, way in zip(SIZES, all_sums, strict=True)]
    lines += [TUNING.format("AllGather", size // 4, "RING", "LL", 1) for size in SIZES[1:]]
    lines += [TUNING.format("AllReduce", 4, "RING", "LL", 0)]  # the library's own
    found = nccl_words.algorithms(lines, ["allreduce", "allgather"], SIZES, 4)
    return [msgspec.to_builtins(each) for each in found]


def test_operations_say_algorithm_protocol_and_channels() -> None:
    shown = series([], algorithms=made("NVLS"))
    _, all_sums, all_blocks = path_lines(shown)
    assert all_sums == (
        "nccl allreduce: 8 B RING LL, 1 channel; 4 KiB to 64 KiB TREE LL, 1 to 4 channels; "
        "16 MiB NVLS SIMPLE, 16 channels"
    )
    assert all_blocks == "nccl allgather: 4 KiB to 16 MiB RING LL, 2 channels"
    assert path_at(shown, "nccl", 1 << 16, "allreduce") == "TREE LL, 4 channels"
    assert path_at(shown, "nccl", 8, "allgather") is None
    assert path_at(shown, "host", 1 << 16, "allreduce") is None
    (table,) = path_tables(shown)
    assert len(table.rows) == 7


def test_another_algorithm_is_what_differs() -> None:
    logs = [[log_of([], algorithms=made(largest))] for largest in ("NVLS", "RING")]
    (found,) = environment_differences(*logs)
    assert (found.name, found.first, found.second) == (
        "path of nccl allreduce at 16 MiB", "NVLS SIMPLE, 16 channels", "RING SIMPLE, 16 channels",
    )  # fmt: skip
