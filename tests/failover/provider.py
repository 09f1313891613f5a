"""A provider with a fault, on a port of its own, that knows what it was sent."""

from __future__ import annotations

import asyncio
import socket

from tests.failover.faults import HEARD, Door, Fault
from tests.failover.sayings import Asked
from tests.gateway.harness import Received, Reply
from tests.server.process import WRITER, Provider

# Enough callers for a queue of none.
_CROWD = 4


class FaultyProvider(Provider):
    """Speaks one protocol, and has a fault. `key` is the only one that it may ever be sent."""

    def __init__(self, name: str, protocol: str, fault: Fault) -> None:
        super().__init__(self._reply)
        self.name = name
        self.protocol = protocol
        self.fault = fault
        self.key = f"sk-of-{name}-0123456789abcdef"
        self.connections = 0
        # By model: set once the client has received the first words of the response.
        self.heard: dict[str, asyncio.Event] = {}
        # Its door, if that is not open, and those who stand before it.
        self._sockets: list[socket.socket] = []

    @property
    def base_url(self) -> str:
        """Where the gateway is told that it is."""
        scheme = "https" if self.fault.door is Door.PLAIN else "http"
        path = "" if self.protocol == "anthropic-messages" else "/v1"
        return f"{scheme}://127.0.0.1:{self.port}{path}"

    @property
    def credentials(self) -> set[str]:
        """Everything that it was sent by way of a key."""
        names = ("authorization", "x-api-key", "api-key")
        sent = (request.header(name) for request in self.received for name in names)
        return {value.removeprefix("Bearer ") for value in sent if value is not None}

    async def start(self) -> None:
        """Listen on a free port, or hold it without."""
        if self.fault.door in (Door.OPEN, Door.PLAIN):
            await super().start()
            return
        door = socket.create_server(("127.0.0.1", 0), backlog=0) if self.fault.door is Door.CROWDED else socket.socket()
        self._sockets.append(door)
        if self.fault.door is Door.SHUT:
            door.bind(("127.0.0.1", 0))
        self.port = door.getsockname()[1]
        if self.fault.door is Door.CROWDED:
            for _ in range(_CROWD):
                caller = socket.socket()
                caller.setblocking(False)
                caller.connect_ex(("127.0.0.1", self.port))
                self._sockets.append(caller)

    async def stop(self) -> None:
        """Hang up on everybody."""
        for one in self._sockets:
            one.close()
        if not self._sockets:
            await super().stop()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        if not self.fault.greets:
            await super()._serve(reader, writer)
            return
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.open += 1
        # Whoever hangs up is noticed, but what they say is not read.
        gone = asyncio.ensure_future(reader.read())
        greeting = asyncio.ensure_future(self._greet(writer))
        try:
            await asyncio.wait({gone, greeting}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for one in (gone, greeting):
                one.cancel()
            await asyncio.gather(gone, greeting, return_exceptions=True)
            self.open -= 1
            self._tasks.discard(task)
            writer.close()

    async def _greet(self, writer: asyncio.StreamWriter) -> None:
        WRITER.set(writer)
        for step in self.fault.greets:
            if step is None:
                return
            if isinstance(step, bytes):
                writer.write(step)
            elif isinstance(step, int | float):
                await asyncio.sleep(step)
            else:
                await step()

    async def _write(self, reply: Reply, writer: asyncio.StreamWriter) -> bool:
        if self.fault.waits:
            await asyncio.sleep(self.fault.waits)
        return await super()._write(reply, writer)

    def _reply(self, received: Received) -> Reply:
        body = received.json()
        HEARD.set(self.heard.setdefault(str(body["model"]), asyncio.Event()))
        return self.fault.says(
            Asked(protocol=self.protocol, stream=body.get("stream") is True, count=len(self.received) - 1)
        )
