"""Which processes listen at a port."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from dragoman.launching.listeners import TABLES
from dragoman.launching.processes import processes_at


@pytest.mark.skipif(not TABLES[0].exists(), reason="the system does not tell")
def test_a_listener_is_found_while_it_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        assert processes_at(port) == {os.getpid()}
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        assert processes_at(bound.getsockname()[1]) == frozenset()


def test_where_the_system_does_not_tell_nobody_is_found(tmp_path: Path) -> None:
    assert processes_at(1, [tmp_path / "nowhere"]) == frozenset()
