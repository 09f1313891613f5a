"""`/responses/compact`: forwarded to a provider that supports it; otherwise a model writes a summary (K1). The targets
of a route are tried in turn. State that a provider stores stays with it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from dragoman.errors import BadResponse, RefusedError, WireError
from dragoman.gateway.endpoints.passthrough import check_relayed, forward, order_for, try_in_turn
from dragoman.gateway.endpoints.passthrough_fallback import OnResponse, SameModel
from dragoman.gateway.endpoints.responses import full_item
from dragoman.gateway.exchange.attempt import Attempt, ErrorResponse, Missed
from dragoman.gateway.exchange.exchange import Exchange
from dragoman.gateway.exchange.fixed_target import compaction_targets, set_affinity
from dragoman.gateway.exchange.retry_state import RetryState
from dragoman.gateway.exchange.serving import serve
from dragoman.gateway.forwarding.client import ClientRequest
from dragoman.gateway.forwarding.provider_request import receive
from dragoman.gateway.json_limits import decode_checked_object
from dragoman.gateway.observability.record_builder import RecordBuilder
from dragoman.gateway.paths import RESPONSES, api_path_of
from dragoman.gateway.runtime import Incoming
from dragoman.gateway.stored_responses.detached_client import DetachedClient
from dragoman.gateway.stored_responses.exchange_storage import ParsedRequest, parse_request
from dragoman.gateway.stored_responses.reference_resolver import resolve_request
from dragoman.gateway.stored_responses.references import items_of, named_in
from dragoman.gateway.stored_responses.stored_state import look_up_references
from dragoman.gateway.thread_offload import offload
from dragoman.model.failure import Failure, FailureKind
from dragoman.model.jsonvalue import JsonList, JsonObject, JsonValue
from dragoman.protocols.openai_responses.shapes import COMPACTION_TRIGGER
from dragoman.protocols.registry import codec_of
from dragoman.providers.transport_interface import Order
from dragoman.records.ids import response_suffix
from dragoman.routing.attempt_outcome import AttemptOutcome
from dragoman.routing.target import Target
from dragoman.wire.json import decode_object, encode
from dragoman.wire.json_spans import replace_text

_TRIGGER: JsonObject = {"type": COMPACTION_TRIGGER}
# Members that the summary request must not have: state that is resolved here, and response forms that this endpoint
# lacks.
_OTHERS = frozenset({"input", "previous_response_id", "conversation", "store", "stream", "background"})


async def compact(incoming: Incoming) -> None:
    """Respond with the compacted conversation: the user's messages, and one compaction item."""
    runtime, request, api_path, builder = incoming.runtime, incoming.request, incoming.api_path, incoming.builder
    name = builder.record.key
    body = await receive(runtime, request, name, holder=incoming.key)
    looked = await offload(partial(parse_request, body, api_path), len(body), name)
    builder.record.requested_model, builder.record.size = looked.model, len(body)
    client_request = ClientRequest(api_path, request.headers, request.table, key=incoming.key)
    choice = await compaction_targets(runtime, client_request, body, looked, builder)
    if isinstance(choice, RetryState):
        if choice.decision is not None:
            builder.record.set_route(choice.decision)
        several = _InTurn(incoming, choice, client_request, body, looked)
        await try_in_turn(incoming, several, several.unused)
        return
    target = choice
    source = await _resolve_input(incoming, body, looked, target)
    if _compacts(target):
        await forward(incoming, target=target, body=source.body)
        if builder.record.status == 200:
            await set_affinity(runtime, client_request, body, looked, target)
        return
    detached = await _summarized(incoming, client_request, source, target)
    builder.finalize()
    request.respond(detached.status, detached.headers, detached.body)


class _CompactionInput(Struct, frozen=True):
    """The conversation to compact, with its stored references."""

    body: bytes
    size: int
    is_resolved: bool


async def _resolve_input(incoming: Incoming, body: bytes, looked: ParsedRequest, target: Target) -> _CompactionInput:
    runtime = incoming.runtime
    shared = runtime.guard.several_owners
    resolved = await look_up_references(
        runtime.state, runtime.settings, incoming.key, looked.references, body, target, shared=shared
    )
    if resolved is None or looked.references is None:
        return _CompactionInput(body, len(body), resolved is not None)
    size = len(body) + resolved.size
    resolving = partial(resolve_request, body, looked.references, resolved)
    resolved_request = await offload(resolving, size, incoming.builder.record.key)
    return _CompactionInput(resolved_request.body, size, is_resolved=True)


async def _summarized(
    incoming: Incoming, client_request: ClientRequest, source: _CompactionInput, target: Target
) -> DetachedClient:
    """Request a summary from a model without compaction. The record is not final yet."""
    runtime, builder = incoming.runtime, incoming.builder
    name = builder.record.key
    summary_request = partial(_summary_request, source.body, is_resolved=source.is_resolved)
    items, request_body = await offload(summary_request, source.size, name)
    detached = DetachedClient(behalf=incoming.request)
    responses_request = replace(client_request, api_path=api_path_of("/v1/responses"), target=target)
    # Both builders have the same record, which is final once the client has its response.
    its_own = RecordBuilder(builder.record, runtime.clock, lambda _: None)
    await serve(Exchange(runtime, responses_request, detached, its_own), request_body)
    if detached.status == 200:
        encoding = partial(_encode_compaction, items, detached.body, builder.record.id)
        detached.body = await offload(encoding, source.size + len(detached.body), name, paid=True)
    return detached


class _InTurn(SameModel):
    """A compaction that is sent to the targets of a route in turn, each in its protocol."""

    def __init__(
        self,
        incoming: Incoming,
        retry_state: RetryState,
        client_request: ClientRequest,
        body: bytes,
        looked: ParsedRequest,
    ) -> None:
        super().__init__(incoming, retry_state=retry_state)
        self._client_request = client_request
        self._body = body
        self._looked = looked

    def unused(self, target: Target, key: str | None) -> Order:
        """Unused: several targets need several orders, because each has its own model and state."""
        raise AssertionError("orders are made for each target")

    async def _try(
        self, attempt: Attempt, order_of: Callable[[Target, str | None], Order], on_response: OnResponse
    ) -> Missed | None:
        incoming, builder, target = self._incoming, self._builder, attempt.target
        source = await _resolve_input(incoming, self._body, self._looked, target)
        if not _compacts(target):
            return await self._summarize(attempt, source)
        check_relayed(incoming)
        body = source.body
        if target.model != self._looked.model:
            renaming = partial(replace_text, body, "model", target.model)
            body = await offload(renaming, source.size, builder.record.key)
        kind = incoming.request.header(b"content-type") or b"application/json"
        ordered = partial(order_for, incoming, kind, body)
        missed = await super()._try(attempt, ordered, on_response)
        if missed is None and builder.record.status == 200:
            await set_affinity(self._runtime, self._client_request, self._body, self._looked, target)
        return missed

    async def _summarize(self, attempt: Attempt, source: _CompactionInput) -> Missed | None:
        """Request a summary from a target. Returns its failure, or None if the client has its response."""
        builder, request, made = self._builder, self._incoming.request, len(self._builder.record.attempts)
        try:
            detached = await _summarized(self._incoming, self._client_request, source, attempt.target)
        except BadResponse as error:
            self._errors[attempt] = error
            failure = Failure(kind=FailureKind.BAD_GATEWAY, status=502, message=str(error))
            return Missed(failure=failure, attempt=attempt, kind=AttemptOutcome.UNREADABLE)
        if detached.status == 200:
            builder.finalize()
            request.respond(detached.status, detached.headers, detached.body)
            return None
        failure = codec_of(self._client_request.api_path.protocol).decode_failure(detached.status, detached.body)
        calls = builder.record.attempts[made:]
        if not calls and failure.status < 500:
            # The target cannot express this, so it was not called.
            raise RefusedError("", "", failure.message)
        attempt.status, attempt.headers = detached.status, detached.headers
        kind = AttemptOutcome(calls[-1].kind) if calls else AttemptOutcome.QUEUE_FULL
        response = ErrorResponse(status=detached.status, headers=detached.headers, failure=failure, body=detached.body)
        return Missed(failure=failure, attempt=attempt, response=response, kind=kind)


def _compacts(target: Target) -> bool:
    """Whether a target has compaction. Otherwise a summary is requested."""
    return target.endpoint.protocol == RESPONSES


def _summary_request(body: bytes, *, is_resolved: bool) -> tuple[JsonList, bytes]:
    """The items to compact, and the request for it."""
    wire = decode_checked_object(body)
    items = _items(wire.get("input"))
    request: JsonObject = {name: value for name, value in wire.items() if name not in _OTHERS}
    request |= {"input": [*items, _TRIGGER], "store": False}
    if not is_resolved and wire.get("previous_response_id") is not None:
        # Without a store the ID cannot be resolved, which the library reports.
        request["previous_response_id"] = wire["previous_response_id"]
    return items, encode(request)


def _encode_compaction(items: JsonList, summary: bytes, exchange: str) -> bytes:
    response = decode_object(summary)
    if response.get("status") != "completed":
        # A partial summary must not be returned: the client is about to discard the conversation.
        raise BadResponse("the provider gave no complete summary of the conversation")
    return encode(_compacted(items, response, exchange))


def _items(value: JsonValue) -> JsonList:
    if isinstance(value, str):
        return [{"type": "message", "role": "user", "content": value}]
    if not isinstance(value, list):
        raise WireError("/input", "a string or items", "nothing")
    return value


def _compacted(items: JsonList, response: JsonObject, exchange: str) -> JsonObject:
    """The response in the form of this endpoint."""
    users = [encode(item) for item in items if isinstance(item, dict) and item.get("role") == "user"]
    compacted: JsonList = [full_item(item) for item in items_of(users)]
    output = response.get("output")
    for item in output if isinstance(output, list) else ():
        if named_in(encode(item)).type == "compaction":
            compacted.append(item)
    return {
        "id": "resp_" + response_suffix(exchange),
        "object": "response.compaction",
        "created_at": response["created_at"],
        "output": compacted,
        "usage": response["usage"],
    }
