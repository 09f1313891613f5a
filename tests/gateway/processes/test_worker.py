"""One worker in this very process; what it does under load is shown in tests/server."""

from __future__ import annotations

import asyncio
import gc
import io
import json
import os
import signal
import socket
import sys
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from pathlib import Path
from select import select

import pytest
from msgspec.structs import replace

from dragoman.config.config_file import Fingerprint, fingerprint
from dragoman.config.settings import Limits, RouteConfig, Server, Settings, Timeouts
from dragoman.errors import ConfigError, ConfigErrors
from dragoman.gateway.observability.logs import Log
from dragoman.gateway.processes.config_reload import WorkerSettings
from dragoman.gateway.processes.listen_socket import bind
from dragoman.gateway.processes.worker import Worker, server_limits
from tests.waiting import LIMIT, wait_until_async

REFUSED = "cannot reload configuration: it has errors"


@pytest.fixture(autouse=True)
def process_settings() -> Iterator[None]:
    """Put back what a worker sets for a process of its own: garbage collector, switch interval, signal handlers."""
    threshold, interval = gc.get_threshold(), sys.getswitchinterval()
    handlers = {number: signal.getsignal(number) for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)}
    # A worker collects at its start. It need not go through the objects of all the tests.
    gc.freeze()
    yield
    gc.unfreeze()
    gc.set_threshold(*threshold)
    sys.setswitchinterval(interval)
    for number, handler in handlers.items():
        signal.signal(number, handler)


class House:
    """A worker, what it reads when it is told to read, and what it logs."""

    def __init__(self) -> None:
        self.out = io.StringIO()
        self.read: Callable[[], Settings] = Settings
        self.port = 0

    def duty(
        self, file: Path | None = None, *, seen: Fingerprint | None = None, lifeline: int | None = None
    ) -> WorkerSettings:
        """What the worker is told."""
        return WorkerSettings(
            read=lambda: self.read(),
            log=Log(self.out, json=True),
            fingerprint=partial(fingerprint, file) if file is not None else None,
            seen=seen,
            lifeline=lifeline,
        )

    def events(self) -> list[dict[str, object]]:
        return [json.loads(line) for line in self.out.getvalue().splitlines()]

    def run(self, duty: WorkerSettings, settings: Settings, while_serving: Callable[[Worker], Awaitable[None]]) -> None:
        """Serve, do something meanwhile, and wait for the worker to end by itself."""

        async def main() -> None:
            listener = bind("127.0.0.1", 0)
            self.port = listener.getsockname()[1]
            ready = asyncio.Event()
            worker = Worker(duty, settings)
            running = asyncio.create_task(worker.run(listener, ready.set))
            async with asyncio.timeout(LIMIT):
                await asyncio.wait({running, asyncio.create_task(ready.wait())}, return_when=asyncio.FIRST_COMPLETED)
                await while_serving(worker)
                await running

        asyncio.run(main())

    async def healthy(self) -> bool:
        """Whether somebody answers at the port."""
        return (await self.ask("/healthz")).startswith(b"HTTP/1.1 200 ")

    async def ask(self, path: str) -> bytes:
        """What is answered on a connection of its own; nothing if nobody listens."""
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        except ConnectionRefusedError:
            return b""
        writer.write(f"GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n".encode())
        told = await reader.read()
        writer.close()
        return told


@pytest.fixture
def house() -> House:
    return House()


# Stops at once: what comes before that with SIGTERM is shown by itself.
def _terminate() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def test_it_serves_until_it_is_told_to_stop_and_closes_the_port_then(house: House) -> None:
    async def meanwhile(worker: Worker) -> None:
        assert await house.healthy()
        _terminate()

    house.run(house.duty(), Settings(), meanwhile)
    assert house.events() == []
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", house.port), timeout=LIMIT)


def test_it_ends_when_its_lifeline_does(house: House) -> None:
    lifeline, held = os.pipe()
    try:

        async def meanwhile(worker: Worker) -> None:
            # Words mean nothing there.
            os.write(held, b"words")
            await wait_until_async(lambda: not select([lifeline], [], [], 0)[0], "the words are read")
            assert await house.healthy()
            os.close(held)

        house.run(house.duty(lifeline=lifeline), Settings(), meanwhile)
    finally:
        os.close(lifeline)


def test_every_problem_of_a_refused_configuration_is_a_line_of_its_own(house: House) -> None:
    problems = [
        ConfigError(file="dragoman.toml", line=3, key="server.prot", problem="is not known", remedy="write port"),
        ConfigError(
            file="dragoman.toml", line=7, key="limits.request_body", problem="is no size", remedy='write "32 MiB"'
        ),
    ]

    def read() -> Settings:
        raise ConfigErrors(problems)

    async def meanwhile(worker: Worker) -> None:
        house.read = read
        worker.reload()
        assert await house.healthy()
        _terminate()

    house.run(house.duty(), Settings(), meanwhile)
    told = house.events()
    assert [line["event"] for line in told] == [REFUSED] * 2
    for line, problem in zip(told, problems, strict=True):
        parts = (problem.file, problem.line, problem.key, problem.problem, problem.remedy)
        assert tuple(line[name] for name in ("file", "line", "key", "problem", "remedy")) == parts


# New settings, and what is said of them.
CHANGES: dict[str, tuple[Settings, list[str]]] = {
    "a route": (
        Settings(routes=(RouteConfig(pattern="a", targets=("echo/text",)),)),
        ["configuration reloaded"],
    ),
    "another port": (
        Settings(server=Server(port=1)),
        ["host, port, workers and storage change only with a restart", "configuration reloaded"],
    ),
    "one that works but should be known": (
        Settings(warnings=("providers.a may send its key in clear text",)),
        ["providers.a may send its key in clear text", "configuration reloaded"],
    ),
    "an address for everybody": (
        Settings(server=Server(host="0.0.0.0")),
        ["host, port, workers and storage change only with a restart", "configuration reloaded"],
    ),
    "an empty file": (Settings(file="dragoman.toml", empty=True), [REFUSED]),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_is_told(house: House, change: str) -> None:
    settings, words = CHANGES[change]

    async def meanwhile(worker: Worker) -> None:
        house.read = lambda: settings
        os.kill(os.getpid(), signal.SIGHUP)
        await wait_until_async(house.events, "a line in the log")
        assert await house.healthy()
        _terminate()

    house.run(house.duty(), Settings(), meanwhile)
    assert [line["event"] for line in house.events()] == words


def test_a_file_that_changed_before_the_start_is_read_before_anybody_is_served(house: House, tmp_path: Path) -> None:
    file = tmp_path / "dragoman.toml"
    file.write_text("")
    seen = fingerprint(file)
    file.write_text("# another")

    async def meanwhile(worker: Worker) -> None:
        assert [line["event"] for line in house.events()] == ["configuration reloaded"]
        _terminate()

    house.run(house.duty(file, seen=seen), Settings(file=str(file)), meanwhile)


def test_it_serves_on_after_sigterm_and_says_that_it_will_not_for_long(house: House) -> None:
    async def meanwhile(worker: Worker) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", house.port)
        writer.write(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n")
        assert b"connection: close" not in await reader.readuntil(b"ok\n")
        os.kill(os.getpid(), signal.SIGTERM)
        await wait_until_async(house.events, "a line in the log")
        assert (await house.ask("/readyz")).startswith(b"HTTP/1.1 503 ")
        assert (await house.ask("/readyz")).endswith(b"draining\n")
        assert await house.healthy()
        # A connection that was there before is served, too, and told that this is the end of it.
        writer.write(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n")
        assert b"connection: close" in await reader.read()
        writer.close()
        # It is told once more: then it is time.
        os.kill(os.getpid(), signal.SIGTERM)

    house.run(house.duty(), Settings(timeouts=Timeouts(lame_duck=3600)), meanwhile)
    assert [line["event"] for line in house.events()] == ["stopping soon: no longer ready, and still serving"]


def test_the_time_between_is_over_by_itself(house: House) -> None:
    async def meanwhile(worker: Worker) -> None:
        os.kill(os.getpid(), signal.SIGTERM)

    house.run(house.duty(), Settings(timeouts=Timeouts(lame_duck=0.1)), meanwhile)


def test_a_worker_among_several_may_be_told_twice(house: House) -> None:
    lifeline, held = os.pipe()

    async def meanwhile(worker: Worker) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        await wait_until_async(house.events, "the first signal is heard")
        os.kill(os.getpid(), signal.SIGTERM)
        # The loop hears of the second one before it can answer the first of these.
        for _ in range(2):
            assert (await house.ask("/readyz")).startswith(b"HTTP/1.1 503 ")
        # Whoever watched over it is gone: nothing is waited for.
        os.close(held)

    try:
        duty = replace(house.duty(lifeline=lifeline), token=b"of-siblings")
        house.run(duty, Settings(timeouts=Timeouts(lame_duck=3600)), meanwhile)
    finally:
        os.close(lifeline)


def test_a_change_in_the_time_between_leaves_it_not_ready(house: House) -> None:
    async def meanwhile(worker: Worker) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        await wait_until_async(house.events, "a line in the log")
        worker.reload()
        assert (await house.ask("/readyz")).startswith(b"HTTP/1.1 503 ")
        _terminate()

    house.run(house.duty(), Settings(timeouts=Timeouts(lame_duck=3600)), meanwhile)


def test_what_the_server_holds_its_clients_to_comes_from_the_settings() -> None:
    limits = server_limits(
        Limits(header_bytes=1, header_count=2),
        Timeouts(client_headers=3.0, client_body=4.0),
    )
    held = (limits.header_bytes, limits.header_count, limits.header_timeout, limits.body_timeout)
    assert held == (1, 2, 3.0, 4.0)
