"""Fact extraction: session facts of a request, from its headers and from a few members of its body (decision 33)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import asdict, replace

from dragoman.model.session_hints import SessionHints
from dragoman.sessions.classes import CLIENT_CLASS_NAMES, SUBAGENT
from dragoman.sessions.facts import MAX_ID_LENGTH, NOTHING, ExchangeFacts, Shape
from dragoman.sessions.rules import (
    CLAUDE_CODE,
    CODEX,
    HEADER,
    OPENCODE,
    PROGRAMS,
    RULES,
    SESSION_HEADERS,
)

# Codex's path of its first agent, which has no name.
_ROOT = "/root"
_AGENT, _ORIGINATOR = b"user-agent", b"originator"
_TURN = b"x-codex-turn-metadata"
_MAX_TURN_BYTES = 16 * 1024
_HEADERS: tuple[tuple[bytes, str, str, str], ...] = tuple(
    (rule.field.encode(), rule.client, rule.fact, rule.field) for rule in RULES if rule.location == HEADER
)
_NAMES = frozenset({_ORIGINATOR, *(name for name, _, _, _ in _HEADERS)})
# A header prefix that only one client uses, so it identifies the client whatever its user agent is.
_CLAUDE_PREFIX = b"x-claude-code-"
# https://github.com/anthropics/claude-code: the older form of `metadata.user_id`.
_older_user = re.compile(r"user_[0-9a-f]*_account_[0-9a-f-]*_session_([0-9a-zA-Z-]+)").fullmatch
_SESSION = "ses_"
_ONLY_CLIENT: dict[str, ExchangeFacts] = {"": NOTHING}
# Cached clients by user agent. Long user agents are truncated.
_CLIENTS: dict[tuple[bytes, bytes], str] = {}
_MAX_CLIENTS = 256


class _User(Struct):
    session_id: str = ""


class _Turn(Struct):
    """Codex's metadata of a request, in a header and in the body."""

    session_id: str | None = None
    thread_id: str | None = None
    parent_thread_id: str | None = None
    agent_name: str | None = None
    window_number: int | None = None
    request_kind: str | None = None
    thread_source: str | None = None
    subagent_kind: str | None = None
    metadata: Raw = msgspec.field(name=_TURN.decode(), default=Raw(b""))


_USER = msgspec.json.Decoder(_User)
_TURN_OF = msgspec.json.Decoder(_Turn)
_STRING = msgspec.json.Decoder(str)


def client_of(agent: bytes, originator: bytes = b"") -> str:
    client = _CLIENTS.get((agent, originator))
    if client is None:
        client = _client_of(agent, originator)
        if len(_CLIENTS) >= _MAX_CLIENTS:
            _CLIENTS.clear()
        _CLIENTS[agent, originator] = client
    return client


def _client_of(agent: bytes, originator: bytes) -> str:
    user_agent, origin = agent.decode("latin-1").lower(), originator.decode("latin-1").lower()
    for program in PROGRAMS:
        if program.agent and user_agent.startswith(program.agent):
            return program.client
        if program.originator and origin.startswith(program.originator):
            return program.client
    return ""


def header_facts(headers: Iterable[tuple[bytes, bytes]]) -> ExchangeFacts:
    """Session facts of headers with lower-case names. The first header of a name counts."""
    return facts_in(dict(reversed([*headers])))


def facts_in(headers: Mapping[bytes, bytes]) -> ExchangeFacts:
    agent = headers.get(_AGENT, b"")[:MAX_ID_LENGTH]
    if _NAMES.isdisjoint(headers):
        return _only(client_of(agent))
    client = client_of(agent, headers.get(_ORIGINATOR, b"")[:MAX_ID_LENGTH])
    if not client and any(name.startswith(_CLAUDE_PREFIX) for name in _NAMES.intersection(headers)):
        client = CLAUDE_CODE
    stated: dict[str, str] = {}
    for name, believed, fact, field in _HEADERS:
        value = headers.get(name)
        if not value or (believed and believed != client):
            continue
        if fact == "turn":
            _take_turn(value, stated)
        elif fact == "said_class" and client == CODEX:
            _spawned(cleaned(value.decode("latin-1")), stated)
        elif fact not in stated:
            stated[fact] = cleaned(value.decode("latin-1"))
            if fact == "session":
                stated["source"] = field
    return replace(_only(client), **stated)


def _only(client: str) -> ExchangeFacts:
    facts = _ONLY_CLIENT.get(client)
    if facts is None:
        facts = _ONLY_CLIENT[client] = ExchangeFacts(client=client)
    return facts


def body_facts(facts: ExchangeFacts, hints: SessionHints) -> ExchangeFacts:
    stated: dict[str, str] = {}
    if facts.client == CODEX and hints.metadata and not facts.thread:
        stated = _new_in_turn(hints.metadata, facts)
    if not facts.session and "session" not in stated and (hints.user or hints.cache_key or hints.conversation):
        session, source = _session_in(facts.client, hints)
        if session:
            stated["session"], stated["source"] = session, source
    opening, tip, before = hints.conversation_start, hints.head, hints.before
    if hints.previous or hints.conversation:
        # A continuation of stored items contains only new ones, so they are no history.
        opening, tip, before = "", "", ()
    if stated:
        facts = replace(facts, **stated)
    return replace(
        facts,
        shape=Shape(hints.instructions, hints.tools, hints.messages, hints.distinctive_tools),
        opening=opening,
        tip=tip,
        before=before,
        call=hints.call,
        previous=hints.previous,
        asks=hints.first_prompt,
        prompts=hints.prompts,
        tasks=hints.tasks,
        agents=hints.agents,
        named=hints.named,
    )


def _new_in_turn(metadata: bytes, facts: ExchangeFacts) -> dict[str, str]:
    """The facts in Codex's body metadata that its headers did not state."""
    stated: dict[str, str] = {}
    _take_turn(metadata, stated)
    existing = asdict(facts)
    return {name: value for name, value in stated.items() if not existing[name]}


def session_header(headers: Iterable[tuple[bytes, bytes]]) -> str:
    """The session in headers, for callers that need no other fact."""
    session_headers = [(name, value) for name, value in headers if name in SESSION_HEADERS and value]
    return header_facts(headers).session if session_headers else ""


def cleaned(text: str) -> str:
    """A client's ID or name in stored form."""
    text = text[:MAX_ID_LENGTH]
    return text if text.isprintable() else "".join([letter if letter.isprintable() else "?" for letter in text])


def _session_in(client: str, hints: SessionHints) -> tuple[str, str]:
    """The session that a body names, and the member that names it."""
    if hints.user:
        older = _older_user(hints.user)
        if older is not None:
            return cleaned(older[1]), "metadata.user_id"
        user = _peeked_user(hints.user)
        if user:
            return cleaned(user), "metadata.user_id"
    if client == OPENCODE and hints.cache_key.startswith(_SESSION):
        return cleaned(hints.cache_key), "prompt_cache_key"
    return (cleaned(hints.conversation), "conversation") if hints.conversation else ("", "")


def _peeked_user(text: str) -> str:
    if not text.startswith("{"):
        return ""
    try:
        return _USER.decode(text).session_id
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return ""


def _take_turn(value: bytes, stated: dict[str, str]) -> None:
    """Read Codex's metadata. Unreadable metadata is ignored."""
    turn = _turn(value)
    if turn is None:
        return
    if len(turn.metadata):
        inner = _turn(_unquoted(turn.metadata))
        turn = turn if inner is None else inner
    for fact, text in (
        ("session", turn.session_id),
        ("thread", turn.thread_id),
        ("parent", turn.parent_thread_id),
        ("agent", turn.agent_name if turn.agent_name != _ROOT else None),
        ("window", None if turn.window_number is None else str(turn.window_number)),
    ):
        if text:
            stated.setdefault(fact, cleaned(text))
    if "session" in stated:
        stated.setdefault("source", _TURN.decode())
    kind = turn.request_kind if turn.request_kind not in (None, "", "turn") else None
    word = kind or turn.subagent_kind or turn.thread_source
    if word:
        stated.setdefault("said_class", cleaned(word))


def _turn(value: bytes) -> _Turn | None:
    try:
        return _TURN_OF.decode(value) if len(value) <= _MAX_TURN_BYTES else None
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None


def _unquoted(value: Raw) -> bytes:
    try:
        return _STRING.decode(value).encode()
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return bytes(value)


def _spawned(word: str, stated: dict[str, str]) -> None:
    """The kind of a Codex agent. An unknown kind is an agent of that name."""
    if word in CLIENT_CLASS_NAMES:
        stated.setdefault("said_class", word)
    else:
        stated.setdefault("agent", word)
        stated.setdefault("said_class", SUBAGENT)
