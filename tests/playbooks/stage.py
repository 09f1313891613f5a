"""The stage of a dialogue: the real gateway between a client without a socket and a provider without one.

What is real: `App`, `Runtime`, the server's `ClientConnection`, the client's `HttpCall`, the store. What is not: the
client's
transport, the provider's connection, time (`VirtualLoop` and a wall clock that follows it) and chance.
"""

from __future__ import annotations

import asyncio
import io
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from msgspec.structs import replace

from dragoman import __version__, mint
from dragoman.config.settings import Settings, Storage
from dragoman.database_location import MEMORY
from dragoman.errors import Unreachable, UpstreamError
from dragoman.gateway.app import App
from dragoman.gateway.exchange import usage_estimate
from dragoman.gateway.observability.log_writer import StreamWriter
from dragoman.gateway.observability.logs import Log
from dragoman.gateway.observability.metrics import Metrics
from dragoman.gateway.observability.prometheus import render
from dragoman.gateway.processes.worker import server_limits
from dragoman.gateway.runtime import Runtime
from dragoman.gateway.stored_responses.stored_state import StoredState
from dragoman.http import response_head
from dragoman.http.client import HttpClient, head_of, write_lines
from dragoman.http.http_call import HttpCall
from dragoman.http.pool import Pool
from dragoman.http.reuse import Reuse
from dragoman.http.server import HttpServer
from dragoman.http.upstream_call import UpstreamRequest
from dragoman.http.upstream_connection import UpstreamConnection
from dragoman.store import database
from tests.playbooks.printing import Names, Reply, lines_of, message_lines
from tests.virtual_time import virtual_loop

# 14 November 2023, 22:13:20 UTC, and what the loop's clock shows then: no time is 0, which would pass for none.
EPOCH, START = 1_700_000_000, 1000.0
# Bytes that wait for a client that does not read before the gateway is told: few, so that dialogues are short.
ROOM = 256
_KEPT = """
    SELECT responses.id, status, (SELECT count(*) FROM items WHERE holder = responses.id AND side = 0),
        (SELECT count(*) FROM items WHERE holder = responses.id AND side = 1) FROM responses WHERE id != ''
    UNION ALL SELECT conversations.id, '', (SELECT count(*) FROM items WHERE holder = conversations.id), NULL
        FROM conversations ORDER BY 1
"""


_TOLD_ELSEWHERE = ("_seconds", "_attempts_total", "_target_health", "_keys_in_cooldown")


class Stage:
    """One dialogue as it happens. `lines` is its transcript."""

    def __init__(self, settings: Settings, file: Path) -> None:
        self.lines: list[str] = []
        self.names = Names()
        self.loop = virtual_loop()
        self._shown_time = self.loop.time()
        self._works: Callable[[], bool] = lambda: False
        self._file = file if settings.storage.path else None
        self._kept: dict[str, tuple[object, ...]] = {}
        self._reader: sqlite3.Connection | None = None
        self._holder: sqlite3.Connection | None = None
        storage = replace(settings.storage, path=str(file)) if settings.storage.path else Storage(path=MEMORY)
        self.settings = replace(settings, storage=storage)
        self.provider = Provider(self)
        # By name the present one, and all in the order of their beginning.
        self._clients: dict[str, ClientEnd] = {}
        self.clients: list[ClientEnd] = []

    def open(self) -> None:
        """Start the gateway."""
        self.metrics = Metrics()
        log = Log(LogEnd(self), json=True)
        assert isinstance(log._writer, StreamWriter)

        def write_later() -> None:
            """Write the line of an exchange after its response, as the thread does."""
            self.loop.call_soon(log.flush)

        log._writer.wake = write_later
        state = StoredState(self.settings.storage, log, self.loop.time, self._alarm)
        if state.store is not None:
            self._works = state.store.is_working
            self.loop.watch(self._works)
        service = Runtime(self.settings, self.metrics, log, state)
        service.client = cast(HttpClient, self.provider)
        service.routing_state.rng = lambda: 0.0
        self.app = App(service)
        limits = replace(server_limits(self.settings.limits, self.settings.timeouts), write_buffer=ROOM)
        self.server = HttpServer(self.app, self.app.refuse, limits)

    def _alarm(self, seconds: float, wake: Callable[[], None]) -> None:
        """Wake the store's thread after some seconds of the loop's."""
        self.loop.call_soon_threadsafe(self.loop.call_later, seconds, wake)

    async def close(self) -> None:
        """Stop the gateway, once all exchanges are at their end; nothing of what ran is left."""
        under_way = self.server.busy
        for client in self._clients.values():
            client.leave()
        await self.loop.quiet()
        await self.app.runtime.close()
        await self.app.runtime.state.close(0.0)
        await self.loop.quiet()
        if self._reader is not None:
            self._reader.close()
        self.release()
        left = asyncio.all_tasks() - {asyncio.current_task()}
        assert not left, f"tasks that nobody ended: {left}"
        assert not under_way, "the dialogue leaves an exchange under way"

    def count(self) -> None:
        """Tell what was counted, but for times, attempts and health: the log has the first two, a page the last."""
        for line in render([self.metrics.snapshot()]).decode().splitlines():
            name, _, number = line.rpartition(" ")
            if not line.startswith("#") and number != "0" and not any(word in name for word in _TOLD_ELSEWHERE):
                self.lines.append(f"# {line}")

    def client(self, name: str) -> ClientEnd:
        """A client's connection, made when it is first needed or the last one was closed."""
        known = self._clients.get(name)
        if known is None or known.is_closing():
            known = self._clients[name] = ClientEnd(self, name)
            self.clients.append(known)
        return known

    # What is written down.

    def does(self, what: str, lines: list[str] | None = None) -> None:
        """Tell a stimulus."""
        self._look()
        self._tell(">", what, lines or [])

    def comes(self, what: str, lines: list[str] | None = None) -> None:
        """Tell what came of it."""
        self._look()
        self._tell("<", what, lines or [])

    def _tell(self, mark: str, what: str, lines: list[str]) -> None:
        if self.loop.time() != self._shown_time:
            self._shown_time = self.loop.time()
            self.lines.append(f"= {self._shown_time - START:g} s")
        self.lines += [self.names.named(f"{mark} {line}") for line in (what, *lines)]

    def _look(self) -> None:
        """Tell what is in the store since the last look, as another process would find it."""
        if self._file is None or not self._file.exists():
            return
        # All that was asked of the store by now: what it has of that would be a matter of luck.
        while self._works():
            threading.Event().wait(0.0002)
        if self._reader is None:
            self._reader = sqlite3.connect(f"file:{self._file}?mode=ro", uri=True)
        kept = {str(row[0]): row[1:] for row in self._reader.execute(_KEPT)}
        for name in sorted(self._kept.keys() - kept.keys()):
            self._tell("<", f"the store forgets {name}", [])
        for name, (status, before, said) in kept.items():
            if self._kept.get(name) != (status, before, said):
                items = f"{before} items" if said is None else f"{before} + {said} items"
                self._tell("<", f"the store has {name} {status or 'alone'} with {items}", [])
        self._kept = kept

    # The store, held by somebody else.

    def hold(self) -> None:
        """Keep the gateway from writing, as a process does that writes and does not come to an end."""
        assert self._file is not None
        self._holder = sqlite3.connect(self._file, isolation_level=None)
        self._holder.execute("BEGIN IMMEDIATE")

    def release(self) -> None:
        """Let it write again."""
        if self._holder is not None:
            self._holder.close()
            self._holder = None


class LogEnd(io.StringIO):
    """Where the log goes."""

    def __init__(self, stage: Stage) -> None:
        super().__init__()
        self._stage = stage

    def write(self, text: str) -> int:
        self._stage.comes("the log says", lines_of(text.encode()))
        return len(text)


class ClientEnd(asyncio.Transport):
    """A client's connection as the gateway's server has it, with a client at its other end."""

    def __init__(self, stage: Stage, name: str) -> None:
        super().__init__()
        self._stage = stage
        self._name = name
        self._closing = self._away = self._full = False
        self._reads = True
        self._unread = 0
        self._high = 0
        self._reply = Reply()
        self.heard = b""
        self._protocol = stage.server()
        self._protocol.connection_made(self)

    # What the client does.

    def say(self, data: bytes) -> None:
        """Send bytes."""
        self._protocol.data_received(data)

    def hang_up(self) -> None:
        """Go away."""
        self._away = True
        self._protocol.eof_received()
        self.close()

    def leave(self) -> None:
        """Go away, if it has not, as a client does that has heard all."""
        if not self._closing:
            self.hang_up()

    def stop_reading(self) -> None:
        """Let what is written wait."""
        self._reads = False

    def read_on(self) -> None:
        """Take what waits."""
        self._reads, self._unread = True, 0
        if self._full:
            self._full = False
            self._protocol.resume_writing()

    # What the server does.

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Take bytes for the client."""
        if self._closing:
            return
        self.heard += bytes(data)
        self._stage.comes(f"{self._name} is sent", self._reply.lines(bytes(data)))
        if not self._reads:
            self._unread += len(data)
            if self._unread > self._high and not self._full:
                self._full = True
                self._protocol.pause_writing()

    def close(self) -> None:
        self._end("the connection is closed")

    def abort(self) -> None:
        self._end("the connection is cut")

    def _end(self, how: str) -> None:
        if self._closing:
            return
        self._closing = True
        if not self._away:
            self._stage.comes(f"{self._name}: {how}")
        self._stage.loop.call_soon(self._protocol.connection_lost, None)

    def is_closing(self) -> bool:
        return self._closing

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        self._stage.comes(f"{self._name}: the gateway has nothing more to say")

    def pause_reading(self) -> None:
        self._stage.comes(f"{self._name} is not read from")

    def resume_reading(self) -> None:
        self._stage.comes(f"{self._name} is read from again")

    def get_write_buffer_size(self) -> int:
        return self._unread

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high = high or 0

    def get_extra_info(self, name: str, default: object = None) -> object:
        known = {"peername": ("127.0.0.1", 50000), "socket": SimpleNamespace(fileno=lambda: -1, setsockopt=self._set)}
        return known.get(name, default)

    def _set(self, *_: object) -> None:
        self._stage.comes(f"{self._name}: the end will be a reset")


class Provider:
    """In place of the HTTP client: every call is a flight on a line of its own, which the dialogue speaks on."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self.reuse = Reuse()
        self.lines: list[Line] = []
        # Calls that nobody takes, as if nothing listened there.
        self.unreachable = False

    def open(self, call: UpstreamRequest) -> HttpCall:
        """A flight for a call."""
        line = Line(self._stage, len(self.lines) + 1, reachable=not self.unreachable)
        self.lines.append(line)
        return HttpCall(cast(Pool, line), call, head_of(call, write_lines(call, None)), asyncio.get_running_loop())

    async def close(self) -> None:
        """There is nothing to close."""


class Line:
    """A provider's connection as a flight has it, and the pool that it came from."""

    reused = False
    was_pooled = False

    def __init__(self, stage: Stage, number: int, *, reachable: bool) -> None:
        self._stage = stage
        self._name = f"provider, call {number}"
        self._reachable = reachable
        self._flight: HttpCall | None = None
        self._paused = False
        # What the provider did while nobody read.
        self._unread: deque[Callable[[HttpCall], None]] = deque()

    # What the provider does. Nobody hears it on a line that was hung up.

    def answer(self, status: int, headers: Mapping[str, str]) -> None:
        """Send status and headers."""
        given = [(name.encode(), value.encode()) for name, value in headers.items()]
        self._send(lambda flight: flight.on_head(status, given))

    def say(self, data: bytes) -> None:
        """Send a piece of the body."""
        self._send(lambda flight: flight.on_data(data))

    def end(self) -> None:
        """End the answer."""
        self._send(lambda flight: self._last(flight.on_end))

    def cut(self, error: UpstreamError) -> None:
        """Break off."""
        self._send(lambda flight: self._last(lambda: flight.on_break(error)))

    def _send(self, news: Callable[[HttpCall], None]) -> None:
        self._unread.append(news)
        self._deliver()

    def _deliver(self) -> None:
        while self._unread and not self._paused and self._flight is not None:
            self._unread.popleft()(self._flight)

    def _last(self, news: Callable[[], None]) -> None:
        self._flight = None
        news()

    # What the flight asks of its pool.

    def take(self) -> UpstreamConnection | None:
        return cast(UpstreamConnection, self) if self._reachable else None

    def reusable(self) -> bool:
        return True

    def obtain(self) -> asyncio.Future[UpstreamConnection]:
        self._stage.comes(f"{self._name} cannot be reached")
        refused: asyncio.Future[UpstreamConnection] = self._stage.loop.create_future()
        refused.set_exception(Unreachable("the provider refused the connection"))
        return refused

    # What the flight asks of its connection.

    def send(self, flight: HttpCall, head: bytes, body: bytes, bodiless: bool) -> bool:
        self._flight = flight
        # The gateway's version is not the dialogue's business.
        head = head.replace(f"dragoman/{__version__}".encode(), b"dragoman/VERSION")
        self._stage.comes(f"{self._name} gets", message_lines(head + body))
        return True

    def pause(self) -> None:
        if not self._paused:
            self._paused = True
            self._stage.comes(f"{self._name} is not read from")

    def resume(self) -> None:
        if self._paused:
            self._paused = False
            self._stage.comes(f"{self._name} is read from again")
            self._stage.loop.call_soon(self._deliver)

    def drop(self) -> None:
        if self._flight is not None:
            self._flight = None
            self._stage.comes(f"{self._name} is hung up on")


@contextmanager
def settled(stage: Stage) -> Iterator[None]:
    """The wall clock follows the loop's, and nothing is random."""

    def now() -> float:
        return EPOCH + stage.loop.time() - START

    class Drawn:
        """Letters of the mint."""

        def read(self, length: int) -> str:
            return stage.names.token(length)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time, "time", now)
        patch.setattr(time, "time_ns", lambda: int(now() * 1e9))
        patch.setattr(response_head, "time", now)
        patch.setattr(database.open_tables, "__defaults__", (now,))
        # Threads that count are not waited for.
        patch.setattr(usage_estimate, "LEAST", 0)
        patch.setattr(mint, "_drawn", Drawn())
        # Ids of exchanges begin with their time, which is the same all along.
        patch.setattr("dragoman.gateway.app.new_id", lambda now, token: f"req_{token(24)}")
        yield
