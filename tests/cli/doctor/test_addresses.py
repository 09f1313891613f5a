"""Whether anybody answers at an address."""

from __future__ import annotations

import socket
import threading

import pytest

from dragoman.cli.doctor.environment import problem_at

# Seconds.
LONG = 60.0


def test_somebody_listens_or_nobody_does() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
        assert problem_at(url, LONG) == ""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        assert problem_at(f"http://127.0.0.1:{bound.getsockname()[1]}/v1", LONG) == "nothing listens there"


@pytest.mark.parametrize("url", ["", "nonsense", "ftp://x", "http://", "http://[::1", "http://x:99999"])
def test_what_is_no_address_is_told(url: str) -> None:
    assert problem_at(url) == "it is not an address"


# What connecting comes to, and what is said of it.
FAILURES: dict[str, tuple[OSError, str]] = {
    "no such host": (socket.gaierror(-2, "Name or service not known"), "its host has no address"),
    "silence": (TimeoutError(), "nothing responds there in time"),
    "no way there": (OSError(101, "Network is unreachable"), "it cannot be reached: Network is unreachable"),
}


@pytest.mark.parametrize("case", FAILURES)
def test_why_nobody_can_be_reached_is_told(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    error, words = FAILURES[case]

    def fail(*address: object, **how: object) -> None:
        raise error

    monkeypatch.setattr(socket, "create_connection", fail)
    assert problem_at("https://gateway.example.org", LONG) == words


def test_nobody_is_waited_for_who_looks_names_up(monkeypatch: pytest.MonkeyPatch) -> None:
    released = threading.Event()

    def hang(*address: object, **how: object) -> None:
        released.wait()
        raise TimeoutError

    monkeypatch.setattr(socket, "create_connection", hang)
    try:
        assert problem_at("https://gateway.example.org", 0.05) == "nothing responds there in time"
    finally:
        released.set()
