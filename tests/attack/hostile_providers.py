"""Hostile providers: what streams and errors of one provider cost the clients of all others."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial

from tests.attack.measuring import MEBIBYTE, PATIENCE, Act, Attack, Cost, attacked, beside, measured
from tests.attack.neighbour import paced
from tests.gateway.harness import CHAT, MESSAGES, PATHS, Received, Reply, Step, whole
from tests.gateway.harness import stream as streamed
from tests.server.process import Served

_DONE = b"data: [DONE]\n\n"
# Seconds of the time limits that are attacked, and of a provider that would go on for ever.
_LIMIT, _ENDLESS = 2, 20.0
_TIMEOUTS = f"\n[timeouts]\nfirst_byte = {_LIMIT}\ncontent = {_LIMIT}\n"
_ERRORS = 20
_READ = 1024 * 1024


def _event(delta: object) -> bytes:
    return b"data: %b\n\n" % json.dumps({"choices": [{"delta": delta}]}, separators=(",", ":")).encode()


def _call(index: int) -> object:
    return {"index": index, "function": {"name": "t", "arguments": "{}"}}


def calls(count: int) -> bytes:
    """A Chat stream in which every event begins a tool call."""
    return b"".join(_event({"tool_calls": [_call(k)]}) for k in range(count)) + _DONE


def calls_at_once(size: int) -> bytes:
    """A Chat stream of one event with as many tool calls as fit."""
    return _event({"tool_calls": [_call(k) for k in range(size // 56)]}) + _DONE


def text(size: int) -> bytes:
    """A Chat stream of one event with one long text."""
    return _event({"content": "word " * (size // 5)}) + _DONE


def tiny_values(size: int) -> bytes:
    """A Chat stream of one event with as many values as fit, in a member that the protocol does not know."""
    return b'data: {"choices":[{"delta":{"content":"x"}}],"more":[%b0]}\n\n' % (b"[]," * (size // 3)) + _DONE


def _asking(stream: bool) -> Callable[[Served, str], tuple[bytes, bytes]]:
    """A request; the status line of the response and its last bytes."""

    def ask(house: Served, client: str) -> tuple[bytes, bytes]:
        body = {"model": "chat/hostile", "max_tokens": 9, "messages": [{"role": "user", "content": "x"}]}
        if stream:
            body["stream"] = True
        with closing(house.send(PATHS[client], body, "connection: close")) as end:
            end.settimeout(PATIENCE)
            first = last = b""
            while piece := end.recv(_READ):
                first = (first + piece)[:50]
                last = (last + piece)[-500:]
        return first.partition(b"\r\n")[0], last

    return ask


_stream, _whole = _asking(True), _asking(False)


def _outcome(status: bytes, last: bytes) -> str:
    if not status:
        return "no response"
    way = "an error ends it" if b'"error"' in last else "complete" if b"[DONE]" in last or b"_stop" in last else "cut"
    return f"{status.split()[1].decode()}, {way}"


def streaming(name: str, make: Callable[[], bytes], client: str = MESSAGES) -> Attack:
    """A stream that a provider sends at once."""

    def run(name: str) -> Cost:
        data = make()

        def script(received: Received) -> Reply:
            return paced(received) or streamed(data)

        def act(house: Served) -> tuple[int, str]:
            try:
                return len(data), _outcome(*_stream(house, client))
            except OSError as error:
                return len(data), f"no response: {type(error).__name__}"

        with attacked(script) as house:
            return measured(name, house, act)

    return Attack(name, run)


def failing(name: str, body: bytes, client: str) -> Attack:
    """The same error again and again."""

    def script(received: Received) -> Reply:
        return paced(received) or whole(body, status=400)

    def act(house: Served) -> tuple[int, str]:
        statuses = [_whole(house, client)[0].split()[1].decode() for _ in range(_ERRORS)]
        return _ERRORS * len(body), f"{_ERRORS} of {_ERRORS} answered with {', '.join(sorted(set(statuses)))}"

    return beside(name, act, script)


def _endless(piece: bytes, opening: bytes) -> Callable[[Received], Reply]:
    """A provider that repeats a piece ten times a second."""
    steps: list[Step] = [step for _ in range(int(_ENDLESS * 10)) for step in (piece, 0.1)]

    def script(received: Received) -> Reply:
        return paced(received) or streamed(opening, *steps)

    return script


def _timed(client: str) -> Act:
    def act(house: Served) -> tuple[int, str]:
        begun = time.monotonic()
        outcome = _outcome(*_stream(house, client))
        return 1, f"{outcome}, after {time.monotonic() - begun:.1f} s with a limit of {_LIMIT} s"

    return act


def _attacks() -> Iterator[Attack]:
    yield streaming("1,000 tool calls in a stream", partial(calls, 1000))
    yield streaming("4,000 tool calls in a stream", partial(calls, 4000))
    yield streaming("4,000 tool calls, relayed", partial(calls, 4000), CHAT)
    yield streaming("tool calls in one event of 1 MB", partial(calls_at_once, MEBIBYTE))
    largest = 16 * MEBIBYTE - 1024
    yield streaming("an event of 16 MiB, one text", partial(text, largest))
    yield streaming("an event of 16 MiB, one text, relayed", partial(text, largest), CHAT)
    yield streaming("an event of 16 MiB, tiny values", partial(tiny_values, largest))
    yield streaming("an event of 16 MiB, tiny values, relayed", partial(tiny_values, largest), CHAT)
    yield streaming("an event of 2 million values", partial(tiny_values, 2_999_000))
    message = json.dumps({"error": {"message": "no \\ué " * 32_000}}, ensure_ascii=False).encode()[: 255 * 1024]
    values = b'{"error":{"message":"no","more":[%b0]}}' % (b"[]," * 85_000)
    for client, way in ((MESSAGES, "translated"), (CHAT, "relayed")):
        yield failing(f"{_ERRORS} errors of 255 KB, one text, {way}", message, client)
        yield failing(f"{_ERRORS} errors of 255 KB, tiny values, {way}", values, client)
    comments = _endless(b": ping\n\n", _event({"role": "assistant", "content": "x"}))
    yield beside("pings after the first word", _timed(MESSAGES), comments, _TIMEOUTS)
    yield beside("pings after the first word, relayed", _timed(CHAT), comments, _TIMEOUTS)
    yield beside("27 MB of blank lines, relayed", _timed(CHAT), _endless(b"\n" * 135_000, b"\n"), _TIMEOUTS)


ATTACKS = tuple(_attacks())
