"""Tool declarations as a model reads them: TypeScript (OpenAI's models), or the JSON of the request (others)."""

from __future__ import annotations

from collections.abc import Iterator

from dragoman.errors import WireError
from dragoman.model.jsonvalue import JsonList, JsonObject, JsonValue
from dragoman.tokens.families import Tools
from dragoman.wire.json import encode_text

# Deeper than any handwritten schema. Deeper values count as JSON.
_DEEPEST = 12
# Tokens of the provider's own description of a hosted tool (search, shell, computer …), estimated.
HOSTED = 500
_TYPES = {"integer": "number", "null": "null", "string": "string", "number": "number", "boolean": "boolean"}
_HIDDEN_MEMBERS = frozenset(
    {"type", "cache_control", "strict", "defer_loading", "eager_input_streaming", "allowed_callers"}
)


def tool_text(tool: JsonValue, style: Tools, depth: int = 0) -> tuple[str, int]:
    """The text of a tool as the model gets it, and the tokens that the provider adds."""
    if not isinstance(tool, dict) or depth > _DEEPEST:
        return json_text(tool), 0
    nested = tool.get("function", tool.get("custom"))
    declared: JsonObject = nested if isinstance(nested, dict) else tool
    members = declared.get("tools")
    if isinstance(members, list):
        inner = [tool_text(member, style, depth + 1) for member in members]
        head = {name: value for name, value in declared.items() if name != "tools"}
        return json_text(_visible_members(head)) + "\n".join(text for text, _ in inner), sum(
            added for _, added in inner
        )
    schema = declared.get("parameters", declared.get("input_schema"))
    name = declared.get("name")
    if schema is None and declared.get("format") is None and declared.get("description") is None:
        return json_text(_visible_members(declared)), HOSTED
    if style is Tools.JSON or not isinstance(name, str) or not isinstance(schema, dict):
        return json_text(_visible_members(declared)), 0
    return f"{_remark(declared)}type {name} = (_: {_type(schema, 0)}) => any;\n\n{_definitions(schema)}", 0


def json_text(value: JsonValue) -> str:
    """A value as the model reads it. A value that cannot be written as JSON counts as an empty one."""
    try:
        return encode_text(value)
    except WireError:
        return "{}"


def _visible_members(declared: JsonObject) -> JsonObject:
    return {name: value for name, value in declared.items() if name not in _HIDDEN_MEMBERS}


def _remark(schema: JsonObject) -> str:
    description = schema.get("description")
    return "".join(f"// {line}\n" for line in description.splitlines()) if isinstance(description, str) else ""


def _definitions(schema: JsonObject) -> str:
    shared = schema.get("$defs", schema.get("definitions"))
    return "" if shared is None else json_text(shared)


def _type(schema: JsonValue, depth: int) -> str:
    if not isinstance(schema, dict) or depth > _DEEPEST:
        return json_text(schema)
    choices = schema.get("enum")
    if isinstance(choices, list):
        return " | ".join(map(json_text, choices))
    for name in ("anyOf", "oneOf", "allOf"):
        several = schema.get(name)
        if isinstance(several, list):
            return " | ".join(_type(one, depth + 1) for one in several)
    kind = schema.get("type")
    if isinstance(kind, list):
        return " | ".join(_types(schema, kind, depth))
    if kind == "array":
        return f"{_type(schema.get('items', 'any'), depth + 1)}[]"
    properties = schema.get("properties")
    if isinstance(properties, dict):
        return _object(properties, schema.get("required"), depth)
    type_name = _TYPES.get(kind) if isinstance(kind, str) else None
    return (
        type_name
        if type_name is not None
        else json_text({n: v for n, v in schema.items() if n not in ("type", "description")})
    )


def _types(schema: JsonObject, kinds: JsonList, depth: int) -> Iterator[str]:
    """A schema with several types: its content counts once."""
    names = dict.fromkeys(kind for kind in kinds if isinstance(kind, str))
    yield from (_TYPES[name] for name in names if name in _TYPES)
    if "array" in names:
        yield _type({**schema, "type": "array"}, depth + 1)
    if names.keys() - _TYPES.keys() - {"array"}:
        yield _type({**schema, "type": "object"}, depth + 1)


def _object(properties: JsonObject, required: JsonValue, depth: int) -> str:
    needed = (
        frozenset(name for name in required if isinstance(name, str)) if isinstance(required, list) else frozenset()
    )
    lines = ["{\n"]
    for name, schema in properties.items():
        lines.append(_remark(schema) if isinstance(schema, dict) else "")
        lines.append(f"{name}{'' if name in needed else '?'}: {_type(schema, depth + 1)},")
        default = schema.get("default") if isinstance(schema, dict) else None
        lines.append("\n" if default is None else f" // default: {json_text(default)}\n")
    return "".join(lines) + "}"
