"""The file: who may read it, who shares it, what is in it after its time."""

from __future__ import annotations

import os
import stat
from functools import partial
from pathlib import Path

import pytest

from dragoman.errors import ConfigError
from dragoman.store import open_tables
from dragoman.store.errors import StoreBusy, StoreError
from tests.store.opened import ALICE, DAY, Clock, item, kept, names, opened


def test_the_file_and_what_stands_beside_it_can_be_read_by_its_user_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        with opened(tmp_path / "new" / "state.db") as store:
            store.responses.add(ALICE, kept("r1"))
            files = list((tmp_path / "new").iterdir())
            assert len(files) == 4
            assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}
            assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o700
    finally:
        os.umask(before)


def test_a_file_that_a_link_leads_to_can_be_read_by_its_user_alone(tmp_path: Path) -> None:
    (tmp_path / "link.db").symlink_to(tmp_path / "kept.db")
    open_tables(str(tmp_path / "link.db"), 30).close()
    assert (tmp_path / "kept.db").stat().st_mode & 0o777 == 0o600


def test_what_was_written_is_there_when_the_file_is_opened_again(tmp_path: Path) -> None:
    with opened(tmp_path / "state.db") as store:
        store.responses.add(ALICE, kept("r1"), [item("q1")], [item("a1")])
    with opened(tmp_path / "state.db") as store:
        assert names(store.responses.chain(ALICE, "r1")) == ["q1", "a1"]


def test_two_processes_see_at_once_what_the_other_one_writes(tmp_path: Path) -> None:
    with opened(tmp_path / "state.db") as one, opened(tmp_path / "state.db") as other:
        one.responses.add(ALICE, kept("r1"), [item("q1")], [item("a1")])
        other.responses.add(ALICE, kept("r2", "r1"), [item("q2")], [item("a2")])
        assert names(one.responses.chain(ALICE, "r2")) == ["q1", "a1", "q2", "a2"]
        one.conversations.create(ALICE, "c1", b"{}", ())
        assert other.conversations.lease(ALICE, "c1", "r3")
        assert not one.conversations.lease(ALICE, "c1", "r4")


def test_several_writes_can_be_made_one() -> None:
    with opened() as store:
        with pytest.raises(RuntimeError), store.transaction():
            store.responses.add(ALICE, kept("r1"))
            raise RuntimeError
        assert store.responses.find(ALICE, "r1") is None


def test_outdated_rows_are_removed_a_part_at_a_time_and_looked_for_now_and_then() -> None:
    clock = Clock()
    with opened(days=1, clock=clock) as store:
        for count in range(15):
            store.responses.add(ALICE, kept(f"r{count}"), [item(f"q{count}")])
        store.conversations.create(ALICE, "c1", b"{}", ())
        assert store.sweep() == 0
        clock.now += DAY
        assert store.sweep() == 11
        assert store.sweep() == 5
        store.responses.add(ALICE, kept("new"))
        assert store.sweep() == 0
        clock.now += DAY
        assert store.sweep() == 1
        assert not store.responses.exists("r0")


def test_nothing_of_a_deleted_response_is_left_in_the_file(tmp_path: Path) -> None:
    file = tmp_path / "state.db"
    secret = item("secret-" + "x" * 5000)
    with opened(file) as store:
        store.responses.add(ALICE, kept("r1"), [secret])
        store.responses.delete(ALICE, "r1")
    assert secret.id.encode() not in file.read_bytes()


@pytest.mark.parametrize("content", [None, b"this is no database" * 100])
def test_a_file_that_cannot_be_opened_is_told_with_a_remedy(tmp_path: Path, content: bytes | None) -> None:
    file = tmp_path / "state.db"
    if content is None:
        file.mkdir()
    else:
        file.write_bytes(content)
    with pytest.raises(ConfigError) as told:
        open_tables(str(file), 30)
    assert told.value.key == "storage.path"
    assert "store_responses = false" in told.value.remedy


@pytest.mark.parametrize("replaced", [False, True], ids=["deleted", "replaced"])
def test_a_file_that_is_no_longer_there_takes_nothing(tmp_path: Path, replaced: bool) -> None:
    path = tmp_path / "state.db"
    with opened(path) as store:
        store.responses.add(ALICE, kept("r1"))
        if replaced:
            with opened(tmp_path / "other.db"):
                pass
            (tmp_path / "other.db").rename(path)
        else:
            path.unlink()
        for write in (partial(store.responses.add, ALICE, kept("r2")), partial(store.write_trial, 1)):
            with pytest.raises(StoreError, match="deleted or replaced") as told:
                write()
            assert not isinstance(told.value, StoreBusy)
