"""The gateway of a launch: found where it runs, or started and ended; real processes."""

from __future__ import annotations

import os
import socket
import threading
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from dragoman.config.settings import Server
from dragoman.errors import DragomanError
from dragoman.launching.gateway import ForeignProcessError, addresses_of, find_running, gateway_started, is_running
from dragoman.launching.port_owners import TABLES
from tests.gateway.harness import running
from tests.server.process import clean_environment


def at(port: int) -> str:
    """The address of a gateway on this machine."""
    return f"http://127.0.0.1:{port}"


@pytest.mark.parametrize(
    ("host", "addresses"),
    [
        ("127.0.0.1", ["http://127.0.0.1:80", "http://[::1]:80"]),
        ("0.0.0.0", ["http://127.0.0.1:80", "http://[::1]:80"]),
        ("::1", ["http://[::1]:80", "http://127.0.0.1:80"]),
        ("gateway.example.org", ["http://127.0.0.1:80", "http://[::1]:80"]),
        ("evil.localhost", ["http://127.0.0.1:80", "http://[::1]:80"]),
        ("203.0.113.1", ["http://127.0.0.1:80", "http://[::1]:80"]),
    ],
)
def test_a_gateway_is_looked_for_on_this_machine_alone_whatever_the_file_says(host: str, addresses: list[str]) -> None:
    assert addresses_of(Server(host=host, port=80)) == addresses


def test_a_gateway_that_runs_is_found() -> None:
    with running() as house:
        assert find_running(Server(host="203.0.113.1", port=house.port)) == at(house.port)
    assert not is_running(at(house.port))


def test_a_free_port_is_no_gateway() -> None:
    assert find_running(Server(port=0)) is None


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"SSH-2.0-OpenSSH\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 13\r\n\r\n{'not': JSON}",
        b'HTTP/1.1 200 OK\r\ncontent-length: 18\r\n\r\n{"name":"another"}',
    ],
    ids=["nothing", "no HTTP", "no JSON", "another server"],
)
def test_another_server_is_no_gateway(answer: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        assert not is_running(at(listener.getsockname()[1]))
        thread.join(30)


def test_a_gateway_is_started_for_this_machine_alone_without_the_terminal_and_ended(tmp_path: Path) -> None:
    file = tmp_path / "dragoman.toml"
    file.write_text('[server]\nhost = "0.0.0.0"\nport = 1\n[keys.me]\nkey = "sk-0123456789abcdef-of-mine"\n')
    file.chmod(0o600)
    before = set(_serving())
    with gateway_started(["--config", str(file)], clean_environment(tmp_path)) as address:
        place = urlsplit(address)
        assert (place.scheme, place.hostname) == ("http", "127.0.0.1")
        assert place.port is not None
        assert is_running(at(place.port))
        (pid,) = set(_serving()) - before
        # It does not belong to the terminal.
        assert os.getsid(pid) == pid != os.getsid(0)
    assert not is_running(at(place.port))


def test_a_gateway_is_ended_after_an_error_too(tmp_path: Path) -> None:
    ports = []
    with pytest.raises(ZeroDivisionError), gateway_started([], clean_environment(tmp_path)) as address:
        ports.append(urlsplit(address).port or 0)
        raise ZeroDivisionError
    assert not is_running(at(ports[0]))


def test_a_gateway_that_does_not_start_is_told_in_its_own_words(tmp_path: Path) -> None:
    nowhere = str(tmp_path / "nowhere.toml")
    with (
        pytest.raises(DragomanError, match=r"the gateway did not start: dragoman: .*nowhere\.toml"),
        gateway_started(["--config", nowhere], clean_environment(tmp_path)),
    ):
        raise AssertionError("it did start")


def _serving() -> list[int]:
    """The gateways that this process has started; other tests may have some running."""
    return [
        int(entry.name)
        for entry in Path("/proc").iterdir()
        if entry.name.isdigit() and _parent(entry) == os.getpid() and b"serve" in (entry / "cmdline").read_bytes()
    ]


def _parent(entry: Path) -> int | None:
    try:
        return int((entry / "stat").read_text().rpartition(")")[2].split()[1])
    except FileNotFoundError:
        return None


@pytest.mark.skipif(not TABLES[0].exists(), reason="the system does not tell whose a port is")
def test_one_who_answers_and_is_gone_before_it_is_known_whose_he_is_is_not_believed() -> None:
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        connection, _ = listener.accept()
        listener.close()
        with connection:
            connection.recv(65536)
            connection.sendall(b'HTTP/1.1 200 OK\r\ncontent-length: 19\r\n\r\n{"name":"dragoman"}')

    thread = threading.Thread(target=serve)
    port = listener.getsockname()[1]
    thread.start()
    with pytest.raises(ForeignProcessError, match="belongs to another user"):
        find_running(Server(port=port))
    thread.join(30)
