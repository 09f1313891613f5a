"""Binding: a socket is there at once and listens when it may, or it is said why it cannot."""

from __future__ import annotations

import socket

import pytest

from dragoman.errors import ConfigError
from dragoman.gateway.processes import port_conflict
from dragoman.gateway.processes.listen_socket import bind, listen


@pytest.fixture(autouse=True)
def short_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """A listener that does not answer is not waited for: no test has one that does."""
    monkeypatch.setattr(port_conflict, "_TIMEOUT", 0.05)


def test_a_socket_listens_when_it_is_told_to_and_goes_to_no_other_program() -> None:
    with bind("127.0.0.1", 0) as listener:
        assert not listener.get_inheritable()
        assert not listener.getblocking()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(listener.getsockname(), timeout=10)
        listen(listener)
        with socket.create_connection(listener.getsockname(), timeout=10):
            pass


def test_a_port_that_was_just_closed_can_be_taken_again() -> None:
    with bind("127.0.0.1", 0) as listener:
        listen(listener)
        port = listener.getsockname()[1]
        client = socket.create_connection(("127.0.0.1", port), timeout=10)
    client.close()
    with bind("127.0.0.1", port) as again:
        assert again.getsockname()[1] == port


def test_a_port_that_is_taken_is_told() -> None:
    with bind("127.0.0.1", 0) as listener:
        listen(listener)
        port = listener.getsockname()[1]
        with pytest.raises(ConfigError, match=f"cannot listen on 127.0.0.1:{port}: .*in use") as caught:
            bind("127.0.0.1", port)
    assert caught.value.key == "server.port"
    assert "--port" in caught.value.remedy


def test_a_port_that_is_taken_between_the_two_steps_is_told() -> None:
    with bind("127.0.0.1", 0) as first, bind("127.0.0.1", first.getsockname()[1]) as second:
        listen(first)
        with pytest.raises(ConfigError, match="in use") as caught:
            listen(second)
    assert caught.value.key == "server.port"


UNUSABLE = {
    "an address of another machine": ("192.0.2.1", 0),
    "a name that nobody can have": ("no..such..name", 0),
    "a name that is too long": ("a" * 300, 0),
    "a port beyond the last": ("127.0.0.1", 65536 + 80),
    "a port below the first": ("127.0.0.1", -1),
}


@pytest.mark.parametrize("case", UNUSABLE)
def test_an_address_that_cannot_be_listened_on_is_told(case: str) -> None:
    with pytest.raises(ConfigError, match=r"cannot listen on .*:-?\d+: \w+") as caught:
        bind(*UNUSABLE[case])
    assert "None" not in caught.value.problem
    option = "--port" if "port" in case else "--host"
    assert option in caught.value.remedy
    assert caught.value.key == f"server.{option[2:]}"
