"""Several processes on one port: they serve and count together, are started anew when they die, and end together."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.gateway.harness import CHAT, MESSAGES, PATHS, Answer, Received, Reply, read_answer
from tests.gateway.harness import stream as streamed
from tests.gateway.says import is_finished, question, speaking, tells, turn
from tests.sdk.providers import stream as stream_of
from tests.server.process import FIRST_PAUSE, PATIENCE, Gate, Process, Served, serving
from tests.server.workers import accepting_alone, running_workers, wait_for_turns, wait_gone

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are found in /proc")

ANEW = "worker exited and is restarted"
# More often than it takes to look at the file twice, and to read it.
TURNS = 6
# Seconds for which a worker has to run so that its death is no reason to wait longer each time.
STEADY = "dragoman.gateway.processes.supervisor._STEADY"
LONGEST_PAUSE = "dragoman.gateway.processes.supervisor._MAX_PAUSE"
REQUESTS = (
    f'dragoman_requests_total{{client_protocol="{CHAT}",provider="chat",provider_protocol="{CHAT}",model="served",'
    'status="200"}'
)


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


@pytest.fixture
def holding() -> Holding:
    return Holding()


@pytest.fixture
def house(holding: Holding) -> Iterator[Served]:
    # A worker waits for the counters of the others, however long they take.
    constants = {FIRST_PAUSE: 0.05, "dragoman.gateway.peer_workers._TIMEOUT": PATIENCE}
    with serving(holding, arguments=("--workers", "2"), constants=constants) as served:
        yield served


@pytest.fixture(scope="module")
def undisturbed() -> Iterator[Served]:
    with serving(Holding(), arguments=("--workers", "2")) as served:
        yield served


def _workers(house: Served, without: int = 0) -> set[int]:
    """Both workers, once they run."""
    return running_workers(house.process.pid, 2, without={without})


def _sockets(pid: int) -> set[str]:
    """The numbers of the sockets that a process holds."""
    found = set()
    for place in Path(f"/proc/{pid}/fd").iterdir():
        try:
            name = str(place.readlink())
        except FileNotFoundError:
            # It was closed while it was looked at.
            continue
        if name.startswith("socket:["):
            found.add(name[8:-1])
    return found


def _hold_in_both(house: Served, gate: Gate, pids: set[int]) -> list[socket.socket]:
    """Begin two streams in each worker."""
    ends: list[socket.socket] = []
    for pid in pids:
        with accepting_alone(house.process.pid, pid):
            for _ in range(2):
                ends.append(house.send(PATHS[MESSAGES], question(MESSAGES, CHAT, stream=True), "connection: close"))
                gate.reached(len(ends))
                assert ends[-1].recv(1, socket.MSG_PEEK)
    return ends


def _read(end: socket.socket) -> Answer:
    with end:
        return read_answer(end)


def test_both_workers_serve_and_one_that_is_killed_takes_only_its_own_along(house: Served, holding: Holding) -> None:
    pids = _workers(house)
    ends = _hold_in_both(house, holding.gate, pids)
    killed = min(pids)
    os.kill(killed, signal.SIGKILL)
    told = house.process.log.wait(ANEW)
    assert '"status":-9' in told
    assert killed not in _workers(house, without=killed)
    # The new one takes part at once.
    for _ in range(20):
        assert house.post(PATHS[CHAT], question(CHAT, CHAT)).status == 200
    assert house.metric("dragoman_requests_in_flight") >= 1
    holding.gate.open()
    answers = [_read(end) for end in ends]
    broken = [told for told in answers if not told.complete]
    assert (len(broken), len(answers)) == (2, 4)
    # A cut stream cannot be taken for a finished one.
    assert not any(is_finished(MESSAGES, told.body) for told in broken)
    assert all(is_finished(MESSAGES, told.body) for told in answers if told.complete)
    assert house.stop() == 0


def test_metrics_add_up_whoever_is_asked(house: Served, holding: Holding) -> None:
    pids = _workers(house)
    ends = _hold_in_both(house, holding.gate, pids)
    for _ in range(30):
        assert house.post(PATHS[CHAT], question(CHAT, CHAT)).status == 200
    # Enough times for both to be asked.
    assert {house.metric(REQUESTS) for _ in range(20)} == {30}
    assert {house.metric("dragoman_requests_in_flight") for _ in range(20)} == {len(ends)}
    holding.gate.open()
    assert all(_read(end).complete for end in ends)
    assert house.stop() == 0
    wait_gone(pids)


def test_a_worker_that_is_started_anew_has_the_configuration_of_today(house: Served) -> None:
    pids = _workers(house)
    house.replace_file(house.file.read_text() + '"later" = "chat/served"\n')
    house.process.log.wait("configuration reloaded", 2)
    # The supervisor has read it, too, and logs nothing.
    wait_for_turns([house.process.pid], TURNS)
    # It may not be readable any more by then: the new one begins with what the others have.
    house.replace_file("[providers\n")
    house.process.log.wait("is not TOML", 2)
    killed = min(pids)
    os.kill(killed, signal.SIGKILL)
    house.process.log.wait(ANEW)
    _workers(house, without=killed)
    for _ in range(20):
        assert house.post(PATHS[CHAT], question(CHAT, CHAT, model="later")).status == 200


def test_a_hang_up_signal_reaches_every_worker(undisturbed: Served) -> None:
    undisturbed.process.send(signal.SIGHUP)
    undisturbed.process.log.wait("configuration reloaded", 2)
    assert undisturbed.get("/healthz").status == 200


def test_a_stop_does_not_wait_for_a_worker_that_is_due_to_be_started_anew(holding: Holding) -> None:
    constants = {FIRST_PAUSE: 3600.0, LONGEST_PAUSE: 3600.0}
    with serving(holding, arguments=("--workers", "2"), constants=constants) as house:
        for pid in _workers(house):
            os.kill(pid, signal.SIGKILL)
        house.process.log.wait(ANEW, 2)
        assert house.stop() == 0
    # Nor is it started, only to find that there is nothing to do.
    assert not [line for line in house.process.log.all() if "worker failed" in line]


def test_workers_do_not_outlive_whoever_watches_over_them_and_the_port_is_free_again(
    house: Served, holding: Holding
) -> None:
    pids = _workers(house)
    house.process.send(signal.SIGKILL)
    try:
        wait_gone(pids)
    except AssertionError:
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        raise
    again = Process(["--config", str(house.file), "--port", str(house.port), "--workers", "2"], house.directory)
    try:
        assert again.listening() == house.port
        assert house.post(PATHS[CHAT], question(CHAT, CHAT)).status == 200
        assert again.stop() == 0
    finally:
        again.end()


def test_a_worker_that_cannot_open_the_store_says_why_each_time(holding: Holding) -> None:
    with TemporaryDirectory() as name:
        store = Path(name) / "state.db"
        more, constants = f'[storage]\npath = "{store}"\n', {FIRST_PAUSE: 0.05, STEADY: 3600.0}
        with serving(holding, more, arguments=("--workers", "2"), constants=constants) as house:
            pids = _workers(house)
            for file in Path(name).glob("state.db*"):
                if file.is_file():
                    file.unlink()
            store.mkdir()
            killed = min(pids)
            os.kill(killed, signal.SIGKILL)
            for count in (1, 2):
                told = house.process.log.wait("worker failed", count)
                assert "the file cannot be opened" in told
                assert '"remedy":"name a file' in told
            # After longer and longer pauses, and the other one serves.
            house.process.log.wait(ANEW, 2)
            assert [line["pause"] for line in house.process.events(ANEW)[:2]] == [0.1, 0.2]
            assert house.get("/healthz").status == 200
            assert house.stop() == 0


@pytest.mark.parametrize("killed", ["the watcher", "everybody"])
def test_a_gateway_that_is_killed_leaves_no_folder_behind(holding: Holding, tmp_path: Path, killed: str) -> None:
    with serving(holding, arguments=("--workers", "2"), environment={"TMPDIR": str(tmp_path)}) as house:
        pids = _workers(house)
        assert house.metric("dragoman_requests_in_flight") == 0
        assert list(tmp_path.iterdir()) == []
        house.process.send(signal.SIGKILL)
        for pid in pids if killed == "everybody" else ():
            os.kill(pid, signal.SIGKILL)
        wait_gone(pids)
        assert list(tmp_path.iterdir()) == []


def test_workers_hold_nothing_of_whoever_watches_over_them_but_the_port(undisturbed: Served) -> None:
    pids = _workers(undisturbed)
    theirs = _sockets(undisturbed.process.pid)
    for pid in pids:
        assert len(_sockets(pid) & theirs) == 1
