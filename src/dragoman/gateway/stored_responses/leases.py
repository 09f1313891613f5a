"""Leases: conversations that responses of this process have alone. A lease lasts 15 s; all are renewed every 3 s in one
unit, so that those of a killed process run out. Releases are posted, ahead of later work. A conversation that is leased
here is refused here, without the store."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

from dragoman.errors import ClientError
from dragoman.gateway.advice import printable
from dragoman.gateway.observability.logs import Log
from dragoman.gateway.stored_responses.store_failures import await_result, undone
from dragoman.store import Store, StoreBusy, StoreError, Tables
from dragoman.store.errors import StoreAway

_RENEW = 3.0
_AGAIN = 0.5


def locked(conversation: str) -> ClientError:
    """The error for a conversation in which a response is running."""
    return ClientError(
        409,
        f"Another response is being given in the conversation {printable(conversation)}; try again when it has ended.",
        param="conversation",
        code="conversation_locked",
    )


class Leases:
    """The leases of this process. Its timer runs only while something is, through a drain as well."""

    def __init__(self, store: Store | None, log: Log) -> None:
        self._store = store
        self._log = log
        # Each conversation, the response that has it, and its owner.
        self._held: dict[str, tuple[str, bytes]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._renewing = False

    async def take(
        self, owner: bytes, conversation: str, holder: str, stored_weight: tuple[int, int]
    ) -> Callable[[], None]:
        """Take the lease of a conversation that had `stored_weight`; give the function that releases it. One that a
        provider stores needs none. If it is leased, or has grown since it was read, the request is refused."""
        assert self._store is not None
        if self._held.get(conversation, (holder, owner)) != (holder, owner):
            raise locked(conversation)
        release = partial(self.release, conversation, holder, owner)

        def on_abandoned(ours: bool) -> None:
            if ours:
                release()

        leasing = partial(_lease, owner=owner, conversation=conversation, holder=holder, stored_weight=stored_weight)
        try:
            ours = await await_result(self._store.write(leasing, owner=owner, on_abandoned=on_abandoned), on_abandoned)
        except StoreError as error:
            raise undone(error, self._log) from None
        if not ours:
            return nothing
        self._held[conversation] = holder, owner
        self._arm(_RENEW)
        return release

    def release(self, conversation: str, holder: str, owner: bytes) -> None:
        assert self._store is not None
        if self._held.get(conversation) == (holder, owner):
            del self._held[conversation]
        self._store.post(lambda tables: tables.conversations.release(conversation, holder), owner=owner)

    def close(self) -> None:
        for conversation, (holder, owner) in [*self._held.items()]:
            self.release(conversation, holder, owner)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _arm(self, seconds: float) -> None:
        if self._timer is None and not self._renewing:
            self._timer = asyncio.get_running_loop().call_later(seconds, self._renew)

    def _renew(self) -> None:
        assert self._store is not None
        self._timer = None
        if self._held:
            self._renewing = True
            held = tuple(sorted((conversation, holder) for conversation, (holder, _) in self._held.items()))
            renewing = self._store.write(lambda tables: tables.conversations.renew(held), counts=False)
            renewing.add_done_callback(self._renewed)

    def _renewed(self, renewed: asyncio.Future[list[tuple[str, str]]]) -> None:
        self._renewing = False
        pause = _RENEW
        try:
            for conversation, holder in renewed.result():
                if conversation in self._held and self._held[conversation][0] == holder:
                    del self._held[conversation]
        except (StoreBusy, StoreAway):
            pause = _AGAIN
        except StoreError as error:
            # A lease ends by itself.
            self._log.event("warn", "cannot renew conversation leases", reason=str(error))
        if self._held:
            self._arm(pause)


def _lease(tables: Tables, *, owner: bytes, conversation: str, holder: str, stored_weight: tuple[int, int]) -> bool:
    """Whether a conversation is stored here, and leased from now on."""
    conversations = tables.conversations
    if conversations.find(owner, conversation) is None:
        return False
    if not conversations.lease(owner, conversation, holder) or conversations.weight(conversation) != stored_weight:
        raise locked(conversation)
    return True


def nothing() -> None:
    """The release of something that was never taken."""
