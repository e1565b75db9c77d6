"""Of fewer than six launches every place that people or programs see has the range, and calls it that."""

import re
from collections.abc import Callable, Iterator

import pytest

import jacobi_records
import message_rate_records
import overlap_records
from comparison_records import in_turn
from example_records import collective, log, pingpong, stream, transport
from screens import shown
from volley.benchmarks import BENCHMARKS
from volley.compare import page
from volley.compare.comparison import Side, compare
from volley.records.plan import OUT_OF_TIME
from volley.records.run_log import RunLog
from volley.report.model import Details, Report
from volley.run.render import reports_of, results_of

TIMES = {3: (1.0, 1.5, 2.0), 5: (1.0, 1.2, 1.5, 1.7, 2.0), 6: (1.0, 1.2, 1.4, 1.5, 1.7, 2.0)}
"""How long everything takes in each launch, by their number."""
SHARES = (0.2, 0.5, 0.6, 0.4, 0.3, 0.5)
"""What each launch hides of an exchange."""
WIDEST = 4.0
"""The largest quotient of two bounds that launches saw: that of what takes twice as long twice.  The interval of
verdicts over three launches has 32 even for ``TIMES``."""
SIZES = tuple(8 << each for each in range(8))


def of_points(make: Callable[..., RunLog]) -> Callable[[int], list[RunLog]]:
    return lambda count: [make(factor) for factor in TIMES[count]]


def transports(factor: float, point: Callable[..., object]) -> RunLog:
    """Two transports, of which the second takes from as long as the first to twice as long."""
    names = {"staged/pageable": 1.0, "staged/pinned": factor}
    points = [point([each * factor * 1e-6] * 7, name, size) for name, each in names.items() for size in SIZES]
    return log(*points, transports=[transport(name) for name in names])


def message_rates(count: int) -> list[RunLog]:
    logs = message_rate_records.launches({1: 1e-5})[:1] * count
    windows = [(1, factor * 1e-5, 1) for factor in TIMES[count]], [(2, factor**2 * 1e-5, 1) for factor in TIMES[count]]
    return [
        RunLog(
            run=each.run,
            transports=each.transports,
            records=[message_rate_records.point(p, [t] * 7) for p, t, _ in both],
            end=each.end,
        )
        for each, both in zip(logs, zip(*windows, strict=True), strict=True)
    ]


def overlaps(count: int) -> list[RunLog]:
    return [
        log(
            *(
                overlap_records.point(4 * t, 4 * t, (8 - 4 * share) * t, computation=limit, size_bytes=size)
                for limit in ("memory", "arithmetic")
                for size in SIZES
            ),
            the_plan=overlap_records.RUN.plan if overlap_records.RUN else None,
        )
        for t, share in zip(TIMES[count], SHARES, strict=False)
    ]


def solutions(count: int) -> list[RunLog]:
    points = (jacobi_records.point(batch_s=[0.5, *[0.25 * factor] * 10]) for factor in TIMES[count])
    return [jacobi_records.log(each) for each in points]


RUNS = {
    "pingpong": of_points(lambda factor: transports(factor, lambda times, name, size: pingpong(times, size, name))),
    "stream": of_points(
        lambda factor: transports(factor, lambda times, name, size: stream(times, size=size, transport=name))
    ),
    "collective": of_points(
        lambda factor: transports(
            factor, lambda times, name, size: collective("allreduce", times, size, transport=name, data_bytes=size)
        )
    ),
    "message_rate": message_rates,
    "overlap": overlaps,
    "jacobi": solutions,
}


def bounds_of_marks(reports: list[Report]) -> Iterator[tuple[float, float]]:
    for mark in (mark for report in reports for chart in report.charts for mark in chart.marks):
        if mark.low is not None and mark.high is not None:
            yield mark.low, mark.high


def bounds_in_data(reports: list[Report]) -> Iterator[tuple[float, float]]:
    for row in (row for report in reports for row in report.data.rows):
        for name, low in row.items():
            if "_low" in name and low is not None:
                yield low, row[name.replace("_low", "_high")]


@pytest.mark.parametrize("name", RUNS)
def test_charts_and_data_have_the_range_of_few_launches(name: str) -> None:
    for count in (3, 5):
        reports = reports_of(results_of(RUNS[name](count), BENCHMARKS))
        marks, data = list(bounds_of_marks(reports)), list(bounds_in_data(reports))
        assert data
        assert marks or name == "jacobi"
        for low, high in (*marks, *data):
            assert 0 < low <= high <= WIDEST * low * 1.000001
        kinds = {row["interval"] for report in reports for row in report.data.rows}
        kinds |= {row.get("speedup_interval") for report in reports for row in report.data.rows} - {None}
        assert kinds == {"range"}
        charts = [chart for report in reports for chart in report.charts]
        captions = [chart.caption for chart in charts if any(mark.low is not None for mark in chart.marks)]
        assert all("range" in each and "over launches" not in each for each in captions)


@pytest.mark.parametrize("name", RUNS)
def test_tables_and_sentences_call_it_a_range(name: str) -> None:
    for details in (Details(), Details(full=True)):
        few, six = (shown(RUNS[name](count), "table", details=details)[0] for count in (3, 6))
        assert "95 % confidence interval (CI)" not in few
        assert "95 % CI over" not in few
        assert "range" in few or not details.full
        assert "smallest to largest" not in six


def test_a_comparison_of_few_pairs_shows_their_range() -> None:
    for count in (3, 5, 6):
        logs = [[transports(f, lambda times, name, size: pingpong(times, size, name)) for f in factors]
                for factors in ([1.0] * count, TIMES[count])]  # fmt: skip
        sides = [Side.of(str(number), in_turn(those), "") for number, those in enumerate(logs)]
        report = page.report(compare(*sides, 0.05), full=True)
        kinds = {row["interval"] for row in report.data.rows}
        quotients = [high / low for low, high in (*bounds_of_marks([report]), *bounds_in_data([report]))]
        if count < 6:
            assert kinds == {"range"}
            assert max(quotients) == pytest.approx(WIDEST)
            assert all("range" in chart.caption for chart in report.charts)
        else:
            assert kinds == {"ci"}
            assert max(quotients) > WIDEST


@pytest.mark.parametrize("samples", [4, 7])
def test_the_bounds_of_a_point_of_one_launch_of_several_are_not_called_those_of_launches(samples: int) -> None:
    once = pingpong([1e-6] * (samples - 1) + [9e-6], 64)
    logs = [log(pingpong([t * 1e-6] * 7, 8), *[once][number:]) for number, t in enumerate(TIMES[6])]
    text = shown(logs, "table", details=Details(full=True))[0]
    row = next(line for line in text.splitlines() if line.startswith("64 B"))
    assert row.split()[3] == "–", row
    assert "–: measured in fewer than six launches" in text


def of_sizes(times: dict[int, tuple[float, ...]]) -> str:
    """Return the full screen of launches that measured each size so often, in these microseconds."""
    number = max(map(len, times.values()))
    points = [
        [pingpong([those[launch] * 1e-6] * 7, size) for size, those in times.items() if launch < len(those)]
        for launch in range(number)
    ]
    return shown([log(*here) for here in points], "table", details=Details(full=True))[0]


def test_the_widest_range_is_that_of_the_shown_ones() -> None:
    text = of_sizes({512: (1.0, 2.0, 4.0), 4096: (1.0, 5.0, 6.0, 8.0)})
    assert "after up to 4 launches: host at 4 KiB has the widest range, 1.00–8.00 µs" in text


def test_points_of_few_launches_are_not_said_to_vary_by_more_than_they_do() -> None:
    text = of_sizes({8: (1.0, 1.2, 1.4, 1.5, 1.7, 2.0), 64: (1.0, 1.005, 1.009)})
    assert "NOISY: 1 point of host varies by more than ±1 %, up to" in text
    assert "NOISY: 1 point of host is less certain than ±1 % after 3 launches: host at 64 B" in text


def test_points_of_few_launches_have_a_command_where_that_of_the_skipped_ones_does_not_measure_them() -> None:
    late = pingpong(size=512, status="skipped", reason=OUT_OF_TIME)
    logs = [log(pingpong([t * 1e-6] * 7, 8), late) for t in TIMES[6]]
    for each, t in zip(logs, TIMES[3], strict=False):
        each.records.append(pingpong([t * 1e-6] * 7, 64))
    text = shown(logs, "table", details=Details(full=True))[0]
    assert "host skipped 512 B: the time budget was too short: volley pingpong -t host -s 512 --launches 6" in text
    assert re.search(r"host at 64 B has the widest range, .*: volley pingpong -t host -s 64 --launches 6", text)


@pytest.mark.parametrize(("launches", "others"), [(4, "4 launches; a 95 % CI over launches needs 6"), (1, "")])
def test_the_legend_names_each_kind_of_range_in_the_table(launches: int, others: str) -> None:
    logs = [log(pingpong([t * 1e-6] * 7, 8)) for t in TIMES[5][:launches]]
    logs[0].records.append(pingpong([1e-6, 2e-6, 3e-6], 64))
    logs[0].records.append(pingpong([1e-6] * 7, 512))
    text = shown(logs, "table", details=Details(full=True))[0]
    kinds = ["95 % confidence interval (CI) of the median within one launch"]
    kinds += ["smallest to largest of the samples of one launch", *[f"smallest to largest of {others}"] * bool(others)]
    assert f"range: {', or '.join(kinds)}; GB/s" in text


def test_the_rates_of_a_transport_that_sends_nothing_are_explained() -> None:
    point = message_rate_records.point(1, [1e-6] * 6, transport="null")
    logs = [log(point, the_plan=message_rate_records.PLAN, transports=[transport("null", memory="none")])]
    assert "GB/s: 10^9 B/s; –: no bytes are sent; range" in shown(logs, "table")[0]


def test_a_dash_in_the_place_of_bounds_is_explained() -> None:
    point = overlap_records.point(4.0, 4.0, 6.0, size_bytes=64, exchange_s=[4.0] * 2)
    text = shown([log(point, the_plan=overlap_records.RUN.plan)], "table", details=Details(full=True))[0]
    assert "from, to –: one launch with fewer than six samples" in text
