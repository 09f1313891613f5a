"""Reasoning on this wire: `reasoning_content`, `reasoning` and `reasoning_details`, read and written (mapping.md §11).

A client's echo is taken apart into the seals of whoever issued them; what a provider of this protocol answered stays
together under a seal of its own, because only in that form does the provider want it back (V7).
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from dragoman.model.jsonvalue import JsonList, JsonObject, JsonValue
from dragoman.model.parts import Extras, Part, Refusal, Seal, Text, Thinking, ThinkingKind, ToolCall
from dragoman.protocols.codec import Target
from dragoman.protocols.openai_chat.shapes import (
    ANTHROPIC,
    DETAIL_ENCRYPTED,
    DETAIL_SUMMARY,
    DETAIL_TEXT,
    DETAILS,
    FORMAT_ANTHROPIC,
    FORMAT_RESPONSES,
    FORMAT_TURN,
    NAME,
    REASONING_FIELDS,
    RESPONSES,
)
from dragoman.rules.seals import from_envelope, to_envelope
from dragoman.wire.fields import Fields
from dragoman.wire.json import encode_text

# Members of a details entry that the model or the seal holds.
_KNOWN = frozenset({"type", "text", "summary", "data", "signature", "format", "model", "index", "id"})


_TEXTS = ("type", "text", "summary", "data", "signature", "format", "id")


class Said(Struct, frozen=True):
    """Reasoning as plain text: the member it stands in, the text, and a second member that repeats it."""

    field: str
    text: str
    also: str | None = None


def read_said(message: Fields) -> Said | None:
    """The plain text of a message's reasoning; equal text in two members counts once."""
    found: Said | None = None
    for field in REASONING_FIELDS:
        text = message.value.get(field)
        if text is None or text == "":
            message.skip(field)
        elif found is None:
            found = Said(field, message.optional_text(field) or "")
        elif text == found.text:
            message.skip(field)
            found = Said(found.field, found.text, field)
    return found


def read_details(message: Fields) -> list[JsonObject]:
    """The entries of `reasoning_details`, merged by their index."""
    details = Details()
    for entry in message.each(DETAILS):
        for key in _TEXTS:
            entry.optional_text(key)
        entry.optional_integer("index")
        details.add(entry.value)
    return details.merged()


class Details:
    """Entries of `reasoning_details` as they come; one of the same index and type, or a bare signature, completes the
    earlier."""

    __slots__ = ("_by_index", "_entries", "_texts")

    def __init__(self) -> None:
        self._entries: list[JsonObject] = []
        self._by_index: dict[str, int] = {}
        # What an entry says, by its number and member, in the pieces that it came in.
        self._texts: dict[tuple[int, str], list[str]] = {}

    def add(self, entry: JsonObject) -> None:
        """Take the next entry."""
        number = self._completed(entry)
        if number is None:
            self._entries.append({key: value for key, value in entry.items() if value is not None})
            return
        earlier = self._entries[number]
        for key, value in entry.items():
            known = earlier.get(key)
            if key in _JOINED and isinstance(value, str) and isinstance(known, str):
                self._texts.setdefault((number, key), [known]).append(value)
            elif value is not None and value != "":
                earlier[key] = value
                self._texts.pop((number, key), None)

    def merged(self) -> list[JsonObject]:
        """The entries so far, each once."""
        for (number, key), pieces in self._texts.items():
            self._entries[number][key] = "".join(pieces)
        self._texts.clear()
        return self._entries

    def _completed(self, entry: JsonObject) -> int | None:
        """The number of the entry that this one completes; None if it is one of its own."""
        index = entry.get("index")
        if index is None:
            bare = bool(entry.get("signature")) and not any(entry.get(key) for key in ("text", "summary", "data"))
            return len(self._entries) - 1 if self._entries and bare else None
        known = self._by_index.setdefault(encode_text([index, entry.get("type")]), len(self._entries))
        return known if known < len(self._entries) else None


_JOINED = ("text", "summary")


def detail_text(entry: JsonObject) -> str:
    """What can be read of an entry."""
    text = entry.get("text") or entry.get("summary")
    return text if isinstance(text, str) else ""


def text_seal(said: Said | None, text: str, details: list[JsonObject], target: Target | None = None) -> Seal:
    """The seal under which this protocol's own reasoning returns to its issuer."""
    body: JsonObject = {"field": said.field if said is not None else DETAILS, "text": text}
    if said is not None and said.also is not None:
        body["also"] = said.also
    if details:
        body["details"] = list[JsonValue](details)
    return Seal(
        origin=NAME,
        kind="text",
        body=body,
        model=target.model if target is not None else None,
        upstream=target.upstream if target is not None else None,
    )


def decode_answer(message: Fields, target: Target) -> Thinking | None:
    """The reasoning of a provider's answer, as one part."""
    said = read_said(message)
    details = read_details(message)
    if said is None and not details:
        return None
    text = said.text if said is not None else "".join(detail_text(entry) for entry in details)
    return Thinking(
        text=text,
        kind=ThinkingKind.FULL if text else ThinkingKind.WITHHELD,
        seal=text_seal(said, text, details, target),
    )


def decode_echo(message: Fields) -> tuple[list[Part], Seal | None]:
    """The reasoning that a client sends back, each piece under the seal of its issuer, and a sealed turn (V1)."""
    said = read_said(message)
    details = read_details(message)
    if said is None and not details:
        return [], None
    if said is not None and not details:
        return [Thinking(text=said.text, seal=text_seal(said, said.text, []))], None
    echo = _Echo()
    for entry in details:
        echo.take(entry)
    found = echo.parts()
    parts: list[Part] = list(found)
    loose = echo.loose
    if said is not None and not repeats(said.text, "".join([part.text for part in found])):
        parts.insert(0, Thinking(text=said.text, seal=text_seal(said, said.text, loose)))
    elif loose:
        text = "".join(detail_text(entry) for entry in loose)
        kind = ThinkingKind.FULL if text else ThinkingKind.WITHHELD
        parts.append(Thinking(text=text, kind=kind, seal=text_seal(None, text, loose)))
    return parts, echo.turn


def repeats(text: str, joined: str) -> bool:
    """Whether two texts are the same but for white space; servers join the pieces of one text in different ways."""
    return text == joined or "".join(text.split()) == "".join(joined.split())


class _Echo:
    """Sorts details entries by issuer."""

    def __init__(self) -> None:
        self.turn: Seal | None = None
        self.loose: list[JsonObject] = []
        self._found: list[Thinking | list[JsonObject]] = []
        self._items: dict[str, list[JsonObject]] = {}

    def take(self, entry: JsonObject) -> None:
        """Sort one entry."""
        data, signature, form = entry.get("data"), entry.get("signature"), entry.get("format")
        token = data if isinstance(data, str) else signature if isinstance(signature, str) else ""
        sealed = from_envelope(token)
        if sealed is not None and sealed.kind == "turn":
            self.turn = sealed
        elif form == FORMAT_RESPONSES:
            self._group(entry)
        elif sealed is not None:
            self._found.append(_thinking(detail_text(entry), sealed, entry))
        elif form == FORMAT_ANTHROPIC and (native := _anthropic_seal(entry)) is not None:
            self._found.append(_thinking(detail_text(entry), native, entry))
        else:
            self.loose.append(entry)

    def _group(self, entry: JsonObject) -> None:
        key = str(entry.get("id") or "")
        group = self._items.get(key)
        if group is None:
            group = self._items[key] = []
            self._found.append(group)
        group.append(entry)

    def parts(self) -> list[Thinking]:
        """The sealed reasoning, in order of first appearance."""
        return [found if isinstance(found, Thinking) else _responses_thinking(found) for found in self._found]


def _anthropic_seal(entry: JsonObject) -> Seal | None:
    signature, data = entry.get("signature"), entry.get("data")
    if entry.get("type") == DETAIL_ENCRYPTED and isinstance(data, str):
        kind, body = "redacted", JsonObject(type="redacted_thinking", data=data)
    elif isinstance(signature, str) and signature:
        kind, body = "thinking", JsonObject(type="thinking", thinking=detail_text(entry), signature=signature)
    else:
        return None
    return Seal(origin=ANTHROPIC, kind=kind, body=body, model=_model(entry))


def _model(entry: JsonObject) -> str | None:
    model = entry.get("model")
    return model if isinstance(model, str) and model else None


def _thinking(text: str, seal: Seal, *entries: JsonObject) -> Thinking:
    unknown: JsonObject = {}
    for entry in entries:
        unknown.update((key, value) for key, value in entry.items() if key not in _KNOWN)
    item_id = entries[0].get("id")
    kind = ThinkingKind.WITHHELD if not text else ThinkingKind.FULL
    if text and seal.kind == "item":
        kind = ThinkingKind.SUMMARY
    return Thinking(
        text=text,
        kind=kind,
        seal=seal,
        id=item_id if isinstance(item_id, str) else None,
        extras=Extras(origin=NAME, fields=unknown) if unknown else None,
    )


def _responses_thinking(entries: list[JsonObject]) -> Thinking:
    """One reasoning item of Responses out of the entries that share its id."""
    summaries = [detail_text(entry) for entry in entries if entry.get("type") != DETAIL_ENCRYPTED]
    data = next((entry["data"] for entry in entries if isinstance(entry.get("data"), str)), None)
    text = "\n\n".join(summaries)
    sealed = from_envelope(data) if isinstance(data, str) else None
    if sealed is None:
        body: JsonObject = {
            "id": entries[0].get("id"),
            "type": "reasoning",
            "summary": [{"type": "summary_text", "text": summary} for summary in summaries],
        }
        if body["id"] is None:
            del body["id"]
        if data is not None:
            body["encrypted_content"] = data
        sealed = Seal(origin=RESPONSES, kind="item", body=body, model=_model(entries[0]))
    return _thinking(text, sealed, *entries)


def encode_details(part: Thinking) -> list[JsonObject]:
    """The entries that carry a part's seal through a client, without their index."""
    seal = part.seal
    if seal is None:
        return []
    if seal.origin == NAME:
        details = seal.body.get("details")
        return [dict(entry) for entry in details if isinstance(entry, dict)] if isinstance(details, list) else []
    if seal.origin == ANTHROPIC and seal.kind in ("thinking", "redacted"):
        entries = [_anthropic_entry(seal)]
    elif seal.origin == RESPONSES and seal.kind == "item":
        entries = _responses_entries(seal)
    else:
        entries = [{"type": DETAIL_ENCRYPTED, "data": to_envelope(seal), "format": "unknown"}]
    for entry in entries:
        if seal.model:
            entry["model"] = seal.model
        if part.extras is not None and part.extras.origin == NAME:
            entry.update(part.extras.fields)
    return entries


def _anthropic_entry(seal: Seal) -> JsonObject:
    body = seal.body
    if seal.kind == "redacted":
        return {"type": DETAIL_ENCRYPTED, "data": body.get("data", ""), "format": FORMAT_ANTHROPIC}
    return {
        "type": DETAIL_TEXT,
        "text": body.get("thinking", ""),
        "signature": body.get("signature", ""),
        "format": FORMAT_ANTHROPIC,
    }


def _responses_entries(seal: Seal) -> list[JsonObject]:
    body = seal.body
    summary = body.get("summary")
    texts = [part.get("text") for part in summary if isinstance(part, dict)] if isinstance(summary, list) else []
    shared: JsonObject = {"id": body["id"]} if "id" in body else {}
    shared["format"] = FORMAT_RESPONSES
    entries: list[JsonObject] = [{"type": DETAIL_SUMMARY, "summary": text, **shared} for text in texts]
    data = body.get("encrypted_content")
    # An item that says more than summary and proof travels whole.
    whole = any(value for key, value in body.items() if key not in ("id", "type", "summary", "encrypted_content"))
    if whole or not isinstance(data, str):
        data = to_envelope(seal)
    entries.append({"type": DETAIL_ENCRYPTED, "data": data, **shared})
    return entries


def turn_entry(seal: Seal) -> JsonObject:
    """The entry that carries the exact form of a turn (V1), without its index."""
    return {"type": DETAIL_ENCRYPTED, "data": to_envelope(seal), "format": FORMAT_TURN}


def indexed(entries: Iterable[JsonObject], start: int = 0) -> list[JsonObject]:
    """Number entries; the official accumulator merges list entries by this member."""
    return [{"index": index, **_without_index(entry)} for index, entry in enumerate(entries, start)]


def _without_index(entry: JsonObject) -> JsonObject:
    return {key: value for key, value in entry.items() if key != "index"} if "index" in entry else entry


def write_home(thinking: list[Thinking], turn: Seal | None, message: JsonObject) -> None:
    """Write a client's echo as it was: plain text in its member, details with their issuers' formats."""
    entries: JsonList = []
    foreign: list[str] = []
    for part in thinking:
        seal = part.seal
        if seal is not None and seal.origin == NAME:
            _write_said(seal, message)
        elif part.text:
            foreign.append(part.text)
        entries.extend(encode_details(part))
    if foreign and not any(field in message for field in REASONING_FIELDS):
        message[REASONING_FIELDS[0]] = "\n\n".join(foreign)
    if turn is not None:
        entries.append(turn_entry(turn))
    if entries:
        message[DETAILS] = [
            {"index": index, **entry} if isinstance(entry, dict) else entry for index, entry in enumerate(entries)
        ]


def _write_said(seal: Seal, message: JsonObject) -> None:
    field, text, also = seal.body.get("field"), seal.body.get("text"), seal.body.get("also")
    if field in REASONING_FIELDS and isinstance(field, str):
        message[field] = text
    if isinstance(also, str):
        message[also] = text


def write_echo(thinking: list[Thinking], message: JsonObject) -> None:
    """Write reasoning back to the provider that emitted it, in the members it used."""
    texts: dict[str, list[str]] = {}
    entries: JsonList = []
    for part in thinking:
        body = part.seal.body if part.seal is not None else {}
        field, text = body.get("field"), body.get("text")
        if field in REASONING_FIELDS and isinstance(field, str) and isinstance(text, str):
            texts.setdefault(field, []).append(text)
        entries.extend(encode_details(part))
    for field, pieces in texts.items():
        message[field] = "\n\n".join(pieces)
    if entries:
        message[DETAILS] = entries


def rebuilds(parts: tuple[Part, ...]) -> bool:
    """Whether a client's echo of reasoning, content and calls gives back exactly these parts (V1)."""
    stage = 0
    texts = 0
    for part in parts:
        rank = _STAGES.get(type(part))
        if rank is None or rank < stage:
            return False
        stage = rank
        if isinstance(part, Text):
            texts += 1
            if texts > 1 or part.citations:
                return False
    return True


_STAGES: dict[type, int] = {Thinking: 0, Text: 1, Refusal: 2, ToolCall: 3}
