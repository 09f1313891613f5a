"""Journals of version 1: each member has its place, and what was open is carried over."""

from __future__ import annotations

import os
from pathlib import Path
from zlib import crc32

import msgspec
import pytest

from dragoman.records.first_journals import FIRST_MEMBERS, in_present_order
from dragoman.records.journal_entry import JournalEntry
from dragoman.records.journal_reader import CARRIED, FINALIZED, OPENED, read_changes, read_contents, read_update
from tests.records.filled import some_entries


def as_before(entry: JournalEntry, count: int = len(FIRST_MEMBERS)) -> bytes:
    """An entry as version 1 wrote it, or as an earlier release did, with fewer members."""
    return msgspec.json.encode([getattr(entry, name) for name in FIRST_MEMBERS[:count]])


def test_an_entry_has_its_members_in_another_order() -> None:
    assert sorted(FIRST_MEMBERS) == sorted(JournalEntry.__struct_fields__)
    for entry, _ in some_entries(1, 50):
        assert msgspec.json.decode(in_present_order(as_before(entry)), type=JournalEntry) == entry


def test_members_that_are_missing_have_their_defaults_and_unknown_ones_are_left_out() -> None:
    assert msgspec.json.decode(in_present_order(b'["req_1",7]'), type=JournalEntry) == JournalEntry("req_1", 7)
    later = [*msgspec.to_builtins(JournalEntry("req_1", 7)), "more"]
    assert len(later) == len(FIRST_MEMBERS) + 1
    ((entry, _),) = some_entries(2, 1)
    more = as_before(entry)[:-1] + b',"more"]'
    assert msgspec.json.decode(in_present_order(more), type=JournalEntry) == entry


@pytest.mark.parametrize("text", [b"[]", b'["req_1"]', b"{}", b"7"])
def test_an_entry_without_id_or_time_is_refused(text: bytes) -> None:
    with pytest.raises(msgspec.ValidationError):
        in_present_order(text)


def test_all_lines_are_read(tmp_path: Path) -> None:
    (carried, opened, finalized) = (entry for entry, _ in some_entries(3, 3))
    bodies = [
        b'["begun",1,"before.log",[%b]]' % as_before(carried),
        b'["open",%b]' % as_before(opened),
        b'["open",%b]' % as_before(finalized),
        b'["exchange",%b]' % as_before(finalized),
    ]
    path = tmp_path / "1-1-1.log"
    path.write_bytes(b"".join([b"%08x %b\n" % (crc32(body), body) for body in bodies]))
    descriptor = os.open(path, os.O_RDONLY)
    try:
        contents = read_contents(descriptor)
        assert (contents.before, contents.open_entries) == ("before.log", [carried, opened])
        assert read_changes(descriptor, 0).changes == [
            (CARRIED, carried),
            (OPENED, opened),
            (OPENED, finalized),
            (FINALIZED, finalized),
        ]
        assert read_update(descriptor, 0).opened == {carried.id: carried, opened.id: opened}
    finally:
        os.close(descriptor)
