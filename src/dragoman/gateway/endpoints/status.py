"""`GET /status`: how providers and targets are doing, for `dragoman status`.

Names and numbers alone: no key, no address, nothing that anybody said.
"""

from __future__ import annotations

from collections.abc import Sequence

from dragoman import __version__
from dragoman.config.values import is_loopback
from dragoman.errors import ClientError
from dragoman.gateway.access.client_address import client_address
from dragoman.gateway.admission import Load
from dragoman.gateway.records.metrics import Snapshot
from dragoman.gateway.service import Service
from dragoman.http.server import Request
from dragoman.model.jsonvalue import JsonObject
from dragoman.providers.provider import Provider

_NONE = Load(0, None, 0)
# By which a proxy says that somebody else asks, of whom nothing is known for sure.
_FORWARDED = (b"x-forwarded-for", b"forwarded", b"via")


def check_near(service: Service, request: Request) -> None:
    """Refuse who asks from another machine, where no key is asked for."""
    if not service.guard.open:
        return
    near = is_loopback(client_address(request, ()))
    if not near or any(request.header(name) is not None for name in _FORWARDED):
        raise ClientError(403, "the status is told on the gateway's own machine, or to who has a gateway key")


def status_of(service: Service, snapshots: Sequence[Snapshot]) -> JsonObject:
    """What is known, of all workers together; standings are the same in all."""
    return {
        "version": __version__,
        "workers": len(snapshots),
        "in_flight": sum(snapshot.in_flight for snapshot in snapshots),
        "providers": [
            _provider(provider, [snapshot.loads.get(name, _NONE) for snapshot in snapshots])
            for name, provider in service.settings.providers.items()
        ],
        "targets": [
            {"target": known.target, "standing": known.standing, "seconds": round(known.seconds, 1)}
            for known in service.standings()
        ],
    }


def _provider(provider: Provider, loads: Sequence[Load]) -> JsonObject:
    limits = [load.most for load in loads if load.most is not None]
    return {
        "name": provider.name,
        "protocols": [endpoint.protocol for endpoint in provider.endpoints],
        "keys": len(provider.keys),
        "calls": sum(load.calls for load in loads),
        # A worker that has had no call yet knows as much as the others.
        "concurrency": sum(limits) if limits else None,
        "waiting": sum(load.waiting for load in loads),
    }
