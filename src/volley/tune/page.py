"""The report of ``volley tune``: what was proven first, then what was not, then what failed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from pathlib import Path

import numpy as np

from volley.report.model import Cell, Column, Data, Note, Report, Row, Table
from volley.statistics.two_runs import Booleans
from volley.text import count, join_few
from volley.tune.candidates import Candidate
from volley.tune.search import Proof
from volley.units import format_sig, format_size, parse_size

COLUMNS = (
    "setting", "verdict", "written", "series", "at", "ratio", "ratio_low", "ratio_high", "default_s", "setting_s",
    "pairs",
)  # fmt: skip
"""The columns of CSV.  ``ratio`` is the time with the setting / that of the default, with its 95 % interval."""

TIME_OVER = "the time was over (write a larger --budget)"


@dataclass(frozen=True)
class Tuning:
    benchmark: str
    mpi: str
    ranks: int
    launches: int
    settings: Sequence[Candidate]
    proofs: Mapping[Candidate, Proof]
    failed: Mapping[Candidate, str]
    folder: Path
    cut_short: str = ""
    """Why the search ended before some settings were launched often enough to be chosen or left out."""

    @cached_property
    def chosen(self) -> Candidate | None:
        """The setting that is written: of those that are faster somewhere and slower nowhere the one with most gain."""
        usable = [each for each, found in self.proofs.items() if found.usable]
        return max(usable, key=lambda each: self.proofs[each].gain, default=None)


def report(tuning: Tuning, *, full: bool) -> Report:
    others = [each for each in tuning.proofs if each != tuning.chosen]
    tables = [_proven(tuning, tuning.chosen)] if tuning.chosen else []
    tables += [_others(tuning, others)] if others else []
    about = f"{tuning.benchmark} · {tuning.mpi} · {count(tuning.ranks, 'rank')}"
    tried = f"{count(len(tuning.settings), 'setting')} tried, {len(tuning.proofs)} measured again"
    ratio = "ratio: time with the setting / time without, in pairs of launches"
    return Report(
        heading=[_headline(tuning), f"{about} · {tried}, {tuning.launches} launches", ratio],
        tables=tables,
        notes=list(_notes(tuning, full=full)),
        results=lambda: Data(COLUMNS, ("setting", "series", "at"), list(_rows(tuning))),
        extra={
            "settings": [
                {"name": each.name, "meaning": each.meaning, "source": each.source} for each in tuning.settings
            ],
            "failed": {each.name: reason for each, reason in tuning.failed.items()},
            "variables": dict(tuning.chosen.variables) if tuning.chosen else {},
            "folder": str(tuning.folder),
        },
    )


def _headline(tuning: Tuning) -> str:
    if tuning.chosen is None:
        tried = count(len(tuning.settings), "setting")
        return f"NOTHING PROVEN: none of {tried} is proven faster at a point and slower at none"
    found = tuning.proofs[tuning.chosen]
    points, others = int(found.faster.sum()), int((~found.faster).sum())
    where = next(_ranges(found, found.faster))[0] if points == 1 else count(points, "point")
    # The best of several owes a part of its ratio to chance.
    times = format_sig(1 / float(np.median(found.found.ratio[found.faster])), 3)
    elsewhere = f"; at {count(others, 'other point')} not shown to be slower" if others else ""
    return f"FASTER: at {where} {times} times as fast{' (median)' * (points > 1)}{elsewhere}"


def _ranges(found: Proof, which: Booleans) -> Iterator[tuple[str, str, list[int]]]:
    """Yield the chosen places that follow each other in a series: their name, the bounds of all, their numbers."""
    chosen = which.tolist()
    by_series = groupby(range(len(chosen)), key=lambda number: (found.places[number][0], chosen[number]))
    for (series, there), numbers in by_series:
        if there:
            those = list(numbers)
            ends = dict.fromkeys(found.places[number][1] for number in (those[0], those[-1]))
            low, high = found.found.low[those].min(), found.found.high[those].max()
            yield f"{series} {' to '.join(ends)}".rstrip(), f"{low:.3f} to {high:.3f}", those


def _proven(tuning: Tuning, chosen: Candidate) -> Table:
    found = tuning.proofs[chosen]
    columns = [
        Column(align="left"),
        Column("ratio", "median", digits=4),
        Column("95 % intervals", align="left"),
        Column("pairs"),
    ]
    rows: list[Row] = []
    for name, bounds, those in _ranges(found, found.faster):
        ratio = float(np.median(found.found.ratio[those]))
        pairs = int(found.found.launches[0][those].min())
        rows.append([name, Cell(ratio, "good", f"{ratio:.3f}"), bounds, pairs])
    legend = [f"{chosen.name}"]
    legend += [f"{each.name}: {each.meaning}" for each in chosen.parts] or [chosen.meaning]
    if found.elsewhere is not None:
        above = f"the intervals exclude ratios above {found.elsewhere:.3f}"
        legend.append(f"at the other points: not shown to be slower; {above}")
    return Table(columns, rows, title="proven and written", legend=legend)


def _others(tuning: Tuning, others: Sequence[Candidate]) -> Table:
    def where(found: Proof, which: Booleans) -> str:
        return join_few((f"{name} ({bounds})" for name, bounds, _ in _ranges(found, which)), 2) or "none"

    def verdict(each: Candidate, found: Proof) -> str:
        if not found.usable or not tuning.chosen:
            return "slower somewhere" if found.slower.any() else "not proven"
        return f"proven; {'part of what is written' if each in tuning.chosen.parts else 'what is written gains more'}"

    columns: dict[Column, Callable[[tuple[Candidate, Proof]], str]] = {
        Column(align="left"): lambda each: each[0].name,
        Column("faster at", align="left"): lambda each: where(each[1], each[1].faster),
        Column("slower at", align="left"): lambda each: where(each[1], each[1].slower),
        Column("verdict", align="left"): lambda each: verdict(*each),
    }
    return Table.of(columns, [(each, tuning.proofs[each]) for each in others], title="measured again, but not written")


def _notes(tuning: Tuning, *, full: bool) -> Iterator[Note]:
    for each, reason in tuning.failed.items():
        yield Note("warning", f"{each.name} failed, and is not recommended: {reason}")
    if tuning.chosen:
        yield Note("finding", f"to use it: . {tuning.folder}/env.sh")
        yield from (Note("finding", text) for text in _measured(tuning))
    left = [each.name for each in tuning.settings if each not in tuning.proofs and each not in tuning.failed]
    if left:
        names = join_few(left, len(left) if full else 3)
        why = tuning.cut_short or "others were faster in the first launches"
        yield Note("finding", f"not measured again, because {why}: {names}")


def _measured(tuning: Tuning) -> Iterator[str]:
    """Say at which sizes a setting was measured, if some of it holds for all sizes and not by the rules of a file."""
    assert tuning.chosen
    chosen, found = tuning.chosen, tuning.proofs[tuning.chosen]
    if tuning.benchmark == "replay":
        yield "measured with the calls of this trace: other programs may become slower"
    elif any(each.variables.items() <= chosen.variables.items() for each in chosen.parts or [chosen]):
        sizes = sorted(parse_size(at) for _, at in found.places)
        yield f"measured from {format_size(sizes[0])} to {format_size(sizes[-1])}: other sizes may become slower"


def comments(tuning: Tuning) -> list[str]:
    """Return what stands above the variables in the files."""
    assert tuning.chosen
    found = tuning.proofs[tuning.chosen]
    proven = (f"{name}: {bounds}" for name, bounds, _ in _ranges(found, found.faster))
    return [
        f"volley tune {tuning.benchmark}: {tuning.mpi}, {count(tuning.ranks, 'rank')}",
        *(f"{each} times the time without the setting (95 % intervals)" for each in proven),
        *_measured(tuning),
    ]


def _rows(tuning: Tuning) -> Iterator[dict[str, object]]:
    for each, found in tuning.proofs.items():
        compared = found.found
        columns = (compared.ratio, compared.low, compared.high, found.default_s, found.own_s, compared.launches[0])
        for number, (series, at) in enumerate(found.places):
            verdict = "faster" if found.faster[number] else "slower" if found.slower[number] else "not proven"
            numbers = (column[number].item() for column in columns)
            values = (each.name, verdict, each == tuning.chosen, series, at, *numbers)
            yield dict(zip(COLUMNS, values, strict=True))
