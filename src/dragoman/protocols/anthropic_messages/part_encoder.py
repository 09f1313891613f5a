"""Encodes parts of other protocols as blocks for a Messages provider (mapping.md §6, §11)."""

from __future__ import annotations

from collections.abc import Callable

from dragoman.model.features import Feature
from dragoman.model.jsonvalue import JsonObject, JsonValue, present
from dragoman.model.losses import Place
from dragoman.model.parts import (
    Audio,
    Compaction,
    Document,
    FileRef,
    Foreign,
    HostedCall,
    HostedKind,
    HostedResult,
    Image,
    Inline,
    InputForm,
    Part,
    Passages,
    PlainText,
    Refusal,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Url,
)
from dragoman.protocols.anthropic_messages.encode_context import RequestEncodeContext
from dragoman.protocols.anthropic_messages.hosted import listing_block, mcp_call_block, mcp_result_block
from dragoman.protocols.anthropic_messages.parts import encode_block, encode_source
from dragoman.protocols.anthropic_messages.shapes import BETA_COMPACT, BETA_MCP, IMAGE_TYPES, NAME, PDF, SUMMARY_OPENING
from dragoman.protocols.anthropic_messages.signed_blocks import encode_compaction
from dragoman.protocols.anthropic_messages.synthetic_citations import is_synthetic
from dragoman.rules import arguments
from dragoman.rules.extras import HOSTED_FEATURES, foreign_text, refused
from dragoman.rules.input_wrapping import wrap_input, wrap_value
from dragoman.rules.seals import opens
from dragoman.rules.tool_table import Wrapped
from dragoman.rules.whitespace import with_blanks
from dragoman.wire import media


def encode_part(part: Part, at: Place, writing: RequestEncodeContext, *, by_user: bool) -> JsonObject | None:
    """A part as a block, or None if it is dropped. `by_user` decides whether that is allowed."""
    encoder = _ENCODERS.get(type(part))
    if encoder is not None:
        return encoder(part, at, writing)
    assert isinstance(part, Foreign)
    text = foreign_text(part, at, writing.ledger, by_user=by_user)
    return _text_block(text) if text else None


def _text_block(text: str) -> JsonObject:
    return {"type": "text", "text": text}


def encode_text(part: Text, at: Place, writing: RequestEncodeContext) -> JsonObject:
    block: JsonObject = {"type": "text", "text": part.text}
    if part.citations or part.cache is not None or part.extras is not None or part.logprobs is not None:
        _encode_text_options(part, block, at, writing)
    return block


def _encode_text_options(part: Text, block: JsonObject, at: Place, writing: RequestEncodeContext) -> None:
    # A citation that this provider made may return. Others it could not verify.
    own = [one.native for one in part.citations if one.origin == NAME and not is_synthetic(one.native)]
    if own:
        block["citations"] = [*own]
    if len(own) < len(part.citations):
        writing.ledger.dropped(Feature.CITATIONS, (*at, "citations"), "citations of another provider are not sent back")
    if part.logprobs is not None:
        writing.ledger.dropped(Feature.LOGPROBS, (*at, "logprobs"), "log probabilities are not sent back")
    writing.add_breakpoint(block, part.cache, at)
    writing.drop(part.extras, at)


def _encode_refusal(part: Refusal, at: Place, writing: RequestEncodeContext) -> JsonObject | None:
    writing.drop(part.extras, at)
    if not part.text.strip():
        return None
    writing.ledger.approximated(Feature.REFUSAL, at, "a refusal is sent back as the assistant's text")
    if part.logprobs is not None:
        writing.ledger.dropped(Feature.LOGPROBS, (*at, "logprobs"), "log probabilities are not sent back")
    return _text_block(part.text)


def _encode_image(part: Image, at: Place, writing: RequestEncodeContext) -> JsonObject:
    source = part.source
    if isinstance(source, Inline):
        declared = media.normal_media_type(source.media_type)
        if declared == PDF:
            block: JsonObject = {"type": "document", "source": encode_source(Inline(media_type=PDF, data=source.data))}
        else:
            block = {"type": "image", "source": encode_source(_checked_image(declared, source, at, writing))}
    else:
        _refuse_file(source, at, writing)
        block = {"type": "image", "source": encode_source(source)}
    if not writing.target.capabilities.images:
        raise refused(Feature.IMAGE, at, "this model takes no images")
    if part.detail is not None and part.detail != "auto":
        writing.ledger.dropped(Feature.IMAGE_DETAIL, (*at, "detail"), "this provider has no level of detail")
    writing.add_breakpoint(block, part.cache, at)
    writing.drop(part.extras, at)
    return block


def _checked_image(declared: str, source: Inline, at: Place, writing: RequestEncodeContext) -> Inline:
    """The image with the type that its first bytes prove: the provider rejects a wrong type (pitfall 166)."""
    media_type = media.sniff_image(source.data) or declared
    if media_type not in IMAGE_TYPES:
        raise refused(Feature.IMAGE, at, f"this provider takes no images of type {media_type!r}")
    return source if media_type == source.media_type else Inline(media_type=media_type, data=source.data)


def _refuse_file(source: Url | FileRef | PlainText | Passages, at: Place, writing: RequestEncodeContext) -> None:
    if isinstance(source, FileRef) and source.issuer != writing.target.vendor:
        raise refused(Feature.FILE_ID, (*at, "source"), f"file {source.file_id!r} is kept by {source.issuer}")


def _encode_document(part: Document, at: Place, writing: RequestEncodeContext) -> JsonObject:
    source = part.source
    if isinstance(source, Inline):
        written = _inline_document(source, at, writing)
    elif isinstance(source, Passages):
        blocks = [
            encode_part(one, (*at, "source", "parts", i), writing, by_user=True) for i, one in enumerate(source.parts)
        ]
        written = {"type": "content", "content": [block for block in blocks if block is not None]}
    else:
        _refuse_file(source, at, writing)
        written = encode_source(source)
    block: JsonObject = {"type": "document", "source": written}
    block |= present({"title": part.title, "context": part.context})
    if part.citable is not None:
        block["citations"] = {"enabled": part.citable}
    writing.add_breakpoint(block, part.cache, at)
    writing.drop(part.extras, at)
    return block


def _inline_document(source: Inline, at: Place, writing: RequestEncodeContext) -> JsonObject:
    declared = media.normal_media_type(source.media_type)
    if declared == PDF:
        return {"type": "base64", "media_type": PDF, "data": source.data}
    text = media.decode_text(source.data) if declared.startswith("text/") else None
    if text is None:
        raise refused(Feature.DOCUMENT, at, f"this provider takes no files of type {declared!r}")
    writing.ledger.approximated(Feature.TEXT_DOCUMENT, at, f"a file of type {declared!r} is sent as plain text")
    return {"type": "text", "media_type": "text/plain", "data": text}


def _refuse_audio(_part: Part, at: Place, writing: RequestEncodeContext) -> JsonObject:
    raise refused(Feature.AUDIO, at, "this provider takes no audio")


def _encode_thinking(part: Thinking, at: Place, writing: RequestEncodeContext) -> JsonObject | None:
    """Signed reasoning returns to its issuer byte for byte, and is not sent to others (V2, V3)."""
    target = writing.target
    if part.extras is not None:
        writing.drop(part.extras, at)
    seal = part.seal
    if (
        seal is not None
        and seal.kind in ("thinking", "redacted")
        and opens(seal, NAME, target.model, target.capabilities)
    ):
        return seal.body
    feature = Feature.THINKING if seal is None else Feature.THINKING_SIGNATURE
    writing.ledger.dropped(feature, at, "this provider cannot open the reasoning of another")
    return None


def encode_call(part: ToolCall, at: Place, writing: RequestEncodeContext) -> JsonObject:
    if not part.name:
        raise refused(Feature.TOOL_NAME, (*at, "name"), "a call needs the name of its tool")
    entry = writing.table.entry(part.name, part.namespace)
    text = part.arguments
    if part.form is _TEXT_FORM:
        text = wrap_input(text)
    elif entry is not None and entry.wrapped is _WRAPPED_VALUE:
        text = wrap_value(text)
    value, wrapping = arguments.to_object(text)
    if wrapping is not _UNWRAPPED:
        writing.ledger.approximated(
            Feature.ARGUMENTS, (*at, "arguments"), "arguments must be an object and are wrapped"
        )
    block: JsonObject = {
        "type": "tool_use",
        "id": writing.call_id(part.call_id),
        "name": entry.wire if entry is not None else writing.table.wire(part.name, part.namespace),
        "input": value,
    }
    if part.cache is not None or part.extras is not None:
        _encode_call_options(part, block, at, writing)
    return block


# Bound once, because looking up an enum member is slow.
_TEXT_FORM, _WRAPPED_VALUE, _UNWRAPPED = InputForm.TEXT, Wrapped.VALUE, arguments.Wrapping.NONE


def _encode_call_options(part: ToolCall, block: JsonObject, at: Place, writing: RequestEncodeContext) -> None:
    writing.add_breakpoint(block, part.cache, at)
    extras = part.extras
    if extras is None:
        return
    if extras.origin == NAME:
        block.update(extras.fields)
    elif "type" in extras.fields:
        writing.ledger.approximated(Feature.VENDOR_TOOL, at, "sent back as a call to a function")
    else:
        writing.drop(extras, at)


def encode_result(result: ToolResult, at: Place, writing: RequestEncodeContext) -> JsonObject:
    block: JsonObject = {"type": "tool_result", "tool_use_id": writing.call_id(result.call_id)}
    parts = result.parts
    only = parts[0] if len(parts) == 1 else None
    if (
        type(only) is Text
        and only.cache is None
        and only.extras is None
        and not only.citations
        and only.logprobs is None
    ):
        block["content"] = only.text
    elif parts:
        block["content"] = _result_blocks(parts, at, writing)
    if result.is_error:
        block["is_error"] = True
    if result.cache is not None:
        writing.add_breakpoint(block, result.cache, at)
    if result.extras is not None:
        if writing.is_native(result.extras):
            writing.ledger.approximated(Feature.VENDOR_TOOL, at, "sent back as the result of a function")
        else:
            writing.drop(result.extras, at)
    return block


def _result_blocks(parts: tuple[Part, ...], at: Place, writing: RequestEncodeContext) -> JsonValue:
    blocks: list[JsonValue] = []
    for index, part in with_blanks(parts):
        if isinstance(part, Text) and not part.text.strip():
            continue
        block = encode_part(part, (*at, "parts", index), writing, by_user=True)
        if block is not None:
            blocks.append(block)
    return blocks or ""


def _encode_hosted_call(part: HostedCall, at: Place, writing: RequestEncodeContext) -> JsonObject | None:
    if part.extras is not None and part.extras.origin == NAME:
        return encode_block(part)
    if part.kind is HostedKind.MCP and part.server in writing.servers:
        writing.betas.add(BETA_MCP)
        writing.ledger.approximated(Feature.MCP, at, "another provider's call to a tool server")
        writing.calls.add(part.call_id)
        return mcp_call_block(part)
    if part.kind is HostedKind.MCP_LISTING and part.server in writing.servers:
        writing.listings[part.call_id] = part.server or ""
        return None
    writing.ledger.dropped(HOSTED_FEATURES[part.kind], at, "what another provider ran itself is not sent back")
    return None


def _encode_hosted_result(part: HostedResult, at: Place, writing: RequestEncodeContext) -> JsonObject | None:
    if part.extras is not None and part.extras.origin == NAME:
        return encode_block(part)
    if part.kind is HostedKind.MCP and part.call_id in writing.calls:
        return mcp_result_block(part)
    if part.kind is HostedKind.MCP_LISTING and not part.is_error and part.call_id in writing.listings:
        writing.betas.add(BETA_MCP)
        writing.ledger.approximated(Feature.MCP, at, "another provider's list of a server's tools")
        return listing_block(part, writing.listings.pop(part.call_id))
    writing.ledger.dropped(HOSTED_FEATURES[part.kind], at, "what another provider ran itself is not sent back")
    return None


def _restored_compaction(part: Compaction, at: Place, writing: RequestEncodeContext) -> JsonObject | None:
    """The compaction block that this provider issued, or None (V9)."""
    target = writing.target
    if part.seal is None or not opens(part.seal, NAME, target.model, target.capabilities):
        return None
    if part.seal.body.get("type") != "compaction":
        return None
    writing.betas.add(BETA_COMPACT)
    writing.drop(part.extras, at)
    return encode_compaction(part)


def _encode_compaction(part: Compaction, at: Place, writing: RequestEncodeContext) -> JsonObject:
    """Another provider's compaction: its summary as user text, if it is readable."""
    native = _restored_compaction(part, at, writing)
    if native is not None:
        return native
    if not part.summary:
        raise refused(Feature.COMPACTION, at, "the compacted conversation can be read only by who compacted it")
    writing.ledger.approximated(Feature.COMPACTION, at, "the summary is told as the user's text")
    return _text_block(SUMMARY_OPENING + part.summary)


_ENCODERS: dict[type, Callable[..., JsonObject | None]] = {
    Text: encode_text,
    Refusal: _encode_refusal,
    Image: _encode_image,
    Document: _encode_document,
    Audio: _refuse_audio,
    Thinking: _encode_thinking,
    ToolCall: encode_call,
    ToolResult: encode_result,
    HostedCall: _encode_hosted_call,
    HostedResult: _encode_hosted_result,
    Compaction: _encode_compaction,
}
