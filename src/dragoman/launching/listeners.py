"""Listeners: whose a port of this machine is. Whoever listens there is told prompts and keys."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

# One line for each socket: https://docs.kernel.org/networking/proc_net_tcp.html
TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
_LISTENS = "0A"
_ROOT = 0


def owners_of(port: int, tables: Sequence[Path] = TABLES) -> frozenset[int] | None:
    """The users who listen at a port, on whichever address; None where the system does not tell."""
    told = [table.read_text(encoding="ascii") for table in tables if table.exists()]
    return frozenset(owner for text in told for owner in _owners(text, port)) if told else None


def strangers(owners: frozenset[int]) -> list[int]:
    """Those of the users who are neither this one nor root."""
    return sorted(owners - {_ROOT, os.geteuid()})


def _owners(table: str, port: int) -> Iterator[int]:
    for line in table.splitlines()[1:]:
        # Number, local address, other address, state, queues, timers, retransmits, user …
        fields = line.split()
        if fields[3] == _LISTENS and int(fields[1].rpartition(":")[2], 16) == port:
            yield int(fields[7])
