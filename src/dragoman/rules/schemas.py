"""Tool and output schemas in the form that each protocol accepts: the root (§7), Anthropic's subset (Z1), OpenAI's
(Z2). Functions return the same object if nothing changes. Below `DEPTH_LIMIT` a schema is not made strict."""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import Enum

from msgspec import Struct

from dragoman.errors import WireError
from dragoman.model.jsonvalue import JsonObject, JsonValue, Number
from dragoman.wire.json import encode, encode_text

DEPTH_LIMIT = 64

_COMBINATORS = ("anyOf", "oneOf", "allOf")
# Keywords of an object schema. A schema with these and without a type means an object.
_OBJECT_KEYWORDS = frozenset({"properties", "required", "additionalProperties", "patternProperties"})
_VALUE_KEYWORDS = frozenset({"$ref", "enum", "const", "items", "type", *_COMBINATORS})


def with_properties(schema: JsonObject | None) -> JsonObject:
    """Give parameters a root that every server accepts: an object that lists its properties."""
    if not schema:
        return {"type": "object", "properties": {}}
    if "type" not in schema and _OBJECT_KEYWORDS & schema.keys() and not _VALUE_KEYWORDS & schema.keys():
        schema = {"type": "object", **schema}
    if schema.get("type") == "object" and schema.get("properties") is None:
        return {**schema, "properties": {}}
    return schema


def needs_wrapping(schema: JsonObject) -> bool:
    """Whether Messages rejects this root, so that it must become a member of an object."""
    if any(schema.get(keyword) is not None for keyword in _COMBINATORS):
        return True
    return with_properties(schema).get("type") != "object"


# Keywords of the document, not of its root.
_DOCUMENT_KEYWORDS = ("$schema", "$id", "$defs", "definitions")
_is_definition = re.compile(r"#/(?:\$defs|definitions)/[^/]+").fullmatch


def wrap_root(schema: JsonObject) -> JsonObject:
    """Wrap a schema as the one required member `value` of an object. References stay valid."""
    moved = _relocated(schema, 0)
    value: JsonObject = {name: member for name, member in moved.items() if name not in _DOCUMENT_KEYWORDS}
    document: JsonObject = {name: moved[name] for name in _DOCUMENT_KEYWORDS if name in moved}
    return {"type": "object", "properties": {"value": value}, "required": ["value"], **document}


def _relocated(schema: JsonObject, depth: int) -> JsonObject:
    """Point references to the old root, or below it, to the new location."""
    if depth > DEPTH_LIMIT:
        return schema
    moved = _mapped(schema, lambda inner: _relocated(inner, depth + 1))
    reference = schema.get("$ref")
    if not isinstance(reference, str) or not reference.startswith("#") or reference.startswith(_HOISTED):
        return moved
    return {**moved, "$ref": "#/properties/value" + reference[1:]}


_HOISTED = ("#/$defs/", "#/definitions/")


class _Holds(Enum):
    NAMED = "by name"
    LISTED = "in a list"
    ONE = "one"


_SUBSCHEMAS = {
    **dict.fromkeys(("properties", "patternProperties", "$defs", "definitions", "dependentSchemas"), _Holds.NAMED),
    **dict.fromkeys((*_COMBINATORS, "prefixItems"), _Holds.LISTED),
    **dict.fromkeys(
        ("items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames"), _Holds.ONE
    ),
}


def _mapped(schema: JsonObject, change: Callable[[JsonObject], JsonObject]) -> JsonObject:
    """Apply a change to the schemas directly inside this one. The same object is returned if none of them changed."""
    changed: JsonObject = {}
    for keyword, value in schema.items():
        holds = _SUBSCHEMAS.get(keyword)
        if holds is _Holds.NAMED and isinstance(value, dict):
            named: JsonObject = {
                key: change(inner) if isinstance(inner, dict) else inner for key, inner in value.items()
            }
            if any(named[key] is not inner for key, inner in value.items()):
                changed[keyword] = named
        elif holds is _Holds.LISTED and isinstance(value, list):
            listed: list[JsonValue] = [change(inner) if isinstance(inner, dict) else inner for inner in value]
            if any(new is not old for new, old in zip(listed, value, strict=True)):
                changed[keyword] = listed
        elif holds is _Holds.ONE and isinstance(value, dict):
            one = change(value)
            if one is not value:
                changed[keyword] = one
    return {**schema, **changed} if changed else schema


class _NotStrictError(Exception):
    """A schema without a strict form; caught where the rewriting started."""


# Costs in bytes: of each schema that is read, and of values that are compared or written.
_LOOK, _REWRITE = 8, 32
_ALLOWANCE = 64 * 1024
_MULTIPLE = 4


class SchemaBudget(Struct, eq=False):
    """Limits the work on all schemas of a request. Definitions that refer to each other multiply when inlined."""

    _remaining: int = _ALLOWANCE

    def grant(self, schema: JsonObject) -> None:
        self._remaining += _MULTIPLE * _weight(schema)

    def spend(self, cost: int) -> None:
        """Spend from the budget. A schema that exceeds it has no strict form."""
        if cost > self._remaining:
            # The budget is used up. The next schema brings its own allowance.
            self._remaining = 0
            raise _NotStrictError
        self._remaining -= cost


def _weight(value: JsonValue) -> int:
    if isinstance(value, str):
        return len(value)
    return len(encode(value)) if isinstance(value, dict | list) else 8


def for_anthropic(schema: JsonObject, budget: SchemaBudget) -> tuple[JsonObject, bool] | None:
    """Rewrite a schema into the subset that Messages can enforce (Z1), and return whether anything changed. None if it
    cannot be expressed: it is recursive, refers to another document, is a map with free keys, has constraints that do
    not merge, or exceeds this request's budget."""
    try:
        budget.grant(schema)
        rewriter = _Rewriter(schema, budget)
        rewriter.refuse_recursion(schema, 0)
        rewritten = rewriter.rewrite(schema, 0)
    except (_NotStrictError, WireError):
        return None
    return (schema, False) if rewritten == schema else (rewritten, True)


_SUPPORTED_KEYWORDS = frozenset(
    {"$ref", "type", "title", "description", "default", "required", "enum", "const", "pattern", "format", "minItems"}
)
# These describe the document, or are rewritten, and constrain nothing.
_SILENT = frozenset({"$schema", "$id", "$comment", "$anchor", "additionalProperties"})
_ANNOTATIONS = frozenset({"title", "description", "default", "examples", "$comment", "deprecated"})
_BESIDE_REFERENCE = frozenset({"$ref", *_ANNOTATIONS, *_DOCUMENT_KEYWORDS})
_FORMATS = frozenset({"date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid"})
# Look-around and other extended groups, back-references, boundaries, property classes, lazy and large repetition.
_is_complex_pattern = re.compile(r"\(\?(?!:)|\\[1-9bBkpPAZzG]|[*+?}][?+]|\{(?:\d*+,)?+\d{3,}+\}").search


class _Rewriter:
    """Rewrites one document and resolves its definitions."""

    def __init__(self, root: JsonObject, budget: SchemaBudget) -> None:
        self._root = root
        self._budget = budget
        self._followed: dict[str, bool] = {}

    def refuse_recursion(self, schema: JsonObject, depth: int) -> None:
        """Follow every reference once, and reject one that leads back to itself."""
        self._budget.spend(_LOOK)
        if depth > DEPTH_LIMIT:
            raise _NotStrictError
        reference = schema.get("$ref")
        if reference is not None:
            target = self._target(reference)
            finished = self._followed.get(str(reference))
            if finished is False:
                raise _NotStrictError
            if finished is None:
                self._followed[str(reference)] = False
                self.refuse_recursion(target, depth + 1)
                self._followed[str(reference)] = True
        for inner in _inner_schemas(schema):
            self.refuse_recursion(inner, depth + 1)

    def rewrite(self, schema: JsonObject, depth: int) -> JsonObject:
        self._budget.spend(_REWRITE)
        if depth > DEPTH_LIMIT:
            raise _NotStrictError
        if "allOf" in schema or ("$ref" in schema and not _may_stay(schema)):
            schema = self._flat(schema, depth)
        result: JsonObject = {}
        notes: list[str] = []
        for keyword, value in schema.items():
            if keyword in ("properties", "$defs", "definitions") and isinstance(value, dict):
                self._budget.spend(sum(map(len, value)))
                result[keyword] = {name: self._inner(inner, depth) for name, inner in value.items()}
            elif keyword in ("anyOf", "oneOf") and isinstance(value, list) and "anyOf" not in result:
                result["anyOf"] = [self._inner(inner, depth) for inner in value]
            elif keyword == "items" and not isinstance(value, list):
                result[keyword] = self._inner(value, depth)
            elif keyword in _SUPPORTED_KEYWORDS and _is_supported(keyword, value):
                self._budget.spend(_weight(value))
                result[keyword] = value
            elif keyword not in _SILENT:
                note = f"{keyword}: {encode_text(value)}"
                self._budget.spend(len(note))
                notes.append(note)
        if _is_object(schema):
            if _is_map(schema):
                raise _NotStrictError
            result.setdefault("type", "object")
            result["additionalProperties"] = False
        return _described(result, notes)

    def _inner(self, value: JsonValue, depth: int) -> JsonValue:
        if isinstance(value, dict):
            return self.rewrite(value, depth + 1)
        self._budget.spend(_weight(value))
        return value

    def _flat(self, schema: JsonObject, depth: int) -> JsonObject:
        """Replace `allOf` and `$ref` by their contents."""
        self._budget.spend(_REWRITE)
        if depth > DEPTH_LIMIT:
            raise _NotStrictError
        flat: JsonObject = {name: value for name, value in schema.items() if name not in ("allOf", "$ref")}
        if "$ref" in schema:
            flat = self._merge(flat, self._flat(self._target(schema["$ref"]), depth + 1))
        parts = schema.get("allOf", [])
        if not isinstance(parts, list):
            raise _NotStrictError
        for part in parts:
            if not isinstance(part, dict):
                raise _NotStrictError
            flat = self._merge(flat, self._flat(part, depth + 1))
        return flat

    def _merge(self, base: JsonObject, other: JsonObject) -> JsonObject:
        """Merge two schemas that must both hold."""
        self._budget.spend(len(base) + len(other))
        merged = {**other, **base}
        for keyword in base.keys() & other.keys():
            ours, theirs = base[keyword], other[keyword]
            self._budget.spend(_weight(ours) + _weight(theirs))
            if ours == theirs or keyword in _ANNOTATIONS or keyword in _SILENT:
                continue
            if keyword == "required" and isinstance(ours, list) and isinstance(theirs, list):
                merged[keyword] = list(_names(ours) | _names(theirs))
            elif _SUBSCHEMAS.get(keyword) is _Holds.NAMED and isinstance(ours, dict) and isinstance(theirs, dict):
                if any(ours[name] != theirs[name] for name in ours.keys() & theirs.keys()):
                    raise _NotStrictError
                merged[keyword] = {**ours, **theirs}
            else:
                raise _NotStrictError
        return merged

    def _target(self, reference: JsonValue) -> JsonObject:
        if not isinstance(reference, str) or (reference != "#" and not reference.startswith("#/")):
            raise _NotStrictError
        self._budget.spend(len(reference))
        place: JsonValue = self._root
        for step in reference.split("/")[1:]:
            name = step.replace("~1", "/").replace("~0", "~")
            if isinstance(place, list) and name.isdecimal() and len(name) < 6 and int(name) < len(place):
                place = place[int(name)]
            elif isinstance(place, dict) and name in place:
                place = place[name]
            else:
                raise _NotStrictError
        if not isinstance(place, dict):
            raise _NotStrictError
        return place


def _inner_schemas(schema: JsonObject) -> list[JsonObject]:
    schemas: list[JsonObject] = []
    for keyword, value in schema.items():
        holds = _SUBSCHEMAS.get(keyword)
        if holds is _Holds.NAMED and isinstance(value, dict):
            schemas.extend(inner for inner in value.values() if isinstance(inner, dict))
        elif holds is _Holds.LISTED and isinstance(value, list):
            schemas.extend(inner for inner in value if isinstance(inner, dict))
        elif holds is _Holds.ONE and isinstance(value, dict):
            schemas.append(value)
    return schemas


def _may_stay(schema: JsonObject) -> bool:
    """Whether a reference names a definition of the document and has no other constraints."""
    reference = schema["$ref"]
    return isinstance(reference, str) and _is_definition(reference) is not None and schema.keys() <= _BESIDE_REFERENCE


def _names(listed: list[JsonValue]) -> dict[JsonValue, None]:
    return {name: None for name in listed if isinstance(name, str)}


def _is_supported(keyword: str, value: JsonValue) -> bool:
    match keyword, value:
        case "enum", list():
            return all(_is_scalar(choice) for choice in value)
        case "const", _:
            return _is_scalar(value)
        case "pattern", str():
            return _is_complex_pattern(value) is None
        case "format", str():
            return value in _FORMATS
        case "minItems", int():
            return value in (0, 1)
        case (("enum" | "pattern" | "format" | "minItems"), _):
            return False
    return True


def _is_scalar(value: JsonValue) -> bool:
    return value is None or isinstance(value, str | int | float | Number)


def _is_object(schema: JsonObject) -> bool:
    kind = schema.get("type")
    if isinstance(kind, list):
        return "object" in kind
    return kind == "object" or (kind is None and "properties" in schema)


def _is_map(schema: JsonObject) -> bool:
    """Whether closing this object would forbid its own keys."""
    if schema.get("patternProperties"):
        return True
    return not schema.get("properties") and schema.get("additionalProperties", False) is not False


def _described(schema: JsonObject, notes: list[str]) -> JsonObject:
    """Describe constraints that the grammar cannot enforce."""
    if notes:
        description = schema.get("description")
        opening = f"{description}\n\n" if isinstance(description, str) and description else ""
        schema["description"] = f"{opening}{{{', '.join(notes)}}}"
    return schema


def for_openai_strict(schema: JsonObject) -> JsonObject | None:
    """Close every object of a schema for OpenAI's strict mode (Z2); None if that would not make it valid."""
    if schema.get("type") != "object" or any(keyword in schema for keyword in _COMBINATORS):
        return None
    try:
        return _Closer().close(schema, 0, 0)
    except _NotStrictError:
        return None


# https://platform.openai.com/docs/guides/structured-outputs#supported-schemas
_OPENAI_UNSUPPORTED = frozenset(
    {
        *("allOf", "oneOf", "not", "if", "then", "else", "dependentRequired", "dependentSchemas"),
        *("patternProperties", "propertyNames", "unevaluatedProperties", "minProperties", "maxProperties"),
        *("prefixItems", "unevaluatedItems", "contains", "minContains", "maxContains", "uniqueItems"),
    }
)
_OPENAI_KINDS = frozenset({"type", "$ref", "anyOf", "enum", "const"})
_OPENAI_LEVELS = 10
_OPENAI_PROPERTIES = 5000


class _Closer:
    """Closes the objects of one schema, within the limits of the service."""

    def __init__(self) -> None:
        self._properties = 0

    def close(self, schema: JsonObject, depth: int, level: int) -> JsonObject:
        if _OPENAI_UNSUPPORTED & schema.keys() or not _OPENAI_KINDS & schema.keys() or depth > DEPTH_LIMIT:
            raise _NotStrictError
        reference = schema.get("$ref")
        if reference is not None and not (isinstance(reference, str) and reference.startswith("#")):
            raise _NotStrictError
        is_object = _is_object(schema)
        level += is_object
        if is_object:
            self._refuse_optional(schema)
        if level > _OPENAI_LEVELS or self._properties > _OPENAI_PROPERTIES:
            raise _NotStrictError
        closed = _mapped(schema, lambda inner: self.close(inner, depth + 1, level))
        if is_object and "additionalProperties" not in schema:
            return {**closed, "additionalProperties": False}
        return closed

    def _refuse_optional(self, schema: JsonObject) -> None:
        properties = schema.get("properties")
        required = schema.get("required")
        if schema.get("additionalProperties", False) is not False:
            raise _NotStrictError
        if not properties:
            return
        if not isinstance(properties, dict) or not isinstance(required, list):
            raise _NotStrictError
        listed = {name for name in required if isinstance(name, str)}
        if not properties.keys() <= listed or not all(isinstance(inner, dict) for inner in properties.values()):
            raise _NotStrictError
        self._properties += len(properties)
