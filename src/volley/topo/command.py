"""``volley topo``: capture or read facts, show the machine, write its picture."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from volley.doctor.command import read
from volley.doctor.facts import Facts
from volley.errors import EXIT_GOOD, UserError
from volley.report.encodable import Encodable
from volley.text import ascii_json, harmless
from volley.topo.machine import Machine, machine_of
from volley.topo.way import Way, way_of

NEEDED = ("bus", "cuda", "nvml", "topology")
"""Of what doctor captures: all that starts no job and takes no measurement."""
DOCUMENT_VERSION = 1


@dataclass(frozen=True, kw_only=True)
class Drawing:
    """What the command line asks for."""

    transport: str | None = None
    gpus: Sequence[int] | None = None
    source: str | None = None
    """A file of facts; ``-`` is standard input."""
    output: Path | None = None
    """Where the picture goes; ``-`` is standard output."""
    json: bool = False


def run(drawing: Drawing) -> int:
    """Do it; return the exit code.

    Raises:
        UserError: if the request makes no sense, or a file cannot be read or written.
        MachineError: if the transport has no way on this machine.
    """
    _check(drawing)
    facts = read(drawing.source) if drawing.source is not None else _capture()
    machine = machine_of(facts)
    way = way_of(machine, drawing.transport, drawing.gpus) if drawing.transport is not None else None
    if drawing.output:
        _draw(drawing.output, machine, way)
    if drawing.json:
        sys.stdout.write(document(machine, way))
    elif not drawing.output:
        from volley.topo.page import page  # noqa: PLC0415  a picture does without

        Encodable(sys.stdout).write(page(machine, way))
    return EXIT_GOOD


def _check(drawing: Drawing) -> None:
    """Refuse what makes no sense before anything is tried."""
    if drawing.gpus is not None and drawing.transport is None:
        raise UserError("--gpus chooses between which GPUs a message goes: name its --transport too, e.g. aware")
    output = drawing.output
    if output is None:
        return
    if str(output) == "-":
        if drawing.json:
            raise UserError("-o - and --json both want standard output: give the picture a file, e.g. -o topo.svg")
    elif output.suffix.lower() != ".svg":
        raise UserError(f"-o: the picture is SVG: name it {harmless(output.stem)}.svg")


def _capture() -> Facts:
    from volley.doctor.capture import capture  # noqa: PLC0415  drawing kept facts does without

    return capture(only=NEEDED)


def _draw(output: Path, machine: Machine, way: Way | None) -> None:
    from volley.topo.picture import picture  # noqa: PLC0415  the page does without

    drawn = picture(machine, way)
    if str(output) == "-":
        encoding = sys.stdout.encoding or "utf-8"
        sys.stdout.write(drawn.encode(encoding, "xmlcharrefreplace").decode(encoding))
        return
    try:
        output.write_text(drawn, "utf-8")
    except OSError as error:
        raise UserError(f"cannot write {harmless(str(output))}: {error.strerror}; name another file") from None
    print(f"picture: {harmless(str(output))}", file=sys.stderr)


def document(machine: Machine, way: Way | None) -> str:
    """Return machine and way as one JSON document."""
    from volley import __version__  # noqa: PLC0415  reads the distribution's metadata

    found: dict[str, Any] = {"topology": DOCUMENT_VERSION, "volley": __version__, "machine": machine, "way": way}
    return ascii_json(msgspec.json.format(msgspec.json.encode(found), indent=2)) + "\n"
