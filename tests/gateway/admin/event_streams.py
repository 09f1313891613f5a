"""Server-sent events of the admin API, read as they come."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager

from dragoman.model.jsonvalue import JsonObject
from tests.gateway.harness import House


class EventStream:
    """The events of a connection, as they come."""

    def __init__(self, connection: socket.socket) -> None:
        self._file = connection.makefile("rb")
        self.status = int(self._file.readline().split()[1])
        self.headers: dict[str, str] = {}
        while line := self._file.readline().strip().decode():
            name, _, value = line.partition(": ")
            self.headers[name.lower()] = value
        self._rest = b""

    def close(self) -> None:
        """Let go of the connection."""
        self._file.close()

    def block(self) -> list[str]:
        """The lines up to an empty one; none at the end of the stream, also where its worker was killed."""
        while b"\n\n" not in self._rest:
            try:
                size = int(self._file.readline() or b"0", 16)
                self._rest += self._file.read(size)
                self._file.readline()
            except ConnectionError:
                return []
            if not size:
                return []
        block, _, self._rest = self._rest.partition(b"\n\n")
        return block.decode().split("\n")

    def event(self) -> tuple[str, str, JsonObject]:
        """The next event: its id, its name, its data."""
        while True:
            block = self.block()
            assert block, "the stream has ended"
            members = dict(line.partition(": ")[::2] for line in block if line.partition(": ")[0])
            if "event" in members:
                return members["id"], members["event"], json.loads(members["data"])


@contextmanager
def listening(house: House, key: str, last: str | None = None) -> Iterator[EventStream]:
    """A stream of events for a key text, while the block runs."""
    headers = {"authorization": f"Bearer {key}"} | ({} if last is None else {"last_event_id": last})
    with house._send("GET", "/admin/v1/events", b"", headers) as connection:
        stream = EventStream(connection)
        try:
            yield stream
        finally:
            stream.close()
