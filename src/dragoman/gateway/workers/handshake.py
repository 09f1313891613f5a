"""Handshake between the workers of one gateway: each proves that it knows the token, which is never sent.

listener ─▶ its nonce
dialler  ─▶ its nonce, and its proof
listener ─▶ its proof

A proof is an HMAC under the token over the side, the listener's port and both nonces. It includes the port because a
foreign process may listen at the port of a worker that ended: another worker's proof is invalid there."""

from __future__ import annotations

import asyncio
import hmac
import secrets

HOST = "127.0.0.1"
_NONCE_BYTES = 32
_MAC_BYTES = 32
_DIALLER, _LISTENER = b"d", b"l"


class Unproven(ConnectionError):
    """The listener does not know the token."""


async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, token: bytes) -> bool:
    """Accept a connection. Returns whether the dialling process knows the token; if so, proves the same."""
    port: int = writer.get_extra_info("sockname")[1]
    ours = secrets.token_bytes(_NONCE_BYTES)
    writer.write(ours)
    theirs = await reader.readexactly(_NONCE_BYTES)
    mac = await reader.readexactly(_MAC_BYTES)
    if not hmac.compare_digest(mac, _mac(token, _DIALLER, port, ours, theirs)):
        return False
    writer.write(_mac(token, _LISTENER, port, ours, theirs))
    return True


async def dial(port: int, token: bytes) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connect to a worker. A listener that does not prove to be one raises `Unproven`."""
    reader, writer = await asyncio.open_connection(HOST, port)
    try:
        theirs, ours = await reader.readexactly(_NONCE_BYTES), secrets.token_bytes(_NONCE_BYTES)
        writer.write(ours + _mac(token, _DIALLER, port, theirs, ours))
        if not hmac.compare_digest(await reader.readexactly(_MAC_BYTES), _mac(token, _LISTENER, port, theirs, ours)):
            raise Unproven("a foreign process listens at the port of a worker")
    except asyncio.IncompleteReadError as error:
        writer.transport.abort()
        raise Unproven("no worker listens there") from error
    except BaseException:
        writer.transport.abort()
        raise
    return reader, writer


def _mac(token: bytes, side: bytes, port: int, listener: bytes, dialler: bytes) -> bytes:
    return hmac.digest(token, side + port.to_bytes(2) + listener + dialler, "sha256")
