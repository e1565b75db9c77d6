"""What NVML says of the GPUs, in the records, and the line rate that follows from it."""

import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from example_records import run as example_run
from fake_engine import install, use
from fake_nvml import FakeNvml, NVMLError
from gpu_records import H200, MIXED, T4, changed, device_of, machine
from screens import SCREENS, check_screen
from volley.benchmarks import BENCHMARKS
from volley.benchmarks import read as read_command
from volley.launch.engine import EngineProcess
from volley.machine import nvml
from volley.machine.capture import Skip
from volley.machine.hardware import Gpu, Hardware, NvLink
from volley.machine.line_rate import LineRate, nvlink_bytes_per_s, pcie_bytes_per_s
from volley.machine.nvidia_driver import gpu_count, has_driver
from volley.records.plan import Plan
from volley.records.record_types import Rank
from volley.records.records_file import read_runs
from volley.records.run_log import RunLog
from volley.run import node_state, session


def ranks(hardware: Hardware, *indices: int, hosts: tuple[str, str] = ("example-node", "example-node")) -> list[Rank]:
    """Two ranks on GPUs of a machine."""
    return [
        replace(rank, host=host, device=device_of(hardware.gpus[index]))
        for rank, index, host in zip(example_run().ranks, indices, hosts, strict=True)
    ]


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


def test_gpus_before_ampere_retire_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeNvml(machine(MIXED)[0])
    fake.retired_pages_pending = 1
    monkeypatch.setitem(sys.modules, "pynvml", fake)
    assert {gpu.row_remapping for gpu in nvml.read("before").gpus} == {"pending"}


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
    first, second = nvml.facts().gpus
    assert (first.nvlinks, second.nvlinks, second.unread["pci"]) == (before.gpus[0].nvlinks, [], "Not Supported")
    for name in ("nvmlDeviceGetNvLinkRemoteDeviceType", "NVML_FI_DEV_NVLINK_GET_SPEED"):
        monkeypatch.delattr(FakeNvml, name)
    (link, *_) = nvml.facts().gpus[0].nvlinks
    assert (link.remote, link.line_rate_bytes_per_s) == ("unknown", None)
    for module in (None, Absent(before)):
        monkeypatch.setitem(sys.modules, "pynvml", module)
        with pytest.raises(Skip, match=r"NVML|nvidia-ml-py"):
            nvml.facts()


# --------------------------------------------------------------------------------------- the line rate


@pytest.mark.parametrize(
    ("generation", "width", "expected"),
    [
        *((1, 16, 4.0), (2, 16, 8.0), (3, 16, 15.754), (4, 16, 31.508), (5, 16, 63.015), (6, 16, 118.0)),
        *((3, 8, 7.877), (7, 16, None), (5, 0, None)),
    ],
)
def test_pcie_rates_are_those_of_the_specification(generation: int, width: int, expected: float | None) -> None:
    assert pcie_bytes_per_s(generation, width) == (expected and pytest.approx(expected * 1e9, rel=1e-4))


def degraded(records: list[Hardware]) -> list[Hardware]:
    """The second GPU has 12 links."""
    return [
        replace(each, gpus=[each.gpus[0], replace(each.gpus[1], nvlinks=each.gpus[1].nvlinks[:12])]) for each in records
    ]


def hidden(records: list[Hardware]) -> list[Hardware]:
    """Nobody says where the links lead."""
    links = [replace(link, remote="unknown", remote_pci=None) for link in records[0].gpus[0].nvlinks]
    return changed(records, nvlinks=links)


TWO, FOUR, V100 = machine(H200), machine(T4), machine(MIXED)
LINE_RATES: dict[str, tuple[tuple[str, ...], tuple[int, int], list[Hardware]]] = {
    "two H200": (("aware", "peer", "device", "nccl", "host", "null"), (0, 1), TWO),
    "staging goes over PCIe whatever joins the GPUs": (("staged/pageable", "staged/shared"), (0, 1), TWO),
    "the slower PCIe link counts at its most": (("peer",), (0, 1), FOUR),
    "a narrow link": (("staged/pinned",), (0, 3), FOUR),
    "only links between the two count": (("peer",), (0, 3), V100),
    "one link": (("peer",), (0, 2), V100),
    "GPU 1 tells no rate: the nominal one of its version, the smaller side": (("peer",), (0, 1), V100),
    "both have links, none to each other": (("peer",), (2, 3), V100),
    "a link that was only seen idle": (("peer",), (0, 1), FOUR[:1]),
    "a generation that nobody tells": (("peer",), (0, 1), changed(FOUR[:1], pcie_generation=None)),
    "behind a switch the smaller side counts": (("peer",), (0, 1), degraded(TWO)),
    "a switch that is not set up joins nobody": (
        *(("peer",), (0, 1), [replace(each, peers=[replace(each.peers[0], nvlink="not supported")]) for each in TWO]),
    ),
    "links to somewhere unknown, and NVML says that they join the two": (("peer",), (0, 1), hidden(TWO)),
    "links to somewhere unknown": (("peer",), (0, 1), [replace(each, peers=[]) for each in hidden(TWO)]),
    "a shared GPU stages every byte over one link twice": (("staged/pinned", "peer"), (0, 0), TWO),
    "no record": (("peer",), (0, 1), []),
    "an unknown width": (("staged/pinned",), (0, 1), changed(TWO, pcie_width=None)),
    "unread links of one GPU": (
        *(("peer",), (0, 1), [replace(e, gpus=[e.gpus[0], replace(e.gpus[1], nvlinks=None)]) for e in TWO]),
    ),
}


def test_line_rates_are_those_that_were_looked_at() -> None:
    parts = []
    for name, (transports, pair, records) in LINE_RATES.items():
        parts.append(f"# {name}")
        for each in transports:
            found = line_rate(each, ranks((records or TWO)[0], *pair), records)
            rates = found and f"{found.one_way_Bps / 1e9:.2f} GB/s one way, {found.both_ways_Bps / 1e9:.2f} both ways"
            parts.append(f"{each}: {f'{found.over}, {found.words}: {rates}' if found else 'unknown'}")
    check_screen(SCREENS / "line-rates.txt", "\n".join([*parts, ""]))
    assert line_rate("peer", example_run().ranks, TWO) is None
    assert line_rate("peer", ranks(TWO[0], 0, 1, hosts=("a", "b")), TWO) is None


@pytest.mark.parametrize(
    ("version", "links", "total"),
    [("1.0", 4, 160), ("2.0", 6, 300), ("3.0", 12, 600), ("4.0", 18, 900), ("5.0", 18, 1800)],
)
def test_links_that_tell_no_rate_have_that_of_the_whitepapers(version: str, links: int, total: int) -> None:
    rate = nvlink_bytes_per_s(NvLink(link=0, version=version))
    assert 2 * links * rate == pytest.approx(total * 1e9)


# ------------------------------------------------------------------------------------------ the seam


@pytest.fixture
def gpu_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with a driver and two GPUs, and an engine that uses them; return the file for records."""
    use(monkeypatch, install(tmp_path / "bin"))
    monkeypatch.setenv("VOLLEY_FAKE", "gpus")
    for module in (session, node_state):
        monkeypatch.setattr(module, "has_driver", lambda: True)
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
    assert log.times.failed.startswith("the run was aborted: ")
    assert not log.complete
    assert not log.problems


def test_gpus_are_not_read_where_no_transport_uses_them(gpu_machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> Hardware:
        raise AssertionError("NVML was read")

    monkeypatch.setattr(nvml, "read", refuse)
    measure(gpu_machine, "host")
    assert "hardware" not in kinds(gpu_machine)
    monkeypatch.setattr(node_state, "has_driver", lambda: False)
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


def test_gpus_are_counted_from_their_nodes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    nodes = [tmp_path / name for name in ("nvidia0", "nvidia1", "nvidia2", "nvidia12", "nvidiactl", "nvidia-uvm")]
    for node in nodes:
        node.touch()
    nodes[2].unlink()
    nodes[2].symlink_to(os.devnull)  # what is mounted over a GPU that a container does not get
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
