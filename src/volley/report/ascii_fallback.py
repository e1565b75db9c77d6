"""A text file that replaces characters it cannot encode."""

from __future__ import annotations

import codecs
import io
import os
import sys
from typing import TextIO

_ASCII = {
    "µ": "u",
    "±": "+-",
    "✓": "y",
    "–": "-",
    "·": "|",
    "…": "...",
    "×": "x",
    "α": "a",
    "β": "b",
    "½": "1/2",
    "→": "->",
}
_REPLACED = str.maketrans(_ASCII)


def _ascii_like(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeEncodeError)
    text = error.object[error.start : error.end]
    return text.translate(_REPLACED).encode("ascii", "backslashreplace").decode("ascii"), error.end


codecs.register_error("volley.ascii", _ascii_like)


def never_fail(out: TextIO) -> None:
    """Configure a file to replace characters that it cannot encode."""
    if isinstance(out, io.TextIOWrapper):
        out.reconfigure(errors="volley.ascii")


def discard_output() -> None:
    """Redirect standard output to /dev/null: Python flushes it at exit, which would fail again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class AsciiFallback:
    """Writes to another file and replaces characters that the file cannot encode.

    Batch jobs often have no UTF-8 locale, and a micro sign must not cause the loss of a result.
    """

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self.encoding = out.encoding or "utf-8"

    def write(self, text: str) -> int:
        """Write the text, with replacements if necessary."""
        try:
            text.encode(self.encoding)
        except UnicodeEncodeError:
            text = text.translate(_REPLACED).encode(self.encoding, "backslashreplace").decode(self.encoding)
        return self._out.write(text)

    def flush(self) -> None:
        """Flush the other file."""
        self._out.flush()

    def isatty(self) -> bool:
        """Return whether the other file is a terminal."""
        return self._out.isatty()

    def fileno(self) -> int:
        """Return the other file's file descriptor; Rich asks it for the terminal's size."""
        return self._out.fileno()
