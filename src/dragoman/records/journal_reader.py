"""Journal reader: the lines of a journal, as far as they are whole (decision 32)."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from typing import NamedTuple
from zlib import crc32

import msgspec

from dragoman.records.journal_entry import JournalEntry
from dragoman.records.old_names import with_current_names

# Bytes read at a time: few enough to stay in the processor's cache while rows are built, and to yield the interpreter
# in between, as writing does; more for a longer line, or without any valid one.
_SEGMENT_BYTES = 64 * 1024
_BEGUN, _OPEN, _EXCHANGE = b'["begun",', b'["open",', b'["exchange",'
# Nothing comes of these in the tables, right or wrong.
_UNREAD = (_OPEN, _BEGUN)
# Pause in seconds in which a thread that only reads yields the interpreter to other threads.
_BREATH = 0.00005

_decode_stored = msgspec.json.Decoder(JournalEntry).decode
_decode_begun = msgspec.json.Decoder(tuple[str, int, str, tuple[JournalEntry, ...]]).decode


class JournalSegment(NamedTuple):
    """The part between two offsets of a journal: finalized exchanges, and the number of damaged lines."""

    start: int
    end: int
    entries: list[JournalEntry]
    damaged: int = 0


class JournalContents(NamedTuple):
    """A whole journal: its predecessor, and its open exchanges."""

    before: str
    open_entries: list[JournalEntry]


def read_segment(descriptor: int, start: int, *, until: int | None = None, is_over: bool = False) -> JournalSegment:
    """Read from an offset, up to another one if given; the segment is empty if no complete line follows. Invalid lines
    are skipped if valid ones follow. Invalid last lines end the reading, since they may be incomplete, unless the
    writer is gone: then those with an end are skipped, too."""
    size = _SEGMENT_BYTES
    while True:
        wanted = size if until is None else min(size, until - start)
        data = os.pread(descriptor, wanted, start) if wanted > 0 else b""
        segment = _intact_segment(data, start) or _damaged_segment(data, start, is_over=is_over and len(data) < size)
        if len(data) < size or segment.end > start:
            return segment
        size *= 4


def _intact_segment(data: bytes, start: int) -> JournalSegment | None:
    """A piece in which no line is wrong but the last one, which may have no end yet; None of any other."""
    entries: list[JournalEntry] = []
    at = 0
    try:
        while (end := data.find(b"\n", at)) >= 0:
            if data[at + 9 : at + 21] == _EXCHANGE:
                body = data[at + 9 : end]
                if int(data[at : at + 8], 16) != crc32(body):
                    return None
                entries.append(_decode_entry(body[12:-1]))
            elif not data.startswith(_UNREAD, at + 9):
                return None
            at = end + 1
    except (msgspec.ValidationError, msgspec.DecodeError, ValueError):
        return None
    return JournalSegment(start, start + at, entries)


def _damaged_segment(data: bytes, start: int, *, is_over: bool) -> JournalSegment:
    entries: list[JournalEntry] = []
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
            if line.startswith(_EXCHANGE, 9):
                entries.append(_decode_entry(line[21:-1]))
        except (msgspec.ValidationError, msgspec.DecodeError):
            # Its checksum is right: another release wrote it in another format.
            damaged += 1
    if is_over and wrong:
        damaged, end = damaged + wrong, wrong_end
    return JournalSegment(start, end, entries, damaged)


def read_contents(descriptor: int) -> JournalContents:
    """Read an abandoned journal."""
    before = ""
    open_entries: dict[str, JournalEntry] = {}
    for line in _intact_lines(descriptor):
        try:
            if line.startswith(_OPEN, 9):
                entry = _decode_entry(memoryview(line)[17:-1])
                open_entries[entry.id] = entry
            elif line.startswith(_EXCHANGE, 9):
                open_entries.pop(_decode_stored(memoryview(line)[21:-1]).id, None)
            elif line.startswith(_BEGUN, 9):
                _, _, before, carried = _decode_begun(memoryview(line)[9:])
                open_entries.update((entry.id, with_current_names(entry)) for entry in carried)
        except (msgspec.ValidationError, msgspec.DecodeError):
            continue
    return JournalContents(before, list(open_entries.values()))


def read_before(descriptor: int) -> str | None:
    """Which journal this one follows, "" if none; None if its first line is not whole."""
    for line in _intact_lines(descriptor):
        if not line.startswith(_BEGUN, 9):
            return None
        try:
            return _decode_begun(memoryview(line)[9:])[2]
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


def _decode_entry(encoded: bytes | memoryview) -> JournalEntry:
    return with_current_names(_decode_stored(encoded))


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
            end = at
            if line.startswith(_OPEN, 9):
                lines[_id_in(line, 17)] = line
            elif line.startswith(_EXCHANGE, 9):
                name = _id_in(line, 21)
                if lines.pop(name, None) is None:
                    carried.pop(name, None)
                    finalized.append(name)
            elif line.startswith(_BEGUN, 9):
                carried.update((entry.id, with_current_names(entry)) for entry in _carried(line))
        if len(data) == size and end == start:
            size *= 4
            continue
        for name, line in lines.items():
            try:
                carried[name] = _decode_entry(memoryview(line)[17:-1])
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
    try:
        if line.startswith(_OPEN, 9):
            return [(OPENED, _decode_entry(memoryview(line)[17:-1]))]
        if line.startswith(_EXCHANGE, 9):
            return [(FINALIZED, _decode_entry(memoryview(line)[21:-1]))]
        if line.startswith(_BEGUN, 9):
            return [(CARRIED, with_current_names(entry)) for entry in _carried(line)]
    except (msgspec.ValidationError, msgspec.DecodeError):
        # A release with other members wrote it.
        return []
    return []


def _id_in(line: bytes, at: int) -> str:
    """The id of the entry that begins at a place; ids are made here, and have nothing that JSON escapes."""
    return line[at + 2 : line.find(b'"', at + 2)].decode("ascii", "replace")


def _carried(line: bytes) -> tuple[JournalEntry, ...]:
    try:
        return _decode_begun(memoryview(line)[9:])[3]
    except (msgspec.ValidationError, msgspec.DecodeError):
        return ()
