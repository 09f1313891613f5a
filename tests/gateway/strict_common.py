"""What strict providers of every protocol look at: tools, schemas, ids, and what they said themselves."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator

from tests.sdk.digging import Object

is_tool_name = re.compile(r"[a-zA-Z0-9_-]{1,64}").fullmatch
_TYPES = {"object", "array", "string", "number", "integer", "boolean", "null"}
# Members of a schema that are schemas, lists of schemas and tables of schemas.
_INNER = ("items", "additionalProperties", "not")
_LISTS = ("anyOf", "oneOf", "allOf", "prefixItems")
_TABLES = ("properties", "$defs", "definitions")


class Issued:
    """What one provider said: each turn by the proof in it, each item by its id."""

    def __init__(self) -> None:
        # Messages: signature -> the blocks of its turn.
        self.turns: dict[str, list[Object]] = {}
        # Responses: id -> the item, and the id of what a reasoning item led to.
        self.items: dict[str, Object] = {}
        self.followers: dict[str, str] = {}
        # Chat: the reasoning that was told.
        self.reasoning: set[str] = set()

    def note_message(self, message: Object) -> None:
        """Remember the blocks of a Messages answer, if it holds a proof."""
        blocks = objects(message.get("content"))
        for block in blocks:
            if block.get("type") == "thinking":
                self.turns[str(block["signature"])] = blocks

    def note_completion(self, completion: Object) -> None:
        """Remember the reasoning of a Chat answer."""
        for choice in objects(completion.get("choices")):
            message = choice.get("message")
            if isinstance(message, dict) and message.get("reasoning_content"):
                self.reasoning.add(str(message["reasoning_content"]))

    def note_response(self, response: Object) -> None:
        """Remember the items of a Responses answer."""
        output = objects(response.get("output"))
        for item, follower in zip(output, [*output[1:], None], strict=True):
            self.items[str(item["id"])] = item
            if item.get("type") == "reasoning" and follower is not None:
                self.followers[str(item["id"])] = str(follower["id"])


def objects(value: object) -> list[Object]:
    """The objects of a list; anything else has none."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def repeated(ids: Iterable[object]) -> list[object]:
    """Ids that stand more than once."""
    return [name for name, count in Counter(ids).items() if count > 1]


def text_of(value: object) -> str:
    """A string, or the joined text of parts."""
    if isinstance(value, str):
        return value
    return "".join(str(part.get("text", "")) for part in objects(value))


def is_json_object(text: object) -> bool:
    """Whether text is the JSON of an object, as arguments have to be."""
    try:
        return isinstance(text, str) and isinstance(json.loads(text), dict)
    except ValueError:
        return False


def tool_faults(tools: list[Object], schema: str, *, openai: bool) -> Iterator[str]:
    """What is wrong with declared functions: their names, and their schemas under the member `schema`."""
    for name in repeated(tool.get("name") for tool in tools):
        yield f"tools: the name {name!r} is not unique"
    for tool in tools:
        name = tool.get("name")
        if not isinstance(name, str) or not is_tool_name(name):
            yield f"tools: {name!r} is no name of a tool"
        if schema not in tool:
            yield f"tools.{name}: {schema} is missing"
            continue
        found = tool[schema]
        if not isinstance(found, dict) or found.get("type") != "object":
            yield f"tools.{name}.{schema}: the root has to be an object"
        yield from schema_faults(found, f"tools.{name}.{schema}")
        if tool.get("strict") is True:
            yield from closed_faults(found, f"tools.{name}.{schema}", all_required=openai)


def schema_faults(schema: object, at: str) -> Iterator[str]:
    """What keeps a value from being a JSON schema, as far as every service looks."""
    if isinstance(schema, bool):
        return
    if not isinstance(schema, dict):
        yield f"{at}: not a schema"
        return
    kinds = schema.get("type", [])
    for kind in kinds if isinstance(kinds, list) else [kinds]:
        if kind not in _TYPES:
            yield f"{at}.type: {kind!r} is no type"
    required = schema.get("required", [])
    if not isinstance(required, list) or not all(isinstance(name, str) for name in required) or repeated(required):
        yield f"{at}.required: not a list of unique names"
    if "enum" in schema and not schema["enum"]:
        yield f"{at}.enum: empty"
    for where, inner in _inner(schema):
        yield from schema_faults(inner, f"{at}.{where}")


def closed_faults(schema: object, at: str, *, all_required: bool) -> Iterator[str]:
    """What keeps a schema from the strict subset: objects are closed and, for OpenAI, every property is required."""
    if not isinstance(schema, dict):
        return
    if schema.get("type") == "object":
        if schema.get("additionalProperties") is not False:
            yield f"{at}: additionalProperties has to be false"
        properties = schema.get("properties", {})
        if all_required and isinstance(properties, dict) and set(properties) != set(schema.get("required", [])):
            yield f"{at}: required has to list every property"
    for where, inner in _inner(schema):
        yield from closed_faults(inner, f"{at}.{where}", all_required=all_required)


def _inner(schema: Object) -> Iterator[tuple[str, object]]:
    for member in _INNER:
        if member in schema:
            yield member, schema[member]
    for member in _LISTS:
        listed = schema.get(member, [])
        yield from (
            (f"{member}[{count}]", inner) for count, inner in enumerate(listed if isinstance(listed, list) else [0])
        )
    for member in _TABLES:
        table = schema.get(member, {})
        yield from (
            (f"{member}.{name}", inner) for name, inner in (table if isinstance(table, dict) else {"": 0}).items()
        )
