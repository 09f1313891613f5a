"""What the commands share that show what went through the gateway."""

from __future__ import annotations

import sqlite3
from argparse import Namespace
from contextlib import closing
from pathlib import Path

import pytest
from msgspec.structs import replace

from dragoman.cli import main
from dragoman.cli import record_file as common
from dragoman.cli.record_file import INCOMPLETE, RecordFile, as_cell, name_of, once, open_records, write_json
from dragoman.errors import DragomanError
from dragoman.records.journal import Journal
from dragoman.records.journal_directory import directory_of
from dragoman.records.time_range import zone_of
from dragoman.store import StoreBusy
from dragoman.store.record_queries import RecordQueries
from tests.cli.machine import clean
from tests.cli.recorded_file import MAIN, config, recorded_file
from tests.records.invented import NOON, entry
from tests.records.kept_sessions import filling

Captured = pytest.CaptureFixture[str]
COMMANDS = (["sessions"], ["session", "x"], ["logs"], ["logs", "x"], ["top", "--once"], ["top", "--json"])
UTC = RecordFile(database="", zone=zone_of("UTC"))


@pytest.fixture(autouse=True)
def _machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clean(tmp_path, monkeypatch)


def called(capfd: Captured, *words: str) -> tuple[int, str, str]:
    """Run a command here: its status and what it said."""
    status = main(words)
    said = capfd.readouterr()
    return status, said.out, said.err


def test_times_are_told_in_the_zone_of_days() -> None:
    assert (UTC.day(NOON), UTC.clock(NOON)) == ("2027-01-15", "08:00:00")
    assert [UTC.moment(NOON - days * 86_400_000_000, NOON) for days in (0, 1, 20)] == [
        "08:00",
        "01-14 08:00",
        "2026-12-26 08:00",
    ]
    india = RecordFile(database="", zone=zone_of("+05:30"))
    assert india.clock(NOON) == "13:30:00"
    assert india.since("today", NOON) == NOON - 13 * 3_600_000_000 - 30 * 60_000_000
    assert UTC.since("2h", NOON) == NOON - 7_200_000_000
    assert UTC.since("all", NOON) == 0


def test_the_file_is_the_one_that_the_configuration_names(tmp_path: Path) -> None:
    found = common.find_record_file(Namespace(config=str(config(tmp_path))))
    assert found.database == str(tmp_path / "state.db")


def test_that_nothing_is_recorded_any_more_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = config(tmp_path)
    file.write_text('[storage]\npath = "state.db"\nrecord_requests = false\ntime_zone = "UTC"\n', encoding="utf-8")
    assert common.find_record_file(Namespace(config=str(file))).zone.name == "UTC"
    assert capsys.readouterr().err == (
        "dragoman: note: storage.record_requests is false: requests are no longer recorded\n"
    )


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_what_is_kept_in_memory_is_nowhere(tmp_path: Path, words: list[str], capfd: Captured) -> None:
    status, out, err = called(capfd, *words, "--config", str(config(tmp_path, ":memory:")))
    assert (status, out) == (1, "")
    assert err == "dragoman: storage.path names no file: nothing is recorded in memory\n"


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_a_file_of_a_newer_version_is_refused_in_a_sentence_and_left_alone(
    tmp_path: Path, words: list[str], capfd: Captured
) -> None:
    with closing(sqlite3.connect(tmp_path / "state.db")) as db:
        db.execute("PRAGMA user_version = 99")
    before = (tmp_path / "state.db").read_bytes()
    status, out, err = called(capfd, *words, "--config", str(config(tmp_path)))
    assert (status, out, err.count("\n")) == (1, "", 1)
    assert "newer version" in err
    assert (tmp_path / "state.db").read_bytes() == before


@pytest.mark.parametrize("words", [["sessions"], ["logs"], ["top", "--once"]], ids=" ".join)
def test_where_nothing_was_recorded_there_is_nothing_and_nothing_is_made(
    tmp_path: Path, words: list[str], capfd: Captured
) -> None:
    status, _, err = called(capfd, *words, "--config", str(config(tmp_path)))
    # With nothing to list, a log would look like one that was not found.
    assert status == 0
    line = f"dragoman: no requests recorded yet: {tmp_path / 'state.db'} does not exist\n"
    assert err == line * (words == ["logs"])
    assert not (tmp_path / "state.db").exists()


@pytest.mark.parametrize("command", ["sessions", "logs"])
@pytest.mark.parametrize("when", ["yesterdy", "2026-13-01", "7", "-1d", "99999999999d", ""])
def test_a_wrong_date_is_told_in_a_sentence(tmp_path: Path, command: str, when: str, capfd: Captured) -> None:
    status, out, err = called(capfd, command, f"--since={when}", "--config", str(config(tmp_path)))
    if command == "logs" and not when:
        assert status == 0
        return
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert err.startswith(f"dragoman: --since: {when!r} is no time; it may be 7d")


def test_all_is_seen_that_was_written_before(tmp_path: Path) -> None:
    path = str(tmp_path / "state.db")
    journal = Journal(directory_of(path))
    journal.finalize(entry(1))
    journal.open(replace(entry(2), outcome="open"))
    with open_records(RecordFile(database=path, zone=UTC.zone)) as (tables, status):
        assert RecordQueries(tables.connection).newest() == 1
    # Its worker is gone: what was open has crashed.
    journal.close()
    with open_records(RecordFile(database=path, zone=UTC.zone)) as (tables, status):
        assert RecordQueries(tables.connection).newest() == 2
        assert status == 0


def test_a_file_that_is_locked_is_read_all_the_same(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "state.db"
    with filling(path) as file:
        file.exchanges([entry(1)])
    journal = Journal(directory_of(str(path)))
    journal.finalize(entry(2))
    monkeypatch.setattr(
        "dragoman.store.record_tables.open_record_tables.__kwdefaults__",
        {"read_only": False, "timeout": 0.05, "otherwise": "set record_requests = false"},
    )
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with open_records(RecordFile(database=str(path), zone=UTC.zone)) as (tables, status):
            assert RecordQueries(tables.connection).newest() == 1
            assert status == INCOMPLETE
    assert capsys.readouterr().err.startswith("dragoman: the newest requests are missing: cannot write to ")
    journal.close()


@pytest.mark.parametrize("command", [["sessions"], ["session", MAIN], ["logs"], ["top", "--once"], ["top", "--json"]])
def test_every_command_ends_with_a_status_of_its_own_where_something_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: Captured, command: list[str]
) -> None:
    at = ["--config", str(recorded_file(tmp_path))]
    assert called(capfd, *command, *at)[::2] == (0, "")

    def locked(path: str, *, now: int) -> None:
        raise StoreBusy("database is locked")

    monkeypatch.setattr("dragoman.records.journal_ingest.ingest_all", locked)
    status, out, err = called(capfd, *command, *at)
    assert (status, err.count("\n")) == (1, 1)
    assert "database is locked" in err
    assert out


def test_what_is_looked_at_again_and_again_complains_once() -> None:
    told: list[str] = []
    complain = once(told.append)
    for problem in ("locked", "full", "locked"):
        complain(problem)
    assert told == ["locked", "full"]


def test_damaged_lines_are_told_of(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(tmp_path / "state.db")
    journal = Journal(directory_of(path))
    assert journal.path is not None
    for number in (1, 2, 3):
        journal.finalize(entry(number))
    lines = journal.path.read_bytes().splitlines(keepends=True)
    journal.path.write_bytes(b"".join([*lines[:2], b"xx" + lines[2][2:], *lines[3:]]))
    with open_records(RecordFile(database=path, zone=UTC.zone)) as (tables, _):
        assert RecordQueries(tables.connection).newest() == 2
    assert capsys.readouterr().err == ("dragoman: cannot read 1 line of journals; their requests are missing\n")
    journal.close()


def test_names_are_shown_so_that_they_pose_as_nothing_else() -> None:
    assert [as_cell(text) for text in ("", "large", "two words", 'a" b', "x" * 500)] == [
        "",
        "large",
        '"two words"',
        '"a\' b"',
        "x" * 60,
    ]
    assert (name_of(None), name_of("a\udce9b")) == (None, "a?b")


def test_json_has_nothing_that_a_terminal_obeys(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    write_json({"name": "é\x1b[2J\x9b\u202e\U000e0001"})
    assert capfdbinary.readouterr().out.decode() == '{"name":"é\\u001b[2J\\u009b\\u202e\\udb40\\udc01"}\n'


def test_nothing_is_done_where_the_store_says_what_is_wrong(tmp_path: Path) -> None:
    (tmp_path / "state.db").write_bytes(b"no database" * 100)
    with pytest.raises(DragomanError), open_records(RecordFile(database=str(tmp_path / "state.db"), zone=UTC.zone)):
        pytest.fail("it was opened")
