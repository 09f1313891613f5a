"""Names of configured keys stay their owners', also after the configuration has them no more."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

import pytest
from msgspec.structs import replace

from dragoman.config.settings import Storage
from dragoman.database_location import MEMORY
from dragoman.gateway.access.key_names import bind_names
from dragoman.identities.changes import LOCAL_MAKER, ConfiguredNames
from dragoman.identities.errors import KeyExists
from dragoman.identities.identity import COMMAND_LINE, Identity
from dragoman.identities.members import KeyMembers
from tests.identities.holders import holder
from tests.store.opened import opened

ANN = holder("ann", b"a" * 32)


def reported(path: Path | str, *keys: Identity, stores: bool = True) -> list[tuple[str, Mapping[str, str]]]:
    """What is reported of keys whose names are bound."""
    reports: list[tuple[str, Mapping[str, str]]] = []
    storage = Storage(path=str(path), store_responses=stores, record_requests=stores)
    asyncio.run(bind_names(storage, keys, lambda message, fields: reports.append((message, fields))))
    return reports


def test_a_name_is_bound_to_its_first_owner(tmp_path: Path) -> None:
    file = tmp_path / "state.db"
    assert reported(file, ANN) == []
    assert reported(file, replace(ANN, digests=())) == []
    [(message, fields)] = reported(file, replace(ANN, owner=b"b" * 32))
    assert "belonged to another one" in message
    assert fields["key"] == "ann"
    # The configuration has lost it, and no key of the database gets its name.
    with opened(file) as tables, pytest.raises(KeyExists, match="another key ann"):
        tables.identity_changes.create("ann", KeyMembers(), b"c" * 32, maker=LOCAL_MAKER, configured=ConfiguredNames())


def test_a_gateway_that_stores_nothing_makes_no_file(tmp_path: Path) -> None:
    file = tmp_path / "state.db"
    assert reported(file, ANN, stores=False) == []
    assert reported(file) == []
    assert reported(file, replace(ANN, source=COMMAND_LINE)) == []
    assert reported(MEMORY, ANN) == []
    assert not file.exists()
    with opened(file):
        pass
    assert reported(file, ANN, stores=False) == []
    assert len(reported(file, replace(ANN, owner=b"b" * 32), stores=False)) == 1


def test_a_file_that_cannot_be_written_is_reported(tmp_path: Path) -> None:
    file = tmp_path / "state.db"
    file.write_bytes(b"no database" * 100)
    [(message, fields)] = reported(file, ANN)
    assert message == "cannot store the names of gateway keys"
    assert fields["reason"]
