"""Keys of a database that several machines share: one change for all, and what holds while its server is away."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

import pytest

from dragoman.config.settings import Storage
from dragoman.database_location import PostgresDatabase
from dragoman.gateway.access.identity_table import IdentityTable, KnownKey, UnreadableKey, identity_table
from dragoman.gateway.workers.shared_memory import SharedMemory
from dragoman.identities.changes import LOCAL_MAKER, ConfiguredNames
from dragoman.identities.identity import Identity
from dragoman.identities.key_text import digest_of, new_key
from dragoman.identities.members import KeyMembers
from dragoman.store import postgres_database
from dragoman.store.heartbeat import ServerHeartbeat
from dragoman.store.identity_changes import IdentityChanges
from dragoman.store.postgres_database import set_up
from dragoman.store.record_tables import open_record_tables
from dragoman.store.server_state import ServerState
from tests.identities.holders import holder
from tests.postgres import PostgresServer
from tests.store.opened import Clock
from tests.waiting import LIMIT

GRACE = 60.0


class Machine:
    """The table of keys of a worker on one machine."""

    def __init__(self, database: PostgresDatabase, clock: Clock, *keys: Identity) -> None:
        self.table = IdentityTable(
            ServerHeartbeat(database, ServerState(), LIMIT), key_grace=GRACE, page=SharedMemory(), clock=clock
        )
        self.table.configure(keys)

    def outcome(self, text: str) -> str:
        """What a text is after a heartbeat: the name of its identity, its refusal, or whether that is known."""
        self.table.load()
        found = self.table.look_up(text.encode())
        if isinstance(found, KnownKey):
            return found.refusal or found.identity.name
        return "503" if isinstance(found, UnreadableKey) else "401"


class Shared:
    """A database, and the machines that share it."""

    def __init__(self, server: PostgresServer, name: str) -> None:
        self.server, self.name = server, name
        self.database = PostgresDatabase(address=server.address(name), name=name, path="state.db")
        self.clock = Clock()
        self.machines: list[Machine] = []

    def machine(self, *keys: Identity) -> Machine:
        self.machines.append(Machine(self.database, self.clock, *keys))
        return self.machines[-1]

    def change(self, work: Callable[[IdentityChanges], object]) -> None:
        with closing(open_record_tables(self.database)) as tables:
            work(IdentityChanges(tables.connection, self.clock))

    def create(self, name: str) -> str:
        text = new_key()
        self.change(
            lambda changes: changes.create(
                name, KeyMembers(), digest_of(text), maker=LOCAL_MAKER, configured=ConfiguredNames()
            )
        )
        return text

    @contextmanager
    def away(self) -> Iterator[None]:
        """The server accepts no connections for this database meanwhile."""
        self.server.execute(f"ALTER DATABASE {self.name} ALLOW_CONNECTIONS false")
        self.server.execute(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{self.name}'")
        try:
            yield
        finally:
            self.server.execute(f"ALTER DATABASE {self.name} ALLOW_CONNECTIONS true")


@pytest.fixture
def shared(postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shared]:
    monkeypatch.setattr(postgres_database, "TIMEOUT", LIMIT)
    shared = Shared(postgres, postgres.create())
    set_up(shared.database)
    yield shared
    for machine in shared.machines:
        machine.table.stop()
    postgres.drop(shared.name)


def test_a_change_on_one_machine_is_in_force_on_the_other_after_one_heartbeat(shared: Shared) -> None:
    one, other = shared.machine(), shared.machine()
    ann = shared.create("ann")
    assert (one.outcome(ann), other.outcome(ann)) == ("ann", "ann")
    bob = shared.create("bob")
    assert (one.outcome(bob), other.outcome(bob)) == ("bob", "bob")
    shared.change(lambda changes: changes.revoke("ann", maker=LOCAL_MAKER))
    assert (one.outcome(ann), other.outcome(ann)) == ("this gateway key is revoked",) * 2
    assert (one.outcome(bob), other.outcome(new_key())) == ("bob", "401")


def test_pitfall_744_while_the_server_is_away_no_good_key_is_refused_for_ever(shared: Shared) -> None:
    configured = new_key()
    machine = shared.machine(holder("file", digest_of(configured)))
    known = shared.create("ann")
    assert (machine.outcome(known), machine.outcome(configured)) == ("ann", "file")
    # Made on another machine, a moment before the outage.
    unseen = shared.create("bob")
    with shared.away():
        assert machine.outcome(known) == "ann"
        assert machine.outcome(unseen) == "503"
        shared.clock.now += GRACE + 1
        assert [machine.outcome(text) for text in (known, unseen, configured)] == ["503", "503", "file"]
    assert [machine.outcome(text) for text in (known, unseen, configured)] == ["ann", "bob", "file"]
    assert machine.outcome(new_key()) == "401"


def test_pitfall_746_a_machine_that_starts_without_the_database_serves_keys_of_the_file(shared: Shared) -> None:
    configured, text = new_key(), shared.create("ann")
    with shared.away():
        machine = shared.machine(holder("file", digest_of(configured)))
        assert [machine.outcome(text) for text in (text, configured)] == ["503", "file"]
    assert machine.outcome(text) == "ann"


def test_another_database_under_the_same_name_is_not_used(shared: Shared, postgres: PostgresServer) -> None:
    machine, text = shared.machine(), shared.create("ann")
    assert machine.outcome(text) == "ann"
    name = shared.name
    shared.server.execute(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'")
    # As of a name that leads to an empty database now: its answers say nothing of the keys.
    with closing(open_record_tables(shared.database)) as tables:
        tables.connection.change("UPDATE schema_version SET database = ?", (b"12345678",))
        tables.connection.change("DELETE FROM digests")
        tables.connection.change("DELETE FROM identities")
    assert machine.outcome(text) == "ann"
    assert "another one" in machine.table.problem
    assert machine.outcome(new_key()) == "503"


def test_a_gateway_without_keys_of_the_database_has_its_heartbeat_all_the_same(shared: Shared) -> None:
    text, state = shared.create("ann"), ServerState()
    storage = Storage(database=shared.database)
    table = identity_table(storage, None, None, reads_database=False, server=state)
    table.configure([])
    table.load()
    assert not isinstance(table.look_up(text.encode()), KnownKey)
    assert (state.is_away, bool(state.epoch), table.problem) == (False, True, "")
    with shared.away():
        table.load()
        assert state.is_away
    table.load()
    assert not state.is_away
    table.stop()
