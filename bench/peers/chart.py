"""Plot of one figure by program, in groups: a dot at the median and a line over the spread, on a logarithmic axis."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from msgspec import Struct

from bench.gateway.plot import STYLE, Axis, axis_of, short
from bench.gateway.report import number

WIDTH, LEFT, RIGHT = 760, 130, 90
_TOP, _BOTTOM, _ROW, _HEADING = 50, 30, 19, 26


# Text is drawn over the lines of the axis, with a margin of the paper's colour.
_OVER = 'style="paint-order: stroke; stroke: var(--paper); stroke-width: 5px"'


class Dot(Struct, frozen=True, kw_only=True):
    """One program: its median and spread, and the colour it has in all groups."""

    name: str
    median: float
    least: float
    most: float
    colour: int


class Group(Struct, frozen=True, kw_only=True):
    """The programs that were measured for one thing."""

    title: str
    dots: Sequence[Dot]


def drawn(title: str, across: str, groups: Sequence[Group]) -> str:
    """The whole drawing; `across` names the axis."""
    dots = [dot for group in groups for dot in group.dots]
    axis = axis_of([value for dot in dots for value in (dot.least, dot.most)])
    bottom = _TOP + _HEADING * len(groups) + _ROW * len(dots)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {bottom + _BOTTOM}" width="{WIDTH}" '
        f'height="{bottom + _BOTTOM}" font-family="sans-serif" font-size="12" role="img" '
        f'aria-label="{escape(title)}">',
        STYLE,
        f'<rect class="paper" width="{WIDTH}" height="{bottom + _BOTTOM}"/>',
        f'<text x="14" y="20" font-weight="bold">{escape(title)}</text>',
        f'<text x="14" y="38">{escape(across)}</text>',
    ]
    for tick in axis.ticks():
        x = _x(axis, tick)
        parts.append(f'<path class="grid" d="M{x:.1f} {_TOP}V{bottom}"/>')
        parts.append(f'<text x="{x:.1f}" y="{bottom + 18}" text-anchor="middle">{short(tick)}</text>')
    y = float(_TOP)
    for group in groups:
        y += _HEADING
        parts.append(f'<text x="14" y="{y - 6:.1f}" font-weight="bold" {_OVER}>{escape(group.title)}</text>')
        for dot in group.dots:
            parts += _row(dot, axis, y + _ROW / 2)
            y += _ROW
    return "\n".join([*parts, "</svg>", ""])


def _row(dot: Dot, axis: Axis, y: float) -> list[str]:
    least, median, most = (_x(axis, value) for value in (dot.least, dot.median, dot.most))
    return [
        f'<text x="{LEFT - 12}" y="{y + 4:.1f}" text-anchor="end">{escape(dot.name)}</text>',
        f'<path class="line{dot.colour}" d="M{least:.1f} {y:.1f}H{most:.1f}" stroke-width="2"/>',
        f'<circle class="dot{dot.colour}" cx="{median:.1f}" cy="{y:.1f}" r="5"/>',
        f'<text x="{most + 10:.1f}" y="{y + 4:.1f}" {_OVER}>{number(dot.median)}</text>',
    ]


def _x(axis: Axis, value: float) -> float:
    return LEFT + axis.place(value) * (WIDTH - LEFT - RIGHT)
