"""Cooldown persistence: cooldowns of targets and keys in the store, by the time of day, for the next start. Rows are
posted without waiting. Suspicion, probes and affinities are not persisted. Machines that share a database learn the
cooldowns of keys from each other: a provider rejects a key wherever it comes from."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from dragoman.gateway.runtime import Runtime
from dragoman.gateway.stored_responses.store_failures import log_failure
from dragoman.records.old_names import LEVELS, OUTCOMES
from dragoman.routing.health import MAX_COOLDOWN, MAX_KEY_COOLDOWN
from dragoman.routing.health_entry import HealthUpdate
from dragoman.routing.health_state import HealthLevel
from dragoman.store import Store, StoreAway, StoreError

# Seconds in which the store must give its rows; a start does not wait any longer.
_TIMEOUT = 2.0
# Seconds between two looks at the cooldowns of other machines.
FOLLOW_INTERVAL = 3.0
# Characters of a row's subject: models may be named by clients.
_MAX_SUBJECT_LENGTH = 1000
_TARGET, _KEY = "target ", "key "
_ENCODER = msgspec.msgpack.Encoder()
_MEMBERS = msgspec.msgpack.Decoder(list[Any])
# Members of `HealthUpdate` that are stored by name, by their positions, each with its former names.
_NAMES = tuple(
    (HealthUpdate.__struct_fields__.index(field), names) for field, names in (("level", LEVELS), ("last", OUTCOMES))
)
# A target or key whose cooldown has ended, or was reset.
_ENDED = frozenset({HealthLevel.COOLDOWN, HealthLevel.SLOW_START, HealthLevel.HEALTHY})


class _FormerKeyRow(Struct, array_like=True):
    """The row of a key, as earlier versions wrote it."""

    provider: str
    key: str
    model: str
    until: float
    epoch: float = 0.0
    since: float = 0.0
    why: str = ""
    hint: float = 0.0


class PersistedCooldowns:
    """The cooldowns of one gateway in its file. `runtime` gives the present one, `wall` the time of day in seconds."""

    def __init__(self, runtime: Callable[[], Runtime], wall: Callable[[], float]) -> None:
        self._runtime = runtime
        self._wall = wall
        # When to look at the rows of other machines again, infinite during a look; and the rows of the last one.
        self._looks = 0.0
        self._rows: dict[str, bytes] = {}

    @property
    def _store(self) -> Store | None:
        state = self._runtime().state
        return state.store if state.storage.is_persistent else None

    def update(self, update: HealthUpdate) -> None:
        """Persist a cooldown, or remove the row of one that has ended, perhaps before its time."""
        store, group = self._store, update.group
        subject = f"{_KEY}{group} {update.subject}" if group else _TARGET + update.subject
        if store is None or len(subject) > _MAX_SUBJECT_LENGTH:
            return
        if update.level is HealthLevel.COOLDOWN and update.until > self._runtime().clock():
            moved = _moved(replace(update, epoch=0.0), self._ahead)
            store.post(lambda tables: tables.cooldowns.persist(subject, moved.until, _ENCODER.encode(moved)))
        elif update.level in _ENDED:
            store.post(lambda tables: tables.cooldowns.end(subject))

    async def load(self) -> None:
        """Restore persisted cooldowns that have not ended."""
        store, runtime = self._store, self._runtime()
        if store is None:
            return
        try:
            rows = await store.read(lambda tables: tables.cooldowns.current(), _TIMEOUT)
        except StoreError as error:
            log_failure(runtime.log, "warn", "cannot load persisted cooldowns", error)
            return
        for subject, body in rows:
            update = self._restored(subject, body)
            if update is not None:
                runtime.routing_state.health.merge((update,))

    def follow(self) -> None:
        """Begin a look at the cooldowns of keys that other machines persisted, if it is time for one."""
        store, runtime = self._store, self._runtime()
        server = runtime.state.server
        if store is None or server is None or server.is_away or runtime.clock() < self._looks:
            return
        self._looks = math.inf
        store.read(lambda tables: tables.cooldowns.current(_KEY), _TIMEOUT).add_done_callback(self._learn)

    def _learn(self, read: asyncio.Future[list[tuple[str, bytes]]]) -> None:
        """Adopt what is new since the last look."""
        runtime = self._runtime()
        self._looks = runtime.clock() + FOLLOW_INTERVAL
        try:
            rows = dict(read.result())
        except StoreAway:
            # The heartbeat has it logged.
            return
        except StoreError as error:
            log_failure(runtime.log, "warn", "cannot read cooldowns of other machines", error)
            return
        former, self._rows = self._rows, rows
        for subject, body in rows.items():
            if former.get(subject) != body:
                update = self._restored(subject, body)
                if update is not None and update.group:
                    runtime.routing_state.health.merge_persisted(update)

    def _restored(self, subject: str, body: bytes) -> HealthUpdate | None:
        """The update of a row, by the clock of this process; None if another version wrote it."""
        try:
            update = _moved(_decode(subject, body), -self._ahead)
        except msgspec.DecodeError:
            # It is found out again.
            return None
        # The time of day may have been set back meanwhile.
        end = self._runtime().clock() + (MAX_KEY_COOLDOWN if update.group else MAX_COOLDOWN)
        return replace(update, until=min(update.until, end))

    @property
    def _ahead(self) -> float:
        """By how much the time of day is ahead of the clock."""
        return self._wall() - self._runtime().clock()


def _moved(update: HealthUpdate, later: float) -> HealthUpdate:
    return replace(update, until=update.until + later, since=update.since + later, failed=update.failed + later)


def _decode(subject: str, body: bytes) -> HealthUpdate:
    """A persisted update; an earlier version may have written it, in another form or under former names."""
    members = _MEMBERS.decode(body)
    if subject.startswith(_KEY) and len(members) <= len(_FormerKeyRow.__struct_fields__):
        key = msgspec.convert(members, _FormerKeyRow)
        cooldown = [f"{key.key} {key.model}", "cooldown", key.until, 0.0, 0, key.since, key.why or None, key.since]
        members = [*cooldown, 0.0, False, 0.0, key.hint, key.provider]
    for position, names in _NAMES:
        if position < len(members) and isinstance(name := members[position], str):
            members[position] = names.get(name, name)
    return msgspec.convert(members, HealthUpdate)
