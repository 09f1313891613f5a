"""Provider lists: the models of each provider, requested at most every few minutes."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable

from dragoman.errors import DragomanError, TimedOut
from dragoman.gateway.advice import Called, of_error, of_refusal
from dragoman.gateway.runtime import Runtime
from dragoman.gateway.thread_offload import offload
from dragoman.launching.local_servers import TIMEOUT as LOCAL_PATIENCE
from dragoman.model.listing import ListedModel
from dragoman.protocols.registry import codec_of
from dragoman.providers.provider import Endpoint, Provider
from dragoman.providers.transport import has_list
from dragoman.providers.transport_interface import Order
from dragoman.routing.attempt_outcome import AttemptOutcome
from dragoman.rules.model_lists import decode_models, is_list
from dragoman.wire.json import decode

_FRESH = 300.0
# A failed list is requested again sooner.
_RETRIED = 30.0
# Agents that look for models when they start wait for three seconds.
_TIMEOUT = 2.5
_LIMIT = 4 * 1024 * 1024
# The outcome of a rejected list.
_REFUSALS = {401: AttemptOutcome.INVALID_KEY, 403: AttemptOutcome.INVALID_KEY, 402: AttemptOutcome.INSUFFICIENT_QUOTA}
# To read a list is the work of the gateway itself.
_NO_KEY = ""
_NO_LIST = ": it lists no models, or base_url is not what its SDK takes"


async def refresh_lists(runtime: Runtime, providers: Iterable[Provider], *, sizes: bool = False) -> dict[str, str]:
    """Refresh the model lists of providers, for `sizes` only if models are configured; return failures by name."""
    queried = [provider for provider in providers if has_list(provider) and (sizes or provider.models is None)]
    errors = await asyncio.gather(*(_refresh_list(runtime, provider) for provider in queried))
    return {provider.name: why for provider, why in zip(queried, errors, strict=True) if why}


def models_of(runtime: Runtime, provider: Provider) -> Collection[str]:
    """The models of a provider: from the configuration, else from its model list."""
    if provider.models is not None:
        return provider.models
    cached = runtime.listed.of(provider)
    return cached.models if cached is not None else ()


async def _refresh_list(runtime: Runtime, provider: Provider) -> str:
    """Request one list, if it is due; returns the reason if that fails, or nothing."""
    cached = runtime.listed.of(provider)
    now = runtime.clock()
    if cached is not None and cached.until > now:
        return ""
    reason, fresh = "", _FRESH
    if provider.name in runtime.settings.local:
        # A local server may be off, so its list is not waited for.
        try:
            local = await asyncio.wait_for(models_at(runtime, provider, provider.endpoints[0]), LOCAL_PATIENCE)
        except (DragomanError, TimeoutError):
            local = ()
        runtime.listed.put(provider, local, now)
        return ""
    try:
        models = await asyncio.wait_for(models_at(runtime, provider, provider.endpoints[0]), _TIMEOUT)
    except (DragomanError, TimeoutError) as error:
        # A list without one provider is better than none. The log names the missing one.
        reason = str(error) or str(TimedOut(f"no answer within {_TIMEOUT:g} s"))
        runtime.log.event("warn", "cannot list models of provider", provider=provider.name, reason=reason)
        models, fresh = tuple(cached.models.values()) if cached is not None else (), _RETRIED
    runtime.listed.put(provider, models, now + fresh)
    return reason


async def models_at(runtime: Runtime, provider: Provider, endpoint: Endpoint) -> tuple[ListedModel, ...]:
    """The model list at one endpoint of a provider."""
    key = runtime.rotation(provider).next()
    try:
        status, body = await fetch_list(runtime, provider, endpoint, key)
    except DragomanError as error:
        raise DragomanError(describe_error(error, provider, endpoint)) from error
    if status != 200:
        raise DragomanError(describe_refusal(status, provider, endpoint, key))
    return await read_list(body, endpoint.protocol)


async def read_list(body: bytes, protocol: str) -> tuple[ListedModel, ...]:
    """The models in a list of a protocol."""
    form = codec_of(protocol).models.form
    return await offload(lambda: tuple(decode_models(decode(body), form)), len(body), _NO_KEY)


def describe_error(error: DragomanError, provider: Provider, endpoint: Endpoint) -> str:
    """A failed call, in words for the operator."""
    advice = of_error(error, Called(provider=provider, endpoint=endpoint))
    return str(error) if advice is None else advice.operator


def describe_refusal(status: int, provider: Provider, endpoint: Endpoint, key: str | None) -> str:
    """A rejection in words for the operator; the key by its name."""
    kind = _REFUSALS.get(status)
    called = Called(provider=provider, endpoint=endpoint, keys=() if key is None else (key,))
    advice = None if kind is None else of_refusal(kind, called)
    if advice is not None:
        return f"it answered {status}: {advice.operator}"
    return f"it answered {status}{_NO_LIST if status == 404 else ''}"


async def fetch_list(
    runtime: Runtime, provider: Provider, endpoint: Endpoint, key: str | None = None, *, keyless: bool = False
) -> tuple[int, bytes]:
    """Status and body of a provider's model list, requested with its key or the next one; without a key if
    `keyless`."""
    lists = codec_of(endpoint.protocol).models
    order = Order(
        provider=provider,
        endpoint=endpoint,
        model="",
        stream=False,
        body=b"",
        headers=[(name.encode(), value.encode()) for name, value in lists.headers.items()],
        key=None if keyless else key or runtime.rotation(provider).next(),
        path=lists.path,
        method="GET",
        query=lists.query,
    )
    call = await runtime.open(order)
    try:
        await call.head()
        return call.status, await call.read(_LIMIT)
    finally:
        call.close()


async def reads_as_list(body: bytes) -> bool:
    """Whether an answer is a list of models; an error if it is not even JSON."""
    return await offload(lambda: is_list(decode(body)), len(body), _NO_KEY)
