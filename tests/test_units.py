from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

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


@pytest.mark.parametrize("text", ["", "k", "-8", "8 8", "1.5k", "0x10", "8ki b", "1KK", "eight", "8;9", "٣", "1e3"])
def test_what_is_no_size_is_refused_with_the_valid_forms(text: str) -> None:
    with pytest.raises(SizeError, match="8:1Gi"):
        parse_size(text)


@pytest.mark.parametrize("text", ["5Ei", "4611686018427387905", "9" * 5000, "9" * 18 + "Ei"])
def test_a_size_beyond_64_bits_is_refused(text: str) -> None:
    with pytest.raises(SizeError, match="more than 4Ei"):
        parse_size(text)


@pytest.mark.parametrize(
    ("text", "sizes"),
    [("8:64", (8, 16, 32, 64)), ("8:100", (8, 16, 32, 64, 100)), ("8:8", (8,)), ("3:13", (3, 6, 12, 13)),
     ("8:1k:x4", (8, 32, 128, 512, 1024)), ("8:1k:*4", (8, 32, 128, 512, 1024)), ("8:64:+16", (8, 24, 40, 56, 64)),
     ("0", (0,)), ("0:8", (0, 1, 2, 4, 8)), ("0:64:x4", (0, 1, 4, 16, 64)), ("0:32:+16", (0, 16, 32)), ("0:0", (0,)),
     ("1Mi:2Mi:+512Ki", (1 << 20, 3 << 19, 2 << 20)), ("1k,64k,1M", (1024, 65536, 1 << 20)),
     ("64, 8:16 , 8", (64, 8, 16)), (" 8 : 32 : x2 ", (8, 16, 32)), ("2147483656", ((1 << 31) + 8,))],
)  # fmt: skip
def test_lists_and_ranges(text: str, sizes: tuple[int, ...]) -> None:
    assert parse_sizes(text) == sizes


@pytest.mark.parametrize(
    ("text", "said"),
    [("", "empty item"), ("8,,16", "empty item"), ("8,", "empty item"), ("8:", "is not a message size"),
     (":8", "is not a message size"), ("64:8", "write 8:64"), ("8:64:4", "not a step"), ("8:64:x1", "not a step"),
     ("8:64:x0", "not a step"), ("8:64:x", "not a step"), ("8:64:x1.5", "not a step"), ("8:64:+0", "not a step"),
     ("8:64:x2:x2", "more than a first size"), ("1:1Gi:+1", "more than 4096 sizes")],
)  # fmt: skip
def test_errors_of_ranges_say_what_is_wrong(text: str, said: str) -> None:
    with pytest.raises(SizeError, match=said) as error:
        parse_sizes(text)
    assert "\n" not in str(error.value)


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


@given(st.text(max_size=30))
def test_any_text_is_either_read_or_refused_in_one_sentence(text: str) -> None:
    try:
        sizes = parse_sizes(text)
    except SizeError as refusal:
        sentence = str(refusal)
    else:
        assert sizes
        assert all(0 <= size <= LARGEST for size in sizes)
        return
    assert sentence


@pytest.mark.parametrize(
    ("size", "shown"),
    [(8, "8 B"), (1023, "1023 B"), (1024, "1 KiB"), (65536, "64 KiB"), (1536, "1536 B"), (1 << 30, "1 GiB")],
)
def test_sizes_for_people(size: int, shown: str) -> None:
    assert format_size(size) == shown


@pytest.mark.parametrize(
    ("size", "shown"),
    [(7.6, "7.60 B"), (1000.4, "1000 B"), (4351.2, "4.25 KiB"), (330_000, "322 KiB"), (1.5 * (1 << 30), "1.50 GiB")],
)
def test_computed_sizes_have_three_digits(size: float, shown: str) -> None:
    assert approximate_size(size) == shown


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0.0, "0"), (0.00012345, "0.0001234"), (0.33, "0.3300"), (9.9996, "10.00"), (19.534, "19.53"),
     (178956.97, "178957"), (1e-20, "0.0000000000"), (-1.5, "-1.500"), (float("inf"), "∞"), (float("-inf"), "–"),
     (float("nan"), "–")],
)  # fmt: skip
def test_numbers_have_four_significant_digits_and_no_exponent(value: float, shown: str) -> None:
    assert format_sig(value) == shown


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


@pytest.mark.parametrize(
    ("value", "typed"),
    [(6.66667, "7"), (0.5555, "0.6"), (13.4, "14"), (666.7, "670"), (40, "40"), (1, "1"), (60, "60"), (100, "100"),
     (0.07, "0.07"), (2.0000000001, "2"), (999, "1000")],
)  # fmt: skip
def test_a_number_to_type_is_short_and_not_smaller(value: float, typed: str) -> None:
    assert round_up(value) == typed


@pytest.mark.parametrize("sizes", [range(8, 8 * 5001, 8), [8, 16, 5 << 60]])
def test_sizes_that_volley_does_not_take_are_written_one_by_one(sizes: Sequence[int]) -> None:
    assert format_sizes(sizes).count(",") == len(sizes) - 1  # their plan is of another program
