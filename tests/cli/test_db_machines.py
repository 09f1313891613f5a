"""`dragoman db machines` lists the machines of a database, and names those that do not run."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

from dragoman.database_location import PostgresDatabase
from dragoman.store.machines import Machines
from dragoman.store.migrations.postgres import migrate
from dragoman.store.postgres_database import administer
from tests.cli.machine import put_trusted
from tests.cli.screens import piped


def test_machines_are_listed_with_what_they_last_reported(database: str, tmp_path: Path) -> None:
    put_trusted(tmp_path, '[storage]\ndatabase = "$DATABASE_URL"\n', {"HOME": str(tmp_path)})
    environment = {"DATABASE_URL": database}
    with closing(administer(PostgresDatabase(address=database, name="", path=""))) as db:
        migrate(db)
        status, out, err = piped(["db", "machines"], tmp_path, environment)
        assert (status, out) == (0, "") and "no machine has joined" in err
        machines = Machines(db)
        for machine, name in (("aa", "eu-2"), ("bb", "eu-1")):
            machines.add(machine, name, 1, "", erased=0)
        db.change("UPDATE machines SET version = '1.0', configuration = 'c0ffee', backlog = 7")
        # Neither is seen in this second alone, nor for long.
        db.change("UPDATE machines SET seen = seen + 3600 WHERE id = 'aa'")
        db.change("UPDATE machines SET seen = seen - 7200 WHERE id = 'bb'")
    status, out, err = piped(["db", "machines"], tmp_path, environment)
    assert (status, err) == (0, "")
    rows = [line.split("\t") for line in out.splitlines()]
    assert rows[0] == ["MACHINE", "SEEN", "VERSION", "CONFIGURATION", "BACKLOG", "ID"]
    assert [row[0] for row in rows[1:]] == ["eu-1", "eu-2"]
    assert rows[1][1].startswith("not for 2h") and rows[2][1].endswith(" ago")
    assert rows[1][2:] == ["1.0", "c0ffee", "7", "bb"]
    status, out, err = piped(["db", "machines", "--json"], tmp_path, environment)
    assert (status, err) == (0, "")
    listed = json.loads(out)["machines"]
    assert [(each["name"], each["running"], each["backlog"]) for each in listed] == [
        ("eu-1", False, 7),
        ("eu-2", True, 7),
    ]


def test_a_file_has_one_machine(tmp_path: Path) -> None:
    put_trusted(tmp_path, '[storage]\npath = "state.db"\n', {"HOME": str(tmp_path)})
    status, out, err = piped(["db", "machines"], tmp_path)
    assert (status, out) == (1, "") and "storage.database is not set" in err
