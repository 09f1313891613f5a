"""Engines: the tests of tables run on SQLite and on PostgreSQL.

    pytestmark = pytest.mark.usefixtures("engine")    # of a file, whose tests open tables by `tests.store.opened`

    @pytest.mark.sqlite_only                          # of a test in such a file

On PostgreSQL, each place that a test names stands for a database of its own, made from one with all tables. Such a test
belongs to the ring `process`, whatever the ring of its file.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from dragoman.database_location import MEMORY
from tests.isolation import held_by_session

if TYPE_CHECKING:
    from dragoman.store.postgres import PostgresConnection
    from tests.postgres import PostgresServer

# The database from which others are copied.
_TEMPLATE = "migrated"
# Seconds that a statement may take on a busy machine.
_TIMEOUT = 120.0


class Databases:
    """The databases of one test."""

    def __init__(self, server: PostgresServer) -> None:
        self._server = server
        self._names: dict[str, str] = {}
        self._created: list[str] = []

    def connect(self, place: str) -> PostgresConnection:
        """A connection to the database that stands for a file, or to a new one for a database in memory."""
        from dragoman.store.postgres import PostgresAddress, PostgresConnection

        name = self._names.get(place)
        if name is None:
            name = self._server.create(_TEMPLATE)
            self._created.append(name)
            if place != MEMORY:
                self._names[place] = name
        return PostgresConnection(PostgresAddress(self._server.address(name)), _TIMEOUT)

    def drop(self) -> None:
        """Remove all of them."""
        for name in self._created:
            self._server.drop(name)


# Those of the test that runs on PostgreSQL.
_databases: list[Databases] = []


def databases() -> Databases | None:
    """The databases of the present test, if it runs on PostgreSQL."""
    return _databases[-1] if _databases else None


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marker."""
    config.addinivalue_line("markers", "sqlite_only: what it tests is only in SQLite")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Have the tests of tables run once per engine."""
    if "engine" in metafunc.fixturenames:
        both = ["sqlite", pytest.param("postgres", marks=pytest.mark.process)]
        is_alone = metafunc.definition.get_closest_marker("sqlite_only") is not None
        metafunc.parametrize("engine", both[:1] if is_alone else both, indirect=True)


@pytest.fixture
def engine(request: pytest.FixtureRequest) -> Iterator[None]:
    """Have `tests.store.opened` open tables of this engine."""
    if request.param == "sqlite":
        yield
        return
    made = Databases(request.getfixturevalue("migrated"))
    _databases.append(made)
    yield
    _databases.remove(made)
    made.drop()


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """The server that the tests of a process share, started by the first test that needs it."""
    # Here, since the driver takes longer to load than most files of tests take.
    from tests.postgres import postgres_server

    server = postgres_server()
    with held_by_session():
        running = server.__enter__()
    yield running
    server.__exit__(None, None, None)


@pytest.fixture(scope="session")
def migrated(postgres: PostgresServer) -> PostgresServer:
    """The same server with a database that has all tables."""
    from dragoman.store.migrations.postgres import migrate
    from dragoman.store.postgres import PostgresAddress, PostgresConnection

    postgres.execute(f"CREATE DATABASE {_TEMPLATE}")
    with closing(PostgresConnection(PostgresAddress(postgres.address(_TEMPLATE)), _TIMEOUT)) as db:
        migrate(db)
        # Tests of records have any time: months are tested with the migrations.
        db.change("CREATE TABLE records_all PARTITION OF records DEFAULT")
    return postgres


@pytest.fixture
def database(postgres: PostgresServer) -> Iterator[str]:
    """The address of an empty database of this test's own."""
    name = postgres.create()
    yield postgres.address(name)
    postgres.drop(name)
