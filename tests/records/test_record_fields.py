"""The table of the names of an entry's members."""

from __future__ import annotations

from dragoman.records.export import FIELDS as EXPORTED
from dragoman.records.journal_entry import JournalEntry
from dragoman.records.record_fields import ATTRIBUTE_FIELDS, COLUMN_FIELDS, FIELDS
from dragoman.records.rows import DETAILS
from dragoman.store.records import RecordRow
from dragoman.telemetry import genai_attributes


def test_each_member_of_an_entry_has_one_line() -> None:
    assert sorted(field.name for field in FIELDS) == sorted(JournalEntry.__struct_fields__)


def test_each_member_is_in_a_column_or_among_the_details() -> None:
    columns = {field.name for field in COLUMN_FIELDS}
    assert {field.column for field in COLUMN_FIELDS} < set(RecordRow.__struct_fields__)
    # Tokens have a column for each class, and the cost one for the total.
    assert columns | {*DETAILS, "tokens"} == set(JournalEntry.__struct_fields__)
    assert not columns & set(DETAILS)
    assert {*EXPORTED.values()} >= {field.column for field in COLUMN_FIELDS}


def test_no_attribute_stands_for_two_members() -> None:
    attributes = [field.attribute for field in ATTRIBUTE_FIELDS]
    assert len(set(attributes)) == len(attributes)
    assert all(name.startswith(("gen_ai.", "dragoman.")) for name in attributes)
    # A span of a call names its provider and protocol as that of its exchange does.
    shared = {genai_attributes.CALL_PROVIDER, genai_attributes.CALL_PROTOCOL}
    assert {*attributes} & {*map(str, vars(genai_attributes).values())} == shared
