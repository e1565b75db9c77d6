"""Whole numbers in text that a launcher, a batch system or a person wrote."""

from __future__ import annotations

MOST_DIGITS = 18
"""As many as any number of 64 bits may have; Python refuses to read thousands of them."""


def whole(text: str | None) -> int | None:
    """Return the number that the digits stand for; ``None`` for all that is no such number, or one beyond 64 bits."""
    return int(text) if text and len(text) <= MOST_DIGITS and text.isascii() and text.isdecimal() else None
