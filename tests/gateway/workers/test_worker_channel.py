"""The channel between workers: what one tells, all others hear, soon; who does not listen holds up nobody."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import msgspec
import pytest

from dragoman.gateway import peer_workers
from dragoman.gateway.observability.metrics import Metrics
from dragoman.gateway.peer_workers import PeerWorkers, new_token
from dragoman.gateway.workers import worker_channel as module
from dragoman.gateway.workers.handshake import accept, dial
from dragoman.gateway.workers.shared_memory import SharedMemory
from dragoman.gateway.workers.worker_channel import (
    MAX_BATCH_MESSAGES,
    MAX_MESSAGE_BYTES,
    SNAPSHOT,
    UPDATES,
    Malformed,
    WorkerChannel,
    WorkerMessage,
)
from tests.http.raw import Run, on_both_loops
from tests.waiting import LIMIT, wait_until_async

TOKEN = new_token()


class Rest(msgspec.Struct, frozen=True):
    """Something to tell."""

    target: str
    until: float = 0.0


@pytest.fixture(autouse=True)
def timing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches follow each other at once, and whoever is asked has all the time that a busy machine needs."""
    monkeypatch.setattr(module, "_FLUSH_INTERVAL", 0.01)
    monkeypatch.setattr(module, "_TIMEOUT", LIMIT)
    monkeypatch.setattr(peer_workers, "_TIMEOUT", LIMIT)


class Crew:
    """Workers, and what each has heard."""

    def __init__(self, count: int) -> None:
        self.page = SharedMemory(count)
        self.heard: list[list[Rest]] = [[] for _ in range(count)]
        self.workers = [PeerWorkers(self.page, number, TOKEN, Metrics()) for number in range(count)]
        for number, worker in enumerate(self.workers):
            worker.channel.subscribe("rest", Rest, self.heard[number].append)

    def tell(self, number: int, target: str) -> None:
        self.workers[number].channel.broadcast("rest", Rest(target))


@asynccontextmanager
async def crew(count: int = 3) -> AsyncIterator[Crew]:
    made = Crew(count)
    for worker in made.workers:
        await worker.listen()
    try:
        yield made
    finally:
        for worker in made.workers:
            await worker.close()


@on_both_loops
def test_what_one_tells_all_others_hear_once_and_in_order(run: Run) -> None:
    async def main() -> None:
        async with crew() as made:
            told = [Rest(f"p/{number}") for number in range(5)]
            for one in told[:3]:
                made.workers[0].channel.broadcast("rest", one)
            made.workers[0].channel.broadcast("another topic", Rest("nobody listens"))
            await wait_until_async(
                lambda: len(made.heard[1]) == len(made.heard[2]) == 3, "the others have heard three messages"
            )
            for one in told[3:]:
                made.workers[0].channel.broadcast("rest", one)
            await wait_until_async(
                lambda: len(made.heard[1]) == len(made.heard[2]) == 5, "the others have heard all messages"
            )
            assert made.heard == [[], told, told]

    run(main())


def test_many_messages_are_few_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    pause = 3600.0
    monkeypatch.setattr(module, "_FLUSH_INTERVAL", pause)

    async def main() -> None:
        async with crew(2) as made:
            batches: list[int] = []
            teller, hear = made.workers[0].channel, made.workers[1].channel.receive

            def count(batch: bytes) -> None:
                hear(batch)
                batches.append(len(made.heard[1]))

            monkeypatch.setattr(made.workers[1].channel, "receive", count)
            made.tell(0, "at once")
            await wait_until_async(lambda: batches == [1], "the first message is told at once")
            for number in range(100):
                made.tell(0, str(number))
                await asyncio.sleep(0)
            # All others wait for the same moment.
            assert teller._due is not None
            assert teller._due.when() == teller._flushed_at + pause
            teller._due.cancel()
            teller._flush()
            await wait_until_async(lambda: len(made.heard[1]) == 101, "all messages are heard")
            assert batches == [1, 101]

    asyncio.run(main())


def test_too_large_and_too_many_is_left_out_and_counted() -> None:
    async def main() -> None:
        async with crew(2) as made:
            teller = made.workers[0].channel
            teller.broadcast("rest", Rest("x" * MAX_MESSAGE_BYTES))
            assert teller.dropped == 1
            for number in range(MAX_BATCH_MESSAGES + 5):
                made.tell(0, str(number))
            assert teller.dropped == 6
            await wait_until_async(
                lambda: len(made.heard[1]) == MAX_BATCH_MESSAGES, "as many messages as fit are heard"
            )
            # The oldest make room.
            assert made.heard[1][0] == Rest("5")

    asyncio.run(main())


def test_a_worker_alone_tells_nobody_and_does_nothing_for_it() -> None:
    async def main() -> None:
        alone = WorkerChannel(SharedMemory(1), 0, b"")
        alone.subscribe("rest", Rest, lambda _: None)
        alone.broadcast("rest", Rest("p/m"))
        assert alone._due is None
        await alone.catch_up()
        alone.close()

    asyncio.run(main())


def test_a_new_worker_hears_what_the_others_know() -> None:
    async def main() -> None:
        async with crew() as made:
            for number in (1, 2):
                known = [Rest(f"of {number}"), Rest("both")]
                made.workers[number].channel.offer("rest", known.copy)
                made.workers[number].channel.offer("pins", lambda: ["nobody asked"])
            await made.workers[0].channel.catch_up()
            assert sorted(one.target for one in made.heard[0]) == ["both", "both", "of 1", "of 2"]
            # Who knows nothing has nothing to tell.
            await made.workers[1].channel.catch_up()
            assert sorted(one.target for one in made.heard[1]) == ["both", "of 2"]

    asyncio.run(main())


def test_a_successor_is_told_and_tells_again() -> None:
    async def main() -> None:
        async with crew(2) as made:
            made.tell(0, "before")
            await wait_until_async(lambda: len(made.heard[1]) == 1, "the other has heard the message")
            await made.workers[1].close()
            # Nobody is there now, and what is said meanwhile is lost.
            made.tell(0, "meanwhile")
            await wait_until_async(lambda: made.workers[0].channel._due is None, "the message was told to nobody")
            successor = PeerWorkers(made.page, 1, TOKEN, Metrics())
            heard: list[Rest] = []
            successor.channel.subscribe("rest", Rest, heard.append)
            await successor.listen()
            made.tell(0, "after")
            await wait_until_async(lambda: heard == [Rest("after")], "the successor has heard the next message")
            successor.channel.broadcast("rest", Rest("back"))
            await wait_until_async(lambda: made.heard[0] == [Rest("back")], "the successor is heard")
            await successor.close()

    asyncio.run(main())


def test_one_who_does_not_read_or_is_not_there_holds_up_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MAX_UNSENT_BYTES", 100_000)

    async def main() -> None:
        stop = asyncio.Event()

        async def deaf(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            reader._transport.pause_reading()  # type: ignore[attr-defined]  # streams have no word for it
            await stop.wait()
            writer.transport.abort()

        async with crew(4) as made:
            strange = await asyncio.start_server(deaf, "127.0.0.1", 0)
            made.page.set_port(2, strange.sockets[0].getsockname()[1])
            gone = await asyncio.start_server(deaf, "127.0.0.1", 0)
            made.page.set_port(3, gone.sockets[0].getsockname()[1])
            gone.close()
            links: set[object] = set()
            while len(links) < 3:
                for _ in range(400):
                    made.tell(0, "x" * 4000)
                await wait_until_async(
                    lambda: len(made.heard[1]) == 400, "the worker that reads has heard all messages"
                )
                made.heard[1].clear()
                links.add(made.workers[0].channel._links[2])
            # It was hung up on and tried again.
            assert made.workers[0].channel.dropped == 0
            stop.set()
            strange.close()

    asyncio.run(main())


SAID: dict[str, bytes] = {
    "another wish": b"x",
    "no batch": UPDATES + b"\x00\x00\x00\x03abc",
    "a batch without end": UPDATES + b"\xff\xff\xff\xff",
    "another value": UPDATES + b"\x00\x00\x00\x01\xc0",
    "a message with another value": UPDATES
    + (lambda batch: len(batch).to_bytes(4, "big") + batch)(msgspec.msgpack.encode([WorkerMessage("rest", b"\x01")])),
    "a topic that is no text": UPDATES + b"\x00\x00\x00\x05\x91\x92\xa1\xff\xc4",
}


@pytest.mark.parametrize("case", SAID)
def test_whoever_says_anything_else_is_hung_up_on(case: str) -> None:
    async def main() -> None:
        async with crew(2) as made:
            reader, writer = await dial(made.page.port(1), TOKEN)
            writer.write(SAID[case])
            # What was said beyond that is left unread.
            with suppress(ConnectionResetError):
                async with asyncio.timeout(LIMIT):
                    assert await reader.read() == b""
            writer.close()
            assert made.heard[1] == []
            made.tell(0, "still there")
            await wait_until_async(lambda: made.heard[1] == [Rest("still there")], "the next message is heard")

    asyncio.run(main())


def test_what_cannot_be_understood_of_what_others_know_is_left_out() -> None:
    async def main() -> None:
        async def strange(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            assert await accept(reader, writer, TOKEN)
            assert await reader.readexactly(1) == SNAPSHOT
            writer.write(b"nonsense")
            writer.close()

        async with crew() as made:
            server = await asyncio.start_server(strange, "127.0.0.1", 0)
            made.page.set_port(1, server.sockets[0].getsockname()[1])
            made.workers[2].channel.offer("rest", lambda: [Rest("good")])
            await made.workers[0].channel.catch_up()
            assert made.heard[0] == [Rest("good")]
            server.close()

    asyncio.run(main())


def test_a_batch_that_is_none_is_malformed() -> None:
    channel = WorkerChannel(SharedMemory(2), 0, TOKEN)
    with pytest.raises(Malformed):
        channel.receive(b"")


SCRIPT = """
import asyncio, os, sys
from dragoman.gateway.peer_workers import PeerWorkers, new_token
from dragoman.gateway.workers.shared_memory import SharedMemory
from dragoman.gateway.observability.metrics import Metrics

page, token = SharedMemory(3), new_token()

def say(line):
    # In one piece, as several processes write here.
    os.write(1, line.encode() + b"\\n")

async def work(number, born):
    worker = PeerWorkers(page, number, token, Metrics())
    heard = set()
    def hear(said):
        if tuple(said) not in heard:
            heard.add(tuple(said))
            say('{"worker": [%d, %d], "heard": [%d, %d]}' % (number, born, *said))
    worker.channel.subscribe("born", list[int], hear)
    worker.channel.offer("born", lambda: heard)
    await worker.listen()
    await worker.channel.catch_up()
    while True:
        worker.channel.broadcast("born", [number, born])
        await asyncio.sleep(0.05)

def start(number, born):
    pid = os.fork()
    if not pid:
        asyncio.run(work(number, born))
    return pid

pids = {start(number, 0): number for number in range(3)}
say('{"pids": %s}' % list(pids))
for line in sys.stdin:
    pid, status = os.wait()
    number = pids.pop(pid)
    page.clear(number)
    pids[start(number, 1)] = number
    say('{"pids": %s}' % list(pids))
"""


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="made for systems that fork")
def test_processes_hear_each_other_and_one_that_was_killed_and_started_anew_takes_part() -> None:
    process = subprocess.Popen([sys.executable, "-c", SCRIPT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None
    assert process.stdout is not None
    heard: set[tuple[tuple[int, int], tuple[int, int]]] = set()
    pids: list[int] = []

    def listen(wanted: set[tuple[tuple[int, int], tuple[int, int]]]) -> None:
        nonlocal pids
        assert process.stdout is not None
        while not wanted <= heard or not pids:
            line = json.loads(process.stdout.readline())
            if "pids" in line:
                pids = line["pids"]
            else:
                heard.add((tuple(line["worker"]), tuple(line["heard"])))

    try:
        first = [(number, 0) for number in range(3)]
        listen({(one, other) for one in first for other in first if one != other})
        os.kill(pids[1], signal.SIGKILL)
        pids = []
        process.stdin.write("again\n")
        process.stdin.flush()
        # It hears the others, is heard by them, and knows of its predecessor only from what they know.
        anew = (1, 1)
        listen({(anew, (0, 0)), (anew, (2, 0)), ((0, 0), anew), ((2, 0), anew), (anew, (1, 0))})
        assert len(pids) == 3
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        process.kill()
        process.communicate()
