"""UCX's account of its protocols, read from what it prints."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from screens import SCREENS, check_screen
from volley.document import part_of
from volley.machine.ucx_protocols import PLACE, Protocols, in_short, is_line, parse, unused_variables

TEXTS = Path(__file__).parents[1] / "ucx"
COMPOSED = sorted(TEXTS.glob("composed-*.txt"))


def lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines()


def composed() -> Protocols:
    return parse(lines(COMPOSED[0]))


# -------------------------------------------------------------------------------------------- the parser


def test_tables_are_read_as_they_were_looked_at() -> None:
    """Both layouts of a composed text say the same; in the captured one GPUs are put in the place of host memory."""
    captured = [line.replace("host memory", "cuda/GPU0") for line in lines(TEXTS / "captured-1.22-host-memory.txt")]
    to_itself = [line.replace("intra-node", "self      ") for line in lines(COMPOSED[0])]
    both = [*to_itself, *lines(COMPOSED[0])]
    parts = []
    for text in (*map(lines, COMPOSED), captured, both):
        found = parse(text)
        parts.append(f"not known: {found.unknown}")
        for table in (*found.sends, *found.rendezvous):
            parts.append(f"{table.connection}: {table.operation}")
            parts += [f"  {each}" for each in table.ranges]
        parts += ["in short:", *(f"  {line}" for line in in_short(text)), ""]
    check_screen(SCREENS / "ucx-protocols.txt", "\n".join(parts))
    assert all(is_line(line) for path in COMPOSED for line in lines(path) if line.strip())
    assert in_short(["nothing of the kind"]) == []
    assert not is_line("prterun noticed that process rank 0 exited on signal 11")


def test_host_memory_is_not_taken_for_the_gpu_s() -> None:
    found = parse(lines(TEXTS / "captured-1.22-host-memory.txt"))
    assert found == Protocols(unknown="UCX printed no table of its sends from GPU memory")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a warning of MPI\n| a | table | of | somebody else |\n",
        "| ucp_context_0 intra-node cfg#1 |\n| tagged message by ucp_tag_send* from cuda memory |\n",
        "| x cfg#1 | tagged message by ucp_tag_send* from cuda memory |\n| from here on | eager | sysv/memory |\n",
        "| x cfg#1 | tagged message by ucp_tag_send* from cuda memory |\n| 0..7 | eager | sysv/memory |\n",
        "| x cfg#1 | tagged message by ucp_tag_send* from cuda memory |\n| 8..inf | eager | sysv/memory |\n",
    ],
    ids=["nothing", "another table", "no rows", "another layout", "cut", "a line lost"],
)
def test_what_cannot_be_read_is_unknown(text: str) -> None:
    assert parse(text.splitlines()).unknown


def test_what_the_plan_carries_comes_back() -> None:
    found = composed()
    assert part_of({"stack": {"ucx_protocols": msgspec.to_builtins(found)}}, Protocols, *PLACE) == found
    strange: list[dict[str, Any]] = [{}, {"stack": 7}, {"stack": {}}, {"stack": {"ucx_protocols": [1]}}]
    assert [part_of(launch, Protocols, *PLACE) for launch in strange] == [None] * len(strange)


def test_variables_that_nothing_used_are_read_in_both_spellings() -> None:
    """UCX 1.13 and 1.17."""
    lines = [
        "[h:1:0] parser.c:1908 UCX  WARN  unused env variables: UCX_RC_X,UCX_TSL (set UCX_WARN_UNUSED_ENV_VARS=n)",
        "parser.c:2314 UCX  WARN  unused environment variable: UCX_NET_DEVICE (maybe: UCX_NET_DEVICES?)",
        "unused variables",
    ]
    assert unused_variables(lines) == ["UCX_NET_DEVICE", "UCX_RC_X", "UCX_TSL"]
