"""The body of a request while it arrives: reading pauses until a handler wants it, and it is discarded if no handler
will.

mode      set by                      past `mark` bytes
HELD      the message's head          reading stops until somebody asks (back-pressure)
WANTED    read(limit)                 the reader gets 413
UNWANTED  the reply's end, a failure  the connection is closed, after the reply

The bytes of a WANTED body are charged to the account that its reader gives, until its exchange is over or it has
failed: the handler has the bytes of a complete body. The account pauses the connection where it has no room for more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from enum import Enum
from typing import Protocol

from msgspec import Struct, field

from dragoman.errors import ClientError
from dragoman.http.byte_buffer import ByteBuffer

# Bytes that are read before a handler wants them, and bytes that are discarded to keep a connection after an early
# reply.
HIGH_WATER = 256 * 1024
MAX_DISCARD_BYTES = 256 * 1024


class Mode(Enum):
    """The handling of incoming bytes."""

    HELD = "held"
    WANTED = "wanted"
    UNWANTED = "unwanted"


# Members of an enumeration are slow to find, and these are looked for with every body.
HELD, UNWANTED = Mode.HELD, Mode.UNWANTED


class BodySource(Protocol):
    """Where a body comes from: a connection, as far as a body needs to know it."""

    def hold(self) -> None:
        """Stop reading."""
        ...

    def release(self) -> None:
        """Read on."""
        ...

    def await_body(self, proceed: bool) -> None:
        """Continue reading, because the handler waits; with `proceed`, send 100 Continue first."""
        ...

    def body_waited(self) -> None:
        """The handler no longer waits."""
        ...

    def too_much(self) -> None:
        """More bytes arrived than are worth discarding."""
        ...


class ByteCharge(Protocol):
    """The bytes of one body, as an account has them."""

    @property
    def is_contended(self) -> bool:
        """Whether other bodies of the account are paused."""
        ...

    def add(self, size: int) -> None:
        """Charge incoming bytes."""
        ...

    def complete(self) -> None:
        """Note that all has come."""
        ...

    def close(self) -> None:
        """Give all of it back."""
        ...


class ByteAccount(Protocol):
    """The account that unfinished bodies are charged to."""

    def open(self, pause: Callable[[], None], resume: Callable[[], None]) -> ByteCharge:
        """Begin to charge a body; `pause` and `resume` are called as there is room for more of it."""
        ...


class Body(Struct, eq=False):
    """One request's body. `length` is the declared length, None if the body is chunked."""

    source: BodySource
    length: int | None
    # Whether the client waits for 100 Continue.
    expects: bool
    complete: bool = False
    taken: bool = False
    size: int = 0
    threshold: int = HIGH_WATER
    mode: Mode = HELD
    pieces: ByteBuffer = field(default_factory=ByteBuffer)
    failure: ClientError | None = None
    waiter: asyncio.Future[None] | None = None
    charge: ByteCharge | None = None

    def feed(self, data: bytes, last: bool) -> None:
        """Take a piece from the parser, and note whether it has seen the end."""
        self.size += len(data)
        self.expects = False
        if self.mode is not UNWANTED:
            if self.pieces.size:
                self.pieces.append(data)
            else:
                self.pieces = ByteBuffer(len(data), [data])
        if self.charge is not None:
            self.charge.add(len(data))
        if self.size > self.threshold:
            self._pass_threshold()
        if last:
            self.complete = True
            if self.charge is not None:
                self.charge.complete()
            if self.waiter is not None:
                self._wake()

    def _pass_threshold(self) -> None:
        """Act as in the table above."""
        match self.mode:
            case Mode.HELD:
                self.source.hold()
            case Mode.WANTED:
                self.fail(ClientError(413, "the request body is too large"))
            case Mode.UNWANTED:
                self.source.too_much()

    def fail(self, error: ClientError) -> None:
        """Fail: the reader gets this error, and the rest of the body is discarded."""
        self.failure = self.failure or error
        self.discharge()
        self.discard()
        self._wake()

    def discard(self) -> None:
        """Discard present and future bytes."""
        self.mode = Mode.UNWANTED
        self.threshold = self.size + MAX_DISCARD_BYTES
        self.pieces.clear()

    def worth_draining(self) -> bool:
        """Whether the rest is small enough, as far as is known, to be read for the sake of the connection."""
        if self.complete:
            return True
        if self.failure is not None or self.expects:
            return False
        return self.length is None or self.length - self.size <= MAX_DISCARD_BYTES

    def take_charge(self) -> ByteCharge | None:
        """The byte charge of the body, for a holder that outlives the exchange."""
        charge, self.charge = self.charge, None
        return charge

    def take_complete(self, limit: int) -> bytes | None:
        """The whole body if it has arrived within the limit; None if `read` must wait for it or refuse it."""
        if not self.complete or self.taken or self.failure is not None or self.size > limit:
            return None
        self.taken = True
        return self.pieces.take()

    async def read(self, limit: int, account: ByteAccount | None = None) -> bytes:
        """The whole body, still content-encoded, handed over once; it is charged to the account."""
        if self.taken:
            raise RuntimeError("the body was already read")
        self.taken = True
        if self.failure is None and max(self.size, self.length or 0) > limit:
            self.fail(ClientError(413, "the request body is too large"))
        if self.failure is None and not self.complete:
            await self._wait(limit, account)
        if self.failure is not None:
            # Another one: an error that was raised knows its frames, and those know this body.
            raise ClientError(self.failure.status, self.failure.message)
        return self.pieces.take()

    async def _wait(self, limit: int, account: ByteAccount | None) -> None:
        """Wait for the end or a failure."""
        self.mode = Mode.WANTED
        self.threshold = limit
        self.waiter = asyncio.get_running_loop().create_future()
        self.source.await_body(self.expects)
        self.expects = False
        if account is not None:
            self.charge = account.open(self.source.hold, self.source.release)
            self.charge.add(self.size)
        try:
            await self.waiter
        finally:
            self.waiter = None
            if not self.complete:
                self.discharge()
            self.source.body_waited()

    def discharge(self) -> None:
        """Release the charge of the body."""
        if self.charge is not None:
            self.charge.close()
            self.charge = None

    def _wake(self) -> None:
        """Let the reader look again, at a body of which no more comes."""
        if self.waiter is not None and not self.waiter.done():
            self.waiter.set_result(None)
