"""A generated session of an agent: each call sends the whole history, moves its cache breakpoints and has a nonce."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator

from dragoman.contents.exchange_contents import BodySide, ExchangeContents, StoredBody

_TEXT = (
    "the file reads value error test returns list of names where each line has parser token result when cache "
    "is empty and def self return import from class None True for in not if else raise assert response request"
)
_WORDS = _TEXT.split(" ")


def exchanges(turns: int, final_history: int, *, key: str = "agent") -> Iterator[ExchangeContents]:
    """The exchanges of a session, from one protocol to another, with streamed responses."""
    chance = random.Random(7)
    size = final_history // (2 * turns)
    tools = [_tool(chance, number) for number in range(18)]
    system = _text(chance, 9000)
    history: list[dict[str, object]] = []
    for turn in range(turns):
        history.append(_asked(chance, turn, size))
        yield ExchangeContents(
            id=f"req_{turn:013x}", time=turn, key=key, bodies=_bodies(chance, turn, system, tools, history)
        )
        history.append(_replied(chance, turn, size))


def _bodies(
    chance: random.Random, turn: int, system: str, tools: list[dict[str, object]], history: list[dict[str, object]]
) -> tuple[StoredBody, ...]:
    marked = [dict(message) for message in history]
    for message in marked[-2:]:
        blocks = message["content"]
        assert isinstance(blocks, list)
        message["content"] = [*blocks[:-1], {**blocks[-1], "cache_control": {"type": "ephemeral"}}]
    request = {
        "model": "claude-test",
        "max_tokens": 32000,
        "system": [
            {"type": "text", "text": f"x-nonce: cch={chance.getrandbits(40):x};"},
            {"type": "text", "text": system, "cache_control": {"type": "ephemeral"}},
        ],
        "tools": tools,
        "messages": marked,
        "stream": True,
        "metadata": {"user_id": json.dumps({"session_id": "5b1a", "device_id": "d" * 64})},
    }
    translated = {
        "model": "gpt-test",
        "messages": [
            {"role": "system", "content": system},
            *({"role": m["role"], "content": _flat(m)} for m in history),
        ],
        "tools": [{"type": "function", "function": tool} for tool in tools],
        "stream": True,
    }
    answer = _text(chance, 400).split(" ")
    sent = "".join(
        f'event: content_block_delta\ndata: {{"type":"content_block_delta","index":0,"delta":'
        f'{{"type":"text_delta","text":"{word} "}}}}\n\n'
        for word in answer
    )
    received = "".join(
        f'data: {{"id":"chatcmpl-{turn}","object":"chat.completion.chunk","created":17,"model":"gpt-test",'
        f'"choices":[{{"index":0,"delta":{{"content":"{word} "}},"finish_reason":null}}]}}\n\n'
        for word in answer
    )
    return (
        StoredBody(side=BodySide.CLIENT_REQUEST, data=_compact(request)),
        StoredBody(side=BodySide.PROVIDER_REQUEST, attempt=1, data=_compact(translated)),
        StoredBody(side=BodySide.PROVIDER_RESPONSE, attempt=1, data=received.encode()),
        StoredBody(side=BodySide.CLIENT_RESPONSE, data=sent.encode()),
    )


def _compact(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def _flat(message: dict[str, object]) -> str:
    return json.dumps(message["content"])


def _tool(chance: random.Random, number: int) -> dict[str, object]:
    return {
        "name": f"tool_{number}",
        "description": _text(chance, 900),
        "input_schema": {
            "type": "object",
            "properties": {"path": {"type": "string", "description": _text(chance, 99)}},
        },
    }


def _asked(chance: random.Random, turn: int, size: int) -> dict[str, object]:
    block = {"type": "tool_result", "tool_use_id": f"toolu_{turn:024x}", "content": _text(chance, size)}
    return {"role": "user", "content": [block]}


def _replied(chance: random.Random, turn: int, size: int) -> dict[str, object]:
    text = {"type": "text", "text": _text(chance, size // 2)}
    call = {"type": "tool_use", "id": f"toolu_{turn + 1:024x}", "name": "tool_1", "input": {"path": _text(chance, 40)}}
    return {"role": "assistant", "content": [text, call]}


def _text(chance: random.Random, size: int) -> str:
    words: list[str] = []
    length = 0
    while length < size:
        word = chance.choice(_WORDS) if chance.random() < 0.8 else f"{chance.choice(_WORDS)}_{chance.getrandbits(16)}"
        words.append(word)
        length += len(word) + 1
    return " ".join(words)
