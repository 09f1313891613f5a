"""Open items of a provider's stream: finds the item that an event or body belongs to (mapping.md 25.5 and 25.6).

The emitted part of an item is stored, because its `done` events are authoritative: content beyond the deltas is emitted
as one more delta, never twice. White space is ignored in this comparison, because servers vary it.

item              part starts with                       grows with                 ends with
message           first text, refusal or annotation      its deltas                  content_part.done or item done
reasoning         first summary or reasoning text,       summary deltas; reasoning   item done, after its signature
                  else its end                           text if no summary came
function, custom  its announcement with a name           argument or input deltas    item done
any other         its end, in full                       –                           at once

Some servers number differently from the vendor, or not at all. The item of an event or a body is found by:

reference                looked up by
an item, by an event     its ID; its `output_index`; else the latest open one of its type, else it begins here
an item, by its end      its ID or `call_id`; its `output_index`; else the latest open one that it may complete
an item, in `output`     its ID or `call_id`; else, of its type and in order, the first one that it may complete
a content part           its `content_index`; else the latest open one of its type
a full content part      the same, if it may complete it; else another one that it may complete

An ID of two open items is ignored. A full text that differs from the emitted one is reported, and the first one stays.
A call that is sent again with other arguments fails the stream, because it is unknown which one to run."""

from __future__ import annotations

from itertools import islice

from dragoman.model.jsonvalue import JsonList, JsonObject, JsonValue
from dragoman.protocols.openai_responses.open_call import OpenCall
from dragoman.protocols.openai_responses.open_item import NEAR, ItemContext, OpenItem, bare, paired
from dragoman.protocols.openai_responses.open_message import OpenMessage
from dragoman.protocols.openai_responses.open_reasoning import OpenReasoning
from dragoman.protocols.openai_responses.shapes import CUSTOM_CALL, FUNCTION_CALL, MESSAGE, REASONING

_KINDS: dict[str, type[OpenItem]] = {
    MESSAGE: OpenMessage,
    REASONING: OpenReasoning,
    FUNCTION_CALL: OpenCall,
    CUSTOM_CALL: OpenCall,
}


def open_item(context: ItemContext, kind: JsonValue, body: JsonObject) -> OpenItem:
    """Create the item that begins with this body, which may be partial."""
    name = kind if type(kind) is str else ""
    return _KINDS.get(name, OpenItem)(context, name, body)


class OpenItems:
    """All items of one stream, and the look-up of the item for an event."""

    __slots__ = ("_by_call", "_context", "_open", "_order", "_shared", "by_id", "by_index")

    def __init__(self, context: ItemContext) -> None:
        self._context = context
        self._order: list[OpenItem] = []
        # Fast look-ups: by ID, else by the position of an event.
        self.by_id: dict[str, OpenItem] = {}
        self.by_index: dict[int, OpenItem] = {}
        self._by_call: dict[str, OpenItem] = {}
        self._shared: set[str] = set()
        # In order, used as an ordered set.
        self._open: dict[OpenItem, None] = {}

    def __bool__(self) -> bool:
        return bool(self._order)

    def of_event(self, event: JsonObject, sort: type[OpenItem], kind: str) -> OpenItem | None:
        """The item of an event that the fast look-ups do not find open; None if it only repeats an ended item."""
        item_id, index = event.get("item_id"), event.get("output_index")
        named = self._named(item_id)
        if named is not None and type(named) is sort:
            return None if named.done else named
        here = self.by_index.get(index) if type(index) is int else None
        if here is not None and type(here) is sort:
            if not here.done:
                return here
            if not event.get("delta") or type(item_id) is not str or named is not None:
                return None
        opened = [item for item in self._opened() if type(item) is sort]
        if type(index) is int and here is None:
            # An unannounced position belongs to an item that waits for its first content, if there is one.
            opened = [item for item in opened if item.silent()]
        elif here is not None and here.done and type(here) is sort:
            opened = []
        chosen = opened[0] if opened else self._begin(kind, {"id": item_id}, index)
        if type(index) is int:
            self.by_index.setdefault(index, chosen)
        return chosen

    def announce(self, event: JsonObject, body: JsonObject) -> None:
        index, kind = event.get("output_index"), body.get("type")
        here = self.by_index.get(index) if type(index) is int else None
        item = self._find(body, here, index)
        if item is not None and item.done and item is not here and not _is_called(item, body):
            item = None
        if item is None and here is not None and not here.done and _alike(here, kind) and not here.is_other(body):
            item = here if not (here.item_id and _is_text(body.get("id"))) else None
        if item is None:
            self._begin(kind, body, index)
        elif not item.done:
            item.announce(body)

    def finish(self, event: JsonObject, body: JsonObject) -> None:
        index, kind = event.get("output_index"), body.get("type")
        here = self.by_index.get(index) if type(index) is int else None
        item = self._find(body, here, index)
        if item is not None and item is not here and not item.fits(body):
            better = here is not None and _alike(here, kind) and here.fits(body)
            item = here if better else None if item.done else item
        if item is None and here is not None and _alike(here, kind) and not here.is_other(body):
            item = here if not here.done or here.fits(body) else None
        if item is None:
            opened = [one for one in self._opened() if _alike(one, kind) and not one.is_other(body)]
            item = next((one for one in opened if one.fits(body)), None)
        # If the item is unknown, its end emits its content.
        self._end(item if item is not None else self._begin(kind, {"id": body.get("id")}, index), body)

    def finish_all(self, output: JsonValue) -> None:
        """End the response: output beyond the items is emitted, and open items end."""
        bodies = [body for body in output if type(body) is dict] if type(output) is list else []
        messages = [body for body in bodies if body.get("type") == MESSAGE]
        open_messages = [item for item in self._order if type(item) is OpenMessage]
        if open_messages and len(messages) != len(open_messages) and _same_text(messages, open_messages):
            # The same text in other parts: all of it was emitted.
            bodies = [body for body in bodies if body.get("type") != MESSAGE]
        matches = paired(bodies, self._order, (_is_named, _fits_emitted, _fits, _may_be))
        for body, item in zip(bodies, matches, strict=True):
            self._end(item if item is not None else self._begin(body.get("type"), {"id": body.get("id")}, None), body)
        for item in self._order:
            if not item.done:
                item.done = True
                item.finish(None)

    def _begin(self, kind: JsonValue, body: JsonObject, index: JsonValue) -> OpenItem:
        item = open_item(self._context, kind, body)
        self._open[item] = None
        self._order.append(item)
        if type(call_id := body.get("call_id")) is str:
            self._by_call[call_id] = item
        if type(index) is int and ((here := self.by_index.get(index)) is None or here.done or "type" in body):
            self.by_index[index] = item
        name = item.item_id
        if name:
            other = self.by_id.pop(name, None)
            if other is not None and not other.done:
                self._shared.add(name)
            if name not in self._shared:
                self.by_id[name] = item
        return item

    def _named(self, name: JsonValue) -> OpenItem | None:
        return self.by_id.get(name) if type(name) is str else None

    def _find(self, body: JsonObject, here: OpenItem | None, index: JsonValue) -> OpenItem | None:
        """The item of this name. A call is found by its ID only without a position: some servers share IDs."""
        item, call_id = self._named(body.get("id")), body.get("call_id")
        if item is not None and _alike(item, body.get("type")) and (item is here or not item.is_other(body)):
            return item
        if type(call_id) is not str or not call_id or type(index) is int:
            return None
        return self._by_call.get(call_id)

    def _opened(self) -> list[OpenItem]:
        return list(islice(reversed(self._open), NEAR))

    def _end(self, item: OpenItem, body: JsonObject) -> None:
        if item.done:
            if body != item.body:
                item.repeat(body)
            return
        item.done, item.body = True, body
        self._open.pop(item, None)
        if type(call_id := body.get("call_id")) is str:
            self._by_call[call_id] = item
        item.finish(body)


def _alike(item: OpenItem, kind: JsonValue) -> bool:
    sort = _KINDS.get(kind, OpenItem) if type(kind) is str else OpenItem
    return type(item) is sort and (sort is not OpenItem or item.kind == kind)


def _is_called(item: OpenItem, body: JsonObject) -> bool:
    call_id = body.get("call_id")
    return type(item) is OpenCall and _is_text(call_id) and item.call_id == call_id


# Matching rules of the final output, the most reliable first.


def _is_named(body: JsonObject, item: OpenItem) -> bool:
    item_id = body.get("id")
    named = _is_text(item_id) and item_id in (item.item_id, item.body.get("id")) and not item.is_other(body)
    return _alike(item, body.get("type")) and (named or _is_called(item, body))


def _fits_emitted(body: JsonObject, item: OpenItem) -> bool:
    return not item.silent() and _fits(body, item)


def _fits(body: JsonObject, item: OpenItem) -> bool:
    return _alike(item, body.get("type")) and (item.fits(body) or type(item) is OpenItem)


def _may_be(body: JsonObject, item: OpenItem) -> bool:
    if type(item) is OpenCall or (item.done and item.silent()):
        return False
    return _alike(item, body.get("type"))


def _same_text(bodies: list[JsonObject], items: list[OpenMessage]) -> bool:
    joined: JsonList = [part for body in bodies if type(content := body.get("content")) is list for part in content]
    texts = [str(part.get("text") or part.get("refusal") or "") for part in joined if type(part) is dict]
    return bare("".join(texts)) == bare("".join([item.emitted_text() for item in items]))


def _is_text(value: JsonValue) -> bool:
    return type(value) is str and value != ""
