"""What is made of a gateway that does not tell, tells nonsense, or is not there."""

from __future__ import annotations

import socket
import threading

import pytest

from dragoman.errors import DragomanError
from dragoman.launching.gateway import fetch_names

OK = b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b"


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (b"", "did not answer"),
        (b"SSH-2.0-OpenSSH\r\n", "did not answer"),
        (b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n", "status 404"),
        (OK % (2, b"{}"), "in a format"),
        (OK % (14, b'{"names": [5]}'), "in a format"),
        (OK % (5, b"<html"), "in a format"),
    ],
    ids=["nothing", "no HTTP", "an older gateway", "no names", "no objects", "no JSON"],
)
def test_what_is_wrong_is_told(answer: bytes, words: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(answer)

        thread = threading.Thread(target=serve)
        address = f"http://127.0.0.1:{listener.getsockname()[1]}"
        thread.start()
        with pytest.raises(DragomanError, match=words):
            fetch_names(address, "key")
        thread.join(30)
    with pytest.raises(DragomanError, match="did not answer"):
        fetch_names(address, "key")
