"""The table: every row says of whom it is believed, where that was seen, and how sure it is."""

from __future__ import annotations

from msgspec.structs import fields

from dragoman.sessions.facts import ExchangeFacts
from dragoman.sessions.rules import HEADER, MEMBER, PROGRAMS, RULES, SESSION_HEADERS, VERSION

# Names that somebody else might use for something else.
GENERIC = {"session-id", "session_id", "thread-id", "conversation_id", "x-session-id", "x-session-affinity"}


def test_every_row_is_complete() -> None:
    members = {field.name for field in fields(ExchangeFacts)}
    for rule in RULES:
        assert rule.location in (HEADER, MEMBER)
        assert rule.fact in members | {"turn"}
        assert rule.source
        assert 0 < rule.sure <= 100
        assert rule.client in ("", *(program.client for program in PROGRAMS))
        assert rule.field == rule.field.lower()
    assert VERSION >= 1


def test_pitfall_505_generic_names_have_a_client() -> None:
    found = {rule.field for rule in RULES if rule.field in GENERIC}
    assert found == GENERIC
    assert [rule.field for rule in RULES if rule.field in GENERIC and not rule.client] == []


def test_no_row_is_there_twice() -> None:
    rows = [(rule.client, rule.location, rule.field) for rule in RULES]
    assert len(rows) == len(set(rows))


def test_programs_are_known_by_one_sign_each() -> None:
    for program in PROGRAMS:
        assert bool(program.agent) != bool(program.originator)
        assert program.source


def test_headers_of_sessions_are_those_of_the_table() -> None:
    assert SESSION_HEADERS[b"x-session-id"] == {"opencode"}
    assert SESSION_HEADERS[b"session_id"] == {"codex", "opencode"}
    assert SESSION_HEADERS[b"x-claude-code-session-id"] == {""}
