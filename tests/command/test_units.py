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


TYPED = (
    *("8", " 8 ", "8B", "8 b", "64k", "64K", "64Ki", "64 KiB", "64kb", "1M", "1g", "1Gi", "2T", "4Ei", "00016", "0k"),
    *("", "k", "-8", "8 8", "1.5k", "0x10", "8ki b", "1KK", "eight", "8;9", "٣", "1e3"),
    *("5Ei", "4611686018427387905", "9" * 5000, "9" * 18 + "Ei"),
    *("8:64", "8:100", "8:8", "3:13", "8:1k:x4", "8:1k:*4", "8:64:+16", "0", "0:8", "0:64:x4", "0:32:+16", "0:0"),
    *("1Mi:2Mi:+512Ki", "1k,64k,1M", "64, 8:16 , 8", " 8 : 32 : x2 ", "2147483656"),
    *("8,,16", "8,", "8:", ":8", "64:8", "8:64:4", "8:64:x1", "8:64:x0", "8:64:x", "8:64:x1.5", "8:64:+0"),
    *("8:64:x2:x2", "1:1Gi:+1"),
    *("0,8", "8:1Gi", "8:1Gi:x4", "4Ki:16Mi:x8", "64Ki,8", "1,3,5", "8,16,48", "3Ki,8", "1Mi:8Mi:+1Mi"),
)
SHOWN: dict[Callable[..., str], tuple[Any, ...]] = {
    format_size: (8, 1023, 1024, 65536, 1536, 1 << 30),
    approximate_size: (7.6, 1000.4, 4351.2, 330_000, 1.5 * (1 << 30)),
    format_sig: (0.0, 0.00012345, 0.33, 9.9996, 19.534, 178956.97, 1e-20, -1.5, *map(float, ("inf", "-inf", "nan"))),
    format_cpulist: ([8, 0, 1, 2, 3, 3],),
    format_duration: (7.6, 200, 7500, 59.4, 59.6, 3599.6),
    round_up: (6.66667, 0.5555, 13.4, 666.7, 40, 1, 60, 100, 0.07, 2.0000000001, 999),
}


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
    assert float(format_sig(value, significant)) == pytest.approx(
        value, rel=0.51 * 10 ** (1 - significant), abs=0.51e-10
    )


@given(st.lists(st.just(0) | SIZES, min_size=1, max_size=9, unique=True))
def test_written_sizes_are_read_again(sizes: list[int]) -> None:
    assert list(parse_sizes(format_sizes(sizes))) == sizes


@pytest.mark.parametrize("sizes", [range(8, 8 * 5001, 8), [8, 16, 5 << 60]])
def test_sizes_that_volley_does_not_take_are_written_one_by_one(sizes: Sequence[int]) -> None:
    assert format_sizes(sizes).count(",") == len(sizes) - 1  # their plan is of another program
