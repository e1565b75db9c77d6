"""Reader functions of options: from words to values.  An error names the option and a valid form."""

from __future__ import annotations

import itertools
import math
import os
import re
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from volley.errors import UserError
from volley.text import did_you_mean, join_words, shortened
from volley.units import LARGEST_COUNT, LONGEST_S, SHORTEST_S, SizeError, parse_sizes, parse_whole

LONGEST_NAME = 255
"""The longest host name by RFC 1123."""


T = TypeVar("T")
Word = TypeVar("Word", bound=str)


@dataclass(frozen=True)
class Reader(Generic[T]):
    """A reader function with what the help and the completion say of its words."""

    metavar: str
    read: Callable[[str, Sequence[str]], T]
    values: tuple[str, ...] = ()
    """The words that there are; empty if there are too many."""
    several: bool = False
    """One word holds several values, separated by commas."""

    def __call__(self, option: str, words: Sequence[str]) -> T:
        return self.read(option, words)


def reads(
    metavar: str, *values: str, several: bool = False
) -> Callable[[Callable[[str, Sequence[str]], T]], Reader[T]]:
    """Make a function a reader whose words the help calls ``metavar``; the others are fields of :class:`Reader`."""
    return lambda read: Reader(metavar, read, values, several)


text = Reader("", lambda _, words: words[-1])
texts = Reader("WORD", lambda _, words: tuple(words))
file = Reader("FILE", lambda _, words: Path(words[-1]))
files = Reader("FILE,…", lambda _, words: tuple(",".join(words).split(",")), several=True)


def number(minimum: int = 1, maximum: int = LARGEST_COUNT) -> Reader[int]:
    return Reader("N", lambda option, words: _number(option, words[-1], minimum, maximum))


def pair(option: str, words: Sequence[str], minimum: int = 1) -> tuple[int, int]:
    first, second = (_number(option, word, minimum, LARGEST_COUNT) for word in words)
    return first, second


MOST_IMBALANCED = 1000
"""The engine's limit (benchmark/collective.cpp)."""


@reads("N,M")
def two_numbers(option: str, words: Sequence[str]) -> tuple[int, int]:
    first, comma, second = words[-1].partition(",")
    if not comma:
        raise UserError(f"{option}: {words[-1]!r} is not two numbers: write e.g. {option} 1,4")
    return _number(option, first, 1, MOST_IMBALANCED), _number(option, second, 1, MOST_IMBALANCED)


def _number(option: str, word: str, minimum: int, maximum: int) -> int:
    if parse_whole(word.strip().removeprefix("-")) is None:
        raise UserError(f"{option}: {word!r} is not a whole number: write e.g. {option} {max(minimum, 2)}")
    value = int(word)
    if value < minimum:
        raise UserError(f"{option} {value}: the minimum is {minimum}")
    if value > maximum:
        raise UserError(f"{option} {value}: the maximum is {maximum}")
    return value


def choice(*choices: str) -> Reader[str]:
    def read(option: str, words: Sequence[str]) -> str:
        if words[-1] not in choices:
            raise UserError(f"{option}: there is no {words[-1]!r}; choose {join_words(choices, 'or')}")
        return words[-1]

    return Reader("|".join(choices), read, choices)


def matching(metavar: str, pattern: str, complaint: str) -> Reader[str]:
    """Return a reader of a word that the pattern matches as a whole.

    Of another word a message says that it is ``complaint``, e.g. ``no version``.
    """

    def read(option: str, words: Sequence[str]) -> str:
        if not re.fullmatch(pattern, words[-1], re.ASCII):
            raise UserError(f"{option}: {words[-1]!r} is {complaint}")
        return words[-1]

    return Reader(metavar, read)


RUN_NAME = r"(?!last(-|$))[A-Za-z0-9][A-Za-z0-9._-]{0,99}"
run_name = matching("NAME", RUN_NAME, "not a name: write letters, digits, dots, dashes and underscores, and not last")
"""Of a saved run or a reference; ``last`` and ``last-1`` count runs."""


def several(what: str, choices: Sequence[Word]) -> Reader[tuple[Word, ...]]:
    """Return a reader of some of several words, separated by commas: each once, in the order of ``choices``.

    A message about another word calls it ``what``, and suggests the most similar one.
    """

    def read(option: str, words: Sequence[str]) -> tuple[Word, ...]:
        named = names(option, words)
        for name in named:
            if name not in choices:
                guess = " ".join(filter(None, (did_you_mean(name.lower(), choices), "choose")))
                raise UserError(f"{option}: there is no {what} {name!r}; {guess} {join_words(choices, 'or')}")
        return tuple(each for each in choices if each in named)

    return Reader("NAME,…", read, tuple(choices), several=True)


@reads("SECONDS")
def seconds(option: str, words: Sequence[str]) -> float:
    value = _float(words[-1])
    if not SHORTEST_S <= value < math.inf:
        raise UserError(f"{option}: {words[-1]} is not a time: write seconds above 0, e.g. {option} 60")
    if value > LONGEST_S:
        raise UserError(f"{option}: {value:g} is more than {LONGEST_S:g} seconds: write e.g. {option} 60")
    return value


def fraction(option: str, word: str, *, before: str = "", most: float = 1.0) -> float:
    """Read a percentage and return it as a fraction of at most ``most``; ``before`` stands before it in the word.

    The percent sign is optional for numbers from 0.1 on: 0.01 without it could be a fraction.
    """
    number_, sign, rest = word.strip().lstrip("±").partition("%")
    found = _float(number_) / 100
    start = f"{option} {before}"
    if not sign and 0 < found < 0.001:
        large, small = f"{found * 10_000:g}%", f"{found * 100:g}%"
        raise UserError(f"{start}{word} may mean {large} or {small}: write {start}{large} or {start}{small}")
    if rest or not 0 < found <= most:
        limits = f"above 0% and up to {most:.0%}"
        raise UserError(f"{option}: {word!r} is not a percentage {limits}: write e.g. {start}1%")
    return found


_AGE_S = {"h": 3600.0, "d": 86400.0, "w": 604800.0}


@reads("AGE")
def age(option: str, words: Sequence[str]) -> float:
    """Read an age, ``30d``, and return its seconds."""
    number_, unit = parse_whole(words[-1][:-1]), words[-1][-1:]
    if number_ is None or unit not in _AGE_S:
        raise UserError(f"{option}: {words[-1]!r} is not an age: write hours, days or weeks, e.g. {option} 30d")
    return min(number_, LARGEST_COUNT) * _AGE_S[unit]


LARGEST_SLOWDOWN = 1000.0
"""Nobody waits for a point that takes this many times as long."""
percentage = Reader("PERCENT", lambda option, words: fraction(option, words[-1]))
slowdown = Reader("PERCENT", lambda option, words: fraction(option, words[-1], most=LARGEST_SLOWDOWN))
"""By how much longer something takes: 200 % is three times as long."""


@reads("NUMBER")
def positive(option: str, words: Sequence[str]) -> float:
    value = _float(words[-1])
    if not 0 < value < math.inf:
        raise UserError(f"{option}: {words[-1]} is not a number above 0: write e.g. {option} 1e-5")
    return value


def _float(word: str) -> float:
    try:
        return float(word)
    except ValueError:
        return math.nan


@reads("NAME,…", several=True)
def names(option: str, words: Sequence[str]) -> tuple[str, ...]:
    """Split comma-separated names.  Names become words of a command line, so none may look like an option."""
    listed = ",".join(words)
    found = tuple(name.strip() for name in listed.split(","))
    for name in found:
        odd = any(c.isspace() or not c.isprintable() for c in name)
        if not name or odd or name.startswith("-") or len(name) > LONGEST_NAME:
            raise UserError(f"{option}: {listed!r} is not a list of names; separate names by commas, e.g. a,b")
    return found


@reads("HOST,…", several=True)
def hosts(option: str, words: Sequence[str]) -> tuple[str, ...]:
    """Read a list of hosts in Slurm's format, ``a,b`` or ``n[1-3,07],login``; with slots, ``a:2,b:2``, as mpirun's.

    A host with slots is named as often as it has some.
    """
    listed = ",".join(part.strip() for word in words for part in word.split(","))
    could_be_file = len(os.fsencode(listed)) <= LONGEST_NAME  # the system refuses to look for a longer name
    if "/" in listed or listed.endswith(".txt") or (could_be_file and Path(listed).is_file()):
        raise UserError(
            f"{option}: {listed!r} is a file, and {option} takes host names; to pass the first word of each line: "
            f"{option} \"$(awk '{{print $1}}' {shlex.quote(listed)} | paste -sd, -)\""
        )
    try:
        found = names(option, expand(listed))
        return tuple(each for name in found for each in _slots(option, name))
    except HostListError as error:
        raise UserError(f"{option}: {error}; write e.g. {option} a,b or {option} 'n[1-3,07]'") from None


def _slots(option: str, name: str) -> tuple[str, ...]:
    host, colon, slots = name.partition(":")
    if not colon or ":" in slots:  # an address of IPv6
        return (name,)
    number = parse_whole(slots) or 0
    if not host or not 0 < number <= MAX_HOSTS:
        raise UserError(f"{option} {name}: {slots!r} is no number of slots; write e.g. {option} a:2,b:2")
    return (host,) * number


@reads("SIZES", several=True)
def sizes_from_0(option: str, words: Sequence[str]) -> tuple[int, ...]:
    try:
        return parse_sizes(words[-1])
    except SizeError as error:
        raise UserError(f"{option}: {error}") from None


@reads("SIZES", several=True)
def sizes(option: str, words: Sequence[str]) -> tuple[int, ...]:
    found = sizes_from_0(option, words)
    if 0 in found:
        raise UserError(f"{option}: only volley pingpong measures messages of 0 bytes: the smallest size is 1")
    return found


@reads("N,…", several=True)
def numbers(option: str, words: Sequence[str]) -> tuple[int, ...]:
    parts = [part.strip() for part in words[-1].split(",")]
    if any(parse_whole(part) is None for part in parts):
        raise UserError(f"{option}: {words[-1]!r} is not a list of GPU numbers: write e.g. {option} 0,1")
    return tuple(_number(option, part, 0, LARGEST_COUNT) for part in parts)


@reads("FILE")
def new_file(option: str, words: Sequence[str]) -> Path:
    """Read the name of a file to write, which is not standard output."""
    if words[-1] in ("", "-"):
        raise UserError(f"{option} {words[-1]!r}: name a file; it is not standard output")
    return Path(words[-1])


def absolute(option: str, word: str) -> Path:
    """Read a path, with ``~`` for a home folder, and return it from the root on."""
    try:
        return Path(word).expanduser().absolute()
    except RuntimeError:
        raise UserError(f"{option}: {word!r}: there is no user of this name: write the whole path") from None
    except FileNotFoundError:
        raise UserError(f"{option}: {word!r} is relative to the working folder, which was deleted; cd first") from None


@reads("DIR")
def folder(option: str, words: Sequence[str]) -> Path:
    if not words[-1]:
        raise UserError(f"{option} '' is not a folder: write one, or leave {option} out")
    return absolute(option, words[-1])


# -------------------------------------------------------------------------------------------------- lists of hosts

MAX_HOSTS = 65536
"""The limit protects against a short list from the environment that expands to very many hosts."""

_ITEM = re.compile(r"(?:[^,\[\]]|\[[^\[\]]*\])+")
_PART = re.compile(r"\[([^\[\]]*)\]|([^\[\]]+)")
_RANGE = re.compile(r"(\d{1,18})(?:-(\d{1,18}))?", re.ASCII)


class HostListError(ValueError):
    """The text is not a host list."""


def expand(text: str) -> tuple[str, ...]:
    """Return the hosts of a list in Slurm's format, ``n[1-3,07-09],login1``, in order.

    Numbers keep the width of the first number of their range: ``n[08-10]`` is n08, n09, n10.  With several brackets in
    one name, the last one varies fastest.
    """
    items = _ITEM.findall(text)
    if ",".join(items) != text or not items:
        raise HostListError(f"{shortened(text)!r} is not a host list")
    # Each item consists of plain text and brackets.
    parts = ([_padded(inside) if not fixed else [fixed] for inside, fixed in _PART.findall(item)] for item in items)
    hosts = ("".join(words) for item in parts for words in itertools.product(*item))
    found = tuple(itertools.islice(hosts, MAX_HOSTS + 1))
    if len(found) > MAX_HOSTS:
        raise HostListError(f"more than {MAX_HOSTS} hosts")
    return found


def _padded(inside: str) -> list[str]:
    """Return the numbers of one bracket as text, padded to their width."""
    numbers: list[str] = []
    for part in inside.split(","):
        match = _RANGE.fullmatch(part)
        if match is None:
            raise HostListError(f"[{shortened(inside)}] is not a list of numbers")
        first, last = match[1], match[2] or match[1]
        if int(last) - int(first) >= MAX_HOSTS:
            raise HostListError(f"more than {MAX_HOSTS} hosts")
        numbers += [f"{number:0{len(first)}d}" for number in range(int(first), int(last) + 1)]
    return numbers
