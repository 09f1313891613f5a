"""Siblings: workers on one port tell each other what they counted, and one that cannot does not hold up the others."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress

import msgspec
import pytest
from msgspec.structs import replace

from dragoman.gateway import peer_workers as module
from dragoman.gateway.observability.metrics import Metrics, Snapshot
from dragoman.gateway.observability.prometheus import render
from dragoman.gateway.observability.record import Record
from dragoman.gateway.peer_workers import TOKEN_BYTES, PeerWorkers, new_token
from dragoman.gateway.workers.shared_memory import SharedMemory
from tests.gateway.observability.scraped import count_in
from tests.waiting import LIMIT, wait_until_async

TOKEN = new_token()
# What a worker says to whoever connects, before it knows who that is.
NONCE_BYTES = 32


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever is asked has all the time that a busy machine needs, unless a test says otherwise."""
    monkeypatch.setattr(module, "_TIMEOUT", LIMIT)


@pytest.fixture
def page() -> SharedMemory:
    return SharedMemory(4)


def counted(model: str = "m", times: int = 1) -> Metrics:
    metrics = Metrics()
    for _ in range(times):
        record = Record(id="r", client_protocol="openai-chat", path="/", started=0.0, time=0, status=200, ended=1.0)
        count_in(metrics, replace(record, provider="p", model=model))
    return metrics


def test_every_worker_hears_all_the_others(page: SharedMemory) -> None:
    async def main() -> None:
        workers = [PeerWorkers(page, name, TOKEN, counted(times=name + 1)) for name in range(3)]
        for worker in workers:
            await worker.listen()
        for name, worker in enumerate(workers):
            others = await worker.snapshots()
            assert sorted(one.cells[0].requests for one in others) == [n + 1 for n in range(3) if n != name]
        for worker in workers:
            await worker.close()
        assert [page.port(number) for number in range(4)] == [0] * 4

    asyncio.run(main())


def test_a_launch_is_told_by_every_worker_that_counted_it(page: SharedMemory) -> None:
    def launched(name: str, times: int) -> Metrics:
        metrics = Metrics()
        for _ in range(times):
            record = Record(id="r", client_protocol="openai-chat", path="/messages", started=0.0, time=0, status=200)
            count_in(metrics, replace(record, key="mine", launch=name))
        return metrics

    async def main() -> None:
        workers = [PeerWorkers(page, number, TOKEN, launched("one", number)) for number in range(3)]
        for worker in workers:
            await worker.listen()
        assert sorted(told.tally.calls for told in await workers[0].launch_counts("mine", "one")) == [1, 2]
        assert [told.tally.calls for told in await workers[0].launch_counts("theirs", "one")] == [0, 0]
        assert len({told.process for told in await workers[0].launch_counts("mine", "one")}) == 2
        for worker in workers:
            await worker.close()

    asyncio.run(main())


def test_a_worker_alone_hears_nobody(page: SharedMemory) -> None:
    async def main() -> None:
        worker = PeerWorkers(page, 0, TOKEN, counted())
        await worker.listen()
        assert await worker.snapshots() == []
        await worker.close()

    asyncio.run(main())


def test_what_is_told_is_the_state_at_that_moment(page: SharedMemory) -> None:
    async def main() -> None:
        metrics = Metrics()
        one, other = PeerWorkers(page, 0, TOKEN, metrics), PeerWorkers(page, 1, TOKEN, Metrics())
        await one.listen()
        metrics.in_flight = 5
        assert [snapshot.in_flight for snapshot in await other.snapshots()] == [5]
        metrics.in_flight = 2
        assert [snapshot.in_flight for snapshot in await other.snapshots()] == [2]
        await one.close()
        assert await other.snapshots() == []

    asyncio.run(main())


def test_a_successor_takes_the_place_of_a_worker_that_died(page: SharedMemory) -> None:
    async def main() -> None:
        gone = PeerWorkers(page, 0, TOKEN, counted(times=7))
        await gone.listen()
        # It is killed, and has no time to say that it is not there.
        port = page.port(0)
        await gone.close()
        page.set_port(0, port)
        assert await PeerWorkers(page, 1, TOKEN, Metrics()).snapshots() == []
        worker, other = PeerWorkers(page, 0, TOKEN, counted()), PeerWorkers(page, 1, TOKEN, Metrics())
        await worker.listen()
        assert len(await other.snapshots()) == 1
        await worker.close()

    asyncio.run(main())


Tell = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Coroutine[None, None, None]]


def saying(data: bytes) -> Tell:
    async def tell(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(data)
        writer.close()

    return tell


async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read()
    writer.close()


STRANGE: dict[str, Tell] = {
    "nothing": saying(b""),
    "no JSON": saying(b"<html>"),
    "half a document": saying(b'{"cells":[],"losses":[]'),
    "another document": saying(b'{"cells":5}'),
    "bytes that are no text": saying(b'{"cells":[{"client":"\xff"'),
    "no end": silent,
    "more than anybody counts": saying(b" " * 2_000_000),
}


@pytest.mark.parametrize("case", STRANGE)
def test_a_sibling_that_cannot_tell_is_left_out(page: SharedMemory, case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_LIMIT", 1_000_000)
    ask = module._query

    async def ask_with_own_timeout(
        port: int, token: bytes, asked: bytes, reads: msgspec.json.Decoder[Snapshot]
    ) -> list[Snapshot]:
        # The strange one is asked first, so that the long timeout is in force when the other one answers.
        monkeypatch.setattr(module, "_TIMEOUT", 0.05 if port == page.port(0) and case == "no end" else LIMIT)
        return await ask(port, token, asked, reads)

    monkeypatch.setattr(module, "_query", ask_with_own_timeout)

    async def main() -> None:
        good, asking = PeerWorkers(page, 2, TOKEN, counted()), PeerWorkers(page, 1, TOKEN, Metrics())
        await good.listen()
        strange = await asyncio.start_server(STRANGE[case], "127.0.0.1", 0)
        page.set_port(0, strange.sockets[0].getsockname()[1])
        found = await asking.snapshots()
        assert [snapshot.cells[0].requests for snapshot in found] == [1]
        strange.close()
        await good.close()
        await wait_until_async(lambda: len(asyncio.all_tasks()) == 1, "connections that were hung up on have ended")

    asyncio.run(main())


def test_one_who_hangs_up_early_does_no_harm(page: SharedMemory) -> None:
    async def main() -> None:
        metrics = Metrics()
        for count in range(100):
            metrics._losses["c", "d", "f" * 10_000, str(count)] = 1
        worker, other = PeerWorkers(page, 0, TOKEN, metrics), PeerWorkers(page, 1, TOKEN, Metrics())
        await worker.listen()
        for _ in range(5):
            _, writer = await asyncio.open_connection("127.0.0.1", page.port(0))
            writer.write(TOKEN)
            writer.transport.abort()
        (snapshot,) = await other.snapshots()
        assert len(snapshot.losses) == 100
        await worker.close()

    asyncio.run(main())


@pytest.mark.parametrize("model", ["a\ud800b", 'x"}\n', "x" * 1_000_000, "漢字"], ids=lambda model: ascii(model[:8]))
def test_a_hostile_model_does_not_keep_a_worker_from_telling(page: SharedMemory, model: str) -> None:
    async def main() -> None:
        worker, other = PeerWorkers(page, 0, TOKEN, counted(model)), PeerWorkers(page, 1, TOKEN, counted(model))
        await worker.listen()
        both = [counted(model).snapshot(), *await other.snapshots()]
        await worker.close()
        lines = [line for line in render(both).decode().split("\n") if line.startswith("dragoman_requests_total")]
        assert len(lines) == 1
        assert lines[0].endswith(" 2")

    asyncio.run(main())


UNKNOWN: dict[str, bytes] = {
    "another proof": bytes(NONCE_BYTES + TOKEN_BYTES),
    "the token itself": bytes(NONCE_BYTES) + TOKEN,
    "a proof cut short": bytes(NONCE_BYTES + TOKEN_BYTES - 1),
    "a request of a browser": b"GET /metrics HTTP/1.1\r\nhost: localhost\r\n\r\n",
    "nothing": b"",
}


@pytest.mark.parametrize("case", UNKNOWN)
def test_one_who_does_not_know_the_token_is_told_nothing(page: SharedMemory, case: str) -> None:
    async def main() -> None:
        worker = PeerWorkers(page, 0, TOKEN, counted())
        await worker.listen()
        reader, writer = await asyncio.open_connection("127.0.0.1", page.port(0))
        writer.write(UNKNOWN[case])
        writer.write_eof()
        # What was said beyond the proof's length is left unread.
        with suppress(ConnectionResetError):
            assert len(await reader.read()) == NONCE_BYTES
        writer.close()
        await worker.close()

    asyncio.run(main())


def test_one_who_says_nothing_is_hung_up_on(page: SharedMemory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_TIMEOUT", 0.05)

    async def main() -> None:
        worker = PeerWorkers(page, 0, TOKEN, counted())
        await worker.listen()
        reader, writer = await asyncio.open_connection("127.0.0.1", page.port(0))
        assert len(await reader.read()) == NONCE_BYTES
        writer.close()
        await worker.close()

    asyncio.run(main())
