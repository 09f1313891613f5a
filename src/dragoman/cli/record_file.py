"""Record file: access to the recorded exchanges for several commands, with or without a running gateway. Journals are
ingested first."""

from __future__ import annotations

import argparse
import re
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from dragoman.cli import documents, formatting
from dragoman.cli.trust import configured
from dragoman.config.settings import Settings
from dragoman.database_location import DatabaseLocation, database_exists
from dragoman.errors import DragomanError
from dragoman.model.jsonvalue import JsonValue
from dragoman.wire.json import encode

if TYPE_CHECKING:
    from dragoman.records.time_range import Zone
    from dragoman.store.record_tables import RecordTables

_MICRO = 1_000_000
_MAX_NAME_LENGTH = 60
# The exit status if some records could not be read.
INCOMPLETE = 1


class RecordFile(Struct, frozen=True, kw_only=True):
    """The database with the recorded exchanges, and the time zone of days."""

    database: DatabaseLocation
    zone: Zone

    def since(self, text: str, now: int) -> int:
        from dragoman.records.time_range import period_of

        return period_of(self.zone, now // _MICRO, since=text, first=0).requested_since * _MICRO

    def clock(self, micro: int) -> str:
        return self.zone.local(micro // _MICRO).strftime("%H:%M:%S")

    def day(self, micro: int) -> str:
        return self.zone.local(micro // _MICRO).strftime("%Y-%m-%d")

    def moment(self, micro: int, now: int) -> str:
        """Format a time, with its date if that is not today's."""
        clock = self.clock(micro)[:5]
        day = self.day(micro)
        if day == self.day(now):
            return clock
        return f"{day[5:] if day[:4] == self.day(now)[:4] else day} {clock}"


def add_config(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--config", metavar="FILE", help="the file to read instead of the default one")


def add_since(parser: argparse.ArgumentParser, default: str) -> None:
    parser.add_argument(
        "--since",
        default=default,
        metavar="WHEN",
        help=f"24h, 7d, today, a date, or all{f' (default: {default})' if default else ''}",
    )


def find_record_file(options: argparse.Namespace) -> RecordFile:
    return record_file_of(configured(options.config))


def record_file_of(settings: Settings) -> RecordFile:
    from dragoman.records.time_range import zone_of

    storage = settings.storage
    if not storage.is_persistent:
        raise DragomanError("storage.path names no file: nothing is recorded in memory")
    if not storage.record_requests:
        documents.complain("note: storage.record_requests is false: requests are no longer recorded")
    return RecordFile(database=storage.location, zone=zone_of(storage.time_zone))


def nothing_yet(database: DatabaseLocation) -> str:
    """The message if nothing was recorded yet, with the path that was read."""
    if database_exists(database):
        return f"no requests recorded yet in {database}"
    return f"no requests recorded yet: {database} does not exist"


def now_in_micro() -> int:
    return time.time_ns() // 1000


def ingest(database: DatabaseLocation, complain: Callable[[str], None] = documents.complain) -> int:
    """Ingest journals into the database. The status is not 0 if that fails; older records can still be shown."""
    from dragoman.records.journal_ingest import ingest_all
    from dragoman.store import StoreError

    try:
        ingested = ingest_all(database, now=now_in_micro())
    except StoreError as error:
        # Another process has locked the database, or the disk is full. The database is still readable.
        complain(f"the newest requests are missing: cannot write to {database}: {error}")
        return INCOMPLETE
    if ingested.damaged:
        lines = formatting.counted(ingested.damaged, "line")
        complain(f"cannot read {lines} of journals; their requests are missing")
    return 0


class Shown(Struct, frozen=True, kw_only=True):
    """The sessions that a command shows: by a time in microseconds and a key, or by a text."""

    since: int = 0
    until: int = (1 << 63) - 1
    key: str | None = None
    session: str | None = None


def assign(database: DatabaseLocation, shown: Shown, complain: Callable[[str], None] = documents.complain) -> int:
    """Assign the sessions of these rows, and report the number of remaining ones. The status is that of `ingest`."""
    from dragoman.records.deferred_assignment import assign_scope, assign_session
    from dragoman.store import StoreError
    from dragoman.store.unassigned import RowScope

    if not database_exists(database):
        return 0
    try:
        if shown.session is None:
            left = assign_scope(database, RowScope(since=shown.since, until=shown.until, key=shown.key))
        else:
            left = assign_session(database, shown.session, shown.key)
    except StoreError as error:
        complain(f"some requests have no session yet: cannot write to {database}: {error}")
        return INCOMPLETE
    if left:
        complain_of_unassigned(left, complain)
    return 0


def complain_of_unassigned(left: int, complain: Callable[[str], None]) -> None:
    counted = formatting.counted(left, "exchange")
    complain(f"{counted} not assigned to sessions yet: the next command assigns more, as does an idle gateway")


@contextmanager
def open_records(
    record_file: RecordFile, complain: Callable[[str], None] = documents.complain, shown: Shown | None = None
) -> Iterator[tuple[RecordTables, int]]:
    """Open the tables read-only, with all journals ingested and the sessions of the shown rows assigned. Also yields
    the status."""
    from dragoman.store.record_tables import open_record_tables

    status = ingest(record_file.database, complain)
    if shown is not None:
        status = max(status, assign(record_file.database, shown, complain))
    with closing(open_record_tables(record_file.database, read_only=True)) as tables:
        yield tables, status


def once(complain: Callable[[str], None]) -> Callable[[str], None]:
    """Report the same problem only once, for repeated work."""
    seen: set[str] = set()

    def complain_once(problem: str) -> None:
        if problem not in seen:
            seen.add(problem)
            complain(problem)

    return complain_once


def name_of(text: str | None) -> str | None:
    """A name from the command line, as the database may contain it. Invalid text is replaced."""
    return None if text is None else text.encode("utf-8", "replace").decode()


def as_cell(text: str, *, full: bool = False) -> str:
    """A name from outside as a cell, in quotes if a blank could end the column; cut unless `full`."""
    text = text if full else text[:_MAX_NAME_LENGTH]
    return '"' + text.replace('"', "'") + '"' if " " in text or '"' in text else text


def write_json(value: JsonValue) -> None:
    """Write one JSON value on a line, without characters that control a terminal."""
    documents.write(as_json(value) + b"\n")


def write_view(view: Struct) -> None:
    """Write one view on a line, without characters that control a terminal."""
    documents.write(escaped(msgspec.json.encode(view)) + b"\n")


def as_json(value: JsonValue) -> bytes:
    return escaped(encode(value))


def escaped(encoded: bytes) -> bytes:
    """Escape the characters of JSON text that control a terminal."""
    # JSON escapes all other control characters of ASCII.
    if encoded.isascii() and b"\x7f" not in encoded:
        return encoded
    text = encoded.decode()
    return (text if text.isprintable() else _unprintable(_escaped, text)).encode()


# JSON escapes the control characters of ASCII.
_unprintable = re.compile(r"[^\x20-\x7e]").sub


def _escaped(match: re.Match[str]) -> str:
    if match[0].isprintable():
        return match[0]
    units = match[0].encode("utf-16-be")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))
