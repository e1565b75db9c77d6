"""On a machine with GPUs (`make test-gpu`): what can be used there delivers, and a flipped bit is found."""

import os
from itertools import product
from pathlib import Path

import pytest

from the_command import BEYOND_AN_INT, DATA_FAULTS, Command
from volley.benchmarks import BENCHMARKS
from volley.benchmarks.collective import IN_PLACE, USUAL
from volley.benchmarks.collective.results import CollectivePoint
from volley.benchmarks.jacobi.records import JacobiPoint
from volley.benchmarks.matrix import OF_THE_SAMPLE, SECTIONS, TESTS
from volley.benchmarks.matrix.records import GpuMatrixCell, GpuMatrixGpus, GpuMatrixRow
from volley.benchmarks.message_rate.results import MessageRatePoint
from volley.benchmarks.overlap.results import OverlapPoint
from volley.launch.engine import ask_about
from volley.machine.nvidia_driver import has_driver
from volley.machine.paths import of_plan
from volley.records.records_file import read_runs
from volley.records.run_log import RunLog
from volley.units import format_cpulist

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not has_driver(), reason="there is no NVIDIA driver here")]

ODD_SIZES = "1,8,13,100,8193,12289,65535,196607,1000003,16M"
"""Words and no words; below, at and beyond what kernels, protocols and chunks take at once."""
SHARED = "--share-gpu"
"""Also where there are fewer GPUs than processes."""
OFF = {"NCCL_NVLS_ENABLE": "0", "NVSHMEM_DISABLE_NVLS": "1"}
"""What these tests set, so that nothing of ours uses NVLink multicast."""
REFUSED = {"it carries messages of up to 8 B", "its messages have whole rows of 64 B"}
"""Why transports skip lengths: words skip long ones, vectors those that are no multiples of 64."""


@pytest.fixture(scope="module")
def gpus(volley_command: Path, engine: Path, tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """The UUIDs of the GPUs that two ranks use."""
    volley = Command(volley_command, engine, tmp_path_factory.mktemp("gpus"))
    log = measured(volley, "pingpong", "--transport", "null", "--sizes", "8", "--iterations", "1")
    return {rank.device.uuid for rank in log.run.ranks if rank.device} if log.run else set()


def measured(volley: Command, *words: str) -> RunLog:
    output = volley.state.with_name("records.jsonl")
    volley(*words, "-o", str(output), "--force")
    (log,) = read_runs(output, BENCHMARKS)
    return log


def confined(log: RunLog) -> dict[str, dict[str, int]]:
    """The transports with threads that may use the measuring core alone although others are spare."""
    first = log.run.ranks[0]
    core = format_cpulist(first.cores)
    if first.bound_by != "engine" or first.library_cpus == first.cores:
        return {}
    return {each.transport: each.threads for each in log.transports if core in (each.threads or {})}


NETWORK = {"NCCL_P2P_DISABLE": "1", "NCCL_SHM_DISABLE": "1", "UCX_TLS": "tcp,cuda_copy,self"}
"""What two nodes without RDMA use: NCCL's sockets, UCX over TCP."""


def test_what_goes_over_a_network_delivers(volley: Command, gpus: set[str], monkeypatch: pytest.MonkeyPatch) -> None:
    if len(gpus) < 2:
        pytest.skip("NCCL needs two GPUs")
    for name, value in NETWORK.items():
        monkeypatch.setenv(name, value)
    words = ("--sizes", "8,64k,1M", "--launches", "1", "--point-time", "0.05")
    for benchmark in ("pingpong", "stream", "collective"):
        names = "host,staged/pinned,nccl" if benchmark == "collective" else "host,staged,aware,nccl"
        log = measured(volley, benchmark, "-t", names, *words)
        assert log.complete
        assert confined(log) == {}
        assert {"host", "staged/pinned", "nccl"} <= {info.transport for info in log.transports if info.available}
        assert [(point.transport, point.reason) for point in log.records if point.status == "failed"] == []


@pytest.mark.parametrize(
    ("command", "names"),
    [("pingpong", "staged/pinned,device,device/word,nccl,nccl/device,nvshmem"), ("collective", "staged/pinned,nccl")],
)
def test_tail_times_single_exchanges_of_every_transport(volley: Command, command: str, names: str) -> None:
    """By time stamps where a batch contains the launch of a kernel."""
    words = (command, "--tail", "--sizes", "8,1M", "--point-time", "0.1", "--launches", "1", SHARED)
    log = measured(volley, *words, "--transport", names)
    measured_ones = [point for point in log.records if point.status == "ok"]
    assert {point.transport for point in measured_ones} == {each.transport for each in log.transports if each.available}
    for point in measured_ones:
        assert getattr(point, "exchanges_per_sample", 1) == getattr(point, "operations_per_sample", 1) == 1
        assert len(point.times_s) == sum(point.visits)
        assert point.messages_verified > 0
        assert min(point.times_s) > 0


def test_tail_finds_wrong_data(volley: Command) -> None:
    log = measured(volley, "pingpong", "--tail", "-t", "device+flip,nccl+flip,nvshmem+flip", "--sizes", "8", SHARED)
    failed = {point.transport for point in log.records if point.status == "failed"}
    ended = log.times.failed if log.times else "killed"
    assert (failed, ended) == ({each.transport for each in log.transports if each.available}, "")


@pytest.mark.parametrize(
    "words",
    [
        ("pingpong", "--point-time", "0.02", "--launches", "1"),
        ("stream", "--window", "4", "--point-time", "0.02", "--launches", "1"),
        ("stream", "--window", "4", "--direction", "bi", "--point-time", "0.02", "--launches", "1"),
        ("pingpong", "--iterations", "3", "--launches", "1"),
    ],
)
def test_whatever_can_be_used_delivers(volley: Command, words: tuple[str, ...]) -> None:
    log = measured(volley, *words, "--transport", "all", "--sizes", ODD_SIZES, SHARED)
    assert log.complete
    assert confined(log) == {}
    assert any(info.available and info.memory == "device" for info in log.transports)
    refused = [point for point in log.records if point.status == "skipped"]
    assert [(point.transport, point.reason) for point in log.records if point.status == "failed"] == []
    assert {point.reason for point in refused} <= REFUSED
    assert all(point.size_bytes > 8 or point.transport.endswith(("/vector", "/packed")) for point in refused)


@pytest.mark.parametrize("words", [("pingpong",), ("stream", "--window", "2")])
def test_messages_that_an_int_cannot_count_arrive_whole(volley: Command, words: tuple[str, ...]) -> None:
    once = ("--sizes", str(BEYOND_AN_INT), "--warmup", "0", "--iterations", "1", "--launches", "1")
    log = measured(volley, *words, "--transport", "all", *once, SHARED)
    assert log.complete
    assert any(point.status == "ok" for point in log.records)
    assert [(point.transport, point.reason) for point in log.records if point.status == "failed"] == []


@pytest.mark.parametrize("fault", DATA_FAULTS)
@pytest.mark.parametrize(
    "words",
    [
        ("pingpong", "--sizes", "8,100,64k,32M", "--iterations", "4"),
        ("stream", "--window", "4", "--sizes", "8,100,64k,32M", "--iterations", "4"),
        ("stream", "--window", "4", "--direction", "bi", "--sizes", "8,64k,1M", "--iterations", "4"),
    ],
    ids=lambda words: " ".join(words[:4]),
)
def test_a_fault_is_found_with_every_transport_in_gpu_memory(
    volley: Command, words: tuple[str, ...], fault: str
) -> None:
    """Run these alone with: pytest tests/engine/test_gpu.py -k fault"""
    with ask_about(volley.engine) as answer:
        names = [each.name for each in answer().transports if each.memory == "device"]
    log = measured(volley, *words, "-t", ",".join(f"{name}+{fault}" for name in names), "--launches", "1", SHARED)
    assert log.complete
    passed = [(point.transport, point.size_bytes) for point in log.records if point.status == "ok"]
    assert passed == []
    assert any(point.status == "failed" for point in log.records)


def test_nccl_says_how_it_makes_operations(volley: Command, gpus: set[str], monkeypatch: pytest.MonkeyPatch) -> None:
    if len(gpus) < 2:
        pytest.skip("NCCL needs two GPUs")
    monkeypatch.setenv("NCCL_ALGO", "Ring")
    monkeypatch.setenv("NCCL_PROTO", "Simple")
    operations, sizes = ("allreduce", "allgather", "reduce-scatter", "broadcast", "reduce"), (8, 1 << 16, 1 << 24)
    words = ("collective", "-t", "nccl", "--operation", ",".join(operations), "--launches", "1", "--point-time", "0.02")
    log = measured(volley, *words, "--sizes", ",".join(map(str, sizes)))
    made = of_plan(log.run.plan.launch).algorithms
    assert {(each.operation, each.size_bytes) for each in made} == set(product(operations, sizes))
    assert {(each.algorithm, each.protocol) for each in made} == {("RING", "SIMPLE")}
    assert all(each.channels >= 1 for each in made)


# ----------------------------------------------------------------------------------------- message rates

RATES = ("message-rate", "--sizes", "8,64k", "--window", "16", "--launches", "1", "--point-time", "0.02")
"""Run these alone with: pytest tests/engine/test_gpu.py -k message_rate"""


def test_message_rate_of_every_transport_delivers(volley: Command, gpus: set[str]) -> None:
    """Two pairs; where there are two GPUs, both between them."""
    chosen = "0,0,1,1" if len(gpus) > 1 else "0"
    log = measured(volley, *RATES, "--ranks", "4", "--gpus", chosen, "--share-gpu")
    assert log.complete
    used = {info.transport for info in log.transports if info.available}
    assert {"host", "staged/pinned"} <= used
    points = log.of(MessageRatePoint)
    assert [(each.transport, each.pairs, each.reason) for each in points if each.status == "failed"] == []
    for name in used:
        assert {each.pairs for each in points if each.transport == name and each.status == "ok"} == {1, 2}


def test_message_rate_of_a_corrupt_transport_fails_on_the_device(volley: Command) -> None:
    log = measured(volley, *RATES, "--ranks", "4", "-t", "staged/pinned+flip", "--share-gpu")
    assert {(each.pairs, each.status) for each in log.of(MessageRatePoint)} == {(1, "failed"), (2, "failed")}


# --------------------------------------------------------------------------- one-sided MPI and overlap


@pytest.mark.parametrize("words", [("pingpong",), ("stream",), ("stream", "--direction", "bi")])
def test_one_sided_messages_arrive_on_the_device(volley: Command, gpus: set[str], words: tuple[str, ...]) -> None:
    if len(gpus) < 2:
        pytest.skip("ranks on one GPU: MPI may refuse")
    log = measured(volley, *words, "-t", "put,get", "--sizes", ODD_SIZES, "--launches", "1", "--point-time", "0.02")
    assert log.complete
    assert [(point.transport, point.reason) for point in log.records if point.status == "failed"] == []
    on_gpus = [info for info in log.transports if info.memory == "device"]
    if not any(info.available for info in on_gpus):
        pytest.skip(f"this MPI has no one-sided calls on device pointers: {[info.reason for info in on_gpus]}")


@pytest.mark.parametrize("limit", ["memory", "arithmetic"])
def test_exchanges_and_kernels_at_once_are_both_right(volley: Command, gpus: set[str], limit: str) -> None:
    words = ("overlap", "--computation", limit, "--sizes", "1,8193,16M", "--launches", "1")
    log = measured(volley, *words, "--point-time", "0.05", SHARED)
    assert log.complete
    points = log.of(OverlapPoint)
    assert [(point.transport, point.size_bytes, point.reason) for point in points if point.status != "ok"] == []
    used = {info.transport for info in log.transports if info.available}
    assert {point.transport for point in points} == used
    assert used >= ({"staged/pinned", "peer", "device"} if len(gpus) > 1 else {"staged/pinned"})
    for point in points:
        assert point.steps > 0
        assert point.messages_verified > 0
        assert all(part > 0 for part in point.computation_beside_s)


def test_a_corrupt_exchange_beside_a_kernel_is_found(volley: Command) -> None:
    log = measured(volley, "overlap", "-t", "staged/pinned+flip", "--sizes", "4k", "--launches", "1", SHARED)
    assert {point.status for point in log.of(OverlapPoint)} == {"failed"}


# ------------------------------------------------------------------------------------------ collectives

COLLECTIVES = ("collective", "--sizes", "8,100,1000000,16M", "--launches", "1", "--point-time", "0.05")
"""Run these alone with: pytest tests/engine/test_gpu.py -k 'collective or multicast'"""


@pytest.mark.parametrize("words", ["--element float", "--element int", "--in-place"])
def test_collectives_deliver_on_the_device(volley: Command, gpus: set[str], words: str) -> None:
    ranks = str(max(len(gpus), 2))
    log = measured(volley, *COLLECTIVES, "--ranks", ranks, *words.split(), SHARED)
    assert log.complete
    used = {info.transport for info in log.transports if info.available}
    assert "staged/pinned" in used
    if len(gpus) > 1:
        assert "nccl" in used, [info.reason for info in log.transports if info.transport == "nccl"]
    points = log.of(CollectivePoint)
    assert [(point.operation, point.transport, point.reason) for point in points if point.status == "failed"] == []
    in_place = words == "--in-place"
    asked = {
        operation for operation in USUAL if operation in (IN_PLACE if in_place else USUAL) and operation != "barrier"
    }
    for name in used - {"host"}:
        measured_here = {point.operation for point in points if point.transport == name and point.status == "ok"}
        crashed = {operation for operation in asked if log.plan and f"{name} {operation}" in log.plan.excluded}
        lacking = {"all-to-all"} if in_place and name == "nccl" else crashed
        assert measured_here == asked - lacking


NCCL = ("nccl", "nccl/allocated", "nccl/registered", "nccl/graph")


def test_collectives_deliver_on_memory_of_nccl(volley: Command, gpus: set[str]) -> None:
    if len(gpus) < 2:
        pytest.skip("NCCL needs two GPUs")
    log = measured(volley, *COLLECTIVES, "--ranks", str(len(gpus)), "-t", ",".join(NCCL))
    assert [(info.transport, info.reason) for info in log.transports] == [(name, None) for name in NCCL]
    assert {point.status for point in log.of(CollectivePoint) if point.operation != "barrier"} == {"ok"}


@pytest.mark.parametrize("fault", DATA_FAULTS)
def test_a_fault_of_a_collective_is_found_on_the_device(volley: Command, fault: str) -> None:
    names = ",".join(f"{name}+{fault}" for name in ("staged/pinned", "aware", *NCCL))
    log = measured(volley, *COLLECTIVES, "--ranks", "2", "-t", names, SHARED)
    sent = [point for point in log.of(CollectivePoint) if point.operation != "barrier"]
    assert {point.status for point in sent if point.status != "skipped"} == {"failed"}


def test_the_variables_of_nccl_and_nvshmem_are_those_of_the_environment(volley: Command, gpus: set[str]) -> None:
    """Those of these tests: see ``conftest.py``."""
    if len(gpus) < 2:
        pytest.skip("NCCL needs two GPUs")
    output = volley.state.with_name("records.jsonl")
    done = volley(*COLLECTIVES, "--ranks", "2", "-t", "nccl", "--operation", "allreduce", "-o", str(output))
    (log,) = read_runs(output, BENCHMARKS)
    found = {name: value for name, value in log.run.environment.items() if name.startswith(("NCCL_", "NVSHMEM_"))}
    assert found == {name: value for name, value in os.environ.items() if name in found} | OFF
    assert "NCCL without NVLink SHARP: NCCL_NVLS_ENABLE=0 in the environment" in done.out


# ----------------------------------------------------------------------------------------------- jacobi

TRANSPORTS = "staged,aware,peer,device,nccl"


@pytest.mark.parametrize("precision", ["double", "float"])
@pytest.mark.parametrize("overlap", ["--overlap", "--no-overlap"])
def test_every_transport_gives_the_field_of_the_cpu(
    volley: Command, gpus: set[str], precision: str, overlap: str
) -> None:
    """On one GPU and, where there are two, along x and along y."""
    grids = [(1, 1), (2, 1), (1, 2)] if len(gpus) > 1 else [(1, 1)]
    hashes = set()
    for across, along in grids:
        words = ("--grid", str(across), str(along), "--domain", str(192 // across), str(132 // along))
        options = ("--transport", f"host,{TRANSPORTS}", "--precision", precision, "--iterations", "301", overlap)
        log = measured(volley, "jacobi", *words, *options)
        assert log.complete
        assert [(point.transport, point.reason) for point in log.of(JacobiPoint) if point.status != "ok"] == []
        assert {point.memory for point in log.of(JacobiPoint)} == {"host", "device"}
        hashes |= {point.field_hash for point in log.of(JacobiPoint)}
        residuals = {
            tuple((each.iteration, each.residual) for each in point.residuals) for point in log.of(JacobiPoint)
        }
        assert len(residuals) == 1
    assert len(hashes) == 1


@pytest.mark.parametrize(("along", "at_600"), [(1, "0.000402"), (2, "0.000403")])
def test_the_residuals_of_the_example(volley: Command, along: int, at_600: str) -> None:
    """Those that NVIDIA's CUDA-aware MPI example prints for 4096² points a process on 2 × 1 and 2 × 2: six digits."""
    words = ("--grid", "2", str(along), "--domain", "4096", "4096")
    log = measured(volley, "jacobi", *words, "-t", "staged/pinned", SHARED)
    (point,) = log.of(JacobiPoint)
    before, after = "0.250000 0.002397 0.001204 0.000804 0.000603 0.000483", "0.000345 0.000302 0.000269 0.000242"
    assert point.iterations == 1000
    assert " ".join(f"{each.residual:.6f}" for each in point.residuals) == f"{before} {at_600} {after}"


def test_a_corrupt_halo_is_found_on_the_device(volley: Command, gpus: set[str]) -> None:
    if len(gpus) < 2:
        pytest.skip("one GPU has no neighbour")
    (point,) = measured(volley, "jacobi", "--domain", "64", "64", "-t", "staged/pinned+flip").of(JacobiPoint)
    assert point.status == "failed"
    assert point.mismatch is not None
    assert "in iteration 0" in (point.reason or "")


def test_a_domain_beyond_device_memory_is_told_how_large_it_may_be(volley: Command) -> None:
    words = ("--grid", "1", "1", "--domain", "500000", "500000")
    (point,) = measured(volley, "jacobi", *words, "-t", "aware").of(JacobiPoint)
    assert point.status == "skipped"
    assert "of device memory on each rank" in (point.reason or "")
    assert "at most about" in (point.reason or "")


def test_a_local_domain_beyond_2_to_the_31_points_is_the_field_of_two_halves(volley: Command) -> None:
    """Each row's left point is another, so that a row in a wrong place would show."""
    hashes = []
    for along in (1, 2):
        words = ("--grid", "1", str(along), "--domain", "65536", str(33000 // along), SHARED)
        log = measured(volley, "jacobi", *words, "-t", "staged/pinned", "--precision", "float", "--iterations", "3")
        (point,) = log.of(JacobiPoint)
        if point.status == "skipped":
            pytest.skip(point.reason or "")
        assert point.status == "ok"
        hashes.append(point.field_hash)
    assert hashes[0] == hashes[1]


def cells(log: RunLog, section: str) -> list[GpuMatrixCell]:
    return [cell for row in log.of(GpuMatrixRow) if row.section == section for cell in row.cells]


def test_every_pair_of_gpus_is_measured_and_verified(volley: Command) -> None:
    log = measured(volley, "matrix", "--section", "all", "--point-time", "0.02")
    assert log.complete
    (gpus,) = log.of(GpuMatrixGpus)
    count = len(gpus.devices)
    assert {row.section for row in log.of(GpuMatrixRow)} == set(SECTIONS)
    assert [
        (cell.reason, cell.peer_access) for row in log.of(GpuMatrixRow) for cell in row.cells if cell.status == "failed"
    ] == []
    assert all(cell.messages_verified > 0 for row in log.of(GpuMatrixRow) for cell in row.cells if cell.status == "ok")
    assert len(cells(log, "uni")) == len(cells(log, "uni/off")) == count * count
    assert len(cells(log, "host-to-gpu")) == count
    assert not any(cell.peer_access for row in log.of(GpuMatrixRow) for cell in row.cells
                   if not row.peer_access and row.ends == "gpus" and cell.gpu != row.gpu)  # fmt: skip


def test_the_cuda_samples_sections_are_quick_and_verified(volley: Command) -> None:
    log = measured(volley, "matrix", "--format", "cuda-samples")
    assert log.complete
    assert log.run.plan.options.quick
    assert {row.section for row in log.of(GpuMatrixRow)} == set(OF_THE_SAMPLE)
    assert all(cell.messages_verified > 0 for row in log.of(GpuMatrixRow) for cell in row.cells)


@pytest.mark.parametrize("section", TESTS)
def test_a_broken_pair_of_gpus_fails_and_the_others_go_on(volley: Command, section: str) -> None:
    log = measured(volley, "matrix", "--section", f"uni,{section}", "--watchdog", "4", "--point-time", "0.02")
    assert log.complete
    (gpus,) = log.of(GpuMatrixGpus)
    assert {cell.status for cell in cells(log, "uni")} == {"ok"}
    broken = [(row.gpu, cell.gpu) for row in log.of(GpuMatrixRow) for cell in row.cells if cell.status == "failed"]
    assert broken == [(None if "host" in section else gpus.devices[0].uuid, gpus.devices[-1].uuid)]


def test_the_order_of_gpus_is_told_by_uuid(volley: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ("matrix", "--section", "completion", "--point-time", "0.02")
    (straight,) = measured(volley, *words).of(GpuMatrixGpus)
    if len(straight.devices) < 2:
        pytest.skip("there is one GPU only")
    backwards = [str(number) for number in reversed(range(len(straight.devices)))]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", ",".join(backwards))
    (turned,) = measured(volley, *words).of(GpuMatrixGpus)
    assert [device.uuid for device in turned.devices] == [device.uuid for device in reversed(straight.devices)]
