"""Faults of GPUs by what NVML says of them: a GPU is compared with the others of its product."""

import gzip
from pathlib import Path
from typing import Any

import msgspec
import pytest

from volley.machine.hardware import Gpu, Hardware, NvLink
from volley.machine.health import XIDS, faults, of_xids


def gpus(*each: dict[str, Any], name: str = "NVIDIA H200") -> list[Gpu]:
    usual = {
        "nvlinks": [NvLink(link=number) for number in range(18)],
        "clocks_event_reasons": [],
        "power_limit_w": 700.0,
    }
    return [Gpu(**{"index": n, "uuid": f"GPU-{n}", "name": name, **usual, **change}) for n, change in enumerate(each)]


def test_good_gpus_have_no_fault() -> None:
    assert faults(gpus({}, {})) == []
    assert faults(gpus({"nvlink_errors": {"recovery": 3, "CRC": 4000}}, {"nvlink_errors": {"recovery": 2}})) == []
    assert faults(gpus({"row_remapping": "none", "ecc_uncorrected": 0, "processes": 2})) == []
    idle = {
        "clocks_event_reasons": ["idle", "applications clocks setting"],
        "sm_clock_hz": 345,
        "sm_clock_max_hz": 1980,
    }
    assert faults(gpus(idle, idle)) == []
    assert faults(gpus({"nvlinks": []}, {"nvlinks": []}, name="Tesla T4")) == []
    assert faults(gpus({"nvlinks": None, "unread": {"nvlinks": "Unknown Error"}}, {})) == []  # unknown is no fault


@pytest.mark.parametrize(
    ("change", "words", "broken", "end"),
    [
        ({"nvlinks": []}, "reports no NVLink, and others of its kind have 18", True, "look"),
        ({"nvlinks": [], "nvlinks_inactive": 18}, "18 of 18 down", True, "look"),
        ({"nvlink_errors": {"recovery": 505}}, "505 NVLink recovery errors", False, "look"),
        ({"row_remapping": "failed"}, "remapping", True, "replace"),
        ({"row_remapping": "pending"}, "remapped at the next reset", False, "reset"),
        ({"ecc_uncorrected": 1}, "1 memory errors", True, "reset"),
        ({"clocks_event_reasons": ["hardware slowdown"]}, "hardware slowdown", False, "look"),
        (
            {"clocks_event_reasons": ["applications clocks setting"], "sm_clock_hz": 345, "sm_clock_max_hz": 1980},
            "by a setting",
            False,
            "reset clocks",
        ),
        ({"sm_clock_set_hz": 900, "sm_clock_default_hz": 1500}, "by a setting", False, "reset clocks"),
        ({"power_limit_w": 350.0}, "limited to 350 W, others of its kind to 700 W", False, "power limit"),
    ],
)
def test_the_gpu_that_differs_is_named(change: dict[str, Any], words: str, broken: bool, end: str) -> None:
    for place in (0, 2):
        machine: list[dict[str, Any]] = [{}, {}, {}]
        machine[place] = change
        (fault,) = faults(gpus(*machine))
        assert (fault.gpu, fault.broken, fault.end) == (place, broken, end)
        assert words in fault.said


def test_a_board_whose_driver_reports_no_nvlink_is_said() -> None:
    assert [each.broken for each in faults(gpus({"nvlinks": []}, {"nvlinks": []}))] == [False, False]


def test_the_gpus_of_all_published_results_are_healthy_but_one_that_was_loaded_on_purpose() -> None:
    seen = 0
    for path in sorted((Path(__file__).parents[2] / "results").rglob("*.jsonl*")):
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as lines:
            records = [msgspec.json.decode(line, type=Hardware) for line in lines if b'"record":"hardware"' in line]
        found = [fault for record in records for fault in faults(record.gpus)]
        assert {(fault.part, fault.broken) for fault in found} <= {("clocks", False)}, path
        assert not found or "loaded" in path.name
        seen += len(records)
    assert seen


def test_an_xid_is_of_the_gpu_at_its_address_and_those_of_programs_are_none() -> None:
    written = [("0000:3b:00.0", 74), ("0000:3b:00.0", 74), ("0000:ff:00.0", 79), ("0000:3b:00.0", 13)]
    assert 13 not in XIDS
    first, second = of_xids(written, gpus({"pci": "0000:3b:00.0"}))
    assert (first.gpu, first.broken, first.end) == (0, False, "look")
    assert "Xid 74, 2 times" in first.said
    assert (second.gpu, second.broken, second.end) == ("0000:ff:00.0", True, "reboot")
