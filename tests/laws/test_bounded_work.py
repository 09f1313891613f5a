"""Bounded work: no callback of the loop takes more than a tenth of a second of its own, whatever a client sends."""

from __future__ import annotations

import asyncio
import threading
import time
from asyncio.events import Handle
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.gateway.harness import PATHS as PATHS_OF
from tests.gateway.harness import PROTOCOLS, House, Received, Reply, running, whole
from tests.gateway.says import NAMES, turn
from tests.laws.hostile import Shape, conversations, envelopes
from tests.sdk.providers import answer as answer_of

# What everybody may send without being noticed by others, and how long that may hold the loop, in seconds of its CPU.
SIZE = 100_000
MOST = 0.100
MODELS = {protocol: f"{NAMES[protocol]}/served" for protocol in PROTOCOLS}


def answering(received: Received) -> Reply:
    """A provider that answers in the protocol it is asked in, whatever it is asked."""
    protocol = next((name for name, path in PATHS_OF.items() if received.target == path), None)
    return whole(answer_of(protocol, turn(protocol))) if protocol is not None else whole({})


class Stopwatch:
    """The longest callback since it was last asked, by the CPU time of the loop's own thread."""

    def __init__(self) -> None:
        self.thread = 0
        self._longest = 0.0
        self._what = ""

    def note(self, seconds: float, handle: Handle) -> None:
        """Take one callback into account."""
        if seconds > self._longest:
            self._longest, self._what = seconds, repr(handle)

    def taken(self) -> tuple[float, str]:
        """The longest since the last time, and what it was."""
        found = self._longest, self._what
        self._longest, self._what = 0.0, ""
        return found


@pytest.fixture(scope="module")
def watched() -> Iterator[tuple[House, Stopwatch]]:
    stopwatch = Stopwatch()
    with _measuring(stopwatch), running(answering) as house:

        async def whose() -> int:
            return threading.get_ident()

        stopwatch.thread = house.run(whose())
        yield house, stopwatch


@contextmanager
def _measuring(stopwatch: Stopwatch) -> Iterator[None]:
    """Measure every callback of the gateway's loop; there is no hook for it, so its one method is wrapped."""
    plain = Handle._run

    def measured(self: Handle) -> None:
        begun = time.thread_time()
        plain(self)
        if threading.get_ident() == stopwatch.thread:
            stopwatch.note(time.thread_time() - begun, self)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(asyncio.events.Handle, "_run", measured)
        yield


SHAPES = {shape.name: shape for shape in (*envelopes(SIZE), *conversations(SIZE, MODELS))}


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_no_callback_takes_long(shape: Shape, watched: tuple[House, Stopwatch]) -> None:
    house, stopwatch = watched
    assert len(shape.body) <= SIZE
    held = []
    # The collector may run in any of them, and other processes share the caches: the shape is to blame if all are slow.
    for _ in range(3):
        stopwatch.taken()
        answer = house.ask("POST", shape.path, shape.body, **{k.replace("-", "_"): v for k, v in shape.headers})
        assert 200 <= answer.status < 600
        held.append(stopwatch.taken())
        if held[-1][0] < MOST:
            return
    pytest.fail(f"the loop was held for {min(held)[0]:.3f} s at best: {min(held)[1]}")


PART = {"type": "input_text", "text": "a" * 60}
# What is asked of a conversation of 13 MB: the paths below it.
ASKED = {"items": "/items?limit=100", "the last one": "/items?limit=1", "one by its id": "/items/msg_3", "itself": ""}


@pytest.fixture(scope="module")
def large(watched: tuple[House, Stopwatch]) -> str:
    items = [{"id": f"msg_{count}", "role": "user", "content": [PART] * 13_000} for count in range(10)]
    made = watched[0].post("/v1/conversations", {"items": items})
    assert made.status == 200, made.body
    return f"/v1/conversations/{made.json()['id']!s}"


@pytest.mark.parametrize("asked", [*ASKED])
def test_nothing_small_that_is_asked_of_a_large_conversation_takes_long(
    asked: str, watched: tuple[House, Stopwatch], large: str
) -> None:
    house, stopwatch = watched
    held = []
    for _ in range(3):
        stopwatch.taken()
        assert house.get(large + ASKED[asked]).status == 200
        held.append(stopwatch.taken())
        if held[-1][0] < MOST:
            return
    pytest.fail(f"the loop was held for {min(held)[0]:.3f} s at best: {min(held)[1]}")
