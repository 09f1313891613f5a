"""Facts: lines of journals that were written by an earlier release can still be read."""

from __future__ import annotations

import msgspec

from dragoman.sessions.facts import NOTHING, Facts


def test_facts_with_fewer_members_are_read() -> None:
    assert msgspec.json.decode(b'["ses_1", "x-session-id"]', type=Facts) == Facts("ses_1", "x-session-id")
    assert msgspec.json.decode(b"[]", type=Facts) == NOTHING
