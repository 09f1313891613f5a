"""How long other streams stand still while large work goes through: `python -m tests.attack.gaps`.

A real gateway with one worker serves several streams that tick every five milliseconds. Meanwhile one large request
after the other is sent, each a few times; the longest gap between two ticks is told for each of them. Nothing is
asserted: the figures depend on the machine.
"""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tests.gateway.harness import CHAT, Received, Reply, read_answer, stream, whole
from tests.gateway.says import speaking, tells, turn
from tests.sdk.providers import stream as stream_of
from tests.server.process import Served, serving

MEBIBYTE = 1024 * 1024
STREAMS = 3
TICK = 0.005
TIMES = 3
QUIET = 1.0


def script(received: Received) -> Reply:
    """A provider that ticks, or answers at once; one that is asked for much says much."""
    if not received.target.endswith("/chat/completions"):
        return whole({"error": {"message": "not here"}}, 404)
    head = received.body[:4096] + received.body[-4096:]
    if b'"stream":true' in head:
        begun = speaking(CHAT)
        rest = stream_of(CHAT, turn(CHAT)).removeprefix(begun)
        piece = b'data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"served","choices":' + (
            b'[{"index":0,"delta":{"content":"tick"},"finish_reason":null}]}\n\n'
        )
        return stream(begun, *(step for _ in range(60_000) for step in (piece, TICK)), rest)
    return tells(CHAT, "word " * (400_000 if b"[much]" in head else 1))


class Ticking:
    """A stream, and how long its client had to wait between two pieces of it."""

    def __init__(self, house: Served) -> None:
        self._connection = house.send(
            "/v1/messages",
            {"model": "chat/served", "max_tokens": 9, "stream": True, "messages": [{"role": "user", "content": "x"}]},
        )
        self._connection.settimeout(120)
        self.longest = 0.0
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        last = time.perf_counter()
        while self._heard():
            now = time.perf_counter()
            self.longest = max(self.longest, now - last)
            last = now

    def _heard(self) -> bool:
        try:
            return bool(self._connection.recv(65536))
        except OSError:
            return False

    def stop(self) -> None:
        """Hang up."""
        self._connection.shutdown(socket.SHUT_RDWR)
        self._thread.join(10)
        self._connection.close()


def _messages(size: int) -> list[dict[str, str]]:
    two = [{"role": "user", "content": "Hi."}, {"role": "assistant", "content": "Ho."}]
    return two * (size // len(json.dumps(two, separators=(",", ":"))))


def _bodies() -> Iterator[tuple[str, str, dict[str, object]]]:
    """What is sent, where, and how it is called."""
    asked: dict[str, object] = {"model": "chat/served", "max_tokens": 9}
    text = "The quick brown fox jumps over the lazy dog, and then some. "
    yield "nothing at all", "", {}
    yield "200 KiB of tiny messages", "/v1/messages", {**asked, "messages": _messages(200 * 1024)}
    yield "just under 2 MiB of tiny messages", "/v1/messages", {**asked, "messages": _messages(2 * MEBIBYTE - 4096)}
    yield "just over 2 MiB of tiny messages", "/v1/messages", {**asked, "messages": _messages(2 * MEBIBYTE + 4096)}
    yield (
        "256 KiB of tiny items, stored",
        "/v1/responses",
        {"model": "chat/served", "input": _messages(MEBIBYTE // 4 + 4096)},
    )
    for size in (1, 30):
        said = [{"role": "user", "content": text * (size * 1_000_000 // len(text))}]
        yield f"a count of {size} MB", "/v1/messages/count_tokens", {**asked, "messages": said}
    stored: dict[str, object] = {"model": "chat/served", "input": text * (1_000_000 // len(text))}
    yield "a stored response to 1 MB", "/v1/responses", stored
    yield "a stored response of 2 MB", "/v1/responses", {"model": "chat/served", "input": "[much]"}


@contextmanager
def _ticking(house: Served) -> Iterator[Callable[[], float]]:
    streams = [Ticking(house) for _ in range(STREAMS)]
    time.sleep(0.5)

    def longest() -> float:
        told = max(one.longest for one in streams)
        for one in streams:
            one.longest = 0.0
        return told

    longest()
    try:
        yield longest
    finally:
        for one in streams:
            one.stop()


def main() -> None:
    """Tell the longest gap for each kind of work."""
    with serving(script) as house, _ticking(house) as longest:
        for name, path, body in _bodies():
            gaps, took = [], 0.0
            data = json.dumps(body, separators=(",", ":")).encode()
            status = 0
            for _ in range(TIMES):
                began = time.perf_counter()
                if path:
                    head = f"POST {path} HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n"
                    head += f"content-type: application/json\r\ncontent-length: {len(data)}\r\n\r\n"
                    with socket.create_connection(("127.0.0.1", house.port), timeout=120) as connection:
                        connection.sendall(head.encode() + data)
                        status = read_answer(connection).status
                took = max(took, time.perf_counter() - began)
                time.sleep(QUIET)
                gaps.append(longest())
            told = " ".join(f"{gap * 1000:6.0f}" for gap in gaps)
            print(f"{name:36} {status:4} in {took:6.2f} s   gaps in ms: {told}", flush=True)


if __name__ == "__main__":
    main()
