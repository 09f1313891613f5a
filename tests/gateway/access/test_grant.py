"""Grants: a decision is made once for requests alike in all that decides, and ends with the rights of its key."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import closing
from hashlib import sha256
from http.client import HTTPConnection

import pytest
from msgspec.structs import replace

from dragoman.config.settings import Server, Settings
from dragoman.gateway.access.grant import _MAX_GRANTS, _MAX_HEAD_SIZE, AccessGrant, AccessGrants, head_of
from dragoman.gateway.access.guard import Guard
from dragoman.gateway.access.identity_table import IdentityTable
from dragoman.gateway.paths import api_path_of
from dragoman.gateway.runtime import Runtime
from dragoman.identities.identity import DATABASE, VIEWER, AcceptedDigest, Identity, Rights
from tests.gateway.access.test_guard import asked
from tests.gateway.harness import CHAT, PATHS, PATIENCE, House
from tests.gateway.limited import KEY, OTHER_KEY, limited_house
from tests.gateway.says import question

PATH = PATHS[CHAT]
BODY = json.dumps({**question(CHAT, CHAT), "model": "fast"})
LISTED = Rights(
    models=("fast",), providers=("chat", "messages"), addresses=("127.0.0.0/8",), paths=("chat", "messages")
)
USUAL = {"authorization": f"Bearer {KEY}"}
PROXIED = "x-forwarded-for"


def status_of(connection: HTTPConnection, method: str, path: str, body: str, headers: dict[str, str]) -> int:
    """The status of a request on an open connection."""
    connection.request(method, path, body, headers)
    response = connection.getresponse()
    response.read()
    return response.status


def usual(connection: HTTPConnection) -> int:
    """The status of the request whose decision is remembered."""
    return status_of(connection, "POST", PATH, BODY, USUAL)


def open_connection(house: House) -> closing[HTTPConnection]:
    return closing(HTTPConnection("127.0.0.1", house.port, timeout=PATIENCE))


# Requests that differ from the usual one: method, path, further headers, and their status.
OTHERS: dict[str, tuple[str, str, dict[str, str], int]] = {
    "another method": ("GET", PATH, {}, 405),
    "another path, which the key may not use": ("POST", "/v1/responses", {}, 403),
    "a model in the query": ("POST", f"{PATH}?model=slow", {}, 403),
    "another key": ("POST", PATH, {"authorization": "Bearer unknown"}, 401),
    "another key beside it, which is not read": ("POST", PATH, {"x-api-key": "unknown"}, 200),
    "no key": ("POST", PATH, {"authorization": ""}, 401),
    "another host": ("POST", PATH, {"host": "evil.example"}, 403),
    "a page of another origin": ("POST", PATH, {"origin": "https://evil.example"}, 403),
    "a page of another site": ("POST", PATH, {"sec-fetch-site": "cross-site"}, 403),
    "a web socket": ("POST", PATH, {"sec-websocket-key": "x"}, 426),
    **{
        f"a client behind a proxy that sends {name}": ("POST", PATH, {name: "127.0.0.1"}, 403)
        for name in ("x-forwarded-for", "forwarded", "via", "x-real-ip", "x-forwarded-host", "x-forwarded-proto",
                     "x-forwarded", "x-client-ip", "x-cluster-client-ip", "cf-connecting-ip", "fly-client-ip",
                     "true-client-ip")
    },
}  # fmt: skip


@pytest.mark.parametrize("case", OTHERS)
def test_pitfall_445_a_decision_is_that_of_requests_alike_in_all_that_decides(case: str) -> None:
    method, path, headers, status = OTHERS[case]
    with limited_house(LISTED) as house, open_connection(house) as connection:
        for _ in range(2):
            assert usual(connection) == 200
            assert house.app.runtime.guard.grants
            assert status_of(connection, method, path, BODY, {**USUAL, **headers}) == status


Change = Callable[[Identity], tuple[Identity, ...]]
NARROWED = {
    "models": replace(LISTED, models=("slow",)),
    "providers": replace(LISTED, providers=("responses",)),
    "addresses": replace(LISTED, addresses=("10.0.0.0/8",)),
    "paths": replace(LISTED, paths=("models",)),
}


def narrowed(rights: Rights) -> Change:
    return lambda key: (replace(key, rights=rights),)


CHANGES: dict[str, tuple[Change, int]] = {
    "the key is removed": (lambda key: (), 401),
    "its text is replaced": (lambda key: (replace(key, digests=(AcceptedDigest(digest=b"new"),)),), 401),
    "it ends": (lambda key: (replace(key, expires=1.0),), 401),
    "it gets another role": (narrowed(replace(LISTED, role=VIEWER)), 403),
    **{f"its {name} are narrowed": (narrowed(rights), 403) for name, rights in NARROWED.items()},
}


@pytest.mark.parametrize("case", CHANGES)
def test_pitfall_445_a_remembered_permission_ends_with_the_rights_of_its_key(case: str) -> None:
    change, status = CHANGES[case]
    with limited_house(LISTED) as house, open_connection(house) as connection:
        runtime = house.app.runtime
        other = runtime.settings.keys[1]

        async def configure(*keys: Identity) -> None:
            runtime.guard.identities.configure([*keys, other])

        for _ in range(2):
            assert [usual(connection) for _ in range(2)] == [200, 200]
            house.run(configure(*change(runtime.settings.keys[0])))
            # The next request, also on a connection that was open before.
            assert usual(connection) == status
            assert status_of(connection, "POST", PATH, BODY, {"authorization": f"Bearer {OTHER_KEY}"}) == 200
            house.run(configure(runtime.settings.keys[0]))


# Other requests whose decisions are remembered, and one whose decision is not.
KINDS = {
    "a count": ("POST", "/v1/messages/count_tokens", True),
    "a compaction": ("POST", "/v1/responses/compact", True),
    "the list of models": ("GET", "/v1/models", True),
    "a stored response": ("GET", "/v1/responses/resp_1", False),
}


@pytest.mark.parametrize("case", KINDS)
def test_a_removed_key_is_refused_after_it_was_used_for(case: str) -> None:
    method, path, is_remembered = KINDS[case]
    with limited_house(Rights(models=("fast",), addresses=("127.0.0.1",))) as house, open_connection(house) as client:
        guard = house.app.runtime.guard
        first, again = (status_of(client, method, path, BODY, USUAL) for _ in range(2))
        assert first == again
        assert first not in (401, 403)
        assert bool(guard.grants) is is_remembered

        async def remove() -> None:
            guard.identities.configure([])

        house.run(remove())
        assert status_of(client, method, path, BODY, USUAL) == 401


CONFIGURATIONS = {
    "a proxy is trusted that is the peer": Server(trusted_proxies=("127.0.0.1",)),
    "no configuration with this key": Server(),
}


@pytest.mark.parametrize("case", CONFIGURATIONS)
def test_a_remembered_permission_ends_with_the_configuration(case: str) -> None:
    server = CONFIGURATIONS[case]
    with limited_house(LISTED) as house, open_connection(house) as connection:
        assert [usual(connection) for _ in range(2)] == [200, 200]

        async def reload() -> None:
            old = house.app.runtime
            kept = old.settings.keys if server.trusted_proxies else old.settings.keys[1:]
            settings = replace(old.settings, server=server, keys=kept)
            # A worker keeps its table of keys.
            guard = Guard(settings, identities=old.guard.identities)
            house.app.runtime = Runtime(settings, old.metrics, old.log, old.state, guard=guard, former=old)

        house.run(reload())
        assert usual(connection) == (403 if server.trusted_proxies else 401)


def test_a_gateway_without_keys_is_closed_for_who_was_let_in_before() -> None:
    guard = Guard(Settings())
    grant = guard.grant(asked(), api_path_of(PATH), None)
    assert guard.holds(grant)
    guard._requires_keys = True
    assert not guard.holds(grant)


# Grants that depend on more than the table of keys.

DIGEST = sha256(b"key").digest()


def granted(key: Identity, now: float, identities: IdentityTable | None = None) -> tuple[Guard, AccessGrant]:
    """A guard at a time, and the grant of a request that it let in."""
    guard = Guard(Settings(keys=(key,)), identities=identities, now=lambda: now)
    return guard, guard.grant(asked(("x-api-key", "key")), api_path_of("/v1/messages"), key)


ANN = Identity(name="ann", owner=DIGEST, digests=(AcceptedDigest(digest=DIGEST),))
ENDS: dict[str, tuple[Identity, float | None]] = {
    "neither key nor text": (ANN, None),
    "the key": (replace(ANN, expires=100.0), 100.0),
    "a text of the key": (replace(ANN, expires=100.0, digests=(AcceptedDigest(digest=DIGEST, until=50.0),)), 50.0),
    "a former text that has ended": (replace(ANN, digests=(AcceptedDigest(digest=DIGEST, until=10.0),)), None),
}


@pytest.mark.parametrize("case", ENDS)
def test_a_remembered_permission_ends_with(case: str) -> None:
    key, end = ENDS[case]
    guard, grant = granted(key, 10.0)
    assert grant.ends == end
    assert grant.lasts is (end is None)
    if end is not None:
        assert guard.holds(grant)
        guard._now = lambda: end
        assert not guard.holds(grant)


def test_pitfall_447_a_key_of_the_database_is_granted_nothing_while_the_database_cannot_be_read() -> None:
    table = IdentityTable()
    guard, grant = granted(replace(ANN, source=DATABASE), 0.0, table)
    assert not grant.lasts
    assert guard.holds(grant)
    table._current_until = 0.0
    assert not guard.holds(grant)


def test_the_address_of_another_peer_is_another_head() -> None:
    request = asked(("x-api-key", "key"))
    head = head_of(request, 1)
    assert head == head_of(asked(("x-api-key", "key"), ("user-agent", "any")), 1)
    assert head != head_of(request, 2)
    request.peer = "192.0.2.1"
    assert head != head_of(request, 1)
    # A proxy may send a header twice; the table has the first one alone.
    once, twice = asked((PROXIED, "a")), asked((PROXIED, "a"), (PROXIED, "b"))
    assert once.table == twice.table
    assert head_of(once, 1) != head_of(twice, 1)


def test_grants_are_bounded_in_number_and_in_size() -> None:
    grants, (_, grant) = AccessGrants(), granted(ANN, 0.0)
    for text in ("x" * _MAX_HEAD_SIZE, "x"):
        for header in ("x-api-key", PROXIED):
            grants.remember(head_of(asked((header, text)), 0), grant)
    assert len(grants) == 2
    for count in range(3 * _MAX_GRANTS):
        grants.remember(head_of(asked(("x-api-key", str(count))), 0), grant)
        assert len(grants) <= _MAX_GRANTS
