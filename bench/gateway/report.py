"""The report: tables of what was measured beside what must be reached, and the section of the page that holds them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct, json

from bench.gateway.rounds import APART, TOGETHER, Cost, Delay, Sample

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/internals/benchmarks.md"
# The page for users, with the figures that matter to them.
SUMMARY = ROOT / "docs/performance.md"
RESULTS = ROOT / "bench/results/gateway.json"
LAYOUT_WORDS = {
    APART: "Apart: the measured program has its own core, provider and load generator share another",
    TOGETHER: "Together: all programs share one core",
}
BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"
SUMMARY_BEGIN, SUMMARY_END = "<!-- summary: begin -->", "<!-- summary: end -->"


class Standing(Struct, frozen=True, kw_only=True):
    """What costs once: seconds and megabytes; None is "not measured"."""

    cold_start: float | None
    install: float | None
    idle: float
    loaded: float


class Result(Struct, frozen=True, kw_only=True):
    """Everything that one run found; `pace` is how many times slower than the reference this machine was."""

    costs: list[Cost]
    delays: list[Delay]
    standing: Standing
    pace: float
    rounds: int
    # How many paced chunks a read brought to a client; one if each arrived alone, None if there were none.
    paced_chunks_a_read: float | None
    # What the gateway answered, and how many lines it logged meanwhile.
    exchanges: int
    log_lines: int
    versions: dict[str, str]


def tables(result: Result) -> str:
    """The run as Markdown."""
    parts = [_notes(result)]
    for layout, words in LAYOUT_WORDS.items():
        costs = [cost for cost in result.costs if cost.layout == layout]
        delays = [delay for delay in result.delays if delay.layout == layout]
        if costs:
            parts += [f"### {words}", _costs(costs, result.pace)]
        if delays:
            parts.append(_delays(delays))
    return "\n\n".join([*parts, "### Once", _standing(result)])


def write(result: Result) -> None:
    """Put the run into its sections of both pages, and keep it for programs."""
    replace_section(PAGE, BEGIN, END, tables(result))
    replace_section(SUMMARY, SUMMARY_BEGIN, SUMMARY_END, summary(result))
    RESULTS.write_bytes(json.format(json.encode(result), indent=2) + b"\n")


def replace_section(page: Path, begin: str, end: str, section: str) -> None:
    """Put a section between its marks on a page."""
    before, first, rest = page.read_text(encoding="utf-8").partition(begin)
    _, last, after = rest.partition(end)
    if not first or not last:
        raise ValueError(f"{page.name} has lost the marks of its measured section")
    page.write_text(f"{before}{begin}\n\n{section}\n\n{end}{after}", encoding="utf-8")


def summary(result: Result) -> str:
    """The figures for users: CPU time of each case where all programs share one core, and what costs once."""
    titles = {cost.case.name: cost.case.title for cost in result.costs}
    lines = [["case", "µs per", "Dragoman", "nginx"]]
    for cost in result.costs:
        if cost.layout == TOGETHER:
            nginx, _ = _beside(cost)
            # "S1 with …" is spelled out, and a stream is burst or paced.
            first, _, rest = cost.case.title.partition(" ")
            title = f"{titles[first]} {rest}" if first in titles else cost.case.title
            mode = cost.case.label.removeprefix(cost.case.name)
            lines.append([f"{title},{mode}" if mode else title, cost.case.unit, number(cost.gateway.median), nginx])
    once = result.standing
    figures = [("memory when idle, MB", once.idle), ("memory after the load, MB", once.loaded)]
    figures += [("installation, MB", once.install)] if once.install is not None else []
    figures += [("start to the first response, s", once.cold_start)] if once.cold_start is not None else []
    return "\n\n".join(
        [table(lines), table([["once", "measured"], *([name, number(value)] for name, value in figures)])]
    )


def verdict(value: float, must: float, aim: float) -> str:
    """Where a figure stands."""
    if value <= aim:
        return "aim"
    return "yes" if value <= must else f"no, {value / must:.2f}×"


def _costs(costs: Sequence[Cost], pace: float) -> str:
    headings = ["case", "µs per", "measured", "spread", "scaled", "must reach", "aim", "reached", "reached, scaled"]
    lines = [[*headings, "nginx", "× nginx"]]
    for cost in costs:
        case, value = cost.case, cost.gateway.median
        scaled = value / pace
        lines.append(
            [
                f"{case.label}: {case.title}",
                case.unit,
                number(value),
                spread(cost.gateway),
                number(scaled),
                f"{case.must:g}",
                f"{case.aim:g}",
                verdict(value, case.must, case.aim),
                verdict(scaled, case.must, case.aim),
                *_beside(cost),
            ]
        )
    return table(lines)


def _beside(cost: Cost) -> tuple[str, str]:
    """What nginx needs, and the gateway in times of it."""
    if cost.case.floor is None:
        return "–", "–"
    if cost.nginx is None:
        return "not installed", "–"
    return number(cost.nginx.median), f"{cost.gateway.median / cost.nginx.median:.1f}"


def _standing(result: Result) -> str:
    once = result.standing
    rows: list[tuple[str, float | None, float, float, bool]] = [
        ("cold start to the first 200 on /healthz, s", once.cold_start, 0.7, 0.4, True),
        ("memory when idle, MB", once.idle, 60, 45, False),
        ("memory after the load, MB", once.loaded, 0, 0, False),
        ("installation, MB", once.install, 60, 40, False),
    ]
    lines = [["once", "measured", "scaled", "must reach", "aim", "reached", "reached, scaled"]]
    for name, value, must, aim, paced in rows:
        if value is None:
            lines.append([name, "not measured", "", f"{must:g}", f"{aim:g}", "", ""])
        elif not must:
            lines.append([name, number(value), "", "", "", "", ""])
        else:
            scaled = value / result.pace if paced else value
            verdicts = [verdict(value, must, aim), verdict(scaled, must, aim)]
            lines.append([name, number(value), number(scaled) if paced else "", f"{must:g}", f"{aim:g}", *verdicts])
    return table(lines)


def _delays(delays: Sequence[Delay]) -> str:
    lines = [["latency, µs: median / 95 of 100", "concurrent", "direct", "nginx", "gateway", "added by the gateway"]]
    for delay in delays:
        direct, through = delay.taken["direct"], delay.taken["gateway"]
        shown = [
            f"{taken.median:,.0f} / {taken.p95:,.0f}" if taken is not None else "–"
            for taken in (direct, delay.taken.get("nginx"), through)
        ]
        added = f"{through.median - direct.median:,.0f} / {through.p95 - direct.p95:,.0f}"
        lines.append([f"{delay.case.label}: {delay.case.title}", str(delay.concurrent), *shown, added])
    return table(lines)


def _notes(result: Result) -> str:
    nginx = [
        f"{cost.case.label} {cost.layout} {cost.nginx.median / cost.case.floor:.1f}"
        for cost in result.costs
        if cost.nginx is not None and cost.case.floor is not None
    ]
    versions = ", ".join(f"{name} {number}" for name, number in result.versions.items())
    lines = [
        f"The tables show median and spread of {result.rounds} rounds with {versions}.",
        f"The yardstick took {result.pace:.2f} times as long as on the reference machine. “Scaled” figures are divided "
        "by this factor.",
    ]
    if nginx:
        lines.append(f"The CPU time of nginx, divided by its reference, was {', '.join(nginx)}.")
    if result.paced_chunks_a_read is not None:
        lines.append(f"On average, one read of a client received {result.paced_chunks_a_read:.2f} paced chunks.")
    lines.append(f"The gateway logged {result.log_lines:,} lines for {result.exchanges:,} verified exchanges.")
    if result.log_lines < result.exchanges:
        lines.append("**Fewer lines than exchanges: the exchange log was not fully on, and the figures flatter.**")
    return "\n".join(lines)


def number(value: float) -> str:
    """A figure with three digits, or in whole numbers."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def spread(taken: Sample) -> str:
    """The least and the most of a sample."""
    return f"{number(taken.least)}–{number(taken.most)}"


def table(lines: list[list[str]]) -> str:
    """A table in Markdown: a first column of names, and columns of figures."""
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    written = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) + " |" for line in lines
    ]
    rule = "|" + "|".join(["-" * (widths[0] + 2), *("-" * (width + 1) + ":" for width in widths[1:])]) + "|"
    return "\n".join([written[0], rule, *written[1:]])
