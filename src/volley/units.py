"""Parse and format quantities: message sizes, times, numbers, lists of CPUs.

Examples of message sizes: ``8:1Gi``, ``1k,64k,1M``, ``8:1Gi:x4``, ``1Mi:4Mi:+512Ki``.  Prefixes of sizes are binary,
with or without the ``i``, in lower or upper case: message sizes are powers of two, and other benchmarks (the OSU
micro-benchmarks, nccl-tests) also read ``64K`` as 65536 bytes.  Prefixes of rates are decimal: GB/s is 10^9 B/s
everywhere in volley.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import pairwise

LARGEST_COUNT = (1 << 31) - 1
"""The engine counts ranks, visits and iterations with 32 bits."""
LARGEST_WINDOW = 1 << 20
"""MPI needs a request for each message of a window, on every rank."""
LARGEST_WHOLE = (1 << 63) - 1
"""Bytes and messages with 64 bits."""
SHORTEST_S = 1e-18
"""No clock measures a shorter time; so the ratios of times are finite."""
LONGEST_S = 1e9
"""Thirty years: a longer time is an error, and clocks count nanoseconds in 64 bits."""
LARGEST_NUMBER = 1e300
"""Of numbers with a point: in other units and in sums they are still finite."""

VALID_FORMS = (
    "8, 64Ki, 8:1Gi (doubling), 8:1Gi:x4 (steps of 4 times), 1Mi:4Mi:+512Ki (steps of 512 KiB), or a list 1k,64k,1M"
)

LARGEST = 1 << 62
"""Sizes are signed 64-bit integers in the plan; 4 EiB is the largest power of two that fits."""

MAX_SIZES = 4096
"""The limit rejects typing errors such as ``1:1Gi:+1``; a useful sweep has fewer sizes."""

_UNITS = "KMGTPE"
_SIZE = re.compile(r"(\d+)\s*(?:([kmgtpe])i?)?b?", re.IGNORECASE | re.ASCII)


class SizeError(ValueError):
    """An invalid size; the message is one sentence that names the valid forms."""


def parse_size(text: str) -> int:
    """Parse one size and return bytes: ``8``, ``8 B``, ``64k``, ``64 KiB``, ``1Gi``."""
    matched = _SIZE.fullmatch(text.strip())
    if matched is None:
        raise SizeError(f"{text.strip()!r} is not a message size: write {VALID_FORMS}")
    # 19 digits hold every size up to LARGEST; longer digit strings are rejected without conversion.
    number = matched[1].lstrip("0")
    power = 1 + _UNITS.index(matched[2].upper()) if matched[2] else 0
    size = int(number or "0") << 10 * power if len(number) <= 19 else LARGEST + 1
    if size > LARGEST:
        raise SizeError(f"{text.strip()!r} is more than 4Ei, the largest size that fits a 64-bit integer")
    return size


def parse_sizes(text: str) -> tuple[int, ...]:
    """Parse a list of sizes and ranges; return bytes in the order given, each size once."""
    sizes: dict[int, None] = {}
    for part in text.split(","):
        if not part.strip():
            raise SizeError(f"{text!r} has an empty item in its list of sizes: write {VALID_FORMS}")
        for size in _expand(part):
            sizes[size] = None
            if len(sizes) > MAX_SIZES:
                raise SizeError(f"{text!r} means more than {MAX_SIZES} sizes: use larger steps, e.g. 8:1Gi:x4")
    return tuple(sizes)


def _expand(part: str) -> Iterator[int]:
    """Yield the sizes of one item of the list: a single size, or a range with its step and both of its ends.

    From 0 the next size is 1, or one step.
    """
    first, *rest = part.split(":")
    if not rest:
        yield parse_size(first)
        return
    if len(rest) > 2:
        raise SizeError(f"{part.strip()!r} has more than a first size, a last size and a step: write {VALID_FORMS}")
    size, last = parse_size(first), parse_size(rest[0])
    if size > last:
        raise SizeError(f"{part.strip()!r} runs from large to small: write {rest[0].strip()}:{first.strip()}")
    factor, step = _step(rest[1]) if len(rest) == 2 else (2, 0)
    while size < last:
        yield size
        size = size * factor + step or 1
    yield last


def _step(text: str) -> tuple[int, int]:
    """Parse a step into a factor and an increment in bytes: ``x4`` gives (4, 0), ``+64Ki`` gives (1, 65536)."""
    step = text.strip()
    if step.startswith("+") and (size := parse_size(step[1:])):
        return 1, size
    if re.fullmatch(r"[x*][0-9]{1,4}", step) and int(step[1:]) > 1:
        return int(step[1:]), 0
    raise SizeError(f"{step!r} is not a step of sizes: write x2 or more (times), or + and a size, as in 8:1Gi:x4")


def format_size(size_bytes: int) -> str:
    """Format a size exactly: ``8 B``, ``64 KiB``, ``1 GiB``; a size that no unit divides is given in bytes."""
    for power in range(len(_UNITS), 0, -1):
        if size_bytes % (1 << 10 * power) == 0 and size_bytes:
            return f"{size_bytes >> 10 * power} {_UNITS[power - 1]}iB"
    return f"{size_bytes} B"


def format_sizes(sizes_bytes: Sequence[int]) -> str:
    """Format sizes as they are typed, shortly: ``8:1Gi``, ``8:1Gi:x4``, ``1Mi:4Mi:+512Ki``, or a list ``8,64Ki``."""
    words = [_typed(size) for size in sizes_bytes]
    listed = ",".join(words)
    gaps = {larger - smaller for smaller, larger in pairwise(sizes_bytes)}
    if len(words) < 3 or min(gaps) < 0:
        return listed
    found = [listed]
    for step in ("", ":x4", ":x8", *(f":+{_typed(gap)}" for gap in gaps if len(gaps) == 1)):
        with suppress(SizeError):  # more sizes, or larger ones, than volley takes: another program wrote their plan
            text = f"{words[0]}:{words[-1]}{step}"
            if parse_sizes(text) == tuple(sizes_bytes):
                found.insert(0, text)
    return min(found, key=len)


def _typed(size_bytes: int) -> str:
    return format_size(size_bytes).replace(" ", "").removesuffix("B")


def approximate_size(size_bytes: float) -> str:
    """Format a computed size with three significant digits in the largest unit up to the size: ``85.4 KiB``."""
    power = next((power for power in range(len(_UNITS), 0, -1) if size_bytes >= 1 << 10 * power), 0)
    return f"{format_sig(size_bytes / (1 << 10 * power), 3)} {_UNITS[power - 1] + 'i' if power else ''}B"


def slower_or_faster(ratio: float) -> str:
    """Say what a ratio of two times means: ``5.1 % slower``, ``2.00 × faster``."""
    larger = max(ratio, 1 / ratio)
    change = f"{format_sig(larger, 3)} ×" if larger >= 1.5 else f"{(larger - 1) * 100:.1f} %"
    return f"{change} {'slower' if ratio > 1 else 'faster'}"


def format_sig(value: float, significant: int = 4) -> str:
    """Format ``value`` with this many significant digits and no exponent: ``0.03142``, ``19.53``, ``178957``.

    All digits before the decimal point are kept.  There are at most ten decimals, which is finer than any clock.
    """
    if value == 0:
        return "0"
    if not math.isfinite(value):
        return "∞" if value > 0 else "–"  # only from a hand-written file: measured times are finite
    exponent = int(f"{abs(value):.{significant - 1}e}".partition("e")[2])
    return f"{value:.{min(10, max(0, significant - 1 - exponent))}f}"


def format_duration(seconds: float) -> str:
    """Format a duration: ``8 s``, ``3 min 20 s``, ``2 h 5 min``."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def time_unit(seconds: float) -> tuple[str, float]:
    """Return the largest unit in which a time is 1 or more, and the factor from s to it."""
    power = next((power for power in range(3) if seconds >= 1000.0**-power), 3) if seconds else 0
    return ("s", "ms", "µs", "ns")[power], 1000.0**power


def format_time(seconds: float) -> str:
    """Format a measured time with three digits: ``1.10 ms``."""
    unit, factor = time_unit(seconds)
    return f"{format_sig(seconds * factor, 3)} {unit}"


def round_up(value: float) -> str:
    """Round a computed number up to one that a person would type: 0.56 to ``0.6``, 6.67 to ``7``, 666.7 to ``670``."""
    step = 10.0 ** (math.floor(math.log10(value)) - (value >= 10))
    return f"{math.ceil(round(value / step, 6)) * step:g}"


def format_cpulist(numbers: Iterable[int]) -> str:
    """Format integers in the CPU list format of Linux and ``taskset``: ``0-3,8``."""
    found: list[list[int]] = []
    for number in sorted(set(numbers)):
        if found and number == found[-1][1] + 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in found)


def numbered(what: str, numbers: Collection[int]) -> str:
    """Return numbers with what they are of: ``rank 2``, ``ranks 0-3,8``."""
    return f"{what}{'s' * (len(numbers) > 1)} {format_cpulist(numbers)}"


_CPULIST = re.compile(r"\d{1,9}(-\d{1,9})?(,\d{1,9}(-\d{1,9})?)*", re.ASCII)


def parse_cpulist(text: str) -> list[range]:
    """Return the ranges of a CPU list, ``0-3,8``; none if the text is not one."""
    if not _CPULIST.fullmatch(text):
        return []
    ends = [part.partition("-") for part in text.split(",")]
    return [range(int(first), int(last or first) + 1) for first, _, last in ends]


MAX_DIGITS = 18
"""Every number of 18 digits fits into 64 bits; Python rejects numbers of thousands of digits with an exception."""


def parse_whole(text: str | None) -> int | None:
    """Parse ASCII digits; ``None`` if the text is anything else or has more than ``MAX_DIGITS`` digits."""
    return int(text) if text and len(text) <= MAX_DIGITS and text.isascii() and text.isdecimal() else None
