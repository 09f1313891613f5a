"""Model list: the models that can be asked for, in the shape that the caller's SDK expects (mapping.md §23).

Names of `[models]` come first, then `provider/model` of every provider: those of the configuration, or what the
provider itself lists, asked at most every few minutes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from functools import partial
from itertools import islice
from urllib.parse import unquote

from dragoman.errors import DragomanError, TimedOut
from dragoman.gateway.exchange.reply_parts import JSON, id_header
from dragoman.gateway.large_work import beside_loop
from dragoman.gateway.paths import MESSAGES, ApiPath
from dragoman.gateway.records.account import Account
from dragoman.gateway.routes import UnknownModel, shown
from dragoman.gateway.service import Service
from dragoman.http.flight import HeaderList
from dragoman.http.server import Request
from dragoman.model.jsonvalue import JsonObject
from dragoman.providers.order import Order
from dragoman.providers.provider import Endpoint, Provider
from dragoman.providers.transport import transport_of
from dragoman.routing.target import Target
from dragoman.wire.json import decode_object, encode

_FRESH = 300.0
# A provider that could not say is asked again sooner.
_RETRIED = 30.0
# Agents that look for models when they start wait for three seconds.
_PATIENCE = 2.5
_LIMIT = 4 * 1024 * 1024
# So many names of a provider are told, and none that is longer.
_MOST_NAMES = 5000
_LONGEST_NAME = 200
# Nobody knows when the models of others were made; both protocols take the epoch for that.
_CREATED = 0
_CREATED_AT = "1970-01-01T00:00:00Z"
# What an operator may conclude from a list that is refused.
MEANINGS = {
    401: ": it does not take the key",
    403: ": it does not take the key",
    404: ": it lists no models, or base_url is not what its SDK takes",
}


async def list_models(service: Service, request: Request, account: Account) -> None:
    """Answer `GET /v1/models`."""
    names = await model_names(service)
    if account.record.dialect == MESSAGES:
        data = [_messages_model(name) for name in names]
        body: JsonObject = {
            "data": [*data],
            "has_more": False,
            "first_id": names[0] if names else None,
            "last_id": names[-1] if names else None,
        }
    else:
        body = {"object": "list", "data": [_openai_model(name) for name in names]}
    _respond(service, request, account, body)


async def show_model(service: Service, request: Request, api_path: ApiPath, account: Account) -> None:
    """Answer `GET /v1/models/{id}`: any name that leads somewhere is a model."""
    name = unquote(api_path.rest.removeprefix("/models/"), errors="replace")
    account.note(asked=name)
    if not any(map(_may_have, service.routes.route(name, account.record.dialect).targets)):
        raise UnknownModel(f"the model {shown(name)} is not known here")
    _respond(
        service, request, account, _messages_model(name) if account.record.dialect == MESSAGES else _openai_model(name)
    )


def _may_have(target: Target) -> bool:
    """Whether a provider may have the model: of the embedded one that is known."""
    models = target.provider.models
    return models is None or target.provider.transport != "echo" or target.model in models


async def model_names(service: Service) -> list[str]:
    """All names, without doubles, in the order they are listed."""
    found = await asyncio.gather(*(_models_of(service, provider) for provider in service.settings.providers.values()))
    names = dict.fromkeys(service.routes.names())
    for provider, models in zip(service.settings.providers, found, strict=True):
        names.update(dict.fromkeys(f"{provider}/{model}" for model in models))
    return list(names)


async def _models_of(service: Service, provider: Provider) -> Iterable[str]:
    if provider.models is not None:
        return provider.models
    if not has_list(provider):
        return ()
    kept = service.listed.get(provider.name)
    now = service.clock()
    if kept is not None and kept[0] > now:
        return kept[1]
    fresh = _FRESH
    try:
        models = await asyncio.wait_for(models_at(service, provider, provider.endpoints[0]), _PATIENCE)
    except (DragomanError, TimeoutError) as error:
        # A list without one provider is better than none; the operator is told which.
        service.log.event("warn", "a provider's models could not be listed", provider=provider.name, why=_words(error))
        models, fresh = (), _RETRIED
    service.listed[provider.name] = (now + fresh, models)
    return models


def _words(error: BaseException) -> str:
    return str(error) or str(TimedOut(f"no answer within {_PATIENCE:g} s"))


def has_list(provider: Provider) -> bool:
    """Whether there is a list of models to ask for; clouds around a model have none that its protocol knows."""
    return provider.transport == "echo" or transport_of(provider.transport).paths is None


async def models_at(service: Service, provider: Provider, endpoint: Endpoint) -> tuple[str, ...]:
    """What a provider lists at one of its endpoints."""
    path = "/v1/models" if endpoint.protocol == MESSAGES else "/models"
    version: HeaderList = [(b"anthropic-version", b"2023-06-01")] if endpoint.protocol == MESSAGES else []
    order = Order(
        provider=provider,
        endpoint=endpoint,
        model="",
        stream=False,
        body=b"",
        headers=version,
        key=service.rotation(provider).next(),
        path=path,
        method="GET",
        query="limit=1000" if endpoint.protocol == MESSAGES else "",
    )
    flight = await service.open(order)
    try:
        await flight.head()
        body = await flight.read(_LIMIT)
    finally:
        flight.close()
    if flight.status != 200:
        raise DragomanError(f"it answered {flight.status}{MEANINGS.get(flight.status, '')}")
    return await beside_loop(partial(_names, body), len(body))


def _names(body: bytes) -> tuple[str, ...]:
    return tuple(islice(_ids(decode_object(body)), _MOST_NAMES))


def _ids(body: Mapping[str, object]) -> Iterable[str]:
    data = body.get("data")
    for entry in data if isinstance(data, list) else ():
        name = entry.get("id") if isinstance(entry, dict) else None
        if isinstance(name, str) and 0 < len(name) <= _LONGEST_NAME:
            yield name


def _messages_model(name: str) -> JsonObject:
    return {"type": "model", "id": name, "display_name": name, "created_at": _CREATED_AT, "lifecycle": "active"}


def _openai_model(name: str) -> JsonObject:
    owner = name.partition("/")[0] if "/" in name else "dragoman"
    return {"id": name, "object": "model", "created": _CREATED, "owned_by": owner}


def _respond(service: Service, request: Request, account: Account, body: JsonObject) -> None:
    account.settle(status=200)
    headers = [JSON, id_header(account.record.dialect, account.record.id), *service.guard.greeting(request)]
    request.respond(200, headers, encode(body))
