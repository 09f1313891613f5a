"""Chart: lines over minutes, one panel below the other, as SVG that any browser shows."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from msgspec import Struct

WIDTH = 860
PANEL = 190
# Room for the figures on the left, for the title above and for the minutes below.
LEFT, TOP, BOTTOM = 56, 34, 26
COLOURS = ("#1b1b1b", "#0b6fc2", "#c2410b", "#7a7a7a", "#2a8a4a")
TICKS = 4


class Line(Struct, frozen=True):
    """One line: its name and a value for each step in time."""

    name: str
    values: Sequence[float]


class Panel(Struct, frozen=True):
    """Lines with one unit."""

    title: str
    lines: Sequence[Line]


class Shade(Struct, frozen=True):
    """A time that is marked in all panels."""

    start: float
    end: float
    name: str


def drawn(panels: Sequence[Panel], shades: Sequence[Shade], minutes: float) -> str:
    """The whole drawing."""
    height = PANEL * len(panels)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        'font-family="sans-serif" font-size="11">',
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
    ]
    for number, panel in enumerate(panels):
        parts.append(f'<g transform="translate(0 {number * PANEL})">')
        parts += _panel(panel, shades, minutes)
        parts.append("</g>")
    return "\n".join([*parts, "</svg>", ""])


def _panel(panel: Panel, shades: Sequence[Shade], minutes: float) -> list[str]:
    across, down = WIDTH - LEFT - 12, PANEL - TOP - BOTTOM
    top = _round_up(max((value for line in panel.lines for value in line.values), default=1.0))

    def x(minute: float) -> str:
        return f"{LEFT + minute / minutes * across:.1f}"

    def y(value: float) -> str:
        return f"{TOP + down - value / top * down:.1f}"

    parts = [f'<text x="{LEFT}" y="14" font-weight="bold">{escape(panel.title)}</text>']
    for shade in shades:
        wide = (shade.end - shade.start) / minutes * across
        parts.append(f'<rect x="{x(shade.start)}" y="{TOP}" width="{wide:.1f}" height="{down}" fill="#f3e6d8"/>')
        parts.append(
            f'<text x="{x(shade.start)}" y="{TOP + 10}" font-size="9" fill="#8a6a44">{escape(shade.name)}</text>'
        )
    for tick in range(TICKS + 1):
        value = top * tick / TICKS
        parts.append(f'<path d="M{LEFT} {y(value)}h{across}" stroke="#dddddd"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{y(value)}" dy="4" text-anchor="end">{value:g}</text>')
    for minute in range(0, int(minutes) + 1, max(int(minutes) // 8, 1)):
        parts.append(f'<text x="{x(minute)}" y="{PANEL - BOTTOM + 14}" text-anchor="middle">{minute} min</text>')
    for number, line in enumerate(panel.lines):
        colour = COLOURS[number % len(COLOURS)]
        step = minutes / max(len(line.values), 1)
        points = " ".join(f"{x((index + 0.5) * step)},{y(value)}" for index, value in enumerate(line.values))
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.6"/>')
        place = LEFT + across - 120 * (len(panel.lines) - number)
        parts.append(f'<path d="M{place} 10h16" stroke="{colour}" stroke-width="2.5"/>')
        parts.append(f'<text x="{place + 20}" y="14">{escape(line.name)}</text>')
    return parts


def _round_up(value: float) -> float:
    """The next figure that reads well."""
    scale = 1e-9
    while True:
        for step in (1, 2, 4, 8):
            if value <= step * scale:
                return step * scale
        scale *= 10
