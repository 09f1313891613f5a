"""Report of growth: bench/results/growth.json, a plot for each growth, and a table with the slope of each line."""

from __future__ import annotations

import math
import platform
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct, json

from bench.gateway import plot
from bench.gateway.growth_cases import GROWTHS

_ROOT = Path(__file__).parents[2]
FILE = _ROOT / "bench/results/growth.json"
PLOTS = _ROOT / "docs/internals"
# Points of each line, by its name.
Figures = Mapping[str, Sequence[tuple[float, float]]]


class Grown(Struct, frozen=True, kw_only=True):
    """What was measured of one growth, and the seconds that it took."""

    name: str
    seconds: float
    lines: Figures


class _Written(Struct, frozen=True, kw_only=True):
    python: str
    growths: dict[str, Grown]


def slope(points: Sequence[tuple[float, float]]) -> float:
    """The exponent of a line between its last two points: 1 is linear, 0 does not grow."""
    (x, y), (later, higher) = points[-2:]
    return math.log(higher / y) / math.log(later / x) if x > 0 and y > 0 else math.nan


def table(grown: Sequence[Grown]) -> str:
    """All points, one line of text per plot line."""
    rows: list[str] = []
    for one in grown:
        for name, points in one.lines.items():
            told = "  ".join(f"{plot.short(x)}: {y:,g}" for x, y in points)
            end = f"  (exponent at the end {slope(points):.2f})" if len(points) > 1 else ""
            rows.append(f"{one.name}, {name}: {told}{end}")
    return "\n".join(rows)


def write(grown: Grown, file: Path = FILE, plots: Path = PLOTS) -> None:
    """Write the figures of a growth over those of before, and its plot; others stay."""
    before = json.decode(file.read_bytes(), type=_Written).growths if file.exists() else {}
    growths = before | {grown.name: grown}
    written = _Written(python=platform.python_version(), growths=dict(sorted(growths.items())))
    file.write_bytes(json.format(json.encode(written), indent=2) + b"\n")
    growth = next(growth for growth in GROWTHS if growth.name == grown.name)
    lines = [plot.Line(name, points) for name, points in grown.lines.items()]
    text = plot.drawn(growth.title, growth.across, growth.up, lines)
    plots.joinpath(f"growth-{grown.name}.svg").write_text(text, encoding="utf-8")
