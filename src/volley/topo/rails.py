"""Two hosts and their network devices: what carried the messages of a saved run between them, and what was idle."""

from __future__ import annotations

from volley.errors import UserError
from volley.machine import paths
from volley.machine.paths import DeviceShare, RunPath, device_words
from volley.records.records_file import first_and_last
from volley.report.svg import INK, MPI, MUTED, PCIE, Drawing, shortened
from volley.text import escape_controls, join_words
from volley.units import format_size

WIDTH, MARGIN, TOP = 860, 18.0, 82.0
HOST_WIDTH = 318.0
MEMORY, NIC = (116.0, 48.0), (150.0, 48.0)
"""Boxes of the memory that the messages are in, and of a device."""
ROW = 64.0
SIZE = 12


def path_of_run(records: bytes, name: str, transport: str | None) -> RunPath:
    """Return the path of the longest messages between the first two hosts; of a transport, if one is named."""
    runs = first_and_last(records)[0]
    apart = [path for path in paths.of_plan(runs[-1].plan.launch).paths if path.apart] if runs else []
    if not apart:
        raise UserError(
            f"{name} does not say what carried messages between two hosts: measure with volley pingpong --hosts A,B"
        )
    those = [path for path in apart if transport in (None, path.transport)]
    if not those:
        names = join_words(dict.fromkeys(escape_controls(path.transport) for path in apart), "or")
        raise UserError(f"--transport: {name} does not say what carried messages of {transport!r}; name {names}")
    first = next(path for path in those if path.transport == those[0].transport)
    hosts = [end.host for end in first.ends]
    alike = [each for each in those if each.transport == first.transport and [e.host for e in each.ends] == hosts]
    return max(alike, key=lambda each: each.size_bytes)


def _title(path: RunPath) -> str:
    hosts = " to ".join(end.host for end in path.ends)
    return escape_controls(f"{path.transport}, {format_size(path.size_bytes)}, {hosts}")


def _parts(device: DeviceShare) -> str:
    """``100 %``; ``70 % out, 30 % back``."""
    out, back = round(device.sent * 100), round(device.received * 100)
    return f"{out} %" if out == back else f"{out} % out, {back} % back"


def page(path: RunPath) -> str:
    lines = [_title(path), f"  {escape_controls(path.words())}", ""]
    for end in path.ends:
        devices = [f"{device_words(each)}  {_parts(each)}" for each in end.devices]
        devices += [f"{device_words(each)}  idle" for each in path.idle]
        lines += [escape_controls(f"  {end.host}  {each}") for each in devices]
    return "\n".join(lines) + "\n"


def picture(path: RunPath) -> str:
    """Draw a row for each device of a host, those of both hosts in the same order, the idle ones below."""
    used = max(len(end.devices) for end in path.ends)
    rows = max(used + len(path.idle), 1)
    height = 44 + rows * ROW
    said = ", ".join(filter(None, (path.library, path.protocol)))
    title, words = _title(path), escape_controls(": ".join(filter(None, (path.kind or "unknown", said))))
    drawing = Drawing(WIDTH, round(TOP + height + MARGIN), f"{title}; {words}")
    drawing.text((24, 30), shortened(title, 17, WIDTH - 48), 17, INK, "start", bold=True)
    drawing.text((24, 60), shortened(words, 14, WIDTH - 48), 14, MUTED, "start")
    left, right = (_host(drawing, path, number, height) for number in range(2))
    most = max(path.ends, key=lambda end: len(end.devices)).devices
    for row in range(used + len(path.idle)):
        idle = row >= used
        # Where one host has fewer devices, several of the other one lead to its last.
        here, there = (row if idle else min(row, len(end.devices) - 1) for end in path.ends)
        if min(here, there) < 0:
            continue  # the counters of one host saw nothing
        line = [(left, _middle(here)), (right, _middle(there))]
        drawing.line(line, PCIE if idle else MPI, 3, dashed=idle, head="" if idle else "both")
        drawing.text(((left + right) / 2, _middle(row) - 13), "idle" if idle else _parts(most[row]), SIZE, MUTED)
    return drawing.svg()


def _middle(row: int) -> float:
    return TOP + 66 + ROW * row


def _host(drawing: Drawing, path: RunPath, number: int, height: float) -> float:
    """Draw a host, with its devices at the side of the other one; return where their wires begin."""
    end, mirrored = path.ends[number], number == 1
    x = WIDTH - MARGIN - HOST_WIDTH if mirrored else MARGIN
    near, far = x + 12, x + HOST_WIDTH - 12
    memory, device = (far - MEMORY[0], near) if mirrored else (near, far - NIC[0])
    drawing.box((x, TOP), (HOST_WIDTH, height), "host")
    drawing.text(
        (near, TOP + 20), shortened(escape_controls(end.host), 13, HOST_WIDTH - 24), 13, INK, "start", bold=True
    )
    words = ["GPU", end.gpu.removeprefix("0000:")] if end.gpu else ["CPU memory"]
    _box(drawing, (memory, _middle(0)), MEMORY, "gpu" if end.gpu else "memory", words)
    below = max(len(each.devices) for each in path.ends)
    for row, each in [*enumerate(end.devices), *enumerate(path.idle, below)]:
        if row < below:
            inner = (memory, device + NIC[0]) if mirrored else (memory + MEMORY[0], device)
            drawing.line([(inner[0], _middle(0)), (inner[1], _middle(row))], MPI, 3, head="")
        name, _, rate = device_words(each).partition(" (")
        _box(drawing, (device, _middle(row)), NIC, "nic", [name, rate.removesuffix(")")])
    return device if mirrored else device + NIC[0]


def _box(drawing: Drawing, at: tuple[float, float], size: tuple[float, float], kind: str, lines: list[str]) -> None:
    shown = [shortened(escape_controls(each), SIZE, size[0] - 10) for each in lines if each]
    drawing.box((at[0], at[1] - size[1] / 2), size, kind, *shown, small=SIZE)
