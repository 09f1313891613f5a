"""Kept rests: rests of targets and keys in the store, by the time of day, so that a restart does not forget them.

They are posted, and nobody waits for that: a kill may lose the last moment, and what is lost is found out again. What
fails once and no more, who is being tried and where conversations are is not worth keeping. Without a file, nothing is.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec
from msgspec.structs import replace

from dragoman.gateway.runtime import Runtime
from dragoman.providers.key_cooldowns import MAX_COOLDOWN_SECONDS, KeyCooldownUpdate
from dragoman.records.old_names import LEVELS, OUTCOMES
from dragoman.routing.health import MAX_COOLDOWN
from dragoman.routing.health_state import HealthLevel
from dragoman.routing.target_health import HealthUpdate
from dragoman.store import MEMORY, Store, StoreError, Tables

# Seconds in which the store gives what it has; a start does not wait any longer.
_TIMEOUT = 2.0
# Characters of whom a row is about: models may be named by clients.
_MAX_SUBJECT_LENGTH = 1000
_TARGET, _KEY = "target ", "key "
_ENCODER = msgspec.msgpack.Encoder()
_MEMBERS = msgspec.msgpack.Decoder(list[Any])
# Members of `HealthUpdate` that are stored by name, by their positions, each with its former names.
_NAMES = tuple(
    (HealthUpdate.__struct_fields__.index(field), names) for field, names in (("level", LEVELS), ("last", OUTCOMES))
)
_KEYS = msgspec.msgpack.Decoder(KeyCooldownUpdate)
# A target that answers again, or was cleared.
_ENDED = frozenset({HealthLevel.SLOW_START, HealthLevel.HEALTHY})


class PersistedCooldowns:
    """The rests of one gateway in its file. `service` gives the present one, `wall` the time of day in seconds."""

    def __init__(self, runtime: Callable[[], Runtime], wall: Callable[[], float]) -> None:
        self._runtime = runtime
        self._wall = wall

    @property
    def _store(self) -> Store | None:
        state = self._runtime().state
        return state.store if state.storage.path not in ("", MEMORY) else None

    def update_target(self, update: HealthUpdate) -> None:
        """Keep the rest of a target, or forget it."""
        if update.level is HealthLevel.COOLDOWN and update.until > self._runtime().clock():
            later = self._ahead
            moved = replace(
                update, until=update.until + later, epoch=0.0, since=update.since + later, failed=update.failed + later
            )
            self._persist(_TARGET + update.target, moved.until, moved)
        elif update.level in _ENDED or update.level is HealthLevel.COOLDOWN:
            # A rest that is over may have been cut short, and what was kept of it ends later.
            self._remove(_TARGET + update.target)

    def update_key(self, update: KeyCooldownUpdate) -> None:
        """Keep the rest of a key, or forget it."""
        subject = f"{_KEY}{update.provider} {update.key} {update.model}"
        if update.until:
            later = self._ahead
            moved = replace(update, until=update.until + later, epoch=0.0, since=update.since + later)
            self._persist(subject, moved.until, moved)
        else:
            self._remove(subject)

    async def load(self) -> None:
        """Know of the rests that are not over."""
        store, runtime = self._store, self._runtime()
        if store is None:
            return
        try:
            rows = await store.read(lambda tables: tables.cooldowns.current(), _TIMEOUT)
        except StoreError as error:
            runtime.log.event("warn", "cannot load persisted cooldowns", reason=str(error))
            return
        cooldowns = runtime.key_cooldowns()
        for subject, body in rows:
            try:
                if subject.startswith(_TARGET):
                    runtime.routing_state.health.merge((self._target(_decode_target(body)),))
                else:
                    update = self._key(_decode_key(body))
                    if update.provider in cooldowns:
                        cooldowns[update.provider].merge((update,))
            except msgspec.DecodeError:
                # Another version wrote it; it is found out again.
                continue

    @property
    def _ahead(self) -> float:
        """By how much the time of day is ahead of the clock."""
        return self._wall() - self._runtime().clock()

    def _target(self, persisted: HealthUpdate) -> HealthUpdate:
        later = self._ahead
        # The time of day may have been set back meanwhile.
        until = min(persisted.until - later, self._runtime().clock() + MAX_COOLDOWN)
        return replace(persisted, until=until, since=persisted.since - later, failed=persisted.failed - later)

    def _key(self, persisted: KeyCooldownUpdate) -> KeyCooldownUpdate:
        later = self._ahead
        until = min(persisted.until - later, self._runtime().clock() + MAX_COOLDOWN_SECONDS)
        return replace(persisted, until=until, since=persisted.since - later)

    def _persist(self, subject: str, until: float, update: object) -> None:
        store = self._store
        if store is not None and len(subject) <= _MAX_SUBJECT_LENGTH:
            store.post(partial(_persist_row, subject=subject, until=until, body=_ENCODER.encode(update)))

    def _remove(self, subject: str) -> None:
        store = self._store
        if store is not None and len(subject) <= _MAX_SUBJECT_LENGTH:
            store.post(partial(_remove_row, subject=subject))


def _decode_target(body: bytes) -> HealthUpdate:
    """A persisted update; an earlier version may have written it, under names that are no members any more."""
    members = _MEMBERS.decode(body)
    for position, names in _NAMES:
        if position < len(members) and isinstance(name := members[position], str):
            members[position] = names.get(name, name)
    return msgspec.convert(members, HealthUpdate)


def _decode_key(body: bytes) -> KeyCooldownUpdate:
    update = _KEYS.decode(body)
    return replace(update, why=OUTCOMES.get(update.why, update.why))


def _persist_row(tables: Tables, *, subject: str, until: float, body: bytes) -> None:
    tables.cooldowns.persist(subject, until, body)


def _remove_row(tables: Tables, *, subject: str) -> None:
    tables.cooldowns.end(subject)
