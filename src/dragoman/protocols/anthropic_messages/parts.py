"""Native content blocks to parts and back: the native encoder restores each block. Parts of other protocols are encoded
in `part_encoder` and `response_parts`. Blocks that only Messages has become `Foreign`, with any readable content as
`text` (T12)."""

from __future__ import annotations

from collections.abc import Callable

from dragoman.errors import WireError
from dragoman.model.jsonvalue import JsonList, JsonObject, JsonValue, present
from dragoman.model.parts import (
    CacheBreakpoint,
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
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Url,
)
from dragoman.protocols.anthropic_messages import hosted
from dragoman.protocols.anthropic_messages.shapes import NAME, VENDOR
from dragoman.protocols.anthropic_messages.signed_blocks import (
    decode_compaction,
    decode_redacted,
    decode_thinking,
    encode_compaction,
    encode_thinking,
    plain_thinking,
)
from dragoman.rules import arguments
from dragoman.rules.input_wrapping import wrap_input
from dragoman.wire.fields import Fields, Path, render_path
from dragoman.wire.json import encode_text, kind_of


def decode_content(owner: Fields, key: str) -> tuple[Part, ...]:
    """Content as a string, a list of blocks, or nothing. A string equals one text block."""
    value = owner.value.get(key)
    if value is None:
        return ()
    owner.skip(key)
    if type(value) is str:
        return (Text(text=value),)
    if type(value) is not list:
        raise owner.fail(key, "string or array", value)
    return decode_blocks(value, (owner.path, key))


def decode_blocks(blocks: JsonList, path: Path) -> tuple[Part, ...]:
    parts: list[Part] = []
    for index, block in enumerate(blocks):
        part = plain_block(block)
        if part is not None:
            parts.append(part)
            continue
        fields = reader(block, (path, index))
        part = decode_block(fields)
        parts.append(part)
        # Responses may lack a type, requests must not.
        if type(part) is Foreign:
            fields.kind()
        elif type(part) is ToolCall and not part.name:
            fields.name("name")
        elif type(part) is ToolResult and not part.call_id:
            fields.demand("tool_use_id")
        if type(part) is HostedCall:
            result = hosted.listing_result(part)
            if result is not None:
                parts.append(result)
    return tuple(parts)


def reader(value: JsonValue, path: Path) -> Fields:
    if type(value) is not dict:
        raise WireError(render_path(path), "object", kind_of(value))
    return Fields(value, path)


def plain_block(block: JsonValue) -> Part | None:
    """A block of the usual shapes, decoded like below but without a `Fields`; None for any other shape."""
    if type(block) is not dict or type(kind := block.get("type")) is not str:
        return None
    lane = _LANES.get(kind)
    return lane(block) if lane is not None else None


def _plain_text(block: JsonObject) -> Part | None:
    text = block.get("text")
    return Text(text=text) if len(block) == 2 and type(text) is str else None


def _plain_call(block: JsonObject) -> Part | None:
    call_id, name, given = block.get("id"), block.get("name"), block.get("input")
    if len(block) == 4 and type(call_id) is str and type(name) is str and name and type(given) is dict:
        return ToolCall(call_id=call_id, name=name, arguments=encode_text(given))
    return None


def _plain_result(block: JsonObject) -> Part | None:
    call_id, content = block.get("tool_use_id"), block.get("content")
    if len(block) != 3 or type(call_id) is not str:
        return None
    if type(content) is list and len(content) == 1:
        only = content[0]
        if type(only) is dict and len(only) == 2 and only.get("type") == "text":
            content = only.get("text")
    return ToolResult(call_id=call_id, parts=(Text(text=content),)) if type(content) is str else None


_LANES: dict[str, Callable[[JsonObject], Part | None]] = {
    "text": _plain_text,
    "tool_use": _plain_call,
    "tool_result": _plain_result,
    "thinking": plain_thinking,
}


def decode_block(block: Fields) -> Part:
    """One block of any type. Unknown types are stored unchanged."""
    kind = block.text("type")
    decoder = _DECODERS.get(kind)
    if decoder is not None:
        return decoder(block)
    if kind.endswith("_tool_result"):
        block.text("tool_use_id")
    return hosted.decode_hosted(block, kind) or foreign(block, kind)


def foreign(block: Fields, kind: str, text: str | None = None) -> Foreign:
    """A block stored unchanged, with the content that other protocols can use."""
    return Foreign(origin=NAME, kind=kind, body=block.value, text=text)


def decode_cache(owner: Fields) -> CacheBreakpoint | None:
    """The cache breakpoint of a block or a tool. A breakpoint with unknown members stays in the extras."""
    value = owner.value.get("cache_control")
    if value is None:
        return None
    control = reader(value, (owner.path, "cache_control"))
    kind, ttl = control.optional_text("type"), control.optional_text("ttl")
    if kind != "ephemeral" or not control.value.keys() <= {"type", "ttl"}:
        return None
    owner.skip("cache_control")
    return CacheBreakpoint(origin=NAME, ttl=ttl)


def encode_cache(cache: CacheBreakpoint | None, block: JsonObject) -> None:
    if cache is not None:
        block["cache_control"] = {"type": "ephemeral"} if cache.ttl is None else {"type": "ephemeral", "ttl": cache.ttl}


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
    """A citation of a text block: web results and search results by URL, the others into documents."""
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
    given = block.fields("source")
    source = _decode_source(given)
    if source is None or isinstance(source, PlainText | Passages):
        return foreign(block, "image")
    return Image(source=source, cache=decode_cache(block), extras=_rest(block, given))


def _rest(block: Fields, source: Fields) -> Extras | None:
    """Unread members of a block and, under its own name, of its source."""
    outer, inner = block.rest(NAME), source.rest(NAME)
    if inner is None:
        return outer
    return Extras(origin=NAME, fields={**(outer.fields if outer is not None else {}), "source": inner.fields})


def _decode_document(block: Fields) -> Document | Foreign:
    given = block.fields("source")
    source = _decode_source(given)
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
        extras=_rest(block, given),
    )


def _decode_source(source: Fields) -> Inline | Url | FileRef | PlainText | Passages | None:
    """A source of a known shape, or None: the block is then stored unchanged."""
    kind = source.text("type")
    decoded: Inline | Url | FileRef | PlainText | Passages
    if kind == "base64":
        decoded = Inline(media_type=_media_type(source), data=source.text("data"))
    elif kind == "url":
        decoded = Url(url=source.text("url"))
    elif kind == "file":
        decoded = FileRef(issuer=VENDOR, file_id=source.text("file_id"))
    elif kind == "text":
        decoded = PlainText(text=source.text("data"), media_type=source.optional_text("media_type") or "text/plain")
    elif kind == "content":
        decoded = Passages(parts=decode_content(source, "content"))
    else:
        return None
    return decoded


def _media_type(source: Fields) -> str:
    name = source.text("media_type")
    if "/" not in name:
        raise source.wrong("media_type", "a media type", repr(name))
    return name


def _decode_search_result(block: Fields) -> Foreign:
    decode_cache(block)
    title, source = block.text("title"), block.text("source")
    blocks = block.optional_list("content") or []
    texts: list[str] = []
    for index, part in enumerate(decode_blocks(blocks, (block.path, "content"))):
        if type(part) is not Text:
            raise block.wrong("content", "text blocks", f"another kind of block at {index}")
        texts.append(part.text)
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
    # A flag without effect stays in the extras, so that it returns unchanged.
    failed = block.value.get("is_error") is not False and block.optional_flag("is_error")
    return ToolResult(
        call_id=block.optional_text("tool_use_id") or "",
        parts=decode_content(block, "content"),
        is_error=failed or False,
        cache=decode_cache(block),
        extras=block.rest(NAME),
    )


_DECODERS: dict[str, Callable[[Fields], Part]] = {
    "text": _decode_text,
    "image": _decode_image,
    "document": _decode_document,
    "search_result": _decode_search_result,
    "tool_reference": _decode_tool_reference,
    "browser_state": _decode_browser_state,
    "thinking": decode_thinking,
    "redacted_thinking": decode_redacted,
    "tool_use": _decode_tool_use,
    "tool_result": _decode_tool_result,
    "compaction": decode_compaction,
}


def encode_content(parts: tuple[Part, ...]) -> JsonValue:
    """Parts of this protocol as content. One plain text becomes a string."""
    if len(parts) == 1 and type(only := parts[0]) is Text and is_plain(only):
        return only.text
    return encode_blocks(parts)


def encode_blocks(parts: tuple[Part, ...]) -> JsonList:
    """Parts of this protocol as blocks. A result without a block of its own is included in its call's."""
    return [encode_block(part) for part in parts if type(part) is not HostedResult or part.extras is not None]


def is_plain(part: Text) -> bool:
    return part.cache is None and part.extras is None and not part.citations and part.logprobs is None


def encode_block(part: Part) -> JsonObject:
    encoder = _ENCODERS.get(type(part))
    if encoder is None:
        raise AssertionError(f"{type(part).__name__} is never said in {NAME}")
    block = encoder(part)
    extras: Extras | None = part.extras
    if extras is not None and extras.origin == NAME and "type" not in extras.fields:
        for key, value in extras.fields.items():
            existing = block.get(key)
            block[key] = {**existing, **value} if isinstance(existing, dict) and isinstance(value, dict) else value
    return block


def _encode_text(part: Text) -> JsonObject:
    block: JsonObject = {"type": "text", "text": part.text}
    if part.citations:
        block["citations"] = [citation.native for citation in part.citations]
    encode_cache(part.cache, block)
    return block


def _encode_image(part: Image) -> JsonObject:
    block: JsonObject = {"type": "image", "source": encode_source(part.source)}
    encode_cache(part.cache, block)
    return block


def _encode_document(part: Document) -> JsonObject:
    block: JsonObject = {"type": "document", "source": encode_source(part.source)}
    block |= present({"title": part.title, "context": part.context})
    if part.citable is not None:
        block["citations"] = {"enabled": part.citable}
    encode_cache(part.cache, block)
    return block


def encode_source(source: Inline | Url | FileRef | PlainText | Passages) -> JsonObject:
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


def _encode_tool_use(part: ToolCall) -> JsonObject:
    text = wrap_input(part.arguments) if part.form is InputForm.TEXT else part.arguments
    block: JsonObject = {"type": "tool_use", "id": part.call_id, "name": part.name}
    block["input"] = arguments.to_object(text)[0]
    if part.namespace is not None:
        block["toolset_name"] = part.namespace
    encode_cache(part.cache, block)
    return block


def _encode_tool_result(part: ToolResult) -> JsonObject:
    block: JsonObject = {"type": "tool_result"}
    if part.call_id:
        block["tool_use_id"] = part.call_id
    if part.parts:
        block["content"] = encode_content(part.parts)
    if part.is_error:
        block["is_error"] = True
    encode_cache(part.cache, block)
    return block


def _encode_whole(part: HostedCall | HostedResult) -> JsonObject:
    assert part.extras is not None
    return dict(part.extras.fields)


def _encode_foreign(part: Foreign) -> JsonObject:
    return dict(part.body)


_ENCODERS: dict[type, Callable[..., JsonObject]] = {
    Text: _encode_text,
    Image: _encode_image,
    Document: _encode_document,
    Thinking: encode_thinking,
    ToolCall: _encode_tool_use,
    ToolResult: _encode_tool_result,
    HostedCall: _encode_whole,
    HostedResult: _encode_whole,
    Compaction: encode_compaction,
    Foreign: _encode_foreign,
}
