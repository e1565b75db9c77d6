"""Every command line of the pages that people begin with is typed as it stands: it runs, or is refused with a reason.

What measures is typed with ``--dry-run``: its options, ranks and launcher are settled, and nothing is started.  A check
judges a kept one, but for the one that is to be learned from, which is short.  The lines for compilers and mpirun are
typed in tests/packaging.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

from volley.benchmarks import plain
from volley.cli import COMMANDS

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
PAGES = ("README.md", *(f"docs/{name}.md" for name in ("tutorial", "cookbook", "check", "doctor")))
WITH_DRY_RUN = {
    each.name for each in (plain.COMMAND, *COMMANDS) if any(own.name == "--dry-run" for own in each.declared())
}
EARLIER, LATER = (ROOT / f"results/h100-x2/pingpong-{name}.jsonl.gz" for name in ("before", "after"))
FILES = {
    **dict.fromkeys(("a", "node1", "node1-pairs", "good", "baseline", "mine", "quiet"), EARLIER),
    **dict.fromkeys(("b", "node2", "today", "beside"), LATER),
}
"""What other lines of the page, or other machines, would have written."""
VERDICTS = {"check": {0, 1, 4}, "compare": {0, 1, 4}, "doctor": {0, 1}}
"""Exit codes of a command that has done what it should; of the others 0."""
REFUSED = {
    r"--launcher jsrun": (3, "jsrun is not on PATH"),
    r"show nnjp jgrm": (2, "no file, saved run or reference of this name exists"),
    r"--switches /etc/slurm": (2, "/etc/slurm/topology.conf"),
    r"--expect good.json$|--inventory": (2, r"good\.json|node\.json"),
    r"--device-query": (3, r"libcuda\.so\.1 does not load"),
    r"transports --hosts node1,node2": (3, "node1"),
}
"""Lines that need another machine, or a name of the reader: the exit code, and what the reason names."""
NOT_HERE = re.compile(
    r"make |export |eval |mpicc |nvcc |mpirun |srun |salloc |kubectl |volley (tune|record)|.* --live "
)
"""Other programs; tune, which searches for minutes; a program of the reader; two measurements in turns."""


def typed(page: str) -> Iterator[str]:
    for token in MarkdownIt().parse((ROOT / page).read_text("utf-8")):
        if token.type == "fence" and token.info == "console":
            lines = (line[2:] for line in token.content.splitlines() if line.startswith("$ "))
            yield from (re.sub(r"\s+# .*", "", line) for line in lines)


def without_starting(line: str) -> str:
    """Return the line with ``--dry-run`` where its command has that; a check of this machine with kept records."""
    match = re.search(r"\bvolley\b(?: (?P<command>[a-z][a-z-]*)(?= |$))?", line)
    assert match, line
    if match["command"] == "check":
        instead = "" if "--hosts" in line else " --from results/two-cores/check.jsonl.gz"
        instead = " --budget 10" if "--learn" in line else instead
    else:
        instead = " --dry-run" if (match["command"] or "") in WITH_DRY_RUN and "--dry-run" not in line else ""
    return line[: match.end()] + instead + line[match.end() :]


@pytest.mark.parametrize("page", [PAGES[0], *(pytest.param(page, marks=pytest.mark.long) for page in PAGES[1:])])
def test_what_a_page_says_can_be_typed(page: str, tmp_path: Path, volley_command: Path) -> None:
    for name, records in FILES.items():
        shutil.copyfile(records, tmp_path / f"{name}.jsonl")
    for name in ("examples", "results"):
        (tmp_path / name).symlink_to(ROOT / name)
    saved = tmp_path / "state/volley"
    saved.mkdir(parents=True)
    shutil.copyfile(LATER, saved / "2026-11-28T00-00-00-pingpong.jsonl")
    environment = {
        **os.environ,
        "PATH": f"{volley_command.parent}:{os.environ['PATH']}",
        "XDG_STATE_HOME": str(saved.parent),
        "GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md"),
    }
    lines = [line for line in dict.fromkeys(typed(page)) if not NOT_HERE.match(line)]
    assert lines
    problems = []
    for line in map(without_starting, lines):
        done = subprocess.run(
            ["bash", "-c", line], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        command = re.search(r"\bvolley ([a-z]+)", line)
        good = VERDICTS.get(command[1] if command else "", {0})
        refused = next((each for pattern, each in REFUSED.items() if re.search(pattern, line)), None)
        said = done.stderr.strip()
        as_expected = done.returncode in good
        if refused and not as_expected:
            as_expected = done.returncode == refused[0] and re.search(refused[1], said) is not None
        if not as_expected:
            problems.append(f"{done.returncode} {line}\n  {said[-300:]}")
    assert not problems, "\n".join(problems)
