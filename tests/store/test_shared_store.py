"""Stored responses on a database of several machines: round trips, commits without an answer, leases."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import pytest

from dragoman.database_location import PostgresDatabase
from dragoman.store.async_store import Store
from dragoman.store.database import Tables
from dragoman.store.errors import StoreAway, StoreUnknown
from dragoman.store.heartbeat import ServerHeartbeat
from dragoman.store.postgres import PostgresAddress, PostgresConnection
from dragoman.store.postgres_database import set_up
from dragoman.store.recent_turn_owners import SharedTurns
from dragoman.store.responses import Item, StoredResponse
from dragoman.store.server_state import SETTLING, ServerAnswer, ServerState
from tests.store.opened import ALICE, names
from tests.waiting import LIMIT


class Watched(PostgresConnection):
    """A connection that counts its round trips, and can lose the answer to a commit."""

    def __init__(self, address: str) -> None:
        super().__init__(PostgresAddress(address), LIMIT, LIMIT)
        self.round_trips = 0
        # What happens to the next commit: it is lost "before" or "after" it is done.
        self.loses = ""
        begin = self._watcher.begin

        def counted(seconds: float) -> None:
            self.round_trips += 1
            begin(seconds)

        self._watcher.begin = counted  # type: ignore[method-assign]  # each round trip begins there

    def commit(self) -> None:
        loses, self.loses = self.loses, ""
        if loses != "before":
            super().commit()
        if loses:
            self._let_go()
            raise StoreUnknown("lost")


class Shared:
    """The store of one worker on a database."""

    def __init__(self, address: str, server: ServerState | None = None) -> None:
        self._address = address
        self.server = server or ServerState()
        # Of the commit of the next work, and the round trips of the last one.
        self.loses = ""
        self.round_trips = 0

    def write(self, work: Callable[[Tables], bool], *, is_repeatable: bool = True) -> bool:
        """The result of work in the store's thread, whose connection is there already."""
        db = Watched(self._address)
        db.row("SELECT 1")
        db.round_trips, db.loses = 0, self.loses
        tables = Tables(db, 30, self.server.now, SharedTurns(), self.server.lease_time)

        async def run() -> bool:
            store = Store(tables, lambda reason, count: None, server=self.server)
            try:
                return await store.write(work, owner=ALICE, is_repeatable=is_repeatable)
            finally:
                await store.close()
                self.round_trips = db.round_trips

        return asyncio.run(run())


@pytest.fixture
def address(database: str) -> str:
    """The address of a database with all tables."""
    set_up(PostgresDatabase(address=database, name="test", path="state.db"))
    return database


@contextmanager
def tables_of(address: str) -> Iterator[Tables]:
    """The tables as another worker finds them."""
    tables = Tables(Watched(address), 30)
    try:
        yield tables
    finally:
        tables.close()


def response(name: str, previous: str | None = None) -> StoredResponse:
    return StoredResponse(name, "completed", previous, False, "chat", 0, b'{"id":"%b"}' % name.encode())


def items(prefix: str, count: int) -> list[Item]:
    return [Item(f"{prefix}{number}", b'{"id":"%b%d"}' % (prefix.encode(), number)) for number in range(count)]


def store_response(tables: Tables, *, name: str, previous: str | None, conversation: str | None, count: int) -> bool:
    """What a response leaves: itself, its items, and its turn in a conversation."""
    if conversation is not None:
        added = items(name, count)
        tables.conversations.append(ALICE, conversation, added, name, is_repeated=tables.is_repeated)
        tables.conversations.release(conversation, name)
    inputs, outputs = items(f"{name}-in", count), items(f"{name}-out", count)
    return tables.responses.add(ALICE, response(name, previous), inputs, outputs, is_repeated=tables.is_repeated)


def leased(tables: Tables, holder: str) -> bool:
    tables.conversations.create(ALICE, "conv", b"{}", ())
    return tables.conversations.lease(ALICE, "conv", holder)


@pytest.mark.parametrize("count", [1, 50])
@pytest.mark.parametrize(
    ("previous", "conversation", "most"),
    [(None, None, 3), ("first", None, 3), (None, "conv", 4)],
    ids=["alone", "continued", "in a conversation"],
)
def test_a_response_is_stored_in_four_round_trips_however_many_items_it_has(
    address: str, previous: str | None, conversation: str | None, most: int, count: int
) -> None:
    with tables_of(address) as tables:
        assert leased(tables, "r")
        assert tables.responses.add(ALICE, response("first"))
    shared = Shared(address)
    work = partial(store_response, name="r", previous=previous, conversation=conversation, count=count)
    assert shared.write(work)
    assert shared.round_trips <= most <= 4
    with tables_of(address) as tables:
        assert len(tables.responses.items("r", 0)) == len(tables.responses.items("r", 1)) == count
        assert tables.conversations.weight("conv")[0] == (count if conversation else 0)


@pytest.mark.parametrize("loses", ["before", "after"])
@pytest.mark.parametrize("conversation", [None, "conv"])
def test_a_response_whose_commit_got_no_answer_is_stored_once(
    address: str, loses: str, conversation: str | None
) -> None:
    with tables_of(address) as tables:
        assert leased(tables, "r")
    shared = Shared(address)
    shared.loses = loses
    assert shared.write(partial(store_response, name="r", previous=None, conversation=conversation, count=3))
    with tables_of(address) as tables:
        assert tables.responses.find(ALICE, "r") is not None
        assert names(tables.responses.items("r", 0)) == ["r-in0", "r-in1", "r-in2"]
        assert names(tables.conversations.items("conv")) == (["r0", "r1", "r2"] if conversation else [])
        # Others may have their turn.
        assert tables.conversations.lease(ALICE, "conv", "other") is (conversation is not None)
    assert not shared.server.is_away


def test_other_work_whose_commit_got_no_answer_is_not_done_again(address: str) -> None:
    shared = Shared(address)
    shared.loses = "before"
    work = partial(store_response, name="r", previous=None, conversation=None, count=1)
    with pytest.raises(StoreUnknown):
        shared.write(work, is_repeatable=False)
    with tables_of(address) as tables:
        assert tables.responses.find(ALICE, "r") is None
    # Nothing else is tried until a heartbeat returns.
    assert shared.server.is_away
    again = Shared(address, shared.server)
    with pytest.raises(StoreAway):
        again.write(work)
    assert again.round_trips == 0


def test_an_id_that_was_taken_before_the_commit_without_an_answer_stays_taken(address: str) -> None:
    with tables_of(address) as tables:
        assert tables.responses.add(ALICE, response("r"))
        assert not tables.responses.add(ALICE, response("r"))
        assert tables.responses.find(ALICE, "r") is None
    shared = Shared(address)
    shared.loses = "after"
    assert not shared.write(partial(store_response, name="r", previous=None, conversation=None, count=1))


@pytest.mark.parametrize("wrong", [0.0, 4_000_000_000.0])
def test_leases_and_expiry_go_by_the_clock_of_the_server(address: str, wrong: float) -> None:
    database = PostgresDatabase(address=address, name="test", path="state.db")
    one, other = ServerState(), ServerState(wall_clock=lambda: wrong)
    for state in (one, other):
        heartbeat = ServerHeartbeat(database, state, LIMIT)
        heartbeat.generation()
        heartbeat.close()
    assert abs(one.now() - other.now()) < LIMIT
    holder, thief = Shared(address, one), Shared(address, other)
    assert holder.write(lambda tables: leased(tables, "r"))
    assert not thief.write(lambda tables: tables.conversations.lease(ALICE, "conv", "thief"))
    assert holder.write(lambda tables: tables.responses.add(ALICE, response("r")))
    assert thief.write(lambda tables: tables.responses.find(ALICE, "r") is not None)
    assert not thief.write(lambda tables: tables.responses.has_outdated())


def test_a_lease_is_not_taken_over_while_its_holder_may_have_been_unable_to_renew_it(address: str) -> None:
    now = [1_800_000_000.0]
    state = ServerState(clock=lambda: now[0], wall_clock=lambda: now[0])

    def beat() -> None:
        state.answered(ServerAnswer(clock=now[0], epoch="first", database="one"))

    beat()
    now[0] += SETTLING
    shared = Shared(address, state)
    assert shared.write(lambda tables: leased(tables, "r"))
    beat()
    state.lost("away")
    now[0] += 3600
    beat()
    take = partial(_take, holder="other")
    assert not shared.write(take)
    now[0] += SETTLING
    assert shared.write(take)


def _take(tables: Tables, holder: str) -> bool:
    return tables.conversations.lease(ALICE, "conv", holder)
