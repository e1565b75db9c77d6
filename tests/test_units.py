from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from screens import SCREENS, check_screen
from volley.units import (
    LARGEST,
    SizeError,
    approximate_size,
    format_cpulist,
    format_duration,
    format_sig,
    format_size,
    format_sizes,
    parse_size,
    parse_sizes,
    round_up,
)

SIZES = st.integers(1, LARGEST)


@pytest.mark.parametrize(
    ("text", "size"),
    [("8", 8), (" 8 ", 8), ("8B", 8), ("8 b", 8), ("64k", 65536), ("64K", 65536), ("64Ki", 65536),
     ("64 KiB", 65536), ("64kb", 65536), ("1M", 1 << 20), ("1g", 1 << 30), ("1Gi", 1 << 30), ("2T", 1 << 41),
     ("4Ei", LARGEST), ("00016", 16), ("0", 0), ("0k", 0), ("000", 0)],
)  # fmt: skip
def test_a_size_is_read_with_binary_prefixes(text: str, size: int) -> None:
    assert parse_size(text) == size


def test_sizes_and_numbers_are_read_and_written_as_it_was_looked_at() -> None:
    """What is typed: its sizes, and how they are typed; else why it is none."""
    lines = []
    for text in TYPED:
        try:
            sizes = parse_sizes(text)
        except SizeError as error:
            lines.append(f"{text[:40]!r}: {str(error).replace(text, text[:40])}")
        else:
            lines.append(f"{text!r}: {', '.join(map(str, sizes))}: {format_sizes(sizes)}")
    for function, values in SHOWN.items():
        lines += [f"{function.__name__} {value}: {function(value)}" for value in values]
    check_screen(SCREENS / "units.txt", "\n".join([*lines, ""]))
    assert max(map(len, lines)) < 400


@given(st.text(max_size=30))
def test_any_text_is_either_read_or_refused_in_one_sentence(text: str) -> None:
    try:
        sizes = parse_sizes(text)
    except SizeError:
        return
    assert sizes
    assert all(0 <= size <= LARGEST for size in sizes)


@given(SIZES)
def test_a_size_for_people_reads_back_as_itself(size: int) -> None:
    assert parse_size(format_size(size)) == size


@given(SIZES, st.integers(1, 1 << 12))
def test_a_doubling_range_doubles_from_its_first_size_to_its_last(first: int, ratio: int) -> None:
    last = min(first * ratio, LARGEST)
    sizes = parse_sizes(f"{first}:{last}")
    assert sizes[0] == first
    assert sizes[:-1] == tuple(first << step for step in range(len(sizes) - 1))
    assert sizes[-1] == last <= 2 * sizes[-2:][0]


@given(st.lists(SIZES, min_size=1, max_size=20))
def test_a_list_keeps_its_order_and_takes_each_size_once(sizes: list[int]) -> None:
    assert parse_sizes(",".join(format_size(size) for size in sizes)) == tuple(dict.fromkeys(sizes))


@given(st.floats(1e-6, 1e12), st.integers(1, 6))
def test_digits_keep_the_value(value: float, significant: int) -> None:
    assert float(format_sig(value, significant)) == pytest.approx(value, rel=0.51 * 10 ** (1 - significant))


def test_lists_of_cpus_and_lengths_of_time() -> None:
    assert format_cpulist([8, 0, 1, 2, 3, 3]) == "0-3,8"
    assert [format_duration(each) for each in (7.6, 200, 7500)] == ["8 s", "3 min 20 s", "2 h 5 min"]
    assert [format_duration(each) for each in (59.4, 59.6, 3599.6)] == ["59 s", "1 min 0 s", "1 h 0 min"]


@pytest.mark.parametrize(
    "text",
    [
        "8",
        "0",
        "0:8",
        "0,8",
        "8:1Gi",
        "8:1Gi:x4",
        "4Ki:16Mi:x8",
        "64Ki,8",
        "8,64Ki",
        "1,3,5",
        "8,16,48",
        "1Mi:8Mi:+1Mi",
    ],
)
def test_sizes_are_written_as_they_are_typed(text: str) -> None:
    assert format_sizes(parse_sizes(text)) == text


@given(st.lists(st.just(0) | SIZES, min_size=1, max_size=9, unique=True))
def test_written_sizes_are_read_again(sizes: list[int]) -> None:
    assert list(parse_sizes(format_sizes(sizes))) == sizes


@pytest.mark.parametrize("sizes", [range(8, 8 * 5001, 8), [8, 16, 5 << 60]])
def test_sizes_that_volley_does_not_take_are_written_one_by_one(sizes: Sequence[int]) -> None:
    assert format_sizes(sizes).count(",") == len(sizes) - 1  # their plan is of another program
