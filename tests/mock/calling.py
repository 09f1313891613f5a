"""What the tests of `echo` share: questions in each protocol, calls, and the next turn of a conversation."""

from __future__ import annotations

import asyncio
import json

from dragoman.http.upstream_call import UpstreamRequest
from dragoman.mock.echo_call import EchoCall
from tests.sdk.names import CHAT, MESSAGES, RESPONSES

Json = dict[str, object]

PROTOCOLS = (MESSAGES, CHAT, RESPONSES)
URLS = {MESSAGES: "echo:/v1/messages", CHAT: "echo:/chat/completions", RESPONSES: "echo:/responses"}
CITY: Json = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
LIMIT = 10_000_000
# Far beyond what anything here takes: a test that hangs ends.
PATIENCE = 60.0


def tool(protocol: str, name: str) -> Json:
    """A function as each protocol declares it."""
    if protocol == MESSAGES:
        return {"name": name, "input_schema": CITY}
    if protocol == CHAT:
        return {"type": "function", "function": {"name": name, "parameters": CITY}}
    return {"type": "function", "name": name, "parameters": CITY, "strict": False}


def declared(protocol: str, *names: str) -> list[Json]:
    """Functions as each protocol declares them."""
    return [tool(protocol, name) for name in names]


def question(
    protocol: str, model: str, text: str = "Hello there", *, tools: tuple[str, ...] = (), **more: object
) -> Json:
    """A request with one message."""
    said: list[Json] = [{"role": "user", "content": text}]
    body: Json = {"model": model, "input" if protocol == RESPONSES else "messages": said}
    if protocol == MESSAGES:
        body["max_tokens"] = 1000
    if tools:
        body["tools"] = declared(protocol, *tools)
    return {**body, **more}


def capped(protocol: str, cap: int) -> Json:
    """The member that limits an answer."""
    return {"max_output_tokens" if protocol == RESPONSES else "max_tokens": cap}


def fly(protocol: str, body: object, url: str | None = None, method: str = "POST") -> EchoCall:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return EchoCall(UpstreamRequest(method=method, url=url or URLS[protocol], headers=[], body=raw), protocol)


async def collected(flight: EchoCall) -> list[bytes]:
    """The pieces of an answer."""
    pieces: list[bytes] = []
    await flight.head()
    await flight.pump(pieces.append)
    flight.close()
    return pieces


def pieces(protocol: str, body: Json) -> list[bytes]:
    async def run() -> list[bytes]:
        async with asyncio.timeout(PATIENCE):
            return await collected(fly(protocol, body))

    return asyncio.run(run())


def streamed(protocol: str, body: Json) -> bytes:
    """A streamed answer."""
    more: Json = {"stream": True}
    if protocol == CHAT:
        more["stream_options"] = {"include_usage": True}
    return b"".join(pieces(protocol, {**body, **more}))


def asked(protocol: str, body: object, url: str | None = None, method: str = "POST") -> tuple[int, Json]:
    """Status and JSON of a whole answer."""

    async def run() -> tuple[int, bytes]:
        async with asyncio.timeout(PATIENCE):
            flight = fly(protocol, body, url, method)
            await flight.head()
            read = await flight.read(LIMIT)
            flight.close()
            return flight.status, read

    status, read = asyncio.run(run())
    found: object = json.loads(read)
    assert isinstance(found, dict)
    return status, found


def answered(protocol: str, body: Json) -> Json:
    """A whole answer that succeeded."""
    status, found = asked(protocol, body)
    assert status == 200, found
    return found


def message_of(protocol: str, error: Json) -> str:
    """The words of an error, in the envelope of its protocol."""
    inner = error["error"]
    assert isinstance(inner, dict)
    if protocol == MESSAGES:
        assert error["type"] == "error" and isinstance(error["request_id"], str)
    else:
        assert set(inner) == {"message", "type", "param", "code"}
    message = inner["message"]
    assert isinstance(message, str)
    return message


def _objects(value: object) -> list[Json]:
    assert isinstance(value, list)
    return value


def blocks_of(protocol: str, answer: Json) -> list[Json]:
    """What an answer consists of: blocks, the one message, or items."""
    if protocol == MESSAGES:
        return _objects(answer["content"])
    if protocol == RESPONSES:
        return _objects(answer["output"])
    message = _objects(answer["choices"])[0]["message"]
    assert isinstance(message, dict)
    return [message]


def text_of(protocol: str, answer: Json) -> str:
    """The text of an answer."""
    blocks = blocks_of(protocol, answer)
    if protocol == MESSAGES:
        return "".join([str(block["text"]) for block in blocks if block["type"] == "text"])
    if protocol == CHAT:
        return str(blocks[0]["content"] or "")
    contents = [part for item in blocks if item["type"] == "message" for part in _objects(item["content"])]
    return "".join([str(part["text"]) for part in contents if part["type"] == "output_text"])


def calls_of(protocol: str, answer: Json) -> list[tuple[str, str, object]]:
    """The calls of an answer: id, name and arguments."""
    blocks = blocks_of(protocol, answer)
    if protocol == MESSAGES:
        return [(str(b["id"]), str(b["name"]), b["input"]) for b in blocks if b["type"] == "tool_use"]
    if protocol == RESPONSES:
        made = [b for b in blocks if b["type"] == "function_call"]
        return [(str(b["call_id"]), str(b["name"]), json.loads(str(b["arguments"]))) for b in made]
    found = []
    for call in _objects(blocks[0].get("tool_calls") or []):
        function = call["function"]
        assert isinstance(function, dict)
        found.append((str(call["id"]), str(function["name"]), json.loads(str(function["arguments"]))))
    return found


def finish_of(protocol: str, answer: Json) -> object:
    """Why an answer ended, in its protocol's words."""
    if protocol == MESSAGES:
        return answer["stop_reason"]
    if protocol == CHAT:
        return _objects(answer["choices"])[0]["finish_reason"]
    return answer["incomplete_details"] or answer["status"]


def next_turn(protocol: str, body: Json, answer: Json, results: tuple[str, ...] = (), text: str = "") -> Json:
    """The conversation with the answer in it, then results for its calls or another message of the user."""
    history = _objects(body["input" if protocol == RESPONSES else "messages"])
    blocks = blocks_of(protocol, answer)
    said: list[Json] = [{"role": "assistant", "content": blocks}] if protocol == MESSAGES else blocks
    given = zip([call[0] for call in calls_of(protocol, answer)], results, strict=True)
    following: list[Json]
    if protocol == MESSAGES:
        told = [{"type": "tool_result", "tool_use_id": call_id, "content": result} for call_id, result in given]
        following = [{"role": "user", "content": told}] if told else []
    elif protocol == CHAT:
        following = [{"role": "tool", "tool_call_id": call_id, "content": result} for call_id, result in given]
    else:
        following = [
            {"type": "function_call_output", "call_id": call_id, "output": result} for call_id, result in given
        ]
    if text:
        following.append({"role": "user", "content": text})
    return {**body, "input" if protocol == RESPONSES else "messages": [*history, *said, *following]}
