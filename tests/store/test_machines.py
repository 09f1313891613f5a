"""The table of machines: a row is taken by one start at a time, by the server's clock."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest
from msgspec.structs import replace

from dragoman.store.machines import MachineRow, Machines
from dragoman.store.migrations.postgres import migrate
from dragoman.store.postgres import PostgresAddress, PostgresConnection
from tests.waiting import LIMIT


@pytest.fixture
def db(database: str) -> Iterator[PostgresConnection]:
    with closing(PostgresConnection(PostgresAddress(database), LIMIT, LIMIT)) as db:
        migrate(db)
        yield db


def row_of(machines: Machines, machine: str) -> MachineRow:
    row = machines.get(machine)
    assert row is not None
    return row


def test_a_row_is_added_once_taken_once_and_renewed_by_its_holder(db: PostgresConnection) -> None:
    machines = Machines(db)
    assert machines.get("a") is None
    assert machines.add("a", "eu-1", 1, "first", erased=4)
    assert not machines.add("a", "eu-2", 1, "other", erased=0)
    row = row_of(machines, "a")
    assert (row.name, row.epoch, row.instance, row.erased, row.backlog) == ("eu-1", 1, "first", 4, 0)
    assert machines.holds("a", 1, "first")
    assert machines.take(row, "eu-1", 2, "second")
    # It has changed since it was read.
    assert not machines.take(row, "eu-1", 2, "third")
    assert not machines.renew(row) and not machines.holds("a", 1, "first")
    taken = row_of(machines, "a")
    assert (taken.epoch, taken.instance) == (2, "second") and taken.seen >= row.seen
    assert machines.renew(replace(taken, version="1", configuration="c", backlog=7))
    renewed = row_of(machines, "a")
    assert (renewed.version, renewed.configuration, renewed.backlog) == ("1", "c", 7)
    assert machines.now() - LIMIT < renewed.seen <= machines.now()


def test_machines_are_listed_by_name_until_they_were_not_seen_for_long(db: PostgresConnection) -> None:
    machines = Machines(db)
    for machine, name in (("a", "two"), ("b", "one"), ("c", "one")):
        machines.add(machine, name, 1, "", erased=0)
    assert [row.id for row in machines.all()] == ["b", "c", "a"]
    db.change("UPDATE machines SET seen = seen - 86400 * 40 WHERE id <> 'a'")
    db.change("UPDATE machines SET backlog = 1 WHERE id = 'c'")
    machines.remove_unseen(30)
    assert [row.id for row in machines.all()] == ["c", "a"]


def test_the_first_value_of_a_shared_setting_stays(db: PostgresConnection) -> None:
    machines = Machines(db)
    assert [machines.shared("zone", value) for value in ("UTC", "Europe/Berlin")] == ["UTC", "UTC"]
    assert len(machines.database()) == 16


def test_erasures_are_numbered_and_acknowledged(db: PostgresConnection) -> None:
    machines = Machines(db)
    machines.add("a", "eu-1", 1, "", erased=0)
    assert machines.last_erasure() == 0
    numbers = [machines.add_erasure("alice", ""), machines.add_erasure("bob", "digest")]
    assert numbers == [1, 2] and machines.last_erasure() == 2
    (order,) = machines.erasures_after(1)
    assert (order.number, order.key, order.session) == (2, "bob", "digest")
    assert machines.now() - LIMIT < order.asked <= machines.now()
    for number in (2, 1):
        machines.acknowledge("a", number)
        assert row_of(machines, "a").erased == 2
