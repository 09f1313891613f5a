"""Journals that were saved from a machine are recorded once, whatever becomes of the machine."""

from __future__ import annotations

import shutil
from contextlib import closing
from pathlib import Path

import pytest

from dragoman.errors import DragomanError
from dragoman.records import ingest_thread, machine
from dragoman.records.journal import Journal
from dragoman.records.journal_directory import directory_of, journals_in, machine_of
from dragoman.records.journal_entry import OPEN
from dragoman.records.saved_journals import SavedResult, ingest_saved
from dragoman.store import postgres_database
from dragoman.store.postgres_database import connect_to
from dragoman.store.record_tables import open_record_tables
from tests.postgres import PostgresServer
from tests.records.invented import NOON, entry
from tests.records.machines import located, machines, numbers, running
from tests.waiting import LIMIT, wait_until


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres_database, "TIMEOUT", LIMIT)
    monkeypatch.setattr(ingest_thread, "_LOCK_TIMEOUT", LIMIT)
    monkeypatch.setattr(machine, "_RENEW_EVERY", 0.02)
    monkeypatch.setattr(machine, "UNSEEN_AFTER", 3600.0)


def recorded(path: str) -> list[tuple[str, str]]:
    with closing(open_record_tables(path, read_only=True)) as tables:
        return [(row[0], row[1]) for row in tables.connection.rows("SELECT id, outcome FROM records ORDER BY time, id")]


def test_journals_of_another_file_are_recorded_once_and_stay(tmp_path: Path) -> None:
    """With a file of one machine, too."""
    path, saved = str(tmp_path / "state.db"), tmp_path / "saved"
    journal = Journal(saved)
    journal.finalize(entry(1))
    journal.open(entry(2, outcome=OPEN))
    journal.open(entry(3, outcome=OPEN))
    journal.rotate()
    journal.finalize(entry(2))
    written = ingest_saved(path, saved, NOON)
    assert [words.rpartition(": ")[2] for words in written.left] == ["a worker writes to it"]
    journal.close()
    files = {file.name: file.read_bytes() for file in journals_in(saved)}
    second = ingest_saved(path, saved, NOON)
    assert (written.rows + second.rows, second.left) == (3, ())
    assert recorded(path) == [(entry(1).id, "answered"), (entry(2).id, "answered"), (entry(3).id, "crashed")]
    assert ingest_saved(path, saved, NOON) == SavedResult(known=2)
    assert {file.name: file.read_bytes() for file in journals_in(saved)} == files


def test_a_directory_without_journals_and_that_of_this_machine_are_refused(tmp_path: Path) -> None:
    path = str(tmp_path / "state.db")
    with pytest.raises(DragomanError, match="no journals in"):
        ingest_saved(path, tmp_path, NOON)
    with closing(Journal(directory_of(path))) as journal:
        journal.finalize(entry(1))
    with pytest.raises(DragomanError, match="journals of this machine"):
        ingest_saved(path, directory_of(path), NOON)


def test_journals_of_a_machine_that_died_and_returns_are_recorded_once(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    name = postgres.create()
    one, other = (located(postgres, name, tmp_path / machine) for machine in ("one", "other"))
    with running(one) as worker:
        wait_until(lambda: machines(one), "the machine has joined")
        wait_until(lambda: machine_of(str(worker.journal.path and worker.journal.path.name))[1], "its journal is named")
        worker.journal.finalize(entry(0))
        wait_until(lambda: worker.thread.rows == 1, "the first row")
    # Written after the thread had ended: what a machine has that loses its network before it dies.
    journal = Journal(directory_of(one), machine=worker.machine.owner)
    journal.finalize(entry(1))
    journal.open(entry(2, outcome=OPEN))
    journal.close()
    saved = tmp_path / "saved"
    shutil.copytree(directory_of(one), saved)
    # It has been seen a moment ago: it may be running.
    refused = ingest_saved(other, saved, NOON)
    assert refused.rows == 0 and "its machine one runs" in refused.left[0]
    with closing(connect_to(one)) as db:
        db.change("UPDATE machines SET seen = seen - 7200")
    assert ingest_saved(other, saved, NOON).rows == 2
    assert ingest_saved(other, saved, NOON).rows == 0
    assert numbers(one) == [0, 1, 2]
    with running(one) as worker:
        worker.journal.finalize(entry(3))
        wait_until(lambda: numbers(one) == [0, 1, 2, 3], "the machine goes on")
        wait_until(lambda: machines(one)[0].backlog == 0, "no backlog is left")
    assert numbers(one) == [0, 1, 2, 3]


def test_what_a_worker_wrote_when_a_clone_had_its_id_is_ingested_from_where_it_was_set_aside(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    name = postgres.create()
    one = located(postgres, name, tmp_path / "one")
    with running(one) as worker:
        wait_until(lambda: machines(one), "the machine has joined")
        wait_until(lambda: machine_of(str(worker.journal.path and worker.journal.path.name))[1], "its journal is named")
        with closing(connect_to(one)) as db:
            db.change("UPDATE machines SET epoch = epoch + 1, instance = 'clone'")
        worker.journal.open(entry(0, outcome=OPEN))
        worker.journal.finalize(entry(1))
        aside = directory_of(one) / "aside"
        wait_until(lambda: journals_in(aside), "the former journal is set aside")
        worker.journal.finalize(entry(0))
        wait_until(lambda: 0 in numbers(one), "the exchange that was open")
        ingest_saved(one, aside, NOON)
        assert numbers(one) == [0, 1]
