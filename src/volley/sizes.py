"""Message sizes as people write them: ``8:1Gi``, ``1k,64k,1M``, ``8:1Gi:x4``, ``1Mi:4Mi:+512Ki``.

Prefixes are binary with and without the ``i``, in either case: message sizes are powers of two, and the benchmarks
that people come from (the OSU micro-benchmarks, nccl-tests) read ``64K`` as 65536 bytes.  Rates are another matter:
GB/s is 10^9 B/s everywhere in volley.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from volley.text import digits

DEFAULT_SIZES = "8:1Gi"
DEFAULT_STREAM_SIZES = "8:64Mi"  # 64 in flight make 4 GiB a window: larger messages take long and show no more
"""The 28 sizes of the ping-pong tutorial."""

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
    return f"{digits(size_bytes / (1 << 10 * power), 3)} {_UNITS[power - 1] + 'i' if power else ''}B"
