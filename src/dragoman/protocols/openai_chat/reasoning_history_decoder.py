"""Decodes reasoning that a client sends back: each piece with the signature of its issuer (mapping.md §11, V1 and
V2)."""

from __future__ import annotations

from dragoman.model.jsonvalue import JsonObject
from dragoman.model.parts import Extras, Foreign, Part, Seal, Thinking, ThinkingKind
from dragoman.protocols.openai_chat.reasoning import (
    NOTHING,
    StatedReasoning,
    Structured,
    read_stated,
    read_structured,
    sealed_text,
    text_seal,
)
from dragoman.protocols.openai_chat.reasoning_details import block_text, detail_text, repeats, text_of
from dragoman.protocols.openai_chat.shapes import (
    ANTHROPIC,
    CONTENT,
    DETAIL_ENCRYPTED,
    FORMAT_ANTHROPIC,
    FORMAT_RESPONSES,
    NAME,
    RESPONSES,
    THINKING_PARTS,
)
from dragoman.rules.seals import from_envelope
from dragoman.wire.fields import Fields

# Members of a details entry that the model or the seal holds.
_DETAIL_MEMBERS = frozenset({"type", "text", "summary", "data", "signature", "format", "model", "index", "id"})


_BLOCK = frozenset({"type", "thinking", "signature", "data"})
_ITEM = frozenset({"id", "type", "summary", "content", "encrypted_content"})


def decode_echo(message: Fields) -> tuple[list[Part], Seal | None]:
    """The reasoning of a client's message outside its content, and a signed turn (V1)."""
    stated = read_stated(message)
    beside = read_structured(message)
    if beside == NOTHING:
        return ([Thinking(text=stated.text, seal=text_seal(stated, stated.text))] if stated is not None else []), None
    echo = _Echo()
    for entry in beside.details:
        echo.take(entry)
    sealed = echo.parts()
    loose: list[JsonObject] = []
    for block in beside.blocks:
        signed = _signed_block(block)
        if signed is None:
            loose.append(block)
        else:
            sealed.append(signed)
    sealed += [_item(item) for item in beside.items if _is_sealed(item)]
    unsealed = [item for item in beside.items if not _is_sealed(item)]
    parts: list[Part] = list(sealed)
    rest = Structured(details=echo.loose, blocks=loose, items=unsealed, opaque=beside.opaque)
    if stated is not None and not repeats(stated.text, "".join([part.text for part in sealed])):
        parts.insert(0, sealed_text(stated, stated.text, rest))
    elif rest != NOTHING:
        parts.append(sealed_text(None, rest.text(), rest))
    return parts, echo.turn


def thinking_in_content(parts: tuple[Part, ...]) -> list[Part]:
    return [_from_content(part) if isinstance(part, Foreign) else part for part in parts]


def _from_content(part: Foreign) -> Part:
    if part.kind not in THINKING_PARTS:
        return part
    signed = _signed_block(part.body)
    if signed is not None:
        return signed
    text = block_text(part.body)
    return sealed_text(StatedReasoning(CONTENT, text), text, Structured(parts=[part.body]))


def _signed_block(block: JsonObject) -> Thinking | None:
    """A signed Messages block, in the form that clients store it in this protocol; None if it has no signature."""
    kind, text = block.get("type"), block.get("thinking")
    if kind not in THINKING_PARTS:
        return None
    token = block.get("data" if kind == "redacted_thinking" else "signature")
    if not isinstance(token, str) or not token or not isinstance(text, str | None):
        return None
    shown = ThinkingKind.SUMMARY if text else ThinkingKind.WITHHELD
    seal = from_envelope(token)
    if seal is None:
        # It comes from a client, so only known members of such a block are sent.
        body: JsonObject = {key: value for key, value in block.items() if key in _BLOCK}
        seal = Seal(origin=ANTHROPIC, kind="redacted" if kind == "redacted_thinking" else "thinking", body=body)
    return Thinking(text=text or "", kind=shown, seal=seal, extras=_unknown(_BLOCK, block))


def _is_sealed(item: JsonObject) -> bool:
    return item.get("type") == "reasoning" and bool(item.get("encrypted_content"))


def _item(item: JsonObject) -> Thinking:
    """A reasoning item of Responses, in the form that clients store it in this protocol."""
    token = item["encrypted_content"]
    seal = from_envelope(token) if isinstance(token, str) else None
    text = text_of(item.get("summary")) or ""
    shown = ThinkingKind.SUMMARY if text else ThinkingKind.WITHHELD
    if seal is None:
        body: JsonObject = {key: value for key, value in item.items() if key in _ITEM}
        seal = Seal(origin=RESPONSES, kind="item", body=body)
    return Thinking(text=text, kind=shown, seal=seal, extras=_unknown(_ITEM, item))


def _unknown(modelled: frozenset[str], *entries: JsonObject) -> Extras | None:
    """Members that neither the model nor the seal holds. The ledger names them where they are not sent."""
    fields = {key: value for entry in entries for key, value in entry.items() if key not in modelled}
    return Extras(origin=NAME, fields=fields) if fields else None


class _Echo:
    def __init__(self) -> None:
        self.turn: Seal | None = None
        self.loose: list[JsonObject] = []
        self._sealed: list[Thinking | list[JsonObject]] = []
        self._items: dict[str, list[JsonObject]] = {}

    def take(self, entry: JsonObject) -> None:
        data, signature, form = entry.get("data"), entry.get("signature"), entry.get("format")
        token = data if isinstance(data, str) else signature if isinstance(signature, str) else ""
        sealed = from_envelope(token)
        if sealed is not None and sealed.kind == "turn":
            self.turn = sealed
        elif form == FORMAT_RESPONSES:
            self._group(entry)
        elif sealed is not None:
            self._sealed.append(_thinking(detail_text(entry), sealed, entry))
        elif form == FORMAT_ANTHROPIC and (native := _anthropic_seal(entry)) is not None:
            self._sealed.append(_thinking(detail_text(entry), native, entry))
        else:
            self.loose.append(entry)

    def _group(self, entry: JsonObject) -> None:
        key = str(entry.get("id") or "")
        group = self._items.get(key)
        if group is None:
            group = self._items[key] = []
            self._sealed.append(group)
        group.append(entry)

    def parts(self) -> list[Thinking]:
        """The signed reasoning, in order of first appearance."""
        return [entry if isinstance(entry, Thinking) else _responses_thinking(entry) for entry in self._sealed]


def _anthropic_seal(entry: JsonObject) -> Seal | None:
    signature, data = entry.get("signature"), entry.get("data")
    body: JsonObject
    if entry.get("type") == DETAIL_ENCRYPTED and isinstance(data, str):
        kind, body = "redacted", {"type": "redacted_thinking", "data": data}
    elif isinstance(signature, str) and signature:
        kind, body = "thinking", {"type": "thinking", "thinking": detail_text(entry), "signature": signature}
    else:
        return None
    return Seal(origin=ANTHROPIC, kind=kind, body=body, model=_model(entry))


def _model(entry: JsonObject) -> str | None:
    model = entry.get("model")
    return model if isinstance(model, str) and model else None


def _thinking(text: str, seal: Seal, *entries: JsonObject) -> Thinking:
    item_id = entries[0].get("id")
    kind = ThinkingKind.WITHHELD if not text else ThinkingKind.FULL
    if text and seal.kind == "item":
        kind = ThinkingKind.SUMMARY
    return Thinking(
        text=text,
        kind=kind,
        seal=seal,
        id=item_id if isinstance(item_id, str) else None,
        extras=_unknown(_DETAIL_MEMBERS, *entries),
    )


def _responses_thinking(entries: list[JsonObject]) -> Thinking:
    """One reasoning item of Responses from the entries that share its ID."""
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
