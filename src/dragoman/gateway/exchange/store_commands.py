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
    CacheTurn,
    ExchangeEvent,
    Follow,
    Locate,
    Name,
    OwnerKnown,
    Reserve,
    ResolveReferences,
    Stored,
    StoreFull,
    StoreStreamed,
    Waiting,
)
from dragoman.gateway.exchange.timeouts import TimeLimits
from dragoman.gateway.observability.record_builder import RecordBuilder
from dragoman.gateway.runtime import Runtime
from dragoman.gateway.stored_responses.exchange_storage import ExchangeStorage
from dragoman.gateway.stored_responses.reference_resolver import refers
from dragoman.gateway.stored_responses.store_failures import NotStored
from dragoman.gateway.stored_responses.stored_state import locate_provider

# How long the store is waited for when nobody else waits, in seconds.
_LAST_MOMENTS = 2.0


class StoreCommands(ABC):
    """The part of a driver that knows the store."""

    # What becomes of the answer in the store, and of the note whose it is; whether nobody waits for it any more.
    _store_future: asyncio.Future[None] | None = None
    _owner_recording: asyncio.Future[bool] | None = None
    _leaving = False
    # What was looked up for the request, as the budget of its key has it.
    _reference_charge: ReaderCharge | None = None

    def __init__(self, runtime: Runtime, client_request: ClientRequest, client: Client, builder: RecordBuilder) -> None:
        self._runtime = runtime
        self._client_request = client_request
        self._client = client
        self._builder = builder
        self._clock = runtime.clock
        self._storage = ExchangeStorage(runtime, client_request.api_path, builder.record.key)
        self._limits = TimeLimits(runtime.loop, runtime.settings.timeouts, builder.record.started)

    @abstractmethod
    def _step(self, event: ExchangeEvent) -> Waiting | None:
        """Let the machine move."""

    # Before the provider.

    def _locate(self, command: Locate) -> Awaitable[object]:
        return locate_provider(
            self._runtime.state, self._client_request.key, command.references, owners_recorded=self._runtime.records_ids
        )

    async def _resolve_references(self, command: ResolveReferences) -> object:
        """Look up what a request refers to, which may be a thousand times its size."""
        request_references = command.parsed.references
        if request_references is None or not refers(request_references, native=True):
            return await self._storage.resolve(self._client_request.key, command.body, command.parsed, command.target)
        # Another target is told what was found anew.
        self._forget_request()
        async with self._runtime.unfinished.turn(self._builder.record.key) as charge:
            resolved = await self._storage.resolve(
                self._client_request.key, command.body, command.parsed, command.target
            )
            charge.take(resolved.size if resolved is not None else 0)
        self._reference_charge = charge
        return resolved

    def _forget_request(self) -> None:
        if self._reference_charge is not None:
            self._reference_charge.close()
            self._reference_charge = None

    def _reserve(self, command: Reserve) -> Awaitable[object]:
        return self._storage.begin(self._client_request.key, command.prepared)

    def _follow(self, command: Follow) -> Awaitable[object]:
        return self._storage.follow(self._client_request, self._client, self._builder, command.headers)

    # The answer.

    def _name(self, command: Name) -> Awaitable[object]:
        return self._storage.named(command.body)

    def _store_full(self, command: StoreFull) -> Awaitable[object]:
        return self._storage.store_response(command.prepared, command.body)

    def _store_streamed(self, command: StoreStreamed) -> None:
        self._store_future = future = self._storage.finalize(command.frames, at_once=command.at_once)
        if future is None:
            self._step(Stored())
        else:
            future.add_done_callback(self._was_stored)

    def _was_stored(self, future: asyncio.Future[None]) -> None:
        if future is not self._store_future or future.cancelled():
            return
        self._store_future = None
        error = future.exception()
        if error is None:
            self._step(Stored())
        elif not self._leaving:
            self._step(Stored(bare(error) if isinstance(error, DragomanError) else NotStored()))

    def _cache_turn(self, command: CacheTurn) -> None:
        self._storage.cache_turn(self._client_request.key, command.prepared, command.response)

    async def _await_stored(self, _: AwaitStored) -> None:
        self._limits.storing()
        while self._store_future is not None:
            await asyncio.wait({self._store_future})

    async def _last_moments(self) -> None:
        """Let the store try once more to keep an answer for which nobody can wait any longer."""
        if self._store_future is not None:
            self._leaving = True
            self._storage.expedite_now()
            await asyncio.wait({self._store_future}, timeout=_LAST_MOMENTS)

    def _await_owner(self, _: AwaitOwner) -> None:
        recording = self._storage.recording_owner
        if recording is not None and recording is not self._owner_recording:
            self._owner_recording = recording
            recording.add_done_callback(self._owner_known)

    def _owner_known(self, recording: asyncio.Future[bool]) -> None:
        if recording is self._owner_recording:
            self._owner_recording = None
            self._step(OwnerKnown(self._clock()))

    async def _wait_for_owner(self) -> None:
        """Wait until it is known whose the answer is: only then it is told."""
        if self._owner_recording is not None:
            await asyncio.wait({self._owner_recording})
