"""Item 22 A8: the token of the workers is sent to nobody, least of all to whoever listens at a sibling's port."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress

import pytest

from dragoman.gateway.observability.metrics import Metrics
from dragoman.gateway.peer_workers import PeerWorkers, new_token
from dragoman.gateway.workers.handshake import HOST, Unproven, accept, dial
from dragoman.gateway.workers.shared_memory import SharedMemory
from tests.waiting import LIMIT, wait_until_async

TOKEN = new_token()
Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Coroutine[None, None, None]]


@asynccontextmanager
async def listening(serve: Serve) -> AsyncIterator[int]:
    """A listener, and its port; whatever it serves ends with it."""
    served: set[asyncio.Task[None]] = set()

    def begin(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async def run() -> None:
            try:
                with suppress(ConnectionError, asyncio.IncompleteReadError):
                    await serve(reader, writer)
            finally:
                writer.transport.abort()

        served.add(asyncio.ensure_future(run()))

    server = await asyncio.start_server(begin, HOST, 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        async with asyncio.timeout(LIMIT):
            await asyncio.gather(*served)


@pytest.mark.parametrize("theirs", [TOKEN, new_token()], ids=["a sibling", "a stranger"])
def test_both_sides_know_whether_the_other_one_knows_the_token(theirs: bytes) -> None:
    async def main() -> None:
        found: list[bool] = []

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            found.append(await accept(reader, writer, theirs))

        async with listening(serve) as port:
            if theirs == TOKEN:
                _, writer = await dial(port, TOKEN)
                writer.close()
            else:
                with pytest.raises(Unproven):
                    await dial(port, TOKEN)
        assert found == [theirs == TOKEN]

    asyncio.run(main())


@pytest.mark.parametrize("greeting", [b"", bytes(32), bytes(64), bytes(96)], ids=lambda greeting: str(len(greeting)))
def test_item_22_a8_a_foreign_listener_at_a_siblings_port_learns_neither_token_nor_news(greeting: bytes) -> None:
    async def main() -> None:
        heard = bytearray()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(greeting)
            if len(greeting) < 64:
                writer.write_eof()
            while piece := await reader.read(1024):
                heard.extend(piece)

        async with listening(serve) as port:
            page = SharedMemory(2)
            page.set_port(1, port)
            worker = PeerWorkers(page, 0, TOKEN, Metrics())
            worker.channel.subscribe("news", str, lambda said: None)
            worker.channel.broadcast("news", "where conversations are")
            await worker.channel.catch_up()
            assert await worker.snapshots() == []
            assert await worker.launch_counts("key", "launch") == []
            await wait_until_async(
                lambda: bool(links := worker.channel._links) and all(link.over for link in links.values()),
                "the link has hung up",
            )
            await worker.close()
        assert TOKEN not in heard and b"where conversations are" not in heard
        # A nonce and a proof for each of the four connections, and nothing else.
        assert len(heard) == (4 * 64 if greeting else 0)

    asyncio.run(main())


def test_item_22_a8_what_another_worker_proves_is_no_proof_at_a_foreign_port() -> None:
    async def main() -> None:
        passed: list[bytes] = []

        async def worker(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            if await accept(reader, writer, TOKEN):
                passed.append(b"as a worker")

        async with listening(worker) as real:

            async def between(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                """Pass everything on to a worker, both ways."""
                far_reader, far_writer = await asyncio.open_connection(HOST, real)
                try:
                    writer.write(await far_reader.readexactly(32))
                    far_writer.write(await reader.readexactly(64))
                    writer.write(await far_reader.read())
                finally:
                    far_writer.transport.abort()

            async with listening(between) as foreign:
                with pytest.raises(Unproven):
                    await dial(foreign, TOKEN)
        assert passed == []

    asyncio.run(main())
