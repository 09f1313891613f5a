"""Pure translation of requests, responses and errors between protocols. `streaming` translates streams. `source` is the
protocol of the input: the client's for a request, the provider's for a response. IDs and times come from a `Mint`;
without one they are derived from the input. If both protocols are the same, the bytes stay unchanged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from hashlib import sha256
from typing import TypedDict

from msgspec import Struct
from msgspec.structs import replace

from dragoman.errors import DragomanError, RefusedError, StrictError, WireError
from dragoman.model.failure import Failure, FailureKind
from dragoman.model.features import Weight, weight_of
from dragoman.model.folding import unfold
from dragoman.model.jsonvalue import JsonList, JsonObject
from dragoman.model.losses import Ledger, Loss, Strict
from dragoman.model.parts import Extras, Part, Text, ToolCall
from dragoman.model.request import Request
from dragoman.model.response import Response, Stop, StopReason, Usage
from dragoman.protocols.cached_translation import RequestTranslation, translate_with_cache
from dragoman.protocols.codec import Codec, Mint, ProtocolName, TargetModel, TranslationContext
from dragoman.protocols.registry import codec_of, recognise
from dragoman.rules.capabilities import Capabilities, CapabilityRow, capabilities_of
from dragoman.rules.compaction import as_compaction, summarising
from dragoman.rules.part_serializer import PartSerializer
from dragoman.rules.pauses import summed
from dragoman.rules.stop_sequences import StopScanner
from dragoman.rules.surrogates import SurrogateJoiner
from dragoman.rules.tool_table import MAX_CALLS, TOO_MANY_CALLS, ToolTable
from dragoman.rules.translated_parts import TranslationCache
from dragoman.wire.json import decode_object, encode, to_bytes
from dragoman.wire.json_spans import replace_text, with_member

# Failures that a retry cannot cure.
_FINAL = frozenset({FailureKind.UPSTREAM_AUTH, FailureKind.PERMANENT})


class LossLine(TypedDict):
    """One loss, ready for JSON. `docs/losses.md` explains each feature."""

    fate: str
    feature: str
    weight: Weight
    at: str
    note: str


class TranslatedRequest(Struct, frozen=True):
    """A translated request and its losses. `headers` are required by the body. Pass this value to `translate_response`
    or `StreamPipeline`, because responses depend on the request."""

    body: bytes
    ledger: Ledger
    source: ProtocolName
    target: ProtocolName
    headers: Mapping[str, str] = {}
    context: TranslationContext | None = None

    @property
    def losses(self) -> tuple[LossLine, ...]:
        return loss_lines(self.ledger.losses)


class TranslatedResponse(Struct, frozen=True, kw_only=True):
    """A response in the client's protocol. If `failed`, it is an error to send with `status` and `headers`. `resume` is
    set if the provider only paused (`pause_turn`): append these blocks as an assistant message to its request and send
    it again. `usage` has the provider's counts. `failure` and `response` are set if the response was parsed."""

    body: bytes
    losses: tuple[LossLine, ...]
    status: int = 200
    headers: Mapping[str, str] = {}
    failed: bool = False
    resume: tuple[JsonObject, ...] | None = None
    usage: Usage | None = None
    failure: Failure | None = None
    response: Response | None = None


# Bound once: looking up an enum member is slow, and every response needs this one.
_PAUSE = StopReason.PAUSE


def translate_request(
    body: bytes | str | Mapping[str, object],
    *,
    target: str,
    source: str | None = None,
    model: str | None = None,
    vendor: str | None = None,
    capabilities: Capabilities | None = None,
    capability_rows: tuple[CapabilityRow, ...] = (),
    strict: Strict = False,
    cache: TranslationCache | None = None,
) -> TranslatedRequest:
    """Write a client's request in the provider's protocol (see `library.translate_request`). A `cache` saves decoding
    the messages that an earlier request of the same client had in common with this one."""
    outer = codec_of(target)
    if cache is not None and source is not None and source != outer.name and model and isinstance(body, bytes):
        inner, ledger = codec_of(source), Ledger()
        target_model = _target_model(outer, model, vendor, capabilities, capability_rows)
        cached = translate_with_cache(body, inner, outer, target_model, ledger, cache)
        if cached is not None:
            return _translated(cached, target_model, inner, outer, ledger, strict)
    wire = decode_object(body)
    inner = codec_of(source) if source is not None else _recognised(wire)
    # Azure, Bedrock and Vertex name the model in the URL.
    unnamed = model is not None and "model" not in wire
    if inner is outer:
        raw = to_bytes(body)
        return same_request(
            with_member(raw, "model", encode(model)) if unnamed else raw, protocol=inner.name, model=model
        )
    ledger = Ledger()
    if unnamed:
        wire = {**wire, "model": model}
    try:
        request = inner.decode_request(wire)
        target_model = _target_model(outer, model or request.model, vendor, capabilities, capability_rows)
        encoded = outer.encode_request(
            summarising(request, ledger) if request.compacts else request, target_model, ledger
        )
        translation = RequestTranslation(request=request, encoded=encoded, body=encode(encoded.body))
    except RecursionError:
        raise WireError("", "JSON of bounded depth", "nesting beyond the limit") from None
    except UnicodeError:
        raise WireError("", "text in Unicode", "a lone surrogate") from None
    return _translated(translation, target_model, inner, outer, ledger, strict)


def _target_model(
    outer: Codec,
    model: str,
    vendor: str | None,
    capabilities: Capabilities | None,
    capability_rows: tuple[CapabilityRow, ...],
) -> TargetModel:
    label = outer.vendor if vendor is None else vendor
    model_capabilities = capabilities or capabilities_of(outer.name, model, label, capability_rows)
    return TargetModel(model=model, vendor=label, capabilities=model_capabilities)


def _translated(
    translation: RequestTranslation,
    target_model: TargetModel,
    inner: Codec,
    outer: Codec,
    ledger: Ledger,
    strict: Strict,
) -> TranslatedRequest:
    if strict:
        check_strict(ledger, strict)
    request, encoded = translation.request, translation.encoded
    context = TranslationContext(
        request=request,
        target=target_model,
        table=encoded.table,
        stops=encoded.stops,
        render_turn=outer.encode_turn,
        origin=outer.name,
        summarises=request.compacts,
    )
    return TranslatedRequest(
        body=translation.body,
        ledger=ledger,
        source=inner.name,
        target=outer.name,
        headers=encoded.headers,
        context=context,
    )


def check_strict(ledger: Ledger, strict: Strict) -> None:
    refused = ledger.refused_by(strict)
    if refused:
        raise StrictError(refused)


def same_request(body: bytes, *, protocol: ProtocolName, model: str | None = None) -> TranslatedRequest:
    """Return the body unchanged, except for a renamed model. The provider validates it."""
    if model is not None:
        body = replace_text(body, "model", model)
    return TranslatedRequest(body, Ledger(), protocol, protocol)


def _recognised(body: JsonObject) -> Codec:
    codec = recognise(body)
    if codec is None:
        raise WireError("", "a request with `messages` or `input`", "neither")
    return codec


def translate_response(
    body: bytes | str | Mapping[str, object],
    *,
    source: str,
    target: str,
    request: TranslatedRequest | None = None,
    status: int = 200,
    request_id: str | None = None,
    stream: bool = False,
    mint: Mint | None = None,
    strict: Strict = False,
    earlier: Sequence[bytes] = (),
) -> TranslatedResponse:
    """Write a provider's response, or its error, in the client's protocol (see `library.translate_response`)."""
    outer, inner = codec_of(source), codec_of(target)
    if outer is inner and isinstance(body, bytes) and not (stream and status < 400):
        # A body of the same protocol is forwarded without parsing.
        return TranslatedResponse(body=body, losses=(), status=status, failed=status >= 400)
    ledger = Ledger()
    joiner = SurrogateJoiner(ledger)
    try:
        raw = body if isinstance(body, bytes) else to_bytes(body)
    except WireError:
        if isinstance(body, bytes | str):
            raise
        body = joiner.mended(decode_object(body))
        raw = to_bytes(body)
    if status >= 400:
        if outer is inner:
            return TranslatedResponse(body=raw, losses=(), status=status, failed=True)
        return _failed(outer.decode_failure(status, raw), inner, request_id)
    if outer is inner and not stream:
        return TranslatedResponse(body=raw, losses=(), status=status)
    context = translation_context(request, outer)
    minted = mint or derived_mint(raw)
    try:
        read = joiner.read_object(body)
        response = outer.decode_response(read, context, ledger)
        if isinstance(response, Failure):
            return _failed(response, inner, request_id, outer.usage_of(read))
        for body_before in reversed(earlier):
            response = _joined(outer.decode_response(joiner.read_object(body_before), context, ledger), response)
        joiner.close()
        parts = response.parts
        if len(parts) > MAX_CALLS and sum(isinstance(part, ToolCall) for part in parts) > MAX_CALLS:
            failure = Failure(kind=FailureKind.BAD_GATEWAY, status=502, message=TOO_MANY_CALLS)
            return _failed(failure, inner, request_id, response.usage)
        resume = tuple(outer.encode_turn(response.parts)) if response.stop.reason is _PAUSE else None
        if context.stops:
            response = _cut_at_stop(response, context.stops)
        compacted = as_compaction(response) if context.summarises else response
        if isinstance(compacted, Failure):
            return _failed(compacted, inner, request_id, response.usage)
        response = compacted
        if stream:
            written = as_stream(response, inner, context, minted, ledger)
        else:
            written = encode(inner.encode_response(response, context, minted, ledger))
    except RecursionError:
        raise WireError("", "JSON of bounded depth", "nesting beyond the limit") from None
    except UnicodeError:
        raise WireError("", "text in Unicode", "a lone surrogate") from None
    if strict:
        check_strict(ledger, strict)
    return TranslatedResponse(
        body=written,
        losses=loss_lines(ledger.losses) if ledger.entries else (),
        status=status,
        resume=resume,
        usage=response.usage,
        response=response,
    )


def translate_failure(
    failure: Failure | DragomanError, *, target: str, request_id: str | None = None
) -> TranslatedResponse:
    """Encode a failure, or an error of this library, in the client's protocol."""
    client_failure = _as_failure(failure, target) if isinstance(failure, DragomanError) else failure
    return _failed(client_failure, codec_of(target), request_id)


def _as_failure(error: DragomanError, target: str) -> Failure:
    """The error for a client whose request could not be translated, with locations in its protocol."""
    if isinstance(error, RefusedError):
        # SDK tool runners fall back to the full history on exactly this code (mapping.md §14).
        details: JsonObject = {"details": {"error_code": "thread_unsupported_request"}}
        extras = Extras(origin="anthropic-messages", fields=details) if error.at == "thread" else None
        conversation = "input" if target == "openai-responses" else "messages"
        param = error.at.replace("messages[", f"{conversation}[").replace(".parts[", ".content[") or None
        return Failure(kind=FailureKind.UNSUPPORTED, status=400, message=str(error), param=param, extras=extras)
    if isinstance(error, StrictError):
        return Failure(kind=FailureKind.UNSUPPORTED, status=400, message=str(error))
    path = error.path.lstrip("/").replace("/", ".") if isinstance(error, WireError) else ""
    words = error.describe("the body") if isinstance(error, WireError) else str(error)
    return Failure(kind=FailureKind.INVALID, status=400, message=words, param=path or None)


def translate_headers(headers: Mapping[str, str], *, source: str, target: str, now: int) -> dict[str, str]:
    """Rename and convert a provider's rate-limit and retry headers for the client's protocol."""
    lowered = {name.lower(): value for name, value in headers.items()}
    return codec_of(target).encode_limits(codec_of(source).decode_limits(lowered, now), now)


def _failed(failure: Failure, inner: Codec, request_id: str | None, usage: Usage | None = None) -> TranslatedResponse:
    status, body = inner.encode_failure(failure, request_id)
    final = failure.kind in _FINAL or (failure.kind is FailureKind.QUOTA and status == 429)
    headers = {"x-should-retry": "false"} if final else {}
    return TranslatedResponse(
        body=encode(body), losses=(), status=status, headers=headers, failed=True, usage=usage, failure=failure
    )


def as_stream(response: Response, inner: Codec, context: TranslationContext, mint: Mint, ledger: Ledger) -> bytes:
    encoder = inner.stream_encoder(context, mint, ledger)
    frames: list[bytes] = []
    sink = PartSerializer(lambda event: frames.append(encoder.feed(event)), ledger) if inner.serial else None
    for event in unfold(response):
        if sink is None:
            frames.append(encoder.feed(event))
        else:
            sink(event)
    return b"".join(frames)


def _joined(before: Response | Failure, response: Response) -> Response:
    if isinstance(before, Failure):
        return response
    usage = response.usage if before.usage is None or response.usage is None else summed(before.usage, response.usage)
    return replace(response, id=before.id, parts=before.parts + response.parts, usage=usage or before.usage)


def _cut_at_stop(response: Response, stops: tuple[str, ...]) -> Response:
    """Cut a full response at the first stop sequence that the provider does not support (S11)."""
    scanner = StopScanner(stops)
    parts: list[Part] = []
    for part in response.parts:
        if not isinstance(part, Text):
            parts.append(part)
            continue
        text = scanner.feed(part.text)
        if scanner.matched is None:
            text += scanner.close()
        if text:
            parts.append(part if text == part.text else replace(part, text=text, citations=(), logprobs=None))
        if scanner.matched is not None:
            stop = Stop(reason=StopReason.SEQUENCE, native=response.stop.native, sequence=scanner.matched)
            return replace(response, parts=tuple(parts), stop=stop)
    return response


def translation_context(
    request: TranslatedRequest | None, outer: Codec, *, relayed: bool = False
) -> TranslationContext:
    """The context for decoding a response. Without a request, the context of an empty one."""
    if request is not None and request.target != outer.name:
        raise DragomanError(f"the request was translated for {request.target}, the answer is read as {outer.name}")
    if request is None or request.context is None:
        return _empty_context(outer.name, relayed)
    return replace(request.context, relayed=True) if relayed else request.context


@cache
def _empty_context(protocol: str, relayed: bool) -> TranslationContext:
    outer = codec_of(protocol)
    return TranslationContext(
        request=Request(origin="", model="", include_usage=True),
        target=TargetModel(model="", vendor=outer.vendor, capabilities=capabilities_of(protocol, "", outer.vendor)),
        table=ToolTable(),
        render_turn=outer.encode_turn,
        origin=protocol,
        relayed=relayed,
    )


def derived_mint(seed: bytes) -> Mint:
    """IDs derived from the input, so that the same input gives the same output. Times are the provider's, or 0."""
    state = [sha256(seed).digest()]

    def token(length: int) -> str:
        digits: list[str] = []
        while len(digits) < length:
            state[0] = sha256(state[0]).digest()
            digits.extend(_BASE62[octet % 62] for octet in state[0])
        return "".join(digits[:length])

    return Mint(token=token, now=lambda: 0)


_BASE62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


def as_json(losses: Sequence[LossLine]) -> JsonList:
    return [
        {
            "fate": loss["fate"],
            "feature": loss["feature"],
            "weight": loss["weight"],
            "at": loss["at"],
            "note": loss["note"],
        }
        for loss in losses
    ]


def changes_in(losses: Sequence[LossLine]) -> Sequence[LossLine]:
    return [loss for loss in losses if loss["weight"] == "changes_response"] if losses else losses


def heaviest_first(losses: Sequence[LossLine]) -> Sequence[LossLine]:
    """Sort losses that change the response before bookkeeping, for output that is cut off."""
    return sorted(losses, key=lambda loss: loss["weight"] == "bookkeeping")


def loss_lines(losses: tuple[Loss, ...]) -> tuple[LossLine, ...]:
    if not losses:
        return ()
    # `value` of an enum is slower than `_value_`, and a long history has losses in every turn.
    return tuple(
        [
            {
                "fate": loss.fate._value_,
                "feature": (feature := loss.feature._value_),
                "weight": weight_of(feature),
                "at": loss.at,
                "note": loss.note,
            }
            for loss in losses
        ]
    )
