"""Failures around a gateway: a locked database, a log that is not read, and its own sudden end."""

from __future__ import annotations

import os
import socket
import sqlite3
import subprocess
import sys
import time
from contextlib import closing, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.attack.measuring import Attack, Cost, attacked, beside, cpu_of
from tests.attack.neighbour import provider
from tests.gateway.harness import PATHS, RESPONSES, read_answer
from tests.records.killing import kill_under_load
from tests.server.process import Served


def held_store(house: Served) -> tuple[int, str]:
    """Store responses while another process has the database locked; retrieve every id that a client got."""
    path = house.directory / ".local/state/dragoman/state.db"
    ids: list[str] = []
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("BEGIN IMMEDIATE")
        ends = [
            house.send(PATHS[RESPONSES], {"model": "chat/served", "input": "x"}, "connection: close") for _ in range(5)
        ]
        time.sleep(3.0)
        db.execute("ROLLBACK")
    for end in ends:
        with closing(end):
            answer = read_answer(end)
        if answer.status == 200:
            ids.append(str(answer.json()["id"]))
    lost = sum(house.get(f"/v1/responses/{name}").status != 200 for name in ids)
    return 5, f"{len(ids)} of 5 stored, {lost} of them not found later"


def blocked_log(name: str) -> Cost:
    """Send 2,000 requests that are refused while the pipe of the log is not read."""
    with attacked(provider) as house:
        more = house.directory / "blocked"
        more.mkdir()
        ours, theirs = os.pipe()
        out = more / "out"
        with out.open("wb") as output:
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", "dragoman", "serve", "--config", str(house.file), "--port", "0"],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=theirs,
                cwd=more,
            )
        os.close(theirs)
        try:
            while b" listens on " not in out.read_bytes():
                time.sleep(0.05)
            listens = int(out.read_text().split(",")[0].rsplit(":", 1)[1])
            begun, answered = time.monotonic(), 0
            with suppress(OSError):
                for _ in range(2000):
                    with socket.create_connection(("127.0.0.1", listens), timeout=5.0) as end:
                        end.sendall(b"GET /nowhere HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n")
                        answered += bool(end.recv(100))
            return Cost(
                name=name,
                sent=2000 * 70,
                seconds=time.monotonic() - begun,
                cpu=cpu_of(process.pid),
                result=f"{answered} of 2000 answered",
            )
        finally:
            os.close(ours)
            process.kill()
            process.wait()


# How often a gateway is killed, and its number of workers.
_KILLS = ((20, 1), (16, 2))


def killed(name: str) -> Cost:
    """Kill a gateway under load, and the process that ingests its journals too; a lost or doubled record raises."""
    begun, rows, complete, crashed, kills = time.monotonic(), 0, 0, 0, 0
    for rounds, workers in _KILLS:
        with TemporaryDirectory() as folder:
            came = kill_under_load(Path(folder), rounds=rounds, seed=time.time_ns(), workers=workers, kill_drains=True)
        rows, complete, crashed = rows + came.rows, complete + came.complete, crashed + came.crashed
        kills += came.kills
    return Cost(
        name=f"{name}, {kills} times",
        sent=rows,
        seconds=time.monotonic() - begun,
        result=f"{complete} complete answers, each once among {rows} rows; {crashed} crashed; sums agree",
    )


ATTACKS: tuple[Attack, ...] = (
    beside("the store locked by another process", held_store, provider),
    Attack("a log that is not read, 2,000 refusals", blocked_log),
    Attack("killed under load", killed),
)
