"""Full responses of Messages, decoded and encoded, with the stop reasons (mapping.md §16, §17, §20)."""

from __future__ import annotations

from msgspec.structs import replace

from dragoman.errors import WireError
from dragoman.model.failure import Failure
from dragoman.model.features import Feature
from dragoman.model.jsonvalue import JsonList, JsonObject, JsonValue
from dragoman.model.losses import Ledger
from dragoman.model.parts import Compaction, Extras, HostedResult, InputForm, Part, Refusal, Text, Thinking, ToolCall
from dragoman.model.response import Response, Stop, StopReason, Usage
from dragoman.protocols.anthropic_messages.failure import broken_failure, failure_in_body, is_error
from dragoman.protocols.anthropic_messages.hosted import listing_result
from dragoman.protocols.anthropic_messages.parts import decode_block, encode_block, encode_blocks
from dragoman.protocols.anthropic_messages.response_parts import encode_response_parts
from dragoman.protocols.anthropic_messages.shapes import NAME, STOP_REASON_NAMES, STOP_REASONS
from dragoman.protocols.anthropic_messages.usage import decode_usage, encode_native_usage, encode_usage
from dragoman.protocols.codec import Mint, TranslationContext
from dragoman.rules import arguments
from dragoman.rules.argument_assembly import CallsSeen
from dragoman.rules.extras import drop_choices, drop_extras
from dragoman.rules.ids import legacy_call_id
from dragoman.rules.response_metadata import label
from dragoman.rules.seals import issued_by
from dragoman.rules.stop_reasons import at_cap, finalize_stop, has_open_call, is_conclusive, reason_of, stated_reason
from dragoman.rules.tool_table import report_bent, unwrapper_for
from dragoman.wire.fields import ROOT, Fields
from dragoman.wire.json import decode, encode, encode_text

# Bound once: looking up an enum member is slow, and every response needs these.
_TOOL_CALL, _SEQUENCE, _OTHER = StopReason.TOOL_CALL, StopReason.SEQUENCE, StopReason.OTHER


def decode_response(body: JsonObject, translation: TranslationContext, ledger: Ledger) -> Response | Failure:
    """Decode a full response. An error inside a successful response is a failure (O2)."""
    if is_error(body):
        return failure_in_body(body)
    usual = _usual(body)
    if usual is not None:
        return usual
    fields = Fields(body)
    fields.optional_text("type")
    fields.optional_text("role")
    broken = broken_failure(fields.optional_text("stop_reason"), body.get("error"))
    if broken is not None:
        return broken
    counted: Usage | None = None
    try:
        usage = fields.optional_fields("usage")
        counted = decode_usage(usage) if usage is not None else None
    except WireError as error:
        # Unreadable counts must not fail the response.
        fields.skip("usage")
        ledger.dropped(Feature.USAGE, ("usage",), f"the provider's usage cannot be read: {error}")
    parts: tuple[Part, ...] = ()
    if fields.value.get("content") is None and _is_refused(fields.optional_text("stop_reason")):
        fields.skip("content")
    else:
        parts = decode_response_parts(fields, translation, ledger)
    stop = decode_stop(fields, parts)
    if not is_conclusive(stop):
        stop = finalize_stop(stop, ledger, cut=has_open_call(parts) or at_cap(counted, translation.request.max_tokens))
    return Response(
        origin=NAME,
        id=label(fields, "id", ledger) or "",
        model=label(fields, "model", ledger) or "",
        parts=parts,
        stop=stop,
        usage=counted,
        extras=fields.rest(NAME),
    )


_MEMBERS = ("id", "type", "role", "model", "content", "stop_reason", "stop_sequence", "usage")
_USUAL = frozenset(_MEMBERS)
# The extras of a response without a matched stop sequence, which return unchanged.
_NO_SEQUENCE = Extras(origin=NAME, fields={"stop_sequence": None})


def _usual(body: JsonObject) -> Response | None:
    """A response of text alone with the usual members, decoded like below; None for any other."""
    if not _USUAL.issuperset(body):
        return None
    response_id, kind, role, model, content, word, sequence, usage = map(body.get, _MEMBERS)
    if not (type(response_id) is type(kind) is type(role) is type(model) is type(word) is str and sequence is None):
        return None
    reason = STOP_REASONS.get(word)
    if reason is None or reason is _TOOL_CALL or type(content) is not list or type(usage) is not dict:
        return None
    parts = _plain_texts(content)
    if parts is None:
        return None
    try:
        counted = decode_usage(Fields(usage, (ROOT, "usage")))
    except WireError:
        return None
    return Response(
        origin=NAME,
        id=response_id,
        model=model,
        parts=parts,
        stop=Stop(reason=reason, native=word),
        usage=counted,
        extras=_NO_SEQUENCE if "stop_sequence" in body else None,
    )


def _is_refused(word: str | None) -> bool:
    return reason_of(word or "") is StopReason.FILTER


def decode_response_parts(fields: Fields, translation: TranslationContext, ledger: Ledger) -> tuple[Part, ...]:
    """The content of a response: tools under the client's names, signatures with their issuer."""
    fields.skip("content")
    content = fields.value.get("content")
    if type(content) is not list:
        raise fields.fail("content", "array", content)
    parts: list[Part] = []
    seen: set[str] = set()
    calls = CallsSeen()
    for block in fields.each("content"):
        if block.value.get("type") == "tool_use" and block.value.get("id") is None:
            block = Fields({**block.value, "id": ""}, block.path)
        part = with_issuer(decode_block(block), translation)
        if isinstance(part, ToolCall):
            if calls.is_repeat(part.call_id, part.name, part.arguments):
                continue
            part = _restored_call(part, translation, seen, len(parts), ledger)
        parts.append(part)
        result = listing_result(part)
        if result is not None:
            parts.append(result)
    return tuple(parts)


def _plain_texts(content: JsonList) -> tuple[Part, ...] | None:
    """The parts of a response that is only text, decoded like in the full reader; None for any other."""
    parts: list[Part] = []
    for block in content:
        if type(block) is not dict or len(block) != 2 or block.get("type") != "text":
            return None
        text = block.get("text")
        if type(text) is not str:
            return None
        parts.append(Text(text=text))
    return tuple(parts)


def with_issuer(part: Part, translation: TranslationContext) -> Part:
    """Name the issuer in a signature, if it is this provider's own."""
    if isinstance(part, Thinking | Compaction) and part.seal is not None and part.seal.origin == NAME:
        return replace(part, seal=issued_by(part.seal, translation.target.model, translation.target.vendor))
    return part


def _restored_call(
    call: ToolCall, translation: TranslationContext, seen: set[str], position: int, ledger: Ledger
) -> ToolCall:
    """A call in the client's form: its name, namespace and form of arguments (N1, S16)."""
    call_id = call.call_id
    if not call_id or call_id in seen:
        call_id = legacy_call_id(call.name, position)
    seen.add(call_id)
    entry = translation.table.restored(call.name)
    text = arguments.unwrapped(call.arguments)
    if entry is None:
        return replace(call, call_id=call_id, arguments=text)
    unwrapper = unwrapper_for(entry)
    if unwrapper is not None:
        text = unwrapper.unwrap(call.arguments)
        if unwrapper.bent:
            report_bent(position, ledger)
    return replace(call, call_id=call_id, name=entry.name, namespace=entry.namespace, form=entry.form, arguments=text)


def decode_stop(fields: Fields, parts: tuple[Part, ...]) -> Stop:
    """The stop reason. Precedence: truncation, refusal, calls, then the provider's value."""
    word = fields.optional_text("stop_reason") or ""
    sequence = fields.optional_text("stop_sequence")
    details = None
    if fields.value.get("stop_details") is not None:
        details = fields.optional_fields("stop_details")
    called = any(isinstance(part, ToolCall) for part in parts)
    return make_stop(word, sequence, details, called=called)


_BEFORE_CALLS = (StopReason.LENGTH, StopReason.CONTEXT_FULL, StopReason.REFUSAL, StopReason.FILTER, StopReason.PAUSE)


def make_stop(word: str, sequence: str | None, details: Fields | None, *, called: bool) -> Stop:
    word = stated_reason(word)
    reason = STOP_REASONS.get(word) or reason_of(word)
    if called and reason not in _BEFORE_CALLS:
        reason = _TOOL_CALL
    elif not called and reason is _TOOL_CALL:
        # Without calls to run, an agent would wait for ever (pitfall 30).
        reason = StopReason.END
    explanation = category = None
    extras = None
    if details is not None:
        explanation = details.optional_text("explanation")
        category = details.optional_text("category")
        details.skip("type")
        extras = details.rest(NAME)
    return Stop(
        reason=reason, native=word, sequence=sequence, explanation=explanation, category=category, extras=extras
    )


def encode_response(response: Response, translation: TranslationContext, mint: Mint, ledger: Ledger) -> JsonObject:
    if response.origin == NAME:
        return _encode_native(response)
    suffix = mint.response_suffix(response.id)
    if response.alternatives:
        drop_choices(ledger)
    drop_extras(response.extras, (), ledger, is_response=True)
    return {
        "id": f"msg_{suffix}",
        "type": "message",
        "role": "assistant",
        "model": translation.request.model or response.model,
        "content": encode_response_parts(response.parts, translation, ledger),
        **encode_stop(response.stop, refusal_in(response.parts), ledger),
        "usage": encode_usage(response.usage, ledger),
    }


def refusal_in(parts: tuple[Part, ...]) -> str | None:
    texts = [part.text for part in parts if isinstance(part, Refusal)]
    return "".join(texts) if texts else None


def encode_stop(stop: Stop, refusal: str | None, ledger: Ledger) -> JsonObject:
    word = STOP_REASON_NAMES[stop.reason]
    if stop.reason is _SEQUENCE and stop.sequence is None:
        word = "end_turn"
    if refusal is not None and stop.reason in (StopReason.END, _OTHER, _SEQUENCE):
        word = "refusal"
    elif stop.reason is _OTHER and stop.native:
        ledger.approximated(Feature.STOP_REASON, ("stop", "reason"), "an end that is not known is told as complete")
    details: JsonValue = None
    if word == "refusal":
        explanation = stop.explanation if stop.explanation is not None else refusal or None
        details = {"type": "refusal", "category": stop.category, "explanation": explanation}
    return {
        "stop_reason": word,
        "stop_sequence": stop.sequence if word == "stop_sequence" else None,
        "stop_details": details,
    }


def _encode_native(response: Response) -> JsonObject:
    stop = response.stop
    body: JsonObject = {
        "id": response.id,
        "type": "message",
        "role": "assistant",
        "model": response.model,
        "content": encode_blocks(response.parts),
        "stop_reason": stop.native or None,
        "stop_sequence": stop.sequence,
    }
    if stop.reason is StopReason.REFUSAL and (stop.explanation or stop.category or stop.extras):
        body["stop_details"] = {
            "type": "refusal",
            "category": stop.category,
            "explanation": stop.explanation,
            **(stop.extras.fields if stop.extras is not None else {}),
        }
    if response.usage is not None:
        body["usage"] = encode_native_usage(response.usage)
    if response.extras is not None:
        body.update(response.extras.fields)
    return body


# Member next to a block of a signed turn: the client's ID of the call, if it differs from the block's.
_CLIENT_CALL = "said"


def encode_turn(parts: tuple[Part, ...]) -> list[JsonObject]:
    """An assistant turn as blocks, to be signed (V1)."""
    return [_encode_turn_part(part) for part in parts if type(part) is not HostedResult or part.extras is not None]


def _encode_turn_part(part: Part) -> JsonObject:
    block = encode_block(part)
    if isinstance(part, ToolCall):
        # The client sends arguments back literally, and the turn counts only if they are equal.
        block["input"] = decode(encode(block["input"]))
        if part.form is InputForm.TEXT or encode_text(block["input"]) != part.arguments:
            block[_CLIENT_CALL] = {"arguments": part.arguments, "form": part.form.value}
    return block


def decode_turn(blocks: list[JsonObject]) -> tuple[Part, ...]:
    parts: list[Part] = []
    for block in blocks:
        part = _decode_turn_block(block)
        result = listing_result(part)
        parts += (part,) if result is None else (part, result)
    return tuple(parts)


def _decode_turn_block(block: JsonObject) -> Part:
    client_call = block.get(_CLIENT_CALL)
    if not isinstance(client_call, dict):
        return decode_block(Fields(block))
    part = decode_block(Fields({key: value for key, value in block.items() if key != _CLIENT_CALL}))
    text, form = client_call.get("arguments"), client_call.get("form")
    if isinstance(part, ToolCall) and isinstance(text, str):
        return replace(part, arguments=text, form=InputForm.TEXT if form == "text" else InputForm.JSON)
    return part
