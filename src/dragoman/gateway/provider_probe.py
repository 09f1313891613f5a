"""Provider probe: checks at no cost whether each provider responds and accepts its key. It requests the model list. A
cloud without one gets a conversation without a message, which it rejects after it has accepted the key."""

from __future__ import annotations

import asyncio
import io
import time

from msgspec import Struct

from dragoman.config.settings import Settings, Storage
from dragoman.errors import DragomanError
from dragoman.gateway.model_list_fetch import describe_error, describe_refusal, models_at
from dragoman.gateway.observability.logs import Log
from dragoman.gateway.observability.metrics import Metrics
from dragoman.gateway.runtime import Runtime
from dragoman.gateway.stored_responses.stored_state import StoredState
from dragoman.http.upstream_call import UpstreamCall
from dragoman.providers.provider import Endpoint, Provider
from dragoman.providers.transport import has_list
from dragoman.providers.transport_interface import Order

# A request that no model answers, and a model that does not exist.
_NOTHING = b'{"model":"none","max_tokens":1,"messages":[]}'
_NO_MODEL = "none"
# These statuses mean that the request was read, and so that the key was accepted.
_KEY_ACCEPTED_STATUSES = frozenset({200, 400, 404, 422, 429})


class ProbeResponse(Struct, frozen=True, kw_only=True):
    """The result of probing one endpoint, with its time by both clocks; `status` is 0 without a response."""

    provider: str
    protocol: str
    well: bool
    message: str
    status: int = 0
    date: str = ""
    received_at: float = 0.0


class _ProbeRuntime(Runtime):
    """A runtime that remembers the last call to each endpoint, whose response has the time."""

    def __init__(self, settings: Settings, log: Log) -> None:
        super().__init__(settings, Metrics(), log, StoredState(Storage(store_responses=False), log))
        self.calls: dict[tuple[str, str], UpstreamCall] = {}

    async def open(self, order: Order) -> UpstreamCall:
        call = await super().open(order)
        self.calls[order.provider.name, order.endpoint.protocol] = call
        return call


async def check_live(settings: Settings) -> list[tuple[str, str, bool, str]]:
    """Probe every endpoint of every provider: name, protocol, whether it works, and the problem in words."""
    return [
        (response.provider, response.protocol, response.well, response.message)
        for response in await probe_all(settings)
    ]


async def probe_all(settings: Settings, timeout: float | None = None) -> list[ProbeResponse]:
    """The response of every endpoint of every provider, within a timeout."""
    runtime = _ProbeRuntime(settings, Log(io.StringIO()))
    seconds = settings.timeouts.connect + 5.0 if timeout is None else timeout
    try:
        return list(
            await asyncio.gather(
                *(
                    _check(runtime, provider, endpoint, seconds)
                    for provider in settings.providers.values()
                    for endpoint in provider.endpoints
                )
            )
        )
    finally:
        await runtime.close()


async def _check(runtime: _ProbeRuntime, provider: Provider, endpoint: Endpoint, seconds: float) -> ProbeResponse:
    well = False
    try:
        async with asyncio.timeout(seconds):
            message = await (_list if has_list(provider) else probe_key)(runtime, provider, endpoint)
            well = True
    except TimeoutError:
        message = "no answer in time"
    except DragomanError as error:
        message = describe_error(error, provider, endpoint)
    call = runtime.calls.get((provider.name, endpoint.protocol))
    dates = [value for name, value in call.headers if name == b"date"] if call is not None else []
    date = dates[0].decode("latin-1") if dates else ""
    return ProbeResponse(
        provider=provider.name,
        protocol=endpoint.protocol,
        well=well,
        message=message,
        status=call.status if call is not None else 0,
        date=date,
        received_at=time.time(),
    )


async def _list(runtime: Runtime, provider: Provider, endpoint: Endpoint) -> str:
    models = await models_at(runtime, provider, endpoint)
    return f"{len(models)} model{'' if len(models) == 1 else 's'}"


async def probe_key(runtime: Runtime, provider: Provider, endpoint: Endpoint) -> str:
    """Probe a provider without a list by a free request; returns the result, or an error in words."""
    model = provider.models[0] if provider.models else ""
    order = Order(
        provider=provider,
        endpoint=endpoint,
        model=model or _NO_MODEL,
        stream=False,
        body=_NOTHING,
        headers=[],
        key=runtime.rotation(provider).next(),
    )
    call = await runtime.open(order)
    try:
        await call.head()
    finally:
        call.close()
    if call.status == 404 and model:
        raise DragomanError(f"it answered 404: it does not have the model {model}")
    if call.status == 403:
        # Whether a key is good for anything else cannot be known.
        raise DragomanError("it answered 403: it does not take the key, or not for this model; list yours in models")
    if call.status not in _KEY_ACCEPTED_STATUSES:
        raise DragomanError(describe_refusal(call.status, provider, endpoint, order.key))
    return "it takes the key, and lists no models"
