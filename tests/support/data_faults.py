"""What tests of faults and others share."""

from __future__ import annotations

DATA = ("flip", "early", "late", "lose", "swap", "echo")
"""Faults that change what arrives: every point fails."""
