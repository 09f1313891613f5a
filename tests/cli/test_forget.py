"""`dragoman forget` as a user runs it."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from dragoman.cli import forget, main
from dragoman.identities.key_text import digest_of
from dragoman.records.journal import Journal
from dragoman.records.journal_directory import directory_of
from tests.cli.machine import clean, put_trusted
from tests.cli.screens import on_screen
from tests.records.filled import filled_file, some_entries
from tests.records.invented import entry
from tests.store.opened import ALICE, BOB, item, kept, opened

THEN = ["--since", "2027-01-01", "--until", "2027-12-31", "--json"]


@pytest.fixture(autouse=True)
def _machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clean(tmp_path, monkeypatch)


@pytest.fixture
def state(tmp_path: Path) -> Path:
    path = tmp_path / ".local/state/dragoman/state.db"
    filled_file(path, some_entries(1, 100))
    return path


def rows_of(path: Path, key: str) -> int:
    with closing(sqlite3.connect(path)) as db:
        return int(db.execute("SELECT count(*) FROM records WHERE key = ?", (key,)).fetchone()[0])


def used(by: str, capfd: pytest.CaptureFixture[str]) -> object:
    assert main(["usage", "--by", by, *THEN]) == 0
    return json.loads(capfd.readouterr().out)["total"]


def test_pitfall_563_a_key_is_forgotten_and_sums_stay(state: Path, capfd: pytest.CaptureFixture[str]) -> None:
    before = [used(by, capfd) for by in ("key", "session", "day")]
    count = rows_of(state, "alice")
    assert count > 0
    assert main(["forget", "--key", "alice", "--yes"]) == 0
    said = capfd.readouterr()
    first, stored, second, third = said.out.splitlines()
    assert first == (
        f"This deletes the records of key 'alice': {count} rows of exchanges, 2 sessions with 4 threads, and "
        "4 ends of histories. Totals stay."
    )
    assert stored == "The database does not know the owner of this key: the data stored for it stays, and expires."
    assert second.startswith(f"{count} rows deleted; ")
    assert third.startswith("Not deleted: data of providers, logs of the gateway, ")
    assert rows_of(state, "alice") == 0
    assert [used(by, capfd) for by in ("key", "session", "day")] == before


def test_what_is_stored_for_a_key_is_counted_and_deleted(state: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with opened(state) as tables:
        # Of a key that is revoked, the name is left.
        tables.identities.bind_names({"alice": ALICE})
        for owner, name in ((ALICE, "r1"), (BOB, "r2")):
            tables.responses.add(owner, kept(name), [item("question")], [item("answer")])
        tables.conversations.create(ALICE, "c1", b"{}", [item("first")])
        tables.turns.add(ALICE, "call_1", b"thought")
    stored = "1 response, 1 conversation, 3 items, 0 events, 1 cached turn"
    assert main(["forget", "--key", "alice", "--dry-run"]) == 0
    assert capfd.readouterr().out.splitlines()[1:] == [f"It deletes what is stored for the key: {stored}."]
    assert main(["forget", "--session", "second", "--yes"]) == 0
    assert capfd.readouterr().out.endswith("and stored responses, which expire (storage.response_days).\n")
    count = rows_of(state, "alice")
    assert main(["forget", "--key", "alice", "--yes"]) == 0
    *_, deleted, elsewhere = capfd.readouterr().out.splitlines()
    assert deleted.startswith(f"{count} rows deleted, and of stored data {stored}; ")
    assert "stored responses" not in elsewhere
    with closing(sqlite3.connect(state)) as db:
        assert db.execute("SELECT id FROM responses").fetchall() == [("r2",)]
        assert db.execute("SELECT DISTINCT holder FROM items").fetchall() == [("r2",)]
        assert db.execute("SELECT count(*) FROM conversations").fetchone() == (0,)
        assert db.execute("SELECT count(*) FROM turns").fetchone() == (0,)


def test_what_is_stored_for_a_key_of_the_file_is_deleted(
    state: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    digest = digest_of("a-key-for-the-test-of-forget")
    put_trusted(tmp_path, f'[storage]\npath = "{state}"\n[keys.bob]\nhash = "sha256:{digest.hex()}"\n')
    with opened(state) as tables:
        tables.responses.add(digest, kept("r1"), [item("question")])
    assert main(["forget", "--key", "bob", "--yes"]) == 0
    assert "of stored data 1 response, 0 conversations, 1 item, 0 events, 0 cached turns; " in capfd.readouterr().out
    with closing(sqlite3.connect(state)) as db:
        assert db.execute("SELECT count(*) FROM responses").fetchone() == (0,)


def test_a_session_is_forgotten(state: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["forget", "--session", "second", "--yes"]) == 0
    assert "session 'second' of the key 'alice'" in capfd.readouterr().out
    with closing(sqlite3.connect(state)) as db:
        assert db.execute("SELECT name FROM sessions ORDER BY id").fetchall() == [("first",), ("first",)]
        assert db.execute("SELECT count(*) FROM records WHERE session = 2").fetchone() == (0,)
    assert main(["forget", "--session", "first", "--key", "bob", "--yes"]) == 0
    assert "session 'first' of the key 'bob'" in capfd.readouterr().out


def test_pitfall_622_nothing_is_removed_before_it_is_agreed_to(state: Path, capfd: pytest.CaptureFixture[str]) -> None:
    count = rows_of(state, "bob")
    assert main(["forget", "--key", "bob", "--dry-run"]) == 0
    assert capfd.readouterr().out.startswith(f"This deletes the records of key 'bob': {count} rows ")
    assert main(["forget", "--key", "bob"]) == 1
    assert capfd.readouterr().err == "dragoman: nothing is deleted without confirmation (--yes)\n"
    assert rows_of(state, "bob") == count


@pytest.mark.parametrize(("answer", "status"), [("y\n", 0), ("n\n", 1), ("", 1)])
def test_on_a_terminal_it_is_asked(
    answer: str, status: int, state: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("os.isatty", lambda number: True)
    monkeypatch.setattr("sys.stdin.readline", lambda: answer, raising=False)
    assert main(["forget", "--key", "bob"]) == status
    assert "Remove it? [y/N] " in capfd.readouterr().err
    assert (rows_of(state, "bob") == 0) is (status == 0)


def test_pitfall_657_names_that_nobody_has_are_told(state: Path, capfd: pytest.CaptureFixture[str]) -> None:
    for words, problem in (
        ([], "needs --key NAME or --session ID"),
        (["--key", "carol"], "nothing is recorded of a key 'carol'"),
        (["--session", "third"], "nothing is recorded of a session 'third'"),
        (["--session", "first"], "several keys have a session 'first': say which with --key, of 'alice', 'bob'"),
    ):
        assert main(["forget", *words, "--yes"]) == (1 if words else 2)
        assert capfd.readouterr() == ("", f"dragoman: {problem}\n")


def test_where_nothing_was_ever_written_nobody_can_be_forgotten(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["forget", "--key", "alice", "--yes"]) == 1
    assert capfd.readouterr().err.startswith("dragoman: no requests recorded yet: ")
    assert list(tmp_path.rglob("*.db")) == []


def test_pitfall_658_what_was_not_reached_is_told(
    state: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    # Nobody looks whether another journal is wanted.
    monkeypatch.setattr("dragoman.records.forget.TIMEOUT", 0.0)
    with closing(Journal(directory_of(str(state)))) as journal:
        journal.finalize(entry(1, key="bob"))
        assert main(["forget", "--key", "bob", "--yes"]) == 1
    assert f"dragoman: not reached: {journal.path}: a worker still writes to it\n" in capfd.readouterr().err
    assert rows_of(state, "bob") == 0


def test_sentences_fit_the_terminal(state: Path, tmp_path: Path) -> None:
    seen = on_screen(["forget", "--key", "alice", "--yes"], tmp_path, columns=80)
    assert seen.status == 0
    assert max(map(len, seen.plain.splitlines())) <= 80


def test_it_says_what_it_does_not_reach() -> None:
    assert all(word in forget._ELSEWHERE for word in ("providers", "logs", "telemetry", "exports", "backups"))
