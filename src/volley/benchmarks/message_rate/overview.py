"""The one screen of message rates of many transports: findings, and a table with one row for each transport."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from volley.benchmarks.message_rate.results import MessageRates, PairsResult, sends_more
from volley.benchmarks.shared.points.results import one_launch
from volley.benchmarks.shared.verified import verified_points
from volley.grouping import grouped
from volley.report.cells import percent, ratio_cell, scaled, unclear
from volley.report.model import EMPTY, Cell, Column, Conclusion, Overview, Table
from volley.run.command_again import launch_again
from volley.run.report_parts import machine_notes
from volley.statistics.launches import FIRST_LOOK
from volley.text import count
from volley.units import format_sig, format_size

MAX_RESULTS = 30
"""So many results fit a screen as they are: two transports at five sizes with three numbers of pairs."""


def overview(result: MessageRates) -> Overview | None:
    """Return the overview of one series; ``None`` if its table fits a screen."""
    sent = [each for each in result.results if each.rate and each.point.rate]
    if len(sent) <= MAX_RESULTS:
        return None
    found = {(each.point.transport, each.point.size_bytes, each.pairs): each for each in sent}
    sizes = sorted({each.point.size_bytes for each in sent})
    shown = list(dict.fromkeys((sizes[0], sizes[len(sizes) // 2], sizes[-1])))
    pairs = sorted({each.pairs for each in sent})
    ends = list(dict.fromkeys((pairs[0], pairs[-1])))
    columns = [Column("transport", align="left")]
    for size in shown:
        unit = "GB/s" if size == sizes[-1] else "M/s"
        columns += [Column(count(number, "pair"), group=f"{format_size(size)}, {unit}") for number in ends]
    if len(ends) > 1:
        columns += [Column(format_size(size), group=f"a pair of {ends[-1]} keeps, %") for size in shown]
    rows: list[list[Cell]] = []
    for name in dict.fromkeys(each.point.transport for each in sent):
        row = [Cell(name)]
        row += [_rate(found.get((name, size, number)), size == sizes[-1]) for size in shown for number in ends]
        if len(ends) > 1:
            most = (found.get((name, size, ends[-1])) for size in shown)
            row += [ratio_cell(each.kept, 100) if each else EMPTY for each in most]
        rows.append(row)
    legend = [
        f"M/s: 10^6 messages per second of all pairs, {sent[0].point.window} of each in flight; GB/s: the same in bytes"
    ]
    if len(ends) > 1:
        legend.append("; ".join(["keeps: share of the rate of one pair alone", *unclear(rows)]))
    line = verified_points([bool(each.point.verified) for each in sent], max(each.point.launches for each in sent))
    return Overview(line, list(_conclusions(result, sent)), Table(columns, rows, legend=legend))


def _rate(each: PairsResult | None, as_bandwidth: bool) -> Cell:
    if each is None:
        return EMPTY
    value = scaled(each.point.bandwidth_Bps, 1e-9) if as_bandwidth else scaled(each.rate, 1e-6)
    return Cell(value, text=None if value is None else format_sig(value, 3))


def _conclusions(result: MessageRates, sent: Sequence[PairsResult]) -> Iterator[Conclusion]:
    """Say what failed, how fast MPI and the fastest transport of GPU memory are, and what is uncertain."""
    if failed := sum(each.point.status == "failed" for each in result.results):
        yield Conclusion("BROKEN", f"{count(failed, 'point')} failed")
    known = result.series.transports
    places = grouped(sent, lambda each: known[each.point.transport].memory if each.point.transport in known else "none")
    for place, name in (("host", "host"), ("device", "GPU")):
        if place in places:
            smallest = min(each.point.size_bytes for each in places[place])
            here = [each for each in places[place] if each.point.size_bytes == smallest]
            best = max(here, key=lambda each: each.rate or 0.0)
            rate = f"{format_sig((best.rate or 0.0) / 1e6, 3)} million messages/s of {format_size(smallest)}"
            others = [each for each in here if each.point.transport != best.point.transport]
            most = ", the most of all transports" * (bool(others) and all(sends_more(best, each) for each in others))
            sends = f"{best.point.transport} sends {rate} with {count(best.pairs, 'pair')}"
            yield Conclusion("OK", f"{name} memory: {sends}{most}")
    for note in list(machine_notes(result.series))[:1]:
        yield Conclusion("NOISY", note.text)
    if wide := too_wide(result):
        yield Conclusion("NOISY", *wide)


def too_wide(result: MessageRates) -> tuple[str, str] | None:
    """Return how many points vary by more than was asked, and the command that measures more launches."""
    missed = [each for each in result.results if each.point.missed and each.point.sends]
    if not missed or result.series.plan is None:
        return None
    worst = max(missed, key=lambda each: each.point.time.half_width if each.point.time else 0)
    assert worst.point.time
    sign, within = ("", " within one launch") if one_launch(each.point for each in missed) else ("±", "")
    asked = f"{sign}{result.series.plan.sampling.ci * 100:g} %{within}"
    worst_is = f"{percent(worst.point.time.half_width, 1, sign)}, {place(worst)}"
    again = launch_again("message-rate", 2 * max(FIRST_LOOK, worst.point.launches), result.series.plan)
    vary = "varies" if len(missed) == 1 else "vary"
    return f"{count(len(missed), 'point')} {vary} by more than {asked} (worst: {worst_is})", again


def place(result: PairsResult) -> str:
    """Name a result: ``host at 8 B with 4 pairs``."""
    return f"{result.point.transport} at {format_size(result.point.size_bytes)} with {count(result.pairs, 'pair')}"
