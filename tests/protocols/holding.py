"""Whether a value of the model holds all that a document says: decoders lose nothing."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from dragoman.model.jsonvalue import JsonObject, JsonValue, Number
from dragoman.wire.media import parse_data_url
from tests.laws.marking import Mark, holds
from tests.laws.shapes import Kind, Where

# Tags, which the model holds as types and enumerations; places in a list are its order.
_TAGS = frozenset({"type", "role", "mode", "format", "index"})


def unheld(body: JsonObject, model: Struct) -> list[str]:
    """The texts and numbers of a document, its tags aside, that are nowhere in the model, each with its place."""
    return [
        f"{'.'.join([str(step) for step in where])}: {said!r}"
        for where, said in _leaves(body, ())
        if not holds(model, _mark(where, said))
    ]


def _mark(where: Where, said: str | float) -> Mark:
    if isinstance(said, str):
        return Mark(where=where, kind=Kind.TEXT, texts=(said,))
    return Mark(where=where, kind=Kind.NUMBER, number=said)


def _leaves(value: JsonValue, where: Where) -> Iterator[tuple[Where, str | float]]:
    match value:
        case dict():
            for name, member in value.items():
                if name not in _TAGS or isinstance(member, dict | list):
                    yield from _leaves(member, (*where, name))
        case list():
            for index, member in enumerate(value):
                yield from _leaves(member, (*where, index))
        case str():
            parsed = parse_data_url(value)
            # A data URL is held as its media type and its data.
            for text in (value,) if parsed is None else parsed:
                yield where, text
        case int() | float() | Number() if not isinstance(value, bool):
            yield where, float(value)
