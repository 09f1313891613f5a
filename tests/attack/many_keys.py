"""Many keys: 100,000 identities in the database, at the start of a gateway and while one of them is changed.

Decision 46 states the limits: they are loaded within a second, and take 50 MB of a worker.
"""

from __future__ import annotations

import time
from contextlib import closing
from functools import partial
from pathlib import Path

from dragoman.identities.changes import LOCAL_MAKER
from dragoman.identities.key_text import digest_of
from dragoman.store.connection import Transaction
from dragoman.store.identity_changes import IdentityChanges
from dragoman.store.record_tables import open_record_tables
from tests.attack.measuring import Attack, Cost, bearer, cpu_of, measured, memory_of, workers_of
from tests.attack.neighbour import provider
from tests.server.process import Served, provided
from tests.store.inserted_identities import insert
from tests.waiting import wait_until

COUNT = 100_000
_LIMIT_SECONDS, _LIMIT_MEGABYTES = 1.0, 50.0
_STORAGE = '[storage]\npath = "state.db"\n'
_TEXTS = [f"key-{number}" for number in range(COUNT)]


def _fill(file: Path, count: int) -> None:
    """Make a database with this many identities, which have one of ten lists of models."""
    with closing(open_record_tables(str(file))) as tables, Transaction(tables.connection):
        for number, text in enumerate(_TEXTS[:count]):
            rights = f'{{"models":["chat/*","group-{number % 10}/*"]}}'
            insert(tables.connection, number + 1, text, (digest_of(text), None), rights=rights, expires=None)


def _status(house: Served, text: str) -> int:
    return house.get("/admin/v1/me", authorization=f"Bearer {text}").status


def _is_refused(house: Served, text: str) -> bool:
    return _status(house, text) == 401


def _started(count: int) -> tuple[float, float, float]:
    """Start a gateway with this many keys and two workers: seconds until it accepts the last one, and at most, of one
    worker, seconds of its processor and MB."""
    with provided(provider, _STORAGE) as house:
        _fill(house.directory / "state.db", count)
        begun = time.monotonic()
        with house.started("--workers", "2"):
            wait_until(lambda: _status(house, _TEXTS[count - 1]) == 200, "the last key is accepted")
            seconds, workers = time.monotonic() - begun, workers_of(house)
            return seconds, max(map(cpu_of, workers)), max(map(memory_of, workers))


def start(name: str) -> Cost:
    """Start with all keys, and with one: the difference is what they cost. The processor's seconds are judged, which
    are those of the start where nothing else runs."""
    seconds, cpu, memory = (many - one for many, one in zip(_started(COUNT), _started(1), strict=True))
    kept = cpu <= _LIMIT_SECONDS and memory <= _LIMIT_MEGABYTES
    result = f"{'within' if kept else 'BEYOND'} {_LIMIT_SECONDS:g} s and {_LIMIT_MEGABYTES:g} MB of a worker"
    return Cost(name=name, sent=COUNT, seconds=seconds, cpu=cpu, memory=memory, result=result)


def change(name: str) -> Cost:
    """Revoke keys one after the other, each in force before the next, beside a client with another key."""
    revoked = _TEXTS[:10]

    def act(house: Served) -> tuple[int, str]:
        with closing(open_record_tables(str(house.directory / "state.db"))) as tables:
            changes = IdentityChanges(tables.connection, time.time)
            for text in revoked:
                changes.revoke(text, maker=LOCAL_MAKER)
                wait_until(partial(_is_refused, house, text), "the key is revoked")
        return len(revoked), "each refused before the next was revoked"

    with provided(provider, _STORAGE) as house:
        _fill(house.directory / "state.db", COUNT)
        with house.started():
            return measured(name, house, act, *bearer(_TEXTS[-1]))


ATTACKS = (
    Attack(f"a start with {COUNT:,} keys", start),
    Attack(f"revoking one of {COUNT:,} keys, ten times", change),
)
