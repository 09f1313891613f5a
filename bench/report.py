"""The report: one row for each direction, one column for each workload, and who misses which target."""

from __future__ import annotations

import platform
from importlib.metadata import version
from pathlib import Path

from msgspec import Struct, json

from bench.cases import DIRECTIONS, LETTERS, TARGETS, WORKLOADS
from bench.measure import Cost, Effort
from bench.workloads import request

RESULTS = Path(__file__).parent / "results"
HEADINGS = {
    "small": "small request",
    "agent": "agent request",
    "large": "large request",
    "replay": "agent replay",
    "answer": "whole answer",
    "text/frames": "text, by frame",
    "text/whole": "text, one chunk",
    "thinking/frames": "thinking, by frame",
    "thinking/whole": "thinking, one chunk",
    "call/frames": "call, by frame",
    "call/whole": "call, one chunk",
}


class Row(Struct, frozen=True, kw_only=True):
    """What one workload costs in one direction."""

    direction: str
    workload: str
    cost: Cost

    @property
    def hit(self) -> bool:
        """Whether it stays within its target, if it has one."""
        target = TARGETS.get(self.workload)
        return target is None or self.cost.median <= target


class Machine(Struct, frozen=True, kw_only=True):
    """What was measured on, as far as it matters for the numbers."""

    python: str
    msgspec: str
    processor: str


def this_machine() -> Machine:
    """The versions and the processor here."""
    return Machine(python=platform.python_version(), msgspec=version("msgspec"), processor=_processor())


def _processor() -> str:
    information = Path("/proc/cpuinfo")
    for line in information.read_text().splitlines() if information.exists() else ():
        name, _, value = line.partition(":")
        if name.strip() == "model name":
            return value.strip()
    return platform.machine()


def table(rows: list[Row]) -> str:
    """The rows as a Markdown table in microseconds; the last column says whether every target of the row is met."""
    found = {(row.direction, row.workload): row for row in rows}
    shown = [workload for workload in WORKLOADS if any(row.workload == workload for row in rows)]
    lines = [["direction", *(HEADINGS[workload] for workload in shown), "targets"]]
    for direction in DIRECTIONS:
        here = [found.get((direction, workload)) for workload in shown]
        measured = [row for row in here if row is not None]
        if measured:
            verdict = "✓" if all(row.hit for row in measured) else "✗"
            lines.append([direction, *(_cell(row) for row in here), verdict])
    aims = [f"≤ {TARGETS[workload]:g}" if workload in TARGETS else "" for workload in shown]
    lines.append(["target", *aims, "✓" if all(row.hit for row in rows) else "✗"])
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    written = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) + " |" for line in lines
    ]
    rule = "|" + "|".join(["-" * (widths[0] + 2), *("-" * (width + 1) + ":" for width in widths[1:])]) + "|"
    return "\n".join([written[0], rule, *written[1:]])


def _cell(row: Row | None) -> str:
    if row is None:
        return ""
    cost = row.cost.median
    number = f"{cost:,.0f}" if cost >= 100 else f"{cost:.1f}" if cost >= 10 else f"{cost:.2f}"
    return number if row.hit else f"{number} ✗"


def write(rows: list[Row], effort: Effort) -> None:
    """Keep the report beside the benchmark, for people and for programs."""
    machine = this_machine()
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "translation.md").write_text(_page(rows, machine, effort))
    content = {"machine": machine, "effort": effort, "targets": TARGETS, "rows": rows}
    (RESULTS / "translation.json").write_bytes(json.format(json.encode(content), indent=2) + b"\n")


# What msgspec needs to read 317 KB of the same kind on the machine that the targets were set on, in microseconds.
_REFERENCE = 385 / 317_000


def _pace(rows: list[Row]) -> str:
    """How this machine compares with the reference, and what the agent request costs beside reading its JSON."""
    found = {(row.direction, row.workload): row.cost.median for row in rows}
    reading = {letter: found.get((f"{letter}→{letter}", "agent")) for letter in LETTERS.values()}
    paces: list[float] = []
    shares: list[str] = []
    for protocol, letter in LETTERS.items():
        spent = reading[letter]
        if spent is None:
            continue
        paces.append(spent / (len(request("agent", protocol)) * _REFERENCE))
        shares += [
            f"{direction} {cost / spent:.1f}"
            for (direction, workload), cost in found.items()
            if workload == "agent" and direction.startswith(letter) and not direction.endswith(letter)
        ]
    if not paces:
        return ""
    return f"""
The same protocol on both sides costs an agent request little more than reading its JSON. By that measure this machine
was {max(paces):.1f} times slower than the one the targets were set on. Beside that reading, an agent request costs, in
times of it: {", ".join(shares)}; the target is 3.9 times on the reference.
"""


def _page(rows: list[Row], machine: Machine, effort: Effort) -> str:
    collector = "on" if effort.collect else "off"
    return f"""# What translation costs

Written by `make bench`. Microseconds of processor time: for one request, for one whole answer of about 4 KB, and for
one frame of a stream of 200 frames, with opening and closing the translator shared out among the frames. A is Anthropic
Messages, C Chat Completions, R Responses. Requests go from the client's protocol to the provider's, answers and streams
from the provider's to the client's; the same protocol on both sides is the relay. ✗ marks a missed target.

{table(rows)}

Small is 2 KB; agent is 300 KB: 100 messages, 40 tools, thinking, calls and results; large is 2 MB. Each workload is
written natively in each protocol. The replay is the agent's request in a session whose earlier answers were translated
as well, so that the history carries the provider's reasoning in envelopes. Streams come in chunks of one frame,
or all in one chunk.

{_pace(rows).strip()}

Python {machine.python}, msgspec {machine.msgspec}, {machine.processor}.
Median of {effort.repeats} repeats of at least {effort.repeat_ns // 1_000_000} ms after a warm-up. What was alive before
is frozen, and the garbage collector is {collector} while measuring.
"""
