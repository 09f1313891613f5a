"""Siblings: the other workers on the same port, asked for their counters when one of them is scraped.

Each worker listens on a socket file of its own in a directory that only this user can enter. Whoever connects gets the
counters as JSON and is hung up on.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec

from dragoman.gateway.metrics import Metrics, Snapshot

_PATIENCE = 2.0
_DECODER = msgspec.json.Decoder(Snapshot)
_ENCODER = msgspec.json.Encoder()
_LIMIT = 64 * 1024 * 1024


class Siblings:
    """The workers of one gateway, as one of them sees the others."""

    def __init__(self, directory: Path, name: str, metrics: Metrics) -> None:
        self._directory = directory
        self._own = directory / f"{name}.sock"
        self._metrics = metrics
        self._server: asyncio.Server | None = None

    async def listen(self) -> None:
        """Be there for the others."""
        self._own.unlink(missing_ok=True)
        self._server = await asyncio.start_unix_server(self._tell, str(self._own))

    async def close(self) -> None:
        """Be gone."""
        if self._server is not None:
            self._server.close()
        self._own.unlink(missing_ok=True)

    async def snapshots(self) -> list[Snapshot]:
        """What the others counted; one that does not answer has gone, and its successor counts anew."""
        others = [path for path in sorted(self._directory.glob("*.sock")) if path != self._own]
        found = await asyncio.gather(*(_ask(path) for path in others))
        return [snapshot for snapshot in found if snapshot is not None]

    async def _tell(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            writer.write(_ENCODER.encode(self._metrics.snapshot()))
            await writer.drain()
        except ConnectionError:
            # Whoever asked did not wait for the answer.
            return
        finally:
            writer.close()


async def _ask(path: Path) -> Snapshot | None:
    try:
        async with asyncio.timeout(_PATIENCE):
            reader, writer = await asyncio.open_unix_connection(str(path), limit=_LIMIT)
            try:
                return _DECODER.decode(await reader.read())
            finally:
                writer.close()
    except (OSError, TimeoutError, msgspec.DecodeError, UnicodeError):
        return None
