"""Draw docs/pictures/h200.svg: the H200 curves beside the tutorials' tables.  ``make pictures`` runs this.

It needs the extra ``docs`` (Altair and vl-convert), which nothing else of volley does.
"""

from typing import Any

import altair as alt
import vl_convert

from figures import DOCS, H200, NVLINK3, SAME_WAY, SUMMIT, digest, measured, published

TARGET = DOCS / "pictures/h200.svg"
PANELS = ["CPU", "CUDA-staged", "CUDA-aware"]
BEYOND = {"staged/shared": "CUDA-staged", "peer": "CUDA-aware", "device": "CUDA-aware"}
"""What can be done besides, in the panel of what it competes with."""
COLOURS = {
    SUMMIT: "#b45309",
    NVLINK3: "#2563eb",
    H200: "#15803d",
    "staged/shared on H200": "#7c3aed",
    "peer on H200": "#db2777",
    "device on H200": "#111827",
}
SIZES = {8: "8 B", 1 << 10: "1 KiB", 1 << 20: "1 MiB", 1 << 30: "1 GiB"}
FONT = "Helvetica, Arial, sans-serif"


def rows() -> list[dict[str, Any]]:
    """Return one row a point: the panel, the curve's name, size, µs and GB/s."""
    named = [(curve.way, curve.machine, curve) for curve in published()]
    named += [(SAME_WAY[curve.way], H200, curve) for curve in measured() if curve.way in SAME_WAY]
    named += [(BEYOND[curve.way], f"{curve.way} on H200", curve) for curve in measured() if curve.way in BEYOND]
    return [
        {"panel": panel, "curve": name, "size": size, "us": curve.us(size), "GBps": curve.GBps(size)}
        for panel, name, curve in named
        for size in curve.half_round_trip_s
    ]


def panel(data: list[dict[str, Any]], title: str, field: str, unit: str, domain: list[float], *, last: bool) -> Any:
    """Return one panel; both axes are logarithmic."""
    names = " : ".join(f"datum.value == {size} ? '{name}'" for size, name in SIZES.items()) + " : ''"
    first = title == PANELS[0]
    here = [row for row in data if row["panel"] == title]
    return (
        alt.Chart(alt.Data(values=here), width=240, height=210, title=title if field == "us" else "")
        .mark_line(strokeWidth=2)
        .encode(
            x=alt.X(
                "size:Q",
                scale=alt.Scale(type="log", base=2, domain=[8, 1 << 30], nice=False),
                axis=alt.Axis(values=list(SIZES), labelExpr=names, title="message" if last else None, labelFlush=True),
            ),
            y=alt.Y(
                f"{field}:Q",
                scale=alt.Scale(type="log", domain=domain, nice=False),
                axis=alt.Axis(title=unit if first else None, labels=first, tickCount=6, format=",~g"),
            ),
            color=alt.Color(
                "curve:N",
                scale=alt.Scale(domain=list(COLOURS), range=list(COLOURS.values())),
                legend=alt.Legend(title=None, orient="bottom", columns=6, labelLimit=0, symbolStrokeWidth=3),
            ),
            strokeDash=alt.condition("indexof(datum.curve, ' on ') > 0", alt.value([5, 3]), alt.value([1, 0])),
            detail="curve:N",
        )
    )


def chart() -> Any:
    """Return the whole chart: above the half round trip, below the bandwidth."""
    data = rows()
    above = alt.hconcat(*(panel(data, title, "us", "half round trip, µs", [0.2, 6e5], last=False) for title in PANELS))
    below = alt.hconcat(*(panel(data, title, "GBps", "GB/s", [2e-4, 600], last=True) for title in PANELS))
    return (
        alt.vconcat(above, below)
        .configure(background="#ffffff", font=FONT, padding=16)
        .configure_axis(gridColor="#e5e7eb", labelFontSize=12, titleFontSize=13, titleFontWeight="normal")
        .configure_title(fontSize=15, anchor="middle")
        .configure_legend(labelFontSize=12)
    )


def main() -> None:
    """Write the picture."""
    svg = vl_convert.vegalite_to_svg(chart().to_json())
    TARGET.write_text(svg.replace(">", f"><!-- figures {digest()} -->", 1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
