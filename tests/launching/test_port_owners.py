"""Whose a port is, as the system's tables tell it."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from dragoman.launching.port_owners import foreign_users, owners_of, processes_of

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
    assert foreign_users(owners) == others


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


def _process(processes: Path, pid: int, parent: int, *sockets: int) -> None:
    """A process as the system shows it."""
    folder = processes / str(pid)
    (folder / "fd").mkdir(parents=True)
    (folder / "stat").write_text(f"{pid} (a name) with ) in it) S {parent} 1 1 0 -1")
    for number, inode in enumerate(sockets):
        (folder / "fd" / str(number)).symlink_to(f"socket:[{inode}]")


def test_the_process_that_listens_is_known_and_not_those_that_it_started(tmp_path: Path) -> None:
    table, processes = tmp_path / "tcp", tmp_path / "proc"
    table.write_text(HEAD + line("0100007F", "0A", 0) + line("0100007F", "0A", 0, PORT + 1).replace("1583", "99"))
    _process(processes, 10, 1, 99, 7)
    _process(processes, 20, 1, 7, 1583)
    _process(processes, 21, 20, 1583)
    _process(processes, 22, 20, 1583)
    # One of another user, whose files cannot be seen; and what is no process.
    (processes / "30").mkdir()
    (processes / "net").mkdir()
    assert processes_of(PORT, (table,), processes) == [20]
    assert processes_of(PORT + 1, (table,), processes) == [10]
    assert processes_of(PORT + 2, (table,), processes) == []
    # Two that both took the port by themselves.
    _process(processes, 40, 1, 1583)
    assert processes_of(PORT, (table,), processes) == [20, 40]


def test_where_the_system_does_not_tell_no_process_is_known(tmp_path: Path) -> None:
    assert processes_of(PORT, (tmp_path / "none",), tmp_path) == []


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="processes are found in /proc")
def test_this_process_is_found_while_it_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        assert processes_of(listener.getsockname()[1]) == [os.getpid()]
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        assert processes_of(bound.getsockname()[1]) == []
