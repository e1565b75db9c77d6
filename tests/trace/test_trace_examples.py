"""The examples of docs/trace.md: each program is built, recorded and explained as the page says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from recorded_program import SCRIPTS
from the_command import LIMIT_S

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


def test_the_page_has_three_examples_and_says_what_explain_says() -> None:
    assert EXAMPLES.keys() == SAID.keys()
    for sentence in SAID.values():
        assert sentence.replace("The environment sets ", "") in PAGE.read_text("utf-8")


@pytest.mark.slow
@pytest.mark.parametrize("name", SAID)
def test_an_example_runs_as_it_stands(name: str, program: Path, tmp_path: Path) -> None:
    source, commands = EXAMPLES[name]
    (tmp_path / f"{name}.c").write_text(source)
    words = [line.removeprefix("$ ") for line in commands.splitlines() if " compare " not in line]
    root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    oversubscribe = {"PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe"}
    python = f'volley() {{ {sys.executable} -m volley "$@"; }}'
    done = subprocess.run(
        ["sh", "-ec", "\n".join([python, *words])],
        cwd=tmp_path,
        env={**os.environ, **root, **oversubscribe, "PATH": f"{SCRIPTS}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert SAID[name] in done.stdout or "without a core" in done.stdout
