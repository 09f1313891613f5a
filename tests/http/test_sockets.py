"""What the system knows of a socket."""

from __future__ import annotations

import socket

from dragoman.http.sockets import readiness, unarrived
from tests.waiting import wait_until


def test_what_the_other_side_has_no_room_for_has_not_arrived() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        with socket.create_connection(listener.getsockname()) as near:
            near.setblocking(False)
            far, _ = listener.accept()
            assert unarrived(near.fileno()) == 0
            sent = near.send(b"x" * 1_000_000)
            wait_until(lambda: 0 < unarrived(near.fileno()) < sent, "a part has arrived, and not all")
            far.setblocking(True)
            while sent:
                sent -= len(far.recv(65536))
            far.send(b"!")
            near.setblocking(True)
            near.recv(1)
            assert unarrived(near.fileno()) == 0
            far.close()


def test_a_socket_that_is_closed_has_nothing_on_its_way() -> None:
    end = socket.socket()
    end.close()
    assert unarrived(end.fileno()) == 0


def test_a_socket_with_bytes_or_an_end_is_readable_and_an_idle_one_is_not() -> None:
    near, far = socket.socketpair()
    with near:
        look = readiness(near.fileno())
        with far:
            assert not look(0)
            far.send(b"!")
            assert look(0)
            assert near.recv(1) == b"!"
            assert not look(0)
        assert look(0)
    assert look(0)
    assert readiness(near.fileno())(0), "whatever a closed socket has is found out by reading it"
