"""Greedy keys: one client with a valid key takes as much as it can get, beside a client with another key."""

from __future__ import annotations

import asyncio
import json
import selectors
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack

from tests.attack.measuring import (
    ATTACKER,
    KEYS,
    MEBIBYTE,
    OTHER,
    PATIENCE,
    Attack,
    Cost,
    attacked,
    bearer,
    beside,
    memory_of,
    workers_of,
)
from tests.attack.neighbour import ANSWER, paced, provider
from tests.gateway.harness import CHAT, MESSAGES, PATHS, RESPONSES, Answer, Received, Reply, read_answer
from tests.server.process import Served

_PIECE = 256 * 1024
# Seconds for which unfinished uploads and unread responses are held.
_HELD = 6.0


def _head(house: Served, path: str, key: str, length: int) -> bytes:
    lines = (f"POST {path} HTTP/1.1", f"host: 127.0.0.1:{house.port}", "connection: close", *bearer(key))
    return "\r\n".join((*lines, f"content-length: {length}", "", "")).encode()


def _ask(house: Served, path: str, key: str, body: object) -> Answer:
    with house.connect() as end:
        end.settimeout(PATIENCE)
        end.sendall(house.request(path, body, "connection: close", *bearer(key)))
        return read_answer(end)


def _question(words: str = "x", **more: object) -> dict[str, object]:
    return {"model": "chat/served", "max_tokens": 9, "messages": [{"role": "user", "content": words}], **more}


class _Flood:
    """Connections of the attacker, each with a request that is sent as fast as the gateway reads it.

    All but the last `short` bytes are sent. If it goes on `again`, an answered request is followed by another one.
    """

    def __init__(
        self, house: Served, body: bytes, count: int, path: str, *, short: int = 0, again: bool = False
    ) -> None:
        self._house = house
        self._request = memoryview(_head(house, path, ATTACKER, len(body)) + body)
        self._request = self._request[: len(self._request) - short]
        self._again = again
        self._selector = selectors.DefaultSelector()
        self.sent = 0
        self.statuses: Counter[str] = Counter()
        for _ in range(count):
            self._begin()

    def _begin(self) -> None:
        end = self._house.connect()
        end.setblocking(False)
        self._selector.register(end, selectors.EVENT_READ | selectors.EVENT_WRITE, self._request)

    def run(self, until: Callable[[], bool]) -> None:
        """Send, and read statuses, until all requests are answered or a condition holds."""
        while self._selector.get_map() and not until():
            for key, events in self._selector.select(0.05):
                end, left = key.fileobj, key.data
                assert isinstance(end, socket.socket)
                try:
                    if events & selectors.EVENT_WRITE and left:
                        count = end.send(left[:_PIECE])
                        self.sent += count
                        left = left[count:]
                        mask = selectors.EVENT_READ | (selectors.EVENT_WRITE if left else 0)
                        self._selector.modify(end, mask, left)
                    elif events & selectors.EVENT_READ:
                        self._over(end, end.recv(65536)[9:12].decode() or "cut")
                except ConnectionError:
                    self._over(end, "cut")

    def _over(self, end: socket.socket, status: str) -> None:
        self.statuses[status] += 1
        self._selector.unregister(end)
        end.close()
        if self._again:
            self._begin()

    def close(self) -> None:
        """Hang up."""
        for key in [*self._selector.get_map().values()]:
            assert isinstance(key.fileobj, socket.socket)
            key.fileobj.close()
        self._selector.close()


class _Beside:
    """Requests of the other key, one after the other, while an attack goes on."""

    def __init__(self, house: Served, path: str, body: object, count: int) -> None:
        self._work = (house, path, OTHER, body)
        self._count = count
        self.statuses: Counter[int] = Counter()
        self.slowest = 0.0
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        for _ in range(self._count):
            begun = time.monotonic()
            try:
                self.statuses[_ask(*self._work).status] += 1
            except (OSError, ValueError):
                self.statuses[0] += 1
            self.slowest = max(self.slowest, time.monotonic() - begun)

    @property
    def is_done(self) -> bool:
        """Whether all of them were answered."""
        return not self._thread.is_alive()

    def result(self) -> str:
        """How many were answered, and how long the slowest took."""
        self._thread.join(PATIENCE)
        return f"other key: {self.statuses[200]} of {self._count} answered, {self.slowest:.2f} s at most"


def large_requests(house: Served) -> tuple[int, str]:
    """Keep 70 connections busy with requests of 273 KB, which are too large for the event loop."""
    body = json.dumps(_question(messages=[{"role": "user", "content": "word"}] * 6400)).encode()
    # A count takes a thread of the gateway and no time of the provider.
    flood = _Flood(house, body, 70, "/v1/messages/count_tokens", again=True)
    # The other key comes when the attacker is there.
    flood.run(lambda: bool(flood.statuses))
    other = _Beside(house, PATHS[MESSAGES], _question("word " * 60_000), 12)
    until = time.monotonic() + PATIENCE
    flood.run(lambda: other.is_done or time.monotonic() > until)
    result, own = other.result(), ", ".join(f"{count} × {status}" for status, count in sorted(flood.statuses.items()))
    flood.close()
    return flood.sent, f"{result}; attacker: {own}"


def unfinished_uploads(house: Served) -> tuple[int, str]:
    """Hold 60 uploads of 31 MB that lack their last byte."""
    flood = _Flood(house, b" " * 31_000_000, 60, PATHS[CHAT], short=1)
    until = time.monotonic() + _HELD
    other = _Beside(house, PATHS[CHAT], _question("word " * 20_000), 10)
    flood.run(lambda: time.monotonic() > until)
    result = other.result()
    flood.close()
    return flood.sent, f"peak {memory_of(house.process.pid, 'VmHWM'):.0f} MB; {result}"


def _long_responses(mebibytes: int) -> Callable[[Received], Reply]:
    """A provider whose responses are as long as that, but for those to the other key."""
    text = json.dumps(ANSWER).encode()
    first, last = text.split(b'"ok"')
    steps = (first + b'"', *[b"x" * MEBIBYTE] * mebibytes, b'"' + last)

    def script(received: Received) -> Reply:
        return paced(received) or (Reply(steps=steps) if b"much" in received.body else provider(received))

    return script


def _responses(count: int, *, unread: bool) -> Callable[[Served], tuple[int, str]]:
    """Ask for several long responses at once, and read them slowly or not at all."""

    def act(house: Served) -> tuple[int, str]:
        with ExitStack() as stack:
            ends = [stack.enter_context(house.connect()) for _ in range(count)]
            for end in ends:
                end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
                end.settimeout(PATIENCE)
                end.sendall(house.request(PATHS[CHAT], _question("much"), "connection: close", *bearer(ATTACKER)))
            other = _Beside(house, PATHS[CHAT], _question(), 10)
            if unread:
                time.sleep(_HELD)
                received = [0] * count
            else:
                received = [0] * count
                threads = [threading.Thread(target=_drain, args=(end, received, k)) for k, end in enumerate(ends)]
                for thread in threads:
                    thread.start()
                for thread in threads:
                    thread.join(PATIENCE)
            peak = memory_of(house.process.pid, "VmHWM")
        return sum(received), f"peak {peak:.0f} MB; {other.result()}"

    return act


def _drain(end: socket.socket, received: list[int], place: int) -> None:
    while piece := end.recv(MEBIBYTE):
        received[place] += len(piece)


_CLIENTS, _STORING = 200, 6.0


def crowded_store(name: str) -> Cost:
    """Store responses of 200 clients with four workers."""
    statuses: Counter[int] = Counter()

    async def client(house: Served, until: float) -> None:
        while time.monotonic() < until:
            statuses[
                (await house.ask_along(PATHS[RESPONSES], {"model": "chat/served", "input": "x" * 2000})).status
            ] += 1

    async def all_clients(house: Served) -> None:
        until = time.monotonic() + _STORING
        await asyncio.gather(*(client(house, until) for _ in range(_CLIENTS)))

    with attacked(provider, arguments=("--workers", "4")) as house:
        memory = sum(map(memory_of, workers_of(house)))
        begun = time.monotonic()
        house.run(all_clients(house))
        seconds = time.monotonic() - begun
        grown = sum(map(memory_of, workers_of(house))) - memory
    refused = {status: count for status, count in statuses.items() if status != 200}
    return Cost(
        name=name,
        sent=statuses.total(),
        seconds=seconds,
        memory=grown,
        result=f"{refused or 'none'} refused of {statuses.total()}",
    )


_QUOTA = 16 * MEBIBYTE
_LIMITED = f"{KEYS}\n[storage]\nmax_bytes_per_key = {_QUOTA}\n"


def filled_store(house: Served) -> tuple[int, str]:
    """Store a mebibyte with each request, far beyond the quota of the key."""
    statuses: Counter[int] = Counter()
    body = {"model": "chat/served", "input": "x" * MEBIBYTE}
    for _ in range(40):
        statuses[_ask(house, PATHS[RESPONSES], ATTACKER, body).status] += 1
    other = _ask(house, PATHS[RESPONSES], OTHER, body).status
    size = sum(file.stat().st_size for file in (house.directory / ".local/state/dragoman").glob("state.db*"))
    stored, own = f"{size / MEBIBYTE:.0f} MiB on disk", ", ".join(f"{n} × {status}" for status, n in statuses.items())
    return 40 * MEBIBYTE, f"{own}; {stored} with a quota of {_QUOTA // MEBIBYTE} MiB; other key: {other}"


ATTACKS = (
    beside("70 connections with requests of 273 KB", large_requests, provider, KEYS),
    beside("60 unfinished uploads of 31 MB", unfinished_uploads, provider, KEYS),
    beside("3 responses of 200 MB", _responses(3, unread=False), _long_responses(200), KEYS),
    beside("30 responses of 30 MB, not read by clients", _responses(30, unread=True), _long_responses(30), KEYS),
    Attack("200 clients that store, four workers", crowded_store),
    beside("40 MiB stored with a quota of 16 MiB", filled_store, provider, _LIMITED),
)
