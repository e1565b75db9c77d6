"""The programs of examples/: they compile without a warning, run, and print the tutorial's lines."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from examples import PROGRAMS, build
from programs import TUTORIAL_LINE, BenchError, Starter, read_starter

from volley.machine.nvidia_driver import has_driver

SIZES = [8, 16, 32, 64, 128, 256, 512, 1024]


@pytest.fixture(scope="module")
def starter() -> Starter:
    return read_starter()


def built(starter: Starter, source: str, folder: Path) -> Path:
    try:
        return build(Path(starter.words[0]), source, folder)
    except BenchError as reason:
        pytest.skip(str(reason))


def started(starter: Starter, *words: str | Path) -> tuple[int, str, str]:
    with starter.start(tuple(map(str, words)), subprocess.DEVNULL) as process:
        output, errors = process.communicate(timeout=60)
    return process.returncode, output.decode(), errors.decode(errors="replace")


def sizes_of(output: str) -> list[int]:
    found = TUTORIAL_LINE.findall(output)
    assert len(found) == len(output.splitlines())
    assert all(float(seconds) > 0 for _, seconds in found)
    return [int(size) for size, _ in found]


def test_program_for_host_memory(starter: Starter, tmp_path: Path) -> None:
    program = built(starter, "ping_pong.c", tmp_path)
    status, output, errors = started(starter, program, "1024")
    assert status == 0, errors
    assert sizes_of(output) == SIZES
    status, output, errors = started(starter, program, "many")
    assert (status, output) == (1, "")
    assert "LARGEST_BYTES is a number" in errors


@pytest.mark.parametrize("source", [name for name in PROGRAMS if name.endswith(".cu")])
def test_programs_for_gpus_compile(starter: Starter, tmp_path: Path, source: str) -> None:
    assert built(starter, source, tmp_path).is_file()


@pytest.mark.gpu
@pytest.mark.skipif(not has_driver(), reason="there is no NVIDIA driver here")
@pytest.mark.parametrize(
    ("source", "words"),
    [("ping_pong_staged.cu", ()), ("ping_pong_aware.cu", ()), ("ping_pong_aware.cu", ("--gpu-after-init",))],
)
def test_programs_for_gpus_run(starter: Starter, tmp_path: Path, source: str, words: tuple[str, ...]) -> None:
    program = built(starter, source, tmp_path)
    status, output, errors = started(starter, program, *words, "1024")
    assert status == 0, errors
    assert sizes_of(output) == SIZES
