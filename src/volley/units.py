"""Quantities as people write and read them: message sizes, times, numbers, lists of CPUs.

Message sizes are written ``8:1Gi``, ``1k,64k,1M``, ``8:1Gi:x4``, ``1Mi:4Mi:+512Ki``.  Prefixes are binary with and
without the ``i``, in either case: message sizes are powers of two, and the benchmarks that people come from (the OSU
micro-benchmarks, nccl-tests) read ``64K`` as 65536 bytes.  Rates are another matter: GB/s is 10^9 B/s everywhere in
volley.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator

VALID_FORMS = (
    "8, 64Ki, 8:1Gi (doubling), 8:1Gi:x4 (steps of 4 times), 1Mi:4Mi:+512Ki (steps of 512 KiB), or a list 1k,64k,1M"
)

LARGEST = 1 << 62
"""Sizes travel as signed 64-bit integers; 4 EiB is the largest power of two in them."""

MOST_SIZES = 4096
"""A guard against a slip such as ``1:1Gi:+1``: no sweep that anybody waits for has more points."""

_UNITS = "KMGTPE"
_SIZE = re.compile(r"(\d+)\s*(?:([kmgtpe])i?)?b?", re.IGNORECASE | re.ASCII)


class SizeError(ValueError):
    """A size that cannot be read; the message is one sentence that names the valid forms."""


def parse_size(text: str) -> int:
    """Read one size in bytes: ``8``, ``8 B``, ``64k``, ``64 KiB``, ``1Gi``.

    Raises:
        SizeError: if it is no size, is zero, or is larger than 4 EiB.
    """
    matched = _SIZE.fullmatch(text.strip())
    if matched is None:
        raise SizeError(f"{text.strip()!r} is not a message size: write {VALID_FORMS}")
    # 19 digits hold every size up to LARGEST; longer ones need not become numbers to be refused.
    number = matched[1].lstrip("0")
    power = 1 + _UNITS.index(matched[2].upper()) if matched[2] else 0
    size = int(number or "0") << 10 * power if len(number) <= 19 else LARGEST + 1
    if size == 0:
        raise SizeError("a message of 0 bytes carries nothing that could be verified: the smallest size is 1")
    if size > LARGEST:
        raise SizeError(f"{text.strip()!r} is more than 4Ei, the largest size that fits a 64-bit integer")
    return size


def parse_sizes(text: str) -> tuple[int, ...]:
    """Read a list of sizes and ranges in bytes, in the order given; a size that comes again is taken once.

    Raises:
        SizeError: naming the part that cannot be read and the valid forms.
    """
    sizes: dict[int, None] = {}
    for part in text.split(","):
        if not part.strip():
            raise SizeError(f"{text!r} has an empty place in its list of sizes: write {VALID_FORMS}")
        for size in _expand(part):
            sizes[size] = None
            if len(sizes) > MOST_SIZES:
                raise SizeError(f"{text!r} asks for more than {MOST_SIZES} sizes: take larger steps, e.g. 8:1Gi:x4")
    return tuple(sizes)


def _expand(part: str) -> Iterator[int]:
    """Yield the sizes of one part of the list: a plain size, or a range with its step."""
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
    while size <= last:
        yield size
        size = size * factor + step


def _step(text: str) -> tuple[int, int]:
    """Read a step: ``x4`` gives (4, 0), ``+64Ki`` gives (1, 65536)."""
    step = text.strip()
    if step.startswith("+"):
        return 1, parse_size(step[1:])
    if re.fullmatch(r"[x*][0-9]{1,4}", step) and int(step[1:]) > 1:
        return int(step[1:]), 0
    raise SizeError(f"{step!r} is not a step of sizes: write x2 or more (times), or + and a size, as in 8:1Gi:x4")


def format_size(size_bytes: int) -> str:
    """Return a size for people, exactly: ``8 B``, ``64 KiB``, ``1 GiB``; what no unit divides stays in bytes."""
    for power in range(len(_UNITS), 0, -1):
        if size_bytes % (1 << 10 * power) == 0 and size_bytes:
            return f"{size_bytes >> 10 * power} {_UNITS[power - 1]}iB"
    return f"{size_bytes} B"


def approximate_size(size_bytes: float) -> str:
    """Return a size that was computed, to three digits in the largest unit that it fills: ``85.4 KiB``."""
    power = next((power for power in range(len(_UNITS), 0, -1) if size_bytes >= 1 << 10 * power), 0)
    return f"{format_sig(size_bytes / (1 << 10 * power), 3)} {_UNITS[power - 1] + 'i' if power else ''}B"


def format_sig(value: float, significant: int = 4) -> str:
    """Return ``value`` with so many significant digits and no exponent: ``0.03142``, ``19.53``, ``178957``.

    Digits before the decimal point are all kept.  Ten decimals are the most: below that lies nothing that a clock sees.
    """
    if value == 0:
        return "0"
    if not math.isfinite(value):
        return "∞" if value > 0 else "–"  # of times in a file that no machine has measured
    exponent = int(f"{abs(value):.{significant - 1}e}".partition("e")[2])
    return f"{value:.{min(10, max(0, significant - 1 - exponent))}f}"


def format_duration(seconds: float) -> str:
    """Return a length of time as one says it: ``8 s``, ``3 min 20 s``, ``2 h 5 min``."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def format_cpulist(numbers: Iterable[int]) -> str:
    """Return whole numbers as ``taskset`` and Linux write lists of CPUs: ``0-3,8``."""
    found: list[list[int]] = []
    for number in sorted(set(numbers)):
        if found and number == found[-1][1] + 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in found)


MOST_DIGITS = 18
"""As many as any number of 64 bits may have; Python refuses to read thousands of them."""


def parse_whole(text: str | None) -> int | None:
    """Return the number that the digits stand for; ``None`` for all that is no such number, or one beyond 64 bits."""
    return int(text) if text and len(text) <= MOST_DIGITS and text.isascii() and text.isdecimal() else None
