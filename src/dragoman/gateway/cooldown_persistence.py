"""Kept rests: rests of targets and keys in the store, by the time of day, so that a restart does not forget them.

They are posted, and nobody waits for that: a kill may lose the last moment, and what is lost is found out again. What
fails once and no more, who is being tried and where conversations are is not worth keeping. Without a file, nothing is.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import msgspec
from msgspec.structs import replace

from dragoman.gateway.runtime import Runtime
from dragoman.providers.key_cooldowns import LONGEST, KeyCooldownUpdate
from dragoman.routing.health import LONGEST_REST
from dragoman.routing.health_state import HealthLevel
from dragoman.routing.target_health import HealthUpdate
from dragoman.store import MEMORY, Store, StoreError, Tables

# Seconds in which the store gives what it has; a start does not wait any longer.
_PATIENCE = 2.0
# Characters of whom a row is about: models may be named by clients.
_LONGEST_SUBJECT = 1000
_TARGET, _KEY = "target ", "key "
_ENCODER = msgspec.msgpack.Encoder()
_TARGETS = msgspec.msgpack.Decoder(HealthUpdate)
_KEYS = msgspec.msgpack.Decoder(KeyCooldownUpdate)
# A target that answers again, or was cleared.
_ENDED = frozenset({HealthLevel.RAMPING, HealthLevel.GOOD})


class PersistedCooldowns:
    """The rests of one gateway in its file. `service` gives the present one, `wall` the time of day in seconds."""

    def __init__(self, service: Callable[[], Runtime], wall: Callable[[], float]) -> None:
        self._service = service
        self._wall = wall

    @property
    def _store(self) -> Store | None:
        state = self._service().state
        return state.store if state.storage.path not in ("", MEMORY) else None

    def note_target(self, notice: HealthUpdate) -> None:
        """Keep the rest of a target, or forget it."""
        if notice.level is HealthLevel.RESTING and notice.until > self._service().clock():
            later = self._ahead
            moved = replace(
                notice, until=notice.until + later, epoch=0.0, since=notice.since + later, failed=notice.failed + later
            )
            self._keep(_TARGET + notice.target, moved.until, moved)
        elif notice.level in _ENDED or notice.level is HealthLevel.RESTING:
            # A rest that is over may have been cut short, and what was kept of it ends later.
            self._end(_TARGET + notice.target)

    def note_key(self, notice: KeyCooldownUpdate) -> None:
        """Keep the rest of a key, or forget it."""
        subject = f"{_KEY}{notice.provider} {notice.key} {notice.model}"
        if notice.until:
            later = self._ahead
            moved = replace(notice, until=notice.until + later, epoch=0.0, since=notice.since + later)
            self._keep(subject, moved.until, moved)
        else:
            self._end(subject)

    async def take_up(self) -> None:
        """Know of the rests that are not over."""
        store, service = self._store, self._service()
        if store is None:
            return
        try:
            found = await store.read(lambda tables: tables.rests.current(), _PATIENCE)
        except StoreError as error:
            service.log.event("warn", "rests of before could not be read", why=str(error))
            return
        rests = service.key_rests()
        for subject, body in found:
            try:
                if subject.startswith(_TARGET):
                    service.traffic.health.merge((self._target(_TARGETS.decode(body)),))
                else:
                    notice = self._key(_KEYS.decode(body))
                    if notice.provider in rests:
                        rests[notice.provider].merge((notice,))
            except msgspec.DecodeError:
                # Another version wrote it; it is found out again.
                continue

    @property
    def _ahead(self) -> float:
        """By how much the time of day is ahead of the clock."""
        return self._wall() - self._service().clock()

    def _target(self, kept: HealthUpdate) -> HealthUpdate:
        later = self._ahead
        # The time of day may have been set back meanwhile.
        until = min(kept.until - later, self._service().clock() + LONGEST_REST)
        return replace(kept, until=until, since=kept.since - later, failed=kept.failed - later)

    def _key(self, kept: KeyCooldownUpdate) -> KeyCooldownUpdate:
        later = self._ahead
        until = min(kept.until - later, self._service().clock() + LONGEST)
        return replace(kept, until=until, since=kept.since - later)

    def _keep(self, subject: str, until: float, notice: object) -> None:
        store = self._store
        if store is not None and len(subject) <= _LONGEST_SUBJECT:
            store.post(partial(_kept, subject=subject, until=until, body=_ENCODER.encode(notice)))

    def _end(self, subject: str) -> None:
        store = self._store
        if store is not None and len(subject) <= _LONGEST_SUBJECT:
            store.post(partial(_ended, subject=subject))


def _kept(tables: Tables, *, subject: str, until: float, body: bytes) -> None:
    tables.rests.keep(subject, until, body)


def _ended(tables: Tables, *, subject: str) -> None:
    tables.rests.end(subject)
