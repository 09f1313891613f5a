"""Key names: the names of the configuration's keys are bound to their owners in the database, at each start and reload.
So no key of the database gets a name that records of another key have, also after the configuration lost it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from dragoman.config.settings import Storage
from dragoman.database_location import database_exists
from dragoman.errors import DragomanError
from dragoman.gateway.access.identity_table import Report
from dragoman.identities.identity import FILE, Identity
from dragoman.store.errors import StoreAway
from dragoman.store.identity_file import bind_key_names


async def bind_names(storage: Storage, keys: Sequence[Identity], report: Report) -> bool:
    """Bind the names of keys, and report names of other owners. A gateway that stores nothing makes no
    file for them. False if the server of the database is away: then it is to be tried again."""
    owners = {key.name: key.owner for key in keys if key.source == FILE}
    if not owners or not storage.is_persistent:
        return True
    if not (storage.record_requests or storage.store_responses or database_exists(storage.location)):
        return True
    try:
        others = await asyncio.to_thread(bind_key_names, storage.location, owners)
    except StoreAway:
        return False
    except DragomanError as error:
        report("cannot store the names of gateway keys", {"reason": str(error)})
        return True
    for name in others:
        report(
            "the name of a gateway key belonged to another one, whose stored responses and records it does not read",
            {"key": name, "remedy": "set owner to the first digest of that key, or choose another name"},
        )
    return True
