"""The load: clients that ask, verify the answer and ask again, until a given number of answers was heard.

A closed loop: as many questions are open as there are clients. Each client keeps its connection, unless the server
closes it after a response: then it opens another one.
"""

from __future__ import annotations

import asyncio
from time import perf_counter

import httptools
from msgspec import Struct

from bench.gateway.hearing import complaint
from bench.gateway.questions import Question, new_mark


class LoadError(Exception):
    """An answer was wrong, late or missing; a benchmark of wrong answers says nothing."""


class Outcome(Struct, frozen=True, kw_only=True):
    """Verified answers, the seconds that each took, in order of their ends, and how many reads brought them all."""

    answers: int
    latencies: list[float]
    reads: int


class Clients:
    """Clients that share one number of questions; none until `expect` sets it."""

    def __init__(self, asked: Question) -> None:
        self.asked = asked
        self._unasked = self._unheard = 0
        self.latencies: list[float] = []
        self.reads = 0
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.connections: list[Connection] = []
        self._port = 0
        self._opening: set[asyncio.Task[None]] = set()

    async def connect(self, port: int) -> Connection:
        """Open the connection of one more client."""
        self._port = port
        loop = asyncio.get_running_loop()
        _, connection = await loop.create_connection(lambda: Connection(self), "127.0.0.1", port)
        self.connections.append(connection)
        return connection

    def connect_again(self, closed: Connection) -> None:
        """Give a client whose server closes each connection another one, and ask on it."""
        self.connections.remove(closed)
        task = asyncio.get_running_loop().create_task(self._ask_anew())
        self._opening.add(task)
        task.add_done_callback(self._opening.discard)

    async def _ask_anew(self) -> None:
        try:
            connection = await self.connect(self._port)
        except OSError as error:
            self.failed(f"no other connection: {error}")
            return
        connection.ask()

    def close(self) -> None:
        """Hang up, and open no other connection."""
        for task in self._opening:
            task.cancel()
        for connection in self.connections:
            connection.close()

    def expect(self, answers: int) -> None:
        """Begin a round of that many answers."""
        self._unasked = self._unheard = answers
        self.latencies = []
        self.reads = 0
        self.done = asyncio.get_running_loop().create_future()

    def has_questions(self) -> bool:
        """Whether a question is left to ask."""
        return self._unasked > 0

    def next_mark(self) -> bytes | None:
        """The mark of the next question, None if all were asked."""
        if not self._unasked:
            return None
        self._unasked -= 1
        return new_mark(self.asked.mode)

    def heard(self, mark: bytes, status: int, body: bytes, took: float) -> None:
        """Verify an answer."""
        wrong = complaint(self.asked.client, self.asked.mode, mark, status, body)
        if wrong is not None:
            self.failed(wrong)
            return
        self.latencies.append(took)
        self._unheard -= 1
        if not self._unheard and not self.done.done():
            self.done.set_result(None)

    def failed(self, problem: str) -> None:
        """Stop: something is wrong."""
        if not self.done.done():
            self.done.set_exception(LoadError(problem))


class Connection(asyncio.Protocol):
    """One client: asks, hears, asks the next."""

    def __init__(self, clients: Clients) -> None:
        self._clients = clients
        self._parser = httptools.HttpResponseParser(self)
        self._transport: asyncio.Transport | None = None
        self._mark: bytes | None = None
        self._body: list[bytes] = []
        self._asked = 0.0

    # A stream's transport is always one that can write, though uvloop's is none of asyncio's classes.
    # The loop gives a transport for both directions, which the protocol's own signature does not promise.
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Keep the transport to ask on."""
        self._transport = transport

    def connection_lost(self, error: Exception | None) -> None:
        """Complain if an answer was still to come."""
        if self._mark is not None:
            self._clients.failed(f"the connection was lost after {sum(map(len, self._body))} bytes of the body")

    def data_received(self, data: bytes) -> None:
        """Read on."""
        self._clients.reads += 1
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self._clients.failed(f"not HTTP: {error}")

    def on_body(self, body: bytes) -> None:
        """A piece of the body."""
        self._body.append(body)

    def on_message_complete(self) -> None:
        """Take the answer in, and ask the next question."""
        if self._mark is None:
            self._clients.failed("an answer to no question")
            return
        took = perf_counter() - self._asked
        body = b"".join(self._body)
        self._body.clear()
        mark, self._mark = self._mark, None
        self._clients.heard(mark, self._parser.get_status_code(), body, took)
        if self._parser.should_keep_alive():
            self.ask()
            return
        self.close()
        if self._clients.has_questions():
            self._clients.connect_again(self)

    def has_begun(self) -> bool:
        """Whether a part of an answer was heard."""
        return bool(self._body)

    def close(self) -> None:
        """Hang up."""
        self._mark = None
        if self._transport is not None:
            self._transport.close()

    def ask(self) -> None:
        """Ask the next question, unless all were asked."""
        assert self._transport is not None
        self._mark = self._clients.next_mark()
        if self._mark is not None:
            self._asked = perf_counter()
            self._transport.write(self._clients.asked.marked(self._mark))


class Crowd:
    """Clients with open connections, which ask in rounds; a round after the first one opens no connection."""

    def __init__(self, asked: Question) -> None:
        self._clients = Clients(asked)

    async def connect(self, port: int, concurrent: int) -> None:
        """Open the connection of each client."""
        for _ in range(concurrent):
            await self._clients.connect(port)

    async def ask(self, answers: int) -> Outcome:
        """Ask until that many answers were heard and verified."""
        clients = self._clients
        clients.expect(answers)
        for connection in self._clients.connections:
            connection.ask()
        await clients.done
        return Outcome(answers=len(clients.latencies), latencies=clients.latencies, reads=clients.reads)

    @property
    def answers(self) -> int:
        """How many answers of this round were heard."""
        return len(self._clients.latencies)

    @property
    def begun(self) -> int:
        """How many clients have heard a part of an answer."""
        return sum(map(Connection.has_begun, self._clients.connections))

    def close(self) -> None:
        """Hang up."""
        self._clients.close()
        if not self._clients.done.done():
            self._clients.done.cancel()


async def drive(asked: Question, port: int, *, answers: int, concurrent: int, limit: float = 120.0) -> Outcome:
    """Ask until that many answers were heard and verified; more than `limit` seconds are an error."""
    crowd = Crowd(asked)
    try:
        async with asyncio.timeout(limit):
            await crowd.connect(port, min(concurrent, answers))
            return await crowd.ask(answers)
    except TimeoutError:
        raise LoadError(f"{crowd.answers} of {answers} answers after {limit:g} s") from None
    finally:
        crowd.close()
