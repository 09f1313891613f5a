"""Route check: whether the providers that a name leads to answer and take our key, now, for `dragoman launch`.

Nothing that is asked costs anything, and nobody waits for long: a provider that takes its time is no reason to stop.
"""

from __future__ import annotations

import asyncio
from difflib import get_close_matches
from functools import partial

from dragoman.errors import DragomanError, TimedOut, WireError
from dragoman.gateway.advice import Advice, Called, of_error, of_refusal, shown
from dragoman.gateway.check_cache import CheckResult
from dragoman.gateway.model_list_fetch import ask_for_list, read_list
from dragoman.gateway.provider_probe import knock
from dragoman.gateway.runtime import Runtime
from dragoman.http.address import Origin, locate
from dragoman.model.jsonvalue import JsonObject
from dragoman.providers.provider import Endpoint, Provider
from dragoman.providers.transport import has_list
from dragoman.routing.attempt_outcome import AttemptOutcome
from dragoman.routing.route import Route
from dragoman.routing.target import Target

PATIENCE = 2.0
# More than these of one name are not asked.
_MOST = 16
_NEAREST = 3
_REFUSED = frozenset({401, 403})


async def checked(service: Runtime, route: Route, *, is_operator: bool) -> list[JsonObject]:
    """Ask everybody that a name leads to; what is told of it depends on who wants to know."""
    targets = route.targets[:_MOST]
    places = {_place(target): target for target in targets}
    asked = await asyncio.gather(
        *(service.checks.of(place, partial(_ask, service, target)) for place, target in places.items())
    )
    found = dict(zip(places, asked, strict=True))
    return [_told(target, found[_place(target)], is_operator=is_operator) for target in targets]


def _place(target: Target) -> tuple[str, str]:
    return target.provider.name, target.endpoint.protocol


def _told(target: Target, found: CheckResult, *, is_operator: bool) -> JsonObject:
    advice = found.advice
    words = "" if advice is None else advice.operator if is_operator else advice.client
    if found.models and target.model not in found.models:
        near = ", ".join(get_close_matches(target.model, found.models, n=_NEAREST, cutoff=0.5))
        words = f"{target.provider.name} does not list {shown(target.model)}" + (f"; it lists {near}" if near else "")
    return {"target": f"{target.provider.name}/{target.shown}", "able": found.able, "words": words}


async def _ask(service: Runtime, target: Target) -> CheckResult:
    provider, endpoint = target.provider, target.endpoint
    called = Called(provider=provider, endpoint=endpoint)
    try:
        async with asyncio.timeout(PATIENCE):
            if has_list(provider):
                return await _by_list(service, provider, endpoint)
            await knock(service, provider, endpoint)
            return CheckResult()
    except (TimeoutError, TimedOut):
        return CheckResult(advice=_note(called, f"did not answer within {PATIENCE:g} s"))
    except DragomanError as error:
        advice = of_error(error, called)
        told = Advice(operator=f"{provider.name}: {error}", client=f"{provider.name} cannot be asked now")
        return CheckResult(able=False, advice=advice or told)


def _note(called: Called, words: str) -> Advice:
    """Something that everybody may know of a provider, but for where it is."""
    place = f" at {called.place}" if called.place else ""
    return Advice(operator=f"{called.name}{place} {words}", client=f"{called.name} {words}")


async def _by_list(service: Runtime, provider: Provider, endpoint: Endpoint) -> CheckResult:
    """What a provider's list of models tells of it; one on this machine is nobody else's."""
    key = service.rotation(provider).next()
    asking = [ask_for_list(service, provider, endpoint, key)]
    origin = _origin(endpoint)
    if provider.keys and origin is not None and not origin.loopback:
        asking.append(ask_for_list(service, provider, endpoint, keyless=True))
    (status, body), *others = await asyncio.gather(*asking)
    called = Called(provider=provider, endpoint=endpoint, keys=() if key is None else (key,))
    if status in _REFUSED:
        # Who shows no list to a key takes it for nothing else either.
        return CheckResult(able=False, advice=of_refusal(AttemptOutcome.BAD_KEY, called))
    if status != 200:
        return CheckResult(advice=_note(called, f"answered {status} when it was asked for its models"))
    words = "shows its models to anybody: whether it takes the key shows with the first call"
    open_to_all = bool(others) and others[0][0] == 200
    advice = _note(called, words) if open_to_all else None
    return CheckResult(advice=advice, models=await _models(provider, endpoint, body))


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
