"""Usage questions: what exchanges came to between two quarters of an hour, by names, by thread, or quarter by quarter.

All of it is read from sums, which outlive the rows. A long time is put together from whole days and hours and, at its
edges, from quarters: what is left to add up is a few thousand rows, however much there was.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from typing import Any

from msgspec import Struct

from dragoman.store.errors import store_error
from dragoman.store.migrations import MEASURES

# What sums are kept by beside the time.
NAMES = ("key", "client", "provider", "model")
# What was added up, in the order of `MEASURES`.
Measures = tuple[int, ...]

_DAY, _HOUR = 96, 4
_SUMS = ", ".join(f"sum({name})" for name in MEASURES)
_COLUMNS = ", ".join(MEASURES)
_SUMMED = ", ".join(f"sum({name}) AS {name}" for name in MEASURES)
_GROUPED = ", ".join(f"g.{name}" for name in MEASURES)


class SessionName(Struct, frozen=True):
    """A session as it is called; what has no name any more is None."""

    number: int
    name: str | None
    key: str | None
    client: str | None


class ThreadName(Struct, frozen=True):
    """A thread as it is called, and its session, likewise."""

    number: int
    session: int | None
    name: str | None
    kind: str | None
    label: str | None
    session_name: str | None
    key: str | None
    client: str | None


class UsageQuestions:
    """What is asked of sums, by a connection that may only read."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db

    def first(self) -> int | None:
        """The first quarter in which there was anything; None if there never was."""
        found = self._all("SELECT min(quarter) FROM quarter_sums")[0][0]
        return None if found is None else int(found)

    def by_quarter(self, start: int, end: int) -> list[tuple[int, Measures]]:
        """What everybody came to in each quarter, in their order."""
        rows = self._all(
            f"SELECT quarter, {_COLUMNS} FROM quarter_sums WHERE quarter >= ? AND quarter < ? ORDER BY quarter",
            start,
            end,
        )
        return [(row[0], row[1:]) for row in rows]

    def by_names(self, names: Sequence[str], start: int, end: int) -> dict[tuple[str, ...], Measures]:
        """What was added up under each combination of some of `NAMES`."""
        assert names and set(names) <= set(NAMES)
        listed, count = ", ".join(names), len(names)
        found: dict[tuple[str, ...], Measures] = {}
        for span, low, high in pieces(start, end):
            where = "sums WHERE quarter" if span == 1 else f"long_sums WHERE span = {span} AND start"
            time = "quarter" if span == 1 else "start"
            for row in self._all(
                f"SELECT {listed}, {_SUMS} FROM {where} >= ? AND {time} < ? GROUP BY {listed}", low, high
            ):
                group, measures = row[:count], row[count:]
                before = found.get(group)
                found[group] = measures if before is None else tuple(map(int.__add__, before, measures))
        return found

    def by_thread(self, start: int, end: int) -> list[tuple[ThreadName, Measures]]:
        """What each thread came to; that of number 0 is all that belongs to none."""
        rows = self._all(
            f"SELECT g.thread, t.session, t.name, t.class, t.label, s.name, s.key, s.client, {_GROUPED} FROM (SELECT"
            f" thread, {_SUMMED} FROM thread_sums WHERE quarter >= ? AND quarter < ? GROUP BY thread) g"
            " LEFT JOIN threads t ON t.id = g.thread LEFT JOIN sessions s ON s.id = t.session",
            start,
            end,
        )
        return [(ThreadName(*row[:8]), row[8:]) for row in rows]

    def by_session(self, start: int, end: int) -> list[tuple[SessionName, Measures]]:
        """What each session came to; that of number 0 is all that belongs to none, and that of -1 all whose names were
        forgotten."""
        rows = self._all(
            f"SELECT g.session, s.name, s.key, s.client, {_GROUPED} FROM (SELECT"
            " CASE q.thread WHEN 0 THEN 0 ELSE coalesce(t.session, -1) END AS session,"
            f" {_SUMMED} FROM thread_sums q LEFT JOIN threads t ON t.id = q.thread"
            " WHERE quarter >= ? AND quarter < ? GROUP BY 1) g LEFT JOIN sessions s ON s.id = g.session",
            start,
            end,
        )
        return [(SessionName(*row[:4]), row[4:]) for row in rows]

    def _all(self, statement: str, *given: int) -> list[Any]:
        try:
            return self._db.execute(statement, given).fetchall()
        except sqlite3.Error as error:
            raise store_error(error) from None


def pieces(start: int, end: int) -> Iterator[tuple[int, int, int]]:
    """A time as days, hours and quarters that are kept as such: how long each is, from where and up to where."""
    yield from _pieces(start, end, (_DAY, _HOUR, 1))


def _pieces(start: int, end: int, spans: tuple[int, ...]) -> Iterator[tuple[int, int, int]]:
    if start >= end:
        return
    span, smaller = spans[0], spans[1:]
    low, high = -(-start // span) * span, end // span * span
    if low >= high:
        if smaller:
            yield from _pieces(start, end, smaller)
        return
    yield from _pieces(start, low, smaller)
    yield span, low, high
    yield from _pieces(high, end, smaller)
