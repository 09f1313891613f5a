"""The processes that a gateway has started, as the system knows them."""

from __future__ import annotations

import http.client
import json
import os
import signal
from collections.abc import Iterable, Iterator, Set
from contextlib import contextmanager, suppress
from pathlib import Path

from dragoman.model.jsonvalue import JsonObject
from tests.waiting import LIMIT, wait_until

NOBODY: frozenset[int] = frozenset()


def children(pid: int) -> set[int]:
    """The processes that a process has started and that have not ended."""
    started: list[str] = []
    # A process that ends meanwhile has no children any more.
    with suppress(FileNotFoundError, ProcessLookupError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            started += (task / "children").read_text().split()
    return {int(child) for child in started if is_running(int(child))}


def is_running(pid: int) -> bool:
    """Whether a process exists and is no zombie."""
    return state_of(pid) not in ("", "Z")


def state_of(pid: int) -> str:
    """The letter of a process's state; empty if there is no such process."""
    try:
        # The second field is a name in brackets, which may hold anything.
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return ""


def running_workers(pid: int, count: int, without: Set[int] = NOBODY) -> set[int]:
    """Wait until a gateway has exactly `count` workers that serve, not counting `without`, which end; return them."""

    def workers() -> set[int] | None:
        found = children(pid) - without
        return found if len(found) == count and all(_serves(worker) for worker in found) else None

    return wait_until(workers, f"{count} workers of process {pid}") or set()


def _serves(worker: int) -> bool:
    """Whether a worker is ready: until then it blocks signals, which it could not handle."""
    with suppress(FileNotFoundError, ProcessLookupError):
        blocked = int(_status(worker, "SigBlk"), 16)
        return not blocked & 1 << signal.SIGTERM - 1
    return False


def _status(pid: int, name: str) -> str:
    """A value of the status of a process."""
    return Path(f"/proc/{pid}/status").read_text().partition(f"\n{name}:")[2].split()[0]


class WorkerClient:
    """A client that stays connected with one worker of a gateway."""

    def __init__(self, supervisor: int, worker: int, port: int) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=LIMIT)
        with accepting_alone(supervisor, worker):
            self.get("/healthz")
        # Another connection might be accepted by another worker.
        self._connection.auto_open = 0

    def get(self, path: str) -> JsonObject:
        """Ask for something; what is no JSON is left out."""
        return self._ask("GET", path, None)

    def post(self, path: str, body: object) -> JsonObject:
        """Send a body, which must be accepted."""
        return self._ask("POST", path, json.dumps(body))

    def status(self, path: str, body: bytes | None = None, **headers: str) -> int:
        """The status of a request with headers; with a body it is a POST."""
        self._connection.request("GET" if body is None else "POST", path, body, headers)
        response = self._connection.getresponse()
        response.read()
        return response.status

    def _ask(self, method: str, path: str, body: str | None) -> JsonObject:
        self._connection.request(method, path, body, {"content-type": "application/json"})
        response = self._connection.getresponse()
        data = response.read()
        assert response.status == 200, data
        value = json.loads(data) if response.headers.get_content_type() == "application/json" else {}
        assert isinstance(value, dict)
        return value

    def close(self) -> None:
        """Disconnect."""
        self._connection.close()


@contextmanager
def each_worker(supervisor: int, workers: Iterable[int], port: int) -> Iterator[list[WorkerClient]]:
    """A client of each worker of a gateway."""
    clients = [WorkerClient(supervisor, worker, port) for worker in sorted(workers)]
    try:
        yield clients
    finally:
        for client in clients:
            client.close()


def statuses_of_workers(
    supervisor: int, workers: int, port: int, path: str, body: bytes | None = None, **headers: str
) -> set[int]:
    """What the workers of a gateway answer to a request, each on a new connection."""
    with each_worker(supervisor, running_workers(supervisor, workers), port) as clients:
        return {client.status(path, body, **headers) for client in clients}


@contextmanager
def accepting_alone(supervisor: int, worker: int) -> Iterator[None]:
    """Stop the other workers of a gateway while the block runs, so that this one accepts the connections."""
    others = children(supervisor) - {worker}
    try:
        for pid in others:
            os.kill(pid, signal.SIGSTOP)
        wait_until(lambda: all(state_of(pid) == "T" for pid in others), f"the workers {others} are stopped")
        yield
    finally:
        for pid in others:
            os.kill(pid, signal.SIGCONT)


def wait_gone(pids: Iterable[int]) -> None:
    """Wait until processes have ended."""
    wait_until(lambda: not any(is_running(pid) for pid in pids), f"the end of the processes {pids}")


def wait_handled(pids: Iterable[int]) -> None:
    """Wait until each of these processes has handled the signals that were sent to it, and sleeps or has ended."""
    wait_until(lambda: all(_has_handled(pid) for pid in pids), f"the processes {pids} have handled their signals")


def _has_handled(pid: int) -> bool:
    # A worker that has nothing to do ends at the first of them.
    with suppress(FileNotFoundError, ProcessLookupError):
        # A process that has still to run a handler is woken up for it.
        waiting = any(int(_status(pid, name), 16) for name in ("SigPnd", "ShdPnd"))
        return state_of(pid) in ("Z", "X") or (not waiting and state_of(pid) == "S")
    return True


def wait_for_turns(pids: Iterable[int], turns: int) -> None:
    """Wait until each of these processes has slept and woken up `turns` times.

    An idle supervisor wakes up once for each look at its file, an idle worker at least once.
    """
    due = {pid: _sleeps(pid) + turns for pid in pids}
    wait_until(lambda: all(_sleeps(pid) >= count for pid, count in due.items()), f"{turns} turns of {sorted(due)}")


def _sleeps(pid: int) -> int:
    return int(_status(pid, "voluntary_ctxt_switches"))
