"""Shapes: what a wire allows, as data, so that one table feeds the generators, the fuzz and the accounting.

A shape says which JSON stands at a place. Values are drawn from it (`strategy`), spelled out so that every member and
every alternative occurs (`samples`), walked leaf by leaf (`leaves`) and brought to one form (`canonical`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from functools import lru_cache
from typing import TypeAlias

from hypothesis import strategies as st
from msgspec import Struct

from dragoman.model.jsonvalue import JsonObject, JsonValue, Number

# A place in a document, outermost first: ("messages", 2, "content").
Where: TypeAlias = tuple[str | int, ...]


class Kind(Enum):
    """What a leaf holds; accounting compares each kind in its own way."""

    TEXT = "text"
    WORD = "word out of a closed set"
    TAG = "discriminator"
    FLAG = "flag"
    INTEGER = "integer"
    NUMBER = "number"
    CALL_ID = "id that pairs a call with its result"
    TOOL_NAME = "name of a tool"
    OBJECT_ID = "id of an answer or an item"
    BASE64 = "base64"
    DATA_URL = "data URL"
    ARGUMENTS = "JSON text"
    JSON = "any JSON object"
    ANY = "any JSON value"
    NULL = "null"


class Leaf(Struct, frozen=True, kw_only=True):
    """A value without members, or JSON that nobody looks into."""

    kind: Kind
    values: tuple[JsonValue, ...]


class Field(Struct, frozen=True, kw_only=True):
    """One member: `checked` says that its type is looked at, so that a wrong one must be refused by its path."""

    shape: Shape
    required: bool = False
    nullable: bool = False
    checked: bool = True
    # The value that says no more than its absence.
    default: bool | None = None


class Record(Struct, frozen=True, kw_only=True):
    """An object with known members."""

    fields: Mapping[str, Field]


class ListOf(Struct, frozen=True, kw_only=True):
    """An array; `fewest` is 1 where an empty one is as good as none."""

    shape: Shape
    fewest: int = 0
    most: int = 3


class OneOf(Struct, frozen=True, kw_only=True):
    """Alternatives; `canon` brings the shorthands among them to one form."""

    shapes: tuple[Shape, ...]
    canon: Callable[[JsonValue], JsonValue] | None = None


Shape: TypeAlias = Leaf | Record | ListOf | OneOf


def leaf(kind: Kind, *values: JsonValue) -> Leaf:
    return Leaf(kind=kind, values=values)


def word(*values: str) -> Leaf:
    return Leaf(kind=Kind.WORD, values=values)


def record(tag: str | None = None, /, **fields: Shape | Field) -> Record:
    """An object; `tag` is its `type`, a trailing underscore of a member's name escapes a Python keyword."""
    members: dict[str, Field] = {}
    if tag is not None:
        members["type"] = Field(shape=leaf(Kind.TAG, tag), required=True)
    for name, field in fields.items():
        members[name.removesuffix("_")] = field if isinstance(field, Field) else Field(shape=field)
    return Record(fields=members)


def required(shape: Shape) -> Field:
    return Field(shape=shape, required=True)


def nullable(shape: Shape) -> Field:
    return Field(shape=shape, nullable=True)


def unless(default: bool) -> Field:
    """A flag that need not be set to its default."""
    return Field(shape=FLAG, nullable=True, default=default)


def kept(shape: Shape) -> Field:
    """A member that is only carried: nobody looks at its type."""
    return Field(shape=shape, checked=False)


def kept_required(shape: Shape) -> Field:
    return Field(shape=shape, checked=False, required=True)


def unread(shape: Record) -> Record:
    """An object that is carried as it is: its own type is looked at, its members are not."""
    return Record(
        fields={
            name: Field(shape=field.shape, required=field.required, nullable=field.nullable, checked=False)
            for name, field in shape.fields.items()
        }
    )


def either(*shapes: Shape, canon: Callable[[JsonValue], JsonValue] | None = None) -> OneOf:
    return OneOf(shapes=shapes, canon=canon)


def some(shape: Shape, most: int = 3) -> ListOf:
    return ListOf(shape=shape, fewest=1, most=most)


def many(shape: Shape, most: int = 3) -> ListOf:
    return ListOf(shape=shape, fewest=0, most=most)


TEXT = leaf(Kind.TEXT, "plain words", "zwei Wörter", "two\nlines", "a\u2028b 😀", '{"not": "arguments"}', " lead")
SHORT = leaf(Kind.TEXT, "short", "kurz ü")
URL = leaf(Kind.TEXT, "https://example.com/page", "http://example.org/a?b=c")
FLAG = leaf(Kind.FLAG, True, False)
COUNT = leaf(Kind.INTEGER, 4096, 20000, 17)
INDEX = leaf(Kind.INTEGER, 0, 1, 5)
CALL_ID = leaf(Kind.CALL_ID, "call_1", "toolu_2", "call_3")
TOOL_NAME = leaf(Kind.TOOL_NAME, "get_weather", "read-file", "run")
SERVER_ID = leaf(Kind.TEXT, "srvtoolu_1", "srvtoolu_2")
ITEM_ID = leaf(Kind.OBJECT_ID, "item_1", "item_2")
FILE_ID = leaf(Kind.TEXT, "file_1", "file-2")
PROOF = leaf(Kind.TEXT, "EqQBCkYIBxgCKkA=", "sig/+abc", "gAAAAABo" + "x" * 1200)
BASE64 = leaf(Kind.BASE64, "aGVsbG8gd29ybGQ=", "AAECAwQF")
JSON = leaf(Kind.JSON, {"a": 1, "b": ["x", None, {"c": 1.5}]}, {}, {"city": "Köln", "n": 12345678901234567890})
ARGUMENTS = leaf(Kind.ARGUMENTS, '{"city": "Köln", "n": 1.50}', "{}", '{"a":[1,{"b":null}]}')
SCHEMA = leaf(
    Kind.JSON,
    {"type": "object", "properties": {"city": {"type": "string", "description": "where"}}, "required": ["city"]},
    {"type": "object", "properties": {}},
    {"type": "object", "properties": {"n": {"type": "integer", "minimum": 1}}, "additionalProperties": False},
)
LOGPROB = unread(
    record(
        token=required(SHORT),
        logprob=required(leaf(Kind.NUMBER, -0.25, -1)),
        bytes=nullable(many(INDEX)),
        top_logprobs=many(
            record(token=required(SHORT), logprob=required(leaf(Kind.NUMBER, -0.5)), bytes=many(INDEX)), 1
        ),
    )
)


@lru_cache(maxsize=4096)
def _strategy(identity: int) -> st.SearchStrategy[JsonValue]:
    return _build(_ALIVE[identity])


# Shapes hold dictionaries and cannot be hashed; they live as long as the module, so their identity will do.
_ALIVE: dict[int, Shape] = {}


def strategy(shape: Shape) -> st.SearchStrategy[JsonValue]:
    """Random values of a shape."""
    _ALIVE[id(shape)] = shape
    return _strategy(id(shape))


def _build(shape: Shape) -> st.SearchStrategy[JsonValue]:
    if isinstance(shape, Leaf):
        return st.sampled_from(shape.values)
    if isinstance(shape, OneOf):
        return st.one_of([strategy(one) for one in shape.shapes])
    if isinstance(shape, ListOf):
        return st.lists(strategy(shape.shape), min_size=shape.fewest, max_size=shape.most).map(_as_list)
    required_ones: dict[str, st.SearchStrategy[JsonValue]] = {}
    optional_ones: dict[str, st.SearchStrategy[JsonValue]] = {}
    for name, field in shape.fields.items():
        values = strategy(field.shape)
        if field.nullable:
            values = st.none() | values
        (required_ones if field.required else optional_ones)[name] = values
    return st.fixed_dictionaries(required_ones, optional=optional_ones).map(_as_object)


def _as_list(values: list[JsonValue]) -> JsonValue:
    return values


def _as_object(values: dict[str, JsonValue]) -> JsonValue:
    return values


def samples(shape: Shape) -> list[JsonValue]:
    """Few values in which every member and every alternative occurs."""
    if isinstance(shape, Leaf):
        return [shape.values[0]]
    if isinstance(shape, OneOf):
        return [value for one in shape.shapes for value in samples(one)]
    if isinstance(shape, ListOf):
        return [[value] for value in samples(shape.shape)]
    columns = {name: samples(field.shape) for name, field in shape.fields.items()}
    height = max((len(column) for column in columns.values()), default=1)
    return [{name: column[row % len(column)] for name, column in columns.items()} for row in range(height)]


def sample(shape: Shape) -> JsonValue:
    """The first of the samples."""
    return samples(shape)[0]


class Found(Struct, frozen=True, kw_only=True):
    """A place in a document, what its shape is, whether its type is looked at, and which shapes may stand there."""

    where: Where
    value: JsonValue
    shape: Shape
    checked: bool
    allowed: Shape
    nullable: bool = False


def places(shape: Shape, value: JsonValue, where: Where = (), checked: bool = True) -> Iterator[Found]:
    """Every place of a document that its shape knows, outermost first."""
    yield from _places(shape, shape, value, where, checked, False)


def _places(
    shape: Shape, allowed: Shape, value: JsonValue, where: Where, checked: bool, may_be_null: bool
) -> Iterator[Found]:
    if value is None and may_be_null:
        return
    if isinstance(shape, OneOf):
        fitting = next((one for one in shape.shapes if fits(one, value)), None)
        if fitting is not None:
            yield from _places(fitting, allowed, value, where, checked, may_be_null)
        return
    yield Found(where=where, value=value, shape=shape, checked=checked, allowed=allowed, nullable=may_be_null)
    if isinstance(shape, ListOf) and isinstance(value, list):
        for index, item in enumerate(value):
            yield from _places(shape.shape, shape.shape, item, (*where, index), checked, False)
    elif isinstance(shape, Record) and isinstance(value, dict):
        for name, member in value.items():
            field = shape.fields.get(name)
            if field is not None:
                yield from _places(
                    field.shape, field.shape, member, (*where, name), checked and field.checked, field.nullable
                )


def leaves(shape: Shape, value: JsonValue) -> Iterator[Found]:
    """Every leaf of a document that its shape knows."""
    return (found for found in places(shape, value) if isinstance(found.shape, Leaf))


def fits(shape: Shape, value: JsonValue) -> bool:
    """Whether a value can be of a shape: its JSON type, its tag and, for objects, the members that must be there."""
    if isinstance(shape, OneOf):
        return any(fits(one, value) for one in shape.shapes)
    if isinstance(shape, ListOf):
        return isinstance(value, list) and all(fits(shape.shape, item) for item in value)
    if isinstance(shape, Leaf):
        if shape.kind in (Kind.TAG, Kind.WORD):
            return value in shape.values
        return shape.kind is Kind.ANY or json_type(value) in {json_type(one) for one in shape.values}
    if not isinstance(value, dict):
        return False
    for name, field in shape.fields.items():
        if name not in value:
            if field.required:
                return False
        elif not _has_its_word(field, value[name]):
            return False
    return all(name in shape.fields for name in value)


def _has_its_word(field: Field, value: JsonValue) -> bool:
    """Whether a member that tells alternatives apart has one of its words; every other member has."""
    if not isinstance(field.shape, Leaf) or field.shape.kind not in (Kind.TAG, Kind.WORD):
        return True
    return value in field.shape.values or (field.nullable and value is None)


def json_type(value: JsonValue) -> str:
    """The JSON type of a value; integers are numbers."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int | float | Number):
        return "number"
    if isinstance(value, str):
        return "string"
    return "array" if isinstance(value, list) else "object"


def types_of(shape: Shape) -> set[str]:
    """The JSON types a shape allows."""
    if isinstance(shape, OneOf):
        return {name for one in shape.shapes for name in types_of(one)}
    if isinstance(shape, ListOf):
        return {"array"}
    if isinstance(shape, Record):
        return {"object"}
    if shape.kind is Kind.ANY:
        return {"string", "number", "boolean", "array", "object", "null"}
    return {json_type(value) for value in shape.values}


def canonical(shape: Shape, value: JsonValue) -> JsonValue:
    """A document with its protocol's shorthands spelled out; nulls and empty options, which say nothing, left out."""
    if isinstance(shape, OneOf):
        fitting = next((one for one in shape.shapes if fits(one, value)), None)
        inner = value if fitting is None else canonical(fitting, value)
        return inner if shape.canon is None else shape.canon(inner)
    if isinstance(shape, ListOf) and isinstance(value, list):
        return [canonical(shape.shape, item) for item in value]
    if isinstance(shape, Record) and isinstance(value, dict):
        told: JsonObject = {}
        for name, member in value.items():
            field = shape.fields.get(name)
            if field is not None:
                member = canonical(field.shape, member)
                if _says_nothing(field, member):
                    continue
            told[name] = member
        return told
    return value


def _says_nothing(field: Field, member: JsonValue) -> bool:
    if member is None:
        return field.nullable
    if member == {}:
        return not field.required and _is_record(field.shape)
    return member is field.default


def _is_record(shape: Shape) -> bool:
    return isinstance(shape, Record) or (isinstance(shape, OneOf) and any(_is_record(one) for one in shape.shapes))


def put(document: JsonValue, where: Where, value: JsonValue) -> JsonValue:
    """The document with another value at a place; what is not on the way is shared."""
    if not where:
        return value
    step, rest = where[0], where[1:]
    if isinstance(document, dict) and isinstance(step, str):
        return {**document, step: put(document.get(step), rest, value)}
    if isinstance(document, list) and isinstance(step, int):
        return [put(item, rest, value) if index == step else item for index, item in enumerate(document)]
    raise LookupError(f"{step!r} in {document!r}")


def as_object(value: JsonValue) -> JsonObject:
    """The value as the object it must be."""
    assert isinstance(value, dict), value
    return value


def as_list(value: JsonValue) -> list[JsonValue]:
    """The value as the array it must be."""
    assert isinstance(value, list), value
    return value


def as_text(value: JsonValue) -> str:
    """The value as the string it must be."""
    assert isinstance(value, str), value
    return value
