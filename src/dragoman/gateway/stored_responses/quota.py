"""Storage quota, in all and per key (decision 37). An exchange whose response is stored reserves room for its input
before its provider is called. Expired rows are removed first; if there still is no room, the client gets a 507. Running
responses end as usual: the next check counts them. Below half a limit an exchange continues at once, and the total is
read once a second without waiting; above, it waits for the total."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial

from dragoman.config.settings import MEBIBYTE, Storage
from dragoman.gateway.observability.logs import Log
from dragoman.gateway.stored_responses.leases import nothing
from dragoman.gateway.stored_responses.store_failures import StorageFull, undone
from dragoman.store import Store, StoredBytes, StoreError, Tables

# Bytes that are stored in memory at most, in each process, unless there is no limit at all.
_IN_MEMORY = 256 * MEBIBYTE
# Seconds after which the total is read again, since other workers and responses of unknown size add to it. Below half
# of a limit the last one is used meanwhile.
_RECENT, _FAR = 1.0, 2


class Quota:
    """The limits of one process, and how near they are; `sums` are the bytes of each owner at the start."""

    def __init__(
        self,
        storage: Storage,
        store: Store | None,
        log: Log,
        clock: Callable[[], float],
        bytes_by_owner: Mapping[bytes, int] | None = None,
    ) -> None:
        self._max_bytes = storage.max_bytes if storage.is_persistent else min(storage.max_bytes, _IN_MEMORY)
        self._max_bytes_per_key = storage.max_bytes_per_key
        self._store = store if self._max_bytes or self._max_bytes_per_key else None
        self._log = log
        self._clock = clock
        # Reservations of open exchanges.
        self._reserved: Counter[bytes] = Counter()
        # Stored and reserved bytes at the last check, and reservations since.
        self._own: Counter[bytes] = Counter(bytes_by_owner or {})
        self._total = self._own.total()
        # Time of the last check of each owner.
        self._looked: dict[bytes, float] = {}

    async def reserve(self, owner: bytes, size: int) -> Callable[[], None]:
        """Reserve bytes of an owner; returns the release; `StorageFull` if there is none."""
        if self._store is None:
            return nothing
        if self._lacks(owner, size, _FAR):
            await self._make_room(self._store, owner, size)
        elif self._clock() - self._looked.get(owner, -_RECENT) >= _RECENT:
            self._looked[owner] = self._clock()
            self._store.read(partial(Tables.stored, owner=owner), owner=owner).add_done_callback(
                partial(self._came, owner)
            )
        self._reserved[owner] += size
        self._own[owner] += size
        self._total += size
        return partial(self._give_back, owner, size)

    def _give_back(self, owner: bytes, size: int) -> None:
        self._reserved[owner] -= size
        if not self._reserved[owner]:
            del self._reserved[owner]

    def _came(self, owner: bytes, looking: asyncio.Future[StoredBytes]) -> None:
        # The next write detects a failing store. This function retries in a second.
        if not looking.cancelled() and looking.exception() is None:
            self._update(owner, looking.result())

    def _update(self, owner: bytes, stored: StoredBytes) -> None:
        self._own[owner] = stored.own + self._reserved[owner]
        self._total = stored.total + self._reserved.total()

    async def _make_room(self, store: Store, owner: bytes, size: int) -> None:
        """Measure the stored bytes, and delete expired items until there is room."""
        try:
            while True:
                stored = await store.read(partial(Tables.stored, owner=owner), owner=owner)
                self._update(owner, stored)
                lacking = self._lacks(owner, size)
                if not lacking:
                    return
                if not stored.is_outdated:
                    raise StorageFull(lacking)
                await store.write(Tables.remove_outdated, counts=False)
        except StoreError as error:
            raise undone(error, self._log) from None

    def _lacks(self, owner: bytes, size: int, share: int = 1) -> str:
        """The setting that leaves no room for this many bytes in one `share` of it; "" if there is."""
        if self._max_bytes_per_key and share * (self._own[owner] + size) > self._max_bytes_per_key:
            return "max_bytes_per_key"
        return "max_bytes" if self._max_bytes and share * (self._total + size) > self._max_bytes else ""
