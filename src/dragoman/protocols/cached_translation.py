"""Cached translation of a request: repeated tools and history are not translated again (decision 45).

An agent resends its tools and its history with every call. Bytes that an earlier request of the same client had in the
same position are neither decoded nor encoded again. The result equals that of a full translation, which is used
whenever equality is not certain."""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping
from operator import attrgetter

import msgspec
from msgspec import Raw, Struct

from dragoman.errors import DragomanError
from dragoman.model.jsonvalue import JsonObject
from dragoman.model.losses import Ledger
from dragoman.model.request import Message, Request, Updates
from dragoman.model.tools import TextTool
from dragoman.protocols.codec import Codec, EncodedRequest, TargetModel
from dragoman.rules.translated_parts import (
    Boundary,
    GlancedRequest,
    HistoryEncoding,
    HistoryStart,
    KnownParts,
    ReusedParts,
    TranslatedHistory,
    TranslatedTools,
    TranslationCache,
    opens_turn,
)
from dragoman.wire.duplicate_keys import OBJECT
from dragoman.wire.json import encode, read_json
from dragoman.wire.peek import NULL

# Translating the histories of smaller bodies is faster than comparing them.
MIN_BODY = 8 * 1024
HIT, MISS, DISCARDED = "hit", "miss", "discarded"
_OTHER_TOOLS = frozenset({"mcp_servers", "functions", "web_search_options"})
_NO_UPDATES = Updates()
# A letter as an escape, which could hide a blocker. Clients do not escape letters.
_find_escaped_letter = re.compile(rb"\\u00[4-7]").search
# Maximum boundaries to try: an edited message may not begin a turn.
_TRIES = 3


class RequestTranslation(Struct, frozen=True, kw_only=True):
    """A request as it was decoded and encoded, and the bytes to send."""

    request: Request
    encoded: EncodedRequest
    body: bytes


def translate_with_cache(
    body: bytes, inner: Codec, outer: Codec, target: TargetModel, ledger: Ledger, cache: TranslationCache
) -> RequestTranslation | None:
    """Translate a request with the cached translation of its beginning. If it returns None, translate it without the
    cache and with a new ledger."""
    if not inner.history or not outer.reuses:
        return None
    glance = cache.glance
    try:
        if len(body) < MIN_BODY:
            return None if glance is None else _translate_short(glance, inner, outer, target, ledger, cache)
        members = OBJECT.decode(body) if glance is None else glance.members
        if "model" not in members or not _OTHER_TOOLS.isdisjoint(members):
            return None
        array = members.get(inner.history, NULL)
        if memoryview(array)[:1].tobytes() != b"[":
            return None
        return _Translator(members, array, inner, outer, target, ledger, cache).run()
    except (msgspec.DecodeError, UnicodeError, RecursionError, DragomanError):
        return None


def _translate_short(
    glance: GlancedRequest, inner: Codec, outer: Codec, target: TargetModel, ledger: Ledger, cache: TranslationCache
) -> RequestTranslation | None:
    """Translate a request with a short history: with the cached translation of its tools, and the messages as they were
    read by the glance."""
    members, history = glance.members, inner.history
    if "model" not in members or not _OTHER_TOOLS.isdisjoint(members):
        return None
    raw = bytes(members["tools"]) if "tools" in members else b""
    slot = (outer.name, target.model, target.vendor)
    tools = _find_tools(raw, slot, target, cache) if raw[:1] == b"[" else None
    specs = None if tools is None else tools.specs
    messages: tuple[Message, ...] = ()
    # Calls of free text are known by the declared tools.
    if not raw or (tools is not None and not tools.has_text_tools):
        messages = glance.usual_messages() or ()
    known = KnownParts(tools=specs, messages=messages)
    wire: JsonObject = {
        name: [] if (messages and name == history) or (tools is not None and name == "tools") else read_json(value)
        for name, value in members.items()
    }
    request = inner.decode_request(wire, known)
    if request.updates != _NO_UPDATES or request.compacts:
        return None
    reuse = ReusedParts(known_tools=tools)
    encoded = outer.encode_request(request, target, ledger, reuse)
    translation = RequestTranslation(request=request, encoded=encoded, body=encode(encoded.body))
    if reuse.tools is not None:
        _store_tools(raw, slot, target, request, reuse, cache)
    return translation


def _find_tools(raw: bytes, slot: Hashable, target: TargetModel, cache: TranslationCache) -> TranslatedTools | None:
    """The cached translation of the same tools for the same target."""
    tools = cache.find_tools(raw, slot)
    if not isinstance(tools, TranslatedTools):
        return None
    # An array that continues another one has its states, too.
    if tools.raw != raw or (tools.target is not target and tools.target != target):
        cache.count(DISCARDED)
        return None
    return tools


def _store_tools(
    raw: bytes, slot: Hashable, target: TargetModel, request: Request, reuse: ReusedParts, cache: TranslationCache
) -> None:
    """Cache the tools that an encoder wrote."""
    if reuse.tools is not None and raw[:1] == b"[":
        tools = TranslatedTools(
            raw=raw,
            target=target,
            specs=request.tools,
            has_text_tools=TextTool in map(type, request.tools),
            declarations=reuse.tools,
            losses=reuse.tool_losses,
        )
        cache.match_tools(raw).store(slot, tools)


class _Translator:
    """One translation of a request with a long history."""

    def __init__(
        self,
        members: Mapping[str, Raw],
        array: Raw,
        inner: Codec,
        outer: Codec,
        target: TargetModel,
        ledger: Ledger,
        cache: TranslationCache,
    ) -> None:
        self._inner, self._outer, self._target = inner, outer, target
        self._ledger, self._cache = ledger, cache
        self._slot: Hashable = (outer.name, target.model, target.vendor)
        self._tools_raw = raw = bytes(members.get("tools", b""))
        self._tools = _find_tools(raw, self._slot, target, cache) if raw[:1] == b"[" else None
        self._match = cache.match_history(array)
        self._earlier = self._cached_history()
        self._boundaries: tuple[Boundary, ...] = ()
        self._wire: JsonObject = {}
        for name, value in members.items():
            self._wire[name] = [] if name == inner.history or (name == "tools" and self._tools) else read_json(value)

    def _cached_history(self) -> tuple[int, TranslatedHistory] | None:
        found = self._match.state(self._slot)
        if found is None or not isinstance(history := found[1], TranslatedHistory):
            return None
        if history.target != self._target or history.tools != self._tools_raw:
            # Another set of tools changes the names in calls.
            self._cache.count(DISCARDED)
            return None
        return found[0], history

    def run(self) -> RequestTranslation | None:
        """Translate, and cache the parts for the next request of the conversation."""
        start, request = self._decoded()
        if request.updates != _NO_UPDATES or request.compacts:
            return None
        history = HistoryEncoding(start)
        reuse = ReusedParts(history=history, known_tools=self._tools)
        encoded = self._outer.encode_request(request, self._target, self._ledger, reuse)
        body = encode(encoded.body)
        self._cache.count(MISS if start is None else HIT)
        _store_tools(self._tools_raw, self._slot, self._target, request, reuse, self._cache)
        self._store_history(request, history)
        return RequestTranslation(request=request, encoded=encoded, body=body)

    def _decoded(self) -> tuple[HistoryStart | None, Request]:
        tools = None if self._tools is None else self._tools.specs
        if self._earlier is not None:
            limit, history = self._earlier
            for _ in range(_TRIES):
                boundary = history.boundary_before(limit)
                if boundary is None:
                    break
                limit = boundary.count - 1
                self._wire[self._inner.history] = tail = read_json(self._match.tail(boundary.count).written)
                if not tail:
                    continue
                start = history.start_at(boundary)
                request = self._inner.decode_request(self._wire, KnownParts(tools=tools, messages=start.messages))
                if opens_turn(request.messages[boundary.count]):
                    self._boundaries = tuple([one for one in history.boundaries if one.count <= boundary.count])
                    return start, request
        self._wire[self._inner.history] = read_json(self._match.tail(0).written)
        return None, self._inner.decode_request(self._wire, KnownParts(tools=tools))

    def _is_blocked(self) -> bool:
        blockers = self._inner.history_blockers
        tail = self._match.tail(self._boundaries[-1].count if self._boundaries else 0).written
        return any(
            (blockers and _find_escaped_letter(text) is not None) or any(word in text for word in blockers)
            for text in (tail, self._tools_raw)
        )

    def _store_history(self, request: Request, history: HistoryEncoding) -> None:
        if (
            history.is_prefix
            and not self._is_blocked()
            and not any(map(_is_transient, request.messages[history.count :]))
        ):
            translated = history.translated(self._boundaries, request.messages, self._tools_raw, self._target)
            self._match.store(self._slot, translated)


_is_transient = attrgetter("transient")
