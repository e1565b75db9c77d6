"""``volley topo``: capture or read facts, show the machine, write its picture."""

from __future__ import annotations

import sys

from volley.document import readable_json
from volley.errors import EXIT_GOOD, UserError
from volley.files import refuse_existing, refuse_input, write_file
from volley.machine.facts import read_facts
from volley.text import escape_controls
from volley.topo.options import TopoOptions
from volley.topo.topology import path_of, topology_of

DOCUMENT_VERSION = 2


def run(options: TopoOptions) -> int:
    _check(options)
    if options.source is not None:
        facts = read_facts(options.source)
    else:
        from volley.machine import capture, cuda_driver, nvml, sysfs  # noqa: PLC0415  start-up: not for kept facts

        # Of all probes those that start no job and take no measurement.
        facts = capture.capture((sysfs.BUS, cuda_driver.CUDA, nvml.NVML, sysfs.TOPOLOGY))
    topology = topology_of(facts)
    path = path_of(topology, options.transport, options.gpus) if options.transport is not None else None
    if options.output:
        from volley.topo.picture import picture  # noqa: PLC0415  start-up: the page does without

        drawn = picture(topology, path)
        if str(options.output) == "-":
            encoding = sys.stdout.encoding or "utf-8"
            sys.stdout.write(drawn.encode(encoding, "xmlcharrefreplace").decode(encoding))
        else:
            write_file(options.output, drawn.encode())
            print(f"picture: {escape_controls(str(options.output))}", file=sys.stderr)
    if options.format == "json":
        from volley import __version__  # noqa: PLC0415  start-up: reads the distribution's metadata

        document = {"topology": DOCUMENT_VERSION, "volley": __version__, "machine": topology, "path": path}
        sys.stdout.write(readable_json(document))
    elif not options.output:
        from volley.topo.page import page  # noqa: PLC0415  start-up: a picture does without

        sys.stdout.write(page(topology, path))
    return EXIT_GOOD


def _check(options: TopoOptions) -> None:
    if options.gpus is not None and options.transport is None:
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
