"""What carried the messages of a run between two hosts, as a list and as a picture."""

import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import msgspec
import pytest

from example_records import plan, run
from screens import SCREENS, check_screen
from volley import cli
from volley.machine.paths import DeviceShare, PathEnd, RunPath
from volley.records.records_file import encode_line
from volley.topo.rails import picture

RAILS = [DeviceShare(f"mlx5_{number}", True, 4e11, 0.5, 0.5) for number in range(2)]
WHOLE = DeviceShare("mlx5_0", True, 4e11, 1.0, 1.0)
ETHERNET = DeviceShare("eth0", False, 1e10, 1.0, 1.0)
IDLE = DeviceShare("eth9", False, 1e9)


def path(transport: str, size: int, *devices: list[DeviceShare], hosts: str = "ab") -> RunPath:
    ends = [
        PathEnd(rank, host, each, "0000:3b:00.0") for rank, (host, each) in enumerate(zip(hosts, devices, strict=True))
    ]
    return RunPath(transport, size, size, 1.0, "UCX", "rc_mlx5", ends, idle=[IDLE])


def saved(folder: Path, *paths: RunPath) -> str:
    file = folder / "run.jsonl"
    file.write_bytes(encode_line(run(plan(launch={"paths": msgspec.to_builtins(paths)}))))
    return str(file)


BETWEEN = [
    path("host", 8, [ETHERNET], [ETHERNET]),
    path("host", 1 << 20, [ETHERNET], [ETHERNET]),
    path("aware", 1 << 20, RAILS, [WHOLE]),
    path("aware", 1 << 22, RAILS, [WHOLE], hosts="cd"),
]


def test_the_longest_messages_of_a_transport_are_listed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["topo", "--from", saved(tmp_path, *BETWEEN)]) == 0
    title, *_, last = capsys.readouterr().out.splitlines()
    assert (title, last) == ("host, 1 MiB, a to b", "  b  eth9 (1 Gbit/s)  idle")
    assert cli.main(["topo", "--from", saved(tmp_path, *BETWEEN), "--transport", "aware", "--format", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert msgspec.convert(document["path"], RunPath) == BETWEEN[2]


def test_the_picture_is_the_one_that_was_looked_at() -> None:
    fast = [DeviceShare(f"mlx5_{number}", True, 4e11, 0.5, 0.5) for number in range(2)]
    rails = [PathEnd(rank, host, fast, "0000:3b:00.0") for rank, host in enumerate(("cn1", "cn2"))]
    idle = [DeviceShare("mlx5_2", True, 4e11), DeviceShare("eth0", False, 1e10)]
    drawn = picture(RunPath("nccl", 1 << 22, 1 << 23, 1.0, "NCCL 2.28.9", "NET/IB/0/GDRDMA", rails, idle=idle))
    check_screen(SCREENS / "hosts.svg", drawn)


@pytest.mark.parametrize(
    "devices", [([ETHERNET], [ETHERNET]), (RAILS, RAILS), (RAILS, [WHOLE]), ([], [ETHERNET]), ([], [])]
)
def test_every_device_is_drawn_and_joined(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], devices: tuple[list[DeviceShare], ...]
) -> None:
    words = ["topo", "--from", saved(tmp_path, path("aware", 1 << 20, *devices)), "-o", "-"]
    assert cli.main(words) == 0
    drawn = ElementTree.fromstring(capsys.readouterr().out)
    texts = [each.text or "" for each in drawn.iter("{http://www.w3.org/2000/svg}text")]
    for end in devices:
        for device in end:
            assert device.name in texts
    assert texts.count(IDLE.name) == 2
    assert texts.count("GPU") == 2
    shares = [text for text in texts if re.fullmatch(r"\d+ %", text)]
    assert len(shares) == (max(map(len, devices)) if all(devices) else 0)


@pytest.mark.parametrize(
    ("paths", "words", "said"),
    [
        ([], [], "does not say what carried messages between two hosts"),
        ([path("host", 8, [], [], hosts="aa")], [], "does not say what carried messages between two hosts"),
        (BETWEEN, ["--transport", "nccl"], "messages of 'nccl'; name host or aware"),
    ],
)
def test_a_run_that_does_not_say_it_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], paths: Any, words: list[str], said: str
) -> None:
    assert cli.main(["topo", "--from", saved(tmp_path, *paths), *words]) == 2
    assert said in capsys.readouterr().err
