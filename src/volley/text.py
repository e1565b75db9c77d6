"""Text helpers: escape control characters, replace what a file cannot encode, align numbers, group and join words."""

from __future__ import annotations

import codecs
import io
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TextIO, TypeVar

Item = TypeVar("Item")
Key = TypeVar("Key")

_ESCAPES = re.compile(r"\x1b(\][^\x07\x1b]*(\x07|\x1b\\)|\[[0-?]*[ -/]*[@-~]|[@-Z\\-_])")
"""ECMA-48: operating system commands with their string, control sequences, and the two-character escapes."""
_SPACES = "\t\xa0"
"""Spaces that Python does not call printable, and that move or hide nothing."""


def escape_controls(text: str) -> str:
    """Return ``text`` on one line and without control characters.

    Host names, reasons and library versions come from machines or from a file that somebody else wrote.  Line breaks
    and tabs become spaces.  Every other unprintable character (escape sequences, C1 controls, overrides of the writing
    direction, lone surrogates) is replaced by its escape, e.g. ``\\x1b``.
    """
    if text.isprintable():
        return text
    spaced = text.replace("\r\n", " ").replace("\n", " ").replace("\t", " ")
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in spaced)


def clean(text: bytes) -> str:
    """Decode the output of a program and remove escape sequences and every other character that is not printable.

    A terminal obeys more than C0 and C1 controls: overrides of the writing direction (U+202E) reorder what is shown.
    """
    lines = _ESCAPES.sub("", text.decode("utf-8", "replace")).splitlines()
    return "\n".join("".join(c for c in line if c.isprintable() or c in _SPACES).rstrip() for line in lines).strip()


def ascii_json(document: bytes) -> str:
    """Return the same JSON document with every character outside ASCII escaped, so that any locale can print it."""
    return "".join(c if c.isascii() else json.dumps(c)[1:-1] for c in document.decode())


def utf8(value: Any) -> Any:
    """Escape bytes that are not UTF-8, e.g. in a path: a plan is UTF-8."""
    if isinstance(value, Mapping):
        return {utf8(name): utf8(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [utf8(inner) for inner in value]
    return value.encode(errors="backslashreplace").decode() if isinstance(value, str) else value


_NUMBER = re.compile(r"~?[+-]?\d+((?:\.\d+)?)")


def align_decimals(cells: Sequence[str]) -> list[str]:
    """Pad numbers on the right so that their decimal points align when the cells are right-aligned.

    A tilde may precede a number.  Cells without a number (``FAILED``, a dash, nothing) stay as they are.
    """
    numbers = [_NUMBER.fullmatch(cell) for cell in cells]
    width = max((len(number[1]) for number in numbers if number), default=0)
    return [
        cell + " " * (width - len(number[1])) if number else cell for cell, number in zip(cells, numbers, strict=True)
    ]


def grouped(items: Iterable[Item], key: Callable[[Item], Key]) -> dict[Key, list[Item]]:
    """Return the items by their key, keys and items in order of appearance."""
    found: dict[Key, list[Item]] = {}
    for item in items:
        found.setdefault(key(item), []).append(item)
    return found


def join_words(words: Iterable[str], last: str = "and") -> str:
    """Join words for a sentence: ``a``, ``a and b``, ``a, b and c``."""
    listed = list(words)
    if len(listed) < 2:
        return "".join(listed)
    return f"{', '.join(listed[:-1])} {last} {listed[-1]}"


def join_few(names: Iterable[str], most: int = 4) -> str:
    """Join names, and count those beyond the first ``most``: ``a, b, c, d and 5 more``.

    Semicolons separate names that contain commas: ``a, left; b; and c``.
    """
    listed = list(names)
    shown = [*listed[:most], f"{len(listed) - most} more"] if len(listed) > most else listed
    if len(shown) > 1 and any("," in name for name in shown):
        return f"{'; '.join(shown[:-1])}; and {shown[-1]}"
    return join_words(shown)


def of_several(reason: str) -> str:
    """Return the reason of one of several things, ``its messages …``, as that of all: ``their messages …``."""
    return re.sub(r"^(: |)it ", r"\1each ", re.sub(r"^(: |buffers for |)its ", r"\1their ", reason))


COMMAND = re.compile(
    r"volley(?: [a-z][a-z-]*)?(?: -{1,2}[a-z][\w-]*(?:[= ][^\s;-][^\s;]*)?(?: \d+)?| \S*\.jsonl(?:\.gz)?)+"
)
"""A command of volley with options, within a text."""
_KEPT = "\ue000"
"""A character for private use, in place of the blanks of a command."""


def shortened(text: str, most: int = 60) -> str:
    """Return a text for a message about it: of a long one the beginning, by default half a line."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def wrapped(text: str, width: int, first: str = "", others: str = "") -> list[str]:
    """Wrap a text, but no command of volley in it: a part of one would be another command where somebody pastes it.

    ``first`` and ``others`` stand at the beginning of the first line and of the others.
    """
    import textwrap  # noqa: PLC0415  start-up: only for people

    kept = COMMAND.sub(lambda found: found[0].replace(" ", _KEPT), text)
    begin: dict[str, Any] = {"initial_indent": first, "subsequent_indent": others}
    lines = textwrap.wrap(kept, width, **begin, break_long_words=False, break_on_hyphens=False)
    return [line.replace(_KEPT, " ") for line in lines]


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return a question about the most similar known word, ``did you mean host?``; empty if none is similar.

    It is the shortest one that begins with the word, else the one that is most alike.
    """
    import difflib  # noqa: PLC0415  start-up: only needed after an error

    names = {name.lstrip("-"): name for name in known}  # dashes are alike in all options
    typed = word.lstrip("-")
    begin = [name for name in names if len(typed) > 1 and name.startswith(typed)]
    if begin:
        return f"did you mean {names[min(begin, key=len)]}?"
    near = difflib.get_close_matches(typed, list(names), n=1)
    return f"did you mean {names[near[0]]}?" if near else ""


def count(number: int, word: str) -> str:
    """Return the number with its word: ``1 sample``, ``6 samples``, ``2 launches``."""
    plural = "es" if word.endswith(("ch", "ss")) else "s"
    return f"{number} {word}{'' if number == 1 else plural}"


def mpi_name(library: str) -> str:
    """Return name and version from the text of MPI_Get_library_version: ``Open MPI v5.0.11, package: …``."""
    name = escape_controls(re.split(", | for ", library)[0])
    return " ".join(name.replace("Version:", "").split())[:60]


_ASCII = {"µ": "u", "×": "x", "±": "+-", "·": "-", "–": "-", "→": "->", "≤": "<=", "≥": ">=", "✓": "y", "…": "..."}
"""What stands for characters of reports."""


def _in_ascii(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeEncodeError)
    return "".join(_ASCII.get(each, "?") for each in error.object[error.start : error.end]), error.end


codecs.register_error("volley", _in_ascii)


def never_fail(out: TextIO) -> None:
    """Configure a file to replace characters that it cannot encode."""
    if isinstance(out, io.TextIOWrapper):
        out.reconfigure(errors="volley")
