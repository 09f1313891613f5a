"""Accepted figures: the file that holds them, the comparison of new figures with them, and its table."""

from __future__ import annotations

import platform
import sysconfig
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct, json

from bench.instructions.rows import SHOWN

FILE = Path(__file__).parents[1] / "results" / "instructions.json"
# How much a row may be above its accepted figure.
TOLERANCE = 0.03


class Accepted(Struct, frozen=True, kw_only=True):
    """Thousands of instructions per exchange by row (Python calls: calls), and the Python that executed them."""

    python: str
    rows: dict[str, float]


class Compared(Struct, frozen=True, kw_only=True):
    """One row: its accepted figure, None if it has none yet, and the new one."""

    name: str
    old: float | None
    new: float

    @property
    def change(self) -> float | None:
        """The change as a share of the accepted figure."""
        return None if not self.old else self.new / self.old - 1

    @property
    def is_worse(self) -> bool:
        """Whether the row fails the check."""
        return self.name not in SHOWN and self.change is not None and self.change > TOLERANCE


def this_python() -> str:
    """Version and build of this Python: counts of another one differ by several percent."""
    optimized = "--enable-optimizations" in (sysconfig.get_config_var("CONFIG_ARGS") or "")
    return f"{platform.python_version()}, {platform.python_compiler()}, {'with' if optimized else 'without'} PGO"


def read(file: Path = FILE) -> Accepted:
    """The accepted figures; none if there is no file."""
    if not file.exists():
        return Accepted(python=this_python(), rows={})
    return json.decode(file.read_bytes(), type=Accepted)


def accept(figures: Mapping[str, float], file: Path = FILE) -> None:
    """Write figures over the accepted ones; rows that were not measured stay."""
    rows = read(file).rows | {name: round(figure, 2) for name, figure in figures.items()}
    accepted = Accepted(python=this_python(), rows=dict(sorted(rows.items())))
    file.write_bytes(json.format(json.encode(accepted), indent=2) + b"\n")


def compare(accepted: Accepted, figures: Mapping[str, float]) -> list[Compared]:
    """New figures beside the accepted ones."""
    return [Compared(name=name, old=accepted.rows.get(name), new=new) for name, new in figures.items()]


def table(compared: list[Compared]) -> str:
    """The comparison, one line per row; a row that fails the check is marked."""
    lines = [f"{'thousands of instructions':<28}{'accepted':>12}{'now':>12}{'change':>10}"]
    for row in compared:
        old = "–" if row.old is None else f"{row.old:,.1f}"
        change = "–" if row.change is None else f"{row.change:+.1%}"
        lines.append(f"{row.name:<28}{old:>12}{row.new:>12,.1f}{change:>10}{'  worse' if row.is_worse else ''}")
    return "\n".join(lines)
