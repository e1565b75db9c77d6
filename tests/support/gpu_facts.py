"""What tests of hardware and others share."""

from pathlib import Path

import msgspec
from msgspec.structs import replace

from volley.machine.hardware import Hardware

MACHINES = Path(__file__).parents[1] / "machines"


H200, T4, MIXED = "composed-2xh200-nv18", "composed-4xt4-pcie", "composed-4xv100-mixed"


def machine(name: str) -> list[Hardware]:
    """The records of a machine, before and after."""
    lines = (MACHINES / name / "hardware.jsonl").read_bytes().splitlines()
    return [msgspec.json.decode(line, type=Hardware) for line in lines]


def changed(records: list[Hardware], **changes: object) -> list[Hardware]:
    """The records with every GPU changed."""
    return [replace(each, gpus=[replace(gpu, **changes) for gpu in each.gpus]) for each in records]
