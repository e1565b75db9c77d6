"""``volley report``: its options, from files of records to a report file, and pictures of the paths of messages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from volley.benchmarks import BENCHMARKS
from volley.command import option_values
from volley.command.commandline import Options, argument, flag, option
from volley.command.options import OUTPUT
from volley.errors import EXIT_FAILED, EXIT_GOOD, UserError
from volley.files import refuse_existing, refuse_input
from volley.machine.hardware import Hardware
from volley.machine.transports import TRANSPORTS
from volley.records.records_file import parse_runs, without_repeats
from volley.records.run_log import RunLog
from volley.records.saved_runs import find_file
from volley.references import machine_of
from volley.run.render import Sections, attached, form_of, reports_of, results_of, write
from volley.text import grouped, join_words
from volley.topo.message_path import path_of
from volley.topo.picture import picture
from volley.topo.topology import NumaNode, PlacedGpu, Topology, nvlinks


@dataclass(frozen=True, kw_only=True)
class ReportOptions(Options):
    records: tuple[str, ...] = argument(
        "RECORDS…",
        positional="*",
        help="Files of records, or ids or names of saved runs (volley list); - is standard input.",
    )
    output: Path = option(
        "-o",
        read=option_values.file,
        default=Path("report.html"),
        panel=OUTPUT,
        help="The file to write.",
    )
    force: bool = flag(panel=OUTPUT, help="Let the report replace what is in its file.")
    format: Literal["html", "svg", "png"] | None = option(
        "-f",
        read=option_values.choice("html", "svg", "png"),
        shown="by the name of the file",
        panel=OUTPUT,
        help="html: a page with charts, tables and the records; svg, png: a picture of the charts.",
    )
    quiet: bool = flag("-q", panel=OUTPUT, help="Show no message except errors.")


_NOTE = "from the records of the run: these name no CPUs and no PCIe switches; volley topo draws them"


def pictures_of(logs: Sequence[RunLog]) -> Iterator[tuple[str, str]]:
    for log in logs:
        run, found = log.run, next((each for each in log.hardware if len(each.gpus) > 1), None)
        if run is None or found is None or len({rank.host for rank in run.ranks}) > 1:
            continue
        topology = topology_of(found)
        used = [rank.device.uuid for rank in run.ranks if rank.device]
        numbers = [gpu.index for uuid in used for gpu in found.gpus if gpu.uuid == uuid][:2]
        if len(set(numbers)) < 2:
            yield "the GPUs", picture(topology)
            return
        for transport in log.transports:
            if transport.available and transport.memory == "device" and transport.transport in TRANSPORTS:
                with suppress(UserError):  # the records do not tell the path
                    path = path_of(topology, transport.transport, numbers)
                    yield f"{transport.transport}: {path.words}", picture(topology, path)
        return


def topology_of(hardware: Hardware) -> Topology:
    """Return what the record of a run tells of its GPUs: NVLinks, PCIe and peer access."""
    gpus = sorted(hardware.gpus, key=lambda gpu: gpu.index)
    read = {frozenset((each.first, each.second)): each.read == "ok" for each in hardware.peers if each.read}
    peers = tuple(tuple(read.get(frozenset((one.uuid, other.uuid)), one is other) for other in gpus) for one in gpus)
    placed = [
        PlacedGpu(
            number=gpu.index,
            name=gpu.name or "",
            address=gpu.pci or "",
            node=None,
            pcie_generation=gpu.pcie_generation_max,
            pcie_width=gpu.pcie_width_max,
        )
        for gpu in gpus
    ]
    return Topology(
        note="",
        nodes=(NumaNode(number=None),),
        gpus=tuple(placed),
        nics=(),
        nvlinks=nvlinks([(place, gpu.nvlinks or ()) for place, gpu in zip(placed, gpus, strict=True)]),
        nvswitches=0,
        peers=peers if read else None,
        notes=(_NOTE,),
    )


def run(options: ReportOptions) -> int:
    if not options.records:
        raise UserError(
            "volley report takes files of records: write volley report link.jsonl, or volley report last for the "
            "newest run of volley list"
        )
    form = form_of(options.output, options.format)
    paths = list(map(find_file, options.records))
    refuse_input(options.output, paths)
    refuse_existing(options.output, force=options.force)
    files = list(map(attached, paths))
    logs = [
        log
        for path, (_, data) in zip(paths, files, strict=True)
        for log in parse_runs(data, BENCHMARKS, "standard input" if path == "-" else path)
    ]
    logs = without_repeats(logs, quiet=options.quiet)
    write(options.output, form, sections_of(logs, files), quiet=options.quiet)
    return EXIT_GOOD if all(log.good for log in logs) else EXIT_FAILED


def sections_of(logs: Sequence[RunLog], files: Sequence[tuple[str, bytes]]) -> Sections:
    """Return the reports of each file, and the pictures of each report."""
    sides = grouped(logs, lambda log: log.file).values()
    reports = [report for those in sides for report in reports_of(results_of(those, BENCHMARKS))]
    names = join_words(dict.fromkeys(report.heading[0].partition(" · ")[0] for report in reports))
    title = f"{names} on {join_words(dict.fromkeys(map(machine_of, sides)))}"
    return Sections(title, reports, files, [list(pictures_of(report.runs)) for report in reports])
