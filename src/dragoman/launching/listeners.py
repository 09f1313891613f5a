"""Listeners: whose a port of this machine is. Whoever listens there is told prompts and keys."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

# One line for each socket: https://docs.kernel.org/networking/proc_net_tcp.html
TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
_LISTENS = "0A"
_ROOT = 0


def stranger_at(port: int, tables: Sequence[Path] = TABLES) -> int | None:
    """The number of another user who listens at a port; None if there is none, or where the system does not tell.

    It is no matter on which address: what is only half ours is not ours.
    """
    owners = {owner for table in tables for owner in _owners(table, port)}
    return next((owner for owner in sorted(owners) if owner not in (_ROOT, os.geteuid())), None)


def _owners(table: Path, port: int) -> Iterator[int]:
    try:
        lines = table.read_text(encoding="ascii").splitlines()[1:]
    except OSError:
        return
    for line in lines:
        # Number, local address, other address, state, queues, timers, retransmits, user …
        fields = line.split()
        if fields[3] == _LISTENS and int(fields[1].rpartition(":")[2], 16) == port:
            yield int(fields[7])
