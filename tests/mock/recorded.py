"""Conversations that are held with echo and with the mock alike, so that every byte of theirs can be recorded."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

from msgspec import Struct

Json = dict[str, object]

MESSAGES, CHAT, RESPONSES = "anthropic-messages", "openai-chat", "openai-responses"
PROTOCOLS = (MESSAGES, CHAT, RESPONSES)
MODELS = (
    *("text", "tools", "parallel", "thinking", "agent", "json"),
    *("refusal", "long", "slow", "error", "failing", "broken"),
)
PATHS = {MESSAGES: "/messages", CHAT: "/chat/completions", RESPONSES: "/responses"}
_PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
_SCHEMA: Json = {
    "type": "object",
    "properties": {
        "city": {"type": "string"},
        "days": {"type": "integer", "minimum": 3},
        "when": {"anyOf": [{"type": "string", "format": "date"}, {"type": "null"}]},
    },
    "required": ["city", "days", "when"],
    "additionalProperties": False,
}
_WORDS = "Hello there, say 12 words or 503, für alle 世界."


class Told(Struct, frozen=True, kw_only=True):
    """What came back: the status, the headers, and pieces with the rests before them; `broken` has no end."""

    status: int
    headers: list[tuple[str, str]]
    pieces: list[tuple[float, str]]
    broken: bool = False

    def body(self) -> Json:
        """A whole answer."""
        value = json.loads("".join([text for _, text in self.pieces]))
        assert isinstance(value, dict)
        return value


# Protocol, method, path and body.
Ask = Callable[[str, str, str, bytes], Told]


def dialogues(ask: Ask, prefix: str) -> Iterator[tuple[str, Told]]:
    """Every exchange with its name; `prefix` stands before the names of the models."""
    for protocol in PROTOCOLS:
        for model in MODELS:
            for name, body in _bodies(protocol):
                for stream in (False, True):
                    told = _asked(ask, protocol, {**body, "model": prefix + model, **_streamed(protocol, stream)})
                    yield f"{protocol} {model} {name} {'streamed' if stream else 'whole'}", told
        yield from _next_turns(ask, protocol, prefix)
        yield from _refused(ask, protocol, prefix)
        yield from _other_paths(ask, protocol, prefix)


def _asked(ask: Ask, protocol: str, body: Json) -> Told:
    return ask(protocol, "POST", PATHS[protocol], json.dumps(body).encode())


def _streamed(protocol: str, stream: bool) -> Json:
    if not stream:
        return {}
    return {"stream": True, "stream_options": {"include_usage": True}} if protocol == CHAT else {"stream": True}


def _bodies(protocol: str) -> Iterator[tuple[str, Json]]:
    """Requests of one turn."""
    yield "plain", _said(protocol, _WORDS)
    yield "tools", {**_said(protocol, _WORDS), "tools": _tools(protocol), **_thinking(protocol, on=True)}
    yield "no thinking", {**_said(protocol, _WORDS), "tools": _tools(protocol), **_thinking(protocol, on=False)}
    yield "shown", _said(protocol, _shown(protocol))
    yield "schema", {**_said(protocol, _WORDS), **_output(protocol)}
    yield "cap", {**_said(protocol, _WORDS), **_cap(protocol), "tools": _tools(protocol)}
    yield "choice", {**_said(protocol, _WORDS), "tools": _tools(protocol), **_choice(protocol)}
    if protocol == MESSAGES:
        yield "stop", {**_said(protocol, _WORDS), "stop_sequences": ["say", "brown"], "system": "Be brief."}
    if protocol == CHAT:
        yield "stop", {**_said(protocol, _WORDS), "stop": ["say", "brown"]}
        functions = [{"name": "look", "parameters": _SCHEMA}]
        yield "functions", {**_said(protocol, _WORDS), "functions": functions}


def _said(protocol: str, content: object) -> Json:
    message: Json = {"role": "user", "content": content}
    if protocol == MESSAGES:
        return {"max_tokens": 2000, "messages": [message]}
    return {"input" if protocol == RESPONSES else "messages": [{"role": "developer", "content": "Be brief."}, message]}


def _cap(protocol: str) -> Json:
    return {"max_output_tokens": 16} if protocol == RESPONSES else {"max_tokens": 5}


def _tools(protocol: str) -> list[Json]:
    if protocol == MESSAGES:
        return [{"name": name, "description": "Looks.", "input_schema": _SCHEMA} for name in ("look", "find")]
    if protocol == CHAT:
        made: list[Json] = [
            {"type": "function", "function": {"name": name, "parameters": _SCHEMA}} for name in ("look", "find")
        ]
        return [*made, {"type": "custom", "custom": {"name": "write"}}]
    made = [{"type": "function", "name": name, "parameters": _SCHEMA, "strict": True} for name in ("look", "find")]
    return [*made, {"type": "custom", "name": "write"}]


def _choice(protocol: str) -> Json:
    if protocol == MESSAGES:
        return {"tool_choice": {"type": "tool", "name": "find"}}
    if protocol == CHAT:
        return {"tool_choice": {"type": "custom", "custom": {"name": "write"}}}
    return {"tool_choice": {"type": "custom", "name": "write"}, "parallel_tool_calls": False}


def _thinking(protocol: str, *, on: bool) -> Json:
    if protocol == MESSAGES:
        return {"thinking": {"type": "enabled", "budget_tokens": 1024} if on else {"type": "disabled"}}
    if protocol == CHAT:
        return {"reasoning_effort": "high" if on else "none"}
    include: Json = {"include": ["reasoning.encrypted_content"], "store": False}
    return {"reasoning": {"effort": "high", "summary": "auto"} if on else {"effort": "none"}, **include}


def _output(protocol: str) -> Json:
    if protocol == MESSAGES:
        return {"output_config": {"format": {"type": "json_schema", "schema": _SCHEMA}}}
    named: Json = {"name": "trip", "schema": _SCHEMA, "strict": True}
    if protocol == CHAT:
        return {"response_format": {"type": "json_schema", "json_schema": named}}
    return {"text": {"format": {"type": "json_schema", **named}}}


def _shown(protocol: str) -> list[Json]:
    inline, far = f"data:image/png;base64,{_PIXEL}", "https://example.org/a.png"
    if protocol == MESSAGES:
        return [
            {"type": "text", "text": "Look:"},
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": _PIXEL}},
            {"type": "image", "source": {"type": "url", "url": far}},
            {"type": "document", "title": "Notes", "source": {"type": "text", "media_type": "text/plain", "data": "é"}},
        ]
    if protocol == CHAT:
        return [
            {"type": "text", "text": "Look:"},
            {"type": "image_url", "image_url": {"url": inline}},
            {"type": "image_url", "image_url": {"url": far}},
            {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBERi0="}},
        ]
    return [
        {"type": "input_text", "text": "Look:"},
        {"type": "input_image", "image_url": inline, "detail": "auto"},
        {"type": "input_image", "image_url": far, "detail": "auto"},
        {"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBERi0="},
    ]


def _next_turns(ask: Ask, protocol: str, prefix: str) -> Iterator[tuple[str, Told]]:
    """Results of calls, and thoughts that come back: as they were told, and forged."""
    for model in ("tools", "parallel", "agent"):
        first = {**_said(protocol, _WORDS), "tools": _tools(protocol), **_thinking(protocol, on=True)}
        first["model"] = prefix + model
        answer = _asked(ask, protocol, first).body()
        body = _with_results(protocol, first, answer)
        for stream in (False, True):
            told = _asked(ask, protocol, {**body, **_streamed(protocol, stream)})
            yield f"{protocol} {model} results {'streamed' if stream else 'whole'}", told
        forged = json.dumps(body).replace("EqsD", "EqsE").replace("gAAAAAB", "gAAAAAC")
        yield f"{protocol} {model} forged", ask(protocol, "POST", PATHS[protocol], forged.encode())


def _with_results(protocol: str, body: Json, answer: Json) -> Json:
    history = body["input" if protocol == RESPONSES else "messages"]
    assert isinstance(history, list)
    if protocol == MESSAGES:
        blocks = _objects(answer["content"])
        results: list[Json] = [
            {"type": "tool_result", "tool_use_id": block["id"], "content": "Rain.", "is_error": number > 0}
            for number, block in enumerate(_calls(blocks, "tool_use"))
        ]
        said: list[Json] = [{"role": "assistant", "content": blocks}, {"role": "user", "content": results}]
        return {**body, "messages": [*history, *said]}
    if protocol == CHAT:
        message = _objects(answer["choices"])[0]["message"]
        assert isinstance(message, dict)
        made = _objects(message["tool_calls"])
        results = [{"role": "tool", "tool_call_id": call["id"], "content": "Rain."} for call in made]
        return {**body, "messages": [*history, message, *results]}
    items = _objects(answer["output"])
    results = [
        {"type": "function_call_output", "call_id": call["call_id"], "output": "Rain."}
        for call in _calls(items, "function_call")
    ]
    return {**body, "input": [*history, *items, *results]}


def _objects(value: object) -> list[Json]:
    assert isinstance(value, list)
    return value


def _calls(blocks: list[Json], kind: str) -> list[Json]:
    return [block for block in blocks if block["type"] == kind]


def _refused(ask: Ask, protocol: str, prefix: str) -> Iterator[tuple[str, Told]]:
    """What is wrong with a request."""
    body: Json = {**_said(protocol, "Hi."), "model": prefix + "text"}
    orphans: dict[str, Json] = {
        MESSAGES: {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "x"}]},
        CHAT: {"role": "tool", "tool_call_id": "call_1", "content": "x"},
        RESPONSES: {"type": "function_call_output", "call_id": "call_1", "output": "x"},
    }
    slot = "input" if protocol == RESPONSES else "messages"
    wrong: dict[str, object] = {
        "unknown model": {**body, "model": "nobody"},
        "no model": _said(protocol, "Hi."),
        "no cap": {name: value for name, value in body.items() if name != "max_tokens"},
        "no messages": {**body, slot: []},
        "two answers": {**body, "n": 2},
        "previous": {**body, "previous_response_id": "resp_1"},
        "conversation": {**body, "conversation": "conv_1"},
        "orphan": {**body, slot: [orphans[protocol]]},
        "wrong type": {**body, slot: 5},
        "unknown role": {**body, slot: [{"role": "nobody", "content": "x"}]},
        "list": [],
    }
    for name, value in wrong.items():
        yield f"{protocol} {name}", ask(protocol, "POST", PATHS[protocol], json.dumps(value).encode())
    for name, raw in (("no JSON", b"{"), ("empty", b""), ("deep", b'{"a":' * 100_000 + b"1" + b"}" * 100_000)):
        yield f"{protocol} {name}", ask(protocol, "POST", PATHS[protocol], raw)
    for status in (400, 401, 402, 403, 404, 409, 413, 422, 429, 500, 502, 503, 504, 529):
        said = {**_said(protocol, f"Fail with {status}."), "model": prefix + "error"}
        yield f"{protocol} error {status}", _asked(ask, protocol, said)


def _other_paths(ask: Ask, protocol: str, prefix: str) -> Iterator[tuple[str, Told]]:
    """Counts, vectors, lists of models, and what is nowhere."""
    count = {MESSAGES: "/messages/count_tokens", RESPONSES: "/responses/input_tokens", CHAT: "/chat/count"}[protocol]
    for name, body in _bodies(protocol):
        raw = json.dumps({**body, "model": prefix + "text"}).encode()
        yield f"{protocol} count {name}", ask(protocol, "POST", count, raw)
    yield f"{protocol} count nobody", ask(protocol, "POST", count, b'{"model":"nobody","messages":[],"input":[]}')
    inputs: tuple[Json, ...] = (
        {"input": "a b"},
        {"input": ["a", "b c"], "dimensions": 3, "encoding_format": "base64"},
        {"input": [1, 2]},
        {"input": []},
        {"input": "a", "dimensions": 5000},
        {"input": "a", "model": "nobody"},
    )
    for number, given in enumerate(inputs):
        raw = json.dumps({"model": "embedding", **given}).encode()
        yield f"{protocol} embeddings {number}", ask(protocol, "POST", "/embeddings", raw)
    for path in ("/models", "/models/", f"/models/{prefix}agent", "/models/nobody", "/v1/models", "/nowhere"):
        yield f"{protocol} GET {path}", ask(protocol, "GET", path, b"")
    for method, path in (("POST", "/models"), ("GET", PATHS[protocol]), ("DELETE", PATHS[protocol])):
        yield f"{protocol} {method} {path}", ask(protocol, method, path, b"")
