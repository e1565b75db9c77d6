"""docs/add-a-benchmark.md followed to the letter: its files are written, its lines added, and the command is there.

The C++ of docs/add-a-transport.md compiles.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

ROOT = Path(__file__).parents[2]
MODULES = ("__init__", "records", "jobs", "results", "page")
"""What the Python of the page is for, in its order."""


def blocks(language: str, page: str = "add-a-benchmark") -> list[str]:
    text = (ROOT / f"docs/{page}.md").read_text("utf-8")
    return [token.content for token in MarkdownIt().parse(text) if token.info == language]


def replaced(path: Path, old: str, new: str) -> None:
    text = path.read_text("utf-8")
    assert text.count(old) == 1, f"{path}: {old}"
    path.write_text(text.replace(old, new), "utf-8")


@pytest.fixture
def front(tmp_path: Path) -> Path:
    """The front end with the package of the page and its line in the registry."""
    source = tmp_path / "src"
    shutil.copytree(ROOT / "src", source, ignore=shutil.ignore_patterns("__pycache__"))
    package = source / "volley/benchmarks/barrier"
    package.mkdir()
    for name, code in zip(MODULES, blocks("python"), strict=True):
        (package / f"{name}.py").write_text(code, "utf-8")
    registry = source / "volley/benchmarks/__init__.py"
    replaced(
        registry, "from volley.benchmarks import collective,", "from volley.benchmarks import barrier, collective,"
    )
    replaced(registry, "    probe.BENCHMARK,\n", "    barrier.BENCHMARK,\n    probe.BENCHMARK,\n")
    return source


def volley(front: Path, *words: str | Path) -> str:
    command = [sys.executable, "-m", "volley", *map(str, words)]
    environment = {**os.environ, "PYTHONPATH": str(front)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_command_of_the_page_plans_and_shows_records(front: Path, engine: Path, tmp_path: Path) -> None:
    assert "volley barrier --ranks 4" in volley(front, "barrier", "--help")
    plan = json.loads(volley(front, "barrier", "--ranks", "2", "--samples", "7", "--dry-run"))
    assert (plan["benchmark"], plan["options"]) == ("barrier", {"samples": 7, "barriers_per_sample": 1000})
    # Records as the engine of the page writes them, between those of another run.
    run, *_, end = map(json.loads, (ROOT / "schema/examples/probe.jsonl").read_text("utf-8").splitlines())
    point = {"record": "barrier", "version": run["version"], "status": "ok", "barrier_s": [2e-6, 3e-6, 4e-6]}
    records = tmp_path / "barrier.jsonl"
    lines = ({**run, "plan": {**run["plan"], **plan}}, point, end)
    records.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    header, row = volley(front, "show", records, "--format", "csv").splitlines()[:2]
    assert float(dict(zip(header.split(","), row.split(","), strict=False))["barrier_s"]) == 3e-6


def compiled(source: str, folder: Path) -> None:
    """Compile a file of the engine; the headers in ``folder`` come before the engine's."""
    compiler = shutil.which("c++")
    if not compiler:
        pytest.skip("there is no C++ compiler here")
    (folder / "file.cpp").write_text(source, "utf-8")
    json_library = [f"-I{each}" for each in ROOT.glob("build/env/lib/python*/site-packages/nlohmann_json/include")]
    warnings = ("-Wall", "-Wextra", "-Werror")
    command = [compiler, "-std=c++20", "-fsyntax-only", *warnings, "-I.", f"-I{ROOT}/engine/src", *json_library]
    done = subprocess.run([*command, "file.cpp"], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_the_engine_s_file_compiles(tmp_path: Path) -> None:
    (source,) = blocks("cpp")
    compiled(source, tmp_path)


@pytest.mark.slow
def test_the_channels_of_a_transport_compile(tmp_path: Path) -> None:
    ssend, functions, channel, _wire = blocks("cpp", "add-a-transport")
    interface = (ROOT / "engine/src/mpi/interface.hpp").read_text("utf-8")
    (tmp_path / "mpi").mkdir()
    lines = "".join(f"{line} \\\n" for line in functions.splitlines())
    text, times = re.subn(r"#define VOLLEY_MPI_FUNCTIONS\(X\) *\\\n", lambda found: found[0] + lines, interface)
    assert times == 1
    (tmp_path / "mpi/interface.hpp").write_text(text, "utf-8")
    compiled(f'#include "transport/host_driven.hpp"\nnamespace volley {{\n{ssend}{channel}}}\n', tmp_path)
