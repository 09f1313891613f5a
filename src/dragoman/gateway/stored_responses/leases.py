"""Leases: the conversations that responses of this process have for themselves.

A lease lasts fifteen seconds and is renewed every three, all of them in one transaction: those of a process that was
killed end by themselves. What a busy store does not take is tried again shortly: a renewal, and a release. Until then
what is held here is had by nobody else here, and whoever comes to the store first brings the rest with it.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from functools import partial

from dragoman.errors import ClientError
from dragoman.gateway.records.logs import Log
from dragoman.gateway.routes import shown
from dragoman.store import Store, is_busy

_RENEW = 3.0
_AGAIN = 0.5


def locked(conversation: str) -> ClientError:
    """What is told while a response is given in a conversation."""
    return ClientError(
        409,
        f"Another response is being given in the conversation {shown(conversation)}; try again when it has ended.",
        param="conversation",
        code="conversation_locked",
    )


class Leases:
    """What is held here. Its timer runs only while something is, through a drain as well."""

    def __init__(self, store: Store | None, log: Log) -> None:
        self._store = store
        self._log = log
        # Each conversation, and the response that has it.
        self._held: dict[str, str] = {}
        self._over: set[tuple[str, str]] = set()
        # Whether the store did not take the last renewal.
        self._late = False
        self._timer: asyncio.TimerHandle | None = None
        self._when = 0.0

    def take(self, owner: bytes, conversation: str, holder: str) -> bool:
        """Have a conversation alone; False while another response is given in it."""
        assert self._store is not None
        if self._held.get(conversation, holder) != holder:
            return False
        with self._store.transaction():
            self._let_go()
            if self._late:
                self._renewed()
            if not self._store.conversations.lease(owner, conversation, holder):
                return False
        self._held[conversation] = holder
        self._arm(_RENEW)
        return True

    def release(self, conversation: str, holder: str) -> None:
        """Let others have it, now or as soon as the store takes it."""
        if self._held.get(conversation) == holder:
            del self._held[conversation]
        self._over.add((conversation, holder))
        self._let_go()
        if self._over:
            self._arm(_AGAIN)

    def renew(self) -> None:
        """Have everything for longer, and let go of what is over."""
        self._timer = None
        self._let_go()
        self._late = bool(self._held) and not self._tried(self._renewed)
        if self._over or self._late:
            self._arm(_AGAIN)
        elif self._held:
            self._arm(_RENEW)

    def close(self) -> None:
        """Let go of everything, as far as the store takes it."""
        self._over |= set(self._held.items())
        self._held.clear()
        self._let_go()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _renewed(self) -> None:
        assert self._store is not None
        for conversation, _ in self._store.conversations.renew(sorted(self._held.items())):
            del self._held[conversation]
        self._late = False

    def _let_go(self) -> None:
        for conversation, holder in tuple(self._over):
            assert self._store is not None
            if self._tried(partial(self._store.conversations.release, conversation, holder)):
                self._over.discard((conversation, holder))

    def _tried(self, work: Callable[[], None]) -> bool:
        """Whether it need not be tried again; where the store fails, a lease ends by itself."""
        try:
            work()
        except sqlite3.Error as error:
            if is_busy(error):
                return False
            self._log.event("warn", "conversations could not be looked after", why=str(error))
        return True

    def _arm(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        due = loop.time() + seconds
        if self._timer is not None:
            if self._when <= due:
                return
            self._timer.cancel()
        self._when = due
        self._timer = loop.call_at(due, self.renew)
