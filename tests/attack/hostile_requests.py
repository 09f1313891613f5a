"""Hostile requests: what single requests and uploads of a client cost the gateway and its other clients."""

from __future__ import annotations

import gzip
import json
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial

from tests.attack.measuring import MEBIBYTE, PATIENCE, Act, Attack, Cost, attacked, beside, measured, memory_of
from tests.attack.neighbour import ANSWER, paced, provider
from tests.gateway.harness import CHAT, MESSAGES, PATHS, Received, Reply, read_answer, whole
from tests.gateway.harness import stream as streamed
from tests.laws.hostile import filled, graph, request, tool, user
from tests.server.process import Served


def sending(path: str, body: bytes, **headers: str) -> Act:
    """Send one request; the result is the status of its response."""

    def attack(house: Served) -> tuple[int, str]:
        try:
            answer = house.ask("POST", path, body, **headers)
        except (TimeoutError, OSError, ValueError) as error:
            return len(body), f"no answer: {type(error).__name__}"
        return len(body), str(answer.status)

    return attack


def coded(layers: int) -> bytes:
    """Layers of gzip around blocks that hold nothing: much is read in every layer, and nothing comes out in the end."""
    head = gzip.compress(b"")[:10]
    # An empty block that is stored.
    begins, goes_on = head, b"\0\0\0\xff\xff"
    for _ in range(layers - 1):
        begins = head + squeezed(begins)
        goes_on = squeezed(goes_on * (16 * MEBIBYTE // len(goes_on)))
    return begins + goes_on * max(1, 35_000 // len(goes_on))


def squeezed(data: bytes) -> bytes:
    """A piece of a compressed stream that stands for the same bytes wherever it stands."""
    squeeze = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    return squeeze.compress(data) + squeeze.flush(zlib.Z_FULL_FLUSH)


def strict_tools(size: int) -> bytes:
    """As many strict tools as fit, each of a graph that takes long to follow."""
    return filled(
        lambda n: request(
            CHAT, "messages/served", [user(CHAT)], tools=[tool(CHAT, f"t{k}", graph(14), strict=True) for k in range(n)]
        ),
        size,
    )


def doubling(size: int) -> bytes:
    """One strict schema whose definitions hold each other twice, with something long in the last of them."""
    depth = 8
    definitions: dict[str, object] = {
        f"d{k}": {
            "type": "object",
            "properties": {
                side: {"allOf": [{"$ref": f"#/$defs/d{k + 1}"}], "description": side} for side in ("left", "right")
            },
        }
        for k in range(depth)
    }

    def made(n: int) -> object:
        last = {"type": "string", "enum": ["x" * n]}
        root = {"root": {"allOf": [{"$ref": "#/$defs/d0"}]}}
        schema = {"type": "object", "properties": root, "$defs": {**definitions, f"d{depth}": last}}
        return request(CHAT, "messages/served", [user(CHAT)], tools=[tool(CHAT, "t", schema, strict=True)])

    return filled(made, size)


def newlines(house: Served) -> tuple[int, str]:
    """Ask a provider whose first frame ends in three newlines."""
    body = {"model": "chat/newlines", "stream": True, "messages": [{"role": "user", "content": "x"}]}
    with closing(house.send(PATHS[CHAT], body, "connection: close")) as end:
        end.settimeout(PATIENCE)
        try:
            return 20, str(read_answer(end).status)
        except OSError as error:
            return 20, f"no answer: {type(error).__name__}"


def says_newlines(received: Received) -> Reply:
    """A provider whose frames end in three newlines."""
    if b"newlines" not in received.body:
        return provider(received)
    chunk = {**ANSWER, "object": "chat.completion.chunk"}
    chunk["choices"] = [{"index": 0, "delta": {"content": "ok"}, "finish_reason": "stop"}]
    return streamed(b": keep-alive\n\n\n", b"data: %b\n\n\n" % json.dumps(chunk).encode(), b"data: [DONE]\n\n")


def aborted(house: Served) -> tuple[int, str]:
    """Ten uploads of 20 MB that end one byte early."""
    size = 20 * MEBIBYTE
    for _ in range(10):
        with house.connect() as end:
            head = f"POST {PATHS[CHAT]} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: {size}\r\n\r\n"
            end.sendall(head.encode() + b" " * (size - 1))
    time.sleep(1.0)
    return 10 * size, "aborted"


def tiny_chunks(house: Served) -> tuple[int, str]:
    """8 MiB in chunks of two bytes, left open."""
    count = 4 * MEBIBYTE
    end = house.connect()
    end.settimeout(2 * PATIENCE)
    head = f"POST {PATHS[CHAT]} HTTP/1.1\r\nhost: 127.0.0.1\r\ntransfer-encoding: chunked\r\n\r\n"
    end.sendall(head.encode())
    piece = b"2\r\n  \r\n" * 65536
    for _ in range(count // 65536):
        end.sendall(piece)
    time.sleep(0.5)
    held = memory_of(house.process.pid)
    end.close()
    return 7 * count, f"{held:.0f} MB while it lasted"


def large_streams(house: Served) -> tuple[int, str]:
    """Three hundred streamed exchanges with bodies of 300 KB."""
    words = "word " * 60_000
    body = {"model": "chat/newlines", "stream": True, "messages": [{"role": "user", "content": words}]}
    for _ in range(300):
        house.post(PATHS[MESSAGES], {**body, "max_tokens": 10})
    return 300 * len(words), "300 answers"


def posting(name: str, path: str, make: Callable[[], bytes], **headers: str) -> Attack:
    """An attack of one request, whose body is made when it is needed."""

    def run(name: str) -> Cost:
        body = make()
        with attacked(provider) as house:
            return measured(name, house, sending(path, body, **headers))

    return Attack(name, run)


def tiny_messages(size: int) -> bytes:
    """As many messages as fit."""
    return filled(lambda n: request(MESSAGES, "chat/served", [user(MESSAGES)] * n), size)


def long_text(size: int) -> bytes:
    """One long message."""
    return filled(lambda n: request(MESSAGES, "chat/served", [user(MESSAGES, "word, und 12 " * n)]), size)


def _attacks() -> Iterator[Attack]:
    kind = "application/json"
    for layers in (2, 3, 4):
        names = ", ".join(["gzip"] * layers)
        name = f"content-encoding: {names}"
        yield posting(name, PATHS[CHAT], partial(coded, layers), content_encoding=names, content_type=kind)
    form = "multipart/form-data; boundary=x"
    yield posting(
        'a form of name="model"', "/v1/audio/transcriptions", lambda: b'name="model"\r\n' * 9000, content_type=form
    )
    yield posting("100 KB of strict tools", PATHS[CHAT], partial(strict_tools, 105_000), content_type=kind)
    yield beside("three newlines", newlines, says_newlines)
    yield beside("ten aborted uploads of 20 MB", aborted, provider)
    yield beside("8 MiB in chunks of two bytes", tiny_chunks, provider)
    yield beside("300 streams with bodies of 300 KB", large_streams, says_newlines)
    for size in (100_000, 2_000_000, 8_000_000):
        name = f"{size / 1e6:g} MB of tiny messages"
        yield posting(name, PATHS[MESSAGES], partial(tiny_messages, size), content_type=kind)
    for size in (1_000_000, 30_000_000):
        name = f"a count of {size / 1e6:g} MB"
        yield posting(name, "/v1/messages/count_tokens", partial(long_text, size), content_type=kind)
    yield Attack("one strict schema", amplified)


def amplified(name: str) -> Cost:
    """Measure how many bytes a strict schema becomes on its way to the provider."""
    size = 0

    def weighs(received: Received) -> Reply:
        nonlocal size
        size = max(size, len(received.body))
        return paced(received) or whole({"error": {"message": "no"}}, status=400)

    body = doubling(92_000)
    with attacked(weighs) as house:
        cost = measured(name, house, sending(PATHS[CHAT], body, content_type="application/json"))
    cost.result = f"{cost.result}; {size:,} bytes went out for {len(body):,}"
    return cost


ATTACKS = tuple(_attacks())
