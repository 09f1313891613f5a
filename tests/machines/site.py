"""Site: two machines that share a database, under load, and what must be true of them after each fault.

    with running_site(folder, scale) as site:
        site.cluster.primary.kill()
        site.until_refused()
        site.cluster.primary.start()
        site.check()

Nothing here waits for a time: clients are counted.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from pathlib import Path
from unittest.mock import patch

from dragoman.database_location import PostgresDatabase
from dragoman.store import postgres_database
from dragoman.store.integrity_check import IntegrityCheck
from dragoman.store.record_tables import open_record_tables
from tests.gateway.harness import PATHS, RESPONSES
from tests.machines.cluster import DATABASE, Cluster, running_cluster
from tests.machines.database_proxy import DatabaseProxy
from tests.machines.load import Kind, Load, Result, StoredResponse
from tests.machines.machine import DATABASE_KEYS, FILE_KEYS, Machine, Scale, running_machines
from tests.mock.asking import Client
from tests.server.process import looping
from tests.waiting import LIMIT, reporting_state, state_of_everything, wait_until

# Requests of a kind at each machine that show that it serves, or refuses; and stored ones without a refusal in between
# that show that each of its workers does: the next one is of any worker.
_PROGRESS, _RECOVERED = 4, 16
_KEYS = FILE_KEYS | DATABASE_KEYS
# Stored responses of before that are read again.
_SAMPLE = 20


class Site:
    """Two machines, their network, the cluster behind it, and the clients."""

    def __init__(self, cluster: Cluster, machines: Sequence[Machine], load: Load, scale: Scale, path: Path) -> None:
        self.cluster = cluster
        self.machines = machines
        self.load = load
        self.scale = scale
        self._path = path
        self._rng = random.Random(0)
        # How many stored responses were read from all machines.
        self._read = 0

    @property
    def proxies(self) -> list[DatabaseProxy]:
        """All ways to the database."""
        return [proxy for machine in self.machines for proxy in machine.proxies]

    def shuffled(self) -> list[Machine]:
        """The machines in any order."""
        return self._rng.sample(self.machines, len(self.machines))

    # What clients see.

    def until_served(self, machines: Sequence[Machine] | None = None) -> None:
        """Wait until each machine has answered some more requests of both kinds."""
        self._until(machines, Result.COMPLETE)

    def until_refused(self, machines: Sequence[Machine] | None = None) -> None:
        """Wait until each machine has refused some more stored responses, and has served what stores nothing."""
        self._until(machines, Result.REFUSED)

    def _until(self, machines: Sequence[Machine] | None, stored: Result) -> None:
        load, due = self.load, []
        for machine in self.machines if machines is None else machines:
            for kind, result in ((Kind.PLAIN, Result.COMPLETE), (Kind.STORED, stored)):
                due.append((kind, result, machine.name, load.count(kind, result, machine.name) + _PROGRESS))
        wait_until(
            lambda: all(load.count(kind, result, name) >= count for kind, result, name, count in due),
            f"{_PROGRESS} more requests of each kind, those that are stored {stored.value}: {due}",
        )

    # What must be true.

    def check(self) -> None:
        """Wait until all is well again, and assert that nothing was lost, counted twice, or refused for no reason."""
        load = self.load
        for machine in self.machines:
            load.in_a_row[machine.name] = 0
        wait_until(
            lambda: all(load.in_a_row[machine.name] >= _RECOVERED for machine in self.machines),
            f"{_RECOVERED} stored responses in a row at each machine",
        )
        load.pause()
        wait_until(lambda: load.is_idle, "no request is under way")
        assert not load.wrong, "\n".join([*load.wrong, state_of_everything()])
        self._wait_recorded()
        self._check_tables()
        self._check_stored()
        load.resume()

    def _wait_recorded(self) -> None:
        """Wait until all complete responses are in the records."""
        missing = self._missing()
        with self.cluster.primary.querying(DATABASE) as query:

            def are_recorded() -> bool:
                ids = ",".join(f"'{id_}'" for id_ in missing)
                if ids:
                    found = query(f"SELECT id FROM dragoman.records WHERE outcome = 'answered' AND id IN ({ids})")
                    missing.difference_update(str(row[0]) for row in found)
                return not missing

            wait_until(are_recorded, "all complete responses are in the records")

    def _missing(self) -> set[str]:
        """The complete responses that are not in the records."""
        query = "SELECT id FROM dragoman.records WHERE outcome = 'answered'"
        return self.load.answered.keys() - {str(row[0]) for row in self.cluster.primary.query(query, DATABASE)}

    def forget_journals(self, machine: Machine) -> None:
        """Expect no records that are only on the disk of a machine."""
        for name in self._missing():
            if self.load.answered[name] == machine.name:
                del self.load.answered[name]

    def _check_tables(self) -> None:
        database = PostgresDatabase(address=self._address(), name=DATABASE, path=str(self._path / "none.db"))
        with (
            # A busy machine takes longer for a statement than a gateway waits.
            patch.object(postgres_database, "TIMEOUT", LIMIT),
            closing(open_record_tables(database, read_only=True)) as tables,
            tables.reading(),
        ):
            rows = tables.connection.rows("SELECT number, id FROM records ORDER BY number")
            check = IntegrityCheck(tables.connection)
            agreement = check.agreement()
            assert (agreement.wrong, agreement.without_row) == (0, 0), agreement
            for found in (*check.mismatched_rollups(), *check.orphans()):
                assert not found[1], found
        ids = [row[1] for row in rows]
        assert len(ids) == len(set(ids)), "a record is there twice"
        assert [row[0] for row in rows] == [*range(1, len(rows) + 1)]

    def _check_stored(self) -> None:
        """Read the stored responses since the last check from all machines, and some of before."""
        stored = self.load.stored
        earlier = stored[: self._read : max(self._read // _SAMPLE, 1)]
        for response in (*earlier, *stored[self._read :]):
            for machine in self.machines:
                # On a busy machine a heartbeat may be late.
                ask = partial(_status_of, machine, response)
                status = wait_until(partial(_unless_away, ask), f"{machine.name} reads {response}")
                assert status == 200, f"{response} from {machine.name}: {status}"
        self._read = len(stored)

    def _address(self) -> str:
        return self.cluster.primary.address(DATABASE)


def _unless_away(ask: Callable[[], int]) -> int | None:
    """The status of a request, unless it is that of a database that does not answer in time."""
    status = ask()
    return status if status < 500 else None


def _status_of(machine: Machine, response: StoredResponse) -> int:
    assert machine.port is not None
    headers = {"authorization": f"Bearer {_KEYS[response.key]}"}
    return Client(machine.port).ask(f"{PATHS[RESPONSES]}/{response.id}", method="GET", headers=headers).status


@contextmanager
def running_site(folder: Path, scale: Scale) -> Iterator[Site]:
    """A site whose clients ask."""
    with ExitStack() as stack:
        cluster = stack.enter_context(running_cluster())
        # One loop for network and clients: two threads would wait for each other's turns.
        loop = stack.enter_context(looping())
        machines = stack.enter_context(running_machines(folder, cluster, loop, scale))
        # In a short outage, no plain request is refused.
        must_have = _KEYS.keys() if scale.key_grace > LIMIT else FILE_KEYS.keys()
        load = Load(machines, _KEYS, scale.clients, scale.pause, must_have)
        stack.enter_context(reporting_state(load.report))
        running = asyncio.run_coroutine_threadsafe(load.run(), loop)
        stack.callback(partial(running.result, LIMIT))
        stack.callback(lambda: loop.call_soon_threadsafe(load.end))
        load.resume()
        yield Site(cluster, machines, load, scale, folder)
