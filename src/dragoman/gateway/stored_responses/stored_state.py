"""Stored state: the store and what runs in the background, which outlive a request and the configuration."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from functools import partial

from dragoman.config.settings import Settings, Storage
from dragoman.gateway.forwarding.provider_request import check_plain_references
from dragoman.gateway.observability.logs import Log
from dragoman.gateway.paths import RESPONSES
from dragoman.gateway.stored_responses.background import Background
from dragoman.gateway.stored_responses.leases import Leases
from dragoman.gateway.stored_responses.quota import Quota
from dragoman.gateway.stored_responses.reference_resolver import (
    ResolvedReferences,
    check_given,
    check_own,
    find_references,
    refers,
    relied_on_in,
    resolve_references,
    storing_provider_of,
)
from dragoman.gateway.stored_responses.references import References
from dragoman.gateway.stored_responses.store_failures import log_failure
from dragoman.gateway.thread_offload import offload
from dragoman.identities.identity import LOCAL_OWNER, Identity
from dragoman.routing.target import Target
from dragoman.store import Store, StoreBusy, StoreError, Tables, open_tables
from dragoman.store.database import open_server_tables
from dragoman.store.server_state import ServerState
from dragoman.store.worker_thread import Alarm

# Seconds until the next check for expired rows, if there were none.
_LOOK_AGAIN = 10.0
# Seconds that a look at the number of stored bytes may take.
_LOOKING = 1.0


class StoredState:
    """The stored state of one process; several share the database. `store` is None where nothing is stored. `clock` and
    `alarm` time the waiting for a busy store: see `StoreThread`. `server` is the state of a database server."""

    def __init__(
        self,
        storage: Storage,
        log: Log,
        clock: Callable[[], float] = time.monotonic,
        alarm: Alarm | None = None,
        server: ServerState | None = None,
    ) -> None:
        self.storage = storage
        self.server = server
        # The time by which rows expire, in seconds since 1970: that of the server, if several machines have the rows.
        self.now: Callable[[], float] = time.time if server is None else server.now
        self._log = log
        self._clock = clock
        self.store: Store | None = None
        bytes_by_owner: dict[bytes, int] = {}
        if storage.store_responses:
            if storage.database is None:
                tables = [open_tables(storage.location, storage.response_days)]
                bytes_by_owner = tables[0].bytes_by_owner()
            else:
                # The first request of each owner asks for its bytes: the server may be away now.
                tables = [
                    open_server_tables(storage.database, storage.response_days, server or ServerState())
                    for _ in range(storage.connections)
                ]
            self.store = Store(tables[0], self._lost, clock, alarm, tables[1:], server)
        self.quota = Quota(storage, self.store, log, clock, bytes_by_owner)
        self.leases = Leases(self.store, log)
        lease_time = self.now if server is None else server.lease_time
        self.background = Background(storage.max_background_responses, log, self.now, lease_time)
        # Time of the next check for expired rows; None while that is under way.
        self._sweeps: float | None = 0.0

    def _lost(self, reason: str, count: int) -> None:
        self._log.event("error", "cannot store cached turns", reason=reason, dropped=count)

    async def stored_bytes(self) -> int | None:
        """The stored bytes of all keys; None if nothing is stored, or the store does not answer in time."""
        if self.store is None:
            return None
        try:
            stored = await asyncio.wait_for(self.store.read(partial(Tables.stored, owner=b"")), _LOOKING)
        except (StoreError, TimeoutError):
            return None
        return stored.total

    def sweep(self) -> None:
        """Delete some expired rows, if a check is due."""
        if self.store is not None and self._sweeps is not None and self._clock() >= self._sweeps:
            self._sweeps = None
            self.store.write(Tables.sweep, 0.0, counts=False).add_done_callback(self._swept)

    def _swept(self, swept: asyncio.Future[int]) -> None:
        self._sweeps = self._clock()
        try:
            if not swept.result():
                self._sweeps += _LOOK_AGAIN
        except StoreBusy:
            # The next step checks again.
            pass
        except StoreError as error:
            log_failure(self._log, "warn", "cannot delete expired rows", error)

    async def close(self, seconds: float) -> None:
        """End open runs within some seconds, write the rest, and close the file."""
        await self.background.finish(seconds)
        self.background.close()
        self.leases.close()
        if self.store is not None:
            await self.store.close()


def owner_of(key: Identity | None) -> bytes:
    """The owner of items made with a key; all clients without a key are one owner."""
    return LOCAL_OWNER if key is None else key.owner


def name_of(key: Identity | None) -> str:
    """The name of a key, as records have it; "" if no key is required."""
    return "" if key is None else key.name


async def look_up_references(
    state: StoredState,
    settings: Settings,
    key: Identity | None,
    references: References | None,
    body: bytes,
    target: Target,
    *,
    shared: bool,
) -> ResolvedReferences | None:
    """The references of a Responses request that are stored here and may belong to this key; `shared` means that there
    are several owners."""
    native, limit = target.stores_at_provider, settings.limits.request_body
    if shared and native:
        await offload(partial(check_plain_references, body), len(body), name_of(key))
    if references is None:
        return None
    looking = partial(
        resolve_references,
        owner=owner_of(key),
        references=references,
        size=len(body),
        native=native,
        shared=shared,
        limit=limit,
    )
    if state.store is None:
        return looking(None)
    if not refers(references, native=native):
        # Without a query to the store.
        return find_references(None, owner_of(key), references, len(body), native=native, limit=limit)
    return await state.store.read(looking, owner=owner_of(key))


async def locate_provider(
    state: StoredState, key: Identity | None, references: References, *, owners_recorded: bool
) -> str | None:
    """The provider that stores the referenced items, as returned by `storing_provider_of`."""
    if state.store is None:
        return ""
    return await state.store.read(
        partial(storing_provider_of, owner=owner_of(key), references=references, owners_recorded=owners_recorded),
        owner=owner_of(key),
    )


async def check_references(
    state: StoredState,
    key: Identity | None,
    references: References | None,
    body: bytes,
    target: Target,
    *,
    shared: bool,
) -> None:
    """Reject possible references to another key's items in a Responses request without lookups."""
    if references is None or not target.stores_at_provider:
        return
    owner = owner_of(key)
    if shared:
        await offload(partial(check_plain_references, body), len(body), name_of(key))
    checking = partial(_check, owner=owner, references=references, shared=shared)
    if state.store is None:
        checking(None)
    elif refers(references, native=True):
        await state.store.read(checking, owner=owner)


def _check(tables: Tables | None, *, owner: bytes, references: References, shared: bool) -> None:
    check_own(tables, owner, references, shared=shared)
    check_given(tables, owner, relied_on_in(references, None), shared=shared)


def storing_providers(settings: Settings) -> list[str]:
    """The providers that keep responses themselves."""
    return [
        name
        for name, provider in settings.providers.items()
        if provider.stores_responses and any(endpoint.protocol == RESPONSES for endpoint in provider.endpoints)
    ]


def must_record_owners(settings: Settings, *, requires_keys: bool) -> bool:
    """Whether to record the owner of a provider's response: for a single key, too, as others may follow."""
    providers = storing_providers(settings)
    return bool(providers) and (requires_keys or len(providers) > 1)
