"""A small connection pooler in transaction mode, as PgBouncer with `pool_mode = transaction` is one, for tests.

Each transaction of a client gets the connection to the server that rested longest, which is another one than that of
its transaction before. Whatever a client sets, prepares or locks for a session is therefore missing in its next
transaction, or is found there by another client. As with PgBouncer, a client may set few parameters when it connects.

    with transaction_pooler(server) as pooler:
        psycopg.connect(pooler.address("dragoman"))
"""

from __future__ import annotations

import asyncio
import os
import struct
import subprocess
import sys
import tempfile
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.postgres import PostgresServer

_PORT = 5432
_PROTOCOL = 196608
# Requests for encryption: TLS and GSSAPI, which get a plain "no".
_ENCRYPTION = {80877103, 80877104}
_CANCEL = 80877102
# Parameters of a client that PgBouncer knows.
_KNOWN = {"user", "database", "client_encoding", "application_name", "datestyle", "timezone"}
# Connections to the server per user and database.
_CONNECTIONS = 6
# Messages of a client that the server answers with ReadyForQuery: Query, Sync and FunctionCall.
_ANSWERED = b"QSF"
_TERMINATE, _AUTHENTICATION, _ERROR, _READY, _KEY, _PARAMETER = b"X", b"R", b"E", b"Z", b"K", b"S"
_SERVER_VERSION = b"server_version\0"
_IDLE = b"I"


class TransactionPooler:
    """A pooler that runs."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    @property
    def socket(self) -> Path:
        """The path of its socket."""
        return self._directory / f".s.PGSQL.{_PORT}"

    def address(self, database: str = "postgres", user: str = "postgres") -> str:
        """The address of a database through the pooler."""
        return f"host={self._directory} port={_PORT} user={user} dbname={database}"


@contextmanager
def transaction_pooler(server: PostgresServer, version: str = "") -> Iterator[TransactionPooler]:
    """A running pooler in front of a server, in a process of its own; with `version`, clients are told that one."""
    # Below the system's directory itself: the path of a socket has at most 107 bytes.
    with (
        tempfile.TemporaryDirectory(prefix="pooler-") as directory,
        subprocess.Popen(
            [sys.executable, "-m", "tests.transaction_pooler", str(server.directory), directory, version],
            cwd=Path(__file__).parents[1],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        ) as process,
    ):
        assert process.stdin is not None and process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        try:
            yield TransactionPooler(Path(directory))
        finally:
            # It ends when its standard input closes: also with the process of the tests.
            process.stdin.close()


class _Refused(Exception):
    """The server does not let a client in, for the reason in this message of the protocol."""

    def __init__(self, message: bytes) -> None:
        super().__init__("refused")
        self.message = message


class _Link:
    """A connection to the server."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        # What the server reported of itself when it let the pooler in.
        self.parameters = b""


class _Pool:
    """The connections of one user to one database."""

    def __init__(self, path: str, version: bytes, user: bytes, database: bytes) -> None:
        self._path = path
        self._version = version
        self._user, self._database = user, database
        self._idle: deque[_Link] = deque()
        self._free = asyncio.Semaphore(_CONNECTIONS)

    async def take(self) -> _Link:
        """A connection for one transaction: a new one until there are enough, then the one that rested longest."""
        await self._free.acquire()
        try:
            # More than those that are in use and one: no client gets the same connection twice in a row.
            while len(self._idle) > 1:
                link = self._idle.popleft()
                if not link.reader.at_eof():
                    return link
                # The server went meanwhile.
                link.writer.close()
            return await self._connect()
        except BaseException:
            self._free.release()
            raise

    def give_back(self, link: _Link) -> None:
        """End a transaction."""
        if not link.reader.at_eof():
            self._idle.append(link)
        self._free.release()

    def drop(self, link: _Link) -> None:
        """Close a connection in whose transaction its client or the server went."""
        link.writer.close()
        self._free.release()

    async def _connect(self) -> _Link:
        link = _Link(*await asyncio.open_unix_connection(self._path))
        text = b"user\0%b\0database\0%b\0client_encoding\0UTF8\0\0" % (self._user, self._database)
        link.writer.write(struct.pack("!II", len(text) + 8, _PROTOCOL) + text)
        while True:
            kind, message = await _message(link.reader)
            if kind == _ERROR:
                link.writer.close()
                raise _Refused(message)
            if kind == _READY:
                return link
            if kind == _PARAMETER and self._version and message[5:].startswith(_SERVER_VERSION):
                message = _framed(_PARAMETER, _SERVER_VERSION + self._version + b"\0")
            if kind not in (_AUTHENTICATION, _KEY):
                link.parameters += message


class _Client:
    """One client, from its first message to its last."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._link: _Link | None = None
        # Messages that the server has not answered with ReadyForQuery yet.
        self._unanswered = 0
        self._from_server: asyncio.Task[None] | None = None

    async def serve(self, pools: _Pools) -> None:
        """Give each transaction a connection, until one of both sides goes."""
        pool = await self._welcome(pools)
        if pool is None:
            return
        try:
            while True:
                kind, message = await _message(self._reader)
                if kind == _TERMINATE:
                    return
                if self._link is None:
                    self._link = await pool.take()
                    self._from_server = asyncio.create_task(self._forward(pool, self._link))
                self._unanswered += kind in _ANSWERED
                self._link.writer.write(message)
                await self._link.writer.drain()
        finally:
            if self._from_server is not None:
                self._from_server.cancel()
            if self._link is not None:
                pool.drop(self._link)

    async def _welcome(self, pools: _Pools) -> _Pool | None:
        """Let a client in, with what the server reported of itself; None for one that only wants to cancel."""
        while True:
            (size,) = struct.unpack("!I", await self._reader.readexactly(4))
            body = await self._reader.readexactly(size - 4)
            (code,) = struct.unpack_from("!I", body)
            if code == _CANCEL:
                return None
            if code not in _ENCRYPTION:
                break
            self._writer.write(b"N")
        words = body[4:].split(b"\0")
        given = dict(zip(words[::2], words[1::2], strict=False))
        given.pop(b"", None)
        for name in given:
            if name.decode() not in _KNOWN:
                raise _Refused(_error(f"unsupported startup parameter: {name.decode()}"))
        pool = pools.of(given[b"user"], given.get(b"database", given[b"user"]))
        link = await pool.take()
        self._writer.write(_framed(_AUTHENTICATION, struct.pack("!I", 0)) + link.parameters)
        self._writer.write(_framed(_KEY, bytes(8)) + _framed(_READY, _IDLE))
        pool.give_back(link)
        return pool

    async def _forward(self, pool: _Pool, link: _Link) -> None:
        """Send a client what the server answers, up to the end of the transaction."""
        try:
            while True:
                kind, message = await _message(link.reader)
                if kind == _READY:
                    self._unanswered -= 1
                    if message.endswith(_IDLE) and not self._unanswered:
                        # Before the client knows: its next message begins a transaction.
                        self._link = None
                        pool.give_back(link)
                self._writer.write(message)
                if self._link is None:
                    return
                await self._writer.drain()
        except (OSError, EOFError):
            # The server went: so does its client.
            self._writer.close()


class _Pools:
    """The pools of all users and databases."""

    def __init__(self, server: str, version: str) -> None:
        self._path = f"{server}/.s.PGSQL.{_PORT}"
        self._version = version.encode()
        self._pools: dict[tuple[bytes, bytes], _Pool] = {}

    def of(self, user: bytes, database: bytes) -> _Pool:
        """The pool of a user and a database."""
        return self._pools.setdefault((user, database), _Pool(self._path, self._version, user, database))

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one client."""
        try:
            await _Client(reader, writer).serve(self)
        except _Refused as refused:
            writer.write(refused.message)
        except OSError:
            writer.write(_error("the server does not answer"))
        except EOFError:
            # The client went without a word.
            pass
        finally:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()


async def _message(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    """The kind of the next message, and all of it."""
    head = await reader.readexactly(5)
    (size,) = struct.unpack_from("!I", head, 1)
    return head[:1], head + await reader.readexactly(size - 4)


def _framed(kind: bytes, content: bytes) -> bytes:
    return kind + struct.pack("!I", len(content) + 4) + content


def _error(text: str) -> bytes:
    """A refusal as PgBouncer words it."""
    return _framed(_ERROR, f"SFATAL\0VFATAL\0C08P01\0M{text}\0\0".encode())


async def _run(server: str, directory: str, version: str) -> None:
    await asyncio.start_unix_server(_Pools(server, version).accept, f"{directory}/.s.PGSQL.{_PORT}")
    os.write(1, b"ready\n")
    # Until the standard input closes.
    await asyncio.to_thread(sys.stdin.read)
    os._exit(0)


if __name__ == "__main__":
    asyncio.run(_run(*sys.argv[1:]))
