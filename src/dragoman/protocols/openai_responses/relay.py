"""Relay repairs of a request from a Responses client to a Responses provider (§1, rule 1).

reasoning    with an envelope: removed
call_id      of another provider, if this one rejects it: replaced by a hash (N2)
compaction   with an envelope: replaced by its summary as a user message (V9)

After rejected reasoning, all encrypted reasoning is removed, with references to it and its IDs (V11). If the gateway
stores the response, the request tells the provider not to, and requests self-contained reasoning."""

from __future__ import annotations

from dragoman.model.features import Feature
from dragoman.model.jsonvalue import JsonObject, JsonValue
from dragoman.model.losses import Ledger, Place
from dragoman.protocols.openai_responses.assistant import user_message
from dragoman.protocols.openai_responses.items import decode_compaction
from dragoman.protocols.openai_responses.request_glance import ID_TIMES
from dragoman.protocols.openai_responses.shapes import (
    COMPACTION,
    CUSTOM_CALL,
    FUNCTION_CALL,
    ID_PREFIXES,
    MESSAGE,
    NAME,
    REASONING,
    SUMMARY_OPENING,
)
from dragoman.rules.capabilities import ID_RULES, Capabilities
from dragoman.rules.extras import refused
from dragoman.rules.repairs import ENVELOPE, Ids, finder_of, has_envelope, is_ours, rename_ids, rewritten
from dragoman.wire.fields import Fields
from dragoman.wire.json import decode, encode
from dragoman.wire.json_spans import JsonSpan, last_value, named, object_members, replaced, with_member, without

_SEALED = "reasoning.encrypted_content"


def relay_request(body: bytes, capabilities: Capabilities, _vendor: str, ledger: Ledger) -> bytes:
    if body.find(ENVELOPE) >= 0:
        body = repair_request(body, ledger)
    return rename_ids(body, ID_RULES[NAME, capabilities.call_ids], CALL_IDS, ledger)


def repair_request(body: bytes, ledger: Ledger) -> bytes:
    def rewrite(written: bytes, number: int) -> list[bytes] | None:
        item = _item(written)
        if not is_ours(item.get("encrypted_content")):
            return None
        at: Place = ("messages", number, "parts", 0)
        if item.get("type") == REASONING:
            ledger.dropped(Feature.THINKING_SIGNATURE, at, "another issuer's reasoning cannot be opened here")
            return []
        return [_summary_message(item, at, ledger)] if item.get("type") == COMPACTION else None

    return rewritten(body, "input", has_envelope, rewrite) or body


def without_reasoning(body: bytes, ledger: Ledger) -> bytes | None:
    """Remove all reasoning that only its issuer can read; None if there is none."""

    def rewrite(written: bytes, number: int) -> list[bytes] | None:
        item = _item(written)
        kind, own = item.get("type"), item.get("id")
        at: Place = ("messages", number, "parts", 0)
        if _is_sealed(item):
            ledger.dropped(Feature.THINKING_SIGNATURE, at, "the provider refused reasoning of this conversation")
            return []
        from_model = kind in _ALSO_WITHOUT_ID or (kind is None and item.get("role") == "assistant")
        if own is None or not (from_model or (kind == REASONING and not _is_native_id(own))):
            return None
        # By the ID of the next item a provider detects that reasoning is missing.
        ledger.dropped(Feature.ITEM_REFERENCE, at, "the provider refused the reasoning that goes with this id")
        return [without(written, [member.whole for member in named(object_members(written), "id")])]

    return rewritten(body, "input", _may_refer, rewrite)


def without_storage(body: bytes) -> bytes:
    """Set `store: false` and request encrypted reasoning: otherwise the response could not be continued."""
    members = object_members(body)
    edits = [(member.value, b"false") for member in named(members, "store")]
    include_members = named(members, "include")
    wished = last_value(body, include_members)
    include = [*wished] if isinstance(wished, list) else []
    if _SEALED not in include:
        edits += [(member.value, encode([*include, _SEALED])) for member in include_members]
    body = replaced(body, edits) if edits else body
    if not include_members:
        body = with_member(body, "include", encode([_SEALED]))
    return body if named(members, "store") else with_member(body, "store", b"false")


def _summary_message(item: JsonObject, at: Place, ledger: Ledger) -> bytes:
    """A compaction's summary as user text, if it is readable."""
    summary = decode_compaction(Fields(item)).summary
    if not summary:
        note = "only its issuer can read what the conversation was compacted to"
        raise refused(Feature.COMPACTION, at, note)
    ledger.approximated(Feature.COMPACTION, at, "the summary is told as a user message")
    return encode(user_message(SUMMARY_OPENING + summary))


def _ids(item: bytes) -> tuple[list[JsonSpan], list[JsonSpan]]:
    """The spans of the call ID in an item: of a call, or of a result."""
    members = object_members(item) if item.startswith(b"{") else []
    spans = [member.value for member in named(members, "call_id")]
    kind = last_value(item, named(members, "type"))
    return ([], spans) if isinstance(kind, str) and kind.endswith("_output") else (spans, [])


_CALL = b'"call_id"'
CALL_IDS = Ids("input", finder_of(_CALL), _ids, ID_TIMES)
_ALSO_WITHOUT_ID = (MESSAGE, FUNCTION_CALL, CUSTOM_CALL)
# https://github.com/can1357/oh-my-pi/issues/284
_MAX_ID_LENGTH = 64


def _is_sealed(item: JsonObject) -> bool:
    """Whether an item is, or references, reasoning that only its issuer can read."""
    kind, own = item.get("type"), item.get("id")
    if kind == REASONING:
        return isinstance(item.get("encrypted_content"), str) or (isinstance(own, str) and not item.get("content"))
    return kind == "item_reference" and isinstance(own, str) and own.startswith(ID_PREFIXES[REASONING])


def _is_native_id(own: JsonValue) -> bool:
    """Whether the ID of reasoning has the vendor's own form."""
    return isinstance(own, str) and own.startswith(ID_PREFIXES[REASONING]) and len(own) <= _MAX_ID_LENGTH


def _may_refer(body: bytes, start: int, end: int) -> bool:
    return body.find(b'"encrypted_content"', start, end) >= 0 or body.find(b'"id"', start, end) >= 0


def _item(written: bytes) -> JsonObject:
    item = decode(written)
    return item if isinstance(item, dict) else {}
