"""App: what the server calls for every request: admit (Host, Origin) ─▶ endpoint ─▶ identify (key) ─▶ its handler."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from functools import lru_cache, partial
from typing import TYPE_CHECKING, TypeAlias

from msgspec.structs import replace

from dragoman.errors import Busy, ClientError, DragomanError, KeyBusy, Overloaded, UnknownKeysLimited
from dragoman.gateway.access.client_address import client_address, peer_address
from dragoman.gateway.access.endpoint_rights import check_endpoint, may_use, roles_for
from dragoman.gateway.access.grant import AccessGrant, Head, head_of
from dragoman.gateway.access.guard import Guard
from dragoman.gateway.access.key_concurrency import KeySlot
from dragoman.gateway.admin.framework import send_error
from dragoman.gateway.advice import Advice, Called, of_error
from dragoman.gateway.endpoints.compact import compact
from dragoman.gateway.endpoints.conversations import serve_conversation
from dragoman.gateway.endpoints.count_tokens import count_tokens
from dragoman.gateway.endpoints.index_page import ENDPOINTS, send_index_page
from dragoman.gateway.endpoints.launches import launch_summary
from dragoman.gateway.endpoints.model_list import list_models, show_model
from dragoman.gateway.endpoints.model_names import send_names
from dragoman.gateway.endpoints.passthrough import forward
from dragoman.gateway.endpoints.readiness import readiness
from dragoman.gateway.endpoints.responses import serve_response
from dragoman.gateway.endpoints.route import explain_route
from dragoman.gateway.endpoints.status import require_local_client, reset, status_of
from dragoman.gateway.exchange.exchange import Exchange
from dragoman.gateway.exchange.failing import CLIENT_CLOSED_REQUEST
from dragoman.gateway.exchange.recording import Recording, records_contents
from dragoman.gateway.exchange.serving import serve
from dragoman.gateway.forwarding import error_responses as replies
from dragoman.gateway.forwarding.client import ClientRequest
from dragoman.gateway.forwarding.error_responses import JSON
from dragoman.gateway.forwarding.provider_request import received
from dragoman.gateway.model_resolver import UnknownModel
from dragoman.gateway.observability.launch_counters import HEADER as LAUNCH
from dragoman.gateway.observability.launch_counters import is_launch_name, launch_name
from dragoman.gateway.observability.metrics import Snapshot
from dragoman.gateway.observability.prometheus import render
from dragoman.gateway.observability.record import Record
from dragoman.gateway.observability.record_builder import RecordBuilder
from dragoman.gateway.observability.refusals import refusal_of
from dragoman.gateway.paths import CHAT, LAUNCHES, MESSAGES, ApiPath, EndpointKind, api_path_of
from dragoman.gateway.peer_workers import PeerWorkers
from dragoman.gateway.runtime import Incoming, Runtime
from dragoman.gateway.stored_responses.store_failures import NotStored, unreadable
from dragoman.http.request import HeadDecision
from dragoman.http.server import ServerRequest
from dragoman.http.upstream_call import HeaderList
from dragoman.identities.identity import ADMIN, Identity, format_tags
from dragoman.identities.key_text import KEY_LENGTH, without_key_texts
from dragoman.mint import random_token
from dragoman.model.failure import Failure, FailureKind
from dragoman.records.ids import new_id
from dragoman.records.journal_entry import CONVERSATION, COUNT, LIST, OTHER
from dragoman.sessions.fact_extraction import facts_in
from dragoman.sessions.facts import ExchangeFacts
from dragoman.store import StoreError
from dragoman.telemetry.trace_context import PARENT, read_trace_context
from dragoman.wire.json import encode

if TYPE_CHECKING:
    from dragoman.contents.writer import ContentsWriter
    from dragoman.gateway.admin.api import AdminApi

# Headers of a 401.
_BEARER, _NO_RETRY = (b"www-authenticate", b"Bearer"), (b"x-should-retry", b"false")
_TEXT = (b"content-type", b"text/plain; charset=utf-8")
# https://prometheus.io/docs/instrumenting/exposition_formats/
_METRICS = (b"content-type", b"text/plain; version=0.0.4; charset=utf-8")
# No honest name of a program is longer.
_MAX_PROGRAM_LENGTH = 120
# Kinds of requests for which a model works: each takes a slot of its key.
_WORKING_KINDS = frozenset({EndpointKind.CONVERSATION, EndpointKind.COUNT, EndpointKind.COMPACT, EndpointKind.OTHER})
# Kinds whose grants are remembered: frequent, and without an id in their paths.
_REMEMBERED_KINDS = frozenset(
    {EndpointKind.CONVERSATION, EndpointKind.COUNT, EndpointKind.COMPACT, EndpointKind.MODELS}
)
# Enum members are slow to look up, and every request needs these.
_CONVERSATION = EndpointKind.CONVERSATION
_ADMIN = EndpointKind.ADMIN
_OPEN_KINDS = frozenset({EndpointKind.INDEX, EndpointKind.HELLO, EndpointKind.HEALTH, EndpointKind.READY})
# The kinds in records; other endpoints are not recorded.
_RECORD_KINDS: dict[EndpointKind, str] = {
    EndpointKind.CONVERSATION: CONVERSATION,
    EndpointKind.COMPACT: CONVERSATION,
    EndpointKind.COUNT: COUNT,
    EndpointKind.MODELS: LIST,
    EndpointKind.MODEL: LIST,
    EndpointKind.STORED: OTHER,
    EndpointKind.CONVERSATIONS: OTHER,
    EndpointKind.OTHER: OTHER,
}
# `retry-after` in seconds for requests that are rejected because records cannot be written.
_FULL_FOR = 10
# The message for unexpected errors in a handler, and for errors that the gateway caused.
_BROKEN = "internal error"
_STOPPING = "the gateway is shutting down"
_NOT_WRITTEN = "the gateway cannot record requests: the disk is full"


# Endpoints beside conversations.
SERVED: dict[EndpointKind, Callable[[Incoming], Awaitable[None]]] = {
    EndpointKind.COUNT: count_tokens,
    EndpointKind.STORED: serve_response,
    EndpointKind.CONVERSATIONS: serve_conversation,
    EndpointKind.COMPACT: compact,
    EndpointKind.MODELS: list_models,
    EndpointKind.MODEL: show_model,
    EndpointKind.OTHER: forward,
}


# Members of a record from `client_protocol` to `tags`.
_Described: TypeAlias = tuple[str, str, str, str, str, str, str, ExchangeFacts, str, str, str]


async def _serve_recorded(
    contents: ContentsWriter,
    runtime: Runtime,
    client_request: ClientRequest,
    request: ServerRequest,
    builder: RecordBuilder,
    body: bytes | Awaitable[bytes],
) -> None:
    """Serve a conversation whose contents are recorded."""
    recording = Recording(contents, builder.record, client_request)
    exchange = Exchange(runtime, client_request, recording.client(request), builder)
    exchange.recording = recording
    try:
        await serve(exchange, recording.request(body))
    finally:
        recording.end()


class Admitted(HeadDecision, frozen=True):
    """A head with which requests are let in, until keys or the configuration change."""

    guard: Guard
    grant: AccessGrant
    client_request: ClientRequest
    described: _Described


class App:
    """The requests of one process. `runtime` is replaced when the configuration changes."""

    def __init__(self, runtime: Runtime, others: PeerWorkers | None = None) -> None:
        self.runtime = runtime
        self._others = others
        # Whether it will stop soon. Requests are served, and clients are sent to other connections.
        self.lame_duck = False
        # Made for its first request.
        self.admin: AdminApi | None = None
        self._pages: dict[EndpointKind, Callable[[ServerRequest], Awaitable[None]]] = {
            EndpointKind.INDEX: self._index_page,
            EndpointKind.HELLO: self._hello,
            EndpointKind.HEALTH: self._health,
            EndpointKind.READY: self._ready,
            EndpointKind.METRICS: self._metrics,
            EndpointKind.STATUS: self._status,
        }

    async def __call__(self, request: ServerRequest) -> None:
        runtime = self.runtime
        if self.lame_duck:
            request.closes = True
        guard, head = runtime.guard, request.shared_head
        admitted = None if head is None else head.decision
        if (
            not isinstance(admitted, Admitted)
            or admitted.guard is not guard
            or (grant := admitted.grant).changes != guard.identities.changes
            or not (grant.lasts or guard.holds(grant))
        ):
            admitted = await self._admit(runtime, request)
            if admitted is None:
                return
        client_request = admitted.client_request
        api_path, key = client_request.api_path, client_request.key
        is_talk = api_path.kind is _CONVERSATION
        now = time.time_ns() // 1000
        record = Record(new_id(now, random_token), runtime.clock(), now, *admitted.described)
        builder = RecordBuilder(record, runtime.clock, runtime.finish)
        if runtime.usage_recorder.waits:
            builder.on_finalized = partial(self._hold, runtime, request)
        key_slot: KeySlot | None = None
        runtime.metrics.in_flight += 1
        try:
            if runtime.usage_recorder.refuses and _makes_work(request, api_path):
                self._send_error(runtime, request, builder, Overloaded(_NOT_WRITTEN, waited=0.0, retry_after=_FULL_FOR))
                return
            if key is not None and key.rights.concurrency is not None and _makes_work(request, api_path):
                try:
                    key_slot = runtime.key_calls.take(key, runtime.settings.server.workers)
                except KeyBusy as error:
                    self._send_error(runtime, request, builder, error)
                    return
            if is_talk:
                if key_slot is not None:
                    client_request = replace(client_request, key_slot=key_slot)
                body = received(runtime, request, builder.record.key)
                if (contents := runtime.contents) is None or not records_contents(client_request):
                    await serve(Exchange(runtime, client_request, request, builder), body)
                else:
                    await _serve_recorded(contents, runtime, client_request, request, builder, body)
            else:
                await self._aside(Incoming(runtime, request, api_path, builder, key))
        except asyncio.CancelledError:
            # The client went away, or the gateway is shutting down under it.
            if runtime.draining and not request.gone:
                request.closes = True
                self._give_up(runtime, request, builder, ClientError(503, _STOPPING), failure="shutdown")
            else:
                builder.finalize(status=builder.record.status or CLIENT_CLOSED_REQUEST, failure="cancelled")
            raise
        except Exception:
            # The caller logs the cause.
            self._give_up(runtime, request, builder, ClientError(500, _BROKEN), failure=FailureKind.INTERNAL.value)
            raise
        finally:
            runtime.metrics.in_flight -= 1
            if key_slot is not None:
                key_slot.release()
            builder.finalize()
            if request.held is not None:
                await request.held

    async def _admit(self, runtime: Runtime, request: ServerRequest) -> Admitted | None:
        """Decide by the head whether a request is let in; None if it is answered already."""
        guard, shared = runtime.guard, request.shared_head
        head = head_of(request, guard.identities.changes)
        grant = guard.grants.get(head)
        if grant is None or not (grant.lasts or guard.holds(grant)):
            grant = await self._decide(runtime, request, head)
            if grant is None:
                return None
        api_path, key = grant.api_path, grant.key
        client_request = ClientRequest(api_path, request.headers, request.table, request.query, key, grant)
        launch = launch_name(request.table.get(LAUNCH))
        described = self._described(request, api_path, grant.address, key, launch)
        admitted = Admitted(guard, grant, client_request, described)
        if shared is not None and guard.grants.get(head) is grant:
            shared.decision = admitted
        return admitted

    async def _decide(self, runtime: Runtime, request: ServerRequest, head: Head) -> AccessGrant | None:
        """Decide whether a request is let in; None if it was refused, or was about the gateway itself and served."""
        api_path, guard, given = api_path_of(request.path), runtime.guard, request.table.get
        if api_path.kind is _ADMIN:
            await self._administer(runtime, request, api_path)
            return None
        refused: Identity | None = None
        try:
            guard.admit(request)
            if request.method == "OPTIONS" and given(b"access-control-request-method") is not None:
                request.respond(204, guard.preflight(request), b"")
                return None
            if given(b"sec-websocket-key") is not None:
                # The status from which clients fall back to HTTP at once instead of trying again.
                raise ClientError(426, "WebSocket is not supported; use the same path over HTTP")
            if api_path.methods and request.method not in api_path.methods:
                raise ClientError(405, f"this path takes {' or '.join(api_path.methods)}, not {request.method}")
            key = None if api_path.kind in _OPEN_KINDS else guard.identify(request, api_path.protocol)
            if key is not None:
                refused = key
                self._check_rights(runtime, request, api_path, key)
                refused = None
            if await self._own(runtime, request, api_path, key):
                return None
        except (ClientError, Busy) as error:
            self._refuse(request, api_path, error, refused)
            return None
        grant = guard.grant(request, api_path, key)
        # The operator's role does not follow from the key alone.
        if api_path.kind in _REMEMBERED_KINDS and (
            key is None or may_use(key.rights.role, request.method, api_path.kind)
        ):
            guard.grants.remember(head, grant)
        return grant

    def _check_rights(self, runtime: Runtime, request: ServerRequest, api_path: ApiPath, key: Identity) -> None:
        """Refuse an endpoint that the role or the lists of a key do not permit."""
        rights, kind = key.rights, api_path.kind
        role = rights.role
        if not may_use(role, request.method, kind) and not may_use(
            role := self._role(runtime, request, key), request.method, kind
        ):
            needed = " or ".join(roles_for(request.method, kind))
            raise ClientError(403, f"a gateway key with the role {role} may not use this path, which needs {needed}")
        if rights.models is not None or rights.paths is not None:
            check_endpoint(rights, request.method, api_path, request.query)

    def _role(self, runtime: Runtime, request: ServerRequest, key: Identity | None) -> str:
        """The role of a request: that of its key. Without keys, and with the key of `launch` on this machine, it is the
        operator's, who may do everything."""
        if key is None or runtime.guard.is_operator(request, client_address(request, runtime.proxies), key.name):
            return ADMIN
        return key.rights.role

    def _hold(self, runtime: Runtime, request: ServerRequest) -> None:
        """Hold the rest of the response until the record is on the disk."""
        synced = runtime.usage_recorder.synced()
        if synced is not None:
            request.hold(synced)

    async def _own(self, runtime: Runtime, request: ServerRequest, api_path: ApiPath, key: Identity | None) -> bool:
        """Handle a request about the gateway itself; False if this is something else."""
        kind = api_path.kind
        page = self._pages.get(kind)
        if page is not None:
            await page(request)
        elif kind is EndpointKind.ROUTE:
            require_local_client(runtime, request)
            await self._explain(request, key)
        elif kind is EndpointKind.LAUNCH:
            require_local_client(runtime, request)
            await self._launch(request, api_path, "" if key is None else key.name)
        elif kind is EndpointKind.MODEL_NAMES:
            await send_names(runtime, request, _client_protocol(request), key)
        elif kind is EndpointKind.NOWHERE:
            raise ClientError(404, f"there is nothing at this path; what there is: {', '.join(ENDPOINTS)}")
        else:
            return False
        return True

    async def _administer(self, runtime: Runtime, request: ServerRequest, api_path: ApiPath) -> None:
        """Serve the admin API, whose refusals have an envelope of their own."""
        try:
            runtime.guard.admit(request)
            identity = runtime.guard.identify(request, api_path.protocol)
        except (ClientError, Busy) as error:
            if not isinstance(error, UnknownKeysLimited):
                _refused(
                    runtime.builder_of_unauthenticated(
                        self._record(request, api_path, client_address(request, runtime.proxies))
                    ),
                    error,
                )
            send_error(request, _as_client_error(error), _door_headers(error))
            return
        if self.admin is None:
            # Most gateways are never asked: the modules are loaded now, off the event loop.
            make = await asyncio.to_thread(_load_admin_api)
            self.admin = self.admin or make(self._snapshots, lambda: self.runtime)
        await self.admin.serve(runtime, request, identity)

    async def _aside(self, incoming: Incoming) -> None:
        """Serve a request beside conversations."""
        try:
            await SERVED[incoming.api_path.kind](incoming)
        except DragomanError as error:
            runtime = incoming.runtime
            # No local keeps the error, whose traceback holds this frame.
            self._send_error(
                runtime,
                incoming.request,
                incoming.builder,
                unreadable(error, runtime.log) if isinstance(error, StoreError) else error,
            )

    async def _explain(self, request: ServerRequest, key: Identity | None) -> None:
        """Explain a route; a check of its providers takes a slot of the key."""
        runtime = self.runtime
        try:
            key_slot = runtime.key_calls.take(key, runtime.settings.server.workers)
        except KeyBusy as error:
            raise ClientError(429, str(error)) from None
        try:
            await explain_route(runtime, request, key, self._role(runtime, request, key))
        finally:
            if key_slot is not None:
                key_slot.release()

    def _send_error(
        self, runtime: Runtime, request: ServerRequest, builder: RecordBuilder, error: DragomanError
    ) -> None:
        """Answer with an error; all that is left to say in a stream is that it broke off."""
        record, advice = builder.record, _advice(runtime, builder.record, error)
        what = replies.failure_of(error) or error
        if advice is not None and isinstance(what, Failure):
            is_operator = runtime.guard.is_operator(request, record.address, record.key)
            what = replace(what, message=advice.operator if is_operator else advice.client)
            record.advice = advice.operator
        record.refusal = refusal_of(error)
        response = replies.encode_error(what, record.client_protocol, record.id, program=record.program)
        failure = response.failure.kind.value if response.failure is not None else ""
        if request.started:
            builder.finalize(failure=failure)
            request.abort()
            return
        builder.finalize(status=response.status, failure=failure)
        headers = [JSON, replies.id_header(record.client_protocol, record.id), *runtime.guard.greeting(request)]
        if isinstance(error, NotStored) or (advice is not None and advice.is_permanent):
            # The store was waited for already; or it can only fail again.
            headers.append((b"x-should-retry", b"false"))
        if isinstance(error, Busy):
            headers.append((b"retry-after", str(error.retry_after).encode()))
        request.respond(response.status, headers, response.body)

    def _give_up(
        self, runtime: Runtime, request: ServerRequest, builder: RecordBuilder, error: ClientError, *, failure: str
    ) -> None:
        """Finalize an exchange that no code continues, and send an error with its ID if nothing was sent."""
        if request.started:
            builder.finalize(failure=failure)
            return
        record = builder.record
        builder.finalize(status=error.status, failure=failure)
        headers = [JSON, replies.id_header(record.client_protocol, record.id), *runtime.guard.greeting(request)]
        request.respond(error.status, headers, replies.encode_error(error, record.client_protocol, record.id).body)

    def refuse(self, status: int, message: str, path: str, peer: str) -> tuple[HeaderList, bytes]:
        """The reply to what never became a request: in the envelope of the path, as far as one was read."""
        runtime, now = self.runtime, time.time_ns() // 1000
        api_path = api_path_of(path) if path else None
        protocol, rest = (api_path.protocol, api_path.rest) if api_path is not None else ("", "")
        builder = runtime.builder_of_unauthenticated(
            Record(
                id=new_id(now, random_token),
                client_protocol=protocol,
                path=without_key_texts(rest),
                started=runtime.clock(),
                time=now,
                # Without a path there is no kind.
                kind="" if api_path is None else _RECORD_KINDS.get(api_path.kind, ""),
                address=peer_address(peer, runtime.proxies),
            )
        )
        return [JSON, replies.id_header(protocol, builder.record.id)], _refused(builder, ClientError(status, message))

    def _refuse(
        self, request: ServerRequest, api_path: ApiPath, error: ClientError | Busy, key: Identity | None
    ) -> None:
        """Refuse a request; with the key if it is refused for its rights."""
        runtime = self.runtime
        record = self._record(request, api_path, client_address(request, runtime.proxies), key)
        headers = [JSON, replies.id_header(record.client_protocol, record.id), *runtime.guard.greeting(request)]
        headers += _door_headers(error)
        if isinstance(error, UnknownKeysLimited):
            # A client that tries keys out fills neither the log nor the records.
            response = replies.encode_error(error, record.client_protocol, record.id)
            request.respond(response.status, headers, response.body)
            return
        if isinstance(error, ClientError) and error.status == 405:
            headers.append((b"allow", ", ".join(api_path.methods).encode()))
        builder = runtime.builder_of_unauthenticated(record) if key is None else runtime.builder_of(record)
        body = _refused(builder, error)
        request.respond(builder.record.status, headers, body)

    def _record(
        self, request: ServerRequest, api_path: ApiPath, address: str, key: Identity | None = None, launch: str = ""
    ) -> Record:
        """The record of a request that begins."""
        now = time.time_ns() // 1000
        described = self._described(request, api_path, address, key, launch)
        return Record(new_id(now, random_token), self.runtime.clock(), now, *described)

    def _described(
        self, request: ServerRequest, api_path: ApiPath, address: str, key: Identity | None, launch: str
    ) -> _Described:
        """What the record of a request has of its head."""
        headers, path = request.table, api_path.rest
        trace, trace_state = read_trace_context(request.headers) if PARENT in headers else ("", "")
        return (
            api_path.protocol or _client_protocol(request),
            path if len(path) < KEY_LENGTH else without_key_texts(path),
            _RECORD_KINDS.get(api_path.kind, ""),
            address,
            _program(headers.get(b"user-agent", b"")[:_MAX_PROGRAM_LENGTH]),
            "" if key is None else key.name,
            launch,
            facts_in(headers),
            trace,
            trace_state,
            format_tags(key.tags) if key is not None and key.tags else "",
        )

    async def _index_page(self, request: ServerRequest) -> None:
        send_index_page(self.runtime, request, ready=self._is_ready())

    async def _hello(self, request: ServerRequest) -> None:
        request.respond(200, [JSON], b'{"message":"hello"}')

    async def _health(self, request: ServerRequest) -> None:
        request.respond(200, [_TEXT], b"ok\n")

    async def _ready(self, request: ServerRequest) -> None:
        status, words = readiness(
            self.runtime.usage_recorder,
            self.runtime.guard.identities,
            self.runtime.state.server,
            self.runtime.contents,
            verbose=request.query == "verbose",
        )
        if not self._is_stopping():
            request.respond(status, [_TEXT], words)
        else:
            request.respond(503, [_TEXT], b"draining\n")

    def _is_ready(self) -> bool:
        return not self._is_stopping() and not self.runtime.usage_recorder.refuses

    def _is_stopping(self) -> bool:
        return self.lame_duck or self.runtime.draining

    async def _metrics(self, request: ServerRequest) -> None:
        state = self.runtime.state
        database_up = None if state.server is None else not state.server.is_away
        body = render(await self._snapshots(), await state.stored_bytes(), database_up)
        request.respond(200, [_METRICS], body)

    async def _status(self, request: ServerRequest) -> None:
        runtime = self.runtime
        require_local_client(runtime, request)
        if request.method == "POST":
            body = await reset(runtime, request, runtime.guard.identify(request, api_path_of(request.path).protocol))
        else:
            body = status_of(runtime, await self._snapshots())
        request.respond(200, [JSON], encode(body))

    async def _launch(self, request: ServerRequest, api_path: ApiPath, key: str) -> None:
        name = api_path.rest.removeprefix(LAUNCHES)
        if not is_launch_name(name):
            raise ClientError(404, "a launch is called by 1 to 64 letters, digits, dots, hyphens and underscores")
        others = [] if self._others is None else await self._others.launch_counts(key, name)
        body = launch_summary(name, [self.runtime.metrics.launch_count(key, name), *others])
        request.respond(200, [JSON], encode(body))

    async def _snapshots(self) -> list[Snapshot]:
        """The counts of all workers, this one first."""
        own = self.runtime.metrics.snapshot()
        return [own] if self._others is None else [own, *await self._others.snapshots()]


def _advice(runtime: Runtime, record: Record, error: DragomanError) -> Advice | None:
    """The remedy for an error outside conversations."""
    if isinstance(error, UnknownModel):
        return error.advice
    provider = runtime.settings.providers.get(record.provider)
    if provider is None:
        return None
    return of_error(error, Called(provider=provider, endpoint=provider.endpoint_for(record.provider_protocol)))


def _as_client_error(error: ClientError | Busy) -> ClientError:
    """A refusal as the admin API sends it."""
    if isinstance(error, ClientError):
        return error
    failure = replies.failure_of(error)
    assert failure is not None and failure.status is not None
    return ClientError(failure.status, failure.message)


def _door_headers(error: ClientError | Busy) -> HeaderList:
    """The headers of a refusal that say whether to try again."""
    if isinstance(error, Busy):
        headers = [(b"retry-after", str(error.retry_after).encode())]
        return [*headers, _NO_RETRY] if isinstance(error, UnknownKeysLimited) else headers
    # Agents try for minutes with a key that will not become a good one.
    return [_BEARER, _NO_RETRY] if error.status == 401 else []


def _refused(builder: RecordBuilder, error: ClientError | Busy) -> bytes:
    """Finalize a request that access control rejected; returns its message."""
    response = replies.encode_error(error, builder.record.client_protocol, builder.record.id)
    failure = response.failure.kind.value if response.failure is not None else ""
    builder.record.refusal, builder.record.at_door = str(error), True
    builder.finalize(response.status, failure)
    return response.body


def _makes_work(request: ServerRequest, api_path: ApiPath) -> bool:
    """Whether a model works for a request: lookups and lists are never counted."""
    return api_path.kind in _WORKING_KINDS and request.method == "POST"


@lru_cache(maxsize=256)
def _program(user_agent: bytes) -> str:
    """The client's program: the first product of its user agent."""
    product = user_agent.partition(b" ")[0].decode("latin-1")
    return without_key_texts(product) if product.isprintable() else ""


def _client_protocol(request: ServerRequest) -> str:
    """The client's protocol where the path does not tell: its headers do (mapping.md §23)."""
    if request.header(b"anthropic-version") is not None:
        return MESSAGES
    if request.header(b"x-api-key") is not None and request.header(b"authorization") is None:
        return MESSAGES
    return CHAT


def _load_admin_api() -> type[AdminApi]:
    from dragoman.gateway.admin.api import AdminApi

    return AdminApi
