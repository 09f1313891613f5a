"""Byte budget: how many bytes all gateway keys together hold in memory, and how many of them each key may have.

    the oldest of a key     reads on, so that one of each key can finish
    the others of the key   read on while their key has less than the rest of the budget, or than its part
    all of the key          are paused while its complete bodies, which need no reader, are that much

With n keys a part is 1/(n+1) of the budget. A paused reader (back-pressure) is resumed when bytes are given back. No
key is paused because another has many bytes; so keys that come in turn may exceed the budget by a part, and one read.
Requests, held until their exchange ends, and responses, held until the client has read them, have a budget each, so
that neither waits for the other. A reader of unknown size, such as the store, takes a turn: four of a key at a time
wait for room, read, and charge the size.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import islice

from dragoman.errors import OffloadBusy

# Bytes that a resumed reader is expected to bring before it is looked at again.
_READ = 256 * 1024
# Readers of a key whose size is not known that may read at a time: one alone would be slow under load.
_AT_ONCE = 4
# Seconds that a reader waits for its turn, and after which its client may ask again.
_MAX_WAIT_SECONDS, _RETRY_AFTER = 30.0, 5
_NO_ROOM = f"other requests of this key left no room for this one within {_MAX_WAIT_SECONDS:g} s"


class ReaderCharge:
    """The bytes of one reader, until it is closed; `pause` and `resume` are called as there is room."""

    __slots__ = ("_account", "_budget", "_pause", "is_complete", "resume", "size")

    def __init__(
        self, budget: ByteBudget, account: _Account, pause: Callable[[], None], resume: Callable[[], None]
    ) -> None:
        self._budget = budget
        self._account: _Account | None = account
        self._pause = pause
        self.resume = resume
        self.size = 0
        # Whether nothing more is read.
        self.is_complete = False

    @property
    def is_contended(self) -> bool:
        """Whether other readers of the same key are paused."""
        return self._account is not None and bool(self._account.paused)

    @property
    def is_paused(self) -> bool:
        """Whether the reader waits for room."""
        return self._account is not None and self in self._account.paused

    def take(self, size: int) -> None:
        """Charge bytes, with or without room."""
        if self._account is not None:
            self.size += size
            self._account.size += size
            self._budget.size += size

    def add(self, size: int) -> None:
        """Charge bytes, and pause the reader if there is no room for more."""
        account = self._account
        if account is None:
            return
        self.take(size)
        if not self._budget.may_read(self, account):
            account.paused[self] = None
            self._pause()

    def complete(self) -> None:
        """Note that nothing more is read; the bytes are held until the charge is closed."""
        if self._account is not None and not self.is_complete:
            self._budget.complete(self, self._account)

    def close(self) -> None:
        """Give all of it back; a second time does nothing."""
        account, self._account = self._account, None
        if account is not None:
            self._budget.give_back(self, account)


class _Account:
    """The charges of one key and its paused readers, in the order in which they came."""

    __slots__ = ("charges", "held", "held_charges", "key", "paused", "size")

    def __init__(self, key: str) -> None:
        self.key = key
        # Bytes of unfinished and of complete items, and the number of the latter.
        self.size = 0
        self.held = 0
        self.held_charges = 0
        self.charges: dict[ReaderCharge, None] = {}
        self.paused: dict[ReaderCharge, None] = {}

    @property
    def oldest(self) -> ReaderCharge | None:
        return next(iter(self.charges), None)


class KeyBudget:
    """The budget as one key sees it."""

    __slots__ = ("_budget", "_key")

    def __init__(self, budget: ByteBudget, key: str) -> None:
        self._budget = budget
        self._key = key

    def open(self, pause: Callable[[], None], resume: Callable[[], None]) -> ReaderCharge:
        """Begin to charge a reader of the key."""
        return self._budget.open(self._key, pause, resume)


class ByteBudget:
    """The bytes of all keys of one process. It outlives a reload, and `set_limit` changes its limit."""

    def __init__(self, limit: int) -> None:
        # Bytes of unfinished and of complete items.
        self.size = 0
        self.held = 0
        self._limit = limit
        self._accounts: dict[str, _Account] = {}
        # Held by the readers of each key whose turn it is.
        self._turns: dict[str, asyncio.Semaphore] = {}

    def set_limit(self, limit: int) -> None:
        """Set the limit; more room lets paused readers go on."""
        self._limit = limit
        self._resume()

    def of(self, key: str) -> KeyBudget:
        """The budget as the key of this name sees it."""
        return KeyBudget(self, key)

    def open(self, key: str, pause: Callable[[], None], resume: Callable[[], None]) -> ReaderCharge:
        """Begin to charge a reader of a key."""
        account = self._accounts.get(key)
        if account is None:
            account = self._accounts[key] = _Account(key)
        charge = ReaderCharge(self, account, pause, resume)
        account.charges[charge] = None
        return charge

    @asynccontextmanager
    async def turn(self, key: str) -> AsyncIterator[ReaderCharge]:
        """Wait until a reader of a key may read something of unknown size, which it charges within the block;
        `OffloadBusy` if that takes too long. The caller closes the charge, unless the block fails."""
        turns = self._turns.get(key)
        if turns is None:
            turns = self._turns[key] = asyncio.Semaphore(_AT_ONCE)
        has_room = asyncio.Event()
        has_room.set()
        charge: ReaderCharge | None = None
        try:
            async with asyncio.timeout(_MAX_WAIT_SECONDS):
                await turns.acquire()
                try:
                    charge = self.open(key, has_room.clear, has_room.set)
                    charge.add(0)
                    await has_room.wait()
                except BaseException:
                    turns.release()
                    raise
        except BaseException as error:
            if charge is not None:
                charge.close()
            if isinstance(error, TimeoutError):
                raise OffloadBusy(_NO_ROOM, retry_after=_RETRY_AFTER) from None
            raise
        try:
            yield charge
            charge.complete()
        except BaseException:
            charge.close()
            raise
        finally:
            turns.release()

    def room(self, account: _Account) -> int:
        """The bytes that the readers of a key may still have."""
        return max(self._limit - self.size, self._limit // (len(self._accounts) + 1)) - account.size

    def is_full(self, account: _Account) -> bool:
        """Whether a key holds as many complete bytes as it may have."""
        most = max(self._limit - self.held, self._limit // (len(self._accounts) + 1))
        return account.held > 0 and account.held >= most

    def may_read(self, charge: ReaderCharge, account: _Account) -> bool:
        """Whether a reader of a key reads on."""
        return not self.is_full(account) and (account.oldest is charge or self.room(account) > 0)

    def complete(self, charge: ReaderCharge, account: _Account) -> None:
        """Count the bytes of a reader as complete."""
        self._take_out(charge, account)
        charge.is_complete = True
        account.held += charge.size
        account.held_charges += 1
        self.held += charge.size
        self._resume()

    def give_back(self, charge: ReaderCharge, account: _Account) -> None:
        """Take the bytes of a reader out, and let others go on."""
        if charge.is_complete:
            account.held -= charge.size
            account.held_charges -= 1
            self.held -= charge.size
        else:
            self._take_out(charge, account)
        if not account.charges and not account.held_charges:
            del self._accounts[account.key]
        self._resume()

    def _take_out(self, charge: ReaderCharge, account: _Account) -> None:
        del account.charges[charge]
        account.paused.pop(charge, None)
        account.size -= charge.size
        self.size -= charge.size

    def _resume(self) -> None:
        """Let paused readers go on as far as there is room, the first to be paused first."""
        for account in self._accounts.values():
            if account.paused and not self.is_full(account):
                oldest = account.oldest
                if oldest is not None and oldest in account.paused:
                    del account.paused[oldest]
                    oldest.resume()
                # A reader may take a part of the remaining room of its key.
                count = -(-self.room(account) // (2 * _READ))
                for charge in list(islice(account.paused, max(count, 0))):
                    del account.paused[charge]
                    charge.resume()
