"""Store acts: what the driver does with the store: look up, recall, reserve and keep, and wait for all that.

The store answers from another thread, and calls back into the machine when something is kept or noted.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable

from dragoman.errors import DragomanError, bare
from dragoman.gateway.byte_budget import ReaderCharge
from dragoman.gateway.exchange.client import Client, ClientRequest
from dragoman.gateway.exchange.events_commands import (
    AwaitOwner,
    AwaitStored,
    ExchangeEvent,
    Follow,
    Keep,
    KeepTurn,
    KeepWhole,
    Locate,
    Name,
    OwnerKnown,
    Recall,
    Reserve,
    Stored,
    Waiting,
)
from dragoman.gateway.exchange.timeouts import TimeLimits
from dragoman.gateway.observability.record_builder import RecordBuilder
from dragoman.gateway.runtime import Runtime
from dragoman.gateway.stored_responses.exchange_storage import ExchangeStorage
from dragoman.gateway.stored_responses.reference_resolver import refers
from dragoman.gateway.stored_responses.store_failures import NotStored
from dragoman.gateway.stored_responses.stored_state import located

# How long the store is waited for when nobody else waits, in seconds.
_LAST_MOMENTS = 2.0


class StoreCommands(ABC):
    """The part of a driver that knows the store."""

    # What becomes of the answer in the store, and of the note whose it is; whether nobody waits for it any more.
    _keeper: asyncio.Future[None] | None = None
    _noting: asyncio.Future[bool] | None = None
    _leaving = False
    # What was looked up for the request, as the budget of its key has it.
    _recalled: ReaderCharge | None = None

    def __init__(self, service: Runtime, asked: ClientRequest, client: Client, account: RecordBuilder) -> None:
        self._service = service
        self._asked = asked
        self._client = client
        self._account = account
        self._clock = service.clock
        self._memory = ExchangeStorage(service, asked.api_path, account.record.key)
        self._limits = TimeLimits(service.loop, service.settings.timeouts, account.record.started)

    @abstractmethod
    def _step(self, event: ExchangeEvent) -> Waiting | None:
        """Let the machine move."""

    # Before the provider.

    def _locate(self, command: Locate) -> Awaitable[object]:
        return located(self._service.state, self._asked.key, command.said, noted=self._service.notes_ids)

    async def _recall(self, command: Recall) -> object:
        """Look up what a request refers to, which may be a thousand times its size."""
        said = command.looked.said
        if said is None or not refers(said, native=True):
            return await self._memory.recall(self._asked.key, command.body, command.looked, command.target)
        # Another target is told what was found anew.
        self._forget_request()
        async with self._service.unfinished.turn(self._account.record.key) as charge:
            found = await self._memory.recall(self._asked.key, command.body, command.looked, command.target)
            charge.take(found.size if found is not None else 0)
        self._recalled = charge
        return found

    def _forget_request(self) -> None:
        if self._recalled is not None:
            self._recalled.close()
            self._recalled = None

    def _reserve(self, command: Reserve) -> Awaitable[object]:
        return self._memory.begin(self._asked.key, command.prepared)

    def _follow(self, command: Follow) -> Awaitable[object]:
        return self._memory.follow(self._asked, self._client, self._account, command.headers)

    # The answer.

    def _name(self, command: Name) -> Awaitable[object]:
        return self._memory.named(command.body)

    def _keep_whole(self, command: KeepWhole) -> Awaitable[object]:
        return self._memory.keep(command.prepared, command.body)

    def _keep(self, command: Keep) -> None:
        self._keeper = keeper = self._memory.settle(command.frames, at_once=command.at_once)
        if keeper is None:
            self._step(Stored())
        else:
            keeper.add_done_callback(self._was_kept)

    def _was_kept(self, keeper: asyncio.Future[None]) -> None:
        if keeper is not self._keeper or keeper.cancelled():
            return
        self._keeper = None
        error = keeper.exception()
        if error is None:
            self._step(Stored())
        elif not self._leaving:
            self._step(Stored(bare(error) if isinstance(error, DragomanError) else NotStored()))

    def _keep_turn(self, command: KeepTurn) -> None:
        self._memory.keep_turn(self._asked.key, command.prepared, command.answer)

    async def _await_kept(self, _: AwaitStored) -> None:
        self._limits.settling()
        while self._keeper is not None:
            await asyncio.wait({self._keeper})

    async def _last_moments(self) -> None:
        """Let the store try once more to keep an answer for which nobody can wait any longer."""
        if self._keeper is not None:
            self._leaving = True
            self._memory.hurry()
            await asyncio.wait({self._keeper}, timeout=_LAST_MOMENTS)

    def _tell_noted(self, _: AwaitOwner) -> None:
        noting = self._memory.noting
        if noting is not None and noting is not self._noting:
            self._noting = noting
            noting.add_done_callback(self._was_noted)

    def _was_noted(self, noting: asyncio.Future[bool]) -> None:
        if noting is self._noting:
            self._noting = None
            self._step(OwnerKnown(self._clock()))

    async def _noted(self) -> None:
        """Wait until it is known whose the answer is: only then it is told."""
        if self._noting is not None:
            await asyncio.wait({self._noting})
