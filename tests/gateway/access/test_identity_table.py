"""The table of identities: keys of the configuration and of the database, and what is not known now."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from functools import partial
from pathlib import Path
from queue import Queue

import pytest

from dragoman.config.settings import Storage
from dragoman.database_location import MEMORY
from dragoman.gateway.access import identity_table as module
from dragoman.gateway.access.identity_table import IdentityTable, KnownKey, UnknownKey, UnreadableKey, identity_table
from dragoman.gateway.workers.shared_memory import SharedMemory
from dragoman.identities.changes import LOCAL_MAKER, ConfiguredNames
from dragoman.identities.identity import Identity, Rights
from dragoman.identities.key_text import digest_of, new_key
from dragoman.identities.members import KeyMembers
from dragoman.store import open_tables
from dragoman.store.identity_reader import IdentityReader
from tests.identities.holders import holder
from tests.step_counting import assert_linear
from tests.store.inserted_identities import insert
from tests.store.opened import Clock, opened
from tests.waiting import LIMIT

GRACE = 60.0
MISTYPED = "dgm_" + 49 * "x"


class Watched:
    """A table of one file, its clock, and what it reported."""

    def __init__(self, file: Path, *keys: Identity) -> None:
        self.file = file
        self.clock = Clock()
        self.page = SharedMemory()
        self.reports: list[tuple[str, Mapping[str, str]]] = []
        self.table = IdentityTable(
            IdentityReader(str(file), timeout=0.0),
            key_grace=GRACE,
            page=self.page,
            report=lambda message, fields: self.reports.append((message, fields)),
            clock=self.clock,
        )
        self.table.configure(keys)

    def create(self, name: str, **members: object) -> str:
        """Make a key of the database: its text."""
        text = new_key()
        with opened(self.file, clock=self.clock) as tables:
            tables.identity_changes.create(
                name, KeyMembers(), digest_of(text), maker=LOCAL_MAKER, configured=ConfiguredNames()
            )
        return text

    def revoke(self, name: str) -> None:
        with opened(self.file, clock=self.clock) as tables:
            tables.identity_changes.revoke(name, maker=LOCAL_MAKER)

    def rotate(self, name: str, grace: float) -> str:
        text = new_key()
        with opened(self.file, clock=self.clock) as tables:
            tables.identity_changes.rotate(name, digest_of(text), grace, maker=LOCAL_MAKER)
        return text

    def outcome(self, text: str) -> str:
        """What a text is, in a word: the name of its identity, what refuses it, or that it is not known."""
        found = self.table.look_up(text.encode())
        if isinstance(found, KnownKey):
            return found.refusal or ("ended" if found.until == 0 else found.identity.name)
        if isinstance(found, UnreadableKey):
            return "unreadable"
        return "mistyped" if found.is_mistyped else "unknown"


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[Watched]:
    watched = Watched(tmp_path / "state.db")
    yield watched
    watched.table.stop()


def damage(file: Path) -> None:
    """Leave a file that is there and cannot be read."""
    file.write_bytes(b"no database" * 100)


def test_a_table_without_a_database_knows_the_keys_of_the_configuration() -> None:
    table = identity_table(Storage(path=MEMORY), SharedMemory(), None, reads_database=True)
    table.configure([holder("ann", digest_of("text"))])
    table.load()
    table.follow(lambda call: call())
    table.stop()
    found = table.look_up(b"text")
    assert isinstance(found, KnownKey)
    assert found.identity.name == "ann"
    assert isinstance(table.look_up(b"other"), UnknownKey)
    assert table.was_read


def test_the_gateway_of_launch_ignores_the_database(watched: Watched) -> None:
    text = watched.create("ann")
    storage = Storage(path=str(watched.file))
    for reads, known in ((True, KnownKey), (False, UnknownKey)):
        page = SharedMemory()
        table = identity_table(storage, page, None, reads_database=reads)
        table.load()
        assert isinstance(table.look_up(text.encode()), known)
        assert page.requires_keys is reads
        table.stop()


def test_a_missing_file_has_no_keys_until_it_is_there(watched: Watched) -> None:
    watched.table.load()
    assert (watched.table.was_read, watched.page.requires_keys) == (True, False)
    assert watched.outcome("text") == "unknown"
    text = watched.create("ann")
    # Nothing is known of it before the file is asked.
    assert watched.outcome(text) == "unknown"
    watched.table.load()
    # An unknown text was not remembered as one.
    assert (watched.outcome(text), watched.page.requires_keys) == ("ann", True)
    assert [message for message, _ in watched.reports] == [
        "requests without a gateway key are refused from now on: the database has a key"
    ]


def test_pitfall_447_a_file_that_is_removed_makes_no_text_unknown(watched: Watched) -> None:
    text = watched.create("ann")
    watched.table.load()
    content = copy_of(watched.file, watched.file.with_suffix(".backup"))
    remove(watched.file)
    watched.clock.now += GRACE
    watched.table.load()
    assert (watched.outcome(text), watched.table.problem) == ("ann", "the file is missing")
    watched.clock.now += 0.1
    assert (watched.outcome(text), watched.page.requires_keys) == ("unreadable", True)
    content.replace(watched.file)
    watched.table.load()
    assert (watched.outcome(text), watched.outcome("other"), watched.table.problem) == ("ann", "unknown", "")


def test_pitfall_446_a_new_key_is_known_although_its_text_was_tried_before(watched: Watched) -> None:
    watched.create("ann")
    watched.table.load()
    text = new_key()
    assert [watched.outcome(text) for _ in range(3)] == ["unknown"] * 3
    with opened(watched.file) as tables:
        tables.identity_changes.create(
            "bob", KeyMembers(), digest_of(text), maker=LOCAL_MAKER, configured=ConfiguredNames()
        )
    watched.table.load()
    assert watched.outcome(text) == "bob"


def test_a_database_with_keys_closes_the_gateway_without_saying_so_at_its_start(watched: Watched) -> None:
    watched.create("ann")
    watched.table.load()
    assert (watched.page.requires_keys, watched.reports) == (True, [])


def test_revoking_the_last_key_leaves_the_gateway_closed(watched: Watched) -> None:
    text = watched.create("ann")
    watched.revoke("ann")
    watched.table.load()
    assert watched.page.requires_keys
    assert watched.outcome(text) == "this gateway key is revoked"
    assert watched.table.count == 1


def test_every_change_is_in_force_after_the_next_reading(watched: Watched) -> None:
    text = watched.create("ann")
    watched.table.load()
    found = watched.table.look_up(text.encode())
    assert isinstance(found, KnownKey)
    assert found.identity.rights == Rights()
    with opened(watched.file) as tables:
        tables.identity_changes.change("ann", KeyMembers(models=("fast",), concurrency=2), maker=LOCAL_MAKER)
    watched.table.load()
    narrowed = watched.table.look_up(text.encode())
    assert isinstance(narrowed, KnownKey)
    assert narrowed.identity.rights == Rights(models=("fast",), concurrency=2)
    watched.revoke("ann")
    watched.table.load()
    assert watched.outcome(text) == "this gateway key is revoked"


def test_pitfall_729_both_texts_of_a_rotated_key_are_known_with_the_end_of_the_former(watched: Watched) -> None:
    former = watched.create("ann")
    newer = watched.rotate("ann", 3600.0)
    watched.table.load()
    found = [watched.table.look_up(text.encode()) for text in (former, newer)]
    assert [(each.identity.name, each.until) for each in found if isinstance(each, KnownKey)] == [
        ("ann", watched.clock.now + 3600),
        ("ann", None),
    ]
    newest = watched.rotate("ann", 3600.0)
    watched.table.load()
    assert [watched.outcome(text) for text in (former, newer, newest)] == ["ann", "ended", "ann"]
    latest = watched.rotate("ann", 0.0)
    watched.table.load()
    # The owner is the digest of the first text, which is accepted no more. No text that was a key's is an unknown one.
    assert [watched.outcome(text) for text in (former, newer, newest, latest)] == ["ended", "ended", "ended", "ann"]
    present = watched.table.look_up(latest.encode())
    assert isinstance(present, KnownKey)
    assert present.identity.owner == digest_of(former)


@pytest.mark.parametrize("text", ["' OR '1'='1", "1; SELECT pg_sleep(9) --", "x" * 1024 * 1024, "\0", "%", "ann"])
def test_pitfall_439_a_text_is_no_part_of_a_statement(watched: Watched, text: str) -> None:
    watched.create("ann")
    watched.table.load()
    assert watched.outcome(text) == "unknown"


def test_pitfall_441_texts_with_the_same_start_are_told_apart(watched: Watched) -> None:
    start = "sk-" + "a" * 200
    texts = {name: start + name for name in ("ann", "bob")}
    with opened(watched.file) as tables:
        for name, text in texts.items():
            tables.identity_changes.create(
                name, KeyMembers(), digest_of(text), maker=LOCAL_MAKER, configured=ConfiguredNames()
            )
    watched.table.load()
    for _ in range(2):
        assert [watched.outcome(text) for text in (*texts.values(), start)] == ["ann", "bob", "unknown"]


def test_pitfall_447_745_a_database_that_cannot_be_read_makes_no_text_unknown(watched: Watched) -> None:
    text = watched.create("ann")
    before = watched.file.read_bytes()
    damage(watched.file)
    watched.table.configure([holder("file", digest_of("of the file"))])
    watched.table.load()
    # Never read: keys of the configuration are served, a mistyped text is refused, nothing is known of others.
    outcomes = {"of the file": "file", text: "unreadable", "other": "unreadable", MISTYPED: "mistyped"}
    assert {each: watched.outcome(each) for each in outcomes} == outcomes
    assert not watched.table.was_read
    assert "not a database" in watched.table.problem
    watched.table.load()
    assert [message for message, _ in watched.reports] == ["cannot read the gateway keys of the database"]
    watched.file.write_bytes(before)
    watched.table.load()
    assert (watched.outcome(text), watched.table.was_read, watched.table.problem) == ("ann", True, "")
    assert watched.reports[1][0] == "reads the gateway keys of the database again"


def test_pitfall_445_cached_keys_are_trusted_for_a_time_alone(watched: Watched) -> None:
    text = watched.create("ann")
    watched.table.configure([holder("file", digest_of("of the file"))])
    watched.table.load()
    found = watched.table.look_up(text.encode())
    assert isinstance(found, KnownKey)
    damage(watched.file)
    watched.clock.now += GRACE
    watched.table.load()
    assert [watched.outcome(each) for each in (text, "other", "of the file")] == ["ann", "unreadable", "file"]
    watched.clock.now += 0.1
    assert [watched.outcome(each) for each in (text, "other", "of the file")] == ["unreadable", "unreadable", "file"]
    # It was read: whether a key is required is known.
    assert watched.table.was_read


def copy_of(file: Path, place: Path) -> Path:
    """A copy of a database, as an operator makes one."""
    with closing(sqlite3.connect(file)) as live, closing(sqlite3.connect(place)) as copy:
        live.backup(copy)
    return place


def remove(file: Path) -> None:
    """Remove a database with its log."""
    for name in ("", "-wal", "-shm"):
        Path(f"{file}{name}").unlink(missing_ok=True)


def test_a_file_that_was_restored_is_read_anew(watched: Watched, tmp_path: Path) -> None:
    first = watched.create("ann")
    backup = copy_of(watched.file, tmp_path / "backup.db")
    lost = watched.create("bob")
    watched.table.load()
    remove(watched.file)
    backup.replace(watched.file)
    kept = watched.create("cid")
    watched.table.load()
    # Both files have the same generation.
    assert [watched.outcome(each) for each in (first, lost, kept)] == ["ann", "unknown", "cid"]


def test_pitfall_447_a_file_that_was_made_anew_makes_no_text_unknown(watched: Watched, tmp_path: Path) -> None:
    text = watched.create("ann")
    watched.table.load()
    backup = copy_of(watched.file, tmp_path / "backup.db")
    remove(watched.file)
    with opened(watched.file):
        pass
    watched.clock.now += GRACE
    watched.table.load()
    assert watched.outcome(text) == "ann"
    assert "without the keys known before" in watched.table.problem
    # Keys of another database are not in force before a restart, since those of the known one may be.
    other = watched.create("bob")
    watched.clock.now += 0.1
    watched.table.load()
    assert [watched.outcome(each) for each in (text, other, "other")] == ["unreadable"] * 3
    # A worker that starts later does not know the keys, and that there were some.
    later = IdentityTable(IdentityReader(str(watched.file)), key_grace=GRACE, page=watched.page, clock=watched.clock)
    later.load()
    assert isinstance(later.look_up(text.encode()), UnreadableKey)
    later.stop()
    restarted = IdentityTable(IdentityReader(str(watched.file)), key_grace=GRACE, clock=watched.clock)
    restarted.load()
    assert isinstance(restarted.look_up(other.encode()), KnownKey)
    restarted.stop()
    remove(watched.file)
    backup.replace(watched.file)
    watched.table.load()
    assert [watched.outcome(each) for each in (text, other)] == ["ann", "unknown"]
    assert [message for message, _ in watched.reports] == [
        "cannot read the gateway keys of the database",
        "reads the gateway keys of the database again",
    ]


def test_a_file_that_was_set_back_is_read_anew(watched: Watched) -> None:
    text = watched.create("ann")
    with closing(sqlite3.connect(watched.file)) as live, closing(sqlite3.connect(":memory:")) as copy:
        live.backup(copy)
        later = watched.create("bob")
        watched.table.load()
        assert [watched.outcome(each) for each in (text, later)] == ["ann", "bob"]
        copy.backup(live)
    watched.table.load()
    assert [watched.outcome(each) for each in (text, later)] == ["ann", "unknown"]


def test_a_key_of_the_configuration_hides_one_of_the_same_name_or_digest(watched: Watched) -> None:
    same_name, same_text, free = watched.create("ann"), watched.create("bob"), watched.create("eva")
    former = same_text
    same_text = watched.rotate("bob", 3600.0)
    revoked = watched.create("old")
    watched.revoke("old")
    own = holder("ann", digest_of("of the file"))
    watched.table.load()
    watched.table.configure([own, holder("other", digest_of(former)), holder("old", digest_of("x"))])
    hidden = "this gateway key is not in force: the configuration has a key of the same name, or the same key"
    texts = {same_name: hidden, former: "other", same_text: hidden, free: "eva", "of the file": "ann"}
    assert {text: watched.outcome(text) for text in texts} == texts
    assert watched.outcome(revoked) == "this gateway key is revoked"
    assert watched.table.hidden == {"ann", "bob"}
    assert [fields for _, fields in watched.reports] == [{"key": "ann"}, {"key": "bob"}]
    # Once the configuration has them no more, they are in force, and nothing is said twice.
    watched.table.configure([own])
    assert [watched.outcome(each) for each in (same_name, same_text)] == [hidden, "bob"]
    watched.table.configure([])
    assert (watched.outcome(same_name), watched.table.hidden, len(watched.reports)) == ("ann", frozenset(), 2)


def test_owners_are_counted_over_both_sources_with_revoked_ones(watched: Watched) -> None:
    table = watched.table
    local = holder("launch", b"l" * 32, owner=b"")
    first = watched.create("ann")
    table.configure([local])
    table.load()
    assert (table.several_owners, table.count) == (False, 2)
    # The same owner in both is one.
    table.configure([local, holder("ann", digest_of(first))])
    assert not table.several_owners
    assert not watched.page.several_owners
    watched.create("bob")
    watched.revoke("bob")
    table.load()
    assert table.several_owners
    # The other workers tell owners apart, too.
    assert watched.page.several_owners


@pytest.mark.parametrize("in_file_first", [True, False])
def test_owners_that_the_configuration_had_are_counted(watched: Watched, in_file_first: bool) -> None:
    table, own = watched.table, holder("file", digest_of("of the file"))
    changes: list[Callable[[], object]] = [partial(table.configure, [own]), partial(watched.create, "ann")]
    for change in changes if in_file_first else reversed(changes):
        change()
        table.load()
    table.configure([])
    table.load()
    # What the removed key made is still there.
    assert (table.several_owners, watched.page.several_owners) == (True, True)


def test_identities_are_found_by_their_names(watched: Watched) -> None:
    watched.create("ann")
    watched.table.configure([holder("file", digest_of("of the file"))])
    watched.table.load()
    found = [watched.table.named(name) for name in ("ann", "file", "other")]
    assert [identity and identity.name for identity in found] == ["ann", "file", None]


def test_pitfall_739_the_keys_of_a_database_are_loaded_in_linear_time(tmp_path: Path) -> None:
    configured = [holder("key-1", digest_of("of the file"))]

    def loading(count: int) -> Callable[[], None]:
        file = tmp_path / f"{count}.db"
        with opened(file) as tables, tables.transaction():
            for number in range(1, count + 1):
                digest, former = digest_of(f"text {number}"), digest_of(f"former {number}")
                insert(tables.connection, number, f"key-{number}", (digest, None), (former, 4e9))

        def load() -> None:
            table = IdentityTable(IdentityReader(str(file)), key_grace=GRACE)
            table.configure(configured)
            table.load()
            table.stop()
            assert table.count == count + 1
            found = table.look_up(b"former 2")
            assert isinstance(found, KnownKey)
            assert found.identity.name == "key-2"

        return load

    assert_linear(loading, 200)


def test_looked_up_texts_are_bounded(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MAX_KNOWN_TEXTS", 3)
    texts = [f"text {number}" for number in range(10)]
    watched.table.configure([holder(text, digest_of(text)) for text in texts])
    assert [watched.outcome(text) for text in texts] == texts
    assert len(watched.table._known) <= 3


def test_the_event_loop_does_not_wake_up_for_a_file_without_changes(watched: Watched) -> None:
    text = watched.create("ann")
    watched.table.load()
    watched.clock.now += GRACE + 1
    calls: list[Callable[[], None]] = []
    watched.table._refresh(calls.append)
    # It was read all the same.
    assert (calls, watched.outcome(text)) == ([], "ann")
    watched.revoke("ann")
    watched.table._refresh(calls.append)
    assert len(calls) == 1


def test_a_thread_reads_changes_until_it_is_stopped(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "POLL_INTERVAL", 0.001)
    watched.table.load()
    calls: Queue[Callable[[], None]] = Queue()
    watched.table.follow(calls.put)
    text = watched.create("ann")
    # What is read is applied by the event loop alone.
    while watched.outcome(text) != "ann":
        calls.get(timeout=LIMIT)()
    watched.table.stop()
    assert "identities" not in {thread.name for thread in threading.enumerate()}


def test_an_unexpected_error_does_not_end_the_thread(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "POLL_INTERVAL", 0.001)
    watched.table.load()
    text = watched.create("ann")
    with closing(sqlite3.connect(watched.file, isolation_level=None)) as db:
        db.execute("DELETE FROM generation")
        calls: Queue[Callable[[], None]] = Queue()
        watched.table.follow(calls.put)
        while not watched.table.problem:
            calls.get(timeout=LIMIT)()
        assert "unexpected error" in watched.table.problem
        db.execute("INSERT INTO generation (number) VALUES (2)")
    while watched.outcome(text) != "ann":
        calls.get(timeout=LIMIT)()
    assert not watched.table.problem


def test_tables_of_an_older_version_have_no_keys(watched: Watched) -> None:
    with closing(sqlite3.connect(watched.file)) as db:
        db.execute("PRAGMA user_version = 1")
    watched.table.load()
    assert (watched.outcome("text"), watched.table.problem) == ("unknown", "")
    watched.file.unlink()
    open_tables(str(watched.file), 30).close()
    text = watched.create("ann")
    watched.table.load()
    assert watched.outcome(text) == "ann"
