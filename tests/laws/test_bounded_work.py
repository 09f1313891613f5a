"""Bounded work: no callback of the loop works for long, whatever a client or a provider sends.

Work is counted, not timed: instructions of the interpreter, and bytes that C functions read, write, inflate or search.
"""

from __future__ import annotations

import asyncio
import re
import threading
from asyncio.events import Handle
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from msgspec import Struct

from dragoman.gateway.forwarding import redaction
from dragoman.http.coding import SlicedDecoder
from dragoman.model.jsonvalue import JsonObject, JsonValue
from dragoman.wire import json
from tests.byte_counting import ByteCounter
from tests.gateway.harness import CHAT, MESSAGES, PROTOCOLS, RESPONSES, House, Received, Reply, running, stream, whole
from tests.gateway.harness import PATHS as PATHS_OF
from tests.gateway.says import NAMES, error_body, turn
from tests.laws.floods import FLOODS, chunk, delta, fragment, frame, message, started
from tests.laws.hostile import Shape, conversations, envelopes
from tests.laws.json_counting import counting_json
from tests.sdk.providers import answer as answer_of
from tests.step_counting import StepCounter

# Bytes that a client may send without being noticed by others.
SIZE = 100_000
# Of one callback. The interpreter takes 1,000,000 lines in about 50 ms, msgspec reads 1 MB in about 5 ms.
MAX_STEPS = 1_000_000
MAX_BYTES = 12 * SIZE
# So many bytes are read in the time in which one is searched for a secret.
SEARCHED = 16
MODELS = {protocol: f"{NAMES[protocol]}/served" for protocol in PROTOCOLS}


def answering(received: Received) -> Reply:
    """A provider that answers in the protocol it is asked in, whatever it is asked."""
    protocol = next((name for name, path in PATHS_OF.items() if received.target == path), None)
    return whole(answer_of(protocol, turn(protocol))) if protocol is not None else whole({})


class Work(Struct, frozen=True, order=True):
    """Work of one callback."""

    steps: int = 0
    bytes: int = 0
    name: str = ""


class LoopWork(ByteCounter):
    """The callbacks of one loop that took the most steps and the most bytes since they were last taken."""

    def __init__(self) -> None:
        super().__init__()
        self.thread = 0
        self._longest = self._largest = Work()

    def add(self, size: int) -> None:
        """Count bytes of the callback that runs now, if it is the loop's."""
        if threading.get_ident() == self.thread:
            super().add(size)

    def run(self, handle: Handle) -> None:
        """Run a callback and count its work."""
        self.examined = 0
        with StepCounter() as counter:
            _run_plain(handle)
        work = Work(counter.steps, self.examined, repr(handle))
        self._longest = max(self._longest, work)
        self._largest = max(self._largest, work, key=lambda one: one.bytes)

    def take(self) -> tuple[Work, Work]:
        """The callbacks with the most steps and with the most bytes since the last time."""
        taken = self._longest, self._largest
        self._longest = self._largest = Work()
        return taken


_run_plain = Handle._run


@contextmanager
def _counting(work: LoopWork) -> Iterator[None]:
    """Count the work of every callback; asyncio has no hook for it, so its one method is wrapped."""

    def run(handle: Handle) -> None:
        if threading.get_ident() == work.thread:
            work.run(handle)
        else:
            _run_plain(handle)

    inflate = SlicedDecoder.feed

    def feed(decoder: SlicedDecoder, data: bytes) -> bytes:
        out = inflate(decoder, data)
        work.add(len(out))
        return out

    search = redaction._without

    def without(secrets: re.Pattern[bytes] | None, body: bytes) -> bytes:
        work.add(SEARCHED * len(body))
        return search(secrets, body)

    with pytest.MonkeyPatch.context() as patched, counting_json(work):
        patched.setattr(redaction, "_without", without)
        patched.setattr(asyncio.events.Handle, "_run", run)
        patched.setattr(SlicedDecoder, "feed", feed)
        yield


class Script:
    """A provider that answers in the protocol it is asked in, unless it is told what to answer."""

    reply: Reply | None = None

    def __call__(self, received: Received) -> Reply:
        return answering(received) if self.reply is None else self.reply


@pytest.fixture(scope="module")
def served() -> Iterator[tuple[House, LoopWork, Script]]:
    work, script = LoopWork(), Script()
    with _counting(work), running(script) as house:

        async def find_thread() -> int:
            return threading.get_ident()

        work.thread = house.run(find_thread())
        yield house, work, script
        work.thread = 0


@pytest.fixture
def counted(served: tuple[House, LoopWork, Script]) -> tuple[House, LoopWork]:
    house, work, script = served
    script.reply = None
    return house, work


def _check(work: LoopWork) -> None:
    longest, largest = work.take()
    assert longest.steps <= MAX_STEPS, longest
    assert largest.bytes <= MAX_BYTES, largest


# What a shape costs the encoder of each protocol is counted in test_bounded_translation.py.
SHAPES = {shape.name: shape for shape in (*envelopes(SIZE), *conversations(SIZE, MODELS, every=False))}
ALL_PAIRS = {shape.name: shape for shape in conversations(SIZE, MODELS, every=True)}


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_no_callback_works_for_long(shape: Shape, counted: tuple[House, LoopWork]) -> None:
    _send(shape, *counted)


@pytest.mark.nightly
@pytest.mark.parametrize("shape", ALL_PAIRS.values(), ids=ALL_PAIRS)
def test_no_callback_works_for_long_between_any_pair(shape: Shape, counted: tuple[House, LoopWork]) -> None:
    _send(shape, *counted)


def _send(shape: Shape, house: House, work: LoopWork) -> None:
    body = shape.make()
    assert SIZE // 2 < len(body) <= SIZE or "bomb" in shape.name or "left open" in shape.name
    work.take()
    answer = house.ask("POST", shape.path, body, **{k.replace("-", "_"): v for k, v in shape.headers})
    assert 200 <= answer.status < 600
    _check(work)


PART = {"type": "input_text", "text": "a" * 60}
# What is asked of a conversation of 13 MB: the paths below it.
ASKED = {"items": "/items?limit=100", "the last one": "/items?limit=1", "one by its id": "/items/msg_3", "itself": ""}


@pytest.fixture(scope="module")
def large(served: tuple[House, LoopWork, Script]) -> str:
    items = [{"id": f"msg_{count}", "role": "user", "content": [PART] * 13_000} for count in range(10)]
    made = served[0].post("/v1/conversations", {"items": items})
    assert made.status == 200, made.body
    return f"/v1/conversations/{made.json()['id']!s}"


@pytest.mark.parametrize("asked", [*ASKED])
def test_nothing_small_that_is_asked_of_a_large_conversation_works_for_long(
    asked: str, counted: tuple[House, LoopWork], large: str
) -> None:
    house, work = counted
    work.take()
    assert house.get(large + ASKED[asked]).status == 200
    _check(work)


# --- What providers send ----------------------------------------------------------------------------------------------

# Kinds of streams that are one event however many units they have.
ONE_EVENT = {
    MESSAGES: ("results of one search", "citations at the start of a block", "iterations counted"),
    CHAT: (
        "calls in one chunk",
        "choices in one chunk",
        "content parts",
        "details in one chunk",
        "annotations in one chunk",
        "log probabilities in one chunk",
        "safety entries",
    ),
    RESPONSES: (
        "parts of one message",
        "annotations at the end",
        "log probabilities of one text",
        "summaries of one reasoning",
        "tools of a server",
        "messages in the output",
        "calls in the output",
    ),
}
# Bytes of an event or an answer that take far longer than one callback may work.
LARGE = 1_500_000
ERRORS: dict[str, JsonValue] = {
    "a message": "x" * 250_000,
    "keys": "sk-provider " * 20_000,
    "JSON": '{"a":' * 40_000,
    "objects": [{"a": {}}] * 25_000,
}


def _ask(client: str, provider: str, served: tuple[House, LoopWork, Script], reply: Reply, *, streams: bool) -> int:
    house, work, script = served
    script.reply = reply
    said: JsonObject = {"model": MODELS[provider], "stream": streams, "max_tokens": 100}
    said |= {"input": "Look."} if client == RESPONSES else {"messages": [{"role": "user", "content": "Look."}]}
    work.take()
    answer = house.ask("POST", PATHS_OF[client], json.encode(said))
    # What the test's own provider and client do on this loop is not work of the gateway, and small.
    _check(work)
    return answer.status


def _large(protocol: str, kind: str) -> bytes:
    flood = FLOODS[protocol][kind]
    unit = (len(flood(20)) - len(flood(10))) // 10
    return flood(LARGE // unit)


LARGE_EVENTS = [
    (client, provider, kind)
    for provider in PROTOCOLS
    for number, kind in enumerate(ONE_EVENT[provider])
    for client in dict.fromkeys((PROTOCOLS[number % 3], provider))
]


@pytest.mark.parametrize("streams", [True, False])
@pytest.mark.parametrize(("client", "provider", "kind"), LARGE_EVENTS)
def test_item_22_a3_a_large_event_is_no_work_of_the_loop(
    client: str, provider: str, kind: str, streams: bool, served: tuple[House, LoopWork, Script]
) -> None:
    assert 200 <= _ask(client, provider, served, stream(_large(provider, kind)), streams=streams) < 600


@pytest.mark.parametrize("provider", PROTOCOLS)
@pytest.mark.parametrize("client", PROTOCOLS)
def test_item_22_a3_nor_is_one_that_the_end_of_the_stream_cuts_short(
    client: str, provider: str, served: tuple[House, LoopWork, Script]
) -> None:
    cut = max(_large(provider, ONE_EVENT[provider][0]).split(b"\n\n"), key=len)
    assert 200 <= _ask(client, provider, served, stream(cut), streams=True) < 600


# Streams of small events whose last ones tell all of the others again, or at last.
GATHERED = {
    "a long text": (MESSAGES, delta(0, "text_delta", text="x" * 20_000)),
    "thinking": (MESSAGES, delta(0, "thinking_delta", thinking="x" * 20_000)),
    "arguments": (CHAT, fragment(0, "x" * 20_000)),
    "log probabilities": (
        CHAT,
        chunk({"content": "x"}, logprobs={"content": [{"token": "a" * 20_000, "logprob": -1}]}),
    ),
    "a call beside another": (CHAT, fragment(1, "x") * 200),
}
BEGUN = {
    "a long text": started(0, {"type": "text", "text": ""}),
    "thinking": started(0, {"type": "thinking", "thinking": ""}),
    "arguments": fragment(0, '{"a":"', "run", "a"),
    "log probabilities": b"",
    "a call beside another": fragment(0, "{", "run", "a") + fragment(1, '{"a":"', "run", "b"),
}
MESSAGE_ENDED = frame({"type": "content_block_stop", "index": 0})


@pytest.mark.parametrize("is_cut", [False, True])
@pytest.mark.parametrize("kind", GATHERED)
@pytest.mark.parametrize("client", [MESSAGES, RESPONSES])
def test_item_22_a3_the_end_of_a_long_stream_is_no_work_of_the_loop(
    client: str, kind: str, is_cut: bool, served: tuple[House, LoopWork, Script]
) -> None:
    """The end of 100 MB of text took five seconds, after which the watchdog ended the gateway."""
    provider, piece = GATHERED[kind]
    if provider == CHAT:
        opened, ended = BEGUN[kind], chunk({}, "stop") + b"data: [DONE]\n\n"
    else:
        opened, _, last = message(BEGUN[kind] + b"|").partition(b"|")
        ended = MESSAGE_ENDED + last
    steps = [opened, *[piece] * (LARGE // 20_000), *([] if is_cut else [ended])]
    # Each in a read of its own.
    assert (
        _ask(client, provider, served, stream(*[each for step in steps for each in (step, 0.0)]), streams=True) == 200
    )


@pytest.mark.parametrize("kind", ERRORS)
@pytest.mark.parametrize("status", [200, 400, 429])
@pytest.mark.parametrize(
    ("client", "provider"), [(one, one) for one in PROTOCOLS] + [(CHAT, MESSAGES), (MESSAGES, CHAT)]
)
def test_item_22_a3_a_large_error_is_no_work_of_the_loop(
    client: str, provider: str, status: int, kind: str, served: tuple[House, LoopWork, Script]
) -> None:
    body = {**error_body(provider, "invalid_request_error", "no"), "details": ERRORS[kind]}
    if isinstance(words := ERRORS[kind], str):
        body = error_body(provider, "invalid_request_error", words)
    assert _ask(client, provider, served, whole(body, status), streams=False) >= 400


@pytest.mark.parametrize("provider", PROTOCOLS)
@pytest.mark.parametrize("client", PROTOCOLS)
@pytest.mark.parametrize("streams", [True, False])
def test_item_22_a3_a_large_whole_answer_is_no_work_of_the_loop(
    client: str, provider: str, streams: bool, served: tuple[House, LoopWork, Script]
) -> None:
    body = {**answer_of(provider, turn(provider)), "k": [{"a": 1}] * (LARGE // 9)}
    assert 200 <= _ask(client, provider, served, whole(body), streams=streams) < 600


def test_work_on_the_loop_is_counted(counted: tuple[House, LoopWork]) -> None:
    house, work = counted

    async def take_steps() -> None:
        for _ in range(100_000):
            pass

    async def read_json() -> None:
        json.decode(b" " * MAX_BYTES + b"0")

    work.take()
    house.run(take_steps())
    house.run(read_json())
    longest, largest = work.take()
    assert longest.steps > 100_000
    assert largest.bytes == MAX_BYTES + 1
