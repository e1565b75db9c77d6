"""How the values of options are read, and what is said of those that make no sense.

Every function raises :class:`~volley.errors.UserError` that names the option and the nearest valid form.
"""

from __future__ import annotations

import math
from pathlib import Path

from volley.errors import UserError
from volley.run.launchers.numbers import whole
from volley.sizes import SizeError, parse_sizes
from volley.text import several

LONGEST_NAME = 255
"""Of a host: RFC 1123 has no longer one."""

LONGEST_S = 1e9
"""Thirty years: what is longer was meant to be something else, and clocks count nanoseconds in 64 bits."""


def check_choice(option: str, value: str, choices: tuple[str, ...]) -> None:
    """Refuse a word that is not one of the choices."""
    if value not in choices:
        raise UserError(f"{option}: there is no {value!r}; choose {several(choices, 'or')}")


def check_seconds(option: str, value: float | None) -> float | None:
    """Return a time if it is one, or None where none is given."""
    if value is not None and not 0 < value < math.inf:
        raise UserError(f"{option}: {value:g} is not a time: write seconds above 0, e.g. {option} 60")
    if value is not None and value > LONGEST_S:
        raise UserError(f"{option}: {value:g} is more than {LONGEST_S:g} seconds: write e.g. {option} 60")
    return value


def split_names(option: str, text: str) -> tuple[str, ...]:
    """Split a list of names at its commas.  Names become words of a command line: none may look like an option."""
    names = tuple(name.strip() for name in text.split(","))
    for name in names:
        odd = any(c.isspace() or not c.isprintable() for c in name)
        if not name or odd or name.startswith("-") or len(name) > LONGEST_NAME:
            raise UserError(f"{option}: {text!r} is not a list of names; write them with commas between, e.g. a,b")
    return names


def read_sizes(option: str, text: str) -> tuple[int, ...]:
    """Read message sizes."""
    try:
        return parse_sizes(text)
    except SizeError as error:
        raise UserError(f"{option}: {error}") from None


def read_percentage(option: str, text: str) -> float:
    """Return the fraction that a percentage is.  The sign is asked for: a plain 0.01 could be either."""
    number, sign, rest = text.strip().lstrip("±").partition("%")
    try:
        fraction = float(number) / 100
    except ValueError:
        fraction = math.nan
    if not sign or rest or not 0 < fraction <= 1:
        raise UserError(f"{option}: {text!r} is not a percentage from above 0% to 100%: write e.g. 1% or 0.5%")
    return fraction


def output_path(text: str | Path | None) -> Path | None:
    """Read the file of ``--output``.  Standard output has the report; a name that is empty was meant to be one."""
    if text is None:
        return None
    if str(text) in ("", "-"):
        raise UserError(f"-o {str(text)!r}: records go to a file beside the report: name it, e.g. -o link.jsonl")
    return Path(text)


def gpu_numbers(text: str | None) -> tuple[int, ...]:
    """Read the list of GPU numbers of ``--gpus``; none where it is not given."""
    if text is None:
        return ()
    numbers = [whole(part.strip()) for part in text.split(",")]
    if None in numbers:
        raise UserError(f"--gpus: {text!r} is not a list of GPU numbers: write e.g. 0,1")
    return tuple(number for number in numbers if number is not None)
