"""Checks of all protocols: members, tools, schemas, IDs, and issued content."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import zip_longest
from typing import TypeAlias

from dragoman.model.jsonvalue import JsonList, JsonObject, JsonValue

is_reasoner = re.compile(r"(.*/)?(gpt-[5-9]|o\d|codex-).*").fullmatch
# Models that accept sampling unless they reason.
is_settable = re.compile(r"(.*/)?gpt-5\.[1-9].*").fullmatch
_is_tool_name = re.compile(r"[a-zA-Z0-9_-]{1,128}").fullmatch
_TYPES = {"object", "array", "string", "number", "integer", "boolean", "null"}
# Members of a schema that are schemas, lists of schemas and tables of schemas.
_INNER = ("items", "additionalProperties", "not")
_LISTS = ("anyOf", "oneOf", "allOf", "prefixItems")
_TABLES = ("properties", "$defs", "definitions")
_DEEPEST = 100
_MAX_ISSUED = 20_000

Members: TypeAlias = Mapping[str, frozenset[str]]


class Issued:
    """The content that one provider issued, oldest dropped first: each turn by its signature, each item by its ID."""

    def __init__(self) -> None:
        # Messages: signature -> the blocks of its turn.
        self.turns: dict[str, list[JsonObject]] = {}
        # Responses: items by ID, and both directions between a reasoning item and its followers.
        self.items: dict[str, JsonObject] = {}
        self.followers: dict[str, str] = {}
        self.leaders: dict[str, str] = {}
        self.reasoning: dict[str, None] = {}

    def record_message(self, message: JsonObject) -> None:
        blocks = objects(message.get("content"))
        for block in blocks:
            if block.get("type") == "thinking":
                self.turns[str(block["signature"])] = blocks
        _forget(self.turns)

    def record_completion(self, completion: JsonObject) -> None:
        for choice in objects(completion.get("choices")):
            message = choice.get("message")
            if isinstance(message, dict) and message.get("reasoning_content"):
                self.reasoning[str(message["reasoning_content"])] = None
        _forget(self.reasoning)

    def record_response(self, response: JsonObject) -> None:
        output = objects(response.get("output"))
        for item, follower in zip_longest(output, output[1:]):
            self.items[str(item["id"])] = item
            if item.get("type") == "reasoning" and follower is not None:
                self.followers[str(item["id"])] = str(follower["id"])
                self.leaders[str(follower["id"])] = str(item["id"])
        for entries in (self.items, self.followers, self.leaders):
            _forget(entries)


def _forget(entries: dict[str, JsonObject] | dict[str, list[JsonObject]] | dict[str, str] | dict[str, None]) -> None:
    while len(entries) > _MAX_ISSUED:
        del entries[next(iter(entries))]


def words(text: str) -> frozenset[str]:
    """The words of a text, for readable tables of names."""
    return frozenset(text.split())


def among(value: JsonValue, names: Collection[str]) -> bool:
    return isinstance(value, str) and value in names


def objects(value: JsonValue) -> list[JsonObject]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def listed(value: JsonValue) -> JsonList:
    return value if isinstance(value, list) else []


def repeated(ids: Iterable[JsonValue]) -> list[str]:
    return [name for name, count in Counter(map(str, ids)).items() if count > 1]


def name_faults(tools: list[JsonObject]) -> Iterator[str]:
    for name in repeated(tool.get("name") for tool in tools):
        yield f"tools: the name {name!r} is not unique"
    for tool in tools:
        given = tool.get("name")
        if not isinstance(given, str) or not _is_tool_name(given):
            yield f"tools: {given!r} is no name of a tool"


def tool_faults(tools: list[JsonObject], schema: str, *, openai: bool) -> Iterator[str]:
    """Errors in names and schemas of declared functions. OpenAI's services accept a missing schema."""
    yield from name_faults(tools)
    for tool in tools:
        name, value = str(tool.get("name")), tool.get(schema)
        if value is None and openai:
            continue
        if value is None:
            yield f"tools.{name}.{schema}: Field required"
            continue
        if not isinstance(value, dict) or value.get("type") != "object":
            yield f"tools.{name}.{schema}: the root has to be an object"
        yield from schema_faults(value, f"tools.{name}.{schema}")
        if tool.get("strict") is True:
            yield from closed_faults(value, f"tools.{name}.{schema}", all_required=openai)


def schema_faults(schema: JsonValue, at: str, depth: int = 0) -> Iterator[str]:
    """Errors of a JSON schema that every service rejects."""
    if isinstance(schema, bool) or depth > _DEEPEST:
        return
    if not isinstance(schema, dict):
        yield f"{at}: not a schema"
        return
    kinds = schema.get("type", [])
    for kind in kinds if isinstance(kinds, list) else [kinds]:
        if not among(kind, _TYPES):
            yield f"{at}.type: {kind!r} is no type"
    required = schema.get("required", [])
    if not isinstance(required, list) or not all(isinstance(name, str) for name in required) or repeated(required):
        yield f"{at}.required: not a list of unique names"
    if "enum" in schema and not schema["enum"]:
        yield f"{at}.enum: empty"
    for where, inner in _inner(schema):
        yield from schema_faults(inner, f"{at}.{where}", depth + 1)


def closed_faults(schema: JsonValue, at: str, *, all_required: bool, depth: int = 0) -> Iterator[str]:
    """Violations of the strict subset: objects are closed and, for OpenAI, every property is required."""
    if not isinstance(schema, dict) or depth > _DEEPEST:
        return
    if schema.get("type") == "object":
        if schema.get("additionalProperties") is not False:
            yield f"{at}: additionalProperties has to be false"
        properties = schema.get("properties", {})
        if all_required and isinstance(properties, dict):
            required = {name for name in listed(schema.get("required")) if isinstance(name, str)}
            if set(properties) != required:
                yield f"{at}: required has to list every property"
    for where, inner in _inner(schema):
        yield from closed_faults(inner, f"{at}.{where}", all_required=all_required, depth=depth + 1)


def _inner(schema: JsonObject) -> Iterator[tuple[str, JsonValue]]:
    for member in _INNER:
        if member in schema:
            yield member, schema[member]
    for member in _LISTS:
        schemas = schema.get(member, [])
        yield from (
            (f"{member}[{count}]", inner) for count, inner in enumerate(schemas if isinstance(schemas, list) else [0])
        )
    for member in _TABLES:
        table = schema.get(member, {})
        yield from (
            (f"{member}.{name}", inner) for name, inner in (table if isinstance(table, dict) else {"": 0}).items()
        )
