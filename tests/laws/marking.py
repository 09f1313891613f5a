"""Marking: a unique marker in every leaf of a document, and the search for it in what became of the document."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterator

from msgspec import Raw, Struct

from dragoman.model.jsonvalue import JsonObject, JsonValue, Number
from dragoman.model.parts import Extras
from dragoman.rules.envelope import unseal
from dragoman.wire.json import decode
from tests.laws.shapes import Found, Kind, Leaf, Record, Where, as_object, as_text, leaves, put

# How each kind of leaf is marked and found again. What cannot be marked at will is justified here, once.
COMPARISONS: dict[Kind, str] = {
    Kind.TEXT: "a unique suffix, found as a substring of any string, also inside an envelope",
    Kind.CALL_ID: "a unique suffix for each different id, so that pairs stay pairs; conforming ids pass unchanged (N2)",
    Kind.TOOL_NAME: "a unique suffix for each different name; conforming names pass (N1), alone or after a namespace",
    Kind.OBJECT_ID: "not marked: every writer mints ids of answers and items (N4) and tells the alias as model (§16)",
    Kind.BASE64: "unique base64 of the right length, which every wire copies",
    Kind.DATA_URL: "unique base64 behind the prefix, or the text it stands for where a wire takes text (§6)",
    Kind.ARGUMENTS: "a unique member in the JSON text",
    Kind.JSON: "a unique member, where a schema or a map of strings allows one",
    Kind.INTEGER: "a unique number where the value is free; small ones (indices, offsets) by difference",
    Kind.NUMBER: "unique decimals",
    Kind.WORD: "closed set: by difference, another legal word must change the outcome or the place in the ledger",
    Kind.FLAG: "closed set: by difference",
    Kind.TAG: "says which alternative stands there; its siblings are marked",
    Kind.ANY: "not looked into",
    Kind.NULL: "says nothing",
}

# Numbers below this count things or say where; they are compared by difference.
_FREE_FROM = 16


class Mark(Struct, frozen=True, kw_only=True):
    """What to look for: any of the texts, or the number."""

    where: Where
    kind: Kind
    texts: tuple[str, ...] = ()
    number: float | None = None


def marked(shape: Record, body: JsonObject, *, skip: frozenset[Kind] = frozenset()) -> tuple[JsonObject, list[Mark]]:
    """The document with a marker in every leaf that can take one."""
    marks: list[Mark] = []
    shared: dict[tuple[Kind, JsonValue], str] = {}
    document: JsonValue = body
    for number, found in enumerate(list(leaves(shape, body))):
        assert isinstance(found.shape, Leaf)
        kind = found.shape.kind
        if kind in skip:
            continue
        token = f"zq{number:05d}zq"
        if kind in (Kind.CALL_ID, Kind.TOOL_NAME):
            token = shared.setdefault((kind, found.value), token)
        value, mark = _mark(found, kind, token, number)
        if mark is not None:
            document = put(document, found.where, value)
            marks.append(mark)
    return as_object(document), marks


def _mark(found: Found, kind: Kind, token: str, number: int) -> tuple[JsonValue, Mark | None]:
    value, where = found.value, found.where
    if kind in (Kind.TEXT, Kind.CALL_ID, Kind.TOOL_NAME):
        joint = "" if kind is Kind.TEXT else "_"
        return f"{as_text(value)}{joint}{token}", Mark(where=where, kind=kind, texts=(token,))
    if kind is Kind.BASE64:
        coded = f"{token}AAA"
        return coded, Mark(where=where, kind=kind, texts=(coded,))
    if kind is Kind.DATA_URL:
        coded = b64encode(f"<{token}>".encode()).decode()
        return f"{as_text(value).partition(',')[0]},{coded}", Mark(where=where, kind=kind, texts=(coded, token))
    if kind is Kind.ARGUMENTS:
        return f'{{"note": "{token}"}}', Mark(where=where, kind=kind, texts=(token,))
    if kind is Kind.JSON:
        return _with_member(as_object(value), token), Mark(where=where, kind=kind, texts=(token,))
    if kind is Kind.INTEGER and isinstance(value, int) and value >= _FREE_FROM:
        return value + number, Mark(where=where, kind=kind, number=float(value + number))
    if kind is Kind.NUMBER and isinstance(value, int | float):
        fresh = round(float(value) - (number + 1) / 10**6, 6)
        return fresh, Mark(where=where, kind=kind, number=fresh)
    return value, None


def _with_member(value: JsonObject, token: str) -> JsonObject:
    if "type" in value:
        return {**value, "description": token}
    if value and all(isinstance(member, str) for member in value.values()):
        return {**value, "note": token}
    return {**value, token: {}}


def holds(value: object, mark: Mark) -> bool:
    """Whether the marker is anywhere in a JSON document or a value of the model."""
    for leaf in _leaves(value):
        if isinstance(leaf, str):
            if any(text in leaf for text in mark.texts):
                return True
        elif mark.number is not None and leaf == mark.number:
            return True
    return False


def _leaves(value: object) -> Iterator[str | float]:
    if isinstance(value, str):
        yield value
        sealed = unseal(value)
        if sealed is not None:
            yield from _leaves(sealed.data)
    elif isinstance(value, bool) or value is None:
        return
    elif isinstance(value, int | float | Number):
        yield float(value)
    elif isinstance(value, Raw):
        yield from _leaves(decode(bytes(value)))
    elif isinstance(value, dict):
        for name, member in value.items():
            yield from _leaves(name)
            yield from _leaves(member)
    elif isinstance(value, list | tuple):
        for member in value:
            yield from _leaves(member)
    elif isinstance(value, Struct):
        for name in value.__struct_fields__:
            yield from _leaves(_member(value, name))


def _member(value: Struct, name: str) -> object:
    # The one place that looks at a value of the model by a name that is data: the ledger's places are such names.
    return object.__getattribute__(value, name)


_STEP = re.compile(r"\[(\d+)\]|\.?([^.\[]+)")


class Unresolved(AssertionError):
    """A line of the ledger that names no place of the model."""


def resolve(model: Struct, at: str) -> object:
    """What stands at a place of the model: attributes, indices and members of dictionaries, one after the other."""
    value: object = model
    rest = at
    while rest:
        if isinstance(value, Extras):
            value = value.fields
        if isinstance(value, dict):
            # A member's name may hold any character: the longest one that fits is meant.
            rest = rest.removeprefix(".")
            names = [name for name in value if rest == name or rest.startswith((f"{name}.", f"{name}["))]
            if not names:
                raise Unresolved(f"{at!r} of {type(model).__name__}: no member {rest!r}")
            name = max(names, key=len)
            value, rest = value[name], rest[len(name) :]
            continue
        step = _STEP.match(rest)
        if step is None:
            raise Unresolved(at)
        rest = rest[step.end() :]
        if step[1] is not None:
            index = int(step[1])
            if not isinstance(value, list | tuple) or index >= len(value):
                raise Unresolved(f"{at!r} of {type(model).__name__}: no index {index}")
            value = value[index]
        elif isinstance(value, Struct) and step[2] in value.__struct_fields__:
            value = _member(value, step[2])
        else:
            raise Unresolved(f"{at!r} of {type(model).__name__}: no {step[2]!r} in {type(value).__name__}")
    return value
