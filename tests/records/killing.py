"""A gateway that is killed under load, again and again, by somebody who counts the answers that clients saw complete.

Clients of all protocols ask the provider inside the gateway, whole and streamed, and journals are drained from outside.
Nothing is asked twice: what a client did not see complete may be in the records or not, but never twice.
"""

from __future__ import annotations

import http.client
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing, suppress
from functools import partial
from pathlib import Path

from msgspec import Struct

from dragoman.identities.key_text import hash_text
from dragoman.records.journal_directory import directory_of, journals_in
from dragoman.records.journal_ingest import ingest_all
from dragoman.store import StoreError
from tests.gateway.harness import CHAT, MESSAGES, PATHS, RESPONSES
from tests.records.agreement import sums_and_rows, tagged_sums_and_rows
from tests.server.process import ROOT, Process, clean_environment
from tests.waiting import LIMIT, wait_until

CLIENTS = 4
# The frame by which a client knows that a stream was whole.
_LAST = {MESSAGES: b"event: message_stop", CHAT: b"data: [DONE]", RESPONSES: b"event: response.completed"}
_MODEL = "echo/text"
# Gateway keys of clients: one with tags, one without.
_KEYS = {"tagged": "a-key-for-the-test-tagged", "plain": "a-key-for-the-test-plain"}
_TAGS = {"tagged": 'tags = {team = "web", zone = "eu"}'}
_DRAIN = "import sys; from dragoman.records.journal_ingest import ingest_all; ingest_all(sys.argv[1], now=0)"


class Outcome(Struct, kw_only=True):
    """What came of it: answers that clients saw complete, rows, and those of exchanges that crashed."""

    complete: int
    rows: int
    crashed: int
    kills: int


class Clients:
    """Ask as long as they may, and note the ids of all that they saw complete."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._port = 0
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []
        # By id, and by protocol and manner.
        self.complete: list[str] = []
        self.kinds: set[tuple[str, bool]] = set()

    def start(self, port: int) -> None:
        """Begin to ask a gateway."""
        self._port = port
        self._stop.clear()
        self._threads = [threading.Thread(target=self._ask, args=(number,)) for number in range(CLIENTS)]
        for thread in self._threads:
            thread.start()

    def have_seen(self, count: int) -> bool:
        """Whether so many answers were complete."""
        return len(self.complete) >= count

    def stop(self) -> None:
        """Ask no more."""
        self._stop.set()
        for thread in self._threads:
            thread.join(LIMIT)
            assert not thread.is_alive()

    def _ask(self, number: int) -> None:
        chance = random.Random(f"{self._seed} {number}")
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=LIMIT)
        with closing(connection):
            while not self._stop.is_set():
                protocol, stream = chance.choice((MESSAGES, CHAT, RESPONSES)), chance.random() < 0.5
                try:
                    self._ask_once(connection, protocol, stream)
                except (OSError, http.client.HTTPException):
                    # It was killed; whoever comes after it is asked on another connection.
                    return

    def _ask_once(self, connection: http.client.HTTPConnection, protocol: str, stream: bool) -> None:
        body = json.dumps({**_question(protocol), "stream": stream})
        key = _KEYS["tagged" if len(self.complete) % 2 else "plain"]
        headers = {"content-type": "application/json", "authorization": f"Bearer {key}"}
        connection.request("POST", PATHS[protocol], body, headers)
        answer = connection.getresponse()
        try:
            said = answer.read()
            whole = True
        except http.client.IncompleteRead as cut:
            said, whole = cut.partial, False
        assert answer.status == 200, said
        # A client of a stream has its answer with the last frame, whatever becomes of the connection then.
        if _LAST[protocol] in said if stream else whole:
            name = answer.getheader("request-id") or answer.getheader("x-request-id")
            assert name is not None
            self.complete.append(name)
            self.kinds.add((protocol, stream))
        if not whole:
            raise ConnectionResetError


def _question(protocol: str) -> dict[str, object]:
    if protocol == RESPONSES:
        return {"model": _MODEL, "input": "Hello.", "store": False}
    said: dict[str, object] = {"model": _MODEL, "messages": [{"role": "user", "content": "Hello."}]}
    return {**said, "max_tokens": 50} if protocol == MESSAGES else said


def kill_under_load(folder: Path, *, rounds: int, seed: int, workers: int, kill_drains: bool = False) -> Outcome:
    """Start a gateway, load it, kill it; as often as asked for. What is wrong then is an assertion."""
    chance = random.Random(seed)
    file, path = folder / "dragoman.toml", str(folder / "state.db")
    keys = "".join(f'[keys.{name}]\nhash = "{hash_text(key)}"\n{_TAGS.get(name, "")}\n' for name, key in _KEYS.items())
    file.write_text(f'[server]\nport = 0\nworkers = {workers}\n[storage]\npath = "state.db"\n{keys}')
    clients = Clients(seed)
    over = threading.Event()
    drains = threading.Thread(target=_drain_now_and_then, args=(folder, path, over, kill_drains, seed))
    drains.start()
    try:
        for _ in range(rounds):
            gateway = Process(["--config", str(file)], folder)
            try:
                clients.start(gateway.listening())
                due = len(clients.complete) + chance.randint(1, 60)
                wait_until(partial(clients.have_seen, due), f"{due} complete answers")
            finally:
                # Everybody at once: the supervisor's end would let workers go in peace.
                with suppress(ProcessLookupError):
                    os.killpg(gateway.pid, signal.SIGKILL)
                gateway.wait()
                clients.stop()
    finally:
        over.set()
        drains.join(LIMIT)
    assert not drains.is_alive()
    ingest_all(path, now=0)
    return _checked(path, clients, rounds)


def _drain_now_and_then(folder: Path, path: str, over: threading.Event, kills: bool, seed: int) -> None:
    """Drain from outside, as commands do; in a process that is killed, too, if that is wanted."""
    chance = random.Random(f"{seed} drains")
    while not over.wait(chance.uniform(0.02, 0.2)):
        if not kills:
            # Somebody else may be writing for a long time, on a busy machine.
            with suppress(StoreError):
                ingest_all(path, now=0)
            continue
        command = [sys.executable, "-c", _DRAIN, path]
        with subprocess.Popen(command, cwd=ROOT, env=clean_environment(folder), stderr=subprocess.DEVNULL) as drain:
            try:
                drain.wait(chance.uniform(0.1, 0.6))
            except subprocess.TimeoutExpired:
                drain.kill()


def _checked(path: str, clients: Clients, kills: int) -> Outcome:
    assert journals_in(directory_of(path)) == []
    with closing(sqlite3.connect(path)) as db:
        found = db.execute("SELECT id, outcome FROM records").fetchall()
        assert db.execute("SELECT count(*) FROM journals").fetchone() == (0,)
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    ids = [name for name, _ in found]
    assert len(ids) == len(set(ids)), "something is there twice"
    outcomes = dict(found)
    lost = [name for name in clients.complete if outcomes.get(name) != "answered"]
    assert not lost, f"{len(lost)} of {len(clients.complete)} complete answers are not there: {lost[:3]}"
    assert len(clients.complete) == len(set(clients.complete))
    by_group, by_thread, by_row = sums_and_rows(path)
    assert by_group == by_thread == by_row, "sums are not those of the rows"
    by_tags, by_tagged_row = tagged_sums_and_rows(path)
    assert by_tags == by_tagged_row, "sums of tagged exchanges are not those of their rows"
    assert 0 < sum(sums[0] for sums in by_tags.values()) < sum(sums[0] for sums in by_group.values())
    crashed = sum(outcome == "crashed" for _, outcome in found)
    assert crashed <= kills * CLIENTS
    assert set(outcomes.values()) <= {"answered", "crashed", "cancelled"}
    return Outcome(complete=len(clients.complete), rows=len(ids), crashed=crashed, kills=kills)
