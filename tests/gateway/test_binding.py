"""Binding: without keys the gateway listens for its own machine alone, and says why it cannot listen."""

from __future__ import annotations

import socket

import pytest

from dragoman.config.settings import Key, Server, Settings
from dragoman.errors import ConfigError
from dragoman.gateway.binding import bind, check_binding

LOOPBACK = ["127.0.0.1", "127.0.0.2", "127.255.255.254", "::1", "localhost", "dragoman.localhost"]
# What is not certainly loopback is not: better asked for a key once too often.
OPEN = [
    "0.0.0.0",
    "::",
    "",
    "192.168.1.7",
    "10.0.0.1",
    "8.8.8.8",
    "fe80::1",
    "gateway.example.org",
    "localhost.evil.example",
    "127.0.0.1.evil.example",
    "127.1",
    "2130706433",
    "0x7f000001",
    "1270.0.0.1",
    " 127.0.0.1",
]


@pytest.mark.parametrize("host", LOOPBACK)
def test_this_machine_alone_reaches(host: str) -> None:
    check_binding(Settings(server=Server(host=host)), open_to_all=False)


@pytest.mark.parametrize("host", OPEN)
def test_others_may_reach(host: str) -> None:
    settings = Settings(server=Server(host=host), file="dragoman.toml")
    with pytest.raises(ConfigError, match="dragoman key new") as caught:
        check_binding(settings, open_to_all=False)
    assert caught.value.key == "server.host"
    assert caught.value.file == "dragoman.toml"


@pytest.mark.parametrize("host", OPEN)
def test_others_may_be_let_in_with_keys_or_by_insisting(host: str) -> None:
    server = Server(host=host)
    check_binding(Settings(server=server, keys=(Key(name="a", digest=b"d"),)), open_to_all=False)
    check_binding(Settings(server=server), open_to_all=True)


def test_a_socket_listens_and_may_be_shared_by_workers() -> None:
    with bind("127.0.0.1", 0) as listener:
        assert listener.get_inheritable()
        assert not listener.getblocking()
        with socket.create_connection(listener.getsockname(), timeout=10):
            pass


def test_a_port_that_was_just_closed_can_be_taken_again() -> None:
    with bind("127.0.0.1", 0) as listener:
        port = listener.getsockname()[1]
        client = socket.create_connection(("127.0.0.1", port), timeout=10)
    client.close()
    with bind("127.0.0.1", port) as again:
        assert again.getsockname()[1] == port


def test_a_port_that_is_taken_is_told() -> None:
    with bind("127.0.0.1", 0) as listener:
        port = listener.getsockname()[1]
        with pytest.raises(ConfigError, match=f"cannot listen on 127.0.0.1:{port}: .*in use") as caught:
            bind("127.0.0.1", port)
    assert caught.value.key == "server.port"
    assert "--port" in caught.value.remedy


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
