"""Gateway keys of the database over several workers: what is changed is so on every worker, under load."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from dragoman.gateway.access import identity_table
from dragoman.identities.changes import LOCAL_MAKER, ConfiguredNames, ImportedKey
from dragoman.identities.key_text import digest_of, hash_text, new_key
from dragoman.identities.members import KeyMembers
from dragoman.store import open_tables
from dragoman.store.identity_changes import IdentityChanges
from dragoman.store.record_tables import open_record_tables
from tests.gateway.harness import CHAT, PATHS, Received, Reply, read_answer
from tests.gateway.harness import stream as streamed
from tests.gateway.says import is_finished, question, speaking, tells, turn
from tests.sdk.providers import stream as stream_of
from tests.server.process import FIRST_PAUSE, NO_LINES, Constants, Gate, Served, serving
from tests.server.workers import WorkerClient, children, each_worker, running_workers
from tests.waiting import LIMIT, wait_until

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are found in /proc")

# A worker asks for changes twice a second; here more often, so that a hundred revocations take seconds.
CONSTANTS = {"dragoman.gateway.access.identity_table.POLL_INTERVAL": 0.02}
# Seconds between two times that requests are recorded, and until a worker that was killed is started again.
QUICK_RECORDS = {"dragoman.records.ingest_thread.IngestThread.__init__.every": 0.05, FIRST_PAUSE: 0.05}
STORAGE = '[storage]\npath = "state.db"\n'
FILE_KEY = new_key()
FILE_KEYS = f'[keys.file]\nhash = "{hash_text(FILE_KEY)}"\n'
# A path at which nothing is: whoever has no key does not learn even that, and no other answer takes less time.
PAGE = "/nowhere"
CLOSED = "requests without a gateway key are refused from now on"
# Seconds since 1970 at which changes are made: what ends an hour after them has ended, or has not for long.
PAST, FUTURE = 1e9, 4e9
HOUR = 3600.0
REVOCATIONS = 100
# Seconds that a key has left. A machine that asks no worker meanwhile is given a key that has longer.
LEFT = (1.5, 15.0, 60.0)
ACCEPTED, UNKNOWN, FORBIDDEN = {404}, {401}, {403}

# Seconds between two requests of the load.
_PAUSE = 0.02

both_numbers = pytest.mark.parametrize("workers", [2, 4])


class Holding:
    """A provider that holds streams at a gate, and answers everything else."""

    def __init__(self) -> None:
        self.gate = Gate()

    def __call__(self, received: Received) -> Reply:
        """Answer in Chat."""
        if not received.json().get("stream"):
            return tells(CHAT)
        begun = speaking(CHAT)
        return streamed(begun, self.gate, stream_of(CHAT, turn(CHAT)).removeprefix(begun))


class Keyed:
    """A gateway with keys in its database, and a client of each of its workers."""

    def __init__(self, house: Served, clients: Sequence[WorkerClient]) -> None:
        self.house = house
        self.clients = clients
        self.file = house.directory / "state.db"

    @contextmanager
    def changes(self, now: float = FUTURE) -> Iterator[IdentityChanges]:
        """Changes that are made at a time, once no other process has the file."""
        with closing(open_record_tables(str(self.file), timeout=LIMIT)) as tables:
            yield IdentityChanges(tables.connection, lambda: now)

    def create(self, *names: str) -> dict[str, str]:
        """Make keys in one change, and wait until every worker accepts them: their texts."""
        texts = self.make(*names)
        for text in texts.values():
            self.until(text, ACCEPTED)
        return texts

    def make(self, *names: str) -> dict[str, str]:
        """Make keys in one change: their texts."""
        texts = {name: new_key() for name in names}
        imported = [
            ImportedKey(name=name, digest=digest_of(text), members=KeyMembers()) for name, text in texts.items()
        ]
        with self.changes() as changes:
            changes.import_all(imported, maker=LOCAL_MAKER, configured=ConfiguredNames())
        return texts

    def statuses(self, text: str = "") -> set[int]:
        """What each worker answers to a key; "" is none."""
        return {client.status(PAGE, authorization=f"Bearer {text}") for client in self.clients}

    def until(self, text: str, statuses: set[int]) -> None:
        """Wait until every worker answers a key with a status; then each goes on with it."""
        wait_until(lambda: self.statuses(text) == statuses, f"every worker answers with {statuses}")
        assert self.statuses(text) == statuses

    @contextmanager
    def load(self, text: str) -> Iterator[None]:
        """Requests with a key while the block runs, each of which must be served."""
        stop, statuses = threading.Event(), list[int]()

        def ask() -> None:
            body = question(CHAT, CHAT)
            while not stop.is_set():
                statuses.append(self.house.post(PATHS[CHAT], body, authorization=f"Bearer {text}").status)
                stop.wait(_PAUSE)

        threads = [threading.Thread(target=ask) for _ in range(2)]
        for thread in threads:
            thread.start()
        try:
            yield
            count = len(statuses)
            wait_until(lambda: len(statuses) > count, "the load goes on")
        finally:
            stop.set()
            for thread in threads:
                thread.join(LIMIT)
        assert set(statuses) == {200}


@contextmanager
def keyed(
    workers: int, more: str = FILE_KEYS, script: Holding | None = None, constants: Constants = CONSTANTS
) -> Iterator[Keyed]:
    given = ("--workers", str(workers)) if workers > 1 else NO_LINES
    with serving(script or Holding(), STORAGE + more, arguments=given, constants=constants) as house:
        pid = house.process.pid
        with each_worker(pid, running_workers(pid, workers), house.port) as clients:
            yield Keyed(house, clients)


def test_a_worker_asks_for_changes_twice_a_second() -> None:
    assert identity_table.POLL_INTERVAL == 0.5


@both_numbers
def test_pitfall_445_a_hundred_revoked_keys_are_refused_by_every_worker_under_load(workers: int) -> None:
    with keyed(workers) as gateway:
        texts = gateway.create("live", *(f"key{number}" for number in range(REVOCATIONS)))
        live = texts.pop("live")
        with gateway.load(live):
            for name, text in texts.items():
                with gateway.changes() as changes:
                    changes.revoke(name, maker=LOCAL_MAKER)
                gateway.until(text, UNKNOWN)
        # None of them comes back.
        for text in texts.values():
            assert gateway.statuses(text) == UNKNOWN


@both_numbers
def test_pitfall_731_a_narrowed_key_stays_narrowed_under_load(workers: int) -> None:
    with keyed(workers) as gateway:
        text = gateway.create("ann")["ann"]
        live = gateway.create("live")["live"]
        with gateway.load(live):
            for members, statuses in (
                (KeyMembers(addresses=("192.0.2.0/24",)), FORBIDDEN),
                (KeyMembers(addresses=("127.0.0.0/8",)), ACCEPTED),
                (KeyMembers(expires=datetime.fromtimestamp(PAST + HOUR, UTC)), UNKNOWN),
                (KeyMembers(expires=None, addresses=None), ACCEPTED),
            ):
                with gateway.changes(PAST) as changes:
                    changes.change("ann", members, maker=LOCAL_MAKER)
                gateway.until(text, statuses)
        # Requests have written nothing over the changes.
        with closing(open_tables(str(gateway.file), 30)) as tables:
            stored = tables.identities.get("ann")
        assert stored is not None
        assert (stored.generation, stored.identity.rights.addresses, stored.identity.expires) == (6, None, None)


@both_numbers
def test_pitfall_729_both_texts_of_a_rotated_key_work_until_the_announced_moment(workers: int) -> None:
    with keyed(workers) as gateway:
        former, other = gateway.create("ann", "bob").values()
        live = gateway.create("live")["live"]
        with gateway.load(live):
            newer = rotate(gateway, "ann", FUTURE)
            gateway.until(newer, ACCEPTED)
            assert gateway.statuses(former) == ACCEPTED
            # The same with an end that has passed.
            latest = rotate(gateway, "bob", PAST)
            gateway.until(latest, ACCEPTED)
            assert gateway.statuses(other) == UNKNOWN


def rotate(gateway: Keyed, name: str, now: float, grace: float = HOUR) -> str:
    text = new_key()
    with gateway.changes(now) as changes:
        changes.rotate(name, digest_of(text), grace, maker=LOCAL_MAKER)
    return text


@both_numbers
def test_pitfall_729_the_former_text_of_a_rotated_key_ends_at_its_moment_on_every_worker(workers: int) -> None:
    with keyed(workers) as gateway, gateway.load(gateway.create("live")["live"]):
        for number, left in enumerate(LEFT):
            former = gateway.create(f"ann{number}")[f"ann{number}"]
            now = time.time()
            newer = rotate(gateway, f"ann{number}", now, left)
            # Each worker that accepts it knows the end of the former one.
            gateway.until(newer, ACCEPTED)
            asked = ends_at(gateway, former, now + left)
            assert gateway.statuses(newer) == ACCEPTED
            if asked:
                return
    raise AssertionError("no key was tried on every worker before its end")


@both_numbers
def test_a_key_expires_at_its_moment_on_every_worker(workers: int) -> None:
    with keyed(workers) as gateway, gateway.load(gateway.create("live")["live"]):
        for number, left in enumerate(LEFT):
            text = gateway.create(f"ann{number}")[f"ann{number}"]
            end = datetime.fromtimestamp(int(time.time() + left) + 1, UTC)
            with gateway.changes(PAST) as changes:
                changes.change(f"ann{number}", KeyMembers(expires=end), maker=LOCAL_MAKER)
            # Each worker that knows a later change knows this one.
            gateway.create(f"later{number}")
            if ends_at(gateway, text, end.timestamp()):
                return
    raise AssertionError("no key was tried on every worker before its end")


def called(client: WorkerClient, text: str) -> int:
    """The status of a call of a model with a key."""
    return client.status(PATHS[CHAT], json.dumps(question(CHAT, CHAT)).encode(), authorization=f"Bearer {text}")


def ends_at(gateway: Keyed, text: str, end: float) -> bool:
    """Ask each worker with a text until each refuses it. What is answered before the end of the text must accept it,
    and what is asked after it must refuse it; between the two, either is right. Whether each worker accepted it."""
    accepted, refused = set[WorkerClient](), set[WorkerClient]()

    def is_over() -> bool:
        for client in gateway.clients:
            before = time.time()
            # A model is called, whose requests have their own way through access control.
            status = called(client, text)
            if time.time() < end:
                assert status == 200
                accepted.add(client)
            elif before >= end:
                assert status == 401
                refused.add(client)
        return len(refused) == len(gateway.clients)

    wait_until(is_over, "every worker was asked after the end of the key")
    return len(accepted) == len(gateway.clients)


@both_numbers
def test_the_first_key_closes_every_worker_and_the_last_one_leaves_it_closed(workers: int) -> None:
    with keyed(workers, "") as gateway:
        assert gateway.statuses() == ACCEPTED
        text = gateway.make("ann")["ann"]
        gateway.until("", UNKNOWN)
        gateway.until(text, ACCEPTED)
        gateway.house.process.log.wait(CLOSED)
        with gateway.changes() as changes:
            changes.revoke("ann", maker=LOCAL_MAKER)
        gateway.until(text, UNKNOWN)
        assert gateway.house.stop() == 0
        # Nobody is let in after a restart either.
        gateway.house.restart()
        assert gateway.house.get(PAGE).status == 401
        assert gateway.house.get(PAGE, authorization=f"Bearer {text}").status == 401


def test_a_stream_of_a_revoked_key_finishes_and_a_request_that_waits_is_refused() -> None:
    holding = Holding()
    with keyed(2, script=holding) as gateway:
        house, text = gateway.house, gateway.create("ann")["ann"]
        bearer = f"authorization: Bearer {text}"
        body = json.dumps(question(CHAT, CHAT)).encode()
        head = f"POST {PATHS[CHAT]} HTTP/1.1\r\nhost: localhost\r\n{bearer}\r\nconnection: close\r\n"
        with (
            house.send(PATHS[CHAT], {**question(CHAT, CHAT), "stream": True}, bearer, "connection: close") as running,
            house.connect() as waiting,
        ):
            holding.gate.reached()
            # The end of the body arrives after the revocation.
            waiting.sendall(f"{head}content-length: {len(body)}\r\nexpect: 100-continue\r\n\r\n".encode())
            assert waiting.recv(100).startswith(b"HTTP/1.1 100")
            waiting.sendall(body[:10])
            with gateway.changes() as changes:
                changes.revoke("ann", maker=LOCAL_MAKER)
            gateway.until(text, UNKNOWN)
            waiting.sendall(body[10:])
            refused = read_answer(waiting)
            assert (refused.status, "revoked" in refused.body.decode()) == (401, True)
            holding.gate.open()
            answer = read_answer(running)
        assert is_finished(CHAT, answer.body)
        # The provider was called for the stream alone.
        assert len(house.provider.received) == 1


@both_numbers
def test_pitfall_447_keys_that_cannot_be_read_at_the_start_are_read_as_soon_as_they_can(workers: int) -> None:
    more = f"store_responses = false\nrecord_requests = false\n{FILE_KEYS}"
    with keyed(workers, more) as gateway:
        text = gateway.create("ann")["ann"]
        assert gateway.house.stop() == 0
        # The last one who closes the file moves its log into it.
        open_tables(str(gateway.file), 30).close()
        content = gateway.file.read_bytes()
        gateway.file.write_bytes(b"no database" * 100)
        gateway.house.restart(*(("--workers", str(workers)) if workers > 1 else NO_LINES), constants=CONSTANTS)
        pid = gateway.house.process.pid
        with each_worker(pid, running_workers(pid, workers), gateway.house.port) as gateway.clients:
            assert gateway.statuses(text) == {503}
            assert gateway.statuses(FILE_KEY) == ACCEPTED
            refused = gateway.house.get(PAGE, authorization=f"Bearer {text}")
            assert refused.header("retry-after") == "5"
            ready = gateway.house.get("/readyz")
            assert (ready.status, b"cannot read gateway keys of the database" in ready.body) == (200, True)
            repaired = gateway.file.with_suffix(".repaired")
            repaired.write_bytes(content)
            repaired.replace(gateway.file)
            gateway.until(text, ACCEPTED)
            # Each worker has read it once it has accepted the key.
            assert gateway.house.get("/readyz").body == b"ready\n"


@both_numbers
def test_pitfall_447_a_key_is_not_unknown_because_its_file_was_deleted_and_made_anew(workers: int) -> None:
    with keyed(workers, f'key_grace = "1 s"\n{FILE_KEYS}', constants={**CONSTANTS, **QUICK_RECORDS}) as gateway:
        text = gateway.make("ann")["ann"]
        wait_until(lambda: gateway.statuses(text) == ACCEPTED, "every worker accepts the key")
        backup = gateway.file.with_suffix(".backup")
        with closing(sqlite3.connect(gateway.file)) as live, closing(sqlite3.connect(backup)) as copy:
            live.backup(copy)
        for name in ("", "-wal", "-shm"):
            gateway.file.with_name(f"{gateway.file.name}{name}").unlink(missing_ok=True)

        def are_unreadable() -> bool:
            statuses = {called(client, text) for client in gateway.clients}
            assert statuses <= {200, 503}
            return statuses == {503}

        # Requests are recorded, for which a worker makes the file again.
        with gateway.load(FILE_KEY):
            wait_until(lambda: gateway.file.exists() and are_unreadable(), "no worker knows the key any more")
            problem = b"without the keys known before"
            wait_until(lambda: problem in gateway.house.get("/readyz").body, "the file is another one")
            assert gateway.statuses(text) == {503}
        # A worker that starts later knows so, too.
        pid = gateway.house.process.pid
        killed = min(children(pid))
        os.kill(killed, signal.SIGKILL)
        with each_worker(pid, running_workers(pid, workers, {killed}), gateway.house.port) as gateway.clients:
            assert gateway.statuses(text) == {503}
            with closing(sqlite3.connect(backup)) as copy, closing(sqlite3.connect(gateway.file)) as live:
                copy.backup(live)
            wait_until(lambda: gateway.statuses(text) == ACCEPTED, "the restored key is in force")
