"""Measurement of one attack: its duration, what it takes of the gateway process, and how late a neighbour's bytes are.

`ATTACKED_SOURCE=/path/to/src make attack` attacks the gateway of another checkout, for figures before and after.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct

from tests.attack.neighbour import Neighbour, warm_up
from tests.gateway.harness import Received, Reply
from tests.server.process import NO_CONSTANTS, NO_LINES, Constants, Served, serving
from tests.server.workers import children

MEBIBYTE = 1024 * 1024
# Seconds until an attacking client gives up.
PATIENCE = 30.0
# Gateway keys of the attacker and of the client beside it.
ATTACKER, OTHER = "dgm_key-of-the-attacker-0123456789abcdef", "dgm_key-of-another-client-0123456789abcdef"
KEYS = f'\n[keys.attacker]\nkey = "{ATTACKER}"\n[keys.other]\nkey = "{OTHER}"\n'
_SOURCE = "ATTACKED_SOURCE"


class Cost(Struct, kw_only=True):
    """One row of the table. `late` is by how many seconds a neighbour's bytes came late at worst.

    A figure that an attack does not measure is NaN.
    """

    name: str
    sent: int
    seconds: float
    result: str
    cpu: float = math.nan
    memory: float = math.nan
    late: float = math.nan


class Attack(Struct, frozen=True):
    """A named attack, which starts the processes that it needs."""

    name: str
    run: Callable[[str], Cost]


# What a client or a provider does to a gateway: how many bytes or requests it sent, and with which result.
Act = Callable[[Served], tuple[int, str]]


def source() -> str:
    """The directory of the attacked `dragoman` package; empty for the one of this checkout."""
    return os.environ.get(_SOURCE, "")


@contextmanager
def attacked(
    script: Callable[[Received], Reply],
    more: str = "",
    *,
    arguments: Sequence[str] = NO_LINES,
    constants: Constants = NO_CONSTANTS,
) -> Iterator[Served]:
    """A gateway process in front of a provider that follows a script; `more` is added to its configuration."""
    environment = {"PYTHONPATH": source()} if source() else None
    with serving(script, more, arguments=arguments, environment=environment, constants=constants) as house:
        yield house


def cpu_of(pid: int) -> float:
    """CPU seconds of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory_of(pid: int, field: str = "VmRSS") -> float:
    """Resident memory of a process in MB; its peak so far for the field `VmHWM`."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(field)) / 1024


def measured(name: str, house: Served, act: Act, *lines: str) -> Cost:
    """Attack a gateway beside a neighbour, whose request has these header lines."""
    pid = house.process.pid
    warm_up(house, *lines)
    with Neighbour(house, *lines) as neighbour:
        cpu, memory, begun = cpu_of(pid), memory_of(pid), time.monotonic()
        sent, result = act(house)
        seconds = time.monotonic() - begun
    alive = house.process.running
    return Cost(
        name=name,
        sent=sent,
        seconds=seconds,
        cpu=cpu_of(pid) - cpu if alive else math.nan,
        memory=memory_of(pid) - memory if alive else math.nan,
        late=neighbour.worst,
        result=result if alive else f"{result}; the process ended",
    )


def workers_of(house: Served) -> list[int]:
    """Process ids of the workers of a gateway."""
    return sorted(children(house.process.pid)) or [house.process.pid]


def beside(name: str, act: Act, script: Callable[[Received], Reply], more: str = "") -> Attack:
    """An attack on a gateway of its own with one worker."""

    def run(name: str) -> Cost:
        with attacked(script, more) as house:
            return measured(name, house, act, *(bearer(OTHER) if "[keys." in more else ()))

    return Attack(name, run)


def bearer(key: str) -> tuple[str]:
    """The header line with a gateway key."""
    return (f"authorization: Bearer {key}",)
