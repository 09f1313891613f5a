"""Line parts: the parts of an entry from its line in a journal (decision 44). The text of members that most exchanges
share is looked up, the details are moved as they stand there, and only what is between both is decoded."""

from __future__ import annotations

import msgspec
from msgspec.structs import astuple

from dragoman.records.journal_entry import JournalEntry
from dragoman.records.journal_reader import ENTRY, FINALIZED_LINE, decode_finalized
from dragoman.records.rows import (
    SHARED_MEMBERS,
    USUAL_END,
    EntryParts,
    OwnMembers,
    RowSummary,
    SharedColumns,
    parts_of,
)

# Combinations of shared members that are cached; then the cache begins anew.
_MAX_SHARED = 256
_SUMMARY = len(FINALIZED_LINE)
_OPENING, _CLOSING = b"[]"
# The end of a line whose details end as those of most exchanges do, and its length behind the first comma.
_USUAL_END = USUAL_END + b"]"
_USUAL = len(_USUAL_END) - 1

# A line without shared members and without details.
_decode = msgspec.json.Decoder(tuple[str, RowSummary, OwnMembers]).decode
_encode = msgspec.json.Encoder().encode


class LineParts:
    """Reads the parts of finalized exchanges, in one thread at a time."""

    def __init__(self) -> None:
        # Shared columns by the text of their members and of the comma behind them.
        self._shared: dict[bytes, SharedColumns] = {}
        # Of the last line.
        self._text, self._offset = b"nothing yet", 0
        self._columns = SharedColumns(JournalEntry("", 0))

    def read(self, body: bytes) -> EntryParts:
        """The parts of an entry from the text of its line behind the checksum."""
        # Shared members begin where those of the last line did, or else behind id and time.
        entry = body.find(ENTRY, _SUMMARY)
        start = entry + self._offset
        if not body.startswith(self._text, start):
            start = body.find(b',"', entry + len(ENTRY)) + 1
            # The first array behind shared members are the tokens. A string with the same characters is cut short, and
            # what remains of it is another text than any that is cached.
            text = body[start : body.find(b",[", start) + 1]
            if text not in self._shared:
                return self._decoded(body)
            self._text, self._offset, self._columns = text, start - entry, self._shared[text]
        # The own members end with a string, and the details begin with an array. Where a string contains the same
        # characters, the text before it is no JSON.
        own = start + len(self._text)
        details = body.find(b'",[', own) + 1
        try:
            _, summary, members = _decode(b"".join((body[:start], body[own:details], b"]]")))
            encoded = bytearray(body[details : -_USUAL if body.endswith(_USUAL_END) else -1])
            # In place of commas.
            encoded[0], encoded[-1] = _OPENING, _CLOSING
        except (msgspec.ValidationError, msgspec.DecodeError, IndexError):
            return self._decoded(body)
        return EntryParts(summary, members, self._columns, encoded)

    def _decoded(self, body: bytes) -> EntryParts:
        """The parts of an entry that is decoded; its shared columns are cached."""
        entry = decode_finalized(body)
        parts = parts_of(entry)
        if entry.tokens is not None:
            if len(self._shared) >= _MAX_SHARED:
                self._shared.clear()
            self._shared[_encode(astuple(entry)[SHARED_MEMBERS])[1:-1] + b","] = parts.shared
        return parts
