"""Hearing: facts of a request, from its headers, and from a look at its body (decision 33)."""

from __future__ import annotations

import re
from collections.abc import Iterable

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import asdict, replace

from dragoman.model.session_hints import SessionHints
from dragoman.sessions.classes import SUBAGENT, WORDS
from dragoman.sessions.facts import MOST_ID, NOTHING, ExchangeFacts, Shape
from dragoman.sessions.rules import (
    CLAUDE_CODE,
    CODEX,
    HEADER,
    OPENCODE,
    PROGRAMS,
    RULES,
    SESSION_HEADERS,
)

# How Codex names the first of its agents, which is the name of none.
_ROOT = "/root"
_AGENT, _ORIGINATOR = b"user-agent", b"originator"
_TURN = b"x-codex-turn-metadata"
_LONGEST_TURN = 16 * 1024
_HEADERS: tuple[tuple[bytes, str, str, str], ...] = tuple(
    (rule.field.encode(), rule.client, rule.says, rule.field) for rule in RULES if rule.place == HEADER
)
_NAMES = frozenset({_AGENT, _ORIGINATOR, *(name for name, _, _, _ in _HEADERS)})
# A name that only one client has says who it is, whatever that calls itself.
_CLAUDE_PREFIX = b"x-claude-code-"
# https://github.com/anthropics/claude-code: the older form of `metadata.user_id`.
_older_user = re.compile(r"user_[0-9a-f]*_account_[0-9a-f-]*_session_([0-9a-zA-Z-]+)").fullmatch
_SESSION = "ses_"
_ONLY_CLIENT: dict[str, ExchangeFacts] = {"": NOTHING}
# Clients by what they say that they are, as often as it was heard of late; others are cut.
_CLIENTS: dict[tuple[bytes, bytes], str] = {}
_MOST_CLIENTS = 256


class _User(Struct):
    """`metadata.user_id`, of which nothing else is read."""

    session_id: str = ""


class _Turn(Struct):
    """What Codex says of a request, in a header and in the body."""

    session_id: str | None = None
    thread_id: str | None = None
    parent_thread_id: str | None = None
    agent_name: str | None = None
    window_number: int | None = None
    request_kind: str | None = None
    thread_source: str | None = None
    subagent_kind: str | None = None
    # The same again, as it stands in the header.
    metadata: Raw = msgspec.field(name=_TURN.decode(), default=Raw(b""))


_USER = msgspec.json.Decoder(_User)
_TURN_OF = msgspec.json.Decoder(_Turn)
_STRING = msgspec.json.Decoder(str)


def client_of(agent: bytes, originator: bytes = b"") -> str:
    """Which program speaks, by its user agent; "" if that is not known."""
    known = _CLIENTS.get((agent, originator))
    if known is None:
        known = _client_of(agent, originator)
        if len(_CLIENTS) >= _MOST_CLIENTS:
            _CLIENTS.clear()
        _CLIENTS[agent, originator] = known
    return known


def _client_of(agent: bytes, originator: bytes) -> str:
    said, origin = agent.decode("latin-1").lower(), originator.decode("latin-1").lower()
    for program in PROGRAMS:
        if program.agent and said.startswith(program.agent):
            return program.client
        if program.originator and origin.startswith(program.originator):
            return program.client
    return ""


def heard(headers: Iterable[tuple[bytes, bytes]]) -> ExchangeFacts:
    """What headers, with their names in lower case, say of who is speaking."""
    found = dict(headers)
    client = client_of(found.get(_AGENT, b"")[:MOST_ID], found.get(_ORIGINATOR, b"")[:MOST_ID])
    named = _NAMES.intersection(found)
    if len(named) == (_AGENT in found):
        return _only(client)
    if not client and any(name.startswith(_CLAUDE_PREFIX) for name in named):
        client = CLAUDE_CODE
    said: dict[str, str] = {}
    for name, believed, says, field in _HEADERS:
        value = found.get(name)
        if not value or (believed and believed != client):
            continue
        if says == "turn":
            _take_turn(value, said)
        elif says == "said_class" and client == CODEX:
            _spawned(cleaned(value.decode("latin-1")), said)
        elif says not in said:
            said[says] = cleaned(value.decode("latin-1"))
            if says == "session":
                said["source"] = field
    return replace(_only(client), **said)


def _only(client: str) -> ExchangeFacts:
    facts = _ONLY_CLIENT.get(client)
    if facts is None:
        facts = _ONLY_CLIENT[client] = ExchangeFacts(client=client)
    return facts


def spoken(facts: ExchangeFacts, speech: SessionHints) -> ExchangeFacts:
    """The same with what the body shows."""
    said: dict[str, str] = {}
    if facts.client == CODEX and speech.metadata and not facts.thread:
        _take_turn(speech.metadata, said)
        known = asdict(facts)
        said = {name: value for name, value in said.items() if not known[name]}
    if not facts.session and "session" not in said:
        session, source = _session_in(facts.client, speech)
        if session:
            said["session"], said["source"] = session, source
    opening, tip, before = speech.opening, speech.tip, speech.before
    if speech.previous or speech.conversation:
        # What goes on from what others keep has only what is new in it, which is no history.
        opening, tip, before = "", "", ()
    if said:
        facts = replace(facts, **said)
    return replace(
        facts,
        shape=Shape(speech.instructions, speech.tools, speech.messages, speech.telling),
        opening=opening,
        tip=tip,
        before=before,
        call=speech.call,
        previous=speech.previous,
        asks=speech.asks,
        prompts=speech.prompts,
        tasks=speech.tasks,
        agents=speech.agents,
        named=speech.named,
    )


def session_header(headers: Iterable[tuple[bytes, bytes]]) -> str:
    """The session that headers name, for who needs nothing else."""
    found = [(name, value) for name, value in headers if name in SESSION_HEADERS and value]
    return heard(headers).session if found else ""


def cleaned(text: str) -> str:
    """An id or a name of a client, as far as it is kept."""
    text = text[:MOST_ID]
    return text if text.isprintable() else "".join([letter if letter.isprintable() else "?" for letter in text])


def _session_in(client: str, speech: SessionHints) -> tuple[str, str]:
    """The session that a body names, and the member that does."""
    if speech.user:
        older = _older_user(speech.user)
        if older is not None:
            return cleaned(older[1]), "metadata.user_id"
        user = _peeked_user(speech.user)
        if user:
            return cleaned(user), "metadata.user_id"
    if client == OPENCODE and speech.cache_key.startswith(_SESSION):
        return cleaned(speech.cache_key), "prompt_cache_key"
    return (cleaned(speech.conversation), "conversation") if speech.conversation else ("", "")


def _peeked_user(text: str) -> str:
    if not text.startswith("{"):
        return ""
    try:
        return _USER.decode(text).session_id
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return ""


def _take_turn(value: bytes, said: dict[str, str]) -> None:
    """Take what Codex says of a request; what cannot be read says nothing."""
    turn = _turn(value)
    if turn is None:
        return
    if memoryview(turn.metadata).nbytes:
        inner = _turn(_unquoted(turn.metadata))
        turn = turn if inner is None else inner
    for says, text in (
        ("session", turn.session_id),
        ("thread", turn.thread_id),
        ("parent", turn.parent_thread_id),
        ("agent", turn.agent_name if turn.agent_name != _ROOT else None),
        ("window", None if turn.window_number is None else str(turn.window_number)),
    ):
        if text:
            said.setdefault(says, cleaned(text))
    if "session" in said:
        said.setdefault("source", _TURN.decode())
    kind = turn.request_kind if turn.request_kind not in (None, "", "turn") else None
    word = kind or turn.subagent_kind or turn.thread_source
    if word:
        said.setdefault("said_class", cleaned(word))


def _turn(value: bytes) -> _Turn | None:
    try:
        return _TURN_OF.decode(value) if len(value) <= _LONGEST_TURN else None
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None


def _unquoted(value: Raw) -> bytes:
    try:
        return _STRING.decode(value).encode()
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return bytes(value)


def _spawned(word: str, said: dict[str, str]) -> None:
    """What kind of agent Codex says that it is; a kind that is not known is an agent of that name."""
    if word in WORDS:
        said.setdefault("said_class", word)
    else:
        said.setdefault("agent", word)
        said.setdefault("said_class", SUBAGENT)
