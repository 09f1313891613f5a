"""Stored state: the store and what runs in the background, which outlive a request and the configuration."""

from __future__ import annotations

import sqlite3
from functools import partial

from dragoman.config.settings import Key, Settings, Storage
from dragoman.errors import ClientError
from dragoman.gateway.exchange.provider_request import check_plain_items, check_plain_references
from dragoman.gateway.large_work import beside_loop
from dragoman.gateway.paths import RESPONSES
from dragoman.gateway.records.logs import Log
from dragoman.gateway.routes import Target
from dragoman.gateway.stored_responses.background import Background
from dragoman.gateway.stored_responses.leases import Leases
from dragoman.gateway.stored_responses.recall import Found, check_given, check_own, look_up, relied_on_in
from dragoman.gateway.stored_responses.references import References
from dragoman.gateway.stored_responses.store_retries import StoreRetries
from dragoman.store import MEMORY, Store, is_busy, open_store


class StoredState:
    """The state of one process; several processes share the file. `store` is None where nothing is kept."""

    def __init__(self, storage: Storage, log: Log) -> None:
        self.storage = storage
        self._log = log
        self.store: Store | None = open_store(storage.path or MEMORY, storage.days) if storage.keep else None
        self.retries = StoreRetries(log)
        self.leases = Leases(self.store, log)
        self.background = Background(storage.background, self.retries, log)

    def sweep(self) -> None:
        """Forget some of what is out of date, if it is time to look."""
        if self.store is not None:
            try:
                self.store.sweep()
            except sqlite3.Error as error:
                # A busy one is looked at again with the next step.
                if not is_busy(error):
                    self._log.event("warn", "what is out of date could not be removed", why=str(error))

    async def close(self, retries: float) -> None:
        """End what runs, within some seconds, and let go of the file."""
        await self.background.finish(retries)
        self.leases.close()
        self.retries.close()
        if self.store is not None:
            self.store.close()


def owner_of(key: Key | None) -> bytes:
    """Whom what is made with a key belongs to; where no key is asked for, everybody is one."""
    if key is None:
        return b""
    return key.digest if key.owner is None else key.owner


def unreadable(error: sqlite3.Error, log: Log) -> ClientError:
    """What a client is told if the store fails; the log says why."""
    log.event("error", "the store failed", why=str(error))
    return ClientError(500, "what is kept of earlier responses cannot be reached")


def several_owners(settings: Settings) -> bool:
    """Whether a provider's own state has to be told apart by the keys that made it: once it has, it always has."""
    # Those of the command line belong to whoever started the gateway, and are nobody else.
    return settings.several_owners or sum(key.owner is None for key in settings.keys) > 1


async def looked_up(
    state: StoredState, settings: Settings, key: Key | None, said: References | None, body: bytes, target: Target
) -> Found | None:
    """What a Responses request refers to, as far as it is kept here and may be this key's."""
    shared = several_owners(settings)
    if shared and target.keeps_responses:
        await beside_loop(partial(check_plain_references, body), len(body))
    looking = partial(
        look_up,
        state.store,
        owner_of(key),
        said,
        len(body),
        native=target.keeps_responses,
        shared=shared,
        limit=settings.limits.body,
    )
    found = await state.retries.read(looking)
    if said is not None and target.keeps_responses:
        relied_on = partial(_relied_on, said, found, shared=shared)
        names = await beside_loop(relied_on, 0 if found is None else found.size)
        await state.retries.read(partial(check_given, state.store, owner_of(key), names, shared=shared))
    return found


def _relied_on(said: References, found: Found | None, *, shared: bool) -> tuple[str, ...]:
    """The ids that a provider would look up; what was kept of other requests was not read as closely as this one."""
    if found is not None and shared:
        check_plain_items(found.bodies, "input")
    return relied_on_in(said, found)


async def check_references(
    state: StoredState, settings: Settings, key: Key | None, said: References | None, body: bytes, target: Target
) -> None:
    """Refuse what may be another key's in a Responses request for which nothing is looked up here."""
    if said is None or not target.keeps_responses:
        return
    shared, owner = several_owners(settings), owner_of(key)
    if shared:
        await beside_loop(partial(check_plain_references, body), len(body))
    await state.retries.read(partial(check_own, state.store, owner, said, shared=shared))
    await state.retries.read(partial(check_given, state.store, owner, relied_on_in(said, None), shared=shared))


def keepers(settings: Settings) -> list[str]:
    """The providers that keep responses themselves."""
    return [
        name
        for name, provider in settings.providers.items()
        if provider.stores and any(endpoint.protocol == RESPONSES for endpoint in provider.endpoints)
    ]


def notes_ids(settings: Settings) -> bool:
    """Whether it must be known who made a response that a provider keeps, and where.

    It is noted for a single key, too: should there be another one later, what this one made is its own already.
    """
    found = keepers(settings)
    return bool(found) and (bool(settings.keys) or len(found) > 1)
