"""Port owners: the users and processes that listen at a port of this machine. The listener gets prompts and keys."""

from __future__ import annotations

import os
from collections.abc import Sequence, Set
from pathlib import Path

# One line per socket: https://docs.kernel.org/networking/proc_net_tcp.html
TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
# One directory per process: https://docs.kernel.org/filesystems/proc.html
PROCESSES = Path("/proc")
_LISTENS = "0A"
_ROOT = 0


def owners_of(port: int, tables: Sequence[Path] = TABLES) -> frozenset[int] | None:
    """The users who listen at a port, on any address; None if the system does not report it."""
    listening = _listening(port, tables)
    return None if listening is None else frozenset(int(fields[7]) for fields in listening)


def processes_of(port: int, tables: Sequence[Path] = TABLES, processes: Path = PROCESSES) -> list[int]:
    """The processes that listen at a port, without child processes of these, as far as this user may read them."""
    sockets = {f"socket:[{fields[9]}]" for fields in _listening(port, tables) or ()}
    if not sockets:
        return []
    listening = {int(folder.name): folder for folder in processes.glob("[0-9]*") if _has_open(folder, sockets)}
    return sorted(pid for pid, folder in listening.items() if _parent_of(folder) not in listening)


def _has_open(process: Path, sockets: Set[str]) -> bool:
    """Whether a process has one of these sockets open. Processes of other users are unreadable, and some end
    meanwhile."""
    try:
        return any(str(link.readlink()) in sockets for link in (process / "fd").iterdir())
    except OSError:
        return False


def _parent_of(process: Path) -> int:
    try:
        # The name is in parentheses and may be any text. State and parent follow it.
        return int((process / "stat").read_text(errors="replace").rpartition(")")[2].split()[1])
    except (OSError, IndexError, ValueError):
        return 0


def foreign_users(owners: frozenset[int]) -> list[int]:
    return sorted(owners - {_ROOT, os.geteuid()})


def _listening(port: int, tables: Sequence[Path]) -> list[list[str]] | None:
    """The fields of each socket that listens at a port; None if the system does not report it."""
    contents = [table.read_text(encoding="ascii") for table in tables if table.exists()]
    # Number, local address, other address, state, queues, timers, retransmits, user, timeout, inode …
    sockets = (line.split() for text in contents for line in text.splitlines()[1:])
    listening = [each for each in sockets if each[3] == _LISTENS and int(each[1].rpartition(":")[2], 16) == port]
    return listening if contents else None
