"""Whose a port is, as the system's tables tell it."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from dragoman.launching.listeners import owners_of, strangers

HEAD = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
TAIL = "0 1583 1 000000004c34ad2f 100 0 0 10 0"
PORT = 8484
OTHER = os.geteuid() + 1000


def line(address: str, state: str, uid: int, port: int = PORT) -> str:
    """A socket as the table has it."""
    return f"   0: {address}:{port:04X} 00000000:0000 {state} 00000000:00000000 00:00000000 00000000 {uid:5} {TAIL}\n"


@pytest.mark.parametrize(
    ("lines", "others"),
    [
        ([], []),
        ([line("0100007F", "0A", os.geteuid())], []),
        ([line("0100007F", "0A", 0)], []),
        ([line("0100007F", "0A", OTHER)], [OTHER]),
        ([line("0100007F", "0A", os.geteuid()), line("0" * 32, "0A", OTHER)], [OTHER]),
        ([line("0100007F", "0A", OTHER, PORT + 1)], []),
        ([line("0100007F", "01", OTHER)], []),
    ],
    ids=[
        "nobody",
        "this user",
        "root",
        "another",
        "both",
        "another at another port",
        "another who called from there",
    ],
)
def test_a_port_of_another_user_is_known(tmp_path: Path, lines: list[str], others: list[int]) -> None:
    table = tmp_path / "tcp"
    table.write_text(HEAD + "".join(lines))
    owners = owners_of(PORT, (table, tmp_path / "none"))
    assert owners is not None
    assert strangers(owners) == others


def test_where_the_system_does_not_tell_nobody_is_known(tmp_path: Path) -> None:
    assert owners_of(PORT, (tmp_path / "none",)) is None


@pytest.mark.parametrize(("family", "host"), [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")])
def test_a_socket_of_this_process_is_ours(family: socket.AddressFamily, host: str) -> None:
    with socket.create_server((host, 0), family=family) as listener:
        assert owners_of(listener.getsockname()[1]) == frozenset({os.geteuid()})


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")
def test_a_socket_of_another_user_is_a_strangers() -> None:
    os.seteuid(65534)
    try:
        listener = socket.create_server(("127.0.0.1", 0))
    finally:
        os.seteuid(0)
    with listener:
        assert owners_of(listener.getsockname()[1]) == frozenset({65534})
