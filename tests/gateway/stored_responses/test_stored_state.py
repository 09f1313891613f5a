"""What outlives a request, whose it is, and when it has to be noted who made what a provider keeps."""

from __future__ import annotations

import asyncio
import io
from pathlib import Path

import pytest
from msgspec.structs import replace

from dragoman.config.settings import Settings, Storage
from dragoman.errors import ClientError, ConfigError
from dragoman.gateway.observability.logs import Log
from dragoman.gateway.stored_responses.references import references_in
from dragoman.gateway.stored_responses.store_failures import unreadable
from dragoman.gateway.stored_responses.stored_state import (
    StoredState,
    look_up_references,
    must_record_owners,
    owner_of,
    storing_providers,
)
from dragoman.providers.provider import Endpoint, Provider
from dragoman.routing.target import Target
from dragoman.store import Store, StoreError
from dragoman.wire.duplicate_keys import OBJECT
from tests.gateway.harness import CHAT, RESPONSES, settings_for
from tests.identities.holders import holder
from tests.store.opened import kept


async def _closed(store: Store) -> None:
    with pytest.raises(StoreError, match="closed"):
        await store.read(lambda tables: tables.responses.exists("r"))


def _state(storage: Storage) -> StoredState:
    return StoredState(storage, Log(io.StringIO()))


def test_the_store_is_a_file_or_lasts_as_long_as_the_process_or_is_not_there(tmp_path: Path) -> None:
    for storage in (Storage(path=str(tmp_path / "state.db")), Storage(), Storage(path=":memory:")):
        state = _state(storage)
        assert state.store is not None
        asyncio.run(state.close(0.0))
        asyncio.run(_closed(state.store))
    assert {file.name for file in tmp_path.iterdir()} == {"state.db", "state.db-turns"}
    nothing = _state(Storage(store_responses=False, path=str(tmp_path / "other.db")))
    assert nothing.store is None
    asyncio.run(nothing.close(0.0))
    assert not (tmp_path / "other.db").exists()


def test_a_file_that_cannot_be_opened_is_a_mistake_in_the_configuration(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as told:
        _state(Storage(path=str(tmp_path)))
    assert told.value.key == "storage.path"


def test_what_is_made_with_a_key_belongs_to_its_digest_and_without_one_to_everybody() -> None:
    assert owner_of(holder("a", b"digest")) == b"digest"
    assert owner_of(None) == b""
    assert owner_of(holder("a", b"digest", owner=b"")) == b""


def test_a_store_that_fails_is_told_without_its_words() -> None:
    log = io.StringIO()
    told = unreadable(StoreError("no such table: responses"), Log(log, json=True))
    assert (told.status, "table" in told.message) == (500, False)
    assert "no such table" in log.getvalue()


@pytest.mark.parametrize(
    ("providers", "keys", "noted"),
    [
        (("chat",), 2, False),
        (("responses",), 0, False),
        (("responses",), 1, True),
        (("responses",), 2, True),
        (("responses", "all"), 0, True),
        (("chat", "responses"), 1, True),
        (("echo",), 2, False),
    ],
)
def test_ids_are_noted_where_keys_are_in_use_or_several_providers_have_them(
    providers: tuple[str, ...], keys: int, noted: bool
) -> None:
    settings = settings_for(1, keys=[f"key-{count}" for count in range(keys)])
    settings = replace(settings, providers={name: settings.providers[name] for name in providers})
    assert must_record_owners(settings, requires_keys=keys > 0) is noted


def test_a_provider_may_speak_responses_and_keep_none() -> None:
    provider = Provider(
        name="local", endpoints=(Endpoint(protocol=RESPONSES, base_url="http://x"),), stores_responses=False
    )
    assert storing_providers(Settings(providers={"local": provider})) == []


def test_a_reference_is_looked_up_where_it_is_kept() -> None:
    async def main() -> None:
        state = _state(Storage())
        assert state.store is not None
        await state.store.write(lambda tables: tables.responses.add(b"", kept("r1")))
        body = b'{"input":"x","previous_response_id":"r1"}'
        settings = settings_for(1)
        for protocol in (CHAT, RESPONSES):
            end = Endpoint(protocol=protocol, base_url="http://x")
            target = Target(provider=Provider(name="p", endpoints=(end,)), endpoint=end, model="m", strict=False)
            said = references_in(OBJECT.decode(body))
            assert await look_up_references(state, settings, None, said, body, target, shared=False) is not None
            with pytest.raises(ClientError):
                key = holder("b", b"b")
                await look_up_references(state, settings, key, said, body, target, shared=True)
        await state.close(0.0)

    asyncio.run(main())
