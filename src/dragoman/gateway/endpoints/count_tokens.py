"""Token counting: the input tokens of a request, counted by the provider or estimated (mapping.md §23).

protocol of the provider       the count comes from
Messages                       its count_tokens, translated if the client uses Responses
Responses                      its input_tokens, translated if the client uses Messages
Chat, or without counting      the gateway, marked as an estimate with the counting method"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from msgspec import Struct

from dragoman.errors import ClientError, DragomanError, KeysUnreadable
from dragoman.gateway.exchange.fixed_target import fixed_target
from dragoman.gateway.exchange.full_response import is_envelope
from dragoman.gateway.exchange.one_call import one_call
from dragoman.gateway.exchange.provider_errors import cleaned
from dragoman.gateway.forwarding import header_forwarding
from dragoman.gateway.forwarding.client import ClientRequest
from dragoman.gateway.forwarding.error_responses import JSON, id_header, losses_header, route_header
from dragoman.gateway.forwarding.provider_request import receive
from dragoman.gateway.json_limits import check_request_values
from dragoman.gateway.paths import MESSAGES, RESPONSES
from dragoman.gateway.runtime import Incoming
from dragoman.gateway.stored_responses.exchange_storage import ParsedRequest, parse_request
from dragoman.gateway.stored_responses.reference_resolver import ResolvedReferences, resolve_request
from dragoman.gateway.stored_responses.stored_state import look_up_references, owner_of
from dragoman.gateway.thread_offload import offload
from dragoman.http.upstream_call import HeaderList
from dragoman.model.jsonvalue import JsonObject
from dragoman.providers.transport_interface import Order
from dragoman.routing.target import Target
from dragoman.tokens.request import CountedTokens, count_request
from dragoman.translate import TranslatedRequest, translate_request
from dragoman.wire.json import decode_object, encode

# On the gateway's counts: `tokenizer` or `calibrated` (docs/token-counting.md).
ESTIMATED = b"x-dragoman-estimate"
_WEIGHT = 2
_MAX_RESPONSE_BYTES = 1024 * 1024
_NO_HEADERS: HeaderList = []
_UNKNOWN_PATH = (404, 405)

_PATHS: Mapping[str, str] = {MESSAGES: "/v1/messages/count_tokens", RESPONSES: "/responses/input_tokens"}
# Members of a request that the counting endpoints accept. Others do not affect the count.
_COUNTED: Mapping[str, tuple[str, ...]] = {
    MESSAGES: (
        *("model", "messages", "system", "tools", "tool_choice", "thinking", "output_config"),
        *("cache_control", "mcp_servers", "context_management"),
    ),
    RESPONSES: (
        *("model", "input", "instructions", "tools", "tool_choice", "parallel_tool_calls", "reasoning", "text"),
        *("truncation", "previous_response_id", "conversation"),
    ),
}


async def count_tokens(incoming: Incoming) -> None:
    runtime, request, api_path, builder = incoming.runtime, incoming.request, incoming.api_path, incoming.builder
    key, name = incoming.key, builder.record.key
    body = await receive(runtime, request, name, holder=key)
    parsed = await offload(partial(parse_request, body, api_path), len(body), name)
    builder.record.requested_model, builder.record.size = parsed.model, len(body)
    client_request = ClientRequest(api_path, request.headers, request.table, key=key)
    target = await fixed_target(runtime, client_request, body, parsed)
    builder.record.set_target(target)
    references, size = None, len(body)
    if api_path.protocol == RESPONSES:
        shared = runtime.guard.several_owners
        references = await look_up_references(
            runtime.state, runtime.settings, key, parsed.references, body, target, shared=shared
        )
        size += 0 if references is None else references.size
    asks = target.provider.counts_tokens and target.endpoint.protocol in _PATHS
    ready = await offload(
        partial(_ready, body, parsed, references, api_path.protocol, target, asks=asks), _WEIGHT * size, name
    )
    builder.record.losses = ready.translated.losses
    answered, given = None, _NO_HEADERS
    if asks:
        status, answered, given = await _query_provider(incoming, target, ready)
        if answered is not None and status != 200:
            await _refuse(incoming, target, status, answered, given)
            return
    counted = _count_in(answered) if answered is not None else None
    estimate_headers = []
    if counted is None:
        local = ready.count
        if local is None:
            counting = partial(_counted, ready.translated.body, api_path.protocol, target.model)
            local = await offload(counting, _WEIGHT * size, name)
        answered, counted = None, local.tokens
        estimate_headers = [(ESTIMATED, local.by.encode())]
    response: JsonObject = {"input_tokens": counted}
    if api_path.protocol == RESPONSES:
        response = {"object": "response.input_tokens", **response}
    # A count in the client's own protocol is relayed unchanged.
    relayed = answered if api_path.protocol == target.endpoint.protocol else None
    builder.finalize(status=200)
    returned = given if relayed is not None else []
    headers = _headers(incoming, target, [losses_header(builder.record.losses), *estimate_headers, *returned])
    request.respond(200, headers, encode(response) if relayed is None else relayed)


def _headers(incoming: Incoming, target: Target, others: HeaderList) -> HeaderList:
    return [
        JSON,
        id_header(incoming.api_path.protocol, incoming.builder.record.id),
        route_header(target.provider.name, target.printable_model, target.endpoint.protocol),
        *others,
        *incoming.runtime.guard.greeting(incoming.request),
    ]


class _Ready(Struct, frozen=True):
    """A request as it would be sent, the body of the counting request, and the gateway's count if no provider
    counts."""

    translated: TranslatedRequest
    count_body: bytes
    count: CountedTokens | None


def _ready(
    body: bytes,
    parsed: ParsedRequest,
    references: ResolvedReferences | None,
    source: str,
    target: Target,
    *,
    asks: bool,
) -> _Ready:
    """Run all work on a request's body in one step."""
    if references is not None and parsed.references is not None:
        body = resolve_request(body, parsed.references, references).body
        check_request_values(body)
    translated = _translated(body, source, target, renamed=target.model != parsed.model)
    if not asks:
        return _Ready(translated, b"", _counted(translated.body, source, target.model))
    protocol = target.endpoint.protocol
    if source == protocol:
        return _Ready(translated, translated.body, None)
    wire = decode_object(translated.body)
    return _Ready(translated, encode({name: wire[name] for name in _COUNTED[protocol] if name in wire}), None)


def _translated(body: bytes, source: str, target: Target, *, renamed: bool) -> TranslatedRequest:
    """The request as the provider would get it."""
    protocol = target.endpoint.protocol
    if source == protocol:
        return translate_request(body, source=source, target=protocol, model=target.model if renamed else None)
    wire = decode_object(body)
    if source == MESSAGES:
        # Required in a request, but not in a count.
        wire.setdefault("max_tokens", 1024)
    return translate_request(
        wire,
        source=source,
        target=protocol,
        model=target.model,
        vendor=target.provider.vendor_or_name,
        capability_rows=target.provider.capabilities,
    )


async def _query_provider(incoming: Incoming, target: Target, ready: _Ready) -> tuple[int, bytes | None, HeaderList]:
    """Status, body and headers of the provider's response or readable error. Without a body an estimate is needed."""
    runtime, api_path = incoming.runtime, incoming.api_path
    protocol = target.endpoint.protocol
    if api_path.protocol == protocol:
        headers, table = incoming.request.headers, incoming.request.table
        passed = header_forwarding.relayed(headers, table, target, owner_of(incoming.key))
    else:
        passed = header_forwarding.written(ready.translated.headers)
    order = Order(
        provider=target.provider,
        endpoint=target.endpoint,
        model=target.model,
        stream=False,
        body=ready.count_body,
        headers=passed,
        key=runtime.rotation(target.provider).next(),
        path=_PATHS[protocol],
    )
    try:
        async with one_call(incoming, target, order) as (call, _):
            raw = await call.read(_MAX_RESPONSE_BYTES)
    except (ClientError, KeysUnreadable):
        # The key lost its rights meanwhile.
        raise
    except DragomanError as error:
        runtime.log.event("warn", "cannot count tokens at provider", provider=target.provider.name, reason=str(error))
        return 0, None, []
    own = len(target.provider.keys) <= 1 or runtime.settings.server.forward_pooled_rate_limits
    given = header_forwarding.returned(call.headers, limits=own) if api_path.protocol == protocol else []
    if call.status == 200:
        return 200, raw, given
    runtime.log.event("warn", "cannot count tokens at provider", provider=target.provider.name, status=call.status)
    # A provider without the path cannot count. Other errors of the request are returned.
    relayed = api_path.protocol == protocol and 400 <= call.status < 500 and call.status not in _UNKNOWN_PATH
    # A client with its own key would think that its key was rejected.
    own = call.status == 401 and not runtime.guard.open
    return call.status, raw if relayed and not own and is_envelope(raw, protocol) else None, given


async def _refuse(incoming: Incoming, target: Target, status: int, body: bytes, given: HeaderList) -> None:
    """Return the provider's own error to a client of its protocol."""
    redactor = incoming.runtime.redactor(target.provider)
    body = await cleaned(redactor, body, incoming.builder.record.key)
    incoming.builder.finalize(status=status, failure="other")
    incoming.request.respond(status, _headers(incoming, target, redactor.clean_headers(given)), body)


def _counted(body: bytes, source: str, model: str) -> CountedTokens:
    """Count the tokens here. A request with parts that only the provider stores is rejected: agents compact by the
    number."""
    wire = decode_object(body)
    if source == RESPONSES:
        for name in ("previous_response_id", "conversation"):
            if wire.get(name) is not None:
                raise ClientError(400, "the provider stores the referenced items and did not count them", param=name)
    return count_request(wire, model)


def _count_in(response: bytes) -> int | None:
    try:
        counted = decode_object(response).get("input_tokens")
    except DragomanError:
        return None
    return counted if isinstance(counted, int) and not isinstance(counted, bool) and counted >= 0 else None
