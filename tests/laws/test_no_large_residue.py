"""Law: after an exchange that ended in any phase, the byte budgets are empty and no large body is reachable but in the
cache of request arrays, which has a limit of its own.

The budgets bound the memory of the gateway only as long as every charge is closed, and a charge that is closed bounds
nothing if its bytes are still referenced. Resident memory shows neither: the allocator keeps freed memory.
"""

from __future__ import annotations

import gc
import gzip
import json
import socket
import struct
import sys
from collections.abc import Callable, Iterator
from functools import partial

import pytest

from dragoman.config.settings import Limits, Settings
from dragoman.gateway.byte_budget import ByteBudget
from dragoman.gateway.prefix_cache import MAX_BYTES
from tests.gateway.harness import (
    CHAT,
    MESSAGES,
    PATHS,
    RESPONSES,
    House,
    Received,
    Reply,
    running,
    settings_for,
    stay_silent,
    stream,
)
from tests.gateway.says import SAID, question, speaking, streams, tells
from tests.laws.floods import chunk
from tests.sdk.digging import dig_text
from tests.waiting import LIMIT, reporting_state, wait_until

MIB = 1024 * 1024
# In every large text, and therefore in every copy of it.
MARK = "residue-of-a-large-body "
LARGE = MARK * (2 * MIB // len(MARK))
# Larger than the buffers of the system on both sides of a connection, so that a part stays in the gateway.
UNREAD = MARK * (16 * MIB // len(MARK))
ROUNDS = 3


def script(received: Received) -> Reply:
    """A provider that falls silent, or answers with much, where the request asks for that."""
    start = received.body[:4096] + received.body[-4096:]
    is_streamed, is_much = received.json().get("stream"), b"[much]" in start
    if b"[silent]" in start:
        return stream(speaking(CHAT), stay_silent) if is_streamed else Reply(raw=True, steps=(stay_silent,))
    if is_streamed and is_much:
        return stream(*[chunk({"content": MARK * 5000})] * 128, chunk({}, "stop"), b"data: [DONE]\n\n")
    text = UNREAD if is_much else SAID
    return streams(CHAT, text) if is_streamed else tells(CHAT, text)


def settings(port: int) -> Settings:
    return settings_for(port, limits=Limits(unfinished_bytes=4 * MIB, buffered_bytes=4 * MIB))


@pytest.fixture(scope="module")
def house() -> Iterator[House]:
    with running(script, settings) as house:
        yield house


def _large_objects() -> list[str]:
    """Objects that hold a large text, as far as the collector and the frames of all threads lead to them."""
    found: dict[int, str] = {}
    seen: set[int] = set()
    waiting: list[object] = [*gc.get_objects(), *sys._current_frames().values()]
    known = {id(each) for each in waiting}
    while waiting:
        owner = waiting.pop()
        if isinstance(owner, Received):
            # The provider of the test is no part of the gateway.
            continue
        for held in gc.get_referents(owner):
            if isinstance(held, bytes | bytearray | str):
                if len(held) >= MIB and id(held) not in found and _is_marked(held):
                    found[id(held)] = f"{len(held)} of {type(held).__name__} in {type(owner).__name__}"
            elif id(held) not in known and id(held) not in seen and not gc.is_tracked(held):
                # A tuple or an object of plain values is of no interest to the collector, and of some here.
                seen.add(id(held))
                waiting.append(held)
    return list(found.values())


def _is_marked(held: bytes | bytearray | str) -> bool:
    if held is LARGE or held is UNREAD:
        return False
    return MARK in held if isinstance(held, str) else MARK.encode() in held


def _budgets(house: House) -> tuple[ByteBudget, ByteBudget]:
    return house.app.runtime.unfinished, house.app.runtime.buffered


def _is_empty(budget: ByteBudget) -> bool:
    return (budget.size, budget.held) == (0, 0) and not budget._accounts


def _reset(connection: socket.socket) -> None:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def _begin(
    house: House,
    path: str,
    body: bytes,
    *,
    missing: int = 0,
    coding: str = "identity",
    method: str = "POST",
    waits: bool = True,
) -> socket.socket:
    """A connection on which a request was sent, without `waits` only what is taken at once; it reads little ahead."""
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
    connection.settimeout(LIMIT)
    connection.connect(("127.0.0.1", house.port))
    lines = (f"{method} {path} HTTP/1.1", f"host: 127.0.0.1:{house.port}", f"content-encoding: {coding}")
    connection.sendall("\r\n".join((*lines, f"content-length: {len(body) + missing}", "\r\n")).encode())
    if waits:
        connection.sendall(body)
        return connection
    connection.setblocking(False)
    sent = 0
    try:
        while sent < len(body):
            sent += connection.send(memoryview(body)[sent : sent + 65536])
    except BlockingIOError:
        pass
    connection.settimeout(LIMIT)
    return connection


def _asked(text: str, **more: object) -> bytes:
    return json.dumps({**question(MESSAGES, CHAT), "system": text, "messages": [_said(LARGE)], **more}).encode()


def _said(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


def answered(house: House) -> None:
    packed = gzip.compress(_asked("Hello."))
    assert house.post(PATHS[MESSAGES], packed, content_encoding="gzip").status == 200
    assert house.post(PATHS[MESSAGES], _asked("Hello.", stream=True)).status == 200


def refused(house: House) -> None:
    assert house.post(PATHS[MESSAGES], _asked("Hello.", max_tokens="many")).status == 400
    assert house.post(PATHS[MESSAGES], _asked("Hello.", model="nobody/nothing")).status == 404
    broken = gzip.compress(_asked("Hello."))[:-4]
    assert house.post(PATHS[MESSAGES], broken, content_encoding="gzip").status == 400


def gone_within_an_upload(house: House) -> None:
    unfinished, _ = _budgets(house)
    connection = _begin(house, PATHS[MESSAGES], _asked("Hello."), missing=1000)
    wait_until(lambda: unfinished.size > 0, "a part of a body is here")
    _reset(connection)


def _wait_for_room(house: House) -> None:
    """Wait until a request of this case has room, and another one waits for it."""
    unfinished, _ = _budgets(house)

    async def is_any_paused() -> bool:
        return any(account.paused for account in unfinished._accounts.values())

    wait_until(lambda: house.run(is_any_paused()), "a request waits for room")


def gone_while_uploads_wait_for_room(house: House) -> None:
    """The first uploads are at a silent provider, and the others are not read."""
    connections = [_begin(house, PATHS[MESSAGES], _asked("[silent]"), waits=False) for _ in range(6)]
    _wait_for_room(house)
    for connection in connections:
        _reset(connection)


def gone_while_packed_bodies_wait_for_room(house: House) -> None:
    """The first bodies are at a silent provider, and the others are not unpacked."""
    packed = gzip.compress(_asked("[silent]"))
    connections = [_begin(house, PATHS[MESSAGES], packed, coding="gzip") for _ in range(8)]
    _wait_for_room(house)
    for connection in connections:
        _reset(connection)


def gone_while_references_wait_for_room(house: House) -> None:
    name = _stored(house, LARGE)
    body = {"model": "chat/served", "input": "[silent]", "previous_response_id": name}
    connections = [_begin(house, PATHS[RESPONSES], json.dumps(body).encode()) for _ in range(8)]
    _wait_for_room(house)
    for connection in connections:
        _reset(connection)
    _delete(house, name)


def _stored(house: House, text: str) -> str:
    asked = {"model": "chat/served", "input": [{"type": "message", **_said(text)}]}
    return dig_text(house.post(PATHS[RESPONSES], asked).json(), "id")


def _delete(house: House, name: str) -> None:
    assert house.ask("DELETE", f"/v1/responses/{name}", b"").status == 200


def gone_with_an_unread_response(house: House, streamed: bool) -> None:
    _, buffered = _budgets(house)
    connection = _begin(house, PATHS[MESSAGES], _asked("[much]", stream=streamed))
    wait_until(lambda: house.run(_is_unread(house)), "the gateway waits for the client to read")
    if not streamed:
        wait_until(lambda: buffered.held > 0, "the response is charged")
    _reset(connection)


async def _is_unread(house: House) -> bool:
    return any(connection.paused for connection in house.server._connections)


def gone_with_unread_input_items(house: House) -> None:
    _, buffered = _budgets(house)
    name = _stored(house, UNREAD)
    connection = _begin(house, f"/v1/responses/{name}/input_items", b"", method="GET")
    wait_until(lambda: house.run(_is_unread(house)), "the gateway waits for the client to read")
    assert buffered.held > 0
    _reset(connection)
    _delete(house, name)


def read_late(house: House) -> None:
    """The connection stays open after the response."""
    _, buffered = _budgets(house)
    with _begin(house, PATHS[MESSAGES], _asked("[much]")) as connection:
        wait_until(lambda: house.run(_is_unread(house)), "the gateway waits for the client to read")
        left = connection.recv(65536)
        size = int(left.lower().split(b"content-length: ")[1].split(b"\r\n")[0]) + left.index(b"\r\n\r\n") + 4
        size -= len(left)
        while size:
            size -= len(connection.recv(65536))
        wait_until(lambda: _is_empty(buffered), "a response that was read is not charged")


def cancelled_in_the_background(house: House, streamed: bool) -> None:
    unfinished, _ = _budgets(house)
    called = len(house.provider.received)
    said = [{"type": "message", **_said(text)} for text in (LARGE, "[silent]")]
    asked = {"model": "chat/served", "input": said, "background": True, "stream": streamed}
    connection = _begin(house, PATHS[RESPONSES], json.dumps(asked).encode())
    heard = b""
    while b'"id":"resp_' not in heard:
        heard += connection.recv(65536)
    wait_until(lambda: len(house.provider.received) > called, "it is at the provider")
    # A client that is gone does not end it.
    _reset(connection)
    assert unfinished.held > MIB
    name = heard.split(b'"id":"')[1].split(b'"')[0].decode()
    assert house.post(f"/v1/responses/{name}/cancel", b"").status == 200
    wait_until(lambda: house.app.runtime.state.background.running == 0, "no response runs in the background")
    _delete(house, name)


CASES: dict[str, Callable[[House], None]] = {
    "answered": answered,
    "refused": refused,
    "gone within an upload": gone_within_an_upload,
    "gone while uploads wait for room": gone_while_uploads_wait_for_room,
    "gone while packed bodies wait for room": gone_while_packed_bodies_wait_for_room,
    "gone while references wait for room": gone_while_references_wait_for_room,
    "gone with an unread response": partial(gone_with_an_unread_response, streamed=False),
    "gone with an unread stream": partial(gone_with_an_unread_response, streamed=True),
    "gone with unread input items": gone_with_unread_input_items,
    "read late": read_late,
    "cancelled in the background": partial(cancelled_in_the_background, streamed=False),
    "cancelled in the background, streamed": partial(cancelled_in_the_background, streamed=True),
}


@pytest.mark.parametrize("name", CASES)
def test_budgets_are_empty_and_no_large_body_is_reachable(house: House, name: str) -> None:
    for _ in range(ROUNDS):
        CASES[name](house)
    for budget in _budgets(house):
        wait_until(partial(_is_empty, budget), "the budget is empty")
    wait_until(lambda: house.server.busy == 0 and not house.server._connections, "no connection is open")
    house.provider.received.clear()
    wait_until(lambda: house.provider.open == 0, "no open connection at the provider")
    house.take_turns()
    # The cache of request arrays holds what clients may send again, within a limit of its own.
    cache = house.app.runtime.prefixes
    assert cache.size <= MAX_BYTES
    cache.clear()
    # What only the collector could free counts as well: it runs rarely. A token count that was given up holds the
    # request until its thread has finished it.
    with reporting_state(lambda: "\n".join(_large_objects())):
        wait_until(lambda: not _large_objects(), "no large body is reachable")
