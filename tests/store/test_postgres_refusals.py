"""Connections that a server or the library refuses: one sentence with the remedy, and no word of user or password."""

from __future__ import annotations

from contextlib import closing

import pytest

from dragoman.store.errors import StoreAway, StoreError
from dragoman.store.postgres import PostgresAddress, PostgresConnection
from dragoman.store.postgres_refusals import reason_of, state_of
from tests.postgres import PostgresServer
from tests.transaction_pooler import transaction_pooler
from tests.waiting import LIMIT


def _refusal(address: str) -> StoreError:
    """Why a database cannot be used."""
    with closing(PostgresConnection(PostgresAddress(address), LIMIT, LIMIT)) as db, pytest.raises(StoreError) as raised:
        db.number("SELECT 1")
    return raised.value


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('FATAL:  password authentication failed for user "canary"', "refuses the user: correct user and password"),
        ("fe_sendauth: no password supplied", "refuses the user: correct user and password"),
        (
            'FATAL:  no pg_hba.conf entry for host "10.0.0.1", user "canary", database "d", no encryption',
            "has no entry for this machine and user: add one to its pg_hba.conf",
        ),
        ('could not translate host name "canary" to address: Name or service not known', "has a host whose name"),
        ("failed to resolve host 'canary': [Errno -2] Name or service not known", "has a host whose name"),
        ("server does not support SSL, but SSL was required", "does not encrypt connections: enable ssl"),
        ("SSL error: certificate verify failed", "does not prove its identity: sslrootcert"),
        (
            'root certificate file "/home/canary/.postgresql/root.crt" does not exist',
            "does not prove its identity: sslrootcert",
        ),
        ('server certificate for "canary" does not match host name "db1"', "does not prove its identity: sslrootcert"),
        ("connection to server failed: Connection refused", "does not answer"),
        ("FATAL: mot de passe erron\u00e9", "does not answer"),
    ],
)
def test_the_words_of_library_and_server_lead_to_a_remedy(text: str, reason: str) -> None:
    assert reason_of(text).startswith(reason)
    assert "canary" not in reason_of(text)
    assert state_of(text) is None


def test_what_passes_by_itself_has_a_state() -> None:
    assert state_of("FATAL:  sorry, too many clients already") == "53300"
    assert state_of("FATAL:  the database system is starting up") == "57P03"


@pytest.mark.process
def test_a_database_or_a_user_that_is_not_there_is_refused(postgres: PostgresServer) -> None:
    error = _refusal(postgres.address("canary"))
    assert isinstance(error, StoreAway)
    assert str(error).endswith("does not exist: create it, or correct its name in storage.database")
    error = _refusal(postgres.address(user="canary"))
    assert str(error).endswith("refuses the user: correct user and password in storage.database")
    assert "canary" not in str(error)


@pytest.mark.process
def test_a_role_that_may_not_connect_is_refused(postgres: PostgresServer) -> None:
    name = postgres.create()
    postgres.execute(f"REVOKE CONNECT ON DATABASE {name} FROM public; CREATE ROLE canary LOGIN")
    try:
        error = _refusal(postgres.address(name, user="canary"))
        assert "does not let its user connect: GRANT CONNECT" in str(error) and "canary" not in str(error)
    finally:
        postgres.execute("DROP ROLE canary")
        postgres.drop(name)


@pytest.mark.process
@pytest.mark.parametrize("version", ["9.6.24", "13.14 (Debian 13.14-1)"])
def test_a_server_that_is_too_old_is_refused(postgres: PostgresServer, version: str) -> None:
    """Its version is told by a pooler: a real one that is as old cannot be installed everywhere."""
    with transaction_pooler(postgres, version) as pooler:
        error = _refusal(pooler.address())
    assert not isinstance(error, StoreAway)
    assert f"is of PostgreSQL {version}: update it to 14 or newer" in str(error)
