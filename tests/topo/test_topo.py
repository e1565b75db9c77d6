"""``volley topo``: machines, paths, pictures and the command."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

import msgspec
import pytest

from machine_facts import MACHINES, NAMES, facts_of, kept
from screens import check_screen
from the_command import Command, check_transcript
from volley import cli
from volley.errors import MachineError
from volley.launch.engine import ask_about
from volley.machine import facts as f
from volley.machine.transports import ROUTES, TRANSPORTS
from volley.report.svg import LETTER
from volley.topo.command import page
from volley.topo.message_path import MessagePath, path_of
from volley.topo.picture import Layout, picture
from volley.topo.topology import Topology, topology_of

SVG = "{http://www.w3.org/2000/svg}"


def machine(name: str) -> Topology:
    return topology_of(facts_of(name))


def mesh() -> Topology:
    """Eight A100 of four NUMA nodes in a hybrid cube mesh, below switches of switches; one card has no known node."""
    return topology_of(f.read_facts(str(MACHINES / "mesh.json")))


DRAWN = ("host/put/blocking", "staged/pageable", "staged/shared", "aware/get/blocking", "nccl", "nccl/device")
"""Each way of a message, in the transport with the longest words."""


def paths(of: Topology) -> Iterator[MessagePath]:
    """Every path that the machine has, between all pairs."""
    for transport, pair in itertools.product(DRAWN, itertools.permutations([g.number for g in of.gpus], 2)):
        try:
            yield path_of(of, transport, pair)
        except MachineError:
            continue


# ---------------------------------------------------------------------------------------------------- machines


def test_what_hangs_below_one_switch_hangs_on_one_node() -> None:
    facts = facts_of("abci-v")
    lost = [
        msgspec.structs.replace(place, numa_node=None, cores="") if place.kind == "nic" else place
        for place in facts.topology.value.places
    ]
    value = msgspec.structs.replace(facts.topology.value, places=lost)
    found = topology_of(msgspec.structs.replace(facts, topology=f.Probe(call="tried", value=value)))
    assert found == machine("abci-v")


def test_links_whose_other_end_is_hidden_join_gpus_with_peer_access() -> None:
    document = re.sub(rb'"remote(_pci)?": *"[^"]*",?', b"", Path(kept("h200x4")).read_bytes())
    found = topology_of(f.decode(re.sub(rb",\s*}", b"}", document), "hidden"))
    assert {each.end for each in found.nvlinks} == {"hidden"}
    assert path_of(found, "peer", (0, 1)).hops[0].kind == "nvlink"
    assert "the other ends are not shown" in picture(found)


def test_links_that_are_down_are_not_drawn() -> None:
    facts = facts_of("abci-v")
    down = [msgspec.structs.replace(gpu, nvlinks=[], nvlinks_inactive=6) for gpu in facts.nvml.value.gpus]
    value = msgspec.structs.replace(facts.nvml.value, gpus=down)
    assert topology_of(msgspec.structs.replace(facts, nvml=f.Probe(call="tried", value=value))).nvlinks == ()


@pytest.mark.parametrize("lost", ["bus", "cuda", "nvml", "topology", "pcie_load"])
@pytest.mark.parametrize("name", ["summit", "abci-a", "t4x4", "no-gpu"])
def test_any_probe_may_be_lost(name: str, lost: str) -> None:
    found = topology_of(
        msgspec.structs.replace(facts_of(name), **{lost: f.Probe(call="tried", error="lost on purpose")})
    )
    assert len(found.gpus) == len(machine(name).gpus)
    assert page(found)
    assert ElementTree.fromstring(picture(found)) is not None
    if lost == "topology":
        assert "CPUs and PCIe switches are missing (lost on purpose)" in found.notes
    if lost == "cuda" and found.gpus:
        assert found.peers is None
        assert any("peer access is unknown" in note for note in found.notes)


# ------------------------------------------------------------------------------------------------------- paths


def test_the_tables_are_about_the_transports_of_the_engine(engine: Path) -> None:
    with ask_about(engine) as answer:
        about = answer()
    moving = [each for each in about.transports if each.memory != "none"]
    assert {each.name for each in moving} <= set(TRANSPORTS)
    assert {each.name.partition("/")[0] for each in moving if each.memory == "device"} <= set(ROUTES)
    assert not {each.name.partition("/")[0] for each in moving if each.memory == "host"} & set(ROUTES)
    if about.cuda_built:  # without CUDA it carries none for GPUs
        assert set(TRANSPORTS) - {"staged"} == {each.name for each in moving}


@pytest.mark.parametrize(
    ("name", "transport", "pair", "words"),
    [
        ("summit", "staged/pageable", (0, 3), "GPU 0 → CPU memory → CPU memory → GPU 3"),
        ("summit", "aware", (0, 1), "GPU 0 → GPU 1"),
        ("summit", "aware", (0, 4), "GPU 0 → CPU memory → CPU memory → GPU 4"),
        ("summit", "host", (0, 3), "CPU memory → CPU memory"),
        ("t4x4", "staged/shared", (3, 0), "GPU 3 → CPU memory → GPU 0"),
        ("t4x4", "nccl", (0, 2), "GPU 0 → CPU memory → GPU 2"),
        ("t4x4", "peer", (2, 3), "GPU 2 → GPU 3"),
        ("h200x4", "device", (3, 0), "GPU 3 → GPU 0"),
    ],
)
def test_the_path_of_a_message(name: str, transport: str, pair: tuple[int, int], words: str) -> None:
    assert path_of(machine(name), transport, pair).words == words


def test_without_cuda_nobody_knows_who_reaches_whom() -> None:
    lost = msgspec.structs.replace(facts_of("abci-v"), cuda=f.Probe(call="tried", error="it crashed"))
    with pytest.raises(MachineError, match="is unknown"):
        path_of(topology_of(lost), "aware", (0, 1))
    assert path_of(topology_of(lost), "staged", (0, 1)).hops


# --------------------------------------------------------------------------------------------------- pictures


@pytest.mark.parametrize(
    ("file", "transport", "pair"),
    [
        ("topo-staged.svg", "staged/pageable", (0, 3)),
        ("topo-staged-near.svg", "staged/pageable", (0, 1)),
        ("topo-aware.svg", "aware", (0, 1)),
    ],
)
def test_pictures_are_those_that_were_looked_at(file: str, transport: str, pair: tuple[int, int]) -> None:
    summit = machine("summit")
    drawn = picture(summit, path_of(summit, transport, pair))
    assert drawn == (MACHINES / "summit" / file).read_text("utf-8"), "look, then write it with volley topo --from … -o"


@dataclass(frozen=True)
class Words:
    """Where a line of text stands, at most."""

    text: str
    left: float
    right: float
    top: float
    bottom: float

    def meets(self, other: Words) -> bool:
        """Tell whether the two share a place."""
        beside = self.right <= other.left or other.right <= self.left
        return not beside and self.top < other.bottom and other.top < self.bottom


def words_of(root: ElementTree.Element) -> list[Words]:
    """The text of a picture; numbers in their circles are left out."""
    found = []
    for element in root.iter(f"{SVG}text"):
        size, text = float(element.get("font-size", "0")), element.text or ""
        width = len(text) * size * LETTER
        x, y = float(element.get("x", "0")), float(element.get("y", "0")) - 0.35 * size
        left = x - {"start": 0.0, "middle": width / 2}[element.get("text-anchor", "middle")]
        if element.get("fill") != "#ffffff":
            found.append(Words(text, left, left + width, y - size / 2, y + size / 2))
    return found


def covered(root: ElementTree.Element) -> list[str]:
    """What stands over what: words over words, lines through words, words beyond the sheet."""
    words, found = words_of(root), []
    width, height = float(root.get("width", "0")), float(root.get("height", "0"))
    for each in words:
        if each.left < 0 or each.right > width or each.bottom > height:
            found.append(f"{each.text!r} leaves the sheet")
    found += [f"{one.text!r} on {other.text!r}" for one, other in itertools.combinations(words, 2) if one.meets(other)]
    for line in root.iter(f"{SVG}polyline"):
        points = [tuple(map(float, point.split(","))) for point in line.get("points", "").split()]
        for (x1, y1), (x2, y2) in itertools.pairwise(points):
            assert x1 == x2 or y1 == y2, "all lines run along the sheet's edges"
            part = Words("", min(x1, x2) - 1, max(x1, x2) + 1, min(y1, y2) - 1, max(y1, y2) + 1)
            found += [f"a line through {each.text!r}" for each in words if each.meets(part)]
    return found


@pytest.mark.parametrize("name", [*NAMES, "mesh"])
def test_nothing_stands_over_words_whatever_is_drawn(name: str) -> None:
    found = mesh() if name == "mesh" else machine(name)
    drawn = [picture(found), *(picture(found, path) for path in paths(found))]
    assert len(drawn) > 1 or len(found.gpus) < 2
    for each in set(drawn):
        assert covered(ElementTree.fromstring(each)) == []


def test_boxes_do_not_overlap_and_stand_below_their_parents() -> None:
    found = Layout(mesh())
    assert found.bus is not None
    assert len(found.nodes) == 5, "four nodes, and one for the card that nobody places"
    boxes = [*found.nodes.values(), *found.switches.values(), *found.gpus.values(), *found.nics.values()]
    for one, other in itertools.combinations(boxes, 2):
        assert one.right <= other.x or other.right <= one.x or one.bottom <= other.y or other.bottom <= one.y
    for path, box in found.switches.items():
        if above := found.switches.get(path[:-1]):
            assert above.x <= box.x
            assert box.right <= above.right


def test_what_a_machine_says_is_text_and_nothing_else() -> None:
    evil = msgspec.json.encode(facts_of("abci-a")).decode()
    evil = evil.replace("NVIDIA A100-SXM4-40GB", "</text><script>alert(1)</script>\\u001b[2J")
    evil = evil.replace('"mlx5_0"', '"<b>&\\u202e"').replace("0-35,72-107", "<0>").replace("0000:25:00.0", "<i/>")
    found = topology_of(msgspec.json.decode(evil, type=f.Facts))
    root = ElementTree.fromstring(picture(found, path_of(found, "aware", None)))
    assert {element.tag.removeprefix(SVG) for element in root.iter()} <= {
        *("svg", "title", "defs", "marker", "path", "rect", "text", "polyline", "circle")
    }
    assert all((element.text or "").replace("\n", "").isprintable() for element in root.iter())
    assert all(line.isprintable() for line in page(found).splitlines())
    assert "\\x1b[2J" in page(found)


# -------------------------------------------------------------------------------------------------------- page


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("abci-a", ()),
        ("abci-v", ("--transport", "aware")),
        ("h200x4", ("--transport", "peer", "--gpus", "1,2")),
        ("t4x4", ()),
        ("no-gpu", ()),
        ("summit", ()),
    ],
)
def test_screens_are_those_that_were_looked_at(
    name: str, words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = topo(capsys, "--from", kept(name), *words)
    check_screen(MACHINES / name / "topo.txt", out)
    assert (code, err) == (0, "")


# ----------------------------------------------------------------------------------------------------- command


def topo(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = cli.main(["topo", *words])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_the_picture_is_written_and_the_page_is_not(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "node.svg"
    words = ("--from", kept("summit"), "--transport", "staged/pageable", "--gpus", "0,3")
    assert topo(capsys, *words, "-o", str(file)) == (0, "", f"picture: {file}\n")
    expected = (MACHINES / "summit/topo-staged.svg").read_text("utf-8")
    assert file.read_text("utf-8") == expected
    assert "exists: name another file, or replace it with --force" in topo(capsys, *words, "-o", str(file))[2]
    assert topo(capsys, *words, "-o", str(file), "--force") == (0, "", f"picture: {file}\n")
    assert topo(capsys, *words, "-o", "-") == (0, expected, "")


def test_the_facts_are_not_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    facts = tmp_path / "facts.svg"
    facts.write_bytes(Path(kept("summit")).read_bytes())
    code, _, err = topo(capsys, "--from", str(facts), "-o", str(facts))
    assert (code, facts.read_bytes()) == (2, Path(kept("summit")).read_bytes())
    assert "name another file" in err


def test_json_is_one_document(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = topo(capsys, "--from", kept("t4x4"), "--format", "json", "--transport", "aware", "--gpus", "0,2")
    assert (code, err) == (0, "")
    document = json.loads(out)
    assert list(document) == ["topology", "volley", "machine", "path"]
    assert [gpu["number"] for gpu in document["machine"]["gpus"]] == [0, 1, 2, 3]
    assert document["machine"]["peers"][0] == [True, True, False, False]
    assert [hop["kind"] for hop in document["path"]["hops"]] == ["copy", "mpi", "copy"]
    assert json.loads(topo(capsys, "--from", kept("no-gpu"), "--format", "json")[1])["path"] is None


def test_requests_that_make_no_sense(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(MACHINES.parents[1])
    check_transcript("refused/topo", capsys)


def test_this_machine_is_drawn(volley: Command, tmp_path: Path) -> None:
    done = volley("topo", "-o", str(tmp_path / "here.svg"), "--format", "json")
    assert done.code == 0, done.err
    assert json.loads(done.out)["machine"]["nodes"]
    assert ElementTree.parse(tmp_path / "here.svg").getroot().tag == f"{SVG}svg"
    plain = volley("topo", LC_ALL="C", PYTHONIOENCODING="ascii")
    assert plain.code == 0
    assert "CPUs" in plain.out
