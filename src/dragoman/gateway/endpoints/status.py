"""`GET /status`: health of providers and targets, by names and numbers alone; `POST /status` ends a cooldown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import msgspec

from dragoman import __version__
from dragoman.errors import ClientError
from dragoman.gateway.access.client_address import client_address, is_local_client
from dragoman.gateway.admission import Load
from dragoman.gateway.advice import printable
from dragoman.gateway.forwarding.provider_request import receive
from dragoman.gateway.model_list_fetch import models_of
from dragoman.gateway.observability.metrics import OTHER, Snapshot
from dragoman.gateway.runtime import Runtime
from dragoman.http.server import ServerRequest
from dragoman.identities.identity import Identity
from dragoman.identities.key_text import has_key_text
from dragoman.model.jsonvalue import JsonList, JsonObject
from dragoman.providers.provider import Provider
from dragoman.routing.health import HealthReport

_NONE = Load(0, None, 0)
# Bytes of a wish, and rests that are shown of one provider.
_MAX_BODY_BYTES = 64 * 1024
_MAX_COOLDOWNS = 100


class _ResetRequest(msgspec.Struct, forbid_unknown_fields=True):
    """The body of a reset request."""

    reset: str


_RESET_REQUEST = msgspec.json.Decoder(_ResetRequest)


def require_local_client(runtime: Runtime, request: ServerRequest) -> None:
    """Reject clients on other machines if no key is required."""
    if not runtime.guard.open:
        return
    if not is_local_client(request, client_address(request, ())):
        raise ClientError(403, "the status needs a gateway key, or a client on the gateway's machine")


def status_of(runtime: Runtime, snapshots: Sequence[Snapshot]) -> JsonObject:
    """The status of all workers together; the health of targets is the same in all."""
    now, reports = runtime.clock(), []
    unnamed: Counter[str] = Counter()
    # Servers of this machine that have no table and answered when they were last looked for.
    local = [(name, provider) for name, provider in runtime.settings.local.items() if models_of(runtime, provider)]
    for report in runtime.health_reports():
        if runtime.may_name(report.subject):
            reports.append(report)
        else:
            unnamed[report.health.level.value] += 1
    return {
        "version": __version__,
        "workers": len(snapshots),
        "in_flight": sum(snapshot.in_flight for snapshot in snapshots),
        "providers": [
            {
                **_provider(runtime, provider, [snapshot.loads.get(name, _NONE) for snapshot in snapshots]),
                "check": _check(runtime, provider, snapshots),
            }
            for name, provider in (*runtime.settings.providers.items(), *local)
        ],
        "targets": [_target(report, now) for report in reports],
        # Targets by their health, whose names only the clients know that called them.
        "unnamed": {**unnamed},
        "database": _database(runtime),
    }


async def reset(runtime: Runtime, request: ServerRequest, key: Identity | None) -> JsonObject:
    """End the cooldown of a target; returns what ended."""
    body = await receive(runtime, request, "", _MAX_BODY_BYTES, holder=key)
    try:
        target = _RESET_REQUEST.decode(body).reset
    except (msgspec.DecodeError, UnicodeError):
        raise ClientError(400, 'name the target to reset, as {"reset": "provider/model"}') from None
    if has_key_text(target.encode()):
        raise ClientError(400, "the name of the target has the text of a gateway key")
    provider, slash, model = target.partition("/")
    if not slash or not model or provider not in runtime.settings.callable:
        raise ClientError(404, "there is no such target; it is provider/model, with a provider of the configuration")
    cleared = runtime.reset_target(target)
    runtime.log.event("info", "target health reset", target=printable(target), health=cleared.health, keys=cleared.keys)
    return {"target": target, "health": cleared.health, "keys": cleared.keys}


def _database(runtime: Runtime) -> JsonObject | None:
    """The database server, and why it is away; None for a file."""
    database, server = runtime.settings.storage.database, runtime.state.server
    return None if database is None or server is None else {"name": database.name, "problem": server.problem}


def _target(report: HealthReport, now: float) -> JsonObject:
    last = report.last
    return {
        "target": report.subject,
        "health": report.health.level.value,
        "seconds": round(max(report.health.until - now, 0.0), 1),
        "since": round(max(now - report.since, 0.0), 1),
        "last": "" if last is None else last.value,
        "failed": None if last is None else round(max(now - report.failed, 0.0), 1),
        "consecutive_failures": report.consecutive_failures,
        "cooldowns": report.cooldowns,
    }


def _key_cooldowns(runtime: Runtime, provider: Provider) -> JsonList:
    """The cooldowns of a provider's keys, by their places, from 0, as in the record of an exchange."""
    now = runtime.clock()
    return [
        {
            "key": place,
            "model": _model(runtime, provider, report.model),
            "seconds": round(report.health.until - now, 1),
            "since": round(now - report.since, 1),
            "why": "" if report.last is None else report.last.value,
            "hint": report.hint or None,
        }
        for place, report in runtime.rotation(provider).active_cooldowns()[:_MAX_COOLDOWNS]
    ]


def _check(runtime: Runtime, provider: Provider, snapshots: Sequence[Snapshot]) -> JsonObject | None:
    """The interval of health checks, and the last result; only one worker checks."""
    if provider.health_check_interval is None:
        return None
    results = [
        snapshot.last_health_checks[provider.name]
        for snapshot in snapshots
        if provider.name in snapshot.last_health_checks
    ]
    result, at = max(results, key=lambda each: each[1], default=("", 0.0))
    ago = round(max(runtime.clock() - at, 0.0), 1) if result else None
    return {"every": provider.health_check_interval, "found": result or None, "ago": ago}


def _model(runtime: Runtime, provider: Provider, model: str) -> str | None:
    """The model that a key rests for; None for all."""
    if not model:
        return None
    return model if runtime.may_name(f"{provider.name}/{model}") else OTHER


def _provider(runtime: Runtime, provider: Provider, loads: Sequence[Load]) -> JsonObject:
    limits = [load.most for load in loads if load.most is not None]
    return {
        "name": provider.name,
        "protocols": [endpoint.protocol for endpoint in provider.endpoints],
        "keys": len(provider.keys),
        "keys_in_cooldown": _key_cooldowns(runtime, provider),
        "calls": sum(load.calls for load in loads),
        # A worker that has had no call yet knows as much as the others.
        "concurrency": sum(limits) if limits else None,
        "queued": sum(load.waiting for load in loads),
    }
