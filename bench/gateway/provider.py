"""The mock provider: answers in all three protocols from prebuilt bytes, and is never what is waited for.

python -m bench.gateway.provider PORT [TLS_PORT CERTIFICATE]

Which protocol is a matter of the path; how, whole, at once or paced, is a letter in the mark that the request carries.
"""

from __future__ import annotations

import asyncio
import gc
import ssl
import sys
from collections.abc import Sequence

import httptools
import uvloop

from bench.gateway.answers import Answer, held, long, short, streamed, whole
from bench.gateway.metronome import Metronome
from bench.gateway.questions import PATHS, SIGN, chunks_of, find_mark
from bench.workloads import PROTOCOLS

_MAKERS = {b"w": whole, b"b": streamed, b"p": streamed, b"s": short, b"h": held}
_ANSWERS: dict[tuple[bytes, bytes], Answer] = {
    (PATHS[protocol], letter): make(protocol) for protocol in PROTOCOLS for letter, make in _MAKERS.items()
}
_PROTOCOLS = {path: protocol for protocol, path in PATHS.items()}
_LETTER = slice(len(SIGN), len(SIGN) + 1)
_HEALTHY = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"
# Where streams are told to go on that were held.
RELEASE = b"/release"
_UNKNOWN = b"HTTP/1.1 404 Not Found\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}"


class Connection(asyncio.Protocol):
    """One connection of a client, a gateway or nginx; it is kept open."""

    def __init__(self, loop: asyncio.AbstractEventLoop, metronome: Metronome, waiting: list[Connection]) -> None:
        # Connections of all streams that are held.
        self._waiting = waiting
        self._loop = loop
        self._metronome = metronome
        self._parser = httptools.HttpRequestParser(self)
        self._transport: asyncio.Transport | None = None
        self._path = b""
        self._body: list[bytes] = []
        # What is left of the answer, last write first.
        self._left: list[bytes] = []

    # A stream's transport is always one that can write, though uvloop's is none of asyncio's classes.
    # The loop gives a transport for both directions, which the protocol's own signature does not promise.
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Keep the transport to answer on."""
        self._transport = transport

    def connection_lost(self, error: Exception | None) -> None:
        """Forget the rest of an answer that nobody waits for."""
        self._transport = None
        self._left.clear()

    def data_received(self, data: bytes) -> None:
        """Read on; what is not HTTP ends the connection."""
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:
            if self._transport is not None:
                self._transport.close()

    def on_url(self, url: bytes) -> None:
        """The path, without a query."""
        self._path = url.partition(b"?")[0]

    def on_body(self, body: bytes) -> None:
        """A piece of the body."""
        self._body.append(body)

    def on_message_complete(self) -> None:
        """Answer as the mark says."""
        assert self._transport is not None
        mark = find_mark(b"".join(self._body))
        self._body.clear()
        answer = None if mark is None else _answer_to(self._path, mark)
        if mark is None or answer is None:
            if self._path == RELEASE:
                self._release()
            self._transport.write(_HEALTHY if self._path in (b"/healthz", RELEASE) else _UNKNOWN)
            return
        writes = answer.filled(mark)
        if len(writes) == 1:
            self._transport.write(writes[0])
            return
        self._left = writes[::-1]
        if mark[_LETTER] == b"p":
            self._metronome.add(self._step)
        elif mark[_LETTER] == b"h":
            self._step()
            self._waiting.append(self)
        else:
            self._flow()

    def _release(self) -> None:
        for connection in self._waiting:
            self._loop.call_soon(connection._flow)
        self._waiting.clear()

    def _step(self) -> bool:
        if self._left and self._transport is not None:
            self._transport.write(self._left.pop())
        return bool(self._left)

    def _flow(self) -> None:
        # One write for each turn of the loop: several within one would leave together. A provider that sends without a
        # pause does so chunk by chunk; how many of them a read then finds is up to the reader.
        if self._step():
            self._loop.call_soon(self._flow)


def _answer_to(path: bytes, mark: bytes) -> Answer | None:
    if mark[_LETTER] == b"l" and path in _PROTOCOLS:
        return long(_PROTOCOLS[path], chunks_of(mark))
    return _ANSWERS.get((path, mark[_LETTER]))


async def serve(port: int, tls_port: int = 0, certificate: str = "") -> None:
    """Answer on 127.0.0.1 until somebody ends the process."""
    loop = asyncio.get_running_loop()
    metronome = Metronome(loop)

    waiting: list[Connection] = []

    def connect() -> Connection:
        return Connection(loop, metronome, waiting)

    servers = [await loop.create_server(connect, "127.0.0.1", port, backlog=1024)]
    if certificate:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(certificate)
        servers.append(await loop.create_server(connect, "127.0.0.1", tls_port, ssl=context, backlog=1024))
    gc.freeze()
    await asyncio.gather(*(server.serve_forever() for server in servers))


def main(arguments: Sequence[str]) -> int:
    """Serve on the ports that the arguments name."""
    port, tls_port, certificate = (*arguments, *("0", "")[len(arguments) - 1 :])
    uvloop.run(serve(int(port), int(tls_port), certificate))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
