"""Serving an exchange: the straight line from a request to the end of its response, and its early ends."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

from msgspec import Struct

from dragoman.errors import DragomanError
from dragoman.gateway.exchange.attempt import Missed
from dragoman.gateway.exchange.calling import LeftOut, begin, call_target, prepare_target
from dragoman.gateway.exchange.exchange import Exchange, UnderstoodRequest
from dragoman.gateway.exchange.failing import disconnect, failed, follow_up, next_target, return_decisive, send_broken
from dragoman.gateway.exchange.understanding import understand
from dragoman.gateway.forwarding.provider_request import ProviderRequest
from dragoman.gateway.stored_responses.detached_client import DetachedClient
from dragoman.gateway.stored_responses.exchange_storage import ExchangeStorage


class Begun(Struct, frozen=True):
    """A request that was understood and prepared before, and what stores its response."""

    request: UnderstoodRequest
    prepared: ProviderRequest
    storage: ExchangeStorage


async def serve(exchange: Exchange, request: bytes | Awaitable[bytes] | Begun) -> None:
    """Serve a request by its body, which may still have to arrive, or one that was begun before."""
    try:
        understood = target = missed = None
        try:
            if isinstance(request, Begun):
                understood = request.request
                missed = await _call_begun(exchange, request)
                if missed is None:
                    return
            else:
                body = request if isinstance(request, bytes) else await request
                understood = await understand(exchange, body)
                exchange.set_request(understood)
                target = understood.retry_state.next()
        except DragomanError as error:
            missed = failed(exchange, error)
            if missed is None:
                return
        if missed is not None:
            target = await follow_up(exchange, missed)
        elif understood is not None and target is None:
            await return_decisive(exchange, understood)
        while understood is not None and target is not None:
            try:
                attempt = await prepare_target(exchange, understood, target)
                if attempt is None:
                    return
                missed = await call_target(exchange, understood, attempt)
            except LeftOut:
                target = await next_target(exchange, understood)
                continue
            except DragomanError as error:
                missed = failed(exchange, error)
            if missed is None:
                return
            target = await follow_up(exchange, missed)
    except asyncio.CancelledError:
        await _cancelled(exchange)
        raise
    except Exception:
        # An error of the gateway itself; the provider has worked all the same.
        exchange.abandon()
        raise
    finally:
        exchange.end()


async def _call_begun(exchange: Exchange, begun: Begun) -> Missed | None:
    """Call the target of a request that was begun before."""
    exchange.storage.follow_up(begun.storage)
    exchange.set_request(begun.request)
    settings = exchange.runtime.target_settings(begun.prepared.target)
    attempt = begin(exchange, begun.request, begun.prepared, settings)
    return await call_target(exchange, begun.request, attempt)


async def _cancelled(exchange: Exchange) -> None:
    """End an exchange whose client disconnected, or under which the gateway stops."""
    try:
        await exchange.last_moments()
        if not isinstance(exchange.client, DetachedClient):
            # The cancellation of a response in the background waits for its end, and has its conversation.
            await exchange.count_unfinished()
    finally:
        await _disconnect(exchange)


async def _disconnect(exchange: Exchange) -> None:
    """Finalize the exchange of a client that disconnected, or under which the gateway stops."""
    if disconnect(exchange, stopping=exchange.runtime.draining and not exchange.client.gone):
        try:
            await exchange.last_moments()
        finally:
            # There is no other time to send it.
            send_broken(exchange, exchange.error_form)
