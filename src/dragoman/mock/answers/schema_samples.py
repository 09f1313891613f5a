"""Schema samples: generates a value that a JSON schema accepts, always the same one. It supports `$ref` inside the
document, `allOf`, `anyOf`, `oneOf`, `const`, `enum`, types, properties, items and bounds of strings, numbers and
arrays, but no patterns and conditions."""

from __future__ import annotations

import math

from dragoman.model.jsonvalue import JsonList, JsonObject, JsonValue, Number
from dragoman.wire.json import encode

# Beyond the first limit only required members are generated, beyond the second none: a schema may contain itself.
_ENOUGH, _TOO_MANY = 2000, 4000
_DEEP, _TOO_DEEP = 12, 40
# This many characters of a constant count as one more value.
_STEP = 256
_MAX_STRING_LENGTH = 10_000
_MAX_ITEMS = 100

_FORMATS = {
    "date-time": "2026-01-01T00:00:00Z",
    "date": "2026-01-01",
    "time": "00:00:00Z",
    "duration": "PT1M",
    "email": "echo@example.org",
    "hostname": "example.org",
    "ipv4": "192.0.2.1",
    "ipv6": "2001:db8::1",
    "uri": "https://example.org/",
    "uuid": "00000000-0000-4000-8000-000000000000",
}


def sample(schema: JsonValue, text: str) -> JsonValue:
    """A value for a schema. Its strings are `text` if that is valid."""
    return _Sampler(schema if isinstance(schema, dict) else {}, text).value(schema, 0)


def sample_object(schema: JsonObject | None, text: str) -> JsonObject:
    """A sample that is always an object, for arguments of a call."""
    value = sample(schema or {"type": "object"}, text)
    return value if isinstance(value, dict) else {}


class _Sampler:
    def __init__(self, root: JsonObject, text: str) -> None:
        self._root = root
        self._text = text
        self._written = 0

    def value(self, schema: JsonValue, depth: int) -> JsonValue:
        self._written += 1
        if not isinstance(schema, dict) or self._written > _TOO_MANY or depth > _TOO_DEEP:
            return self._text if schema is True else None
        schema = self._resolved(schema)
        choices = [schema["const"]] if "const" in schema else schema.get("enum")
        if isinstance(choices, list) and choices:
            self._written += len(encode(choices[0])) // _STEP
            return choices[0]
        for key in ("anyOf", "oneOf"):
            options = schema.get(key)
            if isinstance(options, list) and options:
                rest: JsonObject = {name: value for name, value in schema.items() if name != key}
                return self.value(_merged(rest, self._option(options, depth)), depth + 1)
        return self._typed(_type(schema), schema, depth)

    def _typed(self, kind: str, schema: JsonObject, depth: int) -> JsonValue:
        match kind:
            case "object":
                return self._object(schema, depth)
            case "array":
                return self._array(schema, depth)
            case "integer" | "number":
                return _number(schema, integer=kind == "integer")
            case "boolean":
                return True
            case "null":
                return None
            case _:
                return self._string(schema)

    def _resolved(self, schema: JsonObject, nested: int = 0) -> JsonObject:
        """The schema with references resolved and conjunctions merged."""
        for _ in range(_DEEP - nested):
            self._written += 1
            if self._written > _TOO_MANY:
                break
            reference, joined = schema.get("$ref"), schema.get("allOf")
            if isinstance(reference, str):
                rest: JsonObject = {key: value for key, value in schema.items() if key != "$ref"}
                schema = _merged(rest, self._at(reference))
            elif isinstance(joined, list):
                rest = {key: value for key, value in schema.items() if key != "allOf"}
                for one in joined:
                    rest = _merged(rest, self._resolved(one, nested + 1) if isinstance(one, dict) else one)
                schema = rest
            else:
                break
        return schema

    def _at(self, reference: str) -> JsonValue:
        node: JsonValue = self._root
        for step in reference.removeprefix("#").split("/"):
            if step:
                node = node.get(step.replace("~1", "/").replace("~0", "~")) if isinstance(node, dict) else None
        return node

    def _option(self, options: JsonList, depth: int) -> JsonValue:
        """The first option. At great depth, an option that ends there."""
        if depth >= _DEEP or self._written > _ENOUGH:
            for option in options:
                if isinstance(option, dict) and _type(option) not in ("object", "array") and "$ref" not in option:
                    return option
        return options[0]

    def _object(self, schema: JsonObject, depth: int) -> JsonObject:
        properties, required = schema.get("properties"), schema.get("required")
        names = [name for name in required if isinstance(name, str)] if isinstance(required, list) else []
        schemas = properties if isinstance(properties, dict) else {}
        if depth < _DEEP and self._written <= _ENOUGH:
            names = [*schemas, *(name for name in names if name not in schemas)]
        self._written += sum(len(name) for name in names) // _STEP
        return {name: self.value(schemas.get(name, True), depth + 1) for name in names}

    def _array(self, schema: JsonObject, depth: int) -> JsonList:
        least, most = _bound(schema, "minItems"), _bound(schema, "maxItems")
        wanted = 0 if depth >= _DEEP or self._written > _ENOUGH else 1
        wanted = max(wanted, int(least) if least is not None else 0)
        wanted = min(wanted, _MAX_ITEMS if most is None else min(int(most), _MAX_ITEMS))
        first = schema.get("prefixItems")
        schemas: JsonList = list(first) if isinstance(first, list) else []
        wanted = max(wanted, len(schemas)) if most is None else wanted
        others = schema.get("items", True)
        items = [self.value(schemas[at] if at < len(schemas) else others, depth + 1) for at in range(wanted)]
        if schema.get("uniqueItems") is True:
            return list({encode(item): item for item in items}.values())
        return items

    def _string(self, schema: JsonObject) -> str:
        form = schema.get("format")
        text = _FORMATS.get(form, self._text) if isinstance(form, str) else self._text
        least, most = _bound(schema, "minLength"), _bound(schema, "maxLength")
        if least is not None and len(text) < least:
            text = text.ljust(min(int(least), _MAX_STRING_LENGTH), ".")
        return text if most is None else text[: max(0, int(most))]


def _type(schema: JsonObject) -> str:
    """The type of a schema: the first of several that is not null; without a type, the likely one."""
    kind = schema.get("type")
    if isinstance(kind, list):
        named = [one for one in kind if isinstance(one, str)]
        return next((one for one in named if one != "null"), "null")
    if isinstance(kind, str):
        return kind
    if "properties" in schema:
        return "object"
    return "array" if "items" in schema or "prefixItems" in schema else "string"


def _merged(schema: JsonObject, other: JsonValue) -> JsonObject:
    """Merge two schemas: properties and requirements add up, otherwise the second wins."""
    if not isinstance(other, dict):
        return schema
    merged: JsonObject = {**schema, **other}
    mine, theirs = schema.get("properties"), other.get("properties")
    if isinstance(mine, dict) and isinstance(theirs, dict):
        merged["properties"] = {**mine, **theirs}
    mine, theirs = schema.get("required"), other.get("required")
    if isinstance(mine, list) and isinstance(theirs, list):
        merged["required"] = [*mine, *(name for name in theirs if name not in mine)]
    return merged


def _bound(schema: JsonObject, key: str) -> float | int | None:
    value = schema.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float | Number):
        return None
    if isinstance(value, int):
        return value
    number = float(value)
    return number if math.isfinite(number) else None


def _number(schema: JsonObject, *, integer: bool) -> int | float:
    """The smallest number from 1 on that the bounds allow, or the largest below."""
    value: float | int = 1
    step = _bound(schema, "multipleOf")
    step = step if step is not None and step > 0 else None
    unit: float | int = step or (1 if integer else 0.5)
    least, above = _bound(schema, "minimum"), _bound(schema, "exclusiveMinimum")
    most, below = _bound(schema, "maximum"), _bound(schema, "exclusiveMaximum")
    if step is not None:
        value = step
    if most is not None and value > most:
        value = math.floor(most / unit) * unit if integer or step else most
    if below is not None and value >= below:
        value = (math.ceil(below / unit) - 1) * unit
    if least is not None and value < least:
        value = math.ceil(least / unit) * unit if integer or step else least
    if above is not None and value <= above:
        value = (math.floor(above / unit) + 1) * unit
    return int(value) if integer else value
