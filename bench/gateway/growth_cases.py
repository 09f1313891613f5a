"""What grows, from the least to the most, and the requests that have so much of it."""

from __future__ import annotations

from functools import cache
from random import Random

from msgspec import Struct, json

from bench import prose
from bench.gateway.cases import BURST, HELD, LONG, WHOLE, Case
from bench.gateway.questions import SIGN, Question, cut
from bench.workloads import CHAT, MESSAGES, MODELS
from dragoman.model.jsonvalue import JsonList, JsonObject

SIZE, MESSAGE_COUNT, TOOLS, EVENTS, STREAMS, RECORDS = "size", "messages", "tools", "events", "streams", "records"
# The client is one of Chat; its requests go on unchanged, or are translated.
LANES = {"relay": CHAT, "translated": MESSAGES}
# Bytes that a message has beside what grows.
_MESSAGE = 200


class Growth(Struct, frozen=True, kw_only=True):
    """One thing that grows. `method` says on the page how it is measured."""

    name: str
    title: str
    across: str
    up: str
    values: tuple[int, ...]
    method: str


_CPU = "CPU per exchange, µs"
GROWTHS = (
    Growth(
        name=SIZE,
        title="CPU by the size of a request",
        across="bytes of one message",
        up=_CPU,
        values=(2_000, 16_000, 128_000, 1_000_000, 4_000_000, 8_000_000),
        method="One message of prose grows, the response has 2 KB.",
    ),
    Growth(
        name=MESSAGE_COUNT,
        title="CPU by the number of messages",
        across=f"messages of {_MESSAGE} bytes",
        up=_CPU,
        values=(1, 10, 100, 500, 1_000, 2_000),
        method="User and assistant speak in turns.",
    ),
    Growth(
        name=TOOLS,
        title="CPU by the number of tools",
        across="function tools",
        up=_CPU,
        values=(1, 10, 50, 100, 250, 500),
        method="Each tool has a schema with three members.",
    ),
    Growth(
        name=EVENTS,
        title="CPU by the length of a stream",
        across="text events of the provider",
        up=_CPU,
        values=(10, 100, 1_000, 5_000, 20_000),
        method="The provider writes event by event, without a pause.",
    ),
    Growth(
        name=STREAMS,
        title="Cost of concurrent streams",
        across="streams at the same time",
        up="memory of an idle stream, KB; CPU of a stream, µs",
        values=(1, 10, 100, 500, 1_000, 2_000),
        method="After the first chunk, the provider holds each stream until all have begun. Memory is the growth of "
        "the gateway's process until then, divided by the number of streams. CPU is the time of all streams, from "
        "request to end. Each point has three gateways of its own.",
    ),
    Growth(
        name=RECORDS,
        title="Cost by the number of records",
        across="rows of 30 days",
        up="CPU of an exchange, µs; of a command, ms",
        values=(0, 10_000, 100_000, 1_000_000, 5_000_000),
        method="Before the gateway starts, the store writes the rows in bulk. The exchange is a relay of 2 KB with its "
        "ingestion. The commands then read the same file.",
    ),
)


def asked(growth: str, value: int, protocol: str, port: int) -> Question:
    """The request that has so much of what grows, for a provider of a protocol."""
    mode = {EVENTS: f"{LONG}{value}", STREAMS: HELD}.get(growth, WHOLE)
    size = value if growth == SIZE else _MESSAGE
    count = value if growth == MESSAGE_COUNT else 1
    messages: JsonList = [
        {"role": "user" if number % 2 == 0 else "assistant", "content": _text(number, size)} for number in range(count)
    ]
    if count % 2 == 0:
        messages.append({"role": "user", "content": "Go on."})
    body: JsonObject = {"model": MODELS[protocol], "messages": messages}
    if growth == TOOLS:
        body["tools"] = [_tool(number) for number in range(value)]
    if mode != WHOLE:
        body["stream"] = True
    case = Case(
        name=growth, title=growth, client=CHAT, provider=protocol, mode=mode if mode == WHOLE else BURST, exchanges=1,
        must=0, aim=0,
    )  # fmt: skip
    question = cut(case, port, json.encode(body))
    return Question(client=CHAT, mode=mode, head=question.head, tail=question.tail)


def _text(number: int, size: int) -> str:
    """The words of a message; the first begins with the sign of the mark."""
    text = (_prose() * (1 + size // len(_prose())))[:size]
    return f"{SIGN.decode()} {text}" if number == 0 else f"{number} {text}"


@cache
def _prose() -> str:
    return prose.sentences(Random(41), 20_000)


def _tool(number: int) -> JsonObject:
    members: JsonObject = {
        "path": {"type": "string", "description": "Where the file is, from the root of the project."},
        "lines": {"type": "integer", "minimum": 1},
        "mode": {"type": "string", "enum": ["text", "bytes"]},
    }
    schema: JsonObject = {"type": "object", "properties": members, "required": ["path"], "additionalProperties": False}
    function: JsonObject = {"name": f"read_{number}", "description": "Reads a file, in part.", "parameters": schema}
    return {"type": "function", "function": function}
