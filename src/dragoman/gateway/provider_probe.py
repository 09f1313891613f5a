"""Live check: does every provider answer and take our key? Nothing that is asked costs anything.

It is asked for its list of models; a cloud that has none is asked for a conversation without a message, which it
refuses as soon as it has taken the key.
"""

from __future__ import annotations

import asyncio
import io
import time

from msgspec import Struct

from dragoman.config.settings import Settings, Storage
from dragoman.errors import DragomanError
from dragoman.gateway.model_list_fetch import models_at, what_broke, what_was_refused
from dragoman.gateway.observability.logs import Log
from dragoman.gateway.observability.metrics import Metrics
from dragoman.gateway.runtime import Runtime
from dragoman.gateway.stored_responses.stored_state import StoredState
from dragoman.http.upstream_call import UpstreamCall
from dragoman.providers.provider import Endpoint, Provider
from dragoman.providers.transport import has_list
from dragoman.providers.transport_interface import Order

# A body that no model answers, and a model that nobody has.
_NOTHING = b'{"model":"none","max_tokens":1,"messages":[]}'
_NO_MODEL = "none"
# Who says this has looked at the request, and so at the key before it.
_KNOWN_BY = frozenset({200, 400, 404, 422, 429})


class ProbeResponse(Struct, frozen=True, kw_only=True):
    """What one endpoint of a provider answered, in words, and when it was by its own clock and by ours.

    Its `status` is 0 if there was no answer.
    """

    provider: str
    protocol: str
    well: bool
    words: str
    status: int = 0
    date: str = ""
    heard: float = 0.0


class _Service(Runtime):
    """A service that remembers the last flight to each endpoint, whose answer says when it was."""

    def __init__(self, settings: Settings, log: Log) -> None:
        super().__init__(settings, Metrics(), log, StoredState(Storage(keep=False), log))
        self.flights: dict[tuple[str, str], UpstreamCall] = {}

    async def open(self, order: Order) -> UpstreamCall:
        flight = await super().open(order)
        self.flights[order.provider.name, order.endpoint.protocol] = flight
        return flight


async def check_live(settings: Settings) -> list[tuple[str, str, bool, str]]:
    """Call every endpoint of every provider: its name, its protocol, whether it is well, and in words."""
    return [(answer.provider, answer.protocol, answer.well, answer.words) for answer in await ask_all(settings)]


async def ask_all(settings: Settings, patience: float | None = None) -> list[ProbeResponse]:
    """What every endpoint of every provider answers within some seconds."""
    service = _Service(settings, Log(io.StringIO()))
    seconds = settings.timeouts.connect + 5.0 if patience is None else patience
    try:
        return list(
            await asyncio.gather(
                *(
                    _check(service, provider, endpoint, seconds)
                    for provider in settings.providers.values()
                    for endpoint in provider.endpoints
                )
            )
        )
    finally:
        await service.close()


async def _check(service: _Service, provider: Provider, endpoint: Endpoint, seconds: float) -> ProbeResponse:
    well = False
    try:
        async with asyncio.timeout(seconds):
            words = await (_list if has_list(provider) else knock)(service, provider, endpoint)
            well = True
    except TimeoutError:
        words = "no answer in time"
    except DragomanError as error:
        words = what_broke(error, provider, endpoint)
    flight = service.flights.get((provider.name, endpoint.protocol))
    dates = [value for name, value in flight.headers if name == b"date"] if flight is not None else []
    date = dates[0].decode("latin-1") if dates else ""
    return ProbeResponse(
        provider=provider.name,
        protocol=endpoint.protocol,
        well=well,
        words=words,
        status=flight.status if flight is not None else 0,
        date=date,
        heard=time.time(),
    )


async def _list(service: Runtime, provider: Provider, endpoint: Endpoint) -> str:
    models = await models_at(service, provider, endpoint)
    return f"{len(models)} model{'' if len(models) == 1 else 's'}"


async def knock(service: Runtime, provider: Provider, endpoint: Endpoint) -> str:
    """Ask a provider without a list for what costs nothing; what that says of it, or an error in words."""
    model = provider.models[0] if provider.models else ""
    order = Order(
        provider=provider,
        endpoint=endpoint,
        model=model or _NO_MODEL,
        stream=False,
        body=_NOTHING,
        headers=[],
        key=service.rotation(provider).next(),
    )
    flight = await service.open(order)
    try:
        await flight.head()
    finally:
        flight.close()
    if flight.status == 404 and model:
        raise DragomanError(f"it answered 404: it does not have the model {model}")
    if flight.status == 403:
        # Whether a key is good for anything else cannot be known.
        raise DragomanError("it answered 403: it does not take the key, or not for this model; list yours in models")
    if flight.status not in _KNOWN_BY:
        raise DragomanError(what_was_refused(flight.status, provider, endpoint, order.key))
    return "it takes the key, and lists no models"
