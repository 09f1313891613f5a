"""Cursors are read back, and nothing else is one."""

from __future__ import annotations

import pytest

from dragoman.errors import UsageError
from dragoman.records.views.cursors import format_cursor, read_cursor


def test_a_cursor_is_read_back() -> None:
    assert read_cursor(format_cursor(1_800_000_000_000_000, 7)) == (1_800_000_000_000_000, 7)


@pytest.mark.parametrize("text", ["", "7", "-7", "7-", "1-2-3", "1 -2", "x-1", "1-1 OR 1", "\uff19-1", "9" * 19 + "-1"])
def test_pitfall_442_what_is_no_cursor_is_refused_and_a_cursor_gives_no_rights(text: str) -> None:
    # The conditions of a scope are beside those of the cursor (`test_record_queries.py`).
    with pytest.raises(UsageError, match="cursor"):
        read_cursor(text)
