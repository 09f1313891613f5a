"""Provider lists: which models providers have, asked at most every few minutes."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable
from functools import partial

from dragoman.errors import DragomanError, TimedOut
from dragoman.gateway.advice import Called, of_error, of_refusal
from dragoman.gateway.runtime import Runtime
from dragoman.gateway.thread_offload import beside_loop
from dragoman.launching.local_servers import PATIENCE as LOCAL_PATIENCE
from dragoman.model.listing import ListedModel
from dragoman.protocols.registry import codec_of
from dragoman.providers.provider import Endpoint, Provider
from dragoman.providers.transport import has_list
from dragoman.providers.transport_interface import Order
from dragoman.routing.attempt_outcome import AttemptOutcome
from dragoman.rules.model_lists import decode_models, is_list
from dragoman.wire.json import decode

_FRESH = 300.0
# A provider that could not say is asked again sooner.
_RETRIED = 30.0
# Agents that look for models when they start wait for three seconds.
_PATIENCE = 2.5
_LIMIT = 4 * 1024 * 1024
# What a list that is refused means.
_REFUSALS = {401: AttemptOutcome.BAD_KEY, 403: AttemptOutcome.BAD_KEY, 402: AttemptOutcome.NO_MONEY}
# To read a list is the work of the gateway itself.
_NO_KEY = ""
_NO_LIST = ": it lists no models, or base_url is not what its SDK takes"


async def ask_providers(service: Runtime, providers: Iterable[Provider], *, sizes: bool = False) -> dict[str, str]:
    """See to it that what these list is known; give the names of those that could not say, and why.

    Those whose models the configuration names are asked only if it is for what they say of them, their `sizes`.
    """
    asked = [provider for provider in providers if has_list(provider) and (sizes or provider.models is None)]
    words = await asyncio.gather(*(_ask(service, provider) for provider in asked))
    return {provider.name: why for provider, why in zip(asked, words, strict=True) if why}


def models_of(service: Runtime, provider: Provider) -> Collection[str]:
    """The models of a provider: those of the configuration, else those that it listed."""
    if provider.models is not None:
        return provider.models
    kept = service.listed.of(provider)
    return kept.models if kept is not None else ()


async def _ask(service: Runtime, provider: Provider) -> str:
    """Ask one of them, if it has to be; why it could not be done, or nothing."""
    kept = service.listed.of(provider)
    now = service.clock()
    if kept is not None and kept.until > now:
        return ""
    why, fresh = "", _FRESH
    if provider.name in service.settings.local:
        # It comes and goes, and nobody waits for one that is not there.
        service.listed.keep(provider, await _local_models(service, provider), now)
        return ""
    try:
        models = await asyncio.wait_for(models_at(service, provider, provider.endpoints[0]), _PATIENCE)
    except (DragomanError, TimeoutError) as error:
        # A list without one provider is better than none; the operator is told which.
        why = _words(error)
        service.log.event("warn", "a provider's models could not be listed", provider=provider.name, why=why)
        models, fresh = tuple(kept.models.values()) if kept is not None else (), _RETRIED
    service.listed.keep(provider, models, now + fresh)
    return why


async def _local_models(service: Runtime, provider: Provider) -> tuple[ListedModel, ...]:
    """What a server of this machine lists; nothing if it is not there."""
    try:
        return await asyncio.wait_for(models_at(service, provider, provider.endpoints[0]), LOCAL_PATIENCE)
    except (DragomanError, TimeoutError):
        return ()


def _words(error: BaseException) -> str:
    return str(error) or str(TimedOut(f"no answer within {_PATIENCE:g} s"))


async def models_at(service: Runtime, provider: Provider, endpoint: Endpoint) -> tuple[ListedModel, ...]:
    """What a provider lists at one of its endpoints."""
    key = service.rotation(provider).next()
    try:
        status, body = await ask_for_list(service, provider, endpoint, key)
    except DragomanError as error:
        raise DragomanError(what_broke(error, provider, endpoint)) from error
    if status != 200:
        raise DragomanError(what_was_refused(status, provider, endpoint, key))
    return await read_list(body, endpoint.protocol)


async def read_list(body: bytes, protocol: str) -> tuple[ListedModel, ...]:
    """The models in a list of a protocol."""
    return await beside_loop(partial(_read, body, codec_of(protocol).models.form), len(body), _NO_KEY)


def what_broke(error: DragomanError, provider: Provider, endpoint: Endpoint) -> str:
    """A call that broke, in the operator's words."""
    found = of_error(error, Called(provider=provider, endpoint=endpoint))
    return str(error) if found is None else found.operator


def what_was_refused(status: int, provider: Provider, endpoint: Endpoint, key: str | None) -> str:
    """An answer that says no, in the operator's words; the key by its name."""
    kind = _REFUSALS.get(status)
    called = Called(provider=provider, endpoint=endpoint, keys=() if key is None else (key,))
    found = None if kind is None else of_refusal(kind, called)
    if found is not None:
        return f"it answered {status}: {found.operator}"
    return f"it answered {status}{_NO_LIST if status == 404 else ''}"


async def ask_for_list(
    service: Runtime, provider: Provider, endpoint: Endpoint, key: str | None = None, *, keyless: bool = False
) -> tuple[int, bytes]:
    """What a provider answers when its list is asked for: status and body.

    It is shown a key, or the one whose turn it is; none by who is `keyless`.
    """
    lists = codec_of(endpoint.protocol).models
    order = Order(
        provider=provider,
        endpoint=endpoint,
        model="",
        stream=False,
        body=b"",
        headers=[(name.encode(), value.encode()) for name, value in lists.headers.items()],
        key=None if keyless else key or service.rotation(provider).next(),
        path=lists.path,
        method="GET",
        query=lists.query,
    )
    flight = await service.open(order)
    try:
        await flight.head()
        return flight.status, await flight.read(_LIMIT)
    finally:
        flight.close()


async def reads_as_list(body: bytes) -> bool:
    """Whether an answer is a list of models; an error if it is not even JSON."""
    return await beside_loop(lambda: is_list(decode(body)), len(body), _NO_KEY)


def _read(body: bytes, form: str) -> tuple[ListedModel, ...]:
    return tuple(decode_models(decode(body), form))
