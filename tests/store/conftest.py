"""A server of PostgreSQL for each process of tests, started by the first test that needs it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.isolation import held_by_session

if TYPE_CHECKING:
    from tests.postgres import PostgresServer


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """The server that the tests of a process share."""
    # Here, since the driver takes longer to load than most files of tests take.
    from tests.postgres import postgres_server

    server = postgres_server()
    with held_by_session():
        running = server.__enter__()
    yield running
    server.__exit__(None, None, None)


@pytest.fixture
def database(postgres: PostgresServer) -> Iterator[str]:
    """The address of an empty database of this test's own."""
    name = postgres.create()
    yield postgres.address(name)
    postgres.drop(name)
