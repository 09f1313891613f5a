"""`dragoman db ingest` records the journals of a machine that is gone, once."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from dragoman.records.journal import Journal
from dragoman.store.record_tables import open_record_tables
from tests.cli.machine import put_trusted
from tests.cli.screens import piped
from tests.records.invented import entry


def test_a_saved_directory_is_recorded_once(tmp_path: Path) -> None:
    put_trusted(tmp_path, '[storage]\npath = "state.db"\n', {"HOME": str(tmp_path)})
    journal = Journal(tmp_path / "saved")
    for number in range(3):
        journal.finalize(entry(number))
    status, out, err = piped(["db", "ingest", "saved"], tmp_path)
    assert status == 1 and out.startswith("0 requests of 0 journals recorded in ")
    assert "not ingested: saved/" in err and err.endswith(": a worker writes to it\n")
    journal.close()
    status, out, err = piped(["db", "ingest", "saved"], tmp_path)
    assert (status, err) == (0, "")
    assert out == f"3 requests of 1 journal recorded in {tmp_path / 'state.db'}\n"
    status, out, err = piped(["db", "ingest", "saved"], tmp_path)
    assert (status, err) == (0, "")
    assert out == f"0 requests of 0 journals recorded in {tmp_path / 'state.db'}; 1 journal had nothing new\n"
    with closing(open_record_tables(str(tmp_path / "state.db"))) as tables:
        assert tables.records.count() == 3


def test_lines_that_cannot_be_read_are_a_status(tmp_path: Path) -> None:
    put_trusted(tmp_path, '[storage]\npath = "state.db"\n', {"HOME": str(tmp_path)})
    with closing(Journal(tmp_path / "saved")) as journal:
        journal.finalize(entry(1))
        path = journal.path
    assert path is not None
    path.write_bytes(path.read_bytes() + b"00000000 no line\n")
    status, out, err = piped(["db", "ingest", "saved"], tmp_path)
    assert (status, out.split()[0]) == (1, "1") and "cannot read 1 line of journals" in err


def test_a_directory_without_journals_is_refused(tmp_path: Path) -> None:
    put_trusted(tmp_path, '[storage]\npath = "state.db"\n', {"HOME": str(tmp_path)})
    status, out, err = piped(["db", "ingest", "saved"], tmp_path)
    assert (status, out) == (1, "") and "no journals in saved" in err
