"""Reader functions of options: from words to values.  An error names the option and a valid form."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from volley.errors import UserError
from volley.text import join_words
from volley.units import LARGEST_COUNT, LONGEST_S, SizeError, parse_sizes, parse_whole

LONGEST_NAME = 255
"""The longest host name by RFC 1123."""


def text(_option: str, words: Sequence[str]) -> str:
    """Return the last word unchanged."""
    return words[-1]


def texts(_option: str, words: Sequence[str]) -> tuple[str, ...]:
    """Return all words of a repeatable option unchanged."""
    return tuple(words)


def number(minimum: int = 1, maximum: int = LARGEST_COUNT) -> Callable[[str, Sequence[str]], int]:
    """Return a reader of an integer between two bounds."""

    def read(option: str, words: Sequence[str]) -> int:
        return _number(option, words[-1], minimum, maximum)

    return read


def pair(minimum: int = 1, maximum: int = LARGEST_COUNT) -> Callable[[str, Sequence[str]], tuple[int, int]]:
    """Return a reader of two integers, for an option with two words."""

    def read(option: str, words: Sequence[str]) -> tuple[int, int]:
        first, second = (_number(option, word, minimum, maximum) for word in words)
        return first, second

    return read


def _number(option: str, word: str, minimum: int, maximum: int) -> int:
    if parse_whole(word.strip().removeprefix("-")) is None:
        raise UserError(f"{option}: {word!r} is not a whole number: write e.g. {option} {max(minimum, 2)}")
    value = int(word)
    if value < minimum:
        raise UserError(f"{option} {value}: the minimum is {minimum}")
    if value > maximum:
        raise UserError(f"{option} {value}: the maximum is {maximum}")
    return value


@dataclass(frozen=True)
class Choice:
    """A reader of one of several words."""

    values: tuple[str, ...]

    def __call__(self, option: str, words: Sequence[str]) -> str:
        if words[-1] not in self.values:
            raise UserError(f"{option}: there is no {words[-1]!r}; choose {join_words(self.values, 'or')}")
        return words[-1]


def choice(*choices: str) -> Choice:
    """Return a reader of one of several words."""
    return Choice(choices)


def seconds(option: str, words: Sequence[str]) -> float:
    """Read a time in seconds above 0."""
    value = _float(words[-1])
    if not 0 < value < math.inf:
        raise UserError(f"{option}: {words[-1]} is not a time: write seconds above 0, e.g. {option} 60")
    if value > LONGEST_S:
        raise UserError(f"{option}: {value:g} is more than {LONGEST_S:g} seconds: write e.g. {option} 60")
    return value


def percentage(option: str, words: Sequence[str]) -> float:
    """Read a percentage and return it as a fraction.

    The percent sign is optional for numbers from 0.1 on: 0.01 without it could be a fraction.
    """
    number_, sign, rest = words[-1].strip().lstrip("±").partition("%")
    fraction = _float(number_) / 100
    if rest or not 0 < fraction <= 1 or (not sign and fraction < 0.001):
        raise UserError(f"{option}: {words[-1]!r} is not a percentage above 0% and up to 100%: write e.g. {option} 1%")
    return fraction


def positive(option: str, words: Sequence[str]) -> float:
    """Read a number above 0."""
    value = _float(words[-1])
    if not 0 < value < math.inf:
        raise UserError(f"{option}: {words[-1]} is not a number above 0: write e.g. {option} 1e-5")
    return value


def _float(word: str) -> float:
    try:
        return float(word)
    except ValueError:
        return math.nan


def names(option: str, words: Sequence[str]) -> tuple[str, ...]:
    """Split comma-separated names.  Names become words of a command line, so none may look like an option."""
    listed = ",".join(words)
    found = tuple(name.strip() for name in listed.split(","))
    for name in found:
        odd = any(c.isspace() or not c.isprintable() for c in name)
        if not name or odd or name.startswith("-") or len(name) > LONGEST_NAME:
            raise UserError(f"{option}: {listed!r} is not a list of names; separate names by commas, e.g. a,b")
    return found


def sizes(option: str, words: Sequence[str]) -> tuple[int, ...]:
    """Read message sizes, in bytes."""
    try:
        return parse_sizes(words[-1])
    except SizeError as error:
        raise UserError(f"{option}: {error}") from None


def numbers(option: str, words: Sequence[str]) -> tuple[int, ...]:
    """Read a list of GPU numbers."""
    parts = [part.strip() for part in words[-1].split(",")]
    if any(parse_whole(part) is None for part in parts):
        raise UserError(f"{option}: {words[-1]!r} is not a list of GPU numbers: write e.g. {option} 0,1")
    return tuple(_number(option, part, 0, LARGEST_COUNT) for part in parts)


def new_file(option: str, words: Sequence[str]) -> Path:
    """Read the name of a file to write.  Standard output is reserved for the report."""
    if words[-1] in ("", "-"):
        raise UserError(f"{option} {words[-1]!r}: records need a file of their own: name it, e.g. -o link.jsonl")
    return Path(words[-1])


def absolute(option: str, word: str) -> Path:
    """Read a path, with ``~`` for a home folder, and return it from the root on.

    Raises:
        UserError: if ``~NAME`` names nobody, or if the path is relative to a folder that was deleted.
    """
    try:
        return Path(word).expanduser().absolute()
    except RuntimeError:
        raise UserError(f"{option}: {word!r} begins with the home folder of nobody; write the whole path") from None
    except FileNotFoundError:
        raise UserError(f"{option}: {word!r} is relative to the working folder, which was deleted; cd first") from None
