"""Capture: the bytes of one exchange as they pass, by reference, until the writer takes them (decision 48).

All captures of a worker share one budget, from their first byte until they are written. A capture for which there is no
room is dropped as a whole: its exchange goes on.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from msgspec import Struct

from dragoman.contents.exchange_contents import BodySide, ExchangeContents, StoredBody

MAX_WAITING = 64 * 1024 * 1024
QUEUE_FULL = "queue full"


class CaptureBudget:
    """Bytes that captures of this worker may still hold. `left` belongs to the loop; any thread may release."""

    __slots__ = ("_released", "left")

    def __init__(self, size: int = MAX_WAITING) -> None:
        self.left = size
        self._released: deque[int] = deque()

    def release(self, size: int) -> None:
        """Give bytes back, from any thread."""
        self._released.append(size)

    def settle(self) -> None:
        """Count what was given back, on the loop."""
        while self._released:
            self.left += self._released.popleft()


class CapturedBody(Struct, eq=False):
    """The chunks of one body; `reason` says why it is missing."""

    side: BodySide
    attempt: int
    chunks: list[bytes]
    reason: str = ""


class Capture:
    """The bodies of one exchange. `credentials` are headers of its client, a scheme may precede a credential."""

    __slots__ = ("_bodies", "_budget", "attempts", "credentials", "id", "key", "reason", "time")

    def __init__(self, exchange: str, time: int, key: str, budget: CaptureBudget) -> None:
        self.id = exchange
        self.time = time
        self.key = key
        self.reason = ""
        self.attempts = 0
        self.credentials: tuple[bytes, ...] = ()
        self._bodies: list[CapturedBody] = []
        self._budget = budget

    def body(self, side: BodySide, attempt: int = 0) -> CapturedBody:
        """Begin a body."""
        body = CapturedBody(side, attempt, [])
        self._bodies.append(body)
        return body

    def add(self, side: BodySide, data: bytes, attempt: int = 0) -> None:
        """A body that is known as a whole."""
        self._bodies.append(CapturedBody(side, attempt, [data]))
        budget = self._budget
        budget.left -= len(data)
        if budget.left < 0:
            self._drop()

    def receiver(self, body: CapturedBody) -> Callable[[bytes], None]:
        """What takes the chunks of a body."""
        budget, append, drop = self._budget, body.chunks.append, self._drop

        def take(chunk: bytes) -> None:
            budget.left -= len(chunk)
            append(chunk)
            if budget.left < 0:
                drop()

        return take

    @property
    def secrets(self) -> tuple[str, ...]:
        """The credentials of the client by value; the writer's thread finds them."""
        given = [header.split() for header in self.credentials]
        return tuple([words[-1].decode("latin-1") for words in given if words])

    @property
    def size(self) -> int:
        """Bytes that it holds."""
        return sum(len(chunk) for body in self._bodies for chunk in body.chunks)

    def contents(self) -> ExchangeContents:
        """The exchange, as it is to be written."""
        if self.reason:
            return ExchangeContents(id=self.id, time=self.time, key=self.key, reason=self.reason)
        bodies = tuple(
            [
                StoredBody(
                    side=body.side,
                    attempt=body.attempt,
                    data=b"" if body.reason else b"".join(body.chunks),
                    reason=body.reason,
                )
                for body in self._bodies
            ]
        )
        return ExchangeContents(id=self.id, time=self.time, key=self.key, bodies=bodies)

    def clear(self) -> None:
        """Let go of all bytes, and give them back to the budget."""
        size = self.size
        for body in self._bodies:
            # The lists stay, because receivers add to them.
            body.chunks.clear()
        self._budget.release(size)

    def _drop(self) -> None:
        self.reason = QUEUE_FULL
        self.clear()
        self._budget.settle()
