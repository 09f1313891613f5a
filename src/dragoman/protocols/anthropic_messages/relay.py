"""Relay repairs of a request from a Messages client to a Messages provider (§1, rule 1).

thinking, redacted_thinking   with an envelope, or an empty signature: removed, together with blank texts beside it
compaction                    with an envelope: replaced by its summary as user text (V9)
web_search_tool_result        with an envelope: removed, together with its call (§13)
citations of a text           synthetic ones, without the vendor's signature: removed, the text stays (§19)
call IDs                      of another provider, if this one rejects them: replaced by a hash (N2)
the client's telemetry line   in the system prompt: removed for hosts other than Anthropic's (I4)

An empty message is removed, too. After a rejected signature all signed thinking is removed (V11). `missing_reasoning`
makes the changes that the request may then require. A paused request is sent again with the paused turn at its end."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import zip_longest

from dragoman.errors import WireError
from dragoman.model.features import Feature
from dragoman.model.jsonvalue import JsonObject
from dragoman.model.losses import Ledger, Place
from dragoman.protocols.anthropic_messages.missing_reasoning import repair_reasoning
from dragoman.protocols.anthropic_messages.shapes import NAME, SUMMARY_OPENING, VENDOR
from dragoman.protocols.anthropic_messages.signed_blocks import decode_compaction
from dragoman.protocols.anthropic_messages.synthetic_citations import may_be_synthetic, without_synthetic
from dragoman.rules.capabilities import ID_RULES, Capabilities
from dragoman.rules.extras import refused
from dragoman.rules.instructions import TELEMETRY
from dragoman.rules.instructions import without_telemetry as strip_telemetry
from dragoman.rules.repairs import Ids, finder_of, has_envelope, is_ours, rename_ids, rewritten
from dragoman.wire.fields import Fields
from dragoman.wire.json import decode, encode
from dragoman.wire.json_spans import (
    JsonSpan,
    array_elements,
    elements_of,
    last_value,
    named,
    object_members,
    replaced,
    without,
)

_find_blank = re.compile(rb'"text"[ \t\n\r]*+:[ \t\n\r]*+"(?:[ ]|\\[nrt]|\\u00[0-9a-fA-F]{2})*+"').search
_find_unsigned = re.compile(rb'"signature"[ \t\n\r]*+:[ \t\n\r]*+""').search


def relay_request(body: bytes, capabilities: Capabilities, vendor: str, ledger: Ledger) -> bytes:
    repaired = repair_request(body, ledger)
    # The rest of the request may depend on parts that were removed or missing.
    repaired = repair_reasoning(repaired, capabilities, ledger, intact=repaired is body)
    repaired = rename_ids(repaired, ID_RULES[NAME, capabilities.call_ids], CALL_IDS, ledger)
    return repaired if vendor == VENDOR or _TELEMETRY not in repaired else without_telemetry(repaired, ledger)


def repair_request(body: bytes, ledger: Ledger) -> bytes:
    """Remove reasoning of other issuers, and unsigned thinking."""

    def rewrite(message: bytes, number: int) -> list[bytes] | None:
        at: Place = ("messages", number)
        cleaned = without_synthetic(message, at, ledger)
        pieces = _Message(cleaned, at, ledger).repaired()
        return [cleaned] if pieces is None and cleaned is not message else pieces

    return rewritten(body, "messages", _is_suspect, rewrite) or body


def without_reasoning(body: bytes, ledger: Ledger) -> bytes | None:
    """Remove all signed thinking; None if there is none."""

    def rewrite(message: bytes, number: int) -> list[bytes] | None:
        return _Message(message, ("messages", number), ledger).unsealed()

    return rewritten(body, "messages", _may_think, rewrite)


def without_telemetry(body: bytes, ledger: Ledger) -> bytes:
    """Remove the telemetry line, which changes on every request and defeats prompt caches of other providers (I4)."""
    for member in reversed(object_members(body)):
        if member.key == "system":
            break
    else:
        return body
    if body[member.value_start : member.value_start + 1] == b"[":

        def rewrite(block: bytes, number: int) -> list[bytes] | None:
            return _strip_block(block, ("instructions", number), ledger)

        return rewritten(body, "system", _has_telemetry, rewrite) or body
    whole = decode(body[member.value_start : member.value_end])
    remaining = strip_telemetry(whole) if isinstance(whole, str) else whole
    if remaining == whole:
        return body
    ledger.approximated(Feature.TELEMETRY_LINE, ("instructions", 0), _TELEMETRY_NOTE)
    return replaced(body, [(member.value, encode(remaining))]) if remaining else without(body, [member.whole])


def _has_telemetry(body: bytes, start: int, end: int) -> bool:
    return body.find(_TELEMETRY, start, end) >= 0


def _strip_block(raw: bytes, at: Place, ledger: Ledger) -> list[bytes] | None:
    block = decode(raw)
    text = block.get("text") if isinstance(block, dict) else None
    if not isinstance(block, dict) or not isinstance(text, str):
        return None
    remaining = strip_telemetry(text)
    if remaining == text:
        return None
    ledger.approximated(Feature.TELEMETRY_LINE, at, _TELEMETRY_NOTE)
    return [encode({**block, "text": remaining})] if remaining else []


_TELEMETRY = TELEMETRY.encode()
_TELEMETRY_NOTE = "the client's telemetry line is left out"


def resume_request(body: bytes, blocks: Sequence[JsonObject]) -> bytes:
    """Append the paused turn as the last message, so that the provider continues it."""
    turn = encode({"role": "assistant", "content": list(blocks)})
    for member in reversed(object_members(body)):
        if member.key == "messages":
            end = member.value_end - 1
            comma = b"," if array_elements(body, member.value_start, member.value_end) else b""
            return body[:end] + comma + turn + body[end:]
    raise WireError("/messages", "array", "nothing")


def plain_end(chunk: bytes, start: int) -> int:
    """The end of the run of content deltas at `start`, without start, end, usage or error events."""
    run = _find_deltas(chunk, start)
    return start if run is None else run.end()


# A cut-off object is parsed, so that the error shows. An empty delta is parsed, because it is no content. The colon
# distinguishes it from text that ends with a quotation mark.
_find_deltas = re.compile(
    rb'(?:event: content_block_delta\ndata: \{[^\n]*+(?<=\})(?<!:""\}\})(?<!: ""\}\})\n\n)++'
).match


def _is_suspect(body: bytes, start: int, end: int) -> bool:
    if has_envelope(body, start, end) or may_be_synthetic(body, start, end):
        return True
    # A plain search is faster than the pattern, and most bodies have no match.
    return body.find(b'"signature"', start, end) >= 0 and _find_unsigned(body, start, end) is not None


def _may_think(body: bytes, start: int, end: int) -> bool:
    return body.find(b'thinking"', start, end) >= 0


class _Message:
    """One message: its blocks, if it is the assistant's, and their replacements."""

    def __init__(self, message: bytes, at: Place, ledger: Ledger) -> None:
        self._message = message
        self._ledger = ledger
        self._blocks: list[JsonSpan] = []
        self._places: list[Place] = []
        for number, span in elements_of(message, "content") if _is_assistant(message) else ():
            self._blocks.append(span)
            self._places.append((*at, "parts", number))
        self._cut: set[int] = set()
        self._summaries: dict[int, str] = {}

    def repaired(self) -> list[bytes] | None:
        """The replacement messages, or None if no repair is needed."""
        calls: set[str] = set()
        for index, span in enumerate(self._blocks):
            if _is_suspect(self._message, span.start, span.end):
                self._judge(index, calls)
        if calls:
            self._cut_searches(calls)
        if self._cut:
            self._cut_blanks()
        return self._pieces()

    def unsealed(self) -> list[bytes] | None:
        """The message without its signed thinking, or None if it has none."""
        for index, span in enumerate(self._blocks):
            if _may_think(self._message, span.start, span.end) and self._block(index).get("type") in _SEALED:
                self._drop(index, Feature.THINKING_SIGNATURE, "the provider refused a signature in this conversation")
        return self._pieces()

    def _judge(self, index: int, calls: set[str]) -> None:
        block = self._block(index)
        match block.get("type"):
            case "thinking":
                if block.get("signature") == "":
                    self._drop(index, Feature.THINKING, "thinking without a signature is refused")
                elif is_ours(block.get("signature")):
                    self._drop(index, Feature.THINKING_SIGNATURE, _NOT_OPENED)
            case "redacted_thinking":
                if is_ours(block.get("data")):
                    self._drop(index, Feature.THINKING_SIGNATURE, _NOT_OPENED)
            case "compaction":
                if is_ours(block.get("signature")):
                    self._replace_compaction(index, block)
            case "web_search_tool_result":
                call = block.get("tool_use_id")
                if isinstance(call, str) and _has_sealed_source(block):
                    calls.add(call)

    def _cut_searches(self, calls: set[str]) -> None:
        for index in range(len(self._blocks)):
            block = self._block(index)
            of = block.get(_SEARCHES.get(str(block.get("type")), ""))
            if isinstance(of, str) and of in calls:
                self._drop(index, Feature.WEB_SEARCH, "what another provider found cannot be opened here")

    def _cut_blanks(self) -> None:
        """Remove blank texts together with another provider's thinking: some providers send them before every call."""
        for index, span in enumerate(self._blocks):
            if index in self._cut or not _find_blank(self._message, span.start, span.end):
                continue
            block = self._block(index)
            text = block.get("text")
            if block.get("type") == "text" and isinstance(text, str) and not text.strip():
                self._drop(index, Feature.EMPTY_TEXT, "a blank text is refused")

    def _replace_compaction(self, index: int, block: JsonObject) -> None:
        at = self._places[index]
        summary = decode_compaction(Fields(block)).summary
        if not summary:
            note = "the compacted conversation can be read only by who compacted it"
            raise refused(Feature.COMPACTION, at, note)
        self._ledger.approximated(Feature.COMPACTION, at, "the summary is told as the user's text")
        self._summaries[index] = summary

    def _drop(self, index: int, feature: Feature, note: str) -> None:
        self._ledger.dropped(feature, self._places[index], note)
        self._cut.add(index)

    def _block(self, index: int) -> JsonObject:
        span = self._blocks[index]
        block = decode(self._message[span.start : span.end])
        return block if isinstance(block, dict) else {}

    def _pieces(self) -> list[bytes] | None:
        if not self._cut and not self._summaries:
            return None
        # The runs of blocks before, between and after the summaries.
        runs: list[list[int]] = [[]]
        for index in range(len(self._blocks)):
            if index in self._summaries:
                runs.append([])
            elif index not in self._cut:
                runs[-1].append(index)
        write = self._exactly if len(list(filter(None, runs))) == 1 else self._anew
        pieces: list[bytes] = []
        for run, summary in zip_longest(runs, self._summaries.values()):
            if run:
                pieces.append(write(run))
            if summary is not None:
                text: JsonObject = {"type": "text", "text": SUMMARY_OPENING + summary}
                pieces.append(encode({"role": "user", "content": [text]}))
        return pieces

    def _exactly(self, indexes: list[int]) -> bytes:
        """The message with only these blocks, otherwise unchanged."""
        others = set(range(len(self._blocks))).difference(indexes)
        return without(self._message, [self._blocks[index] for index in others])

    def _anew(self, indexes: list[int]) -> bytes:
        """A new message with these blocks. Other members of the original belong to the full message."""
        spans = [self._blocks[index] for index in indexes]
        blocks = b",".join(self._message[span.start : span.end] for span in spans)
        return b"".join((b'{"role":"assistant","content":[', blocks, b"]}"))


def _ids(message: bytes) -> tuple[list[JsonSpan], list[JsonSpan]]:
    """The spans of call IDs in a message, and of result IDs."""
    id_spans: tuple[list[JsonSpan], list[JsonSpan]] = [], []
    for _, span in elements_of(message, "content"):
        members = object_members(message, span.start, span.end) if message[span.start] == _BRACE else []
        kind = last_value(message, named(members, "type"))
        for spans, (of, name) in zip(id_spans, _NAMING, strict=True):
            spans += [member.value for member in named(members, name)] if kind == of else []
    return id_spans


_BRACE = ord("{")
_NAMING = (("tool_use", "id"), ("tool_result", "tool_use_id"))
_RESULT = b'"tool_use_id"'
CALL_IDS = Ids("messages", finder_of(_RESULT), _ids)
_NOT_OPENED = "this provider cannot open the reasoning of another"
_SEALED = frozenset({"thinking", "redacted_thinking"})
_SEARCHES = {"server_tool_use": "id", "web_search_tool_result": "tool_use_id"}


def _is_assistant(message: bytes) -> bool:
    return message.startswith(b"{") and last_value(message, named(object_members(message), "role")) == "assistant"


def _has_sealed_source(block: JsonObject) -> bool:
    sources = block.get("content")
    return isinstance(sources, list) and any(
        isinstance(source, dict) and is_ours(source.get("encrypted_content")) for source in sources
    )
