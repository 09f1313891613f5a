"""By what a conversation is known."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.routing.affinity_key import MAX_TEXT_LENGTH, conversation_key, response_key

SESSION = [(b"host", b"h"), (b"x-dragoman-session", b"s")]


def test_what_is_more_exact_goes_first() -> None:
    keys = [
        conversation_key(
            "k", conversation="c", previous="p", cache_key="a", headers=SESSION, instructions="i", first_message="o"
        ),
        conversation_key("k", previous="p", cache_key="a", headers=SESSION, instructions="i", first_message="o"),
        conversation_key("k", cache_key="a", headers=SESSION, instructions="i", first_message="o"),
        conversation_key("k", headers=SESSION, instructions="i", first_message="o"),
        conversation_key("k", instructions="i", first_message="o"),
    ]
    assert keys == [
        conversation_key("k", conversation="c"),
        response_key("k", "p"),
        conversation_key("k", cache_key="a"),
        conversation_key("k", headers=SESSION),
        conversation_key("k", instructions="i", first_message="o", headers=[(b"host", b"other")]),
    ]
    assert len(set(keys)) == 5


@pytest.mark.parametrize(
    ("agent", "name"),
    [
        (b"curl/8", b"x-dragoman-session"),
        (b"curl/8", b"x-claude-code-session-id"),
        (b"codex_exec/1", b"session-id"),
        (b"codex_exec/1", b"session_id"),
        (b"opencode/1", b"x-session-id"),
        (b"opencode/1", b"session_id"),
    ],
)
def test_a_session_is_named_by_one_of_several_headers(agent: bytes, name: bytes) -> None:
    named = conversation_key("k", headers=[(b"user-agent", agent), (name, b"s")])
    assert named == conversation_key("k", headers=SESSION)


@pytest.mark.parametrize("name", [b"session-id", b"session_id", b"x-session-id"])
def test_pitfall_505_names_that_anybody_might_use_are_believed_of_their_client_alone(name: bytes) -> None:
    assert conversation_key("k", headers=[(b"user-agent", b"curl/8"), (name, b"s")]) == ""


def test_a_session_header_without_a_value_is_none() -> None:
    empty = (b"x-claude-code-session-id", b"")
    assert conversation_key("k", headers=[empty, *SESSION]) == conversation_key("k", headers=SESSION)


def test_the_same_word_in_another_place_is_another_conversation() -> None:
    keys = {
        conversation_key("k", conversation="x"),
        conversation_key("k", previous="x"),
        conversation_key("k", cache_key="x"),
        conversation_key("k", headers=[(b"x-dragoman-session", b"x")]),
        conversation_key("k", first_message="x"),
        conversation_key("k", instructions="x", first_message="x"),
        conversation_key("x", first_message="k"),
    }
    assert len(keys) == 7


@given(st.text(max_size=5), st.text(max_size=5), st.text(max_size=5, min_size=1), st.text(max_size=5, min_size=1))
def test_pitfall_362_nobody_meets_the_conversation_of_another_gateway_key(
    one: str, other: str, first: str, second: str
) -> None:
    same = (one, first) == (other, second)
    assert (conversation_key(one, cache_key=first) == conversation_key(other, cache_key=second)) == same
    assert (conversation_key(one, first_message=first) == conversation_key(other, first_message=second)) == same


def test_pitfall_358_instructions_alone_are_no_conversation() -> None:
    assert conversation_key("k", instructions="You are a program that all use.") == ""


def test_pitfall_358_a_thousand_conversations_have_a_thousand_keys() -> None:
    keys = {
        conversation_key("k", instructions="the same", first_message=f"question {number}") for number in range(1000)
    }
    assert len(keys) == 1000


def test_no_more_than_the_beginning_of_a_text_is_looked_at() -> None:
    long = "x" * MAX_TEXT_LENGTH
    assert conversation_key("k", first_message=long + "a") == conversation_key("k", first_message=long + "b")
    assert conversation_key("k", first_message=long[:-1] + "a") != conversation_key("k", first_message=long[:-1] + "b")
    assert conversation_key("k", first_message="ü" * MAX_TEXT_LENGTH) == conversation_key(
        "k", first_message="ü" * MAX_TEXT_LENGTH + "a"
    )
    assert conversation_key("k", first_message="\ud800") != conversation_key("k", first_message="\udfff")
