"""Journal reader: the lines of a journal, as far as they are whole (decision 32)."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from typing import Generic, NamedTuple, TypeVar
from zlib import crc32

import msgspec
from msgspec import Raw

from dragoman.records.first_journals import in_present_order
from dragoman.records.ids import ID_PREFIX
from dragoman.records.journal_entry import JournalEntry
from dragoman.records.old_names import with_current_names

# Bytes read at a time: few enough to stay in the processor's cache while rows are built, and to yield the interpreter
# in between, as writing does; more for a longer line, or without any valid one.
_SEGMENT_BYTES = 64 * 1024
# How lines begin behind the checksum, and how those of version 1 do.
_BEGUN_LINE, _OPENED_LINE, FINALIZED_LINE = b'["begun",', b'["opened",', b'["finalized",'
_FIRST_OPENED_LINE, _FIRST_FINALIZED_LINE = b'["open",', b'["exchange",'
_OPENED_LINES, _FINALIZED_LINES = (_OPENED_LINE, _FIRST_OPENED_LINE), (FINALIZED_LINE, _FIRST_FINALIZED_LINE)
# Nothing comes of these in the tables, right or wrong.
_UNREAD = (*_OPENED_LINES, _BEGUN_LINE)
_CHECKSUM = len(b"01234567 ")
# How an entry begins. No other array begins with such a string, and within a string there is no such quotation mark.
ENTRY = b',["%b' % ID_PREFIX.encode()
# Pause in seconds in which a thread that only reads yields the interpreter to other threads.
_BREATH = 0.00005

_decode_stored = msgspec.json.Decoder(JournalEntry).decode
_decode_opened = msgspec.json.Decoder(tuple[str, JournalEntry]).decode
_decode_finalized = msgspec.json.Decoder(tuple[str, Raw, JournalEntry]).decode
_decode_begun = msgspec.json.Decoder(tuple[str, int, str, tuple[Raw, ...]]).decode

_Read = TypeVar("_Read")


class JournalSegment(NamedTuple, Generic[_Read]):
    """The part between two offsets of a journal: finalized exchanges, and the number of damaged lines."""

    start: int
    end: int
    entries: list[_Read]
    damaged: int = 0


class JournalContents(NamedTuple):
    """A whole journal: its predecessor, and its open exchanges."""

    before: str
    open_entries: list[JournalEntry]


def read_segment(
    descriptor: int, start: int, *, until: int | None = None, is_over: bool = False
) -> JournalSegment[JournalEntry]:
    """Read entries from an offset, up to another one if given."""
    return read_lines(descriptor, start, decode_finalized, until=until, is_over=is_over)


def read_lines(
    descriptor: int, start: int, decode: Callable[[bytes], _Read], *, until: int | None = None, is_over: bool = False
) -> JournalSegment[_Read]:
    """Read finalized exchanges by a function of the text behind the checksum; the segment is empty if no complete line
    follows. Invalid lines are skipped if valid ones follow. Invalid last lines end the reading, since they may be
    incomplete, unless the writer is gone: then those with an end are skipped, too."""
    size = _SEGMENT_BYTES
    while True:
        wanted = size if until is None else min(size, until - start)
        data = os.pread(descriptor, wanted, start) if wanted > 0 else b""
        segment = _intact_segment(data, start, decode)
        if segment is None:
            segment = _damaged_segment(data, start, decode, is_over=is_over and len(data) < size)
        if len(data) < size or segment.end > start:
            return segment
        size *= 4


def _intact_segment(data: bytes, start: int, decode: Callable[[bytes], _Read]) -> JournalSegment[_Read] | None:
    """A piece in which no line is wrong but the last one, which may have no end yet; None of any other."""
    entries: list[_Read] = []
    at = 0
    try:
        while (end := data.find(b"\n", at)) >= 0:
            begin = at + _CHECKSUM
            if data.startswith(_FINALIZED_LINES, begin):
                body = data[begin:end]
                if int(data[at : begin - 1], 16) != crc32(body):
                    return None
                entries.append(decode(body))
            elif not data.startswith(_UNREAD, begin):
                return None
            at = end + 1
    except (msgspec.ValidationError, msgspec.DecodeError, ValueError):
        return None
    return JournalSegment(start, start + at, entries)


def _damaged_segment(
    data: bytes, start: int, decode: Callable[[bytes], _Read], *, is_over: bool
) -> JournalSegment[_Read]:
    entries: list[_Read] = []
    end, damaged, wrong, wrong_end = start, 0, 0, start
    for line, at in _lines(data, start):
        if not _is_intact(line):
            if line:
                wrong, wrong_end = wrong + 1, at
            elif not wrong:
                end = at
            continue
        damaged, wrong, end = damaged + wrong, 0, at
        try:
            if line.startswith(_FINALIZED_LINES, _CHECKSUM):
                entries.append(decode(line[_CHECKSUM:]))
        except (msgspec.ValidationError, msgspec.DecodeError):
            # Its checksum is right: another release wrote it in another format.
            damaged += 1
    if is_over and wrong:
        damaged, end = damaged + wrong, wrong_end
    return JournalSegment(start, end, entries, damaged)


def decode_finalized(body: bytes) -> JournalEntry:
    """The entry of a finalized exchange from the text of its line behind the checksum."""
    if body.startswith(_FIRST_FINALIZED_LINE):
        return _decode_first(body[len(_FIRST_FINALIZED_LINE) : -1])
    return with_current_names(_decode_finalized(body)[2])


def _decode_opened_line(body: bytes) -> JournalEntry:
    if body.startswith(_FIRST_OPENED_LINE):
        return _decode_first(body[len(_FIRST_OPENED_LINE) : -1])
    return with_current_names(_decode_opened(body)[1])


def _decode_begun_line(body: bytes) -> tuple[str, list[JournalEntry]]:
    """The journal before one, and the exchanges that were open there."""
    _, version, before, carried = _decode_begun(body)
    return before, [
        _decode_first(bytes(entry)) if version == 1 else with_current_names(_decode_stored(entry)) for entry in carried
    ]


def _decode_first(encoded: bytes) -> JournalEntry:
    return with_current_names(_decode_stored(in_present_order(encoded)))


def read_contents(descriptor: int) -> JournalContents:
    """Read an abandoned journal."""
    before = ""
    open_entries: dict[str, JournalEntry] = {}
    for line in _intact_lines(descriptor):
        body = line[_CHECKSUM:]
        try:
            if body.startswith(_OPENED_LINES):
                entry = _decode_opened_line(body)
                open_entries[entry.id] = entry
            elif body.startswith(_FINALIZED_LINES):
                open_entries.pop(decode_finalized(body).id, None)
            elif body.startswith(_BEGUN_LINE):
                before, carried = _decode_begun_line(body)
                open_entries.update((entry.id, entry) for entry in carried)
        except (msgspec.ValidationError, msgspec.DecodeError):
            continue
    return JournalContents(before, list(open_entries.values()))


def read_before(descriptor: int) -> str | None:
    """Which journal this one follows, "" if none; None if its first line is not whole."""
    for line in _intact_lines(descriptor):
        if not line.startswith(_BEGUN_LINE, _CHECKSUM):
            return None
        try:
            return _decode_begun_line(line[_CHECKSUM:])[0]
        except (msgspec.ValidationError, msgspec.DecodeError):
            return None
    return None


def _intact_lines(descriptor: int) -> Iterator[bytes]:
    at, rest = 0, b""
    while data := os.pread(descriptor, _SEGMENT_BYTES, at):
        at += len(data)
        *lines, rest = (rest + data).split(b"\n")
        time.sleep(_BREATH)
        for line in lines:
            if _is_intact(line):
                yield line


def _lines(data: bytes, start: int) -> Iterator[tuple[bytes, int]]:
    """Lines that have an end, and where that is."""
    at = 0
    while (end := data.find(b"\n", at)) >= 0:
        yield data[at:end], start + end + 1
        at = end + 1


def _is_intact(line: bytes) -> bool:
    return line[:9] == b"%08x " % crc32(line[9:]) and len(line) > 9


class JournalUpdate(NamedTuple):
    """A journal's changes between two offsets: exchanges opened and not settled, and ids settled but opened earlier."""

    end: int
    opened: dict[str, JournalEntry]
    finalized: list[str]


def read_update(descriptor: int, start: int) -> JournalUpdate:
    """Continue reading a journal that is being written; exchanges that were finalized meanwhile are left out."""
    size = _SEGMENT_BYTES
    while True:
        data = os.pread(descriptor, size, start)
        lines: dict[str, bytes] = {}
        carried: dict[str, JournalEntry] = {}
        finalized: list[str] = []
        end = start
        for line, at in _lines(data, start):
            if not _is_intact(line):
                continue
            end, body = at, line[_CHECKSUM:]
            if body.startswith(_OPENED_LINES):
                lines[_id_in(body)] = body
            elif body.startswith(_FINALIZED_LINES):
                name = _id_in(body)
                if lines.pop(name, None) is None:
                    carried.pop(name, None)
                    finalized.append(name)
            elif body.startswith(_BEGUN_LINE):
                carried.update((entry.id, entry) for entry in _carried(body))
        if len(data) == size and end == start:
            size *= 4
            continue
        for name, body in lines.items():
            try:
                carried[name] = _decode_opened_line(body)
            except (msgspec.ValidationError, msgspec.DecodeError):
                # Another release wrote it in another format.
                continue
        return JournalUpdate(end, carried, finalized)


OPENED, FINALIZED, CARRIED = "opened", "finalized", "carried"


class JournalChanges(NamedTuple):
    """A journal's lines between two offsets: exchanges opened in it, finalized, or carried over from the one before."""

    end: int
    changes: list[tuple[str, JournalEntry]]


def read_changes(descriptor: int, start: int) -> JournalChanges:
    """Read on from an offset of a journal that is being written; the end is the offset if no complete line follows."""
    size = _SEGMENT_BYTES
    while True:
        data = os.pread(descriptor, size, start)
        changes: list[tuple[str, JournalEntry]] = []
        end = start
        for line, at in _lines(data, start):
            if _is_intact(line):
                end = at
                changes += _changes_in(line)
        if len(data) < size or end > start:
            return JournalChanges(end, changes)
        size *= 4


def _changes_in(line: bytes) -> list[tuple[str, JournalEntry]]:
    body = line[_CHECKSUM:]
    try:
        if body.startswith(_OPENED_LINES):
            return [(OPENED, _decode_opened_line(body))]
        if body.startswith(_FINALIZED_LINES):
            return [(FINALIZED, decode_finalized(body))]
        if body.startswith(_BEGUN_LINE):
            return [(CARRIED, entry) for entry in _carried(body)]
    except (msgspec.ValidationError, msgspec.DecodeError):
        # A release with other members wrote it.
        return []
    return []


def _id_in(body: bytes) -> str:
    """The id of the entry in a line. Ids are made here, and have nothing that JSON escapes."""
    at = body.find(ENTRY) + len(b',["')
    return body[at : body.find(b'"', at)].decode("ascii", "replace")


def _carried(body: bytes) -> list[JournalEntry]:
    try:
        return _decode_begun_line(body)[1]
    except (msgspec.ValidationError, msgspec.DecodeError):
        return []
