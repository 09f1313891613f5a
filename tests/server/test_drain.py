"""A gateway that is told to stop: what runs ends whole if it can, in the client's own error form if it cannot."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.gateway.harness import CHAT, MESSAGES, PATHS, Answer, Received, Reply, read_answer, whole
from tests.gateway.harness import stream as streamed
from tests.gateway.says import PAIRS, failure_of, is_finished, question, speaking, stream_failure, text_of, turn
from tests.sdk.providers import answer as answer_of
from tests.sdk.providers import stream as stream_of
from tests.server.process import SAME_SIGNAL, Gate, Served, config, serving
from tests.server.workers import running_workers, wait_handled
from tests.waiting import wait_until

STOPPING = "stopping when running requests have ended"
ENDING = "cancelling requests that still run"
# Whether signals that follow each other are one is a matter of time, which tests do not measure.
EACH_COUNTS, ALL_COUNT_ONCE = {SAME_SIGNAL: 0.0}, {SAME_SIGNAL: 3600.0}


# Each signal and each number of workers once, and all pairs of them in the nightly run.
SIGNALS = pytest.mark.parametrize(
    ("number", "workers"),
    [
        pytest.param(signal.SIGTERM, "1", id="SIGTERM, one worker"),
        pytest.param(signal.SIGINT, "2", id="SIGINT, two workers"),
        pytest.param(signal.SIGTERM, "2", id="SIGTERM, two workers", marks=pytest.mark.nightly),
        pytest.param(signal.SIGINT, "1", id="SIGINT, one worker", marks=pytest.mark.nightly),
    ],
)


class Holding:
    """A provider that holds every answer at a gate: streams after their first words, others before their headers."""

    def __init__(self) -> None:
        self.gate = Gate()

    def __call__(self, received: Received) -> Reply:
        """Answer in the protocol and the manner that was asked for."""
        protocol = next(protocol for protocol, path in PATHS.items() if received.target == path)
        if received.json().get("stream"):
            begun = speaking(protocol)
            return streamed(begun, self.gate, stream_of(protocol, turn(protocol)).removeprefix(begun))
        reply = whole(answer_of(protocol, turn(protocol)))
        body = reply.steps[0]
        assert isinstance(body, bytes)
        head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(body)
        return Reply(raw=True, steps=(self.gate, head + body))


# The client, whether it asked for a stream, and its connection.
Asked = tuple[str, bool, socket.socket]


def _ask_all(house: Served, gate: Gate) -> list[Asked]:
    """Ask in every pair of protocols, streamed and whole; wait until everything is under way."""
    asked: list[Asked] = []
    for client, provider in PAIRS:
        for stream in (True, False):
            asked.append((client, stream, house.send(PATHS[client], question(client, provider, stream=stream))))
    gate.reached(len(asked))
    for _, stream, end in asked:
        if stream:
            assert end.recv(1, socket.MSG_PEEK)
    return asked


def _read_all(asked: list[Asked], check: Callable[[str, bool, Answer], None]) -> None:
    for client, stream, end in asked:
        with end:
            told = read_answer(end)
        assert told.complete, told
        check(client, stream, told)


def _is_whole(client: str, stream: bool, told: Answer) -> None:
    assert told.status == 200
    assert is_finished(client, told.body) if stream else text_of(client, told.json())


def _is_told_of_the_end(client: str, stream: bool, told: Answer) -> None:
    assert told.status == (200 if stream else 503)
    failure = stream_failure(client, told.body) if stream else failure_of(client, told)
    assert "shutting down" in str(failure["message"])


def _refuses(house: Served) -> bool:
    try:
        house.connect().close()
    except ConnectionRefusedError:
        return True
    except ConnectionResetError:
        # The port was closed in the middle of the handshake; whoever comes next is refused.
        return False
    return False


@SIGNALS
def test_what_runs_ends_whole_and_nobody_new_is_let_in(number: signal.Signals, workers: str) -> None:
    holding = Holding()
    with serving(holding, arguments=("--workers", workers)) as house:
        idle = house.connect()
        asked = _ask_all(house, holding.gate)
        house.process.send(number)
        # Each process tells it once it lets nobody in any more; one of two may have nothing to do.
        house.process.log.wait(STOPPING)
        with idle:
            assert idle.recv(1) == b""
        wait_until(lambda: _refuses(house), "the port is closed")
        holding.gate.open()
        _read_all(asked, _is_whole)
        assert house.process.wait() == 0
        assert not [line for line in house.process.log.all() if ENDING in line]
        assert len(house.process.events("exchange")) == len(asked)


@pytest.mark.parametrize("workers", ["1", "2"], ids=["one worker", "two workers"])
def test_what_still_runs_after_the_limit_ends_in_the_clients_own_error_form(workers: str) -> None:
    holding = Holding()
    with serving(holding, "[timeouts]\ndrain = 0.1\n", arguments=("--workers", workers)) as house:
        asked = _ask_all(house, holding.gate)
        house.process.send(signal.SIGTERM)
        _read_all(asked, _is_told_of_the_end)
        assert house.process.wait() == 0
        holding.gate.deserted(len(asked))
        told = house.process.events("exchange")
        assert [line["failure"] for line in told] == ["shutdown"] * len(asked)


def test_a_client_that_disconnects_while_the_gateway_drains_has_cancelled_its_request() -> None:
    holding = Holding()
    with serving(holding, "[timeouts]\ndrain = 3600\n") as house:
        asked = _ask_all(house, holding.gate)
        house.process.send(signal.SIGTERM)
        house.process.log.wait(STOPPING)
        for _, _, end in asked:
            end.close()
        assert house.process.wait() == 0
        holding.gate.deserted(len(asked))
        lines = house.process.events("exchange")
        assert [line["failure"] for line in lines] == ["cancelled"] * len(asked)


@SIGNALS
def test_a_further_signal_ends_what_runs_in_the_clients_own_error_form(number: signal.Signals, workers: str) -> None:
    holding = Holding()
    more, arguments = "[timeouts]\ndrain = 3600\n", ("--workers", workers)
    with serving(holding, more, arguments=arguments, constants=EACH_COUNTS) as house:
        asked = _ask_all(house, holding.gate)
        for _ in range(2):
            house.process.send(number)
            house.process.log.wait(STOPPING)
        _read_all(asked, _is_told_of_the_end)
        assert house.process.wait() == 0
        told = house.process.events("exchange")
        assert [line["failure"] for line in told] == ["shutdown"] * len(asked)


def test_three_signals_skip_the_time_before_and_then_the_drain() -> None:
    holding = Holding()
    with serving(holding, "[timeouts]\nlame_duck = 3600\ndrain = 3600\n", constants=EACH_COUNTS) as house:
        asked = _ask_all(house, holding.gate)
        for number, line in ((signal.SIGTERM, SOON), (signal.SIGTERM, STOPPING), (signal.SIGINT, ENDING)):
            house.process.send(number)
            house.process.log.wait(line)
        _read_all(asked, _is_told_of_the_end)
        assert house.process.wait() == 0


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are found in /proc")
@pytest.mark.parametrize("workers", [1, 2], ids=["one worker", "two workers"])
def test_one_key_that_is_pressed_counts_once(workers: int) -> None:
    holding = Holding()
    more, arguments = "[timeouts]\ndrain = 3600\n", ("--workers", str(workers))
    with serving(holding, more, arguments=arguments, constants=ALL_COUNT_ONCE) as house:
        asked = _ask_all(house, holding.gate)
        children = running_workers(house.process.pid, workers) if workers > 1 else ()
        pids = (house.process.pid, *children)
        # As a terminal does, and as those do who tell a process and then its group.
        for pid in pids * 2:
            os.kill(pid, signal.SIGINT)
            wait_handled(pids)
        house.process.log.wait(STOPPING)
        holding.gate.open()
        _read_all(asked, _is_whole)
        assert house.process.wait() == 0


def test_a_limit_of_nothing_ends_everything_at_once() -> None:
    holding = Holding()
    with serving(holding, "[timeouts]\ndrain = 0\n") as house:
        asked = _ask_all(house, holding.gate)
        house.process.send(signal.SIGTERM)
        _read_all(asked, _is_told_of_the_end)
        assert house.process.wait() == 0


def test_what_began_under_a_former_configuration_is_told_of_the_end_too() -> None:
    holding = Holding()
    with serving(holding, "[timeouts]\ndrain = 0.1\n") as house:
        asked = _ask_all(house, holding.gate)
        house.replace_file(config(house.provider.port, '"new" = "chat/served"\n[timeouts]\ndrain = 0.1\n'))
        house.process.send(signal.SIGHUP)
        house.process.log.wait("configuration reloaded")
        house.process.send(signal.SIGTERM)
        _read_all(asked, _is_told_of_the_end)
        assert house.process.wait() == 0


def test_a_client_that_does_not_read_cannot_keep_the_gateway_from_ending() -> None:
    piece = stream_of(CHAT, turn(CHAT, "x" * 200_000)).split(b"\n\n")[1] + b"\n\n"
    gate = Gate()
    with (
        serving(lambda received: streamed(*(piece,) * 400, gate), "[timeouts]\ndrain = 0\n") as house,
        house.send(PATHS[MESSAGES], question(MESSAGES, CHAT, stream=True)) as end,
    ):
        assert end.recv(1, socket.MSG_PEEK)
        house.process.send(signal.SIGTERM)
        assert house.process.wait() == 0


def test_a_gateway_without_work_ends_at_once_and_is_silent_about_it() -> None:
    with serving(Holding()) as house:
        assert house.get("/readyz").status == 200
        assert house.stop() == 0
        # The first line is of its settings.
        assert len(house.process.log.all()) == 1


SOON = "stopping soon: no longer ready, and still serving"


def _says_so(house: Served) -> None:
    """All that come are served, and told that it is not ready and that their connection ends."""
    for _ in range(10):
        told = house.ask("GET", "/readyz", b"")
        assert (told.status, told.body) == (503, b"draining\n")
        assert house.get("/healthz").status == 200


@pytest.mark.parametrize("workers", [1, 2], ids=["one worker", "two workers"])
def test_a_balancer_sees_that_it_is_not_ready_before_the_port_is_closed(workers: int) -> None:
    holding = Holding()
    with serving(holding, "[timeouts]\nlame_duck = 3600\n", arguments=("--workers", str(workers))) as house:
        asked = _ask_all(house, holding.gate)
        with house.connect() as idle:
            house.process.send(signal.SIGTERM)
            house.process.log.wait(SOON, workers)
            _says_so(house)
            # A connection of before is served once more.
            idle.sendall(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n")
            assert read_answer(idle).header("connection") == "close"
        # New exchanges are let in, and end as if nothing were.
        holding.gate.open()
        _read_all(asked, _is_whole)
        with house.send(PATHS[CHAT], question(CHAT, CHAT, stream=True)) as end:
            told = read_answer(end)
        assert (told.status, told.header("connection")) == (200, "close")
        # Told once more, it stops.
        house.process.send(signal.SIGTERM)
        assert house.process.wait() == 0
        assert len(house.process.events("exchange")) == len(asked) + 1


@pytest.mark.parametrize("workers", ["1", "2"], ids=["one worker", "two workers"])
def test_the_time_before_the_port_is_closed_ends_by_itself(workers: str) -> None:
    with serving(Holding(), "[timeouts]\nlame_duck = 0.1\n", arguments=("--workers", workers)) as house:
        house.process.send(signal.SIGTERM)
        house.process.log.wait(SOON)
        assert house.process.wait() == 0
        assert _refuses(house)


def test_an_interrupt_from_the_keyboard_does_not_serve_on() -> None:
    with serving(Holding(), "[timeouts]\nlame_duck = 3600\n", arguments=("--workers", "2")) as house:
        house.process.send(signal.SIGINT)
        assert house.process.wait() == 0
        assert not [line for line in house.process.log.all() if SOON in line]


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are found in /proc")
def test_all_processes_may_be_told_at_once_and_one_may_die_meanwhile() -> None:
    with serving(Holding(), "[timeouts]\nlame_duck = 3600\n", arguments=("--workers", "2")) as house:
        workers = running_workers(house.process.pid, 2)
        # As a service manager does.
        for pid in (*workers, house.process.pid):
            os.kill(pid, signal.SIGTERM)
        house.process.log.wait(SOON, 2)
        _says_so(house)
        os.kill(min(workers), signal.SIGKILL)
        running_workers(house.process.pid, 1)
        _says_so(house)
        house.process.send(signal.SIGINT)
        assert house.process.wait() == 0


def test_a_client_that_goes_away_while_it_serves_on_was_not_sent_away() -> None:
    holding = Holding()
    with serving(holding, "[timeouts]\nlame_duck = 3600\n") as house:
        end = house.send(PATHS[CHAT], question(CHAT, CHAT, stream=True))
        holding.gate.reached()
        house.process.send(signal.SIGTERM)
        house.process.log.wait(SOON)
        end.close()
        (told,) = house.exchanges(1)
        assert told["failure"] == "cancelled"
        house.process.send(signal.SIGINT)
        assert house.process.wait() == 0
