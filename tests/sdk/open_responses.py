"""What the Open Responses core demands of a response object, beyond what OpenAI's own SDK does."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from tests.sdk.annotations import MISSING, WRONG, Fault

WIRE: dict[str, dict[str, object]] = json.loads(
    (Path(__file__).parent.parent / "data" / "wire-events.json").read_text(encoding="utf-8")
)


def response_faults(body: Mapping[str, object], path: str = "") -> list[Fault]:
    """What the Open Responses core demands of a response object beyond the SDK's model."""
    core = WIRE["open_responses"]
    found = [_missing(path, name) for name in names(core["response_required"]) if name not in body]
    found += [
        Fault(_at(path, name), WRONG, "may not be null")
        for name in names(core["not_null"])
        if name in body and body[name] is None
    ]
    found += [
        Fault(_at(path, name), WRONG, "integer demanded")
        for name in ("created_at", "completed_at")
        if not isinstance(body.get(name), int | None)
    ]
    for count, item in enumerate(objects(body.get("output"))):
        found += item_faults(item, _at(path, f"output[{count}]"))
    for count, tool in enumerate(objects(body.get("tools"))):
        found += _demanded(core["tool_required"], tool, _at(path, f"tools[{count}]"))
    usage = body.get("usage")
    if isinstance(usage, dict):
        required = core["usage_required"]
        found += _demanded_members(required, "usage", usage, _at(path, "usage"))
        for name in ("input_tokens_details", "output_tokens_details"):
            inner = usage.get(name)
            if isinstance(inner, dict):
                found += _demanded_members(required, name, inner, _at(path, f"usage.{name}"))
    reasoning = body.get("reasoning")
    if isinstance(reasoning, dict):
        found += [_missing(_at(path, "reasoning"), name) for name in ("effort", "summary") if name not in reasoning]
    return found


def item_faults(item: Mapping[str, object], path: str) -> list[Fault]:
    """What the Open Responses core demands of an output item and its parts."""
    core = WIRE["open_responses"]
    found = _demanded(core["item_required"], item, path)
    for name in ("content", "summary"):
        for count, part in enumerate(objects(item.get(name))):
            found += _demanded(core["part_required"], part, f"{path}.{name}[{count}]")
    if item.get("type") == "reasoning":
        found += [
            Fault(f"{path}.{name}", WRONG, "omitted rather than null")
            for name in ("content", "encrypted_content")
            if name in item and item[name] is None
        ]
    return found


def _demanded(table: object, value: Mapping[str, object], path: str) -> list[Fault]:
    return _demanded_members(table, str(value.get("type")), value, path)


def _demanded_members(table: object, key: str, value: Mapping[str, object], path: str) -> list[Fault]:
    assert isinstance(table, dict)
    return [_missing(path, name) for name in names(table.get(key, [])) if name not in value]


def _missing(path: str, name: str) -> Fault:
    return Fault(_at(path, name), MISSING, "demanded by the Open Responses core")


def names(value: object) -> list[str]:
    assert isinstance(value, list)
    return [str(name) for name in value]


def objects(value: object) -> list[dict[str, object]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _at(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
