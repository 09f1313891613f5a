"""Processes: which of them listen at a port of this machine, where the system tells."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from dragoman.launching.listeners import TABLES

_LISTENS = "0A"
_PROCESSES = Path("/proc")


def processes_at(port: int, tables: Sequence[Path] = TABLES) -> frozenset[int]:
    """The processes that listen at a port and belong to this user; none where the system does not tell."""
    sockets = {f"socket:[{inode}]" for table in tables for inode in _inodes(table, port)}
    if not sockets:
        return frozenset()
    return frozenset(int(process.name) for process in _PROCESSES.iterdir() if _holds(process, sockets))


def _inodes(table: Path, port: int) -> Iterator[str]:
    if not table.exists():
        return
    for line in table.read_text(encoding="ascii").splitlines()[1:]:
        # Number, local address, other address, state, queues, timers, retransmits, user, timeout, inode …
        fields = line.split()
        if fields[3] == _LISTENS and int(fields[1].rpartition(":")[2], 16) == port:
            yield fields[9]


def _holds(process: Path, sockets: set[str]) -> bool:
    if not process.name.isdecimal():
        return False
    try:
        entries = list((process / "fd").iterdir())
    except OSError:
        # It has ended, or is another user's.
        return False
    return any(_target(entry) in sockets for entry in entries)


def _target(entry: Path) -> str:
    try:
        return str(entry.readlink())
    except OSError:
        # It was closed meanwhile.
        return ""
