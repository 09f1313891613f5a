"""Generators: requests, whole answers and provider streams of every protocol, from the tables of its members."""

from __future__ import annotations

from hypothesis import strategies as st
from msgspec import Struct

from dragoman.model.jsonvalue import JsonObject, JsonValue
from tests.laws import anthropic_shapes as messages
from tests.laws import chat_shapes as chat
from tests.laws import responses_shapes as responses
from tests.laws.shapes import Record, Shape, as_list, as_object, as_text, sample, samples, strategy

MESSAGES = "anthropic-messages"
CHAT = "openai-chat"
RESPONSES = "openai-responses"
PROTOCOLS = (MESSAGES, CHAT, RESPONSES)
PAIRS = tuple((source, target) for source in PROTOCOLS for target in PROTOCOLS if source != target)

# Member by member, what a request and an answer of each protocol may hold.
FIELDS: dict[str, Record] = {MESSAGES: messages.REQUEST, CHAT: chat.REQUEST, RESPONSES: responses.REQUEST}
ANSWERS: dict[str, Record] = {MESSAGES: messages.ANSWER, CHAT: chat.ANSWER, RESPONSES: responses.ANSWER}

# The member that holds the conversation.
_CONVERSATION = {MESSAGES: "messages", CHAT: "messages", RESPONSES: "input"}
_BASE: dict[str, JsonObject] = {
    MESSAGES: {
        "model": "claude-opus-5",
        "max_tokens": 4096,
        "messages": [{"role": "user", "content": "Good morning."}],
    },
    CHAT: {"model": "gpt-5", "messages": [{"role": "user", "content": "Good morning."}]},
    RESPONSES: {"model": "gpt-5", "input": "Good morning."},
}


def requests(protocol: str) -> st.SearchStrategy[JsonObject]:
    """Requests with any of their members, and conversations in which calls mostly find their results."""
    return strategy(FIELDS[protocol]).map(as_object).map(_tidied)


def _tidied(body: JsonObject) -> JsonObject:
    """Legacy and current tools exclude each other, and so do a few other members."""
    body = dict(body)
    if "tools" in body or "tool_choice" in body:
        body.pop("functions", None)
        body.pop("function_call", None)
    if body.get("output_config") is not None:
        body.pop("output_format", None)
    if body.get("previous_response_id") is not None:
        body.pop("conversation", None)
    return body


def answers(protocol: str) -> st.SearchStrategy[JsonObject]:
    """Whole answers; the reason to stop fits what was said."""
    return strategy(ANSWERS[protocol]).map(as_object).map(_FITTED[protocol])


def _fit_messages(body: JsonObject) -> JsonObject:
    blocks = _distinct(as_list(body["content"]), "id")
    calls = any(as_object(block)["type"] == "tool_use" for block in blocks)
    reason = body["stop_reason"]
    if calls and reason not in ("max_tokens", "refusal", "model_context_window_exceeded"):
        reason = "tool_use"
    elif not calls and reason == "tool_use":
        reason = "end_turn"
    body = {**body, "content": blocks, "stop_reason": reason}
    body["stop_sequence"] = "STOP" if reason == "stop_sequence" else None
    if reason != "refusal":
        body["stop_details"] = None
    return body


def _fit_chat(body: JsonObject) -> JsonObject:
    choice = as_object(as_list(body["choices"])[0])
    message = dict(as_object(choice["message"]))
    choice = {**choice, "message": message}
    if "tool_calls" in message:
        message["tool_calls"] = _distinct(as_list(message["tool_calls"]), "id")
    if not message.get("content"):
        message.pop("annotations", None)
    message.setdefault("content", None)
    logprobs = choice.get("logprobs")
    if isinstance(logprobs, dict):
        # A probability belongs to a token that was said.
        logprobs = {
            name: entries
            for name, entries in logprobs.items()
            if message.get("content" if name == "content" else "refusal") is not None
        }
        choice["logprobs"] = logprobs or None
    calls = "tool_calls" in message or "function_call" in message
    if calls and choice.get("finish_reason") not in ("length", "content_filter", "max_tokens"):
        choice["finish_reason"] = "function_call" if "function_call" in message else "tool_calls"
    elif not calls and choice.get("finish_reason") in ("tool_calls", "tool_use"):
        choice["finish_reason"] = "stop"
    if "finish_reason" not in choice or choice["finish_reason"] is None:
        choice["finish_reason"] = "stop" if not calls else "tool_calls"
    if choice["finish_reason"] != "stop":
        choice.pop("stop_reason", None)
    usage = body.get("usage")
    body = {**body, "choices": [choice]}
    if isinstance(usage, dict):
        body["usage"] = {**usage, "total_tokens": _count(usage, "prompt_tokens") + _count(usage, "completion_tokens")}
    return body


def _fit_responses(body: JsonObject) -> JsonObject:
    items = [
        {**as_object(item), "id": f"item_{index}"}
        for index, item in enumerate(_distinct(as_list(body["output"]), "call_id"))
    ]
    body = {**body, "output": list[JsonValue](items)}
    if body["status"] == "incomplete":
        body["incomplete_details"] = body.get("incomplete_details") or {"reason": "max_output_tokens"}
    else:
        body["incomplete_details"] = None
    body["error"] = None
    usage = body.get("usage")
    if isinstance(usage, dict):
        body["usage"] = {**usage, "total_tokens": _count(usage, "input_tokens") + _count(usage, "output_tokens")}
    return body


_FITTED = {MESSAGES: _fit_messages, CHAT: _fit_chat, RESPONSES: _fit_responses}


def _count(usage: JsonObject, name: str) -> int:
    value = usage[name]
    assert isinstance(value, int)
    return value


def _distinct(values: list[JsonValue], name: str) -> list[JsonValue]:
    """Objects whose ids differ: a provider does not say the same id twice."""
    told: list[JsonValue] = []
    for index, value in enumerate(values):
        value = as_object(value)
        told.append({**value, name: f"{as_text(value[name])}_{index}"} if name in value else value)
    return told


class Case(Struct, frozen=True, kw_only=True):
    """One small document about one thing, with a sentence for it."""

    protocol: str
    name: str
    body: JsonObject

    def __str__(self) -> str:
        return f"{self.protocol}: {self.name}"


def single_requests(protocol: str) -> list[Case]:
    """Small requests, each about one member or one alternative, which together say everything that can be said."""
    base = _BASE[protocol]
    cases = [Case(protocol=protocol, name="nothing but a greeting", body=base)]
    for name, field in FIELDS[protocol].fields.items():
        if name == _CONVERSATION[protocol]:
            continue
        for number, value in enumerate(samples(field.shape)):
            body = {**base, name: value, **_companions(protocol, name, value)}
            cases.append(Case(protocol=protocol, name=f"{name} {number}", body=body))
    for name, conversation in _CONVERSATIONS[protocol]():
        cases.append(Case(protocol=protocol, name=name, body={**base, _CONVERSATION[protocol]: conversation}))
    return cases


def _companions(protocol: str, name: str, value: JsonValue) -> JsonObject:
    """What a member needs beside it to mean anything."""
    tools: dict[str, Shape] = {
        MESSAGES: messages.FUNCTION_TOOL,
        CHAT: chat.FUNCTION_TOOL,
        RESPONSES: responses.FUNCTION_TOOL,
    }
    if name in ("tool_choice", "parallel_tool_calls"):
        return {"tools": [sample(tools[protocol])]}
    if name == "function_call":
        return {"functions": [sample(chat.FUNCTION)]}
    if name in ("mcp_servers",):
        return {"tools": [sample(messages.MCP_TOOLSET)]}
    if name == "tools" and isinstance(value, list) and as_object(value[0]).get("type") == "mcp_toolset":
        return {"mcp_servers": [sample(messages.MCP_SERVER)]}
    if name == "top_logprobs" and protocol == CHAT:
        return {"logprobs": True}
    if name == "stream_options":
        return {"stream": True}
    if name == "audio":
        return {"modalities": ["text", "audio"]}
    return {}


def _label(value: JsonValue, number: int) -> str:
    kind = as_object(value).get("type", as_object(value).get("role"))
    return f"{as_text(kind)} {number}"


def _message_conversations() -> list[tuple[str, list[JsonValue]]]:
    hello: JsonValue = {"role": "user", "content": "Hello."}
    told: list[tuple[str, list[JsonValue]]] = []
    for shape in messages.USER_BLOCKS:
        for number, block in enumerate(samples(shape)):
            if as_object(block)["type"] == "tool_result":
                conversation = messages.tool_loop(sample(messages.TOOL_USE), block)
            else:
                conversation = [{"role": "user", "content": [block]}]
            told.append((f"user {_label(block, number)}", conversation))
    for shape in messages.ASSISTANT_BLOCKS:
        for number, block in enumerate(samples(shape)):
            told.append(
                (f"assistant {_label(block, number)}", [hello, {"role": "assistant", "content": [block]}, hello])
            )
    for number, block in enumerate(samples(messages.COMPACTION)):
        told.append((f"compaction {number}", [{"role": "user", "content": [block]}, hello]))
    for number, system in enumerate(samples(messages.SYSTEM_MESSAGE)):
        told.append((f"late system {number}", [hello, system]))
    for number, block in enumerate([sample(messages.TOOL_ADDITION), sample(messages.TOOL_REMOVAL)]):
        told.append((f"moved tools {number}", [hello, {"role": "system", "content": [block]}]))
    return told


def _chat_conversations() -> list[tuple[str, list[JsonValue]]]:
    hello: JsonValue = {"role": "user", "content": "Hello."}
    call: JsonValue = {"role": "assistant", "content": None, "tool_calls": [sample(chat.FUNCTION_CALL)]}
    told: list[tuple[str, list[JsonValue]]] = []
    for shape in chat.MESSAGES:
        for number, message in enumerate(samples(shape)):
            role = as_object(message)["role"]
            conversation = [hello, message]
            if role == "tool":
                conversation = [hello, call, message]
            elif role == "function":
                conversation = [hello, sample(chat.LEGACY_CALL_MESSAGE), message]
            elif role == "assistant":
                conversation = [hello, message, *_chat_results(message), hello]
            told.append((f"{_label(message, number)} of {len(told)}", conversation))
    return told


def _chat_results(message: JsonValue) -> list[JsonValue]:
    calls = as_object(message).get("tool_calls") or []
    return [{"role": "tool", "tool_call_id": as_object(call)["id"], "content": "done"} for call in as_list(calls)]


# What a result answers, by its own type.
_ANSWERED = {
    "function_call_output": responses.FUNCTION_CALL,
    "custom_tool_call_output": responses.CUSTOM_CALL,
    "computer_call_output": responses.COMPUTER_CALL,
    "local_shell_call_output": responses.LOCAL_SHELL_CALL,
    "shell_call_output": responses.SHELL_CALL,
    "apply_patch_call_output": responses.PATCH_CALL,
}


def _response_conversations() -> list[tuple[str, list[JsonValue]]]:
    hello: JsonValue = {"role": "user", "content": "Hello."}
    told: list[tuple[str, list[JsonValue]]] = []
    for shape in responses.ITEM.shapes:
        for number, item in enumerate(samples(shape)):
            kind = str(as_object(item).get("type", "message"))
            before: list[JsonValue] = [hello]
            if kind in _ANSWERED:
                before.append(sample(_ANSWERED[kind]))
            after: list[JsonValue] = [] if kind == "compaction_trigger" else [hello]
            told.append((f"{_label(item, number)} of {len(told)}", [*before, item, *after]))
    return told


_CONVERSATIONS = {MESSAGES: _message_conversations, CHAT: _chat_conversations, RESPONSES: _response_conversations}


def single_answers(protocol: str) -> list[Case]:
    """Whole answers, each about one member or one alternative."""
    fit = _FITTED[protocol]
    return [
        Case(protocol=protocol, name=f"answer {number}", body=fit(as_object(body)))
        for number, body in enumerate(samples(ANSWERS[protocol]))
    ]
