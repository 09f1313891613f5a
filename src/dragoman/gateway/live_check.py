"""Live check: does every provider answer and take our key? Nothing that is asked costs anything.

It is asked for its list of models; a cloud that has none is asked for a conversation without a message, which it
refuses as soon as it has taken the key.
"""

from __future__ import annotations

import asyncio
import io

from dragoman.config.settings import Settings, Storage
from dragoman.errors import DragomanError
from dragoman.gateway.provider_lists import MEANINGS, models_at
from dragoman.gateway.records.logs import Log
from dragoman.gateway.records.metrics import Metrics
from dragoman.gateway.service import Service
from dragoman.gateway.stored_responses.stored_state import StoredState
from dragoman.providers.order import Order
from dragoman.providers.provider import Endpoint, Provider
from dragoman.providers.transport import has_list

# A body that no model answers, and a model that nobody has.
_NOTHING = b'{"model":"none","max_tokens":1,"messages":[]}'
_NO_MODEL = "none"
# Who says this has looked at the request, and so at the key before it.
_KNOWN_BY = frozenset({200, 400, 404, 422, 429})


async def check_live(settings: Settings) -> list[tuple[str, str, bool, str]]:
    """Call every endpoint of every provider: its name, its protocol, whether it is well, and in words."""
    log = Log(io.StringIO())
    service = Service(settings, Metrics(), log, StoredState(Storage(keep=False), log))
    try:
        return list(
            await asyncio.gather(
                *(
                    _check(service, provider, endpoint)
                    for provider in settings.providers.values()
                    for endpoint in provider.endpoints
                )
            )
        )
    finally:
        await service.close()


async def _check(service: Service, provider: Provider, endpoint: Endpoint) -> tuple[str, str, bool, str]:
    try:
        async with asyncio.timeout(service.settings.timeouts.connect + 5.0):
            words = await (_list if has_list(provider) else _knock)(service, provider, endpoint)
    except TimeoutError:
        return provider.name, endpoint.protocol, False, "no answer in time"
    except DragomanError as error:
        return provider.name, endpoint.protocol, False, str(error)
    return provider.name, endpoint.protocol, True, words


async def _list(service: Service, provider: Provider, endpoint: Endpoint) -> str:
    models = await models_at(service, provider, endpoint)
    return f"{len(models)} model{'' if len(models) == 1 else 's'}"


async def _knock(service: Service, provider: Provider, endpoint: Endpoint) -> str:
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
        raise DragomanError(f"it answered {flight.status}{MEANINGS.get(flight.status, '')}")
    return "it takes the key, and lists no models"
