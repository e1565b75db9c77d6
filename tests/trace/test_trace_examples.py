"""The examples of docs/trace.md: each program is built, recorded and explained as the page says."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from recorded_program import SCRIPTS
from the_command import LIMIT_S
from volley.machine.nvidia_driver import has_driver

PAGE = Path(__file__).parents[2] / "docs/trace.md"
EXAMPLES = {
    name: (source, commands)
    for source, name, commands in re.findall(
        r"```c\n(// (\w+)\.c\n.*?)```\n\n```console\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL
    )
}
SAID = {
    "imbalance": "rank 1 comes late",
    "progress": "rank 0 makes no progress",
    "exchange": "The environment sets OMPI_MCA_btl=tcp,self",
}
"""What explain says first, unless other programs took the cores."""


COPIES = re.search(r"```console\n(\$ eval .*?staged.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
"""The commands of the example with a GPU."""


def test_the_page_has_four_examples_and_says_what_explain_says() -> None:
    assert EXAMPLES.keys() == SAID.keys()
    assert COPIES
    for sentence in SAID.values():
        assert sentence.replace("The environment sets ", "") in PAGE.read_text("utf-8")


@pytest.mark.slow
@pytest.mark.parametrize("name", SAID)
def test_an_example_runs_as_it_stands(name: str, program: Path, tmp_path: Path) -> None:
    source, commands = EXAMPLES[name]
    (tmp_path / f"{name}.c").write_text(source)
    said = output_of(commands, tmp_path)
    assert SAID[name] in said or "without a core" in said


@pytest.mark.gpu
@pytest.mark.skipif(not has_driver(), reason="there is no NVIDIA driver here")
def test_the_example_with_a_gpu_runs_as_it_stands(tmp_path: Path) -> None:
    assert COPIES
    (tmp_path / "examples").symlink_to(PAGE.parents[1] / "examples")
    one = len(list(Path("/dev").glob("nvidia[0-9]*"))) < 2
    said = output_of(COPIES[1].replace("--memory aware", "--memory aware --share-gpu") if one else COPIES[1], tmp_path)
    assert "copies messages between GPU and host memory" in said
    assert re.search(r"MPI_(Send|Recv|Sendrecv) +\d+ +[\d.]+ +[\d.]+", said), said


def output_of(commands: str, folder: Path) -> str:
    words = [line.removeprefix("$ ") for line in commands.splitlines() if " compare " not in line]
    root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    oversubscribe = {"PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe"}
    python = f'volley() {{ {sys.executable} -m volley "$@"; }}'
    done = subprocess.run(
        ["sh", "-ec", "\n".join([python, *words])],
        cwd=folder,
        env={**os.environ, **root, **oversubscribe, "PATH": f"{SCRIPTS}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
