"""Hostile shapes: requests of a given size that put as much as possible of one thing into it.

Each is what somebody would try who knows that a reader matches, sorts, follows, joins or repeats things.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator
from functools import partial

from msgspec import Struct

from tests.gateway.harness import CHAT, MESSAGES, PATHS, PROTOCOLS, RESPONSES

JSON = "application/json"


class Shape(Struct, frozen=True, kw_only=True):
    """One request: where it goes, in whose envelope it is answered, and how to make its body."""

    name: str
    protocol: str
    path: str
    make: Callable[[], bytes]
    headers: tuple[tuple[str, str], ...] = (("content-type", JSON),)


# Numbers of repeated things by which the size of one is estimated.
_PROBE = 20


def filled(make: Callable[[int], object], size: int) -> bytes:
    """The JSON of `make(n)` for an n that nearly fills so many bytes."""

    def body(count: int) -> bytes:
        return json.dumps(make(count), separators=(",", ":")).encode()

    few, more = len(body(_PROBE)), len(body(2 * _PROBE))
    count = _PROBE + (size - few) * _PROBE // (more - few)
    while len(text := body(count)) > size:
        count -= max(1, count * (len(text) - size) // len(text))
    return text


def user(protocol: str, content: object = "hi") -> dict[str, object]:
    """One message of a user."""
    return (
        {"type": "message", "role": "user", "content": content}
        if protocol == RESPONSES
        else {
            "role": "user",
            "content": content,
        }
    )


def request(protocol: str, model: str, messages: object, **more: object) -> dict[str, object]:
    """A request around some messages."""
    said = {"input": messages} if protocol == RESPONSES else {"messages": messages}
    limit = {"max_tokens": 64} if protocol == MESSAGES else {}
    return {"model": model, **limit, **said, **more}


def tool(protocol: str, name: str, schema: object, *, strict: bool = False) -> dict[str, object]:
    """A tool in a protocol's own form."""
    flag = {"strict": True} if strict else {}
    if protocol == MESSAGES:
        return {"name": name, "input_schema": schema, **flag}
    function = {"name": name, "parameters": schema, **flag}
    return {"type": "function", "function": function} if protocol == CHAT else {"type": "function", **function}


def call(protocol: str, call_id: str) -> dict[str, object]:
    """A model's call of a tool, as a message or an item of its own."""
    if protocol == MESSAGES:
        return {"role": "assistant", "content": [{"type": "tool_use", "id": call_id, "name": "t", "input": {}}]}
    if protocol == CHAT:
        made = {"id": call_id, "type": "function", "function": {"name": "t", "arguments": "{}"}}
        return {"role": "assistant", "content": None, "tool_calls": [made]}
    return {"type": "function_call", "call_id": call_id, "name": "t", "arguments": "{}"}


def result(protocol: str, call_id: str) -> dict[str, object]:
    """The result of a call."""
    if protocol == MESSAGES:
        return {"role": "user", "content": [{"type": "tool_result", "tool_use_id": call_id, "content": "r"}]}
    if protocol == CHAT:
        return {"role": "tool", "tool_call_id": call_id, "content": "r"}
    return {"type": "function_call_output", "call_id": call_id, "output": "r"}


def graph(width: int) -> dict[str, object]:
    """A schema whose definitions demand each other: every one of them all that follow."""
    names = [f"d{count}" for count in range(width)]
    definitions = {
        name: {
            "type": "object",
            "properties": {name: {"type": "string"}},
            "required": [name],
            "allOf": [{"$ref": f"#/$defs/{other}"} for other in names[count + 1 : count + 3]],
        }
        for count, name in enumerate(names)
    }
    return {"type": "object", "$defs": definitions, "allOf": [{"$ref": "#/$defs/d0"}]}


def _conversations(protocol: str, model: str) -> Iterator[tuple[str, Callable[[int], object]]]:
    """What a request of any protocol can be filled with."""
    one, other = user(protocol), {"role": "assistant", "content": "ho"}
    text = {MESSAGES: "text", CHAT: "text", RESPONSES: "input_text"}[protocol]
    say = [user(protocol)]
    yield "tiny messages", lambda n: request(protocol, model, [one] * n)
    yield "tiny turns", lambda n: request(protocol, model, [one, other] * n)
    yield "tiny parts", lambda n: request(protocol, model, [user(protocol, [{"type": text, "text": ""}] * n)])
    yield (
        "calls with results",
        lambda n: request(
            protocol, model, [one, *(made(protocol, f"c{k}") for k in range(n) for made in (call, result))]
        ),
    )
    yield (
        "calls, then results backwards",
        lambda n: request(
            protocol,
            model,
            [
                one,
                *(call(protocol, f"c{k}") for k in range(n)),
                *(result(protocol, f"c{k}") for k in reversed(range(n))),
            ],
        ),
    )
    yield (
        "calls without results",
        lambda n: request(protocol, model, [one, *(call(protocol, f"c{k}") for k in range(n))]),
    )
    yield (
        "results without calls",
        lambda n: request(protocol, model, [one, *(result(protocol, f"c{k}") for k in range(n))]),
    )
    yield (
        "one call again and again",
        lambda n: request(protocol, model, [one, *(made(protocol, "c") for _ in range(n) for made in (call, result))]),
    )
    yield "tools", lambda n: request(protocol, model, say, tools=[tool(protocol, f"t{k}", {}) for k in range(n)])
    yield "tools of one name", lambda n: request(protocol, model, say, tools=[tool(protocol, "t", {})] * n)
    yield (
        "tools with long names",
        lambda n: request(protocol, model, say, tools=[tool(protocol, "x" * 300 + str(k), {}) for k in range(n)]),
    )
    yield (
        "strict graphs",
        lambda n: request(
            protocol, model, say, tools=[tool(protocol, f"t{k}", graph(14), strict=True) for k in range(n)]
        ),
    )
    yield (
        "one strict graph",
        lambda n: request(protocol, model, say, tools=[tool(protocol, "t", graph(n), strict=True)]),
    )
    yield (
        "required names",
        lambda n: request(
            protocol,
            model,
            say,
            tools=[
                tool(
                    protocol,
                    "t",
                    {
                        "type": "object",
                        "properties": {f"p{k}": {"type": "string"} for k in range(n)},
                        "required": [f"p{k}" for k in range(n)],
                    },
                    strict=True,
                )
            ],
        ),
    )
    yield "one long word", lambda n: request(protocol, model, [user(protocol, "a" * n)])
    yield "one long line of blanks", lambda n: request(protocol, model, [user(protocol, " " * n)])
    yield "newlines", lambda n: request(protocol, model, [user(protocol, "\n" * n)])
    yield "escapes", lambda n: request(protocol, model, [user(protocol, "\u0001" * n)])
    yield "tags", lambda n: request(protocol, model, [user(protocol, "<system-reminder>" * n)])
    yield "unknown members", lambda n: request(protocol, model, say, **{f"x{k}": 1 for k in range(n)})
    yield "unknown parts", lambda n: request(protocol, model, [user(protocol, [{"type": "odd"}] * n)])
    yield "metadata", lambda n: request(protocol, model, say, metadata={f"k{k}": "v" for k in range(n)})
    yield (
        "stop sequences",
        lambda n: request(
            protocol, model, say, **{"stop_sequences" if protocol == MESSAGES else "stop": [f"s{k}" for k in range(n)]}
        ),
    )


def _own(protocol: str, model: str) -> Iterator[tuple[str, Callable[[int], object]]]:
    """What only one protocol can say."""
    if protocol == MESSAGES:
        mark = {"type": "ephemeral"}
        thought = {"type": "thinking", "thinking": "", "signature": "x"}
        yield (
            "cache marks",
            lambda n: request(
                protocol, model, [user(protocol, [{"type": "text", "text": "", "cache_control": mark}] * n)]
            ),
        )
        yield (
            "thoughts",
            lambda n: request(protocol, model, [user(protocol), {"role": "assistant", "content": [thought] * n}]),
        )
        yield (
            "system blocks",
            lambda n: request(protocol, model, [user(protocol)], system=[{"type": "text", "text": "s"}] * n),
        )
    elif protocol == CHAT:
        yield (
            "system messages between",
            lambda n: request(protocol, model, [user(protocol), {"role": "system", "content": "s"}] * n),
        )
        yield "biases", lambda n: request(protocol, model, [user(protocol)], logit_bias={str(k): 1 for k in range(n)})
    else:
        yield (
            "reasoning items",
            lambda n: request(
                protocol,
                model,
                [user(protocol), *({"type": "reasoning", "id": f"rs_{k}", "summary": []} for k in range(n))],
            ),
        )
        yield (
            "references",
            lambda n: request(protocol, model, [{"type": "item_reference", "id": f"msg_{k}"} for k in range(n)]),
        )
        yield "includes", lambda n: request(protocol, model, [user(protocol)], include=["x"] * n)


def conversations(size: int, models: dict[str, str], *, every: bool) -> Iterator[Shape]:
    """Every shape of a conversation in each protocol, for every one of the models or for one of them, in turn."""
    for number, protocol in enumerate(PROTOCOLS):
        for turn, (target, model) in enumerate(models.items()):
            for place, (name, make) in enumerate((*_conversations(protocol, model), *_own(protocol, model))):
                if every or (number + place) % len(models) == turn:
                    yield Shape(
                        name=f"{name}: {protocol} to {target}",
                        protocol=protocol,
                        path=PATHS[protocol],
                        make=partial(filled, make, size),
                    )


def envelopes(size: int) -> Iterator[Shape]:
    """What is hostile before anybody reads a conversation: codings, forms, repeated members, nesting."""
    path, model = PATHS[CHAT], "chat/served"
    plain = json.dumps(request(CHAT, model, [user(CHAT)])).encode()
    head = json.dumps({"model": model})[:-1].encode()

    def bomb(layers: int) -> bytes:
        data = plain + b" " * (8 * 1024 * 1024)
        for _ in range(layers):
            data = gzip.compress(data)
        return data

    for names, layers in (("gzip", 1), ("gzip, gzip", 2), ("gzip, gzip, gzip, gzip", 4)):
        coded = (("content-type", JSON), ("content-encoding", names))
        yield Shape(name=f"a bomb of {names}", protocol=CHAT, path=path, make=partial(bomb, layers), headers=coded)

    def many() -> bytes:
        return gzip.compress(filled(lambda n: request(CHAT, model, [user(CHAT)] * n), 8 * 1024 * 1024))

    coded = (("content-type", JSON), ("content-encoding", "gzip"))
    yield Shape(name="a bomb of tiny messages", protocol=CHAT, path=path, make=many, headers=coded)
    form = (("content-type", "multipart/form-data; boundary=x"),)
    field = b'--x\r\ncontent-disposition: form-data; name="model"\r\n'
    yield Shape(
        name="a form of nothing but the model's name",
        protocol=CHAT,
        path="/v1/audio/transcriptions",
        make=lambda: b'name="model"\r\n' * (size // 14),
        headers=form,
    )
    yield Shape(
        name="a form of the model's field alone",
        protocol=CHAT,
        path="/v1/audio/transcriptions",
        make=lambda: field * (size // len(field)),
        headers=form,
    )
    yield Shape(
        name="a form of headers",
        protocol=CHAT,
        path="/v1/audio/transcriptions",
        make=lambda: field + b"a: b\r\n" * (size // 6 - 10),
        headers=form,
    )
    plain_bodies = {
        "a member again and again": head + b',"stream":false' * ((size - len(head) - 1) // 15) + b"}",
        "a number of a hundred thousand digits": head + b',"seed":' + b"9" * (size - 100) + b"}",
        "backslashes": head + b',"user":"' + b"\\\\" * (size // 2 - 100) + b'"}',
        "quotes": b'"' * size,
    }
    for mark, end in ((b"[", b"]"), (b'{"a":', b"1" + b"}")):
        depth = (size - len(head) - 20) // (len(mark) + 1)
        body = head + b',"messages":' + mark * depth + end[:-1] + end[-1:] * depth + b"}"
        plain_bodies[f"nesting of {mark.decode()}"] = body
        plain_bodies[f"nesting of {mark.decode()}, left open"] = body[: len(body) // 2]
    for name, body in plain_bodies.items():
        yield Shape(name=name, protocol=CHAT, path=path, make=partial(bytes, body))
    for where, protocol in (("/v1/messages/count_tokens", MESSAGES), ("/v1/responses/input_tokens", RESPONSES)):
        for kind, letters in (
            ("one letter", "a"),
            ("letters and blanks", "a "),
            ("digits", "1"),
            ("Chinese", "\u4e00"),
        ):
            yield Shape(
                name=f"a count of {kind}: {protocol}",
                protocol=protocol,
                path=where,
                make=partial(filled, partial(_text, protocol, model, letters), size),
            )


def _text(protocol: str, model: str, letters: str, count: int) -> object:
    return request(protocol, model, [user(protocol, letters * count)])
