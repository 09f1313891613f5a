"""Plot: lines over logarithmic axes as SVG, light or dark as the browser's user prefers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

from msgspec import Struct

WIDTH, HEIGHT = 760, 320
LEFT, RIGHT, TOP, BOTTOM = 70, 20, 50, 44
# Inside of the drawing, since a page shows it as an image: an image does not get the styles of its page.
STYLE = """<style>
svg { --paper: #ffffff; --ink: #1b1b1b; --grid: #dddddd; --line0: #0b6fc2; --line1: #c2410b; --line2: #2a8a4a; }
@media (prefers-color-scheme: dark) {
  svg { --paper: #14171a; --ink: #e6e6e6; --grid: #3a3f44; --line0: #6db5f5; --line1: #f59a6d; --line2: #7fd09a; }
}
.paper { fill: var(--paper); } text { fill: var(--ink); } .grid { stroke: var(--grid); }
.line0 { stroke: var(--line0); } .line1 { stroke: var(--line1); } .line2 { stroke: var(--line2); }
.dot0 { fill: var(--line0); } .dot1 { fill: var(--line1); } .dot2 { fill: var(--line2); }
</style>"""
_COLOURS = 3
_UNITS = ((10**9, "G"), (10**6, "M"), (10**3, "k"))


class Line(Struct, frozen=True):
    """One line: its name and its points, which are positive; an x of 0 stands one decade before the next."""

    name: str
    points: Sequence[tuple[float, float]]


class Axis(Struct, frozen=True):
    """A logarithmic axis: decades from the first to the last, and where a value is between 0 and 1."""

    first: int
    last: int
    zero: bool = False

    def place(self, value: float) -> float:
        """Where a value is between the ends."""
        decade = math.log10(value) if value > 0 else float(self.first)
        return (decade - self.first) / (self.last - self.first)

    def ticks(self) -> list[float]:
        """Powers of ten, eight at most."""
        step = 1 + (self.last - self.first) // 8
        powers = [10.0**decade for decade in range(self.first, self.last + 1, step)]
        return [0.0, *powers[1:]] if self.zero else powers


def axis_of(values: Sequence[float]) -> Axis:
    """The axis on which all of these are."""
    positive = [value for value in values if value > 0] or [1.0]
    zero = any(value <= 0 for value in values)
    first, last = math.floor(math.log10(min(positive))) - zero, math.ceil(math.log10(max(positive)))
    return Axis(first, max(last, first + 1), zero)


def drawn(title: str, across: str, up: str, lines: Sequence[Line]) -> str:
    """The whole drawing; `across` and `up` name the axes."""
    points = [point for line in lines for point in line.points]
    wide, high = axis_of([x for x, _ in points]), axis_of([y for _, y in points])
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
        f'font-family="sans-serif" font-size="12" role="img" aria-label="{escape(title)}">',
        STYLE,
        f'<rect class="paper" width="{WIDTH}" height="{HEIGHT}"/>',
        f'<text x="{LEFT}" y="18" font-weight="bold">{escape(title)}</text>',
        f'<text x="{LEFT}" y="36">{escape(up)}</text>',
        f'<text x="{WIDTH - RIGHT}" y="{HEIGHT - 8}" text-anchor="end">{escape(across)}</text>',
    ]
    for tick in high.ticks():
        y = _y(high, tick)
        parts.append(f'<path class="grid" d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{short(tick)}</text>')
    for tick in wide.ticks():
        x = _x(wide, tick)
        parts.append(f'<path class="grid" d="M{x:.1f} {TOP}V{HEIGHT - BOTTOM}"/>')
        parts.append(f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">{short(tick)}</text>')
    for number, line in enumerate(lines):
        parts += _line(line, number, len(lines), wide, high)
    return "\n".join([*parts, "</svg>", ""])


def short(value: float) -> str:
    """A figure in few characters: 20k, 1M."""
    for size, unit in _UNITS:
        if value >= size:
            return f"{value / size:g}{unit}"
    return f"{value:g}"


def _line(line: Line, number: int, lines: int, wide: Axis, high: Axis) -> list[str]:
    colour = number % _COLOURS
    places = [(f"{_x(wide, x):.1f}", f"{_y(high, y):.1f}") for x, y in line.points]
    way = " ".join(f"{x},{y}" for x, y in places)
    name = WIDTH - RIGHT - 150 * (lines - number)
    return [
        f'<polyline class="line{colour}" points="{way}" fill="none" stroke-width="1.8"/>',
        *(f'<circle class="dot{colour}" cx="{x}" cy="{y}" r="3"/>' for x, y in places),
        f'<path class="line{colour}" d="M{name} 32h16" stroke-width="2.5"/>',
        f'<text x="{name + 22}" y="36">{escape(line.name)}</text>',
    ]


def _x(axis: Axis, value: float) -> float:
    return LEFT + axis.place(value) * (WIDTH - LEFT - RIGHT)


def _y(axis: Axis, value: float) -> float:
    return TOP + (1 - axis.place(value)) * (HEIGHT - TOP - BOTTOM)
