"""Byte budget: how many bytes all gateway keys together hold in memory, and how many of them each key may have.

    the oldest of a key     reads on always, so that one of each key can finish, whatever the others hold
    the others of the key   read on while their key has less than is left of the budget, or less than its part

With n keys a part is 1/(n+1) of the budget: what is left over is for the next key. A reader beyond that is paused
(back-pressure, nothing is lost) and resumed when bytes are given back. A key that has few bytes is not paused because
another has many; in return, keys that come one after the other may exceed the budget by a part each, and by what one
read brings.

There are two budgets: unfinished request bodies, which give their bytes back when they are complete, and responses
that are read as a whole, or held by a stream, which do so when their exchange ends. No reader of one waits for room in
the other.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice

# Bytes that a resumed reader is expected to bring before it is looked at again.
_READ = 256 * 1024


class Charge:
    """The bytes of one reader, until it is closed; `pause` and `resume` are called as there is room."""

    __slots__ = ("_account", "_budget", "_pause", "resume", "size")

    def __init__(
        self, budget: ByteBudget, account: _Account, pause: Callable[[], None], resume: Callable[[], None]
    ) -> None:
        self._budget = budget
        self._account: _Account | None = account
        self._pause = pause
        self.resume = resume
        self.size = 0

    @property
    def is_contended(self) -> bool:
        """Whether other readers of the same key are paused."""
        return self._account is not None and bool(self._account.paused)

    @property
    def is_paused(self) -> bool:
        """Whether the reader waits for room."""
        return self._account is not None and self in self._account.paused

    def add(self, size: int) -> None:
        """Charge what was read, and pause the reader if there is no room for more."""
        account = self._account
        if account is None:
            return
        self.size += size
        account.size += size
        self._budget.size += size
        if account.oldest is not self and self._budget.room(account) <= 0:
            account.paused[self] = None
            self._pause()

    def close(self) -> None:
        """Give all of it back; a second time does nothing."""
        account, self._account = self._account, None
        if account is not None:
            self._budget.give_back(self, account)


class _Account:
    """What one key has, and which of its readers are paused; both in the order in which they came."""

    __slots__ = ("charges", "key", "paused", "size")

    def __init__(self, key: str) -> None:
        self.key = key
        self.size = 0
        self.charges: dict[Charge, None] = {}
        self.paused: dict[Charge, None] = {}

    @property
    def oldest(self) -> Charge:
        return next(iter(self.charges))


class KeyBudget:
    """The budget as one key sees it."""

    __slots__ = ("_budget", "_key")

    def __init__(self, budget: ByteBudget, key: str) -> None:
        self._budget = budget
        self._key = key

    def open(self, pause: Callable[[], None], resume: Callable[[], None]) -> Charge:
        """Begin to charge a reader of the key."""
        return self._budget.open(self._key, pause, resume)


class ByteBudget:
    """The bytes of all keys of one process. It outlives a reload, and `settle` changes its limit."""

    def __init__(self, limit: int) -> None:
        self.size = 0
        self._limit = limit
        self._accounts: dict[str, _Account] = {}

    def settle(self, limit: int) -> None:
        """Set the limit; more room lets paused readers go on."""
        self._limit = limit
        self._resume()

    def of(self, key: str) -> KeyBudget:
        """The budget as the key of this name sees it."""
        return KeyBudget(self, key)

    def open(self, key: str, pause: Callable[[], None], resume: Callable[[], None]) -> Charge:
        """Begin to charge a reader of a key."""
        account = self._accounts.get(key)
        if account is None:
            account = self._accounts[key] = _Account(key)
        charge = Charge(self, account, pause, resume)
        account.charges[charge] = None
        return charge

    def room(self, account: _Account) -> int:
        """How many more bytes a key may have."""
        return max(self._limit - self.size, self._limit // (len(self._accounts) + 1)) - account.size

    def give_back(self, charge: Charge, account: _Account) -> None:
        """Take the bytes of a reader out, and let others go on."""
        was_oldest = account.oldest is charge
        del account.charges[charge]
        account.paused.pop(charge, None)
        account.size -= charge.size
        self.size -= charge.size
        if not account.charges:
            del self._accounts[account.key]
        elif was_oldest and account.oldest in account.paused:
            oldest = account.oldest
            del account.paused[oldest]
            oldest.resume()
        self._resume()

    def _resume(self) -> None:
        """Let paused readers go on as far as there is room, the first to be paused first."""
        for account in self._accounts.values():
            if account.paused:
                # What a reader brings is taken from what is left, and added to what its key has.
                count = -(-self.room(account) // (2 * _READ))
                for charge in list(islice(account.paused, max(count, 0))):
                    del account.paused[charge]
                    charge.resume()
