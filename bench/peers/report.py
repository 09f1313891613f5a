"""Report of the comparison: bench/results/peers.json, and from it the plots and the sections of three pages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct, json

from bench.gateway.report import number, replace_section, spread, table
from bench.gateway.rounds import Sample
from bench.peers.chart import Dot, Group, drawn
from bench.peers.rounds import DRAGOMAN, NGINX, About, Cost

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "bench/results/peers.json"
# The plots by what is counted.
PLOTS = {"request": "docs/internals/peers-request.svg", "chunk": "docs/internals/peers-chunk.svg"}
BEGIN, END = "<!-- peers: begin -->", "<!-- peers: end -->"
_COLOURS = {DRAGOMAN: 0, NGINX: 2}
_OTHER = 1
# What a user calls a stream whose chunks come at once, or alone.
_MODES = {"burst": ", chunks at once", "paced": ", chunks one by one"}


class Once(Struct, frozen=True, kw_only=True):
    """What a program costs once.

    Memory is in megabytes, before the first request and after the last. `installation` is in megabytes, or None if it
    was not measured. `start` is in seconds by the clock, so it contains other work of the machine: no page shows it.
    """

    name: str
    about: About
    idle: float
    loaded: float
    installation: float | None
    start: float
    exchanges: int


class Comparison(Struct, frozen=True, kw_only=True):
    """One run: its date, how many rounds, how slow the machine was beside the reference, and what was found."""

    date: str
    python: str
    rounds: int
    pace: Sample
    programs: list[Once]
    costs: list[Cost]


def read(file: Path = RESULTS) -> Comparison:
    """The run that the pages show."""
    return json.decode(file.read_bytes(), type=Comparison)


def write(found: Comparison) -> None:
    """Keep a run, and put it into the pages and the plots."""
    RESULTS.write_bytes(json.format(json.encode(found), indent=2) + b"\n")
    for path, text in plots(found).items():
        path.write_text(text, encoding="utf-8")
    for path, text in sections(found).items():
        replace_section(path, BEGIN, END, text)


def plots(found: Comparison) -> dict[Path, str]:
    """The plots, by the file that each belongs in."""
    return {ROOT / path: _plot(found, unit) for unit, path in PLOTS.items()}


def sections(found: Comparison) -> dict[Path, str]:
    """What the pages show between their marks."""
    return {
        ROOT / "docs/performance.md": performance(found),
        ROOT / "docs/comparison.md": comparison(found),
        ROOT / "docs/internals/benchmarks.md": details(found),
    }


def performance(found: Comparison) -> str:
    """CPU time of each program, and what costs once."""
    return "\n\n".join([f"Measured on {found.date}, µs of CPU time:", costs(found), once(found)])


def comparison(found: Comparison) -> str:
    """CPU time in times of Dragoman's, and memory."""
    names = [program.name for program in found.programs]
    lines = [
        [f"measured, {found.date}", *(f"{program.about.title} {program.about.version}" for program in found.programs)]
    ]
    for case, costs in _by_case(found).items():
        first = costs[DRAGOMAN]
        cells = (f"{number(costs[name].ratio.median)} ×" if name in costs else "–" for name in names[1:])
        lines.append([f"CPU per {first.unit}: {_title(case, first)}", f"{number(first.cpu.median)} µs", *cells])
    lines.append(["memory when idle, MB", *(number(program.idle) for program in found.programs)])
    return table(lines)


def costs(found: Comparison) -> str:
    """CPU time of a unit of each case at each program, in µs."""
    lines = [["case", "µs per", *(program.about.title for program in found.programs)]]
    for case, costs in _by_case(found).items():
        cells = [number(costs[one.name].cpu.median) if one.name in costs else "–" for one in found.programs]
        lines.append([_title(case, costs[DRAGOMAN]), costs[DRAGOMAN].unit, *cells])
    return table(lines)


def once(found: Comparison) -> str:
    """What costs once."""
    lines = [["once", *(program.about.title for program in found.programs)]]
    lines.append(["memory when idle, MB", *(number(one.idle) for one in found.programs)])
    lines.append(["memory after the load, MB", *(number(one.loaded) for one in found.programs)])
    sizes = (one.installation for one in found.programs)
    lines.append(["installation, MB", *("–" if size is None else number(size) for size in sizes)])
    return table(lines)


def details(found: Comparison) -> str:
    """The programs, and each figure with its spread and its ratio."""
    programs = [["program", "version", "exchanges", "source", "active during the run"]]
    programs += [
        [one.about.title, one.about.version, f"{one.exchanges:,}", one.about.source, one.about.active]
        for one in found.programs
    ]
    lines = [["case", "program", "µs per", "median", "spread", "× Dragoman", "spread of ×", "exchanges a round"]]
    titles = {program.name: program.about.title for program in found.programs}
    for cost in found.costs:
        ratio = [number(cost.ratio.median), spread(cost.ratio)] if cost.program != DRAGOMAN else ["", ""]
        measured = [cost.unit, number(cost.cpu.median), spread(cost.cpu), *ratio, str(cost.exchanges)]
        lines.append([cost.case, titles[cost.program], *measured])
    said = (
        f"This run of {found.date} has {found.rounds} rounds with Python {found.python}. The yardstick took "
        f"{found.pace.median:.2f} times as long as on the reference machine ({spread(found.pace)})."
    )
    return "\n\n".join([said, table(programs), table(lines)])


def _by_case(found: Comparison) -> dict[str, dict[str, Cost]]:
    cases: dict[str, dict[str, Cost]] = {}
    for cost in found.costs:
        cases.setdefault(cost.case, {})[cost.program] = cost
    return cases


def _title(case: str, cost: Cost) -> str:
    return cost.title.removesuffix(", stream") + _MODES.get(case.partition(" ")[2], "")


def _plot(found: Comparison, unit: str) -> str:
    titles = {program.name: program.about.title for program in found.programs}
    groups = [
        Group(title=_title(case, costs[DRAGOMAN]), dots=_dots(costs, titles))
        for case, costs in _by_case(found).items()
        if costs[DRAGOMAN].unit == unit
    ]
    across = f"µs, logarithmic: median and spread of {found.rounds} rounds, {found.date}; Dragoman with records"
    return drawn(f"CPU time per {unit}", across, groups)


def _dots(costs: Mapping[str, Cost], titles: Mapping[str, str]) -> Sequence[Dot]:
    return [
        Dot(
            name=titles[name],
            median=cost.cpu.median,
            least=cost.cpu.least,
            most=cost.cpu.most,
            colour=_COLOURS.get(name, _OTHER),
        )
        for name, cost in sorted(costs.items(), key=lambda item: item[1].cpu.median)
    ]
