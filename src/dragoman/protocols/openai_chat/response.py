"""Full responses of Chat, decoded and encoded (mapping.md §16)."""

from __future__ import annotations

from msgspec.structs import replace

from dragoman.model.failure import Failure
from dragoman.model.features import Feature
from dragoman.model.jsonvalue import JsonList, JsonObject
from dragoman.model.losses import Ledger
from dragoman.model.parts import Extras, InputForm, Part, Refusal, Seal, Text, Thinking, ToolCall
from dragoman.model.response import Response, StopReason
from dragoman.protocols.codec import Mint, TargetModel, TranslationContext
from dragoman.protocols.openai_chat.call_signatures import (
    EXTRA_CONTENT,
    attach_signature,
    call_signature,
    is_call_signature,
    is_thought,
    message_signature,
    signature_part,
    without_signature,
)
from dragoman.protocols.openai_chat.failure import failure_in
from dragoman.protocols.openai_chat.finish_reasons import (
    PROMPT_FILTER,
    finish_reason_of,
    is_filtered,
    report_stop,
    stop_of,
    stop_sequence,
)
from dragoman.protocols.openai_chat.messages import (
    decode_arguments,
    decode_call,
    decode_legacy_call,
    encode_native_call,
    usual_call,
    write_call,
)
from dragoman.protocols.openai_chat.parts import decode_annotation, joined, merge_extras, unmodelled
from dragoman.protocols.openai_chat.reasoning import (
    StatedReasoning,
    Structured,
    decode_reasoning,
    encode_details,
    indexed,
    sealed_text,
    text_seal,
    turn_entry,
    write_native,
)
from dragoman.protocols.openai_chat.reasoning_details import block_text
from dragoman.protocols.openai_chat.response_parts import (
    ResponseText,
    client_name,
    completion_id,
    report_call,
    report_hidden,
    restore_call,
    seal_turn,
)
from dragoman.protocols.openai_chat.shapes import COMPLETION, CONTENT, NAME, SERVED_TIERS, THINKING_PARTS
from dragoman.protocols.openai_chat.think_tags import INLINE, split_thinking
from dragoman.protocols.openai_chat.usage import decode_usage, encode_usage, usage_in
from dragoman.rules import ids
from dragoman.rules.argument_assembly import CallsSeen
from dragoman.rules.arguments import or_empty
from dragoman.rules.extras import drop_extras
from dragoman.rules.response_metadata import label, moment
from dragoman.rules.stop_reasons import at_cap, broken_off, finalize_stop, has_open_call, is_conclusive, reason_of
from dragoman.wire.fields import Fields
from dragoman.wire.json import kind_of

# Members of an enumeration are slow to find.
_END, _LENGTH = StopReason.END, StopReason.LENGTH


def decode_response(body: JsonObject, translation: TranslationContext, ledger: Ledger) -> Response | Failure:
    """Decode a full response: its first choice, with the others unparsed. An error in it is a failure (O2)."""
    failure = failure_in(body)
    if failure is not None:
        return failure
    fields = Fields(body)
    fields.skip("error")
    choices = list(fields.each("choices"))
    if not choices and is_filtered(body.get(PROMPT_FILTER)):
        choices = [Fields({"finish_reason": "content_filter"}, ((None, "choices"), 0))]
    if not choices:
        raise fields.wrong("choices", "at least one choice", "none")
    choice = choices[0]
    finish_reason = choice.optional_text("finish_reason")
    broken = broken_off(finish_reason)
    if broken is not None:
        return broken
    message = choice.optional_fields("message") or _last_message(choice, ledger)
    if message is None:
        if reason_of(finish_reason or "") is not StopReason.FILTER:
            raise choice.fail("message", "object", None)
        # Azure leaves it out if the response was filtered.
        message = Fields({})
    parts = _decode_message(message, choice, translation, ledger)
    stop = stop_of(
        finish_reason,
        calls=ToolCall in map(type, parts),
        refusal=message.optional_text("refusal") or None,
        sequence=stop_sequence(choice.value),
    )
    if stop.extras is not None:
        choice.skip(*stop.extras.fields)
    fields.skip("usage")
    choice.skip("usage")
    usage = usage_in(body, choice.value)
    tier = label(fields, "service_tier", ledger)
    counted = decode_usage(usage, tier, ledger) if isinstance(usage, dict) else None
    if usage is not None and counted is None:
        # Unreadable counts must not fail the response.
        note = f"the provider's usage cannot be read: {kind_of(usage)}"
        ledger.dropped(Feature.USAGE, ("usage",), note)
    if not is_conclusive(stop):
        stop = finalize_stop(stop, ledger, cut=has_open_call(parts) or at_cap(counted, translation.request.max_tokens))
    return Response(
        origin=NAME,
        id=label(fields, "id", ledger) or "",
        model=label(fields, "model", ledger) or "",
        created=moment(fields, "created", ledger),
        parts=tuple(parts),
        stop=stop,
        usage=counted,
        alternatives=tuple(other.value for other in choices[1:]),
        extras=_response_rest(fields, choice, message, tier if counted is None else None),
    )


def _last_message(choice: Fields, ledger: Ledger) -> Fields | None:
    """The message of a server (Mistral, seen once) that sends a list `messages`: the last one is the response."""
    messages = choice.value.get("messages")
    if isinstance(messages, dict):
        return choice.fields("messages")
    if not isinstance(messages, list) or not messages:
        return None
    if len(messages) > 1:
        ledger.dropped(Feature.UNSUPPORTED_CONTENT, ("choices", 0, "messages"), "only the last message is the answer")
    return list(choice.each("messages"))[-1]


def _response_rest(fields: Fields, choice: Fields, message: Fields, tier: str | None) -> Extras | None:
    """Unknown members of the response; those of its choice and message are nested under `choices`."""
    choice.optional_integer("index")
    message.optional_text("role")
    outer, inner, innermost = unmodelled(fields), unmodelled(choice), unmodelled(message)
    if outer is not None and not isinstance(outer.fields.get("object", ""), str):
        raise fields.fail("object", "string", outer.fields["object"])
    members: JsonObject = dict(outer.fields) if outer is not None else {}
    nested: JsonObject = dict(inner.fields) if inner is not None else {}
    if innermost is not None:
        nested["message"] = innermost.fields
    if nested:
        members["choices"] = nested
    if tier is not None:
        members["service_tier"] = tier
    return Extras(origin=NAME, fields=members) if members else None


def _decode_message(message: Fields, choice: Fields, translation: TranslationContext, ledger: Ledger) -> list[Part]:
    parts: list[Part] = []
    thinking = decode_reasoning(message, translation.target)
    content = _decode_content(message, translation.target, ledger)
    marked = is_thought(message.value)
    if marked:
        message.skip(EXTRA_CONTENT)
    if (marked or translation.target.capabilities.inline_thinking) and thinking is None and len(content) == 1:
        content = _split(content[0], translation.target)
    if thinking is not None:
        parts.append(thinking)
    signed = message_signature(message.value)
    if signed:
        message.skip(*signed)
        parts.append(signature_part("", signed, translation.target))
    logprobs = choice.optional_fields("logprobs")
    citations = tuple([decode_annotation(one) for one in message.each("annotations")])
    content_logprobs = _decode_logprobs(logprobs, "content")
    if citations or content_logprobs:
        # Annotations of the message are emitted with its last text.
        texts = [number for number, part in enumerate(content) if isinstance(part, Text)]
        if citations and not texts:
            texts.append(len(content))
            content.append(Text(text=""))
        if texts:
            content[texts[-1]] = replace(content[texts[-1]], citations=citations, logprobs=content_logprobs or None)
    parts += content
    refusal = message.optional_text("refusal")
    if refusal:
        refusal_logprobs = _decode_logprobs(logprobs, "refusal")
        parts.append(Refusal(text=refusal, logprobs=refusal_logprobs or None))
    seen = CallsSeen()
    given: set[str] = set()
    for position, fragment in enumerate(message.each("tool_calls")):
        signature: JsonObject = {}
        part = usual_call(fragment.value)
        if part is None:
            signature = call_signature(fragment.value)
            bare = Fields(without_signature(fragment.value, signature), fragment.path) if signature else fragment
            forms = [inner for key in ("function", "custom") if (inner := fragment.optional_fields(key)) is not None]
            if not _is_named_call(fragment, forms, ledger):
                continue
            part = decode_call(bare, lenient=True)
        if seen.is_repeat(part.call_id, part.name, part.arguments):
            continue
        if not part.call_id or part.call_id in given:
            part = replace(part, call_id=ids.legacy_call_id(part.name, position))
        given.add(part.call_id)
        if signature:
            parts.append(signature_part(part.call_id, signature, translation.target))
        parts.append(restore_call(part, translation, len(parts), ledger))
    legacy = message.optional_fields("function_call")
    if legacy is not None and not given and _is_named_call(legacy, [legacy], ledger):
        call = decode_legacy_call(legacy, 0, lenient=True)
        parts.append(restore_call(call, translation, len(parts), ledger))
    return parts


def _is_named_call(call: Fields, forms: list[Fields], ledger: Ledger) -> bool:
    """Whether a call has a name. Some servers put an unnamed one into every response, which loses nothing."""
    if any([form.optional_text("name") for form in forms]):
        return True
    inputs = [form.optional_text("input") or or_empty(decode_arguments(form, lenient=True)) for form in forms]
    if call.value.get("id") or any(one != "{}" for one in inputs):
        ledger.dropped(Feature.FUNCTION_TOOL, ("parts",), "a call came without a name")
    return False


def _split(part: Text | Thinking, target: TargetModel) -> list[Text | Thinking]:
    """Split text from the reasoning that some servers write at its start (V8)."""
    if not isinstance(part, Text):
        return [part]
    inline, text = split_thinking(part.text)
    if inline is None:
        return [part]
    thinking = Thinking(text=inline, seal=text_seal(INLINE, inline, target=target))
    return [thinking, Text(text=text)] if text else [thinking]


def _decode_logprobs(owner: Fields | None, key: str) -> JsonList | None:
    if owner is None:
        return None
    for entry in owner.each(key):
        entry.optional_text("token")
        entry.optional_number("logprob")
        for position, byte in enumerate(entry.optional_list("bytes") or ()):
            if type(byte) is not int:
                raise Fields({}, (entry.path, "bytes")).fail(position, "integer", byte)
        _decode_logprobs(entry, "top_logprobs")
    return owner.optional_list(key)


def _decode_content(owner: Fields, target: TargetModel, ledger: Ledger) -> list[Text | Thinking]:
    """The content of a response: text, in any form, and thinking inside it."""
    content = owner.raw("content")
    if content is None or isinstance(content, str):
        return [Text(text=content)] if content else []
    if not isinstance(content, list):
        raise owner.fail("content", "string or array", content)
    parts: list[Text | Thinking] = []
    for position, part in enumerate(content):
        if not isinstance(part, dict):
            raise Fields({}, (owner.path, "content")).fail(position, "object", part)
        kind = part.get("type")
        if kind in THINKING_PARTS:
            text = block_text(part)
            parts.append(sealed_text(StatedReasoning(CONTENT, text), text, Structured(parts=[part]), target))
            continue
        piece = Fields(part, ((owner.path, "content"), position)).optional_text("text")
        if piece is None:
            ledger.dropped(Feature.UNSUPPORTED_CONTENT, ("parts", len(parts)), f"only {NAME} knows {kind!r}")
        elif parts and isinstance(last := parts[-1], Text):
            parts[-1] = Text(text=last.text + piece)
        elif piece:
            parts.append(Text(text=piece))
    return parts


def encode_response(response: Response, translation: TranslationContext, mint: Mint, ledger: Ledger) -> JsonObject:
    if response.origin == NAME:
        return _encode_native(response, translation, mint)
    drop_extras(response.extras, (), ledger, is_response=True)
    choice = encode_usual(response)
    if choice is None:
        choice = _encode_choice(response, translation, ledger)
    return _completion(response, translation, mint, [choice], encode_usage(response.usage, ledger), ledger)


def encode_usual(response: Response) -> JsonObject | None:
    """The choice of a response that is one text and nothing else, as `_encode_choice` writes it; None for any other."""
    stop = response.stop
    finish = "stop" if stop.reason is _END else "length" if stop.reason is _LENGTH else None
    if finish is None or len(response.parts) != 1 or stop.category is not None or stop.extras is not None:
        return None
    part = response.parts[0]
    if type(part) is not Text or not part.text or part.citations or part.extras is not None or part.logprobs:
        return None
    message: JsonObject = {"role": "assistant", "content": part.text, "refusal": None}
    return None if stop.sequence is not None else _choice(message, finish, None)


def _choice(message: JsonObject, finish: str, logprobs: JsonObject | None) -> JsonObject:
    return {"index": 0, "message": message, "finish_reason": finish, "logprobs": logprobs}


def _encode_choice(response: Response, translation: TranslationContext, ledger: Ledger) -> JsonObject:
    """The only choice of a response, part by part."""
    text = ResponseText()
    refusals: list[str] = []
    reasoning: list[str] = []
    details: list[JsonObject] = []
    calls: list[ToolCall] = []
    for index, part in enumerate(response.parts):
        match part:
            case Text():
                text.add(part, index, ledger)
            case Refusal():
                refusals.append(part.text)
            case Thinking():
                text.interrupt()
                if part.text:
                    reasoning.append(part.text)
                details += encode_details(part)
            case ToolCall():
                text.interrupt()
                calls.append(part)
                report_call(part, index, ledger)
            case _:
                text.interrupt()
                report_hidden(part, index, ledger)
    turn = seal_turn(response.parts, response.origin, translation)
    if turn is not None:
        details.append(turn_entry(turn))
    stop = response.stop
    report_stop(stop, ledger)
    refusal = "".join(refusals) or (stop.explanation if stop.reason is StopReason.REFUSAL else None)
    message: JsonObject = {"role": "assistant", "content": text.content(), "refusal": refusal or None}
    if message["content"] is None and not (calls or reasoning or details or refusals):
        message["content"] = ""
    if text.annotations:
        message["annotations"] = text.annotations
    if reasoning:
        message["reasoning_content"] = "\n\n".join(reasoning)
    if details:
        message["reasoning_details"] = [*indexed(details)]
    legacy = translation.request.legacy_functions
    if calls:
        _write_calls(calls, legacy, message, ledger)
    finish = finish_reason_of(stop, calls=bool(calls), refusal=bool(refusals), legacy=legacy)
    return _choice(message, finish, _logprobs(response.parts))


def _completion(
    response: Response,
    translation: TranslationContext,
    mint: Mint,
    choices: JsonList,
    usage: JsonObject,
    ledger: Ledger,
) -> JsonObject:
    body: JsonObject = {
        "id": completion_id(response.id, mint),
        "object": COMPLETION,
        "created": response.created if response.created is not None else mint.now(),
        "model": translation.request.model or response.model,
        "choices": choices,
        "usage": usage,
    }
    tier = response.usage.service_tier if response.usage is not None else None
    served = SERVED_TIERS.map_value(tier, ("usage", "service_tier"), ledger)
    if served is not None:
        body["service_tier"] = served
    return body


def _logprobs(parts: tuple[Part, ...]) -> JsonObject | None:
    for part in parts:
        if isinstance(part, (Text, Refusal)) and part.logprobs:
            break
    else:
        return None
    content = joined(part.logprobs for part in parts if isinstance(part, Text))
    refusal = joined(part.logprobs for part in parts if isinstance(part, Refusal))
    return {"content": content, "refusal": refusal} if content or refusal else None


def _write_calls(calls: list[ToolCall], legacy: bool, message: JsonObject, ledger: Ledger) -> None:
    if legacy:
        first = calls[0]
        message["function_call"] = {"name": client_name(first), "arguments": or_empty(first.arguments)}
        for index in range(1, len(calls)):
            ledger.dropped(Feature.PARALLEL_CALLS, ("calls", index), "the legacy form holds one call")
        return
    written: JsonList = []
    for call in calls:
        text = call.form is InputForm.TEXT
        arguments = call.arguments if text else or_empty(call.arguments)
        written.append(write_call(call.call_id, client_name(call), arguments, call.form))
    message["tool_calls"] = written


def _encode_native(response: Response, translation: TranslationContext, mint: Mint) -> JsonObject:
    message: JsonObject = {"role": "assistant", "content": None, "refusal": None}
    thinking: list[Thinking] = []
    # A stream may continue its text after reasoning or calls; a full message has one text.
    texts: list[str] = []
    refusals: list[str] = []
    citations: JsonList = []
    calls: list[JsonObject] = []
    signatures: list[Seal] = []
    for part in response.parts:
        match part:
            case Text():
                texts.append(part.text)
                citations += [citation.native for citation in part.citations]
            case Refusal():
                refusals.append(part.text)
            case Thinking(seal=Seal() as seal) if is_call_signature(part):
                signatures.append(seal)
            case Thinking():
                thinking.append(part)
            case ToolCall() if (
                part.call_id == ids.legacy_call_id(part.name, 0) and translation.request.legacy_functions
            ):
                message["function_call"] = {"name": part.name, "arguments": part.arguments}
            case ToolCall():
                calls.append(encode_native_call(part))
    write_native(thinking, message)
    by_id = {call["id"]: call for call in reversed(calls)}
    for seal in signatures:
        attach_signature(seal, by_id.get(seal.body.get("call_id"), message))
    if texts:
        message["content"] = "".join(texts)
    if citations:
        message["annotations"] = citations
    if refusals:
        message["refusal"] = "".join(refusals)
    if calls:
        message["tool_calls"] = [*calls]
    if message["content"] is None and not calls and "function_call" not in message:
        message["content"] = ""
    finish = response.stop.native or finish_reason_of(
        response.stop, calls=bool(calls), refusal=bool(message["refusal"]), legacy=translation.request.legacy_functions
    )
    choice: JsonObject = {"index": 0, "finish_reason": finish, "logprobs": _logprobs(response.parts)}
    rest = dict(response.extras.fields) if response.extras is not None else {}
    nested = rest.pop("choices", None)
    choice["message"] = message
    merge_extras(choice, response.stop.extras)
    if isinstance(nested, dict):
        merge_extras(choice, Extras(origin=NAME, fields=nested))
    usage = encode_usage(response.usage, Ledger()) if response.usage is not None else None
    body: JsonObject = {
        "id": response.id or completion_id("", mint),
        "object": COMPLETION,
        "created": response.created if response.created is not None else mint.now(),
        "model": response.model or translation.request.model,
        "choices": [choice, *response.alternatives],
    }
    if usage is not None:
        body["usage"] = usage
    if response.usage is not None and response.usage.service_tier is not None:
        body["service_tier"] = response.usage.service_tier
    return merge_extras(body, Extras(origin=NAME, fields=rest))
