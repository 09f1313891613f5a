"""Server state: what a worker knows of the database server: whether it answers, its clock, and which server it is
(decision 47). The heartbeat of the worker writes it; every thread may read it.

    state      becomes            when                                                  work for the database
    present    away               a connection is lost, or a heartbeat fails            is done
    away       present, settling  a heartbeat returns                                   fails at once
    settling   present            25 s later                                            is done; leases of others hold
    any        settling           another server answers: after a failover or restart
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from msgspec import Struct

# Seconds for which no lease is taken over, because its holder could not renew it: longer than every lease.
SETTLING = 25.0


class ServerAnswer(Struct, frozen=True, kw_only=True):
    """The answer to a heartbeat: the server's clock in seconds since 1970, which server it is, and which database."""

    clock: float
    # System identifier, timeline and start time: another one after a failover or a restart.
    epoch: str
    # Made with the schema, and copied with it.
    database: str


class ServerState:
    """The state of the server of one worker. `report` gets each change, with the reason why it is away."""

    def __init__(
        self,
        report: Callable[[str, str], None] = lambda message, reason: None,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self._report = report
        self._clock = clock
        self._wall_clock = wall_clock
        self._lock = threading.Lock()
        self._answer: ServerAnswer | None = None
        # When it answered, by the clock of this machine, and since when leases of others may have run out unseen.
        self._answered_at = 0.0
        self._settled_at = 0.0
        self._lost_at: float | None = None
        # Why it is away; "" if it is not.
        self.problem = ""

    @property
    def is_away(self) -> bool:
        """Whether work for the database fails without a try."""
        return bool(self.problem)

    @property
    def epoch(self) -> str:
        """Which server answered last; "" before any did."""
        return "" if self._answer is None else self._answer.epoch

    @property
    def database(self) -> str:
        """Which database answered last; "" before any did."""
        return "" if self._answer is None else self._answer.database

    def now(self) -> float:
        """The time of the server, in seconds since 1970; that of this machine before any server answered."""
        answer = self._answer
        return self._wall_clock() if answer is None else answer.clock + self._clock() - self._answered_at

    def lease_time(self) -> float:
        """The time by which leases of others end. While the server was away none could be renewed, so that time
        stands still until holders had time to."""
        lost_at = self._lost_at
        return self.now() if lost_at is None or self._clock() >= self._settled_at else min(lost_at, self.now())

    def answered(self, answer: ServerAnswer) -> None:
        """The server has answered a heartbeat."""
        with self._lock:
            before, was_away = self._answer, self.is_away
            now = self._clock()
            if before is None or was_away or before.epoch != answer.epoch:
                # The time of the first server is that of its leases; later, the last one before the outage.
                if self._clock() >= self._settled_at or self._lost_at is None:
                    self._lost_at = answer.clock - SETTLING if before is None else before.clock
                self._settled_at = now + SETTLING
            self._answer, self._answered_at, self.problem = answer, now, ""
        if was_away:
            self._report("the database answers again", "")
        elif before is not None and before.epoch != answer.epoch:
            self._report("another server of the database answers", "failover or restart")

    def lost(self, problem: str) -> None:
        """The server does not answer."""
        with self._lock:
            was_away, self.problem = self.is_away, problem
        if not was_away:
            self._report("the database is away", problem)
