"""Content blocks to parts and back, at home: what a block says is kept, and its own encoder gives the block again.

Parts of other protocols are written by `parts_abroad` (requests) and `answers` (responses). Blocks that only Messages
knows stay `Foreign`; those that say something others can read carry that as `text` (T12).
"""

from __future__ import annotations

from collections.abc import Callable

from dragoman.model.jsonvalue import JsonList, JsonObject, JsonValue
from dragoman.model.parts import (
    CacheMark,
    Citation,
    Compaction,
    Document,
    Extras,
    FileRef,
    Foreign,
    HostedCall,
    HostedResult,
    Image,
    Inline,
    InputForm,
    Part,
    Passages,
    PlainText,
    Seal,
    Text,
    Thinking,
    ThinkingKind,
    ToolCall,
    ToolResult,
    Url,
)
from dragoman.protocols.anthropic_messages import hosted
from dragoman.protocols.anthropic_messages.shapes import COMPACTED, NAME, UPSTREAM
from dragoman.rules import arguments
from dragoman.rules.seals import from_envelope, to_envelope
from dragoman.rules.unwrap import wrap_input
from dragoman.wire.fields import Fields
from dragoman.wire.json import encode_text


def decode_content(owner: Fields, key: str) -> tuple[Part, ...]:
    """Content as a string, a list of blocks, or nothing; a string equals one text block."""
    value = owner.value.get(key)
    if type(value) is str:
        owner.skip(key)
        return (Text(text=value),)
    if value is not None and type(value) is not list:
        raise owner.fail(key, "string or array", value)
    parts: list[Part] = []
    for block in owner.each(key):
        part = decode_block(block)
        parts.append(part)
        if type(part) is HostedCall:
            result = hosted.listing_result(part)
            if result is not None:
                parts.append(result)
    return tuple(parts)


def decode_block(block: Fields) -> Part:
    """One block of any kind; kinds that nobody knows are kept whole."""
    kind = block.text("type")
    decoder = _DECODERS.get(kind)
    if decoder is not None:
        return decoder(block)
    return hosted.decode_hosted(block, kind) or foreign(block, kind)


def foreign(block: Fields, kind: str, text: str | None = None) -> Foreign:
    """A block kept whole, with what others can read of it."""
    return Foreign(origin=NAME, kind=kind, body=block.value, text=text)


def decode_cache(owner: Fields) -> CacheMark | None:
    """The breakpoint on a block or a tool; members that nobody knows leave it among the extras."""
    mark = owner.value.get("cache_control")
    if mark is None:
        owner.skip("cache_control")
        return None
    if type(mark) is not dict:
        raise owner.fail("cache_control", "object", mark)
    if not mark.keys() <= {"type", "ttl"} or mark.get("type") != "ephemeral":
        return None
    ttl = owner.fields("cache_control").optional_text("ttl")
    return CacheMark(origin=NAME, ttl=ttl)


def encode_cache(mark: CacheMark | None, block: JsonObject) -> None:
    """Put a breakpoint of this protocol on a block."""
    if mark is not None:
        block["cache_control"] = {"type": "ephemeral"} if mark.ttl is None else {"type": "ephemeral", "ttl": mark.ttl}


def _decode_text(block: Fields) -> Text:
    text = block.text("text")
    if len(block.value) == 2:
        return Text(text=text)
    return Text(
        text=text,
        citations=tuple([decode_citation(citation) for citation in block.each("citations")]),
        cache=decode_cache(block),
        extras=block.rest(NAME),
    )


def decode_citation(citation: Fields) -> Citation:
    """A reference of a text block: web results and search results by address, the others into documents."""
    kind = citation.text("type")
    address = citation.optional_text("url")
    if kind == "search_result_location":
        source = citation.optional_text("source")
        address = source if source is not None and source.startswith(("http://", "https://")) else None
    return Citation(
        origin=NAME,
        native=citation.value,
        url=address,
        title=citation.optional_text("title") or citation.optional_text("document_title"),
        cited_text=citation.optional_text("cited_text"),
        file_id=citation.optional_text("file_id"),
    )


def _decode_image(block: Fields) -> Image | Foreign:
    source = _decode_source(block.fields("source"))
    if source is None or isinstance(source, PlainText | Passages):
        return foreign(block, "image")
    return Image(source=source, cache=decode_cache(block), extras=block.rest(NAME))


def _decode_document(block: Fields) -> Document | Foreign:
    source = _decode_source(block.fields("source"))
    if source is None:
        return foreign(block, "document")
    citable: bool | None = None
    citations = block.value.get("citations")
    if citations is None or (type(citations) is dict and citations.keys() <= {"enabled"}):
        options = block.optional_fields("citations")
        citable = options.optional_flag("enabled") if options is not None else None
    elif type(citations) is not dict:
        raise block.fail("citations", "object", citations)
    return Document(
        source=source,
        title=block.optional_text("title"),
        context=block.optional_text("context"),
        citable=citable,
        cache=decode_cache(block),
        extras=block.rest(NAME),
    )


def _decode_source(source: Fields) -> Inline | Url | FileRef | PlainText | Passages | None:
    """A source of a known shape, or None: the block is then kept whole."""
    kind = source.text("type")
    found: Inline | Url | FileRef | PlainText | Passages
    if kind == "base64":
        found = Inline(media_type=source.text("media_type"), data=source.text("data"))
    elif kind == "url":
        found = Url(url=source.text("url"))
    elif kind == "file":
        found = FileRef(issuer=UPSTREAM, file_id=source.text("file_id"))
    elif kind == "text":
        found = PlainText(text=source.text("data"), media_type=source.optional_text("media_type") or "text/plain")
    elif kind == "content":
        found = Passages(parts=decode_content(source, "content"))
    else:
        return None
    return found if source.rest(NAME) is None else None


def _decode_search_result(block: Fields) -> Foreign:
    title, source = block.text("title"), block.text("source")
    texts = [part.text for part in decode_content(block, "content") if isinstance(part, Text)]
    return foreign(block, "search_result", "\n".join([title, source, *texts]))


def _decode_tool_reference(block: Fields) -> Foreign:
    return foreign(block, "tool_reference", block.text("tool_name"))


def _decode_browser_state(block: Fields) -> Foreign:
    lines: list[str] = []
    for tab in block.each("tabs"):
        active = " (active)" if tab.optional_flag("active") else ""
        title, address = tab.optional_text("title") or "", tab.optional_text("url") or ""
        lines.append(f"tab {tab.optional_text('tab_id') or ''}{active}: {title} {address}".rstrip())
    changes = block.raw("state_changes")
    if changes:
        lines.append(f"changes: {encode_text(changes)}")
    return foreign(block, "browser_state", "\n".join(lines))


def _decode_thinking(block: Fields) -> Thinking:
    text = block.text("thinking")
    signature = block.value.get("signature")
    if signature is not None and type(signature) is not str:
        raise block.fail("signature", "string", signature)
    if not signature:
        # Nobody can open it again; what stood in place of the signature goes home as it was.
        return Thinking(text=text, kind=ThinkingKind.SUMMARY, extras=block.rest(NAME))
    seal = from_envelope(signature) or Seal(origin=NAME, kind="thinking", body=block.value)
    return Thinking(text=text, kind=ThinkingKind.SUMMARY, seal=seal)


def _decode_redacted(block: Fields) -> Thinking:
    seal = from_envelope(block.text("data")) or Seal(origin=NAME, kind="redacted", body=block.value)
    return Thinking(text="", kind=ThinkingKind.WITHHELD, seal=seal)


def _decode_tool_use(block: Fields) -> ToolCall:
    return ToolCall(
        call_id=block.text("id"),
        name=block.text("name"),
        arguments=encode_text(block.object("input")),
        namespace=block.optional_text("toolset_name"),
        cache=decode_cache(block),
        extras=block.rest(NAME),
    )


def _decode_tool_result(block: Fields) -> ToolResult:
    return ToolResult(
        call_id=block.optional_text("tool_use_id") or "",
        parts=decode_content(block, "content"),
        is_error=block.optional_flag("is_error") or False,
        cache=decode_cache(block),
        extras=block.rest(NAME),
    )


def _decode_compaction(block: Fields) -> Compaction:
    content = block.optional_text("content")
    seal = from_envelope(block.optional_text("signature") or "")
    if seal is None:
        return Compaction(summary=content, seal=Seal(origin=NAME, kind="compaction", body=block.value))
    summary = seal.body.get("summary")
    if not isinstance(summary, str):
        summary = None if content == COMPACTED else content
    return Compaction(summary=summary, seal=seal)


_DECODERS: dict[str, Callable[[Fields], Part]] = {
    "text": _decode_text,
    "image": _decode_image,
    "document": _decode_document,
    "search_result": _decode_search_result,
    "tool_reference": _decode_tool_reference,
    "browser_state": _decode_browser_state,
    "thinking": _decode_thinking,
    "redacted_thinking": _decode_redacted,
    "tool_use": _decode_tool_use,
    "tool_result": _decode_tool_result,
    "compaction": _decode_compaction,
}


def encode_content(parts: tuple[Part, ...]) -> JsonValue:
    """Parts of this protocol as content: a string where one plain text says it all."""
    if len(parts) == 1 and is_plain(parts[0]):
        only = parts[0]
        return only.text if isinstance(only, Text) else ""
    return encode_blocks(parts)


def encode_blocks(parts: tuple[Part, ...]) -> JsonList:
    """Parts of this protocol as blocks; a result that has none of its own stands in its call's."""
    return [encode_block(part) for part in parts if type(part) is not HostedResult or part.extras is not None]


def is_plain(part: Part) -> bool:
    """Whether a part is text and nothing else."""
    return type(part) is Text and part.cache is None and not part.citations and part.extras is None


def encode_block(part: Part) -> JsonObject:
    """A part that was said in this protocol, as its block."""
    encoder = _ENCODERS.get(type(part))
    if encoder is None:
        raise AssertionError(f"{type(part).__name__} is never said in {NAME}")
    block = encoder(part)
    extras: Extras | None = part.extras
    if extras is not None and extras.origin == NAME and "type" not in extras.fields:
        block.update(extras.fields)
    return block


def _encode_text(part: Part) -> JsonObject:
    assert isinstance(part, Text)
    block: JsonObject = {"type": "text", "text": part.text}
    if part.citations:
        block["citations"] = [citation.native for citation in part.citations]
    encode_cache(part.cache, block)
    return block


def _encode_image(part: Part) -> JsonObject:
    assert isinstance(part, Image)
    block: JsonObject = {"type": "image", "source": encode_source(part.source)}
    encode_cache(part.cache, block)
    return block


def _encode_document(part: Part) -> JsonObject:
    assert isinstance(part, Document)
    block: JsonObject = {"type": "document", "source": encode_source(part.source)}
    if part.title is not None:
        block["title"] = part.title
    if part.context is not None:
        block["context"] = part.context
    if part.citable is not None:
        block["citations"] = {"enabled": part.citable}
    encode_cache(part.cache, block)
    return block


def encode_source(source: Inline | Url | FileRef | PlainText | Passages) -> JsonObject:
    """A source in this protocol's words."""
    match source:
        case Inline():
            return {"type": "base64", "media_type": source.media_type, "data": source.data}
        case Url():
            return {"type": "url", "url": source.url}
        case FileRef():
            return {"type": "file", "file_id": source.file_id}
        case PlainText():
            return {"type": "text", "media_type": source.media_type, "data": source.text}
        case Passages():
            return {"type": "content", "content": encode_content(source.parts)}


def _encode_thinking(part: Part) -> JsonObject:
    assert isinstance(part, Thinking)
    seal = part.seal
    if seal is None:
        return {"type": "thinking", "thinking": part.text}
    if seal.origin == NAME:
        return dict(seal.body)
    return {"type": "thinking", "thinking": part.text, "signature": to_envelope(seal)}


def _encode_tool_use(part: Part) -> JsonObject:
    assert isinstance(part, ToolCall)
    text = wrap_input(part.arguments) if part.form is InputForm.TEXT else part.arguments
    block: JsonObject = {"type": "tool_use", "id": part.call_id, "name": part.name}
    block["input"] = arguments.to_object(text)[0]
    if part.namespace is not None:
        block["toolset_name"] = part.namespace
    encode_cache(part.cache, block)
    return block


def _encode_tool_result(part: Part) -> JsonObject:
    assert isinstance(part, ToolResult)
    block: JsonObject = {"type": "tool_result"}
    if part.call_id:
        block["tool_use_id"] = part.call_id
    if part.parts:
        block["content"] = encode_content(part.parts)
    if part.is_error:
        block["is_error"] = True
    encode_cache(part.cache, block)
    return block


def _encode_whole(part: Part) -> JsonObject:
    assert isinstance(part, HostedCall | HostedResult)
    assert part.extras is not None
    return dict(part.extras.fields)


def _encode_compaction(part: Part) -> JsonObject:
    assert isinstance(part, Compaction)
    return encode_compaction(part)


def encode_compaction(part: Compaction) -> JsonObject:
    """A compaction block: the issuer's own, or one that carries another issuer's for us (V9)."""
    if part.seal is not None and part.seal.origin == NAME:
        return dict(part.seal.body)
    block: JsonObject = {"type": "compaction", "content": part.summary or COMPACTED}
    if part.seal is not None:
        block["signature"] = to_envelope(part.seal)
    return block


def _encode_foreign(part: Part) -> JsonObject:
    assert isinstance(part, Foreign)
    return dict(part.body)


_ENCODERS: dict[type, Callable[[Part], JsonObject]] = {
    Text: _encode_text,
    Image: _encode_image,
    Document: _encode_document,
    Thinking: _encode_thinking,
    ToolCall: _encode_tool_use,
    ToolResult: _encode_tool_result,
    HostedCall: _encode_whole,
    HostedResult: _encode_whole,
    Compaction: _encode_compaction,
    Foreign: _encode_foreign,
}
