"""Line rates, and GPUs that were slowed down, in the report of points."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import msgspec
import pytest

from example_records import log, pingpong, plan, stream, transport
from example_records import run as example_run
from volley.benchmarks import BENCHMARKS
from volley.machine.hardware import Device, Gpu, Hardware
from volley.records.record_types import Rank
from volley.records.run_log import RunLog
from volley.run.render import render

MACHINES = Path(__file__).parent / "machines"
H200 = "composed-2xh200-nv18"


def machine(name: str) -> list[Hardware]:
    """The records of a machine, before and after."""
    lines = (MACHINES / name / "hardware.jsonl").read_bytes().splitlines()
    return [msgspec.json.decode(line, type=Hardware) for line in lines]


def ranks(hardware: Hardware, *indices: int) -> list[Rank]:
    """Two ranks on GPUs of a machine."""
    return [
        msgspec.structs.replace(rank, device=device(hardware.gpus[index]))
        for rank, index in zip(example_run().ranks, indices, strict=True)
    ]


def device(gpu: Gpu) -> Device:
    about = {"name": gpu.name or "", "pci": gpu.pci or "", "compute_capability": "9.0", "memory_bytes": 1 << 30}
    return Device(index=gpu.index, uuid=gpu.uuid, **about)


def changed(records: list[Hardware], **changes: object) -> list[Hardware]:
    """The records with every GPU changed."""
    return [
        msgspec.structs.replace(each, gpus=[msgspec.structs.replace(gpu, **changes) for gpu in each.gpus])
        for each in records
    ]


def measured(name: str = H200, **changes: object) -> RunLog:
    """A run between the first two GPUs of a machine: 1 GiB at 400 GB/s and at 50 GB/s."""
    records = changed(machine(name), **changes) if changes else machine(name)
    gib = 1 << 30
    made = log(
        pingpong([gib / 400e9] * 6, size=gib, name="peer"),
        pingpong([gib / 50e9] * 6, size=gib, name="staged/pinned"),
        transports=[transport("peer", memory="device"), transport("staged/pinned", memory="device")],
    )
    assert made.run
    made.run = msgspec.structs.replace(made.run, ranks=ranks(records[0], 0, 1))
    made.hardware = records
    return made


def shown(*logs: RunLog, form: str = "table") -> str:
    out = io.StringIO()
    render(list(logs), BENCHMARKS, form, out, err=io.StringIO())
    return out.getvalue()


def test_the_report_says_how_much_of_the_line_rate_is_reached_and_what_it_is() -> None:
    text = shown(measured())
    assert "400 GB/s at 1 GiB, 84 % of line rate" in text
    assert "50.0 GB/s at 1 GiB, 79 % of line rate" in text
    assert "478.1 GB/s over NVLink (18 links of 26.56 GB/s) for peer" in text
    assert "63.02 GB/s over PCIe (5.0 x16) for staged/pinned" in text
    (peer, staged) = json.loads(shown(measured(), form="json"))["series"][0]["data"]
    assert peer["of_line_rate"] == pytest.approx(400 / 478.116, rel=1e-4)
    assert staged["line_rate_GBps"] == pytest.approx(63.015, rel=1e-4)
    row = next(csv.DictReader(io.StringIO(shown(measured(), form="csv"))))
    assert float(row["of_line_rate"]) == pytest.approx(400 / 478.116, rel=1e-4)


def test_a_transport_far_below_the_line_rate_is_called_slow() -> None:
    made, sizes = measured(), [8 << 4 * step for step in range(8)]
    made.records = [
        pingpong([2e-6 + size / rate] * 6, size=size, name=name)
        for name, rate, skipped in (("peer", 100e9, 0), ("staged/pinned", 50e9, 1))
        for size in sizes[: len(sizes) - skipped]
    ]
    text = shown(made)
    peer = "peer reaches 100 GB/s at 2 GiB: 21 % of line rate (NVLink), 2.00 × staged/pinned at 128 MiB"
    assert f"\n\n  SLOW    {peer}\n          volley doctor\n\n" in text  # staging is not judged


def test_both_directions_together_are_held_against_both() -> None:
    made = measured()
    window = 64 << 20
    assert made.run
    made.run = msgspec.structs.replace(made.run, plan=plan("stream"))
    made.records = [stream([window / 300e9] * 6, [window / 320e9] * 6, size=1 << 20, transport="peer")]
    (point,) = json.loads(shown(made, form="json"))["series"][0]["data"]
    assert point["line_rate_GBps"] == pytest.approx(2 * 478.116)
    assert point["of_line_rate"] == pytest.approx(600 / (2 * 478.116), rel=1e-4)


def test_a_run_without_hardware_reads_as_before() -> None:
    made = measured()
    made.hardware = []
    text = shown(made)
    assert "line rate" not in text
    assert json.loads(shown(made, form="json"))["series"][0]["data"][0]["of_line_rate"] is None


def test_a_gpu_that_was_slowed_down_or_had_memory_errors_is_named() -> None:
    made = measured(clocks_event_reasons=["idle", "hardware thermal slowdown"])
    assert "GPU 0 (NVIDIA H200) was slowed down at the end of the run: hardware thermal slowdown" in shown(made)
    before, after = machine(H200)
    made.hardware = [before, *changed([after], ecc_uncorrected=2)]
    assert "GPU 1 (NVIDIA H200) had 2 uncorrected memory errors during the run" in shown(made)
    assert "slowed" not in shown(measured())
