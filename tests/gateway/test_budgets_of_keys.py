"""Budgets of keys: unfinished bodies and buffered answers of one key leave room for those of another."""

from __future__ import annotations

import asyncio
import gzip
import json
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager

import pytest
from msgspec.structs import replace

from dragoman.config.settings import Limits, Settings, Timeouts
from dragoman.gateway.runtime import Runtime
from dragoman.http.phases import PACE_TIME
from tests.gateway.harness import (
    CHAT,
    MESSAGES,
    PATHS,
    PROTOCOLS,
    RESPONSES,
    House,
    Received,
    Reply,
    running,
    settings_for,
    stay_silent,
    stream,
)
from tests.gateway.harness import read_answer as read
from tests.gateway.keeping_house import ALICE, BOB, ECHO
from tests.gateway.says import SAID, question, streamed_text, streams, tells, text_of
from tests.laws.floods import chunk
from tests.sdk.digging import dig_text
from tests.waiting import LIMIT, wait_until

MIB = 1024 * 1024


@contextmanager
def gateway(script: Callable[[Received], Reply], limits: Limits, timeouts: Timeouts | None = None) -> Iterator[House]:
    def settings(port: int) -> Settings:
        return settings_for(port, keys=(ALICE, BOB), limits=limits, timeouts=timeouts)

    with running(script, settings) as house:
        yield house


def as_(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"}


def begin(house: House, path: str, body: bytes, length: int, key: str = ALICE) -> socket.socket:
    """A connection on which a part of a request was sent; it does not wait until it is taken."""
    connection = house.connect()
    head = f"POST {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {key}\r\nconnection: close\r\n"
    connection.sendall(head.encode() + b"content-length: %d\r\n\r\n" % length)
    connection.setblocking(False)
    sent = 0
    try:
        while sent < len(body):
            sent += connection.send(body[sent : sent + 65536])
    except BlockingIOError:
        pass
    connection.setblocking(True)
    return connection


@pytest.mark.parametrize("client", PROTOCOLS)
def test_item_22_a4_uploads_of_a_key_wait_for_room_and_other_keys_are_served(client: str) -> None:
    asked = {**question(client, CHAT), "user": "x" * 2 * MIB}
    body = json.dumps(asked).encode()
    limits = Limits(unfinished_bytes=2 * MIB)
    with gateway(lambda _: tells(CHAT), limits) as house, ExitStack() as open_connections:
        unfinished = house.app.runtime.unfinished
        oldest = open_connections.enter_context(begin(house, PATHS[client], body[:1], len(body)))
        wait_until(lambda: unfinished.size == 1, "the first body is waited for")
        others = [open_connections.enter_context(begin(house, PATHS[client], body, len(body))) for _ in range(8)]

        def paused() -> int:
            return len(unfinished._accounts["key0"].paused)

        wait_until(lambda: paused() >= 6, "uploads are paused")
        # They hold what they may have before a key is known, the part of their key, and one read.
        assert unfinished.size <= 8 * MIB
        assert house.post(PATHS[client], asked, **as_(BOB)).status == 200
        # Nothing is wrong with a client that is not read.
        house.pass_time(PACE_TIME / 2)
        assert paused() >= 6
        # The oldest one does not send on, and others wait.
        house.pass_time(PACE_TIME)
        slow = read(oldest)
        assert slow.status == 408
        assert "too slowly" in dig_text(slow.json(), "error", "message")
        for connection in others:
            connection.close()
        wait_until(lambda: unfinished.size == 0, "nothing is left of uploads that were given up")


def test_item_22_a4_uploads_that_waited_for_room_arrive_whole() -> None:
    asked = {**question(CHAT, CHAT), "user": "x" * 2 * MIB}
    body = json.dumps(asked).encode()
    with gateway(lambda _: tells(CHAT), Limits(unfinished_bytes=MIB)) as house, ExitStack() as stack:
        unfinished = house.app.runtime.unfinished
        oldest = stack.enter_context(begin(house, PATHS[CHAT], body[:1], len(body)))
        wait_until(lambda: unfinished.size == 1, "the first body is waited for")
        pool = stack.enter_context(ThreadPoolExecutor(4))
        others = [pool.submit(house.post, PATHS[CHAT], asked, **as_(ALICE)) for _ in range(4)]
        wait_until(lambda: len(unfinished._accounts["key0"].paused) >= 3, "uploads are paused")
        oldest.sendall(body[1:])
        assert read(oldest).status == 200
        assert [other.result(LIMIT).status for other in others] == [200] * 4
        # Their bytes are the client's own, every one of them.
        assert [received.body for received in house.provider.received] == [house.provider.received[0].body] * 5
        assert unfinished.size == 0 and not unfinished._accounts


class Gate:
    """A step of a provider that waits until the test lets it go on."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    async def __call__(self) -> None:
        await self._event.wait()

    def open(self, house: House) -> None:
        house.loop.call_soon_threadsafe(self._event.set)
        house.take_turns()


@pytest.mark.parametrize("client", [CHAT, MESSAGES], ids=["relayed", "translated"])
@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "collected"])
def test_item_22_a4_answers_of_a_key_wait_for_room_as_long_as_it_takes(client: str, streamed: bool) -> None:
    """The oldest answer comes slowly. The next one is not read meanwhile, and its provider not taken for silent."""
    text = "word " * 300_000
    reply = (streams if streamed else tells)(CHAT, text)
    data = b"".join(step for step in reply.steps if isinstance(step, bytes))
    first, second = Gate(), Gate()
    slow = replace(reply, steps=(data[:MIB], first, data[MIB : MIB + 1000], second, data[MIB + 1000 :]))
    replies = iter([slow, reply])

    def script(received: Received) -> Reply:
        return tells(CHAT) if b"Bob" in received.body else next(replies)

    asked = question(client, CHAT)
    timeouts = Timeouts(idle=100.0)
    with gateway(script, Limits(buffered_bytes=MIB), timeouts) as house:
        buffered = house.app.runtime.buffered
        with house.begin_post(PATHS[client], asked, **as_(ALICE)) as oldest:
            wait_until(lambda: buffered.size >= MIB, "the first part of an answer is here")
            with house.begin_post(PATHS[client], asked, **as_(ALICE)) as other:
                wait_until(lambda: len(buffered._accounts["key0"].paused) == 1, "another answer waits for room")
                assert buffered.size < 2 * MIB
                told = house.post(PATHS[client], {**asked, "metadata": {"user_id": "Bob"}}, **as_(BOB))
                assert (told.status, text_of(client, told.json())) == (200, SAID)
                house.pass_time(90)
                first.open(house)
                house.pass_time(90)
                second.open(house)
                for connection in (oldest, other):
                    answer = read(connection)
                    assert (answer.status, text_of(client, answer.json())) == (200, text)
        wait_until(lambda: not buffered._accounts, "nothing is left in the budget")
        assert buffered.size == 0


@pytest.mark.parametrize(
    ("client", "kind"),
    [
        (MESSAGES, "an answer that comes whole in a stream"),
        (MESSAGES, "an event that does not end"),
        (CHAT, "an event that does not end"),
        (RESPONSES, "text that the end tells again"),
    ],
)
def test_item_22_a4_what_streams_hold_is_buffered_too(client: str, kind: str) -> None:
    """Six streams of 100 MB each held all of it: 256 MiB was the limit of answers that are read as a whole alone."""
    text = "word " * 800_000
    if kind == "an answer that comes whole in a stream":
        data = b"".join(step for step in tells(CHAT, text).steps if isinstance(step, bytes))
        parted = [data[:-1000], data[-1000:]]
    elif kind == "an event that does not end":
        data = chunk({"content": text})
        parted = [data[:-1000], data[-1000:] + chunk({}, "stop") + b"data: [DONE]\n\n"]
    else:
        piece = chunk({"content": "word " * 10_000})
        parted = [piece * 80, chunk({}, "stop") + b"data: [DONE]\n\n"]
    gate = Gate()
    replies = iter([stream(parted[0], gate, parted[1]), stream(*parted), streams(CHAT)])
    asked = question(client, CHAT, stream=True)
    with gateway(lambda _: next(replies), Limits(buffered_bytes=2 * MIB)) as house:
        buffered = house.app.runtime.buffered
        with house.begin_post(PATHS[client], asked, **as_(ALICE)) as oldest:
            wait_until(lambda: buffered.size >= 2 * MIB, "the first part of a stream is here")
            with house.begin_post(PATHS[client], asked, **as_(ALICE)) as other:
                wait_until(lambda: len(buffered._accounts["key0"].paused) == 1, "another stream waits for room")
                told = house.post(PATHS[client], asked, **as_(BOB))
                assert (told.status, streamed_text(client, told.body)) == (200, SAID)
                with ThreadPoolExecutor() as readers:
                    reading = [readers.submit(read, connection) for connection in (oldest, other)]
                    gate.open(house)
                    for answer in (each.result(LIMIT) for each in reading):
                        assert (answer.status, streamed_text(client, answer.body)) == (200, text)
        wait_until(lambda: not buffered._accounts, "nothing is left in the budget")
        assert buffered.size == 0


def test_item_22_a4_an_answer_that_is_given_up_gives_its_bytes_back() -> None:
    slow = replace(tells(CHAT), steps=(b"{" + b" " * MIB, stay_silent, b"}"))
    with gateway(lambda _: slow, Limits(buffered_bytes=MIB)) as house:
        buffered = house.app.runtime.buffered
        for way in ("the client goes", "the provider is silent"):
            with house.begin_post(PATHS[CHAT], question(CHAT, CHAT), **as_(ALICE)) as connection:
                wait_until(lambda: buffered.size > MIB, "a part of an answer is here")
                if way == "the provider is silent":
                    house.pass_time(Timeouts().idle + 1)
                    assert read(connection).status == 504
            wait_until(lambda: buffered.size == 0, f"nothing is left when {way}")


def test_item_22_a4_budgets_outlive_a_reload() -> None:
    with gateway(lambda _: tells(CHAT), Limits()) as house:

        async def reload() -> None:
            former = house.app.runtime
            settings = replace(former.settings, limits=Limits(unfinished_bytes=5, buffered_bytes=6))
            house.app.runtime = Runtime(settings, former.metrics, former.log, former.state, former=former)
            assert house.app.runtime.unfinished is former.unfinished
            assert house.app.runtime.buffered is former.buffered

        house.run(reload())
        service = house.app.runtime
        assert (service.unfinished._limit, service.buffered._limit) == (5, 6)


def gated(gate: Gate) -> Callable[[Received], Reply]:
    """A provider that answers what Bob asks at once, and everybody else when the gate is open."""
    told = tells(CHAT)
    return lambda received: told if b"Bob" in received.body else replace(told, steps=(gate, *told.steps))


def test_complete_requests_are_held_within_the_part_of_their_key_until_their_exchanges_end() -> None:
    """Of 60 requests of 31 MB to a provider that takes 20 s, all were in memory at once: 3.3 GB."""
    asked, gate = {**question(CHAT, CHAT), "user": "x" * 4 * MIB}, Gate()
    with gateway(gated(gate), Limits(unfinished_bytes=4 * MIB)) as house, ExitStack() as stack:
        unfinished = house.app.runtime.unfinished
        pool = stack.enter_context(ThreadPoolExecutor(8))
        asking = [pool.submit(house.post, PATHS[CHAT], asked, **as_(ALICE)) for _ in range(8)]
        wait_until(lambda: len(house.provider.received) == 1, "more than the part of the key is at the provider")
        house.take_turns()
        assert 4 * MIB <= unfinished.held < 5 * MIB
        assert len(house.provider.received) == 1
        assert house.post(PATHS[CHAT], {**asked, "user": "Bob" * MIB}, **as_(BOB)).status == 200
        gate.open(house)
        assert [each.result(LIMIT).status for each in asking] == [200] * 8
        wait_until(lambda: not unfinished._accounts, "nothing is left in the budget")
        assert (unfinished.size, unfinished.held) == (0, 0)


def stored(house: House, size: int) -> str:
    """A stored response to so many bytes of input."""
    text = {"type": "message", "role": "user", "content": "x" * size}
    told = house.post(PATHS[RESPONSES], {"model": ECHO, "input": [text, SMALL]}, **as_(ALICE))
    return dig_text(told.json(), "id")


SMALL = {"type": "message", "role": "user", "content": "Hello."}


def test_requests_that_refer_to_much_wait_for_room_and_count_as_what_they_refer_to() -> None:
    """Of 150 small requests that go on from 30 MB, 80 were at the provider at once: 5.4 GB."""
    gate = Gate()
    with gateway(gated(gate), Limits(unfinished_bytes=2 * MIB)) as house, ExitStack() as stack:
        unfinished = house.app.runtime.unfinished
        asked = {"model": "chat/served", "input": "More.", "previous_response_id": stored(house, 2 * MIB)}
        pool = stack.enter_context(ThreadPoolExecutor(12))
        asking = [pool.submit(house.post, PATHS[RESPONSES], asked, **as_(ALICE)) for _ in range(12)]
        wait_until(lambda: unfinished.held >= 2 * MIB, "one of them has what it refers to")
        house.take_turns()
        # As many as may read at a time.
        assert unfinished.held < 9 * MIB and len(house.provider.received) <= 4
        other = {"model": "chat/served", "input": "Bob", "store": False}
        assert house.post(PATHS[RESPONSES], other, **as_(BOB)).status == 200
        gate.open(house)
        assert [each.result(LIMIT).status for each in asking] == [200] * 12
        wait_until(lambda: not unfinished._accounts, "nothing is left in the budget")


def test_a_body_that_is_unpacked_counts_as_what_it_was_packed_from() -> None:
    gate = Gate()
    asked = {**question(CHAT, CHAT), "user": "x" * 2 * MIB}
    packed = gzip.compress(json.dumps(asked).encode())
    headers = {**as_(ALICE), "content_encoding": "gzip", "content_type": "application/json"}
    with gateway(gated(gate), Limits(unfinished_bytes=2 * MIB)) as house, ExitStack() as stack:
        unfinished = house.app.runtime.unfinished
        pool = stack.enter_context(ThreadPoolExecutor(12))
        asking = [pool.submit(house.ask, "POST", PATHS[CHAT], packed, **headers) for _ in range(12)]
        wait_until(lambda: unfinished.held >= 2 * MIB, "one of them is unpacked")
        house.take_turns()
        assert unfinished.held < 9 * MIB and len(house.provider.received) <= 4
        gate.open(house)
        assert [each.result(LIMIT).status for each in asking] == [200] * 12
        wait_until(lambda: not unfinished._accounts, "nothing is left in the budget")


def test_a_response_in_the_background_counts_as_long_as_it_runs() -> None:
    gate = Gate()
    with gateway(gated(gate), Limits(unfinished_bytes=8 * MIB)) as house:
        unfinished = house.app.runtime.unfinished
        asked = {"model": "chat/served", "input": "x" * MIB, "background": True}
        told = house.post(PATHS[RESPONSES], asked, **as_(ALICE))
        assert told.status == 200
        wait_until(lambda: len(house.provider.received) == 1, "it is at the provider")
        assert MIB <= unfinished.held < 2 * MIB
        gate.open(house)
        wait_until(lambda: not unfinished._accounts, "nothing is left in the budget")


def test_stored_responses_that_are_not_read_are_held_within_the_part_of_their_key() -> None:
    """A hundred clients that did not read 30 MB of input items took 2.6 GB, and the store was busy for 20 s."""
    size = 16 * MIB
    with gateway(lambda _: tells(CHAT), Limits(buffered_bytes=MIB)) as house, ExitStack() as stack:
        buffered = house.app.runtime.buffered
        name = stored(house, size)
        small = dig_text(house.post(PATHS[RESPONSES], {"model": ECHO, "input": "x"}, **as_(BOB)).json(), "id")
        head = f"GET /v1/responses/{name}/input_items HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {ALICE}\r\n"
        connections = []
        for _ in range(10):
            connection = stack.enter_context(socket.socket())
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
            connection.settimeout(LIMIT)
            connection.connect(("127.0.0.1", house.port))
            connection.sendall(f"{head}connection: close\r\n\r\n".encode())
            connections.append(connection)
        wait_until(lambda: buffered.held >= size, "one of them is sent")
        house.take_turns()
        # As many as may read at a time.
        assert buffered.held < 5 * size
        assert house.get(f"/v1/responses/{small}", **as_(BOB)).status == 200
        assert [read(connection).status for connection in connections] == [200] * 10
        wait_until(lambda: not buffered._accounts, "nothing is left in the budget")
