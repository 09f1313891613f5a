"""A gateway in a terminal: a key ends it, and so does closing the window, unless whoever started it said otherwise."""

from __future__ import annotations

import http.client
import os
import signal
import socket
from contextlib import suppress
from pathlib import Path

import pytest

from tests.gateway.harness import CHAT, PATHS, Received, Reply, read_answer
from tests.gateway.harness import stream as streamed
from tests.gateway.says import is_finished, question, speaking, stream_failure, turn
from tests.ports import free_port
from tests.screen import as_seen
from tests.sdk.providers import stream as stream_of
from tests.server.process import PATIENCE, SAME_SIGNAL, Gate, Served
from tests.server.terminal import TerminalProcess, serving_in_terminal
from tests.server.workers import running_workers, wait_handled
from tests.waiting import wait_until

WORKERS = pytest.mark.parametrize("workers", ["1", "2"], ids=["one worker", "two workers"])
# Each signal counts, however soon it follows another one.
EACH_COUNTS = {SAME_SIGNAL: 0.0}


class Holding:
    """A provider whose streams wait at a gate after their first words."""

    def __init__(self) -> None:
        self.gate = Gate()

    def __call__(self, received: Received) -> Reply:
        """A stream that has begun."""
        begun = speaking(CHAT)
        return streamed(begun, self.gate, stream_of(CHAT, turn(CHAT)).removeprefix(begun))


def _streams(house: Served, holding: Holding, count: int) -> list[socket.socket]:
    """Streams that have begun."""
    asked = question(CHAT, CHAT, stream=True)
    ends = [house.send(PATHS[CHAT], asked, "connection: close") for _ in range(count)]
    holding.gate.reached(count)
    for end in ends:
        assert end.recv(1, socket.MSG_PEEK)
    return ends


def _is_refused(house: Served) -> bool:
    with suppress(ConnectionResetError):
        try:
            house.connect().close()
        except ConnectionRefusedError:
            return True
    return False


@WORKERS
def test_closing_the_window_ends_a_gateway_that_was_started_in_it(workers: str) -> None:
    with serving_in_terminal(Holding(), arguments=("--workers", workers)) as (house, terminal):
        pids = _workers_of(terminal, workers)
        terminal.close_window()
        assert terminal.wait() == 0
        assert _is_refused(house)
        assert not [pid for pid in pids if Path(f"/proc/{pid}").exists()]


def _workers_of(terminal: TerminalProcess, workers: str) -> set[int]:
    if workers == "1" or not Path("/proc/self/stat").exists():
        return set()
    return running_workers(terminal.pid, int(workers))


@WORKERS
def test_streams_end_whole_although_nobody_looks_and_however_often_it_is_told(workers: str) -> None:
    holding = Holding()
    arguments = ("--workers", workers)
    with serving_in_terminal(holding, arguments=arguments, constants=EACH_COUNTS) as (house, terminal):
        pids = _workers_of(terminal, workers) | {terminal.pid}
        ends = _streams(house, holding, 4)
        terminal.close_window()
        wait_until(lambda: _is_refused(house), "the port is closed")
        for _ in range(2):
            # The group, as a terminal tells it.
            os.killpg(terminal.pid, signal.SIGHUP)
            wait_handled(pids)
        assert terminal.running
        holding.gate.open()
        for end in ends:
            with end:
                told = read_answer(end)
            assert told.complete
            assert is_finished(CHAT, told.body)
        assert terminal.wait() == 0


@WORKERS
def test_pitfall_613_the_first_key_tells_what_is_waited_for_and_the_second_ends_it(workers: str) -> None:
    holding = Holding()
    arguments = ("--workers", workers)
    with serving_in_terminal(holding, arguments=arguments, constants=EACH_COUNTS) as (house, terminal):
        ends = _streams(house, holding, 5)
        terminal.press(b"\x03")
        # Of all workers together, once. A terminal of 80 columns has it in two lines.
        first, second = as_seen(terminal.log.wait("stopping: ")), as_seen(terminal.log.wait("at once"))
        assert first.endswith("stopping: 5 requests still run, and may for 30 s; Ctrl-C again")
        assert second.strip() == "ends them at once"
        terminal.press(b"\x03")
        for end in ends:
            with end:
                told = read_answer(end)
            assert "shutting down" in str(stream_failure(CHAT, told.body)["message"])
        assert terminal.wait() == 0
        assert len([line for line in terminal.log.all() if "stopping: " in line]) == 1


def test_a_gateway_without_work_says_nothing_more_at_the_key() -> None:
    with serving_in_terminal(Holding(), arguments=("--workers", "2")) as (_, terminal):
        # The end of the greeting.
        terminal.out.wait('"model":"echo/text"')
        terminal.press(b"\x03")
        assert terminal.wait() == 0
        assert not [line for line in terminal.log.all() if "stopping" in line]


@WORKERS
def test_nohup_lets_it_live_on_and_what_it_says_to_a_window_that_is_gone_is_no_error(workers: str) -> None:
    # As nohup does, but what it says still goes to the terminal.
    ignoring = ("sh", "-c", "trap '' HUP; exec \"$@\"", "sh")
    holding = Holding()
    with serving_in_terminal(holding, arguments=("--workers", workers), under=ignoring) as (house, terminal):
        terminal.close_window()
        os.killpg(terminal.pid, signal.SIGHUP)
        for _ in range(3):
            assert house.get("/nowhere").status == 404
        ends = _streams(house, holding, 1)
        os.killpg(terminal.pid, signal.SIGHUP)
        holding.gate.open()
        with ends[0] as end:
            assert is_finished(CHAT, read_answer(end).body)
        assert terminal.running
        terminal.send(signal.SIGINT)
        assert terminal.wait() == 0


def test_under_nohup_itself_it_lives_on(tmp_path: Path) -> None:
    terminal = TerminalProcess(("--port", "0"), tmp_path, under=("nohup",))
    try:
        written = tmp_path / "nohup.out"
        wait_until(lambda: written.exists() and "/v1/responses" in written.read_text(), "the greeting in a file")
        port = int(written.read_text().split(" listens on ")[1].split(",")[0].rsplit(":", 1)[1])
        terminal.close_window()
        assert _answers(port)
        terminal.send(signal.SIGTERM)
        terminal.send(signal.SIGINT)
        assert terminal.wait() == 0
    finally:
        terminal.end()


def test_it_starts_although_its_terminal_is_gone_already(tmp_path: Path) -> None:
    port = free_port()
    # Not before the window is closed.
    late = ("sh", "-c", "trap '' HUP; echo waits; while [ ! -e go ]; do sleep 0.05; done; exec \"$@\"", "sh")
    terminal = TerminalProcess(("--port", str(port)), tmp_path, under=late)
    try:
        terminal.out.wait("waits")
        terminal.close_window()
        (tmp_path / "go").touch()
        wait_until(lambda: _answers(port), "it serves")
        terminal.send(signal.SIGINT)
        assert terminal.wait() == 0
    finally:
        terminal.end()


def _answers(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    try:
        connection.request("GET", "/healthz")
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()
