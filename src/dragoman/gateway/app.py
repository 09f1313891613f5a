"""App: what the server calls for every request: who may ask, which endpoint is meant, who serves it.

request ─▶ admit (Host, Origin) ─▶ place ─▶ identify (key) ─▶ exchange, count, listing, other path, or our own pages
"""

from __future__ import annotations

import sqlite3
from collections.abc import Awaitable, Callable

from dragoman import __version__
from dragoman.config.settings import Key
from dragoman.errors import ClientError, DragomanError
from dragoman.gateway import replies
from dragoman.gateway.client_address import client_address
from dragoman.gateway.compacting import compact
from dragoman.gateway.conversations import serve_conversation
from dragoman.gateway.counting import count_tokens
from dragoman.gateway.exchange import Exchange
from dragoman.gateway.listing import list_models, show_model
from dragoman.gateway.metrics import render
from dragoman.gateway.passing import pass_on
from dragoman.gateway.paths import CHAT, MESSAGES, Kind, Place, place_of
from dragoman.gateway.patience import NotKept
from dragoman.gateway.record import Record
from dragoman.gateway.replies import JSON
from dragoman.gateway.service import Service
from dragoman.gateway.siblings import Siblings
from dragoman.gateway.state import owner_of, unreadable
from dragoman.gateway.stored import serve_response
from dragoman.http.flight import HeaderList
from dragoman.http.server import Request
from dragoman.model.jsonvalue import JsonObject
from dragoman.wire.json import encode

_TEXT = (b"content-type", b"text/plain; charset=utf-8")
# https://prometheus.io/docs/instrumenting/exposition_formats/
_METRICS = (b"content-type", b"text/plain; version=0.0.4; charset=utf-8")
_ENDPOINTS = ("/v1/messages", "/v1/chat/completions", "/v1/responses", "/v1/models")
_OPEN_KINDS = frozenset({Kind.HOME, Kind.HEALTH, Kind.READY})


class App:
    """The requests of one process. `service` is replaced when the configuration changes."""

    def __init__(self, service: Service, siblings: Siblings | None = None) -> None:
        self.service = service
        self._siblings = siblings
        # Whether it will stop soon. All are served on, and told to come back on another connection.
        self.lame_duck = False
        self._pages: dict[Kind, Callable[[Request], Awaitable[None]]] = {
            Kind.HOME: self._home,
            Kind.HEALTH: self._health,
            Kind.READY: self._ready,
            Kind.METRICS: self._metrics,
        }

    async def __call__(self, request: Request) -> None:
        """Serve one request."""
        service = self.service
        place = place_of(request.path)
        if self.lame_duck:
            request.closes = True
        try:
            service.guard.admit(request)
            if request.method == "OPTIONS" and request.header(b"access-control-request-method") is not None:
                request.respond(204, service.guard.preflight(request), b"")
                return
            if request.header(b"sec-websocket-key") is not None:
                # The status from which clients fall back to HTTP at once instead of trying again.
                raise ClientError(426, "WebSockets are not spoken here; the same path answers over HTTP")
            if place.methods and request.method not in place.methods:
                raise ClientError(405, f"this path takes {' or '.join(place.methods)}, not {request.method}")
            key = None if place.kind in _OPEN_KINDS else service.guard.identify(request, place.protocol)
            page = self._pages.get(place.kind)
            if page is not None:
                await page(request)
                return
            if place.kind is Kind.NOWHERE:
                raise ClientError(404, f"there is nothing at this path; what there is: {', '.join(_ENDPOINTS)}")
        except ClientError as error:
            self._refuse(request, place, error)
            return
        record = Record(
            request_id=service.new_id(), dialect=_dialect(request, place), path=place.rest, started=service.clock()
        )
        record.key = key.name if key is not None else ""
        record.address = client_address(request, service.proxies)
        service.metrics.in_flight += 1
        try:
            if place.kind is Kind.CONVERSATION:
                await Exchange(service, request, place, record).run(key)
            else:
                await self._aside(service, request, place, record, key)
        finally:
            service.metrics.in_flight -= 1
            service.finish(record)

    async def _aside(self, service: Service, request: Request, place: Place, record: Record, key: Key | None) -> None:
        """What is asked beside conversations."""
        try:
            if place.kind is Kind.COUNT:
                await count_tokens(service, request, place, record, key)
            elif place.kind is Kind.STORED:
                await serve_response(service, request, place, record, key)
            elif place.kind is Kind.CONVERSATIONS:
                await serve_conversation(service, request, place, record, key)
            elif place.kind is Kind.COMPACT:
                await compact(service, request, place, record, key)
            elif place.kind is Kind.MODELS:
                await list_models(service, request, record)
            elif place.kind is Kind.MODEL:
                await show_model(service, request, place, record)
            else:
                await pass_on(service, request, place, record, owner=owner_of(key))
        except DragomanError as error:
            self._tell(service, request, record, error)
        except sqlite3.Error as error:
            self._tell(service, request, record, unreadable(error, service.log))

    def _tell(self, service: Service, request: Request, record: Record, error: DragomanError) -> None:
        """Answer with an error; all that is left to say in a stream is that it broke off."""
        told = replies.told(error, record.dialect, record.id)
        record.failure = told.failure.kind.value if told.failure is not None else ""
        if request.started:
            request.abort()
            return
        record.status = told.status
        headers = [JSON, replies.id_header(record.dialect, record.id), *service.guard.greeting(request)]
        if isinstance(error, NotKept):
            # The store was waited for already.
            headers.append((b"x-should-retry", b"false"))
        request.respond(told.status, headers, told.body)

    def refuse(self, status: int, message: str, path: str) -> tuple[HeaderList, bytes]:
        """The reply to what never became a request: in the envelope of the path, as far as one was read."""
        place = place_of(path) if path else None
        protocol = place.protocol if place is not None else ""
        request_id = self.service.new_id()
        told = replies.told(ClientError(status, message), protocol, request_id)
        return [JSON, replies.id_header(protocol, request_id)], told.body

    def _refuse(self, request: Request, place: Place, error: ClientError) -> None:
        service = self.service
        request_id, protocol = service.new_id(), _dialect(request, place)
        told = replies.told(error, protocol, request_id)
        headers: HeaderList = [JSON, replies.id_header(protocol, request_id), *service.guard.greeting(request)]
        if error.status == 405:
            headers.append((b"allow", ", ".join(place.methods).encode()))
        if error.status == 401:
            # Agents try for minutes with a key that will not become a good one.
            headers += [(b"www-authenticate", b"Bearer"), (b"x-should-retry", b"false")]
        address = client_address(request, service.proxies)
        service.log.refused(status=told.status, path=place.rest, why=error.message, address=address, id=request_id)
        request.respond(told.status, headers, told.body)

    async def _home(self, request: Request) -> None:
        body: JsonObject = {
            "name": "dragoman",
            "version": __version__,
            "endpoints": [*_ENDPOINTS],
        }
        request.respond(200, [JSON], encode(body))

    async def _health(self, request: Request) -> None:
        request.respond(200, [_TEXT], b"ok\n")

    async def _ready(self, request: Request) -> None:
        if self.lame_duck or self.service.draining:
            request.respond(503, [_TEXT], b"draining\n")
        else:
            request.respond(200, [_TEXT], b"ready\n")

    async def _metrics(self, request: Request) -> None:
        snapshots = [self.service.metrics.snapshot()]
        if self._siblings is not None:
            snapshots += await self._siblings.snapshots()
        request.respond(200, [_METRICS], render(snapshots))


def _dialect(request: Request, place: Place) -> str:
    """The client's protocol; where the path does not tell, its headers do (mapping.md §23)."""
    if place.protocol:
        return place.protocol
    if request.header(b"anthropic-version") is not None:
        return MESSAGES
    if request.header(b"x-api-key") is not None and request.header(b"authorization") is None:
        return MESSAGES
    return CHAT
