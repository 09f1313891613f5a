"""Route preflight: whether the providers of a name answer and accept our key, for `dragoman launch`. It is free and
short: a slow provider is no reason to stop."""

from __future__ import annotations

import asyncio
from difflib import get_close_matches
from functools import partial

from dragoman.errors import DragomanError, TimedOut, WireError
from dragoman.gateway.advice import Advice, Called, of_error, of_refusal, printable
from dragoman.gateway.check_cache import CheckResult
from dragoman.gateway.model_list_fetch import fetch_list, read_list
from dragoman.gateway.provider_probe import probe_key
from dragoman.gateway.runtime import Runtime
from dragoman.http.address import Origin, locate
from dragoman.model.jsonvalue import JsonObject
from dragoman.providers.provider import Endpoint, Provider
from dragoman.providers.transport import has_list
from dragoman.routing.attempt_outcome import AttemptOutcome
from dragoman.routing.route import Route
from dragoman.routing.target import Target

TIMEOUT = 2.0
# Maximum targets that are checked for one name.
_MAX_TARGETS = 16
_NEAREST = 3
_REFUSED = frozenset({401, 403})


async def check_targets(runtime: Runtime, route: Route, *, is_operator: bool) -> list[JsonObject]:
    """Check all targets of a name. The details depend on the client."""
    targets = route.targets[:_MAX_TARGETS]
    target_by_key = {_cache_key(target): target for target in targets}
    results = await asyncio.gather(
        *(runtime.checks.of(place, partial(_check, runtime, target)) for place, target in target_by_key.items())
    )
    result_by_key = dict(zip(target_by_key, results, strict=True))
    return [_describe(target, result_by_key[_cache_key(target)], is_operator=is_operator) for target in targets]


def _cache_key(target: Target) -> tuple[str, str]:
    return target.provider.name, target.endpoint.protocol


def _describe(target: Target, result: CheckResult, *, is_operator: bool) -> JsonObject:
    advice = result.advice
    message = "" if advice is None else advice.operator if is_operator else advice.client
    if result.models and target.model not in result.models:
        near = ", ".join(get_close_matches(target.model, result.models, n=_NEAREST, cutoff=0.5))
        message = f"{target.provider.name} does not list {printable(target.model)}" + (
            f"; it lists {near}" if near else ""
        )
    return {"target": f"{target.provider.name}/{target.printable_model}", "able": result.able, "words": message}


async def _check(runtime: Runtime, target: Target) -> CheckResult:
    provider, endpoint = target.provider, target.endpoint
    called = Called(provider=provider, endpoint=endpoint)
    try:
        async with asyncio.timeout(TIMEOUT):
            if has_list(provider):
                return await _by_list(runtime, provider, endpoint)
            await probe_key(runtime, provider, endpoint)
            return CheckResult()
    except (TimeoutError, TimedOut):
        return CheckResult(advice=_public_advice(called, f"did not answer within {TIMEOUT:g} s"))
    except DragomanError as error:
        advice = of_error(error, called)
        default_advice = Advice(operator=f"{provider.name}: {error}", client=f"{provider.name} cannot be asked now")
        return CheckResult(able=False, advice=advice or default_advice)


def _public_advice(called: Called, message: str) -> Advice:
    """What any client may read about a provider, without its address."""
    location = f" at {called.address}" if called.address else ""
    return Advice(operator=f"{called.name}{location} {message}", client=f"{called.name} {message}")


async def _by_list(runtime: Runtime, provider: Provider, endpoint: Endpoint) -> CheckResult:
    """A provider's state by its model list. A local server must belong to the same user."""
    key = runtime.rotation(provider).next()
    fetches = [fetch_list(runtime, provider, endpoint, key)]
    origin = _origin(endpoint)
    if provider.keys and origin is not None and not origin.loopback:
        fetches.append(fetch_list(runtime, provider, endpoint, keyless=True))
    (status, body), *others = await asyncio.gather(*fetches)
    called = Called(provider=provider, endpoint=endpoint, keys=() if key is None else (key,))
    if status in _REFUSED:
        # A provider that shows no list to a key accepts it for nothing else.
        return CheckResult(able=False, advice=of_refusal(AttemptOutcome.INVALID_KEY, called))
    if status != 200:
        return CheckResult(advice=_public_advice(called, f"answered {status} when it was asked for its models"))
    message = "shows its models to anybody: whether it takes the key shows with the first call"
    open_to_all = bool(others) and others[0][0] == 200
    advice = _public_advice(called, message) if open_to_all else None
    return CheckResult(advice=advice, models=await _models(provider, endpoint, body))


async def _models(provider: Provider, endpoint: Endpoint, body: bytes) -> list[str] | None:
    """The models of a list. Models of the configuration are trusted, and so is a provider without a list."""
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
