"""The file of identities, as a command opens it: of this user and version, and errors that say what to do."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from dragoman.errors import DragomanError
from dragoman.identities.changes import LOCAL_MAKER, ConfiguredNames
from dragoman.identities.key_text import digest_of
from dragoman.identities.members import KeyMembers
from dragoman.store import StoreBusy, StoreError
from dragoman.store.identity_file import IdentityFile, check_owner, may_accept, open_identity_file, requires_keys
from dragoman.store.migrations.sqlite import STEPS
from tests.store.opened import Clock, opened
from tests.store.other_users import NOBODY, as_nobody

NO_NAMES = ConfiguredNames()


@contextmanager
def identity_file(path: Path, *, read_only: bool = False) -> Iterator[IdentityFile]:
    with open_identity_file(str(path), Clock(), read_only=read_only, timeout=0.01) as file:
        yield file


def make(file: IdentityFile, name: str) -> None:
    file.changes.create(name, KeyMembers(), digest_of(name), maker=LOCAL_MAKER, configured=NO_NAMES)


def set_version(path: Path, version: int) -> None:
    with closing(sqlite3.connect(path)) as db:
        db.execute(f"PRAGMA user_version = {version}")


def test_a_change_is_there_for_the_next_and_only_its_user_may_read_the_file(tmp_path: Path) -> None:
    path = tmp_path / "new" / "state.db"
    with identity_file(path) as file:
        make(file, "ann")
    assert path.stat().st_mode & 0o777 == 0o600
    with identity_file(path, read_only=True) as file:
        assert [stored.identity.name for stored in file.identities.page()] == ["ann"]


def test_to_read_makes_no_file(tmp_path: Path) -> None:
    with identity_file(tmp_path / "state.db", read_only=True) as file:
        assert not file.identities.has_any()
    assert list(tmp_path.iterdir()) == []


def test_a_trial_leaves_nothing(tmp_path: Path) -> None:
    with identity_file(tmp_path / "state.db") as file:
        with file.trial():
            make(file, "ann")
            assert file.identities.has_any()
        assert not file.identities.has_any()
        assert file.identities.generation() == 0
        make(file, "ann")


def test_a_file_that_another_process_writes_is_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    problem = "locked by another process; nothing was changed"
    with (
        opened(path) as other,
        other.transaction(),
        pytest.raises(StoreBusy, match=problem),
        identity_file(path) as file,
    ):
        make(file, "ann")
    with identity_file(path) as file:
        assert not file.identities.has_any()


def test_a_full_disk_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    with identity_file(path) as file:
        make(file, "ann")
    with pytest.raises(StoreError, match="is full; nothing was changed: make room"), identity_file(path) as file:
        file._tables.connection.change("PRAGMA max_page_count = 1")
        for number in range(1000):
            make(file, f"bob{number}")
            last = number
    with identity_file(path) as file:
        # Each change is whole or absent.
        assert file.identities.generation() == len(file.identities.page(limit=9999)) == last + 2


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    path.write_bytes(b"no database, but a text that is long enough to be read as the head of one" * 20)
    with pytest.raises(StoreError, match=r"state\.db cannot be used .*dragoman db check"), identity_file(path):
        raise AssertionError("it was opened")


@pytest.mark.parametrize("read_only", [True, False])
@pytest.mark.parametrize(
    ("version", "remedy"),
    [(len(STEPS) + 1, "use the release that wrote it"), (len(STEPS) - 1, "start the gateway once")],
)
def test_a_file_of_another_version_is_refused(tmp_path: Path, version: int, remedy: str, read_only: bool) -> None:
    path = tmp_path / "state.db"
    with identity_file(path) as file:
        make(file, "ann")
    set_version(path, version)
    with pytest.raises(DragomanError, match=remedy), identity_file(path, read_only=read_only):
        raise AssertionError("it was opened")


def test_a_file_of_another_user_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    path.touch()
    if os.geteuid() != 0:
        # Of a file that is root's, as on every machine.
        path = Path("/")
        with pytest.raises(DragomanError, match=r"^/ belongs to another user, uid 0: .*sudo -u '#0'"):
            check_owner(path)
        return
    os.chown(path, NOBODY, NOBODY)
    with pytest.raises(DragomanError, match=f"belongs to another user, uid {NOBODY}: .*sudo -u '#{NOBODY}'"):
        check_owner(path)


def test_root_makes_no_file_in_the_directory_of_another_user(tmp_path: Path) -> None:
    if os.geteuid() == 0:
        os.chown(tmp_path, NOBODY, NOBODY)
        with pytest.raises(DragomanError, match="belongs to another user"):
            check_owner(tmp_path / "deeper" / "state.db")
    with as_nobody():
        # Other users may have a group's directory.
        check_owner(Path("/missing/state.db"))


def test_what_a_file_accepts_is_known_where_it_can_be_read(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    assert not requires_keys(str(path))
    assert not may_accept(str(path), digest_of("ann"))
    assert not requires_keys(":memory:")
    with identity_file(path) as file:
        make(file, "ann")
    assert requires_keys(str(path))
    assert may_accept(str(path), digest_of("ann"))
    assert not may_accept(str(path), digest_of("bob"))
    # The gateway knows what this command cannot read.
    set_version(path, len(STEPS) + 1)
    assert not requires_keys(str(path))
    assert may_accept(str(path), digest_of("bob"))
