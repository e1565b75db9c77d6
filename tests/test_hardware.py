"""What NVML says of the GPUs, in the records, and the line rate that follows from it."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from example_records import run as example_run
from fake_engine import install, use
from fake_nvml import FakeNvml, NVMLError
from gpu_records import device_of
from volley.benchmarks import BENCHMARKS
from volley.benchmarks import read as read_command
from volley.launch.engine import EngineProcess
from volley.machine import nvml
from volley.machine.hardware import Gpu, Hardware, NvLink
from volley.machine.line_rate import LineRate, nvlink_bytes_per_s, pcie_bytes_per_s
from volley.machine.nvidia_driver import gpu_count, has_driver
from volley.records.plan import Plan
from volley.records.record_types import Rank
from volley.records.records_file import read_runs
from volley.records.run_log import RunLog
from volley.run import session

MACHINES = Path(__file__).parent / "machines"
H200, T4, MIXED = "composed-2xh200-nv18", "composed-4xt4-pcie", "composed-4xv100-mixed"


def machine(name: str) -> list[Hardware]:
    """The records of a machine, before and after."""
    lines = (MACHINES / name / "hardware.jsonl").read_bytes().splitlines()
    return [msgspec.json.decode(line, type=Hardware) for line in lines]


def ranks(hardware: Hardware, *indices: int, hosts: tuple[str, str] = ("example-node", "example-node")) -> list[Rank]:
    """Two ranks on GPUs of a machine."""
    return [
        replace(rank, host=host, device=device_of(hardware.gpus[index]))
        for rank, index, host in zip(example_run().ranks, indices, hosts, strict=True)
    ]


def changed(records: list[Hardware], **changes: object) -> list[Hardware]:
    """The records with every GPU changed."""
    return [replace(each, gpus=[replace(gpu, **changes) for gpu in each.gpus]) for each in records]


# ------------------------------------------------------------------------------------------- reading


@pytest.mark.parametrize("name", [H200, T4, MIXED])
def test_what_nvml_says_is_what_the_record_says(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (before, after) = machine(name)
    for record in (before, after):
        monkeypatch.setitem(sys.modules, "pynvml", FakeNvml(record))
        found = nvml.read(record.when)
        unread = {gpu.index: gpu.unread for gpu in found.gpus}
        assert replace(found, host=record.host, gpus=without_reasons(found)) == replace(
            record, gpus=without_reasons(record)
        )
        assert all(reasons["power_w"] == "Not Supported" for reasons in unread.values())


def without_reasons(record: Hardware) -> list[Gpu]:
    return [replace(gpu, unread={}) for gpu in record.gpus]


def test_what_the_driver_counts_is_in_the_record(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = {"nvlink_errors": {"replay": 3, "CRC": 0}, "pcie_replays": 2, "power_slowdown_s": 1.5}
    (before, _) = changed(machine(H200), **counts)
    monkeypatch.setitem(sys.modules, "pynvml", FakeNvml(before))
    for gpu in nvml.read("before").gpus:
        assert {name: getattr(gpu, name) for name in counts} == counts
        assert gpu.thermal_slowdown_s is None
        assert {"nvlink_errors", "thermal_slowdown_s"} <= set(gpu.unread)


def test_only_the_gpus_that_are_used_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    before = machine(T4)[0]
    monkeypatch.setitem(sys.modules, "pynvml", FakeNvml(before))
    used = [before.gpus[index].uuid for index in (1, 3)]
    found = nvml.read("before", used)
    assert [gpu.index for gpu in found.gpus] == [1, 3]
    assert [(peer.first, peer.second) for peer in found.peers] == [tuple(used)]
    assert nvml.of(nvml.read("before"), used) == found
    assert nvml.of(before, ["GPU-other"]).reason == "NVML lists none of the GPUs that the ranks use"


class Hanging(FakeNvml):
    """A driver that never answers."""

    def nvmlInit(self) -> None:
        time.sleep(600)


class Broken(FakeNvml):
    def nvmlInit(self) -> None:
        raise NVMLError("Driver/library version mismatch")


class Absent(FakeNvml):
    def nvmlInit(self) -> None:
        raise self.NVMLError_LibraryNotFound


class Crashing(FakeNvml):
    def nvmlDeviceGetCount(self) -> int:
        os.kill(os.getpid(), signal.SIGBUS)
        return 0


@pytest.mark.parametrize(
    ("driver", "reason"),
    [
        (None, "nvidia-ml-py is not installed: pip install nvidia-ml-py"),
        (Broken, "Driver/library version mismatch"),
        (Absent, "there is no NVML (libnvidia-ml.so.1)"),
        (Hanging, "NVML: no answer within 0.2 s"),
        (Crashing, "NVML: it crashed: SIGBUS"),
    ],
)
def test_why_nothing_could_be_read_is_kept(
    driver: type[FakeNvml] | None, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", driver and driver(machine(H200)[0]))
    found = nvml.read("before", limit_s=0.2 if driver is Hanging else nvml.LIMIT_S)
    assert (found.reason, found.gpus) == (reason, [])


def line_rate(transport_name: str, pair: list[Rank], hardware: list[Hardware]) -> LineRate | None:
    return RunLog(hardware=hardware).line_rate(transport_name, pair)


def test_links_that_cannot_be_read_are_not_taken_for_none(monkeypatch: pytest.MonkeyPatch) -> None:
    class Shy(FakeNvml):
        def nvmlDeviceGetNvLinkState(self, _gpu: Gpu, _number: int) -> int:
            raise NVMLError("Insufficient Permissions")

    before = machine(H200)[0]
    monkeypatch.setitem(sys.modules, "pynvml", Shy(before))
    found = nvml.read("before")
    assert all(gpu.nvlinks is None for gpu in found.gpus)
    assert found.gpus[0].unread["nvlinks"] == "Insufficient Permissions"
    assert line_rate("aware", ranks(before, 0, 1), [found]) is None
    assert line_rate("staged/pinned", ranks(before, 0, 1), [found]) is not None


def test_a_gpu_that_says_nothing_and_an_older_module_are_read_as_far_as_they_go(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = machine(H200)[0]
    silent = replace(before, gpus=[before.gpus[0], Gpu(index=1, uuid=before.gpus[1].uuid)])
    monkeypatch.setitem(sys.modules, "pynvml", FakeNvml(silent))
    first, second = nvml.read("before").gpus
    assert (first.nvlinks, second.nvlinks, second.unread["pci"]) == (before.gpus[0].nvlinks, [], "Not Supported")
    for name in ("nvmlDeviceGetNvLinkRemoteDeviceType", "NVML_FI_DEV_NVLINK_GET_SPEED"):
        monkeypatch.delattr(FakeNvml, name)
    (link, *_) = nvml.read("before").gpus[0].nvlinks or ()
    assert (link.remote, link.line_rate_bytes_per_s) == ("unknown", None)


# --------------------------------------------------------------------------------------- the line rate


def known(transport_name: str, pair: list[Rank], hardware: list[Hardware]) -> LineRate:
    found = line_rate(transport_name, pair, hardware)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("generation", "width", "expected"),
    [
        *((1, 16, 4.0), (2, 16, 8.0), (3, 16, 15.754), (4, 16, 31.508), (5, 16, 63.015), (6, 16, 118.0)),
        *((3, 8, 7.877), (7, 16, None), (5, 0, None)),
    ],
)
def test_pcie_rates_are_those_of_the_specification(generation: int, width: int, expected: float | None) -> None:
    assert pcie_bytes_per_s(generation, width) == (expected and pytest.approx(expected * 1e9, rel=1e-4))


@pytest.mark.parametrize(
    ("names", "machine_name", "pair", "over", "words", "one_way"),
    [
        (
            ("aware", "peer", "device", "nccl"),
            H200,
            (0, 1),
            "NVLink",
            "18 links of 26.56 GB/s with packet headers; NVIDIA states 450 GB/s",
            478.1,
        ),
        # staging goes over PCIe whatever joins the GPUs
        (("staged/pageable", "staged/shared"), H200, (0, 1), "PCIe", "5.0 x16", 63.015),
        # without NVLink the slower PCIe link counts at its most: read at generation 1 before, at 3 after
        (("peer",), T4, (0, 1), "PCIe", "3.0 x16", 15.754),
        (("staged/pinned",), T4, (0, 3), "PCIe", "3.0 x8", 7.877),
        # only links between the two count
        (("peer",), MIXED, (0, 3), "NVLink", "2 links of 25.78 GB/s with packet headers; NVIDIA states 50 GB/s", 51.56),
        (("peer",), MIXED, (0, 2), "NVLink", "1 link of 25.78 GB/s with packet headers; NVIDIA states 25 GB/s", 25.78),
        # GPU 1 tells no rate: the nominal one of its version, the smaller side
        (("peer",), MIXED, (0, 1), "NVLink", "1 link of 25.00 GB/s", 25.0),
        (("peer",), MIXED, (2, 3), "PCIe", "3.0 x16", 15.754),  # both have links, none to each other
    ],
)
def test_the_line_rate_is_that_of_the_links_between_the_two(
    names: tuple[str, ...], machine_name: str, pair: tuple[int, int], over: str, words: str, one_way: float
) -> None:
    records = machine(machine_name)
    for name in names:
        found = known(name, ranks(records[0], *pair), records)
        assert (found.over, found.words) == (over, words)
        assert found.one_way_Bps == pytest.approx(one_way * 1e9, rel=1e-3)
        assert found.both_ways_Bps == 2 * found.one_way_Bps


def test_a_link_that_was_only_seen_idle_is_said_to_be() -> None:
    before = machine(T4)[:1]
    found = known("peer", ranks(before[0], 0, 1), before)
    assert found.words == "3.0 x16, read as 1.0 when idle"
    assert found.one_way_Bps == pcie_bytes_per_s(3, 16)
    unread = known("peer", ranks(before[0], 0, 1), changed(before, pcie_generation=None))
    assert unread.words == "3.0 x16"


@pytest.mark.parametrize(
    ("version", "links", "total"),
    [("1.0", 4, 160), ("2.0", 6, 300), ("3.0", 12, 600), ("4.0", 18, 900), ("5.0", 18, 1800)],
)
def test_links_that_tell_no_rate_have_that_of_the_whitepapers(version: str, links: int, total: int) -> None:
    rate = nvlink_bytes_per_s(NvLink(link=0, version=version))
    assert 2 * links * rate == pytest.approx(total * 1e9)


def test_behind_a_switch_the_smaller_side_counts() -> None:
    records = machine(H200)
    degraded = [
        replace(each, gpus=[each.gpus[0], replace(each.gpus[1], nvlinks=links[:12])])
        for each in records
        if (links := each.gpus[1].nvlinks)
    ]
    found = known("peer", ranks(records[0], 0, 1), degraded)
    assert found.words == "12 links of 26.56 GB/s with packet headers; NVIDIA states 300 GB/s"


def test_a_switch_that_is_not_set_up_joins_nobody() -> None:
    records = machine(H200)
    apart = [replace(each, peers=[replace(each.peers[0], nvlink="not supported")]) for each in records]
    found = known("peer", ranks(records[0], 0, 1), apart)
    assert found.over == "PCIe"


def test_links_to_somewhere_unknown_count_where_nvml_says_that_nvlink_joins_the_two() -> None:
    records = machine(H200)
    hidden = [replace(link, remote="unknown", remote_pci=None) for link in records[0].gpus[0].nvlinks or ()]
    found = known("peer", ranks(records[0], 0, 1), changed(records, nvlinks=hidden))
    assert found.words == "18 links of 26.56 GB/s with packet headers; NVIDIA states 450 GB/s"
    silent = [replace(each, peers=[]) for each in changed(records, nvlinks=hidden)]
    unjoined = known("peer", ranks(records[0], 0, 1), silent)
    assert unjoined.over == "PCIe"


def test_a_shared_gpu_stages_every_byte_over_one_link_twice() -> None:
    records = machine(H200)
    found = known("staged/pinned", ranks(records[0], 0, 0), records)
    assert found.both_ways_Bps == found.one_way_Bps
    assert line_rate("peer", ranks(records[0], 0, 0), records) is None


def test_where_nothing_is_known_there_is_no_line_rate() -> None:
    records = machine(H200)
    pair = ranks(records[0], 0, 1)
    for name in ("host", "null", "corrupt"):
        assert line_rate(name, pair, records) is None
    assert line_rate("peer", pair, []) is None
    assert line_rate("peer", example_run().ranks, records) is None
    assert line_rate("peer", ranks(records[0], 0, 1, hosts=("a", "b")), records) is None
    assert line_rate("staged/pinned", pair, changed(records, pcie_width=None)) is None
    unread = [replace(each, gpus=[each.gpus[0], *changed([each], nvlinks=None)[0].gpus[1:]]) for each in records]
    assert line_rate("peer", pair, unread) is None


# ------------------------------------------------------------------------------------------ the seam


@pytest.fixture
def gpu_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with a driver and two GPUs, and an engine that uses them; return the file for records."""
    use(monkeypatch, install(tmp_path / "bin"))
    monkeypatch.setenv("VOLLEY_FAKE", "gpus")
    monkeypatch.setattr(session, "has_driver", lambda: True)
    monkeypatch.setitem(sys.modules, "pynvml", FakeNvml(machine(H200)[0]))
    return tmp_path / "r.jsonl"


def measure(output: Path, transport: str, launches: int = 1) -> int:
    words = ["pingpong", "-t", transport, "--sizes", "8", "-o", str(output), "--force", "--format", "csv"]
    words += ["--launches", str(launches)]
    return session.measure(read_command(words))


def kinds(output: Path) -> list[str]:
    return [json.loads(line)["record"] for line in output.read_text(encoding="utf-8").splitlines()]


def test_the_gpus_are_read_while_the_job_starts_and_before_it_has_its_plan(
    gpu_machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str] = []
    started = gpu_machine.parent / "bin" / "joined"  # the engine makes it, and then reads its plan

    def read(when: nvml.When, *_: object) -> Hardware:
        steps.append(when)
        ends = time.monotonic() + 20
        while not started.exists() and time.monotonic() < ends:
            time.sleep(0.01)
        assert started.exists()
        return replace(machine(H200)[0], when=when)

    def lines(process: EngineProcess, plan: Plan) -> Iterator[bytes]:
        steps.append("plan")
        yield from really(process, plan)

    really = EngineProcess.lines
    monkeypatch.setattr(nvml, "read", read)
    monkeypatch.setattr(EngineProcess, "lines", lines)
    assert measure(gpu_machine, "staged/pinned") == 0
    assert steps == ["before", "plan", "after"]
    (log,) = read_runs(gpu_machine, BENCHMARKS)
    assert log.complete
    assert [(record.when, len(record.gpus)) for record in log.hardware] == [("before", 2), ("after", 2)]
    assert kinds(gpu_machine) == ["run", "hardware", "transport", "pingpong", "hardware", "end", "launch_times"]


def test_the_gpus_after_a_launch_are_those_before_the_next_one(
    gpu_machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def read(when: nvml.When, *_: object) -> Hardware:
        asked.append(when)
        return replace(machine(H200)[0], when=when, driver_version=str(len(asked)))

    monkeypatch.setattr(nvml, "read", read)
    assert measure(gpu_machine, "staged/pinned", launches=2) == 0
    assert asked == ["before", "after", "after"]
    logs = read_runs(gpu_machine, BENCHMARKS)
    found = [[(each.when, each.driver_version) for each in log.hardware] for log in logs]
    assert found == [[("before", str(number)), ("after", str(number + 1))] for number in (1, 2)]


def test_a_driver_that_hangs_holds_up_no_measurement(gpu_machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The process that is left behind holds none of the job's pipes: the engine reads its plan to the end."""
    monkeypatch.setitem(sys.modules, "pynvml", Hanging(machine(H200)[0]))
    monkeypatch.setattr(nvml.read, "__defaults__", (None, 0.2))
    assert measure(gpu_machine, "staged/pinned") == 0
    (log,) = read_runs(gpu_machine, BENCHMARKS)
    assert log.complete
    assert all("no answer" in (record.reason or "") for record in log.hardware)


def test_a_run_that_is_cut_short_keeps_what_became_of_its_gpus(
    gpu_machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VOLLEY_FAKE", "gpus_lost")
    assert measure(gpu_machine, "staged/pinned") == 1
    assert kinds(gpu_machine) == ["run", "hardware", "transport", "launch_times", "hardware"]
    (log,) = read_runs(gpu_machine, BENCHMARKS)
    assert not log.complete
    assert not log.problems


def test_gpus_are_not_read_where_no_transport_uses_them(gpu_machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> Hardware:
        raise AssertionError("NVML was read")

    monkeypatch.setattr(nvml, "read", refuse)
    measure(gpu_machine, "host")
    assert "hardware" not in kinds(gpu_machine)
    monkeypatch.setattr(session, "has_driver", lambda: False)
    measure(gpu_machine, "staged/pinned")
    assert "hardware" not in kinds(gpu_machine)


def test_where_the_ranks_use_no_gpu_nvml_is_asked_once_and_the_records_say_nothing(
    gpu_machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def read(when: nvml.When, *_: object) -> Hardware:
        asked.append(when)
        return machine(H200)[0]

    monkeypatch.setattr(nvml, "read", read)
    monkeypatch.setenv("VOLLEY_FAKE", "good")
    measure(gpu_machine, "staged/pinned", launches=2)
    assert asked == ["before"]
    assert kinds(gpu_machine).count("run") == 2
    assert "hardware" not in kinds(gpu_machine)
    monkeypatch.setenv("VOLLEY_FAKE", "gpus")
    measure(gpu_machine.with_name("gpus.jsonl"), "staged/pinned", launches=2)
    assert asked == ["before", "before", "after", "after"]


def test_gpus_are_counted_from_their_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = [Path("/dev", name) for name in ("nvidia0", "nvidia1", "nvidia12", "nvidiactl", "nvidia-uvm")]
    monkeypatch.setattr(Path, "glob", lambda *_: iter(nodes))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert gpu_count() == 3
    for chosen, count in (("0,1", 2), ("", 0), ("-1", 0), ("1,-1,0", 1), ("NoDevFiles", 0), ("0,1,2,3,4", 3)):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", chosen)
        assert gpu_count() == count


def test_gpus_of_wsl_are_counted_by_the_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = Hardware(when="before", host="pc", gpus=[Gpu(index=number, uuid=f"GPU-{number}") for number in range(2)])
    monkeypatch.setattr(nvml, "read", lambda _when: seen)
    monkeypatch.setattr(Path, "glob", lambda *_: iter([]))
    monkeypatch.setattr(Path, "exists", lambda path: str(path) == "/dev/dxg")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert has_driver()
    assert gpu_count() == 2  # so MPI on device memory is tried first
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    assert gpu_count() == 1
