"""Calls of one exchange, as its record has them: each is ended once, and it is said what became of it."""

from __future__ import annotations

from msgspec.structs import replace

from dragoman.gateway.records.account import Account
from dragoman.gateway.records.record import Attempt
from dragoman.gateway.traffic import Traffic
from dragoman.model.response import Usage
from dragoman.routing.outcomes import Kind, maybe_billed
from dragoman.routing.target import Target


class Calls:
    """Counts calls, and closes them in the record."""

    __slots__ = ("_account", "_before", "_charged", "_key", "_size", "_started", "_target", "_traffic", "count")

    def __init__(self, account: Account, traffic: Traffic) -> None:
        self._account = account
        self._traffic = traffic
        # Targets that this exchange was a failure for.
        self._charged: set[str] = set()
        self._size = 0
        self._before = len(account.record.attempts)
        self._target: Target | None = None
        self._key: str | None = None
        self._started = 0.0
        self.count = 0

    def begin(self, target: Target, key: str | None, size: int) -> None:
        """Know of a call that is about to be made, with so many bytes."""
        self.count += 1
        self._target, self._key, self._size, self._started = target, key, size, self._traffic.clock()

    def ended(
        self, kind: Kind, *, usage: Usage | None = None, first: float = 0.0, slowed: bool = False
    ) -> tuple[Attempt, ...]:
        """The record's attempts with what became of the last call; it is said once of each."""
        attempts, target = self._account.record.attempts, self._target
        if target is None:
            return attempts
        if len(attempts) - self._before >= self.count:
            *before, last = attempts
        else:
            # Nobody could even be dialled.
            before, last = [*attempts], _undialled(target, self._started)
        keys = target.provider.keys
        closed = replace(
            last,
            kind=kind.value,
            ended=self._traffic.clock(),
            usage=usage,
            first=first,
            key=keys.index(self._key) if self._key in keys else -1,
            maybe_billed=maybe_billed(kind),
        )
        self._traffic.ended(
            target,
            kind,
            began=self._started,
            first=first,
            usage=usage,
            size=self._size,
            charged=self._charged,
            slowed=slowed,
        )
        self._target = None
        return (*before, closed)


def _undialled(target: Target, started: float) -> Attempt:
    return Attempt(
        provider=target.provider.name, model=target.shown, protocol=target.endpoint.protocol, started=started
    )
