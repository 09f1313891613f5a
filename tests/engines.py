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


class _Emptied:
    """A database with all tables, which each test finds as the first one did: that takes a tenth of a new one."""

    def __init__(self, server: PostgresServer) -> None:
        import psycopg

        self._server = server
        self.name = server.create(_TEMPLATE)
        with held_by_session():
            self._db = psycopg.connect(server.address(self.name), autocommit=True)
        # Triggers would keep totals of what goes. Whatever a test left running is not waited for.
        self._db.execute("SET search_path TO dragoman; SET session_replication_role = replica; SET lock_timeout = '1s'")
        names = [row[0] for row in self._db.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'dragoman'")]
        sequences = [row[0] for row in self._db.execute("SELECT sequencename FROM pg_sequences")]
        statements = [*(f"DELETE FROM {name}" for name in names)]
        statements += [f"ALTER SEQUENCE {name} RESTART" for name in sequences]
        for name in names:
            # Rows of the beginning.
            if self._db.execute(f"SELECT FROM {name}".encode()).fetchone() is not None:
                self._db.execute(f"CREATE TABLE public.{name} AS TABLE {name}".encode())
                statements.append(f"INSERT INTO {name} SELECT * FROM public.{name}")
        self._emptying = ";".join(statements).encode()
        self._columns = self._count()

    def empty(self) -> bool:
        """Bring all tables back to the beginning; False if a test changed them themselves, or uses them on."""
        import psycopg

        try:
            self._db.execute(self._emptying)
        except psycopg.Error:
            return False
        return self._count() == self._columns

    def drop(self) -> None:
        """Remove it."""
        self._db.close()
        self._server.drop(self.name)

    def _count(self) -> object:
        tables = "SELECT oid FROM pg_class WHERE relnamespace = 'dragoman'::regnamespace"
        return self._db.execute(f"SELECT count(*) FROM pg_attribute WHERE attrelid IN ({tables})".encode()).fetchone()


class Databases:
    """The databases of one test, of which those without a user are the next one's."""

    def __init__(self, server: PostgresServer, free: list[_Emptied]) -> None:
        self._server = server
        self._free = free
        self._taken: dict[str, _Emptied] = {}

    def connect(self, place: str) -> PostgresConnection:
        """A connection to the database that stands for a file, or to a new one for a database in memory."""
        from dragoman.store.postgres import PostgresAddress, PostgresConnection

        taken = self._taken.get(place)
        if taken is None:
            taken = self._free.pop() if self._free else _Emptied(self._server)
            # Each database in memory is another one.
            self._taken[place if place != MEMORY else taken.name] = taken
        return PostgresConnection(PostgresAddress(self._server.address(taken.name)), _TIMEOUT, _TIMEOUT)

    def release(self) -> None:
        """Leave them to the next test."""
        while self._taken:
            _, taken = self._taken.popitem()
            if taken.empty():
                self._free.append(taken)
            else:
                taken.drop()


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
    made = Databases(request.getfixturevalue("migrated"), request.getfixturevalue("emptied"))
    _databases.append(made)
    yield
    _databases.remove(made)
    made.release()


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
    with closing(PostgresConnection(PostgresAddress(postgres.address(_TEMPLATE)), _TIMEOUT, _TIMEOUT)) as db:
        migrate(db)
        # Tests of records have any time: months are tested with the migrations.
        db.change("CREATE TABLE records_all PARTITION OF records DEFAULT")
    return postgres


@pytest.fixture(scope="session")
def emptied(migrated: PostgresServer) -> Iterator[list[_Emptied]]:
    """Databases that no test uses now."""
    free: list[_Emptied] = []
    yield free
    for each in free:
        each.drop()


@pytest.fixture
def database(postgres: PostgresServer) -> Iterator[str]:
    """The address of an empty database of this test's own."""
    name = postgres.create()
    yield postgres.address(name)
    postgres.drop(name)
