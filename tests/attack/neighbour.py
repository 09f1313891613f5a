"""A neighbour: a stream through the same gateway, whose words say when they were said."""

from __future__ import annotations

import asyncio
import json
import re
import socket
import threading
import time
from contextlib import closing, suppress
from types import TracebackType
from typing import Self

from tests.gateway.harness import CHAT, MESSAGES, PATHS, Received, Reply, read_answer, whole
from tests.gateway.harness import stream as streamed
from tests.server.process import WRITER, Served

_EVERY = 0.005
# A stream ends by itself, whatever becomes of its reader.
_LONGEST = 60.0
_said_at = re.compile(rb'"content":"([0-9.]+)"').findall


async def _speak() -> None:
    """Say the time again and again, as a step of a provider's reply."""
    writer = WRITER.get()
    until = time.monotonic() + _LONGEST
    while (now := time.monotonic()) < until:
        event = {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "paced"}
        choice = {"index": 0, "delta": {"role": "assistant", "content": f"{now:.6f}"}, "finish_reason": None}
        data = b"data: " + json.dumps({**event, "choices": [choice]}, separators=(",", ":")).encode() + b"\n\n"
        writer.write(b"%x\r\n%b\r\n" % (len(data), data))
        await asyncio.sleep(_EVERY)


# A stream without token counts: the gateway counts them itself.
_SHORT = b'data: {"choices":[{"index":0,"delta":{"content":"ok"},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'


def paced(received: Received) -> Reply | None:
    """The reply of a provider that is asked for one of the models `paced` and `short`."""
    if b'"paced"' in received.body[:200]:
        return streamed(_speak)
    return streamed(_SHORT) if b'"short"' in received.body[:200] else None


def warm_up(house: Served, *lines: str) -> None:
    """Have the gateway import and load what its first exchanges need: that makes no later one late."""
    for path in (PATHS[MESSAGES], PATHS[CHAT]):
        body = {"model": "chat/short", "max_tokens": 9, "stream": True, "messages": [{"role": "user", "content": "x"}]}
        with closing(house.send(path, body, "connection: close", *lines)) as end:
            assert read_answer(end).status == 200


ANSWER: dict[str, object] = {
    "id": "x",
    "object": "chat.completion",
    "created": 1,
    "model": "served",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "ok"}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
}


def provider(received: Received) -> Reply:
    """A provider of Chat that speaks to neighbours, and answers everybody else at once."""
    return paced(received) or whole(ANSWER)


class Neighbour:
    """Listens while something else happens; `worst` is how late a word came, in seconds."""

    def __init__(self, house: Served, *lines: str) -> None:
        body = {"model": "chat/paced", "stream": True, "messages": [{"role": "user", "content": "go on"}]}
        self._connection = house.send(PATHS[CHAT], body, *lines)
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._heard = threading.Event()
        self.worst = 0.0
        self.words = 0

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._heard.wait(20.0), "the neighbour heard nothing"
        # What a connection takes to begin is nobody's delay.
        time.sleep(0.2)
        self.worst = 0.0
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # A loop that stands still delays the next word, which has to be waited for.
        before, until = self.words, time.monotonic() + 30.0
        while self.words < before + 10 and time.monotonic() < until and self._thread.is_alive():
            time.sleep(0.01)
        if self.words < before + 10:
            self.worst = float("inf")
        self._connection.shutdown(socket.SHUT_RDWR)
        self._thread.join(5.0)
        self._connection.close()

    def _listen(self) -> None:
        # A gateway that ends resets its connections.
        with suppress(ConnectionError):
            self._read()

    def _read(self) -> None:
        rest = b""
        # Whoever is told nothing for so long is counted as lost by whoever waits for it.
        self._connection.settimeout(2 * _LONGEST)
        while piece := self._connection.recv(65536):
            now = time.monotonic()
            rest += piece
            told = _said_at(rest)
            rest = rest[-200:] if not rest.endswith(b"\n\n\r\n") else b""
            for word in told:
                self.words += 1
                self.worst = max(self.worst, now - float(word))
            if told:
                self._heard.set()
