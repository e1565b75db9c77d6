"""SVG drawings: boxes, arrows and labels.

A drawing has its own background and uses no external font, so that it looks the same on light and dark pages;
:func:`with_dark_scheme` makes it follow the page.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from xml.sax.saxutils import escape

Point = tuple[float, float]

PAPER, INK, MUTED, LINE, FAINT = "#ffffff", "#1f2328", "#57606a", "#c8d1da", "#f3f5f7"
WIRE, MPI, COPY = "#15803d", "#c2410c", "#1d4ed8"
"""Colours of arrows: NVLink or a fabric, MPI, a copy between a device and its host."""
NVLINK, PCIE = "#8fb996", "#a8b3bd"
"""Colours of links that no arrow uses."""
FILLS = {
    "gpu": ("#e8f5dc", "#5b8f22"),
    "host": ("#e4edfc", "#3b6fc0"),
    "mpi": ("#fdeadf", "#c2410c"),
    "plain": (FAINT, LINE),
    "band": ("#e6ebf0", "#e6ebf0"),
    "memory": ("#f6f9ff", "#9db8e3"),
    "switch": ("#f7f2e4", "#a68a3a"),
    "nic": ("#efe9fb", "#7c5cc4"),
    "fabric": ("#e6f4ea", "#15803d"),
}
DARK = {
    PAPER: "#0d1117", INK: "#e6edf3", MUTED: "#9198a1", LINE: "#3d444d", FAINT: "#161b22",
    WIRE: "#3fb950", MPI: "#f0883e", COPY: "#6ea8fe", NVLINK: "#4d7a56", PCIE: "#6b7681",
    "#e8f5dc": "#1c2b12", "#5b8f22": "#7fb53f", "#e4edfc": "#13233b", "#3b6fc0": "#5c8fdc", "#fdeadf": "#3a1d0e",
    "#e6ebf0": "#262c34", "#f6f9ff": "#0f1a2b", "#9db8e3": "#46648f", "#f7f2e4": "#2b2614", "#a68a3a": "#c2a64f",
    "#efe9fb": "#241d38", "#7c5cc4": "#9d80e0", "#e6f4ea": "#12261a",
}  # fmt: skip
"""What each colour is on a dark page."""
LETTER = 0.56
"""Average width of a letter of Helvetica or Arial in units of the font size, slightly overestimated."""
_HEAD = (
    '<marker id="{name}" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="13" markerHeight="13" '
    'markerUnits="userSpaceOnUse" orient="auto-start-reverse"><path d="M0 0 10 5 0 10z" fill="{colour}"/></marker>'
)


def width_of(words: str, size: float) -> float:
    """Estimate the width of a line of text from above, without font metrics."""
    return len(words) * size * LETTER


def shortened(words: str, size: float, width: float) -> str:
    """Return the words, truncated with an ellipsis if they are wider than ``width``."""
    most = int(width / (size * LETTER))
    return words if len(words) <= most else words[: max(0, most - 1)].rstrip() + "…"


def with_dark_scheme(svg: str) -> str:
    """Return the drawing with its dark colours for browsers that prefer them; a style outranks the attributes."""
    rules = "".join(
        f'[{name}="{light}"]{{{name}:{dark}}}' for light, dark in DARK.items() for name in ("fill", "stroke")
    )
    return svg.replace("<defs>", f"<style>@media (prefers-color-scheme: dark){{{rules}}}</style><defs>", 1)


@dataclass
class Drawing:
    width: int
    height: int
    title: str
    parts: list[str] = field(default_factory=list)
    colours: list[str] = field(default_factory=list)

    def text(
        self, at: Point, words: str, size: int = 14, colour: str = INK, anchor: str = "middle", *, bold: bool = False
    ) -> None:
        weight = ' font-weight="600"' if bold else ""
        self.parts.append(
            f'<text x="{at[0]:g}" y="{at[1] + 0.35 * size:g}" font-size="{size}" fill="{colour}" '
            f'text-anchor="{anchor}"{weight}>{escape(words)}</text>'
        )

    def box(self, corner: Point, size: Point, kind: str, *lines: str, small: int = 13, faded: bool = False) -> None:
        """Draw a box with lines of text in its middle, the first one bold."""
        (x, y), (width, height) = corner, size
        fill, stroke = FILLS[kind]
        dashes = ' stroke-dasharray="4 4"' if faded else ""
        self.parts.append(
            f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="8" '
            f'fill="{"none" if faded else fill}" stroke="{LINE if faded else stroke}" stroke-width="1.5"{dashes}/>'
        )
        for number, words in enumerate(lines):
            if width_of(words, small) > width - 8:
                raise ValueError(f"{words!r} is wider than its box of {width:g}")
            middle = y + height / 2 + (number - (len(lines) - 1) / 2) * (small + 5)
            self.text((x + width / 2, middle), words, small, MUTED if faded or number else INK, bold=number == 0)

    def line(
        self, points: Sequence[Point], colour: str, width: float = 2.5, dashed: bool = False, head: str = "end"
    ) -> None:
        name = f"head{colour[1:]}"
        if head and colour not in self.colours:
            self.colours.append(colour)
        path = " ".join(f"{x:g},{y:g}" for x, y in points)
        heads = {
            "end": f' marker-end="url(#{name})"',
            "both": f' marker-start="url(#{name})" marker-end="url(#{name})"',
        }
        dashes = ' stroke-dasharray="5 4"' if dashed else ""
        self.parts.append(
            f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="{width:g}"{dashes}'
            f"{heads.get(head, '')}/>"
        )

    def badge(self, at: Point, words: str, colour: str) -> None:
        self.parts.append(f'<circle cx="{at[0]:g}" cy="{at[1]:g}" r="9.5" fill="{colour}" stroke="{PAPER}"/>')
        self.text(at, words, 12, PAPER, bold=True)

    def svg(self) -> str:
        markers = "".join(_HEAD.format(name=f"head{colour[1:]}", colour=colour) for colour in self.colours)
        body = "\n".join(self.parts)
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {self.height}" width="{self.width}" '
            f'height="{self.height}" role="img" font-family="Helvetica, Arial, sans-serif">\n'
            f"<title>{escape(self.title)}</title>\n<defs>{markers}</defs>\n"
            f'<rect x="0.5" y="0.5" width="{self.width - 1}" height="{self.height - 1}" rx="10" fill="{PAPER}" '
            f'stroke="{LINE}"/>\n{body}\n</svg>\n'
        )
