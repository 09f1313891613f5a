"""Encodes parts of another protocol's response as blocks for a Messages client (mapping.md §11, §13, §19)."""

from __future__ import annotations

import re
from collections.abc import Callable

from msgspec import Raw

from dragoman.model.features import Feature
from dragoman.model.jsonvalue import JsonList, JsonObject
from dragoman.model.losses import Ledger, Place
from dragoman.model.parts import (
    Citation,
    Compaction,
    Extras,
    Foreign,
    HostedCall,
    HostedKind,
    HostedResult,
    InputForm,
    Part,
    Refusal,
    Seal,
    Text,
    Thinking,
    ToolCall,
    WebSource,
)
from dragoman.model.tools import WebSearchTool
from dragoman.protocols.anthropic_messages.hosted import hosted_id, listing_block, mcp_call_block, mcp_result_block
from dragoman.protocols.anthropic_messages.parts import encode_block
from dragoman.protocols.anthropic_messages.shapes import NAME
from dragoman.protocols.anthropic_messages.signed_blocks import encode_compaction
from dragoman.protocols.codec import TranslationContext
from dragoman.rules import arguments
from dragoman.rules.extras import HOSTED_FEATURES, drop_extras
from dragoman.rules.input_wrapping import wrap_input
from dragoman.rules.seals import to_envelope
from dragoman.rules.whitespace import with_blanks
from dragoman.wire.json import decode_object

CITED_TEXT_LIMIT = 150
# Maximum blocks for one citation whose span is cut by other citations.
_REPEATS = 8
WRAPPED = "arguments must be an object and are wrapped"


class ResponseEncodeContext:
    """The state of one response's encoding: context, ledger, and tool servers whose listings must follow."""

    __slots__ = ("ledger", "listing", "searches", "translation")

    def __init__(self, translation: TranslationContext, ledger: Ledger) -> None:
        self.translation = translation
        self.ledger = ledger
        tools = (*translation.request.tools, *translation.request.updates.tools)
        self.searches = any(isinstance(tool, WebSearchTool) for tool in tools)
        self.listing: dict[str, str] = {}


def encode_response_parts(parts: tuple[Part, ...], translation: TranslationContext, ledger: Ledger) -> JsonList:
    answering = ResponseEncodeContext(translation, ledger)
    blocks: JsonList = []
    for index, part in with_blanks(parts):
        at: Place = ("parts", index)
        if isinstance(part, Text):
            blocks.extend(_encode_text(part, at, ledger))
        elif isinstance(part, Refusal):
            if part.logprobs is not None:
                report_logprobs(at, ledger)
            if part.text.strip():
                blocks.append({"type": "text", "text": part.text})
        else:
            block = encode_response_part(part, at, answering)
            if block is not None:
                blocks.append(block)
    return blocks


def encode_response_part(part: Part, at: Place, answering: ResponseEncodeContext) -> JsonObject | None:
    if is_native(part):
        return encode_block(part)
    encoder = _ENCODERS.get(type(part))
    if encoder is not None:
        return encoder(part, at, answering)
    answering.ledger.dropped(
        Feature.UNSUPPORTED_CONTENT, at, f"a Messages client knows no {type(part).__name__.lower()}"
    )
    return None


def is_native(part: Part) -> bool:
    """Whether a part contains its full block of this protocol."""
    if isinstance(part, Foreign):
        return part.origin == NAME
    return isinstance(part, HostedCall | HostedResult) and part.extras is not None and part.extras.origin == NAME


def _encode_text(part: Text, at: Place, ledger: Ledger) -> JsonList:
    if part.logprobs is not None:
        report_logprobs(at, ledger)
    drop_extras(part.extras, at, ledger)
    if not part.text.strip():
        if part.text:
            ledger.dropped(Feature.EMPTY_TEXT, at, "text of white space only makes no block")
        return []
    if not part.citations:
        return [{"type": "text", "text": part.text}]
    return split_citations(part, at, ledger)


def report_logprobs(at: Place, ledger: Ledger) -> None:
    ledger.dropped(Feature.LOGPROBS, (*at, "logprobs"), "Messages answers have no log probabilities")


def split_citations(part: Text, at: Place, ledger: Ledger) -> JsonList:
    """Split text at the spans of its citations, because a citation here belongs to a full block (§19)."""
    text = part.text
    cuts = {0, len(text)}
    cited: list[tuple[tuple[int, int], Citation]] = []
    for index, citation in enumerate(part.citations):
        if citation.url is None:
            ledger.dropped(Feature.CITATIONS, (*at, "citations", index), "only web pages can be cited here")
            continue
        start, end = _bounded(citation.span, len(text))
        cited.append(((start, end), citation))
        cuts |= {start, end}
    if not cited:
        return [{"type": "text", "text": text}]
    ledger.approximated(Feature.CITATIONS, (*at, "citations"), "cited spans became blocks of their own")
    return _blocks(text, sorted(cuts)[1:], cited)


def _blocks(text: str, ends: list[int], cited: list[tuple[tuple[int, int], Citation]]) -> JsonList:
    """The text in blocks with these ends, each with the citations whose spans overlap it."""
    blocks: JsonList = []
    # Citations ahead, the next one last; and citations that overlap this block, by number.
    coming = sorted(range(len(cited)), key=lambda number: cited[number][0], reverse=True)
    reaching: dict[int, tuple[JsonObject, int]] = {}
    start, visible, visible_end = 0, _skip_blank(text, 0), len(text.rstrip())
    for end in ends:
        # A blank block would be rejected when it returns, so it is merged with its neighbour.
        if visible >= end or visible_end <= end < len(text):
            continue
        while coming and cited[coming[-1]][0][0] < end:
            number = coming.pop()
            (first, last), citation = cited[number]
            written = encode_citation(citation, text[first : min(last, first + CITED_TEXT_LIMIT)])
            reaching[number] = (written, _REPEATS)
        block: JsonObject = {"type": "text", "text": text[start:end]}
        if reaching:
            block["citations"] = [reaching[number][0] for number in sorted(reaching)]
        blocks.append(block)
        reaching = {
            number: (written, left - 1)
            for number, (written, left) in reaching.items()
            if left > 1 and cited[number][0][1] > end
        }
        start, visible = end, _skip_blank(text, end)
    return blocks


def _skip_blank(text: str, start: int) -> int:
    match = _find_visible(text, start)
    return len(text) if match is None else match.start()


_find_visible = re.compile(r"\S").search


def _bounded(span: tuple[int, int] | None, length: int) -> tuple[int, int]:
    if span is None:
        return 0, length
    start = min(max(0, span[0]), length)
    end = min(max(start, span[1]), length)
    return (start, end) if start < end else (0, length)


def encode_citation(citation: Citation, cited_text: str) -> JsonObject:
    """A citation of a web page. An empty index marks it as synthetic."""
    return {
        "type": "web_search_result_location",
        "url": citation.url,
        "title": citation.title or "",
        "cited_text": (citation.cited_text or cited_text)[:CITED_TEXT_LIMIT],
        "encrypted_index": "",
    }


def signature_of(seal: Seal | None) -> str:
    """The signature of a thinking block: the issuer's own, or an envelope with another issuer's signature."""
    if seal is None:
        return ""
    if seal.origin == NAME:
        signature = seal.body.get("signature")
        return signature if isinstance(signature, str) else ""
    return to_envelope(seal)


def _encode_thinking(part: Thinking, at: Place, answering: ResponseEncodeContext) -> JsonObject:
    drop_extras(part.extras, at, answering.ledger)
    if part.seal is not None and part.seal.origin == NAME:
        return part.seal.body
    return {"type": "thinking", "thinking": part.text, "signature": signature_of(part.seal)}


def report_call_extras(extras: Extras | None, at: Place, ledger: Ledger) -> None:
    """Report the extras of another protocol's call. An item that only it has is sent as a function call."""
    if extras is None or extras.origin == NAME:
        return
    if "type" in extras.fields:
        ledger.approximated(Feature.VENDOR_TOOL, at, "told as a function call")
    else:
        drop_extras(extras, at, ledger)


def call_opening(call: ToolCall) -> JsonObject:
    block: JsonObject = {"type": "tool_use", "id": call.call_id, "name": call.name, "input": {}}
    if call.namespace is not None:
        block["toolset_name"] = call.namespace
    return block


def _encode_call(part: ToolCall, at: Place, answering: ResponseEncodeContext) -> JsonObject:
    text = wrap_input(part.arguments) if part.form is InputForm.TEXT else part.arguments
    value, wrapping = arguments.to_object(text)
    if wrapping is not arguments.Wrapping.NONE:
        answering.ledger.approximated(Feature.ARGUMENTS, (*at, "arguments"), WRAPPED)
    report_call_extras(part.extras, at, answering.ledger)
    block = call_opening(part)
    block["input"] = value
    return block


def _encode_hosted_call(part: HostedCall, at: Place, answering: ResponseEncodeContext) -> JsonObject | None:
    if part.kind is HostedKind.WEB_SEARCH and answering.searches:
        return {
            "type": "server_tool_use",
            "id": hosted_id(part.call_id, "srvtoolu_"),
            "name": "web_search",
            "input": _search_input(part, at, answering.ledger),
        }
    if part.kind is HostedKind.MCP:
        answering.ledger.approximated(Feature.MCP, at, "another provider's call to a tool server")
        return mcp_call_block(part)
    if part.kind is HostedKind.MCP_LISTING:
        answering.ledger.approximated(Feature.MCP, at, "another provider's list of a server's tools")
        answering.listing[part.call_id] = part.server or ""
        return None
    answering.ledger.dropped(HOSTED_FEATURES[part.kind], at, "the client did not declare what the provider ran")
    return None


def _search_input(part: HostedCall, at: Place, ledger: Ledger) -> Raw | JsonObject:
    """The input of a search. Without a `query`, such as for opened pages, one is derived from its other members."""
    written = arguments.to_object(part.arguments)[0]
    parsed = decode_object(bytes(written)) if isinstance(written, Raw) else written
    if isinstance(parsed.get("query"), str):
        return written
    page, pattern = parsed.get("url"), parsed.get("pattern")
    words = [word for word in (page, pattern) if isinstance(word, str)]
    note = "a page that was read is shown as a search for its address" if words else "a search without a query"
    ledger.approximated(Feature.WEB_SEARCH, at, note)
    return {**parsed, "query": " ".join(words)}


def _encode_hosted_result(part: HostedResult, at: Place, answering: ResponseEncodeContext) -> JsonObject | None:
    if part.kind is HostedKind.WEB_SEARCH and answering.searches:
        content: JsonList = [_encode_source(source, answering.translation) for source in part.sources]
        error: JsonObject = {"type": "web_search_tool_result_error", "error_code": "unavailable"}
        return {
            "type": "web_search_tool_result",
            "tool_use_id": hosted_id(part.call_id, "srvtoolu_"),
            "content": error if part.is_error else content,
        }
    if part.kind is HostedKind.MCP:
        return mcp_result_block(part)
    if part.kind is HostedKind.MCP_LISTING and not part.is_error and part.call_id in answering.listing:
        return listing_block(part, answering.listing.pop(part.call_id))
    answering.ledger.dropped(HOSTED_FEATURES[part.kind], at, "the client did not declare what the provider ran")
    return None


def _encode_source(source: WebSource, translation: TranslationContext) -> JsonObject:
    seal = source.seal or Seal(
        origin=translation.request.origin,
        kind="web",
        body={"url": source.url, "title": source.title},
        model=translation.target.model,
        vendor=translation.target.vendor,
    )
    return {
        "type": "web_search_result",
        "url": source.url,
        "title": source.title,
        "encrypted_content": to_envelope(seal),
        "page_age": None,
    }


def _encode_compaction(part: Compaction, _at: Place, _answering: ResponseEncodeContext) -> JsonObject:
    return encode_compaction(part)


_ENCODERS: dict[type, Callable[..., JsonObject | None]] = {
    Thinking: _encode_thinking,
    ToolCall: _encode_call,
    HostedCall: _encode_hosted_call,
    HostedResult: _encode_hosted_result,
    Compaction: _encode_compaction,
}
