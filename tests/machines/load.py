"""Load: clients of three protocols that ask several machines, and note what they saw.

A client asks one thing after the other, each on a connection of its own, of a machine at random: a plain request, one
whose response is stored, one that continues a stored response of any machine, or a stored response itself. What no
fault of a database excuses is collected in `wrong`: another status than 200 or 503, a plain request that was not
answered, a request without an end. What a machine did not answer because it was killed is left out.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter, deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from enum import Enum
from typing import Protocol

from msgspec import Struct

from tests.gateway.harness import MESSAGES, PATHS, PROTOCOLS, RESPONSES, Answer, answer_in
from tests.gateway.says import is_finished
from tests.sdk.digging import Object, dig
from tests.sdk.samples import events_of

# One says all at once, and one takes its time, so that faults meet streams under way.
QUICK, SLOW = "echo/text", "echo/slow"
# Seconds within which every request has an end, also one that meets a database that has stopped.
DEADLINE = 60.0
# Stored responses that others continue and read.
_CONTINUED = 50


class Kind(Enum):
    """What a request needs the database for."""

    PLAIN = "plain"
    STORED = "stored"
    CONTINUED = "continued"
    READ = "read"


class Result(Enum):
    """How a request ended for its client."""

    COMPLETE = "complete"
    # 503, or a stream that ended in the failure of its protocol.
    REFUSED = "refused"
    # With the machine, which was killed.
    LOST = "lost"


_KINDS = (*[Kind.PLAIN] * 10, *[Kind.STORED] * 5, *[Kind.CONTINUED] * 3, *[Kind.READ] * 2)


class Asked(Protocol):
    """A machine. `port` is None while it is down; `kills` counts how often it was killed."""

    name: str
    port: int | None
    kills: int


class StoredResponse(Struct, frozen=True):
    """A response whose storing was acknowledged, and the name of its key."""

    id: str
    key: str


class Load:
    """Clients that ask until they are stopped."""

    def __init__(
        self,
        machines: Sequence[Asked],
        keys: Mapping[str, str],
        clients: int,
        pause: float,
        always: Collection[str],
    ) -> None:
        self._machines = machines
        self._keys = keys
        self._clients = clients
        self._pause = pause
        # Names of keys that every plain request is served for.
        self._always = always
        self._tasks: list[asyncio.Task[None]] = []
        self._ended = asyncio.Event()
        self._may_ask = asyncio.Event()
        self._under_way = 0
        self._continued: deque[StoredResponse] = deque(maxlen=_CONTINUED)
        # Record ids of complete responses, with the machine's name.
        self.answered: dict[str, str] = {}
        self.stored: list[StoredResponse] = []
        # Counts beginnings and ends of times in which what is stored may be lost.
        self._era = 0
        self.doubtful: list[StoredResponse] = []
        self.wrong: list[str] = []
        self.counts: Counter[tuple[str, Kind, Result]] = Counter()
        # Stored responses in a row, by machine: how many were complete since the last one that was refused.
        self.in_a_row: Counter[str] = Counter()

    async def run(self) -> None:
        """Ask until `end`."""
        async with asyncio.TaskGroup() as group:
            for number in range(self._clients):
                group.create_task(self._ask_on(random.Random(number)))

    def resume(self) -> None:
        """Begin to ask, or go on."""
        self._may_ask.set()

    def pause(self) -> None:
        """Begin no more requests."""
        self._may_ask.clear()

    @contextmanager
    def doubting(self) -> Iterator[None]:
        """Expect nothing of what is stored meanwhile, or by requests that were under way meanwhile."""
        self._era += 1
        yield
        self._era += 1

    def end(self) -> None:
        """Have all clients end."""
        self._ended.set()
        self._may_ask.set()

    @property
    def is_idle(self) -> bool:
        """Whether no request is under way, and none begins."""
        return not self._may_ask.is_set() and self._under_way == 0

    def count(self, kind: Kind, result: Result, machine: str) -> int:
        """How many requests of a kind ended so at a machine."""
        return self.counts[machine, kind, result]

    def report(self) -> str:
        """What became of all requests."""
        lines = [f"{machine} {kind.value} {result.value}: {n}" for (machine, kind, result), n in self.counts.items()]
        return "\n".join([*sorted(lines), f"{self._under_way} under way", *self.wrong[-20:]])

    async def _ask_on(self, rng: random.Random) -> None:
        while True:
            await self._may_ask.wait()
            if self._ended.is_set():
                return
            machine = rng.choice(self._machines)
            # In this order: a machine that is killed has no port before it is counted.
            kills, port = machine.kills, machine.port
            if port is not None:
                self._under_way += 1
                try:
                    await self._ask(machine, port, kills, rng)
                finally:
                    self._under_way -= 1
            with suppress(TimeoutError):
                async with asyncio.timeout(self._pause * rng.uniform(0.5, 1.5)):
                    await self._ended.wait()

    async def _ask(self, machine: Asked, port: int, kills: int, rng: random.Random) -> None:
        kind, stream = rng.choice(_KINDS), rng.random() < 0.5
        earlier = rng.choice(self._continued) if self._continued else None
        if kind in (Kind.CONTINUED, Kind.READ) and earlier is None:
            kind = Kind.STORED
        key = earlier.key if earlier is not None else rng.choice(list(self._keys))
        era = self._era
        if kind is Kind.READ and earlier is not None:
            asking = _exchange(port, "GET", f"{PATHS[RESPONSES]}/{earlier.id}", self._keys[key])
            protocol, stream = RESPONSES, False
        else:
            protocol = rng.choice(PROTOCOLS) if kind is Kind.PLAIN else RESPONSES
            previous = earlier.id if kind is Kind.CONTINUED and earlier is not None else ""
            body = _body(protocol, stream=stream, stores=kind is not Kind.PLAIN, previous=previous)
            body["model"] = rng.choice((QUICK, SLOW)) if stream else QUICK
            asking = _exchange(port, "POST", PATHS[protocol], self._keys[key], body)
        what = f"{protocol}{' streamed' if stream else ''}, {kind.value}, key {key}, machine {machine.name}"
        try:
            async with asyncio.timeout(DEADLINE):
                answer = await asking
        except TimeoutError:
            self.wrong.append(f"no end after {DEADLINE:g} s: {what}")
            return
        except OSError as error:
            self._broken(machine, kind, kills, f"{what}: {error!r}")
            return
        if answer is None or (not answer.complete and not (stream and is_finished(protocol, answer.body))):
            self._broken(machine, kind, kills, f"{what}: cut off: {answer}")
            return
        self._judge(machine, kind, protocol, key, stream, answer, what, era)

    def _broken(self, machine: Asked, kind: Kind, kills: int, what: str) -> None:
        self.counts[machine.name, kind, Result.LOST] += 1
        if machine.kills == kills:
            self.wrong.append(what)

    def _judge(
        self, machine: Asked, kind: Kind, protocol: str, key: str, stream: bool, answer: Answer, what: str, era: int
    ) -> None:
        finished = answer.status == 200 and (not stream or is_finished(protocol, answer.body))
        self.counts[machine.name, kind, Result.COMPLETE if finished else Result.REFUSED] += 1
        if not finished:
            self._excuse(machine, kind, key, stream, answer, what)
            return
        if kind is Kind.READ:
            return
        name = answer.header("request-id") or answer.header("x-request-id")
        assert name is not None, answer
        if name in self.answered:
            self.wrong.append(f"the id {name} was given twice: {what}")
        self.answered[name] = machine.name
        if kind is not Kind.PLAIN:
            self.in_a_row[machine.name] += 1
            id_ = str(dig(events_of(answer.body)[-1], "response", "id") if stream else answer.json()["id"])
            response = StoredResponse(id_, key)
            if era % 2 or era != self._era:
                self.doubtful.append(response)
            else:
                self.stored.append(response)
                self._continued.append(response)

    def _excuse(self, machine: Asked, kind: Kind, key: str, stream: bool, answer: Answer, what: str) -> None:
        """What only a database that is away excuses."""
        if kind is not Kind.PLAIN:
            self.in_a_row[machine.name] = 0
        if kind is Kind.PLAIN and key in self._always:
            is_excused = False
        elif answer.status == 500:
            # An answer that was paid for could not be stored within 10 s: its client must not ask again at once.
            is_excused = kind in (Kind.STORED, Kind.CONTINUED) and answer.header("x-should-retry") == "false"
        else:
            # A stream that ends while the database is away ends in a failure.
            is_excused = answer.status == 503 or (answer.status == 200 and stream)
        if not is_excused:
            self.wrong.append(f"{what}: {answer.status} {answer.body[-500:]!r}")


def _body(protocol: str, *, stream: bool, stores: bool, previous: str) -> Object:
    body: Object = {"stream": stream}
    if protocol == RESPONSES:
        body = {**body, "input": "Hello.", "store": stores}
        return {**body, "previous_response_id": previous} if previous else body
    body["messages"] = [{"role": "user", "content": "Hello."}]
    return {**body, "max_tokens": 100} if protocol == MESSAGES else body


async def _exchange(port: int, method: str, path: str, key: str, body: Object | None = None) -> Answer | None:
    """Ask on a connection of its own; None if it ended without a response."""
    data = b"" if body is None else json.dumps(body).encode()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        head = f"{method} {path} HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer {key}\r\nconnection: close\r\n"
        writer.write(f"{head}content-type: application/json\r\ncontent-length: {len(data)}\r\n\r\n".encode() + data)
        raw = await _read(reader)
    finally:
        writer.close()
    return answer_in(raw) if b"\r\n\r\n" in raw else None


async def _read(reader: asyncio.StreamReader) -> bytes:
    """All bytes until the end, also if that is a reset."""
    raw = bytearray()
    with suppress(ConnectionError):
        while data := await reader.read(65536):
            raw += data
    return bytes(raw)
