"""Provider request: a client's request, read as far as it must be, and written for the provider it leads to."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING

import msgspec
from msgspec import Raw, Struct

from dragoman.config.settings import Server
from dragoman.errors import ClientError, WireError
from dragoman.gateway.advice import printable
from dragoman.gateway.forwarding import header_forwarding
from dragoman.gateway.forwarding.client import ClientRequest
from dragoman.gateway.forwarding.client_translations import ClientTranslations
from dragoman.gateway.json_limits import MAX_REQUEST_VALUES, check_request_values
from dragoman.gateway.paths import CHAT, MESSAGES, RESPONSES, ApiPath, api_path_of
from dragoman.gateway.thread_offload import INLINE, offload
from dragoman.http.coding import BodyDecoder
from dragoman.http.server import ServerRequest
from dragoman.http.upstream_call import HeaderList
from dragoman.identities.identity import Identity
from dragoman.model.losses import Strict, strictest
from dragoman.protocols.codec import RequestGlance
from dragoman.protocols.registry import codec_of
from dragoman.routing.target import Target
from dragoman.translate import TranslatedRequest, check_strict, same_request, translate_request, translation_context
from dragoman.wire.duplicate_keys import OBJECT, ambiguous, folded, joined
from dragoman.wire.history_digest import is_crowded
from dragoman.wire.json import decode_object, kind_of
from dragoman.wire.json_spans import named, object_members, with_stream, without
from dragoman.wire.peek import NULL, TRUE

if TYPE_CHECKING:
    from dragoman.gateway.runtime import Runtime

_ON = (b"1", b"true", b"yes")
_STRICT_HEADER = b"x-dragoman-strict"


# The members of a request by which it is decided where it goes, whose it is and how it is answered.
DECISIVE = frozenset(
    {
        "model",
        "stream",
        "messages",
        "input",
        "tools",
        "reasoning_effort",
        "previous_response_id",
        "conversation",
        "background",
        "store",
        "stream_options",
        "max_tokens",
        "max_completion_tokens",
        # Where models beside the request's own are named.
        "fallbacks",
        "models",
        "plugins",
        "preset",
        "compound_custom",
        "context_window_fallbacks",
        "content_policy_fallbacks",
        "providerOptions",
        # The same for readers that take no notice of case.
        "provideroptions",
    }
)


_TEXT = msgspec.json.Decoder(str)


class ProviderRequest(Struct, frozen=True):
    """A request on its way: `client` is the protocol of the response, `source` that of the request."""

    target: Target
    client: str
    source: str
    # Whether the client wants a stream, and whether the provider streams.
    stream: bool
    streams: bool
    translated: TranslatedRequest
    headers: HeaderList
    query: str = ""
    # Whether the gateway requested usage, which the client then does not get.
    metered: bool = False
    # Strict mode, which also forbids remedies that lose something.
    strict: Strict = False
    # Whether the response is in the client's own protocol already.
    relay: bool = False


# The server limits silence within a body. A body that trickles in for longer than this is abandoned.
_TRICKLE = 600.0


def received(runtime: Runtime, request: ServerRequest, key: str) -> bytes | Awaitable[bytes]:
    """The request's body if it arrived with its head, and else what waits for it."""
    if b"content-encoding" not in request.table:
        body = request.content.take_complete(runtime.settings.limits.request_body)
        if body is not None:
            return body
    return receive(runtime, request, key)


async def receive(
    runtime: Runtime,
    request: ServerRequest,
    key: str,
    max_bytes: int | None = None,
    *,
    holder: Identity | None = None,
) -> bytes:
    """The request's body, decoded; `key` is the name of the gateway key, `max_bytes` a limit of its own. The key of its
    `holder` is looked at again: body and decompression may have taken minutes."""
    body = await _decoded(runtime, request, key, max_bytes)
    if holder is not None:
        runtime.guard.check_again(holder, request.table, api_path_of(request.path).protocol)
    return body


async def _decoded(runtime: Runtime, request: ServerRequest, key: str, max_bytes: int | None) -> bytes:
    limit = runtime.settings.limits.request_body if max_bytes is None else max_bytes
    if request.content.complete:
        raw = await request.body(limit)
    else:
        try:
            async with asyncio.timeout(_TRICKLE):
                raw = await request.body(limit, runtime.unfinished.of(key))
        except TimeoutError:
            raise ClientError(408, "the request's body did not arrive in time") from None
    coding = request.table.get(b"content-encoding")
    if coding is None:
        return raw
    undoing = BodyDecoder(raw, coding, limit)
    if undoing.step():
        return undoing.body()
    # A step is what the loop may do for one body. The decompressed body may be a thousand times larger, and is charged
    # instead.
    request.content.discharge()
    async with runtime.unfinished.turn(key) as charge:
        # While it waits it holds the compressed body and one step's output.
        await offload(undoing.run, len(raw) + INLINE, key)
        body = undoing.body()
        charge.take(len(body))
    request.content.charge = charge
    return body


def glance_at(body: bytes, api_path: ApiPath) -> tuple[RequestGlance, str]:
    """Read what routing needs: a glance and the model's name. Refuse a body that readers may understand differently."""
    if len(body) > MAX_REQUEST_VALUES:
        check_request_values(body)
    try:
        members = OBJECT.decode(body)
        name = _TEXT.decode(members.get("model", NULL))
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        # The decoder reports errors of the whole body.
        model = decode_object(body).get("model")
        raise WireError("/model", "string", "nothing" if model is None else kind_of(model)) from None
    if not name:
        raise WireError("/model", "string", "an empty one")
    member = ambiguous(body, members, DECISIVE, _JOINED)
    if member is not None:
        raise _ambiguous(member)
    source = api_path.protocol
    if "input" in members and source == CHAT and members["input"] != NULL and members.get("messages", NULL) == NULL:
        # Some editors send Responses bodies on the Chat path (pitfall 207).
        source = RESPONSES
    return codec_of(source).glance(members, members.get("stream") == TRUE, is_crowded(body)), name


def glance_again(body: bytes, source: str) -> RequestGlance:
    """The outline of a request with its references replaced."""
    members = OBJECT.decode(body)
    return codec_of(source).glance(members, members.get("stream") == TRUE, is_crowded(body))


def check_unambiguous(body: bytes, members: dict[str, Raw], names: AbstractSet[str]) -> None:
    """Reject an object with one of these members twice or in another case: providers differ in which one they use."""
    member = ambiguous(body, members, names, _JOINED)
    if member is not None:
        raise _ambiguous(member)


def _ambiguous(member: str) -> ClientError:
    name = _JOINED.get(joined(member), folded(member))
    return ClientError(
        400, f"the member {printable(member)} is given twice, or in another case; send it once", param=name
    )


# Ownership members in other spellings. Options of the response (`reasoningEffort`) often have both spellings in SDKs.
_JOINED = {"previousresponseid": "previous_response_id", "encryptedcontent": "encrypted_content"}
# Members that state the owner of an item, and whether a provider completes it from its storage.
_OWNERSHIP_MEMBERS = frozenset({"id", "type", "role", "encrypted_content", "content", "result"})
# The forms of a reference: its first bytes, and a description.
_FORMS = {
    "previous_response_id": (b'"n', "text"),
    "conversation": (b'"{n', "text, or an object with an id"),
    "input": (b'"[n', "text, or a list of items"),
}
_ITEMS = msgspec.json.Decoder(list[Raw])


def check_plain_references(body: bytes) -> None:
    """Refuse references that other readers might find in a Responses request that is forwarded as written: members that
    do not fit its protocol are not read here, and may be elsewhere."""
    try:
        members = OBJECT.decode(body)
        inputs = members.get("input", NULL)
        items = _ITEMS.decode(inputs) if _begins(inputs) == b"[" else []
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        raise _unreadable() from None
    for name, (forms, words) in _FORMS.items():
        if _begins(members.get(name, NULL)) not in forms:
            raise ClientError(400, f"{name} is {words}", param=name)
    conversation = members.get("conversation", NULL)
    if _begins(conversation) == b"{":
        check_plain_items([bytes(conversation)], "conversation")
        if _begins(OBJECT.decode(conversation).get("id", NULL)) != b'"':
            raise ClientError(400, f"conversation is {_FORMS['conversation'][1]}", param="conversation")
    check_plain_items(map(bytes, items), "input")


def check_plain_items(items: Iterable[bytes], param: str) -> None:
    """The same of items, each by itself, as they were written once."""
    for item in items:
        try:
            members = OBJECT.decode(item)
        except msgspec.ValidationError:
            raise ClientError(400, "an item is an object", param=param) from None
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            raise _unreadable() from None
        check_unambiguous(item, members, _OWNERSHIP_MEMBERS)
        if any(_begins(members.get(name, NULL)) not in b'"n' for name in ("id", "type")):
            raise ClientError(400, "id and type of an item are text", param=param)


def _begins(value: Raw) -> bytes:
    return bytes(memoryview(value)[:1])


def _unreadable() -> WireError:
    return WireError("", "JSON in UTF-8", "references that cannot be read")


def requested_strictness(request: ClientRequest) -> Strict:
    """The strict mode of the client's header."""
    value = request.header(_STRICT_HEADER)
    if value is None:
        return False
    word = value.strip().lower()
    return "all" if word == b"all" else word in _ON


def strict_mode(server: Server, request: ClientRequest) -> Strict:
    """Strict mode as the server, the client's key and its header state it."""
    key = request.key
    stated = False if key is None else key.rights.strict
    configured = strictest(server.strict, stated) if stated else server.strict
    return strictest(configured, requested_strictness(request)) if _STRICT_HEADER in request.table else configured


_NO_TOOLS = (None, NULL, Raw(b"[]"))
_NO_EFFORT = (None, NULL, Raw(b'"none"'))


def able(target: Target, members: Mapping[str, Raw]) -> Target:
    """The same target, at the endpoint that takes the request: newest models refuse tools with reasoning on Chat."""
    if (
        target.endpoint.protocol != CHAT
        or members.get("reasoning_effort") in _NO_EFFORT
        or members.get("tools") in _NO_TOOLS
    ):
        return target
    other = target.provider.endpoint_for(RESPONSES)
    if target.capabilities.tools_with_reasoning or other.protocol != RESPONSES:
        return target
    return msgspec.structs.replace(target, endpoint=other)


# Providers that always or never stream, whatever the client wants.
_STREAMS = {"always": True, "never": False}


def prepare(
    client_request: ClientRequest,
    body: bytes,
    glance: RequestGlance,
    target: Target,
    *,
    renamed: bool,
    strict: Strict,
    owner: bytes,
    cache: ClientTranslations | None = None,
) -> ProviderRequest:
    """Write a request for the provider it leads to; `owner` is whose it is, `cache` has earlier ones of its key."""
    client, source, usage = client_request.api_path.protocol, glance.protocol, None
    if source != client:
        body, usage = _without_options(body)
    stream = glance.stream
    streams = _STREAMS.get(target.provider.streaming, stream)
    protocol = target.endpoint.protocol
    metered = False
    if source == protocol:
        translated = _relayed(
            body, glance, target, renamed=renamed, set_stream=None if streams is stream else streams, strict=strict
        )
        calls = (
            target.codec.include_usage(translated.body)
            if streams and target.provider.include_usage and client == protocol
            else None
        )
        if calls is not None:
            metered, translated = True, msgspec.structs.replace(translated, body=calls)
        passed = header_forwarding.relayed(client_request.headers, client_request.table, target, owner)
    else:
        if cache is not None and (source != client or streams is not stream):
            cache.glance = None
        translated = translate_request(
            body if streams is stream else with_stream(body, streams),
            source=source,
            target=protocol,
            model=target.model,
            vendor=target.provider.vendor_or_name,
            capabilities=target.capabilities,
            strict=strict,
            cache=cache,
        )
        passed = header_forwarding.written(translated.headers)
    if usage is not None:
        read_by = translation_context(translated, target.codec)
        request = msgspec.structs.replace(read_by.request, include_usage=usage)
        translated = msgspec.structs.replace(translated, context=msgspec.structs.replace(read_by, request=request))
        metered = protocol == CHAT and streams and not usage
    query = "beta=true" if source == protocol == MESSAGES and client_request.query == "beta=true" else ""
    # By their places, here and wherever a value is made for every exchange: names take longer than all the rest.
    return ProviderRequest(
        target, client, source, stream, streams, translated, passed, query, metered, strict, client == protocol
    )


def _without_options(body: bytes) -> tuple[bytes, bool]:
    """A Responses body of a Chat client without Chat's stream options, and whether they request usage."""
    options = decode_object(body).get("stream_options")
    cut = without(body, [member.whole for member in named(object_members(body), "stream_options")])
    return cut, isinstance(options, dict) and options.get("include_usage") is True


def _relayed(
    body: bytes, glance: RequestGlance, target: Target, *, renamed: bool, set_stream: bool | None, strict: Strict
) -> TranslatedRequest:
    """The same protocol on both sides: the bytes as they are, but for the closed list of repairs (mapping.md §1)."""
    codec, provider = target.codec, target.provider
    translated = same_request(body, protocol=codec.name, model=target.model if renamed else None)
    ledger, sent = translated.ledger, translated.body
    capabilities, vendor = target.capabilities, provider.vendor or provider.name
    if glance.needs_repair(capabilities, vendor):
        sent = codec.relay_request(sent, capabilities, vendor, ledger)
    if codec.without_storage is not None and target.stored_here and provider.stores_responses:
        sent = codec.without_storage(sent)
    if strict:
        check_strict(ledger, strict)
    if set_stream is not None:
        sent = with_stream(sent, set_stream)
        if set_stream:
            # A stream reports usage only on request, a full response always.
            sent = codec.include_usage(sent) or sent
        else:
            # Options of a stream are refused where there is none.
            sent = without(sent, [member.whole for member in named(object_members(sent), "stream_options")])
    return translated if sent is translated.body else msgspec.structs.replace(translated, body=sent)
