"""Key database: reads and changes keys of the database for the admin API, in a thread with a connection of its own. It
works whatever `storage.store_responses` is, and waits for no query of records. One operation runs at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import closing
from functools import partial
from typing import TypeVar

from dragoman.database_location import DatabaseLocation
from dragoman.errors import ConfigError
from dragoman.gateway.admin.framework import AdminError
from dragoman.identities.errors import (
    BeyondMaker,
    InvalidMember,
    KeyChangeError,
    KeyExists,
    KeyMissing,
    KeyMoved,
    KeyRevoked,
)
from dragoman.store import StoreBusy, StoreError
from dragoman.store.connection import KEYS, Transaction
from dragoman.store.identities import Identities
from dragoman.store.identity_changes import IdentityChanges
from dragoman.store.record_tables import LOCK_TIMEOUT, open_record_tables

T = TypeVar("T")
# Maximum waiting requests.
_MAX_WAITING = 32
_RETRY = (b"retry-after", b"1")
_STATUSES: dict[type[KeyChangeError], int] = {
    InvalidMember: 400,
    BeyondMaker: 403,
    KeyMissing: 404,
    KeyExists: 409,
    KeyRevoked: 409,
    KeyMoved: 412,
}


class KeyDatabase:
    """The keys of the database for one worker. `timeout` is the maximum wait for a lock of another process, in
    seconds."""

    def __init__(self, timeout: float = LOCK_TIMEOUT) -> None:
        self._timeout = timeout
        self._turn = asyncio.Lock()
        self._requests = 0

    async def read(self, database: DatabaseLocation, work: Callable[[Identities], T]) -> T:
        """Read keys of a database, all from one moment."""
        return await self._run(partial(_read, database, self._timeout, work))

    async def change(
        self, database: DatabaseLocation, clock: Callable[[], float], work: Callable[[IdentityChanges], T]
    ) -> T:
        """Change keys of a database in one transaction, which is on disk when this returns."""
        return await self._run(partial(_change, database, self._timeout, clock, work))

    async def _run(self, work: Callable[[], T]) -> T:
        if self._requests > _MAX_WAITING:
            raise AdminError(429, "too many requests for keys wait", "try again in a second", headers=[_RETRY])
        self._requests += 1
        try:
            async with self._turn:
                return await asyncio.to_thread(work)
        except KeyChangeError as error:
            raise refused(error) from None
        except StoreBusy:
            problem, remedy = "another process holds the database of the keys", "try again; nothing was changed"
            raise AdminError(503, problem, remedy, headers=[_RETRY]) from None
        except StoreError as error:
            problem = f"the keys cannot be read or changed: {error}"
            raise AdminError(
                503, problem, "run dragoman doctor on the gateway's machine; nothing was changed"
            ) from None
        except ConfigError as error:
            raise AdminError(503, "the keys cannot be read or changed", error.remedy) from None
        finally:
            self._requests -= 1


def refused(error: KeyChangeError) -> AdminError:
    """The error for a rejected change, with a pointer to the invalid member."""
    # A change may exceed the maker's rights by members that its body does not contain.
    where = "the key" if isinstance(error, BeyondMaker) else "the body"
    pointer = f"{where} at /{error.member}: " if error.member else ""
    return AdminError(_STATUSES[type(error)], f"{pointer}{error.problem}", error.remedy)


def _read(database: DatabaseLocation, timeout: float, work: Callable[[Identities], T]) -> T:
    with closing(open_record_tables(database, read_only=True, timeout=timeout)) as tables, tables.reading():
        return work(Identities(tables.connection))


def _change(
    database: DatabaseLocation, timeout: float, clock: Callable[[], float], work: Callable[[IdentityChanges], T]
) -> T:
    with closing(open_record_tables(database, timeout=timeout)) as tables, Transaction(tables.connection, KEYS):
        return work(IdentityChanges(tables.connection, clock))
