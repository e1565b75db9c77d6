"""The report of ``volley tune``: what was proven first, then what was not, then what failed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from pathlib import Path

import numpy as np

from volley.report.model import Cell, Column, Data, Note, Report, Row, Table
from volley.text import count, join_few
from volley.tune.candidates import Candidate
from volley.tune.search import Proof
from volley.units import format_sig

COLUMNS = (
    "setting", "verdict", "written", "series", "at", "ratio", "ratio_low", "ratio_high", "default_s", "setting_s",
    "pairs",
)  # fmt: skip
"""The columns of CSV.  ``ratio`` is the time with the setting / that of the default, with its 95 % interval."""


@dataclass(frozen=True)
class Tuning:
    """What a search found."""

    benchmark: str
    mpi: str
    ranks: int
    launches: int
    settings: Sequence[Candidate]
    proofs: Mapping[Candidate, Proof]
    failed: Mapping[Candidate, str]
    folder: Path

    @cached_property
    def chosen(self) -> Candidate | None:
        """The setting that is written: of those that are faster somewhere and slower nowhere the one with most gain."""
        usable = [each for each, found in self.proofs.items() if found.usable]
        return max(usable, key=lambda each: self.proofs[each].gain, default=None)


def report(tuning: Tuning, *, full: bool) -> Report:
    tables = []
    if tuning.chosen:
        tables.append(_proven(tuning, tuning.chosen))
    others = [each for each in tuning.proofs if each != tuning.chosen]
    if others:
        tables.append(_others(tuning, others))
    about = f"{tuning.benchmark} · {tuning.mpi} · {count(tuning.ranks, 'rank')}"
    tried = (
        f"{count(len(tuning.settings), 'setting')} tried, {len(tuning.proofs)} confirmed, {tuning.launches} launches"
    )
    return Report(
        heading=[
            _finding(tuning),
            f"{about} · {tried}",
            "ratio: time with the setting / time without, in pairs of launches",
        ],
        tables=tables,
        notes=list(_notes(tuning, full=full)),
        data=Data(COLUMNS, ("setting", "series", "at"), list(_rows(tuning))),
        extra={
            "settings": [
                {"name": each.name, "meaning": each.meaning, "source": each.source} for each in tuning.settings
            ],
            "failed": {each.name: reason for each, reason in tuning.failed.items()},
            "variables": dict(tuning.chosen.variables) if tuning.chosen else {},
            "folder": str(tuning.folder),
        },
    )


def _finding(tuning: Tuning) -> str:
    if tuning.chosen is None:
        tried = count(len(tuning.settings), "setting")
        return f"NOTHING PROVEN: none of {tried} is proven faster at a point and slower at none"
    found = tuning.proofs[tuning.chosen]
    best = int(np.argmin(np.where(found.faster, found.found.ratio, np.inf)))
    series, at = found.places[best]
    where = f"{series} at {at}"
    of = f"{int(found.faster.sum())} of {count(len(found.places), 'point')}"
    return f"FASTER: {_times(float(found.found.ratio[best]))} at best ({where}), proven at {of}, slower at none"


def _times(ratio: float) -> str:
    return f"{format_sig(1 / ratio, 3)} times as fast"


def _ranges(found: Proof, which: Sequence[bool]) -> Iterator[list[int]]:
    """Yield places that follow each other in a series, and are alike."""
    numbered = [(number, series) for number, (series, _) in enumerate(found.places)]
    for (_, same), those in groupby(numbered, key=lambda each: (each[1], which[each[0]])):
        if same:
            yield [number for number, _ in those]


def _name_range(found: Proof, those: Sequence[int]) -> str:
    (series, first), (_, last) = found.places[those[0]], found.places[those[-1]]
    return f"{series} {first}" if first == last else f"{series} {first} … {last}"


def _bounds(found: Proof, those: Sequence[int]) -> str:
    low, high = found.found.low[those].min(), found.found.high[those].max()
    return f"{low:.3f} to {high:.3f}"


def _proven(tuning: Tuning, chosen: Candidate) -> Table:
    found = tuning.proofs[chosen]
    columns = [
        Column(align="left"),
        Column("ratio", "median", digits=4),
        Column("95 % intervals", align="left"),
        Column("pairs"),
    ]
    rows: list[Row] = []
    for those in _ranges(found, found.faster.tolist()):
        ratio = float(np.median(found.found.ratio[those]))
        pairs = int(found.found.launches[0][those].min())
        rows.append([_name_range(found, those), Cell(ratio, "good", f"{ratio:.3f}"), _bounds(found, those), pairs])
    legend = [f"{chosen.name}"]
    legend += [f"{each.name}: {each.meaning}" for each in chosen.parts] or [chosen.meaning]
    if found.elsewhere is not None:
        legend.append(f"at the other points: slower at none; the intervals exclude ratios above {found.elsewhere:.3f}")
    return Table(columns, rows, title="proven and written", legend=legend)


def _others(tuning: Tuning, others: Sequence[Candidate]) -> Table:
    columns = [
        Column(align="left"),
        Column("faster at", align="left"),
        Column("slower at", align="left"),
        Column("verdict", align="left"),
    ]
    rows: list[Row] = []
    for each in others:
        found = tuning.proofs[each]
        cells = []
        for which in (found.faster, found.slower):
            parts = [
                f"{_name_range(found, those)} ({_bounds(found, those)})" for those in _ranges(found, which.tolist())
            ]
            cells.append(join_few(parts, 2) if parts else "none")
        rows.append([each.name, *cells, verdict(found)])
    return Table(columns, rows, title="confirmed, but not written")


def verdict(found: Proof) -> str:
    if found.slower.any():
        return "slower somewhere"
    return "proven" if found.faster.any() else "not proven"


def _notes(tuning: Tuning, *, full: bool) -> Iterator[Note]:
    for each, reason in tuning.failed.items():
        yield Note("warning", f"{each.name} failed, and is not recommended: {reason}")
    if tuning.chosen:
        yield Note("finding", f"to use it: . {tuning.folder}/env.sh")
    left = [each.name for each in tuning.settings if each not in tuning.proofs and each not in tuning.failed]
    if left:
        names = join_few(left, len(left) if full else 3)
        yield Note("finding", f"not measured again, because others gained more in short launches: {names}")


def comments(tuning: Tuning) -> list[str]:
    """Return what stands above the variables in the files."""
    assert tuning.chosen
    found = tuning.proofs[tuning.chosen]
    lines = [f"volley tune {tuning.benchmark}: {tuning.mpi}, {count(tuning.ranks, 'rank')}"]
    for those in _ranges(found, found.faster.tolist()):
        lines.append(
            f"{_name_range(found, those)}: {_bounds(found, those)} times the time without the setting (95 % intervals)"
        )
    return lines


def _rows(tuning: Tuning) -> Iterator[dict[str, object]]:
    for each, found in tuning.proofs.items():
        for number, (series, at) in enumerate(found.places):
            faster, slower = bool(found.faster[number]), bool(found.slower[number])
            compared = found.found
            values = (
                *(each.name, "faster" if faster else "slower" if slower else "not proven", each == tuning.chosen),
                *(series, at, float(compared.ratio[number]), float(compared.low[number]), float(compared.high[number])),
                *(float(found.default_s[number]), float(found.own_s[number]), int(compared.launches[0][number])),
            )
            yield dict(zip(COLUMNS, values, strict=True))
