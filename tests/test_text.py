from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from volley.text import aligned, ascii_json, count, digits, duration, harmless, several, spans


@given(st.text())
def test_harmless_text_is_one_printable_line(text: str) -> None:
    assert harmless(text).isprintable()


@given(st.text().filter(str.isprintable))
def test_printable_text_is_left_alone(text: str) -> None:
    assert harmless(text) == text


def test_escape_sequences_are_shown_and_not_obeyed() -> None:
    assert harmless("a\x1b[31mb\x07\u202ec\nd\te\x00") == "a\\x1b[31mb\\x07\\u202ec d e\\x00"
    assert harmless("\ud800") == "\\ud800"


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0.0, "0"),
        (0.00012345, "0.0001234"),
        (0.33, "0.3300"),
        (9.9996, "10.00"),
        (19.534, "19.53"),
        (178956.97, "178957"),
        (1e-20, "0.0000000000"),
        (-1.5, "-1.500"),
    ],
)
def test_numbers_have_four_significant_digits_and_no_exponent(value: float, shown: str) -> None:
    assert digits(value) == shown


@given(st.floats(1e-6, 1e12), st.integers(1, 6))
def test_digits_keep_the_value(value: float, significant: int) -> None:
    assert float(digits(value, significant)) == pytest.approx(value, rel=0.51 * 10 ** (1 - significant))


def test_decimal_points_stand_in_one_line() -> None:
    cells = [cell.rjust(12) for cell in aligned(["0.3300", "19.53", "~1.05", "178957", "FAILED", "–", ""])]
    points = {cell.index(".") for cell in cells[:3]}
    assert points == {len(cells[3].rstrip())}
    assert [cell.strip() for cell in cells[4:]] == ["FAILED", "–", ""]


def test_words() -> None:
    assert [several([]), several(["a"]), several(["a", "b"]), several("abc", "or")] == ["", "a", "a and b", "a, b or c"]
    assert [count(1, "point"), count(2, "point"), count(6, "launch")] == ["1 point", "2 points", "6 launches"]
    assert spans([8, 0, 1, 2, 3, 3]) == "0-3,8"
    assert [duration(7.6), duration(200), duration(7500)] == ["8 s", "3 min 20 s", "2 h 5 min"]


def test_what_is_no_number_has_no_digits() -> None:
    assert [digits(value) for value in (float("inf"), float("-inf"), float("nan"))] == ["∞", "–", "–"]


def test_json_in_ascii_is_the_same_document() -> None:
    document = {"name": "é → 𝛼 \x1b", "number": 0.1}
    text = ascii_json(json.dumps(document, ensure_ascii=False).encode())
    assert text.isascii()
    assert json.loads(text) == document
