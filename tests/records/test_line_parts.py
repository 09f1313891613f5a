"""Lines of journals as rows: those of the short way are those that the decoded entry comes to."""

from __future__ import annotations

from pathlib import Path
from zlib import crc32

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from dragoman.records.journal import Journal
from dragoman.records.journal_entry import ANSWERED, CONVERSATION, CRASHED, JournalEntry, LossEntry, TokenCounts
from dragoman.records.journal_reader import decode_finalized
from dragoman.records.line_parts import LineParts
from dragoman.records.rows import Batch, EntryParts, details_of
from dragoman.sessions.facts import ExchangeFacts, Shape
from tests.records.filled import some_entries
from tests.records.invented import entry

# Strings that look like what is between two parts of a line.
_ODD = st.sampled_from(['",[', ',["', ",[", '],["', ",", '"', "\\", "x,[", '","', "[[", "\n", "é", '",[[],', "null"])
_TEXT = st.one_of(st.just(""), _ODD, st.text(max_size=5), st.lists(_ODD, max_size=4).map("".join))
_NAMES = (
    *("outcome", "kind", "key", "client", "program", "path", "requested_model", "model", "reason", "failure"),
    *("stop_reason", "tags", "provider_request_id", "response_id", "refusal", "trace"),
)
_FACTS = st.builds(
    ExchangeFacts, session=_TEXT, client=_TEXT, tip=_TEXT, opening=_TEXT, shape=st.sampled_from([None, Shape(1, 2, 3)])
)
_ENTRIES = st.builds(
    lambda base, members: replace(base, **members),
    st.integers(0, 10**6).map(lambda seed: some_entries(seed, 1)[0][0]),
    st.fixed_dictionaries({}, optional={**dict.fromkeys(_NAMES, _TEXT), "facts": _FACTS, "stream": st.booleans()}),
)


def lines_of(tmp_path: Path, entries: list[JournalEntry]) -> list[bytes]:
    """The lines of finalized exchanges behind their checksums, as a journal writes them."""
    journal = Journal(tmp_path)
    for each in entries:
        assert journal.finalize(each)
    assert journal.path is not None
    _, *lines = journal.path.read_bytes().splitlines()
    journal.close()
    assert all(int(line[:8], 16) == crc32(line[9:]) for line in lines)
    return [line[9:] for line in lines]


def written(parts: EntryParts) -> tuple[object, ...]:
    """All that a batch makes of an exchange."""
    batch = Batch()
    batch.add_parts(parts)
    return batch.rows, batch.rollups(), batch._unassigned, batch._listed, batch._by_tags


def decoded(body: bytes) -> tuple[object, ...]:
    """The same, from the entry."""
    batch = Batch()
    batch.add_unassigned(decode_finalized(body))
    return batch.rows, batch.rollups(), batch._unassigned, batch._listed, batch._by_tags


@given(entries=st.lists(_ENTRIES, min_size=1, max_size=4))
def test_lines_come_to_what_their_entries_come_to(
    entries: list[JournalEntry], tmp_path_factory: pytest.TempPathFactory
) -> None:
    reader = LineParts()
    # The second time all that can be cached is.
    for body in lines_of(tmp_path_factory.mktemp("journal"), entries) * 2:
        assert written(reader.read(body)) == decoded(body)


def test_equal_members_are_decoded_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entries = [
        entry(1),
        replace(entry(2), duration=7, facts=ExchangeFacts(session="s", shape=Shape(messages=1))),
        replace(entry(3, money=None), losses=(LossEntry("sampling", "dropped"),), response_id='a",[b'),
        entry(4, model="small"),
        entry(5),
        replace(entry(6, model="small"), provider_request_id="1,[[2"),
    ]
    bodies = lines_of(tmp_path, entries)
    expected = [decoded(body) for body in bodies]
    names: list[str] = []

    def decode(body: bytes) -> JournalEntry:
        names.append((told := decode_finalized(body)).id)
        return told

    monkeypatch.setattr("dragoman.records.line_parts.decode_finalized", decode)
    reader = LineParts()
    assert [written(reader.read(body)) for body in bodies] == expected
    # What is no JSON where it is cut is decoded.
    assert names == [entry(number).id for number in (1, 3, 4)]


@pytest.mark.parametrize(
    "told",
    [entry(1, tokens=None), entry(1, outcome=CRASHED, status=0), replace(entry(1), tokens=TokenCounts(), cost=None)],
)
def test_an_exchange_without_tokens_or_cost_is_read(tmp_path: Path, told: JournalEntry) -> None:
    bodies = lines_of(tmp_path, [replace(told, id=f"req_{number}") for number in range(3)])
    reader = LineParts()
    assert [written(reader.read(body)) for body in bodies] == [decoded(body) for body in bodies]


def test_the_cache_begins_anew_where_it_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dragoman.records.line_parts._MAX_SHARED", 3)
    entries = [entry(number, model=f"model {number % 5}") for number in range(20)]
    reader = LineParts()
    for body in lines_of(tmp_path, entries):
        assert written(reader.read(body)) == decoded(body)
        assert len(reader._shared) <= 3


@pytest.mark.parametrize("body", [b'["finalized",7]', b'["finalized",[],[]]', b'["exchange",[]]'])
def test_a_line_in_another_format_is_refused(body: bytes) -> None:
    with pytest.raises(msgspec.ValidationError):
        LineParts().read(body)


def test_a_line_that_ends_early_is_read_as_far_as_it_is_known_or_refused(tmp_path: Path) -> None:
    (body,) = lines_of(tmp_path, [entry(1)])
    reader = LineParts()
    reader.read(body)
    known = 0
    for end in (b"]", b"]]", b',"",[],null]]', b",[]]]", b'"]]'):
        for cut in range(13, len(body)):
            shorter = body[:cut] + end
            try:
                told = decode_finalized(shorter)
            except (msgspec.ValidationError, msgspec.DecodeError):
                continue
            parts = reader.read(shorter)
            details = details_of(bytes(parts.details))
            assert (parts.own[0], details.calls, details.cost) == (told.id, told.calls, told.cost)
            known += 1
    assert known > 20


def test_a_line_of_version_1_comes_to_the_same() -> None:
    reader = LineParts()
    parts = reader.read(b'["exchange",["req_1",7,"answered","conversation","alice"]]')
    assert written(parts) == decoded(b'["exchange",["req_1",7,"answered","conversation","alice"]]')
    assert (parts.own[:2], parts.shared.members[:3]) == (("req_1", 7), (ANSWERED, CONVERSATION, "alice"))
