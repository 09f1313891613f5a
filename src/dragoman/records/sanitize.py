"""Mending: an entry as it can be written, whatever clients and providers call themselves and count."""

from __future__ import annotations

import msgspec

from dragoman.records.journal_entry import JournalEntry

# Maximum of a column: one entry must not overflow the totals either.
_MAX_NUMBER = 1 << 50


def sanitize_entry(entry: JournalEntry) -> JournalEntry:
    """The same, with texts that have a form in UTF-8 and numbers that can be added up."""
    return msgspec.convert(_sanitize_value(msgspec.to_builtins(entry)), JournalEntry)


def _sanitize_value(value: object) -> object:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, int) and not isinstance(value, bool):
        # Times are about as large as that.
        return max(-_MAX_NUMBER, min(value, 2 * _MAX_NUMBER))
    if isinstance(value, list | tuple):
        return [_sanitize_value(each) for each in value]
    return value
