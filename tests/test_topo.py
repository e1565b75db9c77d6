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
from the_command import Command
from volley import cli
from volley.errors import MachineError, UserError
from volley.launch.engine import ask_about
from volley.machine import facts as f
from volley.machine.transports import ROUTES, TRANSPORTS
from volley.report.svg import LETTER
from volley.topo.layout import Layout
from volley.topo.message_path import MessagePath, path_of
from volley.topo.page import page
from volley.topo.picture import picture
from volley.topo.topology import Topology, topology_of

SVG = "{http://www.w3.org/2000/svg}"


def machine(name: str) -> Topology:
    return topology_of(facts_of(name))


def mesh() -> Topology:
    """Eight A100 of four NUMA nodes in a hybrid cube mesh, below switches of switches; one card has no known node."""
    return topology_of(f.read_facts(str(MACHINES / "mesh.json")))


def paths(of: Topology) -> Iterator[MessagePath]:
    """Every path that the machine has: all transports between all pairs."""
    for transport, pair in itertools.product(TRANSPORTS, itertools.permutations([g.number for g in of.gpus], 2)):
        try:
            yield path_of(of, transport, pair)
        except MachineError:
            continue


# ---------------------------------------------------------------------------------------------------- machines


def test_summit_is_joined_as_its_tutorial_says() -> None:
    summit = machine("summit")
    assert [node.number for node in summit.nodes] == [0, 8]
    assert [gpu.node for gpu in summit.gpus] == [0, 0, 0, 8, 8, 8]
    pairs = {(each.gpu, each.end) for each in summit.nvlinks}
    within = {(0, 1), (0, 2), (1, 2), (3, 4), (3, 5), (4, 5)}
    assert pairs == within | {(gpu, "host") for gpu in range(6)}
    for each in summit.nvlinks:
        assert (each.links, each.version, each.one_way_Bps) == (2, "2.0", 50e9)
    assert summit.nodes[0].distances == {0: 10, 8: 40}
    assert [card.names for card in summit.nics] == [("mlx5_0", "mlx5_1"), ("mlx5_2", "mlx5_3")]


def test_switches_join_a_and_nothing_is_counted_twice() -> None:
    a = machine("abci-a")
    assert (a.nvswitches, len(a.nvlinks)) == (6, 8)
    assert {each.end for each in a.nvlinks} == {"switch"}
    joined = a.joined(0, 7)
    assert joined is not None
    assert joined.words == "12 × NVLink 3.0 through NVSwitch, 300 GB/s"
    assert len({gpu.switches for gpu in a.gpus}) == 4


def test_four_t4_reach_each_other_in_pairs() -> None:
    t4 = machine("t4x4")
    reach = {pair for pair in itertools.combinations(range(4), 2) if t4.reaches(*pair)}
    assert reach == {(0, 1), (2, 3)}
    assert t4.nvlinks == ()
    assert {gpu.node for gpu in t4.gpus} == {0}, "the firmware of a virtual machine names no node: it is the only one"


def test_what_hangs_below_one_switch_hangs_on_one_node() -> None:
    facts = facts_of("abci-v")
    assert facts.topology.value is not None
    lost = [
        msgspec.structs.replace(place, numa_node=None, cores="") if place.kind == "nic" else place
        for place in facts.topology.value.places
    ]
    value = msgspec.structs.replace(facts.topology.value, places=lost)
    found = topology_of(msgspec.structs.replace(facts, topology=f.Probe(call="tried", value=value)))
    assert found == machine("abci-v")


def test_line_rates_that_nvml_tells_win_over_nominal_ones() -> None:
    joined = machine("h200x4").joined(1, 2)
    assert joined is not None
    assert joined.words == "18 × NVLink 4.0 through NVSwitch, 478.1 GB/s"


def test_links_whose_other_end_is_hidden_join_gpus_with_peer_access() -> None:
    document = re.sub(rb'"remote(_pci)?": *"[^"]*",?', b"", Path(kept("h200x4")).read_bytes())
    found = topology_of(f.decode(re.sub(rb",\s*}", b"}", document), "hidden"))
    assert {each.end for each in found.nvlinks} == {"hidden"}
    assert path_of(found, "peer", (0, 1)).hops[0].kind == "nvlink"
    assert "the other ends are not shown" in picture(found)


def test_links_that_are_down_are_not_drawn() -> None:
    facts = facts_of("abci-v")
    assert facts.nvml.value is not None
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


def test_every_transport_with_a_line_rate_has_a_path() -> None:
    assert {name.partition("/")[0] for name in TRANSPORTS} >= {"host", *ROUTES}


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


def test_what_is_crossed_is_said_with_its_rate() -> None:
    staged = path_of(machine("summit"), "staged/pageable", None).hops
    assert [hop.over for hop in staged] == ["2 × NVLink 2.0, 50 GB/s", "", "2 × NVLink 2.0, 50 GB/s"]
    assert [hop.end.number for hop in path_of(machine("summit"), "staged", (0, 3)).hops] == [0, 8, 3]
    assert path_of(machine("t4x4"), "peer", (0, 1)).hops[0].over == "PCIe 3.0 x16, 15.75 GB/s"


@pytest.mark.parametrize(
    ("name", "transport", "pair", "error", "said"),
    [
        ("t4x4", "peer", (0, 2), MachineError, "they have no peer access"),
        ("t4x4", "device", (1, 2), MachineError, "they have no peer access"),
        ("no-gpu", "aware", None, MachineError, "there is no GPU"),
        ("no-gpu", "host", (0, 1), MachineError, "there is no GPU"),
        ("t4x4", "aware", (0, 4), UserError, "there is no GPU 4; this machine has 0, 1, 2 and 3"),
        ("t4x4", "aware", (1, 1), UserError, "needs two different GPUs, e.g. --gpus 0,1"),
        ("t4x4", "aware", (0, 1, 2), UserError, "needs two different GPUs, e.g. --gpus 0,1"),
        ("t4x4", "null", (0, 1), UserError, "it moves nothing"),
        ("t4x4", "awere", (0, 1), UserError, "'awere' has no path to draw"),
    ],
)
def test_paths_that_do_not_exist(
    name: str, transport: str, pair: tuple[int, ...] | None, error: type[UserError], said: str
) -> None:
    with pytest.raises(error, match=said) as found:
        path_of(machine(name), transport, pair)
    assert type(found.value) is error


def test_without_cuda_nobody_knows_who_reaches_whom() -> None:
    lost = msgspec.structs.replace(facts_of("abci-v"), cuda=f.Probe(call="tried", error="it crashed"))
    with pytest.raises(MachineError, match="is not known"):
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


def test_what_overlaps_is_found() -> None:
    text = '<text x="10" y="20" font-size="10" text-anchor="start" fill="#000">{}</text>'
    line = '<polyline points="0,16.5 100,16.5"/>'
    sheet = (
        f'<svg xmlns="{SVG[1:-1]}" width="40" height="100">{text.format("long words")}{text.format("b")}{line}</svg>'
    )
    found = covered(ElementTree.fromstring(sheet))
    assert found[0] == "'long words' leaves the sheet"
    assert "'long words' on 'b'" in found
    assert "a line through 'b'" in found


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
    ("name", "words"), [("abci-v", ("--transport", "aware")), ("t4x4", ()), ("no-gpu", ()), ("summit", ())]
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
    assert topo(capsys, *words, "-o", "-") == (0, expected, "")


def test_the_facts_are_not_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    facts = tmp_path / "facts.svg"
    facts.write_bytes(Path(kept("summit")).read_bytes())
    code, _, err = topo(capsys, "--from", str(facts), "-o", str(facts))
    assert (code, facts.read_bytes()) == (2, Path(kept("summit")).read_bytes())
    assert "name another file" in err


def test_json_is_one_document(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = topo(capsys, "--from", kept("t4x4"), "--json", "--transport", "aware", "--gpus", "0,2")
    assert (code, err) == (0, "")
    document = json.loads(out)
    assert list(document) == ["topology", "volley", "machine", "path"]
    assert [gpu["number"] for gpu in document["machine"]["gpus"]] == [0, 1, 2, 3]
    assert document["machine"]["peers"][0] == [True, True, False, False]
    assert [hop["kind"] for hop in document["path"]["hops"]] == ["copy", "mpi", "copy"]
    assert json.loads(topo(capsys, "--from", kept("no-gpu"), "--json")[1])["path"] is None


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("--gpus", "0,1"), 2, "--gpus needs --transport"),
        (("--transport", "aware", "--gpus", "0,9"), 2, "there is no GPU 9"),
        (("--transport", "aware", "--gpus", "a"), 2, "not a list of GPU numbers"),
        (("--transport", "peer", "--gpus", "0,2"), 3, "no peer access"),
        (("-o", "topo.png"), 2, "name it topo.svg"),
        (("-o", "-", "--json"), 2, "both write to standard output"),
        (("-o", "/no/such/folder/topo.svg"), 2, "cannot write"),
    ],
)
def test_requests_that_make_no_sense(
    words: tuple[str, ...], code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    found, out, err = topo(capsys, "--from", kept("t4x4"), *words)
    assert (found, out) == (code, "")
    assert said in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("text", "said"), [('{"facts": 1}', "facts of version 1, this volley reads 2"), ("{", "holds no facts")]
)
def test_files_without_facts_are_refused(
    text: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "facts.json"
    file.write_text(text, "utf-8")
    code, out, err = topo(capsys, "--from", str(file))
    assert (code, out) == (2, "")
    assert said in err


def test_this_machine_is_drawn(engine: Path, volley_command: Path, tmp_path: Path) -> None:
    here = Command(volley_command, engine, tmp_path / "state")
    done = here("topo", "-o", str(tmp_path / "here.svg"), "--json")
    assert done.code == 0, done.err
    assert json.loads(done.out)["machine"]["nodes"]
    assert ElementTree.parse(tmp_path / "here.svg").getroot().tag == f"{SVG}svg"
    plain = here("topo", LC_ALL="C", PYTHONIOENCODING="ascii")
    assert plain.code == 0
    assert "CPUs" in plain.out
