"""The house that the fuzz runs in: one gateway for many examples, and whatever its threads complain about."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from hypothesis import settings

from tests.gateway.harness import CHAT, MESSAGES, PATHS, PROTOCOLS, RESPONSES, House, Received, Reply, running, whole
from tests.gateway.harness import stream as streamed
from tests.gateway.mutations import CANARY
from tests.gateway.says import STOPS
from tests.sdk.providers import Call, Turn, answer
from tests.sdk.providers import stream as stream_of

# Every example is an exchange over sockets: a part of what the profile allows, so that a larger profile looks further.
SOME = settings(max_examples=max(1, settings().max_examples // 2))
FEW = settings(max_examples=max(1, settings().max_examples // 6))

_TURNS = {
    protocol: Turn(
        stop={MESSAGES: "tool_use", CHAT: "tool_calls", RESPONSES: "completed"}[protocol],
        reasoning="Let me see.",
        text="Guten Tag, said the provider.",
        calls=(Call("call_1", "get_weather", '{"city": "Köln"}'),),
    )
    for protocol in PROTOCOLS
}
_PLAIN = {protocol: Turn(stop=STOPS[protocol], text="Guten Tag.") for protocol in PROTOCOLS}
_WHOLE = {protocol: whole(answer(protocol, turn)) for protocol, turn in _TURNS.items()}
_STREAM = {protocol: streamed(stream_of(protocol, turn)) for protocol, turn in _TURNS.items()}
_COUNT = whole({"input_tokens": 11})
_VECTORS = whole({"object": "list", "data": [{"object": "embedding", "index": 0, "embedding": [0.5]}], "model": "m"})


def legal(received: Received) -> Reply:
    """What a good provider answers, whole or streamed as it was asked."""
    if received.target.endswith(("count_tokens", "input_tokens")):
        return _COUNT
    for protocol, path in PATHS.items():
        if received.target.startswith(path):
            return (_STREAM if _asks_stream(received.body) else _WHOLE)[protocol]
    return _VECTORS


def _asks_stream(body: bytes) -> bool:
    try:
        asked = json.loads(body)
    except (ValueError, RecursionError):
        return b'"stream": true' in body or b'"stream":true' in body
    return isinstance(asked, dict) and asked.get("stream") is True


class Complaints(logging.Handler):
    """What Python's own logging is told meanwhile: unhandled exceptions of handlers, callbacks and tasks."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.heard: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep it as text, traceback included."""
        self.heard.append(logging.Formatter().format(record))


class FuzzedHouse:
    """A house whose provider can be given another script, and which is silent about what was said in it."""

    def __init__(self) -> None:
        self.script: Callable[[Received], Reply] = legal
        self.complaints = Complaints()
        self.house: House

    def answers(self, received: Received) -> Reply:
        """What the provider says now."""
        return self.script(received)

    def check_silence(self) -> None:
        """Nobody complained, and nothing of a prompt was logged."""
        heard, self.complaints.heard = self.complaints.heard, []
        log = self.house.log
        told = log.getvalue().splitlines()
        # Emptied first, so that one example's fault is not found again in the next.
        log.seek(0)
        log.truncate()
        self.house.provider.received.clear()
        assert heard == [], "\n".join(heard)
        assert [line for line in told if CANARY in line] == []
        assert all(isinstance(json.loads(line), dict) for line in told)


@contextmanager
def fuzzed() -> Iterator[FuzzedHouse]:
    """A running house for many examples."""
    one = FuzzedHouse()
    root = logging.getLogger()
    root.addHandler(one.complaints)
    try:
        with running(one.answers) as house:
            one.house = house
            yield one
    finally:
        root.removeHandler(one.complaints)
