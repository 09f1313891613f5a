"""Route check: whether the providers that a name leads to answer and take our key, now, for `dragoman launch`.

Nothing that is asked costs anything, and nobody waits for long: a provider that takes its time is no reason to stop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from difflib import get_close_matches

from msgspec import Struct

from dragoman.config.keys import COMMAND_LINE_KEY
from dragoman.config.settings import Key
from dragoman.errors import DragomanError, TimedOut, Unreachable, WireError
from dragoman.gateway.advice import Called, of_error, shown
from dragoman.gateway.live_check import knock
from dragoman.gateway.provider_lists import ask_for_list, read_list
from dragoman.gateway.service import Service
from dragoman.http.address import Origin, locate
from dragoman.model.jsonvalue import JsonObject
from dragoman.providers.provider import Endpoint, Provider
from dragoman.providers.transport import has_list
from dragoman.routing.route import Route
from dragoman.routing.target import Target

PATIENCE = 2.0
# More than these of one name are not asked.
_MOST = 16
_NEAREST = 3
_REFUSED = frozenset({401, 403})


class Found(Struct, frozen=True, kw_only=True):
    """What was found of a provider: whether it can be used as far as is known, what is wrong, and its models."""

    able: bool = True
    words: str = ""
    # None where it did not say.
    models: Sequence[str] | None = None


async def checked(service: Service, route: Route, key: Key | None) -> list[JsonObject]:
    """Ask everybody that a name leads to; `key` is that of who wants to know."""
    targets = route.targets[:_MOST]
    places = {_place(target): target for target in targets}
    told = _is_operator(service, key)
    asked = await asyncio.gather(*(_ask(service, target, told=told) for target in places.values()))
    found = dict(zip(places, asked, strict=True))
    return [_told(target, found[_place(target)]) for target in targets]


def _place(target: Target) -> tuple[str, str]:
    return target.provider.name, target.endpoint.protocol


def _told(target: Target, found: Found) -> JsonObject:
    words = found.words
    if found.models and target.model not in found.models:
        near = ", ".join(get_close_matches(target.model, found.models, n=_NEAREST, cutoff=0.5))
        words = f"{target.provider.name} does not list {shown(target.model)}" + (f"; it lists {near}" if near else "")
    return {"target": f"{target.provider.name}/{target.shown}", "able": found.able, "words": words}


def _is_operator(service: Service, key: Key | None) -> bool:
    """Whether an address may be named: to who asks where no keys are, or started the gateway for itself."""
    return service.guard.open or (key is not None and key.name == COMMAND_LINE_KEY and key.owner == b"")


async def _ask(service: Service, target: Target, *, told: bool) -> Found:
    provider, endpoint = target.provider, target.endpoint
    origin = _origin(endpoint)
    name = provider.name if origin is None or not told else f"{provider.name} at {origin.host_header}"
    try:
        async with asyncio.timeout(PATIENCE):
            if has_list(provider):
                near = origin is None or origin.loopback
                return await _by_list(service, provider, endpoint, name, near=near, told=told)
            await knock(service, provider, endpoint)
            return Found()
    except (TimeoutError, TimedOut):
        return Found(words=f"{name} did not answer within {PATIENCE:g} s")
    except Unreachable as error:
        step = "is it running?" if "refused" in str(error) else "is its address right, and is there a network?"
        words = str(error).replace("the provider's", "its", 1).replace("the provider", "it", 1)
        return Found(able=False, words=f"{name} cannot be reached: {words}; {step}")
    except DragomanError as error:
        # Settings and files are the operator's alone.
        advice = of_error(error, Called(provider=provider, endpoint=endpoint))
        words = f"{name}: {error}" if told else advice.client if advice is not None else f"{name} cannot be asked now"
        return Found(able=False, words=words)


async def _by_list(
    service: Service, provider: Provider, endpoint: Endpoint, name: str, *, near: bool, told: bool
) -> Found:
    """What a provider's list of models tells of it; one that is `near` is nobody else's."""
    asking = [ask_for_list(service, provider, endpoint)]
    if provider.keys and not near:
        asking.append(ask_for_list(service, provider, endpoint, keyless=True))
    (status, body), *others = await asyncio.gather(*asking)
    if status in _REFUSED:
        wants = "does not take the key" if provider.keys else "asks for a key"
        step = f"api_key of [providers.{provider.name}] says it, or the variable that `dragoman providers` names"
        return Found(able=False, words=f"{name} answered {status}: it {wants}" + (f"; {step}" if told else ""))
    if status != 200:
        return Found(words=f"{name} answered {status} when it was asked for its models")
    open_to_all = bool(others) and others[0][0] == 200
    words = f"{name} shows its models to anybody: whether it takes the key shows with the first call"
    return Found(words=words if open_to_all else "", models=await _models(provider, endpoint, body))


async def _models(provider: Provider, endpoint: Endpoint, body: bytes) -> list[str] | None:
    """The models of a list; those that the configuration names are taken on trust, and so is who lists nothing."""
    if provider.models is not None:
        return None
    try:
        return [model.id for model in await read_list(body, endpoint.protocol)]
    except WireError:
        return None


def _origin(endpoint: Endpoint) -> Origin | None:
    """Where a provider is, if that is written in one place."""
    try:
        return locate(endpoint.base_url)[0]
    except ValueError:
        return None
