"""`GET /status`: how providers and targets are doing, for `dragoman status`; `POST /status` ends a rest.

Names and numbers alone: no key, no address, nothing that anybody said.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from dragoman import __version__
from dragoman.errors import ClientError
from dragoman.gateway.access.client_address import client_address, is_near
from dragoman.gateway.admission import Load
from dragoman.gateway.advice import shown
from dragoman.gateway.exchange.provider_request import receive
from dragoman.gateway.model_list_fetch import models_of
from dragoman.gateway.observability.metrics import OTHER, Snapshot
from dragoman.gateway.runtime import Runtime, TargetHealthView
from dragoman.http.server import ServerRequest
from dragoman.model.jsonvalue import JsonList, JsonObject
from dragoman.providers.provider import Provider

_NONE = Load(0, None, 0)
# Bytes of a wish, and rests that are shown of one provider.
_LARGEST = 64 * 1024
_MOST_RESTS = 100


class _Wish(msgspec.Struct, forbid_unknown_fields=True):
    """What somebody wants done."""

    clear: str


_WISH = msgspec.json.Decoder(_Wish)


def check_near(service: Runtime, request: ServerRequest) -> None:
    """Refuse who asks from another machine, where no key is asked for."""
    if not service.guard.open:
        return
    if not is_near(request, client_address(request, ())):
        raise ClientError(403, "the status is told on the gateway's own machine, or to who has a gateway key")


def status_of(service: Runtime, snapshots: Sequence[Snapshot]) -> JsonObject:
    """What is known, of all workers together; standings are the same in all."""
    return {
        "version": __version__,
        "workers": len(snapshots),
        "in_flight": sum(snapshot.in_flight for snapshot in snapshots),
        "providers": [
            {
                **_provider(service, provider, [snapshot.loads.get(name, _NONE) for snapshot in snapshots]),
                "check": _check(service, provider, snapshots),
            }
            for name, provider in (*service.settings.providers.items(), *_local(service))
        ],
        "targets": [_target(known) for known in service.standings()],
        # How many stand how whose names only those know who asked for them.
        "unnamed": {**service.unnamed()},
    }


def _local(service: Runtime) -> list[tuple[str, Provider]]:
    """Servers of this machine that have no table and answered when they were last looked for."""
    return [(name, provider) for name, provider in service.settings.local.items() if models_of(service, provider)]


async def clear(service: Runtime, request: ServerRequest) -> JsonObject:
    """Take a target for good that somebody names; say what was held against it."""
    body = await receive(service, request, "", _LARGEST)
    try:
        target = _WISH.decode(body).clear
    except (msgspec.DecodeError, UnicodeError):
        raise ClientError(400, 'say which target is to be cleared, as {"clear": "provider/model"}') from None
    provider, slash, model = target.partition("/")
    if not slash or not model or provider not in service.settings.callable:
        raise ClientError(404, "there is no such target; it is provider/model, with a provider of the configuration")
    cleared = service.clear(target)
    service.log.event(
        "info", "a target was cleared", target=shown(target), standing=cleared.standing, keys=cleared.keys
    )
    return {"target": target, "standing": cleared.standing, "keys": cleared.keys}


def _target(known: TargetHealthView) -> JsonObject:
    return {
        "target": known.target,
        "standing": known.standing,
        "seconds": round(known.seconds, 1),
        "since": round(known.since, 1),
        "last": known.last,
        "failed": None if known.failed is None else round(known.failed, 1),
        "in_a_row": known.in_a_row,
        "rests": known.rests,
    }


def _resting(service: Runtime, provider: Provider) -> JsonList:
    """The rests of a provider's keys, which go by their places, from 0, as in the record of an exchange."""
    now = service.clock()
    return [
        {
            "key": place,
            "model": _model(service, provider, notice.model),
            "seconds": round(notice.until - now, 1),
            "since": round(now - notice.since, 1),
            "why": notice.why,
            "hint": notice.hint or None,
        }
        for place, notice in service.rotation(provider).resting()[:_MOST_RESTS]
    ]


def _check(service: Runtime, provider: Provider, snapshots: Sequence[Snapshot]) -> JsonObject | None:
    """How often a provider is checked while its targets rest, and what the last check found; only one worker checks."""
    if provider.check_every is None:
        return None
    found = [snapshot.checked[provider.name] for snapshot in snapshots if provider.name in snapshot.checked]
    result, at = max(found, key=lambda each: each[1], default=("", 0.0))
    ago = round(max(service.clock() - at, 0.0), 1) if result else None
    return {"every": provider.check_every, "found": result or None, "ago": ago}


def _model(service: Runtime, provider: Provider, model: str) -> str | None:
    """The model that a key rests for; None for all."""
    if not model:
        return None
    return model if service.may_name(f"{provider.name}/{model}") else OTHER


def _provider(service: Runtime, provider: Provider, loads: Sequence[Load]) -> JsonObject:
    limits = [load.most for load in loads if load.most is not None]
    return {
        "name": provider.name,
        "protocols": [endpoint.protocol for endpoint in provider.endpoints],
        "keys": len(provider.keys),
        "resting": _resting(service, provider),
        "calls": sum(load.calls for load in loads),
        # A worker that has had no call yet knows as much as the others.
        "concurrency": sum(limits) if limits else None,
        "waiting": sum(load.waiting for load in loads),
    }
