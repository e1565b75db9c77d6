"""Words for people: strings from machines made harmless, and numbers with a fixed count of digits."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence


def harmless(text: str) -> str:
    """Return ``text`` on one line and without anything that a terminal would obey.

    Host names, reasons and library versions come from machines (or from a file that somebody sent).  Line breaks
    and tabs become spaces; every other character that is not printable (escape sequences, C1 controls, overrides of
    the writing direction, lone surrogates) is shown as its escape, e.g. ``\\x1b``.
    """
    if text.isprintable():
        return text
    spaced = text.replace("\r\n", " ").replace("\n", " ").replace("\t", " ")
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in spaced)


def ascii_json(document: bytes) -> str:
    """Return JSON with escapes for all that is not ASCII: any locale can write it, and it is the same document."""
    return "".join(c if c.isascii() else json.dumps(c)[1:-1] for c in document.decode())


def digits(value: float, significant: int = 4) -> str:
    """Return ``value`` with so many significant digits and no exponent: ``0.03142``, ``19.53``, ``178957``.

    Digits before the decimal point are all kept.  Ten decimals are the most: below that lies nothing that a clock sees.
    """
    if value == 0:
        return "0"
    if not math.isfinite(value):
        return "∞" if value > 0 else "–"  # of times in a file that no machine has measured
    exponent = int(f"{abs(value):.{significant - 1}e}".partition("e")[2])
    return f"{value:.{min(10, max(0, significant - 1 - exponent))}f}"


def aligned(cells: Sequence[str]) -> list[str]:
    """Pad numbers on the right so that, set flush right, their decimal points stand in one line.

    A number may have a tilde before it.  Cells that are no numbers (``FAILED``, a dash, nothing) are left alone.
    """
    tails = [_tail(cell) for cell in cells]
    width = max((tail for tail in tails if tail is not None), default=0)
    return [cell if tail is None else cell + " " * (width - tail) for cell, tail in zip(cells, tails, strict=True)]


def _tail(cell: str) -> int | None:
    """Count the characters from the decimal point on; ``None`` for what is no number."""
    try:
        float(cell.removeprefix("~"))
    except ValueError:
        return None
    point = cell.find(".")
    return 0 if point < 0 else len(cell) - point


def several(words: Iterable[str], last: str = "and") -> str:
    """Join words as a sentence does: ``a``, ``a and b``, ``a, b and c``."""
    listed = list(words)
    if len(listed) < 2:
        return "".join(listed)
    return f"{', '.join(listed[:-1])} {last} {listed[-1]}"


def count(number: int, word: str) -> str:
    """Return the number with its word: ``1 sample``, ``6 samples``, ``2 launches``."""
    plural = "es" if word.endswith(("ch", "ss")) else "s"
    return f"{number} {word}{'' if number == 1 else plural}"


def spans(numbers: Iterable[int]) -> str:
    """Return whole numbers as spans, as ``taskset`` and Linux write CPU lists: ``0-3,8``."""
    found: list[list[int]] = []
    for number in sorted(set(numbers)):
        if found and number == found[-1][1] + 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in found)


def duration(seconds: float) -> str:
    """Return a length of time as one says it: ``8 s``, ``3 min 20 s``, ``2 h 5 min``."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def mpi_name(library: str) -> str:
    """Shorten what MPI says of itself to its name and version: ``Open MPI v5.0.11, package: …``."""
    return " ".join(harmless(library.partition(",")[0]).replace("Version:", "").split())[:60]
