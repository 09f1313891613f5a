"""A key that is revoked on one machine is refused by every worker of the other one after two heartbeats, which is a
second: the first one may have begun before."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from dragoman.gateway.access.identity_table import POLL_INTERVAL
from tests.machines.cluster import running_cluster
from tests.machines.database_proxy import DatabaseProxy
from tests.machines.machine import CONSTANTS, FILE_KEYS, Machine, Scale, running_machines
from tests.mock.asking import Answer, Client
from tests.sdk.digging import Object, dig_text
from tests.server.process import looping
from tests.server.workers import WorkerClient, each_worker, running_workers
from tests.transaction_pooler import transaction_pooler
from tests.waiting import LIMIT, wait_until

REVOCATIONS = 100
# Heartbeats until a revocation is in force, and what a heartbeat has in it.
BEATS, BEAT = 2, b"pg_postmaster_start_time"
SCALE = Scale(workers=2, clients=0, pause=0.0, stop=0.0, key_grace=3600.0)
# No heartbeat of a busy machine is given up: its worker would begin to count again.
QUICK = {
    **CONSTANTS,
    "dragoman.gateway.access.identity_table.POLL_INTERVAL": 0.02,
    "dragoman.store.heartbeat.ServerHeartbeat.__init__.timeout": LIMIT,
}


class Administrator:
    """Changes keys through one machine."""

    def __init__(self, machine: Machine) -> None:
        assert machine.port is not None
        self._client = Client(machine.port)

    def create(self, name: str) -> str:
        """The text of a new key."""
        return dig_text(self._send("POST", "/keys", {"name": name}).json(), "key")

    def revoke(self, name: str) -> None:
        """End a key."""
        tag = self._send("GET", f"/keys/{name}").headers["etag"]
        self._send("DELETE", f"/keys/{name}", if_match=tag)

    def _send(self, method: str, path: str, body: Object | None = None, **headers: str) -> Answer:
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        given |= {"authorization": f"Bearer {FILE_KEYS['file-0']}", "content-type": "application/json"}
        answer = self._client.ask(f"/admin/v1{path}", body, method=method, headers=given)
        assert answer.status in (200, 201), answer.raw
        return answer


def refused_after(other: Machine, clients: Sequence[WorkerClient], text: str) -> bool:
    """Whether all workers refuse a key after some more heartbeats of each."""
    before = beats(other.proxies)
    assert len(before) == len(clients)

    def has_passed() -> bool:
        now = beats(other.proxies)
        return all(now[worker] >= count + BEATS for worker, count in before.items())

    wait_until(has_passed, f"{BEATS} heartbeats of each worker")
    return not any(is_known_to(client, text) for client in clients)


@contextmanager
def two_machines(folder: Path, *, pooled: bool) -> Iterator[list[Machine]]:
    with ExitStack() as stack:
        cluster = stack.enter_context(running_cluster())
        loop = stack.enter_context(looping())
        sockets = None
        if pooled:
            pooler = stack.enter_context(transaction_pooler(cluster.primary))

            def sockets(place: int) -> Path:
                return pooler.socket

        yield stack.enter_context(
            running_machines(folder, cluster, loop, SCALE, constants=QUICK, watched=BEAT, sockets=sockets)
        )


def is_known_to(client: WorkerClient, text: str) -> bool:
    return client.status("/admin/v1/me", authorization=f"Bearer {text}") == 200


def beats(proxies: Sequence[DatabaseProxy]) -> dict[tuple[int, int], int]:
    """The heartbeats that each worker has sent so far."""
    sent = {(place, number): count for place, proxy in enumerate(proxies) for number, count in proxy.seen.items()}
    return {connection: count for connection, count in sent.items() if count}


@pytest.mark.parametrize("pooled", [False, True], ids=["directly", "through a pooler"])
def test_a_revoked_key_is_refused_by_the_other_machine_after_two_heartbeats(tmp_path: Path, pooled: bool) -> None:
    assert BEATS * POLL_INTERVAL <= 1.0
    with two_machines(tmp_path, pooled=pooled) as (one, other):
        administrator = Administrator(one)
        texts = {f"key-{number}": administrator.create(f"key-{number}") for number in range(REVOCATIONS)}
        assert other.port is not None
        workers = running_workers(other.process.pid, SCALE.workers)
        with each_worker(other.process.pid, workers, other.port) as clients:
            last = texts[f"key-{REVOCATIONS - 1}"]
            wait_until(lambda: all(is_known_to(client, last) for client in clients), "the keys are known")
            for name, text in texts.items():
                assert all(is_known_to(client, text) for client in clients)
                administrator.revoke(name)
                assert refused_after(other, clients, text)
