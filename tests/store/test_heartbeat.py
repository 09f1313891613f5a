"""Heartbeats of a real server: what they tell, and how often they are tried while it is away."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest

from dragoman.database_location import PostgresDatabase
from dragoman.identities.changes import LOCAL_MAKER, ConfiguredNames
from dragoman.identities.members import KeyMembers
from dragoman.store.errors import StoreAway, StoreError
from dragoman.store.heartbeat import ServerHeartbeat
from dragoman.store.identity_changes import IdentityChanges
from dragoman.store.migrations.postgres import migrate
from dragoman.store.postgres import PostgresAddress, PostgresConnection
from dragoman.store.postgres_database import administer
from dragoman.store.server_state import ServerState
from tests.postgres import PostgresServer, postgres_server
from tests.waiting import LIMIT, wait_until


def _database(address: str) -> PostgresDatabase:
    return PostgresDatabase(address=address, name="the database", path="state.db")


@contextmanager
def _migrated(address: str) -> Iterator[PostgresConnection]:
    with closing(PostgresConnection(PostgresAddress(address), LIMIT)) as db:
        migrate(db)
        yield db


@contextmanager
def _beating(state: ServerState, timeout: float) -> Iterator[tuple[PostgresServer, ServerHeartbeat]]:
    """A heartbeat of a server that can be stopped."""
    with (
        postgres_server() as server,
        _migrated(server.address()),
        closing(ServerHeartbeat(_database(server.address()), state, timeout)) as beat,
    ):
        yield server, beat


def _names(beat: ServerHeartbeat, generation: int = 0) -> list[str]:
    return beat.changes_since(generation, lambda changes: [stored.identity.name for stored in changes])


def _add(db: PostgresConnection, name: str) -> None:
    changes = IdentityChanges(db, lambda: 1000.0)
    changes.create(name, KeyMembers(), name.encode() * 8, maker=LOCAL_MAKER, configured=ConfiguredNames())


def test_a_heartbeat_tells_the_clock_the_server_and_the_last_change_of_keys(database: str) -> None:
    state = ServerState(wall_clock=lambda: 0.0)
    with _migrated(database) as db, closing(ServerHeartbeat(_database(database), state, LIMIT)) as beat:
        assert (beat.generation(), beat.has_any(), _names(beat)) == (0, False, [])
        first = beat.file, state.epoch, state.database
        (now,) = db.ask("SELECT extract(epoch FROM clock_timestamp())::double precision")
        assert now - LIMIT < state.now() <= now + LIMIT
        _add(db, "alice")
        _add(db, "bob")
        assert (beat.generation(), beat.has_any(), beat.count(2000.0).accepted) == (2, True, 2)
        assert (_names(beat), _names(beat, 1)) == (["alice", "bob"], ["bob"])
        assert (beat.file, state.epoch, state.database) == first
        assert len(beat.origin) == 8 and beat.origin.hex() == state.database
        assert beat.patience == 1.0


def test_another_database_has_another_origin(database: str) -> None:
    with postgres_server() as server:
        origins = []
        for address in (database, server.address()):
            with _migrated(address), closing(ServerHeartbeat(_database(address), ServerState(), LIMIT)) as beat:
                beat.generation()
                origins.append(beat.origin)
    assert origins[0] != origins[1]


def test_an_empty_database_is_set_up_unless_it_had_tables_before(database: str) -> None:
    state = ServerState()
    with closing(ServerHeartbeat(_database(database), state, LIMIT)) as beat:
        assert beat.generation() == 0
        with closing(administer(_database(database))) as owner:
            owner.script("DROP SCHEMA dragoman CASCADE")
        with pytest.raises(StoreError, match="dragoman db migrate"):
            beat.generation()
    assert state.is_away and "dragoman db migrate" in state.problem


def test_while_the_server_is_away_it_is_tried_for_ever_ever_more_seldom() -> None:
    state = ServerState()
    with _beating(state, LIMIT) as (server, beat):
        assert beat.generation() == 0
        before = state.epoch, beat.file
        server.stop()
        pauses = []
        for _ in range(12):
            with pytest.raises(StoreAway, match="does not answer"):
                beat.generation()
            pauses.append(beat.patience)
        assert state.is_away and max(pauses) <= 10.0
        assert min(pauses[4:]) >= 5.0 > pauses[0]
        server.start()
        wait_until(lambda: _answers(beat), "the heartbeat returns")
        assert not state.is_away and beat.patience == 1.0
        # What was read before is read again: the server may be one that lacks the latest changes.
        assert state.epoch != before[0] and beat.file != before[1]


def test_a_server_that_is_stopped_is_away_when_the_time_is_over() -> None:
    state = ServerState()
    with _beating(state, LIMIT) as (server, beat):
        assert beat.generation() == 0
        beat._db.timeout = 0.2
        with server.stopped(), pytest.raises(StoreAway):
            beat.generation()
        assert state.is_away
        beat._db.timeout = LIMIT
        assert beat.generation() == 0
        assert not state.is_away


def _answers(beat: ServerHeartbeat) -> bool:
    try:
        beat.generation()
    except StoreError:
        return False
    return True
