"""A flight whose answer is coded: it is undone in turns of the loop, in order, and ends as any other."""

from __future__ import annotations

import asyncio
import gzip
import random
import zlib

import pytest

from dragoman.errors import BadResponse, Truncated
from dragoman.http import http_call
from dragoman.http.client import HttpClient
from dragoman.http.coding import STEP
from dragoman.http.upstream_call import UpstreamRequest
from tests.http.raw import loop_turns
from tests.http.scripted import Provider, Script, closing, hear, provider, run
from tests.waiting import wait_until_async

MEBIBYTE = 1024 * 1024
TEXT = b"".join(b"%07d\n" % number for number in range(MEBIBYTE // 4))
both_loops = pytest.mark.parametrize("loop", ["asyncio", "uvloop"])


def coded(body: bytes, *, missing: int = 0) -> bytes:
    """An answer in gzip, perhaps without its last bytes."""
    raw = gzip.compress(body, 1)
    head = b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: %d\r\n\r\n" % len(raw)
    return head + raw[: len(raw) - missing]


def get(server: Provider) -> UpstreamRequest:
    return UpstreamRequest(method="GET", url=server.url(), headers=[])


class Ticks:
    """How often the loop has turned."""

    def __init__(self) -> None:
        self.count = 0
        self.task = asyncio.create_task(self.run())

    async def run(self) -> None:
        while True:
            self.count += 1
            await asyncio.sleep(0)


@both_loops
def test_item_4_the_loop_turns_between_the_steps_of_an_answer(loop: str) -> None:
    async def test() -> None:
        async with provider(closing(coded(bytes(16 * MEBIBYTE)))) as server:
            client = HttpClient(connect_timeout=10, proxies={})
            flight = client.open(get(server))
            await flight.head()
            ticks = Ticks()
            seen: list[tuple[int, int]] = []
            await flight.pump(lambda piece: seen.append((len(piece), ticks.count)))
            ticks.task.cancel()
            assert sum(size for size, _ in seen) == 16 * MEBIBYTE
            assert max(size for size, _ in seen) <= STEP
            # A reading may bring a step of its own, the others have a turn each.
            turns = [turn for _, turn in seen]
            assert len(set(turns)) > len(turns) * 0.9
            flight.close()
            await client.close()

    run(test, loop)


@both_loops
@pytest.mark.parametrize("missing", [0, 1, 5000])
def test_what_came_is_handed_over_in_order_before_the_end_or_the_break(missing: int, loop: str) -> None:
    async def test() -> None:
        async with provider(closing(coded(TEXT, missing=missing))) as server:
            client = HttpClient(connect_timeout=10, proxies={})
            flight = client.open(get(server))
            await flight.head()
            pieces: list[bytes] = []
            if missing:
                with pytest.raises(Truncated):
                    await flight.pump(pieces.append)
            else:
                await flight.pump(pieces.append)
            body = b"".join(pieces)
            assert TEXT.startswith(body)
            assert len(body) > len(TEXT) - (MEBIBYTE if missing else 1)
            flight.close()
            await client.close()

    run(test, loop)


@both_loops
def test_a_pause_holds_a_coded_answer_and_a_resume_goes_on(loop: str) -> None:
    async def test() -> None:
        async with provider(closing(coded(TEXT))) as server:
            client = HttpClient(connect_timeout=10, proxies={})
            flight = client.open(get(server))
            await flight.head()
            pieces: list[bytes] = []
            resuming: list[asyncio.Task[None]] = []

            def take(piece: bytes) -> None:
                pieces.append(piece)
                if len(pieces) % 3 == 0:
                    flight.pause()
                    resuming.append(asyncio.create_task(resume(len(pieces))))

            async def resume(held: int) -> None:
                await loop_turns()
                assert len(pieces) == held
                flight.resume()
                # A second one makes no second line of steps.
                flight.resume()

            await flight.pump(take)
            await asyncio.gather(*resuming)
            assert len(resuming) > 1
            assert b"".join(pieces) == TEXT
            flight.close()
            await client.close()

    run(test, loop)


@both_loops
def test_the_provider_is_held_while_its_answer_is_undone(loop: str) -> None:
    # Of sixteen bytes one, or a little more, is left by the coding.
    blocks = [random.Random(seed).randbytes(4096) + bytes(60 * 1024) for seed in range(64)]
    count = 12

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await hear(reader)
        pack = zlib.compressobj(1, wbits=31)
        raw = b"".join(pack.compress(block) for block in blocks * count) + pack.flush()
        assert len(raw) > 8 * 256 * 1024
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\n\r\n" + raw)
        await writer.drain()

    async def test() -> None:
        async with provider(script) as server:
            client = HttpClient(connect_timeout=10, proxies={})
            flight = client.open(get(server))
            await flight.head()
            size = most = 0

            def take(piece: bytes) -> None:
                nonlocal size, most
                size += len(piece)
                most = max(most, flight._waiting.size)

            await flight.pump(take)
            assert size == count * 4 * MEBIBYTE
            # One reading may come beside the one that is being undone.
            assert most <= 2 * 256 * 1024
            flight.close()
            await client.close()

    run(test, loop)


@both_loops
def test_a_call_that_is_ended_in_the_middle_of_its_steps_hands_over_no_more(loop: str) -> None:
    async def test() -> None:
        async with provider(closing(coded(TEXT))) as server:
            client = HttpClient(connect_timeout=10, proxies={})
            flight = client.open(get(server))
            await flight.head()
            pieces: list[bytes] = []

            def take(piece: bytes) -> None:
                pieces.append(piece)
                if len(pieces) == 3:
                    asyncio.get_running_loop().call_soon(flight.abort, BadResponse("enough"))

            with pytest.raises(BadResponse, match="enough"):
                await flight.pump(take)
            await loop_turns()
            assert len(pieces) == 3
            flight.close()
            await client.close()

    run(test, loop)


BOMBS: dict[str, tuple[bytes, bytes, str]] = {
    "more between two codings than anybody needs": (
        b"gzip, gzip",
        gzip.compress(b"\x1f\x8b\x08\0\0\0\0\0\0\xff" + b"\0\0\0\xff\xff" * MEBIBYTE),
        http_call.TOO_LARGE,
    ),
    "three codings": (
        b"gzip, gzip, gzip",
        b"",
        "the provider's response has an unsupported content-encoding",
    ),
}


@pytest.mark.parametrize(("coding", "raw", "words"), BOMBS.values(), ids=BOMBS)
def test_item_4_nested_codings_of_a_provider_are_a_bad_answer(
    coding: bytes, raw: bytes, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_call, "MAX_BETWEEN_BYTES", MEBIBYTE)
    head = b"HTTP/1.1 200 OK\r\ncontent-encoding: %b\r\ncontent-length: %d\r\n\r\n" % (coding, len(raw))

    async def test() -> None:
        async with provider(closing(head + raw)) as server:
            client = HttpClient(connect_timeout=10, proxies={})
            flight = client.open(get(server))
            with pytest.raises(BadResponse) as caught:
                await flight.head()
                await flight.read(MEBIBYTE)
            assert str(caught.value) == words
            flight.close()
            await client.close()

    run(test, "asyncio")


def tiny_chunks(count: int) -> Script:
    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await hear(reader)
        writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
        writer.write(b"2\r\nab\r\n" * count + b"0\r\n\r\n")
        await writer.drain()

    return script


@both_loops
def test_item_5_an_answer_of_tiny_chunks_is_read_whole(loop: str) -> None:
    async def test() -> None:
        async with provider(tiny_chunks(200_000)) as server:
            client = HttpClient(connect_timeout=10, proxies={})
            flight = client.open(get(server))
            await flight.head()
            assert await flight.read(MEBIBYTE) == b"ab" * 200_000
            flight.close()
            await client.close()

    run(test, loop)


@both_loops
def test_a_body_that_has_arrived_is_taken_at_once_unless_it_is_coded_or_cut(loop: str) -> None:
    plain = b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello"

    async def taken(answer: bytes) -> tuple[bytes | None, bytes]:
        async with provider(closing(answer)) as server:
            client = HttpClient(connect_timeout=10, proxies={})
            flight = client.open(get(server))
            await flight.head()
            # Whatever was sent is here, and so is the end of the connection.
            await wait_until_async(lambda: flight._ended, "the answer is over")
            body, pieces = flight.take_complete(), list[bytes]()
            try:
                await flight.pump(pieces.append)
            except Truncated:
                pieces.append(b" cut")
            flight.close()
            assert flight.take_complete() is None
            await client.close()
            return body, b"".join(pieces)

    async def test() -> None:
        assert await taken(plain) == (b"hello", b"")
        assert await taken(b"HTTP/1.1 204 No Content\r\n\r\n") == (b"", b"")
        assert await taken(plain[:-1]) == (None, b"hell cut")
        assert await taken(coded(b"hello")) == (None, b"hello")

    run(test, loop)


def test_a_body_that_has_not_arrived_is_not_taken() -> None:
    async def test() -> None:
        last = asyncio.Event()

        async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await hear(reader)
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhell")
            await last.wait()
            writer.write(b"o")

        async with provider(script) as server:
            client = HttpClient(connect_timeout=10, proxies={})
            flight = client.open(get(server))
            await flight.head()
            assert flight.take_complete() is None
            last.set()
            assert await flight.read(5) == b"hello"
            flight.close()
            await client.close()

    run(test, "asyncio")
