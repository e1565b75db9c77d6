"""Text files that replace characters which they cannot encode.

Batch jobs often have no UTF-8 locale, and a micro sign must not cause the loss of a result.
"""

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
