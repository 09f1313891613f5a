"""The thread that ends statements by their socket."""

from __future__ import annotations

import math
import socket
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager

from dragoman.store.statement_watcher import StatementWatcher
from tests.waiting import LIMIT


@contextmanager
def _watched() -> Iterator[tuple[StatementWatcher, socket.socket, socket.socket]]:
    """A watcher of one end of a pair of sockets."""
    ours, theirs = socket.socketpair()
    ours.settimeout(LIMIT)
    with closing(StatementWatcher()) as watcher, ours, theirs:
        watcher.watch(ours.fileno())
        yield watcher, ours, theirs


def test_a_statement_ends_at_its_deadline() -> None:
    with _watched() as (watcher, ours, _):
        watcher.begin(0.01)
        assert ours.recv(1) == b""
        assert watcher.has_fired


def test_a_statement_that_ended_is_left_alone_and_so_is_the_next_one() -> None:
    with _watched() as (watcher, ours, theirs):
        for _ in range(20):
            watcher.begin(LIMIT)
            watcher.end()
            assert watcher._deadline == math.inf
        watcher.begin(LIMIT)
        theirs.send(b"1")
        assert ours.recv(1) == b"1"
        assert not watcher.has_fired


def test_an_earlier_deadline_wakes_the_thread() -> None:
    with _watched() as (watcher, ours, _):
        watcher.begin(LIMIT * 10)
        watcher.end()
        watcher.begin(0.01)
        assert ours.recv(1) == b""


def test_only_the_present_socket_is_shut_down() -> None:
    with _watched() as (watcher, ours, theirs):
        ours_now, theirs_now = socket.socketpair()
        ours_now.settimeout(LIMIT)
        with ours_now, theirs_now:
            watcher.watch(ours_now.fileno())
            watcher.begin(0.01)
            assert ours_now.recv(1) == b""
            theirs.send(b"1")
            assert ours.recv(1) == b"1"


def test_the_thread_and_the_socket_go_with_the_watcher() -> None:
    with _watched() as (watcher, _, _):
        watcher.close()
        assert [thread.name for thread in threading.enumerate()].count("statements") == 0
        # A statement that runs on has nothing that could be shut down.
        watcher.begin(0)
        assert not watcher.has_fired
