"""Charts as Vega-Lite specifications (https://vega.github.io/vega-lite/docs/): plain dictionaries."""

from __future__ import annotations

import csv
import io
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from volley.report.model import Axis, Chart, Mark
from volley.text import escape_controls, grouped

COLOURS = ("#2f81f7", "#e5690b", "#2da44e", "#d6409f", "#8b5cf6", "#0e9aa7", "#c28a00", "#e5484d")
"""Colours of series; each is readable on white and on dark grey."""

SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down", "triangle-right", "triangle-left")
"""Shapes of points, so that colour is not the only difference between series."""

MAX_SHOWN = len(COLOURS)
"""A page shows this many curves at once, and others when their names are clicked: more cannot be told apart."""

MAX_LABELLED = 12
"""Heat maps of at most this many rows and columns have their numbers in the cells."""

MOST_COLUMNS = 40
"""Of more columns of a heat map every tenth has a label."""

_LEAST_CONTRAST = 1.25
"""The colours of a heat map span at least this ratio, so that small differences look small."""

_SIZE_LABEL = (
    "datum.value >= 1073741824 ? format(datum.value / 1073741824, '~g') + ' GiB' : "
    "datum.value >= 1048576 ? format(datum.value / 1048576, '~g') + ' MiB' : "
    "datum.value >= 1024 ? format(datum.value / 1024, '~g') + ' KiB' : datum.value + ' B'"
)
"""The label of a message size: a Vega expression."""

_LEGEND_WIDTH, _NARROW_LEGEND_WIDTH = 420, 280
"""Pixels of a legend: two charts side by side on a page of 1,100 pixels leave that much beside the axis, and narrow
charts the second."""

_SYMBOL_WIDTH = 28
"""Pixels of the symbol and the space of an entry."""

_LETTER_WIDTH = 7
"""Pixels of a letter of the legend, rather more than less: fonts differ."""

_CAPTION_WIDTH = 80
"""Letters of a line below the title of a picture."""

_EVERY = 4
"""Axes of message sizes have a label at every fourth power of two."""


def specification(
    chart: Chart, ink: str, width: int | str, alike: Sequence[Chart] = (), *, narrow: bool = False
) -> dict[str, Any]:
    layers = {"curves": _curves, "bars": _bars, "heat map": _heat_map}[chart.kind](chart, ink, alike or [chart])
    if width == "container" and chart.kind == "curves" and len(_series(alike or [chart])) > 1:
        # The legend shows and hides curves; at first it shows as many as can be told apart.
        first = [{"series": name} for name in _series([chart])[:MAX_SHOWN]]
        select = {"type": "point", "fields": ["series"], "toggle": "true"}
        lines = next(layer for layer in layers if layer["mark"]["type"] == "line")  # the first with the legend
        lines["params"] = [{"name": "shown", "select": select, "bind": "legend", "value": first}]
        for transform in (layer["transform"] for layer in layers if "transform" in layer):
            transform.append({"filter": {"param": "shown", "empty": False}})
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v6.json",
        "width": width,
        "height": _height(chart),
        "autosize": {"type": "fit-x" if width == "container" else "pad", "contains": "padding"},
        "data": _data(chart),
        "layer": layers,
        "config": _config(ink, alike or [chart], narrow=narrow),
    }


def side_by_side(charts: Sequence[Chart], ink: str, background: str) -> dict[str, Any]:
    parts = []
    for chart in charts:
        part = specification(chart, ink, 440)
        caption = textwrap.wrap(escape_controls(chart.caption), _CAPTION_WIDTH)
        title = {"text": escape_controls(chart.title), "subtitle": caption}
        parts.append({name: part[name] for name in ("width", "height", "data", "layer")} | {"title": title})
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v6.json",
        "background": background,
        "padding": 16,
        "concat": parts,
        "columns": 2,
        "spacing": 32,
        "resolve": {"scale": {"color": "independent", "shape": "independent"}},
        "config": _config(ink, charts),
    }


# ------------------------------------------------------------------------------------------------- the kinds


def _curves(chart: Chart, ink: str, alike: Sequence[Chart]) -> list[dict[str, Any]]:
    x, y = _quantity(chart.x, "x"), _quantity(chart.y, "y")
    if len(alike) > 1:
        y["scale"] = {**y["scale"], "domain": _domain(alike)}
    if chart.x.unit == "B":
        x["axis"] |= {"values": _size_ticks(chart.marks), "labelExpr": _SIZE_LABEL, "labelOverlap": True}
    names = _series(alike)
    several = names != [""]
    colour = {"color": _by_series(names, COLOURS)} if several else {}
    shapes = [SHAPES[(number + number // len(COLOURS)) % len(SHAPES)] for number in range(len(names))]
    shape = {"shape": _by_series(names, shapes)} if several else {}
    tooltip = [
        *([_category("series", "series")] if several else []),
        {"field": "x", "type": "quantitative", "title": _titled(chart.x)},
        *(_number("y", _titled(chart.y)), _number("low", "from"), _number("high", "to")),
    ]
    known = "isValid(datum.y)" if not chart.y.log else "datum.y > 0"
    bars: dict[str, Any] = {"type": "errorbar", "ticks": {"size": 6}, "thickness": 1.5, "opacity": 0.7}
    band: dict[str, Any] = {"type": "area", "opacity": 0.15}
    intervals = [
        {
            "transform": [{"filter": "isValid(datum.low) && isValid(datum.high)"}],
            "mark": mark,
            "encoding": {"x": x, "y": {**y, "field": "low"}, "y2": {"field": "high"}} | colour,
        }
        for mark in (bars, band)
    ]
    return [
        *_reference_lines(chart, ink),
        {
            "transform": [{"filter": known}],
            "mark": {"type": "line", "strokeWidth": 1.8},
            "encoding": {"x": x, "y": y, **colour},
        },
        *(intervals if any(mark.low is not None for mark in chart.marks) else []),
        {
            "transform": [{"filter": known}],
            "mark": {"type": "point", "filled": True, "size": 34, "opacity": 1},
            "encoding": {"x": x, "y": y, **colour, **shape, "tooltip": tooltip},
        },
    ]


def _reference_lines(chart: Chart, ink: str) -> Iterable[dict[str, Any]]:
    for number, line in enumerate(chart.lines):
        data = {"values": [{"at": line.at, "label": escape_controls(line.label)}]}
        axis = chart.x if line.axis == "x" else chart.y
        channel = {**_quantity(axis, line.axis), "field": "at"}
        dashed = {"type": "rule", "strokeDash": [5, 4], "strokeWidth": 1.2, "color": ink, "opacity": 0.65}
        yield {"data": data, "mark": dashed, "encoding": {line.axis: channel}}
        place = {"align": "left", "dx": 4, "y": _height(chart) - 8 - 14 * (number % 3)}
        if line.axis == "y":
            place = {"align": "left", "dy": -6, "x": 6}
        text = {"type": "text", "color": ink, "fontSize": 11, **place}
        yield {"data": data, "mark": text, "encoding": {line.axis: channel, "text": {"field": "label"}}}


def _bars(chart: Chart, _ink: str, alike: Sequence[Chart]) -> list[dict[str, Any]]:
    names = _series(alike)
    y: dict[str, Any] = {"field": "y", "type": "quantitative", "title": _titled(chart.y)}
    y["stack"] = None if chart.overlap else "zero"
    if len(alike) > 1:
        y["scale"] = {"domain": [0, max(map(_tallest, alike))]}
    x = _category("x", _titled(chart.x))
    encoding = {
        "x": {**x, "sort": None, "axis": {"labelAngle": 0, "labelLimit": 120, "labelOverlap": False}},
        "y": y,
        "color": _by_series(names, COLOURS),
        "tooltip": [x, _category("series", "part"), _number("y", _titled(chart.y))],
    }
    if chart.overlap:
        return [{"mark": "bar", "encoding": {**encoding, "xOffset": _category("series", "part")}}]
    return [{"mark": {"type": "bar", "size": 48}, "encoding": encoding}]


def _heat_map(chart: Chart, _ink: str, _alike: Sequence[Chart]) -> list[dict[str, Any]]:
    value = chart.value or Axis("")
    rows, columns = _categories(chart, "y"), _categories(chart, "x")
    numbers = [mark.value for mark in chart.marks if mark.value is not None] or [0.0]
    lowest, highest = min(*numbers, max(numbers) / _LEAST_CONTRAST), max(numbers)
    labels = {"labelAngle": 0, "labelOverlap": "greedy", "labelSeparation": 4}
    shown = columns[:: 10 if len(columns) > MOST_COLUMNS else 1]
    x, y = _category("x", _titled(chart.x)), _category("y", _titled(chart.y))
    ends: dict[str, Any] = {
        "x": {**x, "sort": columns, "axis": {**labels, "values": shown, "titlePadding": 8, "orient": "top"}},
        "y": {**y, "sort": rows, "axis": {**labels, "titlePadding": 8}},
    }
    legend = {"title": value.unit, "gradientLength": min(120, _height(chart) - 30), "tickCount": 4}
    scale = {"scheme": "viridis", "domain": [lowest, highest]}
    colour = {"field": "value", "type": "quantitative", "scale": scale, "legend": legend}
    encoding = {**ends, "color": colour, "tooltip": [y, x, _number("value", _titled(value))]}
    layers: list[dict[str, Any]] = [{"mark": {"type": "rect"}, "encoding": encoding}]
    if max(len(rows), len(columns)) <= MAX_LABELLED:
        dark = {"test": f"datum.value < {(lowest + highest) / 2!r}", "value": "#ffffff"}
        text = {"field": "value", "type": "quantitative", "format": ",.3r"}
        encoding = {**ends, "text": text, "color": {"condition": dark, "value": "#111111"}}
        known = [{"filter": "isValid(datum.value)"}]
        layers.append({"transform": known, "mark": {"type": "text", "fontSize": 11}, "encoding": encoding})
    return layers


# ------------------------------------------------------------------------------------------------- parts


def _category(field: str, title: str) -> dict[str, Any]:
    return {"field": field, "type": "nominal", "title": title}


def _number(field: str, title: str) -> dict[str, Any]:
    return {"field": field, "type": "quantitative", "title": title, "format": ".4~g"}


def _by_series(names: Sequence[str], values: Sequence[str]) -> dict[str, Any]:
    scale = {"domain": names, "range": [values[number % len(values)] for number in range(len(names))]}
    legend = {"title": None, "orient": "bottom", "labelLimit": 0, "symbolLimit": 0}
    return {"field": "series", "type": "nominal", "scale": scale, "legend": legend}


def _series(charts: Sequence[Chart]) -> list[str]:
    return list(dict.fromkeys(escape_controls(mark.series) for chart in charts for mark in chart.marks))


def _domain(charts: Sequence[Chart]) -> list[float]:
    found = [each for chart in charts for mark in chart.marks for each in (mark.y, mark.low, mark.high)]
    found += [line.at for chart in charts for line in chart.lines if line.axis == "y"]
    log = any(chart.y.log for chart in charts)
    numbers = [number for number in found if isinstance(number, float | int) and (number > 0 or not log)]
    return [min(numbers), max(numbers)]


def _tallest(chart: Chart) -> float:
    bars = grouped(chart.marks, lambda mark: mark.x).values()
    height = max if chart.overlap else sum
    return max((height(mark.y for mark in bar if isinstance(mark.y, float | int)) for bar in bars), default=0.0)


def _quantity(axis: Axis, field: str) -> dict[str, Any]:
    scale: dict[str, Any] = {"type": "linear", "zero": True}
    if axis.log:
        scale = {"type": "log", "nice": False, **({"base": 2} if field == "x" else {})}
    elif field == "x":  # a number of something
        scale["zero"], scale["padding"] = False, 12
    form: dict[str, Any] = {"tickCount": 6, **({"format": ",~g"} if axis.log else {"tickMinStep": 1})}
    if axis.unit == "B":
        form = {}
    return {"field": field, "type": "quantitative", "title": _titled(axis), "scale": scale, "axis": form}


def _titled(axis: Axis) -> str:
    unit = f" ({axis.unit})" if axis.unit and axis.unit != "B" else ""
    return escape_controls(axis.title) + unit


def _size_ticks(marks: Sequence[Mark]) -> list[int]:
    """Return powers of two from the smallest to the largest message: 8 B, 128 B, 2 KiB …"""
    sizes = [int(mark.x) for mark in marks if isinstance(mark.x, float | int) and mark.x >= 1]
    if not sizes:
        return []
    first, last = min(sizes).bit_length() - 1, max(sizes).bit_length() - 1
    every = _EVERY if last - first > _EVERY * 2 else 1
    return [1 << power for power in range(first, last + 1, every)]


def _categories(chart: Chart, field: str) -> list[str]:
    return list(dict.fromkeys(str(getattr(mark, field)) for mark in chart.marks))


def _height(chart: Chart) -> int:
    return min(480, max(90, 34 * len(_categories(chart, "y")))) if chart.kind == "heat map" else 300


def _data(chart: Chart) -> Mapping[str, Any]:
    """Return the marks as CSV, the shortest form of inline data."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    fields = ("x", "y", "series", "low", "high", "value")
    writer.writerow(fields)
    for mark in chart.marks:
        values = [getattr(mark, name) for name in fields]
        numbers_short = [f"{value:.6g}" if isinstance(value, float) else value for value in values]
        writer.writerow(["" if value is None else escape_controls(str(value)) for value in numbers_short])
    numbers = dict.fromkeys(("low", "high", "value"), "number")
    numbers |= {name: "number" for name in ("x", "y") if chart.kind == "curves" or (name, chart.kind) == ("y", "bars")}
    texts = {name: "string" for name in fields if name not in numbers}
    return {"values": out.getvalue(), "format": {"type": "csv", "parse": {**numbers, **texts}}}


def _config(ink: str, charts: Sequence[Chart], *, narrow: bool = False) -> dict[str, Any]:
    width = _NARROW_LEGEND_WIDTH if narrow else _LEGEND_WIDTH
    entry = _SYMBOL_WIDTH + _LETTER_WIDTH * max(map(len, _series(charts)), default=0)
    font = "system-ui, -apple-system, 'Segoe UI', Helvetica, Arial, sans-serif"
    text = {"labelColor": ink, "titleColor": ink, "labelFontSize": 11, "titleFontSize": 12, "titleFontWeight": "normal"}
    return {
        "font": font,
        "background": "transparent",
        "aria": False,
        "view": {"stroke": None},
        "axis": {**text, "gridColor": ink, "gridOpacity": 0.12, "domainColor": ink, "domainOpacity": 0.5,
                 "tickColor": ink, "tickOpacity": 0.5},
        "legend": {**text, "labelFontSize": 12, "columns": min(4, max(1, width // entry))},
        "title": {"color": ink, "subtitleColor": ink, "anchor": "start", "fontSize": 14},
    }  # fmt: skip
