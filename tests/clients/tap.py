"""A tap between a client and the gateway: bytes pass as they are, and the heads of both sides are kept."""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from urllib.parse import urlsplit

# The first line of a request or of an answer, and its headers.
_HEAD = re.compile(rb"(?:[A-Z]+ /\S* HTTP/1\.1|HTTP/1\.1 \d{3} [^\r]*)\r\n(?:[\w-]+: ?[^\r\n]*\r\n)*\r\n")


class Tap:
    """What passed: `asked` are the heads of requests, `answered` those of answers, in order."""

    def __init__(self, listener: socket.socket, target: tuple[str, int]) -> None:
        self.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        self._listener, self._target = listener, target
        self._passed: tuple[list[bytes], list[bytes]] = ([], [])
        self._open: list[socket.socket] = []
        self._threads: list[threading.Thread] = []

    @property
    def asked(self) -> list[str]:
        """The heads of the client's requests."""
        return self._heads(0)

    @property
    def answered(self) -> list[str]:
        """The heads of the gateway's answers."""
        return self._heads(1)

    def _heads(self, side: int) -> list[str]:
        return [head.decode("latin-1").lower() for head in _HEAD.findall(b"".join(self._passed[side]))]

    def serve(self) -> None:
        """Take connections until the tap is closed."""
        # It ends when the listener is closed.
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                gateway = socket.create_connection(self._target)
                self._open += [client, gateway]
                for side, (source, sink) in enumerate(((client, gateway), (gateway, client))):
                    thread = threading.Thread(target=self._pass, args=(side, source, sink), daemon=True)
                    thread.start()
                    self._threads.append(thread)

    def _pass(self, side: int, source: socket.socket, sink: socket.socket) -> None:
        # Either side may hang up at any time, and whoever closes the tap does.
        with suppress(OSError):
            while data := source.recv(65536):
                self._passed[side].append(data)
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """Take no more."""
        # Not every system has it that a listener can be shut down.
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def hang_up(self) -> None:
        """End what passes. A socket is shut down before it is closed: to close it wakes no thread that reads it."""
        for one in self._open:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        for one in self._open:
            one.close()


@contextmanager
def tapped(url: str) -> Iterator[Tap]:
    """A tap in front of the gateway at an address."""
    parts = urlsplit(url)
    assert parts.hostname is not None
    assert parts.port is not None
    tap = Tap(socket.create_server(("127.0.0.1", 0)), (parts.hostname, parts.port))
    thread = threading.Thread(target=tap.serve, daemon=True)
    thread.start()
    try:
        yield tap
    finally:
        tap.close()
        thread.join()
        tap.hang_up()
