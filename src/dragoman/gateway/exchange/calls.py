"""Calls of one exchange, as its record has them: each is ended once, and it is said what became of it."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from dragoman.gateway.records.account import Account
from dragoman.gateway.records.record import Attempt
from dragoman.model.response import Usage
from dragoman.routing.outcomes import Kind, maybe_billed
from dragoman.routing.target import Target


class Calls:
    """Counts calls, and closes them in the record."""

    __slots__ = ("_account", "_before", "_clock", "_key", "_started", "_target", "count")

    def __init__(self, account: Account, clock: Callable[[], float]) -> None:
        self._account = account
        self._clock = clock
        self._before = len(account.record.attempts)
        self._target: Target | None = None
        self._key: str | None = None
        self._started = 0.0
        self.count = 0

    def begin(self, target: Target, key: str | None) -> None:
        """Know of a call that is about to be made."""
        self.count += 1
        self._target, self._key, self._started = target, key, self._clock()

    def ended(self, kind: Kind, *, usage: Usage | None = None, first: float = 0.0) -> tuple[Attempt, ...]:
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
            ended=self._clock(),
            usage=usage,
            first=first,
            key=keys.index(self._key) if self._key in keys else -1,
            maybe_billed=maybe_billed(kind),
        )
        self._target = None
        return (*before, closed)


def _undialled(target: Target, started: float) -> Attempt:
    return Attempt(
        provider=target.provider.name, model=target.shown, protocol=target.endpoint.protocol, started=started
    )
