"""The table of the names of an entry's members."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from dragoman.records.export import FIELDS as EXPORTED
from dragoman.records.journal_entry import CallEntry, JournalEntry
from dragoman.records.record_fields import CALL_FIELDS, COLUMN_FIELDS, FIELDS, RecordField
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


def test_each_member_of_a_call_has_one_line() -> None:
    assert [field.name for field in CALL_FIELDS] == [*CallEntry.__struct_fields__]


@pytest.mark.parametrize("fields", [FIELDS, CALL_FIELDS])
def test_no_attribute_stands_for_two_members(fields: Sequence[RecordField]) -> None:
    attributes = [field.attribute for field in fields if field.attribute]
    assert len(set(attributes)) == len(attributes)
    assert all(name.startswith(("gen_ai.", "dragoman.", "http.")) for name in attributes)
    assert not {*attributes} & {*map(str, vars(genai_attributes).values())}
