"""What a driver does with the store, beside the exchanges in which the store is seen."""

from __future__ import annotations

import asyncio

from dragoman.gateway.exchange.client import ClientRequest
from dragoman.gateway.exchange.events_commands import (
    AwaitOwner,
    AwaitStored,
    ExchangeEvent,
    Stored,
    StoreStreamed,
    Waiting,
)
from dragoman.gateway.exchange.store_commands import StoreCommands
from dragoman.gateway.observability.record import Record
from dragoman.gateway.paths import api_path_of
from dragoman.gateway.runtime import Runtime
from dragoman.gateway.stored_responses.detached_client import DetachedClient
from tests.gateway.exchange.played import served_by
from tests.gateway.harness import PATHS, RESPONSES


class Acts(StoreCommands):
    """Acts whose machine only remembers what it heard."""

    def __init__(self, service: Runtime) -> None:
        record = Record(id="req_1", client_protocol=RESPONSES, path="", started=service.clock(), time=0.0)
        asked = ClientRequest(api_path=api_path_of(PATHS[RESPONSES]), headers=[])
        super().__init__(service, asked, DetachedClient(), service.builder_of(record))
        self.heard: list[ExchangeEvent] = []

    def _step(self, event: ExchangeEvent) -> Waiting | None:
        self.heard.append(event)
        return None

    async def keep(self) -> None:
        """Keep an answer, and wait for that."""
        self._store_streamed(StoreStreamed(b"data: {}\n\n"))
        await self._await_stored(AwaitStored())

    async def note(self) -> None:
        """Tell what was noted, and wait for that."""
        self._await_owner(AwaitOwner())
        await self._wait_for_owner()

    async def leave(self) -> None:
        """The last moments of an exchange that nobody waits for."""
        await self._last_moments()


def test_what_the_store_has_nothing_to_do_with_is_kept_at_once_and_waits_for_nobody() -> None:
    heard: list[ExchangeEvent] = []

    async def hear(acts: Acts) -> None:
        async with asyncio.timeout(0):
            await acts.keep()
            await acts.note()
            await acts.leave()
        heard.extend(acts.heard)

    served_by(lambda service: hear(Acts(service)))
    assert heard == [Stored()]
