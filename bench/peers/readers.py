"""What programs print, as figures in seconds and bytes per second.

Each reader takes the whole standard output and knows one program's layout.  A line that is not there gives no figure:
what was printed before a crash still counts, and the rows that lack a figure say so.
"""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

US, MB, GB = 1e-6, 1e6, 1e9


class ReadError(ValueError):
    """The output says that the program's own check failed."""


@dataclass(frozen=True)
class Reading:
    """What a launch printed."""

    figures: dict[str, float] = field(default_factory=dict)
    version: str | None = None


Reader = Callable[[str], Reading]

_NUMBER = r"(\d+(?:\.\d+)?(?:e[+-]?\d+)?)"
_TUTORIAL = re.compile(rf"Transfer size \(B\):\s*(\d+), Transfer Time \(s\):\s*{_NUMBER},")
_OSU_LINE = re.compile(rf"^(\d+)\s+{_NUMBER}\s*$", re.MULTILINE)
_OSU_RATE = re.compile(r"^(\d+)\s+\d+\.\d+\s+(\d+\.\d+)\s*$", re.MULTILINE)
_OSU_OVERLAP = re.compile(rf"^(\d+)\s+\S+\s+\S+\s+{_NUMBER}\s+\S+\s*$", re.MULTILINE)
_OSU_BARRIER = re.compile(rf"^ +{_NUMBER}\s*$", re.MULTILINE)
_OSU_VERSION = re.compile(r"^# OSU .* v(\d\S*)", re.MULTILINE)
_IMB_LINE = re.compile(rf"^\s+(\d+)\s+\d+\s+{_NUMBER}\s+{_NUMBER}\s*$", re.MULTILINE)
_NVBANDWIDTH_VERSION = re.compile(r"^nvbandwidth Version: (\S+)", re.MULTILINE)
_RUNNING = re.compile(r"^Running (\w+)\.", re.MULTILINE)
_NCCL_LINE = re.compile(rf"^\s*(\d+)\s+\d+\s+\w+\s+\S+\s+-?\d+\s+{_NUMBER}\s", re.MULTILINE)
_NCCL_VERSION = re.compile(r"nccl-tests version (\S+).*?nccl-library=(\d+)")
_NCCL_WRONG = re.compile(r"# Out of bounds values : (\d+) FAILED")
_SAMPLE_TITLE = re.compile(r"^(\w.*Matrix) \((GB/s|us)\)\s*$")
_CORNER = re.compile(r"^\s+(D\\D|GPU|CPU)((?:\s+\d+)+)\s*$")
_UPDATES = re.compile(rf"^.*[Ll]attice updates.*?: {_NUMBER} ([kMGT]?)LU/s \(total\)", re.MULTILINE)
_RUN_TIME = re.compile(rf"^Total Jacobi run time: {_NUMBER} sec", re.MULTILINE)
_COMMUNICATION = re.compile(rf"^Average per-process communication time: {_NUMBER} sec", re.MULTILINE)
_MODEL = re.compile(r"^(mpi|mpi_overlap|single_gpu), (\d+), (\d+), (\d+), (.*)$", re.MULTILINE)
_PREFIX = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}


def tutorial(text: str) -> Reading:
    """Read the ping-pong tutorial's programs: half round trip by size."""
    return Reading({size: float(seconds) for size, seconds in _TUTORIAL.findall(text)})


def osu_latency(text: str) -> Reading:
    """Read osu_latency, its like for one-sided MPI, and OSU's collectives: microseconds by size."""
    return _osu(text, US)


def osu_barrier(text: str) -> Reading:
    """Read osu_barrier: seconds, as size 0."""
    found = _OSU_BARRIER.search(text)
    return Reading({"0": float(found[1]) * US} if found else {}, _osu(text, US).version)


def osu_overlap(text: str) -> Reading:
    """Read an OSU non-blocking collective: seconds of the operation and its wait without computation, by size."""
    return Reading({size: float(value) * US for size, value in _OSU_OVERLAP.findall(text)}, _osu(text, US).version)


def osu_message_rate(text: str) -> Reading:
    """Read osu_mbw_mr: messages per second of all pairs by size."""
    return Reading({size: float(rate) for size, rate in _OSU_RATE.findall(text)}, _osu(text, MB).version)


def osu_bandwidth(text: str) -> Reading:
    """Read osu_bw and osu_bibw: bytes per second by size, both directions together; their MB is 10^6 bytes."""
    return _osu(text, MB)


def _osu(text: str, unit: float) -> Reading:
    version = _OSU_VERSION.search(text)
    figures = {size: float(value) * unit for size, value in _OSU_LINE.findall(text)}
    return Reading(figures, version[1] if version else None)


def imb_pingpong(text: str) -> Reading:
    """Read PingPong of IMB-MPI1: half round trip by size, the mean in microseconds."""
    return Reading({size: float(value) * US for size, value, _ in _IMB_LINE.findall(text)})


def nvbandwidth(text: str) -> Reading:
    """Read nvbandwidth's matrices: ``TEST ROW COLUMN`` → bytes per second; its GB is 10^9 bytes."""
    version = _NVBANDWIDTH_VERSION.search(text)
    parts = _RUNNING.split(text)
    figures = {
        f"{test} {row} {column}": value * GB
        for test, part in zip(parts[1::2], parts[2::2], strict=True)
        for row, column, value in _matrix(part.splitlines())
    }
    return Reading(figures, version[1] if version else None)


def _matrix(lines: Sequence[str]) -> Iterator[tuple[int, int, float]]:
    """Yield the numbers below a line of column numbers, up to a line that is no row."""
    columns: list[int] = []
    for line in lines:
        words = line.split()
        if not columns:
            columns = [int(word) for word in words] if words and all(word.isdigit() for word in words) else []
        elif len(words) == len(columns) + 1 and words[0].isdigit():
            for column, word in zip(columns, words[1:], strict=True):
                if re.fullmatch(_NUMBER, word):
                    yield int(words[0]), column, float(word)
        else:
            return


def nccl_tests(text: str) -> Reading:
    """Read a program of nccl-tests: seconds of one operation, out of place, by size.

    Raises:
        ReadError: if its check found wrong values.
    """
    if wrong := _NCCL_WRONG.search(text):
        raise ReadError(f"its own check found {wrong[1]} wrong values")
    version = _NCCL_VERSION.search(text)
    figures = {size: float(time) * US for size, time in _NCCL_LINE.findall(text)}
    return Reading(figures, f"{version[1]}, NCCL {_nccl(int(version[2]))}" if version else None)


def _nccl(code: int) -> str:
    """Return 2.28.9 for 22809, as nccl.h makes the number."""
    return f"{code // 10000}.{code // 100 % 100}.{code % 100}"


def copy_engine(text: str) -> Reading:
    """Read our own copy_engine.cu: one JSON object whose numbers are seconds."""
    lines = [line for line in text.splitlines() if line.startswith("{")]
    found = json.loads(lines[-1]) if lines else {}
    return Reading({name: float(value) for name, value in found.items()})


def p2p_sample(text: str) -> Reading:
    r"""Read the CUDA sample p2pBandwidthLatencyTest: ``TITLE ROW COLUMN`` → bytes per second or seconds.

    A bandwidth matrix has ``D\D`` in its corner; below the title of latencies stand two, the GPU's and the CPU's, whose
    names follow the title.
    """
    figures, title, unit, columns = {}, "", 1.0, [""]
    for line in text.splitlines():
        if heading := _SAMPLE_TITLE.match(line):
            title, unit = heading[1], GB if heading[2] == "GB/s" else US
        elif corner := _CORNER.match(line):
            side = "" if corner[1] == "D\\D" else f" {corner[1]}"
            columns = [f"{title}{side}", *corner[2].split()]
        elif title and re.fullmatch(rf"\s*\d+(?:\s+{_NUMBER})+\s*", line):
            row, *values = line.split()
            for column, value in zip(columns[1:], values, strict=False):
                figures[f"{columns[0]} {row} {column}"] = float(value) * unit
    return Reading(figures)


def jacobi_example(text: str) -> Reading:
    """Read NVIDIA's CUDA-aware MPI example: lattice updates per second, seconds of the run and of communication."""
    figures = {f"{name} s": float(found[1]) for name, found in _jacobi_times(text)}
    if updates := _UPDATES.search(text):
        figures["updates"] = float(updates[1]) * _PREFIX[updates[2]]
    return Reading(figures)


def _jacobi_times(text: str) -> Iterator[tuple[str, re.Match[str]]]:
    for name, pattern in (("run", _RUN_TIME), ("communication", _COMMUNICATION)):
        if found := pattern.search(text):
            yield name, found


def models(text: str) -> Reading:
    """Read the CSV line of multi-gpu-programming-models: lattice updates per second, its boundary left out."""
    figures = {}
    for variant, width, height, iterations, rest in _MODEL.findall(text):
        words = rest.split(", ")
        seconds = float(words[-1] if variant == "single_gpu" else words[-2])
        figures["updates"] = (int(width) - 2) * (int(height) - 2) * int(iterations) / seconds
    return Reading(figures)
