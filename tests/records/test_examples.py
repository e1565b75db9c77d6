"""The programs of examples/: they compile without a warning and run; those of the tutorial print its lines."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from examples import PROGRAMS, build
from programs import TUTORIAL_LINE, BenchError, Starter, read_starter

from the_command import LIMIT_S
from volley.machine.nvidia_driver import has_driver

ROOT = Path(__file__).parents[2]
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
        output, errors = process.communicate(timeout=LIMIT_S)
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


@pytest.mark.slow
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


def example(name: str, *words: str | Path, volley: Path) -> subprocess.CompletedProcess[str]:
    """Run an example as its first lines say, with this volley on PATH."""
    start = {".py": sys.executable, ".sh": "sh"}[Path(name).suffix]
    environment = {**os.environ, "PATH": f"{volley.parent}:{os.environ['PATH']}"}
    command = [start, str(ROOT / "examples" / name), *map(str, words)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.long
def test_the_gate_lets_a_fast_machine_pass_and_no_other(volley_command: Path) -> None:
    good, bad = (example("gate.py", most_us, "1e-6", volley=volley_command) for most_us in ("1e6", "1e-6"))
    assert (good.returncode, good.stdout) == (0, "12 points measured, 0 too slow, 0 wrong or missing\n"), good.stderr
    assert bad.returncode == 1
    assert bad.stdout.endswith("12 points measured, 6 too slow, 0 wrong or missing\n")


def test_the_gate_says_why_nothing_can_be_measured(volley_command: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VOLLEY_ENGINE", "/nowhere")
    done = example("gate.py", "5", "1", volley=volley_command)
    assert done.returncode == 2
    assert "VOLLEY_ENGINE" in done.stderr


@pytest.mark.slow
def test_the_engine_alone_writes_records(volley_command: Path, tmp_path: Path) -> None:
    done = example("engine_alone.sh", tmp_path, volley=volley_command)
    assert done.returncode == 0, done.stderr
    lines = (tmp_path / "records.jsonl").read_text("utf-8").splitlines()
    assert [json.loads(line)["record"] for line in (lines[0], lines[-1])] == ["run", "end"]
    assert "64 KiB" in done.stdout


def test_the_notebook_runs(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(ROOT)
    cells = json.loads((ROOT / "examples/launches.ipynb").read_text("utf-8"))["cells"]
    exec("\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"), {})
    assert "between launches: " in capsys.readouterr().out
