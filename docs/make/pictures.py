"""Draw the tutorial's pictures, all but the measured curves: ``python docs/make/pictures.py`` writes docs/pictures/."""

from pathlib import Path

from volley.report.svg import COPY, INK, LINE, MPI, MUTED, WIRE, Drawing, Point

TARGET = Path(__file__).parents[1] / "pictures"
WIDTH = 860


def pingpong() -> Drawing:
    """Draw the exchanges of two ranks over time, and what the clock sees."""
    drawing = Drawing(WIDTH, 290, "Exchanges between two ranks: warm-up, then one clock pair around k exchanges")
    top, bottom, flight, turn = 100.0, 190.0, 40.0, 10.0
    exchange = 2 * (flight + turn)
    for y, name in ((top, "rank 0"), (bottom, "rank 1")):
        drawing.text((50, y), name, bold=True)
        drawing.line([(85, y), (835, y)], LINE, 2, head="")
    starts = [100, 100 + exchange, *(340 + number * exchange for number in range(4))]
    for number, x in enumerate(starts):
        colour = MUTED if number < 2 else MPI
        drawing.line([(x, top), (x + flight, bottom - 2)], colour)
        drawing.line([(x + flight + turn, bottom), (x + 2 * flight + turn, top + 2)], colour)
    end = starts[-1] + exchange
    drawing.text((200, 60), "warm-up, untimed", 13, MUTED)
    for x, words in ((330.0, "clock"), (end, "clock")):
        drawing.line([(x, 48), (x, 245)], INK, 1.5, dashed=True, head="")
        drawing.text((x, 34), words, 13, bold=True)
    drawing.line([(342, 70), (342 + 2 * flight + turn - 4, 70)], INK, 1.2, head="both")
    drawing.text((342 + flight + turn / 2, 54), "one exchange", 13)
    drawing.line([(446, 70), (end - 4, 70)], MUTED, 1.2, head="both")
    drawing.text((590, 54), "… and so on, k exchanges back to back", 13, MUTED)
    drawing.line([(340, 212), (340 + flight + turn, 212)], INK, 1.2, head="both")
    drawing.text((340, 230), "half round trip", 13, anchor="start")
    drawing.text((60, 266), "half round trip = time between the clock readings / (2 · k)", 14, anchor="start")
    drawing.text((WIDTH - 60, 266), "bandwidth = size / half round trip", 14, anchor="end")
    return drawing


# Two ranks, each with a processor's memory above and a GPU's below: what is staged bounces off the upper row.
BOX = (210.0, 66.0)
HOST_Y, GPU_Y, LEFT, RIGHT = 62.0, 196.0, 130.0, 520.0


def node(title: str, host: str, faded: bool = False, gpus: bool = True) -> Drawing:
    """Draw the memories of two ranks on one node; ``faded`` are host buffers that nothing touches."""
    drawing = Drawing(WIDTH, 300 if gpus else 172, title)
    for rank, x in enumerate((LEFT, RIGHT)):
        drawing.text((x + BOX[0] / 2, 36), f"rank {rank}", bold=True)
        drawing.box((x, HOST_Y), BOX, "host", "host memory", host, faded=faded)
        if gpus:
            drawing.box((x, GPU_Y), BOX, "gpu", f"GPU {rank}", "message in device memory")
    return drawing


def across(y: float) -> list[Point]:
    """Return the way from the left boxes to the right ones at a height."""
    return [(LEFT + BOX[0] + 6, y), (RIGHT - 6, y)]


def cpu() -> Drawing:
    """Draw the tutorial's CPU version."""
    drawing = node("CPU version: MPI carries the message from host memory to host memory", "message", gpus=False)
    drawing.line(across(HOST_Y + 33), MPI)
    drawing.text((430, HOST_Y + 14), "MPI_Send, MPI_Recv", 13, MPI)
    drawing.text((430, 150), "one process cannot see the other's memory: MPI moves the bytes", 13, MUTED)
    return drawing


def staged() -> Drawing:
    """Draw the tutorial's CUDA-staged version."""
    drawing = node("CUDA-staged: device memory, host buffer, MPI, host buffer, device memory", "bounce buffer")
    drawing.line([(LEFT + 105, GPU_Y - 5), (LEFT + 105, HOST_Y + BOX[1] + 6)], COPY)
    drawing.line(across(HOST_Y + 33), MPI)
    drawing.line([(RIGHT + 105, HOST_Y + BOX[1] + 5), (RIGHT + 105, GPU_Y - 6)], COPY)
    drawing.text((430, HOST_Y + 14), "2  MPI_Send, MPI_Recv", 13, MPI)
    drawing.text((LEFT + 93, 153), "1  cudaMemcpy", 13, COPY, "end")
    drawing.text((LEFT + 93, 171), "to the host, PCIe", 13, COPY, "end")
    drawing.text((RIGHT + 117, 153), "3  cudaMemcpy", 13, COPY, "start")
    drawing.text((RIGHT + 117, 171), "to the device, PCIe", 13, COPY, "start")
    drawing.text((430, 162), "whole message, one step", 13, MUTED)
    drawing.text((430, 180), "after the other", 13, MUTED)
    drawing.text((430, GPU_Y + 33), "NVLink lies idle", 13, MUTED)
    drawing.text((430, 282), "the answer goes the same way back", 13, MUTED)
    return drawing


def aware() -> Drawing:
    """Draw the CUDA-aware version where peer access is to be had."""
    drawing = node(
        "CUDA-aware with peer access: device memory to device memory over NVLink",
        "not touched by the message",
        faded=True,
    )
    drawing.line(across(GPU_Y + 33), WIRE, 3.5)
    drawing.text((430, GPU_Y + 13), "NVLink", 13, WIRE, bold=True)
    drawing.text((430, GPU_Y + 53), "one copy, no bounce", 13, WIRE)
    drawing.line(across(HOST_Y + 33), MPI, 1.5, dashed=True)
    drawing.text((430, HOST_Y + 14), "MPI: addresses, “ready”", 13, MPI)
    drawing.text((430, HOST_Y + 52), "a few bytes", 13, MPI)
    drawing.text((430, 162), "MPI_Send(device pointer)", 13, INK)
    drawing.text((430, 282), "the answer goes the same way back", 13, MUTED)
    return drawing


def overlap() -> Drawing:
    """Draw who works when while one long message is staged in four ways."""
    title = "Staging one long message: whole, in chunks through MPI, and through a shared segment"
    drawing = Drawing(WIDTH, 392, title)
    stages = {"out": ("GPU → host", "host"), "mpi": ("MPI", "mpi"), "in": ("host → GPU", "gpu")}
    left, height = 190.0, 24.0

    def row(y: float, stage: str, starts: list[float], width: float) -> None:
        drawing.text((left - 14, y + height / 2), stages[stage][0], 12, MUTED, "end")
        for start in starts:
            drawing.box((left + start, y), (width, height), stages[stage][1])

    def heading(y: float, name: str, words: str) -> None:
        drawing.text((24, y), name, 14, anchor="start", bold=True)
        drawing.text((left, y), words, 13, MUTED, "start")

    heading(28, "pageable, pinned", "one step after the other; pinned: the copies are faster, the order is the same")
    for number, stage in enumerate(stages):
        row(46 + 28 * number, stage, [208.0 * number], 204)
    heading(158, "pipelined", "pinned chunks: while one is copied out, the one before it is with MPI")
    for number, stage in enumerate(stages):
        row(176 + 28 * number, stage, [62.0 * (chunk + number) for chunk in range(5)], 58)
    heading(288, "shared", "both ranks map one segment of host memory: the middle step is gone")
    for number, stage in enumerate(("out", "in")):
        row(306 + 28 * number, stage, [36.0 * (chunk + number) for chunk in range(7)], 32)
    drawing.line([(left, 374), (835, 374)], MUTED, 1.2)
    drawing.text((left - 14, 374), "time, not to scale", 12, MUTED, "end")
    return drawing


def eager() -> Drawing:
    """Draw how a CUDA-aware MPI sends a short message and a longer one."""
    drawing = Drawing(
        WIDTH, 352, "A short message sent eagerly through host memory, a longer one by rendezvous over NVLink"
    )
    lanes = {"GPU 0": 100.0, "host, rank 0": 164.0, "host, rank 1": 228.0, "GPU 1": 292.0}
    for name, y in lanes.items():
        drawing.text((130, y), name, 13, anchor="end", bold=True)
        drawing.line([(145, y), (835, y)], LINE, 2, head="")
    gpu0, host0, host1, gpu1 = lanes.values()
    drawing.text((310, 32), "eager: a short message", 15, bold=True)
    drawing.text((310, 54), "sent at once, with what it carries", 13, MUTED)
    drawing.text((668, 32), "rendezvous: a longer message", 15, bold=True)
    drawing.text((668, 54), "asked first, then one copy", 13, MUTED)
    drawing.line([(493, 20), (493, 332)], LINE, 1.5, dashed=True, head="")
    for start, here, there, words, colour in (
        (155, gpu0, host0, "copy to host memory", COPY),
        (235, host0, host1, "shared memory", MPI),
        (315, host1, gpu1, "copy to the device", COPY),
    ):
        drawing.line([(start, here + 3), (start + 60, there - 4)], colour)
        drawing.text((start + 48, (here + there) / 2), words, 13, colour, "start")
    drawing.text((310, 330), "two copies over PCIe, and each costs its start", 13, MUTED)
    drawing.line([(510, host0 + 3), (550, host1 - 4)], MPI, 1.5, dashed=True)
    drawing.text((540, 190), "“ready”", 13, MPI, "start")
    drawing.line([(600, gpu0 + 3), (670, gpu1 - 4)], WIRE, 3.5)
    drawing.text((646, 187), "NVLink, device", 13, WIRE, "start", bold=True)
    drawing.text((651, 206), "to device", 13, WIRE, "start", bold=True)
    drawing.line([(740, host1 - 3), (780, host0 + 4)], MPI, 1.5, dashed=True)
    drawing.text((774, 206), "“done”", 13, MPI, "start")
    drawing.text((668, 330), "no bounce: less time for more bytes", 13, MUTED)
    return drawing


def gpudirect() -> Drawing:
    """Draw what GPUDirect RDMA changes between two nodes."""
    drawing = Drawing(
        WIDTH, 330, "Between nodes: without GPUDirect RDMA through host memory, with it from device to device"
    )
    size = (150.0, 56.0)
    columns = {"GPU": 40.0, "host memory": 40.0, "NIC": 240.0}
    for side, name in enumerate(("node A", "node B")):
        middle = 215.0 if side == 0 else WIDTH - 215.0
        drawing.text((middle, 30), name, 15, bold=True)
        drawing.parts.append(
            f'<rect x="{middle - 195:g}" y="48" width="390" height="202" rx="10" fill="none" stroke="{LINE}" '
            'stroke-width="1.5"/>'
        )

        def at(x: float, side: int = side) -> float:
            return x if side == 0 else WIDTH - x - size[0]

        drawing.box((at(columns["host memory"]), 70), size, "host", "host memory", "bounce buffer")
        drawing.box((at(columns["GPU"]), 172), size, "gpu", "GPU", "message")
        drawing.box((at(columns["NIC"]), 121), size, "plain", "NIC", "network card")
    through = (
        [(115, 169), (115, 129)],
        [(193, 98), (278, 119)],
        [(WIDTH - 278, 118), (WIDTH - 193, 98)],
        [(WIDTH - 115, 128), (WIDTH - 115, 169)],
    )
    for way in through:
        drawing.line(list(way), COPY, 2, dashed=True)
    drawing.line([(193, 200), (278, 180)], WIRE, 3)
    drawing.line([(WIDTH - 278, 180), (WIDTH - 193, 200)], WIRE, 3)
    drawing.line([(393, 138), (WIDTH - 394, 138)], COPY, 2, dashed=True)
    drawing.line([(393, 160), (WIDTH - 394, 160)], WIRE, 3)
    drawing.line([(60, 276), (110, 276)], COPY, 2, dashed=True)
    staged = "CUDA-aware alone: MPI may stage the bytes through host memory for you"
    drawing.text((122, 276), staged, 13, anchor="start")
    drawing.line([(60, 302), (110, 302)], WIRE, 3)
    drawing.text(
        (122, 302), "with GPUDirect RDMA: the network card reads and writes device memory itself", 13, anchor="start"
    )
    return drawing


PICTURES = {each.__name__: each for each in (pingpong, cpu, staged, overlap, aware, eager, gpudirect)}


def main() -> None:
    """Write the pictures."""
    TARGET.mkdir(exist_ok=True)
    for name, draw in PICTURES.items():
        (TARGET / f"{name}.svg").write_text(draw().svg(), "utf-8")


if __name__ == "__main__":
    main()
