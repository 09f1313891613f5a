"""Cluster: the PostgreSQL server of several machines, and a replica that takes its place.

Each server has one of two places, which keep their addresses: the replica is made in the one that is free.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

from tests.gateway.harness import HouseLoop
from tests.machines.database_proxy import DatabaseProxy
from tests.postgres import PostgresServer
from tests.waiting import LIMIT, reporting_state, wait_until

PLACES = (0, 1)
# The database of the gateways, and their role, which owns it and is nothing else.
DATABASE, USER = "gateways", "gateway"
# A server that is killed has what it acknowledged on its disk.
_SETTINGS = ("fsync=on", "full_page_writes=on", "wal_keep_size=64MB", "max_connections=80")


class Cluster:
    """One or two servers."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._servers: dict[int, PostgresServer] = {}
        self._primary = 0

    @property
    def primary(self) -> PostgresServer:
        """The server that is written to."""
        return self._servers[self._primary]

    @property
    def replica(self) -> PostgresServer:
        """The other one, if there is one."""
        return self._servers[1 - self._primary]

    def socket(self, place: int) -> Path:
        """The path of a place's socket, whether there is a server or not."""
        return self._place(place) / ".s.PGSQL.5432"

    def start(self, *settings: str) -> None:
        """Start the first server, with an empty database."""
        self._add(0, None, *settings)
        self.primary.execute(f"CREATE ROLE {USER} LOGIN")
        self.primary.execute(f"CREATE DATABASE {DATABASE} OWNER {USER}")

    def stop(self) -> None:
        """End all servers."""
        for server in self._servers.values():
            server.stop()

    def add_replica(self, *, synchronous: bool) -> None:
        """Make a replica that streams what the primary writes; a synchronous one has every acknowledged commit."""
        self._add(1 - self._primary, self.primary)
        kind = "sync" if synchronous else "async"
        if synchronous:
            self._set_synchronous("*")
        self._wait_for([("streaming", kind)], f"the replica streams ({kind})")

    def wait_replicated(self) -> None:
        """Wait until the replica has what was committed before."""
        ((now,),) = self.primary.query("SELECT pg_current_wal_insert_lsn()")
        with self.replica.querying() as query:
            has_it = f"SELECT pg_last_wal_replay_lsn() >= '{now}'"
            wait_until(lambda: query(has_it) == [(True,)], "the replica has what was committed")

    def detach_replica(self) -> None:
        """Let the replica receive nothing any more, as if its link was cut."""
        self.replica.execute("ALTER SYSTEM SET primary_conninfo = ''")
        self.replica.execute("SELECT pg_reload_conf()")
        self._wait_for([], "the replica is cut off")

    def wait_ahead(self, table: str) -> None:
        """Wait until the replica lacks rows of a table."""
        query = f"SELECT count(*) FROM {table}"
        with self.primary.querying(DATABASE) as ahead, self.replica.querying(DATABASE) as behind:
            wait_until(lambda: ahead(query) != behind(query), f"the replica lacks rows of {table}")

    def fail_over(self) -> None:
        """Kill the primary, and promote the replica in its place."""
        lost = self._servers.pop(self._primary)
        lost.kill()
        self._primary = 1 - self._primary
        self.primary.promote()

    def report(self) -> str:
        """The ends of the servers' logs."""
        return "\n".join(f"server {place}:\n{server.log()[-2500:]}" for place, server in self._servers.items())

    def _place(self, place: int) -> Path:
        return self._directory / str(place)

    def _add(self, place: int, primary: PostgresServer | None, *settings: str) -> None:
        directory = self._place(place)
        if directory.exists():
            # Of a server that is gone since long.
            shutil.rmtree(directory)
        directory.mkdir()
        server = PostgresServer(directory, *_SETTINGS, *settings, primary=primary)
        self._servers[place] = server
        server.start()

    def _set_synchronous(self, names: str) -> None:
        self.primary.execute(f"ALTER SYSTEM SET synchronous_standby_names = '{names}'")
        self.primary.execute("SELECT pg_reload_conf()")

    def _wait_for(self, replication: list[tuple[object, ...]], what: str) -> None:
        with self.primary.querying() as query:
            wait_until(lambda: query("SELECT state, sync_state FROM pg_stat_replication") == replication, what)


@contextmanager
def running_cluster(*settings: str) -> Iterator[Cluster]:
    """A cluster of one server."""
    directory = Path(tempfile.mkdtemp(prefix="pg-"))
    cluster = Cluster(directory)
    try:
        with reporting_state(cluster.report):
            cluster.start(*settings)
            yield cluster
    finally:
        cluster.stop()
        shutil.rmtree(directory)


@contextmanager
def proxied(loop: HouseLoop, sockets: Callable[[int], Path], watched: bytes = b"") -> Iterator[list[DatabaseProxy]]:
    """A way to the socket of each place, whether there is a server or not."""
    proxies = [DatabaseProxy(partial(sockets, place), watched) for place in PLACES]
    with ExitStack() as stack:
        for proxy in proxies:
            asyncio.run_coroutine_threadsafe(proxy.start(), loop).result(LIMIT)
            stack.callback(_stop, loop, proxy)
        yield proxies


def _stop(loop: HouseLoop, proxy: DatabaseProxy) -> None:
    asyncio.run_coroutine_threadsafe(proxy.stop(), loop).result(LIMIT)
