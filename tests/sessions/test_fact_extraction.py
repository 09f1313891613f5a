"""Hearing: facts of requests as real clients make them, and of others."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.model.jsonvalue import JsonObject
from dragoman.model.session_hints import SessionHints
from dragoman.sessions.fact_extraction import body_facts, client_of, header_facts, session_header
from dragoman.sessions.facts import MAX_ID_LENGTH, NOTHING, ExchangeFacts
from tests.sessions.invented import (
    CODEX_AGENT,
    RESPONSES,
    SESSION,
    Asked,
    claude,
    codex,
    facts_of,
    headers,
    older_claude,
    older_opencode,
    opencode,
    plain,
    user,
)


@pytest.mark.parametrize(
    ("agent", "client"),
    [
        ("claude-cli/2.1.325 (external, sdk-cli)", "claude-code"),
        ("codex_exec/0.166.0 (Linux)", "codex"),
        ("codex_cli_rs/0.50", "codex"),
        ("opencode/1.18.33 ai-sdk/5", "opencode"),
        ("GeminiCLI-tui/0.61.0/gemini-3-pro (linux; x64; terminal)", "gemini-cli"),
        ("OpenAI/Python 2.1", ""),
        ("Bun/1.3", ""),
        ("my claude-cli/2", ""),
        ("", ""),
    ],
)
def test_pitfall_518_programs_are_known_by_how_their_user_agent_begins(agent: str, client: str) -> None:
    assert client_of(agent.encode()) == client


def test_claude_code_says_all_in_headers() -> None:
    found = header_facts(
        claude(
            [],
            agent_id="a1",
            parent_agent_id="a0",
            agent_type="general-purpose",
            request_class="subagent",
            prompt_id="p1",
        ).headers
    )
    assert found == ExchangeFacts(
        session=SESSION,
        source="x-claude-code-session-id",
        thread="a1",
        parent="a0",
        said_class="subagent",
        agent="general-purpose",
        prompt="p1",
        client="claude-code",
    )


def test_a_header_that_one_client_has_names_it() -> None:
    assert header_facts([(b"x-claude-code-session-id", b"s"), (b"user-agent", b"wrapped/1")]).client == "claude-code"


@pytest.mark.parametrize(
    "told",
    [
        json.dumps({"device_id": "d", "account_uuid": "a", "session_id": SESSION}),
        f"user_{'0a' * 32}_account__session_{SESSION}",
        f"user_{'0a' * 32}_account_{SESSION}_session_{SESSION}",
    ],
)
def test_of_the_user_only_the_session_is_kept(told: str) -> None:
    asked = claude([user("go")], session="", user_id=told)
    found = facts_of(asked)
    assert (found.session, found.source) == (SESSION, "metadata.user_id")
    assert "0a0a" not in repr(found) and "device" not in repr(found)


@pytest.mark.parametrize(
    "told",
    [
        "someone@example.com",
        "{",
        "[]",
        '{"session_id":1}',
        "{}",
        "user_x_account_y_session_",
        f"see user_0a_account__session_{SESSION}",
    ],
)
def test_another_user_id_names_no_session(told: str) -> None:
    assert facts_of(claude([user("go")], session="", user_id=told)).session == ""


def test_older_clients_are_heard() -> None:
    assert facts_of(older_claude([user("go")])).session == SESSION
    for cached in (True, False):
        assert facts_of(older_opencode([user("go")], session="ses_1", cached=cached)).session == "ses_1"
    for name in ("session_id", "conversation_id"):
        older = [(b"user-agent", b"codex_cli_rs/0.40"), (name.encode(), b"s1")]
        assert header_facts(older).session == "s1"


def test_codex_says_the_same_in_a_header_and_in_the_body() -> None:
    asked = codex([user("go")], thread="t2", parent="s1", window=2)
    from_headers = header_facts(asked.headers)
    bare = Asked([(b"user-agent", CODEX_AGENT.encode())], asked.body, RESPONSES)
    from_body = facts_of(bare)
    for found in (from_headers, from_body):
        assert (found.session, found.thread, found.parent) == ("s1", "t2", "s1")
        assert (found.said_class, found.agent, found.window) == ("thread_spawn", "worker", "2")
    inner: JsonObject = {**asked.body, "client_metadata": {"x-codex-turn-metadata": json.dumps({"thread_id": "t9"})}}
    assert facts_of(Asked(bare.headers, inner, RESPONSES)).thread == "t9"
    mixed = facts_of(Asked([*bare.headers, (b"session-id", b"s0")], asked.body, RESPONSES))
    assert (mixed.session, mixed.source, mixed.thread) == ("s0", "session-id", "t2")


@pytest.mark.parametrize("metadata", ["{", "[]", '{"session_id":1}', "x" * 20_000, ""])
def test_metadata_that_cannot_be_read_say_nothing(metadata: str) -> None:
    asked = [*headers(user_agent=CODEX_AGENT, x_codex_turn_metadata=metadata), (b"session-id", b"s1")]
    assert (header_facts(asked).session, header_facts(asked).thread) == ("s1", "")


@pytest.mark.parametrize(
    ("word", "said", "agent"),
    [("collab_spawn", "collab_spawn", ""), ("review", "review", ""), ("invented", "subagent", "invented")],
)
def test_kinds_of_agents_of_codex(word: str, said: str, agent: str) -> None:
    found = header_facts(headers(user_agent=CODEX_AGENT, x_openai_subagent=word))
    assert (found.said_class, found.agent) == (said, agent)


def test_opencode_says_its_session_and_its_parent() -> None:
    found = facts_of(opencode([user("go")], session="ses_a", parent="ses_main"))
    assert (found.session, found.parent, found.source) == ("ses_a", "ses_main", "x-session-id")
    by_key = facts_of(plain([user("go")], agent="opencode/1"))
    assert by_key.session == ""


def test_a_cache_key_is_a_session_of_opencode_alone() -> None:
    body: JsonObject = {"model": "m", "input": "go", "prompt_cache_key": "ses_1"}
    assert facts_of(Asked(headers(user_agent="opencode/1"), body, RESPONSES)).session == "ses_1"
    assert facts_of(Asked(headers(user_agent="other/1"), body, RESPONSES)).session == ""
    assert facts_of(Asked(headers(user_agent="opencode/1"), {**body, "prompt_cache_key": "x"}, RESPONSES)).session == ""


def test_what_goes_on_from_what_is_kept_has_no_history_of_its_own() -> None:
    body: JsonObject = {"model": "m", "input": "go", "conversation": "conv_1"}
    found = facts_of(Asked(headers(user_agent="x"), body, RESPONSES))
    assert (found.session, found.source, found.tip, found.opening) == ("conv_1", "conversation", "", "")
    chained = facts_of(Asked([], {"model": "m", "input": "go", "previous_response_id": "resp_1"}, RESPONSES))
    assert chained.previous and not chained.tip


def test_our_own_header_goes_first() -> None:
    said = [*claude([]).headers, (b"x-dragoman-session", b"mine")]
    assert (header_facts(said).session, header_facts(said).source) == ("mine", "x-dragoman-session")
    assert session_header(said) == "mine"
    assert session_header([(b"user-agent", b"x"), (b"session_id", b"s")]) == ""
    assert session_header([(b"accept", b"*/*")]) == ""


def test_nothing_is_heard_of_who_says_nothing() -> None:
    assert header_facts([(b"host", b"h"), (b"user-agent", b"curl/8")]) is NOTHING
    assert header_facts([(b"user-agent", b"claude-cli/2")]) is header_facts([(b"user-agent", b"claude-cli/2.1")])
    assert body_facts(NOTHING, SessionHints()).session == ""


@given(st.lists(st.tuples(st.sampled_from([b"user-agent", b"originator", *map(str.encode, (
    "session-id",
    "x-claude-code-session-id",
    "x-codex-turn-metadata",
    "x-openai-subagent",
    "x-dragoman-session",
))]), st.binary(max_size=300))))  # fmt: skip
def test_whatever_headers_say_ids_are_short_and_printable(said: list[tuple[bytes, bytes]]) -> None:
    found = header_facts(said)
    for text in (found.session, found.thread, found.parent, found.said_class, found.agent, found.window, found.prompt):
        assert len(text) <= MAX_ID_LENGTH
        assert text.isprintable()
