"""``volley topo``: capture or read facts; write the picture, or show a list of devices and a matrix of links."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from volley.document import readable_json
from volley.errors import EXIT_GOOD, UserError
from volley.files import refuse_existing, refuse_input, write_file
from volley.machine.facts import decode
from volley.records.records_file import read_file
from volley.text import escape_controls
from volley.topo.message_path import MessagePath, path_of
from volley.topo.options import TopoOptions
from volley.topo.topology import (
    Branch,
    Nic,
    PlacedGpu,
    Topology,
    nic_labels,
    node_labels,
    peer_label,
    title,
    topology_of,
    tree,
)

DOCUMENT_VERSION = 2


def run(options: TopoOptions) -> int:
    _check(options)
    if options.source is not None:
        data, name = read_file(options.source)
        if data.lstrip().startswith(b'{"record"'):
            _show_hosts(data, name, options)
            return EXIT_GOOD
        facts = decode(data, name)
    else:
        from volley.machine import capture, cuda_driver, nvml, sysfs  # noqa: PLC0415  start-up: not for kept facts

        # Of all probes those that start no job and take no measurement.
        facts = capture.capture((sysfs.BUS, cuda_driver.CUDA, nvml.NVML, sysfs.TOPOLOGY))
    topology = topology_of(facts)
    path = path_of(topology, options.transport, options.gpus or None) if options.transport is not None else None
    if options.output:
        from volley.topo.picture import picture  # noqa: PLC0415  start-up: the page does without

        _draw(picture(topology, path), options.output)
    _write({"machine": topology, "path": path}, lambda: page(topology, path), options)
    return EXIT_GOOD


def _show_hosts(records: bytes, name: str, options: TopoOptions) -> None:
    """Show what carried the messages of a saved run between two hosts."""
    from volley.topo import rails  # noqa: PLC0415  start-up: not for a machine

    path = rails.path_of_run(records, name, options.transport)
    if options.output:
        _draw(rails.picture(path), options.output)
    _write({"machine": None, "path": path}, lambda: rails.page(path), options)


def _draw(drawn: str, output: Path) -> None:
    if str(output) == "-":
        encoding = sys.stdout.encoding or "utf-8"
        sys.stdout.write(drawn.encode(encoding, "xmlcharrefreplace").decode(encoding))
    else:
        write_file(output, drawn.encode())
        print(f"picture: {escape_controls(str(output))}", file=sys.stderr)


def _write(document: Mapping[str, Any], text: Callable[[], str], options: TopoOptions) -> None:
    if options.format == "json":
        from volley import __version__  # noqa: PLC0415  start-up: reads the distribution's metadata

        sys.stdout.write(readable_json({"topology": DOCUMENT_VERSION, "volley": __version__, **document}))
    elif not options.output:
        sys.stdout.write(text())


def _check(options: TopoOptions) -> None:
    if options.gpus and options.transport is None:
        raise UserError("--gpus needs --transport: it chooses the GPUs of a message, e.g. --transport aware")
    if options.output is None:
        return
    if str(options.output) == "-":
        if options.format == "json":
            raise UserError(
                "-o - and --format json both write to standard output: write the picture to a file, e.g. -o topo.svg"
            )
    elif options.output.suffix.lower() != ".svg":
        raise UserError(f"-o: the picture is SVG: name it {escape_controls(options.output.stem)}.svg")
    else:
        refuse_input(options.output, [options.source] if options.source else [])
        refuse_existing(options.output, force=options.force)


# --------------------------------------------------------------------------------------------------- the page

_MEANINGS = {
    "NVLink": "direct NVLinks between the two, and how many",
    "NVSwitch": "NVLinks of both into NVSwitches",
    "switch": "a PCIe switch above both",
    "node": "the processor of one NUMA node",
    "nodes": "from one NUMA node to another",
    "*": "no peer access: CUDA copies through host memory",
}


def page(topology: Topology, path: MessagePath | None = None) -> str:
    lines = [title(topology)]
    for node in topology.nodes:
        name, cpus, size = node_labels(node)
        lines.append(f"  {name}: {', '.join(filter(None, [cpus, size and f'{size} of memory']))}")
        lines += _branch(topology, tree(topology, node), "    ")
    if len(topology.devices) > 1:
        lines += ["", *_matrix(topology)]
    if peers := peer_label(topology):
        lines += ["", peers]
    if path:
        lines += ["", f"{path.transport}: {path.words}"]
        lines += [f"  {number}  {hop.words}" for number, hop in enumerate(path.hops, 1)]
        lines += [f"  {path.note}"] if path.note else []
    lines += ["", *map(escape_controls, topology.notes)] if topology.notes else []
    return "\n".join(lines) + "\n"


def _branch(topology: Topology, branch: Branch, indent: str) -> Iterator[str]:
    for gpu in branch.gpus:
        # Links that lead to a single GPU stand in the matrix.
        links = [each for each in topology.nvlinks if each.gpu == gpu.number and not isinstance(each.end, int)]
        bundles = "; ".join(each.words + (" to the processor" if each.end == "host" else "") for each in links)
        words = [f"GPU {gpu.number}", escape_controls(gpu.name), escape_controls(gpu.address), gpu.pcie, bundles]
        yield indent + "  ".join(filter(None, words))
    for each in branch.switches:
        yield f"{indent}PCIe switch {escape_controls(each.path[-1])}"
        yield from _branch(topology, each, indent + "  ")
    for nic in branch.nics:
        yield f"{indent}NIC  {'  '.join(dict.fromkeys([*nic_labels(nic), escape_controls(nic.address)]))}"


def _matrix(topology: Topology) -> Iterator[str]:
    devices = topology.devices
    names = [
        f"GPU {each.number}" if isinstance(each, PlacedGpu) else nic_labels(each)[0].partition(",")[0]
        for each in devices
    ]
    rows = [[_cell(topology, one, other) for other in devices] for one in devices]
    first = max(map(len, names))
    widths = [max(len(name), *(len(row[at]) for row in rows)) for at, name in enumerate(names)]
    yield _row("", names, first, widths)
    for name, row in zip(names, rows, strict=True):
        yield _row(name, row, first, widths)
    used = " ".join(cell for row in rows for cell in row).replace("*", " * ").split()
    yield ""
    yield from (f"  {word:8}  {meaning}" for word, meaning in _MEANINGS.items() if word in used)


def _row(name: str, cells: Sequence[str], first: int, widths: Sequence[int]) -> str:
    padded = (f"{cell:{width}}" for cell, width in zip(cells, widths, strict=True))
    return f"  {name:{first}}  {'  '.join(padded)}".rstrip()


def _cell(topology: Topology, one: PlacedGpu | Nic, other: PlacedGpu | Nic) -> str:
    if one is other:
        return "-"
    star = ""
    if isinstance(one, PlacedGpu) and isinstance(other, PlacedGpu):
        links = topology.joined(one.number, other.number)
        if links:
            return f"NVLink {links.links}" if links.end != "switch" else "NVSwitch"
        star = "*" if topology.reaches(one.number, other.number) is False else ""
    if one.node != other.node:
        return f"nodes{star}"
    shared = one.switches[:1] and one.switches[:1] == other.switches[:1]
    return f"switch{star}" if shared else f"node{star}"
