"""Schemas whose branches say their own types, for servers that refuse a `type` beside `anyOf` (Z3)."""

from __future__ import annotations

from dragoman.model.jsonvalue import JsonList, JsonObject, JsonValue
from dragoman.rules.schemas import DEPTH_LIMIT

# Members that hold values and not schemas.
_VALUES = frozenset({"enum", "const", "default", "examples"})


def typed_branches(schema: JsonObject) -> JsonObject:
    """The same schema with every `type` inside the branches beside which it stood, and tuples as `prefixItems`."""
    return _rewritten(schema, 0)


def _rewritten(schema: JsonObject, depth: int) -> JsonObject:
    if depth > DEPTH_LIMIT:
        return schema
    written: JsonObject = {}
    for name, value in schema.items():
        inner = value if name in _VALUES else _inner(value, depth)
        written["prefixItems" if name == "items" and isinstance(value, list) else name] = inner
    branches, kind = written.get("anyOf"), written.get("type")
    if isinstance(branches, list) and isinstance(kind, str | list):
        del written["type"]
        written["anyOf"] = [_typed(branch, kind) for branch in branches]
    return written


def _inner(value: JsonValue, depth: int) -> JsonValue:
    if isinstance(value, dict):
        return _rewritten(value, depth + 1)
    if isinstance(value, list):
        return JsonList(_rewritten(item, depth + 1) if isinstance(item, dict) else item for item in value)
    return value


def _typed(branch: JsonValue, kind: JsonValue) -> JsonValue:
    # A reference says its type where it leads, and a branch of branches in these.
    if not isinstance(branch, dict) or branch.keys() & {"type", "$ref", "anyOf"}:
        return branch
    return {"type": kind, **branch}
