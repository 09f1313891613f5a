"""Machines that share a database: each ingests its own journals, whatever becomes of its disk."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from dragoman.database_location import PostgresDatabase
from dragoman.errors import ConfigError
from dragoman.records import ingest_thread, machine
from dragoman.records.digest_key import NAME as SECRET
from dragoman.records.integrity_check import check_integrity
from dragoman.records.journal_directory import ASIDE, directory_of, journals_in, machine_of
from dragoman.records.journal_ingest import ingest_all
from dragoman.records.machine import Machine, check_machine, described_zone
from dragoman.records.machine_file import read_machine_file
from dragoman.store import postgres_database
from dragoman.store.machines import MachineRow, Machines
from dragoman.store.postgres_database import connect_to
from tests.postgres import PostgresServer
from tests.records.invented import NOON, entry
from tests.records.machines import Worker, located, machines, numbers, running
from tests.waiting import LIMIT, wait_until


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine takes longer for a statement, and a test does not wait as long as a machine that is gone."""
    monkeypatch.setattr(postgres_database, "TIMEOUT", LIMIT)
    monkeypatch.setattr(ingest_thread, "_LOCK_TIMEOUT", LIMIT)
    monkeypatch.setattr(machine, "_RENEW_EVERY", 0.02)
    monkeypatch.setattr(machine, "UNSEEN_AFTER", 3600.0)


@pytest.fixture
def one(postgres: PostgresServer, tmp_path: Path) -> Iterator[PostgresDatabase]:
    """The database with the directory of one machine."""
    name = postgres.create()
    yield located(postgres, name, tmp_path / "one")
    postgres.drop(name)


def beside(one: PostgresDatabase, directory: Path) -> PostgresDatabase:
    """The same database with the directory of another machine."""
    other = PostgresDatabase(
        address=one.address, name=one.name, path=str(directory / "state.db"), machine=directory.name
    )
    check_machine(other)
    return other


def clone(one: PostgresDatabase, directory: Path) -> PostgresDatabase:
    """The same database with a copy of the disk of a machine."""
    shutil.copytree(Path(one.path).parent, directory)
    return beside(one, directory)


def ids(database: PostgresDatabase) -> set[str]:
    """The ids in the names of journals."""
    return {machine_of(journal.name)[0] for journal in journals_in(directory_of(database))}


def joined(worker: Worker, database: PostgresDatabase) -> MachineRow:
    """The row of a worker's machine, once it has one that agrees with its file."""

    def row() -> MachineRow | None:
        file = read_machine_file(directory_of(database))
        assert file is not None
        rows = [row for row in machines(database) if (row.id, row.epoch) == (file.id, file.epoch)]
        return rows[0] if rows and ids(database) <= {file.id} else None

    found = wait_until(row, "the machine has joined")
    assert found is not None
    return found


def unseen(database: PostgresDatabase) -> None:
    """Let all machines have been seen long ago."""
    with closing(connect_to(database)) as db:
        db.change("UPDATE machines SET seen = seen - 7200")


def test_machines_have_names_and_ids_of_their_own(one: PostgresDatabase, tmp_path: Path) -> None:
    other = beside(one, tmp_path / "other")
    with running(one) as first, running(other) as second:
        for number in range(20):
            (first if number % 2 else second).journal.finalize(entry(number))
        wait_until(lambda: first.thread.rows + second.thread.rows == 20, "all rows")
        rows = [joined(first, one), joined(second, other)]
        assert [row.name for row in rows] == [row.name for row in machines(one)] == ["one", "other"]
        assert [row.epoch for row in rows] == [1, 1] and rows[0].id != rows[1].id
        wait_until(lambda: all(row.version for row in machines(one)), "both are renewed")
        assert {row.configuration for row in machines(one)} == {"digest"}
        assert (ids(one), ids(other)) == ({rows[0].id}, {rows[1].id})
        before = {row.id: row.seen for row in machines(one)}
        wait_until(lambda: all(row.seen > before[row.id] for row in machines(one)), "both are seen again")
        assert first.log == second.log == []
    assert numbers(one) == [*range(20)]


def test_journals_of_another_machine_are_not_missed_by_the_integrity_check(
    one: PostgresDatabase, tmp_path: Path
) -> None:
    other = beside(one, tmp_path / "other")
    with running(one) as worker:
        worker.journal.finalize(entry(0))
        wait_until(lambda: numbers(one) == [0], "the row")
        found = list(check_integrity(other))
    assert {each.state for each in found} == {"ok"}


def test_a_restart_and_another_worker_use_the_same_row(one: PostgresDatabase) -> None:
    rows = []
    for first in (0, 2):
        with running(one) as worker, running(one) as another:
            worker.journal.finalize(entry(first))
            another.journal.finalize(entry(first + 1))
            rows.append(joined(worker, one))
        assert numbers(one) == [*range(first + 2)]
    assert rows[0].id == rows[1].id and rows[0].epoch == rows[1].epoch == 1
    assert len(machines(one)) == 1


def test_a_machine_that_has_started_again_has_the_next_epoch(
    one: PostgresDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running(one) as worker:
        worker.journal.finalize(entry(1))
        before = joined(worker, one)
    unseen(one)
    monkeypatch.setattr(machine, "instance_of", lambda directory: "after a boot")
    with running(one) as worker:
        wait_until(lambda: machines(one)[0].epoch == before.epoch + 1, "the row is taken")
        worker.journal.rotate()
        worker.journal.finalize(entry(2))
        wait_until(lambda: len(numbers(one)) == 2, "both rows")
        assert joined(worker, one).id == before.id
        assert worker.journal.path is not None
        assert machine_of(worker.journal.path.name) == (before.id, before.epoch + 1)


def test_a_clone_of_a_running_machine_takes_a_new_id(one: PostgresDatabase, tmp_path: Path) -> None:
    with running(one) as first:
        for number in range(5):
            first.journal.finalize(entry(number))
        row = joined(first, one)
        copy = clone(one, tmp_path / "copy")
        with running(copy) as second:
            second.journal.finalize(entry(5))
            first.journal.finalize(entry(6))
            wait_until(lambda: len(numbers(one)) == 7, "all rows")
            assert joined(second, copy).id != row.id == joined(first, one).id
            aside = [machine_of(journal.name)[0] for journal in journals_in(directory_of(copy) / ASIDE)]
            assert set(aside) == {row.id}
            assert any(str(directory_of(copy) / ASIDE) in words for words in second.log)
            assert first.log == []
            # Also what is written from now on is counted.
            second.journal.finalize(entry(7))
            first.journal.finalize(entry(8))
            wait_until(lambda: len(numbers(one)) == 9, "all rows")
    assert numbers(one) == [*range(9)]


def test_a_machine_whose_clone_started_first_takes_a_new_id(one: PostgresDatabase, tmp_path: Path) -> None:
    with running(one) as first:
        first.journal.finalize(entry(0))
        row = joined(first, one)
    copy = clone(one, tmp_path / "copy")
    unseen(one)
    with running(copy) as second:
        second.journal.finalize(entry(1))
        assert joined(second, copy).id == row.id
        with running(one) as first:
            first.journal.finalize(entry(2))
            wait_until(lambda: len(numbers(one)) == 3, "all rows")
            assert joined(first, one).id != row.id
    assert numbers(one) == [0, 1, 2]


def test_a_worker_whose_row_a_clone_has_taken_goes_on_under_a_new_id(one: PostgresDatabase) -> None:
    with running(one) as worker:
        row = joined(worker, one)
        worker.journal.finalize(entry(0))
        wait_until(lambda: numbers(one) == [0], "the first row")
        with closing(connect_to(one)) as db:
            assert db.change("UPDATE machines SET epoch = epoch + 1, instance = 'clone'")
        worker.journal.finalize(entry(1))
        wait_until(lambda: joined(worker, one).id != row.id, "a new id")
        worker.journal.finalize(entry(2))
        wait_until(lambda: 2 in numbers(one), "the new row")
        (aside,) = wait_until(lambda: journals_in(directory_of(one) / ASIDE), "the former journal is set aside")
    assert machine_of(aside.name)[0] == row.id
    # The entry in between was ingested before the clone was seen, or else only the journal that was set aside has it.
    assert numbers(one) in ([0, 2], [0, 1, 2])
    assert [number for number in (0, 1, 2) if entry(number).id.encode() in aside.read_bytes()] == [0, 1]


def test_a_machine_waits_until_it_is_known_whose_the_id_is(
    one: PostgresDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running(one) as worker:
        row = joined(worker, one)
    monkeypatch.setattr(machine, "instance_of", lambda directory: "after a boot")
    with running(one) as worker:
        worker.journal.finalize(entry(0))
        assert "not known yet" in worker.thread.catch_up(None).result(LIMIT).problem
        assert numbers(one) == []
        # The one that had it is not seen any more.
        unseen(one)
        wait_until(lambda: numbers(one) == [0], "the row")
        assert joined(worker, one).id == row.id
        assert worker.log == []


def test_a_journal_that_lasts_for_a_day_is_followed_by_another(
    one: PostgresDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running(one) as worker:
        joined(worker, one)
        first = worker.journal.path
        worker.journal.finalize(entry(0))
        wait_until(lambda: numbers(one) == [0], "the row")
        assert worker.journal.path == first
        monkeypatch.setattr(ingest_thread, "_DAY", 0)
        wait_until(lambda: worker.journal.path != first, "another journal")
        assert first is not None
        wait_until(lambda: (directory_of(one) / "ingested" / first.name).exists(), "the first one is retained")
    assert numbers(one) == [0]


def test_a_row_that_a_failover_took_is_added_again(one: PostgresDatabase) -> None:
    with running(one) as worker:
        row = joined(worker, one)
        with closing(connect_to(one)) as db:
            db.change("DELETE FROM machines")
        wait_until(lambda: len(machines(one)) == 1, "the machine has joined again")
        assert joined(worker, one).id == row.id


def test_a_machine_that_was_set_back_to_a_snapshot_counts_nothing_twice(one: PostgresDatabase, tmp_path: Path) -> None:
    with running(one) as worker:
        worker.journal.finalize(entry(0))
        joined(worker, one)
        shutil.copytree(directory_of(one), tmp_path / "snapshot")
        worker.journal.finalize(entry(1))
        wait_until(lambda: len(numbers(one)) == 2, "both rows")
    shutil.rmtree(directory_of(one))
    shutil.copytree(tmp_path / "snapshot", directory_of(one))
    unseen(one)
    with running(one) as worker:
        worker.journal.finalize(entry(2))
        wait_until(lambda: len(numbers(one)) == 3, "three rows")
    assert numbers(one) == [0, 1, 2]


def test_a_command_leaves_journals_to_a_machine_that_has_joined(one: PostgresDatabase, tmp_path: Path) -> None:
    with running(one) as worker:
        joined(worker, one)
    worker = Worker(one)
    worker.journal.finalize(entry(0))
    copy = clone(one, tmp_path / "copy")
    assert ingest_all(copy, now=NOON).rows == 0
    assert ingest_all(one, now=NOON).rows == 1
    worker.journal.close()


def test_a_machine_of_another_time_zone_does_not_start(one: PostgresDatabase, tmp_path: Path) -> None:
    own = described_zone("").rpartition(" ")[2]
    zones = [zone for zone in ("Asia/Tokyo", "Europe/Berlin") if described_zone(zone).rpartition(" ")[2] != own]
    other = PostgresDatabase(
        address=one.address, name=one.name, path=str(tmp_path / "other" / "state.db"), time_zone=zones[0]
    )
    with pytest.raises(ConfigError, match=f"has {zones[0]}") as refused:
        check_machine(other)
    assert refused.value.key == "storage.time_zone"
    with running(other) as worker:
        worker.journal.finalize(entry(0))
        wait_until(lambda: "time zone" in worker.thread.problem, "the reason")
        assert worker.log == [f"warn: cannot ingest journals in {directory_of(other)}: {worker.thread.problem}"]
    assert numbers(one) == []
    # While the database is away, the zone is that of the last time.
    with running(one) as worker:
        joined(worker, one)
    away = PostgresDatabase(address="host=/nowhere", name="away", path=one.path, time_zone=zones[0])
    with pytest.raises(ConfigError, match="time zone"):
        check_machine(away)
    check_machine(PostgresDatabase(address="host=/nowhere", name="away", path=one.path))


@pytest.mark.parametrize(("one_name", "other_name", "same"), [("UTC", "+00:00", True), ("UTC", "Asia/Tokyo", False)])
def test_a_zone_may_have_two_names(one_name: str, other_name: str, same: bool) -> None:
    distances = [described_zone(name).rpartition(" ")[2] for name in (one_name, other_name)]
    assert (distances[0] == distances[1]) is same


def test_a_machine_that_started_without_the_database_has_its_secret_after_a_restart(
    one: PostgresDatabase, tmp_path: Path
) -> None:
    other = PostgresDatabase(address=one.address, name=one.name, path=str(tmp_path / "other" / "state.db"))
    with running(other) as worker:
        worker.journal.finalize(entry(0))
        wait_until(lambda: "restart" in worker.thread.problem, "the reason")
    secrets = [(directory_of(database) / SECRET).read_bytes() for database in (one, other)]
    assert secrets[0] == secrets[1]
    with running(other):
        wait_until(lambda: numbers(one) == [0], "the row")


def test_journals_of_another_database_are_not_ingested(
    one: PostgresDatabase, postgres: PostgresServer, tmp_path: Path
) -> None:
    with running(one) as worker:
        joined(worker, one)
    other = located(postgres, postgres.create(), tmp_path / "one")
    with running(other) as worker:
        worker.journal.finalize(entry(0))
        wait_until(lambda: "another database" in worker.thread.problem, "the reason")
    assert numbers(other) == numbers(one) == []
    (directory_of(one) / "machine.json").unlink()
    with running(other):
        wait_until(lambda: numbers(other) == [0], "the row")


def test_machines_that_were_not_seen_for_long_are_not_listed(one: PostgresDatabase, tmp_path: Path) -> None:
    other = beside(one, tmp_path / "other")
    with running(one) as worker:
        joined(worker, one)
    with closing(connect_to(one)) as db:
        db.change("UPDATE machines SET seen = seen - 40 * 86400, backlog = 0")
        assert Machine(other).tend(db, lambda: 0)
        assert [row.name for row in Machines(db).all()] == ["other"]
