"""Metrics as a scraper reads them, and records to count."""

from __future__ import annotations

import re

from dragoman.gateway.observability.journal_entries import FULL, finalized_entry
from dragoman.gateway.observability.log_columns import thread_in
from dragoman.gateway.observability.metrics import Metrics
from dragoman.gateway.observability.prometheus import render
from dragoman.gateway.observability.record import LogDetails, Record
from dragoman.records.journal_entry import JournalEntry

LINE = re.compile(r'([a-z_]+)(?:\{((?:[a-z_]+="(?:[^"\\\n]|\\["\\n])*",?)*)\})? (\S+)')
LABEL = re.compile(r'([a-z_]+)="((?:[^"\\\n]|\\["\\n])*)"')
Series = tuple[str, tuple[tuple[str, str], ...]]


def read(text: bytes) -> dict[Series, float]:
    """Prometheus text, read strictly: every line is one, and no series stands there twice."""
    found: dict[Series, float] = {}
    kinds: dict[str, str] = {}
    assert text.endswith(b"\n")
    for line in text.decode().removesuffix("\n").split("\n"):
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            assert name not in kinds
            kinds[name] = kind
            continue
        if line.startswith("# HELP "):
            continue
        match = LINE.fullmatch(line)
        assert match, line
        series = (match[1], tuple(LABEL.findall(match[2] or "")))
        assert series not in found, line
        assert re.sub(r"_(bucket|sum|count)$", "", match[1]) in kinds or match[1] in kinds
        found[series] = float(match[3])
    return found


def total(found: dict[Series, float], name: str, **labels: str) -> float:
    """The sum of the series of one name that have these labels."""
    return sum(
        value for (series, given), value in found.items() if series == name and labels.items() <= dict(given).items()
    )


def record(model: str = "gpt-5.1", status: int = 200, *, provider: str = "openai", seconds: float = 0.2) -> Record:
    return Record(
        id="req_1",
        client_protocol="anthropic-messages",
        path="/messages",
        started=100.0,
        time=0,
        provider=provider,
        model=model,
        provider_protocol="openai-chat",
        status=status,
        ended=100.0 + seconds,
    )


def finalized(told: Record) -> JournalEntry:
    return finalized_entry(told, FULL)


def logged(told: Record) -> tuple[JournalEntry, LogDetails]:
    return finalized(told), LogDetails(told.address, told.path, told.refusal, told.advice, told.at_door)


def count_in(metrics: Metrics, told: Record) -> None:
    """Count a record as the log has it counted."""
    entry = finalized(told)
    metrics.count(entry, thread_in(entry), 0 if entry.cost is None else entry.cost.total)


def counted(*records: Record) -> dict[Series, float]:
    metrics = Metrics()
    for told in records:
        count_in(metrics, told)
    return read(render([metrics.snapshot()]))
