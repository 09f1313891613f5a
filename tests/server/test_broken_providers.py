"""Providers that break off, stall, talk nonsense or send callers elsewhere: every client hears it in its own form."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.gateway.harness import PATHS, PROTOCOLS, PROVIDER_KEY, Answer, Reply, Step, read_answer, whole
from tests.gateway.harness import stream as streamed
from tests.gateway.says import NAMES, PAIRS, failure_of, opening, question, speaking, stream_failure
from tests.server.process import Gate, Script, Served, reset, serving
from tests.waiting import wait_until

EVENT_LIMIT = 64 * 1024
NOISE = bytes(range(256)) * 40


def _raw(*steps: Step) -> Callable[[str], Reply]:
    return lambda provider: Reply(raw=True, steps=steps)


def _head(kind: bytes, *lines: bytes) -> bytes:
    return b"\r\n".join((b"HTTP/1.1 200 OK", b"content-type: " + kind, *lines, b"", b""))


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


STREAM_HEAD = _head(b"text/event-stream", b"transfer-encoding: chunked", b"connection: close")
# What follows the first words of a stream, after which only the stream can tell.
LATE: dict[str, tuple[Step, ...]] = {
    "is cut": (None,),
    "ends without its ending": (b"0\r\n\r\n",),
    "is reset": (reset,),
    "is cut inside an event": (_chunk(b'data: {"type": "con'), None),
    "ends inside an event": (_chunk(b'data: {"type": "con'), b"0\r\n\r\n"),
    "has an event that is no JSON": (_chunk(b"data: {nonsense\n\n"), b"0\r\n\r\n"),
    "has noise": (_chunk(NOISE), b"0\r\n\r\n"),
    "has an oversized event": (*(_chunk(b"data: " + b"x" * EVENT_LIMIT),) * 2, b"0\r\n\r\n"),
    "breaks its chunks": (b"zz\r\nnonsense\r\n",),
}
# Nothing was said yet: the status tells.
EARLY: dict[str, Callable[[str], Reply]] = {
    "hangs up": _raw(None),
    "resets": _raw(reset),
    "is not HTTP": _raw(NOISE, None),
    "breaks off its headers": _raw(b"HTTP/1.1 200 OK\r\ncontent-ty", None),
    "sends endless headers": _raw(b"HTTP/1.1 200 OK\r\n", *(b"x-more: " + b"y" * 10_000 + b"\r\n",) * 40, None),
    "sends a page": lambda provider: Reply(
        headers=(("content-type", "text/html"),), steps=(b"<html><h1>Welcome</h1></html>",)
    ),
    "sends nothing": lambda provider: Reply(steps=()),
    "sends an empty stream": lambda provider: streamed(),
    "opens a stream and cuts it": lambda provider: streamed(opening(provider), None),
    "opens a stream and resets it": lambda provider: streamed(opening(provider), reset),
    "cuts a body": _raw(_head(b"application/json", b"content-length: 1000"), b'{"half":', None),
    "sends half of a JSON": lambda provider: whole(b'{"id":"x","choices":[{'),
    "lies about its coding": lambda provider: whole(NOISE, content_encoding="gzip"),
    "redirects for a while": lambda provider: whole({}, 307, location="/v1/elsewhere"),
    "redirects for good": lambda provider: whole({}, 301, location="http://127.0.0.1:1/v1/elsewhere"),
}


@pytest.fixture(scope="module")
def script() -> Script:
    return Script()


@pytest.fixture(scope="module")
def house(script: Script) -> Iterator[Served]:
    with serving(script, f"[limits]\nstream_event = {EVENT_LIMIT}\n") as served:
        yield served


@pytest.fixture(scope="module")
def short_first_byte(script: Script) -> Iterator[Served]:
    with serving(script, "[timeouts]\nfirst_byte = 0.2\nidle = 3600\n") as served:
        yield served


@pytest.fixture(scope="module")
def short_idle(script: Script) -> Iterator[Served]:
    with serving(script, "[timeouts]\nfirst_byte = 3600\nidle = 0.2\n") as served:
        yield served


def _ask(house: Served, pair: tuple[str, str], name: str, *, stream: bool) -> Answer:
    client, provider = pair
    body = question(client, provider, stream=stream, model=f"{NAMES[provider]}/{name}")
    # By way of a proxy: who asks an open gateway from its own machine is its operator, and may read addresses.
    return _checked(house, house.post(PATHS[client], body, via="1.1 proxy"))


def _checked(house: Served, told: Answer) -> Answer:
    """A reply that came to its end and tells nothing that is nobody's business."""
    assert told.complete, told
    said = repr(told)
    assert PROVIDER_KEY not in said
    assert str(house.provider.port) not in said
    assert "elsewhere" not in said
    assert "Traceback" not in said
    return told


def _late(provider: str, *steps: Step) -> Reply:
    # In one piece, so that no time-out can pass between the headers and the words.
    return Reply(raw=True, steps=(STREAM_HEAD + _chunk(speaking(provider)), *steps))


def _pairs(breakages: Iterable[str]) -> pytest.MarkDecorator:
    """Each breakage with each client and each provider once, and with all pairs of them in the nightly run."""
    cases = []
    for number, breakage in enumerate(breakages):
        for client, provider in PAIRS:
            chosen = (PROTOCOLS.index(client) + PROTOCOLS.index(provider) + number) % len(PROTOCOLS) == 0
            marks = () if chosen else (pytest.mark.nightly,)
            cases.append(
                pytest.param((client, provider), breakage, marks=marks, id=f"{client} asks {provider}-{breakage}")
            )
    return pytest.mark.parametrize(("pair", "breakage"), cases)


@_pairs(LATE)
def test_a_stream_that_breaks_ends_in_the_clients_own_error_form(
    house: Served, script: Script, pair: tuple[str, str], breakage: str
) -> None:
    client, provider = pair
    gate = Gate()
    script.replies["late"] = _late(provider, gate, *LATE[breakage])
    body = question(client, provider, stream=True, model=f"{NAMES[provider]}/late")
    with house.send(PATHS[client], body, "connection: close") as end:
        gate.reached()
        # Wait for the first of it, and leave it to be read.
        assert end.recv(1, socket.MSG_PEEK)
        gate.open()
        told = _checked(house, read_answer(end))
    assert told.status == 200
    assert stream_failure(client, told.body)["message"]


@_pairs(LATE)
def test_a_stream_that_breaks_is_no_whole_answer(
    house: Served, script: Script, pair: tuple[str, str], breakage: str
) -> None:
    client, provider = pair
    script.replies["late"] = _late(provider, *LATE[breakage])
    told = _ask(house, pair, "late", stream=False)
    assert told.status == 502
    assert failure_of(client, told)["message"]


@pytest.mark.parametrize("stream", [True, False], ids=["a stream", "a whole answer"])
@_pairs(EARLY)
def test_a_provider_that_breaks_before_it_speaks_is_a_502_in_the_clients_envelope(
    house: Served, script: Script, pair: tuple[str, str], breakage: str, stream: bool
) -> None:
    client, provider = pair
    script.replies["early"] = EARLY[breakage](provider)
    before = len(house.provider.received)
    told = _ask(house, pair, "early", stream=stream)
    assert told.status == 502
    assert failure_of(client, told)["message"]
    # Neither a redirect nor a failure makes the gateway ask twice: the first may have been paid for.
    assert len(house.provider.received) == before + 1


# How a provider stalls: what it says before, whether a stream was asked for, and the status.
STALLS: dict[str, tuple[Callable[[str, Step], Reply], bool, int]] = {
    "in the middle of a stream": (_late, True, 200),
    "in a stream that is collected": (_late, False, 504),
    "in a whole answer": (lambda provider, gate: Reply(steps=(b'{"half":', gate, b"1}")), False, 504),
}
SILENCES: dict[str, tuple[Callable[[str, Step], Reply], bool, int]] = {
    "before a stream": (lambda provider, gate: Reply(raw=True, steps=(gate,)), True, 504),
    "in the opening of a stream": (lambda provider, gate: streamed(opening(provider), gate), True, 504),
    "before a whole answer": (lambda provider, gate: Reply(raw=True, steps=(gate,)), False, 504),
}


@pytest.mark.parametrize("stall", STALLS)
def test_a_provider_that_stalls_is_given_up_and_told_of_in_the_clients_own_form(
    short_idle: Served, script: Script, stall: str
) -> None:
    _give_up(short_idle, script, *STALLS[stall])


@pytest.mark.parametrize("silence", SILENCES)
def test_a_provider_that_says_nothing_is_given_up_and_told_of_in_the_clients_own_form(
    short_first_byte: Served, script: Script, silence: str
) -> None:
    _give_up(short_first_byte, script, *SILENCES[silence])


def _give_up(house: Served, script: Script, reply: Callable[[str, Step], Reply], stream: bool, status: int) -> None:
    gate = Gate()
    for client, provider in PAIRS:
        script.replies[f"{provider}-from-{client}"] = reply(provider, gate)
    # All at once, since each of them takes its time.
    with ThreadPoolExecutor(len(PAIRS)) as pool:
        answers = list(pool.map(lambda pair: _ask(house, pair, f"{pair[1]}-from-{pair[0]}", stream=stream), PAIRS))
    for (client, _), told in zip(PAIRS, answers, strict=True):
        assert told.status == status
        failure = stream_failure(client, told.body) if status == 200 else failure_of(client, told)
        assert "0.2 s" in str(failure["message"])
    # On a busy machine the gateway may give up before its request has reached the provider.
    wait_until(lambda: gate.waiting == 0 and house.provider.open == 0, "every call was cancelled")


def test_whatever_broke_the_gateway_goes_on_and_holds_nothing(house: Served) -> None:
    assert house.get("/healthz").status == 200
    assert house.is_idle()
    assert all(line["level"] in ("info", "warn", "error") for line in house.process.events("exchange"))
