"""Growing histories: random conversations of every shape that a protocol has, as an agent resends them call by call."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from random import Random

from msgspec import Struct

from dragoman.model.jsonvalue import JsonList, JsonObject, JsonValue
from dragoman.wire.json import encode
from tests.laws.strategies import CHAT, MESSAGES, RESPONSES, single_requests

HISTORY = {MESSAGES: "messages", CHAT: "messages", RESPONSES: "input"}
PROTOCOLS = (MESSAGES, CHAT, RESPONSES)
# Targets that differ in how they want a history written: protocol, model, vendor.
TARGETS = (
    (MESSAGES, "claude-opus-4-8", "anthropic"),
    (MESSAGES, "claude-sonnet-4-5", "anthropic"),
    (MESSAGES, "glm-5", "zai"),
    (CHAT, "gpt-5.4", "openai"),
    (CHAT, "deepseek-v4-pro", "deepseek"),
    (CHAT, "mistral-large-latest", "mistral"),
    (CHAT, "kimi-k2.5", "moonshot"),
    (CHAT, "gemini-3-pro", "google"),
    (CHAT, "local", "vllm"),
    (RESPONSES, "gpt-5.4", "openai"),
    (RESPONSES, "grok-4", "xai"),
)
# A cache has no use for small arrays.
_PADDING = "The quick brown fox jumps over the lazy dog. " * 220


class Call(Struct, frozen=True):
    """One call of an agent: the request, and where it goes."""

    source: str
    target: tuple[str, str, str]
    body: bytes


@cache
def _fragments(protocol: str) -> list[list[JsonValue]]:
    """Pieces of conversations, each about one shape."""
    name = HISTORY[protocol]
    pieces: list[list[JsonValue]] = []
    for case in single_requests(protocol):
        history = case.body.get(name)
        if isinstance(history, list) and history:
            pieces.append(history)
    return pieces


def _loop(protocol: str, random: Random) -> JsonList:
    """A step of an agent with a call and its result; ids repeat now and then."""
    call_id = f"call_{random.randrange(400)}" if random.random() < 0.95 else f"functions.read:{random.randrange(3)}"
    path = f'{{"path":"src/{random.randrange(99)}.py"}}'
    text = random.choice(["", " ", "I read a file.", "Ich lese 😀."])
    result = "x" * random.randrange(200)
    if protocol == MESSAGES:
        blocks: JsonList = [{"type": "text", "text": text}] if text else []
        blocks.append({"type": "tool_use", "id": call_id, "name": "read", "input": {"path": path}})
        answer: JsonObject = {"type": "tool_result", "tool_use_id": call_id, "content": result}
        return [{"role": "assistant", "content": blocks}, {"role": "user", "content": [answer]}]
    if protocol == CHAT:
        call: JsonObject = {"id": call_id, "type": "function", "function": {"name": "read", "arguments": path}}
        return [
            {"role": "assistant", "content": text or None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": call_id, "content": result},
        ]
    said: JsonList = [{"type": "message", "role": "assistant", "content": text}] if text else []
    return [
        *said,
        {"type": "function_call", "call_id": call_id, "name": "read", "arguments": path},
        {"type": "function_call_output", "call_id": call_id, "output": result},
    ]


def _tools(protocol: str, number: int, description: str) -> JsonList:
    schema: JsonObject = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
    names = ["read", "write", "a name with blanks", *[f"tool_{index}" for index in range(number)]]
    if protocol == MESSAGES:
        return [{"name": name, "description": description, "input_schema": schema} for name in names]
    if protocol == CHAT:
        return [
            {"type": "function", "function": {"name": name, "description": description, "parameters": schema}}
            for name in names
        ]
    return [{"type": "function", "name": name, "description": description, "parameters": schema} for name in names]


def calls(seed: int, length: int = 8, *, is_short: bool = False) -> Iterator[Call]:
    """The calls of one agent: its history grows, and sometimes changes in another way. Short ones are too short for a
    cache of histories."""
    random = Random(seed)
    padding, description = ("Hello.", "Works on files.") if is_short else (_PADDING, "Works on files. " * 40)
    # Short ones are mostly of the usual shapes.
    share_of_loops = 0.9 if is_short else 0.6
    source = random.choice(PROTOCOLS)
    target = random.choice([one for one in TARGETS if one[0] != source])
    greeting: JsonObject = {"role": "user", "content": f"{seed} {padding}"}
    if source == RESPONSES:
        greeting["type"] = "message"
    history: JsonList = [greeting]
    if source != MESSAGES and random.random() < 0.5:
        history.insert(0, {**greeting, "role": random.choice(["system", "developer"]), "content": "Be brief."})
    tools = random.choice([None, _tools(source, 0, description), _tools(source, 4, description)])
    rest = _rest(source, random)
    for _ in range(length):
        for _ in range(random.randrange(1, 3)):
            history = history + (
                _loop(source, random) if random.random() < share_of_loops else random.choice(_fragments(source))
            )
        chance = random.random()
        if chance < 0.06:
            history = history[: random.randrange(1, len(history) + 1)]
        elif chance < 0.12:
            number = random.randrange(len(history))
            history = [*history[:number], *random.choice(_fragments(source)), *history[number + 1 :]]
        elif chance < 0.16:
            target = random.choice([one for one in TARGETS if one[0] != source])
        elif chance < 0.20:
            rest = _rest(source, random)
        elif chance < 0.24:
            tools = random.choice([None, _tools(source, 0, description), _tools(source, 4, description)])
        body: JsonObject = {**rest, HISTORY[source]: _marked(history) if source == MESSAGES else history}
        if tools is not None:
            body["tools"] = tools
        yield Call(source, target, encode(body))


def _marked(history: JsonList) -> JsonList:
    """The history with a cache breakpoint on its last message, as Claude Code moves it with each call."""
    last = history[-1]
    if not isinstance(last, dict) or not isinstance(last.get("content"), str) or last.get("role") == "system":
        return history
    block: JsonObject = {"type": "text", "text": last["content"], "cache_control": {"type": "ephemeral"}}
    return [*history[:-1], {**last, "content": [block]}]


def _rest(source: str, random: Random) -> JsonObject:
    """The members beside history and tools."""
    prompt = random.choice(["Be exact.", "Be quick.", "x-anthropic-billing-header: cc_version=2; cch=1;"])
    body: JsonObject = {"model": "alias"}
    if source == MESSAGES:
        body |= {"max_tokens": 4096, "system": [{"type": "text", "text": prompt}]}
        if random.random() < 0.3:
            body["thinking"] = {"type": "enabled", "budget_tokens": 2048}
    elif source == RESPONSES:
        body["instructions"] = prompt
        if random.random() < 0.5:
            body["reasoning"] = {"effort": "high"}
    elif random.random() < 0.5:
        body["reasoning_effort"] = "high"
    if random.random() < 0.2:
        schema: JsonObject = {"type": "object", "properties": {"n": {"type": "integer"}}}
        if source == CHAT:
            body["response_format"] = {"type": "json_schema", "json_schema": {"name": "form", "schema": schema}}
        elif source == RESPONSES:
            body["text"] = {"format": {"type": "json_schema", "name": "form", "schema": schema}}
        else:
            body["output_config"] = {"format": {"type": "json_schema", "schema": schema}}
    return body
