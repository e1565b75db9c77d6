"""One JSON document: the runs without their raw samples, and the summaries in SI units with the unit in each name."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any, TextIO

import msgspec

from volley.blame import Pair
from volley.comparison import crossovers, curves
from volley.matrices import Sheet
from volley.records_io import RunLog
from volley.report import node_data
from volley.stats import Estimate
from volley.summary import PointSummary, Rate, Series, tables

REPORT_VERSION = 1


def render_json(series: list[Series], out: TextIO) -> list[str]:
    """Write the document, indented; no remarks of its own."""
    document = {
        "report": REPORT_VERSION,
        "series": [
            {
                "runs": [_run(log) for log in one.logs],
                "summaries": [summary(point) for point in one.points],
                "curves": [curve for points in tables(one.points) for curve in _curves(points)],
                **({"node": [node_data.plain(sheet) for sheet in one.nodes]} if one.nodes else {}),
                **({"matrices": [matrix(sheet) for sheet in one.matrices]} if one.matrices else {}),
                "crossovers": [crossover for points in tables(one.points) for crossover in _crossovers(points)],
            }
            for one in series
        ],
    }
    write(document, out)
    return []


def write(document: dict[str, Any], out: TextIO) -> None:
    """Write a report; ASCII only: a terminal obeys none of it, and any locale can write it."""
    out.write(json.dumps(_finite(msgspec.to_builtins(document)), indent=2, allow_nan=False) + "\n")


def _finite(value: Any) -> Any:
    """Plain data without what JSON cannot hold: a rate over next to no time is null."""
    if isinstance(value, dict):
        return {name: _finite(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _run(log: RunLog) -> dict[str, Any]:
    return {
        "complete": log.complete,
        "problems": log.problems,
        "run": log.run,
        "hardware": log.hardware,
        "transports": log.transports,
        **({"node": log.node} if log.node else {}),
        "end": log.end,
    }


def summary(point: PointSummary) -> dict[str, Any]:
    """Return one point as plain data; times and rates are null where the point has none."""
    time = "half_round_trip" if point.benchmark == "pingpong" else "window"
    return {
        "benchmark": point.benchmark,
        "transport": point.transport,
        "ranks": point.ranks,
        "size_bytes": point.size_bytes,
        "direction": point.direction,
        "window": point.window,
        "status": point.status,
        "reason": point.reason,
        "mismatch": point.mismatch,
        "launches": point.launches,
        "samples": point.samples,
        **_time(time, point.time),
        **_rate("bandwidth", point.rate),
        **(_rate("forward", point.forward) | _rate("backward", point.backward) if point.direction == "bi" else {}),
        "ceiling_Bps": point.ceiling and point.ceiling.of(point.direction),
        "of_ceiling": point.of_ceiling,
        "percentiles_s": point.tail_s,
        "verified": point.verified,
        "messages_timed": point.messages_timed,
        "messages_verified": point.messages_verified,
        "ended_by": point.ended_by,
        f"cold_{time}_s": point.cold_s,
        "speedup": point.speedup,
        "remarks": [{"kind": remark.kind, "value": remark.value} for remark in point.remarks],
    }


def matrix(sheet: Sheet) -> dict[str, Any]:
    """Return one matrix as plain data, a list of its pairs; times and rates are null where a pair has none."""
    names = ("transport", "mode", "exercise", "direction", "window", "size_bytes", "ranks")
    return {
        **{name: getattr(sheet, name) for name in names},
        "pairs": [_pair(sheet, pair) for pair in sorted(sheet.cells)],
    }


def _pair(sheet: Sheet, pair: Pair) -> dict[str, Any]:
    cell, standing, verdict = sheet.cells[pair], sheet.standings.get(pair), sheet.verdict(pair)
    return {
        "ranks": pair,
        "kind": sheet.kinds[pair],
        "status": cell.status,
        "reason": cell.reason,
        "mismatch": cell.mismatch,
        "samples": cell.samples,
        "half_round_trip_s" if sheet.exercise == "pingpong" else "window_s": sheet.times.get(pair),
        "low_s": cell.low_s,
        "high_s": cell.high_s,
        "bandwidth_Bps": sheet.rate_Bps(pair),
        "of_ceiling": sheet.of_ceiling(pair),
        "ratio": standing and standing.ratio,
        "like_pairs": standing and standing.like,
        "again": verdict and {"ratio": verdict.again.median, "low": verdict.again.low, "high": verdict.again.high},
        "blamed": verdict and verdict.blamed,
    }


def _table(point: PointSummary) -> dict[str, Any]:
    """What the points of one table have in common."""
    return {name: getattr(point, name) for name in ("benchmark", "ranks", "direction", "window")}


def _curves(points: Sequence[PointSummary]) -> Iterator[dict[str, Any]]:
    """The line through each curve with how well it fits, or the reason why there is none."""
    for curve in curves(points):
        yield {
            **_table(points[0]),
            "transport": curve.transport,
            "fit": curve.fit and {**asdict(curve.fit), "half_bandwidth_bytes": curve.fit.half_bandwidth_bytes},
            "poor": curve.fit and curve.fit.poor,
            "reason": curve.reason,
            "measured_half_bandwidth_bytes": curve.half_bandwidth_bytes,
        }


def _crossovers(points: Sequence[PointSummary]) -> Iterator[dict[str, Any]]:
    for crossover in crossovers(points):
        yield {**_table(points[0]), **asdict(crossover)}


def _time(name: str, time: Estimate | None) -> dict[str, Any]:
    return {
        f"{name}_s": time and time.median,
        f"{name}_low_s": time and time.low,
        f"{name}_high_s": time and time.high,
        "bounds": time and time.kind,
    }


def _rate(name: str, rate: Rate | None) -> dict[str, Any]:
    return {
        f"{name}_Bps": rate and rate.median_Bps,
        f"{name}_low_Bps": rate and rate.low_Bps,
        f"{name}_high_Bps": rate and rate.high_Bps,
    }
