"""A machine acknowledges an erasure once it has none of its journals from before; `test_shared_erasure.py` has the
commands."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from dragoman.records import machine as module
from dragoman.records.journal import Journal
from dragoman.records.journal_directory import directory_of, journals_in, read_rotation_request
from dragoman.records.journal_ingest import Ingester
from dragoman.records.machine import Machine
from dragoman.records.machine_erasure import MachineErasure
from dragoman.store.machines import Machines
from dragoman.store.postgres_database import connect_to
from dragoman.store.record_tables import RecordTables
from tests.postgres import PostgresServer
from tests.records.invented import NOON, entry
from tests.records.machines import located


def test_a_machine_answers_once_its_former_journals_are_gone(
    postgres: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_RENEW_EVERY", 0.0)
    database = located(postgres, postgres.create(), tmp_path / "one")
    directory = directory_of(database)
    with closing(connect_to(database)) as db:
        machine = Machine(database)
        machines = Machines(db)
        ingester = Ingester(RecordTables(db), directory, keep=3600.0, machine=machine)
        assert machine.tend(db, ingester.backlog)
        journal = Journal(directory, machine=machine.owner)
        journal.finalize(entry(1))
        part = MachineErasure(directory)
        part.tend(ingester, machine)
        assert read_rotation_request(directory) == 0
        machines.add_erasure("alice", "")
        machines.close_erasure(1)
        for _ in range(2):
            assert machine.tend(db, ingester.backlog)
            part.tend(ingester, machine)
            # The worker has not begun another journal yet.
            assert read_rotation_request(directory) > journal.begun
            assert machines.all()[0].erased == 0
        journal.rotate()
        ingester.ingest_orphans(NOON)
        part.tend(ingester, machine)
        assert (machine.erased, machines.all()[0].erased) == (1, 1)
        assert journals_in(directory / "ingested") == []
        # Its exchange began later, by its clock.
        assert db.number("SELECT count(*) FROM records") == 1
        journal.close()
