"""Gate: a provider stops in the middle of its reply until the test lets it go on."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Coroutine

from tests.gateway.harness import Answer, House, answer_in
from tests.waiting import wait_until


class Gate:
    """A step that a provider waits at until the test lets it go on."""

    def __init__(self) -> None:
        self._event = asyncio.Event()
        self._is_reached = False

    @property
    def step(self) -> Callable[[], Coroutine[None, None, None]]:
        """The gate as a step of a script."""
        return self._wait

    async def _wait(self) -> None:
        self._is_reached = True
        await self._event.wait()

    def wait_until_reached(self) -> None:
        """Wait until the provider has written what comes before."""
        wait_until(lambda: self._is_reached, "the provider has written what comes before the gate")

    def open(self, house: House) -> None:
        """Let the provider go on."""
        house.loop.call_soon_threadsafe(self._event.set)

    def post(self, house: House, path: str, body: object, mark: bytes) -> Answer:
        """Send a request, open the gate when the mark has arrived, and read the rest of the reply."""
        with house.begin_post(path, body) as connection:
            begun = read_until(connection, mark)
            self.open(house)
            while piece := connection.recv(65536):
                begun += piece
        return answer_in(begun)


def read_until(connection: socket.socket, mark: bytes) -> bytes:
    """Read a reply up to a mark."""
    data = b""
    while mark not in data:
        piece = connection.recv(65536)
        assert piece, data
        data += piece
    return data
