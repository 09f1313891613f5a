"""Session facts of requests that continue an earlier one, against facts without any memory of it."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.gateway.forwarding.provider_request import glance_at
from dragoman.gateway.observability.session_facts import LONG_HISTORY, SessionFacts
from dragoman.gateway.paths import api_path_of
from dragoman.gateway.prefix_cache import PrefixCache
from dragoman.model.jsonvalue import JsonObject, JsonValue
from dragoman.sessions.facts import ExchangeFacts
from tests.gateway.harness import PATHS
from tests.sessions.invented import CHAT, MESSAGES, RESPONSES

PAD = "word " * (LONG_HISTORY // 4)
REMINDER = "<system-reminder>The date has changed.</system-reminder>"
LONG = "You are an invented agent, and never touch the files of others."
BREAKPOINT: JsonObject = {"cache_control": {"type": "ephemeral"}}
MEMBERS = {MESSAGES: "messages", CHAT: "messages", RESPONSES: "input"}

# What is said: the kind of a message, a text, and the number of a call.
Said = tuple[str, str, int]
_kinds = ("user", "assistant", "call", "agent", "result", "system", "parts", "thinking", "odd")
_said = st.tuples(
    st.sampled_from(_kinds),
    st.sampled_from(
        ["a", "b", "", REMINDER, f"c\n\n{LONG}", "Ok.", "task_id: ses_1", "I am not sharing any files yet."]
    ),
    st.integers(0, 3),
)


def _arguments(text: str) -> JsonObject:
    return {"prompt": f"look {text}", "subagent_type": "explorer"}


def _as_messages(said: Said) -> JsonObject:
    kind, text, number = said
    match kind:
        case "call" | "agent":
            name = "Agent" if kind == "agent" else "Bash"
            call: JsonObject = {"type": "tool_use", "id": f"c{number}", "name": name, "input": _arguments(text)}
            return {"role": "assistant", "content": [{"type": "text", "text": text}, call]}
        case "result":
            block: JsonObject = {"type": "tool_result", "tool_use_id": f"c{number}", "content": text}
            return {"role": "user", "content": [block, {"type": "text", "text": REMINDER}]}
        case "parts":
            return {"role": "user", "content": [{"type": "text", "text": text}, {"type": "text", "text": "more"}]}
        case "thinking":
            return {"role": "assistant", "content": [{"type": "thinking", "thinking": text, "signature": "s"}]}
        case "odd":
            return {"role": "user", "content": text, "unknown": [{"role": "user"}]}
    return {"role": kind, "content": text}


def _as_chat(said: Said) -> JsonObject:
    kind, text, number = said
    match kind:
        case "call" | "agent":
            name = "task" if kind == "agent" else "bash"
            function: JsonObject = {"name": name, "arguments": json.dumps(_arguments(text))}
            return {
                "role": "assistant",
                "content": text or None,
                "tool_calls": [{"id": f"c{number}", "function": function}],
            }
        case "result":
            return {"role": "tool", "tool_call_id": f"c{number}", "content": text}
        case "parts":
            return {"role": "user", "content": [{"type": "text", "text": text}, {"type": "text", "text": "more"}]}
        case "thinking":
            return {"role": "assistant", "content": text, "reasoning_details": []}
        case "odd":
            return {"content": text, "role": "developer"}
    return {"role": kind, "content": text}


def _as_items(said: Said) -> JsonObject:
    kind, text, number = said
    match kind:
        case "call" | "agent":
            name = "spawn_agent" if kind == "agent" else "shell"
            arguments = json.dumps({"message": text, "agent_type": "explorer"})
            return {"type": "function_call", "call_id": f"c{number}", "name": name, "arguments": arguments}
        case "result":
            return {"type": "function_call_output", "call_id": f"c{number}", "output": text}
        case "parts":
            return {"role": "user", "content": [{"type": "input_text", "text": text}]}
        case "thinking":
            return {"type": "reasoning", "id": "r", "summary": []}
        case "odd":
            return {"type": "web_search_call", "id": f"w{number}"}
    return {"type": "message", "role": kind, "content": text}


WRITTEN = {MESSAGES: _as_messages, CHAT: _as_chat, RESPONSES: _as_items}


@st.composite
def _requests(draw: st.DrawFn) -> list[tuple[list[Said], str, bool, bool]]:
    """The requests of a conversation that grows, is edited, and goes on: the history, the instructions, whether the
    latest message has a cache breakpoint, and whether there is white space."""
    history: list[Said] = [("user", f"{draw(st.sampled_from('gh'))} {PAD}", 0), *draw(st.lists(_said, max_size=12))]
    spaced = draw(st.booleans())
    requests = []
    for _ in range(draw(st.integers(2, 5))):
        change = draw(st.sampled_from(["append", "append", "append", "edit", "cut", "insert", "swap", "same"]))
        at = draw(st.integers(0, len(history) - 1))
        if change == "append":
            history = history + draw(st.lists(_said, min_size=1, max_size=4))
        elif change == "edit":
            history = [*history[:at], draw(_said), *history[at + 1 :]]
        elif change == "cut" and at:
            history = history[:at]
        elif change == "insert":
            history = [*history[:at], draw(_said), *history[at:]]
        elif change == "swap":
            history = [*history[at:], *history[:at]]
        instructions = draw(st.sampled_from([LONG, LONG, LONG, "You are another.", ""]))
        requests.append((history, instructions, draw(st.booleans()), spaced))
    return requests


def _body(protocol: str, history: Sequence[Said], instructions: str, *, marked: bool, spaced: bool) -> bytes:
    written: list[JsonValue] = []
    for number, said in enumerate(history):
        message = WRITTEN[protocol](said)
        if marked and number == len(history) - 1:
            message = {**message, **BREAKPOINT}
        written.append(message)
    body: JsonObject = {"model": "m", MEMBERS[protocol]: written}
    if protocol == CHAT:
        written.insert(0, {"role": "system", "content": instructions})
        body["tools"] = [{"type": "function", "function": {"name": "task"}}]
    else:
        body["system" if protocol == MESSAGES else "instructions"] = instructions
        body["tools"] = [{"name": "task", "type": "function"}]
    return json.dumps(body, separators=None if spaced else (",", ":")).encode()


def _facts(session_facts: SessionFacts, protocol: str, body: bytes) -> ExchangeFacts:
    glance, _ = glance_at(body, api_path_of(PATHS[protocol]))
    return session_facts.facts([], "alice", glance)


@pytest.mark.parametrize("protocol", [MESSAGES, CHAT, RESPONSES])
@given(requests=_requests())
def test_facts_do_not_depend_on_earlier_requests(
    protocol: str, requests: list[tuple[list[Said], str, bool, bool]]
) -> None:
    continued, whole = SessionFacts(), SessionFacts()
    whole._secret = continued._secret
    for history, instructions, marked, spaced in requests:
        body = _body(protocol, history, instructions, marked=marked, spaced=spaced)
        whole.prefixes = PrefixCache(max_bytes=0)
        assert _facts(continued, protocol, body) == _facts(whole, protocol, body)


@pytest.mark.parametrize("protocol", [MESSAGES, CHAT, RESPONSES])
def test_only_what_is_new_is_read(protocol: str, monkeypatch: pytest.MonkeyPatch) -> None:
    history: list[Said] = [("user", PAD, 0)]
    for number in range(20):
        history += [("call", "a", number), ("result", "b", number)]
    session_facts = SessionFacts()
    _facts(session_facts, protocol, _body(protocol, history, LONG, marked=True, spaced=False))
    more: list[Said] = [*history, ("assistant", "c", 0), ("user", "d", 0)]
    glance, _ = glance_at(_body(protocol, more, LONG, marked=True, spaced=False), api_path_of(PATHS[protocol]))
    monkeypatch.setattr(type(glance), "_read", lambda _: pytest.fail("all messages are read"))
    facts = session_facts.facts([], "alice", glance)
    monkeypatch.undo()
    assert facts.tip
    assert facts.shape is not None
    assert facts.shape.messages == len(more)
    # What is asked of all messages is read then.
    assert glance.request_features().tools
    assert PAD.strip() in glance.conversation_start().text


def test_another_key_has_a_history_of_its_own() -> None:
    session_facts = SessionFacts()
    body = _body(CHAT, [("user", PAD, 0), *[("user", "a", 0)] * 20], LONG, marked=False, spaced=False)
    assert session_facts.prefixes.size == 0
    _facts(session_facts, CHAT, body)
    size = session_facts.prefixes.size
    glance, _ = glance_at(body, api_path_of(PATHS[CHAT]))
    session_facts.facts([], "bob", glance)
    assert session_facts.prefixes.size > size > 0
