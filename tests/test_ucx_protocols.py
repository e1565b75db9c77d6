"""UCX's account of its protocols, read from what it prints."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from volley.machine.ucx_protocols import Protocols, SizeRange, in_short, is_line, of_plan, parse

TEXTS = Path(__file__).parent / "ucx"
COMPOSED = sorted(TEXTS.glob("composed-*.txt"))
EAGER = "eager copy-in copy-out"
READ = "rendezvous zero-copy read from remote"


def lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines()


def composed() -> Protocols:
    return parse(lines(COMPOSED[0]))


# -------------------------------------------------------------------------------------------- the parser


@pytest.mark.parametrize("path", COMPOSED, ids=lambda path: path.stem)
def test_both_layouts_say_the_same(path: Path) -> None:
    found = parse(lines(path))
    assert found.unknown is None
    (sends,) = found.sends
    assert sends.connection == "ucp_context_0 intra-node cfg#1"
    assert sends.operation == "tagged message by ucp_tag_send*(fast-completion) from cuda/GPU0"
    assert sends.ranges == [
        SizeRange(0, 0, "eager short", "sysv/memory"),
        SizeRange(1, 2304, EAGER, "sysv/memory"),
        SizeRange(2305, None, READ, "cuda_ipc/cuda", estimated=True),
    ]
    (fetch,) = found.rendezvous
    assert fetch.ranges[-1] == SizeRange(1, None, "zero-copy read from remote", "cuda_ipc/cuda")


def test_a_captured_text_is_read_whole() -> None:
    """The real layout; GPUs are put in the place of host memory."""
    text = [line.replace("host memory", "cuda/GPU0") for line in lines(TEXTS / "captured-1.22-host-memory.txt")]
    sends = {(table.connection, table.operation.partition("*")[2]): table.ranges for table in parse(text).sends}
    assert len(sends) == 6
    assert sends["ucp_context_0 intra-node cfg#1", "(fast-completion) from cuda/GPU0"] == [
        SizeRange(0, 92, "eager short", "posix/memory"),
        SizeRange(93, 8248, EAGER, "posix/memory"),
        SizeRange(8249, 262143, f"multi-frag {EAGER}", "posix/memory"),
        SizeRange(262144, None, "rendezvous fragmented copy-in copy-out", "posix/memory", estimated=True),
    ]


def test_in_short_are_the_ranges_of_a_send_to_another_rank() -> None:
    text = lines(COMPOSED[0])
    to_itself = [line.replace("intra-node", "self      ") for line in text]
    assert in_short([*to_itself, *text]) == [
        "0..0: eager short, sysv/memory",
        f"1..2304: {EAGER}, sysv/memory",
        f"2305..inf: {READ}, cuda_ipc/cuda",
    ]
    assert in_short(["nothing of the kind"]) == []
    assert all(is_line(line) for path in COMPOSED for line in lines(path) if line.strip())
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
    assert of_plan({"stack": {"ucx_protocols": msgspec.to_builtins(found)}}) == found
    strange: list[dict[str, Any]] = [{}, {"stack": 7}, {"stack": {}}, {"stack": {"ucx_protocols": [1]}}]
    assert [of_plan(launch) for launch in strange] == [None] * len(strange)
