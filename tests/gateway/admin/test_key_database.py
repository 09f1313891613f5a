"""Keys of the database are read and changed in a thread, one request at a time, and few wait."""

from __future__ import annotations

import asyncio
import threading
from functools import partial
from pathlib import Path

import pytest

from dragoman.gateway.admin.framework import AdminError
from dragoman.gateway.admin.key_database import KeyDatabase, refused
from dragoman.identities.changes import LOCAL_MAKER, ConfiguredNames
from dragoman.identities.errors import (
    BeyondMaker,
    InvalidMember,
    KeyChangeError,
    KeyExists,
    KeyMissing,
    KeyMoved,
    KeyRevoked,
)
from dragoman.identities.identity import StoredIdentity
from dragoman.identities.key_text import digest_of
from dragoman.identities.members import KeyMembers
from dragoman.store.identities import Identities
from dragoman.store.identity_changes import IdentityChanges
from dragoman.store.record_tables import RecordTables, open_record_tables
from tests.waiting import LIMIT, wait_until_async

NOW = 1_800_000_000.0


def _create(name: str, changes: IdentityChanges) -> StoredIdentity:
    return changes.create(name, KeyMembers(), digest_of(name), maker=LOCAL_MAKER, configured=ConfiguredNames())


def _names(identities: Identities) -> list[str]:
    return [each.identity.name for each in identities.page()]


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "state.db")


def test_a_change_is_in_the_file_and_a_missing_file_has_no_keys(path: str) -> None:
    async def use() -> list[list[str]]:
        keys = KeyDatabase()
        before = await keys.read(path, _names)
        created = await keys.change(path, lambda: NOW, partial(_create, "ann"))
        assert (created.created, created.generation) == (NOW, 1)
        return [before, await KeyDatabase().read(path, _names)]

    assert asyncio.run(use()) == [[], ["ann"]]


def test_a_refused_change_leaves_nothing(path: str) -> None:
    def create_two(changes: IdentityChanges) -> StoredIdentity:
        _create("bob", changes)
        return _create("ann", changes)

    async def use() -> tuple[AdminError, list[str]]:
        keys = KeyDatabase()
        await keys.change(path, lambda: NOW, partial(_create, "ann"))
        with pytest.raises(AdminError) as raised:
            await keys.change(path, lambda: NOW, create_two)
        return raised.value, await keys.read(path, _names)

    error, names = asyncio.run(use())
    assert (error.status, names) == (409, ["ann"])


def test_a_full_file_is_said_so_and_nothing_is_half_done(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def open_full(path: str, *, read_only: bool = False, timeout: float = 1.0) -> RecordTables:
        tables = open_record_tables(path, read_only=read_only, timeout=timeout)
        if not read_only:
            tables.connection.change("PRAGMA max_page_count = 1")
        return tables

    async def fill() -> tuple[AdminError, int, int, list[str]]:
        keys = KeyDatabase()
        await keys.change(path, lambda: NOW, partial(_create, "key0000"))
        monkeypatch.setattr("dragoman.gateway.admin.key_database.open_record_tables", open_full)
        error: AdminError | None = None
        created = 1
        while error is None:
            try:
                await keys.change(path, lambda: NOW, partial(_create, f"key{created:04}"))
                created += 1
            except AdminError as raised:
                error = raised
        names = await keys.read(path, lambda identities: [each.identity.name for each in identities.page(limit=9999)])
        return error, created, await keys.read(path, Identities.generation), names

    error, created, generation, names = asyncio.run(fill())
    assert (error.status, "full" in error.message) == (503, True)
    assert "nothing was changed" in error.remedy
    assert created == generation == len(names)


def test_requests_wait_for_each_other_and_not_without_end(path: str) -> None:
    released = threading.Event()
    running: list[str] = []

    def hold(identities: Identities) -> list[str]:
        running.append("one")
        assert released.wait(LIMIT)
        return _names(identities)

    async def crowd() -> AdminError:
        keys = KeyDatabase()
        tasks = [asyncio.ensure_future(keys.read(path, hold)) for _ in range(33)]
        await wait_until_async(lambda: bool(running), "one request is served")
        with pytest.raises(AdminError) as raised:
            await keys.read(path, _names)
        # Who leaves makes room.
        tasks.pop().cancel()
        await asyncio.sleep(0)
        assert len(running) == 1
        tasks.append(asyncio.ensure_future(keys.read(path, hold)))
        released.set()
        await asyncio.gather(*tasks)
        return raised.value

    error = asyncio.run(crowd())
    assert error.status == 429
    assert (b"retry-after", b"1") in error.headers
    assert len(running) == 33


@pytest.mark.parametrize(
    ("kind", "status", "said"),
    [
        (InvalidMember, 400, "the body at /role: p"),
        (BeyondMaker, 403, "the key at /role: p"),
        (KeyMissing, 404, "the body at /role: p"),
        (KeyExists, 409, "the body at /role: p"),
        (KeyRevoked, 409, "the body at /role: p"),
        (KeyMoved, 412, "the body at /role: p"),
    ],
)
def test_a_refusal_names_the_member(kind: type[KeyChangeError], status: int, said: str) -> None:
    error = refused(kind("role", "p", "r"))
    assert (error.status, error.message, error.remedy) == (status, said, "r")
    assert refused(kind("", "p", "r")).message == "p"
