"""Serving an exchange: the straight line from a request to the end of its response, and its early ends."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

from msgspec import Struct

from dragoman.errors import DragomanError
from dragoman.gateway.exchange.calling import LeftOut, begin, call_target, try_target
from dragoman.gateway.exchange.exchange import Exchange, UnderstoodRequest
from dragoman.gateway.exchange.failing import disconnect, failed, follow_up, next_target, send_broken
from dragoman.gateway.exchange.understanding import understand
from dragoman.gateway.forwarding.provider_request import ProviderRequest
from dragoman.gateway.stored_responses.detached_client import DetachedClient
from dragoman.gateway.stored_responses.exchange_storage import ExchangeStorage
from dragoman.routing.target import Target


class Begun(Struct, frozen=True):
    """A request that was understood and prepared before, and what stores its response."""

    request: UnderstoodRequest
    prepared: ProviderRequest
    storage: ExchangeStorage


async def serve(exchange: Exchange, request: bytes | Awaitable[bytes] | Begun) -> None:
    """Serve a request by its body, which may still have to arrive, or one that was begun before."""
    try:
        await _serve(exchange, request)
    except asyncio.CancelledError:
        try:
            await exchange.last_moments()
            if not isinstance(exchange.client, DetachedClient):
                # The cancellation of a response in the background waits for its end, and has its conversation.
                await exchange.count_unfinished()
        finally:
            await _disconnect(exchange)
        raise
    except Exception:
        # An error of the gateway itself; the provider has worked all the same.
        exchange.abandon()
        raise
    finally:
        exchange.end()


async def _serve(exchange: Exchange, request: bytes | Awaitable[bytes] | Begun) -> None:
    target: Target | None = None
    missed = None
    try:
        if isinstance(request, Begun):
            exchange.storage.follow_up(request.storage)
            _set_request(exchange, request.request)
            attempt = begin(exchange, request.request, request.prepared.target)
            attempt.put(request.prepared)
            missed = await call_target(exchange, request.request, attempt, request.prepared.translated.body)
            if missed is None:
                return
        else:
            body = request if isinstance(request, bytes) else await request
            _set_request(exchange, await understand(exchange, body))
    except DragomanError as error:
        missed = failed(exchange, error)
        if missed is None:
            return
    target = await (next_target(exchange) if missed is None else follow_up(exchange, missed))
    while target is not None:
        missed = None
        try:
            assert exchange.request is not None
            missed = await try_target(exchange, exchange.request, target)
        except LeftOut:
            target = await next_target(exchange)
            continue
        except DragomanError as error:
            missed = failed(exchange, error)
        if missed is None:
            return
        target = await follow_up(exchange, missed)


def _set_request(exchange: Exchange, request: UnderstoodRequest) -> None:
    request.retry_state.has_client_keys = bool(exchange.runtime.settings.keys)
    exchange.request, exchange.responses.retry_state = request, request.retry_state


async def _disconnect(exchange: Exchange) -> None:
    """Finalize the exchange of a client that disconnected, or under which the gateway stops."""
    if disconnect(exchange, stopping=exchange.runtime.draining and not exchange.client.gone):
        try:
            await exchange.last_moments()
        finally:
            # There is no other time to send it.
            assert exchange.attempt is not None
            send_broken(exchange, exchange.attempt)
