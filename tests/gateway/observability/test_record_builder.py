"""The record of an exchange grows, and is finalized once."""

from __future__ import annotations

from msgspec.structs import replace

from dragoman.gateway.observability.journal_entries import FULL, finalized_entry
from dragoman.gateway.observability.record import Record
from dragoman.gateway.observability.record_builder import RecordBuilder
from dragoman.records.journal_entry import JournalEntry

BEGUN = Record(id="req_1", client_protocol="openai-chat", path="/chat/completions", started=1.0, time=1_000_000_000)


def opened(entries: list[JournalEntry]) -> RecordBuilder:
    return RecordBuilder(replace(BEGUN), lambda: 2.5, lambda record: entries.append(finalized_entry(record, FULL)))


def test_it_is_finalized_once_and_nothing_changes_its_entry_any_more() -> None:
    entries: list[JournalEntry] = []
    builder = opened(entries)
    builder.record.requested_model = "m"
    builder.finalize(200, "")
    assert builder.is_finalized
    builder.record.failure, builder.record.requested_model = "cancelled", "n"
    builder.finalize(500)
    (entry,) = entries
    assert (entry.status, entry.failure, entry.requested_model, entry.duration) == (200, "", "m", 1_500_000)


def test_only_an_error_of_our_own_leaves_no_status_behind() -> None:
    builder = opened([])
    builder.finalize()
    assert builder.record.status == 500
    started = opened([])
    started.record.status = 200
    started.finalize(failure="truncated")
    assert (started.record.status, started.record.failure) == (200, "truncated")


def test_it_calls_back_after_the_entry_is_written() -> None:
    entries: list[JournalEntry] = []
    builder = opened(entries)
    seen: list[int] = []
    builder.on_finalized = lambda: seen.append(len(entries))
    builder.finalize(200)
    builder.finalize(200)
    assert seen == [1]
