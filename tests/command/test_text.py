import json

from hypothesis import given
from hypothesis import strategies as st

from volley.text import (
    align_decimals,
    ascii_json,
    clean,
    count,
    escape_controls,
    join_few,
    join_words,
    of_several,
    wrapped,
)

COMMANDS = ["volley matrix -n 4 --point-time 10", "volley check --expect limits.json --learn"]


@given(st.text())
def test_escaped_text_is_one_printable_line(text: str) -> None:
    assert escape_controls(text).isprintable()


@given(st.text().filter(str.isprintable))
def test_printable_text_is_left_alone(text: str) -> None:
    assert escape_controls(text) == text


def test_escape_sequences_are_shown_and_not_obeyed() -> None:
    assert escape_controls("a\x1b[31mb\x07\u202ec\nd\te\x00") == "a\\x1b[31mb\\x07\\u202ec d e\\x00"
    assert escape_controls("\ud800") == "\\ud800"


@given(st.text())
def test_nothing_of_a_program_s_output_acts_on_the_terminal(text: str) -> None:
    assert all(c.isprintable() or c in "\n\t\xa0" for c in clean(text.encode(errors="replace")))


def test_the_words_of_a_program_are_kept() -> None:
    said = "\x1b[1m[host:1] érror\x1b[0m\x00\r\n\tat rank\xa01: \u202eredrum\u202c\ufeff \n\n"
    assert clean(said.encode()) == "[host:1] érror\n\tat rank\xa01: redrum"


def test_decimal_points_stand_in_one_line() -> None:
    given = ["0.3300", "19.53", "~1.05", "178957", "FAILED", "–", ""]
    cells = [cell.rjust(12) for cell in align_decimals(given)]
    points = {cell.index(".") for cell in cells[:3]}
    assert points == {len(cells[3].rstrip())}
    assert [cell.strip() for cell in cells[4:]] == ["FAILED", "–", ""]


def test_words() -> None:
    assert [join_words([]), join_words(["a"]), join_words(["a", "b"])] == ["", "a", "a and b"]
    assert join_words("abc", "or") == "a, b or c"
    assert [count(1, "point"), count(2, "point"), count(6, "launch")] == ["1 point", "2 points", "6 launches"]


def test_of_many_names_some_are_counted() -> None:
    assert [join_few([]), join_few(["a"]), join_few("abcd")] == ["", "a", "a, b, c and d"]
    assert join_few("abcdefghi") == "a, b, c, d and 5 more"
    assert join_few("abc", most=1) == "a and 2 more"
    assert join_few(["CE issue, peer access off", "CE enqueue", "SM"], most=2) == (
        "CE issue, peer access off; CE enqueue; and 1 more"
    )


@given(st.lists(st.sampled_from(["", "a", "longer-word", *COMMANDS]), min_size=1), st.integers(20, 120))
def test_wrapping_breaks_no_command(words: list[str], width: int) -> None:
    lines = wrapped(" and ".join(words), width, "  first ", "  other ")
    for command in COMMANDS:
        assert sum(line.count(command) for line in lines) == words.count(command)
    assert all(len(line) <= width or any(command in line for command in COMMANDS) for line in lines)


def test_json_in_ascii_is_the_same_document() -> None:
    document = {"name": "é → 𝛼 \x1b", "number": 0.1}
    text = ascii_json(json.dumps(document, ensure_ascii=False).encode())
    assert text.isascii()
    assert json.loads(text) == document


def test_a_reason_of_several_speaks_of_several() -> None:
    assert of_several("its messages cannot be packed") == "their messages cannot be packed"
    assert of_several(": it needs a GPU of its own") == ": each needs a GPU of its own"
